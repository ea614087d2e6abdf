# SPDX-License-Identifier: Apache-2.0
"""Owners whose record is forgotten, released by force or expired while they run: whatever becomes
of it, one client request has one effect at most."""
from __future__ import annotations

import os
import subprocess
from collections import Counter
from typing import Any, Callable

import pytest

from pawltest.gateway import Gateway, fill_the_places, run
from pawltest.upstream import closes, say
from pawltest.wire import Answer, Client, Later, eventually, request_bytes

CONFIG = """
tenant: none
max_waiting_per_key: 3
rules:
  - {name: refunds.create, match: POST /refunds, timeout: 1h, in_progress: {wait: 10m}, ttl: 1m,
     UNKNOWN}
"""
POLICIES = {
    "hold": "unknown: hold",
    "retry": "unknown: retry",
    "probe": 'unknown: {probe: "GET /by-key/{key}"}',
}
hooks = pytest.mark.hooks
UNKNOWN = "CONFLICT.idempotency.outcome_unknown"


def started(pawl: Any, policy: str) -> Gateway:
    return pawl(CONFIG.replace("UNKNOWN", POLICIES[policy]))


def ask(gateway: Gateway, arrival: str = "first") -> Answer:
    return gateway.request("POST", "/refunds",
                           [("Idempotency-Key", "k1"), ("X-Arrival", arrival)], b"{}")


def later(gateway: Gateway, send: Callable[[Gateway], Answer]) -> Answer:
    """After the clock moved: the store counts as down until its next batch."""
    def answered() -> Answer | None:
        answer = send(gateway)
        return None if answer.status == 503 else answer

    return eventually(answered, "a store that is up")


def waiting(gateway: Gateway) -> list[Client]:
    """Three duplicates that surely wait."""
    return fill_the_places(gateway, 3)


def act(gateway: Gateway, *arguments: Any) -> None:
    environment = {**os.environ, "PAWL_TEST_CLOCK": str(gateway.clock.path)}
    ran: subprocess.CompletedProcess[str] = run("keys", *arguments, "--store", gateway.store,
                                                env=environment)
    assert ran.returncode == 0, ran.stderr


def forget(gateway: Gateway) -> None:
    act(gateway, "forget", "k1", "--force")


def release(gateway: Gateway, upstream: Any) -> None:
    act(gateway, "release", "k1", "--force", "--token",
        upstream.requests[-1]["Idempotency-Token"])


def effects_of_each(upstream: Any) -> dict[str | None, int]:
    return Counter(request["X-Arrival"] for request in upstream.done)


def is_refused(answer: Answer) -> bool:
    """Nobody knows what this request did; the next one is a new operation."""
    return (answer.is_problem(409, UNKNOWN) and answer.json["retryable"] is True
            and answer.json["safe_new_key"] is False)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_owner_whose_record_was_forgotten_sends_nothing_again(pawl, upstream, policy):
    """found: D-B1"""
    gateway = started(pawl, policy)
    gate = upstream.hold()
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    forget(gateway)
    gate.open()
    assert is_refused(first.result())
    assert upstream.effects() == 1
    # What the command said: the next request is a new operation.
    assert ask(gateway, "second")["Idempotency-Status"] == "stored"
    assert effects_of_each(upstream) == {"first": 1, "second": 1}


@pytest.mark.parametrize("policy", POLICIES)
def test_an_owner_forgotten_under_waiters_leaves_the_operation_to_them(pawl, upstream, policy):
    """found: D-B1"""
    gateway = started(pawl, policy)
    gate = upstream.hold()
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    others = waiting(gateway)
    second = upstream.hold()
    forget(gateway)
    second.wait_for()
    gate.open()
    second.open()
    answers = [client.answer() for client in others] + [first.result()]
    assert sorted(a["Idempotency-Status"] for a in answers) == ["replayed"] * 3 + ["stored"]
    assert len({a.kept for a in answers}) == 1
    assert effects_of_each(upstream) == {"first": 1, None: 1}


