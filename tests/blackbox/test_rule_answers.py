# SPDX-License-Identifier: Apache-2.0
"""What a rule says about answers: which are kept, and what a duplicate and a mismatch get."""
from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from pawltest.upstream import Gate, Reply, closes, say
from pawltest.wire import Later

CONFIG = """
tenant: none
threads: 1
rules:
  - name: worded
    match: POST /worded/{id}:pay
    key: "{header:Idempotency-Key}{path:id}"
    errors:
      media_type: application/vnd.shop+json
      templates:
        payload_mismatch: '{"error": {"code": "{code}", "is": "{detail}"}, "status": {status}}'
        default: '{"error": "{title}", "id": "{instance}", "key": "{key}", "trace": "{trace_id}"}'
  - {name: success, match: POST /success, remember: success}
  - {name: all, match: POST /all, remember: all}
  - {name: lists, match: POST /lists, not_done: [409, 502], in_doubt: [500, 202]}
  - {name: lists.retry, match: POST /lists-retry, in_doubt: [500], unknown: retry}
  - name: lists.probe
    match: POST /lists-probe
    not_done: [500]
    in_doubt: [202]
    unknown: {probe: "GET /lists-probe/{key}"}
    settle: 0
  - name: bodies
    match: POST /bodies
    not_done: [409, {status: 200, body: /error/code, is: [BUSY, 704]}]
    in_doubt: [{body: /maybe, is: [true]}]
    max_response_body: 200
  - name: bodies.retry
    match: POST /bodies-retry
    not_done: [{body: /error/code, is: [BUSY]}]
    retry: {profile: api, schedule: [10ms]}
  - name: bodies.probe
    match: POST /bodies-probe
    unknown: {probe: "GET /bodies-probe/{key}"}
    not_found: [404, {body: /data/0, absent: true}]
    settle: 0
  - name: copies
    match: POST /copies
    payload: {exclude: [/id, /meta]}
    replay: {copy: [/id, /meta/trace]}
  - {name: live, match: POST /live, stream: true, not_done: [202], in_doubt: [203]}
  - {name: rejects, match: POST /rejects, duplicate: reject, ttl: 1h, tombstone: 1h}
  - {name: rejects.ever, match: POST /rejects-ever, duplicate: reject, ttl: forever}
  - {name: window, match: POST /window, key: "{body:/id}{window:1h}", duplicate: reject}
  - {name: acks, match: POST /acks, duplicate: ack}
  - {name: mine, match: POST /mine, tenant: "{header:X-Who}", trust_tenant: true}
  - {name: acks.204, match: POST /acks-204, duplicate: {ack: 204}}
  - {name: rejects.live, match: POST /rejects-live, duplicate: reject, stream: true}
  - {name: acks.small, match: POST /acks-small, duplicate: ack, max_response_body: 5}
  - {name: mismatch.422, match: POST /mismatch-422, mismatch: 422}
  - {name: mismatch.400, match: POST /mismatch-400, mismatch: 400}
"""
BODY = {"amount": 5}
hooks = pytest.mark.hooks


# ---- which answers are kept ----


@pytest.mark.parametrize("status, mark", [(200, "stored"), (302, "stored"), (400, "released"),
                                          (404, "released"), (422, "released"), (500, "unknown"),
                                          (501, "stored"), (502, "unknown"), (503, "released")])
def test_under_remember_success_a_refusal_of_the_upstream_is_not_kept(shared, behind, key, status,
                                                                      mark):
    behind.then(say(status, {"status": status}))
    assert shared.post("/success", BODY, key=key).mark == (status, mark)


@pytest.mark.parametrize("status", [200, 400, 401, 429, 500, 502, 503, 504])
def test_under_remember_all_every_answer_is_kept(shared, behind, key, status):
    behind.then(say(status, {"status": status}))
    assert shared.post("/all", BODY, key=key).mark == (status, "stored")
    assert shared.post("/all", BODY, key=key).mark == (status, "replayed")
    assert behind.effects() == 1


