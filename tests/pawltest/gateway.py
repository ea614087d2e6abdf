# SPDX-License-Identifier: Apache-2.0
"""The gateway under test as a process, and the clock that a test moves."""
from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import json
import mmap
import os
import random
import re
import select
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
import weakref
from pathlib import Path
from typing import Any, Callable

from pawltest.wire import PATIENCE, Answer, Client, Headers, eventually, request_bytes

ROOT = Path(__file__).resolve().parents[2]
PAWL = Path(os.environ.get("PAWL_BIN", ROOT / "build" / "pawl")).absolute()
READY = re.compile(r"^pawl: ready\b")
WANTED = request_bytes("POST", "/refunds", [("Idempotency-Key", "k1")], b"{}")
# What no run may print, however it ends.
ALARMS = re.compile(r"assertion failed|AddressSanitizer|ThreadSanitizer|LeakSanitizer|"
                    r"runtime error:|MemorySanitizer|stack smashing")
NOTICE = 0.5  # how long its loops are given to see that the clock was moved
ANSWER = 2.0  # how long a server is given to respond to it; some tests halt theirs
REST = 5.0  # how long a gateway is given to come to rest; one under load never does
# Before a command: it dies with the thread that started it. A function between fork and exec would
# have Python copy itself.
DIE_WITH_THE_TEST = ("setpriv", "--pdeathsig", "KILL")


