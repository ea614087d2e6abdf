# SPDX-License-Identifier: Apache-2.0
"""The promise itself: the effect happens once, and everybody gets the same answer."""
from __future__ import annotations

import signal

import pytest

from conftest import CONFIG
from pawltest.gateway import run
from pawltest.upstream import Reply, closes, resets, say
from pawltest.wire import Broken, Later, at_once, eventually, request_bytes

BODY = {"charge_id": "ch_1", "amount": 500}
ODD_BYTES = bytes(range(256)) * 5
TENANTS = """
tenant: "{header:X-Merchant-Id}"
trust_tenant: true
rules:
  - name: refunds.create
    match: POST /refunds
"""

hooks = pytest.mark.hooks


# ---- one effect, one answer ----


def test_the_same_key_twice_has_one_effect_and_one_answer(gateway, upstream):
    first = gateway.post("/refunds", BODY, key='"k1"')
    again = gateway.post("/refunds", BODY, key='"k1"')
    assert first.mark == (201, "stored")
    assert first["Idempotent-Replayed"] is None
    assert (again["Idempotency-Status"], again["Idempotent-Replayed"]) == ("replayed", "true")
    assert again.kept == first.kept
    assert upstream.effects() == 1


def test_another_key_is_another_operation(gateway, upstream):
    first = gateway.post("/refunds", BODY, key="k1")
    other = gateway.post("/refunds", BODY, key="k2")
    assert other["Idempotency-Status"] == "stored"
    assert other.body != first.body
    assert upstream.effects() == 2


def test_a_key_reused_for_another_body_is_refused_and_nothing_is_sent(gateway, upstream):
    first = gateway.post("/refunds", BODY, key="k1")
    other = gateway.post("/refunds", {**BODY, "amount": 501}, key="k1")
    assert other.is_problem(409, "CONFLICT.idempotency.payload_mismatch")
    assert (other.json["retryable"], other.json["safe_new_key"]) == (False, True)
    assert other.json["idempotency_key"] == "k1"
    assert other["Idempotency-Status"] is None
    assert upstream.effects() == 1
    assert gateway.post("/refunds", BODY, key="k1").kept == first.kept


def test_a_key_in_quotes_and_the_bare_key_are_one(gateway, upstream):
    first = gateway.post("/refunds", BODY, key='"k1"')
    assert gateway.post("/refunds", BODY, key="k1").kept == first.kept
    assert upstream.effects() == 1


def test_json_written_in_another_way_is_the_same_request(gateway, upstream):
    first = gateway.post("/refunds", b'{"amount":500,"charge_id":"ch_1"}', key="k1")
    again = gateway.post("/refunds", b'{ "charge_id": "ch\\u005f1", "amount": 5e2 }', key="k1")
    assert again.kept == first.kept
    assert upstream.effects() == 1


def test_a_replay_is_the_first_answer_byte_for_byte(gateway, upstream):
    headers = (("X-B", "2"), ("x-a", "1"), ("X-B", "3"), ("ETag", '"e"'), ("Location", "/r/1"),
               ("Content-Type", "application/octet-stream"), ("Cache-Control", "private"),
               ("X-Latin", "caf\xe9"), ("X-Empty", ""))
    upstream.then(Reply(207, ODD_BYTES, headers))
    first = gateway.post("/refunds", BODY, key="k1")
    again = gateway.post("/refunds", BODY, key="k1")
    assert first.body == ODD_BYTES
    assert [h for h in first.kept[1] if h in headers] == list(headers)
    assert again.kept == first.kept
    assert again["Content-Length"] == str(len(ODD_BYTES))


@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_an_answer_without_a_length_is_replayed_whole(gateway, upstream, framing):
    upstream.then(Reply(201, ODD_BYTES, framing=framing))
    first = gateway.post("/refunds", BODY, key="k1")
    again = gateway.post("/refunds", BODY, key="k1")
    assert (first["Idempotency-Status"], first.body) == ("stored", ODD_BYTES)
    assert (again["Idempotency-Status"], again.body) == ("replayed", ODD_BYTES)
    assert upstream.effects() == 1


def test_a_replay_says_no_store_where_the_answer_said_nothing_of_caches(gateway, upstream):
    upstream.then(Reply(201, b"{}"))
    first = gateway.post("/refunds", BODY, key="k1")
    again = gateway.post("/refunds", BODY, key="k1")
    assert (first["Cache-Control"], again["Cache-Control"]) == (None, "no-store")