@pytest.mark.parametrize("status, mark", [(409, "released"), (502, "released"), (500, "unknown"),
                                          (202, "unknown"), (504, "unknown"), (201, "stored")])
def test_single_statuses_are_moved_by_their_lists(shared, behind, key, status, mark):
    behind.then(say(status, {"status": status}))
    assert shared.post("/lists", BODY, key=key).mark == (status, mark)


def test_a_500_in_doubt_never_runs_again_under_hold(shared, behind, key):
    behind.then(say(500, {}))
    shared.post("/lists", BODY, key=key)
    again = shared.post("/lists", BODY, key=key)
    assert again.is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert behind.effects() == 1


def test_a_500_in_doubt_runs_again_under_retry(shared, behind, key):
    behind.then(say(500, {}))
    assert shared.post("/lists-retry", BODY, key=key).mark == (500, "released")
    assert shared.post("/lists-retry", BODY, key=key).mark == (201, "stored")


def test_an_answer_in_doubt_is_asked_about_under_probe(shared, behind, key):
    behind.then(say(202, {}))
    behind.on("GET", f"/lists-probe/{key[1:-1]}", say(200, {"found": True}))
    first = shared.post("/lists-probe", BODY, key=key)
    assert (first.mark, first.json) == ((200, "stored"), {"found": True})
    assert behind.effects() == 1


def test_a_500_that_is_called_not_done_is_not_asked_about(shared, behind, key):
    behind.then(say(500, {}, effect=False))
    assert shared.post("/lists-probe", BODY, key=key).mark == (500, "released")
    assert shared.post("/lists-probe", BODY, key=key).mark == (201, "stored")
    assert behind.effects() == 1


def test_an_answer_that_passes_live_is_sorted_by_its_status_too(shared, behind, key):
    behind.then(say(202, {"n": 1}, effect=False), say(203, {"n": 2}))
    first = shared.post("/live", BODY, key=key)
    assert (first.mark, first.json) == ((202, "released"), {"n": 1})
    second = shared.post("/live", BODY, key=key)
    assert (second.mark, second.json) == ((203, "unknown"), {"n": 2})
    again = shared.post("/live", BODY, key=key)
    assert again.is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert behind.effects() == 1


BUSY = {"error": {"code": "BUSY"}}
DUPLICATE = ("Error-Code", "PROVIDER.duplicate")
CODED = ("Content-Encoding", "x-own")


@pytest.mark.parametrize("said, mark", [
    (say(200, BUSY), "released"),
    (say(200, {"error": {"code": 704.0}}), "released"),
    (say(200, {"error": {"code": "704"}}), "stored"),
    (say(201, BUSY), "stored"),
    (say(409, {"id": 1}), "released"),
    (say(409, BUSY | {"maybe": True}), "unknown"),
    (say(200, BUSY | {"maybe": True}, DUPLICATE), "stored"),
    (say(200, BUSY, CODED), "stored"),
    (say(200, BUSY | {"pad": "x" * 200}), "not-kept"),
], ids=["code", "by value", "text", "status", "list", "doubt first", "duplicate", "coded", "large"])
def test_bodies_say_what_is_not_done_and_in_doubt_before_statuses(shared, behind, key, said, mark):
    behind.then(said)
    assert shared.post("/bodies", BODY, key=key).mark[1] == mark


def test_what_is_not_done_by_its_body_is_retried_as_a_503_is(shared, behind, key):
    behind.then(say(200, BUSY, effect=False))
    assert shared.post("/bodies-retry", BODY, key=key).mark == (201, "stored")
    assert (len(behind.requests), behind.effects()) == (2, 1)


def test_a_probe_that_says_200_and_shows_nothing_has_not_found_it(shared, behind, key):
    behind.then(say(500, {}, effect=False))
    behind.on("GET", f"/bodies-probe/{key[1:-1]}", say(200, {"data": []}))
    shared.post("/bodies-probe", BODY, key=key)
    assert shared.post("/bodies-probe", BODY, key=key).status == 201
    assert behind.effects() == 1


