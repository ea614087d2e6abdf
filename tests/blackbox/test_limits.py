# SPDX-License-Identifier: Apache-2.0
"""Under load: many who sit there, many who drip, many who wait, answers larger than memory should
hold, and a disk that fills up. Whoever behaves is served all the while."""
from __future__ import annotations

import contextlib
import os
import resource
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Iterator

import pytest

from pawltest.gateway import Gateway
from pawltest.upstream import Reply, Upstream
from pawltest.wire import Answer, Client, Later, eventually, request_bytes

pytestmark = pytest.mark.file_only

CONFIG = """
tenant: none
threads: 2
idle_timeout: 1h
rules:
  - {name: refunds.create, match: POST /refunds, timeout: 1h, in_progress: {wait: 10m}}
"""
hooks = pytest.mark.hooks
KIB = 1 << 10
MIB = 1 << 20


def is_sanitized(gateway: Gateway) -> bool:
    maps = Path(f"/proc/{gateway.process.pid}/maps").read_text("ascii")
    return any(name in maps for name in ("asan", "tsan", "ubsan"))


def rss(gateway: Gateway) -> int:
    """Bytes that it has now."""
    return status_of(gateway, "VmRSS:")


def peak(gateway: Gateway) -> int:
    """The most it ever had."""
    return status_of(gateway, "VmHWM:")


def status_of(gateway: Gateway, name: str) -> int:
    status = Path(f"/proc/{gateway.process.pid}/status").read_text("ascii")
    return next(int(line.split()[1]) * KIB for line in status.splitlines() if line.startswith(name))


