# SPDX-License-Identifier: Apache-2.0
"""`pawl each` on one store, under the test's clock. Its commands append a line for each effect to
one file, the journal: that is the oracle."""
from __future__ import annotations

import errno
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any, Sequence

from pawltest.gateway import ALARMS, DIE_WITH_THE_TEST, PAWL, Clock, make_store
from pawltest.wire import PATIENCE, eventually

# Commands: what is in their `sh -c`, whose first argument is the item.
EFFECT = 'echo "$1" >> "$JOURNAL"'
# Says when it begins and ends, and waits in between for let_go().
HELD = ('echo "begin $1" >> "$JOURNAL"; read _ < "$GATES/$1"; echo "end $1" >> "$JOURNAL"')


def shell(script: str, *arguments: str) -> tuple[str, ...]:
    """A command for each item; without arguments the whole item is $1."""
    return ("--", "sh", "-c", script, "-", *(arguments or ("{}",)))


class Ran(subprocess.CompletedProcess[str]):
    """How a run ended; its output byte for byte, undecodable bytes as surrogates."""

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Those of --json but the sum."""
        return [json.loads(line) for line in self.stdout.splitlines()[:-1]]

    @property
    def sum(self) -> Any:
        """The last line of --json."""
        return json.loads(self.stdout.splitlines()[-1])

    @property
    def last(self) -> str:
        """The last line on standard error."""
        return self.stderr.splitlines()[-1]

    @property
    def results(self) -> dict[str, str]:
        """What --json says of each key."""
        return {line["key"]: line["result"] for line in self.lines if "key" in line}


class Each:
    """Runs on one store."""

    def __init__(self, directory: Path, clock: Clock, store: str = ""):
        self.directory = directory
        self.store = store or str(make_store(directory / "jobs.db"))
        self.journal = directory / "journal"
        self.gates = directory / "gates"
        self.gates.mkdir(exist_ok=True)
        self.clock = clock

    @property
    def now(self) -> float:
        """Seconds, as its commands count them."""
        return time.monotonic() + self.clock.offset

    # ---- runs ----

    def pawl(self, *words: Any, stdin: Any = subprocess.DEVNULL, **environment: str
             ) -> subprocess.Popen[bytes]:
        """Any command on the store."""
        made = subprocess.Popen(
            [*DIE_WITH_THE_TEST, str(PAWL.resolve()), *map(str, words)],
            stdin=stdin, cwd=self.directory, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PAWL_TEST_CLOCK": str(self.clock.path), "PAWL_STORE": self.store,
                 "JOURNAL": str(self.journal), "GATES": str(self.gates), **environment})
        self.clock.processes.append(made)
        return made

    def start(self, *words: Any, items: str | bytes | None = None, key: str = "{}",
              **environment: str) -> subprocess.Popen[bytes]:
        """`pawl each`; without `items` its standard input is a pipe that stays open."""
        process = self.pawl("each", "--key", key, *words, stdin=subprocess.PIPE, **environment)
        if items is not None:
            assert len(items) <= 4096 and process.stdin, "what a pipe holds at least"
            process.stdin.write(encode(items))
            process.stdin.close()
            process.stdin = None
        return process

    def end(self, process: subprocess.Popen[bytes], items: str | bytes | None = None,
            patience: float = 2 * PATIENCE) -> Ran:
        """`items` go to its standard input first."""
        data = None if items is None else encode(items)
        out, err = process.communicate(data, timeout=patience)
        self.clock.processes.remove(process)
        ran = Ran(process.args, process.returncode, decode(out), decode(err))
        assert not ALARMS.search(ran.stderr), ran.stderr
        return ran

    def run(self, *words: Any, items: str | bytes = "", key: str = "{}", **environment: str) -> Ran:
        return self.end(self.start(*words, key=key, **environment), items)

    def other(self, *words: Any) -> Ran:
        """Another command on the store, to its end."""
        return self.end(self.pawl(*words))

    # ---- what commands did ----

    @property
    def effects(self) -> list[str]:
        return decode(self.journal.read_bytes()).splitlines() if self.journal.exists() else []

    def hold(self, *names: str) -> None:
        """Gates for HELD commands."""
        for name in names:
            os.mkfifo(self.gates / name)

    def begun(self, n: int) -> list[str]:
        """Those that have begun, once n have."""
        def begun() -> list[str]:
            return [line[6:] for line in self.effects if line.startswith("begin ")]

        eventually(lambda: len(begun()) >= n, f"{n} commands that have begun")
        return begun()

    def let_go(self, *names: str) -> None:
        """Once they stand at their gates."""
        for name in names:
            gate = eventually(lambda name=name: self._open(name), f"{name} at its gate")
            os.write(gate, b"go\n")
            os.close(gate)

    def _open(self, name: str) -> int | None:
        try:
            return os.open(self.gates / name, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            assert error.errno == errno.ENXIO, error
            return None

    def running_most(self) -> int:
        """How many HELD commands ran at the same time, as the journal says."""
        now = most = 0
        for line in self.effects:
            now += 1 if line.startswith("begin ") else -1
            most = max(most, now)
        return most

    # ---- counters ----

    def counters(self) -> dict[str, int]:
        """`run`, `skipped`, `failed` and `doubt`, as `pawl stats` has them."""
        ran = self.other("stats", "--prometheus")
        assert ran.returncode == 0, ran
        rows = [line.split() for line in ran.stdout.splitlines()
                if line.startswith("pawl_job") and "result=" in line]
        return {row[0].partition('result="')[2].partition('"')[0]: int(row[1]) for row in rows}


def encode(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")


def decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def lines(items: Sequence[Any]) -> str:
    return "".join(f"{item}\n" for item in items)
