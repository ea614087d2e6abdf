# SPDX-License-Identifier: Apache-2.0
"""A schema that is missing, older or newer is named, with what mends it; and it mends it while
gateways and transactions of others run."""
from __future__ import annotations

import subprocess
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from pawltest.admin import with_admin
from pawltest.gateway import run
from pawltest.wire import PATIENCE, Later, at_once, eventually
from server import ROLE, Database, find_programs
from test_connecting import start_in_vain

CONFIG = """
tenant: none
rules:
  - {name: refunds.create, match: POST /refunds}
"""
MENDS = "pawl schema postgres | psql"
FORMAT_1 = Path(__file__).with_name("format_1.sql").read_text("utf-8")
REVISION_6 = Path(__file__).with_name("revision_6.sql").read_text("utf-8")
AN_ANSWER = b'{"id": 1}'


@pytest.fixture
def database(empty_database: Database) -> Database:
    return empty_database


def psql(database: Database, script: str) -> subprocess.CompletedProcess[str]:
    """As the owner of the database."""
    return subprocess.run([find_programs() / "psql", "--no-psqlrc", "--quiet", database.url],
                          input=script, capture_output=True, text=True, check=False,
                          timeout=PATIENCE)


def mend(database: Database) -> subprocess.CompletedProcess[str]:
    return psql(database, run("schema", "postgres").stdout)


def described(database: Database) -> list[list[tuple[Any, ...]]]:
    """All that the schema has, as the catalogs say."""
    return [database.sql(statement) for statement in (
        "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
        " WHERE table_schema = 'pawl' ORDER BY 1, ordinal_position",
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'pawl' ORDER BY 1",
        "SELECT p.proname, pg_get_functiondef(p.oid) FROM pg_proc p"
        " WHERE p.pronamespace = 'pawl'::regnamespace ORDER BY 1, 2",
        "SELECT c.relname, c.relkind, c.reloptions, a.attname, a.atttypid::regtype, a.attstorage"
        " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE a.attnum > 0"
        " AND c.relnamespace = 'pawl'::regnamespace ORDER BY c.relname, a.attnum",
        "SELECT viewname, definition FROM pg_views WHERE schemaname = 'pawl' ORDER BY 1",
        "SELECT format, revision FROM pawl.store")]


def test_a_first_start_installs_it_where_it_may(pawl, upstream):
    gateway = pawl(CONFIG)
    assert gateway.post("/refunds", {}, key="k1").status == 201


def test_where_it_may_not_it_says_what_the_owner_is_to_run(pawl, server, database):
    database.sql(f"ALTER DATABASE {database.name} OWNER TO postgres")
    said = start_in_vain(pawl(CONFIG, started=False))
    assert "permission denied for database" in said and MENDS in said
    assert "SELECT pawl.admit_gateway('ROLE')" in said
    assert "ERROR" not in said and "\t" not in said


@pytest.mark.parametrize("change, word", [("99", "newer"), ("0", "older")])
def test_a_schema_of_another_version_is_named(pawl, database, change, word):
    gateway = pawl(CONFIG)
    gateway.stop()
    database.sql(f"UPDATE pawl.store SET format = {change}")
    said = start_in_vain(gateway)
    assert f"{word} pawl" in said
    assert (MENDS in said) == (word == "older")


def test_a_schema_that_goes_is_a_store_that_is_away_until_it_is_back(pawl, upstream, database):
    gateway = pawl(CONFIG + "store_timeout: 1s\n")
    database.sql("ALTER SCHEMA pawl RENAME TO elsewhere")
    answer = gateway.post("/refunds", {}, key="k1")
    assert answer.is_problem(503, "DEPENDENCY.store_unavailable")
    database.sql("ALTER SCHEMA elsewhere RENAME TO pawl")
    assert gateway.post_up("/refunds", {}, key="k1").status == 201
    assert upstream.effects() == 1


def test_another_store_in_its_place_is_not_taken_for_it(pawl, upstream, server, database):
    """Whose keys hash to what, the secret says: a record would be found under no key."""
    gateway = pawl(CONFIG)
    first = gateway.post("/refunds", {}, key="k1")
    ((secret,),) = database.sql("SELECT secret FROM pawl.store")
    database.sql("UPDATE pawl.store SET secret = sha256('another')")
    server.end_backends(database)
    for key in ("k2", "k3"):
        answer = gateway.post("/refunds", {}, key=key)
        assert answer.is_problem(503, "DEPENDENCY.store_unavailable")
    assert upstream.effects() == 1
    database.sql("UPDATE pawl.store SET secret = %s", bytes(secret))
    assert gateway.post_up("/refunds", {}, key="k1").kept == first.kept


