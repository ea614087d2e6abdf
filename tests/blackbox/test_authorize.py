# SPDX-License-Identifier: Apache-2.0
"""`authorize: GET /tenants/{tenant}/access`: who may not act as a tenant begins nothing and is
told nothing under it."""
from __future__ import annotations

import signal
from urllib.parse import unquote

import pytest

from pawltest.admin import with_admin
from pawltest.upstream import Gate, Reply, Upstream, closes, say
from pawltest.wire import Answer, Later, Request, eventually, request_bytes

pytestmark = pytest.mark.no_store

CONFIG = """
tenant: "{header:X-Tenant}"
defaults: {authorize: "GET /tenants/{tenant}/access"}
rules:
  - {name: refunds.create, match: POST /refunds, in_progress: {wait: 10m}}
  - {name: conflict, match: POST /conflict, in_progress: conflict}
  - {name: small, match: POST /small, max_response_body: 1KiB}
  - {name: export, match: POST /export, stream: true}
  - {name: by_query, match: POST /by-query, tenant: "{query:tenant}"}
  - {name: by_path, match: "POST /t/{who}/refunds", tenant: "{path:who}"}
  - name: items
    match: POST /items/{id}/notes
    authorize: "GET /items/{path:id}?as={header:X-As}&tenant={tenant}"
  - {name: free, match: POST /free, authorize: none, trust_tenant: true}
  - {name: probed, match: POST /probed, unknown: {probe: "GET /by-key/{key}"}, settle: 0}
"""
ALICE = (("X-Tenant", "alice"), ("Authorization", "Bearer alice"))
MALLORY = (("X-Tenant", "alice"), ("Authorization", "Bearer mallory"))
AS_MALLORY = (("X-Tenant", "mallory"), ("Authorization", "Bearer mallory"))
ACCESS = "/tenants/alice/access"
hooks = pytest.mark.hooks


def may_act(request: Request) -> Reply | None:
    """What the service says of who may act as which tenant; None: it is not asked that."""
    parts = request.target.split("/")
    if len(parts) != 4 or (parts[1], parts[3]) != ("tenants", "access"):
        return None
    if request["Authorization"] == f"Bearer {unquote(parts[2])}":
        return Reply(204)
    return say(403, {"who": "not you"}, ("X-Own", "1"), ("WWW-Authenticate", "Bearer"))


@pytest.fixture
def service(behind: Upstream) -> Upstream:
    behind.default = lambda request: may_act(request) or behind.created(request)
    yield behind
    behind.default = behind.created


def asked(service: Upstream, target: str = ACCESS) -> list[Request]:
    return [request for request in service.requests if request.target == target]


def is_refused(answer: Answer) -> bool:
    """By the service, in its own words and without a word of pawl's."""
    return ((answer.status, answer.json) == (403, {"who": "not you"}) and answer["X-Own"] == "1"
            and answer["WWW-Authenticate"] == "Bearer" and answer["Error-Code"] is None
            and answer["Idempotency-Status"] is None and answer["Idempotent-Replayed"] is None)


def hold_effect(service: Upstream, reply: Reply) -> Gate:
    """The next request that has an effect gets `reply`, and stands at the gate that is returned."""
    gate, replies = service.gate(), [reply]
    usual = service.default

    def answer(request: Request) -> Reply:
        if request.method == "POST" and replies:
            held = replies.pop()
            return Reply(held.status, held.body, held.headers, cut=held.cut, gate=gate)
        return usual(request)

    service.default = answer
    return gate


@pytest.mark.parametrize("path, mine, theirs", [
    ("/refunds", ALICE, MALLORY),
    ("/by-query?tenant=alice", ALICE[1:], MALLORY[1:]),
    ("/t/alice/refunds", ALICE[1:], MALLORY[1:])], ids=["header", "query", "path"])
def test_who_may_not_act_as_a_tenant_is_told_none_of_its_answers(shared, service, key, path, mine,
                                                                theirs):
    """found: A-H1"""
    first = shared.post(path, {}, key=key, headers=mine)
    assert first["Idempotency-Status"] == "stored" and len(asked(service)) == 1
    for n in (2, 3):
        assert shared.post(path, {}, key=key, headers=mine).kept == first.kept
        assert len(asked(service)) == n, "asked anew each time, once"
    assert is_refused(shared.post(path, {}, key=key, headers=theirs))
    assert is_refused(shared.post(path, {"other": 1}, key=key, headers=theirs)), "nor of a mismatch"
    assert len(asked(service)) == 5 and service.effects() == 1


