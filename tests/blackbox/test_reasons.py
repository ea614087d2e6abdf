# SPDX-License-Identifier: Apache-2.0
"""Why an operator did something to a delivery, a received event, an endpoint or a store: said with
the act, by command or over HTTP, and in the audit beside it."""
from __future__ import annotations

import getpass
import json
from typing import Any

import pytest

from pawltest.admin import Admin, with_admin
from pawltest.gateway import run
from pawltest.upstream import Upstream
from pawltest.wire import Answer
from test_inbox import Inbox
from test_inbox import config as inbox_config
from test_webhooks import Outbox, sink
from test_webhooks import config as webhook_config

pytestmark = pytest.mark.hooks
JSON = ("Content-Type", "application/json")
LONGEST = "é" * 512


def post(admin: Admin, target: str, body: Any = None, *headers: tuple[str, str]) -> Answer:
    text = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    return admin.request("POST", target, [JSON, *headers], text)


def reasons(box: Outbox | Inbox, group: str = "") -> list[tuple[str, str | None]]:
    ran = run(group or box.group, "audit", "--json", "--store", box.gateway.store)
    assert ran.returncode == 0, ran
    return [(act["act"], act["reason"]) for act in map(json.loads, ran.stdout.splitlines())]


def done_delivery(pawl: Any, receiver: Upstream) -> tuple[Outbox, Admin]:
    gateway, admin = with_admin(pawl, webhook_config(sink("billing", receiver)))
    box = Outbox(gateway)
    box.publish()
    box.until("done")
    return box, admin


def test_an_act_on_a_delivery_says_why(pawl, receiver):
    box, admin = done_delivery(pawl, receiver)
    box.done("replay", box.id(), "--reason", "they lost\nit")
    box.until("done")
    again = post(admin, f"/deliveries/{box.id()}/replay", {"reason": LONGEST},
                 ("X-Operator", "ann"))
    assert again.status == 200
    box.until("done")
    assert post(admin, f"/deliveries/{box.id()}/replay").status == 200
    box.until("done")
    assert reasons(box) == [("replay", "they lost\nit"), ("replay", LONGEST), ("replay", None)]
    shown = box.done("audit").splitlines()
    assert shown[0].startswith(shown[0][:24] + f" cli:{getpass.getuser()} replay delivery ")
    assert shown[0].endswith(": done -> waiting: they lost\\x0ait")
    assert "admin:ann@127.0.0.1 replay" in shown[1] and shown[2].endswith("done -> waiting")


def test_an_act_on_an_endpoint_says_why(pawl, receiver):
    box, admin = done_delivery(pawl, receiver)
    box.done("endpoint", "add", "--name", "own", "--url", "https://h.example/x", "--types", "*",
             "--reason", "a customer's")
    box.done("endpoint", "disable", "own", "--reason", "it floods them")
    for act, body in (("enable", {"reason": "mended"}), ("rotate", {"reason": "leaked"}),
                      ("rotate", None), ("remove", {"reason": "left us"})):
        assert post(admin, f"/endpoints/own/{act}", body).status == 200
    assert reasons(box) == [
        ("add", "a customer's"), ("disable", "it floods them"), ("enable", "mended"),
        ("rotate", "leaked"), ("rotate", None), ("remove", "left us")]


def test_an_act_on_a_received_event_or_a_store_says_why(pawl):
    box = Inbox(pawl(inbox_config()))
    box.send()
    box.until("done")
    box.done("replay", box.id(), "--reason", "handled wrongly")
    box.until("done")
    assert reasons(box) == [("replay", "handled wrongly")]
    for act in ("freeze", "thaw"):
        ran = run("store", act, "--reason", f"to {act}", "--store", box.gateway.store)
        assert ran.returncode == 0, ran
    assert reasons(box, "store") == [("freeze", "to freeze"), ("thaw", "to thaw")]


@pytest.mark.parametrize("body", [b"{", b"[]", {"reason": ""}, {"reason": 1}, {"why": "x"},
                                  {"reason": "x" * 1025}, {"reason": "x", "force": True}])
def test_what_is_no_reason_changes_nothing(pawl, receiver, body):
    box, admin = done_delivery(pawl, receiver)
    refused = post(admin, f"/deliveries/{box.id()}/replay", body)
    assert refused.status == 400 and "for the audit" in refused.json["detail"]
    assert post(admin, "/endpoints/billing/disable", body).status == 400
    assert box.states() == ["done"] and reasons(box) == []


def test_a_reason_is_sent_as_json(pawl, receiver):
    box, admin = done_delivery(pawl, receiver)
    refused = admin.request("POST", f"/deliveries/{box.id()}/drop", (), b"reason=x")
    assert refused.status == 415 and reasons(box) == []


def test_acts_on_records_have_their_reasons_among_many_of_others(pawl, upstream, receiver):
    """They are kept in one table."""
    rule = "rules:\n  - {name: refunds.create, match: POST /refunds, unknown: retry}\n"
    gateway, admin = with_admin(pawl, webhook_config(sink("billing", receiver)) + rule)
    box = Outbox(gateway)
    for key in ("k1", "k2"):
        assert gateway.post("/refunds", {}, key=key).status == 201
    forgotten = ["keys", "forget", "--store", gateway.store]
    assert run(*forgotten, "k1", "--reason", "first").returncode == 0
    for i in range(40):
        act = "disable" if i % 2 == 0 else "enable"
        assert post(admin, f"/endpoints/billing/{act}", {"reason": f"{i}"}).status == 200
    assert run(*forgotten, "k2", "--reason", "last").returncode == 0
    listed = run("keys", "audit", "--json", "--store", gateway.store).stdout.splitlines()
    assert [json.loads(line)["reason"] for line in listed] == ["first", "last"]
    assert [reason for _, reason in reasons(box)] == [f"{i}" for i in range(40)]
