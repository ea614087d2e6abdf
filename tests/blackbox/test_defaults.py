# SPDX-License-Identifier: Apache-2.0
"""What holds where a config says nothing (contract section 11): each default by its name."""
from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pawltest.admin import with_admin
from pawltest.gateway import ROOT, run
from pawltest.upstream import closes, say
from pawltest.wire import Later, eventually

pytestmark = pytest.mark.no_store

RULE = "tenant: none\nrules:\n  - {name: r, match: POST /refunds}\n"
hooks = pytest.mark.hooks


@pytest.fixture(name="gateway")
def with_defaults(pawl):
    return pawl(RULE)


def mark(answer) -> str | None:
    return answer["Idempotency-Status"]


def test_default_require_is_true(gateway, upstream):
    assert gateway.post("/refunds", {}).is_problem(400, "VALIDATION.idempotency.key_missing")
    assert upstream.effects() == 0


@hooks
def test_default_ttl_is_24_hours_from_completion(gateway, upstream, clock):
    gateway.post("/refunds", {}, key="k1")
    clock.advance(24 * 3600 - 60)
    assert mark(gateway.post_up("/refunds", {}, key="k1")) == "replayed"
    clock.advance(65)
    assert mark(gateway.post_up("/refunds", {}, key="k1")) == "stored"
    assert upstream.effects() == 2


@hooks
def test_default_tombstone_is_none(gateway, upstream, clock):
    gateway.post("/refunds", {}, key="k1")
    clock.advance(24 * 3600 + 5)
    assert mark(gateway.post_up("/refunds", {"other": 1}, key="k1")) == "stored"
    assert upstream.effects() == 2


def test_default_lease_is_30_seconds(gateway, upstream):
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    gate.wait_for()
    with closing(sqlite3.connect(gateway.store)) as shell:
        lease = shell.execute("SELECT lease_us, lease_until - started_at FROM pawl_pending")
        assert lease.fetchall() == [(30_000_000, 30_000_000)]
    gate.open()
    first.result()


@hooks
def test_default_timeout_is_30_seconds(gateway, upstream, clock):
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    gate.wait_for()
    clock.advance(20)
    assert not first.is_done
    clock.run_until(lambda: first.is_done)
    assert first.result().is_problem(504, "DEPENDENCY.timeout")
    gate.open()


@hooks
def test_default_in_progress_waits_10_seconds(pawl, upstream, clock):
    gateway, admin = with_admin(pawl, RULE)
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    gate.wait_for()
    second = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    eventually(lambda: admin.value("pawl_waiting") == 1, "it waits")
    clock.run_until(lambda: second.is_done)
    assert second.result().is_problem(409, "CONFLICT.idempotency.in_progress")
    assert second.result()["Retry-After"] == "1"
    assert not first.is_done
    gate.open()
    assert first.result().status == 201


def test_default_unknown_is_hold(gateway, upstream):
    upstream.then(closes())
    assert mark(gateway.post("/refunds", {}, key="k1")) == "unknown"
    again = gateway.post("/refunds", {}, key="k1")
    assert again.is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert upstream.effects() == 1


@pytest.mark.parametrize("status, then", [
    (200, "stored"), (302, "stored"), (404, "stored"), (422, "stored"), (501, "stored"),
    (401, "released"), (403, "released"), (407, "released"), (408, "released"), (425, "released"),
    (429, "released"), (503, "released"), (508, "released"), (301, "released"), (307, "released"),
    (308, "released"), (500, "unknown"), (502, "unknown"), (504, "unknown")])
def test_default_remember_is_final(gateway, upstream, status, then):
    """found: C-C2, E-F1"""
    upstream.then(say(status))
    assert mark(gateway.post("/refunds", {}, key="k1")) == then


@pytest.mark.parametrize("status", [201, 422])
def test_default_duplicate_is_replay(gateway, upstream, status):
    upstream.then(say(status, {"n": 1}))
    first = gateway.post("/refunds", {}, key="k1")
    again = gateway.post("/refunds", {}, key="k1")
    assert (again.status, again.body, mark(again)) == (status, first.body, "replayed")
    assert upstream.effects() == 1


def test_default_mismatch_is_409(gateway):
    gateway.post("/refunds", {"amount": 1}, key="k1")
    other = gateway.post("/refunds", {"amount": 2}, key="k1")
    assert other.is_problem(409, "CONFLICT.idempotency.payload_mismatch")