def test_cookies_and_hop_by_hop_headers_are_not_replayed(gateway, upstream):
    upstream.then(say(201, {}, ("Set-Cookie", "s=1"), ("Keep-Alive", "timeout=5"),
                      ("Connection", "X-Hop"), ("X-Hop", "1")))
    first = gateway.post("/refunds", BODY, key="k1")
    again = gateway.post("/refunds", BODY, key="k1")
    assert (first["Set-Cookie"], first["X-Hop"]) == ("s=1", None)
    assert [again[name] for name in ("Set-Cookie", "X-Hop", "Keep-Alive")] == [None, None, None]


@pytest.mark.parametrize("n", [10, 100])
def test_many_at_once_have_one_effect_and_one_answer(gateway, upstream, n):
    gate = upstream.hold()
    clients = Later(lambda: at_once(n, lambda _: gateway.post("/refunds", BODY, key="k1")))
    gate.wait_for()
    gate.open()
    answers = clients.result()
    assert {answer.kept for answer in answers} == {answers[0].kept}
    statuses = [answer["Idempotency-Status"] for answer in answers]
    assert (statuses.count("stored"), statuses.count("replayed")) == (1, n - 1)
    assert upstream.effects() == 1


def test_many_keys_at_once_have_an_effect_each(gateway, upstream):
    answers = at_once(50, lambda i: gateway.post("/refunds", BODY, key=f"k{i}"))
    assert {answer["Idempotency-Status"] for answer in answers} == {"stored"}
    assert len({answer.body for answer in answers}) == upstream.effects() == 50


# ---- whose key it is ----


def test_keys_of_two_tenants_never_meet(pawl, upstream):
    gateway = pawl(TENANTS)
    one = gateway.post("/refunds", BODY, key="k1", headers=[("X-Merchant-Id", "m1")])
    two = gateway.post("/refunds", BODY, key="k1", headers=[("X-Merchant-Id", "m2")])
    assert {one["Idempotency-Status"], two["Idempotency-Status"]} == {"stored"}
    assert one.body != two.body
    again = gateway.post("/refunds", BODY, key="k1", headers=[("X-Merchant-Id", "m1")])
    assert again.kept == one.kept
    assert upstream.effects() == 2


@pytest.mark.no_store
@pytest.mark.parametrize("headers", [[], [("X-Merchant-Id", "")]])
def test_without_a_tenant_it_is_refused(pawl, upstream, headers):
    answer = pawl(TENANTS).post("/refunds", BODY, key="k1", headers=headers)
    assert answer.is_problem(400, "VALIDATION.idempotency.tenant_missing")
    assert "X-Merchant-Id" in answer.json["detail"]
    assert not upstream.requests


def test_without_a_key_it_is_refused(gateway, upstream):
    answer = gateway.post("/refunds", BODY)
    assert answer.is_problem(400, "VALIDATION.idempotency.key_missing")
    assert "Idempotency-Key" in answer.json["detail"]
    assert not upstream.requests


@pytest.mark.no_store
@pytest.mark.parametrize("key", ["", '""', '"a', "a,b", "k" * 256, "a\x01b"])
def test_a_malformed_key_is_refused(gateway, upstream, key):
    answer = gateway.post("/refunds", BODY, key=key)
    assert answer.status == 400
    assert not upstream.requests


def test_two_key_headers_are_refused(gateway, upstream):
    answer = gateway.post("/refunds", BODY, key="a", headers=[("Idempotency-Key", "a")])
    assert answer.is_problem(400, "VALIDATION.idempotency.key_malformed")
    assert not upstream.requests


# ---- what passes ----


def test_an_unsafe_request_without_a_rule_passes_and_says_so(gateway, upstream):
    answers = [gateway.post("/other", BODY, key="k1") for _ in range(2)]
    assert [answer["Idempotency-Status"] for answer in answers] == ["bypassed", "bypassed"]
    assert upstream.effects() == 2


def test_a_safe_request_passes_unmarked(gateway, upstream):
    answer = gateway.request("GET", "/refunds/1?a=%20b")
    assert answer.mark == (200, None)
    assert upstream.requests[0].target == "/refunds/1?a=%20b"


