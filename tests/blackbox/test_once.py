# SPDX-License-Identifier: Apache-2.0
"""`once:`, the second identity of a route: what must not happen twice whatever key the client
sends."""
from __future__ import annotations

import json

import pytest

from pawltest.gateway import Gateway, run
from pawltest.upstream import closes, say
from pawltest.wire import Answer, Later, at_once, eventually, request_bytes

CONFIG = """
tenant: "{header:X-Tenant?}"
trust_tenant: true
rules:
  - name: purchases
    match: POST /purchases
    timeout: 1h
    in_progress: {wait: 10m}
    tombstone: 1h
    MORE
    once: {key: "{body:/ref}", ttl: 48h, duplicate: reject}
"""
JSON = ("Content-Type", "application/json")
hooks = pytest.mark.hooks


def config(duplicate: str = "reject", more: str = "ttl: 24h") -> str:
    return CONFIG.replace("MORE", more).replace("duplicate: reject", f"duplicate: {duplicate}")


def ask(gateway: Gateway, key: str | None, ref: str = "pay_77", amount: int = 5,
        tenant: str = "") -> Answer:
    headers = [JSON] + ([("Idempotency-Key", key)] if key else [])
    headers += [("X-Tenant", tenant)] if tenant else []
    body = json.dumps({"ref": ref, "amount": amount}).encode()
    return gateway.request("POST", "/purchases", headers, body)


def later(gateway: Gateway, key: str) -> Answer:
    """After the clock moved: the store counts as down until its next batch."""
    def answered() -> Answer | None:
        answer = ask(gateway, key)
        return None if answer.status == 503 else answer

    return eventually(answered, "a store that is up")


def problem(answer: Answer, status: int, code: str) -> dict:
    assert answer.is_problem(status, code), answer
    return json.loads(answer.body)


def test_the_retry_of_a_lost_answer_gets_the_first_answer(pawl, upstream):
    """found: B-F3"""
    gateway = pawl(config())
    first = ask(gateway, "k1")
    retry = ask(gateway, "k1")
    assert first.mark == (201, "stored")
    assert retry.mark == (201, "replayed")
    assert retry.body == first.body
    assert upstream.effects() == 1


def test_another_key_for_the_same_value_is_a_duplicate(pawl, upstream):
    gateway = pawl(config())
    ask(gateway, "k1")
    told = problem(ask(gateway, "k2"), 409, "CONFLICT.idempotency.duplicate")
    assert told["first"]["status"] == 201
    assert told["first"]["location"] == "/purchases/1"
    assert told["safe_new_key"] is False
    assert told["idempotency_key"] == "k2"
    assert "k1" not in json.dumps(told)
    problem(ask(gateway, "k3", amount=6), 409, "CONFLICT.idempotency.duplicate")
    assert upstream.effects() == 1
    assert ask(gateway, "k2", ref="pay_78").status == 201


def test_the_clients_key_is_looked_at_too(pawl, upstream):
    """found: B-F4"""
    gateway = pawl(config(more="key_format: uuid4"))
    key = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
    assert ask(gateway, None).is_problem(400, "VALIDATION.idempotency.key_missing")
    assert ask(gateway, "not-a-uuid").is_problem(400, "VALIDATION.idempotency.key_malformed")
    assert ask(gateway, key).status == 201
    told = problem(ask(gateway, key, amount=6), 409, "CONFLICT.idempotency.payload_mismatch")
    assert told["safe_new_key"] is True
    problem(ask(gateway, key, ref="other"), 409, "CONFLICT.idempotency.payload_mismatch")
    assert upstream.effects() == 1


def test_under_replay_another_key_gets_the_first_answer_and_keeps_it(pawl, upstream):
    gateway = pawl(config("replay"))
    first = ask(gateway, "k1")
    told = problem(ask(gateway, "k2", amount=6), 409, "CONFLICT.idempotency.payload_mismatch")
    assert told["safe_new_key"] is False
    assert "new key" not in told["hint"]
    for _ in range(2):
        again = ask(gateway, "k2")
        assert again.mark == (201, "replayed")
        assert again.body == first.body
    problem(ask(gateway, "k2", ref="other"), 409, "CONFLICT.idempotency.payload_mismatch")
    assert upstream.effects() == 1


