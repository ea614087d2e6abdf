# SPDX-License-Identifier: Apache-2.0
"""Operations whose gateway may die at any moment, and what must hold of them afterwards."""
from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from pawltest.gateway import READY, Clock, Gateway
from pawltest.upstream import Reply, Upstream, say
from pawltest.wire import Answer, Broken, Headers, Request, eventually

LEASE = 30
SETTLE = 5
TTL = 600
ANSWERED = ("stored", "replayed")

_RULE = f"""
tenant: none
cache: 0
defaults: {{lease: {LEASE}s, timeout: 60s, ttl: {TTL}s, in_progress: conflict}}
rules:
  - name: refunds.create
    match: POST /refunds
"""
_PROBE = _RULE + f'''    unknown: {{probe: "GET /refunds/by-key/{{key}}"}}
    probe_status: 201
    settle: {SETTLE}s
'''
CONFIGS = {
    "hold": _RULE + "    unknown: hold\n",
    "probe": _PROBE,
    # No attempt repeats a key: what must not happen twice is known by the body alone.
    "once": _PROBE + f'    once: {{key: "{{body:/of}}", ttl: {TTL}s, duplicate: replay}}\n',
}


BY_KEY = ("hold", "probe")  # policies whose operations are known by their key


def died(gateway: Gateway) -> bool:
    return gateway.process is None or gateway.process.poll() is not None


def start_or_die(gateway: Gateway, **environment: str) -> bool:
    """Starts one that may die before it is ready; whether it came so far."""
    begin = len(gateway.printed)
    gateway._spawn(environment)  # pylint: disable=protected-access
    eventually(lambda: died(gateway) or any(READY.match(line) for line in gateway.printed[begin:]),
               "the ready line or its end")
    return not died(gateway)


class Operations:
    """Sends operations k0, k1, ... and keeps what was answered; the upstream can be asked by key
    whether it did them."""

    def __init__(self, gateway: Gateway, upstream: Upstream, clock: Clock, policy: str):
        self.gateway, self.upstream, self.clock, self.policy = gateway, upstream, clock, policy
        self.sent: dict[str, tuple[Any, Headers]] = {}
        self.answered: dict[str, Answer] = {}  # outcomes that were told
        self.reply: Reply | None = None  # the answer to an effect, once for each key
        self._met: set[str] = set()
        self._attempts = 0
        upstream.default = self._serve

    def _serve(self, request: Request) -> Reply:
        key = request["Idempotency-Key"] or ""
        if request.method == "GET":
            known = any(done["Idempotency-Key"] == key for done in self.upstream.done)
            return say(200, {"found": key}) if known else say(404)
        name = self._name(request)
        first = name not in self._met
        self._met.add(name)
        if self.reply and first:
            return self.reply
        return self.upstream.created(request)

    def _name(self, request: Request) -> str | None:
        """Of the operation that it belongs to."""
        return request.json["of"] if self.policy == "once" else request["Idempotency-Key"]

    def effects(self, key: str) -> int:
        return sum(self._name(done) == key for done in list(self.upstream.done))

    def _client_key(self, key: str) -> str:
        self._attempts += 1
        return f"{key}.{self._attempts}" if self.policy == "once" else key

    def _attempt(self, key: str) -> Answer | None:
        body, headers = self.sent[key]
        try:
            return eventually(lambda: self._decided(self.gateway.post(
                "/refunds", body, key=self._client_key(key), headers=headers)), "an answer")
        except (Broken, OSError):
            return None

    @staticmethod
    def _decided(answer: Answer) -> Answer | None:
        """A batch under way while the clock jumps looks endless: the client comes again."""
        return None if answer["Error-Code"] == "DEPENDENCY.store_unavailable" else answer

    def send(self, key: str, body: Any = None, headers: Headers = ()) -> Answer | None:
        """None: no answer, or not all of it."""
        self.sent[key] = ({"of": key, **(body or {})}, headers)
        answer = self._attempt(key)
        if answer is not None and answer["Idempotency-Status"] in ANSWERED:
            self.answered[key] = answer
        return answer

    def send_until_death(self, most: int, body: Any = None) -> None:
        for i in range(most):
            if died(self.gateway):
                return
            self.send(f"k{i}", body)
        eventually(lambda: died(self.gateway), "its death")

    # ---- afterwards, on a gateway that runs again ----

    def retry(self, key: str) -> Answer:
        answer = self._attempt(key)
        assert answer is not None, f"no answer to the retry of {key}"
        assert self.effects(key) <= 1, f"{key} was done {self.effects(key)} times"
        if key in self.answered:
            assert answer.kept == self.answered[key].kept, f"the answer to {key} is lost"
        return answer

    def check_retry(self, key: str) -> None:
        """A retry after the crash: the dead owner's lease stops nobody."""
        answer = self.retry(key)
        assert answer.status == 201 or answer["Error-Code"] in (
            "CONFLICT.idempotency.outcome_unknown", "CONFLICT.idempotency.result_not_kept",
            "TRANSIENT.upstream_broke"), answer.head

    def check_settled(self, key: str) -> None:
        """A retry after the lease and the time to settle."""
        answer = self.retry(key)
        if answer["Error-Code"] == "CONFLICT.idempotency.result_not_kept":
            assert self.effects(key) == 1
        elif self.policy != "hold" or answer.status == 201:
            assert (answer.status, self.effects(key)) == (201, 1), answer.head
        else:
            assert answer.is_problem(409, "CONFLICT.idempotency.outcome_unknown")

    def check_all(self) -> None:
        self.reply = None
        for key in self.sent:
            self.check_retry(key)
        self.clock.advance(LEASE + SETTLE + 1)
        for _ in range(2):
            for key in self.sent:
                self.check_settled(key)
        with closing(sqlite3.connect(self.gateway.store)) as shell:
            assert shell.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