def test_the_body_arrives_as_sent_with_the_key_and_a_token_of_pawls_own(gateway, upstream):
    tokens = []
    for i in range(3):
        gateway.post("/refunds", ODD_BYTES, key=f'"k{i}"', headers=[("Idempotency-Token", "9")])
        seen = upstream.requests[i]
        assert (seen["Idempotency-Key"], seen.body) == (f"k{i}", ODD_BYTES)
        tokens.append(int(seen["Idempotency-Token"]))
    assert tokens == sorted(set(tokens)) and tokens[0] > 9 and tokens[-1] < 2**53


# ---- crashes and clients that leave ----


def test_an_answer_survives_kill_9(gateway, upstream):
    first = gateway.post("/refunds", BODY, key="k1")
    gateway.kill9()
    gateway.start()
    again = gateway.post("/refunds", BODY, key="k1")
    assert (again["Idempotency-Status"], again.kept) == ("replayed", first.kept)
    assert upstream.effects() == 1


@pytest.mark.file_only
def test_kill_9_while_the_upstream_works_never_repeats_the_effect(gateway, upstream):
    gate = upstream.hold()
    client = Later(lambda: gateway.post("/refunds", BODY, key="k1"))
    gate.wait_for()
    gateway.kill9()
    with pytest.raises(Broken):
        client.result()
    gate.open()
    gateway.start()
    again = gateway.post("/refunds", BODY, key="k1")
    assert again.is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert upstream.effects() == 1


@pytest.mark.parametrize("reset", [False, True])
def test_a_client_that_leaves_changes_nothing(gateway, upstream, reset):
    gate = upstream.hold()
    with gateway.connect() as client:
        client.send(request_bytes("POST", "/refunds", [("Idempotency-Key", "k1")], b"{}"))
        gate.wait_for()
        if reset:
            client.reset()
    gate.open()
    headers = [("Idempotency-Key", "k1")]
    again = gateway.request("POST", "/refunds", headers, b"{}")
    assert again.mark == (201, "replayed")
    assert again.json == {"held": True}
    assert upstream.effects() == 1


def test_sigterm_lets_a_running_exchange_end_and_tells_its_answer(gateway, upstream):
    gate = upstream.hold()
    client = Later(lambda: gateway.post("/refunds", BODY, key="k1"))
    gate.wait_for()
    gateway.signal(signal.SIGTERM)
    eventually(lambda: not gateway.is_listening, "the end of listening")
    gate.open()
    answer = client.result()
    assert answer.mark == (201, "stored")
    assert answer["Connection"] == "close"
    assert gateway.wait() == 0
    gateway.start()
    assert gateway.post("/refunds", BODY, key="k1").kept == answer.kept
    assert upstream.effects() == 1


@pytest.mark.file_only
def test_a_second_serve_on_the_same_store_is_refused(pawl, upstream):
    first, second = pawl(), pawl(started=False)
    second.store = first.store
    second.configure(CONFIG)
    ran = run("serve", "-c", second.config)
    assert ran.returncode == 69
    assert str(first.process.pid) in ran.stderr
    assert first.post("/refunds", BODY, key="k1").status == 201


# ---- an upstream that breaks ----


@pytest.mark.parametrize("reply", [closes(), resets(), Reply(200, b"whole", cut=30),
                                   Reply(200, b"x" * 100, cut=-10),
                                   Reply(200, b"x" * 3000, framing="chunked", cut=-1),
                                   Reply(raw=b"SSH-2.0-nonsense\r\n\r\n")],
                         ids=["closes", "resets", "half a head", "half a body", "no last chunk",
                              "nonsense"])
def test_under_hold_a_broken_answer_leaves_the_outcome_unknown(gateway, upstream, reply):
    upstream.then(reply)
    first = gateway.post("/refunds", BODY, key="k1")
    code = "upstream_broke" if reply.raw is None else "upstream_malformed"
    assert first.is_problem(502, f"TRANSIENT.{code}")
    assert first["Idempotency-Status"] == "unknown"
    assert first.json["safe_new_key"] is False
    for _ in range(2):
        again = gateway.post("/refunds", BODY, key="k1")
        assert again.is_problem(409, "CONFLICT.idempotency.outcome_unknown")
        assert (again.json["retryable"], again.json["safe_new_key"]) == (False, False)
    assert upstream.effects() == 1


