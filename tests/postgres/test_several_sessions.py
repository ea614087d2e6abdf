# SPDX-License-Identifier: Apache-2.0
"""A gateway with several sessions: what they do together, and what becomes of one that is lost."""
from __future__ import annotations

import psycopg2
import pytest

from pawltest.gateway import Gateway
from pawltest.wire import Later, at_once, eventually
from server import Database, Server

CONFIG = """
tenant: none
threads: 2
store_sessions: 4
rules:
  - {name: refunds.create, match: POST /refunds, in_progress: {wait: 10m}}
  - {name: orders.create, match: POST /orders, in_progress: {wait: 10m},
     once: {key: "{body:/order}", duplicate: replay}}
"""
SESSIONS = ("SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
            " AND application_name LIKE 'pawl%%'")


@pytest.fixture
def gateway(pawl, upstream, database: Database) -> Gateway:
    made: Gateway = pawl(CONFIG)
    database.until(lambda rows: rows[0][0] == 4, SESSIONS, database.name)
    return made


def test_every_key_has_one_effect_and_one_response(gateway, upstream):
    answers = at_once(120, lambda i: gateway.post("/refunds", {}, key=f"k{i % 40}"))
    assert {a.status for a in answers} == {201}
    assert all(len({a.kept for a in answers[i::40]}) == 1 for i in range(40))
    assert upstream.effects() == 40


def test_duplicates_by_a_value_of_the_body_wait_across_sessions(gateway, upstream):
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/orders", {"order": "o1"}, key="first"))
    gate.wait_for()
    others = [Later(lambda i=i: gateway.post("/orders", {"order": "o1"}, key=f"k{i}"))
              for i in range(12)]
    gate.open()
    assert {other.result().kept for other in others} == {first.result().kept}
    assert upstream.effects() == 1


def test_a_session_that_is_lost_again_and_again_loses_nothing(gateway, upstream, database):
    for turn in range(6):
        database.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
                     " AND application_name = %s", database.name, f"pawl {turn % 3 + 2}")
        answers = at_once(40, lambda i, turn=turn: gateway.post("/refunds", {},
                                                                key=f"{turn}-{i % 20}"))
        told = [a for a in answers if a.status == 201]
        assert len({a.kept for a in told}) <= 20
        for i in range(20):
            eventually(lambda i=i, turn=turn: gateway.post("/refunds", {}, key=f"{turn}-{i}")
                       .status in (201, 409), "an outcome")
    assert upstream.effects() <= 6 * 20
    keys = [one["Idempotency-Key"] for one in upstream.requests]
    assert len(keys) == len(set(keys))


def test_a_role_that_may_have_one_connection_has_one_session(pawl, upstream, server: Server,
                                                             database: Database):
    server.sql("DROP ROLE IF EXISTS alone")
    server.sql("CREATE ROLE alone LOGIN PASSWORD 'alone' CONNECTION LIMIT 1")
    database.sql("SELECT pawl.admit_gateway('alone')")
    url = f"postgres://alone:alone@127.0.0.1:{server.port}/{database.name}"
    gateway = pawl(CONFIG, started=False).move_to(url).start()
    answers = at_once(60, lambda i: gateway.post("/refunds", {}, key=f"k{i % 30}"))
    assert {a.status for a in answers} == {201}
    assert upstream.effects() == 30
    with pytest.raises(psycopg2.OperationalError):
        psycopg2.connect(url)
    assert gateway.stop() == 0
