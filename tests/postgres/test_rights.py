# SPDX-License-Identifier: Apache-2.0
"""Who may do what in the schema: nobody is led to call what others made, and a role is let in by
one statement."""
from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from pawltest.gateway import run
from pawltest.wire import PATIENCE, eventually
from server import Database, Server, find_programs
from test_connecting import start_in_vain

CONFIG = """
tenant: none
rules:
  - {name: refunds.create, match: POST /refunds}
"""
STRANGER, OTHER = "stranger", "other_gateway"
PATH = "search_path=pg_catalog, pg_temp"
# Called by the first that finds it in its path; it does what its caller may.
TRAP = """
    CREATE TABLE public.trapped(who name);
    GRANT INSERT ON public.trapped TO PUBLIC;
    CREATE FUNCTION public.trap({left}, {right}) RETURNS boolean LANGUAGE plpgsql AS
        'BEGIN INSERT INTO public.trapped VALUES (current_user); RETURN true; END';
    CREATE OPERATOR public.{operator} (FUNCTION = public.trap, LEFTARG = {left}, RIGHTARG = {right})
"""


@pytest.fixture
def database(empty_database: Database) -> Database:
    return empty_database


def add_role(server: Server, name: str) -> None:
    server.sql(f"DO $$ BEGIN CREATE ROLE {name} LOGIN PASSWORD '{name}';"
               " EXCEPTION WHEN duplicate_object THEN NULL; END $$")


def as_role(database: Database, name: str) -> Any:
    connection = psycopg2.connect(url_as(database, name))
    connection.autocommit = True
    return connection


def url_as(database: Database, name: str) -> str:
    return f"postgres://{name}:{name}@127.0.0.1:{database.server.port}/{database.name}"


def install(database: Database) -> None:
    """As people do: with psql, in a session with the path that everybody has."""
    done = subprocess.run([find_programs() / "psql", "--no-psqlrc", "--quiet", database.url],
                          input=run("schema", "postgres").stdout, capture_output=True, text=True,
                          check=False, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def stranger(server: Server, database: Database) -> Iterator[Any]:
    """Who may create in `public`, as everybody may before PostgreSQL 15."""
    install(database)
    add_role(server, STRANGER)
    database.sql(f"GRANT CREATE ON SCHEMA public TO {STRANGER}")
    with closing(as_role(database, STRANGER)) as connection:
        yield connection.cursor()


def test_an_operator_of_a_stranger_is_not_called_where_a_role_is_let_in(server, stranger, database):
    """found: R7"""
    stranger.execute(TRAP.format(left="oid", right="regtype", operator="<>"))
    add_role(server, "shop_app")
    database.sql("SELECT pawl.admit('shop_app')")
    database.sql("SELECT pawl.admit_gateway('shop_app')")
    assert database.sql("SELECT * FROM public.trapped") == []


def test_nor_where_the_schema_is_installed_again(stranger, database):
    """found: R7

    With an index of the stranger's that was given up half built."""
    stranger.execute(TRAP.format(left="oid", right="regclass", operator="="))
    stranger.execute("CREATE TABLE public.twice AS SELECT 1 AS n FROM generate_series(1, 2)")
    with pytest.raises(psycopg2.errors.UniqueViolation):
        stranger.execute("CREATE UNIQUE INDEX CONCURRENTLY half ON public.twice(n)")
    install(database)
    assert database.sql("SELECT * FROM public.trapped") == []


def test_every_function_has_a_path_of_its_own_or_is_called_by_those_alone_who_set_it(
        stranger, database):
    """Of those that act with their owner's rights, or that people call, nobody chooses the path."""
    functions = database.sql(
        "SELECT p.oid::regprocedure::text, p.prosecdef, coalesce(p.proconfig, '{}'),"
        " EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a"
        "         WHERE a.grantee = 0)"
        " FROM pg_proc p WHERE p.pronamespace = 'pawl'::regnamespace")
    assert len(functions) > 100
    for name, acts_as_owner, config, for_all in functions:
        people_call = name.startswith(("pawl.admit", "pawl.set_rights"))
        assert PATH in config or not (acts_as_owner or people_call), name
        assert not for_all, name


def test_a_role_that_may_not_is_told_what_lets_it_in(pawl, server, upstream, database):
    """found: F6"""
    install(database)
    add_role(server, OTHER)
    said = start_in_vain(pawl(CONFIG, started=False).move_to(url_as(database, OTHER)))
    assert "permission denied for schema pawl" in said
    assert "SELECT pawl.admit_gateway('ROLE')" in said


@pytest.mark.parametrize("again", [False, True])
def test_a_role_that_was_let_in_is_a_gateway_s_also_for_what_is_added(
        pawl, server, upstream, database, again):
    install(database)
    add_role(server, OTHER)
    database.sql(f"SELECT pawl.admit_gateway('{OTHER}')")
    if again:
        database.sql("DROP SEQUENCE pawl.removal; DROP TABLE pawl.counter")
        install(database)
    gateway = pawl(CONFIG, started=False).move_to(url_as(database, OTHER))
    gateway.start()
    assert gateway.post("/refunds", {}, key="k1")["Idempotency-Status"] == "stored"
    assert gateway.post("/refunds", {}, key="k1")["Idempotency-Status"] == "replayed"


def test_tokens_are_lifted_whatever_a_role_locks_that_merely_may_connect(
        pawl, upstream, stranger, database):
    gateway = pawl(CONFIG)
    stranger.execute("SELECT pg_advisory_lock(hashtext('pawl token'))")
    database.sql("SELECT setval('pawl.token', 256)")
    assert eventually(lambda: gateway.post("/refunds", {}, key="k1").status == 201)
