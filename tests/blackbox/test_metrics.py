# SPDX-License-Identifier: Apache-2.0
"""What is counted: each answer once, under its rule and outcome."""
from __future__ import annotations

import json
import re
import sqlite3
import subprocess
from contextlib import closing

import pytest

from pawltest.admin import Admin, with_admin
from conftest import CONFIG, standing
from pawltest.gateway import ROOT, free_port, run
from test_reload import reload
from pawltest.upstream import Reply, closes, resets, say
from pawltest.wire import PATIENCE, Later, at_once, eventually, request_bytes

pytestmark = pytest.mark.no_store

TABLE = (ROOT / "src/observe/metrics.h").read_text("utf-8")
OUTCOMES = re.findall(r'^    X\([A-Z_]+, "([a-z_]+)"\)',
                      TABLE.partition("METRICS_OUTCOMES(X)")[2].partition("\nenum ")[0], re.M)
SERIES = re.findall(r'^    X\([A-Z_]+, "(\w+)",\s*(\w+),\s*"([\w,]*)"', TABLE, re.M)
RULE = "refunds.create"
HITS_OF = 10_000


@pytest.fixture
def both(pawl):
    return with_admin(pawl, CONFIG)


# ---- every outcome, once ----

def test_counts_as_created_and_replayed(both):
    gateway, admin = both
    assert gateway.post("/refunds", {}, "k1").status == 201
    assert admin.outcomes(RULE) == {"created": 1}
    gateway.post("/refunds", {}, "k1")
    gateway.post("/refunds", {}, "k1")
    assert admin.outcomes(RULE) == {"created": 1, "replayed": 2}


def test_counts_as_mismatch(both):
    gateway, admin = both
    gateway.post("/refunds", {"a": 1}, "k1")
    assert gateway.post("/refunds", {"a": 2}, "k1").status == 409
    assert admin.outcomes(RULE) == {"created": 1, "mismatch": 1}


def test_counts_as_in_progress(pawl, upstream):
    gateway, admin = with_admin(pawl, CONFIG + "    in_progress: conflict\n")
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {}, "k1"))
    gate.wait_for()
    assert admin.value("pawl_in_flight") == 1
    assert gateway.post("/refunds", {}, "k1").status == 409
    assert admin.outcomes(RULE) == {"in_progress": 1}
    gate.open()
    first.result()
    assert admin.outcomes(RULE) == {"in_progress": 1, "created": 1}


def test_counts_as_rejected(pawl):
    gateway, admin = with_admin(pawl, CONFIG + "    duplicate: reject\n")
    gateway.post("/refunds", {}, "k1")
    assert gateway.post("/refunds", {}, "k1").status == 409
    assert admin.outcomes(RULE) == {"created": 1, "rejected": 1}


def test_counts_as_acked(pawl):
    gateway, admin = with_admin(pawl, CONFIG + "    duplicate: ack\n")
    gateway.post("/refunds", {}, "k1")
    assert gateway.post("/refunds", {}, "k1").status == 200
    assert admin.outcomes(RULE) == {"created": 1, "acked": 1}


def test_counts_as_released(both, upstream):
    gateway, admin = both
    upstream.then(say(503))
    assert gateway.post("/refunds", {}, "k1")["Idempotency-Status"] == "released"
    assert admin.outcomes(RULE) == {"released": 1}
    upstream.stop()
    assert gateway.post("/refunds", {}, "k1").status == 503
    assert admin.outcomes(RULE) == {"released": 2}


def test_counts_as_unknown(both, upstream):
    gateway, admin = both
    upstream.then(closes())
    assert gateway.post("/refunds", {}, "k1").status == 502
    assert gateway.post("/refunds", {}, "k1").status == 409
    upstream.then(say(504))
    assert gateway.post("/refunds", {}, "k2")["Idempotency-Status"] == "unknown"
    assert admin.outcomes(RULE) == {"unknown": 3}


