# SPDX-License-Identifier: Apache-2.0
"""Every command of the guide, of the README and of some examples is run, page by page, as a reader
would type it: one shell a page, in a folder that holds nothing but the example's programs, with the
binary ($PAWL_BIN) as `pawl` and `build/pawl`. What a page shows under a command must come out of
it, line by line; `…` is anything. A block of YAML, SQL or Python is the file that its first line
names. The README's lines for curl: test_demo.py."""
from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import Empty, Queue
from typing import Iterator

import pytest

from pawltest.gateway import PAWL, ROOT, free_port

PAGES = sorted((ROOT / "docs/guide").glob("*.md"))
EXAMPLES = [ROOT / f"examples/{name}/README.md" for name in ("offers", "sync", "webhooks")]
BLOCK = re.compile(r"^```(console|yaml|sql|python)\n(.*?)^```$", re.M | re.S)
FILE = re.compile(r"(?:#|--) ([\w.-]+\.(?:yaml|sql|py))\n")
PORTS = ("8080", "8081", "9000", "9001")
PATIENCE = 60
END = "\001"
NO_LISTENER = "pawl: ready, delivering webhooks only"
KILLS = re.compile(r"kill (?:-9 )?((?:%\d ?|\$!|\$\(jobs -p\))+)")
KILLED = re.compile(r"bash: line \d+: +\d+ Killed ")


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block, with its continuation lines, and what it prints."""
    command, shown = "", []
    for line in block.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line[2:], []
        elif line.startswith("> "):
            command += "\n" + line[2:]
        else:
            assert command, f"{line!r} is under no command"
            shown.append(line)
    yield command, shown


def fits(shown: str, line: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), line) is not None


def missing(shown: list[str], printed: list[str]) -> str | None:
    """The first of the shown lines that does not come, in their order; a line `…` skips any."""
    at, free = 0, False
    for line in shown:
        if line == "…":
            free = True
            continue
        while free and at < len(printed) and not fits(line, printed[at]):
            at += 1
        if at >= len(printed) or not fits(line, printed[at]):
            return line
        at, free = at + 1, False
    return None if free or at >= len(printed) else f"nothing more, but there is {printed[at]!r}"


class Shell:
    """A bash of its own session, which ends with all that it started."""

    def __init__(self, folder: Path, environment: dict[str, str]):
        (folder / "bin").mkdir()
        (folder / "bin/pawl").symlink_to(PAWL.resolve())
        self.folder = folder / "work"
        (self.folder / "build").mkdir(parents=True)
        (self.folder / "build/pawl").symlink_to(PAWL.resolve())
        (self.folder / "build/pawl.so").symlink_to(PAWL.resolve().parent / "pawl.so")
        self.ports = {port: str(free_port()) for port in PORTS}
        home = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"),
                "PYTHONPATH": str(ROOT / "bindings/python"),
                "PAWL_EXTENSION": str(self.folder / "build/pawl.so")}
        self.process = subprocess.Popen(
            ["bash", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, cwd=self.folder, start_new_session=True,
            env={**os.environ, **home, **environment,
                 "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"})
        self._lines: Queue[str] = Queue()
        threading.Thread(target=lambda: [self._lines.put(line) for line in self.process.stdout],
                         daemon=True).start()

    def place(self, text: str) -> str:
        """With this run's ports in the places of the page's."""
        for port, own in self.ports.items():
            text = re.sub(rf"\b{port}\b", own, text)
        return text

    def unplace(self, text: str) -> str:
        for port, own in self.ports.items():
            text = re.sub(rf"\b{own}\b", port, text)
        return text

    def run(self, command: str) -> tuple[int, list[str]]:
        # A reader types slower than a process ends, whose port the next one may take.
        killed = KILLS.fullmatch(command)
        rest = (f" && {{ wait {killed[1]}; true; }}" if killed
                else "; true" if command.startswith("kill -9") else "")
        self.process.stdin.write(f"{self.place(command)}{rest}\n"
                                 f"__=$?; printf '\\n{END}%d\\n' $__; (exit $__)\n")
        self.process.stdin.flush()
        printed: list[str] = []
        while not (printed and printed[-1].startswith(END)):
            try:
                printed.append(self._lines.get(timeout=PATIENCE).rstrip("\n"))
            except Empty:
                raise AssertionError(f"{command!r} does not end: {printed}") from None
        if command.endswith("&"):
            self._wait_until_it_listens(command)
        # The newline before the mark is printf's, unless the output lacked its last one.
        lines = printed[:-2] if len(printed) > 1 and not printed[-2] else printed[:-1]
        return int(printed[-1][1:]), [self.unplace(line) for line in lines
                                      if not KILLED.match(line)]

    def _wait_until_it_listens(self, command: str) -> None:
        named = [port for port in PORTS if re.search(rf"\b{port}\b", command)]
        port = self.ports[named[0] if named else "8080" if "pawl serve" in command else "9000"]
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(port))) == 0:
                    return
            if any(NO_LISTENER in path.read_text() for path in self.folder.glob("*.log")):
                return
            time.sleep(0.02)
        logs = {path.name: path.read_text() for path in self.folder.glob("*.log")}
        raise AssertionError(f"{command!r} does not listen: {logs}")

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


@pytest.fixture
def environment(page: Path) -> Iterator[dict[str, str]]:
    """Where psql finds a server, for a page that uses it."""
    if "$ psql" not in page.read_text("utf-8"):
        yield {}
        return
    sys.path.insert(0, str(ROOT / "tests/postgres"))
    from server import SUPERUSER, Server  # needs psycopg2, which is not everywhere

    with Server() as server:
        yield {"PGHOST": str(server.directory), "PGPORT": str(server.port), "PGUSER": SUPERUSER}


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES, *EXAMPLES],
                         ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_the_guide_does_what_is_shown(page, tmp_path, environment):
    shell = Shell(tmp_path, environment)
    if page in EXAMPLES:
        for file in filter(Path.is_file, page.parent.iterdir()):
            (shell.folder / file.name).write_text(shell.place(file.read_text("utf-8")))
            (shell.folder / file.name).chmod(file.stat().st_mode)
    try:
        for kind, block in BLOCK.findall(page.read_text("utf-8")):
            if kind != "console":
                name = FILE.match(block)
                assert name, f"a block without the name of its file:\n{block}"
                (shell.folder / name[1]).write_text(shell.place(block))
                continue
            steps = list(commands(block))
            for i, (command, shown) in enumerate(steps):
                status, printed = shell.run(command)
                asked = i + 1 < len(steps) and steps[i + 1][0] == "echo $?"
                assert status == 0 or asked, f"$ {command}\nexit code {status}: {printed}"
                lacks = missing(shown, printed) if shown else None
                assert lacks is None, f"$ {command}\nshould print {lacks!r}, not:\n" + \
                    "\n".join(printed)
    finally:
        shell.close()


def test_the_guide_has_its_pages_and_leads_to_each():
    front = (ROOT / "docs/guide/README.md").read_text("utf-8")
    assert len(PAGES) >= 14
    assert [p.name for p in PAGES if p.name != "README.md" and f"]({p.name})" not in front] == []
    assert sum(page.read_text("utf-8").count("\n$ ") for page in PAGES) >= 40
