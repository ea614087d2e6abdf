# SPDX-License-Identifier: Apache-2.0
"""What users of other idempotency layers complained of, where no other test here shows it: see
docs/defects.md."""
from __future__ import annotations

import pytest

from pawltest.upstream import say
from pawltest.wire import Later

pytestmark = pytest.mark.no_store

CONFIG = """
tenant: "{header:X-User-Id}"
trust_tenant: true
threads: 1
rules:
  - {name: orders, match: POST /orders}
  - {name: refunds, match: POST /refunds}
  - {name: photos, match: "POST /albums/{id}/photos"}
  - {name: rpc, match: POST /rpc, payload: {exclude: [/id, /params/_meta]}}
  - {name: transfers, match: POST /transfers, payload: {include: [/to, /amount]}}
  - {name: short, match: POST /short, in_progress: {wait: 1s}, timeout: 1h, lease: 1h}
  - {name: leased, match: POST /leased, in_progress: conflict, lease: 3s}
retry_after: 10m
"""
ME = ("X-User-Id", "u1")
MISMATCH = "CONFLICT.idempotency.payload_mismatch"
RUNNING = "CONFLICT.idempotency.in_progress"
hooks = pytest.mark.hooks


def marks(*answers):
    return [answer["Idempotency-Status"] for answer in answers]


def test_one_key_on_two_routes_is_two_operations(shared, behind, key):
    """Elsewhere the second route replayed the first one's answer, and its write never ran."""
    answers = [shared.post(path, {"amount": 5}, key, [ME]) for path in ("/orders", "/refunds")]
    assert marks(*answers) == ["stored", "stored"]
    assert (behind.effects("/orders"), behind.effects("/refunds")) == (1, 1)


def test_one_key_on_two_resources_of_a_route_is_never_taken_for_one(shared, behind, key):
    assert shared.post("/albums/1/photos", {}, key, [ME]).status == 201
    assert shared.post("/albums/2/photos", {}, key, [ME]).is_problem(409, MISMATCH)
    assert behind.effects() == 1


def test_a_refreshed_access_token_repeats_nothing_where_the_tenant_is_the_user(shared, behind, key):
    first, again = (shared.post("/orders", {}, key, [ME, ("Authorization", f"Bearer {token}")])
                    for token in ("old", "new"))
    assert marks(first, again) == ["stored", "replayed"]
    assert behind.effects() == 1


def test_another_user_takes_nobodys_key_away(shared, behind, key):
    answers = [shared.post("/orders", {"by": user}, key, [("X-User-Id", user)])
               for user in ("stranger", "u1")]
    assert marks(*answers) == ["stored", "stored"]
    assert answers[0].json != answers[1].json
    assert behind.effects() == 2


def test_a_member_that_differs_on_each_attempt_can_be_left_out(shared, behind, key):
    """A JSON-RPC id, for one: elsewhere it made every retry a mismatch."""
    def call(number, amount):
        return shared.post("/rpc", {"jsonrpc": "2.0", "id": number, "method": "pay",
                                    "params": {"amount": amount, "_meta": {"try": number}}},
                           key, [ME])

    assert marks(call(1, 5), call(2, 5)) == ["stored", "replayed"]
    assert call(3, 6).is_problem(409, MISMATCH)
    assert behind.effects() == 1


def test_members_that_a_retry_adds_or_omits_can_be_left_out(shared, behind, key):
    bodies = [{"to": "a", "amount": 5, "note": "x"}, {"amount": 5, "to": "a"},
              {"to": "a", "amount": 5, "new": None}]
    assert marks(*(shared.post("/transfers", body, key, [ME]) for body in bodies)) == \
        ["stored", "replayed", "replayed"]
    assert shared.post("/transfers", {"to": "a"}, key, [ME]).is_problem(409, MISMATCH)
    assert behind.effects() == 1


@pytest.mark.parametrize("one, other", [(b"9007199254740993", b"9007199254740992"),
                                        (b"0.1", b"0.10000000000000000001")])
def test_amounts_that_one_double_holds_stay_apart(shared, behind, key, one, other):
    assert shared.post("/orders", b'{"amount":%s}' % one, key, [ME]).status == 201
    assert shared.post("/orders", b'{"amount":%s}' % other, key, [ME]).is_problem(409, MISMATCH)
    assert behind.effects() == 1


def test_what_is_retried_may_be_retried_before_its_first_answer_is_read(shared, behind, key):
    """Elsewhere the outcome was written when the client had its answer, or never."""
    with shared.connect() as client:
        client.send(b"POST /orders HTTP/1.1\r\nHost: x\r\nX-User-Id: u1\r\nContent-Length: 2\r\n"
                    b"Idempotency-Key: %s\r\nContent-Type: application/json\r\n\r\n{}" %
                    key.encode())
        again = shared.post("/orders", {}, key, [ME])
        assert client.answer().kept == again.kept
    assert behind.effects() == 1


@hooks
def test_a_waiter_whose_time_ended_frees_nothing(pawl, upstream, clock):
    """Elsewhere it deleted the record of the owner that still ran."""
    gateway = pawl(CONFIG)
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/short", {}, "k1", [ME]))
    gate.wait_for()
    for _ in range(3):
        waiter = Later(lambda: gateway.post("/short", {}, "k1", [ME]))
        clock.run_until(lambda waiter=waiter: waiter.is_done)
        assert waiter.result().is_problem(409, RUNNING)
    gate.open()
    assert marks(first.result(), gateway.post("/short", {}, "k1", [ME])) == ["stored", "replayed"]
    assert upstream.effects() == 1


def test_retry_after_never_points_beyond_the_lease_that_is_left(pawl, upstream):
    gateway = pawl(CONFIG)
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/leased", {}, "k1", [ME]))
    gate.wait_for()
    running = gateway.post("/leased", {}, "k1", [ME])
    assert running.is_problem(409, RUNNING)
    assert 1 <= int(running["Retry-After"]) <= 3
    gate.open()
    first.result()


def test_after_a_crash_another_payload_is_still_a_mismatch_and_the_same_one_a_replay(pawl,
                                                                                    upstream):
    """Elsewhere the hash was dropped when the record was completed."""
    gateway = pawl(CONFIG)
    first = gateway.post("/orders", {"amount": 5}, "k1", [ME])
    gateway.kill9()
    gateway.start()
    assert gateway.post("/orders", {"amount": 6}, "k1", [ME]).is_problem(409, MISMATCH)
    assert gateway.post("/orders", {"amount": 5}, "k1", [ME]).kept == first.kept
    assert upstream.effects() == 1


def test_a_refusal_that_is_the_answer_is_told_again_and_not_asked_again(shared, behind, key):
    """A business 409 is an outcome, whatever pawl's own 409s are."""
    behind.then(say(409, {"why": "sold out"}, effect=False))
    first, again = (shared.post("/orders", {}, key, [ME]) for _ in range(2))
    assert (first.json, again.json) == ({"why": "sold out"},) * 2
    assert marks(first, again) == ["stored", "replayed"]
    assert again["Error-Code"] is None
    assert len(behind.requests) == 1
