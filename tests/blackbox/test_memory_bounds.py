# SPDX-License-Identifier: Apache-2.0
"""`max_buffered` bounds what is held: bodies, what understanding them takes, and replays."""
from __future__ import annotations

import contextlib
import gzip
import os
import select
import socket

import pytest

from pawltest.admin import Admin, with_admin
from pawltest.gateway import Gateway, run
from test_limits import MIB, is_sanitized, rss
from pawltest.upstream import Reply
from pawltest.wire import Answer, Client, Later, eventually, request_bytes

pytestmark = pytest.mark.no_store

CONFIG = """
tenant: none
threads: 2
max_buffered: 32MiB
cache: 1MiB
write_timeout: 1h
rules:
  - {name: r, match: POST /refunds, max_response_body: 8MiB, max_request_body: 8MiB, timeout: 1h}
"""
hooks = pytest.mark.hooks
JSON = ("Content-Type", "application/json")


def is_limited(answer: Answer) -> bool:
    return answer.is_problem(429, "RATE_LIMIT.exceeded") and answer["Retry-After"] == "1"


def ask_and_not_read(gateway: Gateway, keys: list[str]) -> list[Client]:
    """Clients that ask for kept answers and read nothing, with room for little in the kernel."""
    clients = []
    for key in keys:
        client = Client.__new__(Client)
        client.sock = socket.socket()
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sock.settimeout(30)
        client.sock.connect(("127.0.0.1", gateway.port))
        client.send(request_bytes("POST", "/refunds", [("Idempotency-Key", key), JSON], b"{}"))
        clients.append(client)
    return clients


def buffered(admin: Admin) -> float:
    return admin.value("pawl_buffered_bytes")


def test_replays_that_are_not_read_are_bounded_and_given_back(pawl, upstream):
    """found: A-M8, D-B5: sixty of them took 509 MiB."""
    gateway, admin = with_admin(pawl, CONFIG)
    upstream.default = Reply(201, b"x" * (8 * MIB - 1000))
    keys = [f"k{i}" for i in range(20 if is_sanitized(gateway) else 60)]
    for key in keys:
        assert gateway.post("/refunds", {}, key=key)["Idempotency-Status"] == "stored"
    eventually(lambda: buffered(admin) == 0, "all of it")
    before = rss(gateway)
    clients = ask_and_not_read(gateway, keys)
    eventually(lambda: admin.value("pawl_limited_total", reason="memory") >= len(keys) - 4,
               "refusals")
    assert 0 < buffered(admin) <= 32 * MIB
    if not is_sanitized(gateway):
        assert rss(gateway) - before < 80 * MIB
    for client in clients:
        client.reset()
    eventually(lambda: buffered(admin) == 0, "all of it")
    if not is_sanitized(gateway):
        eventually(lambda: rss(gateway) - before < 24 * MIB, "its memory")
    assert gateway.post("/refunds", {}, key="k1")["Idempotency-Status"] == "replayed"


def test_one_answer_for_many_counts_once(pawl, upstream):
    """found: D-B5"""
    gateway, admin = with_admin(pawl, CONFIG)
    gate = upstream.gate()
    upstream.default = Reply(201, b"x" * (8 * MIB - 1000), gate=gate)
    first = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    gate.wait_for()
    clients = ask_and_not_read(gateway, ["k1"] * 5)
    eventually(lambda: admin.value("pawl_waiting") == 5, "their wait")
    gate.open()
    assert first.result().status == 201
    eventually(lambda: 8 * MIB - 1000 <= buffered(admin) <= 9 * MIB, "the one answer of five")
    assert admin.value("pawl_waiting") == 0
    for client in clients:
        client.reset()
    eventually(lambda: buffered(admin) == 0, "all of it")
    assert admin.value("pawl_limited_total", reason="memory") == 0


