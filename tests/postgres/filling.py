# SPDX-License-Identifier: Apache-2.0
"""Many finished records at once, as gateways would have left them."""
from __future__ import annotations

import hashlib

from server import Database

FIRST_ID = 1 << 40
HEADERS = b"Content-Type: application/json\r\nLocation: /refunds/1\r\n"
FOREVER = (1 << 63) - 1
RECORD = {
    "id": "{first} + n", "version": "{first} + n", "named": "true",
    "key_hash": "sha256(int8send({first} + n))",
    "tenant": "'shop'", "rule": "'refunds.create'",
    "key": "convert_to('key-' || ({first} + n), 'UTF8')", "recipe": "'2 all'",
    "fingerprint": "'f'",
    "payload_hash": "sha256(int8send({first} + n))", "target_hash": "sha256('t')",
    "created_at": "1",
    "status": "2", "token": "{first} + n",
    "attempt_id": "substr(sha256(int8send({first} + n)), 1, 16)",
    "attempts": "1", "started_at": "1", "lease_until": "0", "lease_us": "30000000",
    "owner": "1", "probing": "0", "windowed": "0", "unknown": "0", "settle_us": "30000000",
    "quiet_at": "0", "ttl_us": "86400000000", "least_us": "30000000",
    "doubted_us": "86400000000", "tombstone_us": "0", "doubt": "0", "cause": "0",
    "origin": "'POST /refunds'", "provisional": "0", "once": "''", "once_template": "0",
    "once_ttl_us": "0", "once_window": "0", "once_replay": "0", "once_until": "0",
    "completed_at": "1", "expires_at": "{body_until}", "gone_at": "{until}", "kept": "1",
    "http_code": "201", "result_ref": "'/refunds/1'",
}


def key_hash(n: int) -> bytes:
    return hashlib.sha256(n.to_bytes(8, "big")).digest()


def fill(database: Database, n: int, first: int = FIRST_ID, body_bytes: int = 300,
         until: int = FOREVER, body_until: int | None = None) -> None:
    """n of them with ids from `first` + 1 on; they go at `until`, in microseconds, and what is kept
    of their responses at `body_until`."""
    body_until = until if body_until is None else body_until
    numbers = f"FROM generate_series(1, {n}::bigint) n"
    values = ", ".join(RECORD.values()).format(first=first, until=until, body_until=body_until)
    database.sql(f"INSERT INTO pawl.record({', '.join(RECORD)}) SELECT {values} {numbers}")
    database.sql(f"INSERT INTO pawl.outcome SELECT {first} + n, {body_until}, 0,"
                 f" '\\x{HEADERS.hex()}', convert_to(repeat('b', {body_bytes}), 'UTF8') {numbers}")
    database.sql(f"INSERT INTO pawl.tally VALUES (0, 0, 0, 0, 0, {n}, 0, 0, 0, 0)"
                 " ON CONFLICT (by, owner) DO UPDATE SET complete = tally.complete"
                 " + excluded.complete")
