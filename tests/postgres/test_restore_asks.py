# SPDX-License-Identifier: Apache-2.0
"""A backup is restored under three gateways whose rule asks the service before it sends: what was
done after the backup, and is asked for again, is not done again. With $PAWL_TEST_OPERATIONS as many
operations (300)."""
from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pawltest.gateway import Gateway, run
from pawltest.upstream import Reply, say
from pawltest.wire import Answer, Request, eventually
from server import Database
from test_restore import run_shown, shown

CONFIG = """
tenant: none
threads: 1
rules:
  - name: refunds.create
    match: POST /refunds
    lease: 2s
    settle: 1s
    unknown: {probe: "GET /refunds/by-key/{key}"}
"""
N = int(os.environ.get("PAWL_TEST_OPERATIONS", "300"))


class Service:
    """It finds what it did by the key."""

    def __init__(self) -> None:
        self.made: dict[str, list[str]] = {}

    def __call__(self, request: Request) -> Reply:
        key = request["Idempotency-Key"]
        if request.method == "GET":
            return say(200, {"id": self.made[key][0]}) if key in self.made else say(404, {})
        ids = self.made.setdefault(key, [])
        ids.append(f"re_{key}_{len(ids)}")
        return say(201, {"id": ids[-1]})


def tell(gateway: Gateway, key: str) -> Answer:
    def told() -> Answer | None:
        answer = gateway.post("/refunds", {"of": key}, key=key)
        assert answer.status in (200, 201) or answer["Error-Code"] in (
            "DEPENDENCY.unproved", "CONFLICT.idempotency.in_progress"), answer
        return answer if answer.status < 300 else None

    return eventually(told, f"an outcome of {key}")


def tell_all(gateways: list[Gateway], keys: list[str]) -> dict[str, Any]:
    """By one gateway after the other, eight at once."""
    with ThreadPoolExecutor(8) as pool:
        coming = {key: pool.submit(tell, gateways[i % len(gateways)], key)
                  for i, key in enumerate(keys)}
        return {key: answer.result().json["id"] for key, answer in coming.items()}


@pytest.mark.parametrize("first", ["restored", "always"])
def test_nothing_that_was_done_after_the_backup_is_done_again(pawl, upstream, server, database,
                                                              tmp_path, first):
    service = upstream.default = Service()
    config = CONFIG.replace("{key}\"}", "{key}\", first: %s}" % first)
    three = [pawl(config) for _ in range(3)]
    before = tell_all(three, [f"before-{i}" for i in range(20)])
    since = server.sql("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')")
    dump, create, restore = shown("pg_dump")
    restored = Database(server, f"{database.name}_restored")
    run_shown(server, re.sub("pawl$", database.name, dump), tmp_path)
    after = tell_all(three, [f"after-{i}" for i in range(N)])
    for gateway in three:
        assert gateway.stop() == 0
    for command in (create, restore):
        run_shown(server, command.replace("pawl_restored", restored.name), tmp_path)
    marked = run("store", "restored", "--since", since[0][0], "--store", restored.url)
    assert marked.returncode == 0, marked
    for gateway in three:
        gateway.move_to(restored.url).start()
    again = tell_all(three[1:] + three[:1], [*after, *before, *(f"new-{i}" for i in range(20))])
    assert {key: again[key] for key in [*after, *before]} == {**after, **before}
    assert len(service.made) == N + 40
    assert {len(ids) for ids in service.made.values()} == {1}
