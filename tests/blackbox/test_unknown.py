# SPDX-License-Identifier: Apache-2.0
"""What becomes of an operation whose answer was lost: `unknown: hold`, `retry`, `probe`."""
from __future__ import annotations

import pytest

from pawltest.admin import with_admin
from pawltest.upstream import Reply, closes, resets, say
from pawltest.wire import Later, at_once, eventually, request_bytes

HOLD = """
tenant: none
rules:
  - {name: refunds.create, match: POST /refunds, timeout: 20s}
"""
RETRY = HOLD.replace("20s", "20s, unknown: retry")
PROBE = """
tenant: none
rules:
  - name: refunds.create
    match: POST /refunds
    timeout: 20s
    settle: 60s
    unknown: {probe: "GET /refunds/by-key/{key}"}
"""
# A gateway of the module's own has them all, for tests that neither stop it nor move its clock.
CONFIG = """
tenant: none
rules:
  - {name: held, match: POST /held, timeout: 20s}
  - {name: retried, match: POST /retried, timeout: 20s, unknown: retry}
  - {name: probed, match: POST /probed, timeout: 20s, settle: 60s,
     unknown: {probe: "GET /found/{key}"}}
"""
HELD, RETRIED, PROBED = "/held", "/retried", "/probed"
BODY = {"amount": 5}
FOUND = "/refunds/by-key/k1"

UNKNOWN = "CONFLICT.idempotency.outcome_unknown"
BROKE = "TRANSIENT.upstream_broke"
TIMEOUT = "DEPENDENCY.timeout"

hooks = pytest.mark.hooks

# An upstream that did it, and whose answer does not arrive whole.
BREAKS = {
    "closes before the answer": closes(),
    "resets before the answer": resets(),
    "closes in the status line": Reply(201, b"ok", cut=5),
    "closes in a header": Reply(201, b"ok", cut=30),
    "closes before the empty line": Reply(201, b"ok", cut=-4),
    "closes before the body": Reply(201, b"x" * 1000, cut=-1000),
    "closes in the body": Reply(201, b"x" * 1000, cut=-1),
    "resets in the body": Reply(201, b"x" * 1000, cut=-500, reset=True),
    "closes in a chunk": Reply(201, b"x" * 3000, framing="chunked", cut=-100),
    "closes before the last chunk": Reply(201, b"x" * 3000, framing="chunked", cut=-5),
    "closes within the last chunk": Reply(201, b"x" * 3000, framing="chunked", cut=-2),
    "resets a body that ends with the connection": Reply(201, b"x" * 99, framing="close",
                                                         cut=-9, reset=True),
    "closes in JSON that ends with the connection": Reply(
        201, b'{"id": "re_1", "lines": [{"am', (("Content-Type", "application/vnd.a+json; v=1"),),
        framing="close"),
    "garbage": Reply(raw=b"\0\1\2\3 nonsense"),
    "garbage for a head": Reply(raw=b"HTTP/1.1 201 Created\r\nno colon\r\n\r\n"),
    "interim answers only": Reply(raw=b"HTTP/1.1 103 Early Hints\r\n\r\n" * 3),
    "endless interim answers": Reply(raw=b"HTTP/1.1 100 Continue\r\n\r\n" * 40),
    "switches protocols": Reply(raw=b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n"
                                    b"Connection: upgrade\r\n\r\n"),
}


# To a store the rest is like one of these.
BREAKS_OF_STORES = ("closes before the answer", "closes in the body")


def breaks():
    return pytest.mark.parametrize("reply", [
        pytest.param(reply, id=name, marks=() if name in BREAKS_OF_STORES else pytest.mark.no_store)
        for name, reply in BREAKS.items()])


def code_of(reply) -> str:
    garbage = reply.raw is not None and b"HTTP/1.1 10" not in reply.raw
    return "TRANSIENT.upstream_malformed" if garbage else BROKE


# ---- hold ----

