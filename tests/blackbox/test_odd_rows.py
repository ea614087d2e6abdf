# SPDX-License-Identifier: Apache-2.0
"""Rows that no pawl wrote, in a file: they are held until a person acts on them, and nothing beside
them stops. In a database: tests/postgres/test_odd_rows_checked.py."""
from __future__ import annotations

import pytest

from pawltest.gateway import run
from pawltest.odd import (Odd, a_name_that_leads_nowhere_is_held, nothing_odd_stops_anything,
                          odd_bound_keys_stay_refused, odd_records_are_held, odd_tasks_are_held,
                          stray_outcomes_settle_nothing)
from pawltest.upstream import say
from pawltest.wire import Broken

pytestmark = [pytest.mark.hooks, pytest.mark.file_only]


@pytest.fixture
def odd(pawl, receiver) -> Odd:
    return Odd(pawl, receiver)


def test_odd_tasks_are_held(odd):
    """found: R8"""
    odd_tasks_are_held(odd)


def test_nothing_odd_stops_anything(odd):
    """Every column of every table of modules, as the process names them."""
    nothing_odd_stops_anything(odd)


def test_odd_records_are_held(odd, upstream):
    odd_records_are_held(odd, upstream)


def test_odd_bound_keys_stay_refused(odd, upstream):
    odd_bound_keys_stay_refused(odd, upstream)


def test_stray_outcomes_settle_nothing(odd, upstream):
    stray_outcomes_settle_nothing(odd, upstream)


def test_a_name_that_leads_nowhere_is_held(odd, upstream):
    a_name_that_leads_nowhere_is_held(odd, upstream)


def test_a_damaged_response_is_gone_for_its_own_key_alone(odd, upstream):
    upstream.then(say(201, {"text": "ab" * 5000}))
    assert odd.gateway.post("/refunds", {}, key="k1").status == 201
    odd.store.sql("UPDATE pawl_outcome SET body = x'28b52ffd00' WHERE key = 'k1'")
    answer = odd.gateway.post("/refunds", {}, key="k1")
    assert (answer.status, answer["Error-Code"]) == (410, "CONFLICT.idempotency.result_not_kept")
    assert upstream.effects() == 1
    odd.others_go_on("k2")
    assert odd.gateway.lines("outcome_damaged")
    odd.store.sql("UPDATE pawl_outcome SET http_code = 0 WHERE key = 'k2'")
    answer = odd.gateway.post("/refunds", {}, key="k2")
    assert (answer.status, answer["Error-Code"]) == (410, "CONFLICT.idempotency.result_not_kept")
    shown = run("keys", "show", "k1", "--store", odd.gateway.store)
    assert (shown.returncode, "is damaged" in shown.stderr) == (0, True), shown


@pytest.mark.parametrize("damage, said", [
    ("UPDATE pawl_state SET key_seq = -1", "malformed; restore a backup"),
    ("DELETE FROM pawl_state", "its row of pawl_state is missing; restore a backup"),
])
def test_a_damaged_state_is_a_reason_to_stop(odd, damage, said):
    """found: R8. Without it no key can be looked for: one line, and exit 74."""
    odd.others_go_on("k1")
    odd.store.sql(damage)
    with pytest.raises(Broken):
        odd.gateway.post("/refunds", {}, key="k2")
    assert odd.gateway.wait() == 74
    stopped = [line for line in odd.gateway.printed if line.startswith("pawl: the store failed")]
    assert len(stopped) == 1 and "; restore a backup" in stopped[0]
    again = run("serve", "--config", str(odd.gateway.config))
    assert said in again.stderr
