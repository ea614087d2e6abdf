# SPDX-License-Identifier: Apache-2.0
"""Gateways behind pgbouncer in transaction mode, more of them than it has sessions."""
from __future__ import annotations

from typing import Iterator

import pytest

from pawltest.gateway import Gateway
from pawltest.wire import Later, at_once
from pooler import Pooler
from server import Server

CONFIG = """
tenant: none
threads: 1
cache: 0
rules:
  - {name: refunds.create, match: POST /refunds}
"""


@pytest.fixture(scope="module")
def pooler(server: Server) -> Iterator[Pooler]:
    with Pooler(server) as made:
        yield made


@pytest.fixture
def gateways(pawl, pooler, database) -> list[Gateway]:
    made = [pawl(CONFIG, started=False) for _ in range(3)]
    return [gateway.move_to(database.url_at(pooler.port)).start() for gateway in made]


def test_a_race_has_one_effect_and_one_answer(gateways, upstream):
    for race in range(5):
        answers = at_once(6, lambda i, key=str(race): gateways[i % 3].post("/refunds", {}, key=key))
        assert {answer.status for answer in answers} == {201}
        assert len({answer.kept for answer in answers}) == 1
        assert upstream.effects() == race + 1


def test_a_duplicate_waits_for_the_first_at_another(gateways, upstream):
    gate = upstream.hold()
    first = Later(lambda: gateways[0].post("/refunds", {}, key="k1"))
    gate.wait_for()
    second = Later(lambda: gateways[1].post("/refunds", {}, key="k1"))
    # Those that come and go meanwhile take both sessions in turn.
    others = at_once(4, lambda i: gateways[2].post("/refunds", {}, key=f"k{i + 2}"))
    assert [answer.status for answer in others] == [201] * 4
    gate.open()
    assert first.result().kept == second.result().kept
    assert upstream.effects() == 5


def test_sessions_that_end_behind_it_cost_nothing(gateways, upstream, database):
    for i in range(5):
        assert gateways[i % 3].post("/refunds", {}, key=f"k{i}").status == 201
        database.server.end_backends(database)
    for i in range(5):
        assert gateways[i % 3].post("/refunds", {}, key=f"k{i}")["Idempotency-Status"] == "replayed"
    assert upstream.effects() == 5
