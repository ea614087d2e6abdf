#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server of a sync API: it does each operation once for a user and a key, as long as it
remembers the key, and counts what it did. It listens on loopback.

usage: server.py PORT

  POST /operations    a room, {"name": ...}; 201, or 422 without a name
  GET  /effects       what was done: a line for each effect
  POST /hold          the next operation is done, and its response held back
  GET  /held          returns as soon as a response is held back
  POST /release       sends that response
  POST /lose          the next operation is done, and the connection closed without a response
  POST /forget        24 hours pass: no key is known any more
"""
from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class State:
    """What the server did and remembers, and what shall go wrong next."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.effects: list[dict] = []
        self.responses: dict[tuple, tuple[int, dict] | None] = {}  # None: being processed
        self.next_fault = ""
        self.held = threading.Event()
        self.released = threading.Event()

    def begin(self, key: tuple) -> tuple[int, dict] | None:
        """The response to send, or None: the caller is to do the operation."""
        with self.lock:
            if key not in self.responses:
                self.responses[key] = None
                return None
            return self.responses[key] or (409, {"error": {
                "code": "CONCURRENT_REQUEST",
                "message": "Request with this idempotency key is already processing"}})

    def execute(self, wanted: dict) -> tuple[tuple[int, dict], str]:
        """The response, and the fault that hits it."""
        if not wanted.get("name"):
            return (422, {"error": {"code": "INVALID", "message": "a room needs a name"}}), ""
        with self.lock:
            self.effects.append(wanted)
            fault, self.next_fault = self.next_fault, ""
            return (201, {"room": len(self.effects), **wanted}), fault


class Rooms(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state = State()

    def do_GET(self) -> None:  # pylint: disable=invalid-name
        if self.path == "/held":
            self.state.held.wait()
            self.reply(200, b"")
        elif self.path == "/effects":
            done = self.state.effects
            self.reply(200, "".join(json.dumps(effect) + "\n" for effect in done).encode())
        else:
            self.reply(404, b"")

    def do_POST(self) -> None:  # pylint: disable=invalid-name
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/operations":
            self.run_operation(json.loads(body))
            return
        if self.path in ("/hold", "/lose"):
            self.state.held.clear()
            self.state.released.clear()
            self.state.next_fault = self.path[1:]
        elif self.path == "/release":
            self.state.released.set()
        elif self.path == "/forget":
            self.state.responses.clear()
        self.reply(200, b"")

    def run_operation(self, wanted: dict) -> None:
        # Scoped by user: nobody gets another user's response.
        key = self.headers["Authorization"], self.headers["Idempotency-Key"]
        response = self.state.begin(key)
        if response is None:
            response, fault = self.state.execute(wanted)
            if fault == "hold":
                self.state.held.set()
                self.state.released.wait()
            self.state.responses[key] = response
            if fault == "lose":
                self.close_connection = True
                return
        self.reply(response[0], json.dumps(response[1]).encode())

    def reply(self, status: int, body: bytes) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True  # the app was killed meanwhile

    def log_message(self, *_arguments: object) -> None:
        pass


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit("usage: server.py PORT")
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Rooms).serve_forever()
