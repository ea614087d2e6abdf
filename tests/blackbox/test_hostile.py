# SPDX-License-Identifier: Apache-2.0
"""Messages that two implementations could read in two ways, and peers that mean ill: the gateway
reads each in one way or refuses it, and never falls over."""
from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

import pytest

from pawltest.gateway import Gateway
from pawltest.hostile_requests import AnswerCase, Case, answers, requests
from pawltest.upstream import Reply, Upstream, say
from pawltest.wire import Answer, Broken, Client, Later, Request, eventually, request_bytes

pytestmark = pytest.mark.no_store

CONFIG = """
tenant: none
threads: 1
rules:
  - {name: post, match: POST /hostile, timeout: 10m}
  - {name: delete, match: DELETE /hostile, timeout: 10m}
  - {name: refunds.create, match: POST /refunds}
  - {name: by.body, match: POST /by-body, key: "{body:/id}"}
"""

hooks = pytest.mark.hooks

# Answers that are only wrong once the connection ends.
WRONG_BY_THEIR_END = {"body cut short", "chunks cut short", "nothing"}


@pytest.fixture
def gateway(pair: tuple[Gateway, Upstream]) -> Gateway:
    """The module's, which must have survived the tests before."""
    assert pair[0].process.poll() is None, "pawl died"
    return pair[0]


@pytest.fixture
def upstream(pair: tuple[Gateway, Upstream]) -> Iterator[Upstream]:
    behind = pair[1]
    behind.default = behind.created
    behind.requests.clear()
    behind.broken.clear()
    behind.done.clear()
    yield behind
    assert not behind.unasked, "an answer was not asked for"


# ---- requests ----


def is_seen(request: Request, seen: object) -> bool:
    names = {name.lower().encode() for name, _ in request.headers}
    fields = {(name.lower().encode(), value.encode("latin-1")) for name, value in request.headers}
    return (request.method.encode() == seen.method and request.target.encode() == seen.target
            and request.body == seen.body and set(seen.has) <= fields
            and not names & set(seen.lacks))


def play(client: Client, case: Case) -> list[Answer]:
    """Sends the steps, each when the answers due before it came; all answers."""
    got: list[Answer] = []
    due = (*case.answers_due, len(case.answers))
    for step, until in zip(case.steps, due, strict=True):
        try:
            client.send(step)
        except OSError:
            pass  # refused before its end was sent: the answer says so
        while len(got) < until:
            got.append(client.answer(step.split(b" ", 1)[0].decode("latin-1")))
    return got


def is_alive(client: Client) -> bool:
    return client.request("GET", "/alive").status == 200


@pytest.mark.parametrize("case", requests(), ids=str)
def test_a_request_is_read_in_one_way_or_refused(gateway, upstream, case):
    upstream.default = Reply(200, b"ok")
    with gateway.connect() as client:
        got = play(client, case)
        assert [a.status in allowed for a, allowed in zip(got, case.answers, strict=True)] == \
            [True] * len(got), [a.status for a in got]
        seen = list(upstream.requests)
        assert not upstream.broken
        assert len(seen) == len(case.forwarded)
        assert all(map(is_seen, seen, case.forwarded)), seen
        if case.closed:
            assert got[-1]["Connection"] == "close"
            assert client.is_closed()
        elif case.closed is False:
            assert is_alive(client)


