# SPDX-License-Identifier: Apache-2.0
"""An operation's effect and the record of its response in one transaction of yours, on SQLite: a
retry gets the stored response, and the effect happens once. Copy this file into your project.

It needs pawl's extension, and a Python whose sqlite3 can load one (Debian's can):

    conn = sqlite3.connect("shop.db", timeout=10)
    pawl_sqlite.load(conn, "/usr/lib/x86_64-linux-gnu/pawl/pawl.so")

The tables are made in your file at the first call. Times are "24h", "7d", seconds, or None: for
ever.

As a decorator; the function gets the connection first, and returns status and body, and if it
likes headers. It runs at most once for a key, and again from its start while the file is locked, so
let it touch nothing but the database:

    @pawl_sqlite.operation("refunds.create")
    def create_refund(conn, charge, amount):
        row = conn.execute("INSERT INTO refunds ... RETURNING id", (charge, amount)).fetchone()
        return 201, {"id": row[0]}

    op = create_refund(conn, "ch_1", 1000, tenant=user_id, key=key, payload=request_body)
    return op.status, op.headers, op.body       # the same for the first attempt and every retry

As a context manager, which begins (BEGIN IMMEDIATE), commits at its end and rolls back on an
exception:

    with pawl_sqlite.once(conn, user_id, "refunds.create", key, request_body) as op:
        if op.is_new:
            conn.execute("INSERT INTO refunds ...")
            op.complete(201, {"id": 7})
    return op.status, op.body

In a transaction that you commit yourself: `op = pawl_sqlite.begin(conn, ...)`, then as above. A
`begin` that is neither completed nor released makes COMMIT fail.

- `payload`: the request's body as it came (bytes or str), or a value that json.dumps takes; it is
  hashed as `pawl hash` does. None: not compared.
- `op.release()` instead of `complete`: commits what you did without a response; the next attempt
  with the key runs.
- A response of yours with a status of 4xx is stored like any other. Raise instead, and nothing is.
- Headers of the connection and of this attempt (Connection, Date, Set-Cookie, ...) are not stored.
- Mismatch: the key was used for another payload. The other subclasses of Refused likewise: each has
  the `status` and `code` of the response to send.
- Nothing that happens outside this file is rolled back with it.
"""
from __future__ import annotations

import contextlib
import functools
import json
import random
import sqlite3
import time

BUSY = ("again:", "database is locked", "database table is locked")


class Refused(Exception):
    """The operation was not run, and there is no response to replay."""

    status, code = 409, "CONFLICT.idempotency"

    def __init__(self, decision):
        super().__init__(decision)
        self.decision = decision


class Mismatch(Refused):
    code = "CONFLICT.idempotency.payload_mismatch"


class Duplicate(Refused):
    code = "CONFLICT.idempotency.duplicate"


class OutcomeUnknown(Refused):
    code = "CONFLICT.idempotency.outcome_unknown"


class ResultExpired(Refused):
    status, code = 410, "CONFLICT.idempotency.result_expired"


class ResultNotKept(Refused):
    status, code = 410, "CONFLICT.idempotency.result_not_kept"


REFUSALS = {"mismatch": Mismatch, "duplicate": Duplicate, "outcome_unknown": OutcomeUnknown,
            "result_expired": ResultExpired, "result_not_kept": ResultNotKept}


def load(conn, extension):
    """Gives a connection pawl's functions, and has it enforce foreign keys: so that a COMMIT which
    forgets to complete is refused."""
    if conn.in_transaction:
        raise ValueError("pawl_sqlite.load needs a connection without an open transaction")
    conn.enable_load_extension(True)
    conn.load_extension(extension)
    conn.enable_load_extension(False)
    conn.execute("PRAGMA foreign_keys = ON")


class Operation:
    """One that may run (`is_new`), or the response that is stored for it."""

    def __init__(self, conn, row):
        decision, self.token, self.status, headers, body, self.result_ref, self.first_at = row
        self.conn = conn
        self.is_new = self.is_open = decision == "proceed"
        self.headers = json.loads(headers or "{}")
        self.body = body

    def complete(self, status, body=None, headers=None, result_ref=None):
        """The response to store. What is neither bytes nor str is sent as JSON."""
        self.headers = {name: str(value).strip() for name, value in (headers or {}).items()}
        if isinstance(body, (bytearray, memoryview)):
            body = bytes(body)
        elif body is not None and not isinstance(body, (bytes, str)):
            self.headers.setdefault("Content-Type", "application/json")
            body = json.dumps(body, separators=(",", ":"))
        self.body = body.encode() if isinstance(body, str) else body or b""
        self.status, self.result_ref = status, result_ref
        self.conn.execute("SELECT pawl_complete(?, ?, ?, ?, ?)", (
            self.token, status, self.body, json.dumps(self.headers), result_ref)).fetchone()
        self.is_open = False

    def release(self):
        self.conn.execute("SELECT pawl_release(?)", (self.token,)).fetchone()
        self.is_open = False


def begin(conn, tenant, rule, key, payload=None, **options):
    """In the transaction that `conn` is in. Options are pawl_begin's: ttl, once, duplicate, ..."""
    if payload is not None and not isinstance(payload, (bytes, bytearray, memoryview, str)):
        payload = json.dumps(payload, allow_nan=False)
    cursor = conn.cursor()
    cursor.row_factory = None
    options = {"payload_hash": cursor.execute("SELECT pawl_payload_hash(?)",
                                              (payload,)).fetchone()[0], **options}
    names = " AND ".join(f"{name} = ?" for name in options)
    row = cursor.execute("SELECT decision, token, http_code, headers, body, result_ref, first_at"
                       f" FROM pawl_begin(?, ?, ?) WHERE {names}",
                       (tenant, rule, key, *options.values())).fetchone()
    if row[0] in ("proceed", "replay"):
        return Operation(conn, row)
    raise REFUSALS.get(row[0], Refused)(row[0])


@contextlib.contextmanager
def once(conn, tenant, rule, key, payload=None, **options):
    """BEGIN IMMEDIATE, begin, then COMMIT; ROLLBACK after an exception."""
    if conn.in_transaction:
        raise ValueError("pawl_sqlite.once needs a connection without an open transaction")
    conn.execute("BEGIN IMMEDIATE")
    try:
        op = begin(conn, tenant, rule, key, payload, **options)
        yield op
        if op.is_open:
            raise RuntimeError("the operation was neither completed nor released")
        conn.execute("COMMIT")
    except BaseException:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        raise


def operation(rule, attempts=5, **options):
    """Decorates a function of a connection that returns status, body and perhaps headers."""
    def decorate(effect):
        @functools.wraps(effect)
        def run(conn, *args, tenant, key, payload=None, **kwargs):
            def attempt():
                with once(conn, tenant, rule, key, payload, **options) as op:
                    if op.is_new:
                        op.complete(*effect(conn, *args, **kwargs))
                return op
            return retry(attempt, attempts)
        return run
    return decorate


def retry(act, attempts=5):
    """act(), again where another connection held the file for longer than this one waits."""
    for left in range(attempts - 1, -1, -1):
        try:
            return act()
        except sqlite3.OperationalError as error:
            if not str(error).startswith(BUSY) or not left:
                raise
            time.sleep(random.uniform(0, 0.02 * 2 ** (attempts - left)))
