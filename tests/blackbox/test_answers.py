# SPDX-License-Identifier: Apache-2.0
"""Every row of the table of answers: status, problem, headers, and how often it was really done."""
from __future__ import annotations

import gzip
import socket
from pathlib import Path

import pytest

from pawltest.upstream import Reply, closes, say
from pawltest.wire import Answer, Later, at_once, eventually, request_bytes

CONFIG = """
tenant: none
threads: 1
rules:
  - {name: refunds.create, match: POST /refunds}
  - {name: retried, match: POST /retried, unknown: retry}
  - {name: probed, match: POST /probed, unknown: {probe: "GET /probed/{key}"}, settle: 1h}
  - {name: at.once, match: POST /at-once, in_progress: conflict}
  - {name: optional, match: POST /optional, require: false}
  - {name: open, match: POST /open, protect: false}
  - {name: by.body, match: POST /by-body, key: "{body:/id}"}
  - {name: by.tenant, match: POST /by-tenant, tenant: "{header:X-Merchant-Id}", trust_tenant: true}
  - {name: small, match: POST /small, max_request_body: 1KiB, max_response_body: 1KiB}
  - {name: uuid, match: POST /uuid, key_format: uuid}
  - {name: strict, match: POST /strict, key_syntax: strict}
  - {name: selects, match: POST /selects, payload: {include: [/a]}}
"""
ONE = """
tenant: none
threads: 1
rules:
  - {name: refunds.create, match: POST /refunds}
"""
hooks = pytest.mark.hooks
BODY = {"amount": 5}


MEMBERS = {"type", "title", "status", "detail", "error_code", "retryable", "safe_new_key", "hint",
           "error"}


def is_problem(answer: Answer, status: int, code: str, retryable: bool, new_key: bool) -> bool:
    """An error of pawl's own with all that every one of them has."""
    body = answer.json
    assert answer.is_problem(status, code)
    assert MEMBERS <= set(body)
    assert (body["retryable"], body["safe_new_key"]) == (retryable, new_key)
    assert body["type"] == f"/.well-known/idempotency#{code}"
    assert answer["Link"] == f'</.well-known/idempotency#{code}>; rel="describedby"'
    assert (answer["Error-Code"], answer["X-Should-Retry"]) == (code, str(retryable).lower())
    assert answer["Stripe-Should-Retry"] == (None if retryable else "false")
    assert (answer["Cache-Control"], answer["Idempotent-Replayed"]) == ("no-store", None)
    assert body["error"]["type"] == "idempotency_error"
    assert body["error"]["code"] and body["error"]["message"] == body["detail"]
    assert body["title"] and body["hint"]
    assert len(answer.all("Date")) == 1
    return True


# ---- the upstream's answers ----


def test_a_first_answer_is_marked_stored_and_a_repeat_replayed(shared, behind, key):
    first = shared.post("/refunds", BODY, key=key)
    again = shared.post("/refunds", BODY, key=key)
    assert (first.mark, first["Idempotent-Replayed"]) == ((201, "stored"), None)
    assert (again.mark, again["Idempotent-Replayed"]) == ((201, "replayed"), "true")
    assert again.kept == first.kept
    assert behind.effects() == 1


@pytest.mark.parametrize("status", [200, 201, 202, 203, 206, 300, 302, 303, 400, 402, 404, 405, 409,
                                    410, 413, 415, 418, 422, 451, 499, 501, 505, 507, 511, 599])
def test_a_final_answer_is_stored_and_replayed(shared, behind, key, status):
    behind.then(say(status, {"status": status}, ("X-Own", "1")))
    first = shared.post("/refunds", BODY, key=key)
    again = shared.post("/refunds", BODY, key=key)
    assert (first.mark, again.mark) == ((status, "stored"), (status, "replayed"))
    assert (again.json, again.kept) == ({"status": status}, first.kept)
    assert behind.effects() == 1


@pytest.mark.parametrize("status", [401, 403, 407, 408, 425, 429, 503, 508])
def test_an_answer_that_says_not_done_is_marked_released_and_passed_whole(shared, behind, key,
                                                                          status):
    behind.then(say(status, {"status": status}, ("Retry-After", "7"), ("X-Own", "1"), effect=False))
    first = shared.post("/refunds", BODY, key=key)
    assert first.mark == (status, "released")
    assert (first.json, first["Retry-After"], first["X-Own"]) == ({"status": status}, "7", "1")
    assert shared.post("/refunds", BODY, key=key).mark == (201, "stored")
    assert behind.effects() == 1


