# SPDX-License-Identifier: Apache-2.0
"""`retry:` of a rule: further attempts by the gateway itself."""
from __future__ import annotations

import json
import signal
import time

import pytest

from pawltest.admin import with_admin
from pawltest.gateway import stands_still
from pawltest.upstream import Reply, closes, resets, say
from pawltest.wire import Broken, Later, at_once, eventually

pytestmark = pytest.mark.no_store

PATH = "/refunds"
BODY = {"amount": 5}
UNKNOWN = "CONFLICT.idempotency.outcome_unknown"


def config(unknown: str = "hold", retry: str = "user_facing", **more: str) -> str:
    rule = {"name": "refunds.create", "match": "POST /refunds", "timeout": "20s",
            "unknown": unknown, "retry": retry, **more}
    return "tenant: none\nrules:\n  - {" + ", ".join(f"{k}: {v}" for k, v in rule.items()) + "}\n"


def told(gateway, event: str, requests: int = 1) -> list[dict]:
    """The lines of an event, once so many requests have theirs."""
    eventually(lambda: len(gateway.lines("request")) >= requests, "the lines of the requests")
    return gateway.lines(event)


def numbers(upstream) -> list[str]:
    return [request["Idempotency-Attempt"] for request in upstream.requests]


def not_done(status: int, *headers: tuple[str, str]) -> Reply:
    return say(status, {"no": True}, *headers, effect=False)


# ---- what is tried again ----


@pytest.mark.parametrize("unknown", ["hold", "retry", '{probe: "GET /x/{key}"}'])
def test_r3_what_was_surely_not_done_is_tried_again_under_one_token(pawl, upstream, unknown):
    gateway = pawl(config(unknown))
    upstream.then(not_done(503), not_done(429), not_done(425))
    answer = gateway.post(PATH, BODY, key="k1")
    assert answer.mark == (201, "stored")
    assert upstream.effects() == 1 and numbers(upstream) == ["1", "2", "3", "4"]
    assert len({request["Idempotency-Token"] for request in upstream.requests}) == 1
    assert {request["Idempotency-Key"] for request in upstream.requests} == {"k1"}
    assert {request.body for request in upstream.requests} == {json.dumps(BODY).encode()}
    assert gateway.post(PATH, BODY, key="k1")["Idempotency-Status"] == "replayed"
    delays = [line["delay_ms"] for line in told(gateway, "retry")]
    assert 100 <= delays[0] <= 200 <= delays[1] <= 400 <= delays[2] <= 800


def test_r3_a_408_is_tried_again_at_once(pawl, upstream):
    gateway = pawl(config())
    upstream.then(not_done(408))
    assert gateway.post(PATH, BODY, key="k1").status == 201
    assert [line["delay_ms"] for line in told(gateway, "retry")] == [0]


def test_r3_retry_after_is_kept(pawl, upstream):
    gateway = pawl(config())
    upstream.then(not_done(503, ("Retry-After", "1")))
    began = time.monotonic()
    assert gateway.post(PATH, BODY, key="k1").status == 201
    assert time.monotonic() - began >= 1
    assert 1000 <= told(gateway, "retry")[0]["delay_ms"] <= 2000


@pytest.mark.parametrize("hint", ["1e300", "-1", "0,5s", "soon", "Sun, 31 Jun 2030 00:00:00 GMT"])
def test_a_hint_that_is_none_is_ignored(pawl, upstream, hint):
    gateway = pawl(config())
    upstream.then(not_done(503, ("Retry-After", hint)))
    assert gateway.post(PATH, BODY, key="k1").status == 201
    assert told(gateway, "retry")[0]["delay_ms"] <= 200


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 501, 505])
@pytest.mark.parametrize("unknown", ["hold", "retry"])
def test_r3_what_would_end_the_same_way_is_sent_once(pawl, upstream, status, unknown):
    gateway = pawl(config(unknown))
    upstream.then(not_done(status))
    assert gateway.post(PATH, BODY, key="k1").status == status
    assert len(upstream.requests) == 1 and not told(gateway, "retry")


