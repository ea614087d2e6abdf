# SPDX-License-Identifier: Apache-2.0
"""Rows that no pawl wrote, in a database: they are held until a person acts on them, and nothing
beside them stops. Whoever writes one by SQL is told of the command that does it."""
from __future__ import annotations

import pytest

from pawltest.odd import (Odd, Server, nothing_odd_stops_anything, odd_records_are_held,
                          odd_tasks_are_held)


pytestmark = pytest.mark.hooks


@pytest.fixture
def odd(pawl, receiver, database) -> Odd:
    return Odd(pawl, receiver, Server(database))


def test_odd_tasks_are_held(odd):
    """found: R8"""
    odd_tasks_are_held(odd)


def test_nothing_odd_stops_anything(odd):
    nothing_odd_stops_anything(odd)


@pytest.mark.parametrize("change", ["due_at = 1", "lease_until = 5", "holds = 1", "attempts = -1"])
def test_who_writes_an_odd_task_by_sql_is_told_of_the_command(odd, database, change):
    odd.publish()
    odd.box.until("done")
    with pytest.raises(Exception, match="task_see_pawl_queue_retry"):
        database.sql(f"UPDATE pawl.task SET {change}")


def test_odd_records_are_held(odd, upstream):
    odd_records_are_held(odd, upstream)
