# SPDX-License-Identifier: Apache-2.0
"""Responses that are refused: what was wrong is named to whoever can mend it, and no value is."""
from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pawltest.gateway import PAWL
from pawltest.upstream import Reply, Upstream, say
from pawltest.wire import Broken, eventually
from test_cli_keys import Operator

pytestmark = pytest.mark.no_store

CONFIG = """
tenant: none
rules:
  - {name: held, match: POST /held}
  - {name: asked, match: POST /asked, unknown: {probe: "GET /asked/{key}"}, settle: 0s}
  - {name: allowed, match: POST /allowed, authorize: GET /may}
  - {name: streamed, match: POST /streamed, stream: true}
"""

OK = b"HTTP/1.1 201 Created\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
VALUE = "a header field value contains a control byte or a misplaced tab"
LINE_END = "a line does not end with CR LF, or contains a bare CR or NUL"
NAME = "a header field name is not a token, or has _ instead of -"
LENGTH = "Content-Length is not one decimal number"
CODING = "Transfer-Encoding is not exactly one `chunked`"
REFUSED = [
    (OK + b"X-Trace: s3cret\x01\r\n\r\n", f"{VALUE}: X-Trace, byte 0x01"),
    (OK + b"X-Trace: s3cret\x7f\r\n\r\n", f"{VALUE}: X-Trace, byte 0x7f"),
    (OK + b"X-Trace: s3\0cret\r\n\r\n", f"{LINE_END}: X-Trace, byte 0x00"),
    (OK + b"X: a\r\n s3cret\r\n\r\n", "a header field is folded over two lines: X"),
    (OK + b"X Y: s3cret\r\n\r\n", f'{NAME}: "X Y", byte 0x20'),
    (OK + b"no colon here, but for more than 20 s3cret\r\n\r\n",
     f'{NAME}: "no colon here, but f", byte 0x20'),
    (OK + b"X: s3cret\n\r\n", "some lines end with CR LF, and others with LF: X"),
    (OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", LENGTH),
    (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n", CODING),
    (OK + b"X: s3cret\r\n" * 101 + b"\r\n", "too many header fields: X"),
    (b"HTTP/1.1 099 Low\r\n\r\n", 'malformed status line: "HTTP/1.1 099 Low"'),
    (CHUNKED + b"2x\r\n{}\r\n0\r\n\r\n", "malformed chunk, byte 0x78"),
    (CHUNKED + b"2\r\n{}\r\n0\r\nHost: s3cret\r\n\r\n",
     "malformed or forbidden trailer: Host, byte 0x3a"),
]
KINDS = ["field value", "field value", "line end", "folded line", "field name", "field name",
         "line end", "Content-Length", "Transfer-Encoding", "headers too large", "status line",
         "chunk", "trailer"]  # of each, as its record keeps it
SENT, TEXT = REFUSED[0]


def malformed(sent: bytes) -> Reply:
    return Reply(raw=sent)


def named(gateway: Any, event: str) -> list[str]:
    return [line["malformed"] for line in gateway.log if line["event"] == event
            and "malformed" in line]


def test_what_was_refused_is_named_in_the_log_and_to_the_client(pawl, upstream: Upstream):
    """found: L1"""
    gateway = pawl(CONFIG)
    for n, (sent, text) in enumerate(REFUSED):
        upstream.then(malformed(sent))
        first = gateway.post("/held", {}, f"k{n}")
        assert first.is_problem(502, "TRANSIENT.upstream_malformed"), text
        assert first.json["detail"] == text
        assert not first.json["retryable"] and not first.json["safe_new_key"]
        assert first["Idempotency-Status"] == "unknown"
        again = gateway.post("/held", {}, f"k{n}")
        assert again.is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert len(upstream.requests) == len(REFUSED)
    texts = [text for _, text in REFUSED]
    eventually(lambda: named(gateway, "request") == texts, "what was wrong with each")
    assert "s3cret" not in str(gateway.log)
    causes = {row["key"]: row["cause"] for row in Operator(gateway).list()}
    assert [causes[f"k{n}"] for n in range(len(REFUSED))] == [f"malformed: {kind}"
                                                              for kind in KINDS]


@pytest.mark.parametrize("status", [600, 999])
def test_a_status_that_nobody_knows_is_in_doubt(pawl, upstream, status):
    gateway = pawl(CONFIG.replace("POST /held", "POST /held, remember: all"))
    upstream.then(say(status, {"id": 1}))
    first = gateway.post("/held", {}, "k1")
    assert first.mark == (status, "unknown")
    assert gateway.post("/held", {}, "k1").status == 409
    upstream.on("GET", "/may", say(status))
    answer = gateway.post("/allowed", {}, "k2")
    assert answer.is_problem(503, "DEPENDENCY.unavailable")
    assert len(upstream.requests) == 2


def test_who_asks_the_service_names_it_too(pawl, upstream):
    """A probe that is malformed finds nothing out; `authorize` lets nobody act."""
    gateway = pawl(CONFIG)
    upstream.on("GET", "/asked/k1", malformed(SENT))
    upstream.then(malformed(REFUSED[1][0]))
    first = gateway.post("/asked", {}, "k1")
    assert first.is_problem(502, "TRANSIENT.upstream_malformed")
    upstream.on("GET", "/may", malformed(SENT))
    assert gateway.post("/allowed", {}, "k2").is_problem(503, "DEPENDENCY.unavailable")
    eventually(lambda: named(gateway, "request") == [TEXT, TEXT], "both")
    upstream.on("GET", "/asked/k1", say(200, {"id": 1}))
    assert gateway.post("/asked", {}, "k1")["Idempotency-Status"] == "stored"


def test_what_passes_without_a_rule_is_named_whole_or_begun(pawl, upstream):
    gateway = pawl(CONFIG)
    upstream.then(malformed(SENT), malformed(REFUSED[-2][0]), malformed(REFUSED[-2][0]))
    answer = gateway.request("POST", "/other")
    assert answer.is_problem(502, "TRANSIENT.upstream_malformed")
    assert answer.json["detail"] == TEXT
    for path in ("/other", "/streamed"):
        with pytest.raises(Broken):
            gateway.request("POST", path, [("Idempotency-Key", "k1")])
    eventually(lambda: named(gateway, "pass") == [TEXT, "malformed chunk, byte 0x78"], "both")
    eventually(lambda: named(gateway, "request") == ["malformed chunk, byte 0x78"], "the stream")


def test_a_command_says_what_was_wrong(tmp_path: Path, upstream):
    upstream.default = lambda _: malformed(SENT)
    (tmp_path / "sent").mkdir()
    ran = subprocess.run(
        [PAWL, "send", "--store", tmp_path / "sent" / "pawl.db", "--attempts",
         tmp_path / "attempts.csv", "--json", "{}", "--key", "5e1d3f0a-0000-4000-8000-000000000001",
         "--profile", "webhook", "--deadline", "4", f"http://127.0.0.1:{upstream.port}/refunds"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=os.environ)
    assert ran.returncode == 76
    assert f"malformed: {TEXT}" in ran.stderr, ran.stderr
    assert f"malformed: {TEXT}" in (tmp_path / "attempts.csv").read_text("utf-8")
