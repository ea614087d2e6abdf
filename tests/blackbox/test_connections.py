# SPDX-License-Identifier: Apache-2.0
"""How many connections there may be, in all and of one address, and who makes room."""
from __future__ import annotations

import signal
import socket

import pytest

from pawltest.admin import Admin
from pawltest.gateway import Gateway, free_port
from pawltest.wire import PATIENCE, Answer, Broken, Client, Reader, eventually, request_bytes

pytestmark = pytest.mark.no_store

CONFIG = """
tenant: none
threads: 1
rules:
  - {name: refunds.create, match: POST /refunds, timeout: 1h}
"""


def is_served(gateway: Gateway) -> bool:
    try:
        return gateway.request("GET", "/x").status == 200
    except (Broken, OSError):
        return False


def close(clients: list[Client]) -> None:
    for client in clients:
        client.sock.close()


def test_the_connection_idle_longest_makes_room_for_a_newcomer(pawl):
    gateway = pawl(CONFIG + "max_connections: 5\n")
    kept = [gateway.connect() for _ in range(5)]
    for client in kept[1:] + kept[:1]:
        assert client.request("GET", "/x").status == 200
    kept.append(gateway.connect())
    assert kept[-1].request("GET", "/x").status == 200
    assert kept.pop(1).is_closed()
    for client in kept:
        assert client.request("GET", "/x").status == 200
    close(kept)


def test_connections_that_send_nothing_keep_nobody_out(pawl):
    gateway = pawl(CONFIG + "max_connections: 20\n")
    mute = [gateway.connect() for _ in range(200)]
    for _ in range(30):
        assert gateway.request("GET", "/x").status == 200
    assert sum(client.sock.fileno() >= 0 and is_open(client) for client in mute) < 20
    close(mute)


def is_open(client: Client) -> bool:
    client.sock.setblocking(False)
    try:
        return client.sock.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def is_full(answer: Answer) -> bool:
    return (answer.is_problem(503, "RATE_LIMIT.exceeded") and answer["Retry-After"] == "1"
            and answer["Connection"] == "close")


def slow_head(gateway: Gateway, witness: Client) -> Client:
    """One that begins a head. What is connected afterwards is heard after it: the answer to the
    witness came from upstream, thus from a later look of the loop at its sockets."""
    client = gateway.connect()
    client.send(b"G")
    assert witness.request("GET", "/x").status == 200
    return client


def test_connections_that_send_a_head_byte_by_byte_keep_nobody_out(pawl):
    """found: A-M10"""
    gateway = pawl(CONFIG + "max_connections: 64\nhead_timeout: 1h\nidle_timeout: 1h\n")
    witness = gateway.connect()
    slow = [slow_head(gateway, witness) for _ in range(63)]
    for i in range(20):
        assert gateway.post("/refunds", {"of": i}, key=f"k{i}").status == 201
    assert is_full(slow[0].answer()), "the oldest head made room"
    slow[-1].send(b"ET /x HTTP/1.1\r\nHost: h\r\n\r\n")
    assert slow[-1].answer("GET").status == 200, "the newest is served"
    close([witness, *slow])


def owing(gateway: Gateway, witness: Client, key: str, target: str = "/refunds") -> Client:
    """One that sent the head of a request, and no byte of its body."""
    client = gateway.connect()
    client.send(request_bytes("POST", target, [("Idempotency-Key", key),
                                               ("Content-Length", "9000")]))
    assert witness.request("GET", "/x").status == 200
    return client


BODY = b'{"a":"' + b"x" * 8992 + b'"}'


@pytest.mark.hooks
def test_connections_that_owe_a_body_keep_nobody_out(pawl, upstream):
    """found: R18

    Nothing of their requests was begun."""
    gateway = pawl(CONFIG + "max_connections: 64\nbody_timeout: 1h\nidle_timeout: 1h\n")
    witness = gateway.connect()
    slow = [owing(gateway, witness, f"s{i}") for i in range(63)]
    gateway.clock.advance(2)
    others = [gateway.connect() for _ in range(10)]
    for i, client in enumerate(others):
        headers = [("Idempotency-Key", f"k{i}")]
        assert client.request("POST", "/refunds", headers, b"{}").status == 201
    assert is_full(slow[0].answer()), "the one that owes longest made room"
    slow[-1].send(BODY)
    assert slow[-1].answer().status == 201, "the newest is served"
    assert gateway.post("/refunds", {}, key="s0").status == 201, "its key is free"
    assert upstream.effects("/refunds") == 12
    close([witness, *slow, *others])


