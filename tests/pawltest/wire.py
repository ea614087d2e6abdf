# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 over plain sockets, with the bytes in view. Nothing here mends or guesses."""
from __future__ import annotations

import json
import os
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Sequence

# How long a test waits for what must come; only a test that fails waits so long.
PATIENCE = float(os.environ.get("PAWL_TEST_PATIENCE", "30"))

# Headers of an answer that are made anew for each, and what tells a replay from a first answer.
MADE_ANEW = {"date", "connection", "keep-alive", "transfer-encoding", "content-length",
             "idempotency-status", "idempotent-replayed"}

Headers = Sequence[tuple[str, str]]


class Broken(Exception):
    """The peer closed, reset or sent nonsense where an answer was due; `got` is what came."""

    def __init__(self, why: str, got: bytes = b""):
        super().__init__(f"{why}; got {got[:300]!r}")
        self.got = got


@dataclass(frozen=True)
class Message:
    """A request or an answer as it was on the wire; text is latin-1."""

    start: str  # request line or status line
    headers: tuple[tuple[str, str], ...]  # in order, names as sent
    body: bytes  # without chunking
    head: bytes  # all bytes up to and with the empty line

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def __getitem__(self, name: str) -> str | None:
        """The value of the header, None without it. A test that allows two asks all()."""
        values = self.all(name)
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Request(Message):
    @property
    def method(self) -> str:
        return self.start.split(" ")[0]

    @property
    def target(self) -> str:
        return self.start.split(" ")[1]


@dataclass(frozen=True)
class Answer(Message):
    @property
    def status(self) -> int:
        return int(self.start.split(" ")[1])

    @property
    def mark(self) -> tuple[int, str | None]:
        """What pawl did with the request, by status and header."""
        return self.status, self["Idempotency-Status"]

    @property
    def kept(self) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
        """What a replay must give back byte for byte."""
        return (self.status, tuple((name, value) for name, value in self.headers
                                   if name.lower() not in MADE_ANEW), self.body)

    def is_problem(self, status: int, code: str) -> bool:
        """Whether it is pawl's own error of that code, by status, header and body alike."""
        return (self.status == status and self["Error-Code"] == code
                and self["Content-Type"] == "application/problem+json"
                and self.json["error_code"] == code and self.json["status"] == status)


class Reader:
    """Reads messages from a socket, one after the other."""

    def __init__(self, sock: socket.socket):
        self.sock = sock
        self.kept = b""

    def more(self) -> bool:
        try:
            got = self.sock.recv(65536)
        except (ConnectionError, TimeoutError) as error:
            raise Broken(f"reading: {error!r}", self.kept) from error
        self.kept += got
        return bool(got)

    def take(self, n: int) -> bytes:
        parts, due = [], n
        while due > len(self.kept):
            parts.append(self.kept)
            due -= len(self.kept)
            self.kept = b""
            if not self.more():
                raise Broken(f"closed, {n} bytes were due", b"".join(parts))
        parts.append(self.kept[:due])
        self.kept = self.kept[due:]
        return b"".join(parts)

    def until(self, mark: bytes) -> bytes:
        while mark not in self.kept:
            if not self.more():
                raise Broken(f"closed before {mark!r}", self.kept)
        return self.take(self.kept.index(mark) + len(mark))

    def head(self) -> tuple[str, tuple[tuple[str, str], ...], bytes]:
        head = self.until(b"\r\n\r\n")
        start, *lines = head[:-4].decode("latin-1").split("\r\n")
        headers = tuple((name, value.strip(" \t"))
                        for name, value in (line.split(":", 1) for line in lines))
        return start, headers, head

    def chunks(self) -> bytes:
        body = b""
        while (size := int(self.until(b"\r\n").split(b";")[0], 16)) > 0:
            body += self.take(size)
            assert self.take(2) == b"\r\n"
        while self.until(b"\r\n") != b"\r\n":
            pass  # trailers
        return body

    def body(self, headers: Headers, until_close: bool) -> bytes:
        named = {name.lower(): value for name, value in headers}
        if "chunked" in named.get("transfer-encoding", ""):
            return self.chunks()
        if "content-length" in named:
            return self.take(int(named["content-length"]))
        while until_close and self.more():
            pass
        return self.take(len(self.kept)) if until_close else b""

    def answer(self, method: str = "POST") -> Answer:
        """The next final answer; interim ones are read over."""
        while True:
            start, headers, head = self.head()
            status = int(start.split(" ")[1])
            if status >= 200:
                break
        bare = method == "HEAD" or status in (204, 304)
        return Answer(start, headers, b"" if bare else self.body(headers, True), head)

    def request(self, wants_body: Callable[[], Any] = lambda: True) -> Request | None:
        """The next request; None when the peer ended between two. `wants_body` is asked when the
        head was read."""
        if not self.kept and not self.more():
            return None
        start, headers, head = self.head()
        body = self.body(headers, False) if wants_body() else b""
        return Request(start, headers, body, head)


