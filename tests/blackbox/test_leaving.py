# SPDX-License-Identifier: Apache-2.0
"""Clients that end their side, or leave, as soon as their request is out."""
from __future__ import annotations

import socket

import pytest

from pawltest.wire import request_bytes

pytestmark = pytest.mark.no_store


def refund(key: str) -> bytes:
    return request_bytes("POST", "/refunds", [("Idempotency-Key", key)], b"{}")


def test_a_client_that_half_closes_behind_its_request_gets_its_answer(gateway, upstream):
    for i in range(20):
        with gateway.connect() as client:
            client.send(refund(f"k{i}"))
            client.sock.shutdown(socket.SHUT_WR)
            assert client.answer().status == 201
    assert upstream.effects() == 20


def test_a_request_whose_client_left_at_once_is_carried_out(gateway, upstream):
    for i in range(20):
        with gateway.connect() as client:
            client.send(refund(f"k{i}"))
    upstream.wait_for(20)
    assert upstream.effects() == 20