@pytest.mark.parametrize("path, mark", [("/refunds", "unknown"), ("/retried", "released")])
@pytest.mark.parametrize("status", [500, 502, 504])
def test_an_answer_in_doubt_is_marked_by_the_rules_policy(shared, behind, key, status, path, mark):
    behind.then(say(status, {"status": status}))
    assert shared.post(path, BODY, key=key).mark == (status, mark)


# ---- who asks for what ----


def test_without_a_key_it_is_400_and_names_the_header(shared, behind):
    answer = shared.post("/refunds", BODY)
    assert is_problem(answer, 400, "VALIDATION.idempotency.key_missing", False, True)
    assert "Idempotency-Key" in answer.json["detail"]
    assert "idempotency_key" not in answer.json
    assert not behind.requests


@pytest.mark.parametrize("sent", ["", '""', '"a', "a,b", "k" * 256, '"' + "k" * 256 + '"', "a b",
                                  '"a"x', '"a" "b"', "ü"])
def test_a_malformed_key_is_400(shared, behind, sent):
    answer = shared.post("/refunds", BODY, key=sent)
    assert is_problem(answer, 400, "VALIDATION.idempotency.key_malformed", False, True)
    assert answer.json["detail"].startswith("Idempotency-Key: the key is ")
    assert not behind.requests


def test_a_key_of_another_format_is_400(shared, behind, key):
    answer = shared.post("/uuid", BODY, key=key)
    assert is_problem(answer, 400, "VALIDATION.idempotency.key_malformed", False, True)
    assert not behind.requests


def test_a_bare_key_is_400_where_the_syntax_is_strict(shared, behind):
    answer = shared.post("/strict", BODY, key="bare")
    assert is_problem(answer, 400, "VALIDATION.idempotency.key_malformed", False, True)
    assert answer.json["detail"].endswith("; this route wants it in double quotes")
    assert shared.post("/strict", BODY, key='"bare"').mark == (201, "stored")
    assert len(behind.requests) == 1


def test_a_key_source_that_is_not_in_the_body_is_400_and_names_the_pointer(shared, behind):
    answer = shared.post("/by-body", {"other": 1})
    assert is_problem(answer, 400, "VALIDATION.idempotency.key_source_missing", False, True)
    assert "no value; the key is read from body:/id" in answer.json["detail"]
    assert not behind.requests


@pytest.mark.parametrize("content_type, body, told", [
    ("application/json", b'{"id":', "not valid JSON; the key is read from body:/id"),
    ("application/json", b'{"id":1,"id":2}', "not valid JSON; the key is read from body:/id"),
    ("text/plain", b'{"id":1}', "does not say that the body is JSON"),
])
def test_why_the_body_gave_no_key_is_told(shared, behind, content_type, body, told):
    answer = shared.request("POST", "/by-body", [("Content-Type", content_type)], body)
    assert is_problem(answer, 400, "VALIDATION.idempotency.key_source_missing", False, True)
    assert told in answer.json["detail"]
    assert not behind.requests


def test_without_a_tenant_it_is_400_and_names_its_source(shared, behind, key):
    answer = shared.post("/by-tenant", BODY, key=key)
    assert is_problem(answer, 400, "VALIDATION.idempotency.tenant_missing", False, True)
    assert "X-Merchant-Id" in answer.json["detail"]
    assert not behind.requests


@pytest.mark.parametrize("path", ["/./refunds", "/x/../refunds", "//refunds", "/x%2F..%2Frefunds",
                                  "/refunds%00", "/x%5C..%5Crefunds", "/refunds/.", "/%2e/refunds"])
def test_a_path_that_could_walk_round_a_rule_is_400(shared, behind, key, path):
    answer = shared.post(path, BODY, key=key)
    assert is_problem(answer, 400, "VALIDATION.path_ambiguous", False, True)
    assert not behind.requests


