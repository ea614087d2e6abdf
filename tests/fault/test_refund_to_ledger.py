# SPDX-License-Identifier: Apache-2.0
"""A refund tells a ledger: emit, outbox, a signed webhook, inbox, handler. Gateways are killed with
-9 at any point, responses of both services are lost, and clients repeat what they do not know:
every refund happens once, and the ledger has one entry for it."""
from __future__ import annotations

import json
import random
import signal
import threading
from typing import Any, Callable, Iterator

import pytest

from operations import died, start_or_die
from pawltest.gateway import Gateway
from pawltest.tasks import Tasks
from pawltest.upstream import Reply, Upstream, closes, say
from pawltest.wire import Broken, Request, eventually

pytestmark = pytest.mark.hooks
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
REFUNDS = 12
OUT = ("request_body_read", "before_begin", "after_claim_commit", "before_connect",
       "after_request_write", "after_response_body", "before_outcome_commit",
       "after_outcome_commit", "before_response_write", "after_response_write")
IN = ("request_body_read", "before_begin", "after_claim_commit", "before_response_write",
      "after_response_write", "before_connect", "after_response_body", "before_outcome_commit",
      "after_outcome_commit")


class Outbox(Tasks):
    group = "webhook"


class Inbox(Tasks):
    group = "inbox"


class Service(Upstream):
    """Loses a third of its responses, after what it does by `act`, or before."""

    def __init__(self, act: Any, seed: int):
        super().__init__()
        self.random, self.lock, self.act = random.Random(seed), threading.Lock(), act
        self.default = self.serve

    def serve(self, request: Request) -> Reply:
        with self.lock:
            fate = self.random.random()
            if fate < 0.15:
                return closes(effect=False)
            response = self.act(request)
            return closes() if fate < 0.3 and request.method == "POST" else response


def config_of_refunds(ledger: Gateway) -> str:
    endpoint = {"name": "ledger", "url": f"http://127.0.0.1:{ledger.port}/hooks", "types": ["*"],
                "secret": SECRET}
    webhooks = {"allow": ["127.0.0.0/8"], "allow_http": True, "endpoints": [endpoint]}
    return ("tenant: none\nrules: [{name: r, match: POST /refunds, emit: {type: refund.made}, "
            "unknown: {probe: 'GET /by-key/{key}'}, settle: 1s, timeout: 5s}]\n"
            f"webhooks: {json.dumps(webhooks)}\n")


CONFIG_OF_LEDGER = ("tenant: none\ninbox: [{name: refunds, match: POST /hooks, handler: POST /in, "
                    f"verify: {{scheme: standard, secret: {SECRET}}}}}]\n")


@pytest.fixture
def service() -> Iterator[Callable[[Any, int], Service]]:
    made: list[Service] = []

    def make(act: Any, seed: int) -> Service:
        made.append(Service(act, seed))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.mark.parametrize("seed", range(4))
def test_every_refund_has_one_entry_whatever_dies(pawl, service, seed):
    chance = random.Random(seed)
    made_under: list[str] = []
    refunds: dict[str, int] = {}
    entries: dict[str, Any] = {}

    def refund(request: Request) -> Reply:
        if request.method == "GET":
            made = refunds.get(request.target.rpartition("/")[2])
            return say(200, {"refund": made}) if made else say(404, {})
        made_under.append(request["idempotency-key"])
        refunds[made_under[-1]] = len(made_under)
        return say(201, {"refund": len(made_under)})

    def enter(request: Request) -> Reply:
        entries.setdefault(request["idempotency-key"], request.json["data"])
        return say(200, {})

    bank, books = service(refund, seed), service(enter, seed + 100)
    ledger = pawl(CONFIG_OF_LEDGER, started=False)
    ledger.upstream_port = books.port
    ledger.configure(CONFIG_OF_LEDGER)
    shop = pawl(config_of_refunds(ledger), started=False)
    shop.upstream_port = bank.port
    shop.configure(config_of_refunds(ledger))
    points = {shop: OUT, ledger: IN}

    deaths: list[int] = []

    def revive() -> None:
        for gateway in (ledger, shop):
            if died(gateway):
                if gateway.process:
                    deaths.append(gateway.wait())
                point = f"{chance.choice(points[gateway])}:{chance.randrange(1, 6)}"
                start_or_die(gateway, PAWL_CRASH_AT=point)

    def done(key: str) -> bool:
        revive()
        try:
            return shop.post("/refunds", {"n": key}, key=key).status in (200, 201)
        except (Broken, OSError):
            return False

    revive()
    for i in range(REFUNDS):
        key = f"k{i}"
        eventually(lambda key=key: done(key) or shop.clock.step(3), f"refund {key}")

    def told() -> bool:
        revive()
        if len(entries) < REFUNDS:
            shop.clock.step(5)
        return len(entries) == REFUNDS

    eventually(told, "an entry for each")
    assert sorted(made_under) == sorted(refunds) and len(refunds) == REFUNDS, "each once"
    assert len(deaths) > 5 and set(deaths) == {-signal.SIGKILL}
    assert sorted(entry["refund"] for entry in entries.values()) == sorted(refunds.values())
    for gateway, tasks in ((shop, Outbox(shop)), (ledger, Inbox(ledger))):
        gateway.kill9()
        gateway.start()
        assert len(tasks.list()) == REFUNDS