@pytest.mark.parametrize("policy", POLICIES)
def test_every_owner_that_is_forgotten_has_had_its_one_effect(pawl, upstream, policy):
    """found: D-B1"""
    gateway = started(pawl, policy)
    gates, owners = [], []
    for arrival in ("a", "b", "c"):
        gates.append(upstream.hold())
        owners.append(Later(lambda arrival=arrival: ask(gateway, arrival)))
        gates[-1].wait_for()
        forget(gateway)
    for gate in gates:
        gate.open()
    assert all(is_refused(owner.result()) for owner in owners)
    assert effects_of_each(upstream) == {"a": 1, "b": 1, "c": 1}


@pytest.mark.parametrize("policy", POLICIES)
def test_an_owner_released_by_force_stores_what_it_did_where_nobody_waits(pawl, upstream, policy):
    """found: D-B1"""
    gateway = started(pawl, policy)
    gate = upstream.hold()
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    release(gateway, upstream)
    gate.open()
    assert first.result()["Idempotency-Status"] == "stored"
    assert ask(gateway, "second")["Idempotency-Status"] == "replayed"
    assert effects_of_each(upstream) == {"first": 1}


@pytest.mark.parametrize("policy", POLICIES)
def test_an_owner_released_by_force_under_waiters_is_told_what_they_did(pawl, upstream, policy):
    """found: D-B1"""
    gateway = started(pawl, policy)
    gate = upstream.hold()
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    others = waiting(gateway)
    second = upstream.hold()
    release(gateway, upstream)
    second.wait_for()
    gate.open()
    second.open()
    answers = [client.answer() for client in others] + [first.result()]
    assert sorted(a["Idempotency-Status"] for a in answers) == ["replayed"] * 3 + ["stored"]
    assert effects_of_each(upstream) == {"first": 1, None: 1}


@pytest.mark.parametrize("policy", POLICIES)
def test_an_owner_released_again_under_its_heir_sends_nothing_again(pawl, upstream, policy):
    """The heir was released in turn: nobody holds the record, and the old owner leaves it."""
    gateway = started(pawl, policy)
    gate = upstream.hold()
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    release(gateway, upstream)
    heir = upstream.hold()
    second = Later(lambda: ask(gateway, "second"))
    heir.wait_for()
    release(gateway, upstream)
    gate.open()
    assert is_refused(first.result())
    heir.open()
    assert second.result()["Idempotency-Status"] == "stored"
    assert effects_of_each(upstream) == {"first": 1, "second": 1}


@hooks
@pytest.mark.parametrize("policy", POLICIES)
def test_an_owner_whose_released_record_expired_sends_nothing_again(pawl, upstream, clock, policy):
    """found: D-B1"""
    gateway = started(pawl, policy)
    gate = upstream.hold()
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    release(gateway, upstream)
    clock.advance(3700)  # the ttl, and the timeout, which a record outlasts
    assert is_refused(first.result())
    assert effects_of_each(upstream) == {"first": 1}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_forgotten_owner_that_is_told_that_nothing_was_done_may_go_on(pawl, upstream, policy):
    gateway = started(pawl, policy)
    gate = upstream.gate()
    upstream.then(say(503, gate=gate, effect=False))
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    forget(gateway)
    gate.open()
    assert first.result()["Idempotency-Status"] == "stored"
    assert effects_of_each(upstream) == {"first": 1}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("status", [
    307, *(pytest.param(status, marks=pytest.mark.no_store) for status in (301, 308))])
def test_a_redirected_request_may_go_where_it_points_under_its_key(pawl, upstream, policy, status):
    """found: E-F1"""
    gateway = started(pawl, policy)
    for target in ("/refunds/", "/refunds?v=2"):
        upstream.then(say(status, None, ("Location", target), effect=False))
        first = ask(gateway)
        assert first.mark == (status, "released")
        assert first["Location"] == target
        second = gateway.request("POST", target, [("Idempotency-Key", "k1")], b"{}")
        assert second.mark == (201, "stored")
        forget(gateway)
    assert upstream.effects() == 2
    assert len({request["Idempotency-Token"] for request in upstream.requests}) == 4