def test_r4_a_broken_answer_and_a_502_are_tried_again_under_unknown_retry(pawl, upstream):
    gateway = pawl(config("retry"))
    upstream.then(closes(effect=False), not_done(502))
    assert gateway.post(PATH, BODY, key="k1").status == 201
    assert upstream.effects() == 1 and numbers(upstream) == ["1", "2", "3"]
    lines = told(gateway, "retry")
    assert [(line["attempt"], line["reason"], line["status"]) for line in lines] == \
        [(1, "broke off", 0), (2, "status", 502)]
    assert {line["profile"] for line in lines} == {"user_facing"}
    assert told(gateway, "request")[-1]["attempt"] == 3


@pytest.mark.hooks
def test_r4_hangs_then_502(pawl, upstream, clock):
    """A time for each try ends the one that hangs; then 502, then 201."""
    gateway = pawl(config("retry", "{profile: user_facing, try_timeout: 4s}"))
    gate = upstream.hold(effect=False)
    upstream.then(not_done(502))
    answer = Later(lambda: gateway.post(PATH, BODY, key="k1"))
    gate.wait_for()
    clock.advance(4)
    assert (answer.result().status, answer.result()["Idempotency-Status"]) == (201, "stored")
    assert upstream.effects() == 1 and numbers(upstream) == ["1", "2", "3"]
    assert {request["Idempotency-Key"] for request in upstream.requests} == {"k1"}
    lines = told(gateway, "retry")
    assert [(line["attempt"], line["reason"], line["status"]) for line in lines] == \
        [(1, "timeout", 0), (2, "status", 502)]
    assert 100 <= lines[0]["delay_ms"] <= 200 <= lines[1]["delay_ms"] <= 400


@pytest.mark.hooks
@pytest.mark.parametrize("later", [not_done(503, ("Retry-After", "60")), not_done(404)])
def test_a_try_cut_by_its_time_is_in_doubt_whatever_a_later_one_says(pawl, upstream, clock, later):
    gateway, admin = with_admin(pawl, config("retry", "{try_timeout: 4s}", remember="success"))
    gate = upstream.hold()
    upstream.then(later)
    answer = Later(lambda: gateway.post(PATH, BODY, key="k1"))
    gate.wait_for()
    clock.advance(4)
    assert answer.result()["Idempotency-Status"] == "released"
    record, = admin.keys()
    assert record["in_doubt"] is True, record


@pytest.mark.hooks
def test_a_try_cut_by_its_time_is_not_sent_again_under_hold(pawl, upstream, clock):
    gateway = pawl(config("hold", "{try_timeout: 4s}"))
    gate = upstream.hold()
    answer = Later(lambda: gateway.post(PATH, BODY, key="k1"))
    gate.wait_for()
    clock.advance(4)
    assert (answer.result().status, answer.result()["Idempotency-Status"]) == (504, "unknown")
    assert gateway.post(PATH, BODY, key="k1").is_problem(409, UNKNOWN)
    assert len(upstream.requests) == upstream.effects() == 1


@pytest.mark.hooks
def test_the_time_of_all_tries_cuts_a_try_that_has_more_of_its_own(pawl, upstream, clock):
    gateway = pawl(config("retry", "{profile: background, try_timeout: 15s}"))
    gates = [upstream.hold(), upstream.hold()]
    answer = Later(lambda: gateway.post(PATH, BODY, key="k1"))
    gates[0].wait_for()
    clock.advance(15)
    gates[1].wait_for()
    clock.advance(5)
    assert (answer.result().status, answer.result()["Idempotency-Status"]) == (504, "released")
    assert len(upstream.requests) == 2


def test_the_delays_of_a_rule_are_its_own(pawl, upstream):
    gateway, admin = with_admin(pawl, config(retry="{profile: api, schedule: [0s, 300ms]}"))
    upstream.default = not_done(503)
    assert gateway.post(PATH, BODY, key="k1").status == 503
    delays = [line["delay_ms"] for line in told(gateway, "retry")]
    assert len(delays) == 2 and delays[0] == 0 and 300 <= delays[1] <= 330
    assert told(gateway, "retries_end")[0]["ended_by"] == "attempts"
    assert admin.value("pawl_retry_attempts_total", profile="api") == 2


