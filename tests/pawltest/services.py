# SPDX-License-Identifier: Apache-2.0
"""What services document that a repeated Idempotency-Key gets, and what pawl's clients make of it:
the table of docs/guide/services.md, and one server that answers as all of them do."""
from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from pawltest.upstream import Reply, Upstream, closes, say
from pawltest.wire import Headers, Request

DONE, FINAL, DOUBT, WAIT = "done", "final", "in doubt", "later"
PROFILE = "background"  # it has the time that a slow machine needs, and less than WAITS
WAITS = ("Retry-After", "600")
PROBLEM = "application/problem+json"


@dataclass(frozen=True)
class Case:
    """A response to a repeated key, and how an operation ends that gets it: as its first response,
    or after the response to an attempt that took effect got lost."""

    service: str
    what: str  # as in the table
    status: int
    body: Any
    headers: Headers
    first: str
    lost: str
    options: tuple[str, ...] = ()
    is_done: bool = False  # it says that the operation was done before
    code: int = 0  # what `pawl send` ends with where it is the first response, if not by the table

    @property
    def reply(self) -> Reply:
        kind = PROBLEM if isinstance(self.body, dict) and "title" in self.body else \
            "application/json"
        return Reply(self.status, json.dumps(self.body).encode(),
                     (("Content-Type", kind), *self.headers), effect=False)


@dataclass(frozen=True)
class Try:
    """An operation that gets this response, at first or after one that got lost."""

    case: Case
    is_lost: bool

    @property
    def end(self) -> str:
        return self.case.lost if self.is_lost else self.case.first

    def key(self, client: str) -> str:
        return f"{CASES.index(self.case)}-{'lost' if self.is_lost else 'first'}-{client}"

    def choices(self) -> dict[str, Any]:
        """Its options as the clients to copy take them; of `--not-done` what the body has."""
        made: dict[str, Any] = {"done": [], "later": [], "not_done": ""}
        if self.case.options:
            option, value = self.case.options
            made[option[2:].replace("-", "_")] = value.partition("=")[2] or [int(value)]
        return made


def stripe(code: str) -> dict[str, Any]:
    return {"error": {"code": code, "type": code, "message": "…"}}


def paypal(name: str, issue: str) -> dict[str, Any]:
    return {"name": name, "details": [{"issue": issue}]}


def problem(status: int, code: str, **members: Any) -> dict[str, Any]:
    return {"type": f"urn:pawl:error:{code}", "title": code, "status": status, "error_code": code,
            **members}


def conflict(name: str, retryable: bool) -> dict[str, Any]:
    return problem(409, f"CONFLICT.idempotency.{name}", retryable=retryable, safe_new_key=False)


AGAIN, NEVER = ("Stripe-Should-Retry", "true"), ("Stripe-Should-Retry", "false")
REPLAYED = ("Idempotent-Replayed", "true")
IN_USE_ADYEN = {"status": 409, "errorCode": "704", "errorType": "validation",
                "message": "request already processed or in progress"}
BUSY_SHOPIFY = {"data": {"inventorySetQuantities": {"userErrors": [
    {"code": "IDEMPOTENCY_CONCURRENT_REQUEST"}]}}}
THROTTLED = {"errors": [{"message": "Throttled", "extensions": {"code": "THROTTLED"}}]}
DRAFT = "https://developer.example.com/idempotency"

