# SPDX-License-Identifier: Apache-2.0
"""Which rule a request meets, whatever its method, override headers and path are written like."""
from __future__ import annotations

import itertools

import pytest

from pawltest.admin import with_admin
from pawltest.wire import Answer, request_bytes

pytestmark = pytest.mark.no_store

METHODS = ("POST", "PUT", "PATCH", "DELETE")
OVERRIDES = ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override",
             "X_HTTP_Method_Override")
KINDS = {"protected": "", "open": ", protect: false", "optional": ", require: false"}
CONFIG = """
tenant: "{header:X-Merchant-Id}"
trust_tenant: true
rules:
  - {name: own, match: "POST /own", key: "{header:Order-Key}", headers: [X-Version]}
  - {name: both, match: "POST,PUT /both", tenant: none}
  - {name: files, match: "POST /files/{id}/**", tenant: none}
  - {name: reads, match: "PUT /reads/{id}", key: "{path:id}", tenant: none}
  - {name: pay, match: "POST /a/{id}/pay", key: "{path:id}", tenant: none}
  - {name: once, match: "POST /o/{id}/pay", once: {key: "{path:id}", ttl: 1h}, tenant: none}
  - {name: who, match: "POST /t/{who}/pay", tenant: "{path:who}"}
  - {name: open, match: POST /open, protect: false}
  - {name: optional, match: POST /optional, require: false, tenant: none}
""" + "".join(f"""
  - {{name: {a}{b}{kind_a}{kind_b}.a, tenant: none, match: {a} /{a}/{b}/{kind_a}/{kind_b}{more_a}}}
  - {{name: {a}{b}{kind_a}{kind_b}.b, tenant: none, match: {b} /{a}/{b}/{kind_a}/{kind_b}{more_b}}}
""" for a, b in itertools.permutations(METHODS, 2)
    for (kind_a, more_a), (kind_b, more_b) in itertools.product(KINDS.items(), KINDS.items()))


def refused(answer: Answer, code: str) -> bool:
    return (answer.status, answer["Error-Code"]) == (400, f"VALIDATION.{code}")


@pytest.mark.parametrize("a, b", itertools.permutations(METHODS, 2))
def test_no_override_leads_from_one_rule_to_another(shared, behind, a, b):
    """found: A-H3: whichever of the two a service obeys, one of them would be walked round."""
    for kind_a, kind_b in itertools.product(KINDS, KINDS):
        path = f"/{a}/{b}/{kind_a}/{kind_b}"
        for name, value in itertools.product(OVERRIDES, (b, b.lower(), f"{b}, {a}", f"{a},{b}")):
            for keys in ([], [("Idempotency-Key", "k")]):
                answer = shared.request(a, path, [*keys, (name, value)], b"{}")
                assert refused(answer, "method_ambiguous"), (path, name, value)
    assert not behind.requests


@pytest.mark.parametrize("value", ["GET", "HEAD", "FETCH", "PROPPATCH", "GET, POST"])
def test_an_override_to_a_method_without_a_rule_does_not_lead_round_one(shared, behind, key, value):
    """found: A-H3"""
    over = [("Idempotency-Key", key), ("X-HTTP-Method-Override", value)]
    assert refused(shared.request("POST", "/both", over), "method_ambiguous")
    assert not behind.requests


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PROPFIND"])
@pytest.mark.parametrize("name", OVERRIDES)
def test_an_override_to_a_ruled_method_does_not_lead_into_a_rule(shared, behind, key, method, name):
    """found: A-H3"""
    over = [("Idempotency-Key", key), (name, "POST")]
    assert refused(shared.request(method, "/both", over), "method_ambiguous")
    assert not behind.requests


def test_the_sent_method_counts_beside_the_override(shared, behind, key):
    """found: A-H3: under one rule POST, PUT and a POST that says PUT are three requests."""
    keys = [("Idempotency-Key", key)]
    over = [*keys, ("X-HTTP-Method-Override", "PUT")]
    assert shared.request("POST", "/both", over)["Idempotency-Status"] == "stored"
    assert shared.request("POST", "/both", over)["Idempotency-Status"] == "replayed"
    for method, headers in (("POST", keys), ("PUT", keys), ("PUT", over)):
        assert shared.request(method, "/both", headers).status == 409
    assert behind.effects() == 1


