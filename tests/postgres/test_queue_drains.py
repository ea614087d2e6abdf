# SPDX-License-Identifier: Apache-2.0
"""Several `pawl queue drain` on one database share the work: none sends what another one sends."""
from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest

from pawltest.gateway import PAWL, run
from pawltest.upstream import say
from pawltest.wire import PATIENCE, at_once

pytestmark = pytest.mark.hooks


def lines(*operations: Any) -> str:
    return "".join(json.dumps(operation) + "\n" for operation in operations)


def test_four_drains_send_each_operation_once_and_those_of_a_group_in_order(database, upstream):
    url = f"http://127.0.0.1:{upstream.port}/operations"
    upstream.default = lambda request: say(201)
    added = run("queue", "add", "-", "--store", database.url, input=lines(*[
        {"url": url, "json": n, **({"group": f"g{n % 7}"} if n % 2 else {})} for n in range(300)]))
    assert added.returncode == 0, added.stderr
    keys = [line.split()[1] for line in added.stdout.splitlines()]
    drains = [subprocess.Popen([str(PAWL), "queue", "drain", "-j", "8", "--store", database.url],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
              for _ in range(4)]
    printed = [drain.communicate(timeout=PATIENCE) for drain in drains]
    assert {drain.returncode for drain in drains} <= {0, 75}, printed
    run("queue", "drain", "--store", database.url)
    sent = [request["Idempotency-Key"] for request in upstream.requests]
    assert sorted(sent) == sorted(keys)
    for group in range(7):
        mine = [key for n, key in enumerate(keys) if n % 2 and n % 7 == group]
        assert [key for key in sent if key in mine] == mine


def test_a_killed_drain_is_taken_over_once_its_lease_is_over(database, upstream, clock):
    url = f"http://127.0.0.1:{upstream.port}/operations"
    run("queue", "add", "-d", "a", url, "--store", database.url)
    environment = {"PAWL_TEST_CLOCK": str(clock.path)}
    died = run("queue", "drain", "--store", database.url,
               env={**environment, "PAWL_CRASH_AT": "after_response_body"})
    assert died.returncode == -signal.SIGKILL
    assert run("queue", "drain", "--once", "--store", database.url,
               env=environment).returncode == 75
    clock.advance(60)
    assert run("queue", "drain", "--store", database.url, env=environment).returncode == 0
    sent = [request["Idempotency-Key"] for request in upstream.requests]
    assert len(sent) == 2 and len(set(sent)) == 1


def test_adds_at_the_same_time_keep_to_the_bound(database):
    line = lines({"url": "http://127.0.0.1:1/"})
    ran = at_once(6, lambda _: run("queue", "add", "--most", "10", "-", "--store", database.url,
                                   input=line * 3))
    assert {one.returncode for one in ran} == {0, 75}, [one.stderr for one in ran]
    assert sum(len(one.stdout.splitlines()) for one in ran) == 10


def test_a_list_is_undone_by_whichever_drain_comes(database, upstream):
    """Four at once: a step that fails, and the reverses of those before it, each sent once."""
    at = f"http://127.0.0.1:{upstream.port}"
    upstream.default = lambda request: (say(422, effect=False) if request.target == "/bad"
                                        else say(201, {"id": request.target[1:]}))
    steps = [{"url": f"{at}/{name}", "undo": {"url": f"{at}/undo/{{response:/id}}"}}
             for name in ("a", "b", "bad", "c")]
    for _ in range(5):
        added = run("queue", "add", "--linked", "-", "--store", database.url, input=lines(*steps))
        assert added.returncode == 0, added.stderr
    drains = [subprocess.Popen([str(PAWL), "queue", "drain", "--store", database.url],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
              for _ in range(4)]
    for drain in drains:
        drain.communicate(timeout=PATIENCE)
    run("queue", "drain", "--store", database.url)
    targets = sorted(request.target for request in upstream.requests)
    assert targets == sorted(["/a", "/b", "/bad", "/undo/a", "/undo/b"] * 5)
    assert len({request["Idempotency-Key"] for request in upstream.requests}) == len(targets)
    listed = run("queue", "list", "--json", "--store", database.url).stdout
    first = json.loads(listed.splitlines()[0])
    shown = run("queue", "show", str(first["id"]), "--json", "--store", database.url).stdout
    assert json.loads(shown)["list_state"] == "undone"
