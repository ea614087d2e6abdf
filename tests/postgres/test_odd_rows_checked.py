# SPDX-License-Identifier: Apache-2.0
"""Rows that no pawl wrote, in a database: they are held until a person acts on them, and nothing
beside them stops. Whoever writes one by SQL is told of the command that does it."""
from __future__ import annotations

from contextlib import closing
from typing import Iterator

import pytest

from pawltest.odd import (UNKNOWN, Odd, Server, nothing_odd_stops_anything,
                          odd_bound_keys_stay_refused, odd_records_are_held, odd_tasks_are_held,
                          told)
from test_schema import mend

pytestmark = pytest.mark.hooks


@pytest.fixture
def odd(pawl, receiver, database) -> Iterator[Odd]:
    server = Server(database)
    with closing(server.connection):
        yield Odd(pawl, receiver, server)


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


def test_odd_bound_keys_stay_refused(odd, upstream):
    odd_bound_keys_stay_refused(odd, upstream)


def test_a_response_whose_row_is_missing_is_gone(odd, upstream, database):
    assert odd.gateway.post("/refunds", {}, key="k1").status == 201
    odd.restart()
    database.sql("DELETE FROM pawl.outcome")
    assert told(odd.gateway.post("/refunds", {}, key="k1")) == (
        410, "CONFLICT.idempotency.result_not_kept")
    assert upstream.effects() == 1
    odd.others_go_on("k2")


ODD_FAILED = "status = 3, once_until = 5"  # with a once value it is not odd
ODD_IN_SQL = ["status = 99", "attempts = 0, once_until = 5", "attempts = 0, kept = 1",
              "gone_at = -1, expires_at = -2", "completed_at = -1", "attempts = 0",
              "payload_hash = 'short'", "token = 9223372036854775807",
              "status = 1, expires_at = -5, gone_at = 0", ODD_FAILED]


def test_what_is_odd_is_unknown_in_sql_too(database):
    """A begin does not acquire it, whoever asks; a token of it completes nothing."""
    assert mend(database).returncode == 0

    def begin(key: str) -> tuple[str, int | None]:
        [(decision, token)] = database.sql("SELECT decision, token FROM pawl.begin('shop', 'pay',"
                                           " %s)", key)
        return decision, token

    for n, change in enumerate(ODD_IN_SQL):
        database.sql("SELECT pawl.complete(token, 201, 'done') FROM pawl.begin('shop', 'pay', %s)",
                     f"k{n}")
        database.sql(f"UPDATE pawl.record SET {change} WHERE key = %s", f"k{n}".encode())
        assert begin(f"k{n}")[0] == "outcome_unknown", change
    for n, change in enumerate(ODD_IN_SQL[:-1]):
        database.sql("SELECT pawl.complete(token, 201, 'done') FROM pawl.begin('shop', 'once', %s,"
                     " once => %s)", f"o{n}", f"v{n}")
        database.sql(f"UPDATE pawl.record SET {change} WHERE key = %s", f"o{n}".encode())
        [(decision,)] = database.sql("SELECT decision FROM pawl.begin('shop', 'once', %s,"
                                     " once => %s)", f"other-{n}", f"v{n}")
        assert decision == "outcome_unknown", change
    database.sql("UPDATE pawl.record SET owner = 5")  # a gateway's
    with pytest.raises(Exception, match="no pawl wrote the row of the token"):
        database.sql("SELECT pawl.complete(token, 201, 'done') FROM pawl.record"
                     " WHERE key = 'k0'")
