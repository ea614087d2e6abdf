# SPDX-License-Identifier: Apache-2.0
"""What playbooks of idempotency ask to be tested, where no other test here has it: payouts that
time out, webhooks that are delivered again, natural keys, and duplicates under another key."""
from __future__ import annotations

import pytest

from pawltest.upstream import say
from pawltest.wire import Later

CONFIG = """
tenant: "{header:X-Merchant-Id}"
trust_tenant: true
threads: 1
rules:
  - name: payouts
    match: POST /payouts
    timeout: 5s
    unknown: {probe: "GET /payouts/by-key/{key}"}
    probe_status: 201
  - name: events
    match: POST /events
    tenant: none
    key: "{header:X-Source-Service}{body:/event_id}"
    payload: ignore
    duplicate: ack
    not_done: [500]
    ttl: 7d
  - {name: grants.welcome, match: POST /grants/welcome, key: "{body:/user_id}", ttl: forever}
  - {name: users.create, match: POST /users, key: "{payload}"}
"""
MERCHANT = ("X-Merchant-Id", "m1")
DAY = 86400
hooks = pytest.mark.hooks


def event(source, number, send, **more):
    return send("/events", {"event_id": number, "event_type": "refund.succeeded", **more},
                headers=[("X-Source-Service", source)])


@hooks
def test_a_payout_that_timed_out_and_is_tried_again_is_one_payout(pawl, upstream, clock):
    gateway = pawl(CONFIG)
    gate = upstream.hold()
    upstream.on("GET", "/payouts/by-key/k1", say(503, {}))
    first = Later(lambda: gateway.post("/payouts", {"amount": 5}, "k1", [MERCHANT]))
    gate.wait_for()
    clock.run_until(lambda: first.is_done)
    assert first.result().is_problem(504, "DEPENDENCY.timeout")
    upstream.on("GET", "/payouts/by-key/k1", say(200, {"id": "po_1"}))
    again = gateway.post_up("/payouts", {"amount": 5}, "k1", [MERCHANT])
    gate.open()
    assert (again.mark, again.json) == ((201, "stored"), {"id": "po_1"})
    assert upstream.effects() == 1


@hooks
def test_an_event_that_is_delivered_again_is_acknowledged_for_a_week_and_handled_once(pawl,
                                                                                     upstream,
                                                                                     clock):
    gateway = pawl(CONFIG)
    assert event("ledger", "e1", gateway.post)["Idempotency-Status"] == "stored"
    clock.advance(7 * DAY - 60)
    again = event("ledger", "e1", gateway.post_up, delivery=2)
    assert (again.status, again.body, again["Idempotency-Status"]) == (200, b"", "replayed")
    assert upstream.effects() == 1
    clock.advance(61)
    assert event("ledger", "e1", gateway.post_up)["Idempotency-Status"] == "stored"


def test_an_event_of_another_source_is_another_event(shared, behind, key):
    answers = [event(source, key, shared.post) for source in ("ledger", "risk")]
    assert [answer.mark for answer in answers] == [(201, "stored")] * 2
    assert behind.effects() == 2


def test_an_event_whose_handling_failed_is_handled_by_its_next_delivery(shared, behind, key):
    behind.then(say(500, {}, effect=False))
    assert [event("ledger", key, shared.post).status for _ in range(3)] == [500, 201, 200]
    assert behind.effects() == 1


@hooks
def test_there_is_one_welcome_grant_for_a_user_of_a_merchant_for_ever(pawl, upstream, clock):
    gateway = pawl(CONFIG)

    def grant(merchant):
        return gateway.post_up("/grants/welcome", {"user_id": 7},
                               headers=[("X-Merchant-Id", merchant)])

    first = grant("m1")
    clock.advance(3650 * DAY)
    assert grant("m1").kept == first.kept
    assert grant("m2")["Idempotency-Status"] == "stored"
    assert upstream.effects() == 2


def test_the_payload_as_key_catches_a_duplicate_under_another_key(shared, behind):
    answers = [shared.post("/users", body, key, [MERCHANT]) for key, body in (
        ("k1", {"name": "Ann", "email": "a@example.org"}),
        ("k2", {"email": "a@example.org", "name": "Ann"}), ("k3", {"name": "Bob"}))]
    assert [answer.mark for answer in answers] == [(201, "stored"), (201, "replayed"),
                                                   (201, "stored")]
    assert behind.effects() == 2
