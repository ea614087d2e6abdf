# SPDX-License-Identifier: Apache-2.0
"""Three gateways on one PostgreSQL as a Prometheus sees them, by the rules that ship."""
from __future__ import annotations

import pytest

from pawltest.admin import Admin, with_admin
from pawltest.gateway import Gateway
from pawltest.prometheus import Prometheus, Traffic
from pawltest.wire import at_once, eventually
from server import Database

CONFIG = """
tenant: none
threads: 1
store_timeout: 1s
rules:
  - {name: refunds.create, match: POST /refunds, timeout: 2s}
  - {name: held, match: POST /held, in_progress: conflict, lease: 2s}
"""
INSTANCES = ("a", "b", "c")
TROUBLE = {"PawlStoreDown", "PawlStoreRefuses"}


@pytest.fixture
def database(own_database: Database) -> Database:
    return own_database


@pytest.fixture
def three(pawl) -> dict[str, tuple[Gateway, Admin]]:
    return {name: with_admin(pawl, CONFIG) for name in INSTANCES}


def gauges(admin: Admin) -> dict[str, float]:
    return {status: admin.value("pawl_records", status=status)
            for status in ("pending", "complete", "failed", "unknown", "released")}


def test_gauges_are_the_stores_and_alerts_fire_and_clear_at_every_gateway(three, upstream,
                                                                         own_server, tmp_path):
    gateways = [gateway for gateway, _ in three.values()]
    prometheus = Prometheus(tmp_path, {name: admin.port for name, (_, admin) in three.items()})
    try:
        answers = at_once(9, lambda i: gateways[i % 3].post("/refunds", {}, key=f"k{i}"))
        assert {answer.status for answer in answers} == {201}
        for name, (_, admin) in three.items():
            eventually(lambda admin=admin: gauges(admin)["complete"] == 9, f"all of it at {name}")
        # What all gateways show is added up once for the store.
        eventually(lambda: prometheus.value("pawl:records") == 9, "the sum of one store")
        own_server.stop()
        traffic = Traffic(gateways)
        prometheus.await_alerts(INSTANCES, lambda _, alerts: TROUBLE <= alerts)
        own_server.start()
        prometheus.await_alerts(INSTANCES, lambda _, alerts: not TROUBLE & alerts)
        traffic.stop()
        for _, admin in three.values():
            admin.until_ready()
    finally:
        prometheus.stop()
