# SPDX-License-Identifier: Apache-2.0
"""`first:` under `unknown: {probe: ...}`: the service is asked before anything is sent, always or
while the store may lack records."""
from __future__ import annotations

import time

import pytest

from pawltest.admin import with_admin
from pawltest.gateway import run
from pawltest.upstream import Reply, Upstream, closes, say
from pawltest.wire import Broken, Later, eventually

CONFIG = """
tenant: none
rules:
  - name: always
    match: POST /always
    unknown: {probe: "GET /known/{key}", first: always}
  - name: own
    match: POST /own
    unknown: {probe: "GET /known/{key}", first: always}
    duplicate: reject
  - name: once
    match: POST /once
    once: {key: "{body:/id}", duplicate: replay}
    unknown: {probe: "GET /known/{body:/id}", first: always}
  - {name: default, match: POST /default, unknown: {probe: "GET /known/{key}"}}
  - {name: off, match: POST /off, unknown: {probe: "GET /known/{key}", first: off}}
  - name: window
    match: POST /window
    key: "{header:Idempotency-Key}:{window:1h}"
    unknown: {probe: "GET /known/{key}"}
  - {name: dated, match: POST /dated, key_format: uuid7}
  - {name: plain, match: POST /plain}
"""
UNPROVED = "DEPENDENCY.unproved"
UNKNOWN = "CONFLICT.idempotency.outcome_unknown"
BODY = {"amount": 5}

hooks = pytest.mark.hooks


def knows_what_it_did(upstream: Upstream) -> Upstream:
    def answer(request):
        if request.method != "GET":
            return upstream.created(request)
        return say(404, {"error": "nothing here"})
    upstream.default = answer
    return upstream


@pytest.fixture(name="behind")
def _behind(behind: Upstream) -> Upstream:
    return knows_what_it_did(behind)


def methods(upstream: Upstream) -> list[str]:
    return [request.method for request in upstream.requests]


def made(age: float) -> str:
    """A key that was made so many seconds ago."""
    ms = f"{int((time.time() - age) * 1000):012x}"
    return f"{ms[:8]}-{ms[8:]}-7000-8000-000000000001"


def test_what_the_service_does_not_know_is_sent_under_the_token_that_asked(shared, behind, key):
    first = shared.post("/always", BODY, key=key)
    assert first.mark == (201, "stored")
    assert methods(behind) == ["GET", "POST"]
    asked, sent = behind.requests
    assert asked["Idempotency-Key"] == sent["Idempotency-Key"]
    assert sent["Idempotency-Key"].strip('"') == key.strip('"')
    assert asked["Idempotency-Token"] == sent["Idempotency-Token"] and asked.body == b""
    again = shared.post("/always", BODY, key=key)
    assert (again.mark, again.kept) == ((201, "replayed"), first.kept)
    assert methods(behind) == ["GET", "POST"]


def test_what_it_knows_is_answered_as_any_duplicate_and_not_sent(shared, behind, key):
    found = say(200, {"id": "re_9"}, ("ETag", '"e"'))
    behind.then(found)
    first = shared.post("/always", BODY, key=key)
    assert (first.mark, first.json, first["ETag"]) == ((200, "replayed"), {"id": "re_9"}, '"e"')
    again = shared.post("/always", BODY, key=key)
    assert (again.mark, again.kept) == ((200, "replayed"), first.kept)
    behind.then(found)
    refused = shared.post("/own", BODY, key=key)
    assert refused.is_problem(409, "CONFLICT.idempotency.duplicate")
    assert methods(behind) == ["GET", "GET"]


def test_a_once_value_is_asked_about_whatever_the_key(shared, behind, key):
    for n in range(2):
        assert shared.post("/once", {"id": 7}, key=f'"{n} {key[1:]}').status == 201
    assert [request.target for request in behind.requests] == ["/known/7", "/once"]
    behind.then(say(200, {"id": "re_8"}))
    found = shared.post("/once", {"id": 8}, key=f'"3 {key[1:]}')
    assert (found.mark, found.json) == ((200, "replayed"), {"id": "re_8"})
    assert len(behind.done) == 1


