# SPDX-License-Identifier: Apache-2.0
"""Record and effect in one transaction of the application's: both or neither, however it ends and
whoever comes at the same moment."""
from __future__ import annotations

import os
import random
import signal
from typing import Any

import psycopg2
import pytest
from psycopg2 import errors

from pawltest.wire import Later, at_once, eventually
from pooler import Pooler
from relay import CutAt, Relay, Way
from server import Database, Server
from shop import RULE, Shop, effects, install, is_waiting, url_of

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
STEPS = ("begin", "effect", "complete", "commit")


def walk(session: Shop, last: str, key: str = "k1") -> None:
    """The steps of a refund up to that one."""
    begun = session.begin(key)
    if last == "begin":
        return
    body = session.refund()
    if last == "effect":
        return
    session.complete(begun.token, body)
    if last == "commit":
        session.commit()


def wait_for_end(connection: Any) -> None:
    def has_ended() -> bool:
        try:
            connection.cursor().execute("SELECT 1")
        except psycopg2.Error:
            return True
        return False

    eventually(has_ended, "the end of the session")


def count_after_restart(database: Database, witness: Any) -> int:
    """`witness`: a connection of before, which ends once the server begins anew."""
    wait_for_end(witness)

    def count() -> list[int]:
        try:
            return [effects(database)]
        except psycopg2.OperationalError:
            return []

    return eventually(count, "the server again")[0]


# ---- killed ----


@pytest.mark.parametrize("last", STEPS)
def test_a_client_that_goes_leaves_both_or_neither(shop, database, last):
    session = shop()
    walk(session, last)
    session.connection.close()
    eventually(lambda: not database.sql(
        "SELECT 1 FROM pg_stat_activity WHERE usename = 'shop' AND datname = current_database()"))
    assert effects(database) == (last == "commit")
    assert shop().create() == b'{"id": "rf_%d"}' % (1 if last in ("begin", "commit") else 2)
    assert effects(database) == 1


@pytest.mark.parametrize("way", list(Way), ids=lambda way: way.name.lower())
def test_a_connection_cut_at_any_message_leaves_both_or_neither(shop, database, way):
    """COMMIT and its answer included: then nobody knows, and the next attempt finds out."""
    cuts = 0
    with Relay(database.server.port) as relay:
        for n in range(100):
            key = f"{way.name}-{n}"
            before = effects(database)
            relay.judge = cut = CutAt(way, n)
            try:
                connection = psycopg2.connect(url_of(database, relay.port))
                Shop(connection).create(key)
                connection.close()
            except psycopg2.Error:
                cuts += 1
            body = shop().create(key, wait="30 s")
            assert shop().create(key) == body
            assert effects(database) == before + 1
            if cut.met is None:
                break
    assert cuts > 8


def test_a_server_whose_session_is_killed_at_any_step_has_both_or_neither():
    """kill -9 of the session's backend, on which the server starts anew."""
    with Server() as server:
        database = install(server)
        for number, last in enumerate(STEPS):
            witness = psycopg2.connect(url_of(database))
            session = Shop(psycopg2.connect(url_of(database)))
            before = effects(database)
            walk(session, last, f"k{number}")
            os.kill(session.connection.info.backend_pid, signal.SIGKILL)
            with pytest.raises(psycopg2.OperationalError):
                session.run("SELECT 1")
            assert count_after_restart(database, witness) == before + (last == "commit")
            again = Shop(psycopg2.connect(url_of(database)))
            again.create(f"k{number}")
            assert effects(database) == before + 1
            again.connection.close()


# ---- at once ----


@pytest.mark.parametrize("level", LEVELS)
def test_a_hundred_at_once_have_one_effect_and_one_response(shop, database, level):
    n = 100 if level == LEVELS[0] else 30
    sessions = [shop() for _ in range(n)]
    for session in sessions:
        session.connection.set_session(isolation_level=level)
    bodies = at_once(n, lambda i: sessions[i].create_serialized(wait="60 s"))
    assert set(bodies) == {b'{"id": "rf_%d"}' % database.sql("SELECT id FROM refunds")[0][0]}
    assert effects(database) == 1


