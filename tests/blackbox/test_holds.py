# SPDX-License-Identifier: Apache-2.0
"""`unknown: {hold: 10m}`: what may have happened does not run again until the hold ends, and once
more from then on."""
from __future__ import annotations

import json

import pytest

from pawltest.admin import with_admin
from pawltest.gateway import Clock, Gateway, run
from pawltest.upstream import closes, say
from pawltest.wire import Broken

CONFIG = """
tenant: none
rules:
  - {name: refunds.create, match: POST /refunds, timeout: 20s, settle: 30s, unknown: {hold: 10m}}
"""
ENDS = 30 + 600
BODY = {"amount": 5}
UNKNOWN = "CONFLICT.idempotency.outcome_unknown"
BROKE = "TRANSIENT.upstream_broke"
SERIES = "pawl_holds_ended_total"
hooks = pytest.mark.hooks


def lost(gateway, upstream, key: str = "k1"):
    """It was done, and the first client is told that nobody knows."""
    upstream.then(closes(effect=True))
    first = gateway.post_up("/refunds", BODY, key=key)
    assert first.is_problem(502, BROKE) and first["Idempotency-Status"] == "unknown"
    return first


def keys(gateway, *words: str) -> list[dict]:
    listed = run("keys", *words, "--json", "--store", gateway.store)
    assert listed.returncode == 0, listed.stderr
    return [json.loads(line) for line in listed.stdout.splitlines()]


def audit(gateway) -> list[tuple]:
    acts = keys(gateway, "audit")
    return [tuple(act[name] for name in ("actor", "act", "key", "from", "to")) for act in acts]


@hooks
def test_clients_are_told_when_it_ends_and_may_come_again_then(pawl, upstream, clock):
    gateway, admin = with_admin(pawl, CONFIG)
    told = lost(gateway, upstream)
    for left in (ENDS, ENDS, 400):
        if left < ENDS:
            clock.advance(ENDS - left)
            told = gateway.post_up("/refunds", BODY, key="k1")
        assert (told.json["retryable"], told.json["safe_new_key"]) == (True, False)
        assert left - 3 <= int(told["Retry-After"]) <= left
        told = gateway.post_up("/refunds", BODY, key="k1")
        assert told.is_problem(409, UNKNOWN)
    other = gateway.post_up("/refunds", {"amount": 6}, key="k1")
    assert (other.status, other.json["safe_new_key"]) == (409, False)
    assert upstream.effects() == 1
    clock.advance(int(told["Retry-After"]))
    assert gateway.post_up("/refunds", {"amount": 6}, key="k1").status == 409
    again = gateway.post_up("/refunds", BODY, key="k1")
    assert again.status == 201 and again["Idempotency-Status"] == "stored"
    assert gateway.post_up("/refunds", BODY, key="k1").body == again.body
    assert upstream.effects() == 2 and admin.value(SERIES, rule="refunds.create") == 1
    assert audit(gateway) == [("rule", "hold", "k1", "unknown", "released")]


@pytest.mark.parametrize("asks", [None, "5", "9999"])
def test_the_service_s_own_response_in_doubt_says_when_it_ends(pawl, upstream, asks):
    """found: L3: unless it asks for a longer wait itself."""
    upstream.then(say(502, {}, *([("Retry-After", asks)] if asks else [])))
    told = pawl(CONFIG).post("/refunds", BODY, key="k1")
    assert told.mark == (502, "unknown")
    [wait] = [int(value) for name, value in told.headers if name == "Retry-After"]
    assert wait == 9999 if asks == "9999" else ENDS - 60 <= wait <= ENDS


