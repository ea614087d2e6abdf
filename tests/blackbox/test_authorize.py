# SPDX-License-Identifier: Apache-2.0
"""`authorize: GET /me`: whom the service would not let see an earlier answer is told none."""
from __future__ import annotations

import pytest

from upstream import Reply, Upstream, closes, say
from wire import Later, Request, request_bytes

CONFIG = """
tenant: "{header:X-Merchant-Id}"
defaults: {authorize: GET /me}
rules:
  - {name: refunds.create, match: POST /refunds, in_progress: {wait: 10m}}
  - {name: small, match: POST /small, max_response_body: 1KiB}
  - {name: export, match: POST /export, stream: true}
  - name: items
    match: POST /items/{id}/notes
    authorize: "GET /items/{path:id}?as={header:X-As}"
  - {name: free, match: POST /free, authorize: none, trust_tenant: true}
  - {name: probed, match: POST /probed, unknown: {probe: "GET /by-key/{key}"}, settle: 0}
"""
ALICE = (("X-Merchant-Id", "m1"), ("Authorization", "Bearer alice"))
BOB = (("X-Merchant-Id", "m1"), ("Authorization", "Bearer bob"))
hooks = pytest.mark.hooks


@pytest.fixture
def service(behind: Upstream) -> Upstream:
    """Knows Alice, and answers 403 to everybody else who asks GET /me."""
    def answer(request: Request) -> Reply:
        if request.target == "/me" and request["Authorization"] != "Bearer alice":
            return say(403, {"who": "not you"}, ("X-Own", "1"), ("WWW-Authenticate", "Bearer"))
        return behind.created(request)

    behind.default = answer
    yield behind
    behind.default = behind.created


def asked(service: Upstream, target: str = "/me") -> list[Request]:
    return [request for request in service.requests if request.target == target]


def test_a_replay_is_told_to_whom_the_service_lets_see_it_and_to_nobody_else(shared, service, key):
    first = shared.post("/refunds", {}, key=key, headers=ALICE)
    assert not asked(service), "the first attempt is the service's own to judge"
    for n in (1, 2):
        assert shared.post("/refunds", {}, key=key, headers=ALICE).kept == first.kept
        assert len(asked(service)) == n, "asked anew each time"
    other = shared.post("/refunds", {}, key=key, headers=BOB)
    assert (other.status, other.json) == (403, {"who": "not you"})
    assert (other["X-Own"], other["WWW-Authenticate"]) == ("1", "Bearer")
    assert other["Idempotency-Status"] is None and other["Idempotent-Replayed"] is None
    assert service.effects() == 1


def test_the_service_is_asked_with_the_callers_headers_and_nothing_of_its_body(shared, service,
                                                                               key):
    headers = [*ALICE, ("Cookie", "a=b"), ("X-Own", "1"), ("If-Match", "*"), ("Range", "bytes=0-1")]
    for _ in range(2):
        shared.post("/refunds", {"amount": 5}, key=key, headers=headers)
    me, = asked(service)
    assert (me.method, me.body) == ("GET", b"")
    assert (me["Authorization"], me["Cookie"], me["X-Own"]) == ("Bearer alice", "a=b", "1")
    for name in ("Content-Type", "Content-Length", "If-Match", "Range", "Idempotency-Key",
                 "Idempotency-Token"):
        assert me[name] is None
    assert me["X-Forwarded-For"] == "127.0.0.1"


@pytest.mark.parametrize("name", ["X-HTTP-Method-Override", "x-http-method", "X-Method-Override"])
def test_no_header_makes_another_method_of_what_is_asked(shared, service, key, name):
    headers = [*ALICE, (name, "POST")]
    for _ in range(2):
        shared.post("/refunds", {}, key=key, headers=headers)
    me, = asked(service)
    assert me.method == "GET" and me[name] is None


@pytest.mark.parametrize("path, size", [("/small", 5000), ("/export", 10)])
def test_that_an_answer_was_not_kept_is_told_to_nobody_else_either(shared, service, key, path,
                                                                   size):
    service.then(Reply(201, b"x" * size))
    key = f'"{key[1:-1]}{path}"'
    assert shared.post(path, {}, key=key, headers=ALICE).status == 201
    assert shared.post(path, {}, key=key, headers=ALICE).status == 410
    assert shared.post(path, {}, key=key, headers=BOB).status == 403
    assert service.effects() == 1


def test_a_duplicate_that_waited_is_asked_for_too(shared, service, key):
    gate = service.hold()
    first = Later(lambda: shared.post("/refunds", {}, key=key, headers=ALICE))
    gate.wait_for()
    others = [Later(lambda who=who: shared.post("/refunds", {}, key=key, headers=who))
              for who in (ALICE, BOB)]
    gate.open()
    assert first.result().status == 201
    assert [other.result().status for other in others] == [201, 403]
    assert service.effects() == 1


def test_a_large_refusal_of_the_service_passes_whole(shared, service, key):
    shared.post("/small", {}, key=key, headers=ALICE)
    service.on("GET", "/me", Reply(302, b"x" * 100_000, (("Location", "/login"),)))
    try:
        answer = shared.post("/small", {}, key=key, headers=ALICE)
        assert (answer.status, answer["Location"]) == (302, "/login")
        assert answer.body == b"x" * 100_000
        service.on("GET", "/me", Reply(200, b"x" * 100_000))
        assert shared.post("/small", {}, key=key, headers=ALICE)["Idempotent-Replayed"] == "true"
    finally:
        service.off("GET", "/me")


