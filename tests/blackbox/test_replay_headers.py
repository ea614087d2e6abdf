# SPDX-License-Identifier: Apache-2.0
"""Headers: what a replay gives back, what goes upstream, and what nobody may forge."""
from __future__ import annotations

import gzip
import re

import pytest

from pawltest.gateway import Gateway
from pawltest.upstream import Reply, Upstream, say
from pawltest.wire import Answer, Request, eventually

CONFIG = """
tenant: none
threads: 1
rules:
  - {name: refunds.create, match: POST /refunds}
  - {name: refunds.change, match: PUT /refunds}
  - {name: refunds.undo, match: DELETE /refunds}
  - {name: cookies, match: POST /cookies, replay_cookies: true}
  - {name: by.body, match: POST /by-body, key: "r:{body:/id}"}
  - {name: small, match: POST /small, max_response_body: 4KiB}
  - {name: own.header, match: POST /own-header, key: "{header:X-Request-Id}"}
"""
DATE = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT")

hooks = pytest.mark.hooks


def twice(gateway: Gateway, key: str, path: str = "/refunds") -> tuple[Answer, Answer]:
    first = gateway.post(path, b"{}", key=key)
    again = gateway.post(path, b"{}", key=key)
    assert (first["Idempotency-Status"], again["Idempotency-Status"]) == ("stored", "replayed")
    return first, again


def sent(gateway: Gateway, behind: Upstream, key: str, *headers: tuple[str, str],
         path: str = "/refunds") -> Request:
    gateway.post(path, b"{}", key=key, headers=headers)
    return behind.requests[-1]


# ---- what a replay gives back ----


def test_kept_headers_come_back_in_order_with_their_case_and_doubles(shared, behind, key):
    lines = [("Content-Type", "text/plain"), ("X-B", "2"), ("x-b", "1"), ("X-B", "2"),
             ("X-List", "a, b,c ,, d"), ("Link", "</a>; rel=next"), ("Link", "</b>; rel=prev"),
             ("Location", "/refunds/9"), ("ETag", 'W/"e"'), ("Last-Modified", "yesterday"),
             ("Vary", "Origin"), ("Cache-Control", "private"), ("Cache-Control", "max-age=1"),
             ("X-Empty", ""), ("Retry-After", "3"), ("Content-Language", "de"),
             ("Content-Encoding", "x-own"), ("Server", "old/1"), ("X-Quoted", '"a\\"b"')]
    behind.then(Reply(201, b"body", tuple(lines)))
    first, again = twice(shared, key)
    assert [line for line in first.headers if line in lines] == lines
    assert [line for line in again.headers if line in lines] == lines
    assert again.kept == first.kept


OF_THE_MOMENT = [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("WWW-Authenticate", "Basic"),
                 ("Proxy-Authenticate", "Basic"), ("Access-Control-Allow-Origin", "*"),
                 ("Access-Control-Expose-Headers", "X"), ("Authorization", "Bearer t"),
                 ("Authentication-Info", "nextnonce=1")]


def test_what_is_of_the_moment_reaches_the_first_client_alone(shared, behind, key):
    """found: E-W8"""
    behind.then(say(200, {}, *OF_THE_MOMENT))
    first, again = twice(shared, key)
    assert [line for line in first.headers if line in OF_THE_MOMENT] == OF_THE_MOMENT
    assert not [line for line in again.headers if line in OF_THE_MOMENT]


def test_cookies_are_replayed_where_the_rule_says_so(shared, behind, key):
    behind.then(say(200, {}, ("Set-Cookie", "a=1, x"), ("Set-Cookie", "b=2")))
    first, again = twice(shared, key, "/cookies")
    assert first.all("Set-Cookie") == again.all("Set-Cookie") == ["a=1, x", "b=2"]


def test_a_cookie_that_is_not_replayed_is_not_even_stored(shared, behind, key):
    behind.then(say(200, {}, ("Set-Cookie", "session=very-secret-cookie")))
    twice(shared, key)
    for file in shared.directory.glob("pawl.db*"):
        assert b"very-secret-cookie" not in file.read_bytes()


def test_hop_by_hop_headers_go_no_further(shared, behind, key):
    hop = [("Connection", "X-Hop, keep-alive"), ("X-Hop", "1"), ("Keep-Alive", "timeout=9"),
           ("Proxy-Connection", "close"), ("Upgrade", "h2c"), ("TE", "trailers"),
           ("Trailer", "X-Sum")]
    behind.then(say(200, {}, *hop))
    first, again = twice(shared, key)
    names = {name.lower() for name, _ in hop}
    assert not [n for n, _ in first.headers + again.headers if n.lower() in names]


