# SPDX-License-Identifier: Apache-2.0
"""`pawl queue` and the person who looks after it: what stands is seen in lists and exit codes, and
many are sent again, dropped or settled at once."""
from __future__ import annotations

import json
import signal

import pytest

from pawltest.gateway import run
from pawltest.upstream import Upstream, closes, say
from test_queue import lines
from test_queue_drain import Drained, keys_of, queue

pytestmark = [pytest.mark.hooks, pytest.mark.file_only]
assert queue  # a fixture


def refuse_all(upstream: Upstream) -> None:
    upstream.default = lambda _: say(422, {"error": "no"})


def serve_all(upstream: Upstream) -> None:
    upstream.default = lambda _: say(201, {})
    upstream.requests.clear()


def add_groups(queue: Drained, groups: int, each: int) -> list[str]:
    added = queue.did("add", "-", input=lines(*[
        {"url": f"{queue.url}/{n}", "group": f"g{n}", "data": "x"}
        for n in range(groups) for _ in range(each)]))
    return [line.split()[0] for line in added.splitlines()]


# ---- what stands ----


def test_a_night_of_503_kills_nothing_and_the_list_says_since_when_a_group_waits(queue, upstream):
    """found: J2. The first five attempts and the last fifteen are kept, the others counted."""
    upstream.default = lambda _: say(503)
    first, second = add_groups(queue, 1, 2)
    began = None
    for _ in range(40):
        queue.drain("--once", code=75)
        head, held = queue.list()
        began = began or held["held_since"]
        queue.clock.advance(900)
    assert (head["state"], head["attempts"], held["state"]) == ("waiting", 40, "waiting")
    assert began and (held["behind"], held["held_since"]) == (int(first), began)
    assert f"behind {first} since {began[:19]}" in queue.did("list")
    history = [one["attempt"] for one in queue.show(first)["history"]]
    assert history == [*range(1, 6), *range(26, 41)]
    assert "tries:        40; shown are" in queue.did("show", first)
    serve_all(upstream)
    queue.drain()
    assert queue.states() == ["done", "done"] and second


def test_what_is_never_answered_ends_seven_days_after_the_first_that_was_reached(queue, upstream):
    """found: J2"""
    away, *_ = queue.add("-d", "x", "http://127.0.0.1:1/away")
    slow, *_ = queue.add("-d", "x", queue.url)
    mine, *_ = queue.add("-d", "x", "--deadline", "2h", queue.url)
    late, *_ = queue.add("-d", "x", "--deadline", "1h", "http://127.0.0.1:1/late")
    for_ever, *_ = queue.add("-d", "x", "--deadline", "none", queue.url)
    three, *_ = queue.add("-d", "x", "--attempts", "2", queue.url)
    upstream.default = lambda _: say(503)
    queue.drain("--once", code=75)
    shown = queue.show(away)
    assert (shown["attempts"], shown["first_at"], shown["deadline_at"]) == (0, None, None)
    for _ in range(2):  # the last attempt is at the deadline
        queue.clock.advance(3 * 3600)
        queue.drain("--once", code=1)
    queue.clock.advance(8 * 86400)
    queue.drain("--once", code=1)
    rows = {str(row["id"]): (row["state"], row["reason"]) for row in queue.list()}
    assert rows == {away: ("waiting", "not_reached"), slow: ("dead", "deadline"),
                    mine: ("dead", "deadline"), late: ("dead", "deadline"),
                    for_ever: ("waiting", "not_done"), three: ("dead", "attempts")}
    overdue, *_ = queue.add("-d", "x", "--deadline", "1h", queue.url)
    upstream.requests.clear()
    queue.clock.advance(7200)
    queue.drain("--once", code=1)
    assert queue.show(overdue)["reason"] == "deadline" and queue.show(overdue)["attempts"] == 0


def test_a_drain_ends_with_1_while_dead_ones_stand(queue, upstream):
    """found: J5"""
    refuse_all(upstream)
    first, second = add_groups(queue, 1, 2)
    queue.drain(code=1)
    assert "dead: 1; see" in queue.drain(code=1)
    queue.drain("--new", code=75)
    [parked] = queue.list("--state", "parked")
    assert (parked["id"], parked["behind"]) == (int(second), int(first)) and parked["held_since"]
    assert queue.list("--state", "waiting") == []
    assert "state:        parked" in queue.did("show", second)
    queue.did("drop", second)
    queue.drain(code=1)
    queue.drain("--new")
    queue.did("drop", first)
    queue.drain()