def run(*arguments: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """A pawl command to its end."""
    return subprocess.run([str(PAWL), *map(str, arguments)], capture_output=True, text=True,
                          timeout=PATIENCE, check=False, **more)


turns = itertools.count(random.randrange(550))


def free_port() -> int:
    """Below the range from which connections get theirs, so that none takes it during a restart.
    Suites that run at the same time, four at most, and processes of pytest-xdist, ten at most, have
    ranges of their own. One after the other: what was given out may not be listened on yet."""
    lane = int(os.environ.get("PAWL_TEST_LANE", "0"))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for turn in turns:
        port = 10000 + turn % 550 * 40 + lane * 10 + worker
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def is_at_work(pid: int) -> bool:
    """Whether a thread of it runs, would run, or waits for a disk."""
    try:
        stats = [(task / "stat").read_text("latin-1")
                 for task in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return False  # it ends
    return any(stat.rpartition(")")[2].split()[0] in "RD" for stat in stats)


def asks_a_server(pid: int) -> bool:
    """Whether its store waits for PostgreSQL, as far as the kernel says so."""
    found = False
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            if (task / "comm").read_text("latin-1").strip() == "pawl-store":
                found |= "poll" in (task / "wchan").read_text("latin-1")
    return found


def naps(pid: int) -> dict[str, int]:
    """How often each of its loops has gone to sleep. They do at least every few milliseconds."""
    found = {}
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            lines = (task / "status").read_text("latin-1").splitlines()
            fields = dict(line.split(":\t", 1) for line in lines)
            if fields["Name"] == "pawl-loop":
                found[task.name] = int(fields["voluntary_ctxt_switches"])
    return found


def stands_still(pid: int) -> bool:
    """Whether SIGSTOP has halted it."""
    with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


class Clock:
    """The time of builds with hooks: what all processes add to both their clocks. It is moved while
    the gateways rest: what they have begun takes them none of it, however slow the machine is."""

    def __init__(self, path: Path):
        path.write_bytes(bytes(8))
        self.path = path
        self.processes: list[subprocess.Popen[str]] = []  # the gateways that go by it
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)
        # A plain store of 8 aligned bytes: no reader sees half of it.
        self._offset_us = ctypes.c_int64.from_buffer(self._map)

    @property
    def offset(self) -> float:
        """How many seconds they are ahead."""
        return self._offset_us.value / 1_000_000

    def advance(self, seconds: float) -> None:
        began = time.monotonic()
        while time.monotonic() < began + REST and any(
                is_at_work(one.pid) or (time.monotonic() < began + ANSWER and
                                        asks_a_server(one.pid)) for one in self.processes):
            time.sleep(0.001)
        self._offset_us.value += int(seconds * 1_000_000)

    def step(self, seconds: float) -> None:
        """Moves on, and lets the gateways do what is due: a loop that was awake sleeps once before
        it sees the new time. Stopped ones are not waited for."""
        self.advance(seconds)
        before = {one.pid: naps(one.pid) for one in self.processes}
        end = time.monotonic() + NOTICE
        while time.monotonic() < end and any(
                count < before[pid].get(loop, count) + 2
                for pid in before for loop, count in naps(pid).items()):
            time.sleep(0.002)

    def run_until(self, is_over: Callable[[], Any], step: float = 0.2) -> None:
        """Moves on step by step until it is over: for a span that begins when the gateway takes
        notice, whenever that is."""
        def moved() -> Any:
            self.step(step)
            return is_over()

        eventually(moved, "the end of its time")


@functools.cache
def new_store_file() -> tuple[bytes, bytes]:
    """A store as pawl makes it, and the secret in it."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "pawl.db"
        made = run("each", "--store", path, "--key", "{}", "-a", os.devnull, "--", "true")
        assert made.returncode == 0, made
        with contextlib.closing(sqlite3.connect(path)) as store:
            secret, = store.execute("SELECT secret FROM pawl_secret").fetchone()
        return path.read_bytes(), secret


def make_store(path: Path) -> Path:
    """A new one with a secret of its own, unless there is one. To make its tables is half of what
    the life of a gateway costs: a copy has them."""
    if path.exists():
        return path
    content, secret = new_store_file()
    path.parent.mkdir(exist_ok=True)
    path.touch(0o600)
    path.write_bytes(content.replace(secret, os.urandom(len(secret))))
    return path


def file_in(directory: Path) -> Path:
    return make_store(directory / "pawl.db")


class Gateway:
    """`pawl serve` with one config, store and port; may be killed and started any number of times.
    Start it on the test's own thread: it dies with the thread that started it."""

    # Which store one has whose directory this is: a file of SQLite, or the URL of a database.
    new_store: Callable[[Path], Path | str] = staticmethod(file_in)
    made: weakref.WeakSet[Gateway] = weakref.WeakSet()

    def __init__(self, directory: Path, upstream_port: int, config: str, clock: Clock):
        self.directory = directory
        self.port = free_port()
        self.store = Gateway.new_store(directory)
        self.config = directory / "pawl.yaml"
        self.clock = clock
        self.upstream_port = upstream_port
        self.upstream_host = "http://127.0.0.1"
        self.binary = PAWL
        self.wrapper: list[str] = []  # a command that runs it, and becomes it
        self.printed: list[str] = []  # stdout and stderr, of all its lives
        self.process: subprocess.Popen[str] | None = None
        self._readers: list[threading.Thread] = []
        self.configure(config)
        Gateway.made.add(self)

    def move_to(self, store: str) -> Gateway:
        """Another store, from its next start on."""
        self.store = store
        self.configure(self._config_text)
        return self

    def configure(self, config: str) -> None:
        """Writes the config; addresses and store are put before it."""
        self._config_text = config
        self.config.write_text(f"listen: 127.0.0.1:{self.port}\n"
                               f"upstream: {self.upstream_host}:{self.upstream_port}\n"
                               f"store: {self.store_option}\n{config}")

    @property
    def store_option(self) -> str:
        """As a config names it."""
        return f"sqlite:{self.store}" if isinstance(self.store, Path) else self.store

    # ---- its life ----

    def start(self, **environment: str) -> Gateway:
        """Until it is ready; fails with what it printed when it is not."""
        assert self.binary.exists(), f"{self.binary} is not built"
        for _ in range(5):
            begin = len(self.printed)
            self._spawn(environment)
            if self._is_ready(begin):
                return self
            if not any("in use" in line for line in self.printed[begin:]):
                break
            self.port = free_port()
            self.configure(self._config_text)
        raise AssertionError("pawl is not ready:\n" + "\n".join(self.printed))

    def _spawn(self, environment: dict[str, str]) -> None:
        assert self.process is None, "it runs already"
        self.process = subprocess.Popen(
            [*DIE_WITH_THE_TEST, *self.wrapper, str(self.binary), "serve", "-c", str(self.config)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", cwd=self.directory,
            env={**os.environ, "PAWL_TEST_CLOCK": str(self.clock.path), **environment})
        self.clock.processes.append(self.process)
        for stream in (self.process.stdout, self.process.stderr):
            thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
            thread.start()
            self._readers.append(thread)

    def _read(self, stream: Any) -> None:
        for line in stream:
            self.printed.append(line.rstrip("\n"))

    def _is_ready(self, begin: int) -> bool:
        process = self.process
        eventually(lambda: process.poll() is not None
                   or any(READY.match(line) for line in self.printed[begin:]), "the ready line")
        if process.poll() is None:
            return True
        self._ended()
        return False

    def _ended(self) -> int:
        status = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        self._readers.clear()
        self.clock.processes.remove(self.process)
        self.process = None
        return status

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def reload(self, config: str) -> None:
        """Until the log says that the config is in force; fails with why it was refused."""
        begin = len(self.log)
        self.configure(config)
        self.signal(signal.SIGHUP)
        eventually(lambda: self.process.poll() is not None or self.lines("config_refused", begin)
                   or self.lines("config_reloaded", begin), "the reload")
        refused = self.lines("config_refused", begin)
        assert not refused and self.process.poll() is None, refused or "pawl died"

    def accept(self, config: str) -> str:
        """The config with the line that accepts the identity its one rule moves to."""
        self.configure(config)
        done = run("serve", "--test", "-c", self.config)
        line = re.search(r"`(moved: [0-9a-f]{8})`", done.stderr)
        assert line, done.stderr
        return re.sub(r"(name: [^,\n]+)(,|\n +)", rf"\1\2{line[1]}\2", config, count=1)

    def kill9(self) -> None:
        self.signal(signal.SIGKILL)
        self._ended()

    def stop(self) -> int:
        """SIGTERM; its exit status once it has drained."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Until it ends by itself; its exit status, negative for a signal."""
        return self._ended()

    def restart(self, **environment: str) -> None:
        if self.process is not None:
            assert self.stop() == 0
        self.start(**environment)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)

    @property
    def is_listening(self) -> bool:
        with socket.socket() as sock:
            sock.settimeout(PATIENCE)
            return sock.connect_ex(("127.0.0.1", self.port)) == 0

    @property
    def alarms(self) -> list[str]:
        return [line for line in self.printed if ALARMS.search(line)]

    @property
    def log(self) -> list[dict[str, Any]]:
        """Its JSON log lines."""
        return [json.loads(line) for line in list(self.printed) if line.startswith("{")]

    def lines(self, event: str, begin: int = 0) -> list[dict[str, Any]]:
        """Those of the log that are of that event, from that line on."""
        return [line for line in self.log[begin:] if line["event"] == event]

    def close(self) -> None:
        """The end of a test: it must still be able to end well."""
        if self.process is not None:
            self.go_on()
            status = self.stop()
            assert status == 0, f"pawl ended with {status}:\n" + "\n".join(self.printed)
        assert not self.alarms, "\n".join(self.printed)

    def discard(self) -> None:
        if self.process is not None:
            self.kill9()

    # ---- requests, each on a connection of its own ----

    def connect(self) -> Client:
        return Client(self.port)

    def request(self, method: str, target: str, headers: Headers = (), body: bytes = b"") -> Answer:
        with self.connect() as client:
            return client.request(method, target, headers, body)

    def post(self, target: str, body: Any = None, key: str | None = None,
             headers: Headers = ()) -> Answer:
        """POSTs JSON, or bytes as they are; `key` is written into the header as it stands."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        first = [] if key is None else [("Idempotency-Key", key)]
        return self.request("POST", target,
                            [*first, ("Content-Type", "application/json"), *headers], data)

    def post_up(self, *arguments: Any, **more: Any) -> Answer:
        """post(), once the store is up."""
        return self.when_up(lambda: self.post(*arguments, **more))

    @staticmethod
    def when_up(act: Callable[[], Answer]) -> Answer:
        """The response once the store is up: it counts as down for a moment when the clock jumped
        while it was busy, and then nothing was done."""
        def answered() -> Answer | None:
            answer = act()
            return None if answer["Error-Code"] == "DEPENDENCY.store_unavailable" else answer

        return eventually(answered, "the store")


class Relay(Gateway):
    """One without listener and upstream, which only delivers webhooks."""

    def configure(self, config: str) -> None:
        self._config_text = config
        self.config.write_text(f"store: {self.store_option}\n{config}")


def fill_the_places(gateway: Gateway, n: int, wanted: bytes = WANTED) -> list[Client]:
    """n clients that wait, where `max_waiting_per_key: n`: of n + 1 one is refused, and that proves
    that all others wait."""
    clients = [gateway.connect() for _ in range(n + 1)]
    for client in clients:
        client.send(wanted)
    ready, _, _ = select.select([client.sock for client in clients], [], [], PATIENCE)
    assert len(ready) == 1
    refused = next(client for client in clients if client.sock is ready[0])
    assert refused.answer().is_problem(429, "RATE_LIMIT.exceeded")
    refused.sock.close()
    return [client for client in clients if client is not refused]