def drop_schema(database: Database) -> bool:
    """False: the server ended it, since it and a batch of a gateway waited for each other."""
    with suppress(psycopg2.errors.DeadlockDetected):
        database.sql("DROP SCHEMA pawl CASCADE")
        return True
    return False


def test_a_store_that_was_made_anew_under_a_living_session_is_not_used(pawl, upstream, database):
    """The other gateway has begun to use it: a key would run once in each."""
    first, second = pawl(CONFIG), pawl(CONFIG)
    assert first.post("/refunds", {}, key="k0").status == 201
    eventually(lambda: drop_schema(database), "a moment in which no gateway is in its way")
    assert mend(database).returncode == 0
    second.restart()
    assert second.post("/refunds", {}, key="k1").status == 201
    answer = first.post("/refunds", {}, key="k1")
    assert answer.is_problem(503, "DEPENDENCY.store_unavailable")
    assert upstream.effects() == 2
    first.restart()
    assert first.post("/refunds", {}, key="k1")["Idempotency-Status"] == "replayed"


def test_a_role_needs_no_more_than_the_schemas_rights(pawl, upstream, server, database):
    """Installed by its owner, used by another role."""
    gateway = pawl(CONFIG)
    assert gateway.post("/refunds", {}, key="k1").status == 201
    assert server.sql("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = %s",
                      ROLE) == [(False,)]


# ---- migration in place ----


def test_a_store_of_format_1_is_brought_forward_with_all_that_it_holds(pawl, upstream, database):
    assert psql(database, FORMAT_1).stderr == ""
    gateway = pawl(CONFIG, started=False)
    assert MENDS in start_in_vain(gateway)
    mended = mend(database)
    assert (mended.returncode, mended.stderr) == (0, "")
    gateway.start()
    answer = gateway.post("/refunds", {"amount": 1}, key="k1")
    assert (answer["Idempotency-Status"], answer.body) == ("replayed", AN_ANSWER)
    assert gateway.post("/refunds", {"amount": 2}, key="k1").status == 409
    assert gateway.post("/refunds", {}, key="k2")["Idempotency-Status"] == "stored"
    assert upstream.effects() == 1


def test_what_is_brought_forward_is_what_a_new_store_has(database, server):
    psql(database, FORMAT_1)
    mend(database)
    new = server.add_database()
    mend(new)
    assert described(database) == described(new)


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_store_of_the_revision_before_is_brought_forward_beside_its_gateway(
        pawl, upstream, database, server, by_hand):
    """By its owner, or by the first newer gateway that owns it."""
    gateway, new = pawl(CONFIG), server.add_database()
    kept = gateway.post("/refunds", {}, key="k1").kept
    assert psql(database, REVISION_6).stderr == ""
    mend(new)
    assert described(database) != described(new)
    assert gateway.post("/refunds", {}, key="k2").status == 201
    if by_hand:
        assert mend(database).returncode == 0
    else:
        pawl(CONFIG)
    assert described(database) == described(new)
    assert gateway.post("/refunds", {}, key="k3").status == 201
    gateway.restart()
    assert gateway.post("/refunds", {}, key="k1").kept == kept
    for key in ("k2", "k3"):
        assert gateway.post("/refunds", {}, key=key)["Idempotency-Status"] == "replayed"
    assert upstream.effects() == 3


def test_of_save_there_is_the_newest_alone(database):
    """What an older pawl calls by fewer parameters is not what an older schema had for it, whatever
    its parameters are called."""
    assert mend(database).returncode == 0
    database.sql("CREATE FUNCTION pawl.save(self bigint, askings bigint) RETURNS bigint"
                 " LANGUAGE sql AS 'SELECT 1'")
    assert mend(database).returncode == 0
    saves = "SELECT count(*), min(pronargs) > 20 FROM pg_proc WHERE proname = 'save'"
    assert database.sql(saves) == [(1, True)]


def test_a_schema_is_installed_again_beside_gateways_and_open_transactions(
        pawl, upstream, database):
    """Who wrote to the tables, or read them, holds them until the end of the transaction."""
    gateway = pawl(CONFIG + "store_timeout: 1s\n")
    gateway.post("/refunds", {}, key="k1")
    with closing(database.connect()) as stranger:
        stranger.cursor().execute("UPDATE pawl.record SET version = version;"
                                  "UPDATE pawl.outcome SET packed = packed;"
                                  "DELETE FROM pawl.audit")
        mended = mend(database)
        assert (mended.returncode, mended.stderr) == (0, "")
        assert gateway.post("/refunds", {}, key="k2")["Idempotency-Status"] == "stored"
    assert gateway.post("/refunds", {}, key="k1")["Idempotency-Status"] == "replayed"