CASES = (
    Case("Stripe", "`idempotency_key_in_use`", 409, stripe("idempotency_key_in_use"), (), DONE,
         DONE),
    Case("Stripe", "`lock_timeout`", 429, stripe("lock_timeout"), (), DONE, DONE),
    Case("Stripe", "`Stripe-Should-Retry: true`", 400, stripe("other"), (AGAIN,), DONE, DONE),
    Case("Stripe", "`idempotency_error`: other parameters", 400, stripe("idempotency_error"), (),
         FINAL, DOUBT),
    Case("Stripe", "`card_declined`, `Idempotent-Replayed: true`", 402, stripe("card_declined"),
         (REPLAYED,), FINAL, DOUBT),
    Case("Stripe", "kept and replayed, `Stripe-Should-Retry: false`", 500, stripe("api_error"),
         (NEVER, REPLAYED), DOUBT, DOUBT),
    Case("Adyen", "`errorCode` 704", 422, IN_USE_ADYEN, (), DONE, DONE),
    Case("Adyen", "`errorCode` 704", 409, IN_USE_ADYEN, (), DONE, DONE),
    Case("Adyen", "another `errorCode`", 422, {"status": 422, "errorCode": "101"}, (),
         FINAL, DOUBT),
    Case("PayPal", "`PREVIOUS_REQUEST_IN_PROGRESS`", 409,
         paypal("RESOURCE_CONFLICT", "PREVIOUS_REQUEST_IN_PROGRESS"), (), DONE, DONE),
    Case("PayPal", "`PAYPAL_REQUEST_ID_PREVIOUSLY_USED`: another request", 422,
         paypal("UNPROCESSABLE_ENTITY", "PAYPAL_REQUEST_ID_PREVIOUSLY_USED"), (), FINAL, DOUBT),
    Case("Square", "`RATE_LIMITED`", 429, {"errors": [{"code": "RATE_LIMITED"}]}, (), DONE, DONE),
    Case("Shopify", "`IDEMPOTENCY_CONCURRENT_REQUEST` in `userErrors`", 200, BUSY_SHOPIFY, (),
         DONE, DONE, ("--not-done", "/data/inventorySetQuantities/userErrors/0/code="
                                    "IDEMPOTENCY_CONCURRENT_REQUEST")),
    Case("Shopify", "`THROTTLED`", 200, THROTTLED, (), DONE, DONE,
         ("--not-done", "/errors/0/extensions/code=THROTTLED")),
    Case("Shopify", "`Retry-After: 2.0`", 429, {"errors": "Exceeded 2 calls per second"},
         (("Retry-After", "2.0"),), DONE, DONE),
    Case("GitHub", "a secondary limit, `Retry-After`", 403, {"message": "rate limit"}, (WAITS,),
         WAIT, WAIT),
    Case("GitHub", "no right", 403, {"message": "Resource not accessible"},
         (("x-ratelimit-remaining", "4999"),), FINAL, DOUBT),
    Case("Modern Treasury", "the first request with the key still runs", 409,
         {"errors": {"code": "conflict"}}, (), DONE, DONE, ("--later", "409")),
    Case("Modern Treasury", "the same, without the option", 409, {"errors": {"code": "conflict"}},
         (), FINAL, DONE),
    Case("Loops", "the key was used in the last 24 hours", 409, {"success": False}, (), DONE, DONE,
         ("--done", "409"), is_done=True),
    Case("IETF draft", "problem, a request is outstanding", 409,
         {"type": DRAFT, "title": "A request is outstanding for this Idempotency-Key"}, (), DONE,
         DONE),
    Case("IETF draft", "problem, another payload", 422,
         {"type": DRAFT, "title": "Idempotency-Key is already used"}, (), FINAL, DOUBT),
    Case("pawl", "`in_progress`", 409, conflict("in_progress", True), (("Retry-After", "1"),),
         DONE, DONE),
    Case("pawl", "`outcome_unknown`, `retryable: true`, `Retry-After: 2`", 409,
         conflict("outcome_unknown", True), (("Retry-After", "2"),), DONE, DONE),
    Case("pawl", "`outcome_unknown`, `retryable: false`", 409, conflict("outcome_unknown", False),
         (), DOUBT, DOUBT),
    Case("pawl", "`payload_mismatch`", 409, conflict("payload_mismatch", False), (), FINAL, DOUBT,
         code=65),
    Case("pawl", "`duplicate`", 409, conflict("duplicate", False), (), FINAL, FINAL),
    Case("pawl", "`unavailable`", 503, problem(
        503, "DEPENDENCY.unavailable", retryable=True, safe_new_key=True), (), DONE, DONE),
)
TRIES = [Try(case, is_lost) for case in CASES for is_lost in (False, True)]


class Services:
    """All of them behind one address: the key says which case it is, whether the first response
    gets lost, and which client asks. None does anything twice under one key."""

    def __init__(self, upstream: Upstream):
        upstream.default = self.reply
        self.url = f"http://127.0.0.1:{upstream.port}/payments"
        self.asked: Counter[str] = Counter()
        self.effects: Counter[str] = Counter()

    def reply(self, request: Request) -> Reply:
        key = request["Idempotency-Key"]
        number, is_lost = key.split("-")[:2]
        case = CASES[int(number)]
        turn = self.asked[key] - (is_lost == "lost")
        self.asked[key] += 1
        if turn == 0:
            self.effects[key] = max(self.effects[key], int(case.is_done))
            return case.reply
        self.effects[key] += self.effects[key] == 0
        return closes() if turn < 0 else say(201, {"id": key})

    def check(self, one: Try, client: str, is_done: bool) -> None:
        """It was done if the client says so, or if the response got lost, and once; and no request
        was sent but the one that got lost, the one of the case, and one behind it that succeeds."""
        key = one.key(client)
        sent = 1 + one.is_lost + (is_done and not one.case.is_done)
        assert (self.effects[key], self.asked[key]) == (is_done or one.is_lost, sent), (one, client)