@pytest.mark.parametrize("hint", ["60", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_r5_a_hint_beyond_the_deadline_ends_at_once(pawl, upstream, hint):
    gateway, admin = with_admin(pawl, config())
    upstream.then(not_done(503, ("Retry-After", hint)))
    answer = gateway.post(PATH, BODY, key="k1")
    assert (answer.status, answer["Idempotency-Status"], answer["Retry-After"]) == \
        (503, "released", hint)
    assert len(upstream.requests) == 1
    assert told(gateway, "retries_end")[0]["ended_by"] == "retry_after"
    assert admin.value("pawl_retry_exhausted_total", profile="user_facing") == 1


RUNS = ("Error-Code", "CONFLICT.idempotency.in_progress")


@pytest.mark.parametrize("unknown", ["hold", "retry", '{probe: "GET /x/{key}"}'])
def test_a_services_own_409_in_progress_is_waited_out(pawl, upstream, unknown):
    """found: R19"""
    gateway = pawl(config(unknown))
    upstream.then(not_done(409, RUNS), not_done(409, RUNS, ("Retry-After", "1")))
    answer = gateway.post(PATH, BODY, key="k1")
    assert answer.mark == (201, "stored")
    assert upstream.effects() == 1 and numbers(upstream) == ["1", "2", "3"]


@pytest.mark.parametrize("remember", ["final", "all"])
def test_a_services_own_409_in_progress_is_not_kept(pawl, upstream, remember):
    """found: R19"""
    gateway = pawl(config(retry="none", remember=remember))
    upstream.then(not_done(409, RUNS))
    answer = gateway.post(PATH, BODY, key="k1")
    assert answer.mark == (409, "released")
    assert gateway.post(PATH, BODY, key="k1")["Idempotency-Status"] == "stored"
    assert upstream.effects() == 1


def test_a_services_own_409_in_progress_leaves_an_earlier_attempt_in_doubt(pawl, upstream):
    """found: R19"""
    gateway = pawl(config(retry="none", unknown="retry"))
    upstream.then(closes(effect=True), not_done(409, RUNS))
    assert gateway.post(PATH, BODY, key="k1").status == 502
    assert gateway.post(PATH, BODY, key="k1").status == 409
    gateway.reload(config(retry="none", unknown="hold"))
    answer = gateway.post(PATH, BODY, key="k1")
    assert (answer.status, answer["Error-Code"]) == (409, UNKNOWN)
    assert upstream.effects() == 1


def test_r6_a_409_in_progress_is_waited_out_where_the_rule_says_not_done(pawl, upstream):
    gateway = pawl(config(not_done="[409]"))
    busy = {"error": {"code": "CONCURRENT_REQUEST"}}
    upstream.then(say(409, busy, effect=False))
    began = time.monotonic()
    assert gateway.post(PATH, BODY, key="k1").status == 201
    assert time.monotonic() - began >= 2 and len(upstream.requests) == 2
    upstream.then(say(409, {"error": {"code": "OTHER"}}, effect=False))
    assert gateway.post(PATH, BODY, key="k2").status == 409
    assert len(upstream.requests) == 3


# ---- what is not ----


@pytest.mark.parametrize("reply", [closes(), resets(), say(500), say(502), say(504)])
def test_r7_under_hold_nothing_that_may_have_happened_is_sent_again(pawl, upstream, reply):
    """found: L14"""
    gateway = pawl(config("hold"))
    upstream.then(reply)
    first = gateway.post(PATH, BODY, key="k1")
    assert (first.status // 100, first["Idempotency-Status"]) == (5, "unknown")
    assert first["Error-Code"]
    again = gateway.post(PATH, BODY, key="k1")
    assert again.is_problem(409, UNKNOWN)
    problem = again.json
    assert problem["retryable"] is False and problem["safe_new_key"] is False
    assert "the operation may have happened" in problem["hint"]
    assert len(upstream.requests) == 1 and upstream.effects() == 1
    assert not told(gateway, "retry", 2)
    assert [line["ended_by"] for line in gateway.lines("retries_end")] == ["unknown"]


def test_r7_a_502_once_is_healed_under_unknown_retry(pawl, upstream):
    gateway = pawl(config("retry"))
    upstream.then(not_done(502))
    answer = gateway.post(PATH, BODY, key="k1")
    assert answer.mark == (201, "stored")
    assert len(upstream.requests) == 2 and upstream.effects() == 1


def test_a_502_in_doubt_is_probed_and_not_sent_again(pawl, upstream):
    gateway = pawl(config('{probe: "GET /x/{key}"}'))
    upstream.then(say(502))
    upstream.on("GET", "/x/k1", say(200, {"found": True}))
    answer = gateway.post(PATH, BODY, key="k1")
    assert answer.status == 200 and answer.json == {"found": True}
    assert upstream.effects() == 1
    assert [request.method for request in upstream.requests] == ["POST", "GET"]
    upstream.then(say(502), say(503, {}), say(503, {}))
    answer = gateway.post(PATH, BODY, key="k2")
    assert (answer.status, answer["Error-Code"]) == (502, UNKNOWN) and answer["Retry-After"]
    assert gateway.post(PATH, BODY, key="k2").is_problem(409, UNKNOWN)
    ended, = told(gateway, "retries_end", 3)
    assert (ended["ended_by"], ended["status"]) == ("unknown", 502), "the probe said nothing"


PROBE = '{probe: "GET /x/{key}"}'


def test_tries_that_probes_find_not_done_are_of_one_course(pawl, upstream):
    """found: L4"""
    gateway, admin = with_admin(pawl, config(PROBE, "{schedule: [1ms, 1ms, 1ms]}", settle="0"))
    lost = closes(effect=False)
    upstream.then(not_done(503), lost, say(404), not_done(503), say(500, effect=False), say(404))
    answer = gateway.post(PATH, BODY, key="k1")
    assert answer.mark == (500, "released")
    assert (answer["X-Should-Retry"], answer["Retry-After"]) == ("true", "1")
    posts = [request for request in upstream.requests if request.method == "POST"]
    assert [r.method for r in upstream.requests] == ["POST", "POST", "GET"] * 2
    assert numbers(upstream) == ["1", "2", "3", "4", "5", "6"]
    assert len({request["Idempotency-Token"] for request in posts}) == 2
    ended, = told(gateway, "retries_end")
    assert (ended["ended_by"], ended["reason"], ended["status"]) == ("attempts", "status", 500)
    assert [line["reason"] for line in gateway.lines("retry")] == ["status", "broke off", "status"]
    page = admin.get("/metrics").body.decode()
    for name, n in (("operations", 1), ("attempts", 3), ("exhausted", 1)):
        assert f'pawl_retry_{name}_total{{profile="user_facing"}} {n}' in page


@pytest.mark.hooks
def test_all_tries_have_one_timeout_whatever_probes_found_between_them(pawl, upstream, clock):
    gateway = pawl(config(PROBE, "{profile: background, schedule: [1ms, 1ms]}", settle="0"))
    upstream.on("GET", "/x/k1", say(404))
    gates = [upstream.hold(cut=0, effect=False), upstream.hold(effect=False)]
    client = Later(lambda: gateway.post(PATH, BODY, key="k1"))
    for gate, seconds in zip(gates, (15, 6)):
        gate.wait_for()
        clock.advance(seconds)
        if gate is gates[0]:
            gate.open()
    answer = client.result()
    assert answer.is_problem(504, "DEPENDENCY.timeout")
    assert answer["Idempotency-Status"] == "released"
    assert [line["ended_by"] for line in told(gateway, "retries_end")] == ["deadline"]
    gates[1].open()


def test_a_drain_ends_the_wait_for_a_try_that_was_not_done(pawl, upstream):
    gateway = pawl(config(PROBE, "{profile: background, schedule: [15s]}", settle="0"))
    upstream.then(closes(effect=False), say(404))
    client = Later(lambda: gateway.post(PATH, BODY, key="k1"))
    eventually(lambda: gateway.lines("retry"), "the wait")
    gateway.signal(signal.SIGTERM)
    answer = client.result()
    assert answer.is_problem(502, "TRANSIENT.upstream_broke")
    assert (answer["Idempotency-Status"], answer.json["safe_new_key"]) == ("released", True)
    assert gateway.wait() == 0 and len(upstream.requests) == 2


def test_without_retry_nothing_is_sent_again(pawl, upstream):
    gateway = pawl(config("retry", "none"))
    upstream.then(not_done(503))
    assert gateway.post(PATH, BODY, key="k1").status == 503
    assert len(upstream.requests) == 1


def test_a_later_not_done_answer_does_not_undo_a_doubt(pawl, upstream):
    """The first try may have had its effect: its key must not be said to be free of one."""
    gateway, admin = with_admin(pawl, config("retry"))
    upstream.then(closes(), not_done(503, ("Retry-After", "60")))
    answer = gateway.post(PATH, BODY, key="k1")
    assert answer.mark == (503, "released")
    record, = admin.keys()
    assert record["in_doubt"] is True, record


def test_an_upstream_that_went_away_after_a_doubt_is_no_promise_that_nothing_was_done(pawl,
                                                                                     upstream):
    gateway = pawl(config("retry"))
    upstream.then(closes(after=lambda _: upstream.stop()))
    answer = gateway.post(PATH, BODY, key="k1")
    assert answer.is_problem(502, "TRANSIENT.upstream_broke")
    assert answer.json["safe_new_key"] is False and answer.json["retryable"] is True
    assert upstream.effects() == 1


# ---- how long, and how often ----


def test_an_upstream_that_is_not_there_is_tried_as_often_as_the_profile_says(pawl, upstream):
    gateway, admin = with_admin(pawl, config())
    upstream.stop()
    answer = gateway.post(PATH, BODY, key="k1")
    assert answer.is_problem(503, "DEPENDENCY.unavailable") and answer.json["safe_new_key"]
    assert [line["reason"] for line in told(gateway, "retry")] == ["unreachable"] * 4
    assert told(gateway, "retries_end")[0]["ended_by"] == "attempts"
    assert admin.value("pawl_retry_attempts_total", profile="user_facing") == 4


def test_an_upstream_that_comes_back_is_reached(pawl, upstream):
    gateway = pawl(config(retry="api"))
    upstream.stop()
    first = Later(lambda: gateway.post(PATH, BODY, key="k1"))
    eventually(lambda: gateway.lines("retry"), "a wait for the next try")
    upstream.start()
    assert first.result().status == 201 and upstream.effects() == 1


def test_the_client_s_own_time_ends_the_tries(pawl, upstream):
    gateway = pawl(config(retry="webhook"))
    upstream.default = not_done(503)
    answer = gateway.post(PATH, BODY, "k1", [("X-Request-Timeout", "4900")])
    assert answer.status == 503 and len(upstream.requests) == 1
    assert told(gateway, "retries_end")[0]["ended_by"] == "deadline"


def test_no_further_try_begins_without_time_for_its_response(pawl, upstream):
    """It would end in doubt, and what was surely not done would be unknown."""
    gateway = pawl(config(retry="background", timeout="2030ms"))
    upstream.then(not_done(503, ("Retry-After", "2")))
    upstream.hold()
    answer = gateway.post(PATH, BODY, key="k1")
    assert answer.mark == (503, "released")
    assert len(upstream.requests) == 1
    assert told(gateway, "retries_end")[0]["ended_by"] in ("retry_after", "deadline")


@pytest.mark.hooks
def test_no_further_try_begins_after_the_time_of_all_of_them(pawl, upstream, clock):
    gateway = pawl(config(retry="webhook", timeout="30s", lease="60s"))
    upstream.then(not_done(503))
    answer = Later(lambda: gateway.post(PATH, BODY, key="k1"))
    eventually(lambda: gateway.lines("retry"), "a wait for the next try")
    clock.advance(40)
    assert (answer.result().status, answer.result()["Idempotency-Status"]) == (503, "released")
    assert len(upstream.requests) == 1


def test_a_duplicate_waits_while_the_first_is_tried_again(pawl, upstream):
    gateway = pawl(config(retry="api"))
    upstream.then(not_done(503))
    first = Later(lambda: gateway.post(PATH, BODY, key="k1"))
    eventually(lambda: gateway.lines("retry"), "a wait for the next try")
    second = gateway.post(PATH, BODY, key="k1")
    assert second["Idempotency-Status"] == "replayed" and first.result().status == 201
    assert upstream.effects() == 1 and len(upstream.requests) == 2


def test_a_budget_ends_the_tries_of_many(pawl, upstream):
    gateway, admin = with_admin(pawl, config())
    upstream.default = not_done(503)
    answers = at_once(60, lambda n: gateway.post(PATH, BODY, key=f"k{n}"))
    assert {answer.status for answer in answers} == {503}
    tries = admin.value("pawl_retry_attempts_total", profile="user_facing")
    assert tries < 60 * 4 and len(upstream.requests) == 60 + tries
    assert "budget" in {line["ended_by"] for line in told(gateway, "retries_end", 60)}
    assert admin.value("pawl_retry_exhausted_total", profile="user_facing") == 60


def test_r8_what_was_tried_is_counted(pawl, upstream):
    gateway, admin = with_admin(pawl, config("retry"))
    upstream.then(closes(effect=False), not_done(502))
    gateway.post(PATH, BODY, key="k1")
    upstream.then(not_done(503, ("Retry-After", "60")))
    gateway.post(PATH, BODY, key="k2")
    gateway.post(PATH, BODY, key="k3")
    count = {name: admin.value(f"pawl_retry_{name}_total", profile="user_facing")
             for name in ("operations", "attempts", "exhausted")}
    assert count == {"operations": 3, "attempts": 2, "exhausted": 1}
    assert admin.value("pawl_retry_delay_seconds_count") == 2
    waited = sum(line["delay_ms"] for line in told(gateway, "retry", 3)) / 1000
    assert abs(admin.value("pawl_retry_delay_seconds_sum") - waited) < 0.005


@pytest.mark.hooks
@pytest.mark.parametrize("point", ["before_connect", "after_request_write"])
def test_kill_9_in_a_later_try_leaves_the_operation_in_doubt(pawl, upstream, point):
    gateway = pawl(config("hold"))
    gateway.restart(PAWL_CRASH_AT=f"{point}:2")
    upstream.then(not_done(503))
    with pytest.raises((Broken, OSError)):
        gateway.post(PATH, BODY, key="k1")
    gateway.wait()
    gateway.start()
    assert gateway.post(PATH, BODY, key="k1").is_problem(409, UNKNOWN)
    assert upstream.effects() <= 1


def test_the_published_policy_names_the_profile(pawl):
    gateway = pawl(config(retry="api"))
    policy = gateway.request("GET", "/.well-known/idempotency").json
    assert [rule["retry"] for rule in policy["rules"]] == ["api"]


def test_the_published_policy_tells_the_times_of_a_rule_s_own(pawl):
    gateway = pawl(config(retry="{try_timeout: 2s, schedule: [1s, 2s]}"))
    policy = gateway.request("GET", "/.well-known/idempotency").json
    assert policy["rules"][0]["retry"] == {"profile": "user_facing", "try_timeout": "2s",
                                           "schedule": ["1s", "2s"]}


@pytest.mark.parametrize("unknown, first, status", [
    ("hold", not_done(503), 503), ("retry", closes(), 502)])
def test_a_drain_ends_the_wait_for_a_further_try(pawl, upstream, unknown, first, status):
    """Its last response stands, and its record is no dead process's."""
    gateway = pawl("drain: 1s\n" + config(unknown, retry="webhook"))
    upstream.then(first)
    answer = Later(lambda: gateway.post(PATH, BODY, key="k1"))
    eventually(lambda: gateway.lines("retry"), "a wait for the next try")
    gateway.restart()
    assert (answer.result().status, answer.result()["Idempotency-Status"]) == (status, "released")
    assert len(upstream.requests) == 1
    assert gateway.post(PATH, BODY, key="k1")["Idempotency-Status"] == "stored"


@pytest.mark.hooks
@pytest.mark.parametrize("first, status", [(closes(effect=False), 502), (not_done(503), 201)])
def test_a_later_try_does_not_leave_after_the_lease(pawl, upstream, clock, first, status):
    """A gateway that stood still between two tries: what the first left in doubt stays so, and what
    was not done is decided anew, under a new token."""
    gateway = pawl(config("retry", lease="10s", timeout="60s"))
    gateway.restart(PAWL_STOP_AT="before_request_write:2")
    upstream.then(first)
    answer = Later(lambda: gateway.post(PATH, BODY, key="k1"))
    eventually(lambda: stands_still(gateway.process.pid), "it to stand still")
    clock.advance(15)
    gateway.go_on()
    assert answer.result().status == status
    tokens = {request["Idempotency-Token"] for request in upstream.requests}
    assert len(tokens) == len(upstream.requests) == (1 if status == 502 else 2)
    assert answer.result()["Idempotency-Status"] == ("released" if status == 502 else "stored")