def test_under_ack_another_key_is_told_that_it_was_done_and_no_more(pawl, upstream):
    gateway = pawl(config("{ack: 204}", more="payload: {exclude: [/amount]}"))
    first = ask(gateway, "k1")
    for amount in (5, 6):
        told = ask(gateway, "k2", amount=amount)
        assert (told.status, told.body, told["Idempotency-Status"]) == (204, b"", "replayed")
    assert ask(gateway, "k1").body == first.body
    assert upstream.effects() == 1


def test_payload_ignore_lets_every_request_with_the_value_be_the_same(pawl, upstream):
    gateway = pawl(config("replay, payload: ignore"))
    first = ask(gateway, "k1")
    assert ask(gateway, "k2", amount=6).body == first.body
    assert ask(gateway, "k2", amount=6).body == first.body
    problem(ask(gateway, "k2", amount=5), 409, "CONFLICT.idempotency.payload_mismatch")
    assert upstream.effects() == 1


def test_a_hundred_requests_under_a_hundred_keys_have_one_effect(pawl, upstream):
    gateway = pawl(config("replay"))
    gate = upstream.hold()
    first = Later(lambda: ask(gateway, "k0"))
    gate.wait_for()
    others = Later(lambda: at_once(99, lambda i: ask(gateway, f"k{i + 1}")))
    gate.open()
    assert {answer.body for answer in others.result()} == {first.result().body}
    assert upstream.effects() == 1


def test_waiters_of_other_keys_go_along_when_the_value_changes_hands(pawl, upstream):
    gateway = pawl(config("replay"))
    gate = upstream.gate()
    upstream.then(say(503, gate=gate, effect=False))
    first = Later(lambda: ask(gateway, "k1"))
    gate.wait_for()
    others = Later(lambda: at_once(10, lambda i: ask(gateway, f"w{i}")))
    gate.open()
    assert first.result().status == 503
    answers = others.result()
    assert {answer.status for answer in answers} == {201}
    assert len({answer.body for answer in answers}) == 1
    assert upstream.effects() == 1
    assert ask(gateway, "k1").body == answers[0].body


def test_an_unknown_outcome_is_unknown_for_every_key(pawl, upstream):
    gateway = pawl(config())
    upstream.then(closes())
    assert ask(gateway, "k1").status == 502
    told = problem(ask(gateway, "k2"), 409, "CONFLICT.idempotency.outcome_unknown")
    assert told["safe_new_key"] is False
    assert upstream.effects() == 1


def test_a_doubt_under_retry_goes_on_under_the_holders_key(pawl, upstream):
    gateway = pawl(config("replay", more="unknown: retry"))
    upstream.then(closes())
    assert ask(gateway, "k1").status == 502
    problem(ask(gateway, "k3", amount=6), 409, "CONFLICT.idempotency.outcome_unknown")
    second = ask(gateway, "k2")
    assert second.status == 201
    assert [request["Idempotency-Key"] for request in upstream.requests] == ["k1", "k1"]
    assert ask(gateway, "k1").body == second.body == ask(gateway, "k2").body
    told = eventually(lambda: [line for line in gateway.log
                               if line.get("idempotency_status") == "stored"], "its line")
    assert "k1" not in json.dumps(told[0])


def test_a_probe_asks_for_the_holders_key(pawl, upstream):
    probe = 'unknown: {probe: "GET /by-key/{key}"}'
    gateway = pawl(config("replay", more=f"{probe}\n    settle: 0s"))
    upstream.on("GET", "/by-key/k1", say(500))
    upstream.then(closes())
    ask(gateway, "k1")
    upstream.on("GET", "/by-key/k1", say(200, {"found": 1}))
    found = ask(gateway, "k2")
    assert (found.status, json.loads(found.body)) == (200, {"found": 1})
    assert ask(gateway, "k2").body == found.body == ask(gateway, "k1").body
    assert "/by-key/k2" not in [request.target for request in upstream.requests]
    assert upstream.effects() == 1


def test_without_a_key_the_value_is_the_records_name(pawl, upstream):
    gateway = pawl(config(more="require: false"))
    first = ask(gateway, None)
    assert first.mark == (201, "stored")
    assert upstream.requests[0]["Idempotency-Key"] == "once:pay_77"
    told = problem(ask(gateway, None), 409, "CONFLICT.idempotency.duplicate")
    assert told["first"]["status"] == 201
    problem(ask(gateway, "k1"), 409, "CONFLICT.idempotency.duplicate")
    assert ask(gateway, "once:pay_78", ref="squat").status == 201
    assert ask(gateway, None, ref="pay_78").status == 201
    assert upstream.effects() == 3


