# SPDX-License-Identifier: Apache-2.0
"""The usual hand-written statements in an SQLite file, verbatim, and what each lacks; then the same
with a record in the transaction. On PostgreSQL: sql/test_handwritten.py."""
from __future__ import annotations

import itertools
import sqlite3
import sys
import uuid
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from pawltest.gateway import PAWL
from pawltest.handwritten import ACCEPT, INBOX, JOB, KEYS, PREFERENCE, SAY, SEEK

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bindings/python"))

import pawl_sqlite  # noqa: E402

EXTENSION = str(Path(PAWL).parent / "pawl.so")
TABLES = """
CREATE TABLE matchmaking_jobs (
  batch_date, timezone, user_id, job_type, status NOT NULL, offers, idempotency_key UNIQUE,
  attempt_count NOT NULL DEFAULT 1, PRIMARY KEY (batch_date, timezone, user_id, job_type));
CREATE TABLE user_preferences (
  user_id, preference, value, updated_at, PRIMARY KEY (user_id, preference));
CREATE TABLE match_offers (id PRIMARY KEY, status NOT NULL, accepted_at);
CREATE TABLE messages (
  id PRIMARY KEY, match_id, sender_id, content, client_message_id UNIQUE,
  created_at DEFAULT CURRENT_TIMESTAMP);
"""
OFFERS = [("", "offer", "offered"), ("offered", "accept", "accepted"),
          ("offered", "pass", "passed"), ("offered", "not_now", "not_now"),
          ("accepted", "mutual_accept", "matched"), ("matched", "unmatch", "closed")]


@pytest.fixture
def connecting(tmp_path: Path) -> Iterator[Callable[[], sqlite3.Connection]]:
    """SQLite has no NOW() and no gen_random_uuid(): the application brings them."""
    made: list[sqlite3.Connection] = []
    ticks = itertools.count(1)

    def connect() -> sqlite3.Connection:
        conn = sqlite3.connect(tmp_path / "app.db", timeout=30, isolation_level=None)
        conn.create_function("now", 0, lambda: next(ticks))
        conn.create_function("gen_random_uuid", 0, lambda: str(uuid.uuid4()))
        pawl_sqlite.load(conn, EXTENSION)
        made.append(conn)
        return conn

    connect().executescript(TABLES)
    yield connect
    for conn in made:
        conn.close()


