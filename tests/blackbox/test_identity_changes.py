# SPDX-License-Identifier: Apache-2.0
"""Ordinary changes of a rule, and what the retry of a record from before the change gets: the
record is complete, running, or in doubt, and the change is made forth and back."""
from __future__ import annotations

import json

import pytest

from pawltest.gateway import run
from pawltest.upstream import closes, say
from pawltest.wire import Answer, Later, eventually

HEAD = "tenant: none\nrules:\n"
RULE = "  - {name: pay, match: POST /pay, unknown: UNKNOWN MORE}\n"
HOLD, RETRY, PROBE = "hold", "retry", '{probe: "GET /pay/by-key/{key}"}'


def rule(more: str = "", name: str = "pay") -> str:
    return HEAD + RULE.replace(" MORE", f", {more}" if more else "").replace("pay", name, 1)


REST = "  - {name: all, match: POST /**, unknown: UNKNOWN}\n"
CAPTURE = "  - {name: capture, match: POST /capture, unknown: UNKNOWN, key_space: money}\n"


# Changes after which every record is found: (one side, the other).
SAME = {
    "forward_key: quoted": (rule(), rule("forward_key: quoted")),
    "forward_key: bare": (rule("forward_key: quoted"), rule("forward_key: bare")),
    "ttl and lease": (rule(), rule("ttl: 2h, timeout: 20s")),
    "formerly": (rule("formerly: [paid]"), rule("formerly: [pay]", "paid")),
    "formerly with the rule's name in the key": (
        rule('key: "{header:Idempotency-Key}{route}", formerly: [paid]'),
        rule('key: "{header:Idempotency-Key}{route}", formerly: [pay]', "paid")),
    "renamed, in the key space of the old name": (rule(), rule("key_space: pay", "paid")),
    "renamed, in a key space of its own": (rule("key_space: money"),
                                           rule("key_space: money", "paid")),
    "in front of a catch-all, in its key space": (HEAD + REST, rule("key_space: all") + REST),
    "formerly and a key space": (rule("key_space: money, formerly: [paid]"),
                                 rule("key_space: money, formerly: [pay]", "paid")),
    "formerly, into a key space": (rule(), rule("key_space: money, formerly: [pay]", "paid")),
    "beside another rule of its space": (rule("key_space: money"),
                                         rule("key_space: money", "paid") + CAPTURE),
}


ONE_WAY = ("formerly, into a key space",)  # the way back is a space that is left
# What a store is asked differs in these; the rest is what a config means.
ASKED = ("ttl and lease", "formerly", "renamed, in the key space of the old name",
         "formerly and a key space")


def changes():
    rows = [pytest.param(one, other, id=f"{name}, {way}",
                         marks=() if name in ASKED else pytest.mark.no_store)
            for name, pair in SAME.items()
            for way, (one, other) in (("forth", pair), ("back", pair[::-1]))
            if way == "forth" or name not in ONE_WAY]
    return pytest.mark.parametrize("before, after", rows)


def under(config: str, unknown: str) -> str:
    return config.replace("UNKNOWN", unknown)


def pay(gateway, key: str = "k1") -> Answer:
    return gateway.post("/pay", {"amount": 5}, key=key)


@changes()
def test_a_complete_record_is_replayed(pawl, upstream, before, after):
    gateway = pawl(under(before, HOLD))
    first = pay(gateway)
    gateway.reload(under(after, HOLD))
    again = pay(gateway)
    assert (again.mark, again.body) == ((201, "replayed"), first.body)
    assert upstream.effects() == 1


@changes()
def test_a_running_record_is_waited_for(pawl, upstream, before, after):
    gateway = pawl(under(before, HOLD))
    gate = upstream.hold()
    first = Later(lambda: pay(gateway))
    gate.wait_for()
    gateway.reload(under(after, HOLD))
    second = Later(lambda: pay(gateway))
    gate.open()
    assert first.result().mark == (201, "stored")
    assert second.result().mark == (201, "replayed")
    assert upstream.effects() == 1


@changes()
def test_a_record_in_doubt_stays_unknown(pawl, upstream, before, after):
    gateway = pawl(under(before, HOLD))
    upstream.then(closes())
    pay(gateway)
    gateway.reload(under(after, HOLD))
    assert pay(gateway).is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert upstream.effects() == 1


