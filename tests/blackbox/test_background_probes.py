# SPDX-License-Identifier: Apache-2.0
"""Unknown records settle by themselves: probes in the background (`probe_headers:`)."""
from __future__ import annotations

import os
import signal

import pytest

from pawltest.admin import with_admin
from pawltest.gateway import run
from pawltest.upstream import closes, say
from pawltest.wire import Later, eventually

RULE = """
tenant: none
rules:
  - name: refunds.create
    match: POST /refunds
    timeout: 20s
    settle: 10s
    ttl: 1m
    unknown: {probe: "GET /refunds/by-key/{key}"}
"""
ALONE = RULE + '    probe_headers: {Authorization: "Bearer p"}\n'
BODY = {"amount": 5}
FOUND = "/refunds/by-key/k1"
UNKNOWN = "CONFLICT.idempotency.outcome_unknown"
hooks = pytest.mark.hooks


def probes(upstream) -> list:
    return [request for request in upstream.requests if request.method == "GET"]


def lines(gateway) -> list[dict]:
    return gateway.lines("probe")


def left_unknown(gateway, upstream, effect: bool = True):
    """A record whose first client has left with the failure: its own probe settled nothing."""
    upstream.then(closes(effect=effect))
    upstream.on("GET", FOUND, say(500, {}))
    first = gateway.post_up("/refunds", BODY, key="k1")
    assert first.mark == (502, "unknown")
    return first


def reload(gateway, config: str) -> None:
    begin = len(gateway.log)
    gateway.configure(config)
    gateway.signal(signal.SIGHUP)
    eventually(lambda: gateway.lines("config_reloaded", begin), "the reload")


def settled(gateway, clock, result: str) -> None:
    clock.run_until(lambda: any(line["result"] == result for line in lines(gateway)), step=1)


@hooks
def test_an_unknown_record_settles_while_no_client_comes(pawl, upstream, clock):
    gateway = pawl(ALONE)
    first = left_unknown(gateway, upstream)
    assert 1 <= int(first["Retry-After"]) <= 10
    clock.run_until(lambda: len(probes(upstream)) >= 3, step=1)
    upstream.on("GET", FOUND, say(200, {"id": 1}))
    settled(gateway, clock, "done")
    again = gateway.post_up("/refunds", BODY, key="k1")
    assert (again.status, again["Idempotency-Status"], again.json) == (200, "replayed", {"id": 1})
    own, *alone = probes(upstream)
    assert own["Authorization"] is None and {p["Authorization"] for p in alone} == {"Bearer p"}
    assert {p["Idempotency-Key"] for p in alone} == {"k1"}
    tokens = [int(request["Idempotency-Token"]) for request in upstream.requests]
    assert tokens == sorted(set(tokens)) and upstream.effects() == 1
    told = lines(gateway)
    assert told[0]["result"] == "inconclusive" and told[0]["next_probe_s"] >= 0
    assert told[-1]["to_state"] == "complete" and told[-1]["idempotency_key"] == "k1"


@hooks
def test_what_a_service_finds_that_finds_everything_settles_nothing(pawl, upstream, clock):
    gateway = pawl(ALONE)
    upstream.tried = say(401)
    left_unknown(gateway, upstream)
    upstream.tried = say(200, [])
    upstream.on("GET", FOUND, say(200, []))
    clock.run_until(lambda: len(lines(gateway)) >= 2, step=1)
    assert {line["result"] for line in lines(gateway)} == {"inconclusive"}
    own, alone = upstream.trials
    assert (own["Authorization"], alone["Authorization"]) == (None, "Bearer p")
    assert gateway.post_up("/refunds", BODY, key="k1").status == 409


@hooks
def test_not_found_releases_at_the_first_probe_from_quiet_at_on(pawl, upstream, clock):
    gateway = pawl(ALONE)
    left_unknown(gateway, upstream, effect=False)
    upstream.on("GET", FOUND, say(404, {}))
    settled(gateway, clock, "not_done")
    done = lines(gateway)[-1]
    assert (done["to_state"], done["status"]) == ("pending", 404)
    again = gateway.post_up("/refunds", BODY, key="k1")
    assert again.mark == (201, "stored")
    assert upstream.effects() == 1


