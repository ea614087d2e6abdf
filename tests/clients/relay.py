# SPDX-License-Identifier: Apache-2.0
"""The way between a client and the gateway, and how it loses answers."""
from __future__ import annotations

import socket

from pawltest.listener import Listener
from pawltest.wire import PATIENCE, Broken, Reader


class Relay:
    """Carries connections to `port`. The first `lose` answers come to it whole, and go no further:
    the client's connection is reset instead."""

    def __init__(self, port: int, lose: int = 0):
        self.statuses: list[int] = []  # of the answers, in order, with the lost ones
        self.keys: list[str | None] = []  # of the requests
        self._target = port
        self._lose = lose
        self._listener = Listener(self._carry)
        self.port = self._listener.port

    def close(self) -> None:
        self._listener.close()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target), PATIENCE) as gateway:
            try:
                asked, answered = Reader(client), Reader(gateway)
                while self._carry_one(client, gateway, asked, answered):
                    pass
            except (Broken, OSError):
                pass  # one of them left

    def _carry_one(self, client: socket.socket, gateway: socket.socket, asked: Reader,
                   answered: Reader) -> bool:
        request = asked.request()
        if request is None:
            return False
        self.keys.append(request["Idempotency-Key"])
        gateway.sendall(request.head + request.body)
        answer = answered.answer(request.method)
        self.statuses.append(answer.status)
        if len(self.statuses) <= self._lose:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            return False
        client.sendall(answer.head + answer.body)
        return True