@pytest.mark.parametrize("body, kind, detail", [
    ({"amount": 5}, JSON,
     "this request has no value; the once value is read from body:/ref"),
    ({"ref": "pay_77"}, ("Content-Type", "text/plain"),
     "Content-Type does not say that the body is JSON; the once value is read from body:/ref"),
])
def test_a_once_value_that_is_missing_is_not_called_a_key(pawl, upstream, body, kind, detail):
    gateway = pawl(config())
    answer = gateway.request("POST", "/purchases", [kind, ("Idempotency-Key", "k1")],
                             json.dumps(body).encode())
    told = problem(answer, 400, "VALIDATION.idempotency.key_source_missing")
    assert told["title"] == "The once value is missing"
    assert told["detail"].startswith(detail)
    assert "key" not in told["hint"] and "once value" in told["hint"]
    assert upstream.requests == []


def test_a_once_value_of_another_format_is_not_called_a_key(pawl):
    gateway = pawl(config().replace("{body:/ref}", "{body:/ref|uuid}"))
    told = problem(ask(gateway, "k1"), 400, "VALIDATION.idempotency.key_malformed")
    assert told["title"] == "The once value is malformed"
    assert told["detail"].startswith("the value of body:/ref is not a UUID")
    assert "key" not in told["hint"]


def test_a_clients_key_squats_no_business_key(pawl, upstream):
    gateway = pawl(config())
    assert ask(gateway, "pay_77", ref="pay_1").status == 201
    assert ask(gateway, "k1", ref="pay_77").status == 201
    assert upstream.effects() == 2


def test_two_tenants_hold_a_value_each(pawl, upstream):
    gateway = pawl(config())
    assert ask(gateway, "k1", tenant="a").status == 201
    assert ask(gateway, "k1", tenant="b").status == 201
    problem(ask(gateway, "k2", tenant="b"), 409, "CONFLICT.idempotency.duplicate")
    assert upstream.effects() == 2


def test_a_record_from_before_once_holds_its_key_as_the_value(pawl, upstream):
    before = config().replace("    once:", "    key: \"{body:/ref}\"\n    # once:")
    gateway = pawl(before)
    assert ask(gateway, None).status == 201
    gateway.configure(config())
    gateway.restart()
    problem(ask(gateway, "k1"), 409, "CONFLICT.idempotency.duplicate")
    assert ask(gateway, "pay_78", ref="x").status == 201
    assert ask(gateway, "k2", ref="pay_78").status == 201
    assert upstream.effects() == 3


def test_a_holder_is_found_under_a_former_name_of_the_rule(pawl, upstream):
    gateway = pawl(config("replay"))
    first = ask(gateway, "k1")
    gateway.configure(config("replay", more="formerly: [purchases]").replace(
        "name: purchases", "name: bought"))
    gateway.restart()
    assert ask(gateway, "k2").body == first.body
    assert ask(gateway, "k1").body == first.body
    assert upstream.effects() == 1


def test_another_once_template_makes_no_mismatch_of_a_retry(pawl, upstream):
    gateway = pawl(config("replay"))
    first = ask(gateway, "k1")
    gateway.configure(gateway.accept(
        config("replay").replace("{body:/ref}", "{body:/ref}{body:/amount}")))
    gateway.restart()
    again = ask(gateway, "k1")
    assert (again["Idempotency-Status"], again.body) == ("replayed", first.body)
    problem(ask(gateway, "k1", amount=6), 409, "CONFLICT.idempotency.payload_mismatch")
    assert upstream.effects() == 1


def test_once_added_with_a_new_name_of_the_rule_goes_on_with_its_records(pawl, upstream):
    gateway = pawl(config().replace("    once:", "    # once:"))
    upstream.then(say(503, effect=False))
    ask(gateway, "k1")
    gateway.configure(config("replay", more="formerly: [purchases]")
                      .replace("name: purchases", "name: bought"))
    gateway.restart()
    first = ask(gateway, "k1")
    assert first["Idempotency-Status"] == "stored"
    assert ask(gateway, "k2").body == first.body
    assert upstream.effects() == 1


@hooks
def test_the_value_outlives_the_key_and_a_crash(pawl, upstream, clock):
    gateway = pawl(config())
    ask(gateway, "k1")
    gateway.kill9()
    gateway.start()
    clock.advance(26 * 3600)
    told = problem(later(gateway, "k1"), 409, "CONFLICT.idempotency.duplicate")
    assert told["first"]["status"] == 201
    clock.advance(24 * 3600)
    assert later(gateway, "k1").status == 201
    assert upstream.effects() == 2


