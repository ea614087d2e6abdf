# SPDX-License-Identifier: Apache-2.0
"""What a service says was done before: under a new key it would happen twice."""
from __future__ import annotations

import json

import pytest

from pawltest.upstream import Reply, Upstream, closes, say
from pawltest.wire import Request
from test_queue import lines
from test_queue_drain import Drained, queue
from test_queue_linked import lists, sent

pytestmark = [pytest.mark.hooks, pytest.mark.file_only]
assert queue and lists  # fixtures
HAPPENED = {"duplicate": 409, "result_expired": 410, "result_not_kept": 410}


def says(name: str) -> Reply:
    body = {"error_code": f"CONFLICT.idempotency.{name}", "retryable": False}
    return say(HAPPENED[name], body, ("Content-Type", "application/problem+json"), effect=False)


def answer_by_path(upstream: Upstream) -> None:
    """/NAME is answered by it, /lost/NAME the second time."""
    seen: set[str] = set()

    def reply(request: Request) -> Reply:
        path = request.target
        if path.startswith("/lost/") and path not in seen:
            seen.add(path)
            return closes()
        return says(path.rpartition("/")[2])

    upstream.default = reply


def add_all(queue: Drained, upstream: Upstream) -> list[str]:
    answer_by_path(upstream)
    origin = f"http://127.0.0.1:{upstream.port}"
    added = queue.did("add", "-", input=lines(*[
        {"url": f"{origin}/{lost}{name}", "data": "x"} for name in HAPPENED
        for lost in ("", "lost/")]))
    queue.drain(code=1)
    return [line.split()[0] for line in added.splitlines()]


def test_what_happened_gets_no_new_key_without_force(queue, upstream):
    added = add_all(queue, upstream)
    for identity in added:
        shown = queue.show(identity)
        assert (shown["state"], shown["reason"]) == ("dead", "happened")
        assert "says that it was done" in queue.did("show", identity)
        told = queue.refused(76, "edit", identity, "-d", "y")
        assert "was done before" in told and f"pawl queue settle {identity} --done" in told
        assert queue.show(identity)["key"] == shown["key"]
    table = [(["settle", "--done"], "done", "already"),
             (["edit", "-d", "y", "--force"], "waiting", ""),
             (["settle", "--not-done"], "dead", "final"), (["drop"], "dropped", "dropped"),
             (["edit", "-H", "A: b"], "waiting", ""), (["retry"], "waiting", "")]
    queue.clock.advance(120)  # what was on its way has arrived
    for identity, (act, state, reason) in zip(added, table):
        queue.did(act[0], identity, *act[1:])
        shown = queue.show(identity)
        assert (shown["state"], shown["reason"] or "") == (state, reason), act
    queue.did("edit", added[2], "-d", "y")  # a person said that it was not


@pytest.mark.parametrize("name", HAPPENED)
@pytest.mark.parametrize("loses", [False, True])
def test_a_step_that_happened_stands(lists, upstream, name, loses):
    """What its undo needs is not known: the list is parked, also where its service dedupes."""
    upstream.then(say(201, {"id": "x"}), *[closes()] * loses, says(name))
    lists.add_list({"dedupes": True}, lists.step("a"), lists.step("b"))
    lists.drain(code=1)
    assert lists.state() == "parked" and lists.reverses() == []
    assert lists.show(lists.steps[1])["reason"] == "happened"
    lists.refused(76, "drop", lists.steps[1])
    lists.did("settle", lists.steps[1], "--done")
    assert lists.state() == "done"


@pytest.mark.parametrize("name", HAPPENED)
def test_an_undo_that_happened_is_done(lists, upstream, name):
    undo = {"url": lists.at("/undo")}
    upstream.then(say(201, {"id": "x"}), say(422), says(name))
    lists.add_list(lists.step("a", undo=undo), lists.step("b"))
    lists.drain(code=1)
    assert lists.state() == "undone" and sent(upstream)[2:] == ["POST /undo"]


def test_a_person_s_not_done_ends_the_reason_of_the_doubt(queue, upstream):
    upstream.then(closes(), say(422))
    identity, _ = queue.add("-d", "x", queue.url)
    queue.drain(code=1)
    assert queue.show(identity)["reason"] == "in_doubt"
    queue.clock.advance(120)
    queue.did("settle", identity, "--not-done")
    shown = queue.show(identity)
    assert (shown["state"], shown["reason"], shown["in_doubt"]) == ("dead", "final", False)


def test_a_refusal_that_a_list_believes_ends_the_doubt_of_its_step(lists, upstream):
    """Its service dedupes: the list is undone, as nothing of that step stands."""
    upstream.then(say(201, {"id": "x"}), closes())
    lists.add_list({"dedupes": True}, lists.step("a"), lists.step("bad"))
    lists.drain(code=1)
    shown = lists.show(lists.steps[1])
    assert lists.state() == "undone"
    assert (shown["state"], shown["reason"], shown["in_doubt"]) == ("dead", "final", False)
    assert json.loads(lists.did("list", "--dead", "--json"))["reason"] == "final"
