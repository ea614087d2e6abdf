# SPDX-License-Identifier: Apache-2.0
"""Ordinary changes of a rule, and what the retry of a record from before the change gets: the
record is complete, running, or in doubt, and the change is made forth and back."""
from __future__ import annotations

import json

import pytest

from pawltest.gateway import run
from pawltest.upstream import closes, say
from pawltest.wire import Answer, Later

HEAD = "tenant: none\nrules:\n"
RULE = "  - {name: pay, match: POST /pay, unknown: UNKNOWN MORE}\n"
HOLD, RETRY, PROBE = "hold", "retry", '{probe: "GET /pay/by-key/{key}"}'


def rule(more: str = "", before: str = "", behind: str = "") -> str:
    return HEAD + before + RULE.replace(" MORE", f", {more}" if more else "") + behind


# Changes after which every record is found: (one side, the other).
SAME = {
    "forward_key: quoted": (rule(), rule("forward_key: quoted")),
    "forward_key: bare": (rule("forward_key: quoted"), rule("forward_key: bare")),
    "ttl and lease": (rule(), rule("ttl: 2h, timeout: 20s")),
    "formerly": (rule("formerly: [paid]"), rule("formerly: [pay]").replace("pay,", "paid,", 1)),
    "formerly with the rule's name in the key": (
        rule('key: "{header:Idempotency-Key}{route}", formerly: [paid]'),
        rule('key: "{header:Idempotency-Key}{route}", formerly: [pay]').replace("pay,", "paid,", 1),
    ),
}


def changes():
    rows = [pytest.param(one, other, id=f"{name}, {way}") for name, pair in SAME.items()
            for way, (one, other) in (("forth", pair), ("back", pair[::-1]))]
    return pytest.mark.parametrize("before, after", rows)


def under(config: str, unknown: str) -> str:
    return config.replace("UNKNOWN", unknown)


def pay(gateway, key: str = "k1") -> Answer:
    return gateway.post("/pay", {"amount": 5}, key=key)


def marks(answer: Answer) -> tuple[int, str | None]:
    return answer.status, answer["Idempotency-Status"]


@changes()
def test_a_complete_record_is_replayed(pawl, upstream, before, after):
    gateway = pawl(under(before, HOLD))
    first = pay(gateway)
    gateway.reload(under(after, HOLD))
    again = pay(gateway)
    assert (marks(again), again.body) == ((201, "replayed"), first.body)
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
    assert marks(first.result()) == (201, "stored")
    assert marks(second.result()) == (201, "replayed")
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
    assert marks(pay(gateway)) == (201, "stored")
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
    assert marks(pay(gateway)) == (201, "stored")
    assert [request["Idempotency-Key"] for request in upstream.requests] == ["k1", '"k1"']


def test_what_is_shown_of_a_hidden_tenant_is_nobodys_name(pawl, upstream):
    """found: R24"""
    plain = rule("tenant: '{header:X-T}', trust_tenant: true")
    hidden = plain.replace("trust_tenant", "secret")
    gateway = pawl(under(hidden, HOLD))

    def of(tenant: str) -> Answer:
        return gateway.post("/pay", {"amount": 5}, key="k1", headers=[("X-T", tenant)])

    assert marks(of("acme")) == (201, "stored")
    shown = json.loads(run("keys", "list", "--json", "--store", gateway.store).stdout)["tenant"]
    assert shown.startswith("credential:")
    gateway.reload(under(plain, HOLD))
    for name in (shown, "credential:", "credential:x"):
        refused = of(name)
        assert refused.is_problem(400, "VALIDATION.idempotency.tenant_missing")
        assert "'credential:'" in refused.json["detail"]
    assert marks(of("Credential:x")) == (201, "stored")
    assert upstream.effects() == 2


def test_a_tenant_made_of_two_values_is_no_hidden_one_either(pawl, upstream):
    gateway = pawl(under(rule("tenant: '{header:X-A}{header:X-B}', trust_tenant: true"), HOLD))
    answer = gateway.post("/pay", {"amount": 5}, key="k1",
                          headers=[("X-A", "credential"), ("X-B", "0" * 64)])
    assert answer.is_problem(400, "VALIDATION.idempotency.tenant_missing")
    assert upstream.effects() == 0
