# SPDX-License-Identifier: Apache-2.0
"""`pawl queue`: operations wait on disk until they can be sent. Adding, looking and changing; that
they are sent, and once, is in test_queue_drain.py."""
from __future__ import annotations

import getpass
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pawltest.gateway import make_store, run
from pawltest.wire import at_once

pytestmark = pytest.mark.file_only

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
URL = "http://127.0.0.1:1/refunds"
MEMBERS = ["id", "kind", "state", "lane", "order", "key", "method", "url", "attempts", "due_at",
           "status", "reason", "created_at", "ended_at", "behind", "held_since"]


class Queue:
    """One store, and the commands on it."""

    def __init__(self, store: Path):
        self.store = store

    def run(self, command: str, *arguments: str, **more: Any) -> Any:
        return run("queue", command, *arguments, "--store", self.store, **more)

    def did(self, command: str, *arguments: str, **more: Any) -> str:
        ran = self.run(command, *arguments, **more)
        assert (ran.returncode, ran.stderr) == (0, "")
        return ran.stdout

    def refused(self, code: int, command: str, *arguments: str, **more: Any) -> str:
        ran = self.run(command, *arguments, **more)
        assert ran.returncode == code, ran
        assert ran.stderr.startswith(f"pawl queue {command}: ")
        return ran.stderr

    def add(self, *arguments: str, **more: Any) -> tuple[str, str]:
        identity, key = self.did("add", *arguments, **more).split()
        return identity, key

    def list(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in
                self.did("list", "--json", *arguments).splitlines()]

    def show(self, identity: str) -> dict[str, Any]:
        return json.loads(self.did("show", identity, "--json"))


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue(make_store(tmp_path / "queue.db"))


def lines(*operations: Any) -> str:
    return "".join(json.dumps(operation) + "\n" for operation in operations)


# ---- add ----


def test_Q1_an_operation_has_a_key_of_its_own_that_is_not_its_id(queue):
    identity, key = queue.add("-d", "a=1", URL)
    assert identity != key and UUID.fullmatch(key)
    assert queue.show(identity)["key"] == key


def test_Q1_a_thousand_operations_have_a_thousand_keys(queue):
    added = queue.did("add", "-", input=lines(*[{"url": URL, "json": {"n": n}}
                                                for n in range(1000)]))
    keys = [line.split()[1] for line in added.splitlines()]
    assert len(set(keys)) == 1000 and all(UUID.fullmatch(key) for key in keys)
    assert [row["key"] for row in queue.list("--limit", "2000")] == keys


def test_an_operation_is_listed_and_shown_as_it_was_given(queue, tmp_path):
    (tmp_path / "body").write_text('{"amount": 5}\n')
    identity, key = queue.add("-X", "PUT", "--json", f"@{tmp_path / 'body'}", "-H", "If-Match: 7",
                              "--group", "customer-7", URL + "?dry=1")
    [row] = queue.list()
    assert list(row) == MEMBERS
    assert row == {"id": int(identity), "kind": "queue", "state": "waiting",
                   "lane": "http://127.0.0.1:1", "order": "customer-7", "key": key,
                   "method": "PUT", "url": URL + "?dry=1", "attempts": 0, "due_at": row["due_at"],
                   "status": None, "reason": None, "created_at": row["created_at"],
                   "ended_at": None, "behind": None, "held_since": None}
    shown = queue.show(identity)
    assert {name: shown[name] for name in MEMBERS} == row
    headers = dict(shown["headers"])
    assert (headers["If-Match"], headers["Content-Type"]) == ("7", "application/json")
    assert shown["body"] == '{"amount": 5}\n'
    assert key in queue.did("list") and key in queue.did("show", identity)


def test_a_full_queue_refuses_more_and_keeps_what_it_has(queue):
    for _ in range(3):
        queue.add("--most", "3", URL)
    assert "the queue is full" in queue.refused(75, "add", "--most", "3", URL)
    ran = queue.run("add", "--most", "5", "-", input=lines(*[{"url": URL}] * 4))
    assert ran.returncode == 75 and "line 3: the queue is full" in ran.stderr
    assert len(ran.stdout.splitlines()) == 2 and len(queue.list()) == 5
    step = {"url": URL}
    ran = queue.run("add", "--most", "6", "--linked", "-", input=lines(step, step))
    assert ran.returncode == 75 and "nothing was added" in ran.stderr
    queue.did("add", "--most", "7", "--linked", "-", input=lines(step, step))
    queue.add(URL)  # who names no bound is not bound
    queue.did("drop", str(queue.list()[0]["id"]))
    assert len(queue.list("--state", "waiting")) == 7
    assert run("stats", "--store", queue.store).stdout == ""


def test_adds_at_the_same_time_keep_to_the_bound(queue):
    queue.add(URL)
    ran = at_once(6, lambda _: queue.run("add", "--most", "10", "-",
                                         input=lines(*[{"url": URL}] * 3)))
    assert {one.returncode for one in ran} == {0, 75}
    assert len(queue.list()) == 10


