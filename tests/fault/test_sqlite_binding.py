# SPDX-License-Identifier: Apache-2.0
"""bindings/python/pawl_sqlite.py, and the extension's functions below it, as an application in
Python calls them."""
from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from pawltest.gateway import PAWL

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = Path(PAWL).parent / "pawl.so"
sys.path.insert(0, str(ROOT / "bindings/python"))

import pawl_sqlite  # noqa: E402

BODY = '{"charge": "ch_1", "amount": 1.0}'


@pytest.fixture
def connecting(tmp_path: Path) -> Iterator[Callable[..., sqlite3.Connection]]:
    made: list[sqlite3.Connection] = []

    def connect(**options: Any) -> sqlite3.Connection:
        conn = sqlite3.connect(tmp_path / "shop.db", timeout=30, check_same_thread=False, **options)
        pawl_sqlite.load(conn, str(EXTENSION))
        conn.execute("CREATE TABLE IF NOT EXISTS refunds(id INTEGER PRIMARY KEY, amount INTEGER)")
        made.append(conn)
        return conn

    yield connect
    for conn in made:
        conn.close()


@pawl_sqlite.operation("refunds.create")
def create_refund(conn: sqlite3.Connection, amount: int) -> tuple[int, dict[str, int]]:
    row = conn.execute("INSERT INTO refunds(amount) VALUES(?) RETURNING id", (amount,)).fetchone()
    return 201, {"id": row[0]}


def count(conn: sqlite3.Connection) -> int:
    return conn.execute("SELECT count(*) FROM refunds").fetchone()[0]


@pytest.mark.parametrize("options", [{}, {"isolation_level": None}])
def test_the_decorator_runs_once_and_tells_the_same(connecting, options):
    conn = connecting(**options)
    told = [create_refund(conn, 5, tenant="m1", key="k1", payload=BODY) for _ in range(2)]
    assert [op.is_new for op in told] == [True, False]
    assert [(op.status, op.body, op.headers) for op in told] == [
        (201, b'{"id":1}', {"Content-Type": "application/json"})] * 2
    assert count(conn) == 1
    with pytest.raises(pawl_sqlite.Mismatch):
        create_refund(conn, 5, tenant="m1", key="k1", payload='{"amount":2}')
    # The same value, spelled otherwise, and as an object.
    assert not create_refund(conn, 5, tenant="m1", key="k1",
                             payload={"amount": 1, "charge": "ch_1"}).is_new


def test_an_exception_rolls_both_back(connecting):
    conn = connecting()
    with pytest.raises(KeyError):
        with pawl_sqlite.once(conn, "m1", "refunds.create", "k1") as op:
            conn.execute("INSERT INTO refunds(amount) VALUES(5)")
            op.complete(201)
            raise KeyError
    assert count(conn) == 0 and not conn.in_transaction
    with pawl_sqlite.once(conn, "m1", "refunds.create", "k1") as op:
        assert op.is_new
        op.release()
    with pytest.raises(RuntimeError):
        with pawl_sqlite.once(conn, "m1", "refunds.create", "k1") as op:
            assert op.is_new
    with pytest.raises(ValueError):
        conn.execute("BEGIN")
        with pawl_sqlite.once(conn, "m1", "refunds.create", "k1"):
            pass
    conn.rollback()


def test_a_commit_that_forgets_to_complete_is_refused(connecting):
    conn = connecting()
    conn.execute("BEGIN IMMEDIATE")
    assert pawl_sqlite.begin(conn, "m1", "refunds.create", "k1").is_new
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        conn.execute("COMMIT")
    conn.rollback()


def test_a_lease_left_from_before_is_not_set_off_against_an_open_operation(connecting):
    """SQLite only counts what its foreign keys lack."""
    careless, conn = connecting(isolation_level=None), connecting(isolation_level=None)
    careless.execute("PRAGMA foreign_keys = OFF")
    careless.execute("BEGIN IMMEDIATE")
    assert pawl_sqlite.begin(careless, "m1", "refunds.create", "old").is_new
    careless.execute("COMMIT")
    conn.execute("BEGIN IMMEDIATE")
    op = pawl_sqlite.begin(conn, "m1", "refunds.create", "new")
    with pytest.raises(pawl_sqlite.OutcomeUnknown):
        pawl_sqlite.begin(conn, "m1", "refunds.create", "old")
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        conn.execute("COMMIT")
    op.complete(201)
    conn.execute("COMMIT")


