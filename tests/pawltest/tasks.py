# SPDX-License-Identifier: Apache-2.0
"""Deliveries and received events on a gateway's store, as its commands show them."""
from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Callable, Iterator

from pawltest.gateway import Gateway, run
from pawltest.wire import eventually

LONG_DUE = 20  # how often one is seen that is due before it must be waiting for its lane
LONG_SENT = 50  # and one that is being sent, before its sender must be dead
STATES = ("waiting", "sending", "done", "dead", "dropped")  # as stores number them
SECOND = 1_000_000  # of a store's time


def time_of(gateway: Gateway) -> str:
    """What time it is for that gateway, as pawl writes times."""
    now = datetime.now(timezone.utc) + timedelta(seconds=gateway.clock.offset)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


@contextlib.contextmanager
def watching(store: Path | str, kind: str) -> Iterator[Callable[[], list[tuple[str, int]]]]:
    """The state of each task of a kind, and when it is due, by SQL on one connection: to look so
    often by a command would be most of what a test costs."""
    query = "SELECT CAST(kind AS TEXT), state, due_at FROM pawl_task"
    if isinstance(store, Path):
        connection = sqlite3.connect(store, timeout=60)
    else:
        import psycopg2  # pylint: disable=import-outside-toplevel  # not everywhere
        connection = psycopg2.connect(store)
        query = "SELECT convert_from(kind, 'UTF8'), state, due_at FROM pawl.task"
    with contextlib.closing(connection):

        def look() -> list[tuple[str, int]]:
            with connection, contextlib.closing(connection.cursor()) as cursor:
                cursor.execute(query)
                return [(STATES[state], due) for of, state, due in cursor.fetchall() if of == kind]

        yield look


class Tasks:
    """A gateway, and the commands of a group (`webhook`, `inbox`) on its store."""

    group = ""

    def __init__(self, gateway: Gateway):
        self.gateway = gateway

    def run(self, *arguments: str) -> Any:
        return run(self.group, *arguments, "--store", self.gateway.store)

    def done(self, *arguments: str) -> str:
        ran = self.run(*arguments)
        assert ran.returncode == 0, ran
        return ran.stdout

    def list(self, *more: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.done("list", "--json", *more).splitlines()]

    def states(self, *more: str) -> list[str]:
        return [row["state"] for row in self.list(*more)]

    def id(self, row: int = 0) -> str:
        return str(self.list()[row]["id"])

    def show(self, row: int = 0) -> dict[str, Any]:
        return json.loads(self.done("show", self.id(row), "--json"))

    def until(self, *states: str, step: float = 0.2) -> list[dict[str, Any]]:
        """Until the tasks are in these states; the clock moves on, but by no more than a moment
        while one is due, being sent, or still to be made."""
        overdue = sending = 0
        found: list[dict[str, Any]] = []
        # Which of those that wait are parked its command says.
        wanted = sorted("waiting" if state == "parked" else state for state in states)

        def moved(look: Callable[[], list[tuple[str, int]]]) -> bool:
            nonlocal overdue, sending, found
            rows = look()
            now = int(time.time() + self.gateway.clock.offset)
            sent = any(state == "sending" for state, _ in rows)
            due = any(state == "waiting" and at // SECOND <= now for state, at in rows)
            overdue = overdue + 1 if due and not sent else 0
            sending = sending + 1 if sent else 0
            near = sent or 0 < overdue < LONG_DUE or len(rows) < len(states)
            most = 2.0 if sending > LONG_SENT else 0.2 if near else step
            self.gateway.clock.step(min(step, most))
            if sorted(state for state, _ in rows) == wanted:
                found = self.list()
            return sorted(row["state"] for row in found) == sorted(states)

        with watching(self.gateway.store, self.group) as look:
            eventually(lambda: moved(look), f"tasks that are {states}")
        return found
