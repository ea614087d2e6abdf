# SPDX-License-Identifier: Apache-2.0
"""pawl's own clients behind pawl's gateway: a 200 that the gateway's rule takes for "not done", or
for in doubt, is none that they believe."""
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pawltest.gateway import run
from pawltest.upstream import say

pytestmark = pytest.mark.file_only

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/clients"))
sys.dont_write_bytecode = True
import pawl_client  # noqa: E402  # pylint: disable=wrong-import-position

CONFIG = """
tenant: none
threads: 1
defaults:
  not_done: [{body: /error/code, is: [BUSY]}]
  in_doubt: [{body: /maybe, is: [true]}]
rules:
  - {name: held, match: POST /held}
  - {name: repeated, match: POST /repeated, unknown: retry}
"""
BUSY = say(200, {"error": {"code": "BUSY"}}, effect=False)
DOUBT = say(200, {"maybe": True}, effect=False)
UNKNOWN = "CONFLICT.idempotency.outcome_unknown"


@pytest.fixture
def way(pawl: Any, tmp_path: Path) -> Any:
    """The gateway's URL, and arguments that name a store of the client's."""
    return f"http://127.0.0.1:{pawl(CONFIG).port}", ("--store", tmp_path / "sent.db")


def test_a_success_that_is_not_done_by_its_body_is_sent_again(way, upstream):
    url, store = way
    upstream.then(BUSY)
    sent = run("send", *store, "--key", "a", "-d", "1", f"{url}/held")
    assert (sent.returncode, len(upstream.requests), upstream.effects()) == (0, 2, 1), sent
    upstream.then(BUSY)
    sent = run("each", *store, "--key", "b{}", "--retry", "user_facing", "--send",
               f"POST {url}/held", input="1\n")
    assert (sent.returncode, len(upstream.requests), upstream.effects()) == (0, 4, 2), sent
    upstream.then(BUSY, DOUBT)
    sent = pawl_client.send("POST", f"{url}/repeated", b"1", key="c", profile="user_facing")
    assert (sent.ended, sent.in_doubt, len(upstream.requests)) == ("done", False, 7)
    upstream.then(BUSY)
    added = run("queue", "add", *store, "-d", "1", f"{url}/held")
    drained = run("queue", "drain", *store, "--once")
    row = json.loads(run("queue", "show", *store, "--json", added.stdout.split()[0]).stdout)
    assert (drained.returncode, row["state"], row["reason"], row["in_doubt"]) == (
        75, "waiting", "not_done", False)


def test_a_success_in_doubt_is_in_doubt_until_it_is_known(way, upstream):
    """Under `hold` the gateway sends it no more; under `retry` the word is `released`."""
    url, store = way
    upstream.then(DOUBT)
    sent = run("send", *store, "--key", "a", "-d", "1", f"{url}/held")
    assert (sent.returncode, len(upstream.requests)) == (76, 1), sent
    once = ("--profile", "webhook", "--deadline", "4")  # the second would come after 5 s
    upstream.then(DOUBT, BUSY)
    sent = run("send", *store, *once, "--key", "b", "-d", "1", f"{url}/repeated")
    assert (sent.returncode, len(upstream.requests)) == (76, 2), sent
    sent = run("send", *store, *once, "--key", "c", "-d", "1", f"{url}/held")
    assert (sent.returncode, len(upstream.requests)) == (124, 3), sent


@pytest.mark.parametrize("path, word", [("held", "unknown"), ("repeated", "released")])
def test_what_is_in_doubt_has_an_error_code_whatever_its_status(pawl, upstream, path, word):
    gateway = pawl(CONFIG)
    for n, (said, code) in enumerate([(DOUBT, UNKNOWN), (say(500), UNKNOWN), (BUSY, None),
                                      (say(503), None), (say(201), None)]):
        upstream.then(said)
        answer = gateway.post(f"/{path}", {}, key=f"k{n}")
        assert (answer.status, answer["Error-Code"]) == (said.status, code)
        assert code is None or answer["Idempotency-Status"] == word