@hooks
def test_the_date_of_a_replay_is_its_own(pawl, upstream, clock):
    gateway = pawl(CONFIG)
    then = "Thu, 01 Jan 2015 00:00:00 GMT"
    upstream.then(say(200, {}, ("Date", then)))
    first = gateway.post("/refunds", b"{}", key="k1")
    assert first["Date"] == then
    one = gateway.post("/refunds", b"{}", key="k1")["Date"]
    clock.advance(3600)
    two = gateway.post_up("/refunds", b"{}", key="k1")["Date"]
    assert DATE.fullmatch(one) and DATE.fullmatch(two)
    assert len({then, one, two}) == 3


def test_an_answer_without_a_date_gets_one(shared, behind, key):
    first, again = twice(shared, key)
    assert DATE.fullmatch(first["Date"]) and DATE.fullmatch(again["Date"])


@pytest.mark.parametrize("given, then", [((), "no-store"), (("public",), "public")])
def test_no_store_is_added_to_a_replay_alone_and_only_where_nothing_was_said(shared, behind, key,
                                                                             given, then):
    behind.then(Reply(200, b"{}", tuple(("cache-control", value) for value in given)))
    first, again = twice(shared, key)
    assert first.all("Cache-Control") == list(given)
    assert again.all("Cache-Control") == [then]


# ---- bodies and framings ----


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body_is_replayed_without_one(shared, behind, key, status):
    behind.then(Reply(status, b"", (("ETag", '"e"'),)))
    first, again = twice(shared, key)
    assert (first.status, again.status) == (status, status)
    assert (first["ETag"], again["ETag"]) == ('"e"', '"e"')
    for answer in (first, again):
        assert (answer.body, answer["Content-Length"], answer["Transfer-Encoding"]) == \
            (b"", None, None)


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 65535, 65536, 1 << 20])
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_body_is_kept_whole_however_it_was_framed(shared, behind, key, framing, size):
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    behind.then(Reply(201, body, framing=framing))
    first, again = twice(shared, key)
    assert first.body == again.body == body
    assert first["Content-Length"] == again["Content-Length"] == str(size)
    assert behind.effects() == 1


def test_bytes_that_do_not_compress_are_kept_too(shared, behind, key):
    import random
    body = random.Random(1).randbytes(100_000)
    behind.then(Reply(201, body))
    first, again = twice(shared, key)
    assert first.body == again.body == body


@pytest.mark.parametrize("framing", ["length", "close"])
def test_an_upstream_of_http_1_0_is_served_as_1_1(shared, behind, key, framing):
    behind.then(Reply(201, b"old", framing=framing, version="1.0"))
    first, again = twice(shared, key)
    assert first.start.startswith("HTTP/1.1 201") and again.start.startswith("HTTP/1.1 201")
    assert (first.body, again.body) == (b"old", b"old")


def test_trailers_of_an_answer_are_dropped(shared, behind, key):
    raw = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
           b"2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n")
    behind.then(Reply(raw=raw))
    first, again = twice(shared, key)
    for answer in (first, again):
        assert (answer.body, answer["X-Sum"], answer["Trailer"]) == (b"ok", None, None)


