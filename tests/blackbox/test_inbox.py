# SPDX-License-Identifier: Apache-2.0
"""Webhooks in: an event that its sender signed is stored before the sender is told, and handled
until its handler says so, once for a handler that records the key with its effect."""
from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from conftest import standing
from pawltest.admin import with_admin
from pawltest.gateway import Gateway, run
from pawltest.tasks import Tasks, time_of
from pawltest.upstream import Upstream, closes, say
from pawltest.wire import Answer, Broken, at_once, eventually

pytestmark = pytest.mark.hooks
SECRET, OLD = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
JSON = ("Content-Type", "application/json")
Headers = list[tuple[str, str]]


def hex_of(secret: str, text: bytes, hash_: str = "sha256") -> str:
    return hmac.new(secret.encode(), text, hash_).hexdigest()


def standard(body: bytes, now: int, id_: str = "ev_1", secret: str = SECRET) -> Headers:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.new(key, f"{id_}.{now}.".encode() + body, hashlib.sha256).digest()
    return [("webhook-id", id_), ("webhook-timestamp", str(now)),
            ("webhook-signature", "v1," + base64.b64encode(mac).decode())]


def stripe(body: bytes, now: int) -> Headers:
    return [("Stripe-Signature", f"t={now},v0=ab,v1={hex_of('k', f'{now}.'.encode() + body)}")]


def github(body: bytes, _: int) -> Headers:
    return [("X-Hub-Signature-256", "sha256=" + hex_of("k", body)), ("X-GitHub-Delivery", "d-1")]


def slack(body: bytes, now: int) -> Headers:
    return [("X-Slack-Request-Timestamp", str(now)),
            ("X-Slack-Signature", "v0=" + hex_of("k", f"v0:{now}:".encode() + body))]


def shopify(body: bytes, _: int) -> Headers:
    mac = base64.b64encode(hmac.new(b"k", body, hashlib.sha256).digest()).decode()
    return [("X-Shopify-Hmac-Sha256", mac), ("X-Shopify-Webhook-Id", "w-1")]


def own(body: bytes, now: int) -> Headers:
    return [("X-Time", str(now)),
            ("X-Sign", "s=" + hex_of("k", f"{now}|".encode() + body, "sha512"))]


OWN = {"header": "X-Sign", "signed": "{timestamp}|{body}", "hash": "sha512", "prefix": "s=",
       "timestamp": "X-Time", "secret": "k"}
# How each signs; its `verify`, and the id of the body below.
SCHEMES = {
    "standard": (standard, {"scheme": "standard", "secret": SECRET}, "ev_1"),
    "stripe": (stripe, {"scheme": "stripe", "secret": "k"}, "evt_1"),
    "github": (github, {"scheme": "github", "secret": "k"}, "d-1"),
    "slack": (slack, {"scheme": "slack", "secret": "k"}, "Ev1"),
    "shopify": (shopify, {"scheme": "shopify", "secret": "k"}, "w-1"),
    "own": (own, OWN, "evt_1"),
}
BODY = b'{"id": "evt_1", "event_id": "Ev1",  "n": 1}'


def source(name: str = "payments", **more: Any) -> dict[str, Any]:
    return {"name": name, "match": f"POST /hooks/{name}", "handler": f"POST /internal/{name}",
            "verify": {"scheme": "standard", "secret": SECRET}, **more}


def config(*sources: dict[str, Any], rules: str = "") -> str:
    return ("tenant: none\nallow: [inbox-id-unsigned]\n"
            f"inbox: {json.dumps(sources or (source(),))}\n{rules}")


