# SPDX-License-Identifier: Apache-2.0
"""The usual hand-written table: statements as contracts for idempotency publish them, verbatim.
They do what they say; each test after that shows what they leave to the application."""
from __future__ import annotations

from typing import Any

import psycopg2
import pytest
from psycopg2 import errors

from pawltest.handwritten import ACCEPT, INBOX, JOB, KEYS, PREFERENCE, SAY, SEEK
from pawltest.wire import Later, eventually
from shop import RULE, effects, is_waiting

# The calls of the published handler, which come without their SQL.
GET = "SELECT payload_hash, status, http_code, result_ref FROM idempotency_keys WHERE key = %s"
INSERT = ("INSERT INTO idempotency_keys (key, payload_hash, status, expires_at)"
          " VALUES (%s, %s, 'pending', now() + interval '24 hours')")
UPDATE = ("UPDATE idempotency_keys SET status = %s, result_ref = %s, http_code = %s"
          " WHERE key = %s")

# The tables that those statements need; theirs were not published.
TABLES = """
CREATE TABLE refunds (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount int NOT NULL);
CREATE TABLE matchmaking_jobs (
  batch_date date, timezone text, user_id text, job_type text, status text NOT NULL, offers text,
  idempotency_key text UNIQUE, attempt_count int NOT NULL DEFAULT 1,
  PRIMARY KEY (batch_date, timezone, user_id, job_type));
CREATE TABLE user_preferences (
  user_id text, preference text, value boolean, updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (user_id, preference));
CREATE TABLE match_offers (id text PRIMARY KEY, status text NOT NULL, accepted_at timestamptz);
CREATE TABLE messages (
  id uuid PRIMARY KEY, match_id text, sender_id text, content text,
  client_message_id text UNIQUE, created_at timestamptz NOT NULL DEFAULT now());
"""


