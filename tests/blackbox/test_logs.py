# SPDX-License-Identifier: Apache-2.0
"""JSON log lines: one a request, with all by which it is found again."""
from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import uuid

import pytest

from pawltest.admin import Admin, with_admin
from conftest import CONFIG
from pawltest.gateway import PAWL, READY, free_port, run
from pawltest.upstream import closes, say
from pawltest.wire import Client, Later, eventually, request_bytes

pytestmark = pytest.mark.no_store

TENANTS = 'tenant: "{header:X-Tenant}"\ntrust_tenant: true\n' + CONFIG.replace("tenant: none\n", "")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")


def lines(gateway, n, event="request"):
    """The first n lines of that event. They are written when their answers have left: lines of two
    connections may change places, so a test asks for the one before it sends the other."""
    return eventually(lambda: len(found := gateway.lines(event)) >= n and found[:n],
                      f"{n} lines of {event}")


def test_a_line_has_every_field_of_the_contract(pawl, upstream):
    gateway = pawl(TENANTS)
    upstream.then(closes())
    ids = [("X-Tenant", "t1"), ("X-Correlation-Id", "c-1"),
           ("traceparent", f"00-{TRACE}-00f067aa0ba902b7-01")]
    for n in (1, 2):
        gateway.post("/refunds", {"a": 1}, "k1", ids)
        lines(gateway, n)
    first, second = lines(gateway, 2)
    for line in (first, second):
        assert TIME.match(line["time"]) and TIME.match(line["first_at"])
        assert (line["rule"], line["idempotency_key"]) == ("refunds.create", "k1")
        assert (line["correlation_id"], line["trace_id"]) == ("c-1", TRACE)
        assert re.fullmatch(r"[0-9a-f]{64}", line["payload_hash"])
        assert re.fullmatch(r"[0-9a-f]{16}", line["tenant_hash"])
        assert line["attempt"] == 1 and line["to_state"] == "unknown"
        assert line["duration_us"] > 0
    assert (first["level"], first["status"], first["from_state"]) == ("warn", 502, "absent")
    assert first["error_code"] == "TRANSIENT.upstream_broke"
    assert (second["level"], second["status"], second["from_state"]) == ("info", 409, "unknown")
    assert second["error_code"] == "CONFLICT.idempotency.outcome_unknown"
    assert first["first_at"] == second["first_at"]
    assert (first["payload_hash"], first["tenant_hash"]) == (second["payload_hash"],
                                                             second["tenant_hash"])


def test_a_replay_says_so_and_names_no_error(gateway):
    for n in (1, 2):
        gateway.post("/refunds", {}, "k1")
        lines(gateway, n)
    first, again = lines(gateway, 2)
    assert (first["idempotency_status"], again["idempotency_status"]) == ("stored", "replayed")
    assert (first["from_state"], first["to_state"]) == ("absent", "complete")
    assert again["from_state"] == again["to_state"] == "complete"
    assert again["first_at"] == first["first_at"]
    assert "error_code" not in first and "error_code" not in again


def test_without_a_correlation_id_the_request_id_stands_in(gateway):
    gateway.post("/refunds", {}, "k1", [("X-Request-Id", "r-1")])
    lines(gateway, 1)
    gateway.post("/refunds", {}, "k2", [("X-Request-Id", "r-2"), ("X-Correlation-Id", "c-2")])
    lines(gateway, 2)
    gateway.post("/refunds", {}, "k3")
    assert [line.get("correlation_id") for line in lines(gateway, 3)] == ["r-1", "c-2", None]


def test_only_a_trace_that_the_client_sent_is_logged(gateway):
    gateway.post("/refunds", {}, "k1")
    gateway.post("/refunds", {}, "k2", [("traceparent", "00-nonsense")])
    assert not any("trace_id" in line for line in lines(gateway, 2))


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_without_a_rule_has_its_trace_logged_too(gateway, method):
    gateway.request(method, "/other", [("traceparent", f"00-{TRACE}-00f067aa0ba902b7-01")])
    assert lines(gateway, 1, "pass")[0]["trace_id"] == TRACE


def test_under_hashed_no_line_holds_a_key(pawl, upstream):
    gateway, admin = with_admin(pawl, "log_keys: hashed\n" + CONFIG)
    upstream.then(closes())
    for n, key in enumerate(("secret-key-1", "secret-key-1", "secret-key-2"), 1):
        gateway.post("/refunds", {"key": key}, key)
        lines(gateway, n)
    row = admin.keys("?key=secret-key-1")[0]
    admin.act(row["id"], "resolve", token=row["token"], status=200)
    act = lines(gateway, 1, "act")[0]
    hashes = [line["idempotency_key"] for line in lines(gateway, 3)]
    assert all(re.fullmatch(r"[0-9a-f]{16}", value) for value in hashes)
    assert hashes[0] == hashes[1] != hashes[2]
    assert act["idempotency_key"] == hashes[0]
    assert not any("secret-key" in line for line in gateway.printed)


