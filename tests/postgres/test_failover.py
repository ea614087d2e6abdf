# SPDX-License-Identifier: Apache-2.0
"""A synchronous standby, the primary killed, the standby promoted: the gateways follow, and nothing
that was told is lost."""
from __future__ import annotations

from typing import Iterator

import pytest

from pawltest.gateway import Gateway
from pawltest.wire import Answer, Later, eventually
from server import Database, Server

CONFIG = """
tenant: none
threads: 1
store_timeout: 2s
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
def gateways(pawl, own_server: Server, standby: Server) -> list[Gateway]:
    database: Database = own_server.add_database()
    hosts = f"127.0.0.1:{own_server.port},127.0.0.1:{standby.port}"
    url = database.url.replace(f"127.0.0.1:{own_server.port}", hosts)
    url += "?target_session_attrs=read-write"
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