@contextlib.contextmanager
def many(gateway: Gateway, n: int) -> Iterator[list[Client]]:
    """Connections, closed at the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    clients: list[Client] = []
    try:
        for _ in range(n):
            clients.append(gateway.connect())
        yield clients
    finally:
        for client in clients:
            client.sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def is_well(gateway: Gateway, key: str) -> bool:
    """A ruled request is done once and replayed, an unruled one passes."""
    first = gateway.post_up("/refunds", {"of": key}, key=key)
    again = gateway.post_up("/refunds", {"of": key}, key=key)
    return (first["Idempotency-Status"] == "stored" and again["Idempotency-Status"] == "replayed"
            and first.kept == again.kept and gateway.request("GET", "/x").status == 200)


# ---- connections ----


def test_ten_thousand_idle_connections_take_little_and_hinder_nobody(pawl, upstream):
    gateway = pawl(CONFIG + "max_connections: 10100\n")
    n = 1_000 if is_sanitized(gateway) else 10_000
    assert is_well(gateway, "before")
    before = rss(gateway)
    with many(gateway, n) as clients:
        assert is_well(gateway, "beside")
        awake = clients[::10]  # these go back to being idle
        for first in range(0, len(awake), 50):  # as many as the upstream's threads bear at once
            for client in awake[first:first + 50]:
                client.send(request_bytes("GET", "/x"))
            assert {client.answer("GET").status for client in awake[first:first + 50]} == {200}
        if not is_sanitized(gateway):
            assert (rss(gateway) - before) / n < 16 * KIB
        assert is_well(gateway, "after")
    assert upstream.effects() == 3


@hooks
def test_a_thousand_who_drip_are_cut_off_in_time_and_hinder_nobody(pawl, upstream, clock):
    gateway = pawl(CONFIG + "head_timeout: 10s\nbody_timeout: 30s\n")
    n = 100 if is_sanitized(gateway) else 1_000
    head = request_bytes("POST", "/refunds", [("Idempotency-Key", "slow"),
                                              ("Content-Length", "1000")])
    with many(gateway, n) as clients:
        began, advanced = time.monotonic(), 0
        heads, bodies = set(clients[::2]), set(clients[1::2])
        for client in clients:
            client.send(head[:-30] if client in heads else head)
        while heads or bodies:
            assert advanced < 60, "they drip on"
            drip(heads | bodies)
            clock.advance(1)
            advanced += 1
            assert is_well(gateway, f"beside{advanced}")
            cut = answered(heads | bodies)
            passed = advanced + time.monotonic() - began
            assert passed >= 10 or not cut, "a head has its time"
            assert passed >= 30 or not cut & bodies, "a body has its time"
            assert not cut & bodies or not heads, "a head has no more"
            heads, bodies = heads - cut, bodies - cut
        for client in clients:
            assert client.answer().is_problem(408, "VALIDATION.request_timeout")
    assert all(request["Idempotency-Key"] != "slow" for request in upstream.requests)


def drip(clients: set[Client]) -> None:
    for client in clients:
        with contextlib.suppress(OSError):
            client.send(b"a")


def answered(clients: set[Client]) -> set[Client]:
    poll = select.poll()
    at = {client.sock.fileno(): client for client in clients}
    for number in at:
        poll.register(number, select.POLLIN)
    return {at[number] for number, _ in poll.poll(0)}


def test_a_thousand_duplicates_that_wait_get_the_one_answer(pawl, upstream):
    gateway = pawl(CONFIG)
    n = 200 if is_sanitized(gateway) else 1_000
    gateway.close()
    gateway.configure(CONFIG + f"max_waiting_per_key: {n}\n")
    gateway.start()
    gate = upstream.hold()
    wanted = request_bytes("POST", "/refunds", [("Idempotency-Key", "k1")], b"{}")
    with many(gateway, n + 2) as clients:
        first, others = clients[0], clients[1:]
        first.send(wanted)
        gate.wait_for()
        for client in others:
            client.send(wanted)
        refused, = eventually(lambda: answered(set(others)), "the one too many")
        assert refused.answer().is_problem(429, "RATE_LIMIT.exceeded")  # so all others wait
        gate.open()
        told = first.answer()
        assert told["Idempotency-Status"] == "stored"
        answers = [client.answer() for client in others if client is not refused]
    assert len(answers) == n
    assert {answer["Idempotency-Status"] for answer in answers} == {"replayed"}
    assert {answer.kept for answer in answers} == {told.kept}
    assert upstream.effects() == 1


# ---- large answers ----


def length_of_answer(gateway: Gateway, request: bytes) -> tuple[str | None, int]:
    """Reads an answer and keeps nothing of it."""
    with gateway.connect() as client:
        client.send(request)
        _, headers, _ = client.reader.head()
        named = dict(headers)
        got, due = len(client.reader.kept), int(named["Content-Length"])
        while got < due:
            read = len(client.sock.recv(MIB))
            assert read > 0, f"it ended after {got} bytes"
            got += read
        return named.get("Idempotency-Status"), got


@pytest.mark.parametrize("method, target", [("GET", "/x"), ("POST", "/refunds")])
def test_a_hundred_megabytes_pass_through_little_memory(pawl, upstream, method, target):
    gateway = pawl(CONFIG)
    size = (20 if is_sanitized(gateway) else 100) * MIB
    assert is_well(gateway, "before")
    before = peak(gateway)
    upstream.on(method, target, Reply(201, b"x" * size))
    wanted = request_bytes(method, target, [("Idempotency-Key", "large")], b"")
    each = [wanted.replace(b"large", b"large%d" % i) for i in range(3)]
    clients = [Later(lambda one=one: length_of_answer(gateway, one)) for one in each]
    for client in clients:
        assert client.result()[1] == size
    assert peak(gateway) - before < 8 * MIB
    if method == "POST":
        assert clients[0].result()[0] == "not-kept"
        for i in range(3):
            again = gateway.request(method, target, [("Idempotency-Key", f"large{i}")])
            assert again.is_problem(410, "CONFLICT.idempotency.result_not_kept")
        assert upstream.effects(target) == 1 + 3


# ---- a full disk ----


class Disk:
    """A place for a store, and how to fill it: a disk of 64 MiB of its own where one may be
    mounted; else the common one, with all that is free now called reserve, but for 256 MiB."""

    def __init__(self, place: Path):
        self.place = place
        self.config = "accept_weaker: true\n"  # it is in memory
        place.mkdir()
        self.is_mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)],
            capture_output=True, check=False).returncode == 0
        if not self.is_mounted:
            free = shutil.disk_usage(place).free
            self.config = f"disk_reserve: {max(free - 256 * MIB, 1)}\n"

    def fill(self) -> None:
        """Into the reserve (10 % of a small disk), so that outcomes still fit."""
        free = shutil.disk_usage(self.place).free
        with (self.place / "ballast").open("wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, free - 6 * MIB if self.is_mounted
                               else 512 * MIB)

    def free(self) -> None:
        (self.place / "ballast").unlink()

    def close(self) -> None:
        if self.is_mounted:
            subprocess.run(["umount", "-l", str(self.place)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "disk")
    yield made
    made.close()


def test_a_full_disk_refuses_begins_keeps_what_runs_and_recovers_by_itself(pawl, upstream, disk):
    gateway = pawl(started=False)
    gateway.store = disk.place / "pawl.db"
    gateway.configure(CONFIG + disk.config)
    gateway.start()
    assert is_well(gateway, "told")
    gates = [upstream.hold() for _ in range(5)]
    running = []
    for i, gate in enumerate(gates):
        running.append(Later(lambda i=i: gateway.post("/refunds", {"of": i}, key=f"running{i}")))
        gate.wait_for()
    effects = upstream.effects()

    disk.fill()
    refused = eventually(lambda: refusal(gateway, upstream), "a refusal")
    assert refused.is_problem(503, "DEPENDENCY.store_unavailable")
    assert refused["Retry-After"] is not None
    for i, gate in enumerate(gates):  # while nothing may begin
        gate.open()
        assert running[i].result()["Idempotency-Status"] == "stored"
        assert replay(gateway, f"running{i}", i).kept == running[i].result().kept
    assert replay(gateway, "told", "told").status == 201
    assert refusal(gateway, upstream), "still full"

    disk.free()
    eventually(lambda: not refusal(gateway, upstream), "a begin")
    assert is_well(gateway, "again")
    assert upstream.effects() >= effects + 2
    keys = [request["Idempotency-Key"] for request in upstream.done]
    assert len(keys) == len(set(keys)), "nothing was done twice"


def refusal(gateway: Gateway, upstream: Upstream) -> Answer | None:
    """Of a new operation; the space is looked at each second. What is refused was not done."""
    done = upstream.effects()
    answer = gateway.post("/refunds", {}, key=f"filler{len(upstream.requests)}.{done}")
    if answer.status == 503:
        assert upstream.effects() == done
        return answer
    assert answer.status == 201
    return None


def replay(gateway: Gateway, key: str, of: object) -> Answer:
    answer = gateway.post("/refunds", {"of": of}, key=key)
    assert answer["Idempotency-Status"] == "replayed", answer.head
    return answer