def test_a_store_is_brought_forward_once_a_transaction_that_reads_its_view_ends(
        pawl, upstream, database):
    gateway = pawl(CONFIG)
    with closing(database.connect()) as stranger:
        stranger.cursor().execute("SELECT count(*) FROM pawl.idempotency_keys")
        mending = Later(lambda: mend(database))
        eventually(lambda: database.sql("SELECT 1 FROM pg_locks WHERE NOT granted AND relation ="
                                        " 'pawl.idempotency_keys'::regclass"), "a wait")
        assert gateway.post("/refunds", {}, key="k1")["Idempotency-Status"] == "stored"
        stranger.rollback()
    assert mending.result().returncode == 0


def test_a_gateway_writes_nothing_to_a_schema_that_is_marked_newer(pawl, upstream, database):
    """found: R20

    Nor does one of a version that does not say which store it knows. What runs is not stored, and
    the client is not told it."""
    gateway, admin = with_admin(pawl, CONFIG)
    kept = gateway.post("/refunds", {}, key="k1").kept
    gate = upstream.hold()
    running = Later(lambda: gateway.post("/refunds", {}, key="k2"))
    gate.wait_for()
    database.sql("UPDATE pawl.store SET format = 3")
    refused = gateway.post("/refunds", {}, key="k3")
    assert refused.is_problem(503, "DEPENDENCY.store_unavailable")
    eventually(lambda: b"made by a newer pawl" in admin.get("/readyz").body, "not ready, and why")
    with pytest.raises(psycopg2.Error) as caught:
        database.sql("SELECT pawl.draw(0)")
    assert caught.value.pgcode == "PW006"
    gate.open()
    assert database.sql("SELECT count(*) FROM pawl.outcome") == [(1,)]
    database.sql("UPDATE pawl.store SET format = 2")
    assert running.result()["Idempotency-Status"] == "stored"
    assert gateway.post_up("/refunds", {}, key="k3").status == 201
    assert gateway.post("/refunds", {}, key="k1").kept == kept
    assert upstream.effects() == 3


@pytest.mark.parametrize("table, column", [("store", "restored_until"), ("record", "asking")])
def test_a_store_is_brought_forward_once_a_transaction_that_reads_a_table_ends(
        pawl, database, table, column):
    """It is asked again and again, as those behind it would wait with it."""
    pawl(CONFIG).stop()
    database.sql(f"ALTER TABLE pawl.{table} DROP COLUMN {column}")
    waits = f"SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'pawl.{table}'::regclass"
    with closing(database.connect()) as stranger:
        stranger.cursor().execute(f"SELECT count(*) FROM pawl.{table}")
        mending = Later(lambda: mend(database))
        eventually(lambda: database.sql(waits), "a wait")
        eventually(lambda: not database.sql(waits), "it gives way")
        assert not mending.is_done
        stranger.rollback()
    assert mending.result().returncode == 0
    assert {row for row in database.sql(f"SELECT {column} FROM pawl.{table}")} <= {(0,)}


def test_installed_by_several_at_once_it_is_installed(pawl, database):
    mended = at_once(6, lambda _: mend(database))
    assert [(each.returncode, each.stderr) for each in mended] == [(0, "")] * 6
    pawl(CONFIG)


def test_the_row_that_every_batch_reads_is_free_while_indexes_are_built():
    script = run("schema", "postgres").stdout
    altered = script.index("ALTER TABLE pawl.store")
    assert altered < script.index("\nCOMMIT;\n") < script.index(" INDEX task_odd_")


def test_an_older_pawl_leaves_a_newer_schema_alone(pawl, database):
    pawl(CONFIG).stop()
    database.sql("UPDATE pawl.store SET format = 99")
    before = described(database)
    mended = mend(database)
    assert mended.returncode != 0 and "newer pawl" in mended.stderr
    assert described(database) == before


def test_a_finish_stays_on_its_page(pawl, upstream, database):
    """No index has a column that it changes."""
    gateway = pawl(CONFIG)
    for n in range(20):
        assert gateway.post("/refunds", {}, key=f"k{n}").status == 201
    gateway.stop()
    eventually(lambda: database.sql("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
                                    " WHERE relname = 'record'") == [(20, 20)], "20 of 20")
