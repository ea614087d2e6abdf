# SPDX-License-Identifier: Apache-2.0
"""2,000 queued operations, and a night in which each hour brings another failure: nothing dies of
it. What happens when is counted in requests and moved hours, so that no run depends on a machine's
speed."""
from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from pawltest.gateway import Clock, make_store
from pawltest.upstream import Reply, Upstream, resets, say
from pawltest.wire import Request
from test_queue import lines
from test_queue_drain import Drained, write_token

pytestmark = [pytest.mark.hooks, pytest.mark.file_only]

HOUR, GROUPS, OPERATIONS = 3600, 50, 2000
WORKS = 200  # requests of an hour until what it brings
# What each hour brings, and where its drain is killed.
NIGHT = [("503", None), ("503", "inside_batch:20"), ("401", None), ("401", None),
         ("reset", "after_response_body:90"), ("reset", None), ("429", None),
         ("429", "after_claim_commit:60"), ("503", "before_outcome_commit:70"), ("503", None),
         ("429", "before_connect:80"), ("reset", None)]


class Service:
    """It does nothing twice under one key."""

    def __init__(self, clock: Clock):
        self.clock = clock
        self.hour, self.asked, self.token = "fine", 0, "old"
        self.done: dict[str, int] = {}  # each key's body, in the order in which they were done
        self.wait: dict[str, float] = {}  # until when each key was told to
        self.early = 0
        self.met: Counter[str] = Counter()

    def begin(self, hour: str) -> None:
        self.hour, self.asked = hour, 0
        self.token = "new" if hour == "401" else self.token

    def reply(self, request: Request) -> Reply:
        key = request["Idempotency-Key"]
        self.early += self.clock.offset < self.wait.get(key, 0)
        self.asked += 1
        if request["Authorization"] != self.token:
            return self.met_by("401", say(401, effect=False))
        if self.asked > WORKS and self.hour != "fine":
            return self.fail(key)
        again = key in self.done
        self.done.setdefault(key, int(request.body))
        if self.hour == "reset" and self.asked % 10 == 0:
            return self.met_by("lost", resets(effect=not again))
        return say(201, {"key": key}, effect=not again)

    def fail(self, key: str) -> Reply:
        if self.hour == "429":
            seconds = HOUR // 2 if self.asked % 2 else HOUR * 3 // 2  # an hour later half wait on
            self.wait[key] = self.clock.offset + seconds
            return self.met_by("429", say(429, None, ("Retry-After", str(seconds)), effect=False))
        return self.met_by(self.hour, resets(effect=False) if self.hour == "reset"
                           else say(503, effect=False))

    def met_by(self, name: str, reply: Reply) -> Reply:
        self.met[name] += 1
        return reply


def keep_order(done: dict[str, int]) -> bool:
    """Each group's were done in the order in which they were added."""
    orders = [[n for n in done.values() if n % GROUPS == group] for group in range(GROUPS)]
    return all(order == sorted(order) for order in orders)


def test_two_thousand_operations_survive_a_night(tmp_path: Path, clock: Clock, upstream: Upstream):
    """found: J2."""
    queue, token = Drained(make_store(tmp_path / "queue.db"), clock, upstream), tmp_path / "token"
    service = Service(clock)
    upstream.default = service.reply
    write_token(token, service.token)
    added = queue.did("add", "-", "-H", f"@{token}", input=lines(*[
        {"url": queue.url, "json": n, "group": f"g{n % GROUPS}"} for n in range(OPERATIONS)]))
    keys = [line.split()[1] for line in added.splitlines()]
    for hour, point in NIGHT:
        service.begin(hour)
        if hour != "401":
            write_token(token, service.token)
        ran = queue.run("drain", "--once", crash={"PAWL_CRASH_AT": point} if point else {})
        assert ran.returncode == (-signal.SIGKILL if point else 75), ran
        assert ran.stderr.endswith(f"(401); renew {token}\n" if hour == "401" else "")
        clock.advance(HOUR)
    service.begin("fine")
    queue.drain()
    states = Counter(row["state"] for row in queue.list("--limit", "9999"))
    assert states == {"done": OPERATIONS}
    assert sorted(service.done, key=keys.index) == keys and upstream.effects() == OPERATIONS
    assert keep_order(service.done) and service.early == 0
    assert all(service.met[name] for name in ("401", "503", "429", "reset", "lost"))
