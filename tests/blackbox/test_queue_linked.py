# SPDX-License-Identifier: Apache-2.0
"""`pawl queue add --linked`: a list of operations, all or nothing. When a step fails for good, what
was done is undone backwards; what is in doubt is left to a person."""
from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from pawltest.gateway import Clock, make_store, run
from pawltest.upstream import Reply, Upstream, closes, say
from pawltest.wire import Request
from test_queue import UUID, acts
from test_queue_drain import Drained

pytestmark = [pytest.mark.hooks, pytest.mark.file_only]
POINTS = ("before_begin", "after_claim_commit", "after_response_body", "before_outcome_commit",
          "inside_batch", "before_commit", "after_commit", "after_outcome_commit")


class Lists(Drained):
    """A queue whose operations are steps: each makes a thing, and is undone by deleting it."""

    def __init__(self, store: Path, clock: Clock, upstream: Upstream):
        super().__init__(store, clock, upstream)
        self.port = upstream.port
        self.steps: list[str] = []

    def at(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def step(self, name: str, **members: Any) -> dict[str, Any]:
        undo = {"method": "DELETE", "url": self.at("/things/{response:/id}")}
        return {"url": self.at(f"/{name}"), "json": {"name": name}, "undo": undo, **members}

    def add_list(self, *steps: dict[str, Any]) -> str:
        """A first one without a URL is about the list."""
        text = "".join(json.dumps(step) + "\n" for step in steps)
        [first, *added] = self.did("add", "--linked", "-", input=text).splitlines()
        self.steps = [line.split()[0] for line in added]
        return re.fullmatch(r"list (\d+)", first)[1]

    def state(self) -> str:
        return self.show(self.steps[0])["list_state"]

    def number(self) -> str:
        return str(self.show(self.steps[0])["list"])

    def reverses(self) -> list[dict[str, Any]]:
        """Of the list that was added last."""
        return [row for row in self.list() if str(row["id"]) not in self.steps]


@pytest.fixture
def lists(tmp_path: Path, clock: Clock, upstream: Upstream) -> Lists:
    """A service that does nothing twice under one key, and refuses what is called `bad`."""
    seen: dict[str, Reply] = {}

    def reply(request: Request) -> Reply:
        key = request["Idempotency-Key"]
        if request.target.startswith("/bad"):
            return say(422, {"no": True}, effect=False)
        again = key in seen
        body = {"id": f"{request.target[1:]} {request['Idempotency-Key'][:4]}"}
        seen.setdefault(key, say(201, body, ("Location", f"/at{request.target}")))
        if again:
            return say(201, body, ("Location", f"/at{request.target}"), effect=False)
        return seen[key]

    upstream.default = reply
    return Lists(make_store(tmp_path / "queue.db"), clock, upstream)


def sent(upstream: Upstream) -> list[str]:
    """Methods and first words of targets, each key once."""
    found: dict[str, str] = {}
    for request in upstream.requests:
        name = re.split(r"[ %]", request.target)[0]
        found.setdefault(request["Idempotency-Key"], f"{request.method} {name}")
    return list(found.values())


def test_Q8_all_steps_run_in_order(lists, upstream):
    lists.add_list(*map(lists.step, "abc"))
    assert lists.state() == "running"
    lists.drain()
    assert sent(upstream) == ["POST /a", "POST /b", "POST /c"]
    assert lists.state() == "done" and lists.reverses() == []


def test_Q8_what_was_done_is_undone_backwards_when_a_step_fails(lists, upstream):
    lists.add_list(lists.step("a"), lists.step("b"), lists.step("bad"), lists.step("c"))
    keys = [lists.show(step)["undo_key"] for step in lists.steps]
    assert all(UUID.fullmatch(key) for key in keys)
    lists.drain(code=1)
    assert sent(upstream) == ["POST /a", "POST /b", "POST /bad", "DELETE /things/b",
                              "DELETE /things/a"]
    assert [row["key"] for row in lists.reverses()] == [keys[1], keys[0]]
    shown = lists.show(lists.steps[3])
    assert (shown["state"], shown["reason"], shown["list_state"]) == ("dropped", "list", "undone")
    assert upstream.effects() == 4


def test_Q8_a_step_in_doubt_parks_the_list_for_a_person(lists, upstream):
    lists.add_list(lists.step("a"), lists.step("b", deadline="10m"), lists.step("c"))
    upstream.then(say(201, {"id": "x"}), closes(), closes())
    lists.drain("--once", code=75)
    lists.clock.advance(700)
    lists.drain("--once", code=1)
    shown = lists.show(lists.steps[1])
    assert (shown["state"], shown["in_doubt"], lists.state()) == ("dead", True, "parked")
    assert lists.reverses() == []
    waiting = lists.show(lists.steps[2])
    assert waiting["state"] == "parked" and waiting["due_at"] is None


def park(lists: Lists, upstream: Upstream) -> None:
    test_Q8_a_step_in_doubt_parks_the_list_for_a_person(lists, upstream)
    upstream.requests.clear()


def test_a_parked_list_goes_on_when_its_step_is_sent_again(lists, upstream):
    park(lists, upstream)
    lists.did("retry", lists.steps[1], "--reason", "was away")
    assert '"reason":"was away"' in lists.did("audit", "--json").replace(": ", ":")
    assert lists.state() == "running"
    lists.drain()
    assert sent(upstream) == ["POST /b", "POST /c"] and lists.state() == "done"


@pytest.mark.parametrize("says, end, code", [("drop --force", "partial", 76),
                                             ("settle --not-done", "undone", 1)])
def test_a_parked_list_is_undone_when_a_person_gives_its_step_up(lists, upstream, says, end, code):
    """Who drops it by force says nothing of it, and the doubt stays; who settles it knows."""
    park(lists, upstream)
    act, option = says.split()
    assert "settle" in lists.refused(76, "drop", lists.steps[1])
    if act == "settle":
        assert "too early" in lists.refused(75, act, lists.steps[1], option)
        assert lists.state() == "parked"
        lists.clock.advance(60)
    lists.did(act, lists.steps[1], option)
    assert lists.state() == "undoing"
    (written,) = acts(lists)
    assert (written["task"], written["to"]) == (int(lists.steps[1]), "dropped")
    assert written["act"] == act + (" " + option) * (act == "settle")
    lists.drain()
    assert sent(upstream) == ["DELETE /things/x"] and lists.state() == end
    step = lists.show(lists.steps[1])
    assert step["in_doubt"] == (code == 76)
    assert run("keys", "succeeded", step["key"], "--store", lists.store).returncode == code


def test_steps_are_left_to_their_list(lists):
    lists.add_list(lists.step("a"), lists.step("b"))
    for act in (["drop"], ["retry"], ["settle", "--done"], ["settle", "--not-done"]):
        assert "which is running" in lists.refused(1, act[0], lists.steps[1], *act[1:])
    lists.drain()
    assert "which is done" in lists.refused(1, "drop", lists.steps[1])


def test_a_step_without_an_undo_is_left_as_it_is(lists, upstream):
    steps = [lists.step("a"), lists.step("b"), lists.step("bad")]
    del steps[1]["undo"]
    lists.add_list(*steps)
    lists.drain(code=1)
    assert sent(upstream)[3:] == ["DELETE /things/a"] and lists.state() == "undone"


def test_a_first_step_that_fails_has_nothing_to_undo(lists, upstream):
    lists.add_list(lists.step("bad"), lists.step("b"))
    lists.drain(code=1)
    assert sent(upstream) == ["POST /bad"] and lists.state() == "undone"


def test_an_undo_is_made_of_what_its_step_s_response_said(lists, upstream):
    undo = {"url": "{location}/cancel", "json": {"of": "{response:/id}"}}
    lists.add_list(lists.step("a", undo=undo), lists.step("bad"))
    lists.drain(code=1)
    [made, _, undone] = upstream.requests
    assert undone.target == "/at/a/cancel"
    assert json.loads(undone.body) == {"of": f"a {made['Idempotency-Key'][:4]}"}


def test_an_undo_that_is_not_filled_parks_the_list_and_may_be_given_up(lists, upstream):
    lists.add_list(lists.step("a"), lists.step("b", undo={"url": lists.at("/{response:/absent}")}),
                   lists.step("bad"))
    lists.drain(code=1)
    [unfilled, held] = lists.reverses()
    assert (unfilled["state"], unfilled["reason"]) == ("dead", "unreadable")
    assert lists.state() == "parked" and held["state"] == "parked"
    assert "DELETE" not in " ".join(sent(upstream))
    lists.did("drop", str(unfilled["id"]))
    assert lists.state() == "undoing"
    lists.drain()
    assert sent(upstream)[3:] == ["DELETE /things/a"] and lists.state() == "partial"


@pytest.mark.parametrize("body", ['{"id": ""}', '{"id": "."}', '{"id": ".."}', '{"id": "../b"}',
                                  '{"id": "a\\nb"}', '{}'])
def test_an_undo_that_would_name_something_else_parks_the_list_with_the_reason(
        lists, upstream, body):
    """found: R11. The id of a hold that is empty, or dots, would delete all holds, or others."""
    lists.add_list(lists.step("a"), lists.step("bad"))
    upstream.then(Reply(201, body.encode(), [("Content-Type", "application/json")]))
    lists.drain(code=1)
    assert sent(upstream) == ["POST /a", "POST /bad"] and lists.state() == "parked"
    [unfilled] = lists.reverses()
    assert (unfilled["state"], unfilled["reason"]) == ("dead", "unreadable")
    for task in (lists.steps[0], str(unfilled["id"])):
        assert "{response:/id}" in json.loads(lists.show(task)["undo"])["unfilled"]
    lists.did("drop", str(unfilled["id"]))
    assert lists.state() == "partial"


def test_an_undo_that_cannot_be_made_is_not_sent_however_often_it_is_retried(lists, upstream):
    """found: R3

    Nor one whose header would have two lines (found: R5); and a person gives it up."""
    undo = {"url": lists.at("/holds"), "headers": {"X-Hold": "{response:/id}"}}
    lists.add_list(lists.step("a", undo=undo), lists.step("bad"))
    upstream.then(Reply(201, b'{"id": "a\\nb"}', [("Content-Type", "application/json")]))
    lists.drain(code=1)
    [unfilled] = lists.reverses()
    assert lists.state() == "parked"
    assert "X-Hold" in json.loads(lists.show(lists.steps[0])["undo"])["unfilled"]
    assert "nothing to send" in lists.refused(1, "retry", str(unfilled["id"]))
    lists.drain(code=1)
    assert sent(upstream) == ["POST /a", "POST /bad"] and lists.state() == "parked"
    lists.did("edit", str(unfilled["id"]), "--url", lists.at("/things/a"), "-X", "DELETE")
    lists.drain()
    assert sent(upstream)[2:] == ["DELETE /things/a"] and lists.state() == "undone"


def test_a_number_is_its_digits_in_an_undo_s_url_and_headers(lists, upstream):
    """found: R11. Outside of `json` what a response says is text, as it came."""
    undo = {"url": lists.at("/holds/{response:/id}"), "headers": {"X-Hold": "{response:/id}"}}
    lists.add_list(lists.step("a", undo=undo), lists.step("bad"))
    upstream.then(Reply(201, b'{"id": 7.50}', [("Content-Type", "application/json")]))
    lists.drain(code=1)
    assert lists.state() == "undone" and upstream.requests[-1].target == "/holds/7.50"
    assert upstream.requests[-1]["X-Hold"] == "7.50"


def test_a_reverse_that_fails_parks_the_list_until_it_is_sent_again(lists, upstream):
    undo = {"url": lists.at("/bad")}
    lists.add_list(lists.step("a"), lists.step("b", undo=undo), lists.step("bad"))
    lists.drain(code=1)
    assert lists.state() == "parked"
    [refused, held] = lists.reverses()
    assert (refused["state"], held["state"]) == ("dead", "parked")
    upstream.default = lambda _: say(200, {})
    lists.did("retry", str(refused["id"]))
    assert lists.state() == "undoing"
    lists.drain()
    assert lists.state() == "undone"
    assert sent(upstream)[3:] == ["POST /bad", "DELETE /things/a"]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_Q8_kill_9_of_a_drain_at_any_point_undoes_each_done_step_once(lists, upstream, point, nth):
    """Killed inside the attempt that fails, nobody knows whether it was done: a person says it."""
    lists.add_list(lists.step("a"), lists.step("b"), lists.step("bad"), lists.step("c"))
    died = lists.run("drain", crash={"PAWL_CRASH_AT": f"{point}:{nth}"})
    assert died.returncode == -signal.SIGKILL
    assert lists.run("drain").returncode in (0, 1)
    if lists.show(lists.steps[2])["in_doubt"]:
        assert lists.state() == "parked" and lists.reverses() == []
        lists.clock.advance(60)  # what was on its way has arrived
        lists.did("settle", lists.steps[2], "--not-done")
        lists.drain()
    assert lists.state() == "undone"
    assert sent(upstream) == ["POST /a", "POST /b", "POST /bad", "DELETE /things/b",
                              "DELETE /things/a"]
    assert upstream.effects() == 4


@pytest.mark.parametrize("point", ["inside_batch", "before_commit", "after_commit"])
def test_kill_9_of_an_add_leaves_all_of_a_list_or_nothing(lists, point):
    text = "".join(json.dumps(lists.step(name)) + "\n" for name in "abcd")
    died = lists.run("add", "--linked", "-", input=text, crash={"PAWL_CRASH_AT": f"{point}:1"})
    assert died.returncode == -signal.SIGKILL
    assert len(lists.list()) in (0, 4)


@pytest.mark.parametrize("line, problem", [
    ('{"url":"http://x/","group":"g"}', 'no "group"'),
    ('{"url":"http://x/","undo":{"url":"{response:id}"}}', "JSON pointer"),
    ('{"url":"http://x/","undo":{"url":"http://u@x/"}}', "credentials"),
    ('{"url":"http://x/","undo":7}', '"undo" wants an object'),
    ('{"url":7}', '"url" wants a string'),
])
def test_a_bad_step_is_named_and_nothing_is_added(lists, line, problem):
    text = json.dumps(lists.step("a")) + "\n" + line + "\n"
    said = lists.refused(65, "add", "--linked", "-", input=text)
    assert "line 2: " in said and problem in said and "nothing was added" in said
    assert lists.list() == []


def test_the_command_line_of_a_list(lists, tmp_path):
    assert "no such file" in lists.refused(2, "add", "--linked", str(tmp_path / "none")).lower()
    assert "no step" in lists.refused(65, "add", "--linked", "-", input="\n")
    assert "takes no URL" in lists.refused(2, "add", "--linked", "-", lists.url, input="")
    many = "".join(json.dumps(lists.step("a")) + "\n" for _ in range(33))
    assert "at most 32" in lists.refused(65, "add", "--linked", "-", input=many)
    assert "--linked" in lists.refused(65, "add", "-", input=json.dumps(lists.step("a")) + "\n")
    twice = "".join(json.dumps(lists.step("a", key="k")) + "\n" for _ in range(2))
    assert "nothing was added" in lists.refused(65, "add", "--linked", "-", input=twice)
    assert lists.list() == []