def test_counts_as_expired(pawl, upstream):
    gateway, admin = with_admin(pawl, CONFIG + "    max_response_body: 10\n")
    upstream.then(Reply(200, b"x" * 100))
    assert gateway.post("/refunds", {}, "k1").status == 200
    assert gateway.post("/refunds", {}, "k1").status == 410
    assert admin.outcomes(RULE) == {"created": 1, "expired": 1}


def test_counts_as_limited(pawl, upstream):
    gateway, admin = with_admin(pawl, "max_in_flight: 1\n" + CONFIG)
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {}, "k1"))
    gate.wait_for()
    assert gateway.post("/refunds", {}, "k2").status == 429
    assert admin.outcomes(RULE) == {"limited": 1}
    gate.open()
    first.result()


def test_counts_as_store_down(both):
    gateway, admin = both
    gateway.store.rename(gateway.store.with_suffix(".away"))
    eventually(lambda: gateway.post("/refunds", {}, "k1").status == 503, "the store is missed")
    assert admin.outcomes(RULE)["store_down"] == 1
    assert admin.value("pawl_store_up") == 0
    gateway.store.with_suffix(".away").rename(gateway.store)
    eventually(lambda: admin.value("pawl_store_up") == 1, "the store is back")


def test_counts_as_invalid(both):
    gateway, admin = both
    assert gateway.post("/refunds", {}).status == 400
    assert gateway.post("/refunds", {}, "k" * 300).status == 400
    assert admin.outcomes(RULE) == {"invalid": 2}
    with gateway.connect() as client:
        client.send(b"GET / HTTP/1.1\r\nHost : x\r\n\r\n")
        assert client.answer().status == 400
    assert gateway.request("TRACE", "/").status == 405
    assert admin.outcomes("") == {"invalid": 2}


def test_counts_as_bypassed(both, upstream):
    gateway, admin = both
    assert gateway.post("/other", {})["Idempotency-Status"] == "bypassed"
    assert gateway.request("GET", "/other", [("Idempotency-Key", "k1")]).status == 200
    assert admin.outcomes("") == {"bypassed": 2}
    upstream.stop()
    assert gateway.post("/other", {}).status == 503
    assert admin.outcomes("") == {"bypassed": 3}


def test_counts_as_passed(both, upstream):
    gateway, admin = both
    assert gateway.request("GET", "/refunds").status == 200
    assert gateway.request("GET", "/.well-known/idempotency").status == 200
    upstream.stop()
    assert gateway.request("GET", "/refunds").status == 503
    assert admin.outcomes("") == {"passed": 3}


def test_every_outcome_has_its_test_here():
    assert len(OUTCOMES) == 14
    named = "_".join(name for name in globals() if name.startswith("test_counts_as_"))
    for outcome in OUTCOMES:
        assert outcome in named


def test_a_client_that_gave_up_waiting_is_not_counted(both, upstream):
    gateway, admin = both
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {}, "k1"))
    gate.wait_for()
    waiter = gateway.connect()
    waiter.send(request_bytes("POST", "/refunds", [("Idempotency-Key", "k1"),
                                                   ("Content-Type", "application/json")], b"{}"))
    eventually(lambda: admin.value("pawl_waiting") == 1, "it waits")
    waiter.sock.close()
    eventually(lambda: admin.value("pawl_waiting") == 0, "it is gone")
    gate.open()
    first.result()
    assert admin.outcomes(RULE) == {"created": 1}


# ---- the upstream ----

def upstream_counts(admin: Admin) -> dict[str, float]:
    """What of the two series of the upstream is not zero, by the label's value."""
    return {value: n for (name, labels), n in admin.series().items()
            for label, value in labels if n and name in ("pawl_upstream_responses_total",
                                                         "pawl_upstream_errors_total")}