@hooks
def test_it_ends_without_a_request_too_and_no_command_ends_it(pawl, upstream, clock):
    gateway, admin = with_admin(pawl, CONFIG)
    for key in ("k1", "k2"):
        lost(gateway, upstream, key)
    gateway.stop()
    clock.advance(ENDS + 5)
    assert len(keys(gateway, "list", "--status", "unknown")) == 2
    gateway.start()
    clock.run_until(lambda: admin.value(SERIES, rule="refunds.create") == 2, step=10)
    [shown] = keys(gateway, "show", "k1")
    assert (shown["lease"], shown["cause"]) == ("released", "hold_ended"), shown
    assert sorted(audit(gateway)) == [("rule", "hold", key, "unknown", "released")
                                      for key in ("k1", "k2")]
    assert gateway.post_up("/refunds", BODY, key="k1").status == 201
    assert admin.value(SERIES, rule="refunds.create") == 2 and upstream.effects() == 3


@hooks
def test_a_record_keeps_the_longer_hold_over_a_reload(pawl, upstream, clock):
    gateway = pawl(CONFIG.replace("10m", "1h"))
    lost(gateway, upstream, "k1")
    gateway.stop()
    gateway.configure(CONFIG)
    gateway.start()
    lost(gateway, upstream, "k2")
    gateway.stop()
    gateway.configure(CONFIG.replace("{hold: 10m}", "hold"))
    gateway.start()
    lost(gateway, upstream, "k3")
    clock.advance(ENDS + 5)
    assert gateway.post_up("/refunds", BODY, key="k2").json["retryable"] is False
    gateway.stop()
    gateway.configure(CONFIG.replace("{hold: 10m}", "retry"))
    gateway.start()
    told = gateway.post_up("/refunds", BODY, key="k1")
    assert told.json["retryable"] is True and 2900 < int(told["Retry-After"]) < 3000
    gateway.stop()
    gateway.configure(CONFIG)
    gateway.start()
    assert gateway.post_up("/refunds", BODY, key="k1").json["retryable"] is True
    assert gateway.post_up("/refunds", BODY, key="k3").json["retryable"] is False
    assert gateway.post_up("/refunds", BODY, key="k2").status == 201
    assert upstream.effects() == 4
    gateway.configure(CONFIG.replace("{hold: 10m}", "retry"))
    gateway.stop()
    gateway.start()
    clock.advance(3600)
    assert gateway.post_up("/refunds", BODY, key="k3").json["retryable"] is False
    assert gateway.post_up("/refunds", BODY, key="k1").status == 201


@hooks
def test_what_a_killed_process_left_is_held_from_its_lapse(pawl, upstream, clock):
    gateway = pawl(CONFIG)
    gateway.stop()
    gateway.start(PAWL_CRASH_AT="after_response_body")
    with pytest.raises(Broken):
        gateway.post_up("/refunds", BODY, key="k1")
    gateway.wait()
    gateway.start()
    clock.advance(ENDS - 5)
    assert gateway.post_up("/refunds", BODY, key="k1").is_problem(409, UNKNOWN)
    clock.advance(60)
    assert gateway.post_up("/refunds", BODY, key="k1").status == 201
    assert upstream.effects() == 2


@pytest.mark.parametrize("value, said", [
    ("{hold: 999ms}", "out of range (expected 1s to 365d)"),
    ("{hold: 366d}", "out of range (expected 1s to 365d)"),
    ("{hold: 10m, probe: \"GET /r/{key}\"}", "holds 2 names (expected probe and, perhaps, first)"),
    ("{hold: never}", "expected a duration with its unit"), ("{hold: [1h]}", "hold"),
    ("{keep: 1h}", "hold")])
def test_what_is_no_hold_is_refused(tmp_path, value, said):
    gateway = Gateway(tmp_path, 1, CONFIG.replace("{hold: 10m}", value), Clock(tmp_path / "clock"))
    tested = run("serve", "--test", "-c", gateway.config)
    assert tested.returncode == 2 and said in tested.stderr, tested.stderr


def test_a_start_says_what_a_hold_with_an_end_means(tmp_path):
    for hold, is_noted in (("10m", True), ("forever", False)):
        config = CONFIG.replace("10m", hold)
        gateway = Gateway(tmp_path, 1, config, Clock(tmp_path / "clock"))
        tested = run("serve", "--test", "-c", gateway.config)
        assert tested.returncode == 0 and ("[hold-ends]" in tested.stderr) == is_noted
