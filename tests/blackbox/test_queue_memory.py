# SPDX-License-Identifier: Apache-2.0
"""What is remembered of a queued operation, and who is told so."""
from __future__ import annotations

from typing import Any

import pytest

from pawltest.gateway import run
from pawltest.upstream import closes, say
from test_queue import lines
from test_queue_drain import Drained, queue  # noqa: F401  # pylint: disable=unused-import

pytestmark = [pytest.mark.hooks, pytest.mark.file_only]
DAY = 86400


def succeeded(of: Any, key: str) -> int:
    return run("keys", "succeeded", key, "--store", of.store, env=of.environment).returncode


def test_a_success_is_remembered_as_long_as_is_said(queue, upstream):  # noqa: F811
    """found: G12, J9. And at least as long as the operation may wait."""
    spans = {"short": ["--remember", "24h"], "long": ["--remember", "30d"], "default": [],
             "waits": ["--remember", "1h", "--deadline", "3d"]}
    ids = {key: queue.add("--key", key, *words, "-d", key, queue.url)[0]
           for key, words in spans.items()}
    queue.did("add", "-", input=lines({"url": queue.url, "key": "line", "json": 1,
                                       "remember": "2h", "deadline": "none"}))
    assert "remember=86400" in queue.did("show", ids["short"])
    assert {succeeded(queue, key) for key in [*spans, "line"]} == {75}
    queue.drain()
    assert {succeeded(queue, key) for key in [*spans, "line"]} == {0}
    ends = {"line": 7200, "short": DAY, "waits": 3 * DAY, "default": 7 * DAY, "long": 30 * DAY}
    at = 0
    for n, (key, end) in enumerate(ends.items()):
        queue.clock.advance(end - 60 - at)
        assert [succeeded(queue, one) for one in list(ends)[n:]] == [0] * (len(ends) - n), key
        queue.clock.advance(120)
        at = end + 60
        assert succeeded(queue, key) == 1, key
    assert "wants a duration" in queue.refused(2, "add", "--remember", "soon", queue.url)
    assert "remember" in queue.refused(65, "add", "-", input=lines(
        {"url": queue.url, "remember": "0s"}))


def test_what_the_queue_knows_of_a_key_is_told(queue, upstream):  # noqa: F811
    """A success that a person has seen counts, and a doubt outlives its record."""
    waiting = ("--deadline", "40d", "--attempts", "1")
    ids = {key: queue.add("--key", key, *waiting, "-d", key, queue.url)[0]
           for key in ("a", "b", "c", "d")}
    upstream.then(closes(), say(422, effect=False), say(503, effect=False))
    queue.drain("-j", "1", code=1)
    assert [succeeded(queue, key) for key in [*ids, "e"]] == [76, 1, 1, 0, 1]
    queue.did("settle", ids["b"], "--done")
    queue.did("retry", ids["c"])
    assert [succeeded(queue, key) for key in ids] == [76, 0, 75, 0]
    queue.did("drop", ids["a"], "--force")
    assert succeeded(queue, "a") == 76


def test_a_settlement_is_of_the_operation_s_own_record(pawl, clock, upstream):
    """Not of another tenant's under the same key, whose rule has the queue's name: that one is
    found only by a look at every record."""
    gateway = pawl("tenant: '{header:X-Tenant}'\nrules: [{name: send, match: POST /refunds}]\n")
    assert gateway.post("/refunds", {}, key="k1", headers=[("X-Tenant", "t1")]).status == 201
    gateway.stop()
    upstream.requests.clear()
    box = Drained(gateway.store, clock, upstream)
    identity, _ = box.add("--key", "k1", "-d", "x", box.url)
    box.did("settle", identity, "--not-done")
    box.did("settle", identity, "--done")
    sent = run("send", "--key", "k1", "-d", "x", box.url, "--store", box.store, env=box.environment)
    assert sent.returncode == 0 and not upstream.requests
