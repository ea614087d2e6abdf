# SPDX-License-Identifier: Apache-2.0
"""The sixteen endpoints of examples/yoked and what a repeat of each gets, and the three test cases
of the contract that they are from."""
from __future__ import annotations

import json
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Callable, NamedTuple

import pytest

from pawltest.gateway import ROOT, Gateway
from pawltest.upstream import Gate, Reply, say
from pawltest.wire import PATIENCE, Answer, Request, at_once, eventually

pytestmark = pytest.mark.no_store

EXAMPLE = (ROOT / "examples/yoked/pawl.yaml").read_text("utf-8")
# The fixture's own addresses and store.
CONFIG = re.sub(r"^(listen|admin|upstream|store):.*\n", "", EXAMPLE, flags=re.M) + "threads: 1\n"
MINUTE, HOUR = 60, 3600
JSON = ("Content-Type", "application/json")
REPORT = {"reporterId": "u1", "subjectId": "u2", "category": "spam", "text": "a"}

hooks = pytest.mark.hooks


class App:
    """A client of one user, each call with the keys that the app would send."""

    def __init__(self, gateway: Gateway, user: str | None = "u1"):
        self.gateway = gateway
        self.user = user

    def send(self, method: str, path: str, body: Any = None, key: str | None = None) -> Answer:
        headers = [JSON]
        if self.user is not None:
            headers.append(("X-User-Id", self.user))
        if key is not None:
            headers.append(("Idempotency-Key", key))
        data = json.dumps(body).encode() if body is not None else b""

        def answered() -> Answer | None:
            answer = self.gateway.request(method, path, headers, data)
            return None if answer["Error-Code"] == "DEPENDENCY.store_unavailable" else answer

        return eventually(answered, "the store")

    def post(self, path: str, body: Any = None, key: str | None = None) -> Answer:
        return self.send("POST", path, body, key)


@pytest.fixture
def app(pawl: Callable[..., Gateway]) -> App:
    return App(pawl(CONFIG))


def new_key() -> str:
    return str(uuid.uuid4())


def marks(*answers: Answer) -> list[str | None]:
    return [answer["Idempotency-Status"] for answer in answers]


# ---- idempotent endpoints ----


@hooks
def test_otp_send_gives_the_same_request_id_for_ten_minutes(app, upstream, clock):
    """found: B-F5: whatever else the request says, so that nobody can turn a number away."""
    app.user = None
    phone = {"phone": "+15550100"}
    first = app.post("/auth/otp/send", phone, new_key())
    clock.advance(9 * MINUTE)
    assert app.post("/auth/otp/send", phone, new_key()).kept == first.kept
    assert app.post("/auth/otp/send", {**phone, "channel": "voice"}, new_key()).kept == first.kept
    assert app.post("/auth/otp/send", {"phone": "+15550101"}, new_key()).json != first.json
    clock.advance(61)
    assert app.post("/auth/otp/send", phone, new_key()).json != first.json
    assert upstream.effects() == 3


@hooks
def test_otp_verify_gives_the_same_tokens_for_five_minutes(app, upstream, clock):
    app.user = None
    right = {"requestId": "r1", "code": "123456"}
    first = app.post("/auth/otp/verify", right, new_key())
    clock.advance(4 * MINUTE)
    assert app.post("/auth/otp/verify", right, new_key()).kept == first.kept
    clock.advance(61)
    assert app.post("/auth/otp/verify", right, new_key()).json != first.json
    assert upstream.effects() == 2


@pytest.mark.parametrize("status", [400, 401, 422])
def test_a_wrong_code_stands_in_nobodys_way(app, upstream, status):
    app.user = None
    upstream.then(say(status, {"wrong": True}, effect=False))
    for code, expected in (("000000", status), ("123456", 201), ("000000", 201)):
        answer = app.post("/auth/otp/verify", {"requestId": "r1", "code": code}, new_key())
        assert answer.status == expected


def test_the_last_write_to_a_profile_wins_without_a_key(app, upstream):
    answers = [app.send("PATCH", "/users/me", {"name": name}) for name in ("a", "b", "a")]
    assert marks(*answers) == ["bypassed"] * 3
    assert upstream.effects() == 3


def test_a_write_to_a_profile_with_a_key_is_protected(app, upstream):
    key = new_key()
    answers = [app.send("PATCH", "/users/me", {"name": "a"}, key) for _ in range(2)]
    assert marks(*answers) == ["stored", "replayed"]
    assert upstream.effects() == 1