@pytest.mark.parametrize("name", OVERRIDES[:3])
def test_connection_does_not_name_an_override(shared, behind, key, name):
    """found: A-H3: the service would not see the override that was judged here."""
    headers = [("Idempotency-Key", key), (name, "POST"), ("Connection", name.lower())]
    assert refused(shared.request("POST", "/both", headers), "request_malformed")
    assert refused(shared.request("GET", "/", headers), "request_malformed")
    assert not behind.requests


def test_an_upgrade_does_not_get_through_a_rule_by_an_override(shared, behind):
    """found: A-L21"""
    upgrade = [("X-HTTP-Method-Override", "POST"), ("Upgrade", "websocket"),
               ("Connection", "Upgrade"), ("Sec-WebSocket-Key", "x"),
               ("Sec-WebSocket-Version", "13")]
    assert refused(shared.request("GET", "/optional", upgrade), "method_ambiguous")
    assert not behind.requests


@pytest.mark.parametrize("name", ["X_Merchant_Id", "x_merchant-id", "Order_Key", "X_Version"])
def test_a_header_that_some_services_take_for_one_that_counts_is_refused(shared, behind, key, name):
    """found: A-L18: behind CGI, WSGI and Rack both are one, and theirs would be another value."""
    headers = [("X-Merchant-Id", "m1"), ("Order-Key", key), ("X-Version", "1")]
    answer = shared.request("POST", "/own", [*headers, (name, "m2")], b"{}")
    assert refused(answer, "request_malformed") and name in answer.json["detail"]
    assert not behind.requests
    other = shared.request("POST", "/own", [*headers, ("X_Other", "m2")], b"{}")
    assert other["Idempotency-Status"] == "stored"
    free = shared.request("POST", "/open", [(name, "m2")], b"{}")
    assert free["Idempotency-Status"] == "bypassed"


@pytest.mark.parametrize("target", ["/files/group%2Fproject/issues", "/files/7/a//b",
                                    "/files/7/%5c", "/files/7/%2F/x", "/files/../files/7"])
def test_an_ambiguous_path_passes_where_every_reading_meets_one_rule(shared, behind, key, target):
    """found: E-W2: the service gets the bytes as they were sent."""
    key = f'"{key[1:-1]}{target}"'
    assert shared.post(target, {}, key=key)["Idempotency-Status"] == "stored"
    assert shared.post(target, {}, key=key)["Idempotency-Status"] == "replayed"
    assert [request.target for request in behind.requests] == [target]


@pytest.mark.parametrize("method, target", [
    ("POST", "/files/7/../../own"), ("POST", "/files%2F7"), ("POST", "/files/.."),
    ("PUT", "/reads/a%2Fb"), ("PUT", "/reads//7"), ("POST", "/own%0A"), ("POST", "/own."),
    ("POST", "/%256Fwn"), ("POST", "/own%20"), ("POST", "/x/..%u002fown"),
    ("POST", "/x/..%c0%afown")])
def test_a_path_that_could_lead_to_another_rule_is_refused(shared, behind, key, method, target):
    """found: E-W2, A-P"""
    headers = [("Idempotency-Key", key)]
    assert refused(shared.request(method, target, headers, b"{}"), "path_ambiguous")
    assert not behind.requests


@pytest.mark.parametrize("value", [
    "7;x", "7;jsessionid=Q", "7%3Bx", "7%20", "%207", "7%09", "%0A7", "7.", "7%2E", "7%2537",
    "%2537", "%u0037", "%uFF17", "%25u0037", "7%c0%ae", "7%3Fx", "7%23x"])
@pytest.mark.parametrize("path", ["a", "o", "t"])
def test_no_spelling_that_a_server_cleans_makes_another_operation_of_a_path(shared, behind, key,
                                                                            path, value):
    """Where key, once value or tenant come from the path, the service would do it a second time."""
    answer = shared.post(f"/{path}/{value}/pay", {}, key=key)
    assert refused(answer, "path_ambiguous") and not behind.requests


