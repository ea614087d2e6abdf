# SPDX-License-Identifier: Apache-2.0
"""A listener on loopback, of relays that stand between two ends."""
from __future__ import annotations

import socket
import threading
from typing import Callable

from pawltest.upstream import shut


class Listener:
    """Each connection is served on a thread of its own, until `close`."""

    def __init__(self, serve: Callable[[socket.socket], None]):
        self._serve = serve
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        shut(self._socket)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()
