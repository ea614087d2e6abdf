# SPDX-License-Identifier: Apache-2.0
"""A record that changed hands while its first owner was still at it."""
from __future__ import annotations

import os
import signal

import pytest

from pawltest.gateway import run
from operations import BY_KEY, CONFIGS
from pawltest.wire import Later, eventually

pytestmark = pytest.mark.hooks


def forget(gateway, key: str) -> None:
    ran = run("keys", "forget", key, "--force", "--store", gateway.store,
              env={**os.environ, "PAWL_TEST_CLOCK": str(gateway.clock.path)})
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("policy", BY_KEY)
def test_an_owner_whose_token_is_stale_never_tells_its_own_answer(pawl, upstream, policy):
    gateway = pawl(CONFIGS[policy])
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    gate.wait_for()
    forget(gateway, "k1")
    second = gateway.post("/refunds", {}, key="k1")
    assert second["Idempotency-Status"] == "stored"
    gate.open()
    late = first.result()
    assert late["Idempotency-Status"] == "replayed"
    assert late.kept == second.kept
    assert gateway.post("/refunds", {}, key="k1").kept == second.kept


def test_an_owner_that_lost_its_record_during_a_drain_says_that_no_new_key_is_safe(pawl, upstream):
    gateway = pawl("tenant: none\nrules:\n  - {name: r, match: POST /refunds}\n")
    gates = upstream.hold(), upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    gates[0].wait_for()
    forget(gateway, "k1")
    second = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    gates[1].wait_for()
    gateway.signal(signal.SIGTERM)
    eventually(lambda: not gateway.is_listening, "the end of listening")
    gates[0].open()
    told = first.result()
    assert told.is_problem(503, "DEPENDENCY.unavailable")
    assert told.json["safe_new_key"] is False, "both were done"
    gates[1].open()
    assert second.result()["Idempotency-Status"] == "stored"
    assert gateway.wait() == 0
