# SPDX-License-Identifier: Apache-2.0
"""Gateways on one store whose configs differ, as in every rolling deployment."""
from __future__ import annotations

import hashlib
import hmac
import json
import signal
from typing import Any

import pytest

from pawltest.admin import Admin, with_admin
from pawltest.gateway import Gateway, run
from pawltest.tasks import Tasks
from pawltest.upstream import Upstream, say
from pawltest.wire import Answer, eventually, request_bytes

pytestmark = pytest.mark.hooks
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SLOW = ["10s"] * 9  # a delivery that failed waits until the next config is there
RUNNING = "CONFLICT.idempotency.in_progress"
UNKNOWN = "CONFLICT.idempotency.outcome_unknown"
EVENTS = 8  # fewer than open the breaker of a lane
MANY = 20


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


def sink(name: str, receiver: Upstream, **more: Any) -> dict[str, Any]:
    return {"name": name, "url": f"http://127.0.0.1:{receiver.port}/{name}", "types": ["refund.*"],
            "secret": SECRET, "schedule": ["1s"] * 9, **more}


def rule(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "match": f"POST {path}", "unknown": "hold", "in_progress": "conflict",
            "lease": "30s", **more}


def config(*endpoints: dict[str, Any], inbox: bool = False, source: dict[str, Any] | None = None,
           rules: tuple[dict[str, Any], ...] = ()) -> str:
    webhooks = {"allow": ["127.0.0.0/8"], "allow_http": True, "endpoints": endpoints}
    sources = [{"name": "gh", "match": "POST /hooks/gh", "handler": "POST /internal/gh",
                "verify": {"scheme": "github", "secret": "k"}, "id": "{body:/id}",
                **(source or {})}]
    return ("tenant: none\nallow: [inbox-id-unsigned]\n"
            + (f"webhooks: {json.dumps(webhooks)}\n" if endpoints else "")
            + (f"inbox: {json.dumps(sources)}\n" if inbox else "")
            + (f"rules: {json.dumps(rules)}\n" if rules else ""))


def looks(gateway: Gateway, n: int = 3) -> None:
    """Time for its courier to look, with the store's clock a second on each time."""
    for _ in range(n):
        gateway.clock.step(1)


def told(receiver: Upstream) -> list[tuple[str | None, str]]:
    return sorted((request["webhook-id"], request.target) for request in receiver.done)


def form_of(body: bytes) -> str:
    return "cloudevents" if "specversion" in json.loads(body) else "standard"


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


def test_whoever_fans_out_tells_the_endpoints_of_all(pawl, receiver):
    """found: R1"""
    pawl(config(sink("billing", receiver)))
    pawl(config())
    box = Outbox(pawl(config(sink("billing", receiver, types=["other"]), sink("crm", receiver))))
    events = [box.publish() for _ in range(MANY)]
    box.until(*["done"] * 2 * MANY)
    assert told(receiver) == sorted((event, f"/{name}") for event in events
                                    for name in ("billing", "crm"))


def test_a_declaration_ends_with_the_last_gateway_that_has_it(pawl, receiver):
    first, second = (pawl(config(sink("billing", receiver), sink("crm", receiver)))
                     for _ in range(2))
    box = Outbox(second)
    for gateway, lanes in ((first, {"billing", "crm"}), (second, {"billing"})):
        reload(gateway, config(sink("billing", receiver)))
        event = box.publish()
        eventually(lambda event=event: lanes_of(box, event), "its deliveries")
        assert lanes_of(box, event) == lanes


def lanes_of(box: Outbox, event: str) -> set[str]:
    return {row["lane"] for row in box.list() if row["key"] == event}


def reload(gateway: Gateway, text: str) -> None:
    gateway.configure(text)
    gateway.signal(signal.SIGHUP)
    eventually(lambda: gateway.lines("config_reloaded"), "the reload")


def test_a_declaration_that_fails_is_made_later_and_leaves_nothing(pawl, receiver, database):
    """What the reload took out is retired then, too."""
    gateway = pawl(config(sink("billing", receiver)))
    database.sql("ALTER TABLE pawl.serves ADD CONSTRAINT no_crm CHECK (name <> 'crm'::bytea)")
    reload(gateway, config(sink("crm", receiver)))
    looks(gateway)
    database.sql("ALTER TABLE pawl.serves DROP CONSTRAINT no_crm")
    box = Outbox(gateway)
    eventually(lambda: database.sql("SELECT state FROM pawl.roster WHERE name = 'billing'::bytea")
               == [(2,)], "billing retired")
    box.publish()
    assert [row["lane"] for row in box.until("done")] == ["crm"]
    assert database.sql("SELECT count(*) FROM pawl.process") == [(1,)]