def test_operators_who_owe_bodies_keep_no_operator_out(pawl):
    """Where none makes room the oldest is cut off, also one whose body is waited for."""
    port = free_port()
    gateway = pawl(CONFIG + f"admin: 127.0.0.1:{port}\n")
    admin = Admin(port)
    slow = []
    for _ in range(40):
        slow.append(admin.connect())
        slow[-1].send(request_bytes("POST", "/keys/1/forget", [
            *admin.headers, ("Content-Type", "application/json"), ("Content-Length", "10")]))
    for _ in range(40):
        assert admin.get("/readyz").status == 200
    assert gateway.post("/refunds", {}, key="k1").status == 201
    close(slow)


@pytest.mark.hooks
def test_a_body_that_comes_keeps_its_connection(pawl, upstream):
    """found: R18"""
    gateway = pawl(CONFIG + "max_connections: 3\nbody_timeout: 1h\nidle_timeout: 1h\n")
    witness = gateway.connect()
    comes, stalls = (owing(gateway, witness, key) for key in ("k1", "k2"))
    gateway.clock.advance(2)
    comes.send(BODY[:4096])
    assert gateway.post("/refunds", {}, key="k3").status == 201
    assert is_full(stalls.answer())
    comes.send(BODY[4096:])
    assert comes.answer().status == 201
    assert upstream.effects("/refunds") == 2
    close([witness, comes, stalls])


@pytest.mark.hooks
def test_a_request_that_the_service_has_in_part_makes_room_after_all_others(pawl, upstream):
    """found: R18"""
    gateway = pawl(CONFIG + "max_connections: 3\nbody_timeout: 1h\nidle_timeout: 1h\n")
    witness = gateway.connect()
    passing = owing(gateway, witness, "p1", "/uploads")
    gathered = owing(gateway, witness, "k1")
    gateway.clock.advance(2)
    busy = [gateway.connect(), gateway.connect()]
    gates = [upstream.hold(), upstream.hold()]
    for i, (client, gate) in enumerate(zip(busy, gates)):
        client.send(request_bytes("POST", "/refunds", [("Idempotency-Key", f"b{i}")], b"{}"))
        gate.wait_for()
    assert is_full(gathered.answer()), "although it owes for a shorter time"
    assert witness.is_closed()
    newcomer = gateway.connect()
    assert newcomer.request("GET", "/x").status == 200
    assert passing.answer().is_problem(408, "VALIDATION.request_timeout")
    for gate in gates:
        gate.open()
    assert [client.answer().status for client in busy] == [201, 201]
    assert upstream.effects("/uploads") == 0
    close([witness, passing, gathered, newcomer, *busy])


@pytest.mark.hooks
def test_whoever_owes_a_body_makes_room_whichever_loop_serves_it(pawl):
    """found: R18"""
    gateway = pawl(CONFIG.replace("threads: 1", "threads: 8")
                   + "max_connections: 4\nbody_timeout: 1h\n")
    kept = [gateway.connect() for _ in range(4)]
    for i, client in enumerate(kept):
        client.send(request_bytes("POST", "/refunds", [("Idempotency-Key", f"s{i}"),
                                                       ("Content-Length", "9000")]))
    gateway.clock.run_until(lambda: is_served(gateway), step=1)
    close(kept)


def test_a_connection_that_lingers_makes_room(pawl):
    """found: E-F3"""
    gateway = pawl(CONFIG + "max_connections: 8\n")
    kept = [gateway.connect() for _ in range(8)]
    for client in kept:
        client.send(request_bytes("POST", "/refunds", [("Content-Length", "1000000")]))
        assert client.answer().is_problem(400, "VALIDATION.idempotency.key_missing")
    for i in range(20):
        assert gateway.post("/refunds", {"of": i}, key=f"k{i}").status == 201
    close(kept)


def test_whoever_is_idle_makes_room_whichever_loop_serves_it(pawl):
    """With as many loops as these, most newcomers come to one that has nobody."""
    gateway = pawl(CONFIG.replace("threads: 1", "threads: 8") + "max_connections: 2\n")
    kept: list[Client] = []

    def comes() -> bool:
        """A loop that is slow to make room leaves a newcomer without: it comes again."""
        kept.append(gateway.connect())
        try:
            return kept[-1].request("GET", "/x").status == 200
        except (Broken, OSError):
            return False

    for _ in range(60):
        eventually(comes, "a place")
    eventually(lambda: sum(is_open(client) for client in kept) <= 2, "the end of all others")
    close(kept)


