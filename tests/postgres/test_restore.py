# SPDX-License-Identifier: Apache-2.0
"""A backup is restored while the gateways are stopped: what it holds is replayed, and no token
comes a second time."""
from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pawltest.gateway import ROOT, Gateway
from server import SUPERUSER, Database, Server, find_programs

CONFIG = """
tenant: none
threads: 1
rules:
  - {name: refunds.create, match: POST /refunds, unknown: retry}
"""
PAGE = (ROOT / "docs/guide/postgresql.md").read_text("utf-8")


@pytest.fixture
def two(pawl) -> list[Gateway]:
    return [pawl(CONFIG), pawl(CONFIG)]


def store(gateways: list[Gateway], *keys: str) -> dict[str, Any]:
    """Each key once, at one after the other."""
    answers = {key: gateways[i % 2].post("/refunds", {"of": key}, key=key)
               for i, key in enumerate(keys)}
    assert {answer["Idempotency-Status"] for answer in answers.values()} == {"stored"}
    return answers


def tokens_of(upstream: Any) -> list[int]:
    return [int(one["Idempotency-Token"]) for one in upstream.requests]


def check_after(gateways: list[Gateway], upstream: Any, kept: dict[str, Any]) -> None:
    """What the backup holds is replayed; what came after it runs under a higher token."""
    before = upstream.effects()
    for i, (key, first) in enumerate(kept.items()):
        again = gateways[i % 2].post("/refunds", {"of": key}, key=key)
        assert (again["Idempotency-Status"], again.kept) == ("replayed", first.kept)
    assert upstream.effects() == before
    store(gateways, "after", "new-1", "new-2")
    tokens = tokens_of(upstream)
    assert tokens == sorted(set(tokens))


def shown(word: str) -> list[str]:
    """The commands of the guide's block that begins with it."""
    (block,) = re.findall(rf"^```sh\n({re.escape(word)}.*?)^```$", PAGE, re.M | re.S)
    return block.replace("\\\n", "").splitlines()


def run_shown(server: Server, command: str, directory: Path) -> None:
    """As the database's superuser on its machine."""
    environment = {"PATH": f"{find_programs()}:/usr/bin:/bin", "PGHOST": str(server.directory),
                   "PGPORT": str(server.port), "PGUSER": SUPERUSER}
    ran = subprocess.run(["bash", "-ec", command], cwd=directory, env=environment,
                         capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, f"{command}: {ran.stderr}"


def test_tokens_go_on_and_responses_are_replayed_after_a_dump_is_restored(two, upstream, server,
                                                                         database, tmp_path):
    kept = store(two, "k1", "k2", "k3")
    dump, create, restore = shown("pg_dump")
    restored = Database(server, f"{database.name}_restored")
    run_shown(server, re.sub("pawl$", database.name, dump), tmp_path)
    store(two, "after", "later")
    for gateway in two:
        assert gateway.stop() == 0
    for command in (create, restore):
        run_shown(server, command.replace("pawl_restored", restored.name), tmp_path)
    for gateway in two:
        gateway.move_to(restored.url).start()
    check_after(two, upstream, kept)


def test_tokens_go_on_and_responses_are_replayed_after_a_base_backup_is_restored(
        pawl, upstream, own_server):
    database = own_server.add_database()
    two = [pawl(CONFIG, started=False).move_to(database.url).start() for _ in range(2)]
    kept = store(two, "k1", "k2", "k3")
    restored = own_server.add_standby()
    try:
        (restored.data / "standby.signal").unlink()
        store(two, "after", "later")
        for gateway in two:
            gateway.kill9()
        own_server.stop()
        restored.start()
        for gateway in two:
            gateway.move_to(Database(restored, database.name).url).start()
        check_after(two, upstream, kept)
    finally:
        restored.discard()