def test_a_probe_whose_error_shows_nothing_has_found_nothing_out(shared, behind, key):
    behind.then(say(500, {}))
    behind.on("GET", f"/bodies-probe/{key[1:-1]}", say(503, {"error": "later"}))
    assert shared.post("/bodies-probe", BODY, key=key).mark == (500, "unknown")
    again = shared.post("/bodies-probe", BODY, key=key)
    assert again.is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert behind.effects() == 1


# ---- what a replay takes from the request ----

OF_THE_BYTES = [("ETag", '"1"'), ("Digest", "sha-256=x"), ("Content-Digest", "sha-256=:x:"),
                ("Repr-Digest", "sha-256=:x:"), ("Content-MD5", "x"), ("Signature", "s=:x:"),
                ("Signature-Input", "s=()")]
JSON = ("Content-Type", "application/json; charset=utf-8")


def rpc(given: str) -> bytes:
    return b'{"method": "pay", "id": %s}' % given.encode()


def test_a_replay_has_the_id_of_who_asks_and_the_first_response_its_own(shared, behind, key):
    whole = b' {"jsonrpc":"2.0" , "result":{"id":1,"n":1.0,"n\\u00e9":"\xc3\xa9"},"id" : %s}\n'
    behind.then(Reply(201, whole % b"1", (JSON, ("X-Own", "1"), *OF_THE_BYTES)))
    first = shared.post("/copies", rpc("1"), key=key)
    assert (first.mark, first.body) == ((201, "stored"), whole % b"1")
    for given in ('"b\\u00e9\\""', "12345678901234567890", "null", "2.50"):
        again = shared.post("/copies", rpc(given), key=key)
        assert (again.mark, again.body) == ((201, "replayed"), whole % given.encode())
        assert (again["X-Own"], again["Content-Type"]) == ("1", JSON[1])
        assert not [name for name, _ in OF_THE_BYTES if again[name]]
    same = shared.post("/copies", rpc("1"), key=key)
    assert same.body == first.body and [line for line in same.headers if line in OF_THE_BYTES] == [
        line for line in first.headers if line in OF_THE_BYTES] == OF_THE_BYTES
    other = shared.post("/copies", b'{"method": "other", "id": 1}', key=key)
    assert other.is_problem(409, "CONFLICT.idempotency.payload_mismatch")
    assert behind.effects() == 1


@pytest.mark.parametrize("status, pad", [(404, 0), (200, 100_000)])
def test_members_are_copied_into_refusals_and_large_responses_too(shared, behind, key, status, pad):
    said = {"id": 1, "meta": {"trace": "a", "host": "h"}, "pad": "x" * pad}
    behind.then(say(status, said))
    body = {"id": 1, "meta": {"trace": "a"}, "pad": "y" * pad}
    assert shared.post("/copies", body, key=key).json == said
    again = shared.post("/copies", body | {"id": "2", "meta": {"trace": "b", "host": "i"}}, key=key)
    assert again.mark == (status, "replayed")
    assert again.json == said | {"id": "2", "meta": {"trace": "b", "host": "h"}}


@pytest.mark.parametrize("said, asked", [
    (Reply(200, b'{"id":1}', (("Content-Type", "text/plain"),)), rpc("2")),
    (Reply(200, b'{"id":1}', (JSON, CODED)), rpc("2")),
    (Reply(206, b'{"id":1}', (JSON, ("Content-Range", "bytes 0-7/9"))), rpc("2")),
    (Reply(200, b'{"id":1,"id":1}', (JSON,)), rpc("2")),
    (Reply(200, b'{"id":[1]}', (JSON,)), rpc("2")),
    (Reply(200, b'[{"id":1}]', (JSON,)), rpc("2")),
    (Reply(200, b"", (JSON,)), rpc("2")),
    (Reply(200, b'{"id":1}', (JSON,)), b'{"method": "pay"}'),
    (Reply(200, b'{"id":1}', (JSON,)), rpc("[2]")),
    (Reply(200, b'{"id":1}', (JSON,)), rpc('"%s"' % ("x" * 1023))),
], ids=["text", "coded", "part", "ambiguous", "array", "in an array", "empty", "none asked",
        "no scalar asked", "too long"])