@pytest.mark.parametrize("path, mine, theirs", [
    ("/refunds", ALICE, MALLORY),
    ("/by-query?tenant=alice", ALICE[1:], MALLORY[1:]),
    ("/t/alice/refunds", ALICE[1:], MALLORY[1:])], ids=["header", "query", "path"])
def test_nobody_begins_an_operation_under_a_foreign_tenant(shared, service, key, path, mine,
                                                           theirs):
    """found: A-H2"""
    key = f'"begun {key[1:-1]}"'
    assert is_refused(shared.post(path, {}, key=key, headers=theirs))
    assert service.effects() == 0
    answer = shared.post(path, {}, key=key, headers=mine)
    assert answer.mark == (201, "stored")
    assert service.effects() == 1


def test_two_tenants_that_may_each_do_their_own(shared, service, key):
    alice = shared.post("/refunds", {}, key=key, headers=ALICE)
    mallory = shared.post("/refunds", {}, key=key, headers=AS_MALLORY)
    assert alice.json != mallory.json and service.effects() == 2
    assert shared.post("/refunds", {}, key=key, headers=AS_MALLORY).kept == mallory.kept


def test_a_foreign_caller_does_not_learn_that_an_operation_runs(shared, service, key):
    """found: A-H2"""
    gate = hold_effect(service, say(201, {}))
    first = Later(lambda: shared.post("/conflict", {}, key=key, headers=ALICE))
    gate.wait_for()
    running = shared.post("/conflict", {}, key=key, headers=ALICE)
    assert running.is_problem(409, "CONFLICT.idempotency.in_progress")
    assert is_refused(shared.post("/conflict", {}, key=key, headers=MALLORY))
    gate.open()
    assert first.result().status == 201


def test_a_foreign_caller_does_not_wait_in_a_tenants_queue(shared, service, key):
    """found: A-H2"""
    gate = hold_effect(service, say(201, {}))
    first = Later(lambda: shared.post("/refunds", {}, key=key, headers=ALICE))
    gate.wait_for()
    assert is_refused(shared.post("/refunds", {}, key=key, headers=MALLORY)), "at once"
    other = Later(lambda: shared.post("/refunds", {}, key=key, headers=ALICE))
    service.wait_for(4)
    gate.open()
    assert [first.result().status, other.result()["Idempotency-Status"]] == [201, "replayed"]
    assert len(asked(service)) == 3, "who waits is asked for before it waits, and not again"


def test_a_foreign_caller_does_not_learn_that_an_outcome_is_unknown(shared, service, key):
    """found: A-H2"""
    gate = hold_effect(service, closes())
    gate.open()
    assert shared.post("/refunds", {}, key=key, headers=ALICE).status == 502
    again = shared.post("/refunds", {}, key=key, headers=ALICE)
    assert again.is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert is_refused(shared.post("/refunds", {}, key=key, headers=MALLORY))


def test_the_service_is_asked_with_the_callers_headers_and_nothing_of_its_request(shared, service,
                                                                                  key):
    headers = [*ALICE, ("Cookie", "a=b"), ("X-Own", "1"), ("If-Match", "*"), ("Range", "bytes=0-1"),
               ("Content-Language", "en"), ("Idempotency-Own", "1")]
    shared.post("/refunds", {"amount": 5}, key=key, headers=headers)
    me, = asked(service)
    assert (me.method, me.body) == ("GET", b"")
    assert (me["Authorization"], me["Cookie"], me["X-Own"]) == ("Bearer alice", "a=b", "1")
    for name in ("Content-Type", "Content-Length", "Content-Language", "If-Match", "Range",
                 "Idempotency-Key", "Idempotency-Token", "Idempotency-Own"):
        assert me[name] is None
    assert me["X-Forwarded-For"] == "127.0.0.1"


@pytest.mark.parametrize("name", ["X-HTTP-Method-Override", "x-http-method", "X-Method-Override"])
def test_no_header_makes_another_method_of_what_is_asked(shared, service, key, name):
    shared.post("/refunds", {}, key=key, headers=[*ALICE, (name, "POST")])
    me, = asked(service)
    assert me.method == "GET" and me[name] is None


