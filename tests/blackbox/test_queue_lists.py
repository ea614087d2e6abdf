# SPDX-License-Identifier: Apache-2.0
"""What becomes of a list of the queue in doubt, and what a person may do to it."""
from __future__ import annotations

import json

import pytest

from pawltest.gateway import run
from pawltest.upstream import closes, say
from test_queue_linked import lists, sent  # noqa: F401 (a fixture)

pytestmark = [pytest.mark.hooks, pytest.mark.file_only]
DAY = 86400


@pytest.mark.parametrize("how", ["the list says so", "its response said so", "nobody says so",
                                 "its response says that it does not"])
def test_a_refusal_behind_a_lost_response_undoes_where_the_service_dedupes(lists, upstream, how):
    """found: J4

    A service that answers a key that it knows as it did first has not done what it refuses."""
    steps = [lists.step("a"), lists.step("bad")]
    header = {"its response said so": [("Idempotency-Status", "stored")],
              "its response says that it does not": [("Idempotency-Status", "bypassed")]}
    upstream.then(say(201, {"id": "x"}, *header.get(how, [])), closes())
    lists.add_list(*([{"dedupes": True}] if how == "the list says so" else []), *steps)
    lists.drain(code=1)
    believes = how in ("the list says so", "its response said so")
    assert lists.show(lists.steps[1])["in_doubt"] == (not believes)
    if believes:
        assert sent(upstream) == ["POST /a", "POST /bad", "DELETE /things/x"]
        assert lists.state() == "undone"
        return
    assert lists.state() == "parked" and lists.reverses() == []
    lists.did("retry", lists.steps[1])
    upstream.default = lambda _: say(201, {"id": "y"})
    lists.drain()
    assert lists.state() == "done"


def test_a_step_that_runs_elsewhere_is_not_refused(lists, upstream):
    """A service that dedupes says for a quarter of an hour that it is being done."""
    upstream.then(say(201, {"id": "x"}), closes())
    upstream.default = lambda _: say(422, {"error_code": "order.in_progress"}, effect=False)
    lists.add_list({"dedupes": True}, lists.step("a"), lists.step("b"))
    for _ in range(3):
        lists.drain("--once", code=75)
        lists.clock.advance(500)
    lists.drain("--once", code=1)
    assert lists.show(lists.steps[1])["in_doubt"]
    assert lists.state() == "parked" and lists.reverses() == []


def test_no_row_of_a_list_goes_before_it_is_over(lists, upstream):
    """found: J0. Its first step was done long ago, and its undo is there."""
    upstream.then(say(201, {"id": "x"}), say(503), say(422))
    lists.add_list(lists.step("a"), lists.step("b"))
    lists.drain("--once", code=75)
    lists.clock.advance(8 * DAY)
    lists.drain("--once", code=1)
    lists.drain()
    assert lists.state() == "undone" and sent(upstream)[-1] == "DELETE /things/x"
    lists.clock.advance(31 * DAY)
    lists.drain()
    assert lists.list() == []


def test_a_step_is_not_touched_in_a_list_that_is_undone(lists, upstream):
    """found: R4. Nor is what was dropped; the whole list stops, and is partial."""
    undo = {"url": lists.at("/bad")}
    lists.add_list(lists.step("a"), lists.step("b", undo=undo), lists.step("bad"))
    lists.drain(code=1)
    for act in (["retry"], ["drop", "--force"], ["settle", "--done"], ["edit", "-d", "x"]):
        assert "which is parked" in lists.refused(1, act[0], lists.steps[2], *act[1:])
    lists.did("drop", "--list", lists.show(lists.steps[0])["list_name"])
    lists.drain()
    assert lists.state() == "partial" and len(sent(upstream)) == 4
    assert "is over" in lists.refused(1, "drop", "--list", lists.number())


def test_a_running_list_whose_server_is_gone_is_dropped(lists, upstream):
    """found: R12. Its steps that are done are undone; or a step that waits goes elsewhere."""
    away = "http://127.0.0.1:1/b"
    lists.add_list(lists.step("a"), {"url": away})
    lists.drain("--once", code=75)
    lists.did("drop", "--list", lists.number())
    lists.drain()
    assert lists.state() == "undone" and sent(upstream)[1] == "DELETE /things/a"
    lists.add_list(lists.step("k"), {"url": away, "json": 1})
    lists.drain("--once", code=75)
    lists.did("edit", lists.steps[1], "--url", lists.at("/c"), "-X", "POST")
    lists.drain()
    assert lists.state() == "done" and sent(upstream)[-1] == "POST /c"
    lists.add_list(lists.step("l"), {"url": away})
    lists.drain("--once", code=75)
    lists.did("drop", "--list", lists.number(), "--keep")
    lists.drain()
    assert lists.state() == "kept" and sent(upstream)[-1] == "POST /l"


def test_a_list_in_doubt_is_dropped_with_force_alone_and_is_partial(lists, upstream):
    lists.add_list(lists.step("a"), lists.step("b"))
    upstream.then(say(201, {"id": "x"}), closes(), closes())
    lists.drain("--once", code=75)
    assert "may have taken effect" in lists.refused(76, "drop", "--list", lists.number())
    lists.did("drop", "--list", lists.number(), "--force")
    lists.drain()
    assert lists.state() == "partial" and sent(upstream)[-1] == "DELETE /things/x"


def test_a_step_that_a_person_settles_as_done_goes_on_with_its_undo(lists, upstream):
    """Its undo is filled in from the response that they found."""
    lists.add_list(lists.step("a", deadline="60s"), lists.step("bad"))
    upstream.then(closes(), closes())
    lists.drain("--once", code=75)
    lists.clock.advance(100)
    lists.drain("--once", code=1)
    assert lists.state() == "parked"
    assert "either" in lists.refused(2, "settle", lists.steps[0])
    lists.did("settle", lists.steps[0], "--done", "--response", '{"id": "found"}')
    key = lists.show(lists.steps[0])["key"]
    sent_again = run("send", "--key", key, "--json", '{"name": "a"}', lists.at("/a"),
                     "--store", lists.store, env=lists.environment)
    assert (sent_again.returncode, sent(upstream)) == (0, ["POST /a"])  # its record says so, too
    lists.drain(code=1)
    assert sent(upstream)[1:] == ["POST /bad", "DELETE /things/found"]
    assert lists.state() == "undone"


@pytest.mark.parametrize("status", [404, 410])
def test_an_undo_that_deletes_what_is_gone_is_done(lists, upstream, status):
    lists.add_list(lists.step("a"), lists.step("bad"))
    upstream.then(say(201, {"id": "x"}), say(422, {}), say(status, {}))
    lists.drain(code=1)
    assert lists.state() == "undone"


def test_the_command_line_of_a_whole_list(lists):
    lists.add_list(lists.step("a"))
    assert "there is no list" in lists.refused(1, "drop", "--list", "none")
    assert "--list goes without" in lists.refused(2, "drop", lists.steps[0], "--list", "1")
    assert "--keep goes with" in lists.refused(2, "drop", lists.steps[0], "--keep")
    assert "-X goes with --url" in lists.refused(2, "edit", lists.steps[0], "-X", "PUT", "-d", "x")
    text = '{"dedupes": 1}\n' + json.dumps(lists.step("a"))
    assert "dedupes" in lists.refused(65, "add", "--linked", "-", input=text)