def test_the_same_photo_is_returned_and_another_under_its_key_is_refused(app, upstream):
    key = new_key()
    photo = "x" * (2 << 20)
    first = app.post("/users/me/photos", photo, key)
    assert app.post("/users/me/photos", photo, key).kept == first.kept
    other = app.post("/users/me/photos", photo + "y", key)
    assert other.is_problem(409, "CONFLICT.idempotency.payload_mismatch")
    assert app.post("/users/me/photos", photo, new_key()).json != first.json
    assert upstream.effects() == 2


@pytest.mark.parametrize("path", ["/compatibility/responses", "/matches/m1/unmatch",
                                  "/safety/block", "/matches/m1/read"])
def test_what_does_nothing_the_second_time_is_replayed_under_its_key(app, upstream, path):
    key = new_key()
    assert marks(*(app.post(path, {"a": 1}, key) for _ in range(2))) == ["stored", "replayed"]
    assert app.post(path, {"a": 1}, new_key())["Idempotency-Status"] == "stored"
    assert upstream.effects() == 2


def test_messages_are_read_without_a_key(app, upstream):
    assert marks(*(app.post("/matches/m1/read") for _ in range(2))) == ["bypassed"] * 2
    assert upstream.effects() == 2


@hooks
def test_a_user_has_one_verification_session_for_five_minutes(app, upstream, clock):
    first = app.post("/verification/session", {"device": "a"}, new_key())
    assert app.post("/verification/session", {"device": "b"}, new_key()).kept == first.kept
    other = App(app.gateway, "u2")
    assert other.post("/verification/session", {"device": "a"}, new_key()).json != first.json
    clock.advance(5 * MINUTE + 1)
    assert app.post("/verification/session", {"device": "a"}, new_key()).json != first.json
    assert upstream.effects() == 3


def test_an_action_on_an_offer_has_one_state_whatever_its_key(app, upstream):
    """found: B-F13"""
    accept, path = {"action": "accept"}, "/matches/offers/o1/action"
    first = app.post(path, accept, new_key())
    assert app.post(path, accept, new_key()).kept == first.kept
    assert app.post(path, {**accept, "taps": 2}, new_key()).kept == first.kept
    assert app.post(path, {"action": "pass"}, new_key())["Idempotency-Status"] == "stored"
    other = app.post("/matches/offers/o2/action", accept, new_key())
    assert other["Idempotency-Status"] == "stored"
    assert upstream.effects() == 3


@hooks
def test_a_message_with_a_known_client_message_id_is_the_existing_one_for_a_day(app, upstream,
                                                                               clock):
    message = {"content": "Hello!", "clientMessageId": "c1"}
    first = app.post("/matches/m1/messages", message, new_key())
    clock.advance(23 * HOUR)
    assert app.post("/matches/m1/messages", message, new_key()).kept == first.kept
    assert app.post("/matches/m2/messages", message, new_key()).json != first.json
    other = app.post("/matches/m1/messages", {**message, "content": "Bye!"}, new_key())
    assert other.kept == first.kept
    clock.advance(HOUR + 1)
    assert app.post("/matches/m1/messages", message, new_key()).json != first.json
    assert upstream.effects() == 3


@hooks
def test_a_report_is_rejected_for_an_hour_from_the_first(app, upstream, clock):
    """found: B-F13: who reports is who is signed in, whatever the body says."""
    assert app.post("/safety/report", REPORT, new_key()).status == 201
    clock.advance(59 * MINUTE)
    again = app.post("/safety/report", {**REPORT, "text": "in other words"}, new_key())
    assert again.is_problem(409, "CONFLICT.idempotency.duplicate")
    assert again.json["first"]["status"] == 201
    forged = app.post("/safety/report", {**REPORT, "reporterId": "u4"}, new_key())
    assert forged.is_problem(409, "CONFLICT.idempotency.duplicate")
    for user, other in (("u1", {"category": "scam"}), ("u1", {"subjectId": "u3"}), ("u4", {})):
        report = {**REPORT, **other}
        assert App(app.gateway, user).post("/safety/report", report, new_key()).status == 201
    clock.advance(61)
    assert app.post("/safety/report", REPORT, new_key()).status == 201
    assert upstream.effects() == 5


