# SPDX-License-Identifier: Apache-2.0
"""The published policy: what `/.well-known/idempotency` tells, and that links to it lead there."""
from __future__ import annotations

import signal

import pytest

from pawltest.wire import Answer, eventually

pytestmark = pytest.mark.no_store

CONFIG = """
tenant: "{header:Authorization}"
threads: 1
rules:
  - {name: refunds.create, match: "POST /shops/{id}/refunds", ttl: 72h}
  - {name: reports, match: POST /reports, key: "{body:/id}{window:1h}", duplicate: reject}
  - {name: auth.refresh, match: POST /auth/refresh, protect: false}
"""
PAGE = "/.well-known/idempotency"


def page(gateway, *headers: tuple[str, str], method: str = "GET", path: str = PAGE) -> Answer:
    return gateway.request(method, path, list(headers))


def test_the_policy_of_every_rule_is_published(shared, behind):
    answer = page(shared)
    assert (answer.status, answer["Content-Type"]) == (200, "application/json")
    rules = {rule["name"]: rule for rule in answer.json["rules"]}
    assert list(rules) == ["refunds.create", "reports", "auth.refresh"]
    refund = rules["refunds.create"]
    assert (refund["match"], refund["protected"]) == ("POST /shops/{id}/refunds", True)
    assert refund["key"]["template"] == "{header:Idempotency-Key}"
    assert refund["tenant"] == {"template": "{header:Authorization}", "credential": True,
                                "authorized": False}
    assert refund["lifetime"] == {"ttl": "3d", "tombstone": "0"}
    assert refund["kept"]["in_doubt"] == ["500", "502", "504"]
    assert rules["reports"]["lifetime"]["window"] == "1h"
    assert rules["reports"]["duplicate"] == "reject"
    assert rules["auth.refresh"] == {"name": "auth.refresh", "match": "POST /auth/refresh",
                                     "protected": False}
    assert not behind.requests


def test_the_type_of_a_problem_leads_to_its_code(shared, behind):
    problem = shared.post("/shops/1/refunds", {"amount": 5})
    path, _, code = problem.json["type"].partition("#")
    assert problem["Link"] == f'<{problem.json["type"]}>; rel="describedby"'
    row = page(shared, path=path).json["errors"][code]
    assert (row["status"], row["title"]) == (problem.status, problem.json["title"])
    assert (row["retryable"], row["hint"]) == (problem.json["retryable"], problem.json["hint"])


def test_whoever_has_it_is_not_sent_it_again(shared):
    first = page(shared)
    tag = first["ETag"]
    assert first["Cache-Control"] == "max-age=60"
    for known in (tag, f'"other", W/{tag}', "*"):
        again = page(shared, ("If-None-Match", known))
        assert (again.status, again.body, again["ETag"]) == (304, b"", tag)
        assert again["Content-Length"] is None
    assert page(shared, ("If-None-Match", '"other"')).json == first.json


def test_head_tells_the_length_and_sends_no_body(shared):
    with shared.connect() as client:
        head = client.request("HEAD", PAGE)
        full = client.request("GET", PAGE)
        assert (head.status, head.body) == (200, b"")
        assert head["Content-Length"] == full["Content-Length"] == str(len(full.body))
        assert head["ETag"] == full["ETag"]


@pytest.mark.parametrize("method, path, headers", [
    ("POST", PAGE, []), ("OPTIONS", PAGE, []), ("GET", PAGE + "/", []), ("GET", PAGE + "x", []),
    ("GET", PAGE, [("X-HTTP-Method-Override", "POST")])])
def test_every_other_request_there_is_the_upstreams(shared, behind, method, path, headers):
    answer = shared.request(method, path, headers)
    assert [(seen.method, seen.target) for seen in behind.requests] == [(method, path)]
    assert answer["ETag"] is None


def test_a_query_does_not_hide_it(shared, behind):
    assert "rules" in page(shared, path=PAGE + "?x=1").json
    assert not behind.requests


def test_policy_off_hides_it(pawl, upstream):
    gateway = pawl(CONFIG + "policy: off\n")
    assert "rules" not in page(gateway).json
    assert [seen.target for seen in upstream.requests] == [PAGE]


def test_a_public_url_makes_every_link_absolute(pawl, upstream):
    gateway = pawl(CONFIG + "public_url: https://api.shop.example/v1/\n")
    for answer in (gateway.post("/shops/1/refunds", {}), gateway.request("TRACE", "/")):
        link = f"https://api.shop.example/v1{PAGE}#{answer['Error-Code']}"
        assert (answer.json["type"], answer["Link"]) == (link, f'<{link}>; rel="describedby"')


def test_it_holds_no_tenant_key_or_secret(shared, behind, key):
    shared.post("/shops/1/refunds", {}, key=key, headers=[("Authorization", "Bearer very-secret")])
    text = page(shared).body
    assert b"very-secret" not in text and key.strip('"').encode() not in text
    assert len(behind.requests) == 1


def test_a_reload_publishes_the_new_rules(pawl, upstream):
    gateway = pawl(CONFIG)
    old = page(gateway)
    gateway.configure(CONFIG.replace("ttl: 72h", "ttl: 1h"))
    gateway.signal(signal.SIGHUP)
    eventually(lambda: gateway.lines("config_reloaded"))
    new = page(gateway, ("If-None-Match", old["ETag"]))
    assert (new.status, new.json["rules"][0]["lifetime"]["ttl"]) == (200, "1h")