@pytest.mark.parametrize("route", ["/refunds", "/other"])
def test_responses_of_the_upstream_are_counted_by_class(both, upstream, route):
    """found: C-H2"""
    gateway, admin = both
    upstream.then(say(201), say(302), say(422), say(503), say(500))
    for n in range(5):
        gateway.post(route, {}, f"k{n}")
    assert upstream_counts(admin) == {"2xx": 1, "3xx": 1, "4xx": 1, "5xx": 2}


@pytest.mark.hooks
@pytest.mark.parametrize("route", ["/refunds", "/other"])
def test_an_upstream_that_fails_is_counted_by_the_way_it_fails(pawl, upstream, clock, route):
    """found: C-H2"""
    gateway, admin = with_admin(pawl, CONFIG)
    for n, (reply, reason) in enumerate([(resets(), "reset"), (closes(), "reset"),
                                         (Reply(raw=b"SSH-2.0-x\r\n\r\n"), "malformed")]):
        before = upstream_counts(admin)
        upstream.then(reply)
        assert gateway.post(route, {}, f"k{n}").status == 502
        assert upstream_counts(admin) == before | {reason: before.get(reason, 0) + 1}
    gate = upstream.hold()
    late = Later(lambda: gateway.post(route, {}, "late"))
    gate.wait_for()
    clock.advance(76)  # read_timeout; the rule's own is less
    assert late.result().status == 504
    gate.open()
    assert upstream_counts(admin)["timeout"] == 1
    upstream.stop()
    assert gateway.post(route, {}, "refused").status == 503
    assert upstream_counts(admin) == {"reset": 2, "malformed": 1, "timeout": 1, "refused": 1}


# ---- gauges and durations ----

def test_records_are_told_by_status(both, upstream):
    gateway, admin = both
    gateway.post("/refunds", {}, "k1")
    upstream.then(say(422), closes())
    gateway.post("/refunds", {}, "k2")
    gateway.post("/refunds", {}, "k3")
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {}, "k4"))
    gate.wait_for()
    for status in ("complete", "failed", "unknown", "pending"):
        assert admin.value("pawl_records", status=status) == 1
    gate.open()
    first.result()


def test_a_released_record_is_not_told_as_one_that_runs(both, upstream):
    """found: C-M6"""
    gateway, admin = both
    upstream.then(say(503))
    gateway.post("/refunds", {}, "k1")
    assert (admin.value("pawl_records", status="released"),
            admin.value("pawl_records", status="pending")) == (1, 0)


def test_a_store_short_of_space_is_not_up_and_says_so_once_each_way(pawl):
    """found: C-C3"""
    gateway, admin = with_admin(pawl, CONFIG)
    free = int(eventually(lambda: admin.value("pawl_store_free_bytes"), "its first look"))
    if free >= 1 << 39:
        pytest.skip("disk_reserve ends at 1 TiB, and more is free here")
    eventually(lambda: 0 < admin.value("pawl_store_reserve_bytes") < free, "its reserve")
    reload(gateway, f"admin: 127.0.0.1:{admin.port}\ndisk_reserve: {2 * free}\n{CONFIG}")
    eventually(lambda: admin.value("pawl_store_up") == 0, "the store counts as full")
    assert admin.value("pawl_store_reserve_bytes") == 2 * free
    assert (admin.get("/readyz").status, admin.get("/livez").status) == (503, 200)
    assert "space" in admin.get("/readyz").json["detail"]
    assert gateway.post("/refunds", {}, "k1").is_problem(503, "DEPENDENCY.store_unavailable")
    reload(gateway, f"admin: 127.0.0.1:{admin.port}\n{CONFIG}")
    eventually(lambda: admin.value("pawl_store_up") == 1, "the store has its reserve")
    assert gateway.post("/refunds", {}, "k1").status == 201

    def events() -> list[str]:
        return [line["event"] for line in gateway.log if line["event"].startswith("store_")]

    eventually(lambda: events() == ["store_down", "store_up"], "a line each way")


