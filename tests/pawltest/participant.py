# SPDX-License-Identifier: Apache-2.0
"""A participant behind gateways: payer.py as a process, and what it did."""
from __future__ import annotations

import socket
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2

from pawltest.gateway import DIE_WITH_THE_TEST, ROOT, free_port
from pawltest.wire import PATIENCE, eventually

PROGRAM = Path(__file__).with_name("payer.py")
SCHEMA = ROOT / "examples" / "participant" / "schema.sql"
LOCK = 42  # payer.py waits for it
CONFIG = """
tenant: none
threads: 1
defaults: {timeout: 20s, lease: 500ms, in_progress: {wait: 20s}, unknown: participant}
rules:
  - {name: payments.create, match: POST /payments}
  - {name: at.once, match: POST /at-once, in_progress: conflict}
  - {name: small, match: POST /small, max_response_body: 4}
"""


class Participant:
    """Start it on the test's own thread: it dies with the thread that started it. `database` is
    the one of its gateways (server.Database)."""

    def __init__(self, database: Any, seed: int | None = None):
        self.database = database
        self.seed = seed  # None: no faults but those that a request asks for
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        with closing(psycopg2.connect(database.url)) as connection, connection:
            # Not into the schema that has the name of the tests' role.
            connection.cursor().execute("SET search_path = public;" + SCHEMA.read_text("utf-8"))

    def start(self) -> Participant:
        self.reap()
        seed = [] if self.seed is None else [str(self.seed)]
        self.process = subprocess.Popen(
            [*DIE_WITH_THE_TEST, sys.executable, str(PROGRAM), str(self.port), self.database.url,
             *seed], stdin=subprocess.DEVNULL)
        return self

    def wait_until_ready(self) -> Participant:
        eventually(self._listens, "the participant")
        return self

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill9(self) -> None:
        self.process.kill()
        self.reap()

    def reap(self) -> None:
        if self.process is not None:
            self.process.wait(PATIENCE)
            self.process = None

    def discard(self) -> None:
        if self.process is not None:
            self.kill9()

    def effects(self) -> Counter[str]:
        """How often each key was paid."""
        return Counter(dict(self.database.sql(
            "SELECT client_key, count(*) FROM payments GROUP BY client_key")))