class Client:
    """One connection to a gateway."""

    def __init__(self, port: int, timeout: float = PATIENCE):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = Reader(self.sock)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def answer(self, method: str = "POST") -> Answer:
        return self.reader.answer(method)

    def request(self, method: str, target: str, headers: Headers = (), body: bytes = b"") -> Answer:
        self.send(request_bytes(method, target, headers, body))
        return self.answer(method)

    def is_closed(self) -> bool:
        """Waits for the end of the stream; False when bytes come instead."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def reset(self) -> None:
        """Leaves with RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()


def request_bytes(method: str, target: str, headers: Headers = (), body: bytes = b"") -> bytes:
    """A request; Host and Content-Length are added where `headers` has neither."""
    given = {name.lower() for name, _ in headers}
    lines = [f"{method} {target} HTTP/1.1"]
    if "host" not in given:
        lines.append("Host: gateway.test")
    lines += [f"{name}: {value}" for name, value in headers]
    has_body = body or method in ("POST", "PUT", "PATCH")
    if has_body and not given & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def at_once(n: int, act: Callable[[int], Any]) -> list[Any]:
    """act(0) .. act(n - 1), each on a thread, released together; what they return, in order. What
    one of them raises is raised here."""
    results: list[Any] = [None] * n
    start = threading.Barrier(n)

    def run(i: int) -> None:
        try:
            start.wait(PATIENCE)
            results[i] = act(i)
        except BaseException as error:  # pylint: disable=broad-except
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE)
        assert not thread.is_alive(), "a client still waits"
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


class Later:
    """act() on a thread; result() waits for what it returns."""

    def __init__(self, act: Callable[[], Any]):
        self._results: list[Any] = []
        self._thread = threading.Thread(target=lambda: self._results.extend(at_once(1, self._one)),
                                        daemon=True)
        self._act = act
        self._thread.start()

    def _one(self, _: int) -> Any:
        try:
            return (self._act(), None)
        except BaseException as error:  # pylint: disable=broad-except
            return (None, error)

    @property
    def is_done(self) -> bool:
        return bool(self._results)

    def result(self) -> Any:
        self._thread.join(2 * PATIENCE)
        assert self._results, "it did not end"
        value, error = self._results[0]
        if error is not None:
            raise error
        return value


def eventually(is_so: Callable[[], Any], what: str = "") -> Any:
    """Waits until is_so() gives something true, and returns that. What takes long is looked for
    less often: a look may be a command or a connection to a server."""
    began, pause = time.monotonic(), 0.001
    while not (found := is_so()):
        waited = time.monotonic() - began
        assert waited < PATIENCE, f"never came: {what or is_so}"
        time.sleep(pause)
        pause = min(1.5 * pause, 0.02 + waited / 50, 0.1)
    return found
