# SPDX-License-Identifier: Apache-2.0
"""A synchronous standby, the primary killed, the standby promoted: the gateways follow, and nothing
that was told is lost."""
from __future__ import annotations

from typing import Iterator

import pytest

from pawltest.gateway import Gateway
from pawltest.wire import Answer, Later, eventually
from server import ROLE, Database, Server

CONFIG = """
tenant: none
threads: 1
store_timeout: 2s
store_sessions: 3
rules:
  - {name: refunds.create, match: POST /refunds, timeout: 5s}
"""
FOR_NOW = ("DEPENDENCY.store_unavailable", "DEPENDENCY.outcome_not_stored",
           "CONFLICT.idempotency.in_progress")


@pytest.fixture
def standby(own_server: Server) -> Iterator[Server]:
    """What is told to a client has arrived there."""
    made = own_server.add_standby()
    try:
        made.start()
        own_server.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        own_server.sql("SELECT pg_reload_conf()")
        eventually(lambda: own_server.sql("SELECT 1 FROM pg_stat_replication"
                                          " WHERE sync_state = 'sync'"), "a synchronous standby")
        yield made
    finally:
        made.discard()


@pytest.fixture
def url(own_server: Server, standby: Server) -> str:
    database: Database = own_server.add_database()
    hosts = f"127.0.0.1:{own_server.port},127.0.0.1:{standby.port}"
    return database.url.replace(f"127.0.0.1:{own_server.port}", hosts) + (
        "?target_session_attrs=read-write")


@pytest.fixture
def gateways(pawl, url: str) -> list[Gateway]:
    made = [pawl(CONFIG, started=False) for _ in range(2)]
    return [gateway.move_to(url).start() for gateway in made]


def ask(gateway: Gateway, key: str) -> Answer:
    def told() -> Answer | None:
        answer = gateway.post("/refunds", {}, key=key)
        assert answer.status == 201 or answer["Error-Code"] in FOR_NOW, answer
        return answer if answer.status == 201 else None

    return eventually(told, "an outcome")


def test_nothing_that_was_told_is_lost_when_the_standby_takes_over(gateways, upstream, own_server,
                                                                   standby):
    told = {f"k{i}": ask(gateways[i % 2], f"k{i}") for i in range(10)}
    tokens = [int(one["Idempotency-Token"]) for one in upstream.requests]
    gate = upstream.hold()
    running = Later(lambda: gateways[0].post("/refunds", {}, key="running"))
    gate.wait_for()
    own_server.kill9()
    standby.sql("SELECT pg_promote()")
    # A promoted one waits for no standby of its own.
    gate.open()
    assert running.result().status in (201, 503)
    for i, (key, first) in enumerate(told.items()):
        assert ask(gateways[(i + 1) % 2], key).kept == first.kept
    assert ask(gateways[1], "running").json == {"held": True}
    assert ask(gateways[1], "new")["Idempotency-Status"] == "stored"
    assert upstream.effects() == 12
    assert int(upstream.requests[-1]["Idempotency-Token"]) > max(tokens)
    for gateway in gateways:  # nor does it look so
        assert gateway.stop() == 0
        assert not gateway.lines("store_went_back")


@pytest.mark.parametrize("setting", ["client_min_messages = 'error'", "synchronous_commit = 'off'",
                                     "synchronous_commit = 'local'",
                                     "synchronous_commit = 'remote_write'"])
def test_a_cancelled_wait_for_the_standby_is_noticed_whatever_the_role_is_set_to(
        pawl, url, upstream, own_server, standby, setting):
    """Nobody is told of what is on the primary only."""
    own_server.sql(f"ALTER ROLE {ROLE} SET {setting}")
    gateway = pawl(CONFIG, started=False).move_to(url).start()
    assert ask(gateway, "k0")["Idempotency-Status"] == "stored"
    standby.stop()
    eventually(lambda: not own_server.sql("SELECT 1 FROM pg_stat_replication"), "its end")
    first = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    for _ in range(2):  # a claim and an outcome, or one of them and what confirms it
        eventually(lambda: own_server.sql(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            " AND usename = %s", ROLE), "a commit that waits")
    own_server.kill9()
    standby.start()
    standby.sql("SELECT pg_promote()")
    standby.sql("ALTER SYSTEM RESET synchronous_standby_names")
    standby.sql("SELECT pg_reload_conf()")
    told = first.result()
    again = ask(gateway, "k1")
    assert told.status != 201 or told.kept == again.kept
    assert upstream.effects() == 2