@pytest.mark.parametrize("value", ["a%20b", "100%25", "7.5", "%C3%A9", "a+b", "v1..2"])
def test_a_value_in_a_path_may_be_any_text_that_all_servers_read_alike(shared, value):
    marks = [shared.post(f"/a/{value}/pay", {})["Idempotency-Status"] for _ in range(2)]
    assert marks == ["stored", "replayed"]


@pytest.mark.parametrize("target", ["/own%3fx", "/own%23x", "/own%3F", "/both%253fx",
                                    "/files/7%2Fx%3fy/../../own%3fx"])
def test_an_encoded_end_of_the_path_does_not_lead_round_a_rule(shared, behind, key, target):
    assert refused(shared.post(target, {}, key=key), "path_ambiguous") and not behind.requests


def test_an_encoded_question_mark_passes_where_it_leads_to_no_other_rule(shared, key):
    assert shared.post("/files/7/why%3F", {}, key=key)["Idempotency-Status"] == "stored"
    assert shared.post("/elsewhere/why%3F", {})["Idempotency-Status"] == "bypassed"


EVERYWHERE = """
tenant: none
rules:
  - {name: auth, match: "POST /auth/**", protect: false}
  - {name: all, match: "* /**"}
"""


def test_a_last_rule_demands_a_key_of_everything_that_changes_something(pawl, upstream):
    """found: B-F1, B-F2, C-H1"""
    gateway = pawl(EVERYWHERE)
    for method in (*METHODS, "PROPPATCH", "MKCOL"):
        for path in ("/", "/a", "/a/b/c", "/auth/login" if method == "PUT" else "/x"):
            assert gateway.request(method, path)["Error-Code"] == \
                "VALIDATION.idempotency.key_missing"
    for method in ("CONNECT", "TRACE"):
        assert gateway.request(method, "/a").status == 405
    assert not upstream.requests
    for method in ("GET", "HEAD", "OPTIONS"):
        with gateway.connect() as client:
            client.send(request_bytes(method, "/a"))
            assert client.answer(method).status == 200
    assert gateway.post("/auth/login", {})["Idempotency-Status"] == "bypassed"
    stored = gateway.request("PROPPATCH", "/a", [("Idempotency-Key", "k1")], b"<a/>")
    assert stored["Idempotency-Status"] == "stored"
    again = gateway.request("PROPPATCH", "/a", [("Idempotency-Key", "k1")], b"<a/>")
    assert again["Idempotency-Status"] == "replayed"


def test_unmatched_refuse_lets_requests_that_change_nothing_pass(pawl, upstream):
    """found: B-F1"""
    gateway = pawl("unmatched: refuse\n" + EVERYWHERE.replace('"* /**"', "POST /a"))
    for method in ("GET", "HEAD", "OPTIONS"):
        with gateway.connect() as client:
            client.send(request_bytes(method, "/elsewhere"))
            assert client.answer(method).status == 200
    for method, headers in (("POST", []), ("PURGE", []), ("GET", [("X-HTTP-Method", "PUT")])):
        answer = gateway.request(method, "/elsewhere", headers)
        assert (answer.status, answer["Error-Code"]) == (404, "VALIDATION.route_unknown")
    assert len(upstream.requests) == 3


def test_what_a_rule_lets_pass_is_counted_apart_from_what_no_rule_took(pawl, upstream):
    """found: B-F10"""
    gateway, admin = with_admin(pawl, CONFIG)
    for path in ("/open", "/optional", "/nowhere"):
        assert gateway.post(path, {})["Idempotency-Status"] == "bypassed"
    gateway.request("GET", "/nowhere", [("Idempotency-Key", "k1")])
    gateway.request("GET", "/nowhere")
    assert admin.outcomes("open") == {"passed": 1}
    assert admin.outcomes("optional") == {"passed": 1}
    assert admin.outcomes("") == {"bypassed": 2, "passed": 1}