def test_a_redirect_after_a_try_in_doubt_keeps_the_record(pawl, upstream):
    """found: E-F1"""
    gateway = started(pawl, "retry")
    upstream.then(closes(), say(308, None, ("Location", "/refunds?v=2"), effect=False))
    assert ask(gateway)["Idempotency-Status"] == "released"
    assert ask(gateway)["Idempotency-Status"] == "released"
    other = gateway.request("POST", "/refunds?v=2", [("Idempotency-Key", "k1")], b"{}")
    assert other.is_problem(409, "CONFLICT.idempotency.payload_mismatch")
    assert ask(gateway)["Idempotency-Status"] == "stored"


def test_a_redirect_is_not_kept_under_remember_all(pawl, upstream):
    gateway = pawl(CONFIG.replace("UNKNOWN", "remember: all"))
    for status, mark in ((307, "released"), (302, "stored")):
        upstream.then(say(status, None, ("Location", "/elsewhere"), effect=False))
        assert ask(gateway)["Idempotency-Status"] == mark


def test_waiters_of_a_redirected_request_go_one_by_one(pawl, upstream):
    """found: E-F1"""
    gateway = started(pawl, "hold")
    gate = upstream.gate()
    upstream.then(say(307, None, ("Location", "/refunds/"), gate=gate, effect=False))
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    others = waiting(gateway)
    gate.open()
    assert first.result()["Idempotency-Status"] == "released"
    marks = sorted(client.answer()["Idempotency-Status"] for client in others)
    assert marks == ["replayed", "replayed", "stored"]
    assert upstream.effects() == 1


def test_an_owner_in_doubt_asks_before_those_who_wait_and_they_ask_nothing(pawl, upstream):
    """found: D-B11"""
    gateway = started(pawl, "probe")
    gate = upstream.gate()
    upstream.then(closes(gate=gate))
    upstream.on("GET", "/by-key/k1", say(500))
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    others = waiting(gateway)
    gate.open()
    answer = first.result()
    assert answer.is_problem(502, "TRANSIENT.upstream_broke")
    assert answer["Idempotency-Status"] == "unknown"
    assert all(client.answer().is_problem(409, UNKNOWN) for client in others)
    assert [request.method for request in upstream.requests] == ["POST", "GET"]
    # A fresh attempt probes again.
    assert ask(gateway).is_problem(409, UNKNOWN)
    assert [request.method for request in upstream.requests] == ["POST", "GET", "GET"]


@hooks
def test_duplicates_wait_on_while_the_first_one_asks(pawl, upstream, clock):
    """found: D-B11"""
    gateway = started(pawl, "probe")
    gate, asked = upstream.gate(), upstream.gate()
    upstream.then(closes(gate=gate))
    upstream.on("GET", "/by-key/k1", say(200, {"found": True}, gate=asked))
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    others = waiting(gateway)
    gate.open()
    asked.wait_for()
    clock.advance(60)
    assert not first.is_done
    asked.open()
    answers = [first.result()] + [client.answer() for client in others]
    assert [a["Idempotency-Status"] for a in answers] == ["stored"] + ["replayed"] * 3
    assert {a.json["found"] for a in answers} == {True}
    assert effects_of_each(upstream) == {"first": 1}


def lost_under_waiters(gateway: Gateway, upstream: Any) -> tuple[Any, list[Client]]:
    """The first one's request is lost, and its probe finds nothing, while three wait."""
    gate = upstream.gate()
    upstream.then(closes(gate=gate, effect=False))
    upstream.on("GET", "/by-key/k1", say(404))
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    others = waiting(gateway)
    gate.open()
    return first, others


SETTLED = POLICIES["probe"] + ", settle: 0"


