# SPDX-License-Identifier: Apache-2.0
"""Messages whose framing or identity two implementations could read in two ways.

Only data, and the few lines that number and combine it. The tests run each case over a plain socket
against the gateway, with a recording upstream behind it (status 200, body "ok"), and compare what
both ends saw. The gateway's config needs one rule, `match: "* /hostile"` or one rule a method, with
the default key (Idempotency-Key) and a timeout above the test's patience.

`item` is the number of the framing doubt:
 1 odd Content-Length       2 two Content-Length       3 length and coding
 4 odd Transfer-Encoding    5 coding on HTTP/1.0       6 chunk size
 7 chunk line ends          8 chunk extensions         9 trailers
10 field lines             11 end of the head         12 request line
13 Host                    14 Expect                  15 hop by hop
16 body on GET and others  17 invalid behind valid    18 answers of the upstream
19 Idempotency-Key         20 invalid on a connection that was kept alive
"""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Iterator

PATH = b"/hostile"
HEAD_LIMIT = 32 * 1024
FIELDS_LIMIT = 100


@dataclass(frozen=True)
class Forwarded:
    """One message as the upstream must see it. `has` and `lacks`: fields, in lower case."""

    method: bytes = b"POST"
    target: bytes = PATH
    body: bytes = b""
    has: tuple[tuple[bytes, bytes], ...] = ()
    lacks: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Case:
    """Steps are written one after the other, each when the answers due so far have arrived."""

    item: int
    name: str
    steps: tuple[bytes, ...]
    answers: tuple[frozenset[int], ...]  # final answers in order, each with the statuses allowed
    forwarded: tuple[Forwarded, ...] = ()  # all the upstream saw
    closed: bool | None = True  # whether the gateway then closes; None: both are right
    answers_due: tuple[int, ...] = field(default=())  # by the end of each step but the last

    def __str__(self) -> str:
        return f"{self.item:02d}-{self.name.replace(' ', '-')}"


@dataclass(frozen=True)
class AnswerCase:
    """What a broken upstream sends instead of its answer to `method`, and what the client gets."""

    name: str
    method: bytes
    answer: bytes
    statuses: frozenset[int]
    replayable: bool = False  # whether a second attempt may get a stored answer of status 2xx
    reusable: bool = False  # whether the upstream connection may carry another request
    early: bool = False  # sent, and the connection closed, before the request's body was read
    body: bytes | None = None  # the client's body where the status is not the gateway's own
    item: int = 18

    def __str__(self) -> str:
        return f"18-{self.name.replace(' ', '-')}"


def head(*lines: bytes, start: bytes = b"POST /hostile HTTP/1.1", key: bytes = b"k") -> bytes:
    """A head with Host and a key before the lines under test. NUMBER is replaced by the loader."""
    fields = (b"Host: pawl.test", b"Idempotency-Key: " + key + b"-NUMBER")
    return b"\r\n".join((start, *fields, *lines, b"", b""))


def chunked(body: bytes) -> bytes:
    return head(b"Transfer-Encoding: chunked") + body


def refused(item: int, name: str, sent: bytes, *statuses: int) -> Case:
    return Case(item, name, (sent,), (frozenset(statuses or (400,)),))


def passed(item: int, name: str, sent: bytes, forwarded: Forwarded, closed: bool = False) -> Case:
    return Case(item, name, (sent,), (frozenset({200}),), (forwarded,), closed)


def lengths(item: int, *values: tuple[str, bytes]) -> list[Case]:
    return [refused(item, f"length {name}", head(b"Content-Length:" + value) + b"hello")
            for name, value in values]


def codings(item: int, *values: tuple[str, bytes]) -> list[Case]:
    return [refused(item, f"coding {name}", head(b"Transfer-Encoding:" + value) + b"0\r\n\r\n",
                    400, 501) for name, value in values]


def bodies(item: int, *values: tuple[str, bytes]) -> list[Case]:
    return [refused(item, name, chunked(value)) for name, value in values]


def fields(item: int, *values: tuple[str, bytes]) -> list[Case]:
    return [refused(item, name, head(value, b"Content-Length: 0")) for name, value in values]


def starts(item: int, *values: tuple[str, bytes]) -> list[Case]:
    return [refused(item, name, head(b"Content-Length: 0", start=value), 400, 505)
            for name, value in values]


