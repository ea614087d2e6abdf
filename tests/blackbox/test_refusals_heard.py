# SPDX-License-Identifier: Apache-2.0
"""A client that writes its whole request before it reads hears why it was refused: pawl goes on
reading for as long as nginx does, five seconds without a byte and thirty in all."""
from __future__ import annotations

import io
import time
import urllib.error
import urllib.request

import pytest

from pawltest.gateway import Gateway
from pawltest.upstream import Reply
from pawltest.wire import Broken, Client, request_bytes

pytestmark = pytest.mark.no_store

CONFIG = """
tenant: none
threads: 1
rules:
  - {name: refunds.create, match: POST /refunds}
"""
hooks = pytest.mark.hooks
MIB = 1 << 20
PART = b"x" * MIB


def upload(client: Client, size: int, *headers: tuple[str, str], target: str = "/refunds") -> None:
    """All of a request, before anything is read."""
    client.send(request_bytes("POST", target, [("Content-Length", str(size)), *headers]))
    for _ in range(size // MIB):
        client.send(PART)


@pytest.mark.parametrize("size", [8 * MIB, 40 * MIB])
def test_a_client_that_writes_first_hears_that_its_body_is_too_large(gateway, upstream, size):
    """found: E-F3"""
    with gateway.connect() as client:
        upload(client, size, ("Idempotency-Key", "k1"))
        assert client.answer().is_problem(413, "VALIDATION.body_too_large")
    assert upstream.effects() == 0


def test_urllib_hears_that_its_body_is_too_large(gateway):
    """found: E-F3"""
    request = urllib.request.Request(f"http://127.0.0.1:{gateway.port}/refunds",
                                     io.BytesIO(PART * 20), method="POST")
    request.add_header("Content-Length", str(20 * MIB))
    request.add_header("Idempotency-Key", "k1")
    with pytest.raises(urllib.error.HTTPError) as told:
        urllib.request.urlopen(request)  # pylint: disable=consider-using-with
    assert told.value.code == 413


def test_a_client_that_writes_first_hears_an_upstream_that_answers_early(gateway, upstream):
    """found: E-F3"""
    upstream.on("POST", "/other", Reply(413, b"no", early=True))
    with gateway.connect() as client:
        upload(client, 8 * MIB, target="/other")
        assert client.answer().status == 413


@hooks
def test_a_slow_client_hears_that_its_key_is_missing(pawl, clock):
    """found: E-F3: 960 KB, as from a telephone."""
    gateway = pawl(CONFIG)
    with gateway.connect() as client:
        client.send(request_bytes("POST", "/refunds", [("Content-Length", "960000")]))
        for _ in range(24):
            client.send(b"x" * 40000)
            clock.advance(0.5)
            assert gateway.request("GET", "/x").status == 200  # it has seen the time
        assert client.answer().is_problem(400, "VALIDATION.idempotency.key_missing")
        assert client.is_closed()


def refused(gateway: Gateway) -> Client:
    """A client that has its refusal and owes a body."""
    client = gateway.connect()
    client.send(request_bytes("POST", "/refunds", [("Content-Length", "100000000")]))
    assert client.answer().is_problem(400, "VALIDATION.idempotency.key_missing")
    return client


def is_cut(client: Client) -> bool:
    """Whether the gateway has closed: what is sent to it is answered by a reset."""
    try:
        client.send(b"x")
        time.sleep(0.01)
        client.send(b"x")
    except OSError:
        return True
    return False


@hooks
def test_who_sends_nothing_more_is_not_listened_to_for_long(pawl, clock):
    gateway = pawl(CONFIG)
    began = time.monotonic()
    with refused(gateway) as client:
        clock.advance(4)
        assert gateway.request("GET", "/x").status == 200
        assert not is_cut(client) or time.monotonic() - began > 1
        clock.run_until(lambda: is_closed_by(gateway), step=6)


def is_closed_by(gateway: Gateway) -> bool:
    """No connection of a client is left but the one that asks."""
    return gateway.post("/refunds", {}, key="k").status == 201 and open_sockets(gateway) <= 1


def open_sockets(gateway: Gateway) -> int:
    with open(f"/proc/{gateway.process.pid}/net/tcp", encoding="ascii") as table:
        lines = [line.split() for line in table.readlines()[1:]]
    port = f"{gateway.port:04X}"
    return sum(line[1].endswith(":" + port) and line[3] == "01" for line in lines)


@hooks
def test_who_sends_on_and_on_is_cut_off_after_half_a_minute(pawl, clock):
    gateway = pawl(CONFIG)
    began = time.monotonic()
    with refused(gateway) as client:
        for _ in range(6):
            clock.advance(4)
            assert not is_cut(client) or time.monotonic() - began > 1
            assert gateway.request("GET", "/x").status == 200  # it has heard it
        clock.run_until(lambda: is_cut(client), step=4)


def test_a_drain_waits_for_nobody_who_has_his_answer(gateway):
    with refused(gateway):
        begun = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - begun < 20  # not the thirty seconds, whatever the machine does


def test_tls_and_http2_are_told_what_they_met(gateway):
    """found: A-U"""
    hello = bytes.fromhex("16030100c8010000c40303") + bytes(190)
    with gateway.connect() as client:
        client.send(hello)
        answer = client.answer()
        assert answer.is_problem(400, "VALIDATION.request_malformed")
        assert "TLS" in answer.json["detail"]
    with gateway.connect() as client:
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
        answer = client.answer()
        assert answer.is_problem(505, "VALIDATION.request_malformed")
        assert "HTTP/2" in answer.json["detail"]


@pytest.mark.parametrize("target, cause", [
    ("https://shop.example/x", "https"), ("/caf\u00c3\u00a9", "ASCII"), ("x/y", "/"),
    ("/a#b", "#")])
def test_a_malformed_target_is_told_with_its_cause(gateway, target, cause):
    """found: A-U"""
    with gateway.connect() as client:
        client.send(f"GET {target} HTTP/1.1\r\nHost: shop.example\r\n\r\n".encode("latin-1"))
        answer = client.answer("GET")
        assert answer.is_problem(400, "VALIDATION.request_malformed")
        assert cause in answer.json["detail"]


def test_a_body_cut_off_by_its_client_is_no_refusal(gateway):
    with gateway.connect() as client:
        client.send(request_bytes("POST", "/refunds", [("Idempotency-Key", "k1"),
                                                       ("Content-Length", "10")]))
        client.sock.shutdown(1)
        with pytest.raises(Broken):
            client.answer()
