# SPDX-License-Identifier: Apache-2.0
"""kill -9 at every crash point of src/base/crash_points.h: after a restart nothing answered is
lost, no effect happened twice, and nothing stays pending."""
from __future__ import annotations

import random
import re
import signal
from dataclasses import dataclass
from typing import Any, Callable

import pytest

from pawltest.gateway import ROOT, run, stands_still
from operations import CONFIGS, LEASE, SETTLE, TTL, Operations, died, start_or_die
from pawltest.upstream import Reply, closes, say
from pawltest.wire import Broken, Later, eventually, request_bytes

pytestmark = pytest.mark.hooks

POINTS = re.findall(r"\bX\((\w+)\)", (ROOT / "src/base/crash_points.h").read_text("utf-8"))
# Of tasks: blackbox/test_webhooks.py dies there, and blackbox/test_bulk_acts.py hangs.
POINTS = [name for name in POINTS if name not in ("name", "inside_fan_out", "between_acts")]
CARGO = random.Random(1).randbytes(64 * 1024)  # no compression makes it small
PLAIN = (("Cache-Control", "no-cache"),)  # nothing that a replay would have to add
LARGE = {"note": "x" * 150_000}


def send(operations: Operations) -> None:
    operations.send_until_death(40)


def send_large(operations: Operations) -> None:
    operations.send_until_death(2, LARGE)


def send_a_part(operations: Operations) -> None:
    """A part of the body comes, and never the rest."""
    body = b'{"of":"k0"}'
    operations.sent["k0"] = (body, ())
    head = request_bytes("POST", "/refunds", [("Idempotency-Key", "k0"),
                                              ("Content-Type", "application/json"),
                                              ("Content-Length", str(len(body)))])
    with pytest.raises((Broken, OSError)):
        with operations.gateway.connect() as client:
            client.send(head + body[:4])
            client.answer()


def fill_the_log(operations: Operations) -> None:
    """Until the write-ahead log is due for its checkpoint."""
    operations.reply = Reply(201, CARGO, PLAIN)
    operations.send_until_death(400)


def outlive_a_record(operations: Operations) -> None:
    operations.clock.advance(TTL + 1)
    send(operations)


def reload_between(operations: Operations) -> None:
    operations.send("k0")
    operations.gateway.signal(signal.SIGHUP)
    operations.send_until_death(400)


def drain_with_one_under_way(operations: Operations) -> None:
    gate = operations.upstream.hold()
    answer = Later(lambda: operations.send("k0"))
    gate.wait_for()
    operations.gateway.signal(signal.SIGTERM)
    eventually(lambda: died(operations.gateway) or not operations.gateway.is_listening, "a drain")
    gate.open()
    answer.result()


@dataclass
class Scene:
    """How a point is reached; `passes`: at which of its passes the process dies."""

    act: Callable[[Operations], None] = send
    reply: Reply | None = None
    passes: tuple[int, ...] = (1,)
    policies: tuple[str, ...] = tuple(CONFIGS)
    prepare: Callable[[Operations], Any] | None = None


BATCHES = (2, 3, 4, 6)  # the first are passed before it is ready
LOST = closes()
SCENES = {
    "inside_body": Scene(reply=Reply(201, b"y" * 3000, PLAIN, drip=500), passes=(1, 3)),
    "between_request_writes": Scene(send_large),
    "between_response_writes": Scene(reply=Reply(
        201, b"data: 1\n\n" * 50, (("Content-Type", "text/event-stream"),), drip=60)),
    "inside_batch": Scene(passes=(1, 2, 3)),
    "before_commit": Scene(passes=BATCHES),
    "inside_commit": Scene(passes=(2, 3, 9, 16, 25)),
    "before_commit_sync": Scene(passes=BATCHES),
    "after_commit": Scene(passes=(1, *BATCHES)),
    "after_wake_up": Scene(passes=(1, *BATCHES)),
    "before_checkpoint": Scene(fill_the_log),
    "inside_checkpoint": Scene(fill_the_log, passes=(1, 7)),
    "before_checkpoint_sync": Scene(fill_the_log),
    "after_checkpoint": Scene(fill_the_log),
    "inside_merge": Scene(passes=(1, 2, 5, 14)),
    "inside_sweep": Scene(outlive_a_record, passes=(1, 2),
                          prepare=lambda operations: [
                              operations.gateway.post("/refunds", {"of": k}, key=k)
                              for k in ("old1", "old2")]),
    "before_probe": Scene(reply=LOST, policies=("probe", "once")),
    "after_probe_response": Scene(reply=LOST, policies=("probe", "once")),
    "before_release_commit": Scene(reply=say(503, effect=False)),
    "before_doubt_commit": Scene(reply=LOST),
    "inside_look_up": Scene(reload_between),
    "before_reload": Scene(reload_between),
    "inside_reload": Scene(reload_between),
    "after_reload": Scene(reload_between),
    "before_drain": Scene(drain_with_one_under_way),
    "after_drain": Scene(drain_with_one_under_way),
}
CASES = [pytest.param(point, n, policy, scene, id=f"{point}-{n}-{policy}")
         for point in POINTS for scene in [SCENES.get(point, Scene())]
         for n in scene.passes for policy in scene.policies]