def test_what_another_connection_may_roll_back_is_not_read(connecting, tmp_path):
    connecting()
    shared = [sqlite3.connect(f"file:{tmp_path}/shop.db?cache=shared", uri=True, timeout=0,
                              isolation_level=None) for _ in range(2)]
    for conn in shared:
        pawl_sqlite.load(conn, str(EXTENSION))
    shared[1].execute("PRAGMA read_uncommitted = ON")
    shared[1].execute("BEGIN")
    with pytest.raises(sqlite3.OperationalError, match="read_uncommitted"):
        pawl_sqlite.begin(shared[1], "m1", "r", "k1")
    for conn in shared:
        conn.close()


def test_it_may_be_loaded_again(connecting):
    conn = connecting(isolation_level=None)
    conn.enable_load_extension(True)
    for again in (lambda: conn.load_extension(str(EXTENSION)),
                  lambda: conn.execute("SELECT load_extension(?)", (str(EXTENSION),)).fetchall()):
        conn.execute("BEGIN IMMEDIATE")
        with contextlib.closing(conn.execute("SELECT decision FROM pawl_begin('m1', 'r', 'k1')"
                                             " UNION ALL SELECT 1")) as rows:
            assert rows.fetchone() == ("proceed",)
            again()
            assert rows.fetchone() == (1,)
        assert conn.execute("SELECT pawl_publish('a.b', 'e1', '{}')").fetchone() == ("stored",)
        conn.execute("ROLLBACK")