@pytest.mark.parametrize("n", [101, 1000, 10000])
def test_too_many_fields_are_refused_however_many(gateway, upstream, n):
    with gateway.connect() as client:
        client.send(b"POST /refunds HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * n + b"\r\n")
        assert client.answer().is_problem(431, "VALIDATION.request_malformed")
        assert client.is_closed()
    assert not upstream.requests


@pytest.mark.parametrize("n", [1000, 1 << 20, 8 << 20])
def test_bytes_that_are_no_http_are_refused(gateway, upstream, n):
    with gateway.connect() as client:
        try:
            client.send(b"\x16\x03\x01\x02\x00" + bytes(range(256)) * (n // 256))
        except OSError:
            pass
        assert client.answer().status == 400
    assert not upstream.requests


# ---- answers ----


@dataclass
class Evil(Reply):
    """Bytes instead of an answer; the connection stays as long as the gateway lets it."""

    @property
    def ends_connection(self) -> bool:
        return self.close


def broken_code(case: AnswerCase) -> str:
    breaks_off = case.name in WRONG_BY_THEIR_END | {"interim flood"}
    return "TRANSIENT.upstream_broke" if breaks_off else "TRANSIENT.upstream_malformed"


@pytest.mark.parametrize("case", answers(), ids=str)
def test_an_answer_is_read_in_one_way_or_not_at_all(gateway, upstream, case):
    ends = case.early or case.name in WRONG_BY_THEIR_END
    upstream.then(Evil(raw=case.answer, early=case.early, close=ends))
    key = ("Idempotency-Key", "answer-" + case.name.replace(" ", "-"))
    method, body = case.method.decode(), b"{}" * (case.method == b"POST")
    first = gateway.request(method, "/hostile", [key], body)
    assert first.status in case.statuses
    if case.body is None:
        assert first.is_problem(502, broken_code(case))
    else:
        assert first.body == case.body
    if not case.reusable:
        refused = upstream.requests[-1]
        eventually(lambda: upstream.has_ended(refused), "the end of the connection")
    if case.method != b"POST":
        return
    again = gateway.request(method, "/hostile", [key], body)
    if case.replayable:
        assert (again["Idempotency-Status"], again.status) == ("replayed", first.status)
        assert again.body == first.body
    else:
        assert again.is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("case", [c for c in answers() if c.body is None], ids=str)
def test_no_broken_answer_passes_an_unruled_route_as_a_whole_one(gateway, upstream, case, method):
    ends = case.name in WRONG_BY_THEIR_END
    upstream.then(Evil(raw=case.answer, close=ends))
    try:
        answer = gateway.request(method, "/unruled", [("Connection", "close")])
        assert answer.is_problem(502, broken_code(case))
    except Broken:
        pass  # the head had passed: the client sees that the body is cut


# ---- bodies ----

DIGITS = b"1" * 10_000


def twins() -> list[tuple[str, bytes, bytes]]:
    """Bodies that careless readers take for each other."""
    deep = lambda n: b"[" * n + b"]" * n
    return [
        ("10000 digits", DIGITS, DIGITS[:-1] + b"2"),
        ("1000 digits", b"1" * 999 + b"1", b"1" * 999 + b"2"),
        ("beyond a double", b'{"n":9007199254740993}', b'{"n":9007199254740992}'),
        ("exponents out of reach", b"1e400", b"1e401"),
        ("huge exponents", b"1e99999999999999999999", b"1e99999999999999999998"),
        ("lone surrogates", b'"\\ud800"', b'"\\ud801"'),
        ("lone surrogate and its replacement", b'"\\ud800"', b'"\\ufffd"'),
        ("invalid UTF-8", b'"\xff"', b'"\xfe"'),
        ("overlong slash", b'"\xc0\xaf"', b'"/"'),
        ("NUL within", b'{"a":"b\0c"}', b'{"a":"b\0d"}'),
        ("NUL behind", b'{"a":1}\0', b'{"a":1}'),
        ("escaped NUL", b'"a\\u0000b"', b'"a\\u0000c"'),
        ("nested 201 deep", deep(201), deep(202)),
        ("nested 100000 deep", deep(100_000), deep(100_001)),
        ("open brackets", b"[" * 500_000, b"[" * 499_999),
        ("members twice", b'{"a":1,"a":2}', b'{"a":2,"a":1}'),
        ("members twice by escape", b'{"a":1,"\\u0061":2}', b'{"a":2}'),
        ("BOM", b'\xef\xbb\xbf{"a":1}', b'{"a":1}'),
        ("trailing comma", b'[1,]', b'[1]'),
        ("not a number", b"[NaN]", b"[null]"),
        ("leading zero", b"[01]", b"[1]"),
        ("text and number", b'["1"]', b"[1]"),
        ("false and null", b"[false]", b"[null]"),
        ("empty and null", b"", b"null"),
        ("blanks", b" ", b"  "),
        ("order", b"[1,2]", b"[2,1]"),
        ("composed or not", '"\u00e9"'.encode(), '"e\u0301"'.encode()),
    ]


@pytest.mark.parametrize("name, one, other", twins(), ids=[twin[0] for twin in twins()])
def test_two_bodies_that_differ_are_never_taken_for_one(gateway, upstream, name, one, other):
    key = f'"{name}"'
    first = gateway.post("/refunds", one, key=key)
    assert first.mark == (201, "stored")
    assert upstream.requests[0].body == one
    assert gateway.post("/refunds", one, key=key)["Idempotency-Status"] == "replayed"
    told = gateway.post("/refunds", other, key=key)
    assert told.is_problem(409, "CONFLICT.idempotency.payload_mismatch")
    assert upstream.effects() == 1


@pytest.mark.parametrize("body", [b"", b"null", b"[" * 100_000, b'{"id":"\\ud800"}', b"{}",
                                  b'{"id":null}', b'{"id":""}', b'{"id":{}}', b'{"id":[1]}',
                                  b'{"id":1,"id":2}', b'{"id":"\xff"}', b'{"id":1}\0'])
def test_a_key_is_only_taken_from_a_body_that_is_understood(gateway, upstream, body):
    answer = gateway.post("/by-body", body)
    assert answer.is_problem(400, "VALIDATION.idempotency.key_source_missing")
    assert "/id" in answer.json["detail"]
    assert not upstream.requests


def test_a_key_of_many_digits_in_a_body_is_one_key(gateway, upstream):
    number = b"9" * 600
    first = gateway.post("/by-body", b'{"id":%s}' % number)
    again = gateway.post("/by-body", b'{"id":%s}' % number)
    other = gateway.post("/by-body", b'{"id":%s8}' % number[:-1])
    assert [a["Idempotency-Status"] for a in (first, again, other)] == \
        ["stored", "replayed", "stored"]
    assert upstream.requests[0]["Idempotency-Key"].startswith("sha256-")


def peak_memory(gateway: Gateway) -> int:
    """The most it ever had in bytes; sanitizers' own is not counted."""
    if "asan" in Path(f"/proc/{gateway.process.pid}/maps").read_text():
        return 0
    status = Path(f"/proc/{gateway.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if "VmHWM" in line).split()[1]) << 10


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_bomb_of_compressed_bytes_is_refused_before_it_unfolds(gateway, upstream, coding):
    bomb = gzip.compress(bytes(300 << 20), 9) if coding == "gzip" else \
        zlib.compress(bytes(300 << 20), 9)
    assert len(bomb) < 1 << 20
    answer = gateway.post("/refunds", bomb, key=f"bomb-{coding}",
                          headers=[("Content-Encoding", coding)])
    assert answer.is_problem(413, "VALIDATION.body_too_large")
    assert not upstream.requests
    assert peak_memory(gateway) < 250 << 20


@pytest.mark.parametrize("body", [b"not gzip at all", gzip.compress(b"{}")[:-3],
                                  gzip.compress(b"{}") + b"tail"],
                         ids=["no gzip", "cut", "with a tail"])
def test_a_body_that_is_not_what_its_coding_says_is_refused(gateway, upstream, body):
    answer = gateway.post("/refunds", body, key=f"coding-{len(body)}",
                          headers=[("Content-Encoding", "gzip")])
    assert answer.is_problem(400, "VALIDATION.request_malformed")
    assert not upstream.requests


def test_the_same_json_in_gzip_and_plain_is_the_same_request_and_passes_as_sent(gateway, upstream):
    packed = gzip.compress(b'{"a": 1}')
    first = gateway.post("/refunds", packed, key="packed", headers=[("Content-Encoding", "gzip")])
    assert (upstream.requests[0].body, upstream.requests[0]["Content-Encoding"]) == (packed, "gzip")
    again = gateway.post("/refunds", b'{"a":1.0}', key="packed")
    assert (again["Idempotency-Status"], again.body) == ("replayed", first.body)


def test_values_beyond_ascii_pass_both_ways_as_they_are(gateway, upstream):
    value = "".join(map(chr, range(0x80, 0x100)))
    upstream.then(say(201, {}, ("X-Back", value)))
    first = gateway.post("/refunds", b"{}", key="latin", headers=[("X-There", value)])
    again = gateway.post("/refunds", b"{}", key="latin", headers=[("X-There", value)])
    assert upstream.requests[0]["X-There"] == value
    assert first["X-Back"] == again["X-Back"] == value


def test_a_log_line_stays_one_line_whatever_the_key_holds(gateway, upstream):
    key = '"a\\"b\\\\n ;,{}"'
    assert gateway.post("/refunds", b"{}", key=key).status == 201
    lines = eventually(lambda: [line for line in gateway.log
                                if line.get("idempotency_key") == 'a"b\\n ;,{}'], "its log line")
    assert lines[0]["event"] == "request"


# ---- peers that are slow ----


@hooks
def test_a_head_that_drips_has_an_absolute_time(pawl, upstream, clock):
    gateway = pawl(CONFIG + "head_timeout: 5s\n")
    with gateway.connect() as client:
        client.send(b"POST /refunds HTTP/1.1\r\nHost: a\r\n")
        drip = Later(client.answer)

        def is_over() -> bool:
            if not drip.is_done:
                try:
                    client.send(b"a: b\r\n")
                except OSError:
                    pass
            return drip.is_done

        clock.run_until(is_over)
        assert drip.result().is_problem(408, "VALIDATION.request_timeout")
    assert not upstream.requests


@hooks
def test_a_body_that_drips_has_an_absolute_time_and_holds_no_key(pawl, upstream, clock):
    gateway = pawl(CONFIG + "body_timeout: 5s\n")
    with gateway.connect() as client:
        client.send(b"POST /refunds HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k1\r\n"
                    b"Content-Length: 100000\r\n\r\n")
        drip = Later(client.answer)

        def is_over() -> bool:
            if not drip.is_done:
                try:
                    client.send(b"x")
                except OSError:
                    pass
            return drip.is_done

        assert gateway.post("/refunds", b"{}", key="k1").status == 201  # while it still drips
        clock.run_until(is_over)
        assert drip.result().is_problem(408, "VALIDATION.request_timeout")
        assert drip.result()["Connection"] == "close"
    assert len(upstream.requests) == 1


@hooks
def test_an_idle_connection_is_closed_without_a_word(pawl, upstream, clock):
    gateway = pawl(CONFIG + "idle_timeout: 5s\n")
    with gateway.connect() as client:
        assert is_alive(client)
        end = Later(client.is_closed)
        clock.run_until(lambda: end.is_done)
        assert end.result()


@hooks
def test_a_client_that_takes_no_answer_is_given_up_and_the_answer_kept(pawl, upstream, clock):
    gateway = pawl(CONFIG + "write_timeout: 5s\nmax_connections: 1\n")
    big = json.dumps("x" * 1_000_000).encode()
    upstream.default = Reply(201, big)
    wanted = request_bytes("POST", "/refunds", [("Idempotency-Key", "k1")], b"{}")

    def others_are_served() -> bool:
        try:
            return gateway.request("GET", "/alive").status == 201
        except (Broken, OSError):
            return False

    with gateway.connect() as client:
        client.send(wanted * 40)
        upstream.wait_for(1)
        assert not others_are_served()
        clock.run_until(others_are_served)
        with pytest.raises(Broken):
            for _ in range(40):
                client.answer()
    again = gateway.request("POST", "/refunds", [("Idempotency-Key", "k1")], b"{}")
    assert (again["Idempotency-Status"], again.body) == ("replayed", big)
    assert upstream.effects() == 1
