# SPDX-License-Identifier: Apache-2.0
"""Requests that are legal, or nearly so, and rare: where one implementation tidies up and another
does not. Beside `tests/pawltest/hostile_requests.py`, whose cases they look like."""
from __future__ import annotations

from dataclasses import replace
from typing import Iterator

from pawltest.hostile_requests import Case, head

EMPTY = b"Content-Length: 0"


def odd(item: int, name: str, *steps: bytes, answers: int = 1, due: tuple[int, ...] = ()) -> Case:
    """`answers`: how many come of it when all is well."""
    return Case(item, name, steps, (frozenset({200}),) * answers, answers_due=due)


def targets(*values: tuple[str, bytes]) -> list[Case]:
    return [odd(21, name, head(EMPTY, start=b"POST " + value + b" HTTP/1.1"))
            for name, value in values]


def fields(*values: tuple[str, bytes]) -> list[Case]:
    return [odd(22, name, head(value, EMPTY)) for name, value in values]


def bodies(*values: tuple[str, bytes]) -> list[Case]:
    return [odd(23, name, head(b"Transfer-Encoding: chunked") + value) for name, value in values]


TARGETS = targets(
    ("query", b"/hostile?a=b&c"), ("empty query", b"/hostile?"),
    ("two question marks", b"/hostile?a?b"), ("escaped letter", b"/host%69le"),
    ("escape in lower case", b"/hostile?a=%c3%a4"), ("escaped slash", b"/other%2fpath"),
    ("escaped blank", b"/other%20path"), ("escaped percent", b"/other%2570ath"),
    ("escaped NUL", b"/other%00path"), ("escape that is none", b"/other%zz"),
    ("escape cut off", b"/other%2"), ("trailing slash", b"/hostile/"),
    ("two slashes", b"//hostile"), ("two slashes, no rule", b"/other//path"),
    ("dot segment", b"/./hostile"), ("dot segments, no rule", b"/other/./a/../b"),
    ("above the root", b"/../hostile"), ("backslash", b"/other\\path"),
    ("fragment", b"/hostile#part"), ("brackets", b"/other[1]{2}|^`<>\""),
    ("semicolon", b"/hostile;v=1"), ("reserved characters", b"/other/!$&'()*+,;=:@-._~"),
    ("beyond ASCII", b"/other/\xc3\xa4"), ("4000 characters", b"/other/" + b"a" * 4000),
    ("7000 characters", b"/other/" + b"a" * 7000), ("12000 characters", b"/other/" + b"a" * 12000),
    ("absolute", b"http://pawl.test/hostile"), ("absolute of another host", b"http://x.test/other"),
    ("absolute with port", b"http://pawl.test:80/other"),
    ("absolute https", b"https://pawl.test/other"),
    ("absolute in capitals", b"HTTP://PAWL.TEST/other"),
    ("absolute without path", b"http://pawl.test"),
    ("absolute with user", b"http://u@pawl.test/other"),
    ("no slash", b"other"),
) + [
    odd(21, "OPTIONS star", head(EMPTY, start=b"OPTIONS * HTTP/1.1")),
    odd(21, "OPTIONS absolute star", head(EMPTY, start=b"OPTIONS http://pawl.test HTTP/1.1")),
]

