# SPDX-License-Identifier: Apache-2.0
"""Responses that are odd, or that two receivers could read in two ways. Only data: each is what an
upstream sends, as a whole, for one POST."""
from __future__ import annotations

from dataclasses import dataclass

GOOD = b"HTTP/1.1 201 Created\r\n"
LENGTH = b"Content-Length: 2\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
BODY = b"{}"
CHUNKS = b"2\r\n{}\r\n0\r\n\r\n"
WHOLE = GOOD + LENGTH + b"\r\n" + BODY


@dataclass(frozen=True)
class Odd:
    name: str
    sent: bytes
    closes: bool = False  # its end is the connection's


def fields(name: str, *lines: bytes, start: bytes = GOOD, body: bytes = BODY, **more: bool) -> Odd:
    return Odd(name, start + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body, **more)


def start(name: str, line: bytes) -> Odd:
    return Odd(name, line + b"\r\n" + LENGTH + b"\r\n" + BODY)


def chunks(name: str, body: bytes) -> Odd:
    return Odd(name, GOOD + CHUNKED + b"\r\n" + body)


def value(name: str, line: bytes) -> Odd:
    return Odd(name, GOOD + line + b"\r\n" + LENGTH + b"\r\n" + BODY)


LENGTHS = [
    fields("two equal lengths", b"Content-Length: 2", b"Content-Length: 2"),
    fields("three equal lengths", *[b"Content-Length: 2"] * 3),
    fields("length list", b"Content-Length: 2, 2"),
    fields("length list without blanks", b"Content-Length: 2,2"),
    fields("length list and line", b"Content-Length: 2, 2", b"Content-Length: 2"),
    fields("two lengths", b"Content-Length: 2", b"Content-Length: 3"),
    fields("list of two lengths", b"Content-Length: 2, 3"),
    fields("lengths of other digits", b"Content-Length: 2", b"Content-Length: 02"),
    fields("length list with an empty member", b"Content-Length: 2,"),
    fields("length +2", b"Content-Length: +2"),
    fields("length 0x2", b"Content-Length: 0x2"),
    fields("length empty", b"Content-Length:"),
    fields("length -2", b"Content-Length: -2"),
]

CODINGS = [
    fields("length, then coding", b"Content-Length: 2", CHUNKED[:-2], body=CHUNKS),
    fields("coding, then length", CHUNKED[:-2], b"Content-Length: 2", body=CHUNKS),
    fields("wrong length beside coding", b"Content-Length: 99", CHUNKED[:-2], body=CHUNKS),
    fields("two lengths beside coding", b"Content-Length: 2", b"Content-Length: 3", CHUNKED[:-2],
           body=CHUNKS),
    fields("length x beside coding", b"Content-Length: x", CHUNKED[:-2], body=CHUNKS),
    fields("length and coding on 1.0", b"Content-Length: 2", CHUNKED[:-2], body=CHUNKS,
           start=b"HTTP/1.0 201 Created\r\n"),
    fields("coding on 1.0", CHUNKED[:-2], body=CHUNKS, start=b"HTTP/1.0 201 Created\r\n"),
    fields("identity", b"Transfer-Encoding: identity", closes=True),
    fields("identity beside a length", b"Transfer-Encoding: identity", b"Content-Length: 2"),
    fields("identity, chunked", b"Transfer-Encoding: identity, chunked", body=CHUNKS),
    fields("chunked twice", CHUNKED[:-2], CHUNKED[:-2], body=CHUNKS),
    fields("chunked list", b"Transfer-Encoding: chunked, chunked", body=CHUNKS),
    fields("gzip, chunked", b"Transfer-Encoding: gzip, chunked", body=CHUNKS),
    fields("coding in capitals", b"TRANSFER-ENCODING: CHUNKED", body=CHUNKS),
]

LINE_ENDS = [
    Odd("head of LFs", WHOLE.replace(b"\r\n", b"\n")),
    Odd("head and chunks of LFs", (GOOD + CHUNKED + b"\r\n" + CHUNKS).replace(b"\r\n", b"\n")),
    Odd("head of LFs before chunks", (GOOD + CHUNKED + b"\r\n").replace(b"\r\n", b"\n") + CHUNKS),
    Odd("LF ends the status line", WHOLE.replace(b"\r\n", b"\n", 1)),
    Odd("LF ends a field", GOOD + b"Content-Length: 2\n\r\n" + BODY),
    Odd("LF ends the head", GOOD + LENGTH + b"\n" + BODY),
    Odd("CR LF in a head of LFs", b"HTTP/1.1 201 Created\nContent-Length: 2\r\n\n" + BODY),
    value("CR in a value", b"X: a\rb"),
    value("CR before CR LF", b"X: a\r"),
    value("NUL in a value", b"X: a\0b"),
]

