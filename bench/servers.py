# SPDX-License-Identifier: Apache-2.0
"""The processes of one run of the bench: upstream, proxies, peers. Each is ended by its id."""
from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Iterator

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"
PEERS = ROOT / "build" / "peers"
NAMES = ["upstream", "nginx", "haproxy", "floor", "pawl", "pawl_beside", "pawl_big", "plain",
         "express_idempotency", "node_idempotency", "redis", "nginx_lua", "redis_lua",
         "express_postgres"]


class Failure(Exception):
    """What makes a figure worthless; its text is for the user."""


def children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cpu_of(stat: Path) -> tuple[str, int, int]:
    """Name, user and kernel ticks of a process or thread."""
    name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
    fields = rest.split()
    return name, int(fields[11]), int(fields[12])


def peak_mib_of(pids: list[int]) -> float:
    """The most memory they have held so far, the sum of their VmHWM; what they share as one piece,
    as PostgreSQL's processes do, once."""
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    peaks, shared = ([int(re.search(rf"^{name}:\s*(\d+)", text, re.M).group(1)) for text in texts]
                     for name in ("VmHWM", "RssShmem"))
    return (sum(peaks) - sum(shared) + max(shared)) / 1024


class Server:
    """A process of this run, and what it started. `beside`: a server that it needs and that works
    for it alone; what that uses counts as its own."""

    def __init__(self, name: str, command: list, port: int, place: Path, beside: Any = None):
        self.name, self.command, self.port, self.beside = name, command, port, beside
        self.place = place
        self.start()

    def start(self) -> None:
        log = self.place / f"{self.name}.log"
        environment = {**os.environ, "NODE_PATH": str(PEERS / "node_modules"),
                       "NODE_ENV": "production"}
        with log.open("ab") as sink:
            self.process = subprocess.Popen(self.command, cwd=self.place, stdin=subprocess.DEVNULL,
                                            stdout=sink, stderr=sink, env=environment)
        for _ in range(400):
            if self.process.poll() is not None:
                break
            with contextlib.suppress(OSError), \
                    socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.05)
        self.end()
        raise Failure(f"{self.name} did not start:\n{log.read_text()[-2000:]}")

    def pids(self) -> list[int]:
        return [self.process.pid, *children(self.process.pid)]

    def ticks(self) -> int:
        """Processor time of all threads of all its processes so far."""
        own = sum(sum(cpu_of(Path(f"/proc/{pid}/stat"))[1:]) for pid in self.pids())
        return own + (self.beside.ticks() if self.beside else 0)

    def threads(self) -> dict[str, list[int]]:
        """The same of its first process, by name of thread: user and kernel."""
        found: dict[str, list[int]] = {}
        for stat in Path(f"/proc/{self.process.pid}/task").glob("*/stat"):
            name, user, kernel = cpu_of(stat)
            sums = found.setdefault(name, [0, 0])
            sums[0] += user
            sums[1] += kernel
        return found

    def peak_mib(self) -> float:
        return peak_mib_of(self.pids()) + (self.beside.peak_mib() if self.beside else 0)

    def kill(self) -> None:
        """As when the machine dies, but for what the kernel has not written yet."""
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def free_ports(names: list[str]) -> dict[str, int]:
    """Below those that the kernel gives to clients, so that none takes them before the server;
    above those of the tests."""
    with contextlib.ExitStack() as stack:
        ports: dict[str, int] = {}
        for port in random.sample(range(32000, 32768), 200):
            if len(ports) == len(names):
                break
            with contextlib.suppress(OSError):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
                ports[names[len(ports)]] = port
        return ports


class Stage:
    """All that runs beside each other, and where it does. A pawl that the rounds start anew is one
    of the same port, with other words in its config."""

    def __init__(self, place: Path, build: Path, big: Path | None, beside: Path | None):
        self.place, self.build, self.big, self.beside = place, build, big, beside
        self.ports = free_ports(NAMES)
        self.servers: dict[str, Server] = {}
        self.stack = contextlib.ExitStack()
        for source in BENCH.glob("*.in"):
            if source.stem != "pawl.yaml":
                self.write(source, source.stem, {**self.ports, "peers": BENCH / "peers"})

    def write(self, source: Path, name: str, words: dict[str, object]) -> None:
        answer = {"id": "pay_00001234", "status": "authorized", "amount": 12500, "currency": "EUR"}
        answer["note"] = "n" * (300 - len(json.dumps(answer)) - len(', "note": ""'))
        text = source.read_text().replace("@ANSWER@", json.dumps(answer))
        for word, value in words.items():
            text = text.replace(f"@{word.upper()}@", str(value))
        (self.place / name).write_text(text)

    def __enter__(self) -> Stage:
        with contextlib.ExitStack() as stack:
            self.stack = stack
            self.start_proxies()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def start(self, name: str, command: list, beside: Server | None = None) -> Server:
        server = Server(name, command, self.ports[name], self.place, beside)
        self.servers[name] = server
        # Whoever stands under the name by then: a pawl may have been started anew.
        self.stack.callback(lambda: self.servers[name].end())
        return server

    def start_proxies(self) -> None:
        for name in ("upstream", "nginx"):
            self.start(name, ["nginx", "-p", self.place, "-c", self.place / f"{name}.conf",
                              "-e", f"{name}.log"])
        self.start("haproxy", ["haproxy", "-db", "-f", self.place / "haproxy.cfg"])
        self.start("floor", [self.build / "bench/floor", str(self.ports["floor"]),
                             str(self.ports["upstream"]), self.place / "floor.db"])
        self.stores = {"pawl": (self.build, self.place / "pawl.db")}
        if self.beside:
            self.stores["pawl_beside"] = (self.beside, self.place / "beside.db")
        for name in self.stores:
            self.start(name, self.pawl(name, "32MiB"))
        if self.big:
            self.stores["pawl_big"] = (self.build, self.big)
            self.start("pawl_big", self.pawl("pawl_big", "32MiB"))

    def pawl(self, name: str, cache: str) -> list:
        build, store = self.stores[name]
        config = f"{name}-cache-{cache}.yaml"
        self.write(BENCH / "pawl.yaml.in", config,
                   {"port": self.ports[name], "upstream": self.ports["upstream"], "store": store,
                    "cache": cache})
        return [build / "pawl", "serve", "-c", self.place / config]

    @contextlib.contextmanager
    def without_cache(self) -> Iterator[None]:
        """pawl on the same store with `cache: 0`, for as long as it lasts."""
        try:
            self.restart("0")
            yield
        finally:
            self.restart("32MiB")

    def restart(self, cache: str) -> None:
        for name in ("pawl", "pawl_beside") if self.beside else ("pawl",):
            self.servers[name].end()
            self.servers[name] = Server(name, self.pawl(name, cache), self.ports[name], self.place)
