# SPDX-License-Identifier: Apache-2.0
"""A gateway and an application on the same keys of one database: one effect between them."""
from __future__ import annotations

from typing import Any

import pytest

from pawltest.gateway import Gateway
from pawltest.wire import Answer, Later, at_once, eventually
from shop import RULE, InProgress, effects

CONFIG = f"""
tenant: "{{header:X-Tenant}}"
trust_tenant: true
rules:
  - {{name: {RULE}, match: POST /refunds, in_progress: {{wait: 1m}}}}
  - {{name: impatient, match: POST /impatient, in_progress: conflict}}
"""


@pytest.fixture
def gateway(pawl: Any, database: Any) -> Gateway:
    return pawl(CONFIG, started=False).move_to(database.url).start()


def ask(gateway: Gateway, key: str = "k1", target: str = "/refunds") -> Answer:
    return gateway.request("POST", target, [("X-Tenant", "m1"), ("Idempotency-Key", key)], b"{}")


def test_what_a_gateway_forwards_is_in_progress_at_once_and_then_replayed(gateway, shop, upstream):
    gate, session = upstream.hold(), shop()
    first = Later(lambda: ask(gateway))
    gate.wait_for()
    begun = session.begin(wait="1 hour")
    assert begun.decision == "in_progress" and begun.lease_left.total_seconds() > 0
    session.rollback()
    gate.open()
    response = first.result().body
    assert session.create() == response
    assert upstream.effects() == 1


def test_what_an_application_began_a_gateway_waits_for_and_replays(
        gateway, shop, upstream, database):
    session = shop()
    body = session.open()
    late = Later(lambda: ask(gateway))
    eventually(lambda: database.sql(
        "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'pawl%%'"))
    session.commit()
    answer = late.result()
    assert (answer.status, answer.body, answer["Idempotency-Status"]) == (201, body, "replayed")
    assert upstream.effects() == 0


def test_what_an_application_began_is_in_progress_at_a_gateway(gateway, shop, upstream):
    session = shop()
    begun = session.run("SELECT token FROM pawl.begin('m1', 'impatient', 'k1')")
    answer = ask(gateway, target="/impatient")
    assert answer.is_problem(409, "CONFLICT.idempotency.in_progress")
    session.rollback()
    assert begun and ask(gateway, target="/impatient").status == 201
    assert upstream.effects() == 1


def test_at_the_same_moment_one_of_them_runs_it(gateway, shop, upstream, database):
    sessions = [shop() for _ in range(3)]

    def create(i: int, key: str) -> bytes:
        if i >= len(sessions):
            return ask(gateway, key).body
        while True:
            try:
                return sessions[i].create(key)
            except InProgress:
                sessions[i].rollback()

    for n in range(8):
        before = upstream.effects() + effects(database)
        bodies = at_once(6, lambda i, key=f"k{n}": create(i, key))
        assert len(set(bodies)) == 1
        assert upstream.effects() + effects(database) == before + 1
