# SPDX-License-Identifier: Apache-2.0
"""The order of a running gateway's system calls: what is told was synced to disk before."""
from __future__ import annotations

import re

import pytest

from operations import CONFIGS, Operations
from test_store_faults import Traced
from pawltest.upstream import closes, say

pytestmark = [pytest.mark.hooks, pytest.mark.strace]

SYNCED = re.compile(r"fdatasync(\(| resumed).* = 0$")
OPERATIONS = 12


def events(log: str) -> str:
    """W: bytes for the store, S: they were synced, R: a request begins to leave for the upstream,
    A: an answer begins to leave for the client."""
    found = []
    for line in log.splitlines():
        if " pwrite64(" in line:
            found.append("W")
        elif SYNCED.search(line):
            found.append("S")
        elif '"POST /refunds' in line:
            found.append("R")
        elif '"HTTP/1.1 ' in line:
            found.append("A")
    return "".join(found)


@pytest.mark.parametrize("kind", ["stored", "released", "unknown"])
def test_a_claim_is_on_disk_before_the_request_leaves_and_an_outcome_before_its_answer(
        pawl, upstream, clock, kind):
    operations = Operations(pawl(CONFIGS["hold"]), upstream, clock, "hold")
    operations.send("told")
    with Traced(operations.gateway, "pwrite64,fdatasync,write,writev,sendto,sendmsg") as traced:
        for i in range(OPERATIONS):
            if kind != "stored":
                upstream.then(closes() if kind == "unknown" else say(503, effect=False))
            answer = operations.gateway.post("/refunds", {}, key=f"k{i}")
            assert answer["Idempotency-Status"] == kind
    order = events(traced.log.read_text("utf-8"))
    assert re.fullmatch(r"((W+S)+R(W+S)+A){%d}[WS]*" % OPERATIONS, order), order
