# SPDX-License-Identifier: Apache-2.0
"""A client is answered in its time, whatever hangs: the disk under a begin, a write, a connect."""
from __future__ import annotations

import contextlib
import signal
import socket
from pathlib import Path
from typing import Iterator

import pytest

from pawltest.gateway import run
from pawltest.upstream import Upstream, say
from pawltest.wire import Answer, Later, eventually

# No warning of renamed rules: for it a gateway looks into its store once it has said that it is
# ready, and that look could hang in the place of the begin.
CONFIG = """
tenant: none
threads: 1
cache: 0
allow: [rule-renamed]
rules:
  - {name: r, match: POST /refunds, in_progress: {wait: 30s}, lease: 10m}
"""
pytestmark = pytest.mark.hooks
PATIENT = [("X-Request-Timeout", "1000")]


@pytest.fixture
def hung(pawl, tmp_path: Path):
    """Makes a gateway that hangs at a point while the file that is returned exists."""
    def make(point: str):
        file = tmp_path / "hang"
        gateway = pawl(CONFIG, started=False)
        gateway.start(PAWL_HANG_AT=point, PAWL_HANG_WHILE=str(file))
        return gateway, file

    yield make
    (tmp_path / "hang").unlink(missing_ok=True)


def in_time(clock, client: Later, most: float, hangs: Path | None = None) -> Answer:
    """The answer, for which the clock moves on by no more than `most`, once a thread hangs."""
    passed = 0.0
    if hangs:
        eventually(lambda: hangs.stat().st_size > 0, "a thread that hangs")

    def moved() -> bool:
        nonlocal passed
        if passed < most:
            clock.step(0.25)
            passed += 0.25
        return client.is_done

    eventually(moved, "an answer in time")
    return client.result()


@pytest.mark.file_only
def test_a_begin_under_a_hung_disk_is_answered_in_the_client_s_time_and_goes_on(hung, upstream,
                                                                                 clock):
    """found: D-B8"""
    gateway, disk = hung("inside_batch")
    disk.touch()
    client = Later(lambda: gateway.post("/refunds", {}, key="k1", headers=PATIENT))
    answer = in_time(clock, client, 3, disk)
    assert answer.is_problem(504, "DEPENDENCY.timeout") and answer.json["retryable"]
    assert not answer.json["safe_new_key"] and upstream.effects() == 0
    disk.unlink()
    upstream.wait_for(1)
    again = gateway.post_up("/refunds", {}, key="k1")
    assert again.mark == (201, "replayed")
    assert upstream.effects() == 1


def test_a_begin_under_a_hung_disk_without_a_timeout_is_refused_and_does_nothing(hung, upstream,
                                                                                 clock):
    """found: D-B8: it hung for as long as the disk."""
    gateway, disk = hung("inside_batch")
    disk.touch()
    client = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    answer = in_time(clock, client, 60, disk)
    assert answer.is_problem(503, "DEPENDENCY.store_unavailable")
    disk.unlink()
    eventually(lambda: gateway.lines("request"), "its end")
    assert upstream.effects() == 0
    assert gateway.post_up("/refunds", {}, key="k1")["Idempotency-Status"] == "stored"
    assert upstream.effects() == 1


@contextlib.contextmanager
def black_hole(upstream: Upstream) -> Iterator[None]:
    """In the place of the upstream: connections are neither taken nor refused."""
    upstream.stop()
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", upstream.port))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", upstream.port))
        yield


def test_a_connect_into_a_black_hole_is_answered_in_the_client_s_time(pawl, upstream, clock):
    """found: D-B8: after five seconds, as an effect that could not be stored."""
    gateway = pawl(CONFIG)
    with black_hole(upstream):
        client = Later(lambda: gateway.post("/refunds", {}, key="k1", headers=PATIENT))
        eventually(lambda: "k1" in run("keys", "list", "--store", gateway.store).stdout,
                   "its begin in the store")
        answer = in_time(clock, client, 3)
        assert answer.is_problem(504, "DEPENDENCY.timeout") and answer.json["retryable"]
        clock.run_until(lambda: gateway.lines("request"))
    upstream.start()
    assert gateway.post_up("/refunds", {}, key="k1")["Idempotency-Status"] == "stored"
    assert upstream.effects() == 1


def test_a_release_that_the_store_does_not_take_tells_of_no_effect(hung, upstream, clock):
    """found: D-B8"""
    gateway, disk = hung("inside_batch")
    gate = upstream.gate()
    upstream.then(say(503, effect=False, gate=gate))
    client = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    gate.wait_for()
    disk.touch()
    gate.open()
    answer = in_time(clock, client, 60, disk)
    assert answer.is_problem(503, "DEPENDENCY.store_unavailable")
    assert not answer.json["safe_new_key"]
    disk.unlink()


def test_an_outcome_that_the_store_does_not_take_tells_of_one(hung, upstream, clock):
    """found: D-B8"""
    gateway, disk = hung("inside_batch")
    gate = upstream.hold()
    client = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    gate.wait_for()
    disk.touch()
    gate.open()
    answer = in_time(clock, client, 60, disk)
    assert answer.is_problem(503, "DEPENDENCY.outcome_not_stored")
    disk.unlink()
    again = gateway.post_up("/refunds", {}, key="k1")
    assert again.mark == (201, "replayed")
    assert upstream.effects() == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_resolver_that_does_not_answer_holds_up_no_signal(hung, number):
    """found: D-P4: SIGTERM waited for the name of a reload."""
    gateway, resolver = hung("inside_look_up")
    resolver.touch()
    gateway.signal(signal.SIGHUP)
    eventually(lambda: threads_named(gateway, "pawl-resolve"), "the look-up")
    assert gateway.request("GET", "/x").status == 200
    gateway.signal(number)
    if number == signal.SIGTERM:
        assert gateway.wait() == 0
    eventually(lambda: gateway.lines("config_refused"), "its end")
    if number == signal.SIGHUP:  # and is done now
        resolver.unlink()
        eventually(lambda: gateway.lines("config_reloaded"), "it")


def threads_named(gateway, name: str) -> bool:
    tasks = Path(f"/proc/{gateway.process.pid}/task")
    return any((task / "comm").read_text("ascii").strip() == name for task in tasks.iterdir())