@pytest.mark.parametrize("method", ["CONNECT", "TRACE"])
def test_connect_and_trace_are_405(shared, behind, method):
    target = "gateway.test:80" if method == "CONNECT" else "/refunds"
    answer = shared.request(method, target, [("Host", "gateway.test:80")])
    assert is_problem(answer, 405, "VALIDATION.method_not_allowed", False, True)
    assert answer["Allow"] == "GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE"
    assert not behind.requests


@pytest.mark.parametrize("how", ["length", "chunks", "gzip"])
def test_a_body_over_the_limit_is_413(shared, behind, key, how):
    headers = [("Idempotency-Key", key)]
    body = b"x" * 1025
    if how == "chunks":
        headers.append(("Transfer-Encoding", "chunked"))
        body = b"400\r\n" + b"x" * 1024 + b"\r\n1\r\nx\r\n0\r\n\r\n"
    elif how == "gzip":
        headers.append(("Content-Encoding", "gzip"))
        body = gzip.compress(body)
    answer = shared.request("POST", "/small", headers, body)
    assert is_problem(answer, 413, "VALIDATION.body_too_large", False, True)
    assert "exceeds the 1024 bytes that this route accepts" in answer.json["detail"]
    assert not behind.requests


@pytest.mark.parametrize("how", ["length", "chunks", "gzip"])
def test_a_body_at_the_limit_passes(shared, behind, key, how):
    headers = [("Idempotency-Key", key)]
    body = b"x" * 1024
    sent = body
    if how == "chunks":
        headers.append(("Transfer-Encoding", "chunked"))
        sent = b"400\r\n" + body + b"\r\n0\r\n\r\n"
    elif how == "gzip":
        headers.append(("Content-Encoding", "gzip"))
        body = sent = gzip.compress(body)
    assert shared.request("POST", "/small", headers, sent).mark == (201, "stored")
    assert behind.requests[0].body == body


@pytest.mark.parametrize("path", ["/by-body", "/selects"])
def test_a_coding_that_hides_what_the_rule_looks_for_is_415(shared, behind, key, path):
    answer = shared.post(path, b'{"id":"1","a":1}', key=key, headers=[("Content-Encoding", "br")])
    assert is_problem(answer, 415, "VALIDATION.content_coding", False, True)
    assert "br" in answer.json["detail"]
    assert answer["Accept-Encoding"] == "gzip, deflate"
    assert not behind.requests


def test_another_coding_passes_where_the_rule_looks_at_the_whole(shared, behind, key):
    first = shared.post("/refunds", b"\x0b\x01", key=key, headers=[("Content-Encoding", "br")])
    assert first.mark == (201, "stored")


# ---- what the record says ----


def test_another_request_under_the_key_is_409_and_a_new_key_is_safe(shared, behind, key):
    shared.post("/refunds", BODY, key=key)
    other = shared.post("/refunds", {"amount": 6}, key=key)
    assert is_problem(other, 409, "CONFLICT.idempotency.payload_mismatch", False, True)
    assert "new key" in other.json["hint"]
    assert other.json["idempotency_key"] == key.strip('"')
    assert "operation" not in other.json
    assert behind.effects() == 1


@pytest.mark.parametrize("change", ["query", "media type", "If-Match"])
def test_another_target_under_the_key_is_409(shared, behind, key, change):
    shared.post("/refunds", BODY, key=key)
    path, headers, sent = "/refunds", [("Idempotency-Key", key)], b'{"amount": 5}'
    kind = "text/json" if change == "media type" else "application/json"
    if change == "If-Match":
        headers.append(("If-Match", '"v1"'))
    path += "?a=1" * (change == "query")
    other = shared.request("POST", path, [*headers, ("Content-Type", kind)], sent)
    assert is_problem(other, 409, "CONFLICT.idempotency.payload_mismatch", False, True)
    assert behind.effects() == 1


def test_while_the_first_runs_another_request_is_409_and_a_new_key_is_not_safe(shared, behind, key):
    gate = behind.hold()
    first = Later(lambda: shared.post("/refunds", BODY, key=key))
    gate.wait_for()
    other = shared.post("/refunds", {"amount": 6}, key=key)
    assert is_problem(other, 409, "CONFLICT.idempotency.payload_mismatch", False, False)
    gate.open()
    assert first.result().mark == (201, "stored")


