# SPDX-License-Identifier: Apache-2.0
"""What a probe asks, and how often one request goes out."""
from __future__ import annotations

import pytest

from pawltest.upstream import Reply, closes, say
from pawltest.wire import Later, eventually

pytestmark = pytest.mark.no_store

PROBE = """
tenant: none
rules:
  - name: files.put
    match: PUT /files/{name}
    settle: 0
    unknown: {probe: "GET /files/{path:name}"}
"""


@pytest.mark.parametrize("header", [("If-None-Match", "*"), ("Range", "bytes=0-0"),
                                    ("If-Modified-Since", "Sat, 01 Jan 2022 00:00:00 GMT")])
def test_a_probe_asks_without_the_conditions_of_the_request(pawl, upstream, header):
    gateway = pawl(PROBE)
    upstream.then(closes())
    upstream.on("GET", "/files/a", say(200, {"it": "is there"}))
    answer = gateway.request("PUT", "/files/a", [("Idempotency-Key", "k1"), header], b"{}")
    assert answer.status == 200
    assert upstream.requests[0][header[0]] == header[1]
    assert upstream.requests[-1].method == "GET"
    assert upstream.requests[-1][header[0]] is None


LOST = """
tenant: none
rules:
  - name: files.put
    match: PUT /files/{name}
    settle: 0
    unknown: {probe: "GET /files/by-key/{key}"}
"""


def put(gateway, key="k1"):
    return gateway.request("PUT", "/files/a", [("Idempotency-Key", key)], b"{}")


def test_a_failure_that_a_probe_finds_not_done_is_its_clients_to_repeat(pawl, upstream):
    """found: L4"""
    gateway = pawl(LOST)
    own, none = ("X-Own", "1"), ("X-Should-Retry", "false")
    for key, failed, probed, status, wait in (
            ("closes", closes(effect=False), say(404, {}), 502, "1"),
            ("odd", Reply(raw=b"what\r\n\r\n", effect=False), say(404, {}), 502, "1"),
            ("asked", closes(effect=False), say(404, {}, ("Retry-After", "7")), 502, "7"),
            ("own", say(500, {"e": 1}, own, none, effect=False), say(404, {}), 500, "1"),
            ("short", say(500, {"e": 1}, own, ("Retry-After", "0"), effect=False), say(404, {}),
             500, "1"),
            ("long", say(500, {"e": 1}, own, ("Retry-After", "90"), effect=False), say(404, {}),
             500, "90")):
        upstream.then(failed, probed)
        answer = put(gateway, key)
        assert answer.mark == (status, "released"), key
        assert answer.all("Retry-After") == [wait], key
        assert answer.all("X-Should-Retry") == ["true"], key
        if status == 500:
            assert (answer.json, answer["X-Own"], answer["Error-Code"]) == ({"e": 1}, "1", None)
        else:
            assert (answer.json["retryable"], answer.json["safe_new_key"]) == (True, True), key
            assert answer.json["detail"] == "the probe found that the operation was not done"
            assert answer.json["hint"].startswith("Nothing was done.") and \
                "operation" not in answer.json
        assert [r.method for r in upstream.requests[-2:]] == ["PUT", "GET"], key
    assert len(upstream.requests) == 12 and upstream.effects() == 0
    assert put(gateway, "own")["Idempotency-Status"] == "stored"


@pytest.mark.hooks
def test_a_timeout_that_a_probe_finds_not_done_is_504_and_released(pawl, upstream, clock):
    gateway = pawl(LOST)
    gate = upstream.hold(effect=False)
    upstream.on("GET", "/files/by-key/k1", say(404, {}))
    client = Later(lambda: put(gateway))
    gate.wait_for()
    clock.advance(31)
    answer = client.result()
    assert answer.is_problem(504, "DEPENDENCY.timeout")
    assert (answer.json["retryable"], answer.json["safe_new_key"]) == (True, True)
    assert (answer["Idempotency-Status"], answer["Retry-After"]) == ("released", "1")
    gate.open()


def test_what_another_client_left_in_doubt_is_sent_once_it_was_not_done(pawl, upstream):
    """Its failure is not this client's: only what fails in its own turn is."""
    gateway = pawl(LOST)
    upstream.then(closes(effect=False), say(500, {}), say(404, {}), say(502, {}, effect=False),
                  say(404, {}))
    assert put(gateway)["Idempotency-Status"] == "unknown"
    answer = put(gateway)
    assert answer.mark == (502, "released")
    assert [r.method for r in upstream.requests] == ["PUT", "GET", "GET", "PUT", "GET"]


def test_a_probe_has_the_key_as_the_request_had_it_and_its_target_has_it_bare(pawl, upstream):
    """Which docs/guide/probes.md warns of."""
    gateway = pawl(LOST)
    upstream.then(closes(), say(200, {}))
    sent = [("Idempotency-Key", '"order,1"')]
    assert gateway.request("PUT", "/files/a", sent, b"{}").status == 200
    put, probe = upstream.requests
    assert put["Idempotency-Key"] == probe["Idempotency-Key"] == '"order,1"'
    assert probe.target == "/files/by-key/order%2C1"
    assert int(probe["Idempotency-Token"]) > int(put["Idempotency-Token"])


