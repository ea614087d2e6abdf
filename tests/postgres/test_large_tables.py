# SPDX-License-Identifier: Apache-2.0
"""What a batch and a sweep read does not grow with the tables, and nobody who holds a row keeps the
sweep from the others."""
from __future__ import annotations

from contextlib import closing
from typing import Any, Iterator

import pytest

from filling import FIRST_ID, fill, key_hash
from server import Database
from test_schema import mend

MINUTE = 60_000_000
NOW = 1000 * MINUTE  # when records go that go at MINUTE
RECORDS = 500


@pytest.fixture
def database(database: Database) -> Database:
    assert mend(database).returncode == 0
    return database


@pytest.fixture
def session(database: Database) -> Iterator[Any]:
    """As a gateway's, with the plans that it made while the tables were empty."""
    with closing(database.connect()) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
            load(cursor, 1)
            sweep(cursor, RECORDS)
            yield cursor


def load(cursor: Any, n: int, hint: int = 0) -> int:
    """How many it finds."""
    hashes = [key_hash(FIRST_ID + 1 + i) for i in range(n)]
    hints = [hint + i if hint else 0 for i in range(n)]
    cursor.execute("SELECT count(*) FROM pawl.load(%s, %s::bigint[], '{}', 16384)", (hashes, hints))
    return cursor.fetchone()[0]


def sweep(cursor: Any, most: int, at: int = NOW) -> int:
    cursor.execute("SELECT steps FROM pawl.sweep(1, %s, %s)", (at, most))
    return cursor.fetchone()[0]


def read_by(cursor: Any, act: Any) -> int:
    """Rows of pawl.record and pawl.outcome that it read, or looked for by an index: a join of two
    lists of ids looks for every id of one for every row of the other, and reads few."""
    cursor.execute("BEGIN")
    act()
    cursor.execute("SELECT sum(seq_tup_read + greatest(idx_tup_fetch, idx_scan))"
                   " FROM pg_stat_xact_user_tables WHERE relname IN ('record', 'outcome')")
    ((read,),) = cursor.fetchall()
    cursor.execute("COMMIT")
    return int(read)


def left(database: Database) -> int:
    return database.sql("SELECT count(*) FROM pawl.record")[0][0]


@pytest.mark.parametrize("hint", [0, FIRST_ID + 1])
def test_a_load_reads_what_it_was_asked_for(database, session, hint):
    fill(database, RECORDS)
    assert load(session, 4, hint) == 4
    assert read_by(session, lambda: load(session, 4, hint)) <= 4 * 6


@pytest.mark.parametrize("until", [MINUTE, 2 * NOW], ids=["record", "body"])
def test_a_sweep_reads_each_row_a_few_times(database, session, until):
    fill(database, RECORDS, until=until, body_until=MINUTE)
    assert read_by(session, lambda: sweep(session, RECORDS)) <= 10 * RECORDS


def test_a_body_goes_before_its_record(database, session):
    fill(database, 3, until=2 * NOW, body_until=MINUTE)
    assert sweep(session, 10) == 3
    assert database.sql("SELECT DISTINCT headers, body, sweep_at FROM pawl.outcome") == [
        (None, None, 2 * NOW)]
    assert sweep(session, 10) == 0 and left(database) == 3
    assert sweep(session, 10, at=2 * NOW) == 3 and left(database) == 0
    assert database.sql("SELECT count(*) FROM pawl.outcome") == [(0,)]


BIND = ("INSERT INTO pawl.bound SELECT id + 1000000, id, 9000000000000000, 0, key_hash, key,"
        " recipe, payload_hash, target_hash FROM pawl.record")
RELEASE = ("UPDATE pawl.record SET status = 1; DELETE FROM pawl.outcome;"
           f"INSERT INTO pawl.unheld SELECT id, 1, {MINUTE} FROM pawl.record")


@pytest.mark.parametrize("made, held", [
    ("SELECT", "pawl.record WHERE id"), (BIND, "pawl.bound WHERE holder"),
    ("SELECT", "pawl.outcome WHERE id"),
    (RELEASE, "pawl.record WHERE id"), (RELEASE, "pawl.unheld WHERE id")],
    ids=["record", "bound key", "outcome", "released record", "unheld"])
