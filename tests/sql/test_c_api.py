# SPDX-License-Identifier: Apache-2.0
"""include/pawl/pawl.h on PostgreSQL: each call, each decision and each error, in the transactions
of a role that may do no more than call the functions."""
from __future__ import annotations

import threading
from typing import Any, Callable, Iterator

import psycopg2
import pytest

import c_api
from c_api import DECISIONS, MOVES, NO_WAIT, Pawl, Refused
from server import Database
from shop import url_of

Client = tuple[Any, Pawl]


@pytest.fixture
def connecting(database: Database) -> Iterator[Callable[[], Client]]:
    made: list[Client] = []

    def connect() -> Client:
        connection = psycopg2.connect(url_of(database))
        with connection.cursor() as cursor:
            cursor.execute("SET client_min_messages = warning")
        connection.rollback()
        made.append((connection, Pawl(connection)))
        return made[-1]

    yield connect
    for connection, pawl in made:
        pawl.close()
        connection.close()


def start(connection: Any) -> None:
    """psycopg2 begins a transaction with the first statement of its own."""
    connection.cursor().execute("SELECT 1")


def refused(act: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(Refused) as caught:
        act()
    return caught.value.error, caught.value.problem


def test_the_names_are_those_of_sql(connecting: Callable[[], Client]) -> None:
    _, pawl = connecting()
    for names, name_of in ((DECISIONS, pawl.library.pawl_decision_name),
                           (MOVES, pawl.library.pawl_move_name)):
        assert [name_of(i).decode() for i in range(len(names))] == list(names)
        assert name_of(99) == b"none"


def test_a_retry_gets_the_first_response(connecting: Callable[[], Client]) -> None:
    (one, first), (two, second) = connecting(), connecting()
    start(one)
    begun = first.begin(b"k1", payload_hash=b"1" * 64)
    assert begun["decision"] == "proceed" and begun["first_at_us"] > 0
    assert first.begin(b"k1")["decision"] == "begun_here"
    assert first.complete(begun["token"], 201, b"a\0b", headers=b'{"Location": "/r/7"}') is False
    assert first.complete(begun["token"]) is True
    one.commit()
    start(two)
    again = second.begin(b"k1", payload_hash=b"1" * 64)
    assert (again["decision"], again["http_code"], again["body"]) == ("replay", 201, b"a\0b")
    assert (again["headers"], again["result_ref"]) == (b'{"Location": "/r/7"}', b"/r/7")
    assert again["first_at_us"] == begun["first_at_us"]
    assert second.begin(b"k1", payload_hash=b"2" * 64)["decision"] == "mismatch"
    assert second.begin(b"k1", tenant=None)["decision"] == "proceed"
    two.rollback()


def test_once_and_its_duplicates(connecting: Callable[[], Client]) -> None:
    connection, pawl = connecting()
    start(connection)
    pawl.complete(pawl.begin(b"k1", once=b"charge-7")["token"], result_ref=b"/r/7")
    connection.commit()
    start(connection)
    assert pawl.begin(b"k2", once=b"charge-7")["decision"] == "replay"
    rejected = pawl.begin(b"k3", once=b"charge-7", duplicate=1)
    assert (rejected["decision"], rejected["body"], rejected["result_ref"]) == (
        "duplicate", None, b"/r/7")
    acknowledged = pawl.begin(b"k4", once=b"charge-7", duplicate=2)
    assert (acknowledged["decision"], acknowledged["http_code"]) == ("replay", 204)
    connection.commit()


def test_another_transaction_waits_or_does_not(connecting: Callable[[], Client]) -> None:
    (one, first), (two, second) = connecting(), connecting()
    start(one)
    token = first.begin(b"k1")["token"]
    start(two)
    assert second.begin(b"k1", wait_ms=NO_WAIT)["decision"] == "in_progress"
    told: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: told.append(second.begin(b"k1")))
    waiting.start()
    first.complete(token)
    one.commit()
    waiting.join()
    assert told[0]["decision"] == "replay"
    two.rollback()


def test_what_is_released_runs_again(connecting: Callable[[], Client]) -> None:
    connection, pawl = connecting()
    for _ in range(2):
        start(connection)
        begun = pawl.begin(b"k1")
        assert begun["decision"] == "proceed"
        assert pawl.release(begun["token"]) is False
        assert pawl.release(begun["token"]) is True
        connection.commit()