def test_a_list_that_was_rolled_back_does_not_stand(queue, upstream):
    upstream.then(say(201, {}), say(422), say(200, {}))
    queue.did("add", "--linked", "-", input=lines(
        {"url": queue.url, "undo": {"url": queue.url}}, {"url": queue.url}))
    queue.drain(code=1)
    queue.drain()


# ---- added again ----


def test_what_is_dead_or_dropped_is_not_added_again_without_a_word(queue, upstream):
    """found: R14"""
    refuse_all(upstream)
    identity, _ = queue.add("--key", "k1", "-d", "x", queue.url)
    again = ("add", "--key", "k1", "-d", "x", queue.url)
    assert queue.did(*again).split() == [identity, "k1"]
    queue.drain(code=1)
    assert f"is dead: pawl queue retry {identity}" in queue.refused(1, *again)
    queue.did("drop", identity)
    assert f"is dropped: pawl queue retry {identity}" in queue.refused(1, *again)
    serve_all(upstream)
    queue.did("retry", identity)
    queue.drain()
    ran = queue.run(*again)
    assert (ran.returncode, ran.stdout.split()) == (0, [identity, "k1"]) and "is done" in ran.stderr


def test_a_list_that_is_added_again_is_there_once(queue, upstream):
    """found: R14"""
    steps = [{"url": queue.url, "key": "s1", "data": "a" * 2000, "undo": {"url": queue.url}},
             {"url": queue.url, "key": "s2", "json": {"b": 1}}]

    def add(*given: dict, code: int = 0) -> str:
        ran = queue.run("add", "--linked", "-", input=lines(*given))
        assert ran.returncode == code, ran
        return ran.stdout

    first = add(*steps)
    assert add(*steps) == first and len(queue.list()) == 2
    others = [steps[:1], steps[::-1], [steps[0], {**steps[1], "json": {"b": 2}}],
              [{**steps[0], "undo": {"url": queue.url + "/u"}}, steps[1]],
              [*steps, {"url": queue.url, "key": "s3"}], [steps[0], {**steps[1], "key": "s3"}]]
    for other in others:
        assert add(*other, code=65) == ""
    upstream.then(say(201, {}), say(422))
    queue.drain(code=1)
    assert add(*steps, code=1) == first


# ---- many at once ----


def test_all_that_are_dead_are_sent_again_or_dropped(queue, upstream):
    """found: J3"""
    refuse_all(upstream)
    heads = add_groups(queue, 12, 2)[::2]
    queue.did("add", "--linked", "-", input=lines({"url": queue.url}))
    queue.drain(code=1)
    assert queue.did("drop", "--dead", "--dry-run", "--group", "g3") == "not yet dropped: 1\n"
    assert queue.did("drop", "--dead", "--group", "g3") == "dropped: 1\n"
    assert queue.did("drop", "--parked", "--group", "g4") == "dropped: 1\n"
    assert queue.did("retry", "--parked", "--to", queue.url + "/5") == "retried: 1\n"
    ended = min(row["ended_at"] for row in queue.list("--dead"))
    assert queue.did("drop", "--dead", "--until", "2020-01-01T00:00:00Z") == "dropped: 0\n"
    assert queue.did("retry", "--dead", "--since", "2100-01-01T00:00:00Z") == "retried: 0\n"
    ran = queue.run("retry", "--dead", "--since", ended, "--reason", "mended")
    assert ran.returncode == 0 and ran.stdout == "retried: 10\n"
    assert "1 steps of lists were left out" in ran.stderr
    assert sum('"mended"' in line for line in
               queue.did("audit", "--json").splitlines()) == 10
    due = sorted(row["due_at"] for row in queue.list("--state", "waiting") if row["due_at"]
                 and str(row["id"]) in heads)
    assert len(set(due)) >= 10  # a tenth of a second apart, those of one lane
    serve_all(upstream)
    queue.clock.advance(60)
    assert "dead" not in queue.drain()  # but a step of a list that is over
    left = [row["state"] for row in queue.list() if row["state"] != "done"]
    assert left == ["dropped", "dropped", "dead"]
    for wrong in (["--dead", "--parked"], ["--dead", heads[0]], [], [heads[0], "--group", "g"]):
        queue.refused(2, "drop", *wrong)


def test_what_is_being_sent_is_left_and_said(queue, upstream):
    refuse_all(upstream)
    first, second = add_groups(queue, 1, 2)
    queue.drain(code=1)
    gate = upstream.hold()
    queue.did("retry", first)
    drain = queue.start()
    gate.wait_for()
    assert "being sent" in queue.refused(75, "settle", first, "--done")
    gate.open()
    assert queue.end(drain)[0] == 1 and second


