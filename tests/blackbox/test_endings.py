# SPDX-License-Identifier: Apache-2.0
"""How messages end, and what a connection is good for afterwards."""
from __future__ import annotations

import pytest

from pawltest.upstream import Reply
from pawltest.wire import PATIENCE, Later, eventually

pytestmark = pytest.mark.no_store


def test_the_query_of_an_absolute_target_without_a_path_goes_on(gateway, upstream):
    with gateway.connect() as client:
        client.send(b"POST http://gateway.test?x=1 HTTP/1.1\r\nHost: gateway.test\r\n"
                    b"Content-Length: 0\r\n\r\n")
        assert client.answer().status == 201
    assert upstream.requests[0].target == "/?x=1"


@pytest.mark.parametrize("path", ["/refunds", "/other"])
def test_an_http_1_0_client_can_tell_a_truncated_answer(gateway, upstream, path):
    upstream.then(Reply(200, b"x" * 3000, framing="chunked", cut=-100,
                        headers=(("Content-Type", "text/event-stream"),)))
    with gateway.connect() as client:
        client.send(f"POST {path} HTTP/1.0\r\nIdempotency-Key: k1\r\nContent-Length: 2\r\n"
                    "\r\n{}".encode())
        with pytest.raises(ConnectionResetError):
            while client.sock.recv(65536):
                pass


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body_is_no_stream_whatever_its_type_says(gateway, upstream, status):
    upstream.then(Reply(status, headers=(("Content-Type", "text/event-stream"),)))
    with gateway.connect() as client:
        first = client.request("POST", "/refunds", [("Idempotency-Key", "k1")], b"{}")
        assert first.status == status
        assert first["Transfer-Encoding"] is None
        again = client.request("POST", "/refunds", [("Idempotency-Key", "k1")], b"{}")
    assert again.mark == (status, "replayed")


def test_a_connection_that_switched_protocols_is_never_used_again(gateway, upstream):
    upstream.then(Reply(101, headers=(("Connection", "upgrade"), ("Upgrade", "x"))))
    answer = gateway.request("POST", "/refunds", [("Idempotency-Key", "k1")], b"{}")
    assert answer.mark == (502, "unknown")
    eventually(lambda: upstream.connections == 0, "the end of the connection")


def test_a_gateway_starts_behind_one_that_is_only_just_killed(gateway):
    for turn in range(5):
        process = gateway.process
        gateway.process = None
        process.kill()  # and no wait for its end
        gateway.start()
        process.wait(PATIENCE)
        assert gateway.post("/refunds", {}, key=f"k{turn}").status == 201


@pytest.mark.parametrize("body, whole", [
    (b"+5\r\nhello\r\n0\r\n\r\n", False), (b"5\r\nhello!\r\n0\r\n\r\n", False),
    (b"5\nhello\r\n0\r\n\r\n", False), (b"5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n", False),
    (b"5\r\nhello\r\n0\r\n\r\n", True)])
@pytest.mark.parametrize("pieces", [1, 2])
def test_a_malformed_body_without_a_rule_is_400_and_never_whole_upstream(gateway, upstream, body,
                                                                        whole, pieces):
    head = b"POST /other HTTP/1.1\r\nHost: pawl.test\r\nTransfer-Encoding: chunked\r\n\r\n"
    with gateway.connect() as client:
        for piece in (head + body,) if pieces == 1 else (head, body):
            client.send(piece)
        answer = client.answer()
        assert answer.status == 201 if whole else \
            answer.is_problem(400, "VALIDATION.request_malformed") and client.is_closed()
    assert len(upstream.requests) == whole


@pytest.mark.hooks
def test_a_body_without_a_rule_that_stops_coming_is_408(gateway, upstream, clock):
    with gateway.connect() as client:
        client.send(b"POST /other HTTP/1.1\r\nHost: pawl.test\r\nContent-Length: 5\r\n\r\nhe")
        answer = Later(client.answer)
        clock.run_until(lambda: answer.is_done)
        assert answer.result().is_problem(408, "VALIDATION.request_timeout")
        assert client.is_closed()
    assert not upstream.requests