def test_busy_connections_make_no_room_and_a_newcomer_is_told_to_come_again(pawl, upstream):
    """found: A-M10, A-U"""
    gateway = pawl(CONFIG + "max_connections: 3\n")
    gates = [upstream.hold() for _ in range(3)]
    busy = [gateway.connect() for _ in range(3)]
    for i, client in enumerate(busy):
        client.send(request_bytes("POST", "/refunds", [("Idempotency-Key", f"k{i}")], b"{}"))
        gates[i].wait_for()
    for _ in range(5):
        with gateway.connect() as client:
            client.send(request_bytes("GET", "/x"))
            assert is_full(client.answer())
            assert client.is_closed()
    for gate in gates:
        gate.open()
    assert [client.answer().status for client in busy] == [201] * 3
    assert is_served(gateway), "now they are idle"
    assert upstream.effects() == 3
    close(busy)


def test_a_request_that_came_as_its_connection_made_room_is_served_or_never_begun(pawl, upstream):
    """Both at once, again and again: nobody is told anything but the truth."""
    gateway = pawl(CONFIG + "max_connections: 1\n")
    told = 0
    for i in range(100):
        with gateway.connect() as first:
            assert first.request("GET", "/x").status == 200
            second = gateway.connect()
            first.send(request_bytes("POST", "/refunds", [("Idempotency-Key", f"k{i}")], b"{}"))
            try:
                answer = first.answer()
                told += 1
                assert (answer.status, answer["Connection"]) == (201, "close")
            except Broken as broken:
                assert not broken.got
            second.sock.close()
        eventually(lambda: is_served(gateway), "a free place")
    keys = [request["Idempotency-Key"] for request in upstream.done]
    assert len(keys) == len(set(keys)) >= told


# ---- of one address ----

LIMITED = CONFIG + "max_connections_per_address: 3\n"


def turned_away(client: Client) -> bool:
    answer = client.answer()
    assert answer.is_problem(429, "RATE_LIMIT.exceeded")
    assert (answer["Connection"], answer["Retry-After"]) == ("close", "1")
    return client.is_closed()


def of_address(gateway: Gateway, address: str) -> Reader:
    sock = socket.create_connection(("127.0.0.1", gateway.port), PATIENCE,
                                    source_address=(address, 0))
    sock.sendall(request_bytes("GET", "/x", [("Connection", "close")]))
    return Reader(sock)


def test_an_address_with_too_many_connections_is_told_so_and_others_are_served(pawl):
    gateway = pawl(LIMITED)
    kept = [gateway.connect() for _ in range(3)]
    assert [client.request("GET", "/x").status for client in kept] == [200] * 3
    for _ in range(5):
        with gateway.connect() as client:
            assert turned_away(client)
    for address in ("127.0.0.2", "127.0.0.3"):
        assert of_address(gateway, address).answer("GET").status == 200
    kept.pop().sock.close()
    eventually(lambda: is_served(gateway), "a free place")
    assert [client.request("GET", "/x").status for client in kept] == [200] * 2
    close(kept)


def test_an_address_is_counted_over_all_loops(pawl):
    gateway = pawl(LIMITED.replace("threads: 1", "threads: 4"))
    clients = [gateway.connect() for _ in range(30)]
    for client in clients:
        try:
            client.send(request_bytes("GET", "/x"))
        except OSError:
            pass  # turned away already
    statuses = [client.answer("GET").status for client in clients]
    assert sorted(statuses) == [200] * 3 + [429] * 27
    close(clients)
    eventually(lambda: is_served(gateway), "a free place")


def test_an_address_that_is_turned_away_takes_no_place_from_others(pawl):
    gateway = pawl(LIMITED + "max_connections: 4\n")
    kept = [gateway.connect() for _ in range(3)]
    assert [client.request("GET", "/x").status for client in kept] == [200] * 3
    for _ in range(20):
        with gateway.connect() as client:
            assert turned_away(client)
    assert [client.request("GET", "/x").status for client in kept] == [200] * 3
    close(kept)


def test_a_reload_changes_the_limit_for_those_who_come_then(pawl):
    gateway = pawl(CONFIG)
    kept = [gateway.connect() for _ in range(5)]
    assert [client.request("GET", "/x").status for client in kept] == [200] * 5
    gateway.configure(LIMITED.replace("3\n", "1\n"))
    gateway.signal(signal.SIGHUP)
    eventually(lambda: gateway.lines("config_reloaded"), "it")
    kept.append(gateway.connect())
    assert kept[-1].request("GET", "/x").status == 200
    with gateway.connect() as client:
        assert turned_away(client)
    assert [client.request("GET", "/x").status for client in kept] == [200] * 6
    close(kept)