def test_while_the_outcome_is_unknown_another_request_is_409_and_a_new_key_is_not_safe(shared,
                                                                                      behind, key):
    behind.then(closes())
    shared.post("/refunds", BODY, key=key)
    other = shared.post("/refunds", {"amount": 6}, key=key)
    assert is_problem(other, 409, "CONFLICT.idempotency.payload_mismatch", False, False)
    assert "not settled" in other.json["hint"] and "new key" not in other.json["hint"]


def test_a_running_first_is_409_at_once_under_conflict(shared, behind, key):
    gate = behind.hold()
    first = Later(lambda: shared.post("/at-once", BODY, key=key))
    gate.wait_for()
    second = shared.post("/at-once", BODY, key=key)
    assert is_problem(second, 409, "CONFLICT.idempotency.in_progress", True, False)
    assert (second["Retry-After"], second.json["error"]["code"]) == ("1", "CONCURRENT_REQUEST")
    operation = second.json["operation"]
    assert (operation["state"], operation["attempt"]) == ("pending", 1)
    assert 0 < operation["lease_left_ms"] <= 30_000
    assert operation["started_at"].endswith("Z")
    gate.open()
    assert first.result().mark == (201, "stored")
    assert shared.post("/at-once", BODY, key=key).mark == (201, "replayed")
    assert behind.effects() == 1


def test_a_running_first_is_waited_for(shared, behind, key):
    gate = behind.hold()
    first = Later(lambda: shared.post("/refunds", BODY, key=key))
    gate.wait_for()
    second = Later(lambda: shared.post("/refunds", BODY, key=key))
    gate.open()
    assert first.result().mark == (201, "stored")
    assert second.result().mark == (201, "replayed")
    assert behind.effects() == 1


def test_an_unknown_outcome_is_409_and_no_retry_heals_it_under_hold(shared, behind, key):
    behind.then(closes())
    first = shared.post("/refunds", BODY, key=key)
    assert is_problem(first, 502, "TRANSIENT.upstream_broke", False, False)
    assert first["Idempotency-Status"] == "unknown"
    assert (first.json["operation"]["state"], first.json["operation"]["attempt"]) == ("unknown", 1)
    assert "ask the operator" in first.json["hint"]
    again = shared.post("/refunds", BODY, key=key)
    assert is_problem(again, 409, "CONFLICT.idempotency.outcome_unknown", False, False)
    assert (again.json["operation"]["state"], again["Retry-After"]) == ("unknown", None)
    assert again.json["operation"]["lease_left_ms"] is None
    assert behind.effects() == 1


def test_an_unknown_outcome_is_409_and_a_retry_may_heal_it_under_probe(shared, behind, key):
    behind.then(closes())
    behind.on("GET", f"/probed/{key[1:-1]}", say(404))
    first = shared.post("/probed", BODY, key=key)
    assert is_problem(first, 502, "TRANSIENT.upstream_broke", True, False)
    again = shared.post("/probed", BODY, key=key)
    assert is_problem(again, 409, "CONFLICT.idempotency.outcome_unknown", True, False)
    assert 3000 < int(again["Retry-After"]) <= 3600
    assert again["Idempotency-Status"] is None
    assert behind.effects() == 1


def test_an_answer_too_large_to_keep_passes_once_and_is_410_afterwards(shared, behind, key):
    """found: E-F5"""
    big = b"x" * 100_000
    behind.then(Reply(201, big, (("X-Own", "1"),)))
    first = shared.post("/small", b"{}", key=key)
    assert (first.mark, first.body, first["X-Own"]) == ((201, "not-kept"), big, "1")
    again = shared.post("/small", b"{}", key=key)
    assert is_problem(again, 410, "CONFLICT.idempotency.result_not_kept", False, False)
    assert again.json["first"] == {"status": 201}
    assert behind.effects() == 1


@pytest.mark.parametrize("framing", ["chunked", "close", "length"])
@pytest.mark.parametrize("size", [1024, 1025])
def test_the_limit_of_an_answer_is_exact(shared, behind, key, framing, size):
    behind.then(Reply(201, b"x" * size, framing=framing))
    first = shared.post("/small", b"{}", key=key)
    assert (first.mark, first.body) == ((201, "stored" if size == 1024 else "not-kept"),
                                        b"x" * size)
    again = shared.post("/small", b"{}", key=key)
    assert again.status == (201 if size == 1024 else 410)
    assert behind.effects() == 1