def test_what_one_living_gateway_wants_is_wanted(pawl, receiver):
    """Also where another one, which wants less, makes the delivery."""
    first = pawl(config(sink("billing", receiver)))
    box = Outbox(pawl(config(sink("billing", receiver, types=["other"]))))
    for _ in range(MANY):
        box.publish()
    box.until(*["done"] * MANY)
    receiver.default = say(503)
    event = box.publish()
    receiver.wait_for(MANY + 1)
    reload(first, config(sink("billing", receiver, types=["other"])))
    rows = box.until(*["done"] * MANY, "dead", step=5)
    assert [(row["key"], row["reason"]) for row in rows if row["state"] == "dead"] == [
        (event, "not_wanted")]


def test_deliveries_are_made_as_the_newest_declaration_says_whoever_makes_them(pawl, receiver):
    """Which lives for 3 minutes behind its process; else one event has this form and the next one
    that form, or order, by chance."""
    box = Outbox(pawl(config(sink("crm", receiver))))
    newer = pawl(config(sink("crm", receiver, envelope="cloudevents", ordered=True)))
    newer.kill9()
    event = box.publish()
    assert [row["order"] for row in box.until("done")] == ["crm"]
    for _ in range(4):
        box.gateway.clock.step(60)
    later = box.publish()
    rows = box.until("done", "done")
    assert {row["key"]: row["order"] for row in rows} == {event: "crm", later: None}
    assert {request["webhook-id"]: form_of(request.body) for request in receiver.done} == {
        event: "cloudevents", later: "standard"}


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_what_was_declared_last_counts_when_nobody_has_it(pawl, receiver, how):
    other = pawl(config(sink("billing", receiver)))
    gateway = pawl(config(sink("crm", receiver)))
    gateway.stop() if how == "stopped" else gateway.kill9()
    for _ in range(4):
        other.clock.step(60)
    box = Outbox(other)
    event = box.publish()
    eventually(lambda: lanes_of(box, event) == {"billing", "crm"}, "both deliveries")
    assert [row["state"] for row in box.list() if row["lane"] == "crm"] == ["waiting"]
    gateway.start()
    box.until("done", "done")


def test_what_no_gateway_has_for_a_day_is_dead_and_shown_until_then(pawl, receiver):
    other, admin = with_admin(pawl, config(sink("billing", receiver, types=["other"])))
    gateway = pawl(config(sink("crm", receiver)))
    gateway.stop()
    box = Outbox(other)
    box.publish()
    eventually(lambda: step(other, 31) and unserved(admin) == {"crm"}, "it to be shown")
    eventually(lambda: [row["state"] for row in box.list()] == ["waiting"], "its delivery")
    for _ in range(24):
        other.clock.step(3600)
    eventually(lambda: step(other, 31) and box.list("--dead"), "the end")
    assert box.list("--dead")[0]["reason"] == "endpoint_removed"
    eventually(lambda: not unserved(admin), "it to be shown no more")
    eventually(lambda: [line["event"] for line in other.log if line.get("name") == "crm"] ==
               ["roster_unserved", "roster_removed"], "its lines in the log")
    events = [box.publish(), box.publish("other")]
    eventually(lambda: lanes_of(box, events[1]) == {"billing"}, "its delivery")
    assert not lanes_of(box, events[0])


def step(gateway: Gateway, seconds: float) -> bool:
    gateway.clock.step(seconds)
    return True


def unserved(admin: Admin) -> set[str]:
    return {dict(labels)["name"] for (name, labels), value in admin.series().items()
            if name == "pawl_roster_unserved" and value == 1}


def test_an_event_is_told_to_an_endpoint_that_was_there_before_it(pawl, receiver):
    """found: I2"""
    pawl(config(sink("crm", receiver)))
    box = Outbox(pawl(config(sink("billing", receiver))))
    names = [f"e{i}" for i in range(MANY)]
    for name in names:
        box.done("endpoint", "add", "--name", name, "--types", f"only.{name}",
                 "--url", f"http://127.0.0.1:{receiver.port}/{name}")
        box.publish(f"only.{name}")
    box.until(*["done"] * MANY)
    assert {target for _, target in told(receiver)} == {f"/{name}" for name in names}