@hooks
def test_an_appeal_is_rejected_for_a_day_from_the_first(app, upstream, clock):
    """found: B-F13: the same case in other words is the same appeal."""
    appeal = {"case": "c1", "text": "I was not there"}
    assert app.post("/safety/appeal", appeal, new_key()).status == 201
    clock.advance(23 * HOUR + 59 * MINUTE)
    for text in (appeal["text"], "I was not there!"):
        again = app.post("/safety/appeal", {**appeal, "text": text}, new_key())
        assert again.is_problem(409, "CONFLICT.idempotency.duplicate")
    assert app.post("/safety/appeal", {**appeal, "case": "c2"}, new_key()).status == 201
    assert App(app.gateway, "u2").post("/safety/appeal", appeal, new_key()).status == 201
    clock.advance(61)
    assert app.post("/safety/appeal", appeal, new_key()).status == 201
    assert upstream.effects() == 4


ONCE = [  # path, body, and what another payload under the same key is
    ("/auth/otp/send", {"phone": "+15550100"}, {"phone": "+15550100", "channel": "voice"}),
    ("/auth/otp/verify", {"requestId": "r1", "code": "123456"}, {"requestId": "r1", "code": "1"}),
    ("/verification/session", {"device": "a"}, {"device": "b"}),
    ("/matches/offers/o1/action", {"action": "accept"}, {"action": "accept", "taps": 2}),
    ("/matches/m1/messages", {"content": "Hi", "clientMessageId": "c1"},
     {"content": "Bye", "clientMessageId": "c1"}),
    ("/safety/report", REPORT, {**REPORT, "text": "b"}),
    ("/safety/appeal", {"case": "c1", "text": "a"}, {"case": "c1", "text": "b"}),
]


@pytest.mark.parametrize("path, body, other", ONCE)
def test_every_business_endpoint_asks_for_a_key_and_looks_at_it(app, upstream, path, body, other):
    """found: B-F4"""
    key = new_key()
    assert app.post(path, body).is_problem(400, "VALIDATION.idempotency.key_missing")
    assert app.post(path, body, "not-a-uuid").is_problem(400,
                                                         "VALIDATION.idempotency.key_malformed")
    assert app.post(path, body, key)["Idempotency-Status"] == "stored"
    assert app.post(path, other, key).is_problem(409, "CONFLICT.idempotency.payload_mismatch")
    assert upstream.effects() == 1


# ---- lost responses ----


class Row(NamedTuple):
    """An endpoint, what its rule says of a doubt, and for how long it promises its response."""

    method: str
    path: str
    body: Any
    unknown: str
    window: int
    again: dict[str, Any] | None = None  # what is in other words where the app has lost its key


# `#` is replaced by a number, so that no two cases are one operation.
ENDPOINTS = [
    Row("POST", "/auth/otp/send", {"phone": "+1555#"}, "hold", 10 * MINUTE, {"channel": "voice"}),
    Row("POST", "/auth/otp/verify", {"requestId": "r#", "code": "123456"}, "retry", 5 * MINUTE, {}),
    Row("PATCH", "/users/me", {"name": "a"}, "retry", 24 * HOUR),
    Row("POST", "/users/me/photos", {"photo": "a"}, "probe", 24 * HOUR),
    Row("POST", "/compatibility/responses", {"a": 1}, "retry", 24 * HOUR),
    Row("POST", "/verification/session", {"device": "a"}, "hold", 5 * MINUTE, {"device": "b"}),
    Row("POST", "/matches/offers/o#/action", {"action": "accept"}, "retry", 24 * HOUR, {"taps": 2}),
    Row("POST", "/matches/m#/unmatch", {}, "retry", 24 * HOUR),
    Row("POST", "/matches/m#/messages", {"content": "Hi", "clientMessageId": "c#"}, "retry",
        24 * HOUR, {"content": "Hi!"}),
    Row("POST", "/matches/m#/read", {}, "retry", 24 * HOUR),
    Row("POST", "/safety/report", REPORT, "probe", HOUR, {"text": "b"}),
    Row("POST", "/safety/block", {"userId": "u2"}, "retry", 24 * HOUR),
    Row("POST", "/safety/appeal", {"case": "c1", "text": "a"}, "probe", 24 * HOUR, {"text": "b"}),
]
FAULTS = {"closes": 502, "502": 502, "504": 504, "silent": 504}  # and what the client gets
TIMEOUT = 30  # of each rule
UNKNOWN = "CONFLICT.idempotency.outcome_unknown"


