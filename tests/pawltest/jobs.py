# SPDX-License-Identifier: Apache-2.0
"""`pawl run` on one store and in one folder, under the test's clock. What its commands do is
counted by the lines of a file; where they wait and go on is said by files and FIFOs, never by a
time."""
from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Sequence

from pawltest.admin import series
from pawltest.gateway import ALARMS, DIE_WITH_THE_TEST, PAWL, Clock, make_store, run
from pawltest.wire import PATIENCE, eventually

KEY = "2026-02-19:daily"
EFFECT = "echo done >> effects"
Done = subprocess.CompletedProcess[bytes]


class Gate:
    """Where commands wait: `read go < NAME`, or `IT`, goes on once it is opened, or the test has
    ended."""

    def __init__(self, folder: Path, name: str):
        self.path = folder / name
        os.mkfifo(self.path)
        self.fd = os.open(self.path, os.O_RDWR)
        self.waits = f"echo $$ > {name}.pid; mv {name}.pid {name}.at; read go < {name}"

    def wait_for(self) -> int:
        """Until a command waits there; its process."""
        at = self.path.with_suffix(".at")
        eventually(at.exists, f"a command at {self.path.name}")
        pid = int(at.read_text())
        at.unlink()
        return pid

    def open(self) -> None:
        """For one of them."""
        os.write(self.fd, b"go\n")

    def end(self) -> None:
        """For all that wait."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


class Jobs:
    """A store, a folder with a file of effects, and the commands that are run there."""

    def __init__(self, directory: Path, clock: Clock):
        self.folder = directory / "jobs"
        self.folder.mkdir()
        self.store = make_store(self.folder / "pawl.db")
        self.clock = clock
        self.gates: list[Gate] = []
        self.started: list[subprocess.Popen[bytes]] = []

    # ---- what commands do ----

    def gate(self, name: str = "gate") -> Gate:
        self.gates.append(Gate(self.folder, name))
        return self.gates[-1]

    def write(self, name: str, text: str = "") -> None:
        """All at once, for whoever looks whether it is there."""
        made = self.folder / f"{name}.new"
        made.write_text(text)
        made.rename(self.folder / name)

    def read(self, name: str) -> str:
        """Once a command has written it."""
        path = self.folder / name
        eventually(path.exists, f"the file {name}")
        return path.read_text()

    def effects(self) -> int:
        path = self.folder / "effects"
        return len(path.read_text().splitlines()) if path.exists() else 0

    # ---- runs ----

    def environment(self, more: dict[str, str]) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("PAWL_")}
        return {**own, "PAWL_TEST_CLOCK": str(self.clock.path), "PAWL_STORE": str(self.store),
                **more}

    def spawn(self, *words: Any, stdin: Any = subprocess.DEVNULL, stdout: Any = subprocess.PIPE,
              stderr: Any = subprocess.PIPE, command: Sequence[str] = (str(PAWL),),
              **environment: str) -> subprocess.Popen[bytes]:
        """`pawl run WORDS` in the folder, without a terminal."""
        made = subprocess.Popen(
            [*DIE_WITH_THE_TEST, *command, "run", *map(str, words)], cwd=self.folder, stdin=stdin,
            stdout=stdout, stderr=stderr, env=self.environment(environment),
            start_new_session=True)
        self.clock.processes.append(made)
        self.started.append(made)
        return made

    def start(self, script: str, *flags: Any, key: str = KEY, **more: Any
              ) -> subprocess.Popen[bytes]:
        return self.spawn("--key", key, *flags, "--", "sh", "-c", script, **more)

    def end(self, process: subprocess.Popen[bytes], given: bytes | None = None) -> Done:
        out, err = process.communicate(given, timeout=PATIENCE)
        self.clock.processes.remove(process)
        self.started.remove(process)
        assert not ALARMS.search((err or b"").decode("latin-1")), err
        return Done(process.args, process.returncode, out or b"", err or b"")

    def run(self, script: str, *flags: Any, key: str = KEY, **more: Any) -> Done:
        """A shell's command to its end."""
        return self.end(self.start(script, *flags, key=key, **more))

    def run_words(self, *words: Any, **more: Any) -> Done:
        return self.end(self.spawn(*words, **more))

    def merged(self, script: str, *flags: Any, **more: Any) -> bytes:
        """What it writes to both streams, in their order."""
        ran = self.run(script, *flags, stderr=subprocess.STDOUT, **more)
        assert ran.returncode == 0, ran
        return ran.stdout

    def end_later(self, process: subprocess.Popen[bytes], step: float = 1) -> Done:
        """Time moves on until it ends."""
        self.clock.run_until(lambda: process.poll() is not None, step)
        return self.end(process)

    def close(self) -> None:
        for gate in self.gates:
            gate.end()
        for process in self.started:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.communicate()
        for pid in self.left_behind():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def left_behind(self) -> list[int]:
        """Commands that still run in the folder, whose pawl was killed."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "cwd").readlink() == self.folder:
                    found.append(int(process.name))
        return found

    # ---- the store ----

    def keys(self, *words: Any) -> subprocess.CompletedProcess[str]:
        """`pawl keys WORDS`."""
        return run("keys", *words, env=self.environment({}))

    def record(self, key: str = KEY, *words: str) -> dict[str, Any]:
        shown = self.keys("show", key, "--json", *words)
        assert shown.returncode == 0, shown
        return json.loads(shown.stdout)

    def counted(self) -> dict[str, int]:
        """pawl_jobs_total, by result."""
        page = run("stats", "--prometheus", env=self.environment({}))
        assert page.returncode == 0, page
        return counted_jobs(series(page.stdout))


def counted_jobs(page: dict[tuple[str, Any], float]) -> dict[str, int]:
    return {dict(labels)["result"]: int(value) for (name, labels), value in page.items()
            if name == "pawl_jobs_total" and dict(labels).get("counted_in") == "store"}


def is_alive(pid: int) -> bool:
    """Whether the process runs: it has not ended, reaped or not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("latin-1")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
