# SPDX-License-Identifier: Apache-2.0
"""Webhooks out: an event that was published is told to every endpoint that wants it, signed, until
it is acknowledged, whatever dies or fails meanwhile."""
from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import re
import signal
import socket
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from pawltest.admin import Admin, with_admin
from pawltest.gateway import Gateway, run
from pawltest.tasks import Tasks
from pawltest.upstream import Reply, Upstream, closes, resets, say
from pawltest.wire import Answer, Request, eventually

pytestmark = pytest.mark.hooks
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD = "whsec_c2VjcmV0LW9mLWJlZm9yZS1yb3RhdGlvbg=="
DAY = 86400


def sink(name: str, receiver: Upstream, **more: Any) -> dict[str, Any]:
    return {"name": name, "url": f"http://127.0.0.1:{receiver.port}/{name}", "types": ["refund.*"],
            "secret": SECRET, **more}


def config(*endpoints: dict[str, Any], **more: Any) -> str:
    webhooks = {"allow": ["127.0.0.0/8"], "allow_http": True, **more, "endpoints": endpoints}
    return f"tenant: none\nwebhooks: {json.dumps(webhooks)}\n"


class Outbox(Tasks):
    """A gateway, and the commands on its store."""

    group = "webhook"

    def publish(self, type_: str = "refund.created", data: str = '{"a": 1.0}', *more: str) -> str:
        return self.done("publish", type_, "-d", data, *more).strip()


@pytest.fixture
def outbox(pawl, receiver: Upstream) -> Callable[..., Outbox]:
    def make(*endpoints: dict[str, Any], **more: Any) -> Outbox:
        return Outbox(pawl(config(*(endpoints or (sink("billing", receiver),)), **more)))

    return make


