# SPDX-License-Identifier: Apache-2.0
"""SIGTERM and SIGINT: what is under way ends, what comes is refused, and who watches is told."""
from __future__ import annotations

import base64
import contextlib
import signal
import socket
import sqlite3
import threading

import pytest

from pawltest.wire import PATIENCE, Broken, eventually, request_bytes

pytestmark = pytest.mark.no_store


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
        told = late.answer()
        assert told.status == 503 and told["Retry-After"]
        assert told.json["safe_new_key"] is False, "the first still runs"
        gate.open()
        assert first.answer().status == 201
    assert gateway.wait() == 0


@pytest.mark.hooks
def test_a_drain_delay_serves_on_before_the_drain_begins(pawl, clock):
    gateway = pawl("tenant: none\ndrain_delay: 60s\n"
                   "rules:\n  - {name: r, match: POST /refunds}\n")
    gateway.signal(signal.SIGTERM)
    eventually(lambda: gateway.lines("stopping"), "its leaving")
    gateway.signal(signal.SIGHUP)  # not any more; and no end of the delay
    clock.advance(55)
    assert gateway.post_up("/refunds", {}, key="k1").status == 201
    assert gateway.process.poll() is None
    clock.advance(10)
    assert gateway.wait() == 0


@pytest.mark.hooks
def test_what_it_declared_ends_with_it_also_where_it_leaves_while_it_declares(pawl, clock):
    secret = "whsec_" + base64.b64encode(bytes(24)).decode()
    gateway = pawl("tenant: none\nrules: []\nwebhooks: {endpoints: ["
                   f"{{name: billing, url: 'https://localhost/', types: [a.*], secret: {secret}}}"
                   "]}\n")
    with contextlib.closing(sqlite3.connect(gateway.store, isolation_level=None)) as other:
        other.execute("DELETE FROM pawl_process")
        clock.step(61)  # it notices when it says that it lives, and declares anew
        other.execute("BEGIN IMMEDIATE")
        clock.step(2)
        gateway.signal(signal.SIGTERM)
        eventually(lambda: not gateway.is_listening, "the end of listening")
        other.execute("ROLLBACK")
        assert gateway.wait() == 0
        assert other.execute("SELECT count(*) FROM pawl_process").fetchone() == (0,)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once_and_loses_nothing(gateway, upstream, number):
    gate = upstream.hold()
    with gateway.connect() as client:
        client.send(request_bytes("POST", "/refunds", [
            ("Idempotency-Key", "k1"), ("Content-Type", "application/json")], b"{}"))
        gate.wait_for()
        gateway.signal(number)
        eventually(lambda: not gateway.is_listening, "the end of listening")
        gateway.signal(number)
        assert gateway.wait() == 0
    gate.open()
    gateway.start()
    again = gateway.post("/refunds", {}, key="k1")
    assert again.is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert upstream.effects() == 1


def test_the_service_manager_is_told_of_start_reload_and_end(pawl, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        gateway = pawl(started=False).start(NOTIFY_SOCKET=str(tmp_path / "notify"))
        assert manager.recv(100) == b"READY=1"
        gateway.signal(signal.SIGHUP)
        assert [manager.recv(100) for _ in range(2)] == [b"RELOADING=1", b"READY=1"]
        assert gateway.stop() == 0
        assert manager.recv(100) == b"STOPPING=1"


def test_under_load_a_drain_cuts_no_exchange(gateway, upstream):
    """Every request that was taken has its answer."""
    answers, refused = [], []

    def load(worker: int) -> None:
        for n in range(100_000):
            try:
                with gateway.connect() as client:
                    answers.append(client.request("POST", "/refunds",
                                                  [("Idempotency-Key", f"{worker}x{n}")], b"{}"))
            except (Broken, OSError) as error:
                refused.append(error)
                return

    workers = [threading.Thread(target=load, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    eventually(lambda: len(answers) > 50, "a load")
    assert gateway.stop() == 0
    for worker in workers:
        worker.join()
    assert {answer.status for answer in answers} == {201}
    assert upstream.effects() == len(answers)
    assert len(refused) == 4
