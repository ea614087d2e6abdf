#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What nginx, HAProxy and pawl make of the same responses, and their tables in docs/differences.md.

usage: tests/differential/responses.py   writes the tables anew; the reasons are written by hand

A row of a table is one outcome and all responses that end so; there is a table for what pawl takes,
what it refuses and both peers take, and what it refuses as at least one of them does.
"""
from __future__ import annotations

import itertools
import re
import socket
import sys
import tempfile
import threading
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

# pylint: disable=wrong-import-position
import peers  # noqa: E402
from differences import DOCUMENT  # noqa: E402
from odd_responses import BODY, CHUNKS, RESPONSES, WHOLE, Odd  # noqa: E402
from pawltest.upstream import shut  # noqa: E402
from pawltest.wire import PATIENCE, Broken, Reader  # noqa: E402

TABLE = re.compile(r"<!-- responses: ([\w, ]+) -->\n(.*?)<!-- end -->\n", re.S)
NAMES = ("nginx", "HAProxy", "pawl, no rule", "pawl, rule")
STATUS = re.compile(rb"HTTP/1\.[01] *(\d{3})")
KEYS = itertools.count()

Row = tuple[str, ...]  # an outcome for each of NAMES


class Speaker:
    """An upstream that says to each request what it was told to, and on which connection."""

    def __init__(self) -> None:
        self.says: list[Odd] = []  # in order; then WHOLE
        self.heard: list[int] = []  # by request, the number of its connection
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        shut(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        for number in itertools.count():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock, number), daemon=True).start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        reader = Reader(sock)
        with sock:
            try:
                while reader.request() is not None:
                    self.heard.append(number)
                    odd = self.says.pop(0) if self.says else Odd("whole", WHOLE)
                    sock.sendall(odd.sent)
                    if odd.closes:
                        return
            except (OSError, Broken):
                pass  # the proxy left


def ask(port: int, path: str) -> str:
    """What the client gets: the status, and whether it is the body that was meant."""
    key = f"odd-{next(KEYS)}"
    got = b""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
        sock.sendall(f"POST {path} HTTP/1.1\r\nHost: pawl.test\r\nConnection: close\r\n"
                     f"Idempotency-Key: {key}\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        try:
            while more := sock.recv(65536):
                got += more
        except ConnectionResetError:
            pass  # it was cut off
    return told(got)


def told(got: bytes) -> str:
    found = STATUS.match(got)
    if found is None:
        return "no status"
    head, _, rest = got.partition(b"\r\n\r\n")
    status = found[1].decode()
    if found[1] < b"200":
        return told(rest)
    chunked = b"transfer-encoding: chunked" in head.lower()
    if rest == (CHUNKS if chunked else BODY):
        return status
    return status if status == "502" else f"{status}, cut" if len(rest) < 12 else f"{status}, more"


@contextmanager
def running(directory: Path) -> Iterator[list[tuple[int, str, Speaker]]]:
    """For each of NAMES where to ask, and who is behind it."""
    speakers = [Speaker() for _ in range(3)]
    starts = (peers.nginx, peers.haproxy, peers.pawl)
    lives = [start(directory, speaker) for start, speaker in zip(starts, speakers)]
    try:
        ports = [next(life).port for life in lives]
        yield [(port, path, speaker) for port, path, speaker in zip(
            [*ports, ports[2]], ["/other", "/other", "/other", "/hostile"],
            [*speakers, speakers[2]], strict=True)]
        for life in lives:
            next(life, None)
    finally:
        for life in lives:
            life.close()
        for speaker in speakers:
            speaker.close()


def play(places: list[tuple[int, str, Speaker]], odd: Odd) -> Row:
    """Behind each of NAMES, on connections that end behind the response."""
    row = []
    for port, path, speaker in places:
        speaker.says = [Odd(odd.name, odd.sent, True)]
        row.append(ask(port, path))
    return tuple(row)


def is_taken(cell: str) -> bool:
    return cell.isdigit() and cell != "502"


def kind_of(row: Row) -> str:
    if is_taken(row[3]):
        return "taken by pawl"
    if is_taken(row[0]) and is_taken(row[1]):
        return "refused by pawl alone"
    return "refused by pawl"


def documented() -> dict[str, str]:
    return dict(TABLE.findall(DOCUMENT.read_text("utf-8")))


def rows_of(table: str) -> Iterator[tuple[str, Row]]:
    """By response, its row."""
    for line in table.splitlines()[2:]:
        *row, names = (cell.strip() for cell in line.strip("|").split(" | "))
        yield from ((name, tuple(row)) for name in names.split("<br>"))


def write() -> None:
    grouped: dict[str, dict[Row, list[str]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as directory, running(Path(directory)) as places:
        for odd in RESPONSES:
            row = play(places, odd)
            grouped[kind_of(row)][row].append(odd.name)
    head = f"| {' | '.join(NAMES)} | responses |\n|---|---|---|---|---|\n"
    made = {kind: head + "".join(f"| {' | '.join(row)} | {'<br>'.join(names)} |\n"
                                 for row, names in rows.items()) for kind, rows in grouped.items()}
    text = TABLE.sub(lambda found: f"<!-- responses: {found[1]} -->\n{made.pop(found[1], '')}"
                     "<!-- end -->\n", DOCUMENT.read_text("utf-8"))
    for kind, table in sorted(made.items()):
        print(f"new, and without a reason: {kind}")
        text += f"\n### {kind}\n\n<!-- responses: {kind} -->\n{table}<!-- end -->\n"
    DOCUMENT.write_text(text, "utf-8")


if __name__ == "__main__":
    write()
