# SPDX-License-Identifier: Apache-2.0
"""Acts on many at once: `webhook drop` and `inbox drop` take the options that `queue drop` takes,
and what somebody else changed meanwhile is left, counted, and said by exit code 75."""
from __future__ import annotations

import json
import os
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any, Callable

import pytest

import test_inbox
import test_webhooks
from pawltest.gateway import PAWL, Gateway
from pawltest.tasks import Tasks
from pawltest.upstream import Upstream, say
from pawltest.wire import PATIENCE, eventually
from test_queue_drain import queue
from test_queue_people import add_groups, refuse_all

pytestmark = pytest.mark.hooks
assert queue  # a fixture


class Many(Tasks):
    """Four of a kind: one that is dead and holds its order, the one that waits for it, and in
    another lane two that are dead. Their gateway is gone."""

    def __init__(self, gateway: Gateway, group: str, option: str):
        super().__init__(gateway)
        self.group = group
        self.option = option

    def drop(self, *arguments: str) -> str:
        return self.done("drop", *arguments)


def webhooks(pawl: Callable[..., Gateway], receiver: Upstream) -> Many:
    receiver.default = say(503)
    gateway = pawl(test_webhooks.config(*(
        test_webhooks.sink(name, receiver, types=[name], ordered=name == "held", schedule=["1s"])
        for name in ("held", "free"))))
    box = test_webhooks.Outbox(gateway)
    for name in ("held", "held", "free", "free"):
        box.publish(name)
    box.until("dead", "parked", "dead", "dead", step=2)
    return Many(gateway, "webhook", "--endpoint")


def events(pawl: Callable[..., Gateway], upstream: Upstream) -> Many:
    upstream.default = lambda _: say(422)
    box = test_inbox.Inbox(pawl(test_inbox.config(
        test_inbox.source("held", order="{body:/id}"), test_inbox.source("free"))))
    for name, event in (("held", "1"), ("held", "2"), ("free", "1"), ("free", "2")):
        assert box.send(event, name=name).status == 200
        if event == "1":
            eventually(lambda: "dead" in box.states(f"--source={name}"), "its end")
    box.until("dead", "parked", "dead", "dead")
    return Many(box.gateway, "inbox", "--source")


@pytest.fixture(params=[webhooks, events], ids=["webhook", "inbox"])
def many(request, pawl, upstream: Upstream) -> Many:
    made = request.param(pawl, upstream)
    assert made.gateway.stop() == 0
    return made


def ends_behind(act: Callable[[], Any], hang: Path, *arguments: Any) -> tuple[int, str, str]:
    """How a command ends that somebody else overtakes when it has read whom it acts on."""
    hang.touch()
    environment = {**os.environ, "PAWL_HANG_AT": "between_acts", "PAWL_HANG_WHILE": str(hang)}
    with subprocess.Popen([str(PAWL), *map(str, arguments)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment) as command:
        try:
            eventually(lambda: hang.stat().st_size == 1, "its stop in front of its first act")
            act()
        finally:
            hang.unlink()
        printed, told = command.communicate(timeout=PATIENCE)
    return command.returncode, printed, told


def test_what_a_bulk_drop_selects_is_dropped(many):
    """found: J3"""
    table = [("--dead", "--until", "2020-01-01T00:00:00Z", 0), ("--dead", many.option, "other", 0),
             ("--dead", "--since", "2100-01-01T00:00:00Z", 0), ("--parked", many.option, "free", 0),
             ("--dead", "--dry-run", 3), ("--parked", "--dry-run", 1),
             ("--dead", many.option, "held", "--dry-run", 1)]
    for *given, n in table:
        said = "not yet dropped" if "--dry-run" in given else "dropped"
        assert many.drop(*given) == f"{said}: {n}\n", given
    assert many.states() == ["dead", "parked", "dead", "dead"]
    assert many.drop("--parked", "--reason", "old") == "dropped: 1\n"
    ended = min(row["ended_at"] for row in many.list("--dead"))
    assert many.drop("--dead", many.option, "free", "--since", ended) == "dropped: 2\n"
    assert many.states() == ["dead", "dropped", "dropped", "dropped"]
    assert [row["reason"] for row in many.list()][1:] == ["dropped"] * 3
    acts = [json.loads(line) for line in many.done("audit", "--json").splitlines()]
    assert [act["act"] for act in acts] == ["drop"] * 3
    assert [act.get("reason") or None for act in acts] == ["old", None, None]
    for wrong in (["--dead", "--parked"], ["--dead", many.id()], [], [many.id(), "--dry-run"]):
        assert many.run("drop", *wrong).returncode == 2, wrong


def test_what_changes_under_a_bulk_drop_is_left_and_said(many, tmp_path):
    """found: J3"""
    last = many.id(3)
    ended = ends_behind(lambda: many.done("replay", last), tmp_path / "hang",
                        many.group, "drop", "--dead", "--store", many.gateway.store)
    assert ended == (75, "dropped: 2\n", f"pawl {many.group} drop: 1 were left, which are being "
                     "sent, or changed meanwhile; run it again\n")
    states = many.states()
    assert states[0] == states[2] == "dropped" and states[3] == "waiting"
    assert states[1] == "waiting", "what waited behind a dropped one goes on"
    assert many.drop("--dead") == "dropped: 0\n"


@pytest.mark.parametrize("act, done, state", [("retry", "retried", "waiting"),
                                              ("drop", "dropped", "dropped")])
def test_what_changes_under_a_bulk_act_of_the_queue_is_left_and_said(
        queue, upstream, tmp_path, act, done, state):
    """found: J3. One is being sent, and another one was sent again by a person."""
    refuse_all(upstream)
    first, second, third = add_groups(queue, 3, 1)
    queue.drain(code=1)
    gate = upstream.gate()
    upstream.default = lambda _: say(422, {"error": "no"}, gate=gate)
    drains: list[subprocess.Popen[str]] = []

    def overtake() -> None:
        queue.did("retry", third)
        drains.append(queue.start())
        gate.wait_for()
        queue.did("retry", second)

    code, said, told = ends_behind(overtake, tmp_path / "hang", "queue", act, "--dead",
                                   "--store", queue.store)
    assert (code, said) == (75, f"{done}: 1\n") and f"pawl queue {act}: 2 were left" in told
    assert queue.show(first)["state"] in (state, "sending")
    assert queue.show(third)["state"] == "sending"
    gate.open()
    assert queue.end(drains[0])[0] == 1


def test_what_is_retried_in_bulk_is_due_at_most_ten_times_a_second(queue, upstream):
    refuse_all(upstream)
    add_groups(queue, 4, 1)
    queue.drain(code=1)
    queue.did("retry", "--dead")
    due = sorted(datetime.fromisoformat(row["due_at"]) for row in queue.list())
    gaps = [(later - earlier).total_seconds() for earlier, later in zip(due, due[1:])]
    assert len(gaps) == 3 and min(gaps) > 0.098  # a tenth of a second, in whole milliseconds