def test_an_endpoint_that_a_gateway_has_is_not_removed(pawl, receiver):
    other = pawl(config(sink("billing", receiver, types=["other"])))
    gateway = pawl(config(sink("crm", receiver)))
    box = Outbox(gateway)
    ran = box.run("endpoint", "remove", "crm", "--force")
    assert ran.returncode == 65 and "of a config that is in force" in ran.stderr
    receiver.default = say(503, effect=False)
    box.publish()
    receiver.wait_for(1)
    assert "[endpoint-unserved]" not in run("serve", "--test", "-c", other.config).stderr
    gateway.stop()
    waits = "an endpoint 'crm', which is in no config in force"
    assert waits in run("serve", "--test", "-c", other.config).stderr
    box.done("endpoint", "remove", "crm", "--force")
    assert box.until("dead", step=5)[0]["reason"] == "endpoint_removed"


def test_a_source_that_a_gateway_has_is_not_removed(pawl, receiver, upstream):
    pawl(config(sink("billing", receiver)))
    gateway = pawl(config(sink("billing", receiver), inbox=True))
    box = Inbox(gateway)
    upstream.default = say(503, effect=False)
    assert box.send("e1").status == 200
    upstream.wait_for(1)
    ran = box.run("remove", "gh")
    assert ran.returncode == 65 and "of a config that is in force" in ran.stderr
    gateway.stop()
    assert box.done("remove", "gh") == "source gh is removed\n"
    assert box.until("dead", step=5)[0]["reason"] == "endpoint_removed"
    upstream.default = upstream.created
    gateway.start()
    box.done("replay", "--dead")
    box.until("done", step=5)


def test_rows_of_dead_gateways_go_and_stop_no_event(pawl, receiver, database):
    names = [f"e{i}" for i in range(40)]
    gateway = pawl(config(*(sink(name, receiver, types=[f"only.{name}"]) for name in names)))
    for _ in range(5):
        gateway.kill9()
        gateway.clock.step(60)
        gateway.start()
    box = Outbox(gateway)
    box.publish("only.e39")
    box.until("done")
    gateway.clock.step(200)
    eventually(lambda: step(gateway, 1) and int(database.sql(
        "SELECT count(*) FROM pawl.serves")[0][0]) == len(names), "rows of those that live alone")


def test_however_many_rows_the_roster_has_every_event_is_told(pawl, receiver, database):
    """Those of a process whose declaration never came into force."""
    box = Outbox(pawl(config(sink("billing", receiver))))
    database.sql("INSERT INTO pawl.process (id, version, is_in_force, started_at, lives_until)"
                 " VALUES (7, 0, 0, 0, 9000000000000000)")
    database.sql("INSERT INTO pawl.serves (id, version, process, kind, name, types, tenants,"
                 " ordered, skips, retry, envelope, endpoint, keep_us) SELECT 100 + n, 0, 7,"
                 " 'webhook', convert_to('e' || n, 'UTF8'), '8:refund.*,', '', 0, 0, 0, 0, 0, 0"
                 " FROM generate_series(1, 20000) n")
    database.sql("UPDATE pawl.roster SET version = version + 1 WHERE kind = ''")
    box.publish()
    assert [row["lane"] for row in box.until("done")] == ["billing"]


def changed(gateway: Gateway, text: str, how: str = "stop") -> None:
    gateway.stop() if how == "stop" else gateway.kill9()
    gateway.configure(text)
    gateway.start()