HASHED = """
log_keys: hashed
tenant: none
rules:
  - {name: by.payload, match: POST /by-payload, key: "{payload}"}
  - {name: by.header, match: POST /by-header, key: "{header:X-Request-Id}"}
  - {name: once, match: POST /once, once: {key: "{header:X-Correlation-Id}", duplicate: reject}}
  - {name: by.path, match: "PUT /things/{id}/parts/{part}", key: "{path:id}{path:part}"}
"""


def test_under_hashed_no_line_shows_by_another_field_what_a_key_is_made_of(pawl):
    """found: A-L16"""
    gateway = pawl(HASHED)
    phone = {"phone": "+15550100"}
    hashed = run("hash", "-", input=json.dumps(phone)).stdout.split()[0]
    gateway.post("/by-payload", phone)
    line, = lines(gateway, 1)
    assert re.fullmatch(r"[0-9a-f]{16}", line["payload_hash"])
    gateway.post("/by-header", {}, headers=[("X-Request-Id", "secret-id")])
    gateway.request("PUT", "/things/secret-id/parts/secret-part", [], b"{}")
    gateway.post("/once", {}, "k1", [("X-Correlation-Id", "secret-value")])
    lines(gateway, 4)
    for n, (method, target, event, shown) in enumerate([
            ("GET", "/things/secret-id?secret-id", "pass", "/things/*"),
            ("GET", "/other", "pass", "/other"),
            ("DELETE", "/things/secret-id/parts/secret-part/more", "pass",
             "/things/*/parts/*/more"),
            ("TRACE", "/%74hings/secret-id/parts/secret-part/", "refuse", "/things/*/parts/*"),
            ("PUT", "/things//secret-id/parts/secret-part", "refuse", None)]):
        gateway.request(method, target, [("X-Request-Id", "secret-id")])
        n = n + 1 if event == "pass" else n - 2
        assert lines(gateway, n, event)[-1].get("path") == shown
    everything = "\n".join(gateway.printed)
    assert hashed not in everything and "secret" not in everything


@pytest.mark.parametrize("header", ["X-Correlation-Id", "X-Request-Id"])
def test_under_hashed_no_line_shows_a_key_that_was_sent_as_the_correlation_id_too(pawl, header):
    gateway = pawl("log_keys: hashed\ntenant: none\nrules:\n"
                   "  - {name: a, match: POST /a}\n"
                   '  - {name: by.body, match: POST /by-body, key: "{body:/id}"}\n')
    for key in ("secret-key", '"secret-key"', "secret-" + "x" * 200):
        gateway.post("/a", {}, key, [(header, key.strip('"'))])
    gateway.post("/by-body", {"id": "secret-id"}, headers=[(header, "secret-id")])
    gateway.post("/a//", {}, "secret-key", [(header, "secret-key")])
    lines(gateway, 4)
    gateway.post("/a", {}, "other", [(header, "shown-id")])
    assert lines(gateway, 5)[-1]["correlation_id"] == "shown-id"
    assert not any("secret" in line for line in gateway.printed)


def test_each_line_names_client_method_and_route(pawl, upstream):
    """found: C-H3"""
    gateway = pawl("""
tenant: "{header:X-Tenant}"
trust_tenant: true
rules:
  - {name: a, match: "POST /orders/{id}/items"}
  - {name: b, match: POST /refunds}
  - {name: c, match: "POST /of/{merchant}", tenant: "{path:merchant}"}
""")
    gateway.post("/orders/5/items?token=s3cret", {}, "k1", [("X-Tenant", "t")])
    gateway.post("/refunds", {}, "malformed key", [("X-Tenant", "t")])
    gateway.post("/of/merchant-77", {}, "k1")
    gateway.request("GET", "/orders/5")
    gateway.request("TRACE", "/orders/5")
    with gateway.connect() as client:
        client.send(b"GET / HTTP/1.1\r\nHost : x\r\n\r\n")
        client.answer()
    first, refused, tenant = sorted(lines(gateway, 3), key=lambda line: line["rule"])
    passed, = lines(gateway, 1, "pass")
    malformed, = [line for line in lines(gateway, 2, "refuse") if "method" not in line]
    assert [first[name] for name in ("client", "method", "route", "path")] == [
        "127.0.0.1", "POST", "/orders/{id}/items", "/orders/5/items"]
    assert [refused[name] for name in ("client", "method", "route", "status")] == [
        "127.0.0.1", "POST", "/refunds", 400]
    assert tenant["route"] == "/of/{merchant}" and "path" not in tenant, "no line holds a tenant"
    assert (passed["client"], passed["path"]) == ("127.0.0.1", "/orders/5")
    assert malformed["client"] == "127.0.0.1"
    assert not any("s3cret" in line or "merchant-77" in line for line in gateway.printed)