def test_what_has_no_place_for_the_id_is_replayed_as_it_was(shared, behind, key, said, asked):
    behind.then(replace(said, headers=(*said.headers, ("Cache-Control", "private"),
                                       *OF_THE_BYTES)))
    first = shared.post("/copies", rpc("1"), key=key)
    again = shared.post("/copies", asked, key=key)
    assert (again["Idempotency-Status"], again.body) == ("replayed", said.body)
    assert again.kept == first.kept and again["ETag"] == '"1"'


def test_each_of_those_that_wait_gets_its_own_id(shared, behind, key):
    gate = Gate()
    behind.then(say(200, {"id": 1}, gate=gate))
    first = Later(lambda: shared.post("/copies", rpc("1"), key=key))
    gate.wait_for()
    others = [Later(lambda n=n: shared.post("/copies", rpc(n), key=key)) for n in "23"]
    gate.open()
    assert [one.result().json for one in (first, *others)] == [{"id": n} for n in (1, 2, 3)]
    assert behind.effects() == 1


# ---- duplicates ----


def test_a_rejected_duplicate_is_409_and_told_of_the_first(shared, behind, key):
    behind.then(say(201, {"secret": "x"}, ("Location", "/reports/7")))
    assert shared.post("/rejects", BODY, key=key).mark == (201, "stored")
    again = shared.post("/rejects", BODY, key=key)
    assert again.is_problem(409, "CONFLICT.idempotency.duplicate")
    body = again.json
    assert (body["retryable"], body["safe_new_key"]) == (False, False)
    assert (body["first"]["status"], body["first"]["location"]) == (201, "/reports/7")
    assert body["first"]["at"] < body["window_ends_at"]
    assert body["first"]["at"].endswith("Z") and body["window_ends_at"].endswith("Z")
    assert again["Stripe-Should-Retry"] == "false"
    assert again["Idempotent-Replayed"] is None and b"secret" not in again.body
    assert behind.effects() == 1


def test_a_duplicate_of_what_holds_for_ever_has_no_end_of_its_window(shared, behind, key):
    shared.post("/rejects-ever", BODY, key=key)
    again = shared.post("/rejects-ever", BODY, key=key)
    assert again.json["error_code"] == "CONFLICT.idempotency.duplicate"
    assert again.json["window_ends_at"] is None


@hooks
def test_a_rejection_says_the_same_from_memory_and_from_disk(pawl, upstream):
    gateway = pawl(CONFIG)
    gateway.post("/rejects", BODY, key="k1")
    from_memory = gateway.post("/rejects", BODY, key="k1").json
    gateway.kill9()
    gateway.start()
    from_disk = gateway.post("/rejects", BODY, key="k1").json
    assert from_memory.pop("instance") != from_disk.pop("instance")
    assert from_disk == from_memory
    assert upstream.effects() == 1


@hooks
def test_after_its_window_a_rejected_duplicate_is_a_new_operation(pawl, upstream, clock):
    gateway = pawl(CONFIG)
    first = gateway.post("/window", {"id": 1})
    assert first.mark == (201, "stored")
    clock.advance(3000)
    again = gateway.post_up("/window", {"id": 1})
    assert again.is_problem(409, "CONFLICT.idempotency.duplicate")
    assert again.json["idempotency_key"] == upstream.requests[0]["Idempotency-Key"]
    clock.advance(601)
    assert gateway.post_up("/window", {"id": 1}).mark == (201, "stored")
    assert upstream.effects() == 2


@pytest.mark.parametrize("path", ["/rejects", "/acks"])
def test_a_failed_attempt_is_replayed_whatever_duplicates_get(shared, behind, key, path):
    behind.then(say(422, {"why": "amount"}, effect=False))
    assert shared.post(path, BODY, key=key).mark == (422, "stored")
    again = shared.post(path, BODY, key=key)
    assert (again.mark, again.json) == ((422, "replayed"), {"why": "amount"})
    assert len(behind.requests) == 1


