# SPDX-License-Identifier: Apache-2.0
"""The connection to PostgreSQL is cut at every message of the protocol: no effect happens twice and
no answer is lost."""
from __future__ import annotations

import itertools

import pytest

from pawltest.gateway import Gateway
from relay import Act, CutAt, Relay, Way
from server import Database
from pawltest.wire import Answer, eventually

CONFIG = """
tenant: none
threads: 1
cache: 0
store_timeout: STORE_TIMEOUT
rules:
  - {name: refunds.create, match: POST /refunds, timeout: 10s}
"""
MESSAGES_MOST = 400  # of one operation
# What a client may be told while the store is cut off, and repeats its request for.
FOR_NOW = ("DEPENDENCY.store_unavailable", "DEPENDENCY.outcome_not_stored",
           "CONFLICT.idempotency.in_progress")


def gateway_behind(pawl, relay: Relay, database: Database, store_timeout: str = "5s") -> Gateway:
    gateway = pawl(CONFIG.replace("STORE_TIMEOUT", store_timeout), started=False)
    return gateway.move_to(database.url_at(relay.port)).start()


def ask(gateway: Gateway, key: str) -> Answer:
    """Until there is an outcome."""
    def told() -> Answer | None:
        answer = gateway.post("/refunds", {"of": key}, key=key)
        assert answer.status == 201 or answer["Error-Code"] in FOR_NOW, answer
        return answer if answer.status == 201 else None

    return eventually(told, "an outcome")


def cut_everywhere(gateway: Gateway, upstream, relay: Relay, way: Way, act: Act,
                   step: int = 1) -> int:
    """An operation for each message, until one needed fewer; how many there were."""
    for n in itertools.count(0, step):
        assert n < MESSAGES_MOST, "an operation that does not end"
        relay.judge = judge = CutAt(way, n, act)
        first, again = ask(gateway, f"k{n}"), ask(gateway, f"k{n}")
        assert again["Idempotency-Status"] == "replayed", f"cut at {judge.met}"
        assert first.kept == again.kept, f"cut at {judge.met}"
        assert upstream.effects() == n // step + 1, f"cut at {judge.met}"
        if judge.met is None:
            return n // step


@pytest.mark.parametrize("way", Way, ids=lambda way: way.name)
def test_a_connection_cut_at_every_message_costs_nothing(pawl, upstream, relay, database, way):
    gateway = gateway_behind(pawl, relay, database)
    assert cut_everywhere(gateway, upstream, relay, way, Act.CUT) > 20


@pytest.mark.parametrize("act", [Act.CUT_INSIDE, Act.RESET], ids=lambda act: act.name)
@pytest.mark.parametrize("way", Way, ids=lambda way: way.name)
def test_a_message_cut_in_two_or_reset_costs_nothing(pawl, upstream, relay, database, way, act):
    gateway = gateway_behind(pawl, relay, database)
    assert cut_everywhere(gateway, upstream, relay, way, act, step=4) > 5


@pytest.mark.parametrize("way", Way, ids=lambda way: way.name)
def test_a_network_that_swallows_costs_nothing(pawl, upstream, relay, database, way):
    """Nobody is told: the connection counts as lost after store_timeout."""
    gateway = gateway_behind(pawl, relay, database, "200ms")
    assert cut_everywhere(gateway, upstream, relay, way, Act.SWALLOW, step=6) > 3


def test_a_slow_network_is_slow_and_no_more(pawl, upstream, relay, database):
    gateway = gateway_behind(pawl, relay, database)
    relay.delay = 0.005
    assert ask(gateway, "k1")["Idempotency-Status"] == "stored"
    assert ask(gateway, "k1")["Idempotency-Status"] == "replayed"
    assert upstream.effects() == 1
