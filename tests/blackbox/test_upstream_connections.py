# SPDX-License-Identifier: Apache-2.0
"""Connections to the service: what one request did to its connection, no other one meets."""
from __future__ import annotations

import itertools
import re
import socket
from pathlib import Path
from typing import Iterator

import pytest

from pawltest.gateway import Gateway
from pawltest.upstream import Reply, Upstream
from pawltest.wire import Reader, Request, eventually

pytestmark = pytest.mark.no_store

CONFIG = """
tenant: none
threads: 1
upstream_idle: 1h
rules:
  - {name: refunds.create, match: POST /refunds}
  - {name: refunds.cancel, match: DELETE /refunds}
"""
HOSTILE = b"GET /attacker HTTP/1.1\r\nHost: h\r\nX-Ignore: "
POISON = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"


class Careless(Upstream):
    """Leaves every body unread, so that it becomes the next request of its connection (CL.0)."""

    def _wants_body(self, sock: socket.socket) -> bool:
        return False


class Late(Upstream):
    """Sends a body where none may be, too: just before the next answer on the connection."""

    def __init__(self) -> None:
        super().__init__()
        self._late: set[socket.socket] = set()

    def _reply(self, request: Request) -> Reply:
        reply = super()._reply(request)
        if request.target == "/unchanged":
            return Reply(304, headers=(("Content-Length", "6"),), framing="none")
        return reply

    def _serve_one(self, sock: socket.socket, reader: Reader) -> bool:
        before = len(self.requests)
        goes_on = super()._serve_one(sock, reader)
        request = self.requests[-1] if len(self.requests) > before else None
        if request and (request.method == "HEAD" or request.target == "/unchanged"):
            self._late.add(sock)
        return goes_on

    def _send(self, sock: socket.socket, reply: Reply, method: str) -> None:
        if sock in self._late:
            sock.sendall(POISON)
        Upstream._send(sock, reply, method)


class Pieces(Upstream):
    """Writes head and body one after the other, with Nagle's algorithm on, as http.server does."""

    @staticmethod
    def _send(sock: socket.socket, reply: Reply, method: str) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        head, _, body = reply.data(method).partition(b"\r\n\r\n")
        sock.sendall(head + b"\r\n\r\n")
        sock.sendall(body)


@pytest.fixture
def upstream(request: pytest.FixtureRequest) -> Iterator[Upstream]:
    made = getattr(request, "param", Upstream)()
    yield made
    made.stop()


def victim(gateway: Gateway, path: str, key: str = "victim") -> None:
    """Gets the answer to its own request, twice."""
    for status in ("stored", "replayed") if path == "/refunds" else ("bypassed",):
        answer = gateway.post(path, b"", key=key)
        assert answer.mark == (201, status)
        assert answer["Location"].startswith(path), "another request's answer"


@pytest.mark.parametrize("upstream", [Careless], indirect=True)
@pytest.mark.parametrize("path", ["/refunds", "/other"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
def test_no_request_becomes_part_of_another_ones_ignored_body(pawl, upstream, path, method):
    """found: A-M5"""
    gateway = pawl(CONFIG)
    assert gateway.request(method, "/elsewhere", [], HOSTILE).status < 300
    victim(gateway, path)
    assert "/attacker" not in [request.target for request in upstream.requests]


@pytest.mark.parametrize("upstream", [Careless], indirect=True)
def test_a_ruled_request_does_not_become_part_of_another_ones_either(pawl, upstream):
    """found: A-M5"""
    gateway = pawl(CONFIG)
    answer = gateway.request("DELETE", "/refunds", [("Idempotency-Key", "attacker")], HOSTILE)
    assert answer["Idempotency-Status"] == "stored"
    victim(gateway, "/refunds")
    assert "/attacker" not in [request.target for request in upstream.requests]


@pytest.mark.parametrize("upstream", [Late], indirect=True)
@pytest.mark.parametrize("path", ["/refunds", "/other"])
@pytest.mark.parametrize("method, target", [("HEAD", "/x"), ("GET", "/unchanged")])
def test_a_late_body_after_head_or_304_is_nobodys_answer(pawl, upstream, path, method, target):
    """found: A-M5"""
    gateway = pawl(CONFIG)
    assert gateway.request(method, target)["Content-Length"] is not None
    victim(gateway, path)


def test_ruled_requests_have_connections_of_their_own(pawl, upstream):
    """found: A-M5"""
    gateway = pawl(CONFIG)
    for n in range(3):
        gateway.request("GET", "/x")
        gateway.post("/other", {})
        assert upstream.connections == (1 if n == 0 else 2)
        gateway.post("/refunds", {}, key=f"k{n}")
        assert upstream.connections == 2, "and use them again"
    gateway.request("DELETE", "/other")
    gateway.request("DELETE", "/refunds", [("Idempotency-Key", "k")])
    assert upstream.connections == 2


def delayed_acknowledgements() -> int:
    """How many the kernel has put off until its timer ran out, in this network."""
    names, values = re.findall(r"^TcpExt: (.*)$", Path("/proc/net/netstat").read_text("ascii"),
                               re.M)
    return int(dict(zip(names.split(), values.split()))["DelayedACKs"])


@pytest.mark.parametrize("upstream", [Pieces], indirect=True)
def test_a_service_that_writes_head_and_body_apart_waits_for_no_acknowledgement(pawl, upstream):
    """found: C-M12: each would take 40 ms. A machine that is slow, or busy with other tests, puts
    some off all the same; but not in every round."""
    gateway = pawl(CONFIG)
    keys = (f"k{n}" for n in itertools.count())

    def some_wait_for_none() -> bool:
        before = delayed_acknowledgements()
        for _ in range(20):
            assert gateway.request("GET", "/x").status == 200
            assert gateway.post("/refunds", {}, key=next(keys)).status == 201
        return delayed_acknowledgements() - before < 20

    eventually(some_wait_for_none, "a round without delays")


@pytest.mark.parametrize("kind, body", [
    ("application/json", b'{"id": "re_1"}'), ("application/json", b""),
    ("application/json", b"created"), ("text/plain", b'{"id": "re'), (None, b"[1,")])
def test_what_ends_with_the_connection_is_whole_unless_it_is_json_cut_short(pawl, upstream, kind,
                                                                            body):
    """found: L2"""
    gateway = pawl(CONFIG)
    headers = (("Content-Type", kind),) if kind else ()
    upstream.then(Reply(201, body, headers, framing="close"))
    assert gateway.post("/refunds", {}, key="k1")["Idempotency-Status"] == "stored"
    again = gateway.post("/refunds", {}, key="k1")
    assert (again["Idempotency-Status"], again.body) == ("replayed", body)
