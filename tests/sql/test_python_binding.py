# SPDX-License-Identifier: Apache-2.0
"""bindings/python/pawl.py, with both drivers: what its header promises."""
from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Iterator

import psycopg
import psycopg2
import pytest

from pawltest.gateway import run
from pawltest.wire import Later, at_once, eventually
from shop import check_defaults, effects, is_waiting, url_of

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bindings/python"))

import pawl  # noqa: E402

RULE = "refunds.create"
BODY = b'{"charge": "ch_1", "amount": 1000}'
Connect = Callable[..., Any]


@pytest.fixture(params=[psycopg, psycopg2], ids=["psycopg", "psycopg2"])
def connect(request: pytest.FixtureRequest, database: Any) -> Iterator[Connect]:
    """Opens connections of the application's."""
    made: list[Any] = []

    def open_one() -> Any:
        made.append(request.param.connect(url_of(database)))
        return made[-1]

    yield open_one
    for connection in made:
        connection.close()


def refund(conn: Any, amount: int = 1000) -> dict[str, str]:
    with conn.cursor() as cursor:
        cursor.execute("INSERT INTO refunds (amount) VALUES (%s) RETURNING id", (amount,))
        return {"id": f"rf_{cursor.fetchone()[0]}"}


@pawl.operation(RULE, wait="30 s")
def create_refund(conn, amount=1000):
    return 201, refund(conn, amount), {"Location": "/refunds/1"}


def create(conn: Any, key: str = "k1", payload: Any = BODY, tenant: str = "m1") -> pawl.Operation:
    return create_refund(conn, tenant=tenant, key=key, payload=payload)


def told(op: pawl.Operation) -> tuple[Any, ...]:
    return op.status, op.headers, op.body


def test_its_defaults_are_those_of_the_function(database):
    check_defaults(database, {"payload_hash": None, **pawl.DEFAULTS})


def test_a_retry_gets_the_first_one_s_response(connect, database):
    first, again = create(connect()), create(connect())
    assert first.is_new and not again.is_new
    assert told(first) == told(again) == (
        201, {"Content-Type": "application/json", "Location": "/refunds/1"}, b'{"id":"rf_1"}')
    assert effects(database) == 1


def test_the_same_payload_written_otherwise_is_the_same(connect, database):
    create(connect())
    again = create(connect(), payload={"amount": 1000.0, "charge": "ch_1"})
    assert not again.is_new and effects(database) == 1


def test_another_payload_is_refused(connect, database):
    create(connect())
    with pytest.raises(pawl.Mismatch) as refusal:
        create(connect(), payload=b'{"charge": "ch_1", "amount": 500}')
    assert (refusal.value.status, refusal.value.code) == (
        409, "CONFLICT.idempotency.payload_mismatch")
    assert effects(database) == 1


def test_keys_of_two_tenants_never_meet(connect, database):
    assert create(connect(), tenant="m1").is_new and create(connect(), tenant="m2").is_new
    assert effects(database) == 2


def test_of_many_at_once_one_runs_and_all_get_its_response(connect, database):
    connections = [connect() for _ in range(8)]
    ops = at_once(8, lambda i: create(connections[i]))
    assert sum(op.is_new for op in ops) == effects(database) == 1
    assert len({op.body for op in ops}) == 1


def test_one_that_runs_is_in_progress_for_who_does_not_wait(connect, database):
    with pawl.once(connect(), "m1", RULE, "k1", BODY) as op:
        conn = connect()
        with pytest.raises(pawl.InProgress):
            with pawl.once(conn, "m1", RULE, "k1", BODY, wait="0 s"):
                pass
        op.complete(201, "done")
    assert create(conn).body == b"done"
    assert effects(database) == 0


