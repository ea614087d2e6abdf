# SPDX-License-Identifier: Apache-2.0
"""What each contender keeps and what it loses, in words for the table; and whether it does, before
it is measured: figures of one that repeats effects would be no figures."""
from __future__ import annotations

import http.client
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from loads import upstream_count
from servers import Failure, Server, Stage

AT_ONCE = 8


@dataclass(frozen=True)
class Promise:
    """`name` is what the rows begin with; `fields` are those that a replay has as the first
    response had them."""
    name: str
    keeps: str
    fields: tuple[str, ...] = ("Content-Type", "Location")
    compares: bool = True  # a known key with another payload is refused
    is_kept: bool = True  # beyond `kill -9` of all its processes
    syncs: bool = True  # claim and response, each before the next step

    @property
    def is_peer(self) -> bool:
        return self.name not in ("pawl", "floor")

    @property
    def server(self) -> str:
        return self.name.replace("-", "_")


PROMISES = {promise.server: promise for promise in (
    Promise("pawl", "claim and response, each synced before the next step. An attempt that died is "
            "told apart and settled"),
    Promise("floor", "the same two commits by the shortest program; its head says what it leaves "
            "out, as payloads, attempts that died, expiry", compares=False),
    Promise("express-idempotency", "all of it in its own memory: lost with the process, and then "
            "every key runs again", fields=("Content-Type",), is_kept=False, syncs=False),
    Promise("node-idempotency", "claim and response in Redis, each synced. An attempt that died is "
            "in progress for a day, then it runs again"),
    Promise("nginx-lua", "claim and response in Redis, each synced, by 40 lines of Lua. An attempt "
            "that died is refused for a day, then it runs again"),
    Promise("express-postgres", "claim and response in a table written by hand, each commit "
            "synced. An attempt that died is refused for ever; nothing expires"),
)}


@dataclass(frozen=True)
class Answer:
    status: int
    fields: tuple[str | None, ...]
    body: bytes


def ask(server: Server, promise: Promise, key: str, amount: int = 1) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("POST", "/payments", f'{{"order": "{key}", "amount": {amount}}}',
                       {"Content-Type": "application/json", "Idempotency-Key": key})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return Answer(answer.status, tuple(map(answer.getheader, promise.fields)), body)


def check_promise(stage: Stage, promise: Promise) -> None:
    """A first attempt made by several at once reaches the upstream once, and all that get a
    response get the same one; so does whoever comes later, after the death of all its processes,
    too."""
    server, upstream, key = stage.servers[promise.server], stage.servers["upstream"], \
        secrets.token_hex(12)

    def demand(is_so: bool, what: str) -> None:
        if not is_so:
            raise Failure(f"{promise.name} does not keep what its row says: {what}")

    count = upstream_count(upstream)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda _: ask(server, promise, key), range(AT_ONCE)))
    told = {answer for answer in answers if answer.status < 300}
    demand(upstream_count(upstream) == count + 1 and len(told) == 1,
           f"{AT_ONCE} at once under one key: {answers}")
    first = told.pop()
    demand(ask(server, promise, key) == first, "a replay is another response")
    if promise.compares:
        demand(ask(server, promise, key, amount=2).status >= 400, "another payload was not refused")
    if promise.is_kept:
        server.kill()
        if server.beside:
            server.beside.kill()
            server.beside.start()
        server.start()
        demand(ask(server, promise, key) == first, "after kill -9 a replay is another response")
    time.sleep(0.1)
    demand(upstream_count(upstream) == count + 1, "the upstream saw a key more than once")


def promises_text(rows: list[str]) -> list[str]:
    lines = ["what each keeps"]
    for promise in PROMISES.values():
        if any(row.startswith(f"{promise.name} ") for row in rows):
            lines.append(f"  {promise.name:<25} {promise.keeps}")
    return lines