CHUNKINGS = [
    chunks("chunks of LFs", CHUNKS.replace(b"\r\n", b"\n")),
    chunks("LF ends a size", b"2\n{}\r\n0\r\n\r\n"),
    chunks("LF ends the data", b"2\r\n{}\n0\r\n\r\n"),
    chunks("LF ends the body", b"2\r\n{}\r\n0\r\n\n"),
    chunks("blank behind a size", b"2 \r\n{}\r\n0 \r\n\r\n"),
    chunks("tab behind a size", b"2\t\r\n{}\r\n0\r\n\r\n"),
    chunks("16 blanks behind a size", b"2" + b" " * 16 + b"\r\n{}\r\n0\r\n\r\n"),
    chunks("17 blanks behind a size", b"2" + b" " * 17 + b"\r\n{}\r\n0\r\n\r\n"),
    chunks("blank before an extension", b"2 ;a=b\r\n{}\r\n0\r\n\r\n"),
    chunks("blank before a size", b" 2\r\n{}\r\n0\r\n\r\n"),
    chunks("seventeen digits", b"0" * 16 + b"2\r\n{}\r\n0\r\n\r\n"),
    chunks("size 0x2", b"0x2\r\n{}\r\n0\r\n\r\n"),
    chunks("trailer length", b"2\r\n{}\r\n0\r\nContent-Length: 9\r\n\r\n"),
    chunks("trailer without colon", b"2\r\n{}\r\n0\r\nX\r\n\r\n"),
    chunks("trailer folded", b"2\r\n{}\r\n0\r\nX: a\r\n b\r\n\r\n"),
]

STATUS_LINES = [
    start("two blanks before the status", b"HTTP/1.1  201 Created"),
    start("two blanks behind the status", b"HTTP/1.1 201  Created"),
    start("8 blanks in the status line", b"HTTP/1.1" + b" " * 7 + b"201 Created"),
    start("9 blanks in the status line", b"HTTP/1.1" + b" " * 8 + b"201 Created"),
    start("tab before the status", b"HTTP/1.1\t201 Created"),
    start("blank before the version", b" HTTP/1.1 201 Created"),
    start("version in lower case", b"http/1.1 201 Created"),
    start("version 1.2", b"HTTP/1.2 201 Created"),
    start("version 2.0", b"HTTP/2.0 201 Created"),
    start("status without a reason", b"HTTP/1.1 201"),
    start("status 600", b"HTTP/1.1 600 Created"),
    start("status 999", b"HTTP/1.1 999 Created"),
    start("status 099", b"HTTP/1.1 099 Created"),
    start("status of four digits", b"HTTP/1.1 2010 Created"),
    start("status 20x", b"HTTP/1.1 20x Created"),
    start("control byte in the reason", b"HTTP/1.1 201 Crea\x01ted"),
    Odd("no status line", BODY, closes=True),
    Odd("CR LF first", b"\r\n" + WHOLE),
    Odd("LF first", b"\n" + WHOLE.replace(b"\r\n", b"\n")),
    Odd("two CR LF first", b"\r\n\r\n" + WHOLE),
    Odd("interim of two blanks", b"HTTP/1.1  103 Early Hints\r\n\r\n" + WHOLE),
    Odd("interim of LFs", b"HTTP/1.1 103 Early Hints\n\n" + WHOLE),
    Odd("interim with a bad field", b"HTTP/1.1 103 Early Hints\r\nX Y: a\r\n\r\n" + WHOLE),
    Odd("CR LF behind an interim", b"HTTP/1.1 103 Early Hints\r\n\r\n\r\n" + WHOLE),
]

FIELDS = [
    value("control byte in a value", b"X: a\x01b"),
    value("DEL in a value", b"X: a\x7fb"),
    value("folded", b"X: a\r\n b"),
    value("no colon", b"Content-Typ text/plain"),
    value("blank before the colon", b"X : a"),
    value("blank in a name", b"X Y: a"),
    value("name empty", b": a"),
    value("name beyond ASCII", b"X\xc3\xa4: a"),
    value("120 lines", b"\r\n".join([b"X: a"] * 120)),
    value("line of 80 KiB", b"X: " + b"a" * 80 * 1024),
]

RESPONSES = [*LENGTHS, *CODINGS, *LINE_ENDS, *CHUNKINGS, *STATUS_LINES, *FIELDS]