@hooks
def test_without_probe_headers_nothing_is_asked_in_the_background(pawl, upstream, clock):
    gateway = pawl(RULE)
    left_unknown(gateway, upstream)
    for _ in range(5):
        clock.step(30)
    assert len(probes(upstream)) == 1 and gateway.post_up("/refunds", BODY, key="k1").status == 409


@hooks
def test_clients_ask_once_a_second_and_are_told_when_the_next_probe_is(pawl, upstream, clock):
    gateway = pawl(ALONE)
    left_unknown(gateway, upstream)
    for _ in range(3):
        again = gateway.post_up("/refunds", BODY, key="k1")
        assert again.is_problem(409, UNKNOWN) and 1 <= int(again["Retry-After"]) <= 10
        assert again.json["retryable"] is True
    assert len(probes(upstream)) <= 2


@hooks
def test_after_kill_9_the_next_process_settles_it(pawl, upstream, clock):
    gateway = pawl(ALONE)
    left_unknown(gateway, upstream)
    gateway.kill9()
    upstream.on("GET", FOUND, say(200, {"id": 1}))
    gateway.start()
    settled(gateway, clock, "done")
    assert gateway.post_up("/refunds", BODY, key="k1")["Idempotency-Status"] == "replayed"


@hooks
def test_what_a_killed_owner_left_pending_settles_too(pawl, upstream, clock):
    gateway = pawl(ALONE)
    gate = upstream.hold()
    upstream.on("GET", FOUND, say(200, {"id": 1}))
    Later(lambda: gateway.post_up("/refunds", BODY, key="k1"))
    gate.wait_for()
    gateway.kill9()
    gateway.start()
    settled(gateway, clock, "done")
    assert gateway.post_up("/refunds", BODY, key="k1")["Idempotency-Status"] == "replayed"


@hooks
def test_a_reload_turns_it_on_and_off(pawl, upstream, clock):
    gateway = pawl(RULE)
    left_unknown(gateway, upstream)
    reload(gateway, ALONE)
    clock.run_until(lambda: lines(gateway), step=1)
    reload(gateway, RULE)
    n = len(probes(upstream))
    for _ in range(4):
        clock.step(3700)
    assert len(probes(upstream)) == n


@hooks
def test_a_drain_cuts_a_probe_that_hangs(pawl, upstream, clock):
    """Its record is in doubt again at once: the next process need not wait for a lease."""
    gateway = pawl(ALONE)
    left_unknown(gateway, upstream)
    gate = upstream.gate()
    upstream.on("GET", FOUND, say(200, {"id": 1}, gate=gate))
    clock.run_until(lambda: len(probes(upstream)) == 2, step=1)
    gateway.signal(signal.SIGTERM)
    assert gateway.wait() == 0
    cut = lines(gateway)[-1]
    assert (cut["result"], cut["to_state"]) == ("inconclusive", "unknown") and "status" not in cut
    upstream.on("GET", FOUND, say(200, {"id": 1}))
    gateway.start()
    settled(gateway, clock, "done")
    assert upstream.effects() == 1


def shown(gateway, clock) -> str:
    return run("keys", "show", "k1", "--store", gateway.store,
               env={**os.environ, "PAWL_TEST_CLOCK": str(clock.path)}).stdout


def unknown_of(gateway, upstream, path: str, key: str, gate=None):
    """A record of `path` in doubt, whose next probe waits at the gate, or finds the operation."""
    upstream.then(closes(effect=True))
    upstream.on("GET", f"{path}/by-key/{key}", say(500, {}))
    assert gateway.post_up(path, BODY, key=key).status == 502
    more = {"gate": gate} if gate else {}
    upstream.on("GET", f"{path}/by-key/{key}", say(200, {"id": 1}, **more))