def test_errors_are_told_apart(connecting: Callable[[], Client]) -> None:
    connection, pawl = connecting()
    assert refused(lambda: pawl.begin(b"k1"))[0] == c_api.INVALID
    assert "BEGIN first" in refused(lambda: pawl.begin(b"k1"))[1]
    for key in (b"", b"k" * 256, None, "ä".encode()):
        start(connection)
        assert refused(lambda: pawl.begin(key))[0] == c_api.MALFORMED
        error, problem = refused(lambda: pawl.begin(b"k1"))
        assert (error, problem) == (c_api.FAILED, "the transaction has failed: roll back")
        connection.rollback()
    for act, error in ((lambda: pawl.begin(b"k1", payload_hash=b"abc"), c_api.INVALID),
                       (lambda: pawl.begin(b"k1", ttl_ms=-1), c_api.INVALID),
                       (lambda: pawl.complete(1), c_api.STALE),
                       (lambda: pawl.release(1), c_api.STALE),
                       (lambda: pawl.publish(b"e 1", b"1"), c_api.MALFORMED),
                       (lambda: pawl.publish(b"e1", b"{"), c_api.FAILED),
                       (lambda: pawl.transition(b"fly", b"a1"), c_api.INVALID)):
        start(connection)
        assert refused(act)[0] == error
        connection.rollback()


def test_commit_needs_an_end(connecting: Callable[[], Client]) -> None:
    connection, pawl = connecting()
    start(connection)
    pawl.begin(b"k1")
    with pytest.raises(psycopg2.Error) as caught:
        connection.commit()
    assert caught.value.pgcode == "PW002"


def test_a_stricter_isolation_starts_again(connecting: Callable[[], Client]) -> None:
    (one, first), (two, second) = connecting(), connecting()
    two.set_session(isolation_level="SERIALIZABLE")
    start(two)
    start(one)
    first.complete(first.begin(b"k1")["token"])
    one.commit()
    assert refused(lambda: second.begin(b"k1"))[0] == c_api.AGAIN
    two.rollback()
    start(two)
    assert second.begin(b"k1")["decision"] == "replay"
    two.rollback()


def test_claims_events_and_machines(database: Database,
                                    connecting: Callable[[], Client]) -> None:
    database.sql("INSERT INTO pawl.machine VALUES ('offer', '', 'offer', 'offered'),"
                 " ('offer', 'offered', 'pass', 'passed') ON CONFLICT DO NOTHING")
    connection, pawl = connecting()
    start(connection)
    pawl.lock(b"b", b"a", b'q"\\')
    assert pawl.claim(b"P1", b'{"n": 1}') == (True, None)
    assert pawl.claim(b"P1", b'{"n": 2}') == (False, b'{"n": 1}')
    assert pawl.transition(b"offer", b"a1") == ("moved", False, b"", b"offered")
    assert pawl.transition(b"offer", b"a1") == ("moved", True, b"", b"offered")
    assert pawl.transition(b"pass", b"a1")[0] == "mismatch"
    assert pawl.transition(b"offer", b"a2")[0] == "conflict"
    assert pawl.transition(b"pass", b"a3", 5)[0] == "moved"
    assert pawl.transition(b"pass", b"a4", 4)[0] == "stale"
    assert pawl.publish(b"e1", b'{"a": 1}') is False
    assert pawl.publish(b"e1", b'{"a":1}') is True
    assert pawl.receive(b"e1", b"1" * 64) == ("proceed", b"ok")
    assert pawl.receive(b"e1", b"1" * 64) == ("replay", b"ok")
    assert pawl.receive(b"e1", b"2" * 64) == ("mismatch", b"ok")
    connection.commit()
    start(connection)
    assert refused(lambda: pawl.publish(b"e1", b"2"))[0] == c_api.OTHER
    connection.rollback()


def test_t1_a_hundred_transactions_with_one_key(database: Database,
                                                connecting: Callable[[], Client]) -> None:
    """One effect, and all get the same response; twenty connections at a time."""
    database.sql("CREATE TABLE IF NOT EXISTS public.made(what text); TRUNCATE public.made;"
                 " GRANT ALL ON public.made TO shop")
    told: list[tuple[int, bytes]] = []
    clients = [connecting() for _ in range(20)]

    def create_user(connection: Any, pawl: Pawl) -> None:
        for _ in range(5):
            start(connection)
            begun = pawl.begin(b"user-1", wait_ms=c_api.FOREVER)
            code, body = begun["http_code"], begun["body"]
            if begun["decision"] == "proceed":
                with connection.cursor() as cursor:
                    cursor.execute("INSERT INTO made SELECT 'u' || pg_backend_pid() RETURNING what")
                    code, body = 201, cursor.fetchone()[0].encode()
                pawl.complete(begun["token"], code, body)
            connection.commit()
            told.append((code, body))

    threads = [threading.Thread(target=create_user, args=client) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 100 and len(set(told)) == 1
    assert database.sql("SELECT count(*) FROM public.made") == [(1,)]