class Session:
    """A connection of the application's, in a transaction."""

    def __init__(self, connection: Any):
        self.connection = connection

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]] | int:
        """The rows, or how many were touched."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else cursor.rowcount

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def refund(self, amount: int) -> str:
        rows = self.run("INSERT INTO refunds (amount) VALUES (%s) RETURNING id", amount)
        return f"rf_{rows[0][0]}"

    def handle(self, key: str, payload_hash: str, amount: int) -> tuple[int, str]:
        """The published handler, line by line, in one transaction."""
        rows = self.run(GET, key)
        if rows:
            if rows[0][0] != payload_hash:
                return 409, "CONFLICT.idempotency.payload_mismatch"
            if rows[0][1] == "complete":
                return rows[0][2], rows[0][3]
        else:
            self.run(INSERT, key, payload_hash)
        refund = self.refund(amount)
        self.run(UPDATE, "complete", refund, 201, key)
        self.commit()
        return 201, refund


@pytest.fixture
def open_session(plain, installed, connecting):
    """Makes sessions of the application in a database with the published tables."""
    plain.sql(KEYS + INBOX + TABLES)
    plain.sql("GRANT ALL ON ALL TABLES IN SCHEMA public TO shop")
    return lambda: Session(connecting(plain))


@pytest.fixture
def session(open_session):
    return open_session()


# ---- what they promise ----


def test_the_table_of_keys_replays_and_refuses_another_payload(session):
    assert session.handle("k1", "abc", 1000) == (201, "rf_1")
    assert session.handle("k1", "abc", 1000) == (201, "rf_1")
    assert session.handle("k1", "xyz", 500) == (409, "CONFLICT.idempotency.payload_mismatch")
    assert session.run("SELECT count(*) FROM refunds") == [(1,)]


def test_t10_preferences_upserts_are_last_write_wins_and_move_updated_at(session):
    times = []
    for _ in range(2):
        assert session.run(PREFERENCE) == 1
        session.commit()
        times += session.run("SELECT updated_at FROM user_preferences WHERE value")
    assert times[0] < times[1]


def test_t10_a_conditional_update_touches_no_row_the_second_time(session):
    session.run("INSERT INTO match_offers VALUES ('offer-123', 'offered', NULL)")
    assert [session.run(ACCEPT), session.run(ACCEPT)] == [1, 0]


def test_t10_a_message_sent_again_is_found_by_the_client_s_id(session):
    said = session.run(SAY)
    assert session.run(SAY) == [] and session.run(SEEK) == said
    assert session.run("SELECT count(*) FROM messages") == [(1,)]


def test_a_job_that_completed_is_not_begun_again(session):
    assert session.run(JOB) == 1
    session.run("UPDATE matchmaking_jobs SET status = 'completed'")
    assert session.run(JOB) == 0


# ---- two at once ----


def test_of_two_at_once_the_table_of_keys_gives_one_an_error_for_a_response(open_session, plain):
    first, second = open_session(), open_session()
    assert first.run(GET, "k1") == second.run(GET, "k1") == []
    first.run(INSERT, "k1", "abc")
    late = Later(lambda: second.run(INSERT, "k1", "abc"))
    eventually(lambda: is_waiting(plain))
    first.run(UPDATE, "complete", first.refund(1000), 201, "k1")
    first.commit()
    with pytest.raises(errors.UniqueViolation):
        late.result()


def test_of_two_at_once_with_the_pending_row_committed_both_run(open_session):
    """"atomically with the operation" is read as two commits by who calls a provider between."""
    first, second = open_session(), open_session()
    first.run(INSERT, "k1", "abc")
    first.commit()
    assert second.handle("k1", "abc", 1000) == (201, "rf_1")  # pending: it goes on
    first.run(UPDATE, "complete", first.refund(1000), 201, "k1")
    first.commit()
    assert first.run("SELECT count(*) FROM refunds") == [(2,)]


def test_two_at_once_both_begin_the_job(open_session):
    first, second = open_session(), open_session()
    assert first.run(JOB) == 1
    first.commit()
    assert second.run(JOB) == 1  # while the first one still makes its offers


def test_of_two_messages_at_once_one_gets_no_id(open_session, plain):
    first, second = open_session(), open_session()
    assert first.run(SEEK) == second.run(SEEK) == []
    first.run(SAY)
    late = Later(lambda: second.run(SAY))
    eventually(lambda: is_waiting(plain))
    first.commit()
    assert late.result() == []


# ---- a crash between ----


def test_after_a_crash_between_record_and_effect_nobody_knows_whether_it_ran(open_session):
    """Both that died before and that died after the provider was called leave the same row."""
    dead = open_session()
    dead.run(INSERT, "k1", "abc")
    dead.commit()
    dead.connection.close()
    assert open_session().run(GET, "k1") == [("abc", "pending", None, None)]


def test_an_error_of_the_effect_cannot_be_recorded_in_its_transaction(session):
    session.run(INSERT, "k1", "abc")
    with pytest.raises(errors.NotNullViolation):
        session.run("INSERT INTO refunds (amount) VALUES (NULL)")
    with pytest.raises(errors.InFailedSqlTransaction):
        session.run(UPDATE, "failed", None, 500, "k1")


def test_a_failed_row_runs_again_as_if_nothing_had_been_said(session):
    session.run(INSERT, "k1", "abc")
    session.run(UPDATE, "failed", None, 500, "k1")
    assert session.handle("k1", "abc", 1000) == (201, "rf_1")


# ---- another payload, a later time, another tenant ----


def test_another_message_under_the_same_id_is_dropped_without_a_word(session):
    session.run(SAY)
    assert session.run(SAY.replace("Hello!", "Good night!")) == []
    assert session.run("SELECT content FROM messages") == [("Hello!",)]


def test_a_late_retry_of_a_preference_undoes_a_newer_choice(session):
    session.run(PREFERENCE)
    session.run(PREFERENCE.replace("true", "false"))  # the user changed their mind
    session.run(PREFERENCE)  # the first one's retry
    assert session.run("SELECT value FROM user_preferences") == [(True,)]


def test_no_row_touched_does_not_say_whether_it_was_accepted_passed_or_never_there(session):
    assert session.run(ACCEPT) == 0
    session.run("INSERT INTO match_offers VALUES ('offer-123', 'passed', NULL)")
    assert session.run(ACCEPT) == 0
    session.run("UPDATE match_offers SET status = 'accepted'")
    assert session.run(ACCEPT) == 0


def test_nothing_reads_when_a_key_expires(session):
    session.handle("k1", "abc", 1000)
    session.run("UPDATE idempotency_keys SET expires_at = now() - interval '1 day'")
    assert session.handle("k1", "xyz", 1000)[0] == 409
    with pytest.raises(errors.UniqueViolation):
        session.run(INSERT, "k1", "xyz")


def test_a_message_s_id_is_not_found_after_a_day_and_not_accepted_either(session):
    session.run(SAY)
    session.run("UPDATE messages SET created_at = now() - interval '25 hours'")
    assert session.run(SEEK) == session.run(SAY) == []


def test_another_tenant_with_the_same_key_gets_the_first_one_s_response(open_session):
    merchant, stranger = open_session(), open_session()
    assert merchant.handle("k1", "abc", 1000) == (201, "rf_1")
    assert stranger.handle("k1", "abc", 1000) == (201, "rf_1")
    assert stranger.run("SELECT count(*) FROM refunds") == [(1,)]


def test_another_user_with_the_same_message_id_is_never_heard(session):
    session.run(SAY)
    assert session.run(SAY.replace("user-123", "user-456")) == []


def test_another_source_with_the_same_event_id_is_lost(session):
    arrive = "INSERT INTO inbox_events (event_id, source, payload_hash) VALUES (%s, %s, 'abc')"
    session.run(arrive, "ev_001", "payments")
    with pytest.raises(psycopg2.IntegrityError):
        session.run(arrive, "ev_001", "shipping")


# ---- the same, with a record ----


def test_with_a_record_of_two_at_once_the_second_gets_the_response(shop, database):
    first, second = shop(), shop()
    body = first.open()
    late = Later(lambda: second.create(wait="60 s"))
    eventually(lambda: is_waiting(database))
    first.commit()
    assert late.result() == body and effects(database) == 1


def test_with_a_record_a_crash_between_leaves_neither(shop, database):
    dead = shop()
    dead.begin()
    dead.refund()
    dead.connection.close()
    assert shop().create(wait="60 s")
    assert effects(database) == 1


def test_with_a_record_an_error_of_the_effect_is_rolled_back_to_a_savepoint_and_kept(shop):
    session = shop()
    begun = session.begin()
    session.run("SAVEPOINT effect")
    with pytest.raises(errors.NotNullViolation):
        session.run("INSERT INTO refunds (amount) VALUES (NULL)")
    session.run("ROLLBACK TO effect")
    session.run("SELECT pawl.complete(%s, 422, %s)", begun.token, '{"error": "amount"}')
    session.commit()
    again = session.begin()
    assert (again.decision, again.http_code) == ("replay", 422)


def test_with_a_record_another_payload_is_a_mismatch(shop, database):
    session = shop()
    session.create(payload_hash=64 * "a")
    assert session.begin(payload_hash=64 * "b").decision == "mismatch"
    session.rollback()
    assert session.create(payload_hash=64 * "a") and effects(database) == 1


def test_with_a_record_the_key_is_free_when_its_time_is_over(shop, database):
    session = shop()
    session.create(ttl="1 ms", wait="0 s")
    eventually(lambda: session.begin().decision == "proceed" or session.rollback())
    session.rollback()
    session.create()
    assert effects(database) == 2


def test_with_a_record_keys_of_two_tenants_never_meet(shop):
    session = shop()
    session.create()
    assert session.run("SELECT decision FROM pawl.begin('m2', %s, 'k1')", RULE) == [("proceed",)]


def test_with_a_record_a_late_retry_of_a_preference_undoes_nothing(shop, database):
    """The choice is under a key: its retry is a replay, and the upsert does not run again."""
    database.sql("CREATE TABLE IF NOT EXISTS choice (value boolean NOT NULL)")
    database.sql("GRANT ALL ON choice TO shop")
    session = shop()
    for key, value in (("yes", True), ("no", False), ("yes", True)):
        begun = session.begin(key)
        if begun.decision == "proceed":
            session.run("DELETE FROM choice")
            session.run("INSERT INTO choice VALUES (%s)", value)
            session.complete(begun.token, "{}")
        session.commit()
    assert session.run("SELECT value FROM choice") == [(False,)]


def test_the_reference_s_columns_are_those_of_the_view(shop, database):
    body = shop().create(payload_hash=64 * "a")
    assert body
    ((key, payload_hash, status, _, http_code, created, expires),) = database.sql(
        "SELECT key,payload_hash,status,result_ref,http_code,created_at,expires_at"
        " FROM pawl.idempotency_keys")
    assert (key, payload_hash, status, http_code) == ("k1", 64 * "a", "complete", 201)
    assert (expires - created).total_seconds() >= 24 * 3600