class Inbox(Tasks):
    """A gateway with sources, and what their senders do."""

    group = "inbox"

    def send(self, id_: str = "ev_1", body: bytes = BODY, name: str = "payments") -> Answer:
        signed = standard(body, self.now(), id_)
        return self.gateway.request("POST", f"/hooks/{name}", [JSON, *signed], body)

    def now(self) -> int:
        return int(time.time() + self.gateway.clock.offset)

    def rows(self, query: str) -> list[list[str]]:
        """As `psql` and `sqlite3` print them: a column between two bars."""
        store = str(self.gateway.store)
        if store.startswith("postgres"):
            command = ["psql", "-XAtc", "SET search_path = pawl", "-c", query, store]
            ran = subprocess.run(command, capture_output=True, text=True, check=True)
            return [line.split("|") for line in ran.stdout.splitlines()[1:]]
        with closing(sqlite3.connect(store)) as connection:
            return [list(map(str, row)) for row in connection.execute(query)]


@pytest.fixture
def inbox(pawl) -> Callable[..., Inbox]:
    return lambda *sources, **more: Inbox(pawl(config(*sources, **more)))


@pytest.fixture
def elsewhere() -> Iterator[Upstream]:
    made = Upstream()
    yield made
    made.stop()


def status_of(answer: Answer) -> tuple[int, str | None]:
    return answer.status, answer["Idempotency-Status"]


# ---- received, and handled once ----

def test_an_event_is_stored_acknowledged_and_handled_once(inbox, upstream):
    box = inbox()
    first, again = box.send(), box.send()
    assert status_of(first) == (200, "stored") and first.body == b""
    assert status_of(again) == (200, "replayed") and again.body == b""
    (row,) = box.until("done")
    assert (row["key"], row["lane"], row["status"]) == ("payments:ev_1", "payments", 201)
    assert status_of(box.send()) == (200, "replayed")
    (request,) = upstream.requests
    assert (request.method, request.target, request.body) == ("POST", "/internal/payments", BODY)
    assert request["content-type"] == "application/json"
    assert request["webhook-source"] == "payments"
    assert request["idempotency-key"] == "payments:ev_1"


def test_twenty_at_once_are_one(inbox, upstream):
    box = inbox()
    answers = at_once(20, lambda _: box.send())
    assert sorted(status_of(one) for one in answers) == [(200, "replayed")] * 19 + [(200, "stored")]
    box.until("done")
    assert upstream.effects() == 1


def test_a_packed_body_is_verified_as_it_came_and_handed_on_as_that(inbox, upstream):
    box = inbox(source(verify={"scheme": "stripe", "secret": "k"}))
    packed = gzip.compress(BODY)
    headers = [JSON, ("Content-Encoding", "gzip"), *stripe(packed, box.now())]
    assert status_of(box.gateway.request("POST", "/hooks/payments", headers, packed)) == \
        (200, "stored")
    assert [row["key"] for row in box.until("done")] == ["payments:evt_1"]
    assert upstream.requests[0].body == packed
    assert upstream.requests[0]["content-encoding"] == "gzip"


def test_two_sources_may_use_the_same_id(inbox, upstream):
    box = inbox(source(), source("bank"))
    assert status_of(box.send()) == status_of(box.send(name="bank")) == (200, "stored")
    box.until("done", "done")
    assert {one["webhook-source"] for one in upstream.requests} == {"payments", "bank"}


def test_an_id_is_known_for_its_time_from_the_end_of_its_handling(inbox, upstream):
    box = inbox(source(keep="3d"))
    box.send()
    box.until("done")
    box.gateway.clock.step(2.9 * 86400)
    assert status_of(box.gateway.when_up(box.send)) == (200, "replayed")
    box.gateway.clock.step(0.2 * 86400)
    assert status_of(box.gateway.when_up(box.send)) == (200, "stored")
    eventually(lambda: upstream.effects() == 2, "its handling")


def test_a_handler_may_be_anywhere(inbox, elsewhere):
    box = inbox(source(handler=f"http://127.0.0.1:{elsewhere.port}/in?x=1"))
    box.send()
    box.until("done")
    assert elsewhere.requests[0].target == "/in?x=1"


