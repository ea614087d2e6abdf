# SPDX-License-Identifier: Apache-2.0
"""The duties of a proxy: connections, order, streaming, and never a request twice."""
from __future__ import annotations

import socket
from dataclasses import dataclass

import pytest

from pawltest.gateway import Gateway
from pawltest.upstream import Reply, Upstream, closes, resets, say, shut
from pawltest.wire import Answer, Broken, Client, Later, at_once, eventually, request_bytes

pytestmark = pytest.mark.no_store

CONFIG = """
tenant: none
threads: 1
rules:
  - {name: refunds.create, match: POST /refunds}
  - {name: refunds.undo, match: DELETE /refunds}
  - {name: large, match: POST /large, max_request_body: 64MiB, max_response_body: 64MiB}
  - {name: items, match: "POST /items/{id}", key: "{path:id}"}
"""
hooks = pytest.mark.hooks
MIB = 1 << 20


@pytest.fixture
def behind(pair: tuple[Gateway, Upstream]) -> Upstream:
    """The upstream of `shared`, which keeps a connection to it that is surely alive."""
    pair[1].forget_replies()
    pair[1].default = pair[1].created
    assert pair[0].request("GET", "/alive").status == 200
    pair[1].requests.clear()
    pair[1].done.clear()
    pair[1].broken.clear()
    return pair[1]


def ruled(key: str, body: bytes = b"{}", *more: tuple[str, str]) -> bytes:
    return request_bytes("POST", "/refunds", [("Idempotency-Key", key), *more], body)


# ---- connections of clients ----


def test_requests_of_one_connection_are_answered_in_order(shared, behind, key):
    with shared.connect() as client:
        client.send(b"".join(request_bytes("GET", f"/{i}") for i in range(50)))
        assert [client.answer().json["read"] for _ in range(50)] == [f"/{i}" for i in range(50)]
        client.send(b"".join(ruled(f'"{key[1:-1]}{i}"') for i in range(20)))
        ids = [client.answer().json["id"] for _ in range(20)]
        assert ids == sorted(ids)
    assert behind.effects() == 20


def test_a_duplicate_pipelined_behind_its_first_is_a_replay(shared, behind, key):
    with shared.connect() as client:
        client.send(ruled(key) * 3)
        got = [client.answer() for _ in range(3)]
    assert [a.mark for a in got] == [(201, "stored"), (201, "replayed"), (201, "replayed")]
    assert behind.effects() == 1


def test_a_request_that_comes_byte_by_byte_is_read_whole(shared, behind, key):
    with shared.connect() as client:
        for byte in ruled(key, b'{"a": 1}'):
            client.send(bytes([byte]))
        assert client.answer().mark == (201, "stored")
    assert behind.requests[0].body == b'{"a": 1}'


def test_connection_close_is_honoured(shared, behind, key):
    for path in ("/refunds", "/other"):
        with shared.connect() as client:
            answer = client.request("POST", path, [("Idempotency-Key", key),
                                                   ("Connection", "close")], b"{}")
            assert (answer.status, answer["Connection"]) == (201, "close")
            assert client.is_closed()


@pytest.mark.parametrize("path, headers", [("/refunds", ""), ("/other", "")])
def test_a_client_of_http_1_0_gets_its_answer_and_the_end_of_the_connection(shared, behind, key,
                                                                            path, headers):
    behind.then(Reply(201, b"x" * 5000, framing="chunked"))
    with shared.connect() as client:
        client.send(f"POST {path} HTTP/1.0\r\nIdempotency-Key: {key}\r\nContent-Length: 2\r\n"
                    f"\r\n{{}}".encode())
        answer = client.answer()
        assert (answer.status, answer.body) == (201, b"x" * 5000)
        assert answer["Transfer-Encoding"] is None
        assert client.is_closed()


@pytest.mark.parametrize("path", ["/refunds", "/other"])
def test_a_client_of_http_1_0_may_keep_its_connection(shared, behind, key, path):
    with shared.connect() as client:
        for _ in range(2):
            client.send(f"POST {path} HTTP/1.0\r\nIdempotency-Key: {key}\r\nContent-Length: 2\r\n"
                        f"Connection: keep-alive\r\n\r\n{{}}".encode())
            answer = client.answer()
            assert (answer.status, answer["Connection"]) == (201, "keep-alive")
            assert answer["Content-Length"] == str(len(answer.body))


