# SPDX-License-Identifier: Apache-2.0
"""A store that an operator froze: gateways begin nothing in it, and store what runs."""
from __future__ import annotations

import pytest

from pawltest.admin import with_admin
from pawltest.gateway import ROOT
from pawltest.wire import Later, eventually

CONFIG = """
tenant: none
rules:
  - {name: refunds.create, match: POST /refunds, store_down: %s}
"""
AWAY = "DEPENDENCY.store_unavailable"
GUIDE = (ROOT / "docs/guide/postgresql.md").read_text("utf-8")
FREEZE = GUIDE.partition("-- freeze.sql\n")[2].partition("```")[0]


@pytest.mark.parametrize("store_down", ["refuse", "pass"])
def test_a_gateway_begins_nothing_in_a_frozen_store_and_stores_what_runs(
        pawl, upstream, database, store_down):
    """found: R20

    Nor is anything let through unprotected: the store is there."""
    gateway, admin = with_admin(pawl, CONFIG % store_down)
    kept = gateway.post("/refunds", {}, key="k1").kept
    gate = upstream.hold()
    running = Later(lambda: gateway.post("/refunds", {}, key="k2"))
    gate.wait_for()
    database.sql(FREEZE)
    refused = gateway.post("/refunds", {}, key="k3")
    assert refused.is_problem(503, AWAY) and "froze" in refused.json["detail"]
    assert gateway.post("/refunds", {}, key="k1").kept == kept
    eventually(lambda: b"froze" in admin.get("/readyz").body, "not ready, and why")
    assert admin.get("/readyz").status == 503
    gate.open()
    assert running.result()["Idempotency-Status"] == "stored"
    assert upstream.effects() == 2
    database.sql("UPDATE pawl.store SET frozen = false")
    assert gateway.post_up("/refunds", {}, key="k3").status == 201