FORWARDED = [("X-Forwarded-For", "198.51.100.1, unknown ,192.0.2.7"),
             ("X-Forwarded-For", ""), ("X-Forwarded-For", "fd00::1,, 10.0.0.1 ,")]


@pytest.mark.parametrize("trusted, client, peer", [
    ("[10.0.0.0/8, 192.0.2.7]", "127.0.0.1", None),
    ("[127.0.0.0/8]", "10.0.0.1", "127.0.0.1"),
    ("[127.0.0.0/8, 10.0.0.0/8]", "fd00::1", "127.0.0.1"),
    ("[127.0.0.0/8, 10.0.0.0/8, 'fd00::/8']", "192.0.2.7", "127.0.0.1"),
    ("[0.0.0.0/0, 'fd00::/8']", "unknown", "127.0.0.1")])
def test_the_client_is_the_last_that_no_trusted_proxy_has(pawl, trusted, client, peer):
    """A client writes whatever it likes before what its proxies append. found: C-H3"""
    gateway = pawl(f"trust_forwarded: {trusted}\n{CONFIG}")
    gateway.post("/refunds", {}, "k1", FORWARDED)
    gateway.request("GET", "/other", FORWARDED)
    gateway.request("TRACE", "/other", FORWARDED)
    for event in ("request", "pass", "refuse"):
        line, = lines(gateway, 1, event)
        assert (line["client"], line.get("peer")) == (client, peer)


def test_a_replay_says_how_often_its_operation_was_tried(pawl, upstream):
    """found: B-F12"""
    gateway = pawl()
    upstream.then(say(503))
    for n in range(4):
        gateway.post("/refunds", {}, "k1")
        lines(gateway, n + 1)
    assert [(line["idempotency_status"], line["attempt"]) for line in lines(gateway, 4)] == [
        ("released", 1), ("stored", 2), ("replayed", 2), ("replayed", 2)]


def test_a_duplicate_that_came_too_early_is_a_warning(pawl, upstream):
    """found: B-F12"""
    gateway = pawl(CONFIG + "    in_progress: conflict\n")
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {}, "k1"))
    gate.wait_for()
    assert gateway.post("/refunds", {}, "k1").status == 409
    line, = lines(gateway, 1)
    assert (line["level"], line["error_code"], line["attempt"]) == (
        "warn", "CONFLICT.idempotency.in_progress", 1)
    gate.open()
    first.result()


@pytest.mark.parametrize("route", ["/refunds", "/other"])
def test_an_error_and_its_log_line_have_the_same_instance(gateway, upstream, route):
    """found: E-W4"""
    upstream.stop()
    seen = [gateway.post(route, {}, f"k{n}").json["instance"] for n in range(2)]
    assert seen[0] != seen[1]
    assert all(uuid.UUID(one.removeprefix("urn:uuid:")).version == 4 for one in seen)
    event = "request" if route == "/refunds" else "pass"
    assert sorted(line["instance"] for line in lines(gateway, 2, event)) == sorted(seen)


def test_no_line_holds_a_tenant(pawl):
    gateway = pawl(TENANTS)
    gateway.post("/refunds", {}, "k1", [("X-Tenant", "merchant-77")])
    lines(gateway, 1)
    assert not any("merchant-77" in line for line in gateway.printed)


def test_a_request_without_a_rule_has_its_line_without_its_query(gateway, upstream):
    gateway.request("GET", "/account?token=s3cret", [("X-Request-Id", "r-1")])
    lines(gateway, 1, "pass")
    gateway.post("/other", {})
    lines(gateway, 2, "pass")
    upstream.stop()
    gateway.request("GET", "/account")
    read, wrote, failed = lines(gateway, 3, "pass")
    assert (read["method"], read["path"], read["status"]) == ("GET", "/account", 200)
    assert (read["correlation_id"], read["level"]) == ("r-1", "info")
    assert read["bytes"] > 0 and read["duration_us"] >= 0
    assert (wrote["status"], wrote["idempotency_status"]) == (201, "bypassed")
    assert (failed["status"], failed["level"]) == (503, "warn")
    assert failed["error_code"] == "DEPENDENCY.unavailable"
    assert "problem" not in read and "problem" not in wrote
    assert not any("s3cret" in line for line in gateway.printed)


