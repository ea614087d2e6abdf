# SPDX-License-Identifier: Apache-2.0
"""nginx, HAProxy and pawl, each before a recorder of its own: what one request becomes behind each.

All three read a body whole before they forward, so that no outcome hangs on timing; beyond that the
peers are as they come. The upstream of each is raw: it records the bytes and reads them leniently.
"""
from __future__ import annotations

import re
import signal
import socket
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

from pawltest.gateway import DIE_WITH_THE_TEST, Clock, Gateway, free_port
from pawltest.upstream import shut
from pawltest.hostile_requests import Case
from pawltest.wire import PATIENCE, Broken, Headers, Reader, eventually

NGINX = """
daemon off;
master_process off;
pid nginx.pid;
error_log nginx.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_max_body_size 0;
    client_body_temp_path tmp;
    proxy_temp_path tmp;
    fastcgi_temp_path tmp;
    uwsgi_temp_path tmp;
    scgi_temp_path tmp;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_ignore_client_abort on;
            proxy_pass http://127.0.0.1:{upstream};
        }}
    }}
}}
"""

HAPROXY = """
defaults
    mode http
    timeout connect 30s
    timeout client 30s
    timeout server 30s
    option http-buffer-request
frontend in
    bind 127.0.0.1:{port}
    default_backend up
backend up
    server one 127.0.0.1:{upstream}
"""

PAWL = """
tenant: none
threads: 1
rules:
  - {name: post, match: POST /hostile, timeout: 10m}
  - {name: delete, match: DELETE /hostile, timeout: 10m}
"""

# What pawl adds to every request; the peers add nothing as they are configured.
ADDED = {"idempotency-token", "idempotency-attempt", "via", "x-forwarded-for", "x-forwarded-proto",
         "x-forwarded-host", "accept-encoding"}

# The rest of a larger request may take the answer with it: the connection is reset.
LARGE = 16_000
QUIET = 1.0

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")


@dataclass(frozen=True)
class Seen:
    """One request as it came to an upstream."""

    method: str
    target: str
    framing: str  # `by length`, `by chunks`, or nothing
    body: bytes
    fields: tuple[tuple[str, str], ...]  # in order, names in lower case
    raw: bytes = field(compare=False, repr=False)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]


@dataclass(frozen=True)
class Outcome:
    """What one connection came to: the final answers, and what was forwarded."""

    answers: tuple[str, ...]  # statuses; `bare` for bytes without a status line
    forwarded: tuple[Seen, ...]


class _Taped(Reader):
    """A reader that keeps what it read, and knows the coding in any case."""

    def __init__(self, sock: socket.socket):
        super().__init__(sock)
        self.tape = b""

    def take(self, n: int) -> bytes:
        got = super().take(n)
        self.tape += got
        return got

    def body(self, headers: Headers, until_close: bool) -> bytes:
        return super().body([(name, value.lower()) for name, value in headers], until_close)


