# SPDX-License-Identifier: Apache-2.0
"""The clients to copy before services that answer a repeated key as they document it: what
docs/guide/services.md says. Go's decides by the same vectors."""
from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pawltest.services import DONE, DOUBT, FINAL, PROFILE, TRIES, WAIT, Services
from pawltest.wire import PATIENCE
from test_clients import PYTHON, TYPESCRIPT, environment

ENDED = {DONE: "done", FINAL: "final", DOUBT: "in_doubt", WAIT: "hint"}
SEND_PYTHON = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from pawl_client import send

def ended(one):
    said = one["not_done"].encode()
    made = send("POST", sys.argv[1], b"{}", key=one["key"], profile=sys.argv[2],
                done=one["done"], later=one["later"],
                not_done=lambda _, body: bool(said) and said in body)
    return [made.ended, made.in_doubt]

with ThreadPoolExecutor(32) as pool:
    print(json.dumps(list(pool.map(ended, json.load(sys.stdin)))))
"""
SEND_TYPESCRIPT = """
import {readFileSync} from 'node:fs';
import {pathToFileURL} from 'node:url';
const {send} = await import(pathToFileURL(process.env.PAWL_CLIENT));
const ended = async ({key, done, later, not_done: said}) => {
  const made = await send('POST', process.argv[1], '{}', {
    key, profile: process.argv[2], done, later,
    notDone: (_, body) => said !== '' && body.includes(said)});
  return [made.ended, made.inDoubt];
};
console.log(JSON.stringify(await Promise.all(JSON.parse(readFileSync(0, 'utf8')).map(ended))));
"""


@pytest.mark.parametrize("kind, command", [
    (PYTHON, (sys.executable, "-c", SEND_PYTHON)),
    (TYPESCRIPT, ("node", "--input-type=module", "-e", SEND_TYPESCRIPT))],
    ids=["python", "typescript"])
def test_the_clients_of_the_examples_end_as_the_guide_says(upstream, kind, command):
    services = Services(upstream)
    tries = [{"key": one.key(kind.name), **one.choices()} for one in TRIES]
    ran = subprocess.run([*command, services.url, PROFILE], env=environment(kind), text=True,
                         input=json.dumps(tries), capture_output=True, timeout=2 * PATIENCE,
                         check=False)
    assert ran.returncode == 0, ran.stderr
    for one, (ended, in_doubt) in zip(TRIES, json.loads(ran.stdout), strict=True):
        doubted = one.end == DOUBT or (one.is_lost and one.end == WAIT)
        assert (ended, in_doubt) == (ENDED[one.end], doubted), one
        services.check(one, kind.name, ended == "done")
