# SPDX-License-Identifier: Apache-2.0
"""The calls of include/pawl/pawl.h on a psycopg2 connection, by ctypes: the same shared library and
the same structs that a program in C has."""
from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import psycopg2.extensions

from pawltest.gateway import PAWL

(OK, AGAIN, STALE, MALFORMED, INVALID, OTHER, CLOSED, FAILED, NO_MEMORY) = range(9)
DECISIONS = ("none", "proceed", "replay", "mismatch", "in_progress", "outcome_unknown",
             "result_expired", "result_not_kept", "duplicate", "begun_here")
MOVES = ("none", "moved", "conflict", "stale", "mismatch")
FOREVER, NO_WAIT = 2**63 - 1, -1
TEXT, NUMBER, FLAG = ctypes.c_char_p, ctypes.c_int64, ctypes.c_bool


def struct(name: str, **fields: Any) -> type[ctypes.Structure]:
    return type(name, (ctypes.Structure,), {"_fields_": list(fields.items())})


Operation = struct("pawl_operation", tenant=TEXT, rule=TEXT, key=TEXT, payload_hash=TEXT,
                   target_hash=TEXT, ttl_ms=NUMBER, tombstone_ms=NUMBER, once=TEXT,
                   once_ttl_ms=NUMBER, duplicate=ctypes.c_int, wait_ms=NUMBER)
Begun = struct("pawl_begun", decision=ctypes.c_int, token=NUMBER, http_code=ctypes.c_int,
               headers=TEXT, body=ctypes.c_void_p, body_size=ctypes.c_size_t, result_ref=TEXT,
               first_at_us=NUMBER, lease_left_ms=NUMBER, warning=TEXT)
Outcome = struct("pawl_outcome", http_code=ctypes.c_int, body=ctypes.c_char_p,
                 body_size=ctypes.c_size_t, headers=TEXT, result_ref=TEXT)
Claim = struct("pawl_claim", tenant=TEXT, rule=TEXT, key=TEXT, row=TEXT)
Claimed = struct("pawl_claimed", claimed=FLAG, existing=TEXT, at_us=NUMBER)
Action = struct("pawl_action", tenant=TEXT, machine=TEXT, id=TEXT, action=TEXT, action_id=TEXT,
                has_seq=FLAG, seq=NUMBER)
Transition = struct("pawl_transition", decision=ctypes.c_int, replayed=FLAG, from_state=TEXT,
                    to_state=TEXT, at_us=NUMBER)
Event = struct("pawl_event", type=TEXT, id=TEXT, data=TEXT, tenant=TEXT)
Incoming = struct("pawl_incoming", source=TEXT, event_id=TEXT, payload_hash=TEXT, keep_ms=NUMBER)
Received = struct("pawl_received", decision=ctypes.c_int, received_at_us=NUMBER, result=TEXT)


class Refused(Exception):
    """A call that returned an error."""

    def __init__(self, error: int, problem: str):
        super().__init__(f"{error}: {problem}")
        self.error, self.problem = error, problem


def library() -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(Path(PAWL).parent / "src/client/libpawl.so.0"))
    loaded.pawl_on_postgres.restype = ctypes.c_void_p
    loaded.pawl_on_postgres.argtypes = [ctypes.c_void_p]
    loaded.pawl_problem.restype = TEXT
    loaded.pawl_decision_name.restype = loaded.pawl_move_name.restype = TEXT
    return loaded


class Pawl:
    """A handle on a connection, which stays the caller's."""

    def __init__(self, connection: psycopg2.extensions.connection):
        self.library = library()
        self.handle = ctypes.c_void_p(self.library.pawl_on_postgres(connection.pgconn_ptr))
        assert self.handle

    def close(self) -> None:
        self.library.pawl_free(self.handle)

    def call(self, name: str, *arguments: Any) -> None:
        error = getattr(self.library, name)(self.handle, *arguments)
        if error:
            raise Refused(error, self.library.pawl_problem(self.handle).decode())

    def fill(self, name: str, asked: ctypes.Structure, result: Any) -> Any:
        self.call(name, ctypes.byref(asked), ctypes.byref(result))
        return result

    def begin(self, key: bytes | None, **options: Any) -> dict[str, Any]:
        options = {"tenant": b"m1", "rule": b"refunds.create", **options}
        begun = self.fill("pawl_begin", Operation(key=key, **options), Begun())
        return {"decision": DECISIONS[begun.decision], "token": begun.token,
                "http_code": begun.http_code, "headers": begun.headers,
                "body": ctypes.string_at(begun.body, begun.body_size) if begun.body else None,
                "result_ref": begun.result_ref, "first_at_us": begun.first_at_us,
                "lease_left_ms": begun.lease_left_ms}

    def complete(self, token: int, code: int = 201, body: bytes | None = b'{"id": 7}',
                 **options: Any) -> bool:
        already = FLAG()
        outcome = Outcome(http_code=code, body=body, body_size=len(body or b""), **options)
        self.call("pawl_complete", NUMBER(token), ctypes.byref(outcome), ctypes.byref(already))
        return already.value

    def release(self, token: int) -> bool:
        already = FLAG()
        self.call("pawl_release", NUMBER(token), ctypes.byref(already))
        return already.value

    def lock(self, *keys: bytes) -> None:
        self.call("pawl_lock", b"m1", b"refunds.create", (TEXT * len(keys))(*keys),
                  ctypes.c_size_t(len(keys)))

    def claim(self, key: bytes, row: bytes | None) -> tuple[bool, bytes | None]:
        claimed = self.fill("pawl_claim", Claim(tenant=b"m1", rule=b"products", key=key, row=row),
                            Claimed())
        return claimed.claimed, claimed.existing

    def transition(self, action: bytes, action_id: bytes, seq: int | None = None) -> Any:
        moved = self.fill("pawl_transition", Action(
            tenant=b"m1", machine=b"offer", id=b"o1", action=action, action_id=action_id,
            has_seq=seq is not None, seq=seq or 0), Transition())
        return MOVES[moved.decision], moved.replayed, moved.from_state, moved.to_state

    def publish(self, event_id: bytes, data: bytes) -> bool:
        already = FLAG()
        event = Event(type=b"refund.created", id=event_id, data=data, tenant=b"m1")
        self.call("pawl_publish", ctypes.byref(event), ctypes.byref(already))
        return already.value

    def receive(self, event_id: bytes, payload_hash: bytes | None = None) -> tuple[str, bytes]:
        received = self.fill("pawl_receive", Incoming(
            source=b"payments", event_id=event_id, payload_hash=payload_hash), Received())
        return DECISIONS[received.decision], received.result