def test_a_duplicate_is_rejected_or_acknowledged_also_when_the_answer_was_not_kept(shared, behind,
                                                                                   key):
    for path in ("/rejects-live", "/acks-small"):
        behind.then(say(201, {"why": "too long to be kept"}))
        assert shared.post(path, BODY, key=key).mark == (201, "not-kept")
    again = shared.post("/rejects-live", BODY, key=key)
    assert again.is_problem(409, "CONFLICT.idempotency.duplicate")
    assert set(again.json["first"]) == {"status", "at"}
    assert shared.post("/acks-small", BODY, key=key).mark == (200, "replayed")
    assert behind.effects() == 2


def test_a_failed_attempt_whose_answer_was_not_kept_is_410(shared, behind, key):
    behind.then(say(422, {"why": "too long to be kept"}, effect=False))
    shared.post("/acks-small", BODY, key=key)
    again = shared.post("/acks-small", BODY, key=key)
    assert again.is_problem(410, "CONFLICT.idempotency.result_not_kept")
    assert again.json["first"] == {"status": 422}


@pytest.mark.parametrize("path", ["/rejects", "/acks"])
def test_an_unknown_outcome_is_409_whatever_duplicates_get(shared, behind, key, path):
    behind.then(closes())
    shared.post(path, BODY, key=key)
    again = shared.post(path, BODY, key=key)
    assert again.is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert behind.effects() == 1


def test_a_duplicate_that_waited_for_its_first_is_rejected_too(shared, behind, key):
    gate = behind.hold()
    first = Later(lambda: shared.post("/rejects", BODY, key=key))
    gate.wait_for()
    second = Later(lambda: shared.post("/rejects", BODY, key=key))
    gate.open()
    assert first.result().mark == (201, "stored")
    assert second.result().is_problem(409, "CONFLICT.idempotency.duplicate")
    assert behind.effects() == 1


@pytest.mark.parametrize("path, status", [("/acks", 200), ("/acks-204", 204)])
def test_an_acknowledged_duplicate_is_a_success_without_a_body(shared, behind, key, path, status):
    behind.then(say(201, {"secret": "x"}, ("Location", "/reports/7"), ("X-Own", "1")))
    shared.post(path, BODY, key=key)
    again = shared.post(path, BODY, key=key)
    assert (again.mark, again.body) == ((status, "replayed"), b"")
    assert again["Idempotent-Replayed"] == "true"
    assert again["Content-Length"] == ("0" if status == 200 else None)
    assert (again["Location"], again["X-Own"], again["Content-Type"]) == (None, None, None)
    assert again["Cache-Control"] == "no-store"
    assert behind.effects() == 1


def test_another_request_under_the_key_is_a_mismatch_whatever_duplicates_get(shared, behind, key):
    shared.post("/acks", BODY, key=key)
    other = shared.post("/acks", {"amount": 6}, key=key)
    assert other.is_problem(409, "CONFLICT.idempotency.payload_mismatch")
    assert behind.effects() == 1


# ---- mismatch ----


@pytest.mark.parametrize("status", [422, 400])
def test_a_mismatch_has_the_status_of_its_rule(shared, behind, key, status):
    path = f"/mismatch-{status}"
    shared.post(path, BODY, key=key)
    other = shared.post(path, {"amount": 6}, key=key)
    assert other.is_problem(status, "CONFLICT.idempotency.payload_mismatch")
    assert (other.json["status"], other.json["safe_new_key"]) == (status, True)
    assert behind.effects() == 1


