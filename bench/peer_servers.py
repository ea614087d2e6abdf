# SPDX-License-Identifier: Apache-2.0
"""The peers' processes, and the stores that they keep their records in: each has one for itself."""
from __future__ import annotations

import contextlib
import sys
from typing import Any

import postgres
from servers import BENCH, ROOT, Failure, Server, Stage, children, peak_mib_of

sys.path.insert(0, str(ROOT / "tests/postgres"))


class Postgres:
    """What a peer's Server asks of the one beside it, of one that syncs each commit."""

    def __init__(self, server: Any):
        self.server = server
        self.url = server.add_database().url

    def ticks(self) -> int:
        return postgres.cpu_ticks(self.server)

    def peak_mib(self) -> float:
        for _ in range(5):  # one of its workers may end meanwhile
            with contextlib.suppress(FileNotFoundError, AttributeError):
                pid = self.server.process.pid
                return peak_mib_of([pid, *children(pid)])
        raise Failure("PostgreSQL's processes come and go")

    def kill(self) -> None:
        self.server.kill9()

    def start(self) -> None:
        self.server.start()


def start_redis(stage: Stage, name: str) -> Server:
    return stage.start(name, ["redis-server", BENCH / "redis.conf", "--port",
                              str(stage.ports[name]), "--appenddirname", f"{name}-aof"])


def start_postgres(stage: Stage) -> Postgres:
    from server import Server as PostgresServer  # with psycopg2, which pawl's rows do without
    return Postgres(stage.stack.enter_context(
        PostgresServer(durable=True, **postgres.SETTINGS)))


def start_node(stage: Stage, name: str, store: str = "", beside: Any = None) -> None:
    words = [stage.ports[name], stage.ports["upstream"], name.replace("_", "-"), store]
    stage.start(name, ["node", BENCH / "peers/server.js", *map(str, words)], beside)


def start_peers(stage: Stage) -> None:
    """They end with the stage."""
    start_node(stage, "plain")
    start_node(stage, "express_idempotency")
    redis = start_redis(stage, "redis")
    start_node(stage, "node_idempotency", str(redis.port), redis)
    stage.start("nginx_lua", ["nginx", "-p", stage.place, "-c", stage.place / "nginx_lua.conf",
                              "-e", "nginx_lua.log"], start_redis(stage, "redis_lua"))
    database = start_postgres(stage)
    start_node(stage, "express_postgres", database.url, database)