PAYMENTS = ALONE + ALONE.partition("rules:\n")[2].replace("refunds", "payments")


@hooks
def test_a_rule_whose_probes_hang_leaves_another_one_its_share(pawl, upstream, clock):
    gateway = pawl(PAYMENTS)
    gate = upstream.gate()
    for i in range(9):
        unknown_of(gateway, upstream, "/refunds", f"k{i}", gate)
    clock.advance(10)
    gate.wait_for(8)
    unknown_of(gateway, upstream, "/payments", "p1")
    clock.run_until(lambda: lines(gateway), step=1)
    assert [(line["rule"], line["result"]) for line in lines(gateway)] == \
        [("payments.create", "done")]
    gate.open()
    eventually(lambda: len(lines(gateway)) == 10, "the end of the others")


@hooks
def test_the_next_probe_begins_as_one_ends(pawl, upstream, clock):
    gateway = pawl(ALONE)
    first, others = upstream.gate(), upstream.gate()
    unknown_of(gateway, upstream, "/refunds", "k0", first)
    for i in range(1, 17):
        unknown_of(gateway, upstream, "/refunds", f"k{i}", others)
    clock.advance(10)
    first.wait_for()
    others.wait_for(15)
    assert not lines(gateway)
    first.open()
    others.wait_for()
    eventually(lambda: lines(gateway), "its line")
    assert [line["idempotency_key"] for line in lines(gateway)] == ["k0"]


@hooks
def test_the_record_says_when_its_next_probe_is_due(pawl, upstream, clock):
    gateway, admin = with_admin(pawl, ALONE)
    left_unknown(gateway, upstream)
    record, = admin.keys()
    assert record["probe_due_at"] > record["started_at"]
    assert f"next probe:   {record['probe_due_at']} (where its rule has probe_headers)\n" in \
        shown(gateway, clock)
    upstream.on("GET", FOUND, say(200, {"id": 1}))
    settled(gateway, clock, "done")
    record, = admin.keys()
    assert record["probe_due_at"] is None and "next probe:" not in shown(gateway, clock)


@hooks
def test_probes_with_large_responses_run_one_at_a_time(pawl, upstream, clock):
    gateway = pawl(ALONE + "    max_response_body: 20MiB\n")
    gates = [upstream.gate(), upstream.gate()]
    for i, gate in enumerate(gates):
        unknown_of(gateway, upstream, "/refunds", f"k{i}", gate)
    clock.advance(10)
    gates[0].wait_for()
    clock.step(2)
    asked = [request.target for request in probes(upstream)[2:]]
    assert asked == ["/refunds/by-key/k0"]
    gates[0].open()
    gates[1].wait_for()
    gates[1].open()
    settled(gateway, clock, "done")


@hooks
def test_a_reload_holds_for_the_rest_of_what_was_found_due(pawl, upstream, clock):
    gateway = pawl(RULE)
    at_once, gate = 16, upstream.gate()
    for i in range(at_once + 1):
        found = f"/refunds/by-key/k{i}"
        upstream.then(closes(effect=True))
        upstream.on("GET", found, say(500, {}))
        assert gateway.post_up("/refunds", BODY, key=f"k{i}").status == 502
        upstream.on("GET", found, say(500, {}, gate=gate))
    n = len(probes(upstream))
    clock.advance(100)
    reload(gateway, ALONE)
    gate.wait_for(at_once)
    reload(gateway, RULE)
    gate.open()
    eventually(lambda: len(lines(gateway)) >= at_once, "the end of what was under way")
    clock.step(2)
    assert len(probes(upstream)) == n + at_once


@hooks
def test_background_probes_are_counted(pawl, upstream, clock):
    gateway, admin = with_admin(pawl, ALONE)
    left_unknown(gateway, upstream)
    upstream.on("GET", FOUND, say(200, {"id": 1}))
    clock.run_until(lambda: lines(gateway), step=1)
    page = admin.get("/metrics").body
    assert b'pawl_background_probes_total{result="done"} 1' in page