def test_a_client_that_half_closes_while_it_is_served_still_gets_its_answer(shared, behind, key):
    gate = behind.hold()
    with shared.connect() as client:
        client.send(ruled(key))
        gate.wait_for()
        client.sock.shutdown(socket.SHUT_WR)
        gate.open()
        assert client.answer().mark == (201, "stored")
        assert client.is_closed()


def test_a_connection_without_a_request_ends_quietly(shared):
    for data in (b"", b"\r\n", b"POST /ref", b"POST /refunds HTTP/1.1\r\nHost: a\r\n"):
        with shared.connect() as client:
            client.send(data)
            client.sock.shutdown(socket.SHUT_WR)
            assert client.is_closed() or not data


def test_many_connections_at_once_are_all_served(shared, behind):
    clients = [shared.connect() for _ in range(300)]
    try:
        for i, client in enumerate(clients):
            client.send(request_bytes("GET", f"/many/{i}"))
        assert [c.answer().json["read"] for c in clients] == [f"/many/{i}" for i in range(300)]
    finally:
        for client in clients:
            client.sock.close()


def test_a_client_that_leaves_within_its_body_leaves_nothing_behind(shared, behind, key):
    for reset in (False, True):
        with shared.connect() as client:
            client.send(ruled(key, b"x" * 1000)[:-10])
            if reset:
                client.reset()
    assert shared.request("POST", "/refunds", [("Idempotency-Key", key)], b"{}").mark == \
        (201, "stored")
    assert len(behind.requests) == 1


# ---- Expect: 100-continue ----


def interim(client: Client) -> bytes:
    start, _, _ = client.reader.head()
    return start.encode()


@pytest.mark.parametrize("path", ["/refunds", "/other"])
def test_who_expects_100_gets_it_when_the_head_is_good(shared, behind, key, path):
    head = request_bytes("POST", path, [("Idempotency-Key", key), ("Expect", "100-continue"),
                                        ("Content-Length", "5")])
    with shared.connect() as client:
        client.send(head)
        assert interim(client) == b"HTTP/1.1 100 Continue"
        client.send(b"hello")
        assert client.answer().status == 201
    assert (behind.requests[0].body, behind.requests[0]["Expect"]) == (b"hello", None)


@pytest.mark.parametrize("headers, status", [
    ([("Content-Length", "5")], 400), ([("Idempotency-Key", "a,b"), ("Content-Length", "5")], 400),
    ([("Idempotency-Key", "a"), ("Content-Length", str(MIB + 1))], 413),
], ids=["no key", "bad key", "too large"])
def test_who_expects_100_is_refused_before_the_body_where_the_head_is_bad(shared, behind, headers,
                                                                          status):
    with shared.connect() as client:
        client.send(request_bytes("POST", "/refunds", [*headers, ("Expect", "100-continue")]))
        answer = client.answer()
        assert answer.head.startswith(f"HTTP/1.1 {status} ".encode())
        assert answer["Connection"] == "close"
        assert client.is_closed()
    assert not behind.requests


def test_who_expects_100_and_sends_at_once_gets_no_second_answer(shared, behind, key):
    with shared.connect() as client:
        client.send(ruled(key, b"hello", ("Expect", "100-continue")) + request_bytes("GET", "/x"))
        assert client.answer().status == 201
        assert client.answer("GET").json == {"read": "/x"}


# ---- bodies ----


@pytest.mark.parametrize("size", [MIB - 1, MIB, MIB + 1])
@pytest.mark.parametrize("how", ["length", "chunks"])
def test_the_limit_of_a_body_is_exact(shared, behind, key, size, how):
    headers, body = [("Idempotency-Key", key)], b"x" * size
    if how == "chunks":
        headers.append(("Transfer-Encoding", "chunked"))
        body = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in
                        (body[i:i + 60_000] for i in range(0, size, 60_000))) + b"0\r\n\r\n"
    answer = shared.request("POST", "/refunds", headers, body)
    if size > MIB:
        assert answer.is_problem(413, "VALIDATION.body_too_large")
        assert not behind.requests
    else:
        assert answer.mark == (201, "stored")
        assert behind.requests[0].body == b"x" * size


