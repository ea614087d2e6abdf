# SPDX-License-Identifier: Apache-2.0
"""The service of examples/participant with faults: the header `Fault: POINT=ACT` names one, or with
a seed they come at random.

usage: payer.py PORT DATABASE [SEED]

POINT: insert, complete (before that statement), commit (after both), reply (after the commit).
ACT: die (the process), close (the connection), skip (the statement), wait (for LOCK of the
database), and before a reply a status that it has instead.
"""
from __future__ import annotations

import os
import random
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extensions

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "participant"))

import service  # noqa: E402  pylint: disable=wrong-import-position

LOCK = 42
POINTS = ("insert", "complete", "commit", "reply")
# The share of requests that each hits.
AT_RANDOM = [*((0.004, f"{point}=die") for point in POINTS),
             *((0.02, f"{point}=close") for point in POINTS),
             (0.02, "reply=500"), (0.02, "reply=503"), (0.02, "reply=200"),
             *((0.03, f"{point}=slow") for point in POINTS)]


class Closes(Exception):
    """Rolls back, and the client hears nothing."""


class Cursor(psycopg2.extensions.cursor):
    def execute(self, query: str, values: Any = None) -> None:
        handler = self.connection.handler
        point = "insert" if query.startswith("INSERT") else "complete"
        if handler.meet(point, super().execute) != "skip":
            super().execute(query, values)
        if point == "complete":
            handler.meet("commit", super().execute)


class Connection(psycopg2.extensions.connection):
    handler: Payer


class Payer(service.Payments):
    random = random.Random(int(sys.argv[3])) if len(sys.argv) > 3 else None
    fault = ""

    def do_POST(self) -> None:
        self.fault = self.headers["Fault"] or self.draw_fault()
        try:
            super().do_POST()
        except (Closes, OSError, psycopg2.Error):
            self.close_connection = True

    def draw_fault(self) -> str:
        draw = self.random.random() if self.random else 1.0
        for share, fault in AT_RANDOM:
            draw -= share
            if draw < 0:
                return fault
        return ""

    def meet(self, point: str, execute: Any) -> str:
        """What is to happen there; the rest of it is the caller's to do."""
        at, _, act = self.fault.partition("=")
        if at != point:
            return ""
        if act == "die":
            os._exit(1)
        if act == "close":
            raise Closes
        if act == "wait":
            execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        if act == "slow":
            time.sleep(0.3)
        return act

    def connect(self) -> Any:
        made = psycopg2.connect(self.database, connection_factory=Connection,
                                cursor_factory=Cursor)
        made.handler = self
        return made

    def execute_apart(self, query: str, values: Any) -> None:
        with closing(psycopg2.connect(self.database)) as own, own.cursor() as cursor:
            cursor.execute(query, values)

    def reply(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None
              ) -> None:
        act = self.meet("reply", self.execute_apart)
        lies = act == "200" and status >= 400  # pawl believes a refusal that says it is done
        super().reply(int(act) if act.isdigit() and not lies else status, body, headers)


if __name__ == "__main__":
    service.ThreadingHTTPServer.request_queue_size = 128
    service.main(Payer)