@pytest.mark.parametrize("when, left", [("before", 0), ("after", 1)])
def test_killed_around_commit_either_both_are_there_or_neither(connect, database, when, left):
    script = f"""
import os, signal, sys
sys.path[:0] = {sys.path!r}
import {type(connect()).__module__.partition(".")[0]} as driver
from test_python_binding import BODY, RULE, pawl, refund
conn = driver.connect({url_of(database)!r})
with pawl.once(conn, "m1", RULE, "k1", BODY) as op:
    op.complete(201, refund(conn))
    if {when!r} == "before":
        os.kill(os.getpid(), signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False)
    assert killed.returncode == -9 and effects(database) == left
    retry = create(connect())
    assert retry.is_new is not bool(left)
    assert retry.body[:9] == b'{"id":"rf' and effects(database) == 1


def test_what_raises_leaves_nothing_and_the_key_is_free(connect, database):
    conn = connect()
    with pytest.raises(ZeroDivisionError):
        with pawl.once(conn, "m1", RULE, "k1", BODY) as op:
            op.complete(201, refund(conn))
            raise ZeroDivisionError
    assert effects(database) == 0 and create(conn).is_new


def test_neither_completed_nor_released_is_refused(connect, database):
    conn = connect()
    with pytest.raises(RuntimeError):
        with pawl.once(conn, "m1", RULE, "k1", BODY):
            refund(conn)
    pawl.begin(conn, "m1", RULE, "k1", BODY)
    with pytest.raises((psycopg.Error, psycopg2.Error)) as refusal:
        conn.commit()
    assert "PW002" in (getattr(refusal.value, "sqlstate", None),
                       getattr(refusal.value, "pgcode", None))
    assert effects(database) == 0


def test_a_release_keeps_the_effect_and_frees_the_key(connect, database):
    conn = connect()
    with pawl.once(conn, "m1", RULE, "k1", BODY) as op:
        refund(conn)
        op.release()
    assert effects(database) == 1 and create(conn).is_new


def test_a_serialization_failure_runs_it_again_from_its_start(connect, database):
    conn, other, runs = connect(), connect(), []
    with conn.cursor() as cursor:
        cursor.execute("SET default_transaction_isolation = serializable")
    conn.commit()
    with other.cursor() as cursor:
        cursor.execute("UPDATE balance SET cents = cents - 1")

    @pawl.operation(RULE)
    def pay(conn):
        runs.append(1)
        with conn.cursor() as cursor:
            cursor.execute("UPDATE balance SET cents = cents - 100")
        return 201, refund(conn)

    late = Later(lambda: pay(conn, tenant="m1", key="k1"))
    eventually(lambda: is_waiting(database))
    other.commit()
    assert late.result().is_new and len(runs) == 2
    assert database.sql("SELECT cents FROM balance") == [(899,)] and effects(database) == 1


def test_it_joins_a_transaction_that_another_commits(connect, database):
    conn = connect()
    op = pawl.begin(conn, "m1", RULE, "k1", BODY)
    op.complete(201, refund(conn))
    assert effects(database) == 0
    conn.commit()
    assert effects(database) == 1 and told(create(conn)) == told(op)


def test_a_connection_in_autocommit_is_refused(connect):
    conn = connect()
    conn.autocommit = True
    with pytest.raises(ValueError):
        create(conn)


def test_bytes_that_are_no_text_and_no_body_come_back_as_they_were(connect):
    for key, body in (("k1", b"\0\xff"), ("k2", b""), ("k3", "\N{SNOWMAN}")):
        with pawl.once(connect(), "m1", RULE, key) as op:
            op.complete(200, body)
        assert create(connect(), key, None).body == (body if key != "k3" else body.encode())


@pytest.mark.parametrize("path", sorted((ROOT / "tests/fuzz/corpus/json").iterdir()),
                         ids=lambda path: path.name)
def test_the_payload_hash_is_that_of_pawl_hash(path):
    """Of what is not JSON, `pawl hash` prints none: the bytes count."""
    printed = run("hash", path).stdout.strip()
    raw = path.read_bytes()
    assert pawl.payload_hash(raw) == (printed or hashlib.sha256(raw).hexdigest())