@breaks()
def test_hold_never_runs_again_what_may_have_happened(shared, behind, word, reply):
    behind.then(reply)
    first = shared.post(HELD, BODY, key=word)
    assert first.is_problem(502, code_of(reply))
    assert first["Idempotency-Status"] == "unknown"
    assert (first.json["retryable"], first.json["safe_new_key"]) == (False, False)
    assert first["Stripe-Should-Retry"] == "false"
    again = shared.post(HELD, BODY, key=word)
    assert again.is_problem(409, UNKNOWN)
    assert again["Idempotency-Status"] is None
    assert again.json["operation"]["state"] == "unknown"
    assert behind.effects() == len(behind.requests) == 1


def test_hold_never_runs_it_again_after_a_restart_either(pawl, upstream):
    gateway = pawl(HOLD)
    for name, reply in BREAKS.items():
        upstream.then(reply)
        assert gateway.post("/refunds", BODY, key=f'"{name}"').status == 502
    gateway.restart()
    for name in BREAKS:
        assert gateway.post("/refunds", BODY, key=f'"{name}"').is_problem(409, UNKNOWN)
    assert upstream.effects() == len(upstream.requests) == len(BREAKS)


@hooks
@pytest.mark.parametrize("part", [0, 30, 60], ids=["no byte", "half a head", "half a body"])
def test_hold_calls_it_unknown_when_time_runs_out(pawl, upstream, clock, part):
    gateway = pawl(HOLD)
    gate = upstream.gate()
    upstream.then(Reply(201, b"x" * 100, cut=part, after=lambda _: gate.pass_through()))
    client = Later(lambda: gateway.post("/refunds", BODY, key="k1"))
    upstream.wait_for(1)
    clock.advance(21)
    assert client.result().is_problem(504, TIMEOUT)
    assert client.result()["Idempotency-Status"] == "unknown"
    assert client.result().json["retryable"] is False
    assert gateway.post("/refunds", BODY, key="k1").is_problem(409, UNKNOWN)
    assert upstream.effects() == 1


@hooks
def test_an_answer_that_drips_has_an_absolute_time(pawl, upstream, clock):
    gateway = pawl(HOLD)
    upstream.then(Reply(201, b"x" * 100_000, drip=1))
    client = Later(lambda: gateway.post("/refunds", BODY, key="k1"))
    upstream.wait_for(1)
    clock.advance(21)
    assert client.result().is_problem(504, TIMEOUT)
    assert gateway.post("/refunds", BODY, key="k1").is_problem(409, UNKNOWN)


def test_an_answer_that_drips_but_ends_is_kept_whole(shared, behind, word):
    behind.then(Reply(201, b"x" * 200, framing="chunked", drip=7))
    first = shared.post(HELD, BODY, key=word)
    again = shared.post(HELD, BODY, key=word)
    assert (first.mark, first.body) == ((201, "stored"), b"x" * 200)
    assert (again.mark, again.body) == ((201, "replayed"), b"x" * 200)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("path", [HELD, RETRIED], ids=["hold", "retry"])
def test_a_whole_answer_that_says_not_done_is_released(shared, behind, word, path, status):
    behind.then(say(status, {"why": "not done"}, effect=False))
    first = shared.post(path, BODY, key=word)
    assert (first.mark, first.json) == ((status, "released"), {"why": "not done"})
    assert shared.post(path, BODY, key=word).mark == (201, "stored")


@pytest.mark.parametrize("status", [500, 502, 504])
@pytest.mark.parametrize("path, mark, then", [(HELD, "unknown", 409), (RETRIED, "released", 201)],
                         ids=["hold", "retry"])
def test_a_whole_answer_in_doubt_is_told_as_it_is(shared, behind, word, path, mark, then, status):
    """found: C-C2"""
    behind.then(say(status, {"why": "who knows"}))
    first = shared.post(path, BODY, key=word)
    assert (first.mark, first.json) == ((status, mark), {"why": "who knows"})
    assert shared.post(path, BODY, key=word).status == then