def test_a_large_response_that_packs_well_is_replayed_to_all_who_waited_and_later(pawl, upstream):
    """found: D-B12: it was packed and unpacked while everybody else waited for the store."""
    gateway, admin = with_admin(pawl, CONFIG)
    gate = upstream.gate()
    body = b'{"amount":100,"currency":"EUR"},' * 200_000
    upstream.then(Reply(201, body, gate=gate))
    first = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    gate.wait_for()
    waiters = [Later(lambda: gateway.post("/refunds", {}, key="k1")) for _ in range(5)]
    eventually(lambda: admin.value("pawl_waiting") == 5, "their wait")
    gate.open()
    assert first.result().body == body
    for waiter in waiters:
        answer = waiter.result()
        assert answer["Idempotency-Status"] == "replayed" and answer.body == body
    eventually(lambda: buffered(admin) == 0, "all of it")
    size = os.path.getsize(gateway.store) + os.path.getsize(f"{gateway.store}-wal")
    assert size < len(body) / 4
    gateway.restart()
    again = gateway.post("/refunds", {}, key="k1")
    assert again["Idempotency-Status"] == "replayed" and again.body == body
    assert upstream.effects() == 1


def test_a_kept_answer_that_never_fits_is_413(pawl, upstream):
    """found: A-M8"""
    gateway = pawl(CONFIG)
    upstream.then(Reply(201, b"x" * (8 * MIB - 1000)))
    assert gateway.post("/refunds", {}, key="k1").status == 201
    gateway.close()
    gateway.configure(CONFIG.replace("32MiB", "4MiB").replace("8MiB", "4MiB"))
    gateway.start()
    answer = gateway.post("/refunds", {}, key="k1")
    assert answer.is_problem(413, "VALIDATION.body_too_large") and not answer.json["retryable"]
    assert gateway.post("/refunds", {}, key="k2").status == 201
    assert upstream.effects() == 2


def test_bodies_larger_than_all_that_may_be_held_are_refused_with_the_config(tmp_path):
    """found: A-F"""
    config = tmp_path / "pawl.yaml"
    for limit in ("max_request_body", "max_response_body"):
        config.write_text("upstream: http://127.0.0.1:1\nmax_buffered: 8MiB\ntenant: none\nrules:\n"
                          f"  - {{name: r, match: POST /r, {limit}: 9MiB}}\n")
        ran = run("serve", "--test", "-c", config)
        assert ran.returncode == 2 and f"{limit} of rule 'r'" in ran.stderr


def test_an_answer_has_at_most_half_a_gib(tmp_path):
    """found: D-B12"""
    config = tmp_path / "pawl.yaml"
    config.write_text("upstream: http://127.0.0.1:1\nmax_buffered: 2GiB\ntenant: none\nrules:\n"
                      "  - {name: r, match: POST /r, max_response_body: 513MiB}\n")
    ran = run("serve", "--test", "-c", config)
    assert ran.returncode == 2 and "512MiB" in ran.stderr


def test_json_that_takes_more_than_there_can_be_is_413(pawl, upstream):
    """found: A-M9: 429 for ever."""
    gateway = pawl(CONFIG)
    costly = b"[" + b"[]," * 1_300_000 + b"[]]"  # 4 MiB, and 120 MiB once understood
    answer = gateway.post("/refunds", costly, key="k1")
    assert answer.is_problem(413, "VALIDATION.body_too_large") and not answer.json["retryable"]
    packed = gateway.post("/refunds", gzip.compress(costly), key="k2",
                          headers=[("Content-Encoding", "gzip")])
    assert packed.is_problem(413, "VALIDATION.body_too_large")
    assert upstream.effects() == 0
    assert gateway.post("/refunds", b"[" + b"[]," * 100_000 + b"[]]", key="k3").status == 201


def test_a_small_packed_body_is_understood_beside_the_loop(pawl):
    """found: A-M9: 16 KiB of it held a loop for 170 ms."""
    gateway = pawl(CONFIG.replace("threads: 2", "threads: 1"))
    packed = gzip.compress(b"[" + b"[]," * 250_000 + b"[]]")
    assert len(packed) < 4096
    headers = [("Content-Encoding", "gzip"), JSON]
    many = Later(lambda: [gateway.request("POST", "/refunds", [
        *headers, ("Idempotency-Key", f"k{i}")], packed).status for i in range(20)])
    eventually(lambda: threads_of(gateway, "worker") == 2, "the workers")
    assert many.result() == [201] * 20
    assert cpu_of(gateway, "worker") > cpu_of(gateway, "pawl-loop")