def test_default_payload_is_all(gateway):
    gateway.post("/refunds", {"a": 1, "b": {"c": 1}}, key="k1")
    assert mark(gateway.post("/refunds", b'{"b":{"c":1.0},"a":1}', key="k1")) == "replayed"
    assert gateway.post("/refunds", {"a": 1, "b": {"c": 2}}, key="k1").status == 409


def test_default_query_is_all(gateway):
    gateway.post("/refunds?a=1", {}, key="k1")
    assert mark(gateway.post("/refunds?a=1", {}, key="k1")) == "replayed"
    assert gateway.post("/refunds?a=2", {}, key="k1").status == 409


def test_default_headers_are_if_match(gateway):
    gateway.post("/refunds", {}, key="k1", headers=[("If-Match", '"1"'), ("X-Any", "1")])
    again = gateway.post("/refunds", {}, key="k1", headers=[("If-Match", '"1"'), ("X-Any", "2")])
    assert mark(again) == "replayed"
    other = gateway.post("/refunds", {}, key="k1", headers=[("If-Match", '"2"'), ("X-Any", "1")])
    assert other.status == 409


def test_default_retry_is_none(gateway, upstream):
    upstream.then(say(503, effect=False))
    assert mark(gateway.post("/refunds", {}, key="k1")) == "released"
    assert len(upstream.requests) == 1


def test_default_store_down_is_refuse(gateway, upstream, clock):
    gateway.store.rename(gateway.store.with_suffix(".away"))
    answer = eventually(lambda: (lambda got: got if got.status == 503 else None)(
        gateway.post("/refunds", {}, key="k-down")), "a store that is down")
    assert answer.is_problem(503, "DEPENDENCY.store_unavailable")
    sent = len(upstream.requests)
    assert gateway.post("/refunds", {}, key="k-more").status == 503
    assert len(upstream.requests) == sent
    gateway.store.with_suffix(".away").rename(gateway.store)


@pytest.mark.parametrize("key", ["k", '"a b"', "0123456789", "UPPER-lower_~"])
def test_default_key_format_is_any(gateway, key):
    assert mark(gateway.post("/refunds", {}, key=key)) == "stored"


def test_default_key_syntax_is_lenient(gateway):
    assert mark(gateway.post("/refunds", {}, key="k")) == "stored"
    assert mark(gateway.post("/refunds", {}, key='"k"')) == "replayed"


def test_default_unmatched_is_pass(gateway, upstream):
    assert mark(gateway.post("/elsewhere", {})) == "bypassed"
    assert upstream.effects("/elsewhere") == 1


def test_default_protect_is_true(gateway):
    assert mark(gateway.post("/refunds", {}, key="k1")) == "stored"


def test_default_policy_is_publish(gateway):
    published = gateway.request("GET", "/.well-known/idempotency")
    assert (published.status, published.json["rules"][0]["name"]) == (200, "r")


def test_default_once_rejects_a_duplicate(pawl, upstream):
    gateway = pawl(RULE.replace("/refunds}", "/refunds, once: {key: '{body:/ref}'}}"))
    assert mark(gateway.post("/refunds", {"ref": "a"}, key="k1")) == "stored"
    other = gateway.post("/refunds", {"ref": "a"}, key="k2")
    assert other.is_problem(409, "CONFLICT.idempotency.duplicate")
    assert upstream.effects() == 1


def test_default_cors_lets_pages_send_no_cookies(pawl):
    gateway = pawl("cors: {origins: [https://shop.example]}\n" + RULE)
    answer = gateway.post("/refunds", {}, headers=[("Origin", "https://shop.example")])
    assert answer["Access-Control-Allow-Origin"] == "https://shop.example"
    assert answer["Access-Control-Allow-Credentials"] is None


