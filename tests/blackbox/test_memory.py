# SPDX-License-Identifier: Apache-2.0
"""Memory is bounded, also where understanding a body takes much more than the body."""
from __future__ import annotations

import threading

import pytest

from conftest import CONFIG
from test_limits import is_sanitized
from pawltest.upstream import say

pytestmark = pytest.mark.no_store


def peak_kib(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def test_bodies_that_are_costly_to_understand_are_not_held_understood(pawl, upstream):
    """One body of 1 MiB takes about 32 MiB as a JSON tree; forty wait here at once. Where memory is
    a sanitizer's, ten show that nothing breaks."""
    gateway = pawl(CONFIG + "    timeout: 1h\n")
    n = 10 if is_sanitized(gateway) else 40
    gate = upstream.gate()
    upstream.then(*[say(201, {}, gate=gate) for _ in range(n)])
    body = b"[" + b"1," * 520_000 + b"1]"
    headers = [("Content-Type", "application/json")]
    answers = []

    def ask(i):
        answers.append(gateway.request("POST", "/refunds",
                                       [*headers, ("Idempotency-Key", f"k{i}")], body).status)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    gate.wait_for(n)
    peak = peak_kib(gateway.process.pid)
    gate.open()
    for thread in threads:
        thread.join()
    assert len(answers) == n and set(answers) == {201}
    assert peak < 900 * 1024  # forty trees are 1,280 MiB, and a sanitizer keeps freed ones a while