@pytest.fixture
def conn(connecting: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
    return connecting()


def rows(conn: sqlite3.Connection, statement: str, *values: Any) -> Any:
    return conn.execute(statement, values).fetchall()


def once(conn: sqlite3.Connection, key: str, statement: str, payload: str, tenant: str = "m1",
         ) -> pawl_sqlite.Operation:
    """The statement, with a record of its response beside it."""
    with pawl_sqlite.once(conn, tenant, "rule", key, payload=payload) as op:
        if op.is_new:
            op.complete(201, repr(rows(conn, statement)))
    return op


# ---- verbatim ----

def test_t10_what_sqlite_takes_of_them_does_what_it_says(conn):
    for statement in (KEYS, INBOX, SEEK):  # DEFAULT now(), INTERVAL: PostgreSQL's
        with pytest.raises(sqlite3.OperationalError, match="syntax error"):
            conn.execute(statement)
    times = []
    for _ in range(2):
        conn.execute(PREFERENCE)
        times += rows(conn, "SELECT updated_at FROM user_preferences WHERE value")
    assert len(times) == 2 and times[0] != times[1]
    conn.execute("INSERT INTO match_offers VALUES ('offer-123', 'offered', NULL)")
    assert [conn.execute(ACCEPT).rowcount for _ in range(2)] == [1, 0]
    assert [len(rows(conn, SAY)) for _ in range(2)] == [1, 0]
    assert conn.execute(JOB).rowcount == 1
    conn.execute("UPDATE matchmaking_jobs SET status = 'completed'")
    assert conn.execute(JOB).rowcount == 0


# ---- what each lacks, and has with a record ----

def test_t10_a_late_retry_of_a_preference(conn):
    """It undoes the newer choice; with a record it gets its first response, and changes nothing."""
    off = PREFERENCE.replace("true", "false")
    for statement in (PREFERENCE, off, PREFERENCE):
        conn.execute(statement)
    assert rows(conn, "SELECT value FROM user_preferences") == [(1,)]
    told = [once(conn, key, statement, key)
            for key, statement in (("on", PREFERENCE), ("off", off), ("on", PREFERENCE))]
    assert [op.is_new for op in told] == [True, True, False] and told[2].body == told[0].body
    assert rows(conn, "SELECT value FROM user_preferences") == [(0,)]


def test_t10_a_message_sent_again(conn):
    """Its id is not returned, another text under it is dropped without a word, and so is another
    user's; with a record the id comes again, and the others are told apart."""
    conn.execute(SAY)
    for again in (SAY, SAY.replace("Hello!", "Good night!"), SAY.replace("user-123", "user-456")):
        assert rows(conn, again) == []
    conn.execute("DELETE FROM messages")
    first, again = (once(conn, "client-uuid", SAY, "Hello!") for _ in range(2))
    assert again.body == first.body and b"'" in first.body
    with pytest.raises(pawl_sqlite.Mismatch):
        once(conn, "client-uuid", SAY, "Good night!")
    other = SAY.replace("client-uuid", "client-uuid-of-456")  # their column is unique over all
    assert once(conn, "client-uuid", other, "Hello!", "user-456").is_new


def test_t10_two_jobs_at_once(connecting):
    """Both begin; with a record the second one waits for the first, and gets its response."""
    first, second = connecting(), connecting()
    assert [conn.execute(JOB).rowcount for conn in (first, second)] == [1, 1]
    second.execute("PRAGMA busy_timeout = 0")
    with pawl_sqlite.once(first, "m1", "jobs", "2026-02-19:daily") as op:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            second.execute("BEGIN IMMEDIATE")
        op.complete(200, "5 offers")
    with pawl_sqlite.once(second, "m1", "jobs", "2026-02-19:daily") as op:
        assert (op.is_new, op.body) == (False, b"5 offers")


def test_t9_an_offer_s_states(conn):
    """No row updated says neither whether it was accepted before, nor passed, nor never there; a
    machine names the state, and says the same to the same action."""
    assert conn.execute(ACCEPT).rowcount == 0
    conn.execute("INSERT INTO match_offers VALUES ('offer-123', 'passed', NULL)")
    assert conn.execute(ACCEPT).rowcount == 0

    def move(offer: str, action: str, action_id: str, seq: int | None = None) -> Any:
        conn.execute("BEGIN IMMEDIATE")
        told = rows(conn, "SELECT decision, replayed, from_state, to_state FROM"
                          " pawl_transition('m1', 'offers', ?, ?, ?, ?)",
                    offer, action, action_id, seq)[0]
        conn.execute("COMMIT")
        return told

    conn.execute("BEGIN IMMEDIATE")
    conn.execute("SELECT pawl_install()").fetchall()
    conn.executemany("INSERT INTO pawl_machine(name, from_state, action, to_state)"
                     " VALUES ('offers', ?, ?, ?)", OFFERS)
    conn.execute("COMMIT")
    path = (("offer", "", "offered"), ("accept", "offered", "accepted"),
            ("mutual_accept", "accepted", "matched"), ("unmatch", "matched", "closed"))
    for action, before, after in path:
        assert move("o1", action, action) == ("moved", 0, before, after)
        assert move("o1", action, action) == ("moved", 1, before, after)
    for end, action in (("passed", "pass"), ("not_now", "not_now")):
        move(end, "offer", f"{end}-1")
        assert move(end, action, f"{end}-2")[3] == end
        assert move(end, "accept", f"{end}-3") == ("conflict", 0, end, end)
        assert move(end, "accept", f"{end}-3") == ("conflict", 1, end, end)
    move("o2", "offer", "o2-1", 5)
    assert move("o2", "accept", "o2-2", 4)[0] == "stale"