def test_an_event_stream_passes_live_and_is_410_afterwards(shared, behind, key):
    gate = behind.gate()
    behind.then(Reply(200, headers=(("Content-Type", "Text/Event-Stream; charset=utf-8"),
                                    ("Transfer-Encoding", "chunked")), framing="none",
                      after=lambda _: gate.pass_through(), close=True))
    with shared.connect() as client:
        client.send(request_bytes("POST", "/refunds", [("Idempotency-Key", key)], b"{}"))
        start, headers, _ = client.reader.head()  # before the body has begun
        assert "200" in start and ("Idempotency-Status", "not-kept") in headers
        again = shared.request("POST", "/refunds", [("Idempotency-Key", key)], b"{}")
        assert is_problem(again, 410, "CONFLICT.idempotency.result_not_kept", False, False)
        gate.open()
        assert not client.reader.more()  # cut short upstream: the client sees no last chunk
    assert behind.effects() == 1


@hooks
def test_an_answer_that_expired_is_410_while_its_tombstone_stands(pawl, upstream, clock):
    gateway = pawl(ONE.replace("/refunds}", "/refunds, ttl: 1h, tombstone: 2h}"))
    gateway.post("/refunds", BODY, key="k1")
    clock.advance(3700)
    again = gateway.post_up("/refunds", BODY, key="k1")
    assert is_problem(again, 410, "CONFLICT.idempotency.result_expired", False, False)
    assert again.json["first"] == {"status": 201}
    other = gateway.post("/refunds", {"amount": 6}, key="k1")
    assert is_problem(other, 409, "CONFLICT.idempotency.payload_mismatch", False, True)
    assert upstream.effects() == 1
    clock.advance(7200)
    assert gateway.post_up("/refunds", BODY, key="k1").mark == (201, "stored")


# ---- limits ----


def test_too_many_in_flight_is_429_and_nothing_is_acquired(pawl, upstream):
    gateway = pawl(ONE + "max_in_flight: 1\n")
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", BODY, key="k1"))
    gate.wait_for()
    second = gateway.post("/refunds", BODY, key="k2")
    assert is_problem(second, 429, "RATE_LIMIT.exceeded", True, False)
    assert second["Retry-After"] == "1"
    gate.open()
    assert first.result().mark == (201, "stored")
    assert gateway.post("/refunds", BODY, key="k2").mark == (201, "stored")
    assert upstream.effects() == 2


@pytest.mark.parametrize("limit", ["max_waiting: 1", "max_waiting_per_key: 1", "max_waiting: 0"])
def test_too_many_waiting_is_429_and_changes_nothing(pawl, upstream, limit):
    gateway = pawl(ONE + limit + "\n")
    room = int(limit[-1])
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", BODY, key="k1"))
    gate.wait_for()
    clients = [Later(lambda: gateway.post("/refunds", BODY, key="k1")) for _ in range(room + 3)]
    eventually(lambda: sum(c.is_done for c in clients) == 3, "the refusals")
    refused = [c.result() for c in clients if c.is_done]
    assert all(is_problem(a, 429, "RATE_LIMIT.exceeded", True, False) for a in refused)
    assert all(a["Retry-After"] == "1" for a in refused)
    gate.open()
    assert first.result().mark == (201, "stored")
    waited = [c.result() for c in clients if c.result() not in refused]
    assert [a.mark for a in waited] == [(201, "replayed")] * room
    assert upstream.effects() == 1


def test_the_memory_of_bodies_is_bounded_by_429(pawl, upstream):
    gateway = pawl(ONE + "max_buffered: 1MiB\n")
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", b"x" * 1_000_000, key="k1"))
    gate.wait_for()
    second = gateway.post("/refunds", b"x" * 60_000, key="k2")
    assert is_problem(second, 429, "RATE_LIMIT.exceeded", True, False)
    assert second["Retry-After"] == "1"
    gate.open()
    assert first.result().mark == (201, "stored")
    assert gateway.post("/refunds", b"x" * 60_000, key="k2").mark == (201, "stored")