@pytest.mark.parametrize("status", [502, 500, 404])
@pytest.mark.parametrize("path", [HELD, PROBED], ids=["hold", "probe"])
def test_provider_duplicate_makes_any_answer_final(shared, behind, word, path, status):
    behind.then(say(status, {"was": "there"}, ("Error-Code", "PROVIDER.duplicate")))
    first = shared.post(path, BODY, key=word)
    again = shared.post(path, BODY, key=word)
    assert first.mark == (status, "stored")
    assert first["Error-Code"] == again["Error-Code"] == "PROVIDER.duplicate"
    assert (again.mark, again.kept) == ((status, "replayed"), first.kept)
    assert len(behind.requests) == 1


# ---- the client's own time ----

@hooks
def test_a_client_whose_own_time_is_over_is_told_and_the_exchange_goes_on(pawl, upstream, clock):
    gateway = pawl(HOLD)
    gate = upstream.hold()
    with gateway.connect() as connection:
        client = Later(lambda: connection.request(
            "POST", "/refunds", [("Idempotency-Key", "k1"), ("X-Request-Timeout", "3000")], b"{}"))
        gate.wait_for()
        clock.run_until(lambda: client.is_done)
        told = client.result()
        assert told.is_problem(504, TIMEOUT)
        assert (told.json["retryable"], told.json["safe_new_key"]) == (True, False)
        assert (told["Stripe-Should-Retry"], told["Retry-After"]) == (None, "1")
        second = Later(lambda: gateway.request("POST", "/refunds", [("Idempotency-Key", "k1")],
                                               b"{}"))
        gate.open()
        assert (second.result().mark, second.result().json) == ((201, "replayed"),
                                                                {"held": True})
    assert upstream.effects() == 1


@hooks
def test_a_client_whose_own_time_is_over_gets_no_second_answer(pawl, upstream, clock):
    gateway = pawl(HOLD)
    gate = upstream.hold()
    wanted = request_bytes("POST", "/refunds", [("Idempotency-Key", "k1"),
                                                ("X-Request-Timeout", "3000")], b"{}")
    with gateway.connect() as connection:
        connection.send(wanted)
        told = Later(connection.answer)
        gate.wait_for()
        clock.run_until(lambda: told.is_done)
        assert told.result().status == 504
        gate.open()
        if told.result()["Connection"] == "close":
            assert connection.is_closed()
        else:
            assert connection.request("GET", "/alive").json == {"read": "/alive"}


@hooks
def test_an_exchange_that_outlives_its_client_ends_unknown_when_its_time_is_over(pawl, upstream,
                                                                                 clock):
    gateway, admin = with_admin(pawl, HOLD.replace("20s", "20s, in_progress: {wait: 10m}"))
    gate = upstream.hold()
    client = Later(lambda: gateway.post("/refunds", BODY, key="k1",
                                        headers=[("X-Request-Timeout", "3000")]))
    gate.wait_for()
    clock.advance(4)
    assert client.result().is_problem(504, TIMEOUT)
    for own, code in ([("X-Request-Timeout", "3000")], "CONFLICT.idempotency.in_progress"), (
            [], UNKNOWN):
        waiter = Later(lambda own=own: gateway.post("/refunds", BODY, key="k1", headers=own))
        eventually(lambda: admin.value("pawl_waiting") == 1, "it waits")
        clock.run_until(lambda waiter=waiter: waiter.is_done)
        assert waiter.result().is_problem(409, code)
    assert upstream.effects() == 1


@hooks
def test_a_duplicate_waits_no_longer_than_its_own_time(pawl, upstream, clock):
    gateway = pawl(HOLD.replace("20s", "1h, in_progress: {wait: 10m}"))
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", BODY, key="k1"))
    gate.wait_for()
    second = Later(lambda: gateway.post("/refunds", BODY, key="k1",
                                        headers=[("X-Request-Timeout", "2000")]))
    third = Later(lambda: gateway.post("/refunds", BODY, key="k1"))
    clock.run_until(lambda: second.is_done, 0.1)
    assert not third.is_done
    assert second.result().is_problem(409, "CONFLICT.idempotency.in_progress")
    gate.open()
    assert first.result().mark == (201, "stored")
    assert third.result().mark == (201, "replayed")