def test_what_was_received_is_read_as_a_table(inbox, upstream):
    query = "SELECT event_id,source,payload_hash,received_at,processed_at,result FROM inbox_events"
    box = inbox()
    upstream.then(say(400))
    box.send()
    box.until("dead")
    box.send("ev_2")
    box.until("dead", "done")
    refused, handled = sorted(box.rows(query))
    assert refused[:2] == ["ev_1", "payments"] and refused[5] == "dead"
    assert handled[0] == "ev_2" and handled[5] == "ok" and len(handled[2]) == 64
    assert time_of(box.gateway)[:4] == handled[3][:4] and handled[3] <= handled[4]


# ---- who sent it ----

@pytest.mark.no_store
@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_scheme_is_verified_over_the_bytes_as_they_came(inbox, upstream, scheme):
    sign, verify, id_ = SCHEMES[scheme]
    more = {"id": "{body:/id}"} if scheme == "own" else {}
    box = inbox(source(verify=verify, **more))

    def sent(body: bytes, headers: Headers) -> Answer:
        return box.gateway.request("POST", "/hooks/payments", [JSON, *headers], body)

    good = sign(BODY, box.now())
    respaced = BODY.replace(b",  ", b", ")
    bad = [sent(respaced, good), sent(BODY, []),
           sent(BODY, [(name, value.replace("=", "=0")) for name, value in good])]
    for answer in bad:
        assert answer.is_problem(401, "AUTH.signature")
        assert b"match" not in answer.body and b"header" not in answer.body
    assert status_of(sent(BODY, good)) == (200, "stored")
    assert [row["key"] for row in box.until("done")] == [f"payments:{id_}"]
    reasons = [line["signature"] for line in box.gateway.log if "signature" in line]
    assert len(reasons) == 3 and {"no_match", "no_signature"} <= set(reasons)
    assert upstream.requests[0].body == BODY


@pytest.mark.no_store
@pytest.mark.parametrize("scheme", ["standard", "stripe", "slack", "own"])
@pytest.mark.parametrize("late, why", [(-400, "too_old"), (400, "too_new")])
def test_a_time_beyond_the_tolerance_is_refused(inbox, scheme, late, why):
    sign, verify, _ = SCHEMES[scheme]
    box = inbox(source(verify=verify, id="{body:/id}"))
    headers = [JSON, *sign(BODY, box.now() + late)]
    answer = box.gateway.request("POST", "/hooks/payments", headers, BODY)
    assert answer.is_problem(401, "AUTH.signature")
    assert eventually(lambda: [line["signature"] for line in box.gateway.log
                               if "signature" in line]) == [why]


def test_each_secret_verifies_while_they_rotate(inbox):
    box = inbox(source(verify={"scheme": "standard", "secret": [SECRET, OLD]}))
    for i, secret in enumerate((SECRET, OLD)):
        signed = standard(BODY, box.now(), f"ev_{i}", secret)
        answer = box.gateway.request("POST", "/hooks/payments", [JSON, *signed], BODY)
        assert status_of(answer) == (200, "stored")


def test_slack_s_question_whether_somebody_is_there_is_answered(inbox, upstream):
    box = inbox(source(verify={"scheme": "slack", "secret": "k"}))
    body = b'{"type": "url_verification", "challenge": "3eZbrw1a"}'
    answer = box.gateway.request("POST", "/hooks/payments", [JSON, *slack(body, box.now())], body)
    assert (answer.status, answer.body, answer["Content-Type"]) == (200, b"3eZbrw1a", "text/plain")
    unsigned = box.gateway.request("POST", "/hooks/payments", [JSON], body)
    assert unsigned.is_problem(401, "AUTH.signature")
    assert box.list() == [] and upstream.requests == []


# ---- what it is ----