@changes()
def test_a_record_in_doubt_is_sent_again_under_the_same_line(pawl, upstream, before, after):
    """Three times, so that what was carried over is carried on."""
    gateway = pawl(under(before, RETRY))
    upstream.then(closes(), closes(), closes())
    pay(gateway)
    for _ in range(2):
        gateway.reload(under(after, RETRY))
        pay(gateway)
    assert pay(gateway).mark == (201, "stored")
    assert len({request["Idempotency-Key"] for request in upstream.done}) == 1
    assert len(upstream.done) == 4


@changes()
def test_a_record_in_doubt_is_probed_under_the_same_line(pawl, upstream, before, after):
    gateway = pawl(under(before, PROBE))
    upstream.then(closes(), say(500, {}))
    pay(gateway)
    gateway.reload(under(after, PROBE))
    pay(gateway)
    assert len({(request.target, request["Idempotency-Key"]) for request in upstream.requests
                if request.method == "GET"}) == 1
    assert len({request["Idempotency-Key"] for request in upstream.requests}) == 1
    assert upstream.effects() == 1


def test_a_key_is_spelled_as_the_rule_says_by_now_once_nothing_is_in_doubt(pawl, upstream):
    before, after = SAME["forward_key: quoted"]
    gateway = pawl(under(before, HOLD))
    upstream.then(say(503, {}, ("Retry-After", "0"), effect=False))
    pay(gateway)
    gateway.reload(under(after, HOLD))
    assert pay(gateway).mark == (201, "stored")
    assert [request["Idempotency-Key"] for request in upstream.requests] == ["k1", '"k1"']


# ---- rules that share their keys ----

SPACE = rule("key_space: money") + CAPTURE
MISMATCH = "CONFLICT.idempotency.payload_mismatch"


def capture(gateway, key: str = "k1") -> Answer:
    return gateway.post("/capture", {"amount": 5}, key=key)


def test_the_same_key_on_another_rule_of_the_space_is_a_mismatch(pawl, upstream):
    """found: L13"""
    gateway = pawl(under(SPACE, HOLD))
    assert pay(gateway).mark == (201, "stored")
    other = capture(gateway)
    assert other.is_problem(409, MISMATCH)
    assert "another method, path" in other.json["detail"]
    assert pay(gateway).mark == (201, "replayed")
    assert capture(gateway, "k2").mark == (201, "stored")
    assert pay(gateway, "k2").is_problem(409, MISMATCH)
    assert upstream.effects() == 2


@pytest.mark.parametrize("unknown", [HOLD, RETRY])
def test_another_rule_says_mismatch_of_what_runs_is_in_doubt_or_was_not_done(
        pawl, upstream, unknown):
    gateway = pawl(under(SPACE, unknown))
    gate = upstream.hold()
    first = Later(lambda: pay(gateway))
    gate.wait_for()
    assert capture(gateway).is_problem(409, MISMATCH)
    gate.open()
    first.result()
    upstream.then(closes())
    pay(gateway, "k2")
    assert capture(gateway, "k2").is_problem(409, MISMATCH)
    upstream.then(say(503, {}, ("Retry-After", "0"), effect=False))
    pay(gateway, "k3")
    assert capture(gateway, "k3").is_problem(409, MISMATCH)
    assert pay(gateway, "k3").mark == (201, "stored")
    assert upstream.effects("/capture") == 0


def test_a_mismatch_has_the_status_of_the_rule_that_says_it(pawl):
    gateway = pawl(under(SPACE.replace("key_space: money}\n", "key_space: money, mismatch: 422}\n"),
                         HOLD).replace(", mismatch: 422", "", 1))
    pay(gateway)
    assert capture(gateway).is_problem(422, MISMATCH)
    capture(gateway, "k2")
    assert pay(gateway, "k2").is_problem(409, MISMATCH)


