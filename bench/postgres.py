# SPDX-License-Identifier: Apache-2.0
"""The store on PostgreSQL: several processes as as many gateways, beside what the server can do at
most; and behind a network that delays."""
from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from socket import IPPROTO_TCP, SHUT_RDWR, TCP_NODELAY, create_connection, create_server, socket
from typing import Any, Callable

from loads import CONNECTIONS, TICKS
from report import BESIDE, Aim
from servers import ROOT, Failure

sys.path.insert(0, str(ROOT / "tests/postgres"))

DEPTHS, GATEWAYS = (1, 16, CONNECTIONS, 256), (1, 2, 4)
SMOKE_DEPTHS, SMOKE_GATEWAYS = (CONNECTIONS,), (1, 2)
ROUND_TRIP_S = 0.002  # what the network adds
LIMIT, SINGLE, DELAYED = "server's limit", "single, delayed", "1 gateway, delayed"
AUTO = "1 gateway, auto"  # store_sessions: auto
# A checkpoint a minute would be what is measured.
SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "4GB", "checkpoint_timeout": "30min"}
Rows = dict[tuple[str, int], list[dict]]  # by name and number in flight; one a round


def gateways_name(n: int) -> str:
    return f"{n} gateway{'s' if n > 1 else ''}"


# ---- a network that delays ----


class Delay:
    """A relay that holds every piece for half a round trip; pieces that follow each other do not
    wait for each other."""

    def __init__(self, target: int, round_trip_s: float):
        self.target, self.one_way_s = target, round_trip_s / 2
        self.listener = create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self) -> Delay:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(SHUT_RDWR)
        self.listener.close()

    def accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                client = self.listener.accept()[0]
                server = create_connection(("127.0.0.1", self.target))
                for source, target in ((client, server), (server, client)):
                    source.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
                    pieces: SimpleQueue = SimpleQueue()
                    for work, end in ((self.take, source), (self.pass_on, target)):
                        threading.Thread(target=work, args=(end, pieces), daemon=True).start()

    def take(self, source: socket, pieces: SimpleQueue) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 20):
                pieces.put((time.monotonic() + self.one_way_s, data))
        pieces.put((0, b""))

    @staticmethod
    def pass_on(target: socket, pieces: SimpleQueue) -> None:
        with contextlib.suppress(OSError):
            while (piece := pieces.get())[1]:
                time.sleep(max(0.0, piece[0] - time.monotonic()))
                target.sendall(piece[1])
            target.shutdown(SHUT_RDWR)


# ---- loads ----


def cpu_ticks(server: Any) -> int:
    """Of the server with its backends, those that ended included."""
    from server import children, stat_of  # with psycopg2, which the other rows do without
    time.sleep(0.1)  # what has ended is counted when its parent saw it
    stats = [stat_of(pid) for pid in (*children(server.process.pid), server.process.pid)]
    return sum(int(n) for stat in stats for n in stat[11:15])


def together(commands: list[list]) -> list[dict]:
    """All at once; each prints one line."""
    running = [subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
               for command in commands]
    printed = [process.communicate()[0] for process in running]
    for command, process in zip(commands, running):
        if process.returncode != 0:
            raise Failure(f"{command[0]} ended with {process.returncode}")
    return [json.loads(lines.splitlines()[-1]) for lines in printed if lines]


Store = tuple[Path, Callable[[int], str]]  # a build, and the URL of its database at a port


class Bench:
    """With `beside` another version's gateway takes its turns on a database of its own."""

    def __init__(self, server: Any, own: Store, beside: Store | None, seconds: float):
        self.server, self.seconds = server, seconds
        (self.build, self.url_at), self.own, self.beside = own, own, beside
        self.rows: Rows = {}
        self.turn = 0

    def fill(self, records: int) -> None:
        for build, url_at in filter(None, (self.own, self.beside)):
            together([[build / "bench/store_pairs", url_at(self.server.port), records, 0]])

    def measure(self, name: str, in_flight: int, commands: list[list]) -> None:
        before = cpu_ticks(self.server)
        figures = together(commands)
        pairs = sum(each["pairs"] for each in figures)
        row = {"pairs_per_s": sum(each["pairs_per_s"] for each in figures),
               "cpu_us": sum(each["cpu_us_per_pair"] * each["pairs"] for each in figures) / pairs,
               "server_us": (cpu_ticks(self.server) - before) * 1e6 / TICKS / pairs,
               "p50_us": max(each.get("begin_p50_us", 0) + each.get("finish_p50_us", 0)
                             or each["p50_us"] for each in figures),
               "p99_us": max(max(each.get("begin_p99_us", 0), each.get("finish_p99_us", 0))
                             or each["p99_us"] for each in figures)}
        self.rows.setdefault((name, in_flight), []).append(row)
        print(f"  {name:<20} {in_flight:>4} in flight: {row['pairs_per_s']:7.0f} pairs/s",
              file=sys.stderr)

    def insert(self, name: str, batch: int, port: int) -> None:
        """A batch of 0: single statements."""
        self.measure(name, max(batch, 1), [[self.build / "bench/postgres_rows", self.url_at(port),
                                            self.seconds, batch]])

    def pairs(self, name: str, in_flight: int, gateways: int, port: int) -> None:
        build, url_at = self.beside if name.endswith(BESIDE) else self.own
        command = [build / "bench/store_pairs", url_at(port), 0, self.seconds, in_flight,
                   *([0] if name == AUTO else [])]
        self.measure(name, in_flight, [command] * gateways)

    def single(self, in_flight: int) -> None:
        """One gateway, and that of the other version: now this one first, now that one."""
        names = [gateways_name(1), *([gateways_name(1) + BESIDE] if self.beside else [])]
        self.turn += 1
        for name in names if self.turn % 2 else names[::-1]:
            self.pairs(name, in_flight, 1, self.server.port)

    def round(self, depths: tuple[int, ...], gateways: tuple[int, ...], delayed: int) -> None:
        port = self.server.port
        for in_flight in depths:
            self.insert(LIMIT, in_flight, port)
            self.single(in_flight)
            self.pairs(AUTO, in_flight, 1, port)
            for n in gateways[1:]:
                self.pairs(gateways_name(n), in_flight, n, port)
        self.insert(SINGLE, 0, delayed)
        self.pairs(DELAYED, CONNECTIONS, 1, delayed)