@pytest.mark.parametrize("status", [401, 403, 407, 429])
def test_what_is_about_the_caller_goes_to_the_caller(shared, behind, key, status):
    behind.then(say(status, {"who": "are you"}, ("Retry-After", "7")))
    refused = shared.post("/always", BODY, key=key)
    assert (refused.mark, refused.json) == ((status, "released"), {"who": "are you"})
    assert shared.post("/always", BODY, key=key).mark == (201, "stored")
    assert methods(behind) == ["GET", "GET", "POST"]


NO_PROOF = {"an error": say(500, {}), "a refusal": say(400, {}), "a conflict": say(409, {}),
            "elsewhere": say(302, None, ("Location", "/login")), "overload": say(503, {}),
            "no end": Reply(200, b"{}" * 9, cut=-3), "nothing": closes(),
            "nonsense": Reply(raw=b"nonsense\r\n\r\n")}


@pytest.mark.parametrize("reply", NO_PROOF.values(), ids=NO_PROOF.keys())
def test_what_proves_nothing_sends_nothing(shared, behind, key, reply):
    behind.then(reply)
    unproved = shared.post("/always", BODY, key=key)
    assert unproved.is_problem(503, UNPROVED)
    assert (unproved.json["retryable"], unproved.json["safe_new_key"]) == (True, False)
    assert int(unproved["Retry-After"]) >= 1 and unproved["Idempotency-Status"] == "released"
    behind.then(say(404))
    assert shared.post("/always", BODY, key=key).mark == (201, "stored")
    assert methods(behind) == ["GET", "GET", "POST"]


def test_two_at_once_ask_and_send_once(shared, behind, key):
    gate = behind.gate()
    behind.then(Reply(404, gate=gate))
    clients = [Later(lambda: shared.post("/always", BODY, key=key)) for _ in range(2)]
    gate.wait_for()
    gate.open()
    answers = [client.result() for client in clients]
    assert sorted(answer.mark for answer in answers) == [(201, "replayed"), (201, "stored")]
    assert methods(behind) == ["GET", "POST"]


def test_without_a_mark_only_always_asks(shared, behind, key):
    for path in ("/default", "/off", "/plain"):
        assert shared.post(path, BODY, key=key).mark == (201, "stored")
    assert methods(behind) == ["POST"] * 3


def test_a_lost_response_is_probed_as_ever(shared, behind, key):
    behind.then(say(404), closes(), say(200, {"id": 1}))
    assert shared.post("/always", BODY, key=key).mark == (200, "stored")
    assert methods(behind) == ["GET", "POST", "GET"]


def kill_while_it_asks(gateway, upstream: Upstream) -> None:
    gate = upstream.gate()
    upstream.then(Reply(200, gate=gate))
    client = Later(lambda: gateway.post("/always", BODY, key="k1"))
    gate.wait_for()
    gateway.kill9()
    gate.open()
    with pytest.raises(Broken):
        client.result()
    gateway.start()


@hooks
def test_killed_while_it_asks_nothing_is_in_doubt(pawl, upstream, clock):
    gateway = pawl(CONFIG)
    knows_what_it_did(upstream)
    kill_while_it_asks(gateway, upstream)
    clock.advance(31)  # its lease, where it is not known that it has died
    assert gateway.post_up("/always", BODY, key="k1").mark == (201, "stored")
    assert methods(upstream) == ["GET", "GET", "POST"]


TRIED = [
    # what it says to a key that cannot exist, whether a 2xx is believed then, and how often a
    # second operation tries it again
    (say(404), True, 0), (say(410), True, 0), (say(400, {"why": "no number"}), True, 0),
    (Reply(404, b"data: no\n\n", (("Content-Type", "text/event-stream"),)), True, 0),
    (say(200, []), False, 0), (say(204), False, 0),
    (say(500), True, 1), (say(401), True, 1), (say(429), True, 1), (closes(), True, 1)]


@pytest.mark.parametrize("reply, believed, again", TRIED, ids=[
    "404", "410", "400", "live", "200", "204", "500", "401", "429", "nothing"])