@dataclass(repr=False)
class Loss:
    """One user's operation, whose first response is lost, behind the effect or before it."""

    row: Row
    fault: str
    done: bool  # whether that first request had its effect
    number: int
    key: str = field(default_factory=new_key)
    words: dict[str, Any] = field(default_factory=dict)
    met: bool = False
    made: list[dict[str, int]] = field(default_factory=list)  # the effects
    due: float = 0.0  # when the client may come again, on the moved clock

    def __repr__(self) -> str:
        when = "behind" if self.done else "before"
        return f"{self.row.method} {self.row.path}: {self.fault} {when} the effect"

    @property
    def effects(self) -> int:
        """As many as the rule's reason promises: only an operation that is not recognized, and of
        which the service can say nothing, is done once more when its hold has ended."""
        return 2 if self.done and self.row.unknown == "hold" else 1

    def send(self, gateway: Gateway) -> Answer:
        number = str(self.number)
        body = json.loads(json.dumps({**self.row.body, **self.words}).replace("#", number))
        answer = App(gateway, f"u{number}").send(
            self.row.method, self.row.path.replace("#", number), body, self.key)
        self.due = gateway.clock.offset + int(answer["Retry-After"] or 0)
        return answer

    def come_again(self, gateway: Gateway) -> Answer:
        """As a user whose app was restarted where the endpoint is for such, else as the app."""
        if self.row.again is not None:
            self.key, self.words = new_key(), self.row.again
        return self.send(gateway)


class Service:
    """It does what the comments of the config say of it: under `retry` it recognizes what it has
    done, under `probe` it finds it by the key, under `hold` it can do neither."""

    def __init__(self, losses: list[Loss], gate: Gate):
        self.losses = {f"u{loss.number}": loss for loss in losses}
        self.gate = gate
        self.found: dict[str, dict[str, int]] = {}

    def __call__(self, request: Request) -> Reply:
        if request.method == "GET":
            found = self.found.get(request.target)
            return say(200, found) if found else say(404, {})
        loss = self.losses[request["X-User-Id"]]
        is_lost, loss.met = not loss.met, True
        reply = self.run(loss, request) if loss.done or not is_lost else say(503)
        return self.lose(loss, reply) if is_lost else reply

    def lose(self, loss: Loss, reply: Reply) -> Reply:
        if loss.fault == "closes":
            return replace(reply, cut=0)
        if loss.fault == "silent":
            return replace(reply, gate=self.gate)
        return say(int(loss.fault), {"gateway": "not pawl"})

    def run(self, loss: Loss, request: Request) -> Reply:
        if not loss.made or loss.row.unknown != "retry":
            loss.made.append({"id": 10 * loss.number + len(loss.made)})
        thing = loss.row.path.rpartition("/")[2].rstrip("s") + "s"
        self.found[f"/users/u{loss.number}/{thing}/by-key/{request['Idempotency-Key']}"] = (
            loss.made[-1])
        return say(201, loss.made[-1])


def lose_all(gateway: Gateway, gate: Gate, losses: list[Loss]) -> list[Answer]:
    """What each first client gets. They are sent at once: a silent one takes all of its time."""
    n = sum(loss.fault == "silent" for loss in losses)
    with ThreadPoolExecutor(len(losses)) as pool:
        coming = [pool.submit(loss.send, gateway) for loss in losses]
        gate.wait_for(n)
        eventually(lambda: sum(one.done() for one in coming) == len(losses) - n, "the others")
        gateway.clock.advance(TIMEOUT + 1)
        return [one.result(PATIENCE) for one in coming]