def test_an_operation_that_is_added_again_under_its_key_is_there_once(queue):
    added = queue.add("--key", "order-7", "-d", "a", URL)
    assert added[1] == "order-7"
    assert queue.add("--key", "order-7", "-d", "a", URL) == added
    assert "another operation" in queue.refused(65, "add", "--key", "order-7", "-d", "b", URL)
    ran = queue.run("add", "-", input=lines({"url": URL}, {"url": URL, "key": "order-7"},
                                            {"url": URL}))
    assert ran.returncode == 65 and "line 2: " in ran.stderr
    assert len(queue.list()) == 3


@pytest.mark.parametrize("line, problem", [
    ("{", "not JSON"), ("[]", "not an object"), ('{"json":1}', 'no "url"'),
    ('{"url":"ftp://x/"}', "URL"), ('{"url":"http://x/","jsn":1}', 'no member "jsn"'),
    ('{"url":"http://x/","json":1,"data":"x"}', "exclude each other"),
    ('{"url":"http://x/","on_failure":"undo"}', "park or skip"),
    ('{"url":"http://x/","deadline":"soon"}', "duration"),
    ('{"url":"http://x/","headers":{"A b":"c"}}', "no header"),
    ('{"url":"http://x/","headers":{"Content-Length":"1"}}', "Content-Length is set by pawl"),
    ('{"url":"http://x/","headers":{"transfer-encoding":"chunked"}}', "is set by pawl"),
    ('{"url":"http://x/","headers":{"Connection":"Idempotency-Key"}}', "is set by pawl"),
    ('{"url":"http://x/","headers":{"Idempotency-Key":"other"}}', "is set by pawl"),
    ('{"url":"http://x/","key":"\\u00e9"}', "key"), ('{"url":7}', "wants a string"),
])
def test_a_bad_line_is_named_and_nothing_before_it_is_lost(queue, line, problem):
    ran = queue.run("add", "-", input=lines({"url": URL}, {"url": URL}) + line + "\n" +
                    lines({"url": URL}))
    assert ran.returncode == 65
    assert "line 3: " in ran.stderr and problem in ran.stderr
    assert len(ran.stdout.splitlines()) == len(queue.list()) == 2


def test_lines_take_what_they_leave_out_from_the_options(queue):
    queue.did("add", "-", "-X", "PATCH", "-H", "A: b", "--group", "g",
              input=lines({"url": URL, "json": [1, {"b": 2, "a": 1}], "headers": {"C": "d"}},
                          {"url": URL, "method": "PUT", "group": "h", "data": "text"}))
    first, second = (queue.show(str(row["id"])) for row in queue.list())
    assert (first["method"], first["order"], first["body"]) == ("PATCH", "g", '[1,{"a":1,"b":2}]')
    assert first["headers"] == [["A", "b"], ["C", "d"], ["Content-Type", "application/json"]]
    assert (second["method"], second["order"], second["body"]) == ("PUT", "h", "text")


def test_what_cannot_be_sent_is_not_queued(queue):
    assert "URL" in queue.refused(2, "add", "ftp://example.com/")
    assert "-H @FILE" in queue.refused(2, "add", "https://user:secret@example.com/")
    assert "group" in queue.refused(2, "add", "--group", "", URL)
    assert "deadline" in queue.refused(2, "add", "--deadline", "0", URL)


@pytest.mark.parametrize("text", ["{'a': 1}", '{"a":', "", "1 2"])
def test_what_is_no_json_is_not_queued_as_json(queue, text):
    """found: J7"""
    queue.store.unlink()
    assert "no JSON" in queue.refused(65, "add", "--json", text, URL)
    assert not queue.store.exists()


def test_Q9_the_same_under_another_key_is_the_one_that_is_there(queue):
    guarded = ("--dedupe-payload", "10m")

    def same(*arguments: str) -> list[str]:
        ran = queue.run("add", *guarded, *arguments)
        assert ran.returncode == 0 and "sends the same, and is" in ran.stderr
        return ran.stdout.split()

    first = queue.add(*guarded, "--json", '{"a":1,"b":2}', URL)
    assert same("--json", '{"b": 2, "a": 1.0}', URL) == [*first]
    assert same("--key", "mine", "--json", '{"a":1,"b":2}', URL) == [*first]
    assert queue.add(*guarded, "--key", first[1], "--json", '{"a":1,"b":2}', URL) == first
    others = [("--json", '{"a":1}', URL), ("--json", '{"a":1,"b":2}', URL + "/other"),
              ("-X", "PUT", "--json", '{"a":1,"b":2}', URL),
              ("-d", '{"a":1,"b":2}', "-H", "Content-Type: text/plain", URL)]
    assert len({queue.add(*guarded, *other)[0] for other in others} - {first[0]}) == 4
    ran = queue.run("add", *guarded, "-", input=lines({"url": URL, "json": 7},
                                                      {"url": URL, "json": 7}))
    one, other = ran.stdout.splitlines()
    assert (ran.returncode, one) == (0, other) and "line 2: " in ran.stderr
    assert len(queue.list()) == 6