class Deployment:
    """Three gateways on one store, each with a config of its own; what was sent, and what is to
    become of it."""

    def __init__(self, gateways: list[Gateway], upstream: Upstream, receiver: Upstream):
        self.gateways = gateways
        self.upstream = upstream
        self.receiver = receiver
        self.box = Outbox(gateways[2])
        self.wanted: dict[tuple[str, str], str] = {}  # the envelope of each event at each endpoint
        self.received: set[str] = set()
        self.stored: dict[tuple[str, str], Answer] = {}  # by path and key
        self.lost: set[str] = set()  # keys whose gateway was killed before it had an answer

    def publish(self, type_: str, **envelopes: str) -> None:
        """An event; the first attempt of one of its deliveries fails."""
        self.receiver.then(say(503, effect=False))
        event = self.box.publish(type_)
        eventually(lambda: lanes_of(self.box, event) == set(envelopes),
                   f"deliveries of {type_} to {set(envelopes)}")
        self.wanted.update({(event, f"/{lane}"): form for lane, form in envelopes.items()})

    def receive(self, gateway: Gateway, id_: str) -> None:
        """It is answered as new once, whoever gets it and by whatever name."""
        answer = Inbox(gateway).send(id_)
        status = "replayed" if id_ in self.received else "stored"
        assert answer.mark == (200, status)
        self.received.add(id_)

    def ask(self, *gateways: Gateway, path: str = "/pay") -> None:
        """A new operation at each, which all of them answer for, as for those from before."""
        for gateway in gateways:
            key = f"k{len(self.stored)}"
            answer = gateway.post_up(path, {}, key=key)
            assert answer.mark == (201, "stored")
            self.stored[path, key] = answer
        for gateway in gateways:
            self.ask_again(gateway, path)

    def ask_again(self, gateway: Gateway, path: str) -> None:
        for (one, key), first in self.stored.items():
            if one != path:
                continue
            answer = gateway.post_up(path, {}, key=key)
            assert answer.mark == (201, "replayed")
            assert answer.kept == first.kept
        for key in self.lost:
            if path == "/pay":
                assert gateway.post_up(path, {}, key=key)["Error-Code"] in (RUNNING, UNKNOWN)

    def kill_with_one_under_way(self, gateway: Gateway, text: str) -> None:
        """Its effect is done, and nobody has the answer."""
        gate = self.upstream.hold()
        client = gateway.connect()
        client.send(request_bytes("POST", "/pay", [
            ("Idempotency-Key", "lost"), ("Content-Type", "application/json")], b"{}"))
        gate.wait_for()
        changed(gateway, text, "kill")
        gate.open()
        client.sock.close()
        self.lost.add("lost")

    def end(self) -> None:
        boxes = (self.box, Inbox(self.gateways[2]))
        eventually(lambda: step(self.gateways[0], 1) and all(
            row["state"] == "done" for box in boxes for row in box.list()), "the end of all tasks")
        assert {(row["key"], "/" + row["lane"]) for row in self.box.list()} == set(self.wanted)
        assert {row["key"] for row in boxes[1].list()} == {f"gh:{id_}" for id_ in self.received}
        assert told(self.receiver) == sorted(self.wanted)
        bodies: dict[tuple[str, str], set[bytes]] = {}
        for request in self.receiver.requests:
            bodies.setdefault((request["webhook-id"], request.target), set()).add(request.body)
        assert {name: [form_of(body) for body in sent] for name, sent in bodies.items()} == {
            name: [form] for name, form in self.wanted.items()}

    def effects(self) -> dict[str, int]:
        return {path: self.upstream.effects(path) for path in ("/internal/gh", "/pay", "/charge")}


def test_a_rolling_deployment_loses_and_repeats_nothing(pawl, receiver, upstream):
    """Three versions of a config, one gateway after the other, with a kill and a step back. The new
    one renames a source and a rule, adds a rule, and changes an envelope.

    found: R1
    """
    old = config(sink("billing", receiver, schedule=SLOW), sink("crm", receiver, schedule=SLOW),
                 inbox=True, rules=(rule("pay", "/pay"),))
    new = config(sink("billing", receiver, schedule=SLOW, types=["refund.*", "charge.*"],
                      envelope="cloudevents"),
                 sink("mail", receiver, schedule=SLOW, types=["*"]), inbox=True,
                 source={"name": "github", "source": "gh"},
                 rules=(rule("paid", "/pay", key_space="pay"), rule("charge", "/charge")))
    first, second, third = pawl(old), pawl(old), pawl(config())
    all_ = Deployment([first, second, third], upstream, receiver)
    upstream.on("POST", "/internal/gh", say(503, effect=False))
    all_.receive(first, "e1")
    all_.publish("refund.created", billing="standard", crm="standard")
    all_.ask(first, second)

    changed(second, new)
    all_.receive(second, "e1")
    all_.receive(second, "e2")
    all_.publish("refund.created", billing="cloudevents", crm="standard", mail="standard")
    all_.publish("charge.paid", billing="cloudevents", mail="standard")
    all_.ask(first, second)
    all_.ask(second, path="/charge")

    all_.kill_with_one_under_way(first, new)  # so nobody has crm any more, which may come back
    for gateway, id_ in ((first, "e2"), (first, "e3"), (second, "e1")):
        all_.receive(gateway, id_)
    all_.publish("refund.created", billing="cloudevents", crm="standard", mail="standard")
    all_.publish("charge.paid", billing="cloudevents", mail="standard")
    all_.ask(first, second)
    all_.ask(second, first, path="/charge")

    changed(second, config())
    upstream.off("POST", "/internal/gh")
    all_.publish("refund.created", billing="cloudevents", crm="standard", mail="standard")
    all_.publish("charge.paid", billing="cloudevents", mail="standard")
    all_.ask(first)
    all_.ask(first, path="/charge")

    changed(second, old)
    for gateway, id_ in ((second, "e3"), (second, "e4"), (first, "e4")):
        all_.receive(gateway, id_)
    all_.publish("refund.created", billing="standard", crm="standard", mail="standard")
    all_.publish("charge.paid", billing="standard", mail="standard")
    all_.ask(second, first)
    all_.end()
    all_.ask(first, second)
    for gateway in (first, second):
        eventually(lambda at=gateway: at.post_up("/pay", {}, key="lost")["Error-Code"] == UNKNOWN,
                   "the end of the killed gateway's lease")
    assert all_.effects() == {"/internal/gh": 4, "/pay": 12, "/charge": 4}