def test_the_same_id_with_another_body_is_refused_or_acknowledged(inbox, upstream):
    box = inbox(source(), source("bank", mismatch=200))
    for name in ("payments", "bank"):
        assert status_of(box.send(name=name)) == (200, "stored")
    refused = box.send(body=b'{"other": 1}')
    assert refused.is_problem(409, "CONFLICT.idempotency.payload_mismatch")
    assert status_of(box.send(body=b'{"other": 1}', name="bank")) == (200, None)
    box.until("done", "done")
    assert {request.body for request in upstream.requests} == {BODY}


def test_what_stripe_counts_down_does_not_make_it_another(inbox):
    box = inbox(source(verify={"scheme": "stripe", "secret": "k"}))
    for pending, status in ((2, "stored"), (1, "replayed")):
        body = json.dumps({"id": "evt_1", "pending_webhooks": pending}).encode()
        answer = box.gateway.request("POST", "/hooks/payments", [JSON, *stripe(body, box.now())],
                                     body)
        assert status_of(answer) == (200, status)


@pytest.mark.no_store
@pytest.mark.parametrize("body, status, code", [
    (b'{"n": 1}', 400, "VALIDATION.idempotency.key_source_missing"),
    (b'{"id": ""}', 400, "VALIDATION.idempotency.key_source_missing"),
    (b'{"id": "a", "n": "%s"}' % (b"x" * 10_485_760), 413, "VALIDATION.body_too_large")],
    ids=["none", "empty", "large"])
def test_what_is_no_event_is_refused(inbox, body, status, code):
    box = inbox(source(verify={"scheme": "stripe", "secret": "k"}))
    headers = [JSON, *stripe(body, box.now())]
    assert box.gateway.request("POST", "/hooks/payments", headers, body).is_problem(status, code)
    assert box.list() == []


# ---- until it is handled ----

def test_a_handler_that_fails_is_called_again_and_then_dead(inbox, upstream):
    box = inbox(source(retry="user_facing"))
    upstream.default = say(503, {"why": "down"})
    box.send()
    (row,) = box.until("dead")
    assert row["reason"] in ("attempts", "deadline") and row["attempts"] > 2
    assert {request["idempotency-key"] for request in upstream.requests} == {"payments:ev_1"}
    assert box.show()["history"][0]["response"] == '{"why": "down"}'
    assert status_of(box.send()) == (200, "replayed"), "only an operator runs it again"
    upstream.default = upstream.created
    assert box.done("replay", "--dead", "--source", "payments") == "sent again: 1\n"
    assert " replay event " in box.done("audit") and ": dead -> waiting" in box.done("audit")
    box.until("done")


def test_a_final_answer_is_dead_at_once_and_in_progress_is_waited_out(inbox, upstream):
    """found: G1. So is what is not settled yet; a refusal of pawl itself is the operator's."""
    box = inbox()
    upstream.then(say(422, {"no": 1}))
    box.send()
    assert box.until("dead")[0]["reason"] == "final" and len(upstream.requests) == 1
    unsettled = say(409, {"retryable": True}, effect=False)
    unsettled.headers = (("Content-Type", "application/problem+json"),)
    upstream.then(say(409, {"error_code": "CONFLICT.idempotency.in_progress"}), closes(),
                  unsettled, say(401), say(403), say(407))
    box.send("ev_2")
    box.until("dead", "done", step=5)
    assert len(upstream.requests) == 8


def test_events_of_an_order_are_handled_one_after_the_other(inbox, upstream):
    box = inbox(source(order="{body:/about}"))

    def body(about: str, n: int) -> bytes:
        return json.dumps({"about": about, "n": n} if about else {"n": n}).encode()

    upstream.on("POST", "/internal/payments", say(422))
    box.send("a1", body("a", 1))
    box.until("dead")
    upstream.off("POST", "/internal/payments")
    box.send("a2", body("a", 2))
    box.send("b1", body("b", 1))
    box.send("none", body("", 1))
    box.until("dead", "parked", "done", "done")
    done = [row["key"] for row in box.list("--state", "done")]
    assert sorted(done) == ["payments:b1", "payments:none"]
    assert box.list("--dead")[0]["order"] == "payments:a"
    box.done("drop", box.id(0))
    box.until("dropped", "done", "done", "done")
    assert status_of(box.send("a1", body("a", 1))) == (200, "replayed")


