# SPDX-License-Identifier: Apache-2.0
"""examples/offers on a database and a store of its own, and what its users must have got."""
from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Iterator
from zoneinfo import ZoneInfo

from pawltest.gateway import DIE_WITH_THE_TEST, PAWL, ROOT, Clock
from pawltest.wire import PATIENCE

EXAMPLE = ROOT / "examples/offers"
KEY = "{date:%s}:%s:%s:daily_offers"  # of zone, zone, user
SUMMARY = re.compile(r"pawl: (\d+) items?: (\d+) run(?:, (\d+) done before)?$")


def text_of(instant: datetime) -> str:
    return instant.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def changes_of(zone: str, year: int) -> list[datetime]:
    """The instants of a year at which the zone's clocks change, to the half hour."""
    at, end = (datetime(year + i, 1, 1, tzinfo=timezone.utc) for i in (0, 1))
    found, offset = [], at.astimezone(ZoneInfo(zone)).utcoffset()
    while (at := at + timedelta(minutes=30)) < end:
        before, offset = offset, at.astimezone(ZoneInfo(zone)).utcoffset()
        if offset != before:
            found.append(at)
    return found


def children(pid: int) -> dict[int, str]:
    """Its children, by their names."""
    found: dict[int, str] = {}
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                with contextlib.suppress(OSError):
                    found[int(child)] = Path(f"/proc/{child}/comm").read_text().strip()
    return found


class Scheduler:
    """The example; its processes go by `clock`, in builds that have one."""

    def __init__(self, place: Path, store: Path | str, clock: Clock | None = None):
        self.file = place / "offers.db"
        self.environment = {
            **os.environ, "OFFERS_DB": str(self.file), "PAWL_STORE": str(store),
            "PAWL_EXTENSION": str(PAWL.parent.resolve() / "pawl.so"),
            "PATH": f"{PAWL.parent.resolve()}:{os.environ['PATH']}",
            **({"PAWL_TEST_CLOCK": str(clock.path)} if clock else {})}
        self.expected: set[tuple[str, str]] = set()  # user and date
        assert self.run("./offers.py", "schema").returncode == 0

    def run(self, *command: Any, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(list(map(str, command)), cwd=EXAMPLE, capture_output=True, text=True,
                              env={**self.environment, **more}, timeout=PATIENCE, check=False)

    def start(self, at: datetime) -> subprocess.Popen[str]:
        """A host's scheduler, which makes the offers of that instant."""
        self.expected |= {(user, at.astimezone(ZoneInfo(zone)).date().isoformat())
                          for user, zone in self.rows("SELECT id, zone FROM users")}
        return subprocess.Popen([*DIE_WITH_THE_TEST, "./nightly", "--at", text_of(at)],
                                cwd=EXAMPLE, env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def night(self, at: datetime) -> tuple[list[str], int, int]:
        """To its end: what the commands printed, and how many items were run and skipped."""
        return self.end(self.start(at))

    def end(self, host: subprocess.Popen[str]) -> tuple[list[str], int, int]:
        printed, said = host.communicate(timeout=2 * PATIENCE)
        assert host.returncode == 0, said
        summary = SUMMARY.match(said.splitlines()[-1])
        assert summary, said
        return printed.splitlines(), int(summary[2]), int(summary[3] or 0)

    def job(self, user: str, zone: str, at: datetime) -> subprocess.CompletedProcess[str]:
        """The job of one user by hand, under its key."""
        return self.run("pawl", "run", "--key", KEY % (zone, zone, user), "--at", text_of(at),
                        "--", "./offers.py", "offer", "--user", user, "--zone", zone)

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.file, timeout=PATIENCE)) as conn, conn:
            return conn.execute(statement, values).fetchall()

    def set_users(self, users: list[tuple[str, str]]) -> None:
        self.rows("DELETE FROM users")
        for user in users:
            self.rows("INSERT INTO users VALUES (?, ?)", *user)

    def drop_index(self) -> None:
        """It would hide a second offer."""
        self.rows("DROP INDEX one_a_date")

    def check(self) -> None:
        """Each user has one offer for each local date on which the scheduler was run, no other."""
        offers = self.rows("SELECT user, date FROM offers")
        assert sorted(offers) == sorted(self.expected)


def hosts(process: subprocess.Popen[str]) -> Iterator[int]:
    """The `pawl each` that a nightly has started."""
    return (pid for pid, name in children(process.pid).items() if name == "pawl")


def kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
