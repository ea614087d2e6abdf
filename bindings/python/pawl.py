# SPDX-License-Identifier: Apache-2.0
"""An operation's effect and the record of its response in one transaction of yours, on PostgreSQL:
a retry gets the stored response, and the effect happens once. Copy this file into your project.

It needs the schema (`pawl schema postgres | psql`), to which its owner admitted your role
(`SELECT pawl.admit('shop')`), and psycopg 3 or psycopg2. Times are PostgreSQL's ("24 hours"; None:
for ever).

As a decorator; the function gets the connection first, and returns status and body, and if it
likes headers. It runs at most once for a key, and again from its start after a serialization
failure or a deadlock, so let it touch nothing but the database:

    @pawl.operation("refunds.create")
    def create_refund(conn, charge, amount):
        row = conn.execute("INSERT INTO refunds ... RETURNING id", (charge, amount)).fetchone()
        return 201, {"id": row[0]}

    op = create_refund(conn, "ch_1", 1000, tenant=user_id, key=key, payload=request_body)
    return op.status, op.headers, op.body       # the same for the first attempt and every retry

As a context manager, which commits at its end and rolls back on an exception:

    with pawl.once(conn, user_id, "refunds.create", key, request_body) as op:
        if op.is_new:
            conn.execute("INSERT INTO refunds ...")
            op.complete(201, {"id": 7})
    return op.status, op.body

In a transaction that you commit yourself (Django: inside `transaction.atomic()`, with
`django.db.connection`): `op = pawl.begin(conn, ...)`, then as above. A `begin` that is neither
completed nor released makes COMMIT fail.

- `payload`: the request's body as it came (bytes or str), or a value that json.dumps takes; it is
  hashed as `pawl hash` does. None: not compared.
- `op.release()` instead of `complete`: commits what you did without a response; the next attempt
  with the key runs.
- A response of yours with a status of 4xx is stored like any other. Raise instead, and nothing is.
- InProgress: another attempt has it and did not end within `wait` ("10 s"); try again later.
  Mismatch: the key was used for another payload. The other subclasses of Refused likewise: each has
  the `status` and `code` of the response to send.
- A connection that breaks during COMMIT leaves open whether it committed. Call again with the same
  key: you get the response, or the effect runs.
- Nothing that happens outside this database is rolled back with it.
"""
from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import random
import time

RETRIED = {"40001", "40P01"}  # serialization failure, deadlock: what was done is rolled back
# pawl.begin's own. PostgreSQL reads the text of its defaults three times for a call that lacks one.
DEFAULTS = {"ttl": "24 hours", "once": None, "once_ttl": None, "duplicate": "replay",
            "tombstone": "0", "wait": "10s", "target_hash": None}


class Refused(Exception):
    """The operation was not run, and there is no response to replay."""

    status, code = 409, "CONFLICT.idempotency"

    def __init__(self, decision, retry_after=None):
        super().__init__(decision)
        self.decision = decision
        self.retry_after = retry_after  # seconds, if it is known


class InProgress(Refused):
    code = "CONFLICT.idempotency.in_progress"


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


REFUSALS = {"in_progress": InProgress, "mismatch": Mismatch, "duplicate": Duplicate,
            "outcome_unknown": OutcomeUnknown, "result_expired": ResultExpired,
            "result_not_kept": ResultNotKept}


class Operation:
    """One that may run (`is_new`), or the response that is stored for it."""

    def __init__(self, conn, row):
        decision, self.token, self.status, headers, body, self.result_ref, self.first_at, _ = row
        self.conn = conn
        self.is_new = self.is_open = decision == "proceed"
        self.headers = dict(headers or {})
        self.body = None if body is None else bytes(body)

    def complete(self, status, body=None, headers=None, result_ref=None):
        """The response to store. What is neither bytes nor str is sent as JSON."""
        self.headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            self.headers.setdefault("Content-Type", "application/json")
            body = json.dumps(body, separators=(",", ":"))
        self.body = body.encode() if isinstance(body, str) else body
        self.status, self.result_ref = status, result_ref
        _query(self.conn, "SELECT pawl.complete_bytes(%s, %s, %s, %s::jsonb, %s)",
               (self.token, status, self.body, json.dumps(self.headers), result_ref))
        self.is_open = False

    def release(self):
        _query(self.conn, "SELECT pawl.release(%s)", (self.token,))
        self.is_open = False