def test_what_was_dropped_or_edited_is_not_the_same_any_more(queue):
    guarded = ("--dedupe-payload", "10m", "--json", '{"a":1}', URL)
    first, _ = queue.add(*guarded)
    queue.did("drop", first)
    second, _ = queue.add(*guarded)
    queue.did("edit", second, "--json", '{"a":2}')
    third, _ = queue.add(*guarded)
    assert len({first, second, third}) == 3


def test_of_adds_of_the_same_at_one_moment_one_is_added(queue):
    guarded = ("--dedupe-payload", "10m", "--json", '{"a":1}', URL)
    queue.add(URL)  # the store is there
    ran = at_once(6, lambda _: queue.run("add", *guarded))
    assert {one.returncode for one in ran} == {0}
    assert len({one.stdout for one in ran}) == 1 and len(queue.list()) == 2


# ---- list, show ----


def test_the_list_is_cut_at_its_limit_and_says_so(queue):
    queue.did("add", "-", input=lines(*[{"url": URL}] * 5))
    ran = queue.run("list", "--limit", "3", "--json")
    assert len(ran.stdout.splitlines()) == 3 and "only the first 3" in ran.stderr


def test_an_operation_that_is_not_there_is_not_shown(queue):
    queue.add(URL)
    assert "no operation 7" in queue.refused(1, "show", "7")
    assert queue.run("show", "x").returncode == 2


# ---- edit, drop, retry ----


def test_Q5_an_edit_mints_a_new_key(queue):
    identity, key = queue.add("--json", '{"a":1}', URL)
    edited, new = queue.did("edit", identity, "--json", '{"a":2}').split()
    assert edited == identity and UUID.fullmatch(new) and new != key
    before = queue.show(identity)["headers"]
    shown = queue.show(identity)
    assert (shown["key"], shown["body"], shown["attempts"]) == (new, '{"a":2}', 0)
    assert sorted(shown["headers"]) == sorted(before)


def test_a_dropped_operation_is_kept_as_dropped_and_cannot_be_changed(queue):
    identity, _ = queue.add(URL)
    queue.did("drop", identity)
    [row] = queue.list("--state", "dropped")
    assert row["state"] == "dropped" and row["ended_at"]
    assert "dropped" in queue.refused(1, "edit", identity, "-d", "x")
    assert "dropped" in queue.refused(1, "drop", identity)


def test_what_was_dropped_is_retried_and_what_is_done_is_not(queue):
    identity, _ = queue.add(URL)
    queue.did("retry", identity)
    queue.did("drop", identity)
    queue.did("retry", identity, "--reason", "after all")
    assert [row["state"] for row in queue.list()] == ["waiting"]
    queue.did("settle", identity, "--done")
    assert "is done" in queue.refused(1, "retry", identity)
    assert "is done" in queue.refused(1, "settle", identity, "--not-done")
    assert "either" in queue.refused(2, "settle", identity)


# ---- who did what ----

def acts(queue: Queue, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in queue.did("audit", "--json", *arguments).splitlines()]


def test_each_act_is_written_down_with_who_did_it(queue):
    identity, key = queue.add("--group", "g", URL)
    queue.did("retry", identity, "--reason", "why 0")
    new = queue.did("edit", identity, "-d", "x", "--force", "--reason", "why 1").split()[1]
    queue.did("pause", "--group", "g", "--reason", "why 2")
    queue.did("pause", "--group", "g")  # it is so already: no act
    queue.did("resume", "--group", "g", "--reason", "why 3")
    queue.did("drop", identity, "--reason", "why 4")
    queue.refused(1, "drop", identity)
    written = acts(queue)
    assert [act["act"] for act in written] == ["retry", "edit", "pause", "resume", "drop"]
    assert {act["actor"] for act in written} == {f"cli:{getpass.getuser()}"}
    assert [act["reason"] for act in written] == [f"why {i}" for i in range(5)]
    retry, edit, pause, resume, drop = written
    assert (retry["kind"], retry["task"], retry["from"], retry["to"]) == (
        "queue", int(identity), "waiting", "waiting")
    assert (edit["key"], edit["forced"], drop["key"], drop["to"]) == (key, True, new, "dropped")
    assert (pause["task"], pause["key"], pause["to"], resume["from"]) == (
        None, "g", "paused", "paused")
    shown = queue.run("audit", "--limit", "1")
    assert f" drop operation {identity} " in shown.stdout and shown.stdout.count("\n") == 1
    assert "these are the last 1 of 5" in shown.stderr


# ---- pause, resume ----


def test_a_paused_group_or_target_is_shown_until_it_is_resumed(queue):
    queue.add("--group", "g", URL)
    queue.did("pause", "--group", "g")
    queue.did("pause", "http://127.0.0.1:1")
    paused = queue.did("list")
    assert "group g is paused" in paused and "http://127.0.0.1:1 is paused" in paused
    queue.did("resume", "--group", "g")
    queue.did("resume", "http://127.0.0.1:1/any/path")
    assert "paused" not in queue.did("list")
