# SPDX-License-Identifier: Apache-2.0
"""`pawl each` beside xargs and GNU parallel, with `true` as the command, and what one `pawl run`,
`pawl send` and `pawl queue add` take beside `true` and curl: called by scripts/bench --jobs."""
from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from report import Aim
from servers import BENCH, Failure, Server, cpu_of, free_ports

AT_A_TIME = 16
RUNS = 200  # of a single command, in all rounds together
XARGS, PARALLEL, EACH = "xargs -P 16", "parallel -j 16", "pawl each -j 16"
PARALLEL_DONE, EACH_DONE = "parallel, all done", "pawl each, all done"
ALONE, RUN, RUN_DONE = "true", "pawl run", "pawl run, done"
CURL, SEND, SEND_DONE, ADD = "curl", "pawl send", "pawl send, done", "pawl queue add"
STANDS_BESIDE = {ALONE: ALONE, RUN: ALONE, RUN_DONE: ALONE, CURL: CURL, SEND: CURL,
                 SEND_DONE: CURL, ADD: ALONE}
OTHER = ", other"  # of the other version
BEAT = 0.005  # seconds between two looks at a thread
TICK = 1 / os.sysconf("SC_CLK_TCK")
Rows = dict[str, list[dict[str, float]]]


def store_ns(pid: int) -> int:
    """Processor time so far of the thread that writes the store; 0: there is none."""
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            if (task / "comm").read_text().strip() == "pawl-store":
                return int((task / "schedstat").read_text().split()[0])
    return 0


class Bench:
    def __init__(self, pawl: Path, other: Path | None, place: Path, items: int, runs: int):
        self.upstream = start_upstream(place)
        self.url = f"http://127.0.0.1:{self.upstream.port}/operations"
        self.pawl, self.place, self.items, self.runs = str(pawl), place, items, runs
        self.builds = {"": str(pawl), **({OTHER: str(other)} if other else {})}
        self.file = place / "items"
        self.file.write_text("".join(f"{i}\n" for i in range(items)))
        self.true, self.curl = shutil.which("true") or "true", shutil.which("curl") or "curl"
        self.rows: Rows = {}
        self.turn = 0

    def store(self) -> str:
        return str(self.place / f"{self.turn}.db")

    def measure(self, name: str, *command: str) -> None:
        """A command that goes through all items. What it took itself, without its commands, is in
        /proc as long as it is not reaped."""
        with self.file.open() as given:
            began = time.monotonic()
            process = subprocess.Popen(command, stdin=given, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE)
            store = 0
            while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                store = max(store, store_ns(process.pid)) if "pawl" in name else 0
                time.sleep(BEAT)
            took = time.monotonic() - began
        own = sum(cpu_of(Path(f"/proc/{process.pid}/stat"))[1:]) * TICK
        said = process.stderr.read().decode()
        process.stderr.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise Failure(f"{command} ended with {process.returncode}: {said}")
        self.add(name, {"per_s": self.items / took,
                        "cpu_us": (usage.ru_utime + usage.ru_stime) / self.items * 1e6,
                        "own_us": own / self.items * 1e6, "store_us": store / self.items / 1e3})

    def add(self, name: str, figures: dict[str, float]) -> None:
        self.rows.setdefault(name, []).append(figures)

    def all_items(self) -> None:
        log = str(self.place / f"{self.turn}.log")
        parallel = ("parallel", "--will-cite", f"-j{AT_A_TIME}", "--joblog", log, "--resume",
                    self.true)
        each = (self.pawl, "each", "--key", "bench:{}", f"-j{AT_A_TIME}", "--store", self.store(),
                "--silent", "--", self.true)
        contenders = [lambda: self.measure(XARGS, "xargs", f"-P{AT_A_TIME}", "-n1", self.true),
                      lambda: self.measure(PARALLEL, *parallel), lambda: self.measure(EACH, *each)]
        for i in range(3):  # another one first in each round
            contenders[(self.turn + i) % 3]()
        self.measure(PARALLEL_DONE, *parallel)
        self.measure(EACH_DONE, *each)

    def spawn(self, *command: str) -> dict[str, float]:
        """From posix_spawn to its end, and the processor time of it and what it started."""
        quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        began = time.monotonic()
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=quiet)
        _, status, usage = os.wait4(pid, 0)
        took = (time.monotonic() - began) * 1000
        if status != 0:
            raise Failure(f"{command} ended with {os.waitstatus_to_exitcode(status)}")
        return {"ms": took, "cpu_ms": (usage.ru_utime + usage.ru_stime) * 1000}

    def commands_of(self, pawl: str, key: str, store: str) -> list[tuple[str, tuple[str, ...]]]:
        keyed = ("--key", key, "--store", store)
        run = (pawl, "run", *keyed, "--", self.true)
        send = (pawl, "send", *keyed, "-d", "a", self.url)
        return [(RUN, run), (RUN_DONE, run), (SEND, send), (SEND_DONE, send),
                (ADD, (pawl, "queue", "add", *keyed, "-d", "a", self.url))]

    def single(self) -> None:
        for i in range(self.runs):
            self.add(ALONE, self.spawn(self.true))
            self.add(CURL, self.spawn(self.curl, "-sf", "-d", "a", self.url))
            for of, pawl in sorted(self.builds.items(), reverse=i % 2 == 1):
                store = f"{self.store()}{'-other' if of else ''}"
                for name, command in self.commands_of(pawl, f"bench:{self.turn}-{i}", store):
                    self.add(f"{name}{of}", self.spawn(*command))

    def round(self) -> None:
        self.turn += 1
        self.all_items()
        self.single()