FIELDS = fields(
    ("name in capitals", b"X-ODD: a"), ("name in lower case", b"x-odd: a"),
    ("name of token characters", b"!#$%&'*+-.^`|~x: a"), ("name with underscore", b"X_Odd: a"),
    ("name with dot", b"x.odd: a"), ("name of 200", b"x" * 200 + b": a"),
    ("value empty", b"X-Odd:"), ("value of blanks", b"X-Odd:  \t "),
    ("blanks around value", b"X-Odd: \t a b \t"), ("no blank before value", b"X-Odd:a"),
    ("tab inside value", b"X-Odd: a\tb"), ("value beyond ASCII", b"X-Odd: \xe4\xff"),
    ("value of 7000", b"X-Odd: " + b"v" * 7000), ("value of 12000", b"X-Odd: " + b"v" * 12000),
    ("same name twice", b"X-Odd: a\r\nX-Odd: b"), ("names of two cases", b"X-Odd: a\r\nx-oDD: b"),
    ("cookies on two lines", b"Cookie: a=1\r\nCookie: b=2"),
    ("80 fields", b"\r\n".join([b"X: y"] * 80)), ("90 fields", b"\r\n".join([b"X: y"] * 90)),
    ("colons in value", b"X-Odd: a:b: c"), ("comma lists", b"Accept: a, b\r\nAccept: c"),
    ("Via", b"Via: 1.1 before"), ("Forwarded", b"Forwarded: for=192.0.2.1"),
    ("X-Forwarded-For", b"X-Forwarded-For: 192.0.2.1"), ("Max-Forwards", b"Max-Forwards: 0"),
    ("TE", b"TE: trailers"), ("TE hop by hop", b"Connection: TE\r\nTE: trailers"),
    ("Keep-Alive", b"Keep-Alive: timeout=5"), ("Proxy-Connection", b"Proxy-Connection: keep-alive"),
    ("Proxy-Authorization", b"Proxy-Authorization: Basic x"), ("Trailer", b"Trailer: X-Sum"),
    ("Range", b"Range: bytes=0-0"), ("If-None-Match", b"If-None-Match: *"),
    ("Date", b"Date: yesterday"), ("Upgrade without Connection", b"Upgrade: x"),
    ("websocket", b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13"),
    ("Connection with empty members", b"Connection: , ,close,"),
    ("Connection names Cache-Control", b"Connection: Cache-Control\r\nCache-Control: no-cache"),
) + [
    odd(22, "host with port", b"POST /other HTTP/1.1\r\nHost: pawl.test:8080\r\n"
        b"Content-Length: 0\r\n\r\n"),
    odd(22, "host is an address", b"POST /other HTTP/1.1\r\nHost: [::1]:80\r\n"
        b"Content-Length: 0\r\n\r\n"),
    odd(22, "host last", b"POST /other HTTP/1.1\r\nContent-Length: 0\r\nHost: pawl.test\r\n\r\n"),
]

BODIES = bodies(
    ("chunk extensions", b'5;a;b=c;d="e"\r\nhello\r\n0;f\r\n\r\n'),
    ("chunk size in capitals", b"A\r\n0123456789\r\n0\r\n\r\n"),
    ("chunk size with zeros", b"0005\r\nhello\r\n000\r\n\r\n"),
    ("many small chunks", b"1\r\na\r\n" * 200 + b"0\r\n\r\n"),
    ("no bytes", b"0\r\n\r\n"), ("trailer", b"5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"),
    ("trailers twice", b"5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-Sum: 2\r\n\r\n"),
) + [
    odd(23, f"no rule, {name}", head(b"Transfer-Encoding: chunked",
                                     start=b"POST /other HTTP/1.1") + body)
    for name, body in (
        ("chunks", b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"),
        ("chunk extensions", b'5;a;b="c"\r\nhello\r\n0;d\r\n\r\n'),
        ("trailer", b"5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"),
        ("trailer length", b"5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n"),
        ("trailer folded", b"5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n"),
        ("chunk ended by LF", b"5\nhello\r\n0\r\n\r\n"),
        ("chunk size with sign", b"+5\r\nhello\r\n0\r\n\r\n"),
        ("data longer than size", b"5\r\nhello!\r\n0\r\n\r\n"),
        ("data shorter than size", b"6\r\nhello\r\n0\r\n\r\n"))
] + [
    odd(23, "no rule, body cut short", head(b"Content-Length: 5",
                                            start=b"POST /other HTTP/1.1") + b"hel", answers=0),
    odd(23, "no rule, length and coding", head(b"Content-Length: 5", b"Transfer-Encoding: chunked",
                                               start=b"POST /other HTTP/1.1") + b"0\r\n\r\n"),
    odd(23, "no rule, two lengths", head(b"Content-Length: 5", b"Content-Length: 5",
                                         start=b"POST /other HTTP/1.1") + b"hello"),
    odd(23, "no rule, HTTP/1.0 body", head(b"Content-Length: 5",
                                           start=b"POST /other HTTP/1.0") + b"hello"),
    odd(23, "no rule, expect", head(b"Expect: 100-continue", b"Content-Length: 5",
                                    start=b"PUT /other HTTP/1.1") + b"hello"),
    odd(23, "length with zeros", head(b"Content-Length: 0005") + b"hello"),
    odd(23, "POST without a length", head()),
    odd(23, "DELETE without a body", head(start=b"DELETE /hostile HTTP/1.1")),
    odd(23, "body of a GET", head(b"Content-Length: 5", start=b"GET /other HTTP/1.1") + b"hello"),
    odd(23, "body of an OPTIONS",
        head(b"Content-Length: 5", start=b"OPTIONS /other HTTP/1.1") + b"hello"),
    odd(23, "64 KiB", head(b"Content-Length: 65536") + b"x" * 65536),
]

CONNECTIONS = [
    odd(24, "HTTP/1.0", head(EMPTY, start=b"POST /hostile HTTP/1.0")),
    odd(24, "HTTP/1.0 without a host", b"GET /other HTTP/1.0\r\n\r\n"),
    odd(24, "HTTP/1.0 keep-alive, twice",
        *[head(b"Connection: keep-alive", EMPTY, start=b"POST /hostile HTTP/1.0", key=key)
          for key in (b"a", b"b")], answers=2, due=(1,)),
    odd(24, "HTTP/1.0 without keep-alive, twice",
        head(EMPTY, start=b"POST /hostile HTTP/1.0") +
        head(EMPTY, start=b"POST /hostile HTTP/1.0", key=b"b")),
    odd(24, "pipelined", head(EMPTY) + head(EMPTY, key=b"b") + head(EMPTY, key=b"c"),
        answers=3),
    odd(23, "pipelined behind a body", head(b"Content-Length: 5") + b"hello" +
        head(b"Transfer-Encoding: chunked", key=b"b") + b"1\r\nx\r\n0\r\n\r\n" +
        head(start=b"GET /other HTTP/1.1", key=b"c"), answers=3),
    odd(24, "pipelined behind close", head(b"Connection: close", EMPTY) + head(EMPTY, key=b"b")),
    odd(24, "empty line between", head(EMPTY) + b"\r\n" + head(EMPTY, key=b"b"), answers=2),
    odd(24, "Expect, body behind", head(b"Expect: 100-continue", b"Content-Length: 5") + b"hello"),
    odd(24, "Expect without a body", head(b"Expect: 100-continue", EMPTY)),
    odd(24, "Expect of HTTP/1.0", head(b"Expect: 100-continue", b"Content-Length: 5",
                                        start=b"POST /hostile HTTP/1.0") + b"hello"),
] + [
    odd(24, f"method {method.decode()}", head(EMPTY, start=method + b" /other HTTP/1.1"))
    for method in (b"HEAD", b"OPTIONS", b"PATCH", b"PUT", b"TRACE", b"CONNECT", b"PROPFIND",
                   b"M-SEARCH", b"X!#$%&'*+-.^_`|~", b"A" * 64)
]


def requests() -> Iterator[Case]:
    """All of them, each with a key of its own."""
    for number, case in enumerate([*TARGETS, *FIELDS, *BODIES, *CONNECTIONS]):
        tag = b"odd%03d" % number
        yield replace(case, steps=tuple(step.replace(b"NUMBER", tag) for step in case.steps))