def test_those_who_wait_go_on_once_a_probe_has_found_nothing(pawl, upstream):
    gateway = pawl(CONFIG.replace("UNKNOWN", SETTLED))
    first, others = lost_under_waiters(gateway, upstream)
    assert first.result()["Idempotency-Status"] == "released"
    marks = sorted(client.answer()["Idempotency-Status"] for client in others)
    assert marks == ["replayed", "replayed", "stored"]
    assert [request.method for request in upstream.requests] == ["POST", "GET", "POST"]


@hooks
def test_who_waits_goes_before_the_next_try_of_one_that_a_probe_found_not_done(pawl, upstream,
                                                                               clock):
    gateway = pawl(CONFIG.replace(
        "UNKNOWN", SETTLED + ", retry: {profile: background, schedule: [2m]}"))
    first, others = lost_under_waiters(gateway, upstream)
    marks = sorted(client.answer()["Idempotency-Status"] for client in others)
    assert marks == ["replayed", "replayed", "stored"] and not first.is_done
    eventually(lambda: gateway.lines("retry"), "its next try's time")
    # Less at a time than a store may be silent before it counts as down.
    clock.run_until(lambda: first.is_done, step=2)
    assert first.result()["Idempotency-Status"] == "replayed"
    assert effects_of_each(upstream) == {None: 1}
    assert [request.method for request in upstream.requests] == ["POST", "GET", "POST"]


# ---- a window that is shorter than the answer ----

WINDOW = """
tenant: none
max_waiting_per_key: 3
rules:
  - {name: refunds.create, match: POST /refunds, key: "{path:}", timeout: 20s, unknown: UNKNOWN,
     in_progress: {wait: 5m}, ttl: 1h}
""".replace("{path:}", "{header:X-Click}{window:2s}")


def click(gateway: Gateway) -> Answer:
    return gateway.request("POST", "/refunds", [("X-Click", "k1"), ("X-Arrival", "click")], b"{}")


@hooks
def test_clicks_inside_a_window_that_ends_before_the_answer_have_one_effect(pawl, upstream, clock):
    """found: D-B2"""
    gateway = pawl(WINDOW.replace("UNKNOWN", "hold"))
    gate = upstream.hold()
    first = Later(lambda: click(gateway))
    gate.wait_for()
    others = fill_the_places(gateway, 3, request_bytes("POST", "/refunds", [("X-Click", "k1")],
                                                       b"{}"))
    clock.advance(3)
    gate.open()
    assert first.result()["Idempotency-Status"] == "stored"
    assert {client.answer()["Idempotency-Status"] for client in others} == {"replayed"}
    # And a retry within the time that a client is told to wait: the longest is that of a duplicate.
    clock.advance(4 * 60)
    assert later(gateway, click)["Idempotency-Status"] == "replayed"
    clock.advance(61)
    assert later(gateway, click)["Idempotency-Status"] == "stored"
    assert upstream.effects() == 2


@hooks
def test_an_operation_released_in_doubt_keeps_its_window_and_its_key(pawl, upstream, clock):
    """found: D-B2"""
    gateway = pawl(WINDOW.replace("UNKNOWN", "retry"))
    upstream.then(closes())
    assert click(gateway)["Idempotency-Status"] == "released"
    clock.advance(1800)
    assert later(gateway, click)["Idempotency-Status"] == "stored"
    assert len({request["Idempotency-Key"] for request in upstream.requests}) == 1


@hooks
def test_a_ttl_shorter_than_the_answer_leaves_a_record_all_the_same(pawl, upstream, clock):
    """found: D-B2"""
    gateway = pawl(CONFIG.replace("timeout: 1h", "timeout: 5m").replace("wait: 10m", "wait: 1s")
                   .replace("UNKNOWN", "unknown: hold"))
    assert ask(gateway)["Idempotency-Status"] == "stored"
    clock.advance(4 * 60)
    assert later(gateway, ask)["Idempotency-Status"] == "replayed"
    clock.advance(61)
    assert later(gateway, ask)["Idempotency-Status"] == "stored"