def begin(conn, tenant, rule, key, payload=None, **options):
    """In the transaction that `conn` is in. Options are pawl.begin's: ttl, once, wait, ..."""
    options = {"payload_hash": payload_hash(payload), **DEFAULTS, **options}
    names = "".join(f", {name} => %s" for name in options)
    row = _query(conn, "SELECT decision, token, http_code, headers, body, result_ref, first_at,"
                 " extract(epoch FROM lease_left)::float8"
                 f" FROM pawl.begin(%s, %s, %s{names})", (tenant, rule, key, *options.values()))
    if row[0] in ("proceed", "replay"):
        return Operation(conn, row)
    raise REFUSALS.get(row[0], Refused)(row[0], row[-1])


@contextlib.contextmanager
def once(conn, tenant, rule, key, payload=None, **options):
    """begin, then COMMIT; ROLLBACK after an exception."""
    if conn.autocommit:
        raise ValueError("pawl.once needs a connection without autocommit")
    try:
        op = begin(conn, tenant, rule, key, payload, **options)
        yield op
        if op.is_open:
            raise RuntimeError("the operation was neither completed nor released")
        conn.commit()
    except BaseException:
        with contextlib.suppress(Exception):  # a broken connection rolled back already
            conn.rollback()
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
    """act(), again where the database could not order its transaction among others'."""
    for left in range(attempts - 1, -1, -1):
        try:
            return act()
        except Exception as error:
            state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
            if state not in RETRIED or not left:
                raise
            time.sleep(random.uniform(0, 0.02 * 2 ** (attempts - left)))


def payload_hash(payload):
    """As `pawl hash`: SHA-256 of the canonical JSON, of the bytes where there is none."""
    if payload is None:
        return None
    if not isinstance(payload, (bytes, bytearray, memoryview, str)):
        payload = json.dumps(payload, allow_nan=False)
    raw = payload.encode() if isinstance(payload, str) else bytes(payload)
    try:
        raw = _canonical(json.loads(raw.decode(), parse_int=_Number, parse_float=_Number,
                                    parse_constant=_refuse, object_pairs_hook=_members)).encode()
    except (ValueError, RecursionError):
        pass
    return hashlib.sha256(raw).hexdigest()


def _query(conn, statement, values):
    with conn.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchone()


class _Number(str):
    """A number as it is written: it never becomes a double."""


def _refuse(constant):
    raise ValueError(constant)


def _members(pairs):
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a member comes twice")
    return dict(sorted(pairs, key=lambda pair: pair[0].encode("utf-16-be")))


def _canonical(value, depth=0):
    if isinstance(value, _Number):
        return _number(value)
    if not isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    if depth == 200:
        raise ValueError("nested too deeply")
    if isinstance(value, list):
        return "[" + ",".join(_canonical(item, depth + 1) for item in value) + "]"
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{_canonical(item, depth + 1)}"
                          for name, item in value.items()) + "}"


def _number(literal):
    """Laid out as ECMAScript prints numbers, all digits kept."""
    mantissa, _, exponent = literal.lower().lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return "0"
    point += int(exponent or 0)
    if len(digits) > 1000 or abs(point - 1) > 9999:
        raise ValueError("a number out of bounds")
    if 0 < point <= 21:
        text = digits[:point].ljust(point, "0") + ("." + digits[point:]).rstrip(".")
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        text = digits[0] + ("." + digits[1:]).rstrip(".") + f"e{point - 1:+d}"
    return "-" * literal.startswith("-") + text