def test_a_source_that_a_reload_takes_out_handles_no_more_until_it_is_back(inbox, upstream):
    box = inbox(source(), source("bank"))
    upstream.default = say(503)
    box.send()
    eventually(lambda: upstream.requests, "its first attempt")
    box.gateway.configure(config(source("bank")))
    box.gateway.signal(signal.SIGHUP)
    eventually(lambda: box.gateway.lines("config_reloaded"), "it")
    tried = len(upstream.requests)
    for _ in range(5):
        box.gateway.clock.step(30)
    assert box.list()[0]["state"] == "waiting" and len(upstream.requests) == tried
    assert box.gateway.request("POST", "/hooks/payments", [JSON], BODY).status == 503
    upstream.default = upstream.created
    assert status_of(box.send(name="bank")) == (200, "stored")
    box.gateway.configure(config(source(), source("bank")))
    box.gateway.signal(signal.SIGHUP)
    box.until("done", "done", step=30)


def test_a_source_that_is_renamed_stays_what_it_was(inbox, upstream):
    """found: R10. What it handled is known, what waits is handled, under the keys of before."""
    box = inbox(source())
    box.send("ev_1")
    box.until("done")
    upstream.default = say(503)
    box.send("ev_2")
    upstream.wait_for(2)
    box.gateway.configure(config(source("bank")))
    box.gateway.restart()
    eventually(lambda: any(line["event"] == "roster_unserved" and line["name"] == "payments"
                           and "source:" in line["hint"] for line in box.gateway.log), "its hint")
    box.gateway.configure(config(source("bank", source="payments")))
    box.gateway.restart()
    upstream.default = upstream.created
    assert status_of(box.send("ev_1", name="bank")) == (200, "replayed")
    assert status_of(box.send("ev_2", name="bank")) == (200, "replayed")
    assert status_of(box.send("ev_3", name="bank")) == (200, "stored")
    box.until("done", "done", "done", step=30)
    last = {request["Idempotency-Key"]: request for request in upstream.requests}
    assert set(last) == {"payments:ev_1", "payments:ev_2", "payments:ev_3"}
    assert {request["Webhook-Source"] for request in last.values()} == {"payments"}
    assert [last[f"payments:ev_{n}"].target for n in (2, 3)] == ["/internal/bank"] * 2
    assert box.rows("SELECT DISTINCT source FROM inbox_events") == [["payments"]]


def test_a_source_that_no_config_has_is_removed_by_a_person(pawl, upstream):
    gateway, listener = with_admin(pawl, config(source(), source("bank")))
    box = Inbox(gateway)

    def reload(*sources: dict[str, Any]) -> None:
        before = [line["event"] for line in gateway.log].count("config_reloaded")
        gateway.configure(f"admin: 127.0.0.1:{listener.port}\n{config(*sources)}")
        gateway.signal(signal.SIGHUP)
        eventually(lambda: [line["event"] for line in gateway.log].count("config_reloaded")
                   > before, "the reload")

    def over_http(name: str, act: str = "remove") -> Answer:
        return listener.request("POST", f"/inbox/sources/{name}/{act}")

    upstream.default = say(503)
    box.send("ev_1")
    box.send("ev_2", name="bank")
    upstream.wait_for(2)
    ran = box.run("remove", "payments")
    assert ran.returncode == 65 and "of a config that is in force" in ran.stderr
    assert over_http("payments").status == 409
    ran = box.run("remove", "nobody")
    assert ran.returncode == 1 and "knows no source `nobody`" in ran.stderr
    assert [over_http("nobody").status, over_http("bank", "fly").status, over_http("").status,
            listener.get("/inbox/sources/bank/remove").status] == [404, 404, 404, 405]
    eventually(lambda: box.states() == ["waiting"] * 2, "the next attempts")
    reload(source("other"))
    told = run("serve", "--test", "-c", gateway.config).stderr
    assert "events of a source 'payments', which is in no config in force" in told
    assert box.done("remove", "payments", "--reason", "gone") == "source payments is removed\n"
    assert box.done("remove", "payments") == "source payments is already removed\n"
    assert over_http("bank").json == {"name": "bank", "removed": True}
    told = run("serve", "--test", "-c", gateway.config).stderr
    assert "[endpoint-unserved]" not in told  # they end
    assert {row["reason"] for row in box.until("dead", "dead", step=5)} == {"endpoint_removed"}
    acts = [json.loads(line) for line in box.done("audit", "--json").splitlines()]
    assert [(act["act"], act["lane"], act["reason"]) for act in acts] == [
        ("remove", "payments", "gone"), ("remove", "bank", None)]
    assert acts[1]["actor"].startswith("admin:")
    upstream.default = upstream.created
    reload(source(), source("bank"))
    box.done("replay", "--dead")
    box.until("done", "done", step=5)


