# SPDX-License-Identifier: Apache-2.0
"""What becomes of an application's records when its database is dumped and restored, replicated and
promoted, or gets the schema again while transactions run."""
from __future__ import annotations

import subprocess
from typing import Iterator

import psycopg2
import pytest

from pawltest.wire import Later, eventually
from server import Database, Server, run_schema
from shop import Shop, effects, install, is_waiting, url_of

MISMATCH = {"payload_hash": 64 * "b"}
HASH = {"payload_hash": 64 * "a"}
PUBLISHED = "TABLES IN SCHEMA pawl, TABLE public.refunds"


def is_kept(database: Database, body: bytes, token: int) -> None:
    """The records of the other database are here: responses, hashes, names, tokens that grow."""
    session = Shop(psycopg2.connect(url_of(database)))
    assert session.create("k1", **HASH) == body
    assert session.begin("k1", **MISMATCH).decision == "mismatch"
    assert session.begin("k2").token > token
    session.rollback()
    session.create("k3")
    session.connection.close()


def test_a_dump_that_is_restored_keeps_every_response(database, shop, server):
    body = shop().create("k1", **HASH)
    session = shop()
    token = session.begin("other").token
    session.rollback()
    copy = server.add_database()
    where = ["--host", server.directory, "--port", str(server.port), "--username", "postgres"]
    dump = subprocess.run([server.programs / "pg_dump", *where, "--format=custom", database.name],
                          stdout=subprocess.PIPE, check=True)
    subprocess.run([server.programs / "pg_restore", *where, "--exit-on-error",
                    f"--dbname={copy.name}"], input=dump.stdout, check=True)
    is_kept(copy, body, token)
    assert effects(copy) == 2


@pytest.fixture
def replica() -> Iterator[tuple[Database, Database]]:
    """A database, and another into which it is replicated row by row."""
    with Server(wal_level="logical") as server:
        source, target = install(server), install(server)
        target.sql("TRUNCATE pawl.store")
        source.sql(f"CREATE PUBLICATION all_of_it FOR {PUBLISHED}")
        source.sql("SELECT pg_create_logical_replication_slot('follows', 'pgoutput')")
        target.sql(f"CREATE SUBSCRIPTION follows CONNECTION 'host={server.directory}"
                   f" port={server.port} user=postgres dbname={source.name}' PUBLICATION all_of_it"
                   " WITH (create_slot = false, slot_name = 'follows')")
        yield source, target
        target.sql("ALTER SUBSCRIPTION follows DISABLE")


def test_a_logical_replica_that_is_promoted_keeps_every_response(replica):
    source, target = replica
    session = Shop(psycopg2.connect(url_of(source)))
    body = session.create("k1", **HASH)
    token = session.begin("other").token
    session.rollback()
    session.connection.close()
    source.sql("SELECT pawl.maintain()")  # which deletes entries that have no primary key
    eventually(lambda: effects(target) and target.sql("SELECT 1 FROM pawl.decisions")
               and target.sql("SELECT 1 FROM pawl.outcome")
               and target.sql("SELECT 1 FROM pawl.store"))
    target.sql("ALTER SUBSCRIPTION follows DISABLE")
    target.sql("SELECT setval('public.refunds_id_seq', 1000)")  # sequences are not replicated
    is_kept(target, body, token)


def test_the_schema_is_installed_again_while_transactions_run(database, shop):
    """It waits for nobody longer than a second at a time, and breaks none."""
    session = shop()
    body = session.open("k1")
    late = Later(lambda: run_schema(database))
    try:
        eventually(lambda: is_waiting(database) or late.is_done)
        session.commit()
    finally:
        session.rollback()
    late.result()
    assert shop().create("k1") == body
    assert shop().create("k2") and effects(database) == 2