@pytest.mark.no_store
@pytest.mark.parametrize("value", ["", "0x1", "-1", "soon", "99999999999999999999", "1.5"])
def test_a_client_time_that_is_no_number_counts_as_none(shared, behind, word, value):
    answer = shared.post(HELD, BODY, key=word, headers=[("X-Request-Timeout", value)])
    assert answer.mark == (201, "stored")
    assert behind.requests[0]["X-Request-Timeout"] == value


@hooks
def test_two_client_times_count_as_none(pawl, upstream, clock):
    gateway = pawl(HOLD)
    gate = upstream.hold()
    twice = [("X-Request-Timeout", "1000"), ("X-Request-Timeout", "2000")]
    first = Later(lambda: gateway.post("/refunds", BODY, key="k1", headers=twice))
    gate.wait_for()
    clock.advance(5)
    gate.open()
    assert first.result().mark == (201, "stored")


# ---- retry ----

@breaks()
def test_retry_goes_out_again_under_the_same_key_and_a_higher_token(shared, behind, word, reply):
    behind.then(reply)
    first = shared.post(RETRIED, BODY, key=f'"{word}"')
    assert first.is_problem(502, code_of(reply))
    assert first["Idempotency-Status"] == "released"
    assert (first.json["retryable"], first.json["safe_new_key"]) == (True, False)
    assert first["Stripe-Should-Retry"] is None
    assert shared.post(RETRIED, BODY, key=f'"{word}"').mark == (201, "stored")
    one, two = behind.requests
    assert one["Idempotency-Key"] == two["Idempotency-Key"] == word
    assert int(one["Idempotency-Token"]) < int(two["Idempotency-Token"])


def test_retry_still_tells_another_body_from_the_first(shared, behind, word):
    behind.then(closes())
    shared.post(RETRIED, BODY, key=word)
    other = shared.post(RETRIED, {"amount": 6}, key=word)
    assert other.is_problem(409, "CONFLICT.idempotency.payload_mismatch")
    assert other.json["safe_new_key"] is False
    assert len(behind.requests) == 1


@pytest.mark.file_only
def test_after_kill_9_retry_runs_it_again_at_once(pawl, upstream):
    gateway = pawl(RETRY)
    gate = upstream.hold()
    client = Later(lambda: gateway.post("/refunds", BODY, key="k1"))
    gate.wait_for()
    gateway.kill9()
    gateway.start()
    assert gateway.post("/refunds", BODY, key="k1").mark == (201, "stored")
    assert len(upstream.requests) == 2
    with pytest.raises(Exception):
        client.result()


# ---- probe ----

@breaks()
def test_a_probe_that_finds_it_answers_the_first_client(shared, behind, word, reply):
    behind.then(reply)
    behind.on("GET", f"/found/{word}", say(200, {"id": 1}, ("ETag", '"e"')))
    first = shared.post(PROBED, BODY, key=word)
    assert (first.mark, first.json, first["ETag"]) == ((200, "stored"), {"id": 1}, '"e"')
    again = shared.post(PROBED, BODY, key=word)
    assert (again.mark, again.kept) == ((200, "replayed"), first.kept)
    assert [r.method for r in behind.requests] == ["POST", "GET"]


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_probe_is_sent_after_an_answer_in_doubt(shared, behind, word, status):
    behind.then(say(status, {"why": "who knows"}))
    behind.on("GET", f"/found/{word}", say(200, {"id": 1}))
    first = shared.post(PROBED, BODY, key=word)
    assert (first.mark, first.json) == ((200, "stored"), {"id": 1})
    assert behind.effects() == 1


@hooks
def test_a_probe_is_sent_when_time_ran_out(pawl, upstream, clock):
    gateway = pawl(PROBE)
    gate = upstream.hold()
    upstream.on("GET", FOUND, say(200, {"id": 1}))
    client = Later(lambda: gateway.post("/refunds", BODY, key="k1"))
    gate.wait_for()
    clock.advance(21)
    assert (client.result().mark, client.result().json) == ((200, "stored"), {"id": 1})