def start_upstream(place: Path) -> Server:
    """What answers all that is sent."""
    [port] = free_ports(["upstream"]).values()
    text = (BENCH / "upstream.conf.in").read_text().replace("@UPSTREAM@", str(port))
    config = place / "upstream.conf"
    config.write_text(text.replace("@ANSWER@", '{"ok":true}'))
    return Server("upstream", ["nginx", "-p", str(place), "-c", str(config)], port, place)


def measure(build: Path, options: Any) -> Rows:
    missing = [name for name in ("xargs", "parallel", "curl", "nginx") if not shutil.which(name)]
    if missing:
        raise Failure(f"{', '.join(missing)} missing: scripts/setup --bench installs them")
    runs = max(2, min(RUNS, options.records) // options.rounds)
    with tempfile.TemporaryDirectory(prefix="jobs-", dir=options.out) as place:
        other = options.beside and options.beside / "pawl"
        bench = Bench(build / "pawl", other, Path(place), options.records, runs)
        try:
            for number in range(options.rounds):
                print(f"round {number + 1}", file=sys.stderr)
                bench.round()
        finally:
            bench.upstream.end()
    return bench.rows


# ---- what is printed ----


def ratio(rows: Rows, name: str, other: str) -> float:
    return statistics.median(row["per_s"] / beside["per_s"]
                             for row, beside in zip(rows[name], rows[other]))


def median(rows: Rows, name: str, figure: str) -> float:
    return statistics.median(row[figure] for row in rows[name])


def beside_of(name: str) -> str:
    return STANDS_BESIDE[name.removesuffix(OTHER)]


def more(rows: Rows, name: str) -> float:
    """Milliseconds that it takes more than what stands beside it."""
    return median(rows, name, "ms") - median(rows, beside_of(name), "ms")


def aims_of(rows: Rows) -> list[Aim]:
    return [Aim("pawl each, items/s, times GNU parallel's", ratio(rows, EACH, PARALLEL), 4,
                at_least=True),
            Aim("pawl each, time, times xargs'", ratio(rows, XARGS, EACH), 2),
            Aim("pawl run, ms more than the command alone", more(rows, RUN), 5),
            Aim("pawl send, ms more than curl", more(rows, SEND), 5),
            Aim("pawl queue add, ms more than true", more(rows, ADD), 5)]


def text_of(rows: Rows, options: Any) -> list[str]:
    lines = [f"jobs, medians of {options.rounds} rounds of {options.records} items",
             f"{'':<22} {'items/s':>9} {'CPU us/item':>12} {'own':>7} {'store':>7}"]
    for name in (XARGS, PARALLEL, EACH, PARALLEL_DONE, EACH_DONE):
        figures = [median(rows, name, figure) for figure in ("cpu_us", "own_us", "store_us")]
        lines.append(f"{name:<22} {median(rows, name, 'per_s'):>9.0f} {figures[0]:>12.1f} "
                     f"{figures[1]:>7.1f} {figures[2]:>7.1f}")
    lines += ["", f"{f'one, median of {len(rows[ALONE])}':<22} {'ms':>9} {'CPU ms':>12} "
                  f"{'more':>7} {'times':>7}"]
    for name in [name + of for of in ("", OTHER) for name in STANDS_BESIDE if name + of in rows]:
        figures = [median(rows, name, figure) for figure in ("ms", "cpu_ms")]
        times = statistics.median(row["ms"] / other["ms"]
                                  for row, other in zip(rows[name], rows[beside_of(name)]))
        lines.append(f"{name:<22} {figures[0]:>9.2f} {figures[1]:>12.2f} "
                     f"{more(rows, name):>7.2f} {times:>7.2f}")
    return [*lines, "", f"{'aims':<48} {'measured':>9}", *(aim.text() for aim in aims_of(rows))]


def results_of(rows: Rows) -> dict:
    return {"rounds": rows, "aims": [{**asdict(aim), "met": aim.is_met()} for aim in aims_of(rows)]}