def test_a_large_body_passes_both_ways_and_is_hashed_whole(shared, behind, key):
    body = bytes(range(256)) * (4 * MIB // 256)
    behind.then(Reply(201, body))
    first = shared.request("POST", "/large", [("Idempotency-Key", key)], body)
    assert (first.mark, first.body) == ((201, "stored"), body)
    assert behind.requests[0].body == body
    other = shared.request("POST", "/large", [("Idempotency-Key", key)], body[:-1] + b"x")
    assert other.is_problem(409, "CONFLICT.idempotency.payload_mismatch")


@pytest.mark.parametrize("how", ["length", "chunks"])
def test_an_unruled_body_of_any_size_streams_through(shared, behind, how):
    body = bytes(range(256)) * (3 * MIB // 256)
    headers, sent = [], body
    if how == "chunks":
        headers = [("Transfer-Encoding", "chunked")]
        sent = b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    behind.then(Reply(200, body, framing="chunked"))
    answer = shared.request("POST", "/other", headers, sent)
    assert (answer.mark, answer.body) == ((200, "bypassed"), body)
    assert behind.requests[0].body == body


def test_an_unruled_answer_streams_while_it_comes(shared, behind):
    gate = behind.gate()
    behind.then(Reply(200, headers=(("Transfer-Encoding", "chunked"),), framing="none",
                      after=lambda _: gate.pass_through(), close=True))
    with shared.connect() as client:
        client.send(request_bytes("GET", "/stream"))
        start, _, _ = client.reader.head()
        assert start == "HTTP/1.1 200 Answer"
        gate.open()
        assert not client.reader.more()


def test_an_unruled_request_streams_while_it_comes(shared, behind):
    """The upstream has the head before the body's end was sent."""
    gate = behind.gate()
    behind.then(Reply(200, b"ok", early=True, gate=gate))
    with shared.connect() as client:
        client.send(b"POST /other HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
        behind.wait_for(1)
        client.send(b"hello")
        gate.open()
        assert client.answer().body == b"ok"


def test_a_body_cut_short_by_the_client_is_never_whole_upstream(shared, behind):
    for head, part in ((b"Content-Length: 10", b"hello"),
                       (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n")):
        with shared.connect() as client:
            client.send(b"POST /other HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n\r\n" + part)
    eventually(lambda: len(behind.broken) == 2, "the broken connections")
    assert not behind.requests


def test_an_answer_cut_short_by_the_upstream_is_never_whole_for_the_client(shared, behind):
    for reply in (Reply(200, b"x" * 1000, cut=-1), Reply(200, b"x" * 3000, framing="chunked",
                                                         cut=-5)):
        behind.then(reply)
        with pytest.raises(Broken):
            shared.request("GET", "/other")


def test_an_answer_without_a_length_ends_well_for_clients_of_1_0_and_1_1(shared, behind):
    behind.default = Reply(200, b"x" * 1000, framing="close")
    with shared.connect() as client:
        assert client.request("GET", "/other").body == b"x" * 1000
        client.send(b"GET /other HTTP/1.0\r\n\r\n")
        answer = client.answer("GET")
        assert (answer.body, answer["Connection"]) == (b"x" * 1000, "close")


# ---- an upstream that answers early, or dies ----

EARLY = say(413, {"too": "large"}, early=True, effect=False)


@pytest.mark.parametrize("path", ["/large", "/other"])
def test_an_early_refusal_of_a_large_body_reaches_the_client(shared, behind, key, path):
    """It answers and closes while most of the body is still to be sent."""
    behind.then(EARLY)
    with shared.connect() as client:
        sending = Later(lambda: try_send(client, request_bytes(
            "POST", path, [("Idempotency-Key", key)], b"x" * (16 * MIB))))
        answer = client.answer()
        assert (answer.status, answer.json) == (413, {"too": "large"})
        shut(client.sock)
        sending.result()


@pytest.mark.parametrize("path", ["/large", "/other"])
def test_an_early_answer_is_told_though_the_upstream_reads_no_further(shared, behind, key, path):
    """It answers, reads nothing more and keeps the connection: nobody may wait for the other."""
    gate = behind.gate()
    behind.then(say(413, {"too": "large"}, early=True, effect=False,
                    after=lambda _: gate.pass_through()))
    with shared.connect() as client:
        sending = Later(lambda: try_send(client, request_bytes(
            "POST", path, [("Idempotency-Key", key)], b"x" * (32 * MIB))))
        answer = client.answer()
        assert (answer.status, answer.json) == (413, {"too": "large"})
        gate.open()
        shut(client.sock)
        sending.result()


@dataclass
class EarlyKept(Reply):
    """An early answer that seems to leave the connection for another request."""

    @property
    def ends_connection(self) -> bool:
        return False


@pytest.mark.parametrize("path", ["/large", "/other"])
def test_a_connection_with_an_unfinished_request_carries_no_other(shared, behind, key, path):
    """The next request would be read as the rest of the body."""
    gate = behind.gate()
    behind.then(EarlyKept(413, b"no", early=True, after=lambda _: gate.pass_through()))
    with shared.connect() as client:
        sending = Later(lambda: try_send(client, request_bytes(
            "POST", path, [("Idempotency-Key", key)], b"x" * (32 * MIB))))
        assert client.answer().status == 413
        eventually(lambda: len(behind.requests) == 1)
        assert shared.post("/refunds", b"{}", key=f'"{key[1:-1]} next"').mark == (201, "stored")
        gate.open()
        shut(client.sock)
        sending.result()


@pytest.mark.parametrize("path", ["/large", "/other"])
@pytest.mark.parametrize("interim", [b"HTTP/1.1 100 Continue\r\n\r\n",
                                     b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3,
                                     b"HTTP/1.1 103 Early Hints\r\nLink: </%s>\r\n\r\n"
                                     % (b"a" * 9000)],
                         ids=["one", "three", "long"])
def test_an_interim_answer_does_not_end_the_sending_of_a_large_body(shared, behind, key, path,
                                                                    interim):
    """found: A-L15"""
    behind.then(say(201, {"done": True}, interim=interim))
    body = b"x" * (32 * MIB)
    answer = shared.request("POST", path, [("Idempotency-Key", key)], body)
    assert (answer.status, answer.json) == (201, {"done": True})
    assert behind.requests[0].body == body


def try_send(client: Client, data: bytes) -> None:
    try:
        client.send(data)
    except OSError:
        pass


@pytest.mark.parametrize("reply", [closes(), resets()], ids=["closes", "resets"])
def test_a_kept_connection_that_dies_after_one_ruled_request_costs_no_second_effect(shared, behind,
                                                                                    key, reply):
    shared.post("/refunds", b"{}", key=f'"{key[1:-1]}-warm"')
    behind.then(reply)
    first = shared.post("/refunds", b"{}", key=key)
    assert first.is_problem(502, "TRANSIENT.upstream_broke")
    assert behind.effects() == len(behind.requests) == 2


@pytest.mark.parametrize("reply", [closes(), resets()], ids=["closes", "resets"])
@pytest.mark.parametrize("method", ["POST", "DELETE", "PATCH", "LOCK"])
def test_an_unruled_unsafe_request_is_never_sent_twice(shared, behind, method, reply):
    shared.request("GET", "/warm")
    behind.then(reply)
    answer = shared.request(method, "/other")
    assert answer.is_problem(502, "TRANSIENT.upstream_broke")
    assert answer["Idempotency-Status"] == "bypassed"
    assert len(behind.requests) == 2


def test_a_safe_request_is_sent_again_when_its_kept_connection_was_dead(shared, behind):
    shared.request("GET", "/warm")
    behind.then(closes())
    assert shared.request("GET", "/other").json == {"read": "/other"}
    assert [r.target for r in behind.requests] == ["/warm", "/other", "/other"]


def test_a_safe_request_that_a_fresh_connection_breaks_is_not_sent_again(pawl, upstream):
    gateway = pawl(CONFIG)
    upstream.then(closes())
    assert gateway.request("GET", "/other").is_problem(502, "TRANSIENT.upstream_broke")
    assert len(upstream.requests) == 1


def test_a_kept_connection_that_the_upstream_closed_in_between_costs_nothing(pawl, upstream):
    gateway = pawl(CONFIG)
    upstream.then(say(200, {}, close=True))
    assert gateway.request("GET", "/warm").status == 200
    eventually(lambda: not upstream.connections, "the end of the connection")
    assert gateway.post("/refunds", b"{}", key="k1").mark == (201, "stored")


def test_bytes_that_an_upstream_sends_unasked_are_nobodys_answer(shared, behind, key):
    evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    behind.then(Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + evil))
    assert shared.request("GET", "/warm").body == b"ok"
    assert shared.post("/refunds", b"{}", key=key).json != b"evil"
    assert shared.request("GET", "/x").json == {"read": "/x"}


def test_without_an_upstream_unruled_routes_answer_503(pawl, upstream):
    gateway = pawl(CONFIG)
    upstream.stop()
    answer = gateway.request("GET", "/other")
    assert answer.is_problem(503, "DEPENDENCY.unavailable")
    assert (answer["Retry-After"], answer["Idempotency-Status"]) == ("1", None)
    answer = gateway.request("POST", "/other")
    assert answer.mark == (503, "bypassed")


# ---- targets ----


def test_an_absolute_target_is_ruled_by_its_path_and_sent_in_origin_form(shared, behind, key):
    with shared.connect() as client:
        client.send(request_bytes("POST", "http://gateway.test/refunds?a=1",
                                  [("Idempotency-Key", key)], b"{}") * 2)
        assert [client.answer().mark for _ in range(2)] == [(201, "stored"), (201, "replayed")]
    assert behind.requests[0].target == "/refunds?a=1"


@pytest.mark.parametrize("method, sent, arrives", [
    ("GET", "http://gateway.test", "/"), ("GET", "http://gateway.test?a=1", "/?a=1"),
    ("GET", "http://gateway.test/?", "/?"), ("GET", "/a;b//c%2f?d?e", "/a;b//c%2f?d?e"),
    ("OPTIONS", "http://gateway.test", "*"), ("OPTIONS", "http://gateway.test?a", "/?a"),
])
def test_a_target_arrives_in_origin_form_and_else_as_it_was_sent(shared, behind, method, sent,
                                                                 arrives):
    assert shared.request(method, sent).status == 200
    assert behind.requests[0].target == arrives


@pytest.mark.parametrize("target", ["/refunds", "/refunds/", "/%72efunds", "/refund%73",
                                    "/refunds?"])
def test_a_path_written_in_another_way_meets_the_same_rule(shared, behind, target):
    answer = shared.post(target, b"{}", key=f'"path {target}"')
    assert answer["Idempotency-Status"] == "stored"


@pytest.mark.parametrize("target", ["/Refunds", "/refunds/x", "/refunds;a=1", "/refunds%20",
                                    "/refunds%2f", "/refund", "/xrefunds"])
def test_another_path_meets_no_rule(shared, behind, target):
    answer = shared.post(target, b"{}", key=f'"other {target}"')
    if answer.status == 400:
        assert answer["Error-Code"] == "VALIDATION.path_ambiguous"
        assert not behind.requests
    else:
        assert answer["Idempotency-Status"] == "bypassed"


@pytest.mark.parametrize("target", ["/refunds%", "/refunds%zz", "/%", "/refunds%2", "/items/%"])
def test_a_bad_percent_is_never_a_way_round_a_rule(shared, behind, target):
    answer = shared.post(target, b"{}", key=f'"percent {target}"')
    assert answer.status == 400 or answer["Idempotency-Status"] in ("bypassed", "stored")
    assert answer.status == 400 or behind.requests[0].target == target


@pytest.mark.parametrize("value", ["TRACE", "CONNECT", "trace"])
def test_an_override_to_a_method_that_is_refused_is_refused(shared, behind, key, value):
    answer = shared.post("/refunds", b"{}", key=key, headers=[("X-HTTP-Method-Override", value)])
    assert answer.status in (400, 405)
    assert not behind.requests


def test_options_star_passes(shared, behind):
    assert shared.request("OPTIONS", "*").status == 200
    assert behind.requests[0].target == "*"


# ---- everything at once ----


def test_a_crowd_of_mixed_requests_is_answered_right(shared, behind, key):
    def act(i: int) -> list[str | None]:
        with shared.connect() as client:
            mine = f'"{key[1:-1]} {i % 5}"'
            client.send(ruled(mine) + request_bytes("GET", f"/{i}") + ruled(mine))
            got = [client.answer(), client.answer("GET"), client.answer()]
            assert got[1].json == {"read": f"/{i}"}
            assert got[0].kept == got[2].kept
            return [got[0]["Idempotency-Status"], got[2]["Idempotency-Status"]]

    marks_of = at_once(40, act)
    assert sum(a == "stored" for pair_of in marks_of for a in pair_of) == 5
    assert behind.effects() == 5