def test_a_probe_carries_the_callers_headers_a_token_of_its_own_and_no_body(pawl, upstream):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    gateway = pawl(PROBE)
    upstream.then(closes())
    upstream.on("GET", "/refunds/by-key/a%22%20%3Fb", say(200, {"id": 1}))
    gateway.post("/refunds", BODY, key='"a\\" ?b"', headers=[
        ("Authorization", "Bearer t"), ("X-Merchant-Id", "m"), ("If-Match", '"v1"'),
        ("Idempotency-Token", "7"), ("Accept-Encoding", "gzip"), ("traceparent", trace)])
    post, probe = upstream.requests
    assert (probe.method, probe.target) == ("GET", "/refunds/by-key/a%22%20%3Fb")
    assert (probe["Authorization"], probe["X-Merchant-Id"]) == ("Bearer t", "m")
    assert int(probe["Idempotency-Token"]) > int(post["Idempotency-Token"])
    assert probe["Accept-Encoding"] == "identity"
    assert (probe["Content-Type"], probe["Content-Length"], probe["If-Match"]) == (None,) * 3
    assert probe.body == b""
    assert probe["traceparent"] == post["traceparent"] == trace


def test_no_header_makes_another_method_of_a_probe(shared, behind, word):
    behind.then(closes())
    shared.post(PROBED, BODY, key=word, headers=[("X-HTTP-Method-Override", "POST")])
    sent, probe = behind.requests
    assert (sent["X-HTTP-Method-Override"], probe["X-HTTP-Method-Override"]) == ("POST", None)
    assert probe.method == "GET"


@pytest.mark.no_store
@pytest.mark.parametrize("name", ["X-Original-URL", "X_Rewrite_URL"])
def test_no_header_makes_another_question_of_a_probe(shared, behind, word, name):
    behind.then(closes())
    shared.post(PROBED, BODY, key=word, headers=[(name, "/health")])
    sent, probe = behind.requests
    assert (sent[name], probe[name]) == ("/health", None)


@pytest.mark.no_store
@pytest.mark.parametrize("key", ["..", "a/b", "a/../b", '"a\\\\b"'])
def test_a_key_that_would_change_the_path_of_a_probe_is_never_asked_for(shared, behind, key):
    behind.then(closes())
    assert shared.post(PROBED, BODY, key=key).is_problem(502, BROKE)
    assert shared.post(PROBED, BODY, key=key).is_problem(409, UNKNOWN)
    assert [r.method for r in behind.requests] == ["POST"]


def test_probe_status_replaces_the_probes_own(pawl, upstream):
    gateway = pawl(PROBE + "    probe_status: 201\n")
    upstream.then(closes())
    upstream.on("GET", FOUND, say(200, {"id": 1}))
    assert gateway.post("/refunds", BODY, key="k1").mark == (201, "stored")
    assert gateway.post("/refunds", BODY, key="k1").mark == (201, "replayed")


def test_not_found_is_not_believed_before_it_is_settled(shared, behind, word):
    behind.then(closes(effect=False))
    behind.on("GET", f"/found/{word}", say(404, {"no": 1}))
    first = shared.post(PROBED, BODY, key=word)
    assert first.is_problem(502, BROKE)
    assert first.mark == (502, "unknown")
    again = shared.post(PROBED, BODY, key=word)
    assert again.is_problem(409, UNKNOWN)
    assert again.json["retryable"] is True
    assert 1 <= int(again["Retry-After"]) <= 60
    assert [r.method for r in behind.requests] == ["POST", "GET", "GET"]


@hooks
def test_not_found_releases_once_it_is_settled_and_the_attempt_goes_out(pawl, upstream, clock):
    gateway = pawl(PROBE)
    upstream.then(closes(effect=False))
    upstream.on("GET", FOUND, say(404, {"no": 1}))
    assert gateway.post("/refunds", BODY, key="k1").is_problem(502, BROKE)
    clock.advance(50)
    assert gateway.post_up("/refunds", BODY, key="k1").is_problem(409, UNKNOWN)
    clock.advance(11)
    assert gateway.post_up("/refunds", BODY, key="k1").mark == (201, "stored")
    assert [r.method for r in upstream.requests] == ["POST", "GET", "GET", "GET", "POST"]
    tokens = [int(r["Idempotency-Token"]) for r in upstream.requests]
    assert tokens == sorted(set(tokens))
    assert upstream.effects() == 1


