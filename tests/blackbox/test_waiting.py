# SPDX-License-Identifier: Apache-2.0
"""Duplicates that wait for their first, and the drain of a gateway that is told to end."""
from __future__ import annotations

import signal

import pytest

from pawltest.gateway import WANTED, Gateway, fill_the_places
from pawltest.upstream import closes, resets, say
from pawltest.wire import Answer, Broken, Later, at_once, eventually, request_bytes

CONFIG = """
tenant: none
rules:
  - {name: refunds.create, match: POST /refunds, timeout: 1h, in_progress: {wait: 10m}}
"""
RETRY = CONFIG.replace("timeout: 1h", "timeout: 1h, unknown: retry")
hooks = pytest.mark.hooks


def ask(gateway: Gateway, key: str = "k1") -> Answer:
    return gateway.request("POST", "/refunds", [("Idempotency-Key", key)], b"{}")


def is_full(gateway: Gateway) -> bool:
    """Asks with little patience: whoever finds a place leaves it soon. Its time may be over before
    anything was decided (503, 504): asked again."""
    def asked() -> int | None:
        with gateway.connect() as client:
            client.send(WANTED.replace(b"Host", b"X-Request-Timeout: 100\r\nHost"))
            status = client.answer().status
            return status if status not in (503, 504) else None

    return eventually(asked, "a decision") == 429


@pytest.mark.parametrize("n", [2, 100])
def test_duplicates_of_a_running_first_share_its_one_effect(pawl, upstream, n):
    gateway = pawl(CONFIG)
    gate = upstream.hold()
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    others = Later(lambda: at_once(n - 1, lambda _: ask(gateway)))
    gate.open()
    answers = others.result()
    assert first.result().mark == (201, "stored")
    assert {a.mark for a in answers} == {(201, "replayed")}
    assert {a.kept for a in answers} == {first.result().kept}
    assert upstream.effects() == 1


def test_duplicates_on_many_keys_wait_for_their_own_firsts(pawl, upstream):
    gateway = pawl(CONFIG)
    gates = [upstream.hold() for _ in range(5)]
    firsts = []
    for i, gate in enumerate(gates):
        firsts.append(Later(lambda i=i: ask(gateway, f"k{i}")))
        gate.wait_for()
    others = [Later(lambda i=i: ask(gateway, f"k{i}")) for i in range(5)]
    for i in (3, 0, 4, 1, 2):
        gates[i].open()
        assert firsts[i].result().mark == (201, "stored")
        assert others[i].result().mark == (201, "replayed")
    assert upstream.effects() == 5


@hooks
def test_a_duplicate_whose_time_is_over_is_told_so_while_others_wait_on(pawl, upstream, clock):
    gateway = pawl(CONFIG)
    gate = upstream.hold()
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    short = Later(lambda: gateway.request("POST", "/refunds", [
        ("Idempotency-Key", "k1"), ("X-Request-Timeout", "1000")], b"{}"))
    long = Later(lambda: ask(gateway))
    clock.run_until(lambda: short.is_done)
    assert short.result().is_problem(409, "CONFLICT.idempotency.in_progress")
    assert short.result().json["operation"]["attempt"] == 1
    assert not long.is_done
    gate.open()
    assert first.result().mark == (201, "stored")
    assert long.result().mark == (201, "replayed")


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
def test_a_waiter_whose_client_leaves_gives_its_place_back(pawl, upstream, reset):
    gateway = pawl(CONFIG + "max_waiting_per_key: 1\n")
    gate = upstream.hold()
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    for _ in range(3):
        client, = fill_the_places(gateway, 1)
        eventually(lambda: is_full(gateway), "the place taken")
        client.reset() if reset else client.sock.close()
        eventually(lambda: not is_full(gateway), "the place given back")
    last, = fill_the_places(gateway, 1)
    gate.open()
    assert first.result().mark == (201, "stored")
    assert last.answer().mark == (201, "replayed")
    last.sock.close()
    assert upstream.effects() == 1


@pytest.mark.parametrize("config, reply", [
    (CONFIG, say(503, {"no": 1}, effect=False)), (RETRY, closes(effect=False)),
    (RETRY, resets(effect=False))], ids=["not done", "closes", "resets"])
def test_when_the_first_is_released_one_waiter_goes_on_and_the_others_get_its_answer(pawl, upstream,
                                                                                    config, reply):
    gateway = pawl(config + "max_waiting_per_key: 5\n")
    reply.gate = upstream.gate()
    upstream.then(reply)
    first = Later(lambda: ask(gateway))
    reply.gate.wait_for()
    waiting = fill_the_places(gateway, 5)
    reply.gate.open()
    assert first.result()["Idempotency-Status"] == "released"
    answers = [client.answer() for client in waiting]
    statuses = [answer["Idempotency-Status"] for answer in answers]
    assert sorted(statuses) == ["replayed"] * 4 + ["stored"]
    assert len({answer.kept for answer in answers}) == 1
    assert upstream.effects() == 1
    tokens = [int(r["Idempotency-Token"]) for r in upstream.requests]
    assert len(tokens) == 2 and tokens[0] < tokens[1]
    for client in waiting:
        client.sock.close()


