# SPDX-License-Identifier: Apache-2.0
"""`pawl queue drain`: what is queued is sent in order, under one key, until it is done, and has one
effect, whatever dies meanwhile. The service dedupes by key, as one that is retried must."""
from __future__ import annotations

import json
import os
import re
import signal
import time
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pawltest.gateway import PAWL, Clock, make_store, run
from pawltest.upstream import Reply, Upstream, closes, say
from pawltest.wire import PATIENCE, Request, eventually
from test_queue import Queue, lines

pytestmark = [pytest.mark.hooks, pytest.mark.file_only]


class Drained(Queue):
    """A queue whose drains go by the test's clock."""

    def __init__(self, store: Path, clock: Clock, upstream: Upstream):
        super().__init__(store)
        self.clock = clock
        self.url = f"http://127.0.0.1:{upstream.port}/operations"
        self.environment = {**os.environ, "PAWL_TEST_CLOCK": str(clock.path)}

    def run(self, command: str, *arguments: str, **more: Any) -> Any:
        environment = {**self.environment, **more.pop("crash", {})}
        return super().run(command, *arguments, env=environment, **more)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [str(PAWL), "queue", "drain", "--store", str(self.store), *arguments], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**self.environment, **environment})
        self.clock.processes.append(process)
        return process

    def end(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        _, printed = process.communicate(timeout=PATIENCE)
        self.clock.processes.remove(process)
        return process.returncode, printed

    def drain(self, *arguments: str, code: int = 0, **more: Any) -> str:
        ran = self.run("drain", *arguments, **more)
        assert ran.returncode == code, ran
        return ran.stderr

    def states(self) -> list[str]:
        return [row["state"] for row in self.list()]


@pytest.fixture
def queue(tmp_path: Path, clock: Clock, upstream: Upstream) -> Drained:
    return Drained(make_store(tmp_path / "queue.db"), clock, upstream)


@pytest.fixture
def deduping(upstream: Upstream) -> Upstream:
    """It does nothing twice under one key."""
    seen: set[str] = set()

    def reply(request: Request) -> Reply:
        key = request["Idempotency-Key"]
        again = key in seen
        seen.add(key)
        return say(201, {"key": key}, effect=not again)

    upstream.default = reply
    return upstream


def keys_of(upstream: Upstream) -> list[str]:
    return [request["Idempotency-Key"] for request in upstream.requests]


# ---- order, and what is sent ----


def test_what_is_queued_is_sent_once_and_as_it_was_given(queue, upstream):
    identity, key = queue.add("-X", "PUT", "--json", '{"a":1}', "-H", "If-Match: 7", queue.url)
    queue.drain()
    [request] = upstream.requests
    assert (request.method, request.target, request.body) == ("PUT", "/operations", b'{"a":1}')
    assert request["Idempotency-Key"] == key and request["Idempotency-Attempt"] == "1"
    assert request["If-Match"] == "7" and request["Content-Type"] == "application/json"
    shown = queue.show(identity)
    assert (shown["state"], shown["status"], shown["attempts"]) == ("done", 201, 1)
    queue.drain()
    assert len(upstream.requests) == 1


def test_an_attempt_says_how_long_after_it_was_due_its_first_byte_left(queue, upstream):
    identity, _ = queue.add("-d", "{}", queue.url)
    queue.clock.advance(90)
    queue.drain()
    assert len(upstream.requests) == 1
    [waited] = re.findall(r"(\d+) ms after it was due, took ", queue.did("show", identity))
    assert 90_000 <= int(waited) < 90_000 + PATIENCE * 1000


def test_a_group_is_sent_in_order_while_others_go_on(queue, upstream):
    added = queue.did("add", "-", input=lines(*[
        {"url": queue.url, "group": f"g{n % 3}", "json": n} for n in range(30)]))
    queue.drain("-j", "8")
    keys = [line.split()[1] for line in added.splitlines()]
    for group in range(3):
        mine = keys[group::3]
        assert [key for key in keys_of(upstream) if key in mine] == mine
    assert queue.states() == ["done"] * 30


# ---- Q2 to Q9 ----


@pytest.mark.parametrize("point", ["before_outcome_commit", "before_commit"])
def test_Q2_a_lost_answer_and_a_killed_app_have_one_effect_under_one_key(queue, deduping, point):
    identity, key = queue.add("-d", "a=1", queue.url)
    deduping.then(closes())
    queue.drain("--once", code=75)
    queue.clock.advance(10)
    died = queue.run("drain", crash={"PAWL_CRASH_AT": point})
    assert died.returncode == -signal.SIGKILL
    queue.drain()
    assert set(keys_of(deduping)) == {key}
    assert deduping.effects() <= 2  # the first one answered nothing, and was not counted by key
    assert queue.show(identity)["state"] == "done"


def test_Q3_what_has_succeeded_is_not_sent_again_by_send(queue, upstream):
    _, key = queue.add("-d", "a=1", queue.url)
    queue.drain()
    sent = run("send", "--key", key, "-d", "a=1", queue.url, "--store", queue.store,
               env=queue.environment)
    assert sent.returncode == 0 and len(upstream.requests) == 1
    queue.clock.advance(8 * 86400)
    sent = run("send", "--key", key, "-d", "a=1", queue.url, "--store", queue.store,
               env=queue.environment)
    assert sent.returncode == 0 and len(upstream.requests) == 2


def test_Q3_what_send_has_done_is_not_sent_again_by_the_queue(queue, upstream):
    run("send", "--key", "k1", "-d", "a=1", queue.url, "--store", queue.store,
        env=queue.environment)
    identity, _ = queue.add("--key", "k1", "-d", "a=1", queue.url)
    queue.drain()
    assert len(upstream.requests) == 1
    assert queue.show(identity)["state"] == "done"


def test_a_key_that_was_used_for_something_else_is_dead_without_a_request(queue, upstream):
    run("send", "--key", "k1", "-d", "a=1", queue.url, "--store", queue.store,
        env=queue.environment)
    identity, _ = queue.add("--key", "k1", "-d", "a=2", queue.url)
    queue.drain(code=1)
    assert len(upstream.requests) == 1
    assert queue.show(identity)["reason"] == "payload_mismatch"


@pytest.mark.parametrize("on_failure", ["park", "skip"])
def test_Q4_a_final_failure_is_dead_and_its_group_is_parked_or_goes_on(queue, upstream, on_failure):
    bad = [b"1"]
    upstream.default = lambda request: (
        say(422, {"error": "no"}) if request.body in bad else say(201))
    first, key = queue.add("--group", "g", "--on-failure", on_failure, "-d", "1", queue.url)
    second, _ = queue.add("--group", "g", "-d", "2", queue.url)
    other, _ = queue.add("-d", "3", queue.url)
    queue.drain(code=1)
    [dead] = queue.list("--dead")
    assert (dead["id"], dead["key"], dead["status"]) == (int(first), key, 422)
    assert dead["reason"] and dead["attempts"] == 1
    assert queue.show(second)["state"] == ("parked" if on_failure == "park" else "done")
    assert queue.show(other)["state"] == "done"
    bad.clear()
    queue.did("retry", first)
    queue.drain()
    assert queue.states() == ["done"] * 3
    assert keys_of(upstream).count(key) == 2


def test_dropping_a_dead_operation_lets_its_group_go_on(queue, upstream):
    upstream.then(say(422))
    first, _ = queue.add("--group", "g", queue.url, "-d", "1")
    queue.add("--group", "g", queue.url, "-d", "2")
    queue.drain(code=1)
    queue.did("drop", first)
    queue.drain()
    assert queue.states() == ["dropped", "done"]


def test_Q5_an_edited_operation_is_sent_under_its_new_key(queue, upstream):
    upstream.then(say(503))
    identity, key = queue.add("--json", '{"a":1}', queue.url)
    queue.drain("--once", code=75)
    _, new = queue.did("edit", identity, "--json", '{"a":2}').split()
    queue.drain()
    assert keys_of(upstream) == [key, new] and upstream.requests[1].body == b'{"a":2}'


def test_Q5_after_an_attempt_in_doubt_an_edit_needs_force(queue, upstream):
    upstream.then(closes())
    identity, _ = queue.add("--json", '{"a":1}', queue.url)
    queue.drain("--once", code=75)
    assert "--force" in queue.refused(76, "edit", identity, "--json", "2")
    queue.did("edit", identity, "--json", "2", "--force")


def test_what_is_busy_or_in_doubt_is_no_final_failure(queue, upstream):
    """found: G1. What is final while an attempt is in doubt is dead, and says so."""
    busy = say(409, {"error_code": "CONFLICT.idempotency.outcome_unknown", "retryable": True},
               ("Content-Type", "application/problem+json"))
    upstream.then(closes(effect=False), busy, say(409), busy)
    identity, key = queue.add("-d", "a", queue.url)
    for _ in range(4):
        queue.drain("--once", code=75)
        queue.clock.advance(60)
    assert queue.show(identity)["attempts"] == 1 and queue.show(identity)["in_doubt"]
    queue.drain()
    assert keys_of(upstream) == [key] * 5 and queue.show(identity)["state"] == "done"
    upstream.then(closes(effect=False), say(422))
    identity, _ = queue.add("-d", "b", queue.url)
    queue.drain("--once", code=75)
    queue.clock.advance(60)
    queue.drain(code=1)
    row = queue.show(identity)
    assert (row["state"], row["reason"], row["in_doubt"]) == ("dead", "in_doubt", True)


def test_where_the_service_itself_does_not_know_an_edit_needs_force(queue, upstream):
    """found: G1. An earlier attempt under that key may have been somebody else's."""
    upstream.then(say(409, {"error_code": "CONFLICT.idempotency.outcome_unknown",
                            "retryable": False, "safe_new_key": False},
                      ("Content-Type", "application/problem+json"), effect=False))
    identity, _ = queue.add("--json", '{"a":1}', queue.url)
    queue.drain(code=1)
    row = queue.show(identity)
    assert (row["state"], row["reason"], row["in_doubt"]) == ("dead", "in_doubt", True)
    assert "--force" in queue.refused(76, "edit", identity, "--json", "2")


def test_a_409_while_an_attempt_is_in_doubt_is_waited_out_for_a_quarter_of_an_hour(queue, upstream):
    upstream.then(closes(effect=False), *[say(409)] * 3)
    identity, _ = queue.add("-d", "a", queue.url)
    for seconds in (60, 890, 20):
        queue.drain("--once", code=75)
        queue.clock.advance(seconds)
    queue.drain(code=1)
    row = queue.show(identity)
    assert (row["state"], row["reason"], row["attempts"]) == ("dead", "in_doubt", 2)


def test_what_a_caller_knows_of_statuses_is_kept_with_the_operation(queue, upstream):
    """found: G4."""
    upstream.default = say(409, effect=False)
    identity, _ = queue.add("--done", "409", "--later", "410,423", "-d", "a", queue.url)
    upstream.then(say(423))
    queue.drain("--once", code=75)
    queue.clock.advance(60)
    queue.drain()
    assert queue.show(identity)["state"] == "done" and "done=409" in queue.did("show", identity)
    assert "two meanings" in queue.refused(2, "add", "--done", "409", "--later", "409", queue.url)

    upstream.default = say(201)
    upstream.then(say(200, {"errors": [{"code": "THROTTLED"}]}, effect=False))
    identity, key = queue.add("--not-done", "/errors/0/code=THROTTLED", "-d", "b", queue.url)
    queue.drain("--once", code=75)
    assert queue.show(identity)["reason"] == "not_done" and not queue.show(identity)["in_doubt"]
    queue.clock.advance(60)
    queue.drain()
    assert keys_of(upstream)[-2:] == [key, key] and queue.show(identity)["state"] == "done"
    upstream.default = say(409, effect=False)

    def each(code: int, *words: str) -> None:
        ran = run("each", "--store", str(queue.store), "--key", "k{}", "--send",
                  f"POST {queue.url}", *words, input="1\n")
        assert ran.returncode == code, ran
    each(1)
    each(0, "--done", "409")


def test_Q7_a_partial_success_is_done_and_replayed(queue, deduping):
    deduping.then(say(502, effect=False))
    identity, key = queue.add("-d", "a", queue.url)
    queue.drain("--once", code=75)
    queue.clock.advance(5)
    queue.drain()
    assert keys_of(deduping) == [key, key] and deduping.effects() == 1
    assert queue.show(identity)["attempts"] == 2


def test_headers_of_a_file_are_read_at_each_attempt(queue, upstream, tmp_path):
    token = tmp_path / "token"
    token.write_text("Authorization: Bearer old\n")
    upstream.then(say(503))
    queue.add("-H", f"@{token}", "-d", "a", queue.url)
    queue.drain("--once", code=75)
    token.write_text("Authorization: Bearer new\n")
    queue.clock.advance(5)
    queue.drain()
    assert [request["Authorization"] for request in upstream.requests] == \
        ["Bearer old", "Bearer new"]


def write_token(path: Path, value: str) -> None:
    path.write_text(f"Authorization: {value}\n")


def by_token(request: Request) -> Reply:
    return say(201) if request["Authorization"] == "new" else say(401, {"no": 1}, effect=False)


def test_a_token_that_has_expired_kills_nothing(queue, upstream, tmp_path):
    """found: J1. What is sent with it waits, in order; what is sent otherwise goes on."""
    token = tmp_path / "token"
    write_token(token, "old")
    upstream.default = by_token
    with_it = [queue.add("--group", "u1", "-H", f"@{token}", "-d", n, queue.url) for n in "123"]
    queue.add("-H", "Authorization: new", "-d", "4", queue.url)
    said = queue.drain(code=75)
    assert said.startswith(f"pawl queue drain: http://127.0.0.1:{upstream.port} refuses who sends "
                           f"(401); renew {token}\n")
    assert queue.states() == ["waiting"] * 3 + ["done"] and len(upstream.requests) == 2
    row = queue.show(with_it[0][0])
    assert (row["reason"], row["attempts"], row["status"]) == ("credentials", 0, 401)
    queue.drain("--once", code=75)  # each drain tries them
    assert len(upstream.requests) == 3
    write_token(token, "new")
    queue.drain()
    assert keys_of(upstream)[3:] == [key for _, key in with_it]
    assert queue.show(with_it[0][0])["attempts"] == 1


def test_a_header_that_an_edit_gives_is_not_sent_from_the_file_too(queue, upstream, tmp_path):
    (tmp_path / "headers").write_text("Authorization: Bearer old\nX-Shop: 7\n")
    made, _ = queue.add("-H", f"@{tmp_path / 'headers'}", "-d", "a", queue.url)
    queue.did("edit", made, "-H", "Authorization: Bearer new")
    queue.drain()
    [request] = upstream.requests
    assert sorted(value for name, value in request.headers
                  if name.lower() in ("authorization", "x-shop")) == ["7", "Bearer new"]


def test_what_is_wrong_with_the_service_takes_no_credentials(queue, upstream, tmp_path):
    """They are still the ones that it refused, and are tried less and less often."""
    write_token(tmp_path / "token", "old")
    made = [queue.add("-H", f"@{tmp_path / 'token'}", "-d", n, queue.url)[0] for n in "123"]
    upstream.default = lambda request: say(503 if len(upstream.requests) % 2 else 401, effect=False)
    drain = queue.start("--follow")
    eventually(lambda: "credentials" in {queue.show(one)["reason"] for one in made}, "a refusal")
    before = len(upstream.requests)
    for _ in range(60):
        queue.clock.advance(1)
        time.sleep(0.05)
    assert len(upstream.requests) - before < 20
    drain.send_signal(signal.SIGTERM)
    assert queue.end(drain)[0] == 75


def test_a_drain_that_follows_goes_on_once_the_token_is_there(queue, upstream, tmp_path):
    """found: J1. A doubt stays, and so does the key where headers are edited."""
    token = tmp_path / "token"
    write_token(token, "old")
    upstream.then(closes(effect=False))
    upstream.default = by_token
    first = queue.add("-H", f"@{token}", "-d", "a", queue.url)
    others = [queue.add("-H", f"@{token}", "-d", n, queue.url) for n in "1234567"]
    plain = queue.add("-H", "Authorization: old", "-d", "b", queue.url)
    drain = queue.start("--follow")
    eventually(lambda: {queue.show(one)["reason"] for one, _ in (*others, plain)} ==
               {"credentials"}, "the refusals")
    assert len(upstream.requests) < 15, "one tries for all of them"
    write_token(token, "new")
    queue.clock.run_until(lambda: queue.states().count("done") == 8, step=0.5)
    assert queue.did("edit", plain[0], "-H", "Authorization: new").split()[1] == plain[1]
    queue.clock.run_until(lambda: queue.states().count("done") == 9, step=0.5)
    drain.send_signal(signal.SIGTERM)
    assert queue.end(drain)[0] == 0 and upstream.effects() == 9
    assert "part of what is sent" in queue.refused(2, "edit", first[0], "-H", "If-Match: 1")


def test_the_headers_of_all_that_go_to_one_place_are_edited_at_once(queue, upstream, tmp_path):
    upstream.default = by_token
    write_token(tmp_path / "old", "old")
    made = [queue.add("--group", "g", "-H", f"@{tmp_path / 'old'}", "-H", "A: b", "-d", n,
                      queue.url) for n in "123"]
    elsewhere = queue.add("-H", "Authorization: old", queue.url + "2/x")
    queue.drain(code=75)
    said = queue.did("edit", "--to", queue.url, "-H", "Authorization: new")
    assert [line.split() for line in said.splitlines()] == [list(one) for one in made]
    assert queue.show(made[0][0])["reason"] == "credentials"
    write_token(tmp_path / "new", "new")
    queue.did("edit", "--to", queue.url, "-H", f"@{tmp_path / 'new'}")
    queue.drain(code=75)
    assert queue.states() == ["done"] * 3 + ["waiting"] and elsewhere
    assert [request["A"] for request in upstream.requests[-4:] if request["A"]] == ["b"] * 3
    both = [made[0][0], "--to", queue.url, "-H", "A: c"]
    for words in ([], ["--to", queue.url, "-d", "1"], both):
        queue.refused(2, "edit", *words)


def test_which_statuses_wait_for_credentials_is_the_caller_s_to_say(queue, upstream):
    upstream.default = say(403, effect=False)
    for busy in ("409", "429,403", "503"):
        assert "of 4xx" in queue.refused(2, "add", "--wait-on", busy, "-d", "a", queue.url)
    waits, _ = queue.add("--wait-on", "403,423", "-d", "a", queue.url)
    queue.drain(code=75)
    assert queue.show(waits)["reason"] == "credentials"
    gates = {b"a": upstream.gate(), b"b": upstream.gate()}
    upstream.default = lambda request: say(403, gate=gates[request.body], effect=False)
    queue.add("-d", "b", queue.url)
    drain = queue.start("--once")
    for gate in gates.values():
        gate.wait_for()
    gates[b"a"].open()
    eventually(lambda: queue.show(waits)["state"] == "waiting", "the refusal")
    gates[b"b"].open()
    code, said = queue.end(drain)
    assert code == 1 and "refuses who sends (403)" in said, "one that is final does not end it"
    queue.did("drop", waits)
    upstream.default = say(401, effect=False)
    ends, _ = queue.add("--final-on", "401", "-d", "b", queue.url)
    queue.drain(code=1)
    assert queue.show(ends)["reason"] == "final"


def test_an_operation_whose_header_file_is_gone_waits(queue, upstream, tmp_path):
    (tmp_path / "token").write_text("A: b\n")
    identity, _ = queue.add("-H", f"@{tmp_path / 'token'}", queue.url)
    upstream.default = say(302, effect=False)
    queue.drain("--once", code=75)
    assert queue.show(identity)["reason"] == "portal"
    (tmp_path / "token").unlink()
    queue.clock.advance(600)
    queue.drain("--once", code=75)
    shown = queue.show(identity)
    assert (shown["state"], shown["reason"]) == ("waiting", "unreadable")
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("line", ["Content-Length: 0", "Transfer-Encoding: chunked",
                                  "Idempotency-Key: other", "Connection: Idempotency-Key"])
def test_a_file_of_headers_that_would_reframe_a_request_is_not_sent(
        queue, upstream, tmp_path, line):
    (tmp_path / "token").write_text(line + "\n")
    identity, _ = queue.add("-H", f"@{tmp_path / 'token'}", "-d", "abc", queue.url)
    queue.drain("--once", code=75)
    assert queue.show(identity)["state"] == "waiting" and not upstream.requests


def test_a_redirect_that_is_remembered_is_dead_and_not_done_later(queue, upstream):
    upstream.default = lambda request: say(303, None, ("Idempotency-Status", "stored"))
    identity, _ = queue.add("-d", "a", queue.url)
    queue.drain(code=1)
    queue.did("retry", identity)
    queue.drain(code=1)
    assert queue.show(identity)["state"] == "dead" and len(upstream.requests) == 1


def test_what_is_paused_is_not_sent(queue, upstream):
    queue.add("--group", "g", queue.url)
    queue.add(queue.url + "/other")
    queue.did("pause", "--group", "g")
    queue.drain("--once", code=75)
    assert [request.target for request in upstream.requests] == ["/operations/other"]
    queue.did("resume", "--group", "g")
    queue.drain()
    assert len(upstream.requests) == 2


def test_a_service_that_is_down_costs_no_attempt(queue, upstream):
    upstream.stop()
    identity, _ = queue.add(queue.url)
    queue.drain("--once", code=75)
    assert queue.show(identity)["attempts"] == 0
    upstream.start()
    queue.clock.advance(10)
    queue.drain()
    assert queue.show(identity)["attempts"] == 1


# ---- kill -9 ----


@pytest.mark.parametrize("point", ["before_begin", "after_claim_commit", "before_connect",
                                   "after_response_body", "before_outcome_commit", "inside_batch",
                                   "before_commit", "after_commit", "after_outcome_commit"])
def test_kill_9_of_a_drain_at_any_point_has_one_effect_under_one_key(queue, deduping, point):
    added = queue.did("add", "-", input=lines(*[
        {"url": queue.url, "json": n, "group": f"g{n % 2}"} for n in range(4)]))
    keys = [line.split()[1] for line in added.splitlines()]
    died = queue.run("drain", crash={"PAWL_CRASH_AT": f"{point}:2"})
    assert died.returncode == -signal.SIGKILL
    queue.drain()
    assert queue.states() == ["done"] * 4
    assert sorted(set(keys_of(deduping))) == sorted(keys) and deduping.effects() == 4


@pytest.mark.parametrize("point", ["inside_batch", "before_commit", "after_commit"])
def test_kill_9_of_an_add_at_any_point_is_healed_by_adding_again(queue, point):
    operations = lines(*[{"url": queue.url, "json": n, "key": f"k{n}"} for n in range(200)])
    queue.add(queue.url)
    died = queue.run("add", "-", input=operations, crash={"PAWL_CRASH_AT": f"{point}:2"})
    assert died.returncode == -signal.SIGKILL
    told = [line.split()[1] for line in died.stdout.splitlines()]
    stored = [row["key"] for row in queue.list()][1:]
    assert stored[:len(told)] == told
    queue.did("add", "-", input=operations)
    assert [row["key"] for row in queue.list()][1:] == [f"k{n}" for n in range(200)]


# ---- drainers ----


def test_a_second_drainer_is_refused_and_names_the_first(queue, upstream):
    gate = upstream.hold()
    queue.add("-d", "a", queue.url)
    first = queue.start()
    gate.wait_for()
    assert str(first.pid) in queue.drain(code=75)
    gate.open()
    assert queue.end(first) == (0, "")
    assert len(upstream.requests) == 1


def test_an_operation_that_is_being_sent_is_not_edited(queue, upstream):
    gate = upstream.hold()
    identity, _ = queue.add("-d", "a", queue.url)
    first = queue.start()
    gate.wait_for()
    assert "being sent" in queue.refused(75, "edit", identity, "-d", "b")
    gate.open()
    assert queue.end(first)[0] == 0


def test_a_payload_that_kills_its_sender_ends_dead(queue, upstream):
    identity, _ = queue.add("-d", "a", "--attempts", "3", queue.url)
    for _ in range(3):
        died = queue.run("drain", crash={"PAWL_CRASH_AT": "before_connect"})
        assert died.returncode == -signal.SIGKILL
        queue.clock.advance(400)
    queue.drain(code=1)
    shown = queue.show(identity)
    assert (shown["state"], shown["reason"], shown["attempts"]) == ("dead", "attempts", 3)


def test_follow_sends_what_is_added_until_it_is_told_to_stop(queue, upstream):
    process = queue.start("--follow")
    queue.add("-d", "a", queue.url)
    upstream.wait_for(1)
    queue.add("-d", "b", queue.url)
    queue.clock.run_until(lambda: len(upstream.requests) == 2)
    eventually(lambda: queue.states() == ["done", "done"], "both to be done")
    process.send_signal(signal.SIGTERM)
    assert queue.end(process)[0] == 0


# ---- stats ----


def test_what_a_drain_retried_is_counted_in_the_store(queue, upstream):
    later = say(503, None, ("Retry-After", "60"))
    upstream.then(later, later)
    queue.did("add", "-", input=lines(*[{"url": queue.url}] * 3))
    queue.drain("--once", code=75)
    queue.clock.advance(200)
    queue.drain()
    rows = [json.loads(line) for line in
            run("stats", "--json", "--store", queue.store).stdout.splitlines()]
    assert {row["name"]: row["value"] for row in rows} == {
        "pawl_retry_operations_total": 3, "pawl_retry_attempts_total": 2}
    counted = run("stats", "--prometheus", "--store", queue.store).stdout
    assert 'pawl_retry_operations_total{profile="queue",counted_in="store"} 3\n' in counted
    assert 'pawl_retry_attempts_total{profile="queue",counted_in="store"} 2\n' in counted
    assert "# TYPE pawl_retry_exhausted_total counter" in counted


def test_send_takes_headers_from_a_file_too(queue, upstream, tmp_path):
    (tmp_path / "headers").write_text("Authorization: Bearer 7\n\nX-Two: b\n")
    sent = run("send", "-H", f"@{tmp_path / 'headers'}", "-d", "a", queue.url,
               "--store", queue.store, env=queue.environment)
    assert sent.returncode == 0
    [request] = upstream.requests
    assert (request["Authorization"], request["X-Two"]) == ("Bearer 7", "b")
    sent = run("send", "-H", "@/none", queue.url, "--store", queue.store)
    assert sent.returncode == 2 and "cannot read" in sent.stderr