def hosts(item: int, *values: tuple[str, bytes]) -> list[Case]:
    return [refused(item, name, b"POST /hostile HTTP/1.1\r\n" + value +
                    b"Idempotency-Key: k-NUMBER\r\nContent-Length: 0\r\n\r\n")
            for name, value in values]


CONTENT_LENGTH = lengths(
    1, ("plus", b" +5"), ("minus", b" -5"), ("minus zero", b" -0"), ("blank inside", b" 5 5"),
    ("hexadecimal", b" 0x5"), ("underscore", b" 0_5"), ("trailing junk", b" 5x"),
    ("leading junk", b" x5"), ("fraction", b" 5.0"), ("exponent", b" 5e0"), ("quoted", b' "5"'),
    ("empty", b""), ("blanks", b" \t "), ("list", b" 5,5"), ("list with blank", b" 5, 5"),
    ("list with empty member", b" ,5"), ("semicolon", b" 5;x"), ("vertical tab", b" \v5"),
    ("tab", b"\t5"),
    ("form feed", b" \f5"), ("no-break space", b" \xa05"), ("next line", b" 5\x85"),
    ("over 2^53", b" 9007199254740993"), ("2^63", b" 9223372036854775808"),
    ("wraps to 5", b" 18446744073709551621"), ("thousand digits", b" " + b"9" * 1000),
) + [
    refused(2, "two equal lengths", head(b"Content-Length: 5", b"Content-Length: 5") + b"hello"),
    refused(2, "two lengths", head(b"Content-Length: 5", b"Content-Length: 6") + b"hello!"),
    refused(2, "two lengths, first empty", head(b"Content-Length:", b"Content-Length: 5") +
            b"hello"),
    refused(2, "two lengths, second empty", head(b"Content-Length: 5", b"Content-Length:") +
            b"hello"),
    refused(2, "two lengths in two cases", head(b"content-length: 5", b"CONTENT-LENGTH: 6") +
            b"hello!"),
    refused(2, "two lengths far apart", head(b"Content-Length: 5", *[b"X: y"] * 50,
                                             b"Content-Length: 6") + b"hello!"),
]

LENGTH_AND_CODING = [
    refused(3, "length, then coding", head(b"Content-Length: 5", b"Transfer-Encoding: chunked") +
            b"0\r\n\r\n"),
    refused(3, "coding, then length", head(b"Transfer-Encoding: chunked", b"Content-Length: 5") +
            b"0\r\n\r\n"),
    refused(3, "length 0 and coding", head(b"Content-Length: 0", b"Transfer-Encoding: chunked") +
            b"0\r\n\r\n"),
    refused(3, "length and unknown coding", head(b"Content-Length: 5", b"Transfer-Encoding: x") +
            b"hello", 400, 501),
    refused(3, "length and identity", head(b"Content-Length: 5", b"Transfer-Encoding: identity") +
            b"hello", 400, 501),
    refused(3, "length and empty coding", head(b"Content-Length: 5", b"Transfer-Encoding:") +
            b"hello", 400, 501),
    refused(3, "length and coding not last chunked",
            head(b"Content-Length: 5", b"Transfer-Encoding: chunked, gzip") + b"hello", 400, 501),
]

TRANSFER_ENCODING = codings(
    4, ("leading comma", b" ,chunked"), ("trailing comma", b" chunked,"),
     ("junk before", b" xchunked"),
    ("junk behind", b" chunkedx"), ("parameter", b" chunked;q=1"), ("twice", b" chunked, chunked"),
    ("two lines", b" chunked\r\nTransfer-Encoding: chunked"),
    ("second line unknown", b" chunked\r\nTransfer-Encoding: x"), ("vertical tab", b" \vchunked"),
    ("tab", b"\tchunked"), ("tab behind", b" chunked\t"),
    ("form feed", b" \fchunked"), ("no-break space", b" chunked\xa0"), ("quoted", b' "chunked"'),
    ("NUL", b" chunked\0"), ("identity", b" identity"), ("gzip then chunked", b" gzip, chunked"),
    ("chunked then gzip", b" chunked, gzip"), ("gzip", b" gzip"), ("empty", b""),
) + [
    passed(4, "coding in capitals",
           head(b"Transfer-Encoding:CHUNKED") + b"5\r\nhello\r\n0\r\n\r\n",
           Forwarded(body=b"hello", has=((b"content-length", b"5"),),
                     lacks=(b"transfer-encoding",))),
    refused(5, "coding on 1.0", head(b"Transfer-Encoding: chunked",
                                     start=b"POST /hostile HTTP/1.0") + b"0\r\n\r\n", 400, 501),
    refused(5, "coding on 1.0 with keep-alive",
            head(b"Transfer-Encoding: chunked", b"Connection: keep-alive",
                 start=b"POST /hostile HTTP/1.0") + b"0\r\n\r\n", 400, 501),
]

