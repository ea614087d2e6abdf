# SPDX-License-Identifier: Apache-2.0
"""Deliveries and received events on a gateway's store, as its commands show them."""
from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

from pawltest.gateway import Gateway, run
from pawltest.wire import eventually

LONG_DUE = 6  # how often one is seen that is due before it must be waiting for its lane
LONG_SENT = 15  # and one that is being sent, before its sender must be dead


def time_of(gateway: Gateway) -> str:
    """What time it is for that gateway, as pawl writes times."""
    now = datetime.now(timezone.utc) + timedelta(seconds=gateway.clock.offset)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


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

        def moved() -> bool:
            nonlocal overdue, sending
            rows = self.list()
            now = time_of(self.gateway)
            sent = any(row["state"] == "sending" for row in rows)
            due = any(row["state"] == "waiting" and row["due_at"] and row["due_at"] <= now
                      for row in rows)
            overdue = overdue + 1 if due and not sent else 0
            sending = sending + 1 if sent else 0
            near = sent or 0 < overdue < LONG_DUE or len(rows) < len(states)
            most = 2.0 if sending > LONG_SENT else 0.2 if near else step
            self.gateway.clock.step(min(step, most))
            return sorted(row["state"] for row in rows) == sorted(states)

        eventually(moved, f"tasks that are {states}")
        return self.list()