@pytest.mark.parametrize("target, body, told", [
    ("/mine", {"amount": 6}, "another body: it differs at /amount"),
    ("/mine?a=1", None, "another target: the query"),
    ("/mine?a=1", {"amount": 6},
     "another body: it differs at /amount; and with another target: the query"),
], ids=["body", "target", "both"])
def test_a_mismatch_tells_what_differs(shared, behind, key, target, body, told):
    shared.post("/mine", BODY, key=key, headers=[("X-Who", "m1")])
    other = shared.post(target, body or BODY, key=key, headers=[("X-Who", "m1")])
    assert other.is_problem(409, "CONFLICT.idempotency.payload_mismatch")
    assert other.json["detail"] == f"the key was first used with {told}"
    assert behind.effects() == 1


# ---- errors in the API's own words ----


def test_an_error_has_the_rules_words_and_pawls_status_and_headers(shared, behind, key):
    """found: L12, L9"""
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    assert shared.post("/worded/a:pay", BODY, key=key).mark == (201, "stored")
    other = shared.post("/worded/a:pay", {"amount": 6}, key=key)
    assert (other.status, other["Content-Type"]) == (409, "application/vnd.shop+json")
    assert other["Error-Code"] == "CONFLICT.idempotency.payload_mismatch"
    assert other["X-Should-Retry"] == "false" and "describedby" in other["Link"]
    assert other.json["status"] == 409 and other.json["error"]["code"] == "PAYLOAD_MISMATCH"
    lacks = shared.post("/worded/b:pay", BODY, key=None,
                        headers=[("traceparent", f"00-{trace}-00f067aa0ba902b7-01")])
    assert (lacks.status, lacks["Error-Code"]) == (400, "VALIDATION.idempotency.key_missing")
    assert lacks.json["id"].startswith("urn:uuid:") and lacks.json["key"] == ""
    assert (lacks.json["error"], lacks.json["trace"]) == ("Idempotency key missing", trace)
    plain = shared.post("/success", BODY, key=None)
    assert plain.is_problem(400, "VALIDATION.idempotency.key_missing")
    assert behind.effects() == 1


def test_errors_before_a_rule_is_known_have_the_words_of_the_defaults(pawl):
    gateway = pawl("""tenant: none
unmatched: refuse
defaults: {errors: {templates: {default: '{"error": "{error_code}", "again": {retryable}}'}}}
rules:
  - {name: verb, match: "POST /o/{id}:pay"}
  - {name: rest, match: "POST /o/{id}"}
""")
    for path, status, code in (("/x", 404, "VALIDATION.route_unknown"),
                               ("/o/1%3Apay", 400, "VALIDATION.path_ambiguous")):
        told = gateway.post(path, BODY, key="k1")
        assert (told.status, told["Error-Code"]) == (status, code)
        assert (told["Content-Type"], told.json) == ("application/json",
                                                     {"error": code, "again": False})


# ---- secret tenants ----


@pytest.mark.file_only
def test_a_secret_tenant_is_stored_only_as_its_keyed_hash(pawl, upstream):
    gateway = pawl('tenant: "{header:X-Session}"\nsecret: true\n'
                   "rules: [{name: a, match: POST /a}]\n")
    for session in ("very-secret-session", "another-session"):
        answer = gateway.post("/a", BODY, key="k1", headers=[("X-Session", session)])
        assert answer.mark == (201, "stored")
    again = gateway.post("/a", BODY, key="k1", headers=[("X-Session", "another-session")])
    assert (again.mark, upstream.effects()) == ((201, "replayed"), 2)
    with sqlite3.connect(f"file:{gateway.store}?mode=ro", uri=True) as store:
        tenants = {tenant for tenant, in store.execute("SELECT tenant FROM idempotency_keys")}
    assert len(tenants) == 2 and all(tenant.startswith("credential:") for tenant in tenants)
    for file in gateway.directory.glob("pawl.db*"):
        assert b"very-secret-session" not in file.read_bytes()


# ---- what passes unprotected ----


def test_no_hint_advises_to_repeat_what_no_record_protects(shared, behind):
    behind.then(closes())
    told = shared.post("/other", BODY)
    assert told["Error-Code"] == "TRANSIENT.upstream_broke"
    assert told["Idempotency-Status"] == "bypassed"
    assert "may do it again" in told.json["hint"] and "Repeat" not in told.json["hint"]