def test_a_record_keeps_the_rule_that_began_it_and_is_found_by_the_space(pawl):
    gateway = pawl(under(SPACE, HOLD))
    pay(gateway)
    capture(gateway, "k2")

    def shown(*wanted: str) -> list[tuple[str, str]]:
        lines = run("keys", "list", "--json", *wanted, "--store", gateway.store).stdout
        return [(record["key"], record["rule"]) for record in map(json.loads, lines.splitlines())]

    assert sorted(shown()) == [("k1", "pay"), ("k2", "capture")]
    assert shown("--rule", "capture") == [("k2", "capture")]
    for tenant in ([], ["--tenant", ""]):
        show = ("keys", "show", "k1", "--rule", "pay", *tenant, "--json", "--store", gateway.store)
        assert json.loads(run(*show).stdout)["rule"] == "pay"


def test_once_values_stay_with_their_rule(pawl, upstream):
    once = 'once: {key: "{body:/amount}", duplicate: reject}'
    gateway = pawl(under(SPACE.replace("key_space: money", f"key_space: money, {once}"), HOLD))
    assert pay(gateway).mark == (201, "stored")
    assert pay(gateway, "k2").is_problem(409, "CONFLICT.idempotency.duplicate")
    assert capture(gateway, "k3").mark == (201, "stored")
    assert upstream.effects() == 2


def test_in_the_background_a_renamed_rule_probes_what_its_key_space_holds(pawl, upstream):
    probe = 'probe_headers: {Authorization: "Bearer p"}, settle: 0s'
    gateway = pawl(under(rule(probe), PROBE))
    upstream.then(closes())
    upstream.on("GET", "/pay/by-key/k1", say(500, {}))
    pay(gateway)
    upstream.on("GET", "/pay/by-key/k1", say(200, {"id": 7}))
    gateway.reload(under(rule(f"key_space: pay, {probe}", "paid"), PROBE))
    eventually(lambda: any(line["event"] == "probe" and line["result"] == "done"
                           for line in gateway.log), "a probe")
    assert pay(gateway).mark == (200, "replayed")
    assert upstream.effects() == 1


# ---- names of tenants ----


def test_what_is_shown_of_a_hidden_tenant_is_nobodys_name(pawl, upstream):
    """found: R24"""
    plain = rule("tenant: '{header:X-T}', trust_tenant: true")
    hidden = plain.replace("trust_tenant", "secret")
    gateway = pawl(under(hidden, HOLD))

    def of(tenant: str) -> Answer:
        return gateway.post("/pay", {"amount": 5}, key="k1", headers=[("X-T", tenant)])

    assert of("acme").mark == (201, "stored")
    shown = json.loads(run("keys", "list", "--json", "--store", gateway.store).stdout)["tenant"]
    assert shown.startswith("credential:")
    gateway.reload(gateway.accept(under(plain, HOLD)))
    for name in (shown, "credential:", "credential:x"):
        refused = of(name)
        assert refused.is_problem(400, "VALIDATION.idempotency.tenant_missing")
        assert "'credential:'" in refused.json["detail"]
    assert of("Credential:x").mark == (201, "stored")
    assert upstream.effects() == 2


def test_a_tenant_made_of_two_values_is_no_hidden_one_either(pawl, upstream):
    gateway = pawl(under(rule("tenant: '{header:X-A}{header:X-B}', trust_tenant: true"), HOLD))
    answer = gateway.post("/pay", {"amount": 5}, key="k1",
                          headers=[("X-A", "credential"), ("X-B", "0" * 64)])
    assert answer.is_problem(400, "VALIDATION.idempotency.tenant_missing")
    assert upstream.effects() == 0


ONCE = 'once: {key: "{body:/order}", duplicate: ack}'


def orders(gateway, key: str) -> Answer:
    return gateway.post("/pay", {"order": "77"}, key=key)


def test_a_value_is_found_whichever_name_its_record_began_under(pawl, upstream):
    """A record of the old name goes on under the new one, and takes a value."""
    gateway = pawl(under(rule(), HOLD))
    upstream.then(say(503, {}, effect=False))
    assert orders(gateway, "k1")["Idempotency-Status"] == "released"
    gateway.reload(under(rule(f"key_space: pay, formerly: [pay], {ONCE}", "paid"), HOLD))
    assert orders(gateway, "k1")["Idempotency-Status"] == "stored"
    assert orders(gateway, "k2")["Idempotency-Status"] == "replayed"
    assert upstream.effects() == 1