@pytest.mark.hooks
def test_the_store_tells_of_its_transactions_and_of_what_is_unknown(both, upstream, clock):
    gateway, admin = both
    upstream.then(closes())
    gateway.post("/refunds", {}, "k1")
    clock.run_until(lambda: admin.value("pawl_unknown_oldest_seconds") > 0)
    assert admin.value("pawl_unknown_oldest_seconds") < 60
    series = admin.series()
    assert series["pawl_store_batches_total", frozenset()] >= 2, "its begin and its doubt"
    assert series["pawl_store_operations_total", frozenset({("kind", "write")})] >= 2
    for name in ("pawl_store_commit_duration_seconds", "pawl_store_batch_operations"):
        assert series[name + "_count", frozenset()] == \
            series[name + "_bucket", frozenset({("le", "+Inf")})] >= 2
    assert 0 < series["pawl_store_commit_duration_seconds_sum", frozenset()] < 60
    assert series["pawl_store_free_bytes", frozenset()] > 0
    assert series["pawl_store_retries_total", frozenset({("reason", "full")})] == 0


@pytest.mark.hooks
def test_a_record_whose_process_died_is_stale_until_its_next_attempt(both, upstream, clock):
    gateway, admin = both
    gate = upstream.hold()
    with gateway.connect() as client:
        client.send(request_bytes("POST", "/refunds", [("Idempotency-Key", "k1")], b"{}"))
        gate.wait_for()
        assert admin.value("pawl_stale_records") == 0
        gateway.kill9()
    gateway.start()
    clock.run_until(lambda: admin.value("pawl_stale_records") == 1)
    with gateway.connect() as client:
        assert client.request("POST", "/refunds", [("Idempotency-Key", "k1")], b"{}").status == 409
    clock.run_until(lambda: admin.value("pawl_stale_records") == 0)


def test_durations_are_counted_once_a_request_and_once_an_exchange(both):
    gateway, admin = both
    for _ in range(3):
        gateway.post("/refunds", {}, "k1")
    gateway.request("GET", "/x")
    series = admin.series()
    for rule, requests, exchanges in ((RULE, 3, 1), ("", 1, 1)):
        labels = frozenset({("rule", rule)})
        assert series["pawl_request_duration_seconds_count", labels] == requests
        assert series["pawl_upstream_duration_seconds_count", labels] == exchanges
        assert series["pawl_request_duration_seconds_bucket",
                      labels | {("le", "+Inf")}] == requests
        assert 0 < series["pawl_upstream_duration_seconds_sum", labels] < 30


def test_connections_and_buffered_bytes_are_those_of_now(both, upstream):
    gateway, admin = both
    before = admin.value("pawl_connections")
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {"text": "x" * 5000}, "k1"))
    gate.wait_for()
    assert admin.value("pawl_connections") == before + 1
    assert admin.value("pawl_buffered_bytes") > 5000
    gate.open()
    first.result()
    eventually(lambda: admin.value("pawl_connections") == before, "it has closed")
    assert admin.value("pawl_buffered_bytes") == 0


def test_the_process_tells_what_it_uses(both):
    _, admin = both
    labels, series = {}, {}
    for (name, of), value in admin.series().items():
        labels[name], series[name] = dict(of), value
    assert series["process_resident_memory_bytes"] > 1e6
    assert 5 < series["process_open_fds"] < series["process_max_fds"]
    assert series["process_cpu_seconds_total"] > 0
    assert series["process_start_time_seconds"] > 1.6e9
    assert series["pawl_build_info"] == 1
    told = json.loads(run("version", "--json").stdout)
    assert labels["pawl_build_info"] == {name: told[name] for name in ("version", "commit")}


