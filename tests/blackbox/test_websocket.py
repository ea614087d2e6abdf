# SPDX-License-Identifier: Apache-2.0
"""WebSocket tunnels: bytes both ways behind a 101 that was asked for, and on no ruled route."""
from __future__ import annotations

import signal
import socket
import threading
from typing import Callable, Iterator

import pytest

from pawltest.gateway import Gateway
from pawltest.upstream import shut
from pawltest.wire import (PATIENCE, Broken, Client, Reader, Request, at_once, eventually,
                           request_bytes)

pytestmark = pytest.mark.no_store

CONFIG = """
tenant: none
threads: 1
rules:
  - {name: refunds.create, match: POST /refunds}
  - {name: open, match: POST /open, protect: false}
"""
ASK = [("Connection", "keep-alive, Upgrade"), ("Upgrade", "websocket"),
       ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), ("Sec-WebSocket-Version", "13")]
AGREED = (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n"
          b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
hooks = pytest.mark.hooks


class Echo:
    """Speaks raw bytes: `answer` to each head, and behind a 101 every byte back; when the other
    side ends, `farewell` and its own end."""

    def __init__(self) -> None:
        self.answer = AGREED
        self.farewell = b"farewell"
        self.requests: list[Request] = []
        self.sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.sockets.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        reader = Reader(sock)
        try:
            while (request := reader.request()) is not None:
                self.requests.append(request)
                answer = self.answer
                sock.sendall(answer)
                if b"HTTP/1.1 101 " in answer:
                    self._echo(sock, reader)
                    return
        except (OSError, Broken):
            pass
        finally:
            sock.close()

    def _echo(self, sock: socket.socket, reader: Reader) -> None:
        while reader.kept or reader.more():
            sock.sendall(reader.take(len(reader.kept)))
        sock.sendall(self.farewell)

    def stop(self) -> None:
        shut(self._listener)  # else who accepts might go on, at the next one's descriptor
        self._listener.close()
        for sock in self.sockets:
            sock.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.stop()


@pytest.fixture
def tunnelling(pawl: Callable[..., Gateway], echo: Echo) -> Callable[..., Gateway]:
    """Makes gateways before the echo."""
    def make(more: str = "") -> Gateway:
        gateway = pawl(started=False)
        gateway.upstream_port = echo.port
        gateway.configure(CONFIG + more)
        return gateway.start()

    return make


def opened(gateway: Gateway, early: bytes = b"") -> Client:
    """A tunnel."""
    client = gateway.connect()
    client.send(request_bytes("GET", "/chat?room=1", ASK) + early)
    start, headers, _ = client.reader.head()
    assert start.startswith("HTTP/1.1 101")
    assert ("Upgrade", "websocket") in headers and ("Connection", "Upgrade") in headers
    assert ("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") in headers
    return client


def echoes(client: Client, data: bytes) -> bool:
    client.send(data)
    return client.reader.take(len(data)) == data


def test_behind_a_101_bytes_go_both_ways(tunnelling, echo):
    with opened(tunnelling()) as client:
        for data in (b"\x81\x05hello", b"\0", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 10):
            assert echoes(client, data)
    request, = echo.requests
    assert (request.target, request["Upgrade"], request["Connection"]) == (
        "/chat?room=1", "websocket", "Upgrade")
    assert request["Sec-WebSocket-Key"] == "dGhlIHNhbXBsZSBub25jZQ=="


def test_bytes_that_came_behind_the_heads_pass_first(tunnelling, echo):
    echo.answer = AGREED + b"welcome"
    with opened(tunnelling(), b"early") as client:
        assert client.reader.take(12) == b"welcomeearly"
        assert echoes(client, b"later")


def test_interim_answers_before_the_101_are_dropped(tunnelling, echo):
    echo.answer = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + AGREED
    with opened(tunnelling()) as client:
        assert echoes(client, b"x")


def test_much_goes_both_ways_at_once_while_nobody_reads_at_first(tunnelling):
    data = bytes(range(256)) * (16 << 10)  # 4 MiB
    with opened(tunnelling()) as client:
        sender = threading.Thread(target=client.send, args=(data,), daemon=True)
        sender.start()
        assert client.reader.take(len(data)) == data
        sender.join(PATIENCE)


def test_a_side_that_ends_its_own_direction_still_gets_the_other(tunnelling):
    with opened(tunnelling()) as client:
        client.send(b"last")
        client.sock.shutdown(socket.SHUT_WR)
        assert client.reader.take(12) == b"lastfarewell"
        assert client.is_closed()


def test_a_client_that_breaks_off_is_gone_for_the_service_and_the_reverse(tunnelling, echo):
    gateway = tunnelling()
    client = opened(gateway)
    client.reset()
    eventually(lambda: echo.sockets[0].fileno() < 0, "the end at the service")
    with opened(gateway) as client:
        echo.farewell = b""
        echo.sockets[1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        echo.sockets[1].shutdown(socket.SHUT_RD)  # the echo ends, with RST
        assert client.is_closed()


@hooks
def test_a_tunnel_in_which_nothing_moves_is_closed_after_read_timeout(tunnelling, clock):
    """found: E-F6"""
    gateway = tunnelling("idle_timeout: 5s\nread_timeout: 60s\n")
    with opened(gateway) as client:
        for _ in range(5):
            clock.advance(40)
            assert echoes(client, b"still here")
        client.sock.settimeout(0.01)
        clock.run_until(lambda: has_ended(client), 5)


def has_ended(client: Client) -> bool:
    try:
        return client.sock.recv(100) in (b"", b"farewell")
    except TimeoutError:
        return False


@hooks
def test_a_tunnel_goes_on_in_a_drain_and_ends_with_it(tunnelling, clock):
    gateway = tunnelling("drain: 10m\n")
    with opened(gateway) as client:
        gateway.signal(signal.SIGTERM)
        eventually(lambda: not gateway.is_listening, "the end of listening")
        assert echoes(client, b"still here")
        clock.advance(601)
        assert gateway.wait() == 0
        assert client.is_closed()


def test_a_drain_ends_when_its_tunnels_have(tunnelling):
    gateway = tunnelling("drain: 10m\n")
    with opened(gateway) as client:
        gateway.signal(signal.SIGTERM)
        eventually(lambda: not gateway.is_listening, "the end of listening")
        client.sock.shutdown(socket.SHUT_WR)
        assert client.reader.take(8) == b"farewell"
    assert gateway.wait() == 0


def test_many_tunnels_stand_at_once_beside_requests(tunnelling, echo):
    gateway = tunnelling()
    clients = [opened(gateway) for _ in range(50)]
    echo.answer = PLAIN
    assert gateway.request("GET", "/plain").body == b"ok"
    assert all(at_once(50, lambda i: echoes(clients[i], b"%d" % i * 1000)))
    for client in clients:
        client.sock.close()


# ---- what is no tunnel ----


def test_a_service_that_does_not_agree_answers_as_ever(tunnelling, echo):
    echo.answer = b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: foo\r\nContent-Length: 2\r\n\r\nno"
    with tunnelling().connect() as client:
        for _ in range(2):
            answer = client.request("GET", "/chat", ASK)
            assert (answer.status, answer.body, answer["Upgrade"]) == (426, b"no", None)


@pytest.mark.parametrize("method, target, headers", [
    ("GET", "/", [("Connection", "Upgrade"), ("Upgrade", "h2c")]),
    ("GET", "/", [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c, websocket")]),
    ("GET", "/", [*ASK, ("Upgrade", "websocket")]),
    ("GET", "/", [*ASK, ("Upgrade", "h2c")]),
    ("GET", "/", [("Upgrade", "websocket")]),
    ("GET", "/", [("Connection", "Upgrade")]),
    ("GET", "/", [("Connection", "Upgrade"), ("Upgrade", "websocket/13")]),
    ("GET", "/", [*ASK, ("Content-Length", "2")]),
    ("POST", "/", ASK),
    ("POST", "/open", ASK),
    ("POST", "/refunds", [*ASK, ("Idempotency-Key", "k1")]),
], ids=lambda value: str(value)[:40])
def test_another_upgrade_is_dropped(tunnelling, echo, method, target, headers):
    echo.answer = PLAIN
    body = b"{}" if ("Content-Length", "2") in headers else b""
    answer = tunnelling().request(method, target, headers, body)
    assert (answer.status, answer.body) == (200, b"ok")
    request, = echo.requests
    assert request["Upgrade"] is None and "upgrade" not in (request["Connection"] or "").lower()


def test_an_upgrade_of_http_1_0_is_dropped(tunnelling, echo):
    echo.answer = PLAIN
    with tunnelling().connect() as client:
        client.send(request_bytes("GET", "/", ASK).replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert client.answer().body == b"ok"
    assert echo.requests[0]["Upgrade"] is None


@pytest.mark.parametrize("method, target", [("GET", "/"), ("POST", "/"), ("POST", "/refunds")])
def test_a_101_that_nobody_asked_for_is_502(tunnelling, method, target):
    gateway = tunnelling()
    with gateway.connect() as client:
        answer = client.request(method, target, [("Idempotency-Key", "k1")], b"")
        assert answer.is_problem(502, "TRANSIENT.upstream_broke")


@pytest.mark.parametrize("upgrade", [b"", b"Upgrade: h2c\r\n", b"Upgrade: websocket\r\n" * 2,
                                     b"Upgrade: h2c, websocket\r\n"])
def test_a_101_for_another_protocol_is_502(tunnelling, echo, upgrade):
    echo.answer = b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\n" + upgrade + b"\r\nsecret"
    answer = tunnelling().request("GET", "/chat", ASK)
    assert answer.is_problem(502, "TRANSIENT.upstream_broke")
    assert b"secret" not in answer.body


def test_what_a_client_sent_too_early_is_its_next_request_when_the_service_declines(tunnelling,
                                                                                    echo):
    echo.answer = PLAIN
    with tunnelling().connect() as client:
        client.send(request_bytes("GET", "/chat", ASK) + request_bytes("GET", "/next"))
        assert [client.answer().body for _ in range(2)] == [b"ok", b"ok"]
    assert [request.target for request in echo.requests] == ["/chat", "/next"]
    with tunnelling().connect() as client:
        client.send(request_bytes("GET", "/chat", ASK) + b"\x81\x05hello\r\n\r\n")
        assert client.answer().body == b"ok"
        assert client.answer().status == 400
        assert client.is_closed()