def measure(build: Path, options: Any) -> Rows:
    """Each round on one server, all rows of it in turn."""
    try:
        from server import Server, find_programs
        find_programs()
    except (ImportError, AssertionError) as missing:
        raise Failure(f"{missing}: scripts/setup --test installs PostgreSQL") from missing
    depths, gateways = (SMOKE_DEPTHS, SMOKE_GATEWAYS) if options.smoke else (DEPTHS, GATEWAYS)
    with Server(durable=True, **SETTINGS) as server:
        own = build, server.add_database().url_at
        beside = (options.beside, server.add_database().url_at) if options.beside else None
        with Delay(server.port, ROUND_TRIP_S) as delay:
            bench = Bench(server, own, beside, options.seconds)
            print(f"store: {options.records} records first", file=sys.stderr)
            bench.fill(options.records)
            for number in range(options.rounds):
                print(f"round {number + 1}", file=sys.stderr)
                bench.round(depths, gateways, delay.port)
    return bench.rows


# ---- what is printed ----


def ratio(rows: Rows, name: tuple[str, int], other: tuple[str, int],
          figure: str = "pairs_per_s") -> float:
    return statistics.median(row[figure] / (beside[figure] or 1)  # a moment may take no tick
                             for row, beside in zip(rows[name], rows[other]))


def beside_aims(rows: Rows) -> list[Aim]:
    """One gateway, in shares and multiples of the version before."""
    aims, one, other = [], gateways_name(1), gateways_name(1) + BESIDE
    for in_flight, most in ((1, 0.4), (16, 0.6), (CONNECTIONS, 0.6), (256, 0.7)):
        if (other, in_flight) in rows:
            aims.append(Aim(f"at {in_flight}, server's CPU, share of before",
                            ratio(rows, (one, in_flight), (other, in_flight), "server_us"), most))
    for in_flight, least in ((1, 2.2), (16, 1.8), (CONNECTIONS, 1.7)):
        if (other, in_flight) in rows:
            aims.append(Aim(f"at {in_flight}, pairs/s, times before",
                            ratio(rows, (one, in_flight), (other, in_flight)), least,
                            at_least=True))
    return aims


def aims_of(rows: Rows) -> list[Aim]:
    aims = beside_aims(rows)
    for what, name, other, least in (
            ("auto at 256, share of the server's limit", (AUTO, 256), (LIMIT, 256), 0.36),
            *((f"auto at {n}, times one session", (AUTO, n), (gateways_name(1), n), 0.95)
              for n in (1, 16, CONNECTIONS)),
            ("four gateways at 64, times two", (gateways_name(4), CONNECTIONS),
             (gateways_name(2), CONNECTIONS), 1),
            ("at 64, 2 ms away, times single statements", (DELAYED, CONNECTIONS), (SINGLE, 1), 25)):
        if name in rows:
            aims.append(Aim(what, ratio(rows, name, other), least, at_least=True))
    return aims


def text_of(rows: Rows, options: Any) -> list[str]:
    lines = [f"the store on PostgreSQL, medians of {options.rounds} rounds of {options.seconds} s, "
             f"{options.records} records first",
             f"{'':<20} {'in flight':>9} {'pairs/s':>8} {'CPU us/pair':>12} {'server':>7} "
             f"{'p50 ms':>7} {'p99 ms':>7}"]
    for (name, in_flight), of in rows.items():
        row = {figure: statistics.median(each[figure] for each in of) for figure in of[0]}
        lines.append(f"{name:<20} {in_flight:>9} {row['pairs_per_s']:>8.0f} {row['cpu_us']:>12.1f} "
                     f"{row['server_us']:>7.1f} {row['p50_us'] / 1e3:>7.2f} "
                     f"{row['p99_us'] / 1e3:>7.2f}")
    return [*lines, "", f"{'aims':<48} {'measured':>9}", *(aim.text() for aim in aims_of(rows))]


def results_of(rows: Rows) -> dict:
    return {"rounds": [{"name": name, "in_flight": in_flight, "rounds": of}
                       for (name, in_flight), of in rows.items()],
            "aims": [{**asdict(aim), "met": aim.is_met()} for aim in aims_of(rows)]}