CHUNKS = bodies(
    6, ("size empty", b"\r\nhello\r\n0\r\n\r\n"), ("size with 0x", b"0x5\r\nhello\r\n0\r\n\r\n"),
    ("size with sign", b"+5\r\nhello\r\n0\r\n\r\n"), ("size negative", b"-5\r\nhello\r\n0\r\n\r\n"),
    ("last size -0", b"-0\r\n\r\n"), ("size with underscore", b"0_5\r\nhello\r\n0\r\n\r\n"),
    ("blank before size", b" 5\r\nhello\r\n0\r\n\r\n"),
    ("blank behind size", b"5 \r\nhello\r\n0\r\n\r\n"),
    ("tab behind size", b"5\t\r\nhello\r\n0\r\n\r\n"),
    ("blank before extension", b"5 ;a\r\nhello\r\n0\r\n\r\n"),
    ("seventeen digits", b"00000000000000005\r\nhello\r\n0\r\n\r\n"),
    ("size wraps to 5", b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    ("size 2^64 - 1", b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    ("junk before size", b"x5\r\nhello\r\n0\r\n\r\n"),
    ("junk behind size", b"5h\r\nhello\r\n0\r\n\r\n"),
    ("NUL behind size", b"5\0\r\nhello\r\n0\r\n\r\n"),
) + bodies(
    7, ("size ended by LF", b"5\nhello\r\n0\r\n\r\n"),
     ("size ended by CR X", b"5\rXhello\r\n0\r\n\r\n"),
    ("data ended by LF", b"5\r\nhello\n0\r\n\r\n"),
     ("data ended by CR X", b"5\r\nhello\rX0\r\n\r\n"),
    ("data not ended", b"5\r\nhello0\r\n\r\n"),
     ("data longer than size", b"5\r\nhello!\r\n0\r\n\r\n"),
    ("data shorter than size", b"6\r\nhello\r\n0\r\n\r\n"),
    ("extra line", b"5\r\nhello\r\n\r\n0\r\n\r\n"), ("last size ended by LF", b"0\n\r\n"),
    ("body ended by LF", b"0\r\n\n"), ("body ended by CR X", b"0\r\n\rX"),
) + bodies(
    8, ("bare CR in extension", b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
    ("bare LF in extension", b"5;a\nb\r\nhello\r\n0\r\n\r\n"),
    ("extension ended by LF", b"5;a\nhello\r\n0\r\n\r\n"),
    ("over-long extension", b"5;" + b"a" * 8192 + b"\r\nhello\r\n0\r\n\r\n"),
    ("over-long last extension", b"0;" + b"a" * 8192 + b"\r\n\r\n"),
) + bodies(
    9, ("trailer length", b"0\r\nContent-Length: 5\r\n\r\n"),
    ("trailer coding", b"0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("trailer host", b"0\r\nHost: other.test\r\n\r\n"),
    ("trailer key", b"0\r\nIdempotency-Key: other\r\n\r\n"),
    ("trailer authorization", b"0\r\nAuthorization: Bearer x\r\n\r\n"),
    ("trailer without colon", b"0\r\nX\r\n\r\n"), ("trailer folded", b"0\r\nX: a\r\n b\r\n\r\n"),
    ("trailer ended by LF", b"0\r\nX: a\n\r\n"),
     ("trailer is a request", b"0\r\nGET / HTTP/1.1\r\n\r\n"),
    ("endless trailers", b"0\r\n" + b"X: a\r\n" * 8192 + b"\r\n"),
) + [
    passed(8, "short extension", chunked(b'5;a="b;c"\r\nhello\r\n0;d\r\n\r\n'),
           Forwarded(body=b"hello", has=((b"content-length", b"5"),),
                     lacks=(b"transfer-encoding",))),
    passed(9, "harmless trailer", chunked(b"5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"),
           Forwarded(body=b"hello", has=((b"content-length", b"5"),),
                     lacks=(b"x-sum", b"trailer", b"transfer-encoding"))),
]

FIELD_LINES = fields(
    10, ("bare CR in value", b"X: a\rb"), ("bare CR hides a length", b"X: a\rContent-Length: 5"),
    ("bare CR before CR LF", b"X: a\r"), ("bare LF ends a line", b"X: a\nY: b"),
    ("bare LF hides a coding", b"X: a\nTransfer-Encoding: chunked"), ("NUL in value", b"X: a\0b"),
    ("NUL in name", b"X\0: a"), ("folded", b"X: a\r\n b"), ("folded by tab", b"X: a\r\n\tb"),
    ("no colon", b"X"), ("empty name", b": a"), ("blank before colon", b"X : a"),
    ("blank before colon of a coding", b"Transfer-Encoding : chunked"),
     ("tab before colon", b"X\t: a"),
    ("blank inside name", b"X Y: a"), ("no-break space before name", b"\xa0X: a"),
    ("next line behind name", b"Transfer-Encoding\x85: chunked"),
     ("name beyond ASCII", b"X\xc3\xa4: a"),
    ("name in brackets", b"[X]: a"), ("control byte in value", b"X: \x01"),
     ("DEL in value", b"X: \x7f"),
    ("escape in value", b"X: \x1b[2J"), ("underscored coding", b"Transfer_Encoding: chunked"),
    ("underscored length", b"Content_Length: 5"), ("underscored key", b"Idempotency_Key: other"),
    ("underscored token", b"Idempotency_Token: 1"),
    ("underscored attempt", b"Idempotency_Attempt: 1"),
) + [
    refused(10, "blank before the first field",
            b"POST /hostile HTTP/1.1\r\n Host: pawl.test\r\nContent-Length: 0\r\n\r\n"),
    refused(10, "only bare LFs", head(b"Content-Length: 0").replace(b"\r\n", b"\n")),
    refused(10, "only bare CRs", head(b"Content-Length: 0").replace(b"\r\n", b"\r")),
    refused(10, "too many fields", head(*[b"X: y"] * FIELDS_LIMIT), 431),
    refused(10, "head too large", head(b"X: " + b"y" * HEAD_LIMIT), 431),
    refused(10, "head that never ends", head(b"X: " + b"y" * HEAD_LIMIT)[:-4], 431),
    refused(11, "head ended by CR LF CR X", head(b"Content-Length: 0")[:-1] + b"X\r\n\r\n"),
    refused(11, "head ended by CR LF CR CR LF", head(b"Content-Length: 0")[:-1] + b"\r\n"),
    refused(11, "head ended by LF CR LF", head(b"Content-Length: 0")[:-4] + b"\n\r\n"),
    refused(11, "head ended by CR LF LF", head(b"Content-Length: 0")[:-2] + b"\n"),
    passed(10, "value beyond ASCII", head(b"X: \xc3\xa4\x85", b"Content-Length: 0"),
           Forwarded(has=((b"x", b"\xc3\xa4\x85"),))),
]

REQUEST_LINES = starts(
    12, ("two blanks behind method", b"POST  /hostile HTTP/1.1"),
    ("two blanks behind target", b"POST /hostile  HTTP/1.1"), ("tabs", b"POST\t/hostile\tHTTP/1.1"),
    ("tab behind target", b"POST /hostile\tHTTP/1.1"),
     ("LF as separator", b"POST\n/hostile HTTP/1.1"),
    ("CR as separator", b"POST\r/hostile HTTP/1.1"), ("vertical tab", b"POST\v/hostile HTTP/1.1"),
    ("blank at start", b" POST /hostile HTTP/1.1"), ("blank at end", b"POST /hostile HTTP/1.1 "),
    ("lower-case method", b"post /hostile HTTP/1.1"),
     ("mixed-case method", b"Post /hostile HTTP/1.1"),
    ("method no token", b"PO(ST /hostile HTTP/1.1"),
     ("method beyond ASCII", b"P\xd6ST /hostile HTTP/1.1"),
    ("NUL in method", b"PO\0ST /hostile HTTP/1.1"), ("no method", b"/hostile HTTP/1.1"),
    ("version 1.32", b"POST /hostile HTTP/1.32"), ("version 1.2", b"POST /hostile HTTP/1.2"),
    ("version 2.0", b"POST /hostile HTTP/2.0"), ("version 0.9", b"POST /hostile HTTP/0.9"),
    ("version wraps to 1", b"POST /hostile HTTP/257.1"),
     ("minor wraps to 1", b"POST /hostile HTTP/1.257"),
    ("lower-case protocol", b"POST /hostile http/1.1"), ("no version", b"POST /hostile"),
    ("two versions", b"POST /hostile HTTP/1.1 HTTP/1.1"),
     ("other host", b"POST http://other/hostile HTTP/1.1"),
    ("host with user", b"POST http://u@pawl.test/hostile HTTP/1.1"),
    ("other scheme", b"POST ftp://pawl.test/hostile HTTP/1.1"),
     ("fragment", b"POST /hostile#x HTTP/1.1"),
    ("blank in target", b"POST /hostile x HTTP/1.1"),
     ("target beyond ASCII", b"POST /hostile\xff HTTP/1.1"),
    ("NUL in target", b"POST /hostile\0 HTTP/1.1"),
     ("target without slash", b"POST hostile HTTP/1.1"),
    ("star without OPTIONS", b"POST * HTTP/1.1"),
) + [
    refused(12, "simple request", b"GET /hostile\r\n\r\n", 400, 505),
    refused(12, "preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, 505),
    refused(12, "over-long target", head(start=b"POST /" + b"a" * HEAD_LIMIT + b" HTTP/1.1"),
            414, 431),
    refused(12, "two empty lines first", b"\r\n\r\n" + head(b"Content-Length: 0")),
    passed(12, "one empty line first", b"\r\n" + head(b"Content-Length: 0"), Forwarded()),
    passed(12, "same host in the target",
           head(b"Content-Length: 0", start=b"POST http://pawl.test/hostile HTTP/1.1"),
           Forwarded()),
]

HOSTS = hosts(
    13, ("host absent", b""), ("host twice", b"Host: pawl.test\r\nHost: pawl.test\r\n"),
    ("two hosts", b"Host: pawl.test\r\nHost: other\r\n"), ("host empty", b"Host:\r\n"),
    ("host with user", b"Host: u@pawl.test\r\n"), ("host with NUL", b"Host: pawl\0.test\r\n"),
    ("host behind a tab", b"Host:\tpawl.test\r\n"), ("host with blank", b"Host: pawl .test\r\n"),
     ("host with comma", b"Host: pawl.test, other\r\n"),
    ("host with slash", b"Host: pawl.test/x\r\n"), ("host with port x", b"Host: pawl.test:x\r\n"),
    ("host with two ports", b"Host: pawl.test:1:2\r\n"),
     ("host beyond ASCII", b"Host: p\xe4wl\r\n"),
)

LEGAL_BUT_ODD = [
    passed(14, "expect 100-continue",
           head(b"Expect: 100-continue", b"Content-Length: 5") + b"hello",
           Forwarded(body=b"hello", lacks=(b"expect",))),
    passed(14, "expect in capitals", head(b"Expect: 100-CONTINUE", b"Content-Length: 5") + b"hello",
           Forwarded(body=b"hello", lacks=(b"expect",))),
    Case(14, "odd expect", (head(b"Expect: 200-ok", b"Content-Length: 5") + b"hello",),
         (frozenset({200, 417}),), (Forwarded(body=b"hello", lacks=(b"expect",)),), None),
    passed(14, "GET with expect and body",
           head(b"Expect: 100-continue", b"Content-Length: 5", start=b"GET /hostile HTTP/1.1") +
           b"hello", Forwarded(b"GET", body=b"hello", lacks=(b"expect",))),
    passed(15, "upgrade h2c", head(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c",
                                   b"HTTP2-Settings: AAMAAABkAAQAAP__", b"Content-Length: 0"),
           Forwarded(lacks=(b"upgrade", b"http2-settings"))),
    passed(15, "connection names another field", head(b"Connection: X-Hop", b"X-Hop: 1",
                                                      b"Content-Length: 0"),
           Forwarded(lacks=(b"x-hop",))),
    refused(15, "connection names length", head(b"Connection: Content-Length",
                                                b"Content-Length: 5") + b"hello"),
    refused(15, "connection names coding", head(b"Connection: close, transfer-encoding",
                                                b"Transfer-Encoding: chunked") + b"0\r\n\r\n"),
    refused(15, "connection names host", head(b"Connection: Host", b"Content-Length: 0")),
    refused(15, "connection names key", head(b"Connection: Idempotency-Key", b"Content-Length: 0")),
    refused(15, "connection names authorization",
            head(b"Connection: x", b"Connection: Authorization", b"Content-Length: 0")),
] + [
    passed(16, f"body of {method.decode()} by {name}",
           head(framing, start=method + b" /hostile HTTP/1.1") + body,
           Forwarded(method, body=b"hello", has=seen, lacks=lacks))
    for method, by_chunks in ((b"GET", True), (b"HEAD", True), (b"DELETE", False))
    for name, framing, body in (
        ("length", b"Content-Length: 5", b"hello"),
        ("chunks", b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"))
    # What is ruled goes on with a length, what passes goes on as it came.
    for seen, lacks in ([(((b"transfer-encoding", b"chunked"),), (b"content-length",))]
                        if by_chunks and name == "chunks" else
                        [(((b"content-length", b"5"),), (b"transfer-encoding",))])
]


def key_case(name: str, *values: bytes, ok: bool = False, sent_as: bytes | None = None) -> Case:
    """Keys are judged by the gateway, not by the parser: the connection may live on. `sent_as`: the
    one spelling that the upstream gets, where it is not the client's."""
    lines = b"".join(b"Idempotency-Key:" + value + b"\r\n" for value in values)
    sent = (b"POST /hostile HTTP/1.1\r\nHost: pawl.test\r\n" + lines + b"Content-Length: 0\r\n\r\n")
    if not ok:
        return Case(19, name, (sent,), (frozenset({400}),), (), None)
    seen = Forwarded(has=((b"idempotency-key", sent_as or values[0].strip()),))
    return Case(19, name, (sent,), (frozenset({200}),), (seen,), False)


KEYS = [
    key_case("key absent"), key_case("key empty", b""), key_case("key of blanks", b"  \t"),
    key_case("key empty string", b' ""'), key_case("key twice", b" a-NUMBER", b" a-NUMBER"),
    key_case("two keys", b" a-NUMBER", b" b-NUMBER"), key_case("key list", b" a-NUMBER, b"),
    key_case("key list of strings", b' "a-NUMBER", "b"'), key_case("key of 256", b" " + b"k" * 256),
    key_case("key of 256 in quotes", b' "' + b"k" * 256 + b'"'),
    key_case("key beyond ASCII", b" k\xc3\xa4"), key_case("key with open quote", b' "k'),
    key_case("key beyond ASCII in quotes", b' "k\xc3\xa4"'),
    key_case("key with quote inside", b' k"k'), key_case("key with bad escape", b' "a\\n"'),
    key_case("key with open escape", b' "a\\"'), key_case("junk behind key", b' "a" b'),
    key_case("key with blank", b" a b"), key_case("key with tab in quotes", b' "a\tb"'),
    key_case("key with open parameter", b' "k";'),
    key_case("key of 255", b" " + b"255-NUMBER".ljust(257, b"k"), ok=True),
    key_case("key in quotes", b' "q-NUMBER"', ok=True, sent_as=b"q-NUMBER"),
    key_case("key with escapes", b' "e\\"\\\\-NUMBER"', ok=True),
    key_case("key with parameters", b' "p-NUMBER";a=1;b="x";c', ok=True, sent_as=b"p-NUMBER"),
]

OK = b"HTTP/1.1 200 OK\r\n"
BAD = frozenset({502})


def answer(name: str, sent: bytes, method: bytes = b"POST", **more: object) -> AnswerCase:
    return AnswerCase(name, method, sent, BAD, **more)  # type: ignore[arg-type]


def good(name: str, sent: bytes, status: int, body: bytes, method: bytes = b"POST",
         **more: object) -> AnswerCase:
    return AnswerCase(name, method, sent, frozenset({status}), status < 300, body=body,
                      **more)  # type: ignore[arg-type]


ANSWERS = [
    answer("two lengths", OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!"),
    answer("coding not chunked", OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    answer("coding on 1.0", b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    answer("bare LF", b"HTTP/1.1 200 OK\nContent-Length: 2\r\n\nok"),
    answer("bare CR in value", OK + b"X: a\rContent-Length: 9\r\nContent-Length: 2\r\n\r\nok"),
    answer("NUL in value", OK + b"X: a\0b\r\nContent-Length: 2\r\n\r\nok"),
    answer("folded field", OK + b"X: a\r\n b\r\nContent-Length: 2\r\n\r\nok"),
    answer("blank before colon", OK + b"Content-Length : 2\r\n\r\nok"),
    answer("head of 8 MiB", OK + b"X: " + b"y" * (8 << 20) + b"\r\nContent-Length: 2\r\n\r\nok"),
    answer("too many fields", OK + b"X: y\r\n" * 101 + b"Content-Length: 2\r\n\r\nok"),
    answer("version 2.0", b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    answer("status 99", b"HTTP/1.1 099 Low\r\nContent-Length: 2\r\n\r\nok"),
    answer("status 1000", b"HTTP/1.1 1000 High\r\nContent-Length: 2\r\n\r\nok"),
    answer("not HTTP", b"220 mail.test ESMTP\r\n\r\n"),
    answer("interim flood", b"HTTP/1.1 100 Continue\r\n\r\n" * 10000 + OK +
           b"Content-Length: 2\r\n\r\nok"),
    answer("chunk size bad", OK + b"Transfer-Encoding: chunked\r\n\r\n2x\r\nok\r\n0\r\n\r\n"),
    answer("chunk ended by LF", OK + b"Transfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n"),
    answer("forbidden trailer", OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
                                     b"Content-Length: 9\r\n\r\n"),
    answer("body cut short", OK + b"Content-Length: 9\r\n\r\nok"),
    answer("chunks cut short", OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"),
    answer("nothing", b""),
    good("two equal lengths", OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
    good("length list", OK + b"Content-Length: 2, 2\r\n\r\nok", 200, b"ok"),
    good("length and coding", OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
                                   b"2\r\nok\r\n0\r\n\r\n", 200, b"ok"),
    good("only LFs", b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, b"ok"),
    good("chunks of LFs", OK + b"Transfer-Encoding: chunked\r\n\r\n2 \nok\n0\n\n", 200, b"ok"),
    good("body on 204", b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok", 204, b""),
    good("chunks on 204", b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"
                          b"2\r\nok\r\n0\r\n\r\n", 204, b""),
    good("body on 304", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nok", 304, b"",
         b"GET"),
    good("body on HEAD", OK + b"Content-Length: 2\r\n\r\nok", 200, b"", b"HEAD"),
    good("bytes behind the body", OK + b"Content-Length: 2\r\n\r\nok" + OK +
         b"Content-Length: 4\r\n\r\nevil", 200, b"ok"),
    good("answer before the body's end", OK + b"Content-Length: 2\r\n\r\nok", 200, b"ok",
         early=True),
    good("few interim answers", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" +
         OK + b"Content-Length: 2\r\n\r\nok", 200, b"ok", reusable=True),
    good("length 0 on 204", b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", 204, b"",
         reusable=True),
]

VALID = head(b"Content-Length: 5", key=b"first") + b"hello"
VALID_SEEN = Forwarded(body=b"hello")


def behind_valid(case: Case, item: int) -> Case:
    """Item 17: in one write with a valid request. Item 20: when that was answered."""
    steps = (VALID + case.steps[0],) if item == 17 else (VALID, case.steps[0])
    due = () if item == 17 else (1,)
    return replace(case, item=item, name=f"{case.item:02d} {case.name}", steps=steps,
                   answers=(frozenset({200}), *case.answers),
                   forwarded=(VALID_SEEN, *case.forwarded), answers_due=due)


def requests() -> Iterator[Case]:
    """All cases of a client, each with keys of its own. Items 17 and 20 repeat the refused ones."""
    alone = [*CONTENT_LENGTH, *LENGTH_AND_CODING, *TRANSFER_ENCODING, *CHUNKS, *FIELD_LINES,
             *REQUEST_LINES, *HOSTS, *LEGAL_BUT_ODD, *KEYS]
    closing = [case for case in alone if case.closed]
    behind = [behind_valid(case, item) for item in (17, 20) for case in closing]
    for number, case in enumerate(alone + behind):
        tag = b"%04d" % number
        seen = tuple(replace(f, has=tuple((n, v.replace(b"NUMBER", tag)) for n, v in f.has))
                     for f in case.forwarded)
        yield replace(case, steps=tuple(s.replace(b"NUMBER", tag) for s in case.steps),
                      forwarded=seen)


def answers() -> Iterator[AnswerCase]:
    """All cases of an upstream."""
    yield from ANSWERS