def test_settle_0_believes_not_found_at_once(pawl, upstream):
    gateway = pawl(PROBE.replace("60s", "0"))
    upstream.then(closes(effect=False))
    upstream.on("GET", FOUND, say(404, {"no": 1}))
    assert gateway.post("/refunds", BODY, key="k1").mark == (502, "released")
    assert gateway.post("/refunds", BODY, key="k1").mark == (201, "stored")
    assert [r.method for r in upstream.requests] == ["POST", "GET", "POST"]


INCONCLUSIVE = {
    "403": say(403, {"no": 1}), "301": Reply(301, headers=(("Location", "/x"),)),
    "500": say(500, {"no": 1}), "closes": closes(), "resets": resets(),
    "garbage": Reply(raw=b"what\r\n\r\n"), "cut": Reply(200, b"x" * 100, cut=-1),
}


@pytest.mark.no_store
@pytest.mark.parametrize("reply", INCONCLUSIVE.values(), ids=INCONCLUSIVE.keys())
def test_a_probe_that_settles_nothing_changes_nothing(shared, behind, word, reply):
    behind.then(closes())
    behind.on("GET", f"/found/{word}", reply)
    first = shared.post(PROBED, BODY, key=word)
    assert first.is_problem(502, BROKE)
    assert (first.mark, first.json["retryable"]) == ((502, "unknown"), True)
    again = shared.post(PROBED, BODY, key=word)
    assert again.is_problem(409, UNKNOWN)
    assert (again.json["retryable"], again.json["safe_new_key"]) == (True, False)
    behind.on("GET", f"/found/{word}", say(200, {"id": 1}))
    assert shared.post(PROBED, BODY, key=word).mark == (200, "stored")
    assert behind.effects() == 1


@pytest.mark.parametrize("status", [500, 502, 504])
def test_after_a_vain_probe_the_first_client_gets_the_upstreams_own_answer(shared, behind, word,
                                                                           status):
    behind.then(say(status, {"why": "who knows"}, ("X-Own", "1")))
    behind.on("GET", f"/found/{word}", say(503, {"no": 1}))
    first = shared.post(PROBED, BODY, key=word)
    assert (first.mark, first.json, first["X-Own"]) == \
        ((status, "unknown"), {"why": "who knows"}, "1")
    assert shared.post(PROBED, BODY, key=word).is_problem(409, UNKNOWN)


@pytest.mark.parametrize("big", [Reply(502, b"x" * 5000),
                                 Reply(502, b"x", (("Content-Type", "text/event-stream"),))],
                         ids=["too large", "a stream"])
def test_after_a_vain_probe_an_answer_that_was_not_held_is_told_as_broken(pawl, upstream, big):
    gateway = pawl(PROBE + "    max_response_body: 1KiB\n")
    upstream.then(big)
    upstream.on("GET", FOUND, say(503, {"no": 1}))
    first = gateway.post("/refunds", BODY, key="k1")
    assert first.is_problem(502, BROKE)
    assert first.mark == (502, "unknown")
    assert gateway.post("/refunds", BODY, key="k1").is_problem(409, UNKNOWN)


def test_a_probe_that_reaches_nobody_settles_nothing(pawl, upstream):
    gateway = pawl(PROBE)
    upstream.then(closes(after=lambda _: upstream.refuse()))
    first = gateway.post("/refunds", BODY, key="k1")
    assert first.is_problem(502, BROKE)
    upstream.stop()
    assert gateway.post("/refunds", BODY, key="k1").is_problem(409, UNKNOWN)
    upstream.start()
    upstream.on("GET", FOUND, say(200, {"id": 1}))
    assert gateway.post("/refunds", BODY, key="k1").mark == (200, "stored")
    assert upstream.effects() == 1


def test_a_probe_answer_that_is_too_large_is_told_and_leaves_only_that_it_was_done(pawl, upstream):
    gateway = pawl(PROBE + "    max_response_body: 1KiB\n")
    upstream.then(closes())
    upstream.on("GET", FOUND, Reply(200, b"x" * 5000))
    first = gateway.post("/refunds", BODY, key="k1")
    assert (first.mark, first.body) == ((200, "not-kept"), b"x" * 5000)
    again = gateway.post("/refunds", BODY, key="k1")
    assert again.is_problem(410, "CONFLICT.idempotency.result_not_kept")