def test_when_the_outcome_is_unknown_every_waiter_is_told(pawl, upstream):
    gateway = pawl(CONFIG + "max_waiting_per_key: 5\n")
    gate = upstream.hold(cut=0)
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    waiting = fill_the_places(gateway, 5)
    gate.open()
    assert first.result().is_problem(502, "TRANSIENT.upstream_broke")
    for client in waiting:
        assert client.answer().is_problem(409, "CONFLICT.idempotency.outcome_unknown")
        client.sock.close()
    assert upstream.effects() == 1


def test_a_first_that_fails_to_connect_lets_the_waiters_try(pawl, upstream):
    gateway = pawl(CONFIG)
    upstream.stop()
    answers = at_once(10, lambda _: ask(gateway))
    assert {a.mark for a in answers} == {(503, "released")}
    upstream.start()
    assert ask(gateway).mark == (201, "stored")


def test_waiters_of_another_body_are_refused_at_once(pawl, upstream):
    gateway = pawl(CONFIG)
    gate = upstream.hold()
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    other = gateway.request("POST", "/refunds", [("Idempotency-Key", "k1")], b"[]")
    assert other.is_problem(409, "CONFLICT.idempotency.payload_mismatch")
    gate.open()
    first.result()


# ---- the drain ----


def test_a_drain_ends_what_runs_and_refuses_what_waits(pawl, upstream):
    gateway = pawl(CONFIG + "max_waiting_per_key: 3\n")
    gate = upstream.hold()
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    waiting = fill_the_places(gateway, 3)
    idle = gateway.connect()
    assert idle.request("GET", "/x").status == 200
    fresh = gateway.connect()
    gateway.signal(signal.SIGTERM)
    for client in waiting:
        answer = client.answer()
        assert answer.status == 503
        assert answer["Retry-After"] == "1"
        assert answer["Connection"] == "close"
        assert answer.json["retryable"] is True
        assert client.is_closed()
    assert idle.is_closed()
    assert fresh.is_closed()
    eventually(lambda: not gateway.is_listening, "the end of listening")
    assert gateway.process.poll() is None
    gate.open()
    assert first.result().mark == (201, "stored")
    assert first.result()["Connection"] == "close"
    assert gateway.wait() == 0
    gateway.start()
    assert ask(gateway).mark == (201, "replayed")
    assert upstream.effects() == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_gateway_at_rest_ends_at_once_with_0(pawl, number):
    gateway = pawl(CONFIG)
    with gateway.connect() as client:
        assert client.request("GET", "/x").status == 200
        gateway.signal(number)
        assert gateway.wait() == 0
        assert client.is_closed()


def test_a_request_that_has_begun_to_arrive_is_served_by_a_drain(pawl, upstream):
    gateway = pawl(CONFIG + "threads: 1\n")
    with gateway.connect() as client, gateway.connect() as other:
        client.send(WANTED[:-1])
        other.send(WANTED[:20])
        ask(gateway, "k2")  # one loop: the two were seen before it
        gateway.signal(signal.SIGTERM)
        eventually(lambda: not gateway.is_listening, "the end of listening")
        client.send(WANTED[-1:])
        other.send(WANTED[20:])
        assert {client.answer().mark, other.answer().mark} <= \
            {(201, "stored"), (201, "replayed"), (503, None)}
    assert gateway.wait() == 0
    assert upstream.effects("/refunds") == 2


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.file_only
def test_a_second_signal_ends_it_at_once_and_the_record_is_in_doubt(pawl, upstream, second):
    gateway = pawl(CONFIG)
    gate = upstream.hold()
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    gateway.signal(signal.SIGTERM)
    eventually(lambda: not gateway.is_listening, "the end of listening")
    gateway.signal(second)
    gateway.wait()
    with pytest.raises(Broken):
        first.result()
    gate.open()
    gateway.start()
    assert ask(gateway).is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert upstream.effects() == 1


@hooks
def test_a_drain_lasts_no_longer_than_it_may(pawl, upstream, clock):
    gateway = pawl(CONFIG + "drain: 20s\n")
    gate = upstream.hold()
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    gateway.signal(signal.SIGTERM)
    eventually(lambda: not gateway.is_listening, "the end of listening")
    process = gateway.process
    clock.advance(10)
    clock.run_until(lambda: process.poll() is not None, 1)
    gateway.wait()
    with pytest.raises(Broken):
        first.result()
    gateway.start()
    assert ask(gateway).is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert upstream.effects() == 1


def test_an_unruled_exchange_is_let_to_its_end_by_a_drain(pawl, upstream):
    gateway = pawl(CONFIG)
    body = b"x" * 300_000
    gate = upstream.hold()
    with gateway.connect() as client:
        client.send(request_bytes("POST", "/unruled", [], body))
        gate.wait_for()
        gateway.signal(signal.SIGTERM)
        eventually(lambda: not gateway.is_listening, "the end of listening")
        gate.open()
        answer = client.answer()
        assert (answer.json, answer["Connection"]) == ({"held": True}, "close")
        assert client.is_closed()
    assert gateway.wait() == 0
    assert upstream.requests[0].body == body
