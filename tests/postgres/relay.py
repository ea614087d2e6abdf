# SPDX-License-Identifier: Apache-2.0
"""The network between a gateway and PostgreSQL, as a test wants it: it carries the messages of the
protocol one by one, and cuts, delays or swallows them."""
from __future__ import annotations

import itertools
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Callable

from pawltest.listener import Listener
from pawltest.upstream import shut
from pawltest.wire import PATIENCE

# What a client may say before it has said which protocol it speaks; each is answered by one byte.
SSL_REQUEST = 80877103
GSS_REQUEST = 80877104
RESET = struct.pack("ii", 1, 0)


class Way(Enum):
    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


class Act(Enum):
    """What becomes of a message and its connection."""

    PASS = "passes"
    CUT = "the connection ends before it"
    CUT_INSIDE = "the connection ends in the middle of it"
    RESET = "the connection is reset before it"
    SWALLOW = "it and all that follows on this way is lost, and nobody is told"


@dataclass(frozen=True)
class Message:
    """One of the protocol's; `kind` is its byte, empty for the first ones of a client."""

    connection: int  # from 1, in order of arrival
    way: Way
    kind: str
    data: bytes = field(repr=False)


@dataclass
class Link:
    """One connection, both ends."""

    number: int
    client: socket.socket
    server: socket.socket
    one_byte_answers: int = 0  # that the server owes to requests for encryption
    started: bool = False  # the client has said which protocol it speaks
    is_reset: bool = False

    def ends(self, way: Way) -> tuple[socket.socket, socket.socket]:
        """From where and where to."""
        pair = (self.client, self.server)
        return pair if way is Way.TO_SERVER else pair[::-1]

    def end(self) -> None:
        shut(self.client)
        shut(self.server)

    def reset(self) -> None:
        """What waits to read goes on, and the close that follows is a reset."""
        self.is_reset = True
        for sock in (self.client, self.server):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            shut(sock, socket.SHUT_RD)


def passes(_: Message) -> Act:
    return Act.PASS


