# SPDX-License-Identifier: Apache-2.0
"""The service behind the gateway: it records what arrives, counts the effects and behaves as the
test says. The counter is the oracle: how often was it really done?"""
from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Callable

from pawltest.wire import PATIENCE, Broken, Headers, Reader, Request, eventually

SAFE = ("GET", "HEAD", "OPTIONS")
NO_KEY = re.compile(r"/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(/|$)")


class Gate:
    """Holds requests at the upstream, effect done and no byte answered, until it opens."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self._arrived = threading.Semaphore(0)

    def pass_through(self) -> None:
        self._arrived.release()
        self._opened.wait(2 * PATIENCE)

    def wait_for(self, n: int = 1) -> None:
        """Until n more requests stand before it."""
        for _ in range(n):
            assert self._arrived.acquire(timeout=PATIENCE), "no request came to the gate"

    def open(self) -> None:
        self._opened.set()


@dataclass
class Reply:
    """How one request is answered; a test makes variations by naming fields.

    framing: length | chunked | close | none (`headers` frame it)
    cut: how many bytes of the answer are sent before the connection ends, or None; `0` closes
         without a byte
    """

    status: int = 200
    body: bytes = b""
    headers: Headers = ()
    framing: str = "length"
    version: str = "1.1"
    effect: bool = True  # whether it is done, for unsafe methods
    delay: float = 0.0  # seconds before the answer
    gate: Gate | None = None
    cut: int | None = None
    reset: bool = False  # the connection ends with RST
    close: bool = False  # the connection ends after the answer
    early: bool = False  # answers when the head is read; the body is never read
    interim: bytes = b""  # sent when the head is read, before the body
    drip: int = 0  # bytes a piece, with a pause between pieces
    raw: bytes | None = None  # these bytes instead of an answer
    after: Callable[[Request], None] | None = field(default=None, repr=False)

    def data(self, method: str) -> bytes:
        if self.raw is not None:
            return self.raw
        lines = [f"HTTP/{self.version} {self.status} Answer"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        body = self.body
        bare = method == "HEAD" or self.status in (204, 304) or self.status < 200
        if self.framing == "length" and not (bare and method != "HEAD"):
            lines.append(f"Content-Length: {len(body)}")
        elif self.framing == "chunked":
            lines.append("Transfer-Encoding: chunked")
            body = b"".join(b"%x\r\n%s\r\n" % (len(part), part)
                            for part in (body[i:i + 1000] for i in range(0, len(body), 1000)))
            body += b"0\r\n\r\n"
        elif self.framing == "close":
            lines.append("Connection: close")
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (b"" if bare else body)

    @property
    def ends_connection(self) -> bool:
        return (self.close or self.reset or self.early or self.cut is not None
                or self.raw is not None or self.framing == "close" or self.version == "1.0")


def say(status: int, value: Any = None, *headers: tuple[str, str], **more: Any) -> Reply:
    """A reply with a JSON body, and nothing that its replay would have to add."""
    body = json.dumps(value).encode() if value is not None else b""
    return Reply(status, body, (("Content-Type", "application/json"),
                                ("Cache-Control", "no-cache"), *headers), **more)


# What a broken upstream does after the effect.
def closes(**more: Any) -> Reply:
    return Reply(cut=0, **more)


def resets(**more: Any) -> Reply:
    return Reply(cut=0, reset=True, **more)


class Upstream:
    """Listens on `port` from start to stop; a thread a connection."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.requests: list[Request] = []  # all that arrived whole, in order, without `trials`
        self.trials: list[Request] = []  # that asked for a key which cannot exist
        self.tried = say(404)  # their reply
        self.done: list[Request] = []  # those whose effect happened
        self.broken: list[Broken] = []  # connections that ended inside a request
        self.default: Reply | Callable[[Request], Reply] = self.created
        self._script: deque[Reply] = deque()
        self._gates: list[Gate] = []
        self._routes: dict[tuple[str, str], Reply] = {}
        self._keys: set[str] = set()  # of requests that were no GET
        self._lock = threading.Lock()
        self._sockets: dict[socket.socket, Request | None] = {}  # and what came last on it
        self._ended: list[Request | None] = []
        self.host = host
        self._listener = socket.create_server((host, port), backlog=256)
        self.port = self._listener.getsockname()[1]
        self._accept()

    def created(self, request: Request) -> Reply:
        """The usual answer: 201, and no two alike, so that a replay cannot be a second effect."""
        if request.method in SAFE:
            return say(200, {"read": request.target})
        number = len(self.done) + 1
        return say(201, {"id": number}, ("Location", f"{request.target}/{number}"))

    # ---- what a test says and asks ----

    def then(self, *replies: Reply) -> None:
        """The next requests get these, in order; afterwards the default."""
        self._script.extend(replies)

    def forget_replies(self) -> None:
        """Those that no request has got."""
        self._script.clear()

    def on(self, method: str, target: str, reply: Reply) -> None:
        """This very request always gets that."""
        self._routes[method, target] = reply

    def off(self, method: str, target: str) -> None:
        """It gets what all others get again."""
        del self._routes[method, target]

    def gate(self) -> Gate:
        """One that opens at the test's end, at the latest."""
        gate = Gate()
        self._gates.append(gate)
        return gate

    def hold(self, **more: Any) -> Gate:
        """The next request stands at the gate that is returned, effect done, unanswered."""
        gate = self.gate()
        self.then(say(201, {"held": True}, gate=gate, **more))
        return gate

    def open_gates(self) -> None:
        for gate in self._gates:
            gate.open()

    def effects(self, target: str | None = None) -> int:
        """How often it was really done."""
        with self._lock:
            return sum(target is None or request.target == target for request in self.done)

    def wait_for(self, n: int) -> Request:
        """Until n requests arrived in all; the n-th."""
        eventually(lambda: len(self.requests) >= n, f"request {n} at the upstream")
        return self.requests[n - 1]

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._sockets)

    def has_ended(self, request: Request) -> bool:
        """Whether the connection ended on which this one came last."""
        return any(ended is request for ended in self._ended)

    @property
    def unasked(self) -> int:
        """How many replies of then() nobody has asked for."""
        return len(self._script)

    def refuse(self) -> None:
        """Refuses connections from now on."""
        shut(self._listener)  # wakes its thread
        self._thread.join(PATIENCE)
        self._listener.close()

    def stop(self) -> None:
        """Refuses connections from now on, and ends those that are open."""
        self.refuse()
        with self._lock:
            sockets = list(self._sockets)
        for sock in sockets:
            shut(sock)

    def start(self) -> None:
        """Listens again, on the same port."""
        self._listener = socket.create_server((self.host, self.port), backlog=256)
        self._accept()

    # ---- serving ----

    def _accept(self) -> None:
        self._thread = threading.Thread(target=self._accept_all, args=(self._listener,),
                                        daemon=True)
        self._thread.start()

    def _accept_all(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._connection, args=(sock,), daemon=True).start()

    def _connection(self, sock: socket.socket) -> None:
        with self._lock:
            self._sockets[sock] = None
        try:
            reader = Reader(sock)
            while self._serve_one(sock, reader):
                pass
        except Broken as broken:
            self.broken.append(broken)
        except OSError:
            pass  # the gateway left: nothing an upstream could do
        finally:
            with self._lock:
                self._ended.append(self._sockets.pop(sock))
            sock.close()

    def _serve_one(self, sock: socket.socket, reader: Reader) -> bool:
        request = reader.request(lambda: self._wants_body(sock))
        if request is None:
            return False
        self._sockets[sock] = request
        reply = self._reply(request)
        if reply.gate:
            reply.gate.pass_through()
        time.sleep(reply.delay)
        self._send(sock, reply, request.method)
        if reply.after:
            reply.after(request)
        return not reply.ends_connection and (request["Connection"] or "").lower() != "close"

    def _wants_body(self, sock: socket.socket) -> bool:
        with self._lock:
            first = self._script[0] if self._script else None
        if first is None:
            return True
        sock.sendall(first.interim)
        return not first.early

    def _reply(self, request: Request) -> Reply:
        """Records the request, picks its reply and does the effect, in one step."""
        key = (request["Idempotency-Key"] or "").strip('"')
        if request.method != "GET":
            self._keys.add(key)
        elif NO_KEY.search(request.target) and key not in self._keys:
            self.trials.append(request)
            return self.tried
        with self._lock:
            reply = self._routes.get((request.method, request.target))
            if reply is None and self._script:
                reply = self._script.popleft()
            if reply is None:
                reply = self.default(request) if callable(self.default) else self.default
            if reply.effect and request.method not in SAFE:
                self.done.append(request)
            self.requests.append(request)
        return reply

    @staticmethod
    def _send(sock: socket.socket, reply: Reply, method: str) -> None:
        data = reply.data(method)[:reply.cut]
        step = reply.drip or len(data) or 1
        for i in range(0, len(data), step):
            sock.sendall(data[i:i + step])
            if reply.drip:
                time.sleep(0.002)
        if reply.reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def shut(sock: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    try:
        sock.shutdown(how)
    except OSError:
        pass
