# SPDX-License-Identifier: Apache-2.0
"""`emit:`: the success of an operation is told as an event, written in the transaction that stores
its outcome, whoever that is."""
from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any, Callable

import pytest

from pawltest.gateway import Gateway, run
from pawltest.tasks import Tasks
from pawltest.upstream import Upstream, Reply, closes, say
from pawltest.wire import Broken, Request, eventually

pytestmark = pytest.mark.hooks
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Outbox(Tasks):
    group = "webhook"


def config(receiver: Upstream, emit: dict[str, Any], **rule: Any) -> str:
    webhooks = {"allow": ["127.0.0.0/8"], "allow_http": True, "endpoints": [
        {"name": "all", "url": f"http://127.0.0.1:{receiver.port}/", "types": ["*"],
         "secret": SECRET}]}
    rules = [{"name": "refunds", "match": "POST /refunds", "emit": emit, **rule}]
    return f"tenant: none\nwebhooks: {json.dumps(webhooks)}\nrules: {json.dumps(rules)}\n"


@pytest.fixture
def made(pawl, receiver: Upstream) -> Callable[..., Gateway]:
    return lambda emit=None, **rule: pawl(config(receiver, emit or {"type": "refund.created"},
                                                 **rule))


def told(receiver: Upstream) -> list[tuple[str, Any]]:
    return [(json.loads(request.body)["type"], json.loads(request.body)["data"])
            for request in receiver.requests]


def test_a_success_is_told_once_with_the_bytes_of_its_response(made, upstream, receiver):
    gateway = made()
    upstream.then(Reply(201, b'{"id":  "re_1", "amount": 10.00}'))
    first = gateway.post("/refunds", {"amount": 1}, key="k1")
    assert gateway.post("/refunds", {"amount": 1}, key="k1")["Idempotency-Status"] == "replayed"
    (row,) = Outbox(gateway).until("done")
    (request,) = receiver.requests
    assert b'"data":' + first.body + b"}" in request.body
    assert json.loads(request.body)["type"] == "refund.created"
    assert re.fullmatch("evt_[0-9a-f]{32}", row["key"]) and row["key"] == request["webhook-id"]


def test_what_the_service_knew_before_is_not_told_again(made, upstream, receiver):
    gateway = made(unknown={"probe": "GET /known/{key}", "first": "always"})
    upstream.then(say(200, {"id": "re_1"}), say(404), Reply(201, b'{"id": "re_2"}'))
    assert gateway.post("/refunds", {}, key="k1")["Idempotency-Status"] == "replayed"
    assert gateway.post("/refunds", {}, key="k2")["Idempotency-Status"] == "stored"
    Outbox(gateway).until("done")
    assert told(receiver) == [("refund.created", {"id": "re_2"})]


def test_each_life_of_a_key_has_an_event_of_its_own(made, receiver):
    gateway = made(ttl="1h")
    for life in (1, 2):
        gateway.post("/refunds", {}, key="k1")
        Outbox(gateway).until(*["done"] * life)
        gateway.clock.step(4000)
    assert len({request["webhook-id"] for request in receiver.requests}) == 2


@pytest.mark.parametrize("emit, response, data", [
    ({"data": "request"}, {"id": 1}, {"amount": 1}), ({"data": "none"}, {"id": 1}, None),
    ({}, None, None), ({}, {"id": 1}, {"id": 1})], ids=["request", "none", "empty", "json"])
def test_its_data_is_what_the_rule_says_where_that_is_json(made, upstream, receiver, emit, response,
                                                           data):
    gateway = made({"type": "a.b", **emit})
    upstream.then(Reply(200, b"plain text") if response is None else say(200, response))
    gateway.post("/refunds", {"amount": 1}, key="k1")
    Outbox(gateway).until("done")
    assert told(receiver) == [("a.b", data)]


def test_what_did_not_succeed_is_not_told(made, upstream, receiver):
    gateway = made()
    upstream.then(say(422, {}), say(429, {}), say(302, {}), say(201, {"n": 4}))
    for key in ("k1", "k2", "k3", "k4"):
        gateway.post("/refunds", {}, key=key)
    Outbox(gateway).until("done")
    assert told(receiver) == [("refund.created", {"n": 4})]


