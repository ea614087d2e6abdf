# SPDX-License-Identifier: Apache-2.0
"""Several gateways on one PostgreSQL: one truth, whichever of them is asked."""
from __future__ import annotations

import glob
from typing import Any

import pytest

from pawltest.admin import with_admin
from pawltest.gateway import Gateway, fill_the_places
from pawltest.upstream import closes, say
from pawltest.wire import Answer, Later, at_once, eventually, request_bytes

CONFIG = """
tenant: none
threads: 1
max_waiting_per_key: 3
defaults: {timeout: 1h, lease: 30s}
rules:
  - {name: refunds.create, match: POST /refunds, in_progress: {wait: 10m}}
  - {name: at.once, match: POST /at-once, in_progress: conflict}
  - {name: again, match: POST /again, in_progress: conflict, unknown: retry}
  - {name: asked, match: POST /asked, in_progress: conflict, probe_status: 201,
     unknown: {probe: "GET /by-key/{key}"}}
"""
hooks = pytest.mark.hooks
UNKNOWN = "CONFLICT.idempotency.outcome_unknown"
RUNNING = "CONFLICT.idempotency.in_progress"
AS_ASKED = request_bytes("POST", "/refunds", [("Idempotency-Key", "k1"),
                                              ("Content-Type", "application/json")], b"{}")


@pytest.fixture
def two(pawl) -> tuple[Gateway, Gateway]:
    return pawl(CONFIG), pawl(CONFIG)


def ask(gateway: Gateway, target: str = "/refunds", key: str = "k1", body: Any = None) -> Answer:
    return gateway.post(target, body if body is not None else {}, key=key)


def test_what_one_stored_the_other_replays_byte_for_byte(two, upstream):
    first, second = ask(two[0]), ask(two[1])
    assert (first.mark, second.mark) == ((201, "stored"), (201, "replayed"))
    assert first.kept == second.kept
    assert upstream.effects() == 1


def test_another_payload_is_a_mismatch_at_the_other(two, upstream):
    assert ask(two[0], body={"amount": 1}).status == 201
    answer = ask(two[1], body={"amount": 2})
    assert answer.is_problem(409, "CONFLICT.idempotency.payload_mismatch")
    assert upstream.effects() == 1


def test_a_race_of_both_for_one_key_has_one_effect_and_one_answer(two, upstream):
    for race in range(10):
        answers = at_once(6, lambda i, race=race: ask(two[i % 2], key=f"race-{race}"))
        assert {a.mark for a in answers} == {(201, "stored"), (201, "replayed")}
        assert [a["Idempotency-Status"] for a in answers].count("stored") == 1
        assert len({a.kept for a in answers}) == 1
        assert upstream.effects() == race + 1