def test_a_waiter_goes_on_when_the_first_rolls_back(shop, database):
    first, second = shop(), shop()
    first.open()
    late = Later(lambda: second.create(wait="30 s"))
    eventually(lambda: is_waiting(database))
    first.rollback()
    late.result()
    assert effects(database) == 1


def test_several_keys_in_any_order_never_deadlock_once_they_are_locked(shop, database):
    """Thirty sessions, each with five of eight keys in an order of its own."""
    sessions = [shop() for _ in range(30)]

    def work(i: int) -> None:
        choose = random.Random(i)
        for _ in range(4):
            keys = choose.sample([f"k{n}" for n in range(8)], 5)
            sessions[i].run("SELECT pawl.lock('m1', %s, %s)", RULE, keys)
            for key in keys:
                sessions[i].open(key)
            sessions[i].commit()

    at_once(30, work)
    assert effects(database) == 8


def is_victim(session: Shop, key: str) -> bool:
    """Opens that key, too, and ends; whether the server chose it to resolve a deadlock."""
    try:
        session.create(key, wait="60 s")
    except errors.DeadlockDetected:
        session.rollback()
        return True
    return False


def test_without_the_lock_a_deadlock_comes_through_and_is_repeated(shop, database):
    first, second = shop(), shop()
    first.open("k1")
    second.open("k2")
    late = Later(lambda: is_victim(first, "k2"))
    eventually(lambda: is_waiting(database))
    assert sorted([is_victim(second, "k1"), late.result()]) == [False, True]
    first.create("k2")
    second.create("k1")
    assert effects(database) == 2


@pytest.mark.parametrize("level", LEVELS[1:])
def test_in_a_stricter_isolation_a_retry_is_a_replay(shop, database, level):
    """Whose snapshot is older than the other's commit gets 40001, or sees its response at once."""
    first, second = shop(), shop()
    second.connection.set_session(isolation_level=level)
    second.run("SELECT count(*) FROM refunds")  # its snapshot
    body = first.create()
    try:
        assert second.open() == body
    except errors.SerializationFailure:
        second.rollback()
        assert second.create() == body
    assert effects(database) == 1


# ---- within ----


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("stored, options", [("k1", {}), ("v1", {"once": "v1"})],
                         ids=["a key bound to another record", "a value that was a key"])
def test_what_leads_to_a_record_since_the_snapshot_is_never_begun_anew(
        shop, database, level, stored, options):
    """A look-up shows the snapshot alone. No index is in the way of a second record here."""
    late, other = shop(), shop()
    late.connection.set_session(isolation_level=level)
    late.run("SELECT 1")
    body = other.create(stored, once="v1") if not options else other.create(stored)
    if not options:
        assert other.create("k2", once="v1") == body
    with pytest.raises(errors.SerializationFailure):
        late.create("k2", **options)
    late.rollback()
    assert late.create("k2", **options) == body
    assert effects(database) == 1


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("unknown", [0, 1, 3], ids=["hold", "retry", "participant"])
def test_a_lease_that_lives_by_a_beat_since_the_snapshot_is_never_taken_over(
        shop, database, level, unknown):
    """A beat changes its owner's row alone, which a snapshot shows as it was."""
    late, other = shop(), shop()
    other.run("SELECT pawl.release(%s)", other.begin().token)
    other.commit()
    late.connection.autocommit = True
    late.run(f"BEGIN ISOLATION LEVEL {level}")
    database.sql("INSERT INTO pawl.owner VALUES (77, 1) ON CONFLICT (incarnation) DO NOTHING")
    database.sql("UPDATE pawl.record SET owner = 77, unknown = %s, expires_at = 0,"
                 " lease_us = 1000000, lease_until = pawl.clock(0)", unknown)
    late.run("SELECT 1")  # its snapshot
    database.sql("UPDATE pawl.owner SET beat_at = pawl.clock(0) + 3600000000")
    with pytest.raises(errors.SerializationFailure):
        late.begin()
    late.run("ROLLBACK")
    late.run(f"BEGIN ISOLATION LEVEL {level}")
    assert late.begin().decision == "in_progress"
    late.run("ROLLBACK")
    database.sql("DELETE FROM pawl.owner")
    late.run(f"BEGIN ISOLATION LEVEL {level}")
    assert late.begin().decision == ("proceed" if unknown else "outcome_unknown")