VHOSTS = """
tenant: "{header:X-Tenant}"
defaults: {authorize: "GET /tenants/{tenant}/access"}
rules:
  - {name: plain, match: POST /refunds}
  - {name: named, match: POST /named, authorize_host: "api.example:81"}
"""
ELSEWHERE = [("X-Forwarded-Host", "app.example"), ("X_Forwarded_Host", "app.example"),
             ("Forwarded", "host=app.example"), ("X-Forwarded-Prefix", "/app"),
             ("X_Forwarded_Prefix", "/app"), ("X-Host", "app.example")]


@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.1"])
@pytest.mark.parametrize("path", ["/refunds", "/named"])
def test_no_caller_chooses_the_host_under_which_the_service_is_asked(pawl, upstream, path, version):
    """A second virtual host that answers 200 to anything would let everybody act as anybody."""
    host = "api.example:81" if path == "/named" else f"127.0.0.1:{upstream.port}"

    def answer(request: Request) -> Reply:
        if request.method == "GET" and request.all("Host") != [host]:
            return Reply(200, b"<html>app</html>")
        return may_act(request) or upstream.created(request)

    upstream.default = answer
    gateway = pawl(VHOSTS)
    head = [("Host", "app.example"), ("Idempotency-Key", "k1"), *MALLORY, *ELSEWHERE,
            ("X-Forwarded-Port", "443"), ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-For", "192.0.2.1")]
    request = request_bytes("POST", path, head, b"{}").replace(b"HTTP/1.1", version.encode(), 1)
    with gateway.connect() as client:
        client.send(request)
        assert is_refused(client.answer("POST"))
    me, = upstream.requests
    assert all(me[name] is None for name, _ in ELSEWHERE)
    assert (me["X-Forwarded-For"], me["X-Forwarded-Proto"]) == ("192.0.2.1, 127.0.0.1", "https")
    assert me["X-Forwarded-Port"] == "443"
    assert gateway.post(path, {}, key="k1", headers=ALICE)["Idempotency-Status"] == "stored"
    assert [request["Host"] for request in upstream.requests[1:]] == [
        host, "gateway.test"], "what has the effect goes under the caller's"


@pytest.mark.parametrize("name", ["X-Original-URL", "x-rewrite-url", "X_Original_URL",
                                  "X_Rewrite_Url", "X-Original-Method", "X-Original-Host",
                                  "X-HTTP-Path-Override"])
def test_no_header_makes_another_question_of_what_is_asked(shared, service, key, name):
    """IIS, Symfony and others route by it: a public page would be asked instead."""
    answer = shared.post("/refunds", {}, key=key, headers=[*ALICE, (name, "/health")])
    assert answer.status == 201
    me, = asked(service)
    assert me[name] is None and service.requests[-1][name] == "/health"


@pytest.mark.parametrize("path, size", [("/small", 5000), ("/export", 10)])
def test_that_an_answer_was_not_kept_is_told_to_nobody_else_either(shared, service, key, path,
                                                                   size):
    gate = hold_effect(service, Reply(201, b"x" * size))
    gate.open()
    key = f'"{key[1:-1]}{path}"'
    assert shared.post(path, {}, key=key, headers=ALICE).status == 201
    assert shared.post(path, {}, key=key, headers=ALICE).status == 410
    assert is_refused(shared.post(path, {}, key=key, headers=MALLORY))
    assert service.effects() == 1


def test_a_large_refusal_of_the_service_passes_whole(shared, service, key):
    service.on("GET", ACCESS, Reply(302, b"x" * 100_000, (("Location", "/login"),)))
    try:
        answer = shared.post("/small", {}, key=key, headers=ALICE)
        assert (answer.status, answer["Location"]) == (302, "/login")
        assert answer.body == b"x" * 100_000 and service.effects() == 0
        service.on("GET", ACCESS, Reply(200, b"x" * 100_000))
        assert shared.post("/small", {}, key=key, headers=ALICE)["Idempotency-Status"] == "stored"
    finally:
        service.off("GET", ACCESS)


def test_the_target_is_a_template(shared, service, key):
    path = f"/items/{key[1:-1]}/notes"
    answer = shared.post(path, {}, key=key, headers=[*ALICE, ("X-As", "a b")])
    assert answer["Idempotency-Status"] == "stored"
    assert len(asked(service, f"/items/{key[1:-1]}?as=a%20b&tenant=alice")) == 1
    without = shared.post(path, {}, key=key, headers=ALICE)
    assert without.is_problem(503, "DEPENDENCY.unavailable")


@pytest.mark.parametrize("tenant", ["al/ice", "..", ".", "a\\b"])
def test_a_tenant_that_cannot_stand_in_its_path_is_a_callers_mistake(shared, service, key, tenant):
    """No retry heals it, so it is no 503."""
    answer = shared.post("/refunds", {}, key=key, headers=[("X-Tenant", tenant), ALICE[1]])
    assert answer.is_problem(400, "VALIDATION.idempotency.tenant_missing")
    assert answer.json["retryable"] is False and answer.json["detail"].endswith(": tenant")
    assert not service.requests


def test_a_rule_may_do_without(shared, service, key):
    for who in (ALICE, MALLORY):
        answer = shared.post("/free", {}, key=key, headers=who)
    assert answer["Idempotency-Status"] == "replayed"
    assert not asked(service)


def test_a_foreign_caller_has_no_probe_sent_and_releases_nothing(pawl, upstream):
    """A service that hides from Mallory what is Alice's: to her nothing happened."""
    def answer(request: Request) -> Reply:
        refusal = say(404, {"who": "not you"})
        if request.method == "GET" and request["Authorization"] == "Bearer mallory":
            return may_act(request) or refusal
        return may_act(request) or say(201, {"n": len(upstream.done) + 1})

    gateway = pawl(CONFIG)
    upstream.then(Reply(204), closes(), closes())
    assert gateway.post("/probed", {}, key="k1", headers=ALICE).status == 502
    upstream.default = answer
    assert is_refused(gateway.post("/probed", {}, key="k1", headers=MALLORY))
    targets = [request.target for request in upstream.requests]
    assert targets == [ACCESS, "/probed", "/by-key/k1", ACCESS]
    again = gateway.post("/probed", {}, key="k1", headers=ALICE)
    assert again.mark == (201, "stored")
    assert [request.target for request in upstream.requests][4:] == [ACCESS, "/by-key/k1"]
    assert upstream.effects() == 1


@pytest.mark.parametrize("reply", [closes(), say(500, {}), say(503, {})],
                         ids=["closed", "500", "503"])
def test_a_service_that_does_not_say_is_503_and_nothing_begins(shared, service, key, reply):
    service.on("GET", ACCESS, reply)
    answer = shared.post("/refunds", {}, key=key, headers=ALICE)
    assert answer.is_problem(503, "DEPENDENCY.unavailable")
    assert (answer.json["retryable"], answer.json["safe_new_key"]) == (True, False)
    assert answer["Retry-After"] == "1" and answer["Idempotency-Status"] is None
    service.off("GET", ACCESS)
    assert service.effects() == 0
    assert shared.post("/refunds", {}, key=key, headers=ALICE)["Idempotency-Status"] == "stored"


def test_a_service_that_is_gone_is_503_and_nothing_is_told(pawl, upstream):
    gateway = pawl(CONFIG)
    gateway.post("/refunds", {}, key="k1", headers=ALICE)
    upstream.stop()
    assert gateway.post("/refunds", {}, key="k1", headers=ALICE).status == 503
    upstream.start()
    assert gateway.post("/refunds", {}, key="k1", headers=ALICE)["Idempotent-Replayed"] == "true"


@hooks
def test_a_service_that_takes_too_long_is_504_and_nothing_begins(pawl, upstream, clock):
    """At the client's own time, and at the rule's."""
    gateway = pawl(CONFIG)
    for more in [("X-Request-Timeout", "5000")], []:
        gate = upstream.hold()
        late = Later(lambda more=more: gateway.post("/refunds", {}, key="k1",
                                                    headers=[*ALICE, *more]))
        gate.wait_for()
        clock.run_until(lambda: late.is_done, 3)
        answer = late.result()
        assert answer.is_problem(504, "DEPENDENCY.timeout")
        assert answer["Idempotency-Status"] is None and "operation" not in answer.json
        assert (answer.json["retryable"], answer.json["safe_new_key"]) == (True, False)
        gate.open()
    assert upstream.effects() == 0


@hooks
def test_what_it_takes_to_say_so_counts_in_the_rules_timeout(pawl, upstream, clock):
    gateway = pawl(CONFIG)
    gates = [upstream.hold(), upstream.hold()]
    late = Later(lambda: gateway.post("/refunds", {}, key="k1", headers=ALICE))
    gates[0].wait_for()
    clock.advance(20)
    gates[0].open()
    gates[1].wait_for()
    clock.advance(11)
    answer = late.result()
    assert answer.mark == (504, "unknown")


def test_a_reload_while_it_is_asked_has_it_asked_by_the_new_rule(pawl, upstream):
    gateway = pawl(CONFIG)
    gate = upstream.hold()
    late = Later(lambda: gateway.post("/refunds", {}, key="k1", headers=ALICE))
    gate.wait_for()
    gateway.configure(CONFIG.replace("/access", "/may"))
    gateway.signal(signal.SIGHUP)
    eventually(lambda: gateway.lines("config_reloaded"))
    gate.open()
    assert late.result()["Idempotency-Status"] == "stored"
    assert [request.target for request in upstream.requests] == [ACCESS, "/tenants/alice/may",
                                                                 "/refunds"]


@hooks
def test_what_was_asked_by_the_old_rule_takes_nothing_of_the_new_rules_timeout(pawl, upstream,
                                                                               clock):
    gateway = pawl(CONFIG)
    gates = [upstream.hold() for _ in range(3)]
    late = Later(lambda: gateway.post("/refunds", {}, key="k1", headers=ALICE))
    gates[0].wait_for()
    clock.advance(20)
    gateway.configure(CONFIG.replace("defaults: {", "defaults: {timeout: 5s, "))
    gateway.signal(signal.SIGHUP)
    eventually(lambda: gateway.lines("config_reloaded"))
    gates[0].open()
    gates[1].wait_for()
    gates[1].open()
    gates[2].wait_for()
    assert not late.is_done
    clock.advance(6)
    answer = late.result()
    assert answer.mark == (504, "unknown")


def test_a_body_that_the_new_rule_takes_no_more_is_refused_after_a_reload(pawl, upstream):
    gateway = pawl(CONFIG)
    gate = upstream.hold()
    late = Later(lambda: gateway.post("/refunds", b'"' + b"x" * 2000 + b'"', key="k1",
                                      headers=ALICE))
    gate.wait_for()
    gateway.configure(CONFIG.replace("in_progress: {wait: 10m}", "max_request_body: 1KiB"))
    gateway.signal(signal.SIGHUP)
    eventually(lambda: gateway.lines("config_reloaded"))
    gate.open()
    assert late.result().is_problem(413, "VALIDATION.body_too_large")
    assert [request.target for request in upstream.requests] == [ACCESS]


def test_who_waits_holds_no_memory_for_what_the_service_said_of_it(pawl, upstream):
    gateway, admin = with_admin(pawl, CONFIG)
    upstream.on("GET", ACCESS, Reply(200, b"x" * 500_000))
    gate = hold_effect(upstream, say(201, {}))
    first = Later(lambda: gateway.post("/refunds", {}, key="k1", headers=ALICE))
    gate.wait_for()
    second = Later(lambda: gateway.post("/refunds", {}, key="k1", headers=ALICE))
    eventually(lambda: admin.value("pawl_waiting") == 1, "the second waits")
    assert admin.value("pawl_buffered_bytes") < 100_000
    gate.open()
    assert [first.result().status, second.result()["Idempotency-Status"]] == [201, "replayed"]


def test_a_kept_connection_that_died_costs_no_refusal(pawl, upstream):
    gateway = pawl(CONFIG + "threads: 1\nupstream_idle: 1h\n")
    upstream.then(Reply(204), Reply(201, b"first"))
    gateway.post("/refunds", {}, key="k1", headers=ALICE)
    with gateway.connect() as client:
        upstream.then(closes())  # what the kept connection gives
        client.send(request_bytes("POST", "/refunds", [("Idempotency-Key", "k1"), *ALICE,
                                                       ("Content-Type", "application/json")],
                                  b"{}"))
        assert client.answer().body == b"first"
    assert [request.target for request in upstream.requests] == [ACCESS, "/refunds", ACCESS, ACCESS]
