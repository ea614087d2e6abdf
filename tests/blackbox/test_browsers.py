# SPDX-License-Identifier: Apache-2.0
"""Pages of other origins: what a browser needs to let them read an answer (`cors:`)."""
from __future__ import annotations

import pytest

from pawltest.upstream import Reply, closes, say
from pawltest.wire import Answer

pytestmark = pytest.mark.no_store

RULES = """
tenant: none
threads: 1
rules:
  - {name: refunds.create, match: POST /refunds}
  - {name: acks, match: POST /acks, duplicate: ack}
  - {name: small, match: POST /small, max_response_body: 1KiB}
  - {name: optional, match: POST /optional, require: false}
"""
SHOP = "https://shop.example"
CONFIG = RULES + "cors: {origins: [https://shop.example, http://localhost:3000]}\n"
BODY = {"amount": 5}
EXPOSED = "Idempotency-Status, Idempotent-Replayed, Error-Code, Retry-After"
OPENED = [SHOP], [EXPOSED], []
CLOSED = [], [], []


def opened(answer: Answer) -> tuple[list[str], list[str], list[str]]:
    return (answer.all("Access-Control-Allow-Origin"), answer.all("Access-Control-Expose-Headers"),
            answer.all("Access-Control-Allow-Credentials"))


def post(gateway, path: str, key: str | None = None, origin: str | None = SHOP) -> Answer:
    return gateway.post(path, BODY, key=key, headers=[("Origin", origin)] * bool(origin))


def test_first_answers_replays_and_errors_can_be_read_by_a_listed_origin(shared, behind, key):
    answers = [post(shared, "/refunds", key), post(shared, "/refunds", key),
               post(shared, "/refunds"), post(shared, "/acks", key), post(shared, "/acks", key),
               shared.request("TRACE", "/", [("Origin", SHOP)])]
    assert [answer.status for answer in answers] == [201, 201, 400, 201, 200, 405]
    for answer in answers:
        assert (opened(answer), answer.all("Vary")) == (OPENED, ["Origin"])


@pytest.mark.parametrize("origin", [None, "https://evil.example", "null", SHOP + "/", SHOP.upper()])
def test_another_origin_is_not_let_in_and_caches_are_told_why(shared, behind, key, origin):
    for answer in (post(shared, "/refunds", key, origin), post(shared, "/refunds", key, origin),
                   post(shared, "/refunds", None, origin)):
        assert (opened(answer), answer.all("Vary")) == (CLOSED, ["Origin"])


def test_a_replay_is_for_the_origin_that_asks_and_not_for_the_first(shared, behind, key):
    post(shared, "/refunds", key)
    again = post(shared, "/refunds", key, "http://localhost:3000")
    assert again["Idempotency-Status"] == "replayed"
    assert again.all("Access-Control-Allow-Origin") == ["http://localhost:3000"]
    assert opened(post(shared, "/refunds", key, "https://evil.example")) == CLOSED


def test_what_the_upstream_says_of_origins_is_replaced_on_ruled_routes(shared, behind, key):
    said = (("Access-Control-Allow-Origin", "*"), ("access-control-expose-headers", "X-Own"),
            ("Access-Control-Allow-Credentials", "true"), ("X-Own", "1"))
    behind.then(Reply(201, b"{}", said))
    for answer in (post(shared, "/refunds", key), post(shared, "/refunds", key)):
        assert (opened(answer), answer["X-Own"]) == (OPENED, "1")


def test_an_answer_that_passes_live_can_be_read_too(shared, behind, key):
    behind.then(Reply(201, b"x" * 5000, (("Access-Control-Allow-Origin", "*"),)))
    assert opened(post(shared, "/small", key)) == OPENED
    gone = post(shared, "/small", key)
    assert (gone.status, opened(gone)) == (410, OPENED)


@pytest.mark.parametrize("said, then", [(("Accept",), ["Accept", "Origin"]),
                                        (("origin",), ["origin"]),
                                        (("Accept, Origin",), ["Accept, Origin"]), (("*",), ["*"]),
                                        (("A", "B"), ["A", "B", "Origin"])])
def test_vary_of_the_upstream_stays_and_origin_is_added_once(shared, behind, key, said, then):
    behind.then(Reply(201, b"{}", tuple(("Vary", value) for value in said)))
    for answer in (post(shared, "/refunds", key), post(shared, "/refunds", key)):
        assert answer.all("Vary") == then


def test_unruled_routes_and_preflights_are_the_upstreams(shared, behind, key):
    said = (("Access-Control-Allow-Origin", "https://other.example"),)
    for request in (lambda: shared.request("OPTIONS", "/refunds", [
                        ("Origin", SHOP), ("Access-Control-Request-Method", "POST")]),
                    lambda: post(shared, "/other"), lambda: post(shared, "/optional")):
        behind.then(Reply(200, b"{}", said))
        answer = request()
        assert answer.all("Access-Control-Allow-Origin") == ["https://other.example"]
        assert answer.all("Vary") == []
    preflight = behind.requests[0]
    assert (preflight.method, preflight["Origin"]) == ("OPTIONS", SHOP)
    assert preflight["Access-Control-Request-Method"] == "POST"


def test_an_upstream_that_breaks_off_is_told_to_the_page(shared, behind, key):
    behind.then(closes())
    answer = post(shared, "/refunds", key)
    assert (answer.status, opened(answer)) == (502, OPENED)
    behind.then(Reply(raw=b"this is not HTTP\r\n\r\n", close=True))
    answer = shared.request("GET", "/other", [("Origin", SHOP)])
    assert (answer.status, opened(answer)) == (502, OPENED)


def test_credentials_are_allowed_where_the_config_says_so(pawl, upstream):
    gateway = pawl(RULES + "cors: {origins: [https://shop.example], credentials: true}\n")
    for answer in (post(gateway, "/refunds", "k1"), post(gateway, "/refunds")):
        assert opened(answer) == ([SHOP], [EXPOSED], ["true"])
    assert opened(post(gateway, "/refunds", "k1", "https://evil.example")) == CLOSED


@pytest.mark.parametrize("origin", [None, SHOP, "https://anyone.example"])
def test_a_star_lets_every_origin_in(pawl, upstream, origin):
    gateway = pawl(RULES + 'cors: {origins: ["*"]}\n')
    for _ in range(2):
        answer = post(gateway, "/refunds", "k1", origin)
        assert (opened(answer), answer.all("Vary")) == ((["*"], [EXPOSED], []), ["Origin"])


def test_without_cors_pawl_says_nothing_of_origins(gateway, upstream):
    upstream.then(say(201, {}, ("Access-Control-Allow-Origin", "*")))
    first, again = post(gateway, "/refunds", "k1"), post(gateway, "/refunds", "k1")
    assert (opened(first), opened(again)) == ((["*"], [], []), CLOSED)
    assert (first["Vary"], again["Vary"], post(gateway, "/refunds")["Vary"]) == (None, None, None)
