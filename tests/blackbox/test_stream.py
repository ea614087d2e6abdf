# SPDX-License-Identifier: Apache-2.0
"""Rules under `stream: true`: the tombstone first, then the answer as it comes."""
from __future__ import annotations

import pytest

from pawltest.upstream import Reply, say
from pawltest.wire import Later, request_bytes

pytestmark = pytest.mark.no_store

CONFIG = """
tenant: none
rules:
  - {name: export, match: POST /export, stream: true}
  - {name: probed, match: POST /probed, stream: true, unknown: {probe: "GET /probed/{key}"}}
"""


def test_a_streamed_answer_passes_live_and_is_410_from_its_head_on(shared, behind, key):
    """found: E-F5"""
    gate = behind.gate()
    behind.then(Reply(200, headers=(("Content-Type", "text/csv"), ("Content-Length", "5")),
                      framing="none", after=lambda _: gate.pass_through(), close=True))
    with shared.connect() as client:
        client.send(request_bytes("POST", "/export", [("Idempotency-Key", key)], b"{}"))
        start, headers, _ = client.reader.head()  # none of the body has left the upstream
        assert "200" in start and ("Idempotency-Status", "not-kept") in headers
        again = shared.request("POST", "/export", [("Idempotency-Key", key)], b"{}")
        assert again.is_problem(410, "CONFLICT.idempotency.result_not_kept")
        gate.open()
    assert behind.effects() == 1


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_small_answer_of_a_streaming_rule_is_whole_and_not_kept(shared, behind, key, framing):
    behind.then(Reply(201, b"x" * 500, framing=framing))
    first = shared.post("/export", {}, key=f'"{key[1:-1]}{framing}"')
    assert (first.mark, first.body) == ((201, "not-kept"), b"x" * 500)
    again = shared.post("/export", {}, key=f'"{key[1:-1]}{framing}"')
    assert again.is_problem(410, "CONFLICT.idempotency.result_not_kept")
    assert again.json["first"] == {"status": 201}
    assert behind.effects() == 1


def test_an_answer_without_a_body_is_kept_though_the_rule_streams(shared, behind, key):
    behind.then(Reply(204, framing="none"))
    assert shared.post("/export", {}, key=key).mark == (204, "stored")
    assert shared.post("/export", {}, key=key).mark == (204, "replayed")
    assert behind.effects() == 1


def test_an_answer_that_says_not_done_streams_too_and_leaves_nothing(shared, behind, key):
    behind.then(say(503, {"busy": True}, effect=False))
    first = shared.post("/export", {}, key=key)
    assert (first.mark, first.json) == ((503, "released"), {"busy": True})
    assert shared.post("/export", {}, key=key).mark == (201, "not-kept")
    assert behind.effects() == 1


def test_what_a_probe_found_streams_too(shared, behind, key):
    behind.then(Reply(cut=0))
    found = say(200, {"found": True})
    behind.on("GET", f"/probed/{key[1:-1]}", found)
    first = shared.post("/probed", {}, key=key)
    assert (first.mark, first.json) == ((200, "not-kept"), {"found": True})
    again = shared.post("/probed", {}, key=key)
    assert again.is_problem(410, "CONFLICT.idempotency.result_not_kept")
    assert behind.effects() == 1


# ---- a service that pauses ----

PATIENT = "idle_timeout: 5s\nread_timeout: 60s\nthreads: 1\n" + CONFIG


def is_noticed(gateway, clock) -> None:
    """40 s pass, and the loop serves somebody else, who finds all timers up to date."""
    clock.advance(40)
    assert gateway.post("/elsewhere", {}).status == 201


@pytest.mark.hooks
def test_a_silent_service_without_a_rule_has_read_timeout_and_not_the_clients_idle_time(
        pawl, upstream, clock):
    """found: E-F6"""
    gateway = pawl(PATIENT)
    gate = upstream.hold()
    polling = Later(lambda: gateway.request("GET", "/long"))
    gate.wait_for()
    is_noticed(gateway, clock)
    gate.open()
    assert polling.result().json == {"held": True}
    gate = upstream.hold()
    polling = Later(lambda: gateway.request("GET", "/long"))
    gate.wait_for()
    clock.run_until(lambda: polling.is_done, 5)
    assert polling.result().is_problem(504, "DEPENDENCY.timeout")


@pytest.mark.hooks
@pytest.mark.parametrize("method, path", [("GET", "/events"), ("POST", "/export")])
def test_a_stream_may_pause_for_read_timeout(pawl, upstream, clock, method, path):
    """found: E-F6"""
    gateway = pawl(PATIENT)
    gate = upstream.gate()
    upstream.then(Reply(200, b"data: x\n\n", (("Content-Type", "text/event-stream"),),
                        framing="close", after=lambda _: gate.pass_through()))
    with gateway.connect() as client:
        client.send(request_bytes(method, path, [("Idempotency-Key", "k1")]))
        client.reader.until(b"data: x\n\n\r\n")
        is_noticed(gateway, clock)
        gate.open()
        assert client.reader.until(b"0\r\n\r\n") == b"0\r\n\r\n"