def test_what_a_stranger_holds_does_not_keep_the_sweep_from_the_rest(
        database, session, made, held):
    """It holds a whole slice at the head."""
    fill(database, 50, until=MINUTE)
    database.sql(made)
    with closing(database.connect()) as stranger:
        stranger.cursor().execute(f"SELECT FROM {held} <= {FIRST_ID + 10} FOR UPDATE")
        slices = 0
        while sweep(session, 10) > 0:
            slices += 1
            assert slices < 10
        assert left(database) == 10
        stranger.rollback()
    while sweep(session, 10, at=NOW + MINUTE) > 0:
        pass
    assert left(database) == 0
    assert database.sql("SELECT (SELECT count(*) FROM pawl.outcome), (SELECT count(*) FROM"
                        " pawl.bound), (SELECT count(*) FROM pawl.unheld)") == [(0, 0, 0)]


def test_outcomes_without_a_record_go(database, session):
    fill(database, 3, until=MINUTE)
    database.sql("DELETE FROM pawl.record")
    assert sweep(session, 10) == 3
    assert database.sql("SELECT count(*) FROM pawl.outcome") == [(0,)]


NEVER = (1 << 63) - 1
NOT_DONE = ("status = 1, kept = 0, expires_at = 0, gone_at = 0, completed_at = 0,"
            " lease_until = 1")


@pytest.mark.parametrize("record, is_kept, looked_at", [
    (f"expires_at = {2 * NOW}, gone_at = {2 * NOW}", True, 2 * NOW),
    (f"completed_at = {NEVER}", False, NEVER),
    ("completed_at = -1", True, NOW + MINUTE),
    (NOT_DONE, True, NOW + MINUTE),
    ("status = 99", True, NOW + MINUTE),
    ("attempts = 0", True, NOW + MINUTE),
], ids=["too early", "never done", "done before time", "not done", "no status", "no attempt"])
def test_a_sweep_goes_by_what_a_pawl_may_have_written(database, session, record, is_kept,
                                                      looked_at):
    """What is odd stays, and is in the way of nothing."""
    fill(database, 3, until=MINUTE)
    odd = FIRST_ID + 1
    database.sql(f"UPDATE pawl.record SET {record} WHERE id = {odd}")
    database.sql(f"UPDATE pawl.outcome SET sweep_at = 0 WHERE id = {odd}")
    while sweep(session, 1) > 0:
        pass
    assert database.sql("SELECT id, body IS NOT NULL, sweep_at FROM pawl.outcome"
                        " JOIN pawl.record USING (id)") == [(odd, is_kept, looked_at)]


def test_a_sweep_leaves_odd_bound_keys(database, session):
    fill(database, 2)
    database.sql(BIND)
    database.sql(f"UPDATE pawl.bound SET expires_at = CASE holder WHEN {FIRST_ID + 1} THEN -1"
                 f" ELSE {MINUTE} END")
    assert sweep(session, 10) == 1
    assert database.sql("SELECT holder FROM pawl.bound") == [(FIRST_ID + 1,)]


def test_a_beat_in_the_future_is_none(database, session):
    """Its process is dead, and its lease has ended; a living one beats on."""
    fill(database, 1)
    database.sql(f"UPDATE pawl.record SET owner = 5, {NOT_DONE}")
    database.sql("INSERT INTO pawl.owner VALUES (5, 9000000000000000000)")
    for beat in (9000000000000000000, -5, -NEVER):
        database.sql("UPDATE pawl.owner SET beat_at = %s", beat)
        session.execute("SELECT pawl.lease_end(r) FROM pawl.record r")
        assert session.fetchone() == (1,)
    database.sql("INSERT INTO pawl.tally(by, owner, leases, lease_us, pending, complete, failed,"
                 " unknown, released, forgets) VALUES (5, 5, 1, 1, 0, 0, 0, 0, 0, 0)")
    session.execute("SELECT stale FROM pawl.gauge(1, %s, 10)", (NOW,))
    assert session.fetchone() == (1,)
    session.execute("SELECT FROM pawl.beat(5, %s)", (NOW,))
    assert database.sql("SELECT beat_at FROM pawl.owner WHERE incarnation = 5") == [(NOW,)]