def test_a_success_that_a_probe_finds_is_told(made, upstream, receiver):
    gateway = made(unknown={"probe": "GET /refunds/{key}"})
    upstream.then(closes())
    upstream.on("GET", "/refunds/k1", say(200, {"found": True}))
    assert gateway.post("/refunds", {}, key="k1").status == 200
    Outbox(gateway).until("done")
    assert told(receiver) == [("refund.created", {"found": True})]


def test_a_success_that_a_background_probe_finds_is_told(made, upstream, receiver):
    gateway = made(unknown={"probe": "GET /refunds/{key}"}, probe_headers={})
    upstream.then(closes(), say(503), say(200, {"late": 1}))
    assert gateway.post("/refunds", {}, key="k1").status != 200
    Outbox(gateway).until("done")
    assert told(receiver) == [("refund.created", {"late": 1})]


@pytest.mark.parametrize("more, data", [((), None), (("--body", '{"by": "hand"}'), {"by": "hand"})],
                         ids=["status", "body"])
def test_a_success_that_an_operator_knows_is_told(made, upstream, receiver, more, data):
    gateway = made()
    upstream.then(closes())
    gateway.post("/refunds", {}, key="k1")
    listed = run("keys", "list", "--json", "--store", gateway.store).stdout
    token = str(json.loads(listed)["token"])
    ran = run("keys", "resolve", "k1", "--token", token, "--status", "200", *more, "--force",
              "--store", gateway.store)
    assert ran.returncode == 0, ran
    Outbox(gateway).until("done")
    assert told(receiver) == [("refund.created", data)]


@pytest.mark.parametrize("point", ["after_response_body", "before_outcome_commit",
                                   "after_outcome_commit", "before_response_write"])
def test_whatever_dies_each_success_is_told_once(pawl, upstream, receiver, point):
    emits = config(receiver, {"type": "refund.created"}, unknown={"probe": "GET /by-key/{key}"})
    gateway = pawl(emits, started=False)
    gateway.start(PAWL_CRASH_AT=point)

    upstream.on("GET", "/by-key/k1", say(200, {"n": 1}))
    with pytest.raises((Broken, OSError)):
        gateway.post("/refunds", {}, key="k1")
    gateway.wait()
    gateway.start()
    gateway.clock.step(60)  # the lease of the one that died is over, where no lock says so
    answer = gateway.post_up("/refunds", {}, key="k1")
    assert answer.status in (200, 201) and upstream.effects() == 1
    rows = Outbox(gateway).until("done", step=1)
    assert len({request["webhook-id"] for request in receiver.requests}) == len(rows) == 1


@pytest.mark.parametrize("rule, what", [
    ({"emit": {"type": "refund created"}}, "refund.created"),
    ({"emit": {"data": "response"}}, "has no type"),
    ({"emit": {"type": "a", "data": "all"}}, "response, request or none"),
    ({"emit": {"type": "a"}, "stream": True}, "is streamed"),
    ({"emit": {"type": "a"}, "protect": False}, "protected")],
    ids=["type", "none", "data", "stream", "unprotected"])
def test_an_emit_that_cannot_be_is_refused(receiver, tmp_path: Path, rule, what):
    file = tmp_path / "pawl.yaml"
    file.write_text("upstream: http://127.0.0.1:9\n" + config(receiver, {"type": "a"}).replace(
        '"emit": {"type": "a"}', json.dumps(rule)[1:-1]))
    ran = run("serve", "-t", "-c", file)
    assert ran.returncode == 2 and what in ran.stderr, ran


def test_an_event_that_nobody_is_told_of_is_warned_of(tmp_path: Path):
    file = tmp_path / "pawl.yaml"
    file.write_text("upstream: http://127.0.0.1:9\ntenant: none\nrules:\n"
                    "  - {name: r, match: POST /r, emit: {type: a}}\n")
    ran = run("serve", "-t", "-c", file)
    assert ran.returncode == 0 and "[emit-unheard]" in ran.stderr