def test_counters_survive_a_reload_which_is_counted(both):
    gateway, admin = both
    gateway.post("/refunds", {}, "k1")
    more = f"admin: 127.0.0.1:{admin.port}\n{CONFIG}  - {{name: new, match: POST /new}}\n"
    gateway.configure(more)
    gateway.signal(1)
    eventually(lambda: admin.value("pawl_config_reloads_total", result="success") == 1)
    assert admin.outcomes(RULE) == {"created": 1}
    assert admin.value("pawl_requests_total", rule="new", outcome="created") == 0
    gateway.configure("nonsense: 1\n")
    gateway.signal(1)
    eventually(lambda: admin.value("pawl_config_reloads_total", result="failure") == 1)
    assert admin.value("pawl_config_last_reload_successful") == 0


# ---- the page ----

def test_the_page_holds_every_series_of_the_table_and_no_other(both):
    gateway, admin = both
    gateway.post("/refunds", {}, "k1")
    page = admin.get("/metrics")
    assert page["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page.body.decode(), re.M))
    assert types == {name: kind.lower() for name, kind, _ in SERIES}
    for name, labels in admin.series():
        base = re.sub(r"_(bucket|sum|count)$", "", name) if name not in types else name
        wanted = dict((name, labels) for name, _, labels in SERIES)[base]
        assert {label for label, _ in labels} - {"le"} == set(filter(None, wanted.split(",")))


def test_promtool_accepts_the_page(both):
    gateway, admin = both
    gateway.post("/refunds", {}, "k1")
    ran = subprocess.run(["promtool", "check", "metrics"], input=admin.get("/metrics").body,
                         capture_output=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


def test_scrapes_read_no_records(both):
    """The time of a scrape does not follow the number of records: none is looked at. Shown by a
    store that stands still: who would ask it would wait."""
    gateway, admin = both
    gateway.post("/refunds", {}, "k1")
    with closing(sqlite3.connect(gateway.store, timeout=PATIENCE, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        for _ in range(5):
            assert admin.value("pawl_records", status="complete") == 1


@pytest.mark.hooks
def test_a_lapsed_lease_and_the_age_of_the_oldest_unknown_record_are_told(both, upstream, clock):
    gateway, admin = both
    upstream.then(closes())
    assert gateway.post("/refunds", {}, "k1")["Idempotency-Status"] == "unknown"
    assert admin.value("pawl_stale_records") == 0
    clock.run_until(lambda: admin.value("pawl_unknown_oldest_seconds") > 0)
    clock.advance(3600)
    assert 3600 < admin.value("pawl_unknown_oldest_seconds") < 3700
    gate = upstream.hold()
    running = Later(lambda: pytest.raises(Exception, gateway.post, "/refunds", {}, "k2"))
    gate.wait_for()
    gateway.kill9()
    running.result()
    gate.open()
    gateway.start()
    clock.run_until(lambda: admin.value("pawl_stale_records") == 1)
    assert 3600 < admin.value("pawl_unknown_oldest_seconds") < 3800


# ---- what it is for ----

@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """A gateway after 10,000 requests of which each tenth repeats an earlier one."""
    port = free_port()
    with standing(tmp_path_factory.mktemp("loaded"), f"admin: 127.0.0.1:{port}\n{CONFIG}") as made:
        gateway, behind = made
        behind.default = say(201, {})

        def send(part: int) -> None:
            with gateway.connect() as client:
                for i in range(HITS_OF // 8):
                    key = f"{part}-{i - 1 if i % 10 == 9 else i}"
                    answer = client.request("POST", "/refunds", [("Idempotency-Key", key)], b"{}")
                    assert answer.status == 201

        at_once(8, send)
        yield Admin(port), behind


def test_a_tenth_of_retries_gives_a_hit_rate_of_a_tenth(loaded):
    admin, behind = loaded
    outcomes = admin.outcomes(RULE)
    assert sum(outcomes.values()) == HITS_OF
    rate = outcomes["replayed"] / (outcomes["created"] + outcomes["replayed"])
    assert 0.09 < rate < 0.11
    assert behind.effects() == outcomes["created"]
    assert admin.value("pawl_records", status="complete") == outcomes["created"]