def test_a_replay_past_the_window_of_the_handler_needs_force(pawl, upstream):
    gateway, listener = with_admin(pawl, config(source(keep="30d")))
    box = Inbox(gateway)
    box.send()
    box.until("done")
    assert "is sent again" in box.done("replay", box.id())
    eventually(lambda: upstream.effects() == 2, "the replay")
    box.until("done")
    gateway.clock.step(8 * 86400)
    refused = listener.request("POST", f"/inbox/{box.id()}/replay")
    assert refused.status == 409 and "force" in refused.json["detail"]
    assert listener.request("POST", f"/inbox/{box.id()}/replay?force=true").status == 200
    eventually(lambda: upstream.effects() == 3, "the forced one")


# ---- the handler's target ----

@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Upstream]]:
    with standing(tmp_path_factory.mktemp("closed"), config()) as made:
        yield made


@pytest.mark.no_store
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PURGE"])
@pytest.mark.parametrize("path", [
    "/internal/payments", "/internal//payments", "/x/../internal/payments", "/internal/payments/",
    "/%69nternal/payments", "/internal%2Fpayments", "/internal/payments;v=1",
    "/internal/payments?a", "/Internal/Payments", "/%49nternal/payments",
    "/internal/payments.json"])
def test_the_handler_s_target_is_closed_to_others(closed, method, path):
    gateway, behind = closed
    answer = gateway.request(method, path, [])
    assert answer.status in (400, 404) and behind.requests == []


def test_clients_cannot_say_that_they_are_a_source(inbox, upstream):
    box = inbox(rules="rules: [{name: r, match: POST /refunds}]\n")
    said = [("Webhook-Source", "payments"), ("Webhook_Source", "payments")]
    box.gateway.post("/refunds", {}, key="k", headers=said)
    box.gateway.request("GET", "/x", said)
    for request in upstream.requests:
        assert (request["webhook-source"], request["webhook_source"]) == (None, None)
    assert len(upstream.requests) == 2


@pytest.mark.parametrize("change, what", [
    ({"handler": "POST /refunds"}, "is taken by `r`"),
    ({"handler": "POST /hooks/payments"}, "is taken by `payments`"),
    ({"handler": "internal"}, "expected POST /path"),
    ({"handler": "POST /a b"}, "is no plain path"),
    ({"name": "r"}, "a rule has the name r"), ({"name": "e"}, "an endpoint has the name e"),
    ({"source": "e"}, "an endpoint has the name e"),
    ({"verify": {"scheme": "stripe"}}, "has no secret"),
    ({"verify": {"scheme": "stripes", "secret": "k"}}, "stripe"),
    ({"verify": {"scheme": "stripe", "secret": "k", "hash": "sha1"}}, "is known of a scheme"),
    ({"verify": {"secret": "k"}}, "header"),
    ({"verify": OWN}, "has no id"),
    ({"verify": {"scheme": "standard", "secret": "k"}}, "secret"),
    ({"id": "{path:x}"}, "no such parameter"),
    ({"keep": "1d"}, "keep"),
    ({"match": "GET /hooks"}, "GET"),
    ({"colour": 1}, "colour")], ids=lambda value: value if isinstance(value, str) else "")