def signed(request: Request, secret: str = SECRET) -> str:
    """As a receiver that follows the specification computes it."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{request['webhook-id']}.{request['webhook-timestamp']}.".encode() + request.body
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


# ---- what is sent ----

def test_an_event_is_told_to_every_endpoint_that_wants_it(outbox, receiver):
    box = outbox(sink("billing", receiver), sink("all", receiver, types=["*"]),
                 sink("other", receiver, types=["refund", "charge.*"]),
                 sink("merchant", receiver, tenants=["m1"]))
    event = box.publish(data='{"amount": 10.00}')
    rows = box.until("done", "done")
    assert sorted(row["lane"] for row in rows) == ["all", "billing"]
    assert {row["key"] for row in rows} == {event}
    box.publish("refund.a.b", "1", "--tenant", "m1")
    assert len(box.until(*["done"] * 5)) == 5
    first = receiver.requests[0]
    assert first.method == "POST" and first["content-type"] == "application/json"
    assert first["webhook-id"] == first["idempotency-key"] == event
    assert first["webhook-signature"] == signed(first)
    body = json.loads(first.body)
    assert list(body) == ["type", "timestamp", "data"] and body["type"] == "refund.created"
    assert b'"data":{"amount": 10.00}}' in first.body, "the data is sent byte for byte"


@pytest.mark.parametrize("envelope, wanted", [
    ("none", b'{"a": 1.0}'),
    ({"eventId": "id", "eventType": "type", "timestamp": "time", "data": "data"},
     b'{"eventId":"e1","eventType":"refund.created","timestamp":"2026-02-19T10:00:00Z",'
     b'"data":{"a": 1.0}}'),
    ("standard", b'{"type":"refund.created","timestamp":"2026-02-19T10:00:00Z","data":{"a": 1.0}}'),
    ("cloudevents",
     b'{"specversion":"1.0","datacontenttype":"application/json","id":"e1","source":"/refunds",'
     b'"type":"refund.created","time":"2026-02-19T10:00:00Z","data":{"a": 1.0}}'),
])
def test_the_envelope_is_the_endpoint_s(outbox, receiver, envelope, wanted):
    box = outbox(sink("billing", receiver, envelope=envelope), source="/refunds")
    box.publish("refund.created", '{"a": 1.0}', "--id", "e1", "--time", "2026-02-19T10:00:00Z")
    assert receiver.wait_for(1).body == wanted


def test_both_secrets_sign_while_they_rotate(outbox, receiver):
    box = outbox(sink("billing", receiver, secret=[SECRET, OLD]))
    box.publish()
    request = receiver.wait_for(1)
    assert request["webhook-signature"].split(" ") == [signed(request), signed(request, OLD)]


def test_the_same_event_twice_is_told_once_and_another_under_its_id_is_refused(outbox, receiver):
    box = outbox()
    assert box.publish("refund.created", '{"a": 1.0, "b": 2}', "--id", "e1") == "e1"
    assert box.publish("refund.created", '{"b":2,"a":1}', "--id", "e1") == "e1"
    for other in (("refund.created", "-d", '{"a":2}'), ("refund.failed", "-d", '{"a":1,"b":2}'),
                  ("refund.created", "-d", '{"a":1,"b":2}', "--tenant", "m")):
        assert box.run("publish", *other, "--id", "e1").returncode == 65
    box.until("done")
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("arguments, what", [
    (("refund created",), "needs a type"), (("refund..x",), "needs a type"),
    (("*",), "needs a type"),
    (("a", "--id", "e.1"), "has an id"), (("a", "-d", "{"), "no JSON"),
    (("a", "--tenant", "é"), "has a tenant"),
    (("a", "--tenant", "credential:x"), "begins with 'credential:'")])
def test_what_is_no_event_is_refused(outbox, arguments, what):
    ran = outbox().run("publish", *arguments)
    assert ran.returncode == 65 and what in ran.stderr


# ---- until it is acknowledged ----

def test_a_failure_is_tried_again_with_the_same_bytes_under_a_new_time(outbox, receiver):
    box = outbox()
    receiver.then(say(500), closes(), say(302, None, ("Location", "http://127.0.0.1:1/")), say(400))
    box.publish()
    box.until("done", step=60)
    requests = receiver.requests
    assert len(requests) == 5 and len({request.body for request in requests}) == 1
    assert len({request["webhook-id"] for request in requests}) == 1
    assert len({request["webhook-timestamp"] for request in requests}) > 1
    assert all(request["webhook-signature"] == signed(request) for request in requests)
    shown = box.show()
    assert [attempt["status"] for attempt in shown["history"]] == [500, None, 302, 400, 201]


def test_what_is_never_acknowledged_is_dead_after_a_day_and_can_be_sent_again(outbox, receiver):
    box = outbox()
    receiver.default = say(503, {"why": "down"})
    event = box.publish()
    eventually(lambda: box.states() == ["waiting"], "its delivery")
    box.until("dead", step=1800)
    shown = box.show()
    assert shown["reason"] in ("attempts", "deadline")
    tries = len(receiver.requests)
    assert 3 < tries <= shown["attempts"], "one that the clock overtook did not arrive"
    assert '{"why": "down"}' in [attempt["response"] for attempt in shown["history"]]
    receiver.default = receiver.created
    assert box.done("replay", "--dead", "--since", "2100-01-01T00:00:00Z") == "sent again: 0\n"
    assert box.done("replay", "--dead", "--endpoint", "billing") == "sent again: 1\n"
    box.until("done")
    assert receiver.requests[-1]["webhook-id"] == event
    box.done("replay", str(box.list()[0]["id"]))
    receiver.wait_for(tries + 2)


def seconds(row: dict[str, Any], name: str) -> float:
    return datetime.fromisoformat(row[name].replace("Z", "+00:00")).timestamp()


@pytest.mark.parametrize("schedule, second, attempts", [
    (None, 30, 10), ("offsets", 30, 10), ("delays", 35, 10), (["10s", "1m"], 70, 3)],
    ids=["the-profile's", "offsets", "delays", "its-own"])
def test_an_endpoint_has_a_schedule(outbox, receiver, schedule, second, attempts):
    """Offsets count from the first attempt, whose begin is a moment before what its history says,
    delays from the end of the one before."""
    given = {"schedule": schedule} if schedule else {}
    box = outbox(sink("billing", receiver, **given), keep="4d")
    receiver.default = say(503)
    box.publish()
    eventually(lambda: box.list(), "its delivery")
    while len(box.show()["history"]) < 2:
        if box.states() == ["waiting"]:
            box.gateway.clock.step(1)
    eventually(lambda: box.states() == ["waiting"], "the third attempt's time")
    shown = box.show()
    first = seconds(shown["history"][0], "at")
    assert second - 1 < seconds(shown, "due_at") - first < second * 1.1 + 6, shown
    if attempts == 3:
        box.until("dead", step=30)
        assert box.show()["reason"] == "attempts" and box.show()["attempts"] == 3


@pytest.mark.parametrize("given, keep, what", [
    ({"schedule": "delays"}, "2d", "keep is shorter than the schedule of billing and a day"),
    ({"schedule": "delays", "retry": "api"}, "7d", "the times of profile api are no list"),
    ({"schedule": []}, "7d", "is empty"), ({"schedule": ["25h"]}, "7d", "expected"),
    ({"schedule": "sometimes"}, "7d", "offsets")], ids=["keep", "no-list", "empty", "long", "word"])
def test_a_schedule_that_cannot_be_is_refused(receiver, tmp_path, given, keep, what):
    file = tmp_path / "pawl.yaml"
    file.write_text("upstream: http://127.0.0.1:9\n"
                    + config(sink("billing", receiver, **given), keep=keep))
    ran = run("serve", "-t", "-c", file)
    assert ran.returncode == 2 and what in ran.stderr, ran


def test_410_disables_the_endpoint_and_the_rest_is_dead(outbox, receiver):
    box = outbox()
    receiver.then(say(410))
    box.publish()
    assert box.until("dead")[0]["reason"] == "gone"
    box.publish()
    rows = box.until("dead", "dead")
    assert rows[1]["reason"] == "endpoint_disabled" and len(receiver.requests) == 1
    assert box.done("endpoint", "list").startswith(
        "billing  config  disabled: it responded 410")
    assert box.done("endpoint", "enable", "billing") == "endpoint billing is enabled\n"
    assert box.done("endpoint", "enable", "billing") == "endpoint billing is already enabled\n"
    assert box.done("endpoint", "list") == "billing  config  enabled\n"
    box.gateway.clock.step(2)
    box.publish()
    box.until("dead", "dead", "done")


def test_an_operator_disables_an_endpoint(outbox, receiver):
    box = outbox()
    eventually(lambda: box.done("endpoint", "list"), "the endpoint in the store")
    assert box.done("endpoint", "disable", "billing") == "endpoint billing is disabled\n"
    (row,) = [json.loads(line) for line in box.done("endpoint", "list", "--json").splitlines()]
    assert (row["name"], row["enabled"], row["reason"]) == ("billing", False, "by an operator")
    box.gateway.clock.step(2)
    box.publish()
    assert box.until("dead")[0]["reason"] == "endpoint_disabled" and not receiver.requests
    for wrong in (("fly",), ("enable",), ("list", "x")):
        assert box.run("endpoint", *wrong).returncode == 2


def test_an_ordered_endpoint_is_told_one_after_the_other(outbox, receiver):
    box = outbox(sink("billing", receiver, ordered=True), sink("free", receiver))
    receiver.on("POST", "/billing", say(500))
    events = [box.publish(data=str(i)) for i in range(5)]

    def told() -> list[str]:
        return [one["webhook-id"] for one in receiver.requests if one.target == "/billing"]

    box.gateway.clock.run_until(lambda: len(told()) > 2, 60)
    box.until(*["done"] * 5, *["waiting"] * 5)
    assert set(told()) == {events[0]}, "nothing passes the first one"
    receiver.off("POST", "/billing")
    box.until(*["done"] * 10, step=60)
    assert list(dict.fromkeys(told())) == events


# ---- where it may go ----

def test_an_address_that_is_not_public_is_refused_and_shown(outbox, receiver, pawl, tmp_path: Path):
    hosts = tmp_path / "hosts"
    hosts.write_text("hooks.example 93.184.216.34 127.0.0.1\n")
    gateway = pawl(config(sink("billing", receiver, url=f"http://hooks.example:{receiver.port}/x"),
                          allow=[]), started=False)
    gateway.start(PAWL_TEST_HOSTS=str(hosts))
    box = Outbox(gateway)
    box.publish()
    assert box.until("dead")[0]["reason"] == "address_refused"
    assert "a loopback address" in box.show()["history"][0]["response"]
    hosts.write_text("hooks.example 127.0.0.1\n")
    gateway.configure(config(sink("billing", receiver,
                                  url=f"http://hooks.example:{receiver.port}/x")))
    gateway.restart(PAWL_TEST_HOSTS=str(hosts))
    box.done("replay", "--dead")
    box.until("done")
    assert receiver.requests[0]["host"] == f"hooks.example:{receiver.port}"


@pytest.mark.parametrize("url, what", [
    ("http://127.0.0.1/", "is not https"), ("https://u:p@hooks.example/", "has credentials"),
    ("https://0x7f.1/", "four decimal numbers"), ("hooks.example", "expected https://")])
def test_a_url_that_could_never_be_allowed_is_refused(receiver, tmp_path, url, what):
    file = tmp_path / "pawl.yaml"
    file.write_text("upstream: http://127.0.0.1:9\n"
                    + config(sink("billing", receiver, url=url), allow_http=False))
    ran = run("serve", "-t", "-c", file)
    assert ran.returncode == 2 and what in ran.stderr, ran


# ---- whatever dies ----

@pytest.mark.parametrize("point", [
    "inside_fan_out", "before_begin", "after_claim_commit", "before_connect",
    "after_response_body", "before_outcome_commit", "after_outcome_commit"])
def test_after_a_crash_at_any_point_each_event_is_told(pawl, receiver, point):
    endpoints = [sink(f"e{i}", receiver) for i in range(230 if point == "inside_fan_out" else 1)]
    gateway = pawl(config(*endpoints), started=False)
    box = Outbox(gateway)
    gateway.start(PAWL_CRASH_AT=point)
    events = [box.publish(data=str(i)) for i in range(3)]
    gateway.wait()
    gateway.start()
    box.until(*["done"] * (3 * len(endpoints)), step=5)
    told = {(request["webhook-id"], request.target) for request in receiver.done}
    assert told == {(event, f"/e{i}") for event in events for i in range(len(endpoints))}


def test_events_wait_for_a_config_that_has_endpoints(pawl, receiver):
    box = Outbox(pawl(config()))
    event = box.publish()
    for _ in range(5):
        box.gateway.clock.step(1)
    assert box.list() == []
    box.gateway.configure(config(sink("billing", receiver)))
    box.gateway.signal(signal.SIGHUP)
    box.until("done")
    assert receiver.requests[0]["webhook-id"] == event


def test_a_reload_changes_where_events_go_and_what_it_takes_out_waits(outbox, receiver):
    box = outbox()
    receiver.default = say(503)
    box.publish()
    receiver.wait_for(1)
    box.gateway.configure(config(sink("other", receiver, types=["*"])))
    box.gateway.signal(signal.SIGHUP)
    eventually(lambda: box.gateway.lines("config_reloaded"), "the reload")
    receiver.default = receiver.created
    box.publish()
    rows = {row["lane"]: row for row in box.until("waiting", "done", step=60)}
    assert rows["billing"]["state"] == "waiting" and rows["other"]["state"] == "done"
    assert "is removed" in box.done("endpoint", "remove", "billing", "--force")
    rows = {row["lane"]: row for row in box.until("dead", "done", step=60)}
    assert rows["billing"]["reason"] == "endpoint_removed"


def test_what_a_restart_leaves_out_is_kept_for_a_day(outbox, receiver):
    """It may come back: who takes it out for good does so by a reload."""
    box = outbox()
    box.gateway.configure(config(sink("other", receiver)))
    box.gateway.restart()
    box.publish()
    rows = {row["lane"]: row["state"] for row in box.until("waiting", "done")}
    assert rows == {"billing": "waiting", "other": "done"}
    for _ in range(25):
        box.gateway.clock.step(3600)
    rows = {row["lane"]: row["reason"] for row in box.until("dead", "done", step=31)}
    assert rows["billing"] == "endpoint_removed"
    box.publish()
    box.until("dead", "done", "done")


@pytest.mark.file_only
def test_on_a_file_of_its_own_the_declaration_of_a_killed_process_ends_with_the_next(outbox,
                                                                                   receiver):
    box = outbox()
    box.gateway.kill9()
    box.gateway.start()
    box.gateway.configure(config(sink("other", receiver)))
    box.gateway.signal(signal.SIGHUP)
    eventually(lambda: box.gateway.lines("config_reloaded"), "the reload")
    box.publish()
    assert [row["lane"] for row in box.until("done")] == ["other"]


# ---- the admin listener ----

@pytest.fixture
def admin(pawl, receiver) -> tuple[Outbox, Admin]:
    gateway, listener = with_admin(pawl, config(sink("billing", receiver)))
    return Outbox(gateway), listener


def post(listener: Admin, body: str, kind: str = "json") -> Answer:
    return listener.request("POST", "/events", [("Content-Type", f"application/{kind}")],
                            body.encode())


def test_an_event_is_published_over_http_and_delivered_at_once(admin, receiver):
    box, listener = admin
    event = '{"type": "refund.created", "id": "e1", "data" : [1.0, {"a": ","}] }'
    first, again = post(listener, event), post(listener, event)
    assert (first.status, first.json) == (202, {"id": "e1", "status": "stored"})
    assert (again.status, again.json["status"]) == (202, "replayed")
    assert [first["Idempotency-Status"], again["Idempotency-Status"]] == ["stored", "replayed"]
    other = post(listener, '{"type": "refund.created", "id": "e1", "data": 2}')
    assert (other.status, other["Error-Code"]) == (409, "CONFLICT.idempotency.payload_mismatch")
    assert b'"data":[1.0, {"a": ","}]}' in receiver.wait_for(1).body
    box.until("done")


def test_each_event_is_delivered_at_once_and_not_by_the_next_poll(admin, receiver):
    """The clock stands still: what wakes the courier must not be lost while it is at work."""
    box, listener = admin
    for i in range(1, 51):
        assert post(listener, json.dumps({"type": "refund.created", "data": i})).status == 202
        receiver.wait_for(i)
        time.sleep(0.02)  # the courier is idle again


def test_a_batch_is_one_commit_with_a_verdict_a_line(admin, receiver):
    box, listener = admin
    lines = [f'{{"type": "refund.created", "id": "e{i}", "data": {i}}}' for i in (1, 2, 1)]
    lines.append('{"type": "refund.created", "id": "e2", "data": 3}')
    told = [json.loads(line) for line in post(listener, "\n".join(lines), "x-ndjson")
            .body.decode().splitlines()]
    assert [(one["id"], one["status"]) for one in told] == [
        ("e1", "stored"), ("e2", "stored"), ("e1", "replayed"), ("e2", "mismatch")]
    refused = post(listener, '{"type": "a", "id": "e9"}\n\n{"type": "a b"}\n', "x-ndjson")
    assert refused.status == 400 and refused["Error-Code"] == "VALIDATION.event_malformed"
    assert "line 3: " in refused.json["detail"]
    box.until("done", "done")
    assert {request["webhook-id"] for request in receiver.requests} == {"e1", "e2"}


@pytest.mark.parametrize("body, kind, status", [
    ("{", "json", 400), ("[]", "json", 400), ('{"data": 1}', "json", 400),
    ('{"type": "a", "more": 1}', "json", 400), ('{"type": 1}', "json", 400), ("", "json", 400),
    ("", "x-ndjson", 400), ('{"type": "a"}', "xml", 415),
    ('{"type": "a", "data": "' + "x" * (1 << 20) + '"}', "json", 413),
    ("x" * (3 << 20), "json", 413)], ids=range(10))
def test_what_is_no_event_is_refused_over_http(admin, body, kind, status):
    _, listener = admin
    assert post(listener, body, kind).status == status
    assert listener.get("/events").status == 405


def test_deliveries_are_listed_and_acted_upon_over_http(admin, receiver):
    box, listener = admin
    receiver.default = say(410)
    box.publish()
    box.until("dead")
    (row,) = listener.get("/deliveries?state=dead&endpoint=billing").json["deliveries"]
    assert row["kind"] == "webhook" and row["reason"] == "gone"
    assert listener.get("/deliveries?state=done").json == {"deliveries": [], "next": None}
    assert listener.get("/deliveries?x=1").status == 400
    receiver.default = receiver.created
    refused = listener.request("POST", f"/deliveries/{row['id']}/replay")
    assert refused.status == 409 and "is disabled" in refused.json["detail"]
    assert box.run("replay", str(row["id"])).returncode == 1
    assert "1 were left" in box.run("replay", "--dead").stderr
    replayed = listener.request("POST", f"/deliveries/{row['id']}/replay?force=true")
    assert replayed.status == 200 and replayed.json["state"] == "waiting"
    box.until("done")
    assert listener.get(f"/deliveries/{row['id']}").json["history"][-1]["status"] == 201
    refused = listener.request("POST", f"/deliveries/{row['id']}/drop")
    assert refused.status == 409 and "is done" in refused.json["detail"]
    assert listener.get("/deliveries/7").status == 404
    assert listener.request("POST", f"/deliveries/{row['id']}/fly").status == 404
    assert box.gateway.lines("task_act")
    (act,) = [json.loads(line) for line in box.done("audit", "--json").splitlines()]
    assert act["actor"].startswith("admin:127.0.0.1") and act["forced"]
    assert (act["act"], act["lane"], act["from"], act["to"]) == (
        "replay", "billing", "dead", "waiting")


def test_a_page_of_deliveries_takes_a_limit_and_goes_on_from_next(admin, receiver):
    box, listener = admin
    for _ in range(3):
        box.publish()
    box.until("done", "done", "done")
    first = listener.get("/deliveries?limit=2&state=done").json
    rest = listener.get(f"/deliveries?limit=2&after={first['next']}").json
    assert [len(page["deliveries"]) for page in (first, rest)] == [2, 1] and rest["next"] is None
    both = first["deliveries"] + rest["deliveries"]
    assert both == listener.get("/deliveries?limit=3").json["deliveries"]
    for limit in ("0", "257", "x"):
        assert "1 to 256" in listener.get(f"/deliveries?limit={limit}").json["detail"]
    assert "well-formed" in listener.get("/deliveries?state=%").json["detail"]


def told(listener: Admin, endpoint: str) -> dict[str, float]:
    return {dict(labels)["result"]: value for (name, labels), value in listener.series().items()
            if name == "pawl_webhook_deliveries_total" and dict(labels)["endpoint"] == endpoint}


def test_the_metrics_count_how_deliveries_end(admin, receiver):
    box, listener = admin
    eventually(lambda: told(listener, "billing") == {"done": 0, "failed": 0, "dead": 0},
               "its endpoint in the metrics")
    receiver.then(say(500))
    box.publish()
    box.until("done", step=2)
    receiver.then(say(410))
    box.publish()
    box.until("done", "dead", step=2)
    box.publish()  # it is disabled: dead without an attempt
    box.until("done", "dead", "dead", step=2)
    assert told(listener, "billing") == {"done": 1, "failed": 1, "dead": 2}
    box.done("endpoint", "add", "--name", "ledger", "--url",
             f"http://127.0.0.1:{receiver.port}/ledger", "--types", "*")
    box.publish()
    box.until("done", "dead", "dead", "dead", "done", step=2)
    assert told(listener, "stored") == {"done": 1, "failed": 0, "dead": 0}
    assert told(listener, "ledger") == {}


# ---- receivers that mean no good ----

# By name, what the receiver responds first.
HOSTILE = {
    "drips": Reply(200, drip=1, body=b"x" * 200),
    "endless": Reply(200, framing="none", headers=(("Content-Length", "1000000000"),),
                     body=b"x" * 4_000_000),
    "huge head": Reply(200, headers=(("X-Huge", "x" * 400_000),)),
    "many heads": Reply(200, headers=tuple((f"X-{i}", "x") for i in range(3000))),
    "no http": Reply(raw=b"\x16\x03\x01 not HTTP\r\n\r\n"),
    "half": Reply(200, body=b"x" * 100, cut=60),
    "resets": resets(),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_receiver_costs_a_bounded_attempt_and_no_other_delivery(outbox, receiver, how):
    box = outbox(sink("bad", receiver, timeout="2s"), sink("good", receiver))
    before = memory_kib(box.gateway)
    receiver.on("POST", "/bad", HOSTILE[how])
    box.publish()
    eventually(lambda: any(one.target == "/bad" for one in receiver.requests), "the attempt")
    box.gateway.clock.run_until(lambda: {row["lane"]: row for row in box.list()}["good"]["state"]
                                == "done")
    receiver.off("POST", "/bad")
    box.until("done", "done", step=30)
    assert [one.target for one in receiver.requests].count("/good") == 1
    assert memory_kib(box.gateway) - before < 64 * 1024


@contextlib.contextmanager
def stalling_in_tls() -> Iterator[int]:
    """A port whose server begins a TLS record, and goes on with a byte now and then."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def stall() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connection.recv(4096)
                    connection.sendall(b"\x16\x03\x03\x3f\xff")
                    threading.Thread(target=drip, args=(connection,), daemon=True).start()

        def drip(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection:
                for _ in range(100):
                    connection.sendall(b"\x02")
                    time.sleep(0.1)

        threading.Thread(target=stall, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def test_a_receiver_that_stalls_in_tls_costs_its_attempt_alone(outbox, receiver):
    with stalling_in_tls() as port:
        box = outbox(sink("bad", receiver, url=f"https://127.0.0.1:{port}/x", timeout="2s"),
                     sink("good", receiver))
        box.publish()
        eventually(lambda: "done" in box.states(), "the good one is told")
        (at,) = (i for i, row in enumerate(box.list()) if row["lane"] == "bad")
        eventually(lambda: box.show(at)["history"], "the bad one's attempt ends")
        attempt = box.show(at)["history"][0]
        assert attempt["status"] is None and attempt["reason"] in ("not_reached", "timed_out")


def memory_kib(gateway: Gateway) -> int:
    status = Path(f"/proc/{gateway.process.pid}/status").read_text("ascii")
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1])