def test_the_target_is_a_template(shared, service, key):
    path = f"/items/{key[1:-1]}/notes"
    headers = [*ALICE, ("X-As", "a b")]
    for _ in range(2):
        answer = shared.post(path, {}, key=key, headers=headers)
    assert answer["Idempotency-Status"] == "replayed"
    assert len(asked(service, f"/items/{key[1:-1]}?as=a%20b")) == 1
    without = shared.post(path, {}, key=key, headers=ALICE)
    assert without.is_problem(503, "DEPENDENCY.unavailable")


def test_a_rule_may_do_without(shared, service, key):
    for who in (ALICE, BOB):
        answer = shared.post("/free", {}, key=key, headers=who)
    assert answer["Idempotency-Status"] == "replayed"
    assert not asked(service)


def test_another_caller_has_no_probe_sent_and_releases_nothing(pawl, upstream):
    """A service that hides from Bob what is Alice's: to him nothing happened."""
    def answer(request: Request) -> Reply:
        if request["Authorization"] == "Bearer bob" and request.method == "GET":
            return say(403 if request.target == "/me" else 404, {"who": "not you"})
        return say(201, {"n": len(upstream.done) + 1})

    gateway = pawl(CONFIG)
    upstream.then(closes(), closes())
    assert gateway.post("/probed", {}, key="k1", headers=ALICE).status == 502
    upstream.default = answer
    other = gateway.post("/probed", {}, key="k1", headers=BOB)
    assert (other.status, other.json) == (403, {"who": "not you"})
    assert other["Idempotency-Status"] is None
    targets = [request.target for request in upstream.requests]
    assert targets == ["/probed", "/by-key/k1", "/me"]
    again = gateway.post("/probed", {}, key="k1", headers=ALICE)
    assert (again.status, again["Idempotency-Status"]) == (201, "stored")
    assert [request.target for request in upstream.requests][3:] == ["/me", "/by-key/k1"]
    assert upstream.effects() == 1


def test_a_service_that_does_not_say_is_503_and_nothing_is_told(shared, service, key):
    shared.post("/refunds", {}, key=key, headers=ALICE)
    service.on("GET", "/me", closes())
    answer = shared.post("/refunds", {}, key=key, headers=ALICE)
    assert answer.is_problem(503, "DEPENDENCY.unavailable")
    assert (answer.json["retryable"], answer.json["safe_new_key"]) == (True, False)
    assert answer["Retry-After"] == "1"
    service.off("GET", "/me")
    assert shared.post("/refunds", {}, key=key, headers=ALICE)["Idempotent-Replayed"] == "true"
    assert service.effects() == 1


def test_a_service_that_is_gone_is_503_and_nothing_is_told(pawl, upstream):
    gateway = pawl(CONFIG)
    gateway.post("/refunds", {}, key="k1", headers=ALICE)
    upstream.stop()
    assert gateway.post("/refunds", {}, key="k1", headers=ALICE).status == 503
    upstream.start()
    assert gateway.post("/refunds", {}, key="k1", headers=ALICE)["Idempotent-Replayed"] == "true"


@hooks
def test_a_service_that_takes_too_long_is_given_up_at_the_clients_own_time(pawl, upstream, clock):
    gateway = pawl(CONFIG)
    gateway.post("/refunds", {}, key="k1", headers=ALICE)
    for more, status in ([("X-Request-Timeout", "5000")], 504), ([], 503):
        gate = upstream.hold()
        late = Later(lambda more=more: gateway.post("/refunds", {}, key="k1",
                                                    headers=[*ALICE, *more]))
        gate.wait_for()
        clock.run_until(lambda: late.is_done, 3)
        answer = late.result()
        assert answer.status == status and answer["Idempotency-Status"] is None
        assert (answer.json["retryable"], answer.json["safe_new_key"]) == (True, False)
        gate.open()


def test_a_kept_connection_that_died_costs_no_refusal(pawl, upstream):
    gateway = pawl(CONFIG + "threads: 1\n")
    upstream.then(Reply(201, b"first"))
    gateway.post("/refunds", {}, key="k1", headers=ALICE)
    with gateway.connect() as client:
        upstream.then(closes())  # what the kept connection gives
        client.send(request_bytes("POST", "/refunds", [("Idempotency-Key", "k1"), *ALICE,
                                                       ("Content-Type", "application/json")],
                                  b"{}"))
        assert client.answer().body == b"first"
    assert [request.target for request in upstream.requests] == ["/refunds", "/me", "/me"]


@pytest.mark.parametrize("refusal", [
    Reply(403, b"x" * 5000), Reply(403, b"x" * 5000, framing="chunked"),
    Reply(403, b"data: x\n\n", (("Content-Type", "text/event-stream"),))])
def test_a_head_under_another_methods_rule_gets_no_byte_of_a_refusals_body(pawl, upstream, refusal):
    gateway = pawl(CONFIG)
    ask = [("Idempotency-Key", "k1"), *ALICE, ("X-HTTP-Method-Override", "POST")]
    gateway.request("HEAD", "/small", ask)
    upstream.on("GET", "/me", refusal)
    with gateway.connect() as client:
        client.send(request_bytes("HEAD", "/small", ask) + request_bytes("GET", "/next"))
        assert client.answer("HEAD").status == 403
        after = client.reader.head()[0]
    assert after == "HTTP/1.1 200 Answer"
    assert upstream.requests[-1].target == "/next"