def test_an_act_frees_the_next_of_its_group_only_where_that_was_held(queue, upstream):
    first, second = add_groups(queue, 1, 2)
    queue.did("drop", first)
    upstream.then(say(503, None, ("Retry-After", "3600")))
    queue.drain("--once", code=75)
    due = queue.show(second)["due_at"]
    queue.did("retry", first)
    queue.did("drop", first)
    assert queue.show(second)["due_at"] == due


# ---- a person knows ----


def test_a_person_says_that_an_operation_was_done_or_was_not(queue, upstream):
    upstream.then(closes(), closes())
    done, key = queue.add("--attempts", "1", "--group", "g", "-d", "x", queue.url)
    behind, _ = queue.add("--group", "g", "-d", "y", queue.url)
    other, _ = queue.add("--attempts", "1", "-d", "z", queue.url)
    queue.drain("-j", "1", code=1)
    assert queue.show(done)["in_doubt"] and queue.show(other)["in_doubt"]
    queue.clock.advance(120)
    queue.did("settle", done, "--done", "--reason", "it is on the statement")
    queue.did("settle", other, "--not-done")
    assert (queue.show(done)["state"], queue.show(other)["in_doubt"]) == ("done", False)
    queue.did("edit", other, "-d", "new")  # needs no --force any more
    serve_all(upstream)
    queue.drain()
    assert queue.states() == ["done"] * 3 and len(keys_of(upstream)) == 2
    sent = run("send", "-d", "x", "--key", key, queue.url, "--store", queue.store,
               env=queue.environment)
    assert sent.returncode == 0 and len(keys_of(upstream)) == 2
    acts = queue.did("audit")
    assert "settle --done" in acts and "settle --not-done" in acts and behind


def test_what_nobody_sent_and_was_done_is_remembered_with_its_response(queue, upstream):
    """It had no record: `pawl send` finds one, and its response is that of the person."""
    identity, key = queue.add("-d", "x", queue.url)
    assert "goes with --done" in queue.refused(2, "settle", identity,
                                             "--not-done", "--response", "")
    assert "256 KiB" in queue.refused(2, "settle", identity, "--done", "--response", "@-",
                                      input="x" * (256 * 1024 + 1))
    queue.did("settle", identity, "--done", "--response", '{"id": 7}')
    shown = queue.show(identity)
    assert (shown["state"], shown["response"]) == ("done", '{"id": 7}')
    assert 'response:     {"id": 7}' in queue.did("show", identity)
    sent = run("send", "-d", "x", "--key", key, queue.url, "--store", queue.store,
               env=queue.environment)
    assert (sent.returncode, sent.stdout) == (0, '{"id": 7}') and not upstream.requests
    lines_of = [json.loads(line) for line in run("keys", "audit", "--json", "--store",
                                                 queue.store).stdout.splitlines()]
    assert [line["act"] for line in lines_of] == ["resolve"]


def test_what_is_remembered_as_done_is_not_settled_as_not_done(queue, upstream):
    upstream.then(closes(), say(201, {}))
    identity, key = queue.add("--attempts", "1", "-d", "x", queue.url)
    queue.drain(code=1)
    sent = run("send", "-d", "x", "--key", key, queue.url, "--store", queue.store,
               env=queue.environment)
    assert sent.returncode == 0
    queue.clock.advance(120)
    assert "remembered as done" in queue.refused(1, "settle", identity, "--not-done")
    assert queue.show(identity)["in_doubt"]
    queue.did("settle", identity, "--done")


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
@pytest.mark.parametrize("nth", [2, 3])
def test_kill_9_of_a_settlement_leaves_all_of_it_or_nothing(queue, upstream, point, nth):
    """One commit begins the record that it lacks, another one settles both."""
    identity, key = queue.add("-d", "x", queue.url)
    died = queue.run("settle", identity, "--done", crash={"PAWL_CRASH_AT": f"{point}:{nth}"})
    assert died.returncode == -signal.SIGKILL
    is_done = queue.show(identity)["state"] == "done"
    known = run("keys", "succeeded", key, "--store", queue.store, env=queue.environment).returncode
    assert (known == 0) == is_done
    if not is_done:
        queue.clock.advance(60)
        queue.did("settle", identity, "--done")
    assert run("keys", "succeeded", key, "--store", queue.store).returncode == 0
    queue.drain()
    assert not upstream.requests