def test_a_source_that_cannot_be_is_refused(tmp_path: Path, change, what):
    file = tmp_path / "pawl.yaml"
    file.write_text("upstream: http://127.0.0.1:9\n" + config(
        {**source(), **change}, rules="rules: [{name: r, match: POST /refunds}]\nwebhooks: "
        f"{{endpoints: [{{name: e, url: 'https://a.example', types: [a], secret: {SECRET}}}]}}\n"))
    ran = run("serve", "-t", "-c", file)
    assert ran.returncode == 2 and what in ran.stderr, ran
    assert "k}" not in ran.stderr, "a secret is never shown"


def test_an_id_that_nobody_signs_is_warned_of(tmp_path: Path):
    file = tmp_path / "pawl.yaml"
    told = config(source(verify={"scheme": "github", "secret": "k"}))
    file.write_text("upstream: http://127.0.0.1:9\n" + told.replace("inbox-id-unsigned", ""))
    ran = run("serve", "-t", "-c", file)
    assert ran.returncode == 0 and "[inbox-id-unsigned]" in ran.stderr


# ---- whatever dies ----

@pytest.mark.parametrize("point", [
    "request_body_read", "before_begin", "after_claim_commit:1", "before_response_write",
    "after_response_write", "after_claim_commit:2", "before_connect", "after_response_body",
    "before_outcome_commit", "after_outcome_commit"])
def test_after_a_crash_at_any_point_each_event_is_handled_once(pawl, upstream, point):
    gateway = pawl(config(), started=False)
    box = Inbox(gateway)
    gateway.start(PAWL_CRASH_AT=point)

    def deliver(i: int) -> bool:
        try:
            return box.send(f"ev_{i}", b'{"n": %d}' % i).status == 200
        except (Broken, OSError):
            return False

    acknowledged = [deliver(i) for i in range(3)]
    gateway.wait()
    gateway.start()
    assert all(acknowledged[i] or deliver(i) for i in range(3)), "as its sender would"
    box.until("done", "done", "done", step=5)
    keys = {request["idempotency-key"] for request in upstream.done}
    assert keys == {f"payments:ev_{i}" for i in range(3)}
    assert len(upstream.requests) <= 6, "those that were under way may be made again"


# ---- the admin listener ----

def test_the_admin_listener_shows_events_and_has_them_handled_again(pawl, upstream):
    gateway, listener = with_admin(pawl, config())
    box = Inbox(gateway)
    upstream.then(say(400))
    box.send()
    box.until("dead")
    (row,) = listener.get("/inbox?state=dead&source=payments").json["events"]
    assert listener.get("/inbox?source=bank").json["events"] == []
    assert listener.get(f"/deliveries/{row['id']}").status == 404
    assert listener.get(f"/inbox/{row['id']}").json["history"][0]["status"] == 400
    assert listener.request("POST", f"/inbox/{row['id']}/replay").status == 200
    box.until("done")
    gateway.clock.step(6 * 86400)
    assert listener.request("POST", f"/inbox/{row['id']}/drop").status == 409
    assert listener.outcomes("payments")["created"] == 1
    done = {"kind": "inbox", "state": "done"}
    gateway.clock.run_until(lambda: listener.value("pawl_tasks", **done) == 1, 1)
    for wrong in ("/inbox/", "/inbox/x", f"/inbox/{row['id']}/fly", "/inboxes"):
        assert listener.get(wrong).status in (404, 405)
    assert time_of(gateway) > row["created_at"]