def test_a_race_for_keys_in_turned_orders_ends(two, upstream):
    """Batches of both hold many keys; none waits for the other's for ever."""
    keys = [f"k{i}" for i in range(40)]
    answers = at_once(80, lambda i: ask(two[i % 2], key=keys[i // 2 if i % 2 else -1 - i // 2]))
    assert {a.status for a in answers} == {201}
    assert upstream.effects() == len(keys)


def test_duplicates_that_wait_at_the_other_are_told_what_the_first_was(two, upstream):
    gate = upstream.hold()
    first = Later(lambda: ask(two[0]))
    gate.wait_for()
    others = fill_the_places(two[1], 3, AS_ASKED)
    gate.open()
    kept = first.result().kept
    for client in others:
        answer = client.answer()
        assert (answer["Idempotency-Status"], answer.kept) == ("replayed", kept)
    assert upstream.effects() == 1


def test_one_statement_asks_for_all_waiting_keys_and_two_looks_tell_them(pawl, upstream, relay,
                                                                         database):
    """A look every 50 ms: 100 ms and a round trip after another gateway's commit at the latest."""
    one = pawl(CONFIG)
    other, admin = with_admin(pawl, CONFIG, started=False)
    other.move_to(database.url_at(relay.port)).start()
    keys = [f"k{i}" for i in range(20)]
    gate = upstream.gate()
    upstream.default = say(201, {"held": True}, gate=gate)
    firsts = [Later(lambda key=key: ask(one, key=key)) for key in keys]
    gate.wait_for(len(keys))
    waiting = [Later(lambda key=key: ask(other, key=key)) for key in keys]
    eventually(lambda: admin.value("pawl_waiting") == len(keys), "all duplicates to wait")

    def looks() -> int:
        return sum(b"w.place FROM unnest" in message.data for message in list(relay.messages))

    gate.open()
    kept = [first.result().kept for first in firsts]
    before = looks()
    assert [second.result().kept for second in waiting] == kept
    assert looks() <= before + 2
    assert upstream.effects() == len(keys)


def test_where_the_first_was_not_done_one_that_waits_at_the_other_goes_on(two, upstream):
    gate = upstream.gate()
    upstream.then(say(503, effect=False, gate=gate))
    first = Later(lambda: ask(two[0]))
    gate.wait_for()
    others = fill_the_places(two[1], 3, AS_ASKED)
    gate.open()
    assert first.result().mark == (503, "released")
    answers = [client.answer() for client in others]
    assert sorted(a["Idempotency-Status"] for a in answers) == ["replayed", "replayed", "stored"]
    assert upstream.effects() == 1


def leave_one_running(gateway: Gateway, upstream: Any, target: str) -> None:
    """Its effect is done, and its gateway is killed before the answer."""
    gate = upstream.hold()
    first = Later(lambda: ask(gateway, target))
    gate.wait_for()
    gateway.kill9()
    gate.open()
    with pytest.raises(Exception):
        first.result()


@hooks
def test_a_killed_gateways_lease_lapses_and_hold_keeps_the_other_from_a_second_effect(
        two, upstream, clock):
    leave_one_running(two[0], upstream, "/at-once")
    assert ask(two[1], "/at-once")["Error-Code"] == RUNNING
    clock.advance(31)
    assert two[1].post_up("/at-once", {}, key="k1")["Error-Code"] == UNKNOWN
    assert upstream.effects() == 1


@hooks
def test_a_killed_gateways_lease_lapses_and_under_retry_the_other_goes_on(two, upstream, clock):
    leave_one_running(two[0], upstream, "/again")
    assert ask(two[1], "/again")["Error-Code"] == RUNNING
    clock.advance(31)
    assert two[1].post_up("/again", {}, key="k1").mark == (201, "stored")
    tokens = [int(one["Idempotency-Token"]) for one in upstream.requests]
    assert tokens == sorted(set(tokens)) and len(tokens) == 2


@hooks
def test_a_killed_gateways_lease_lapses_and_the_other_asks_the_upstream(two, upstream, clock):
    leave_one_running(two[0], upstream, "/asked")
    clock.advance(31)
    answer = two[1].post_up("/asked", {}, key="k1")
    assert (answer.status, answer.json) == (201, {"read": "/by-key/k1"})
    assert upstream.effects() == 1


@hooks
def test_a_gateway_that_lives_keeps_its_lease_by_its_beats(two, upstream, clock, database):
    gate = upstream.hold()
    first = Later(lambda: ask(two[0], "/again"))
    gate.wait_for()

    def beat() -> int:
        return database.sql("SELECT max(beat_at) FROM pawl.owner")[0][0]

    for _ in range(5):
        before = beat()
        clock.advance(11)
        eventually(lambda before=before: beat() >= before + 10_000_000, "a beat")
    assert two[1].post_up("/again", {}, key="k1")["Error-Code"] == RUNNING
    gate.open()
    assert first.result().mark == (201, "stored")
    assert ask(two[1], "/again").mark == (201, "replayed")
    assert upstream.effects() == 1


def test_a_gateway_that_starts_again_knows_what_it_did(two, upstream):
    first = ask(two[0])
    two[0].kill9()
    two[0].start()
    assert ask(two[0]).kept == first.kept
    assert upstream.effects() == 1


def fake_time(by: str) -> dict[str, str]:
    (library,) = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    return {"LD_PRELOAD": library, "FAKETIME": by, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def test_clocks_five_minutes_apart_change_nothing(pawl, upstream):
    """Of leases, of lifetimes, of what is told of them."""
    text = CONFIG.replace("timeout: 1h, lease: 30s", "timeout: 1h, lease: 30s, ttl: 60s")
    early, late = pawl(text, started=False), pawl(text, started=False)
    early.start(**fake_time("-5m"))
    late.start(**fake_time("+5m"))
    for one, other in ((early, late), (late, early)):
        key = f"k{one.port}"
        gate = upstream.hold()
        first = Later(lambda one=one, key=key: ask(one, "/again", key=key))
        gate.wait_for()
        running = ask(other, "/again", key=key)
        assert running["Error-Code"] == RUNNING
        assert 0 < running.json["operation"]["lease_left_ms"] <= 30_000
        gate.open()
        assert first.result().mark == (201, "stored")
        assert ask(other, "/again", key=key).mark == (201, "replayed")
    assert upstream.effects() == 2


def test_gauges_of_both_are_those_of_the_store(pawl, upstream):
    made = [with_admin(pawl, CONFIG), with_admin(pawl, CONFIG)]
    for i in range(5):
        assert ask(made[i % 2][0], key=f"k{i}").status == 201
    for gateway, _ in made:
        gateway.restart()
    for _, admin in made:
        admin.until_ready()
        eventually(lambda admin=admin: admin.value("pawl_records", status="complete") == 5,
                   "all records, once")


def test_what_an_operator_sees_and_does_at_one_holds_at_the_other(pawl, upstream):
    first, _ = with_admin(pawl, CONFIG)
    second, admin = with_admin(pawl, CONFIG)
    assert ask(first).status == 201
    (row,) = admin.keys()
    assert (row["key"], row["status"]) == ("k1", "complete")
    assert admin.act(row["id"], "forget").status == 200
    assert ask(first)["Idempotency-Status"] == "stored"
    assert ask(second)["Idempotency-Status"] == "replayed"
    assert upstream.effects() == 2


@hooks
def test_of_both_one_probes_in_the_background(pawl, upstream, clock):
    config = CONFIG + '     probe_headers: {}, settle: 1h}\n'
    config = config.replace('unknown: {probe: "GET /by-key/{key}"}}\n',
                            'unknown: {probe: "GET /by-key/{key}"},\n')
    two = pawl(config), pawl(config)
    upstream.then(closes())
    upstream.on("GET", "/by-key/k1", say(500, {}))
    assert ask(two[0], "/asked").status == 502
    probes = lambda: [line for gateway in two for line in gateway.lines("probe")]
    clock.run_until(lambda: len(probes()) >= 3, step=1)
    upstream.on("GET", "/by-key/k1", say(200, {"id": 1}))
    # By then the next one may be an hour away.
    clock.run_until(lambda: any(line["result"] == "done" for line in probes()), step=5)
    assert ask(two[1], "/asked").mark == (201, "replayed")
    told = probes()
    assert len({line["token"] for line in told}) == len(told) <= 6
    assert upstream.effects() == 1