def test_under_retry_a_broken_answer_is_released_and_the_next_attempt_goes_out(pawl, upstream):
    gateway = pawl(CONFIG + "    unknown: retry\n")
    upstream.then(closes())
    first = gateway.post("/refunds", BODY, key="k1")
    assert first.is_problem(502, "TRANSIENT.upstream_broke")
    assert first["Idempotency-Status"] == "released"
    again = gateway.post("/refunds", BODY, key="k1")
    assert again.mark == (201, "stored")
    keys = {request["Idempotency-Key"] for request in upstream.requests}
    tokens = [int(request["Idempotency-Token"]) for request in upstream.requests]
    assert keys == {"k1"} and len(tokens) == 2 and tokens[0] < tokens[1]


def test_an_upstream_that_is_not_there_releases_the_key(gateway, upstream):
    upstream.stop()
    first = gateway.post("/refunds", BODY, key="k1")
    assert first.is_problem(503, "DEPENDENCY.unavailable")
    assert first["Retry-After"] is not None
    upstream.start()
    again = gateway.post("/refunds", BODY, key="k1")
    assert again.mark == (201, "stored")
    assert upstream.effects() == 1


@pytest.mark.no_store
@pytest.mark.parametrize("status", [401, 403, 408, 425, 429, 503, 508])
def test_an_answer_that_says_not_done_is_told_and_not_kept(gateway, upstream, status):
    upstream.then(say(status, {"no": True}, effect=False))
    first = gateway.post("/refunds", BODY, key="k1")
    assert first.mark == (status, "released")
    again = gateway.post("/refunds", BODY, key="k1")
    assert again.mark == (201, "stored")
    assert upstream.effects() == 1


@pytest.mark.no_store
@pytest.mark.parametrize("status", [400, 404, 409, 422, 501])
def test_a_final_refusal_of_the_upstream_is_kept(gateway, upstream, status):
    upstream.then(say(status, {"no": True}, effect=False))
    first = gateway.post("/refunds", BODY, key="k1")
    again = gateway.post("/refunds", BODY, key="k1")
    assert first.mark == (status, "stored")
    assert (again["Idempotency-Status"], again.kept) == ("replayed", first.kept)
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("status", [502, 504])
def test_an_answer_in_doubt_is_told_and_holds_the_key(gateway, upstream, status):
    upstream.then(say(status, {"no": True}))
    first = gateway.post("/refunds", BODY, key="k1")
    assert first.mark == (status, "unknown")
    again = gateway.post("/refunds", BODY, key="k1")
    assert again.is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert len(upstream.requests) == 1


# ---- time ----


@hooks
def test_a_record_lives_for_its_ttl_and_no_longer(pawl, upstream, clock):
    gateway = pawl(CONFIG + "    ttl: 72h\n")
    first = gateway.post("/refunds", BODY, key="k1")
    clock.advance(72 * 3600 - 60)
    assert gateway.post_up("/refunds", BODY, key="k1").kept == first.kept
    clock.advance(120)
    after = gateway.post_up("/refunds", BODY, key="k1")
    assert (after["Idempotency-Status"], upstream.effects()) == ("stored", 2)


@hooks
def test_an_upstream_that_does_not_answer_in_time_leaves_the_outcome_unknown(gateway, upstream,
                                                                             clock):
    gate = upstream.hold()
    client = Later(lambda: gateway.post("/refunds", BODY, key="k1"))
    gate.wait_for()
    clock.advance(31)
    first = client.result()
    assert first.is_problem(504, "DEPENDENCY.timeout")
    assert first["Idempotency-Status"] == "unknown"
    assert upstream.effects() == 1


@hooks
def test_a_duplicate_that_waited_its_time_is_told_that_the_first_still_runs(pawl, upstream, clock):
    gateway = pawl(CONFIG + "    timeout: 1h\n")
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", BODY, key="k1"))
    gate.wait_for()
    second = Later(lambda: gateway.post("/refunds", BODY, key="k1"))

    def is_over() -> bool:
        clock.advance(0.2)  # the duplicate's 10 s begin when it arrives, whenever that is
        return second.is_done

    eventually(is_over, "the end of the wait")
    told = second.result()
    assert told.is_problem(409, "CONFLICT.idempotency.in_progress")
    assert told.json["error"]["code"] == "CONCURRENT_REQUEST"
    assert told["Retry-After"] is not None
    gate.open()
    assert first.result()["Idempotency-Status"] == "stored"
    assert upstream.effects() == 1