def test_why_the_upstream_could_not_be_reached_is_logged(gateway, upstream):
    upstream.stop()
    gateway.request("GET", "/account")
    gateway.post("/refunds", {}, "k1")
    for line in lines(gateway, 1, "pass") + lines(gateway, 1):
        assert line["error_code"] == "DEPENDENCY.unavailable"
        assert line["problem"] == "Connection refused"


def test_what_is_refused_has_its_line(gateway):
    with gateway.connect() as client:
        client.send(b"GET / HTTP/1.1\r\nHost : x\r\n\r\n")
        client.answer()
    lines(gateway, 1, "refuse")
    gateway.request("TRACE", "/x")
    first, second = lines(gateway, 2, "refuse")
    assert (first["status"], first["error_code"]) == (400, "VALIDATION.request_malformed")
    assert (second["method"], second["path"], second["status"]) == ("TRACE", "/x", 405)


def test_bytes_from_outside_cannot_forge_a_line(gateway):
    evil = 'x","status":1,"a":"\\'
    gateway.post("/refunds", {}, "k1", [("X-Correlation-Id", evil), ("X-Request-Id", "\xff\x80")])
    gateway.request("GET", "/%0a%22", [("X-Request-Id", "\xff\t\xfe")])
    assert lines(gateway, 1)[0]["correlation_id"] == evil
    assert lines(gateway, 1)[0]["status"] == 201
    passed = lines(gateway, 1, "pass")[0]
    assert passed["correlation_id"] == "\ufffd\t\ufffd"
    gateway.post("/refunds", {}, "k2", [("X-Correlation-Id", "y" * 20_000)])
    assert lines(gateway, 2)[1]["correlation_id"] == "y" * 128


def test_a_terminal_that_shows_the_log_obeys_no_client(gateway):
    """found: A-L17"""
    evil = b"\xc2\x9b31m\xe2\x80\xaex".decode("latin-1")
    gateway.post("/refunds", {}, "k1", [("X-Correlation-Id", evil)])
    assert lines(gateway, 1)[0]["correlation_id"] == "\x9b31m\u202ex"
    assert not any("\x9b" in line or "\u202e" in line for line in gateway.printed)


@pytest.mark.parametrize("unit", ["a", '"'])
def test_no_request_is_so_long_that_it_leaves_no_line(gateway, unit):
    gateway.request("GET", "/" + 20000 * unit)
    line, = lines(gateway, 1, "pass")
    assert line["path"] == "/" + 2047 * unit


def test_no_method_is_so_long_that_it_leaves_no_line(gateway):
    gateway.request("M" * 20000, "/m")
    line, = eventually(lambda: [line for line in gateway.log if line.get("path") == "/m"])
    assert line["method"] == 64 * "M"


def test_a_blocked_reader_slows_no_request_and_lost_lines_are_counted(tmp_path, upstream):
    """stderr is a pipe that nobody reads any more: the ring fills, and lines are dropped."""
    port, admin_port = free_port(), free_port()
    config = tmp_path / "pawl.yaml"
    config.write_text(f"listen: 127.0.0.1:{port}\nadmin: 127.0.0.1:{admin_port}\n"
                      f"upstream: http://127.0.0.1:{upstream.port}\n"
                      f"store: sqlite:{tmp_path}/pawl.db\n{CONFIG}")
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    process = subprocess.Popen([str(PAWL), "serve", "-c", str(config)], stderr=write_end)
    try:
        os.close(write_end)
        with os.fdopen(read_end, "rb", buffering=0, closefd=False) as stderr:
            assert any(READY.match(line.decode()) for line in iter(stderr.readline, b""))
        admin = Admin(admin_port)
        long_id = [("X-Correlation-Id", "x" * 128), ("Host", "h")]
        asked = request_bytes("TRACE", "/" + "p" * 12_000, long_id)

        def lost() -> bool:
            with Client(port) as client:
                for _ in range(50):
                    client.send(asked)
                    assert client.answer("TRACE").status == 405
            return admin.value("pawl_log_lines_dropped_total") > 0

        eventually(lost, "lines are dropped")
        with Client(port) as client:
            answer = client.request("POST", "/refunds", [("Idempotency-Key", "k1")], b"{}")
        assert answer.status == 201
    finally:
        process.kill()
        process.wait()
        os.close(read_end)


def test_every_line_is_json(pawl, upstream):
    gateway = pawl(CONFIG + "    not_done: [500]\n")  # else its start has a note about a 500
    upstream.then(closes())
    gateway.post("/refunds", {}, "k1")
    lines(gateway, 1)
    gateway.stop()
    rest = [line for line in gateway.printed if not READY.match(line)]
    assert rest and all(json.loads(line)["event"] for line in rest)