def test_a_savepoint_rolled_back_takes_record_and_effect_along(shop, database):
    session = shop()
    session.run("SAVEPOINT s")
    session.open()
    session.run("ROLLBACK TO s")
    assert session.begin("k2").decision == "proceed"
    session.run("ROLLBACK TO s")
    session.create()
    assert effects(database) == 1


def test_a_completion_rolled_back_to_a_savepoint_is_none(shop, database):
    session = shop()
    begun = session.begin()
    session.run("SAVEPOINT s")
    session.complete(begun.token, session.refund())
    session.run("ROLLBACK TO s")
    with pytest.raises(psycopg2.Error) as refusal:
        session.commit()
    assert refusal.value.pgcode == "PW002"
    session.create()
    assert effects(database) == 1


def test_a_second_begin_of_a_key_in_one_transaction_never_proceeds(shop):
    session = shop()
    begun = session.begin()
    assert session.begin().decision == "begun_here"
    session.complete(begun.token, "{}")
    assert session.begin().decision == "replay"


def test_behind_a_pooler_in_transaction_mode_it_is_the_same(database):
    with Pooler(database.server) as pooler:
        sessions = [Shop(psycopg2.connect(database.url_at(pooler.port))) for _ in range(8)]
        bodies = at_once(8, lambda i: sessions[i].create(wait="60 s"))
        assert len(set(bodies)) == effects(database) == 1
        for session in sessions:
            session.connection.close()


# ---- prepared ----


@pytest.mark.parametrize("end, decision", [("COMMIT", "replay"), ("ROLLBACK", "proceed")])
def test_a_prepared_transaction_holds_its_key_until_it_is_settled(shop, database, end, decision):
    session = shop()
    session.open()
    session.run("PREPARE TRANSACTION %s", f"{database.name}-x")
    session.connection.close()
    other = shop()
    assert other.begin(wait="0 s").decision == "in_progress"
    other.rollback()
    other.connection.autocommit = True
    other.run(f"{end} PREPARED %s", f"{database.name}-x")
    other.connection.autocommit = False
    assert other.begin().decision == decision


def test_what_is_not_completed_cannot_be_prepared(shop, database):
    session = shop()
    session.begin()
    with pytest.raises(psycopg2.Error) as refusal:
        session.run("PREPARE TRANSACTION %s", f"{database.name}-y")
    assert refusal.value.pgcode == "PW002"


# ---- waiting ----


@pytest.mark.parametrize("wait, lock_timeout", [("50 ms", "0"), ("60 s", "50ms"), ("0 s", "0")])
def test_who_waits_too_long_is_told_in_progress_and_may_go_on(shop, wait, lock_timeout):
    first, second = shop(), shop()
    body = first.open()
    second.run("SELECT set_config('lock_timeout', %s, false)", lock_timeout)
    assert second.begin(wait=wait).decision == "in_progress"
    assert second.run("SHOW lock_timeout") == [(lock_timeout,)]
    first.commit()
    assert second.create() == body


def test_a_statement_s_time_that_is_over_comes_through(shop, database):
    first, second = shop(), shop()
    body = first.open()
    second.run("SET LOCAL statement_timeout = '50ms'")
    with pytest.raises(errors.QueryCanceled):
        second.begin(wait="60 s")
    second.rollback()
    first.commit()
    assert second.create() == body and effects(database) == 1