class Relay:
    """Listens on `port` for connections to `target`. `judge` says what becomes of each message; it
    is called for one message at a time."""

    def __init__(self, target: int):
        self.target = target
        self.judge: Callable[[Message], Act] = passes
        self.delay = 0.0  # seconds that each piece takes on its way
        self.messages: list[Message] = []  # those judged, in order
        self._numbers = itertools.count(1)
        self._links: dict[int, Link] = {}
        self._lock = threading.Lock()
        self._listener = Listener(self._open)
        self.port = self._listener.port

    def close(self) -> None:
        self._listener.close()
        self.cut_all()

    def cut_all(self) -> None:
        """Ends all connections; new ones are welcome."""
        with self._lock:
            links = list(self._links.values())
        for link in links:
            link.end()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- carrying ----

    def _open(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self.target), PATIENCE)
        except OSError:
            client.close()
            return
        for sock in (client, server):
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = Link(next(self._numbers), client, server)
        with self._lock:
            self._links[link.number] = link
        back = threading.Thread(target=self._carry, args=(link, Way.TO_CLIENT), daemon=True)
        back.start()
        self._carry(link, Way.TO_SERVER)
        back.join()
        with self._lock:
            del self._links[link.number]
        client.close()
        server.close()

    def _carry(self, link: Link, way: Way) -> None:
        source, target = link.ends(way)
        kept, lost = b"", False
        try:
            while got := source.recv(65536):
                kept += got
                if lost:
                    kept = b""
                while not lost and (message := take(link, way, kept)):
                    kept = kept[len(message.data):]
                    lost = self._pass_on(link, message, target)
        except OSError:
            pass  # cut, or one of them left
        if not link.is_reset:
            link.end()

    def _pass_on(self, link: Link, message: Message, target: socket.socket) -> bool:
        """Whether this and all that follows is swallowed."""
        with self._lock:
            self.messages.append(message)
            act = self.judge(message)
        if self.delay:
            time.sleep(self.delay)
        if act is Act.PASS:
            target.sendall(message.data)
        elif act is Act.CUT_INSIDE:
            target.sendall(message.data[:len(message.data) // 2])
        if act in (Act.CUT, Act.CUT_INSIDE, Act.RESET):
            (link.reset if act is Act.RESET else link.end)()
            raise ConnectionError("cut")
        return act is Act.SWALLOW


def take(link: Link, way: Way, data: bytes) -> Message | None:
    """The first whole message of it."""
    if way is Way.TO_CLIENT and link.one_byte_answers and data:
        link.one_byte_answers -= 1
        return Message(link.number, way, data[:1].decode("latin-1"), data[:1])
    begin = 0 if way is Way.TO_SERVER and not link.started else 1
    if len(data) < begin + 4:
        return None
    size = begin + int.from_bytes(data[begin:begin + 4], "big")
    if len(data) < size:
        return None
    if begin == 0:
        if int.from_bytes(data[4:8], "big") in (SSL_REQUEST, GSS_REQUEST):
            link.one_byte_answers += 1
        else:
            link.started = True
    return Message(link.number, way, data[:begin].decode("latin-1"), data[:size])


class CutAt:
    """A judge: the n-th message of a way since it was set, counted over all connections whose
    messages `counts` says yes to, gets `act`, all others pass. n is from 0."""

    def __init__(self, way: Way, n: int, act: Act = Act.CUT,
                 counts: Callable[[Message], bool] = lambda message: True):
        self.way = way
        self.n = n
        self.act = act
        self.counts = counts
        self.met: Message | None = None  # the one that it happened to

    def __call__(self, message: Message) -> Act:
        if self.met is not None or message.way is not self.way or not self.counts(message):
            return Act.PASS
        self.n -= 1
        if self.n >= 0:
            return Act.PASS
        self.met = message
        return self.act


class Lender:
    """A pooler that lends its sessions by transactions, in turn, and lies about it: each client is
    given the number of the first one, and finds what others have left. It speaks for one database:
    that of its first client."""

    SESSIONS = 2

    def __init__(self, directory: Path, port: int):
        self.socket = str(directory / f".s.PGSQL.{port}")  # where nobody is asked for a password
        self.lent = 0  # transactions on another session than the first
        self._greeting = b""  # what the first session was greeted with
        self._sessions: list[tuple[socket.socket, threading.Lock]] = []
        self._lock = threading.Lock()
        self._listener = Listener(self._serve)
        self.port = self._listener.port

    def __enter__(self) -> Lender:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for session, _ in self._sessions:
            shut(session)

    def _open(self, startup: bytes) -> None:
        with self._lock:
            while len(self._sessions) < self.SESSIONS:
                session = socket.socket(socket.AF_UNIX)
                session.connect(self.socket)
                session.sendall(startup)
                greeting = read_through(session, "Z")
                self._greeting = self._greeting or greeting
                self._sessions.append((session, threading.Lock()))

    def _serve(self, client: socket.socket) -> None:
        try:
            startup = read_message(client, 0)
            while int.from_bytes(startup[4:8], "big") in (SSL_REQUEST, GSS_REQUEST):
                client.sendall(b"N")
                startup = read_message(client, 0)
            self._open(startup)
            client.sendall(self._greeting)
            for turn in itertools.count():
                self._lend(client, turn % self.SESSIONS)
        except OSError:
            client.close()

    def _lend(self, client: socket.socket, turn: int) -> None:
        """For as long as its transaction lasts."""
        asked = read_through(client, "S")
        session, lock = self._sessions[turn]
        with lock:
            self.lent += turn > 0
            session.sendall(asked)
            answer = read_through(session, "Z")
            client.sendall(answer)
            while not answer.endswith(b"I"):
                session.sendall(read_through(client, "S"))
                answer = read_through(session, "Z")
                client.sendall(answer)


def read_exactly(source: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        got = source.recv(size - len(read))
        if not got:
            raise ConnectionError("it left")
        read += got
    return read


def read_message(source: socket.socket, begin: int = 1) -> bytes:
    """Its kind, of `begin` bytes, its length, and what follows."""
    head = read_exactly(source, begin + 4)
    return head + read_exactly(source, int.from_bytes(head[begin:], "big") - 4)


def read_through(source: socket.socket, kind: str) -> bytes:
    """Messages up to one of that kind."""
    read = b""
    while True:
        message = read_message(source)
        read += message
        if message[:1] == kind.encode():
            return read