@pytest.mark.parametrize("how", ["chunked", "length"])
def test_what_is_only_announced_of_a_body_takes_no_room_from_others(pawl, upstream, how):
    gateway = pawl(ONE + "max_buffered: 1MiB\n")
    framing = (("Transfer-Encoding", "chunked") if how == "chunked"
               else ("Content-Length", "1000000"))
    slow = [gateway.connect() for _ in range(7)]  # so few that all of their time is theirs
    for i, client in enumerate(slow):
        client.send(request_bytes("POST", "/refunds", [("Idempotency-Key", f"s{i}"), framing])
                    + b"1\r\nx\r\n")
        gateway.request("GET", "/x")  # one loop: it was seen before this; the first one fits
    assert gateway.post("/refunds", b"x" * 300_000, key="k1").mark == (201, "stored")
    slow[0].send(b"0\r\n\r\n" if how == "chunked" else b"x" * (1_000_000 - 6))
    assert slow[0].answer().mark == (201, "stored")
    for client in slow:
        client.sock.close()


def test_answers_that_are_held_count_too_and_are_never_lost_for_it(pawl, upstream):
    large = ONE.replace("refunds}", "refunds, max_response_body: 32MiB}")
    gateway = pawl(large + "max_buffered: 32MiB\n")
    big = b"x" * ((32 << 20) - 5000)  # more than lies in the kernel while its client does not read
    upstream.then(Reply(201, big))
    with gateway.connect() as client:
        client.send(request_bytes("POST", "/refunds", [("Idempotency-Key", "k1")], b"{}"))
        assert client.sock.recv(1, socket.MSG_PEEK) == b"H"
        second = gateway.post("/refunds", b"x" * 10_000, key="k2")
        assert is_problem(second, 429, "RATE_LIMIT.exceeded", True, False)
        assert ((first := client.answer()).mark, first.body) == ((201, "stored"), big)
        eventually(lambda: gateway.post("/refunds", b"x" * 10_000, key="k2").status == 201)
        client.send(request_bytes("POST", "/refunds", [("Idempotency-Key", "k1")], b"{}"))
        assert ((again := client.answer()).mark, again.body) == ((201, "replayed"), big)
    assert upstream.effects() == 2


# ---- what fails ----


@hooks
def test_no_answer_in_time_is_504(pawl, upstream, clock):
    gateway = pawl(ONE.replace("/refunds}", "/refunds, unknown: retry}"))
    gate = upstream.hold()
    client = Later(lambda: gateway.post("/refunds", BODY, key="k1"))
    gate.wait_for()
    clock.advance(31)
    assert is_problem(client.result(), 504, "DEPENDENCY.timeout", True, False)
    assert client.result()["Idempotency-Status"] == "released"


def test_an_upstream_that_is_not_there_is_503_and_the_key_is_released(pawl, upstream):
    gateway = pawl(ONE)
    upstream.stop()
    first = gateway.post("/refunds", BODY, key="k1")
    assert is_problem(first, 503, "DEPENDENCY.unavailable", True, True)
    assert first.mark == (503, "released")
    assert first["Retry-After"] == "1"
    upstream.start()
    assert gateway.post("/refunds", BODY, key="k1").mark == (201, "stored")


def test_an_upstream_that_is_not_there_any_more_makes_no_new_key_safe_under_retry(pawl, upstream):
    gateway = pawl(ONE.replace("/refunds}", "/refunds, unknown: retry}"))
    upstream.then(closes())
    assert gateway.post("/refunds", BODY, key="k1").mark == (502, "released")
    upstream.stop()
    again = gateway.post("/refunds", BODY, key="k1")
    assert is_problem(again, 503, "DEPENDENCY.unavailable", True, False)
    assert "an earlier one" in again.json["hint"]


# ---- what passes unprotected ----


@pytest.mark.parametrize("path, with_key", [("/other", False), ("/other", True), ("/open", True),
                                            ("/open", False), ("/optional", False)])
def test_an_unsafe_request_that_is_not_protected_is_marked_bypassed(shared, behind, key, path,
                                                                    with_key):
    for _ in range(2):
        answer = shared.post(path, BODY, key=key if with_key else None)
        assert answer.mark == (201, "bypassed")
    assert behind.effects() == 2
    assert all(r["Idempotency-Token"] is None for r in behind.requests)
    assert {r["Idempotency-Key"] for r in behind.requests} == {key if with_key else None}


