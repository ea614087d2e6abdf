# SPDX-License-Identifier: Apache-2.0
"""Another process on the gateway's store: an operator's command that stands still or dies while it
holds the store, and what it writes while the owner of a record still runs."""
from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from pawltest.gateway import PAWL, Gateway, run
from operations import BY_KEY, CONFIGS, Operations
from test_crash_points import stands_still
from pawltest.wire import PATIENCE, Answer, Later, eventually

pytestmark = pytest.mark.hooks

WAITS = """
tenant: none
max_waiting_per_key: 1
rules:
  - {name: refunds.create, match: POST /refunds, timeout: 1h, in_progress: {wait: 10m}}
"""
# One act of a command passes these, in this order.
ON_ITS_WAY = ("inside_batch", "before_commit", "inside_commit", "before_commit_sync",
              "after_commit")
PASSES_MOST = 40


def environment(gateway: Gateway, **more: str) -> dict[str, str]:
    return {**os.environ, "PAWL_TEST_CLOCK": str(gateway.clock.path), **more}


def keys(gateway: Gateway, *arguments: str) -> str:
    ran = run("keys", *arguments, "--store", gateway.store, env=environment(gateway))
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def start_forget(gateway: Gateway, key: str, **more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([str(PAWL), "keys", "forget", key, "--store", str(gateway.store)],
                            stdout=subprocess.DEVNULL, env=environment(gateway, **more))


def with_a_victim(pawl, upstream, clock, policy: str) -> Operations:
    """A gateway that answered `told`, and `gone`, whose record a command will delete."""
    operations = Operations(pawl(CONFIGS[policy]), upstream, clock, policy)
    for key in ("told", "gone"):
        assert operations.send(key)["Idempotency-Status"] == "stored"
    del operations.sent["gone"], operations.answered["gone"]
    return operations


# ---- one that holds the store ----


@pytest.mark.parametrize("policy", BY_KEY)
@pytest.mark.parametrize("point", ["inside_batch", "before_commit"])
def test_a_command_that_stands_still_with_the_store_refuses_begins_in_time_and_loses_nothing(
        pawl, upstream, clock, point, policy):
    operations = with_a_victim(pawl, upstream, clock, policy)
    gateway = operations.gateway
    gate = upstream.hold()
    running = Later(lambda: operations.send("running"))
    gate.wait_for()
    command = start_forget(gateway, "gone", PAWL_STOP_AT=point)
    try:
        eventually(lambda: stands_still(command.pid), f"its stop at {point}")
        refused = Later(lambda: gateway.post("/refunds", {"of": "new"}, key="new"))
        clock.run_until(lambda: refused.is_done)
        assert refused.result().is_problem(503, "DEPENDENCY.store_unavailable")
        assert operations.effects("new") == 0
        gate.open()
        brief = gateway.post("/refunds", {"of": "new"}, key="new",
                             headers=[("X-Request-Timeout", "300")])
        assert brief.is_problem(503, "DEPENDENCY.store_unavailable")
        assert not running.is_done, "an outcome that no store holds was told"
    finally:
        command.send_signal(signal.SIGCONT)
    assert command.wait(PATIENCE) == 0
    assert running.result()["Idempotency-Status"] == "stored"
    assert operations.send("new")["Idempotency-Status"] == "stored"
    operations.check_all()


@pytest.mark.parametrize("point", ON_ITS_WAY)
def test_a_command_killed_on_its_way_leaves_the_store_to_the_gateway(pawl, upstream, clock, point):
    operations = with_a_victim(pawl, upstream, clock, "hold")
    gateway = operations.gateway
    for n in range(1, PASSES_MOST):
        command = start_forget(gateway, "gone", PAWL_CRASH_AT=f"{point}:{n}",
                               PAWL_STORE_FAULTS="points")
        if command.wait(PATIENCE) == 0:
            break
        assert command.returncode == -signal.SIGKILL
        before = operations.effects("gone")
        again = gateway.post("/refunds", {"of": "gone"}, key="gone")
        kept = again["Idempotency-Status"] == "replayed"
        assert operations.effects("gone") == before + (0 if kept else 1)
        assert operations.send(f"new{n}")["Idempotency-Status"] == "stored"
    assert 1 < n < PASSES_MOST - 1, "it must die once at least, and come to its end"
    again = gateway.post("/refunds", {"of": "gone"}, key="gone")
    assert again["Idempotency-Status"] == "stored"
    operations.check_all()


# ---- what it writes while the owner runs ----


@pytest.fixture(name="waited")
def an_owner_and_a_waiter(pawl, upstream):
    """A first attempt that stands in the upstream, and a duplicate that waits for it: of two one is
    refused, and that proves that the other has the only place."""
    gateway = pawl(WAITS)
    gate = upstream.hold()
    owner = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    gate.wait_for()
    both = [Later(lambda: gateway.post("/refunds", {}, key="k1")) for _ in range(2)]
    refused = eventually(lambda: [one for one in both if one.is_done], "the refused one")[0]
    assert refused.result().is_problem(429, "RATE_LIMIT.exceeded")
    return gateway, gate, owner, next(one for one in both if one is not refused)


def told(answer: Answer) -> tuple[str | None, bytes]:
    return answer["Idempotency-Status"], answer.body


def test_a_waiter_is_woken_by_an_operators_answer_while_the_owner_still_runs(upstream, waited):
    gateway, gate, owner, waiter = waited
    token = json.loads(keys(gateway, "show", "k1", "--json"))["token"]
    keys(gateway, "resolve", "k1", "--token", str(token), "--status", "200", "--body", "mine",
         "--force")
    assert told(waiter.result()) == ("replayed", b"mine")
    assert not owner.is_done
    gate.open()
    # The owner's answer came too late: nobody is told what the store does not hold.
    assert told(owner.result()) == ("replayed", b"mine")
    assert upstream.effects() == 1


def test_a_waiter_is_woken_by_an_operators_release_while_the_owner_still_runs(upstream, waited):
    gateway, gate, owner, waiter = waited
    token = json.loads(keys(gateway, "show", "k1", "--json"))["token"]
    keys(gateway, "release", "k1", "--token", str(token), "--force")
    second = waiter.result()
    assert second["Idempotency-Status"] == "stored" and not owner.is_done
    gate.open()
    assert told(owner.result()) == ("replayed", second.body)
    assert told(gateway.post("/refunds", {}, key="k1")) == ("replayed", second.body)


def test_a_waiter_is_woken_by_a_forget_while_the_owner_still_runs(upstream, waited):
    gateway, gate, owner, waiter = waited
    keys(gateway, "forget", "k1", "--force")
    second = waiter.result()
    assert second["Idempotency-Status"] == "stored" and not owner.is_done
    gate.open()
    assert told(owner.result()) == ("replayed", second.body)
    assert told(gateway.post("/refunds", {}, key="k1")) == ("replayed", second.body)