@hooks
@pytest.mark.parametrize("point, effects", [
    ("after_claim_commit", 0), ("before_outcome_commit", 1), ("after_outcome_commit", 1),
    ("before_response_write", 1), ("before_begin", 0), ("after_request_write", 1)])
@pytest.mark.file_only
def test_after_a_crash_at_any_point_no_other_key_repeats_the_effect(pawl, upstream, point, effects):
    gateway = pawl(config(), started=False)
    gateway.start(PAWL_CRASH_AT=point)
    with gateway.connect() as client:
        client.send(request_bytes("POST", "/purchases", [JSON, ("Idempotency-Key", "k1")],
                                  b'{"ref": "pay_77", "amount": 5}'))
        gateway.wait()
    gateway.start()
    for key in ("k2", "k1", "k2"):
        assert ask(gateway, key).status in (201, 409)
    assert upstream.effects() <= 1
    assert upstream.effects() == 1 or effects == 0


def test_operators_find_a_record_by_its_value_and_by_a_bound_key(pawl, upstream):
    gateway = pawl(config("replay"))
    ask(gateway, "k1")
    ask(gateway, "k2")

    def keys(*arguments: str) -> tuple[int, str]:
        done = run("keys", *arguments, "--store", str(gateway.store))
        return done.returncode, done.stdout + done.stderr

    code, shown = keys("show", "--once", "pay_77", "--json")
    assert code == 0
    assert json.loads(shown)["key"] == "k1"
    assert json.loads(shown)["once"] == "pay_77"
    assert keys("show", "k2")[0] == 0
    assert "k1" in keys("list", "--once", "pay_77")[1]
    assert keys("show", "--once", "pay_78")[0] == 1
    assert keys("forget", "--once", "pay_77")[0] == 0
    assert ask(gateway, "k2").status == 201
    assert upstream.effects() == 2


def test_the_log_and_the_policy_tell_of_the_second_identity(pawl, upstream):
    gateway = pawl(config())
    ask(gateway, "k1")
    assert eventually(lambda: gateway.log, "its line")[0]["once"] == "pay_77"
    answer = gateway.request("GET", "/.well-known/idempotency")
    once = json.loads(answer.body)["rules"][0]["once"]
    assert once == {"template": "{body:/ref}", "ttl": "2d", "duplicate": "reject",
                    "payload": "same"}


@pytest.mark.parametrize("once, more, said", [
    ('{ttl: 1h}', "", "has no key"),
    ('now', "", "expected {key: TEMPLATE"),
    ('{key: "{body:/ref}", tll: 1h}', "", "ttl"),
    ('{key: "{body:/ref}", payload: all}', "", "expected ignore"),
    ('{key: "{body:/ref}{window:1h}", ttl: 1h}', "", "a ttl and a {window"),
    ('{key: "{path:id}"}', "", "has no {id}"),
    ('{key: "{body:/ref}"}', "duplicate: reject", "a `duplicate` of its own"),
    ('{key: "{body:/ref}", duplicate: replay}', 'key: "{body:/id}"', "never have the same payload"),
])
def test_what_does_not_fit_is_refused(pawl, once, more, said):
    gateway = pawl(CONFIG.replace('{key: "{body:/ref}", ttl: 48h, duplicate: reject}', once)
                   .replace("MORE", more), started=False)
    done = run("serve", "--test", "-c", gateway.config)
    assert done.returncode == 2
    assert said in done.stderr


ORDERS = """
tenant: none
rules:
  - name: pay
    match: POST /purchases
    once: {key: "{body:/order}", duplicate: ack, payload: ignore}
"""


def test_a_value_holds_only_under_the_template_that_made_it(pawl, upstream):
    """found: R22"""
    gateway = pawl(ORDERS)

    def pay(key: str, **body: str) -> tuple[int, str | None]:
        answer = gateway.request("POST", "/purchases", [JSON, ("Idempotency-Key", key)],
                                 json.dumps(body).encode())
        return answer.status, answer["Idempotency-Status"]

    assert pay("k1", order="77") == (201, "stored")
    assert pay("k2", order="77") == (200, "replayed")
    gateway.reload(gateway.accept(ORDERS.replace("/order", "/invoice")))
    assert pay("k3", order="90", invoice="77") == (201, "stored")
    assert pay("k4", order="91", invoice="77") == (200, "replayed")
    assert pay("k1", order="77", invoice="1") == (409, None)  # its own key is compared as ever
    assert upstream.effects() == 2