def test_a_key_where_it_is_not_required_protects(shared, behind, key):
    first = shared.post("/optional", BODY, key=key)
    assert first.mark == (201, "stored")
    assert shared.post("/optional", BODY, key=key).kept == first.kept


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_a_safe_method_passes_a_rules_path_and_only_a_key_is_marked(shared, behind, key, method):
    assert shared.request(method, "/refunds").mark == (200, None)
    assert shared.request(method, "/refunds", [("Idempotency-Key", key)]).mark == \
        (200, "bypassed")


def test_unmatched_refuse_answers_404_for_what_changes_something_without_a_rule(pawl, upstream):
    gateway = pawl(ONE + "unmatched: refuse\n")
    assert is_problem(gateway.post("/other"), 404, "VALIDATION.route_unknown", False, True)
    assert not upstream.requests


@hooks
@pytest.mark.file_only
def test_a_store_that_is_gone_is_503_and_nothing_is_sent(pawl, upstream, clock):
    gateway = pawl(ONE)
    first = gateway.post("/refunds", BODY, key="k1")
    take_away(gateway.store)
    client = Later(lambda: gateway.post("/refunds", BODY, key="k2"))
    clock.run_until(lambda: client.is_done)
    second = client.result()
    assert is_problem(second, 503, "DEPENDENCY.store_unavailable", True, False)
    assert second["Retry-After"] == "1"
    assert upstream.effects() == 1
    assert first.status == 201


def take_away(store: Path) -> None:
    for path in (store, Path(f"{store}-wal"), Path(f"{store}-shm")):
        if path.exists():
            path.rename(f"{path}.away")


def test_answers_keep_the_connection_and_the_order_of_requests(shared, behind, key):
    """Of every kind, in one go."""
    with shared.connect() as client:
        head = [("Idempotency-Key", key), ("Content-Type", "application/json")]
        client.send(request_bytes("POST", "/refunds", head, b"{}")
                    + request_bytes("POST", "/refunds", head, b"{}")
                    + request_bytes("POST", "/refunds", head, b"[]")
                    + request_bytes("POST", "/refunds", [], b"{}")
                    + request_bytes("GET", "/x")
                    + request_bytes("POST", "/other", [], b"{}")
                    + request_bytes("POST", "/small", head, b"x" * 2000)
                    + request_bytes("GET", "/y"))
        got = [client.answer() for _ in range(8)]
    assert [a.mark for a in got] == [(201, "stored"), (201, "replayed"), (409, None), (400, None),
                                     (200, None), (201, "bypassed"), (413, None), (200, None)]


def test_many_clients_get_the_rows_of_their_own(shared, behind, key):
    def act(i: int) -> list[tuple[int, str | None]]:
        mine = f'"{key[1:-1]}-{i}"'
        return [shared.post("/refunds", BODY, key=mine).mark,
                shared.post("/refunds", BODY, key=mine).mark,
                shared.post("/refunds", {"amount": i + 10}, key=mine).mark]

    assert at_once(20, act) == [[(201, "stored"), (201, "replayed"), (409, None)]] * 20
    assert behind.effects() == 20


def test_an_error_of_a_head_request_has_no_body(shared, behind, key):
    with shared.connect() as client:
        behind.then(Reply(raw=b"this is not HTTP\r\n\r\n", close=True))
        refused = client.request("HEAD", "/other")
        assert (refused.status, refused.body) == (502, b"")
        named = client.request("HEAD", "/refunds", [("X-HTTP-Method-Override", "POST")])
        assert (named.status, named["Error-Code"]) == (400, "VALIDATION.method_ambiguous")
        assert named.body == b""
        assert client.request("GET", "/other").status == 200


def test_an_outcome_that_runs_again_under_retry_is_no_open_operation(shared, behind, key):
    behind.then(closes())
    answer = shared.post("/retried", BODY, key=key)
    assert is_problem(answer, 502, "TRANSIENT.upstream_broke", True, False)
    assert (answer["Idempotency-Status"], "operation" in answer.json) == ("released", False)