@hooks
def test_default_webhooks_reach_public_addresses_alone_and_are_kept_7_days(pawl, tmp_path):
    one = {"name": "e", "url": "https://127.0.0.1:1/", "types": ["*"],
           "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
    gateway = pawl("tenant: none\nwebhooks: " + json.dumps({"endpoints": [one]}) + "\n")
    published = run("webhook", "publish", "a", "--store", gateway.store)
    assert published.returncode == 0, published

    def reasons() -> list[str]:
        lines = run("webhook", "list", "--json", "--store", gateway.store).stdout.splitlines()
        return [json.loads(line)["reason"] for line in lines]

    gateway.clock.run_until(lambda: reasons() == ["address_refused"])
    with closing(sqlite3.connect(gateway.store)) as store:
        (kept,) = store.execute("SELECT gone_at - fanned_at FROM pawl_event").fetchall()
    assert kept == (7 * 86400 * 1_000_000,)
    shown = run("config", "explain", "webhooks").stdout
    for name, value in (("allow", "[]"), ("allow_http", "false"), ("source", "pawl"),
                        ("keep", "7d"), ("endpoints", "[]")):
        assert re.search(rf"{name}\b.*?{re.escape(value)}", shown, re.S), shown


@hooks
def test_default_emit_says_the_response(pawl, upstream):
    gateway = pawl("tenant: none\nallow: [emit-unheard]\nrules:\n"
                   "  - {name: r, match: POST /refunds, emit: {type: a}}\n")
    answer = gateway.post("/refunds", {}, key="k1")
    with closing(sqlite3.connect(gateway.store)) as store:
        (said,) = store.execute("SELECT data FROM pawl_event").fetchall()
    assert json.loads(said[0]) == answer.json


def test_default_replay_copies_nothing(pawl, upstream):
    gateway = pawl("tenant: none\nrules:\n"
                   "  - {name: r, match: POST /refunds, payload: {exclude: [/id]}}\n")
    upstream.then(say(201, {"id": 1}))
    assert gateway.post("/refunds", {"id": 1}, key="k1").json == {"id": 1}
    assert gateway.post("/refunds", {"id": 2}, key="k1").json == {"id": 1}


def test_default_replay_cookies_is_false(gateway, upstream):
    upstream.then(say(201, {}, ("Set-Cookie", "s=1")))
    assert gateway.post("/refunds", {}, key="k1")["Set-Cookie"] == "s=1"
    assert gateway.post("/refunds", {}, key="k1")["Set-Cookie"] is None


def test_default_errors_are_application_json(pawl):
    gateway = pawl("tenant: none\ndefaults: {errors: {templates: {default: '{\"error\": 1}'}}}\n"
                   "rules: [{name: r, match: POST /refunds}]\n")
    told = gateway.post("/refunds", {}, key=None)
    assert (told["Content-Type"], told.json) == ("application/json", {"error": 1})


@pytest.mark.parametrize("option, value", [
    ("max_in_flight_per_tenant", "0"),
    ("cache", "auto"), ("store_timeout", "10s"), ("store_sessions", "1"),
    ("max_buffered", "auto"), ("drain", "25s"),
    ("roster_gone", "24h"), ("reload", "0s"),
    ("drain_delay", "0s"), ("upstream_idle", "1s"), ("max_request_body", "1MiB"),
    ("max_response_body", "1MiB"), ("max_waiting", "10000"), ("max_waiting_per_key", "2000"),
    ("retry_after", "1s"), ("disk_reserve", "auto"), ("threads", "0"), ("head_timeout", "10s"),
    ("body_timeout", "30s"), ("idle_timeout", "75s"), ("write_timeout", "30s"),
    ("read_timeout", "75s"), ("resolve", "30s"),
    ("connect_timeout", "5s"), ("max_connections", "4096"), ("max_connections_per_address", "0"),
    ("max_in_flight", "1024"), ("log_keys", "plain"), ("listen", "127.0.0.1:8080"),
    ("trust_forwarded", '[127.0.0.0/8, "::1/128"]'),
    ("trust_tenant", "false"), ("secret", "false"), ("not_done", "[]"), ("in_doubt", "[]"),
    ("stream", "false"), ("body", "auto"), ("allow", "[]"), ("keep_request", "0"),
    ("key", '"{header:Idempotency-Key}"'), ("retry", "none"), ("accept_weaker", "false")])
def test_default_values_are_what_the_reference_prints(option, value):
    assert f"{option}: {value}" in [line.strip()
                                    for line in run("config", "explain").stdout.splitlines()]


def test_every_default_of_the_table_is_shown_here():
    table = (ROOT / "src/config/options.h").read_text("utf-8")
    names = re.findall(r"^    X\((\w+), (?:[^\"]|\n)*\"(?!\()", table, re.M)
    text = Path(__file__).read_text("utf-8")
    assert len(names) > 45
    assert [name for name in names
            if f"def test_default_{name}_" not in text and f'("{name}", ' not in text] == []
