# SPDX-License-Identifier: Apache-2.0
"""The application of these tests: refunds, each under a key, by SQL alone."""
from __future__ import annotations

import re
from collections import namedtuple
from typing import Any

from psycopg2 import errors

from server import Database, Server, run_schema

EFFECTS = """
CREATE TABLE public.refunds (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount int NOT NULL);
CREATE TABLE public.balance (cents int NOT NULL);
INSERT INTO public.balance VALUES (1000);
GRANT ALL ON public.refunds, public.balance TO shop, pawl;
SELECT pawl.admit('shop');
"""
# Another test begins.
RESET = """
TRUNCATE public.refunds RESTART IDENTITY;
UPDATE public.balance SET cents = 1000;
TRUNCATE pawl.record, pawl.outcome, pawl.bound, pawl.unheld, pawl.tally_entry, pawl.tally,
  pawl.decisions;
"""


def url_of(database: Database, port: int | None = None) -> str:
    """For the application."""
    return f"postgres://shop:shop@127.0.0.1:{port or database.server.port}/{database.name}"


def install(server: Server) -> Database:
    """A database with the schema and the tables of the effects; and the application's role."""
    made = server.add_database()
    run_schema(made)
    if not server.sql("SELECT 1 FROM pg_roles WHERE rolname = 'shop'"):
        server.sql("CREATE ROLE shop LOGIN PASSWORD 'shop'")
    made.sql(EFFECTS)
    return made


RULE = "refunds.create"
Begun = namedtuple("Begun", "decision token http_code headers body result_ref first_at lease_left")


class InProgress(Exception):
    """Another has the key."""


class Shop:
    """A session of it, in a transaction."""

    def __init__(self, connection: Any):
        self.connection = connection

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def begin(self, key: str = "k1", **options: Any) -> Begun:
        names = "".join(f", {name} => %s" for name in options)
        return Begun(*self.run(f"SELECT * FROM pawl.begin(%s, %s, %s{names})", "m1", RULE, key,
                               *options.values())[0])

    def refund(self) -> str:
        rows = self.run("INSERT INTO refunds (amount) VALUES (1000) RETURNING id")
        return f'{{"id": "rf_{rows[0][0]}"}}'

    def complete(self, token: int, body: str) -> None:
        self.run("SELECT pawl.complete(%s, 201, %s)", token, body)

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def open(self, key: str = "k1", **options: Any) -> bytes:
        """All of create() but its COMMIT; the response."""
        begun = self.begin(key, **options)
        if begun.decision == "replay":
            return bytes(begun.body)
        if begun.decision == "in_progress":
            raise InProgress
        assert begun.decision == "proceed", begun
        body = self.refund()
        self.complete(begun.token, body)
        return body.encode()

    def create(self, key: str = "k1", **options: Any) -> bytes:
        """A refund under that key: the response."""
        body = self.open(key, **options)
        self.commit()
        return body

    def create_serialized(self, key: str = "k1", **options: Any) -> bytes:
        """The same, again whenever the server could not order it among others."""
        while True:
            try:
                return self.create(key, **options)
            except (errors.SerializationFailure, errors.DeadlockDetected):
                self.rollback()


def check_defaults(database: Database, brought: dict[str, Any]) -> None:
    """A binding that brings every argument of pawl.begin brings the function's own defaults."""
    (declared,), = database.sql("SELECT pg_get_function_arguments('pawl.begin'::regproc)")
    theirs = re.findall(r"(\w+) (\w+) DEFAULT (NULL|'.*?')::", declared)
    assert set(brought) == {name for name, _, _ in theirs}
    for name, kind, value in theirs:
        same = f"SELECT %s::{kind} IS NOT DISTINCT FROM {value}::{kind}"
        assert database.sql(same, brought[name]) == [(True,)], name


def effects(database: Database) -> int:
    return database.sql("SELECT count(*) FROM refunds")[0][0]


def is_waiting(database: Database) -> bool:
    """Whether a session waits for a lock."""
    return bool(database.sql("SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
                             " AND wait_event_type = 'Lock'"))