def die(pawl, upstream, clock, policy: str, scene: Scene, at: str) -> Operations:
    """A gateway that answered once, started again to die at the point."""
    gateway = pawl(CONFIGS[policy])
    operations = Operations(gateway, upstream, clock, policy)
    operations.send("told")
    assert "told" in operations.answered
    if scene.prepare:
        scene.prepare(operations)
    assert gateway.stop() == 0
    operations.reply = scene.reply
    if start_or_die(gateway, PAWL_CRASH_AT=at, PAWL_STORE_FAULTS="points",
                    PAWL_STORE_KEY_RUN="3"):
        scene.act(operations)
    eventually(lambda: died(gateway), f"its death at {at}")
    assert gateway.wait() == -signal.SIGKILL
    if scene.act is outlive_a_record:
        del operations.sent["told"], operations.answered["told"]  # its time was over
    return operations


def test_every_point_has_a_name_of_its_own_and_enough_of_them_lie_on_the_way():
    assert len(POINTS) == len(set(POINTS)) >= 16
    assert set(SCENES) <= set(POINTS)


@pytest.mark.parametrize("point, n, policy, scene", CASES)
def test_after_kill_9_no_effect_is_doubled_and_no_answer_lost(pawl, upstream, clock, point, n,
                                                              policy, scene):
    operations = die(pawl, upstream, clock, policy, scene, f"{point}:{n}")
    operations.gateway.start()
    operations.check_all()


@pytest.mark.parametrize("policy", CONFIGS)
def test_a_client_killed_inside_its_own_body_has_begun_nothing(pawl, upstream, clock, policy):
    operations = die(pawl, upstream, clock, policy, Scene(send_a_part), "inside_body")
    operations.gateway.start()
    assert operations.retry("k0")["Idempotency-Status"] == "stored"
    assert operations.effects("k0") == 1


@pytest.mark.parametrize("policy", CONFIGS)
@pytest.mark.parametrize("point", ["after_claim_commit", "before_outcome_commit"])
def test_kill_9_again_and_again_under_one_key_has_one_effect(pawl, upstream, clock, point, policy):
    operations = die(pawl, upstream, clock, policy, Scene(), point)
    for _ in range(3):
        if start_or_die(operations.gateway, PAWL_CRASH_AT=point):
            operations.send("k0")
            operations.clock.advance(LEASE + SETTLE + 1)
        if died(operations.gateway):
            operations.gateway.wait()
        else:
            operations.gateway.kill9()
    operations.gateway.start()
    operations.check_all()


# ---- paused, not killed ----


def paused(pawl, upstream, clock, policy: str, point: str) -> tuple[Operations, Later]:
    """An operation whose gateway stands still at the point, beyond its lease."""
    gateway = pawl(CONFIGS[policy], started=False).start(PAWL_STOP_AT=point)
    operations = Operations(gateway, upstream, clock, policy)
    answer = Later(lambda: operations.send("k0"))
    eventually(lambda: stands_still(gateway.process.pid), f"its stop at {point}")
    clock.advance(LEASE + 10)
    return operations, answer


@pytest.mark.parametrize("policy", CONFIGS)
@pytest.mark.parametrize("point", ["after_claim_commit", "before_connect", "before_request_write"])
def test_an_owner_paused_beyond_its_lease_sends_only_under_a_new_claim(pawl, upstream, clock, point,
                                                                      policy):
    begin = Operations(pawl(CONFIGS[policy]), upstream, clock, policy)
    old = int(begin.send("before") and upstream.requests[0]["Idempotency-Token"])
    operations, answer = paused(pawl, upstream, clock, policy, point)
    operations.gateway.go_on()
    assert answer.result()["Idempotency-Status"] == "stored"
    assert operations.effects("k0") == 1
    # Tokens are at least store time: this one was given out after the pause.
    assert int(upstream.requests[1]["Idempotency-Token"]) - old > LEASE * 1_000_000
    operations.check_all()


@pytest.mark.parametrize("policy", CONFIGS)
@pytest.mark.parametrize("point", ["after_response_body", "before_outcome_commit"])
def test_the_late_answer_of_a_paused_owner_is_the_outcome(pawl, upstream, clock, point, policy):
    operations, answer = paused(pawl, upstream, clock, policy, point)
    operations.gateway.go_on()
    assert answer.result() is not None
    assert operations.effects("k0") == 1
    operations.check_all()


def test_a_second_serve_beside_a_paused_one_is_refused_by_its_pid(pawl, upstream, clock):
    operations, answer = paused(pawl, upstream, clock, "hold", "before_connect")
    gateway = operations.gateway
    second = run("serve", "-c", gateway.config, env={"PAWL_TEST_CLOCK": str(clock.path)})
    assert second.returncode != 0
    assert f"pid {gateway.process.pid}" in second.stderr, second.stderr
    gateway.go_on()
    assert answer.result()["Idempotency-Status"] == "stored"
    assert operations.effects("k0") == 1
