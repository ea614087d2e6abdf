# SPDX-License-Identifier: Apache-2.0
"""examples/offers on hosts that share a PostgreSQL: each job runs on one of them."""
from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from pawltest.offers import Scheduler, hosts, kill
from pawltest.wire import eventually

NIGHT = datetime(2026, 2, 20, 3, 0, tzinfo=timezone.utc)


def test_three_hosts_at_once_make_each_offer_once(database, tmp_path):
    scheduler = Scheduler(tmp_path, database.url)
    scheduler.drop_index()
    for day in range(3):
        at = NIGHT + timedelta(days=day)
        ended = [scheduler.end(host) for host in [scheduler.start(at) for _ in range(3)]]
        assert sum(run for _, run, _ in ended) == 12
        assert all(run + skipped == 12 for _, run, skipped in ended)
    scheduler.check()


@pytest.mark.hooks
def test_another_host_finishes_what_a_killed_one_has_begun(database, tmp_path, clock):
    scheduler = Scheduler(tmp_path, database.url, clock)
    scheduler.drop_index()
    for day in range(5):
        at = NIGHT + timedelta(days=day)
        first = scheduler.start(at)
        eventually(lambda: scheduler.rows("SELECT 1 FROM offers LIMIT 1 OFFSET ?", 12 * day + day),
                   "an offer of the night")
        kill(list(hosts(first)))
        first.communicate()
        clock.advance(16)
        _, run, skipped = scheduler.night(at)
        assert run + skipped == 12
        scheduler.check()