@pytest.mark.parametrize("key", ["a/b", '"a\\\\b"', "..", "."])
def test_a_key_that_makes_the_target_ambiguous_is_not_probed_and_the_client_reads_why(
        pawl, upstream, key):
    gateway = pawl(LOST)
    upstream.then(closes())
    sent = [("Idempotency-Key", key)]
    first = gateway.request("PUT", "/files/a", sent, b"{}")
    assert first.is_problem(502, "TRANSIENT.upstream_broke")
    again = gateway.request("PUT", "/files/a", sent, b"{}")
    assert again.is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    for answer in (first, again):
        assert answer.json["detail"].startswith("no probe was sent: its target cannot hold {key}, ")
        assert (answer.json["retryable"], answer.json["safe_new_key"]) == (False, False)
        assert answer["Stripe-Should-Retry"] == "false"
    assert [r.method for r in upstream.requests] == ["PUT"]
    eventually(lambda: [line.get("unprobed") for line in gateway.lines("request")]
               == ["key", "key"])


def test_the_source_that_makes_the_target_ambiguous_is_named(pawl, upstream):
    gateway = pawl(LOST.replace("/by-key/{key}", "/{path:name}/{key}?of={body:/a~1b}"))
    upstream.then(closes())
    answer = gateway.request("PUT", "/files/x", [("Idempotency-Key", "a/b"),
                                                 ("Content-Type", "application/json")],
                             b'{"a/b":"c/d"}')
    assert "cannot hold {key}," in answer.json["detail"]


@pytest.mark.hooks
def test_not_found_before_settle_says_when_it_will_be_believed(pawl, upstream, clock):
    gateway = pawl(LOST.replace("settle: 0", "settle: 60s"))
    upstream.then(closes(), *[say(404, {}) for _ in range(3)])
    sent = [("Idempotency-Key", "k1")]
    first = gateway.request("PUT", "/files/a", sent, b"{}")
    assert first.is_problem(502, "TRANSIENT.upstream_broke")
    assert first["Idempotency-Status"] == "unknown"
    clock.advance(20)
    again = gateway.request("PUT", "/files/a", sent, b"{}")
    assert again.is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    for answer, most in ((first, 60), (again, 40)):
        wait = int(answer["Retry-After"])
        assert most - 20 < wait <= most
        assert f"not found yet: the probe got 404, which pawl trusts in {wait} s" in \
            answer.json["detail"]
        assert answer.json["retryable"] is True
    clock.advance(41)
    assert gateway.request("PUT", "/files/a", sent, b"{}").status == 201
    assert upstream.effects() == 2

def test_from_quiet_at_on_the_wait_doubles_with_each_inconclusive_probe(pawl, upstream):
    gateway = pawl(LOST)
    upstream.then(closes(), *[say(500, {}) for _ in range(9)])
    answers = [put(gateway) for _ in range(9)]
    assert [a.status for a in answers] == [502] + 8 * [409]
    assert [int(a["Retry-After"]) for a in answers] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert {a.json["detail"] for a in answers} == {"the probe was inconclusive"}
    gate = upstream.gate()
    upstream.then(say(500, {}, gate=gate))
    late = gateway.request("PUT", "/files/a", [("Idempotency-Key", "k1"),
                                               ("X-Request-Timeout", "200")], b"{}")
    gate.open()
    assert (late.status, late["Retry-After"]) == (504, "1"), "its probe is still on its way"


def test_in_doubt_the_wait_is_until_quiet_at_or_for_as_long_as_the_service_asks(pawl, upstream):
    gateway = pawl(LOST.replace("settle: 0", "settle: 20s"))
    hint = ("Retry-After", "50")
    year = ("Retry-After", "31536000")
    for key, failed, probed, least, most in (
            ("none", closes(), say(500, {}), 15, 20),
            ("probe", closes(), say(503, {}, hint), 45, 50),
            ("too-long", closes(), say(503, {}, year), 55, 60),
            ("own", say(500, {}), say(500, {}), 15, 20),
            ("own-short", say(500, {}, ("Retry-After", "1"), ("X-Own", "1")), say(500, {}), 15, 20),
            ("own-none", say(500, {}), say(503, {}, year), 55, 60),
            ("own-long", say(500, {}, year), say(500, {}), 31536000, 31536000)):
        upstream.then(failed, probed)
        answer = put(gateway, key)
        assert (answer["Idempotency-Status"], len(answer.all("Retry-After"))) == ("unknown", 1), key
        assert least <= int(answer["Retry-After"]) <= most, key
        assert answer["X-Own"] == ("1" if key == "own-short" else None)


def test_what_no_retry_changes_names_no_time(pawl, upstream):
    gateway = pawl(LOST.replace("settle: 0", "settle: 20s"))
    upstream.then(closes())
    for answer in put(gateway, "a/b"), put(gateway, "a/b"):
        assert (answer.json["retryable"], answer["Retry-After"]) == (False, None)


@pytest.mark.hooks
def test_what_was_told_to_wait_finds_the_record_however_short_its_ttl(pawl, upstream, clock):
    """Somebody else settles it in the meantime."""
    gateway = pawl(LOST.replace("settle: 0", "settle: 0\n    timeout: 2s\n    ttl: 2s"))
    upstream.then(closes(), say(500, {}), say(200, {"found": True}))
    assert (put(gateway).status, put(gateway).status) == (502, 200)
    clock.advance(55)
    assert put(gateway)["Idempotency-Status"] == "replayed"
    assert [r.method for r in upstream.requests] == ["PUT", "GET", "GET"]