def threads_of(gateway: Gateway, name: str) -> int:
    return len(list(tasks(gateway, name)))


def tasks(gateway: Gateway, name: str):
    root = f"/proc/{gateway.process.pid}/task"
    for task in os.listdir(root):
        with open(f"{root}/{task}/comm", encoding="ascii") as comm:
            if comm.read().strip() == name:
                yield f"{root}/{task}"


def cpu_of(gateway: Gateway, name: str) -> int:
    """Ticks."""
    total = 0
    for task in tasks(gateway, name):
        with open(f"{task}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
    return total


SMALL = """
tenant: none
threads: 1
max_buffered: 4MiB
body_timeout: 5m
rules:
  - {name: r, match: POST /refunds}
"""


def stalled(gateway: Gateway, key: str) -> Client:
    """Sends all of 1 MiB but the end."""
    client = gateway.connect()
    client.send(request_bytes("POST", "/refunds", [("Idempotency-Key", key),
                                                   ("Content-Length", str(MIB))]))
    client.send(b"x" * (MIB - 576))
    return client


@hooks
def test_bodies_that_stall_do_not_hold_all_memory_for_their_whole_time(pawl, upstream, clock):
    """found: A-L19"""
    gateway, admin = with_admin(pawl, SMALL.replace("5m", "30s"))
    clients = [stalled(gateway, f"s{i}") for i in range(5)]
    eventually(lambda: buffered(admin) > 3.5 * MIB, "them")
    big = b"x" * (MIB - 1000)
    assert is_limited(gateway.post("/refunds", big, key="k"))
    clock.run_until(lambda: gateway.post("/refunds", big, key="k").status == 201, step=1)
    assert upstream.effects() == 1
    clock.advance(31)  # the others have had theirs
    told = [client.answer() for client in clients]
    assert {answer.status for answer in told} <= {408, 429}
    assert sum(answer.status == 408 for answer in told) >= 2


@hooks
def test_a_body_that_stalls_has_its_time_while_there_is_memory(pawl, upstream, clock):
    """found: A-L19"""
    gateway = pawl(SMALL)
    client = stalled(gateway, "k1")
    for _ in range(24):
        clock.advance(10)
        assert gateway.request("GET", "/x").status == 200
    client.send(b"x" * 576)
    assert client.answer()["Idempotency-Status"] == "stored"


def drip(client: Client, piece: bytes) -> bool:
    with contextlib.suppress(OSError):
        client.send(piece)
    return bool(select.select([client.sock], [], [], 0)[0])


@hooks
def test_an_unruled_body_of_a_known_length_must_come_on(pawl, upstream, clock):
    """found: A-L19: a byte now and then held two connections for ever."""
    gateway = pawl(SMALL)
    with gateway.connect() as client:
        client.send(request_bytes("POST", "/other", [("Content-Length", "1000")]))
        clock.run_until(lambda: drip(client, b"x"), step=150)
        assert client.answer().is_problem(408, "VALIDATION.request_timeout")


@hooks
@pytest.mark.parametrize("framing, piece", [
    (("Transfer-Encoding", "chunked"), b"1\r\nx\r\n"),
    (("Content-Length", "5000000"), b"x" * 250_000)],
    ids=["chunked", "length"])
def test_a_long_lived_stream_and_a_slow_upload_that_progresses_are_left_alone(
        pawl, upstream, clock, framing, piece):
    """found: A-L19"""
    gateway = pawl("read_timeout: 1h\n" + SMALL)
    with gateway.connect() as client:
        client.send(request_bytes("POST", "/other", [framing]))
        for _ in range(20):
            assert not drip(client, piece)
            assert gateway.request("GET", "/x").status == 200
            clock.advance(200)
            assert gateway.request("GET", "/x").status == 200
        if framing[1] == "chunked":
            client.send(b"0\r\n\r\n")
        assert client.answer().status == 201
