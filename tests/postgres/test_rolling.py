# SPDX-License-Identifier: Apache-2.0
"""Gateways on one store whose configs differ, as in every rolling deployment."""
from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any, Iterator

import pytest

from pawltest.gateway import Gateway
from pawltest.tasks import Tasks
from pawltest.upstream import Upstream, say
from pawltest.wire import eventually

pytestmark = pytest.mark.hooks
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EVENTS = 8  # fewer than open the breaker of a lane


class Outbox(Tasks):
    group = "webhook"

    def publish(self, type_: str = "refund.created") -> str:
        return self.done("publish", type_, "-d", "{}").strip()


class Inbox(Tasks):
    group = "inbox"

    def send(self, id_: str) -> Any:
        body = json.dumps({"id": id_}).encode()
        signature = hmac.new(b"k", body, hashlib.sha256).hexdigest()
        return self.gateway.request("POST", "/hooks/gh", [
            ("Content-Type", "application/json"), ("X-Hub-Signature-256", f"sha256={signature}")],
            body)


@pytest.fixture
def receiver() -> Iterator[Upstream]:
    made = Upstream()
    yield made
    made.stop()


def sink(name: str, receiver: Upstream, **more: Any) -> dict[str, Any]:
    return {"name": name, "url": f"http://127.0.0.1:{receiver.port}/{name}", "types": ["refund.*"],
            "secret": SECRET, "schedule": ["1s"] * 9, **more}


def config(*endpoints: dict[str, Any], inbox: bool = False) -> str:
    webhooks = {"allow": ["127.0.0.0/8"], "allow_http": True, "endpoints": endpoints}
    source = {"name": "gh", "match": "POST /hooks/gh", "handler": "POST /internal/gh",
              "verify": {"scheme": "github", "secret": "k"}, "id": "{body:/id}"}
    return ("tenant: none\nallow: [inbox-id-unsigned]\n"
            + (f"webhooks: {json.dumps(webhooks)}\n" if endpoints else "")
            + (f"inbox: {json.dumps([source])}\n" if inbox else ""))


def looks(gateway: Gateway, n: int = 3) -> None:
    """Time for its courier to look, with the store's clock a second on each time."""
    for _ in range(n):
        gateway.clock.step(1)


def told(receiver: Upstream) -> list[tuple[str | None, str]]:
    return sorted((request["webhook-id"], request.target) for request in receiver.done)


def test_what_one_gateway_knows_no_handler_of_is_left_to_the_one_that_does(pawl, receiver,
                                                                           upstream):
    """found: R1"""
    pawl(config(sink("billing", receiver)))
    box = Inbox(pawl(config(sink("billing", receiver), inbox=True)))
    upstream.then(*[say(503, effect=False)] * EVENTS)
    for i in range(EVENTS):
        assert box.send(f"e{i}").status == 200
    eventually(lambda: len(upstream.requests) >= EVENTS, "their first attempts")
    assert {row["state"] for row in box.list()} <= {"waiting", "sending", "done"}
    box.until(*["done"] * EVENTS, step=5)
    assert upstream.effects("/internal/gh") == EVENTS


def test_what_one_gateway_knows_no_endpoint_of_is_left_to_the_one_that_does(pawl, receiver):
    """found: R1"""
    pawl(config())
    box = Outbox(pawl(config(sink("crm", receiver))))
    receiver.then(*[say(503, effect=False)] * EVENTS)
    events = [box.publish() for _ in range(EVENTS)]
    eventually(lambda: len(receiver.requests) >= EVENTS, "their first attempts")
    assert {row["state"] for row in box.list()} <= {"waiting", "sending", "done"}
    box.until(*["done"] * EVENTS, step=5)
    assert told(receiver) == sorted((event, "/crm") for event in events)


def test_deliveries_of_a_gateway_that_stopped_wait_for_the_next_one_that_knows_them(pawl, receiver):
    """found: R1"""
    other = pawl(config())
    gateway = pawl(config(sink("crm", receiver)))
    box = Outbox(gateway)
    receiver.default = say(503, effect=False)
    box.publish()
    receiver.wait_for(1)
    gateway.stop()
    looks(other, 5)
    assert {row["state"] for row in box.list() if row["lane"] == "crm"} == {"waiting"}
    receiver.default = receiver.created
    gateway.start()
    eventually(lambda: not box.list("--state", "waiting") and not box.list("--state", "sending"),
               "all of them")
    assert not box.list("--dead")
