# SPDX-License-Identifier: Apache-2.0
"""Duplicates that come to a gateway that drains."""
from __future__ import annotations

import signal

from wire import eventually, request_bytes


def test_a_duplicate_that_comes_whole_during_a_drain_is_refused_at_once(pawl, upstream):
    gateway = pawl("tenant: none\nthreads: 1\nrules:\n  - {name: r, match: POST /refunds,"
                   " timeout: 300s, in_progress: {wait: 200s}}\n")
    gate = upstream.hold()
    whole = request_bytes("POST", "/refunds", [("Idempotency-Key", "k1")], b"{}")
    with gateway.connect() as first, gateway.connect() as late:
        first.send(whole)
        gate.wait_for()
        late.send(whole[:-1])
        gateway.request("GET", "/x")  # one loop: `late` was seen before it
        gateway.signal(signal.SIGTERM)
        eventually(lambda: not gateway.is_listening, "the end of listening")
        late.send(whole[-1:])
        assert late.answer().status == 503
        gate.open()
        assert first.answer().status == 201
    assert gateway.wait() == 0


def test_a_hang_up_ends_nothing(gateway, upstream):
    gate = upstream.hold()
    with gateway.connect() as client:
        client.send(request_bytes("POST", "/refunds", [("Idempotency-Key", "k1")], b"{}"))
        gate.wait_for()
        gateway.signal(signal.SIGHUP)
        gate.open()
        assert client.answer().status == 201
    assert gateway.request("GET", "/x").status == 200
