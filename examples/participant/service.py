#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A service that is a participant: it makes a payment and completes its record in one transaction.

usage: service.py PORT DATABASE    (DATABASE: the URL of the gateway's store)
"""
from __future__ import annotations

import json
import sys
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psycopg2

STALE_TOKEN = "PW001"  # another attempt has taken the operation over
HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-store"}


class Payments(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    database = ""

    def do_POST(self) -> None:  # pylint: disable=invalid-name
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if wanted["amount"] <= 0:  # nothing was done, so there is nothing to complete
            self.reply(422, {"error": "the amount must be positive"})
            return
        try:
            made = self.pay(self.headers["Idempotency-Token"], wanted)
        except psycopg2.Error as error:
            if error.pgcode != STALE_TOKEN:
                raise  # the connection closes, and pawl looks at the record
            self.reply(409, {}, {"Error-Code": "CONFLICT.idempotency.token_stale"})
            return
        self.reply(201, made)

    def pay(self, token: str, wanted: dict[str, Any]) -> dict[str, Any]:
        """Effect and record, in one transaction: it commits at the end of the inner `with`."""
        with closing(self.connect()) as connection, connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO payments(account, amount, client_key) VALUES (%s, %s, %s)"
                           " RETURNING id", (wanted["account"], wanted["amount"],
                                             self.headers["Idempotency-Key"]))
            made = {"id": cursor.fetchone()[0], "amount": wanted["amount"]}
            cursor.execute("SELECT pawl.complete(%s, 201, %s, %s)",
                           (int(token), json.dumps(made), json.dumps(HEADERS)))
        return made

    def connect(self) -> Any:
        return psycopg2.connect(self.database)

    def reply(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None
              ) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**HEADERS, **(headers or {}), "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """The gateway has a line for each request."""


def main(service: type[Payments] = Payments) -> None:
    service.database = sys.argv[2]
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), service).serve_forever()


if __name__ == "__main__":
    main()