def test_t1_a_hundred_at_once_have_one_effect(connecting):
    told: list[bytes] = []

    def work(conn: sqlite3.Connection) -> None:
        for _ in range(10):
            told.append(create_refund(conn, 5, tenant="m1", key="k1").body)

    conns = [connecting() for _ in range(10)]
    threads = [threading.Thread(target=work, args=(conn,)) for conn in conns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 100 and set(told) == {b'{"id":1}'}
    assert count(conns[0]) == 1


def test_it_is_loaded_outside_of_a_transaction(tmp_path):
    """Where foreign keys can be turned on."""
    conn = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    conn.execute("BEGIN")
    with pytest.raises(ValueError):
        pawl_sqlite.load(conn, str(EXTENSION))


def test_the_first_attempt_is_told_as_its_replay_is(connecting):
    conn = connecting()
    conn.row_factory = lambda cursor, row: {"row": row}
    told = []
    for key, body in (("k1", None), ("k2", bytearray(b"x")), ("k3", memoryview(b"y"))):
        for _ in range(2):
            with pawl_sqlite.once(conn, "m1", "r", key) as op:
                if op.is_new:
                    op.complete(200, body, {"X-Cost": 7, "X-Space": " a "})
            told.append((op.status, op.body, op.headers))
    assert told[::2] == told[1::2]


def test_options_are_those_of_pawl_begin(connecting):
    conn = connecting()

    def begin(key: str, **options: Any) -> pawl_sqlite.Operation:
        with pawl_sqlite.once(conn, "m1", "refunds.create", key, **options) as op:
            if op.is_new:
                op.complete(201, "done", {"X-Cost": 7}, "/refunds/7")
        return op

    assert begin("k1", once="ch_1", ttl="7d", tombstone="1h").is_new
    replay = begin("k2", once="ch_1")
    assert (replay.body, replay.headers, replay.result_ref) == (
        b"done", {"X-Cost": "7"}, "/refunds/7")
    with pytest.raises(pawl_sqlite.Duplicate):
        begin("k3", once="ch_1", duplicate="reject")
    assert begin("k4", once="ch_1", duplicate="ack").status == 204
    assert begin("k5", ttl=None).is_new and begin("k6", ttl=0.5).is_new
    assert conn.execute("SELECT expires_at FROM idempotency_keys WHERE key = 'k5'").fetchone() == (
        None,)
    for option in ({"ttl": "7 days"}, {"ttl": 0}, {"duplicate": "no"}, {"tombstone": "x"}):
        with pytest.raises(sqlite3.OperationalError, match="22023"):
            begin("k9", **option)
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        begin("k9", lease="1s")


def test_what_a_call_told_stays_when_another_one_follows(connecting):
    """In one row: each result is its own function's."""
    conn = connecting()
    create_refund(conn, 5, tenant="m1", key="k1")
    conn.execute("BEGIN IMMEDIATE")
    row = conn.execute(
        "SELECT b.decision, pawl_publish('a.b', 'e1', '{}'), b.body, b.headers, c.claimed, c.at,"
        " r.decision FROM pawl_begin('m1', 'refunds.create', 'k1') b,"
        " pawl_claim('m1', 'products', 'P1', '{}') c, pawl_receive('s', 'e1') r").fetchone()
    assert row[:5] == ("replay", "stored", b'{"id":1}', '{"Content-Type":"application/json"}', 1)
    assert row[6] == "proceed"
    conn.rollback()


def test_a_call_is_no_part_of_a_trigger_a_view_or_a_statement_that_writes(connecting):
    conn = connecting(isolation_level=None)
    conn.execute("BEGIN IMMEDIATE")
    for _ in ("the call makes the tables", "they are there"):
        with pytest.raises(sqlite3.OperationalError, match="SELECT it alone"):
            conn.execute("INSERT INTO refunds(amount) SELECT pawl_publish('a.b', 'e1', '{}')")
        conn.execute("SELECT pawl_publish('a.b', 'e0', '{}')")
    conn.execute("CREATE TRIGGER t AFTER INSERT ON refunds BEGIN"
                 " SELECT pawl_publish('a.b', 'e1', '{}'); END")
    with pytest.raises(sqlite3.OperationalError, match="unsafe use of pawl_publish"):
        conn.execute("INSERT INTO refunds(amount) VALUES(1)")
    conn.execute("CREATE VIEW v AS SELECT * FROM pawl_begin('m1', 'r', 'k1')")
    with pytest.raises(sqlite3.OperationalError, match="unsafe use of virtual table"):
        conn.execute("SELECT * FROM v")
    with pytest.raises(sqlite3.OperationalError, match="no query solution"):
        conn.execute("SELECT * FROM pawl_begin('m1', 'r', 'k1') WHERE key = 'k2'")
    conn.execute("ROLLBACK")


def test_the_hash_is_that_of_pawl_hash(connecting):
    conn = connecting()

    def hashed(body: str | bytes | None) -> str | None:
        return conn.execute("SELECT pawl_payload_hash(?)", (body,)).fetchone()[0]

    shown = subprocess.run([PAWL, "hash", "--content-type", "application/json"], text=True,
                           input=BODY, stdout=subprocess.PIPE, check=True).stdout
    assert hashed(BODY) in shown and hashed(BODY) == hashed('{"amount":1,"charge":"ch_1"}')
    for body in ("not JSON {", b"\x00\xff", '{"a":1,"a":2}', ""):
        raw = body.encode() if isinstance(body, str) else body
        assert hashed(body) == hashlib.sha256(raw).hexdigest()
    assert hashed(None) is None


def test_a_connection_closes_whatever_was_called(tmp_path):
    """No statement of the extension keeps sqlite3_close from it; its SQL is the shell's."""
    calls = ("SELECT decision FROM pawl_begin('m1', 'r', 'k1')",
             "SELECT pawl_publish('a.b', 'e1', '{}')", "SELECT pawl_install()")
    for i, call in enumerate(calls):
        ran = subprocess.run(["sqlite3", tmp_path / f"{i}.db", f".load {EXTENSION}", "BEGIN", call,
                              "ROLLBACK"], capture_output=True, text=True, check=False)
        assert ran.returncode == 0 and ran.stderr == "" and ran.stdout


def test_another_connection_sees_a_snapshot_that_is_old(connecting):
    one, two = connecting(isolation_level=None), connecting(isolation_level=None)
    one.execute("PRAGMA journal_mode = WAL")
    create_refund(one, 5, tenant="m1", key="k0")
    two.execute("BEGIN")
    assert count(two) == 1
    create_refund(one, 5, tenant="m1", key="k1")
    with pytest.raises(sqlite3.OperationalError, match="again:"):
        pawl_sqlite.begin(two, "m1", "refunds.create", "k1")
    two.execute("ROLLBACK")
    assert not create_refund(two, 5, tenant="m1", key="k1").is_new


def test_t11_the_columns_of_the_seeds(connecting):
    conn = connecting()
    create_refund(conn, 5, tenant="m1", key="k1")
    with closing(conn.execute("SELECT key,payload_hash,status,result_ref,http_code,created_at,"
                              "expires_at FROM idempotency_keys")) as rows:
        assert [row[0::2][:2] for row in rows] == [("k1", "complete")]
    conn.execute("BEGIN IMMEDIATE")
    conn.execute("SELECT * FROM pawl_receive('payments', 'ev_001')").fetchall()
    conn.commit()
    with closing(conn.execute("SELECT event_id,source,payload_hash,received_at,processed_at,result"
                              " FROM inbox_events")) as rows:
        assert [(row[0], row[1], row[5]) for row in rows] == [("ev_001", "payments", "ok")]