@pytest.mark.file_only
def test_after_kill_9_the_next_attempt_asks(pawl, upstream):
    gateway = pawl(PROBE)
    gate = upstream.hold()
    client = Later(lambda: gateway.post("/refunds", BODY, key="k1"))
    gate.wait_for()
    gateway.kill9()
    gateway.start()
    upstream.on("GET", FOUND, say(200, {"id": 1}))
    again = gateway.post("/refunds", BODY, key="k1")
    assert (again.mark, again.json) == ((200, "stored"), {"id": 1})
    assert upstream.effects() == 1
    with pytest.raises(Exception):
        client.result()


def test_many_duplicates_of_a_lost_answer_share_one_probe_at_a_time(shared, behind, word):
    gate = behind.hold(cut=0)
    behind.on("GET", f"/found/{word}", say(200, {"id": 1}))
    clients = Later(lambda: at_once(20, lambda _: shared.post(PROBED, BODY, key=word)))
    gate.wait_for()
    gate.open()
    answers = clients.result()
    assert {a.json["id"] for a in answers} == {1}
    assert [r.method for r in behind.requests] == ["POST", "GET"]


# ---- tokens ----

def test_an_upstream_that_refuses_the_current_token_leaves_the_outcome_unknown(shared, behind,
                                                                               word):
    """It contradicts the store: nobody knows what it did, and its answer reaches no client."""
    behind.then(say(409, {"no": 1}, ("Error-Code", "CONFLICT.idempotency.token_stale"),
                    effect=False))
    first = shared.post(HELD, BODY, key=word)
    assert first.is_problem(502, BROKE)
    assert first["Idempotency-Status"] == "unknown"
    assert shared.post(HELD, BODY, key=word).is_problem(409, UNKNOWN)
    assert len(behind.requests) == 1


@pytest.mark.parametrize("reply", [
    say(500, {"no": 1}, ("Error-Code", "CONFLICT.idempotency.token_stale"), effect=False),
    say(409, {"error_code": "CONFLICT.idempotency.token_stale"}, effect=False),
    say(409, {}, ("Error-Code", "CONFLICT.idempotency.token_stale2"), effect=False)],
    ids=["5xx", "body", "another code"])
def test_only_that_code_on_a_4xx_refuses_a_token(shared, behind, word, reply):
    behind.then(reply)
    answer = shared.post(HELD, BODY, key=word)
    assert answer.status == reply.status
    assert answer["Error-Code"] == (UNKNOWN if reply.status == 500 else None)


# ---- late answers and leases ----

@hooks
def test_an_exchange_longer_than_its_lease_keeps_its_key(pawl, upstream, clock):
    gateway = pawl(HOLD.replace("20s}", "1h, lease: 5s, in_progress: conflict}"))
    gate = upstream.hold()
    client = Later(lambda: gateway.post("/refunds", BODY, key="k1"))
    gate.wait_for()
    for _ in range(4):
        clock.advance(4)
        told = gateway.post_up("/refunds", BODY, key="k1")
        assert told.is_problem(409, "CONFLICT.idempotency.in_progress")
    clock.advance(60)
    gate.open()
    assert client.result().mark == (201, "stored")
    assert gateway.post("/refunds", BODY, key="k1").mark == (201, "replayed")
    assert upstream.effects() == 1


@hooks
def test_a_gateway_that_slept_past_the_lease_still_records_its_answer(pawl, upstream, clock):
    gateway = pawl(HOLD.replace("20s}", "1h, lease: 5s}"))
    gate = upstream.hold()
    client = Later(lambda: gateway.post("/refunds", BODY, key="k1"))
    gate.wait_for()
    gateway.pause()
    clock.advance(600)
    gate.open()
    gateway.go_on()
    assert client.result().mark == (201, "stored")
    assert gateway.post("/refunds", BODY, key="k1").mark == (201, "replayed")
    assert upstream.effects() == 1
