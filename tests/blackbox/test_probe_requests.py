# SPDX-License-Identifier: Apache-2.0
"""What a probe asks, and how often one request goes out."""
from __future__ import annotations

import pytest

from upstream import closes, say


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


@pytest.mark.parametrize("reply", [closes(), say(502, {})], ids=["closes", "502"])
def test_one_request_goes_out_at_most_once_more_after_a_probe(pawl, upstream, reply):
    gateway = pawl(LOST)
    upstream.then(*[r for _ in range(20) for r in (reply, say(404, {}))])
    answer = gateway.request("PUT", "/files/a", [("Idempotency-Key", "k1")], b"{}")
    assert (answer.status, answer["Idempotency-Status"]) == (502, "unknown")
    assert [r.method for r in upstream.requests] == ["PUT", "GET", "PUT"]


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
def test_a_key_that_makes_the_target_ambiguous_is_not_probed(pawl, upstream, key):
    """Which docs/guide/probes.md warns of."""
    gateway = pawl(LOST)
    upstream.then(closes())
    answer = gateway.request("PUT", "/files/a", [("Idempotency-Key", key)], b"{}")
    assert (answer.status, answer["Idempotency-Status"]) == (502, "unknown")
    assert [r.method for r in upstream.requests] == ["PUT"]
