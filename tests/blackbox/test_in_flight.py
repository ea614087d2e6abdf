# SPDX-License-Identifier: Apache-2.0
"""How many ruled requests may be in flight at one time, in all and of one tenant."""
from __future__ import annotations

import pytest

from pawltest.admin import with_admin
from pawltest.upstream import say
from pawltest.wire import Later, at_once, eventually

pytestmark = pytest.mark.no_store

ONE = """
tenant: none
threads: 4
rules:
  - {name: refunds.create, match: POST /refunds, timeout: 1h, in_progress: {wait: 10m}}
"""
MANY = ONE.replace("tenant: none", 'tenant: "{header:X-Merchant}"\ntrust_tenant: true')


def is_limited(answer) -> bool:
    return answer.is_problem(429, "RATE_LIMIT.exceeded") and answer["Retry-After"] == "1"


def test_two_hundred_at_once_are_no_more_in_flight_than_the_limit(pawl, upstream):
    """found: B-F8"""
    gateway = pawl(ONE + "max_in_flight: 10\n")
    gate = upstream.gate()
    upstream.default = say(201, {}, gate=gate)
    answers = []

    def ask(i: int) -> None:
        answers.append(gateway.post("/refunds", {}, key=f"k{i}"))

    everybody = Later(lambda: at_once(200, ask))
    eventually(lambda: len(answers) >= 190, "all but those in flight")
    assert upstream.effects() <= 10
    gate.open()
    everybody.result()
    assert upstream.effects() == sum(answer.status == 201 for answer in answers) == 10
    assert sum(is_limited(answer) for answer in answers) == 190


def test_duplicates_that_wait_take_no_place_and_go_on_beyond_the_limit(pawl, upstream):
    """found: B-F8"""
    gateway, admin = with_admin(pawl, ONE + "max_in_flight: 2\n")
    gate = upstream.gate()
    upstream.then(say(503, {}, gate=gate))
    first = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    gate.wait_for()
    waiting = []
    for _ in range(5):  # one after the other: each has its place until it waits
        waiting.append(Later(lambda: gateway.post("/refunds", {}, key="k1")))
        eventually(lambda: admin.value("pawl_waiting") == len(waiting), "its wait")
        eventually(lambda: admin.value("pawl_in_flight") == 1, "its place")
    gate.open()
    assert first.result().status == 503
    assert [one.result().status for one in waiting] == [201] * 5
    assert gateway.post("/refunds", {}, key="k2").status == 201, "all places were given back"


def test_a_tenant_has_its_share_and_others_theirs(pawl, upstream):
    """found: B-F8"""
    gateway, admin = with_admin(pawl, MANY + "max_in_flight_per_tenant: 2\n")
    gate = upstream.gate()
    upstream.then(*[say(201, {}, gate=gate) for _ in range(3)])

    def post(merchant: str, key: str):
        return gateway.post("/refunds", {}, key=key, headers=[("X-Merchant", merchant)])

    held = [Later(lambda i=i: post("m1", f"k{i}")) for i in range(2)]
    gate.wait_for(2)
    for _ in range(3):
        assert is_limited(post("m1", "k3"))
    held.append(Later(lambda: post("m2", "k0")))
    gate.wait_for()
    assert admin.value("pawl_limited_total", reason="tenant") == 3
    gate.open()
    assert [one.result().status for one in held] == [201] * 3
    assert post("m1", "k3").status == 201
