#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two services that keep what they do in SQLite, on loopback, behind a pawl each.

usage: services.py refunds|ledger PORT

  refunds   POST /refunds {"amount": ...}     201, under the key that it is sent with
            GET  /refunds/KEY                 what was refunded under that key, or 404
  ledger    POST /internal/refunds            an entry for the event, once for its key
            GET  /entries                     all entries, a line each
"""
from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    file = ""

    def database(self) -> closing[sqlite3.Connection]:
        return closing(sqlite3.connect(self.file, timeout=10, isolation_level=None))

    def body(self) -> dict:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def reply(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:  # pylint: disable=arguments-differ
        pass


class Refunds(Service):
    """It does not look whether the key was there before: pawl does. The key is kept with the
    refund, so that a probe can ask for it."""

    file = "refunds.db"
    table = "refunds(id INTEGER PRIMARY KEY, key TEXT, amount)"

    def show(self, key: str) -> str | None:
        with self.database() as database:
            (row,) = database.execute("SELECT id, amount FROM refunds WHERE key = ?",
                                      (key,)).fetchall() or (None,)
        return json.dumps({"refund": row[0], "amount": row[1]}) if row else None

    def do_POST(self) -> None:  # pylint: disable=invalid-name
        amount, key = self.body()["amount"], self.headers["Idempotency-Key"]
        with self.database() as database:
            database.execute("INSERT INTO refunds(key, amount) VALUES (?, ?)", (key, amount))
        self.reply(201, self.show(key) or "{}")

    def do_GET(self) -> None:  # pylint: disable=invalid-name
        shown = self.show(self.path.rpartition("/")[2])
        self.reply(200 if shown else 404, shown or "{}")


class Ledger(Service):
    """The key of the event is the key of the entry: handled twice, it is there once."""

    file = "ledger.db"
    table = "entries(key TEXT PRIMARY KEY, refund, amount)"

    def do_POST(self) -> None:  # pylint: disable=invalid-name
        event, key = self.body(), self.headers["Idempotency-Key"]
        with self.database() as database:
            database.execute("INSERT INTO entries VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                             (key, event["data"]["refund"], event["data"]["amount"]))
        self.reply(200, "{}")

    def do_GET(self) -> None:  # pylint: disable=invalid-name
        with self.database() as database:
            rows = database.execute("SELECT refund, amount FROM entries ORDER BY refund").fetchall()
        self.reply(200, "".join(f"refund {refund}: {amount}\n" for refund, amount in rows))


def main() -> None:
    services = {"refunds": Refunds, "ledger": Ledger}
    if len(sys.argv) != 3 or sys.argv[1] not in services:
        sys.exit(__doc__)
    service = services[sys.argv[1]]
    with closing(sqlite3.connect(service.file)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"CREATE TABLE IF NOT EXISTS {service.table}")
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), service).serve_forever()


if __name__ == "__main__":
    main()
