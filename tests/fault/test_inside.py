# SPDX-License-Identifier: Apache-2.0
"""The record in an application's own SQLite transaction, by the C API and by the extension: many
processes with one key, and kill -9 at any point."""
from __future__ import annotations

import random
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from pawltest.gateway import PAWL

BUILD = Path(PAWL).parent
WORKER = BUILD / "tests/fault/inside_worker"
WAYS = {"c": "c", "extension": str(BUILD / "pawl.so")}
SEED = 20261123

pytestmark = [pytest.mark.parametrize("way", WAYS), pytest.mark.parametrize("journal",
                                                                           ["wal", "delete"])]


@pytest.fixture
def file(tmp_path: Path, journal: str) -> Path:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode={journal}")
        connection.execute("CREATE TABLE effect(id INTEGER PRIMARY KEY, key TEXT, pid TEXT)")
        connection.commit()
    return path


def start(file: Path, way: str, *keys: str) -> subprocess.Popen[str]:
    return subprocess.Popen([WORKER, file, WAYS[way], *keys], stdout=subprocess.PIPE, text=True)


def rows(file: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(statement).fetchall()


def check_file(file: Path, keys: list[str]) -> None:
    """One effect for each key, and its record; nothing is pending."""
    assert sorted(rows(file, "SELECT key FROM effect")) == sorted((key,) for key in keys)
    assert rows(file, "SELECT e.key FROM effect e LEFT JOIN idempotency_keys k ON k.key = e.key"
                      " AND k.status = 'complete' AND k.http_code = 201 WHERE k.key IS NULL") == []
    assert rows(file, "SELECT pending, complete FROM pawl_state") == [(0, len(keys))]
    assert rows(file, "SELECT count(*) FROM pawl_pending") == [(0,)]
    assert rows(file, "PRAGMA integrity_check") == [("ok",)]


def test_a_hundred_transactions_with_one_key_have_one_effect(file: Path, way: str) -> None:
    workers = [start(file, way, *["k1"] * 5) for _ in range(20)]
    told = [line for worker in workers for line in worker.communicate()[0].splitlines()]
    assert all(worker.returncode == 0 for worker in workers)
    assert len(told) == 100 and len(set(told)) == 1
    check_file(file, ["k1"])


def test_kill_9_leaves_both_or_neither(file: Path, way: str) -> None:
    """Two workers with the same keys die again and again, a while after one of them has answered;
    what was answered stays the answer."""
    chance = random.Random(SEED)
    keys = [f"k{i}" for i in range(300)]
    told: dict[str, str] = {}
    while len(told) < len(keys):
        missing = [key for key in keys if key not in told][:6]
        both = [start(file, way, *missing), start(file, way, *missing)]
        lines = {worker.pid: [] for worker in both}
        for _ in range(chance.randrange(4)):
            lines[both[0].pid].append(both[0].stdout.readline())
        time.sleep(chance.uniform(0, 0.001))
        for worker in both:
            worker.kill()
        for worker in both:
            lines[worker.pid] += worker.communicate()[0].splitlines()
            for key, line in zip(missing, lines[worker.pid]):
                assert told.setdefault(key, line.rstrip()) == line.rstrip()
    check_file(file, keys)
    again = start(file, way, *keys).communicate()[0].splitlines()
    assert again == [told[key] for key in keys]
