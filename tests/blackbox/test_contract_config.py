# SPDX-License-Identifier: Apache-2.0
"""The config that pawl's contract shows, letter by letter, and what each of its rules does."""
from __future__ import annotations

import re

import pytest

from pawltest.gateway import run
from pawltest.upstream import closes, say

pytestmark = pytest.mark.no_store

AS_WRITTEN = """\
listen: 127.0.0.1:8080
admin: 127.0.0.1:8081
upstream: http://127.0.0.1:9000
store: sqlite:./pawl.db            # postgres://…, redis://…
tenant: "{header:X-Merchant-Id}"
trust_tenant: true                 # the auth layer in front sets it

defaults: {ttl: 24h, lease: 30s}

rules:
  - name: refunds.create
    match: POST /refunds
    ttl: 72h
    unknown: {probe: "GET /refunds/by-key/{key}"}
    probe_status: 201
    settle: 5s
  - name: purchase.settled
    match: POST /purchases
    key: "{body:/external_ref}"
    ttl: forever
  - name: otp.send
    match: POST /auth/otp/send
    key: "{body:/phone}"
    ttl: 10m
  - name: safety.report
    match: POST /safety/report
    key: "{body:/reporterId}{body:/subjectId}{body:/category}{window:1h}"
    duplicate: reject
  - name: messages.create
    match: POST /matches/{id}/messages
    key: "{path:id}{body:/clientMessageId}"
  - name: auth.refresh
    match: POST /auth/refresh
    protect: false
"""
CONFIG = re.sub(r"^(listen|admin|upstream|store):.*\n", "", AS_WRITTEN, flags=re.M)
MERCHANT = ("X-Merchant-Id", "m1")
REPORT = {"reporterId": "u1", "subjectId": "u2", "category": "spam"}


def test_the_config_of_the_contract_is_taken_as_it_stands(tmp_path):
    config = tmp_path / "pawl.yaml"
    config.write_text(AS_WRITTEN)
    ran = run("serve", "--test", "-c", config)
    assert ran.returncode == 0, ran.stderr
    assert "configuration OK" in ran.stdout


@pytest.mark.parametrize("target, body, mark", [
    ("/purchases", {"external_ref": "p1", "amount": 5}, "replayed"),
    ("/auth/otp/send", {"phone": "+15550100"}, "replayed"),
    ("/matches/7/messages", {"clientMessageId": "c1", "content": "Hello!"}, "replayed"),
    ("/safety/report", REPORT, None), ("/auth/refresh", {}, "bypassed")])
def test_a_repeat_gets_what_its_rule_says_without_a_key_header(shared, behind, target, body, mark):
    first, again = (shared.post(target, body, headers=[MERCHANT]) for _ in range(2))
    assert first["Idempotency-Status"] == ("stored" if mark != "bypassed" else mark)
    assert again["Idempotency-Status"] == mark
    assert behind.effects() == (2 if mark == "bypassed" else 1)
    if mark is None:
        assert again.is_problem(409, "CONFLICT.idempotency.duplicate")


def test_a_refund_whose_answer_got_lost_is_asked_for_by_its_key(shared, behind):
    behind.then(closes())
    behind.on("GET", "/refunds/by-key/r1", say(200, {"id": 1}))
    first, again = (shared.post("/refunds", {"amount": 5}, "r1", [MERCHANT]) for _ in range(2))
    assert (first.status, first.json) == (201, {"id": 1})
    assert again.kept == first.kept and again["Idempotency-Status"] == "replayed"
    assert behind.effects() == 1


def test_another_merchants_key_is_another_operation(shared, behind):
    answers = [shared.post("/refunds", {"amount": 5}, "r2", [("X-Merchant-Id", merchant)])
               for merchant in ("m1", "m2")]
    assert [answer["Idempotency-Status"] for answer in answers] == ["stored", "stored"]
    assert behind.effects() == 2