class Recorder:
    """The upstream of one proxy."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.unread: list[bytes] = []  # what could not be read as a request
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        shut(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        reader = _Taped(sock)
        with sock:
            try:
                while self._serve_one(sock, reader):
                    pass
            except (OSError, Broken):
                pass  # the proxy left; what it had begun never became a request
            except (ValueError, AssertionError):
                self.unread.append(reader.tape + reader.kept)

    def _serve_one(self, sock: socket.socket, reader: _Taped) -> bool:
        reader.tape = b""
        request = reader.request()
        if request is None:
            return False
        method, target, *_ = request.start.split(" ")
        fields = tuple((name.lower(), value) for name, value in request.headers)
        names = {name for name, _ in fields}
        framing = ("by chunks" if "transfer-encoding" in names else
                   "by length" if "content-length" in names else "")
        self.seen.append(Seen(method, target, framing, request.body, fields, reader.tape))
        sock.sendall(OK if method != "HEAD" else OK[:-2])
        return True


class Proxy:
    """One of the three, in front of its recorder."""

    def __init__(self, name: str, port: int, recorder: Recorder):
        self.name = name
        self.port = port
        self.recorder = recorder

    def play(self, case: Case, due: int | None) -> Outcome:
        """Sends the steps of `case` on one connection, each when the answers due before it came.
        When `due` answers are there, ends its side, and reads to the end. `None`, for who does not
        know them yet: when nothing came for a while. HAProxy drops what it has not answered by the
        client's end; hence the waiting."""
        self.recorder.seen.clear()
        self.recorder.unread.clear()
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as sock:
            talk = _Talk(sock)
            for step, until in zip(case.steps, (*case.answers_due, due), strict=True):
                talk.send(step)
                talk.read_until(until)
            talk.end()
        answers = talk.answers or (("bare",) if talk.got else ())
        if not answers.count("200") and sum(map(len, case.steps)) > LARGE:
            answers = ("refused",)
        return Outcome(answers, self._forwarded(answers))

    def _forwarded(self, answers: tuple[str, ...]) -> tuple[Seen, ...]:
        eventually(lambda: len(self.recorder.seen) >= answers.count("200"), "what was forwarded")
        assert not self.recorder.unread, self.recorder.unread
        return tuple(self.recorder.seen)


class _Talk:
    """The client's side of one connection."""

    def __init__(self, sock: socket.socket):
        self._sock = sock
        self._has_ended = False
        self.got = b""

    @property
    def answers(self) -> tuple[str, ...]:
        """The final ones."""
        return tuple(status.decode() for status in STATUS.findall(self.got) if status >= b"200")

    def send(self, data: bytes) -> None:
        try:
            self._sock.sendall(data)
        except OSError:
            pass  # refused before its end was sent

    def read_until(self, due: int | None) -> None:
        self._sock.settimeout(PATIENCE if due is not None else QUIET)
        while not self._has_ended and (due is None or len(self.answers) < due):
            if not self._read():
                return

    def _read(self) -> bool:
        try:
            more = self._sock.recv(65536)
        except TimeoutError:
            return False
        except OSError:
            more = b""  # refused with bytes unread
        self._has_ended = not more
        self.got += more
        return True

    def end(self) -> None:
        self._sock.settimeout(PATIENCE)
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            return
        while not self._has_ended:
            assert self._read(), "it does not end the connection"


def _server(directory: Path, recorder: Recorder, name: str, text: str,
            command: list[str]) -> Iterator[Proxy]:
    directory.mkdir()
    port = free_port()
    (directory / f"{name}.conf").write_text(text.format(port=port, upstream=recorder.port))
    (directory / "tmp").mkdir()
    with (directory / "printed").open("wb") as printed:
        process = subprocess.Popen([*DIE_WITH_THE_TEST, *command], cwd=directory,
                                   stdin=subprocess.DEVNULL, stdout=printed, stderr=printed)

    def is_up() -> bool:
        assert process.poll() is None, (directory / "printed").read_text()
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", port)) == 0

    try:
        eventually(is_up, name)
        yield Proxy(name, port, recorder)
        assert process.poll() is None, f"{name} died"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def nginx(directory: Path, recorder: Recorder) -> Iterator[Proxy]:
    return _server(directory / "nginx", recorder, "nginx", NGINX,
                   ["nginx", "-p", ".", "-c", "nginx.conf", "-e", "nginx.log"])


def haproxy(directory: Path, recorder: Recorder) -> Iterator[Proxy]:
    return _server(directory / "haproxy", recorder, "haproxy", HAPROXY,
                   ["haproxy", "-db", "-q", "-f", "haproxy.conf"])


def pawl(directory: Path, recorder: Recorder) -> Iterator[Proxy]:
    (directory / "pawl").mkdir()
    gateway = Gateway(directory / "pawl", recorder.port, PAWL, Clock(directory / "clock"))
    try:
        yield Proxy("pawl", gateway.start().port, recorder)
        gateway.close()
    finally:
        gateway.discard()
