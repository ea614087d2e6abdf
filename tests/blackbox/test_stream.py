# SPDX-License-Identifier: Apache-2.0
"""Rules under `stream: true`: the tombstone first, then the answer as it comes."""
from __future__ import annotations

import pytest

from upstream import Reply, say
from wire import Answer, request_bytes

CONFIG = """
tenant: none
rules:
  - {name: export, match: POST /export, stream: true}
  - {name: probed, match: POST /probed, stream: true, unknown: {probe: "GET /probed/{key}"}}
"""


def marks(answer: Answer) -> tuple[int, str | None]:
    return answer.status, answer["Idempotency-Status"]


def test_a_streamed_answer_passes_live_and_is_410_from_its_head_on(shared, behind, key):
    gate = behind.gate()
    behind.then(Reply(200, headers=(("Content-Type", "text/csv"), ("Content-Length", "5")),
                      framing="none", after=lambda _: gate.pass_through(), close=True))
    with shared.connect() as client:
        client.send(request_bytes("POST", "/export", [("Idempotency-Key", key)], b"{}"))
        start, headers, _ = client.reader.head()  # none of the body has left the upstream
        assert "200" in start and ("Idempotency-Status", "stored") in headers
        again = shared.request("POST", "/export", [("Idempotency-Key", key)], b"{}")
        assert again.is_problem(410, "CONFLICT.idempotency.result_not_kept")
        gate.open()
    assert behind.effects() == 1


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_small_answer_of_a_streaming_rule_is_whole_and_not_kept(shared, behind, key, framing):
    behind.then(Reply(201, b"x" * 500, framing=framing))
    first = shared.post("/export", {}, key=f'"{key[1:-1]}{framing}"')
    assert (marks(first), first.body) == ((201, "stored"), b"x" * 500)
    again = shared.post("/export", {}, key=f'"{key[1:-1]}{framing}"')
    assert again.is_problem(410, "CONFLICT.idempotency.result_not_kept")
    assert again.json["first"] == {"status": 201}
    assert behind.effects() == 1


def test_an_answer_without_a_body_is_kept_though_the_rule_streams(shared, behind, key):
    behind.then(Reply(204, framing="none"))
    assert marks(shared.post("/export", {}, key=key)) == (204, "stored")
    assert marks(shared.post("/export", {}, key=key)) == (204, "replayed")
    assert behind.effects() == 1


def test_an_answer_that_says_not_done_streams_too_and_leaves_nothing(shared, behind, key):
    behind.then(say(503, {"busy": True}, effect=False))
    first = shared.post("/export", {}, key=key)
    assert (marks(first), first.json) == ((503, "released"), {"busy": True})
    assert marks(shared.post("/export", {}, key=key)) == (201, "stored")
    assert behind.effects() == 1


def test_what_a_probe_found_streams_too(shared, behind, key):
    behind.then(Reply(cut=0))
    found = say(200, {"found": True})
    behind.on("GET", f"/probed/{key[1:-1]}", found)
    first = shared.post("/probed", {}, key=key)
    assert (marks(first), first.json) == ((200, "stored"), {"found": True})
    again = shared.post("/probed", {}, key=key)
    assert again.is_problem(410, "CONFLICT.idempotency.result_not_kept")
    assert behind.effects() == 1
