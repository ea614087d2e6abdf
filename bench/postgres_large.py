#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a store on PostgreSQL with many records does beside an empty one, on a server of its own.

usage: postgres_large.py BUILD RECORDS [SWEPT]     (SWEPT: records to sweep; default 200000)

Prints a table. Needs 2 GB of disk for each million records.
"""
from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Callable

from postgres import SETTINGS

from filling import FIRST_ID, fill, key_hash  # noqa: E402: postgres.py says where
from server import Database, Server  # noqa: E402

ROUNDS, SECONDS, IN_FLIGHT, SLICE = 5, 3, 64, 64
SWEPT = 200000
DUE_ID = 1 << 41  # of those that are swept
TABLES = ("record", "outcome")


def pairs(build: Path, database: Database) -> dict[str, float]:
    ran = subprocess.run([build / "bench/store_pairs", database.url, "0", str(SECONDS),
                          str(IN_FLIGHT)], capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


def replays(database: Database, records: int) -> float:
    """Kept responses a second: loads of a batch of random keys."""
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        began, loads = time.monotonic(), 0
        while time.monotonic() < began + SECONDS:
            hashes = [key_hash(FIRST_ID + random.randint(1, records)) for _ in range(IN_FLIGHT)]
            cursor.execute("SELECT count(outcome_body)"
                           " FROM pawl.load(%s, %s::bigint[], '{}', 16384)",
                           (hashes, [0] * IN_FLIGHT))
            assert cursor.fetchone() == (IN_FLIGHT,)
            loads += 1
        return loads * IN_FLIGHT / (time.monotonic() - began)


def first_page(build: Path, database: Database) -> float:
    """Milliseconds."""
    began = time.monotonic()
    subprocess.run([build / "pawl", "keys", "list", "--limit", "100", "--store", database.url],
                   capture_output=True, check=True)
    return (time.monotonic() - began) * 1000


def sweep(database: Database) -> float:
    """Records a second, in the slices of a gateway, each a transaction."""
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("SET enable_seqscan = off; SET synchronous_commit = off")
        began, steps, all_steps = time.monotonic(), 1, 0
        while steps > 0:
            cursor.execute("SELECT steps FROM pawl.sweep(0, 0, %s)", (SLICE,))
            ((steps,),) = cursor.fetchall()
            all_steps += steps
        return all_steps / (time.monotonic() - began)


def count_due(database: Database) -> int:
    return database.sql("SELECT count(*) FROM pawl.outcome WHERE sweep_at = 2")[0][0]


def sizes(database: Database) -> dict[str, float]:
    """MB of the tables, with their indexes and bodies."""
    return {name: database.sql(f"SELECT pg_total_relation_size('pawl.{name}')")[0][0] / 1e6
            for name in TABLES}


def middle(rounds: int, measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(rounds))


def prepare(build: Path, server: Server, records: int) -> Database:
    database = server.add_database()
    subprocess.run([server.programs / "psql", "--no-psqlrc", "--quiet", database.url], check=True,
                   input=subprocess.check_output([build / "pawl", "schema", "postgres"]))
    if records:
        fill(database, records)
        database.sql("VACUUM ANALYZE")
    return database


def main(build: Path, records: int, swept: int) -> None:
    with Server(durable=True, **SETTINGS) as server:
        empty, large = prepare(build, server, 0), prepare(build, server, records)
        print(f"{records:,} records: " + ", ".join(
            f"pawl.{name} {size:,.0f} MB" for name, size in sizes(large).items()), flush=True)
        rates: dict[str, list[float]] = {"empty": [], "large": []}
        latencies: dict[str, list[float]] = {"empty": [], "large": []}
        for _ in range(ROUNDS):
            for name, database in (("empty", empty), ("large", large)):
                figures = pairs(build, database)
                rates[name].append(figures["pairs_per_s"])
                latencies[name].append(figures["finish_p99_us"] / 1000)
        few, many = (statistics.median(rates[name]) for name in rates)
        print(f"pairs/s at {IN_FLIGHT} in flight: {many:,.0f} beside {few:,.0f} empty"
              f" ({many / few:.2f}); p99 of a finish, ms:"
              f" {statistics.median(latencies['large']):.1f} beside"
              f" {statistics.median(latencies['empty']):.1f}", flush=True)
        print(f"replays/s, {IN_FLIGHT} a load: {middle(3, lambda: replays(large, records)):,.0f}")
        print(f"pawl keys list --limit 100: {middle(5, lambda: first_page(build, large)):.0f} ms",
              flush=True)
        fill(large, swept, first=DUE_ID, until=2)
        before = sizes(large)
        figures, due = pairs(build, large), count_due(large)
        assert 0 < due < swept, due
        print(f"pairs/s while {(swept - due) / SECONDS:,.0f} records/s are swept:"
              f" {figures['pairs_per_s']:,.0f}; p99 of a finish, ms:"
              f" {figures['finish_p99_us'] / 1000:.1f}", flush=True)
        print(f"sweep, {SLICE} a slice: {sweep(large):,.0f} records/s", flush=True)
        database_grew = {name: sizes(large)[name] - before[name] for name in TABLES}
        assert max(database_grew.values()) < 100, database_grew


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        print(__doc__)
        sys.exit(2)
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]), int((*sys.argv, SWEPT)[3]))