def test_interim_answers_are_dropped_on_ruled_routes(shared, behind, key):
    raw = (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3
           + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    behind.then(Reply(raw=raw))
    with shared.connect() as client:
        first = client.request("POST", "/refunds", [("Idempotency-Key", key)], b"{}")
        assert (first.status, first.body, first["Link"]) == (200, b"ok", None)
        assert client.reader.kept == b""


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
def test_every_unsafe_method_is_replayed(shared, behind, key, method):
    headers = [("Idempotency-Key", key)]
    first = shared.request(method, "/refunds", headers)
    again = shared.request(method, "/refunds", headers)
    assert (again["Idempotency-Status"], again.kept) == ("replayed", first.kept)
    assert behind.effects() == 1


def test_head_and_get_pass_and_are_never_stored(shared, behind):
    for method in ("GET", "HEAD", "GET", "HEAD"):
        behind.then(say(200, {"n": len(behind.requests)}))
        answer = shared.request(method, "/refunds")
        assert answer.mark == (200, None)
        assert answer["Content-Length"] == str(len('{"n": 0}'))
    assert len(behind.requests) == 4


# ---- forgeries ----

OWN = [("Idempotency-Status", "stored"), ("Idempotent-Replayed", "true"),
       ("Error-Code", "CONFLICT.idempotency.in_progress")]


def test_an_upstream_cannot_forge_pawls_own_headers(shared, behind, key):
    behind.then(say(200, {}, *OWN, ("IDEMPOTENCY-STATUS", "PROVIDER.duplicate")))
    first, again = twice(shared, key)
    assert (first["Idempotent-Replayed"], first["Error-Code"]) == (None, None)
    assert (again.all("Idempotent-Replayed"), again["Error-Code"]) == (["true"], None)


@pytest.mark.parametrize("path", ["/refunds", "/other"])
def test_a_client_cannot_forge_pawls_own_headers(shared, behind, key, path):
    seen = sent(shared, behind, key, *OWN, ("idempotency-TOKEN", "1"), path=path)
    for name, _ in OWN:
        assert seen[name] is None
    token = seen["Idempotency-Token"]
    assert token is None if path == "/other" else int(token) > 1


# ---- what goes upstream ----


@pytest.mark.parametrize("path", ["/refunds", "/other"])
def test_the_clients_address_is_added_behind_those_it_names(shared, behind, key, path):
    assert sent(shared, behind, key, path=path)["X-Forwarded-For"] == "127.0.0.1"
    seen = sent(shared, behind, f'"more {key[1:]}', ("X-Forwarded-For", "10.0.0.1, 10.0.0.2"),
                ("X-Forwarded-For", "10.0.0.3"), path=path)
    assert seen["X-Forwarded-For"] == "10.0.0.1, 10.0.0.2, 10.0.0.3, 127.0.0.1"


def test_end_to_end_headers_go_through_in_order(shared, behind, key):
    lines = [("Authorization", "Bearer t"), ("Cookie", "a=1"), ("Cookie", "b=2"), ("X-A", "1"),
             ("x-a", "2"), ("Accept", "text/*, */*;q=0.1"), ("User-Agent", "t/1"), ("Range", "x"),
             ("If-None-Match", '"e"'), ("X-Request-Timeout", "90000"), ("Forwarded", "for=x")]
    seen = sent(shared, behind, key, *lines)
    assert [line for line in seen.headers if line in lines] == lines
    assert seen["Host"] == "gateway.test"


@pytest.mark.parametrize("path", ["/refunds", "/other"])
def test_hop_by_hop_headers_of_a_client_go_no_further(shared, behind, key, path):
    hop = [("Connection", "X-Hop, TE"), ("X-Hop", "1"), ("Keep-Alive", "timeout=9"),
           ("Proxy-Connection", "close"), ("Upgrade", "h2c"), ("TE", "trailers"),
           ("Trailer", "X-Sum"), ("Expect", "nothing")]
    seen = sent(shared, behind, key, *hop, path=path)
    names = {name.lower() for name, _ in hop}
    assert not [n for n, _ in seen.headers if n.lower() in names]


def test_ruled_requests_ask_for_no_coding_and_others_as_they_came(shared, behind, key):
    coding = ("Accept-Encoding", "gzip, br")
    assert sent(shared, behind, key, coding)["Accept-Encoding"] == "identity"
    assert sent(shared, behind, key, coding, path="/other")["Accept-Encoding"] == "gzip, br"
    assert sent(shared, behind, key, path="/other")["Accept-Encoding"] is None


SIGNATURES = [
    ("Authorization", "AWS4-HMAC-SHA256 Credential=a/20261128/eu/s3/aws4_request,"
                      " SignedHeaders=accept-encoding;host;x-amz-date, Signature=00"),
    ("Authorization", 'Signature keyId="k",headers="(request-target) Accept-Encoding"'),
    ("Signature-Input", 'sig1=("@method" "accept-encoding");created=1'),
    ("Signature", 'keyId="k",headers="host accept-encoding date",signature="00"')]


@pytest.mark.parametrize("signature", SIGNATURES)
def test_a_signed_accept_encoding_stays_and_the_response_is_kept_decoded(
        shared, behind, key, signature):
    """found: L10. The retry may come from a client that asks for no coding."""
    body = b'{"id": "re_1"}'
    packed = gzip.compress(body)
    digests = [("Content-Encoding", "gzip"), ("Content-Digest", "sha-256=:AAAA:"),
               ("Signature", "sig1=:AA:"), ("Signature-Input", "sig1=()")]
    behind.then(Reply(201, packed, (("Content-Type", "text/plain"), *digests)))
    coding = ("Accept-Encoding", "gzip")
    first = shared.post("/refunds", b"{}", key=key, headers=[coding, signature])
    assert behind.requests[-1]["Accept-Encoding"] == "gzip"
    assert first["Idempotency-Status"] == "stored" and first.body == packed
    assert [line for line in first.headers if line in digests] == digests
    again = shared.post("/refunds", b"{}", key=key)
    assert (again["Idempotency-Status"], again.status, again.body) == ("replayed", 201, body)
    assert not {name for name, _ in again.headers} & {name for name, _ in digests}


@pytest.mark.parametrize("coding", ["", "identity"])
def test_no_coding_is_none_also_where_it_is_signed(shared, behind, coding):
    behind.then(Reply(201, b"plain", (("Content-Encoding", coding),)))
    for status in ("stored", "replayed"):
        answer = shared.post("/refunds", b"{}", key=f"none-{coding}", headers=[SIGNATURES[0]])
        assert (answer["Idempotency-Status"], answer.body) == (status, b"plain")
        assert answer["Content-Encoding"] == coding


def test_of_what_cannot_be_decoded_nothing_is_kept(shared, behind):
    bomb = gzip.compress(bytes(100_000))  # larger than max_response_body, once it is decoded
    behind.then(Reply(201, b"brotli", (("Content-Encoding", "br"),)),
                Reply(201, b"no gzip", (("Content-Encoding", "gzip"),)),
                Reply(201, bomb, (("Content-Encoding", "gzip"),)))
    for n in range(3):
        first = shared.post("/small", b"{}", key=f"coding-{n}",
                            headers=[("Accept-Encoding", "gzip, br"), SIGNATURES[0]])
        assert first.mark == (201, "not-kept")
        assert first.body == (b"brotli", b"no gzip", bomb)[n]
        again = shared.post("/small", b"{}", key=f"coding-{n}")
        assert again.is_problem(410, "CONFLICT.idempotency.result_not_kept")
    wanted = ["br", "gzip", "gzip"]
    eventually(lambda: wanted == [line["coding"] for line in shared.lines("response_not_kept")],
               "their lines")


@pytest.mark.parametrize("written, spelled", [('"k-as-string"', "k-as-string"),
                                              ("k-bare", "k-bare"), ('"k-with";a=1', "k-with"),
                                              ('"k \\"q\\""', '"k \\"q\\""')])
def test_the_key_goes_on_in_one_spelling(shared, behind, written, spelled):
    assert sent(shared, behind, written)["Idempotency-Key"] == spelled


def test_a_derived_key_is_sent_as_the_idempotency_key(shared, behind):
    shared.post("/by-body", {"id": "a b"}, key="ignored")
    assert behind.requests[0].all("Idempotency-Key") == ["r:a%20b"]


def test_a_key_from_another_header_is_sent_as_the_idempotency_key(shared, behind):
    shared.post("/own-header", b"{}", headers=[("X-Request-Id", "id-1")])
    seen = behind.requests[0]
    assert (seen["X-Request-Id"], seen["Idempotency-Key"]) == ("id-1", "id-1")


def test_every_request_has_a_token_above_the_last(shared, behind):
    tokens = [int(sent(shared, behind, f"token-{i}")["Idempotency-Token"]) for i in range(5)]
    assert tokens == sorted(set(tokens))


def test_a_body_is_sent_as_it_came_with_its_length(shared, behind, key):
    body = b'{"a" :\t1}\r\n'
    shared.request("POST", "/refunds", [("Idempotency-Key", key),
                                        ("Content-Type", "application/json;  x=1"),
                                        ("Transfer-Encoding", "chunked")],
                   b"3;ext=1\r\n" + body[:3] + b"\r\n%x\r\n" % len(body[3:]) + body[3:]
                   + b"\r\n0\r\nX-Sum: 1\r\n\r\n")
    seen = behind.requests[0]
    assert (seen.body, seen["Content-Length"]) == (body, str(len(body)))
    assert (seen["Content-Type"], seen["X-Sum"]) == ("application/json;  x=1", None)
    assert seen["Transfer-Encoding"] is None


@pytest.mark.parametrize("target", ["/refunds?a=%20b&c=+", "/refunds/?", "/%72efunds", "/refunds?"])
def test_the_target_is_sent_as_the_client_wrote_it(shared, behind, target):
    answer = shared.post(target, b"{}", key=f'"target {target}"')
    assert answer["Idempotency-Status"] == "stored"
    assert behind.requests[0].target == target