def test_a_gateway_that_stood_still_for_longer_declares_itself_anew(pawl, receiver, database):
    gateway = pawl(config(sink("crm", receiver)))
    other = pawl(config())
    gateway.pause()
    other.clock.advance(600)
    eventually(lambda: not database.sql("SELECT id FROM pawl.process"), "its row to be swept")
    gateway.go_on()
    eventually(lambda: database.sql("SELECT id FROM pawl.serves"), "its next declaration")
    box = Outbox(other)
    event = box.publish()
    box.until("done")
    assert told(receiver) == [(event, "/crm")]


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


def test_an_endpoint_that_is_renamed_gets_what_was_to_be_sent_and_nothing_twice(pawl, receiver):
    """One gateway after the other, and a step back: the newest declaration says under which name
    events are told, also to the gateway that knows but the old one, or none."""
    slow = {"schedule": SLOW, "url": f"http://127.0.0.1:{receiver.port}/crm"}
    old = config(sink("crm", receiver, **slow))
    new = config(sink("sales", receiver, formerly=["crm"], **slow))
    first, second, third = pawl(old), pawl(old), pawl(config())
    box, events = Outbox(third), []

    def publish(lane: str) -> None:
        receiver.then(say(503, effect=False))
        events.extend(box.publish() for _ in range(EVENTS))
        for event in events[-EVENTS:]:
            eventually(lambda at=event: lanes_of(box, at) == {lane}, f"its delivery to {lane}")

    publish("crm")
    changed(first, new)
    publish("sales")
    changed(second, new, "kill")
    publish("sales")
    changed(first, old)
    publish("crm")
    changed(first, new)
    publish("sales")
    eventually(lambda: step(first, 5) and {row["state"] for row in box.list()} == {"done"},
               "the end")
    assert told(receiver) == sorted((event, "/crm") for event in events)


def test_a_rename_that_ended_with_its_gateway_tells_nothing_twice(pawl, receiver):
    """Nor is anything lost that but one of the two names wants."""
    crm = f"http://127.0.0.1:{receiver.port}/crm"
    first = pawl(config(sink("crm", receiver, url=crm, types=["refund.*", "old"])))
    second = pawl(config(sink("sales", receiver, url=crm, types=["refund.*", "new"],
                              formerly=["crm"])))
    box = Outbox(pawl(config()))
    events = [box.publish(), box.publish("old"), box.publish("new")]
    box.until(*["done"] * 3)
    second.kill9()
    for _ in range(4):
        first.clock.step(60)
    events += [box.publish(), box.publish("old"), box.publish("new")]
    rows = box.until(*["done"] * 6)
    assert [row["lane"] for row in rows].count("crm") == 3
    second.start()
    changed(first, config(sink("crm", receiver, url=crm)))
    events += [box.publish(), box.publish("new")]
    box.until(*["done"] * 8)
    assert told(receiver) == sorted((event, "/crm") for event in events)


def test_a_person_acts_on_an_endpoint_by_the_name_that_it_has_now(pawl, receiver):
    """The state of the name before, which a gateway has yet, says nothing."""
    gateway, admin = with_admin(pawl, config(sink("crm", receiver)))
    box = Outbox(gateway)
    box.publish()
    box.until("done")
    pawl(config(sink("sales", receiver, formerly=["crm"])))
    ran = box.run("endpoint", "disable", "crm")
    assert ran.returncode == 65 and "`crm` is called `sales` now" in ran.stderr
    refused = admin.request("POST", "/endpoints/crm/disable")
    assert refused.status == 409 and "crm is called sales now" in refused.json["detail"]
    box.done("endpoint", "disable", "sales")
    ran = box.run("replay", box.id())
    assert ran.returncode == 1 and "is disabled" in ran.stderr
    box.done("endpoint", "enable", "sales")
    box.done("replay", box.id())
    receiver.wait_for(2)


def test_an_endpoint_takes_its_state_along_when_it_is_renamed(pawl, receiver):
    gateway = pawl(config(sink("crm", receiver)))
    box = Outbox(gateway)
    box.done("endpoint", "disable", "crm")
    changed(gateway, config(sink("sales", receiver, formerly=["crm"])))
    box.publish()
    assert [(row["lane"], row["reason"]) for row in box.until("dead")] == [
        ("sales", "endpoint_disabled")]