def test_a_service_that_finds_what_cannot_exist_is_not_believed(pawl, upstream, reply, believed,
                                                                again):
    gateway, admin = with_admin(pawl, CONFIG)
    upstream.tried = reply
    upstream.then(say(200, {"id": "re_1"}))
    found = gateway.post("/always", BODY, key="k1", headers=[("Authorization", "Bearer me")])
    assert (found.status == 200) is believed and found.is_problem(503, UNPROVED) is not believed
    assert methods(upstream) == ["GET"]
    trial, = upstream.trials
    assert trial["Authorization"] == "Bearer me"
    assert upstream.requests[0]["Idempotency-Key"] == "k1"
    assert trial.target == f"/known/{trial['Idempotency-Key']}"  # nothing is kept under the other
    # What it does not find is believed in any case; of one lost response nothing is found out.
    upstream.then(say(404), closes(), say(200, {"id": "re_2"}))
    lost = gateway.post("/always", BODY, key="k2")
    assert lost.status == (200 if believed else 502)
    assert len(upstream.trials) == 1 + 2 * again
    finds_all = ("pawl_probe_finds_all", frozenset({("rule", "always")}))
    assert (finds_all in admin.series()) is not believed
    ready = admin.get("/readyz").body.decode()
    assert ("for rule 'always': its probe finds what cannot exist" in ready) is not believed
    assert len(gateway.lines("probe_tried")) == (again == 0 and reply.status != 404)


@hooks
def test_an_inquiry_whose_client_never_returns_expires(pawl, upstream, clock):
    gateway, admin = with_admin(pawl, CONFIG)
    kill_while_it_asks(gateway, upstream)
    clock.advance(31)

    def listed() -> list[dict] | None:
        """None: the clock moved while the store was asked."""
        answer = admin.get("/keys")
        return answer.json["keys"] if answer.status == 200 else None

    clock.run_until(lambda: [row["lease"] for row in listed() or []] == ["released"], step=30)
    (row,) = eventually(listed, "its record")
    assert not row["in_doubt"] and row["expires_at"]
    clock.run_until(lambda: listed() == [], step=12 * 3600)


def mark(gateway, *arguments: str) -> None:
    ended = run("store", "restored", "--store", gateway.store, *arguments)
    assert ended.returncode == 0, ended.stderr


@hooks
def test_while_records_may_be_missing_it_asks_and_believes_nothing_too_early(pawl, upstream, clock):
    gateway = pawl(CONFIG)
    knows_what_it_did(upstream)
    kept = gateway.post("/default", BODY, key="kept")
    mark(gateway, "--since", "2026-01-31T12:00:00Z", "--live")
    again = gateway.post("/default", BODY, key="kept")
    assert (again.mark, again.kept) == ((201, "replayed"), kept.kept)
    # What was sent before may still be on its way: "not found" says nothing yet, "found" does.
    early = gateway.post("/default", BODY, key="k1")
    assert early.is_problem(503, UNPROVED) and "the probe got 404" in early.json["detail"]
    assert 30 < int(early["Retry-After"]) <= 60
    assert methods(upstream) == ["POST", "GET"]
    upstream.then(say(200, {"id": "re_1"}))
    assert gateway.post("/default", BODY, key="k2").mark == (200, "replayed")
    clock.advance(61)  # the lease, and the rule's timeout
    assert gateway.post_up("/default", BODY, key="k1").mark == (201, "stored")
    assert methods(upstream) == ["POST", "GET", "GET", "GET", "POST"]
    assert gateway.post("/off", BODY, key="k3").mark == (201, "stored")
    assert gateway.post("/plain", BODY, key="k4").mark == (201, "stored")
    assert gateway.post("/window", BODY, key="k5").mark == (201, "stored")
    assert methods(upstream)[-3:] == ["POST"] * 3
    mark(gateway, "--clear", "--live")
    assert gateway.post("/default", BODY, key="k6").mark == (201, "stored")
    assert methods(upstream)[-2:] == ["POST", "POST"]


@hooks
def test_a_dated_key_from_before_the_mark_is_held_where_nobody_can_be_asked(pawl, upstream, clock):
    gateway = pawl(CONFIG)
    knows_what_it_did(upstream)
    mark(gateway, "--since", "2026-01-31T12:00:00Z", "--live")
    refused = gateway.post("/dated", BODY, key=made(60))
    assert refused.is_problem(409, UNKNOWN)
    assert (refused.json["retryable"], refused.json["safe_new_key"]) == (False, False)
    assert not upstream.requests
    clock.advance(400)
    assert gateway.post_up("/dated", BODY, key=made(-390)).mark == (201, "stored")