@hooks
def test_a_lost_response_keeps_nobody_out_beyond_the_endpoint_s_own_time(pawl, upstream, clock):
    """found: L3, B-F3: all endpoints and faults beside each other, each for a user of its own."""
    losses = [Loss(*case, number) for number, case in
              enumerate(product(ENDPOINTS, FAULTS, (True, False)), 1000)]
    gate = upstream.gate()
    upstream.default = Service(losses, gate)
    gateway = pawl(CONFIG)
    answers = dict(enumerate(lose_all(gateway, gate, losses), losses[0].number))
    gate.open()
    waiting = [loss for loss in losses if not (loss.done and loss.row.unknown == "probe")]
    for loss in waiting:
        first = answers[loss.number]
        assert first.status == FAULTS[loss.fault] and first["Error-Code"], loss
        assert (first["Retry-After"] is None) == (loss.row.unknown == "retry"), loss
        if loss.due > clock.offset:  # too early
            early = loss.come_again(gateway)
            assert early.is_problem(409, UNKNOWN) and early["Retry-After"], loss
            assert early.json["retryable"] and len(loss.made) == loss.done, loss
    for loss in sorted(waiting, key=lambda loss: loss.due):
        if loss.due > clock.offset:
            clock.advance(loss.due - clock.offset)
        answers[loss.number] = loss.come_again(gateway)
        assert clock.offset < loss.row.window, loss
    for loss in losses:
        answer = answers[loss.number]
        assert answer.mark == (201, "stored"), loss
        assert answer.json == loss.made[-1] and len(loss.made) == loss.effects, loss
        repeat = loss.send(gateway)
        assert repeat["Idempotency-Status"] == "replayed" and repeat.kept == answer.kept, loss
        assert len(loss.made) == loss.effects, loss


# ---- endpoints that are not idempotent ----


@pytest.mark.parametrize("method, path", [("POST", "/auth/refresh"), ("POST", "/auth/logout"),
                                          ("DELETE", "/users/me/photos/p1")])
def test_what_must_not_be_replayed_runs_each_time_even_with_a_key(app, upstream, method, path):
    key = new_key()
    answers = [app.send(method, path, {}, key) for _ in range(2)]
    assert marks(*answers) == ["bypassed"] * 2
    assert answers[0].json != answers[1].json
    assert upstream.effects() == 2


# ---- the contract's requirements on keys, and its test cases ----


@pytest.mark.parametrize("key, code", [(None, "key_missing"), ("k1", "key_malformed"), (
    "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "key_malformed")])
def test_a_key_is_a_uuid_of_version_4(app, upstream, key, code):
    answer = app.post("/safety/block", {"userId": "u2"}, key)
    assert answer.is_problem(400, f"VALIDATION.idempotency.{code}")
    assert upstream.effects() == 0


def test_an_identical_request_gets_the_same_answer_and_changes_nothing(app, upstream):
    key = new_key()
    first = app.post("/safety/block", {"userId": "u2"}, key)
    assert app.post("/safety/block", {"userId": "u2"}, key).kept == first.kept
    assert upstream.effects() == 1


def test_a_retry_after_a_failure_completes_the_operation_once(app, upstream):
    key = new_key()
    upstream.then(say(500, {}, effect=False))
    assert app.post("/users/me/photos", "photo", key).status == 500
    assert app.post("/users/me/photos", "photo", key).status == 201
    assert app.post("/users/me/photos", "photo", key)["Idempotency-Status"] == "replayed"
    assert upstream.effects() == 1


def test_of_ten_at_once_one_is_done_and_nine_get_its_answer(app, upstream):
    key = new_key()
    answers = at_once(10, lambda _: app.post("/users/me/photos", "photo", key))
    assert sorted(marks(*answers)) == ["replayed"] * 9 + ["stored"]
    assert len({answer.kept for answer in answers}) == 1
    assert upstream.effects() == 1


def test_every_endpoint_of_the_readme_has_its_rule():
    rows = re.findall(r"^\| (\w+) `([^`]+)`", (ROOT / "examples/yoked/README.md").read_text(), re.M)
    assert rows and sorted(rows) == sorted(
        tuple(match.split()) for match in re.findall(r"match: (\w+ \S+)", EXAMPLE))
    assert len(rows) == 16


def test_every_endpoint_of_the_readme_says_what_follows_a_lost_response():
    rows = re.findall(r"^\| (\w+) `([^`]+)`.* \| ([^|]+) \|$",
                      (ROOT / "examples/yoked/README.md").read_text(), re.M)
    words = {"retry": "sent again", "{probe": "looked up", "{hold": "after 1 min", "": "-"}
    rules = {tuple(match.split()): doubt for match, doubt in re.findall(
        r"match: (\w+ \S+)\n(?:(?!  - ).*\n)*?    (?:unknown: ([^ :\n]+)|protect: false)", EXAMPLE)}
    assert len(rows) == len(rules) == 16
    for method, path, said in rows:
        assert said.endswith(words[rules[method, path]]), (method, path)
