# SPDX-License-Identifier: Apache-2.0
"""What the functions of the schema promise to an application's transaction, call by call, to a role
that may do no more than call them."""
from __future__ import annotations

import hashlib
import hmac
import subprocess
from contextlib import closing
from typing import Any, Iterator

import psycopg2
import pytest

from pawltest.gateway import PAWL, Gateway
from pawltest.wire import Later
from server import Database, Server

ROLE = "application"
BODY = '{"id": 7}'
FIELDS = "decision, token, http_code, headers, body, result_ref, first_at, lease_left"
MERCHANT = [("X-Merchant", "m1")]
GATEWAY = """
tenant: "{header:X-Merchant}"
trust_tenant: true
rules:
  - {name: refunds.create, match: POST /refunds, headers: [], in_progress: conflict}
"""


class Application:
    """A connection of a role that was admitted, in transactions that it ends itself."""

    def __init__(self, url: str):
        self.connection = psycopg2.connect(url)

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def one(self, statement: str, *values: Any) -> Any:
        ((value,),) = self.sql(statement, *values)
        return bytes(value) if isinstance(value, memoryview) else value

    def begin(self, key: str, **options: Any) -> dict[str, Any]:
        given = "".join(f", {name} => %s" for name in options)
        (row,) = self.sql(f"SELECT {FIELDS} FROM pawl.begin('m1', 'refunds.create', %s{given})",
                          key, *options.values())
        row = [bytes(value) if isinstance(value, memoryview) else value for value in row]
        return dict(zip(FIELDS.split(", "), row))

    def decision(self, key: str, **options: Any) -> str:
        """Of a transaction of its own, which is rolled back."""
        try:
            return self.begin(key, **options)["decision"]
        finally:
            self.connection.rollback()

    def complete(self, token: int, code: int = 201, body: str | None = BODY, **options: Any) -> str:
        given = "".join(f", {name} => %s" for name in options)
        return self.one(f"SELECT pawl.complete(%s, %s, %s{given})", token, code, body,
                        *options.values())

    def do(self, key: str, code: int = 201, body: str | None = BODY, **options: Any) -> int:
        """Begins, completes and commits; the token."""
        begun = self.begin(key, **options)
        assert begun["decision"] == "proceed"
        self.complete(begun["token"], code, body)
        self.connection.commit()
        return begun["token"]

    def refused(self, statement: str, *values: Any) -> str:
        """The SQLSTATE of an error."""
        try:
            self.sql(statement, *values)
            self.connection.commit()
        except psycopg2.Error as error:
            self.connection.rollback()
            return error.pgcode
        raise AssertionError(f"{statement} was not refused")


@pytest.fixture(scope="module")
def installed(server: Server) -> Database:
    made = server.add_database()
    schema = subprocess.run([PAWL, "schema", "postgres"], capture_output=True, text=True,
                            check=True)
    with closing(psycopg2.connect(made.url)) as connection:
        connection.cursor().execute(schema.stdout[schema.stdout.index("\nBEGIN;"):])
    server.sql(f"DO $$ BEGIN CREATE ROLE {ROLE} LOGIN PASSWORD 'application';"
               " EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    with closing(psycopg2.connect(made.url)) as connection:
        connection.cursor().execute("CREATE TABLE public.effect(what text);"
                                    f"GRANT ALL ON public.effect TO {ROLE};"
                                    f"SELECT pawl.admit('{ROLE}')")
        connection.commit()
    return made


@pytest.fixture
def database(server: Server, installed: Database) -> Database:
    return server.add_database(installed.name)


@pytest.fixture
def connecting_app(database: Database) -> Iterator[Any]:
    made: list[Application] = []

    def connect() -> Application:
        made.append(Application(f"postgres://{ROLE}:application@127.0.0.1:{database.server.port}"
                                f"/{database.name}"))
        return made[-1]

    yield connect
    for application in made:
        application.connection.close()


@pytest.fixture
def app(connecting_app: Any) -> Application:
    return connecting_app()


@pytest.fixture
def gateway(pawl: Any, monkeypatch: pytest.MonkeyPatch, database: Database) -> Gateway:
    monkeypatch.setattr(Gateway, "new_store", lambda _: database.url)
    return pawl(GATEWAY)


# ---- begin, complete, release ----

def test_record_and_effect_commit_together(app, connecting_app):
    token = app.begin("k1")["token"]
    app.sql("INSERT INTO effect VALUES ('refund')")
    assert app.complete(token, headers='{"Location": "/r/7", "X-A": ["1", "2"]}') == "stored"
    assert connecting_app().decision("k1", wait="0") == "in_progress"
    app.connection.commit()
    replay = app.begin("k1")
    assert replay["decision"] == "replay" and replay["token"] is None
    assert (replay["http_code"], replay["body"]) == (201, BODY.encode())
    assert replay["headers"] == {"Location": "/r/7", "X-A": ["1", "2"]}
    assert replay["result_ref"] == "/r/7"
    assert app.one("SELECT count(*) FROM effect") == 1


def test_a_transaction_that_rolls_back_leaves_neither(app):
    app.complete(app.begin("k1")["token"])
    app.sql("INSERT INTO effect VALUES ('refund')")
    app.connection.rollback()
    assert app.one("SELECT count(*) FROM effect") == 0
    assert app.decision("k1") == "proceed"


def test_a_savepoint_that_is_rolled_back_forgets_its_begin(app):
    app.sql("SAVEPOINT s")
    app.begin("k1")
    app.sql("ROLLBACK TO s")
    app.do("k1")


def test_a_commit_without_complete_is_refused(app):
    app.begin("k1")
    assert app.refused("SELECT 1") == "PW002"
    assert app.decision("k1") == "proceed"


def test_a_commit_without_complete_is_refused_to_a_session_that_fires_no_triggers(database):
    """Such as one that loads a dump."""
    statement = ("SET session_replication_role = replica;"
                 "SELECT pawl.begin('m1', 'refunds.create', 'k1')")
    with pytest.raises(psycopg2.Error) as refusal:
        database.sql(statement)
    assert refusal.value.pgcode == "PW002"


def test_constraints_set_immediate_make_the_begin_fail(app):
    app.sql("SET CONSTRAINTS ALL IMMEDIATE")
    assert app.refused("SELECT pawl.begin('m1', 'refunds.create', 'k1')") == "PW002"


def test_a_complete_that_a_savepoint_took_back_leaves_the_commit_refused(app):
    token = app.begin("k1")["token"]
    app.sql("SAVEPOINT s")
    app.complete(token)
    app.sql("ROLLBACK TO s")
    assert app.refused("SELECT 1") == "PW002"
    token = app.begin("k1")["token"]
    app.sql("SAVEPOINT s")
    app.begin("k2")
    app.sql("ROLLBACK TO s")
    app.complete(token)
    app.connection.commit()
    assert (app.decision("k1"), app.decision("k2")) == ("replay", "proceed")


def test_a_begin_lifts_tokens_that_lag_behind_the_clock(app, database):
    """As after a restore: an old one might come again."""
    last = app.do("k1")
    database.sql("SELECT setval('pawl.token', 256)")
    assert app.do("k2") > last - 2_000_000
    assert app.do("k3", target_hash="c" * 64) > last - 2_000_000


def test_a_replay_holds_no_name_and_a_begin_holds_its_own(app, database):
    app.do("k1")
    held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
    for key, locks in (("k1", 0), ("k2", 1)):
        app.begin(key)
        assert database.sql(held) == [(locks,)]
        app.connection.rollback()


def test_a_second_begin_in_one_transaction_never_proceeds(app):
    token = app.begin("k1")["token"]
    assert app.begin("k1")["decision"] == "begun_here"
    app.complete(token)
    assert app.begin("k1")["decision"] == "replay"
    app.connection.commit()


def test_another_payload_is_a_mismatch_and_one_that_was_not_brought_is_not_compared(app):
    app.do("k1", payload_hash="a" * 64, target_hash="c" * 64)
    assert app.decision("k1", payload_hash="A" * 64) == "replay"
    assert app.decision("k1", payload_hash="b" * 64) == "mismatch"
    assert app.decision("k1", target_hash="d" * 64) == "mismatch"
    assert app.decision("k1") == "replay"
    app.do("k2")
    assert app.decision("k2", payload_hash="b" * 64) == "replay"


def test_tenants_and_rules_never_meet(app):
    app.do("k1")
    for tenant, rule in (("m2", "refunds.create"), (None, "refunds.create"), ("m1", "payments")):
        assert app.one("SELECT decision FROM pawl.begin(%s, %s, 'k1')", tenant, rule) == "proceed"
        app.connection.rollback()


def test_a_release_lets_the_next_begin_proceed_under_a_higher_token(app):
    token = app.begin("k1")["token"]
    assert app.one("SELECT pawl.release(%s)", token) == "released"
    assert app.one("SELECT pawl.release(%s)", token) == "already"
    app.connection.commit()
    assert app.do("k1") > token
    assert app.refused("SELECT pawl.release(%s)", token) == "PW001"


def test_a_token_repeats_in_its_transaction_and_is_dead_after_it(app):
    token = app.begin("k1")["token"]
    assert [app.complete(token), app.complete(token, 500, "other")] == ["stored", "already"]
    app.connection.commit()
    for statement in ("SELECT pawl.complete(%s)", "SELECT pawl.release(%s)"):
        for dead in (token, token + 1, None):
            assert app.refused(statement, dead) == "PW001"
    assert app.begin("k1")["body"] == BODY.encode()


def test_a_token_that_was_released_is_dead_for_every_other_transaction(app, database):
    """Else one stores under it, and a third commits its effect after an `already`."""
    token = app.begin("k1")["token"]
    app.one("SELECT pawl.release(%s)", token)
    app.connection.commit()
    effect = "INSERT INTO effect VALUES ('late'); SELECT pawl.complete(%s)"
    assert [app.refused(effect, token), app.refused(effect, token)] == ["PW001"] * 2
    assert app.refused("SELECT pawl.release(%s)", token) == "PW001"
    assert app.one("SELECT count(*) FROM effect WHERE what = 'late'") == 0
    assert app.decision("k1") == "proceed"


def test_a_client_s_error_is_kept_as_failed_and_bytes_as_they_are(app, database):
    app.do("k1", 422, "no")
    assert app.begin("k1", duplicate="reject")["http_code"] == 422
    token = app.begin("k2")["token"]
    assert app.one("SELECT pawl.complete_bytes(%s, 200, %s)", token, b"\xff\x00") == "stored"
    app.connection.commit()
    assert app.begin("k2")["body"] == b"\xff\x00"
    assert database.sql("SELECT key, status, http_code FROM pawl.idempotency_keys ORDER BY 1") == [
        ("k1", "failed", 422), ("k2", "complete", 200)]


def test_a_duplicate_is_rejected_or_acknowledged_where_the_begin_says_so(app):
    app.do("k1")
    rejected = app.begin("k1", duplicate="reject")
    assert (rejected["decision"], rejected["http_code"]) == ("duplicate", 201)
    assert rejected["body"] is None
    acknowledged = app.begin("k1", duplicate="ack")
    assert (acknowledged["decision"], acknowledged["http_code"]) == ("replay", 204)
    assert acknowledged["body"] is None


def test_a_result_expires_and_its_tombstone_says_so(app, database):
    app.do("k1", ttl="1 hour", tombstone="1 hour")
    app.do("k2", ttl=None)
    for hours, decisions in ((1, ("result_expired", "replay")), (2, ("proceed", "replay"))):
        database.sql("CREATE OR REPLACE FUNCTION pawl.clock(at bigint) RETURNS bigint LANGUAGE sql"
                     " AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
                     f" + {hours} * 3600000000 $$")
        assert (app.decision("k1"), app.decision("k2")) == decisions
    app.do("k1", body="new")
    assert app.begin("k1")["body"] == b"new"


@pytest.mark.parametrize("headers", ['[]', '{"A B": "1"}', '{"A": "1\\r\\nB: 2"}', '{"A": null}'])
def test_headers_that_are_none_are_refused(app, headers):
    token = app.begin("k1")["token"]
    assert app.refused("SELECT pawl.complete(%s, 200, '', %s)", token, headers) == "22023"


def test_headers_of_the_moment_are_not_kept(app):
    token = app.begin("k1")["token"]
    app.complete(token, headers='{"date": "now", "Set-Cookie": "a", "Proxy-X": "b", "ETag": 1}')
    assert app.begin("k1")["headers"] == {"ETag": "1"}


# ---- what is refused ----

@pytest.mark.parametrize("tenant, rule, key", [
    ("m1", "r", ""), ("m1", "r", None), ("m1", "r", "k" * 256), ("m1", "r", "é"),
    ("m1", "r", "a\nb"), ("m1", "", "k"), ("m1", None, "k"), ("m1", "a b", "k"), ("é", "r", "k"),
    ("m" * 1025, "r", "k"), ("credential:" + "0" * 64, "r", "k")])
def test_a_malformed_name_is_refused(app, tenant, rule, key):
    for function in ("begin(%s, %s, %s)", "key_hash(%s, %s, %s)", "lock(%s, %s, ARRAY[%s])"):
        assert app.refused(f"SELECT pawl.{function}", tenant, rule, key) == "PW004"


@pytest.mark.parametrize("part, fits", [
    ("tenant", lambda c: " " <= c <= "~"), ("key", lambda c: " " <= c <= "~"),
    ("rule", lambda c: c.isascii() and (c.isalnum() or c in "._-"))])
def test_each_character_is_in_a_name_or_refused(app, part, fits):
    for c in map(chr, range(1, 0x101)):
        call = "SELECT pawl.key_hash(tenant => %s, rule => %s, key => %s)"
        names = [f"a{c}" if part == each else "a" for each in ("tenant", "rule", "key")]
        if fits(c):
            assert len(app.one(call, *names)) == 32
            assert app.one("SELECT decision FROM pawl.begin(%s, %s, %s)", *names) == "proceed"
            app.connection.rollback()
        else:
            assert app.refused(call, *names) == "PW004"
            assert app.refused("SELECT pawl.begin(%s, %s, %s)", *names) == "PW004"


@pytest.mark.parametrize("option", [
    "payload_hash => repeat('g', 64)", "target_hash => repeat(' ', 64)", "tombstone => '-1 s'",
    "payload_hash => repeat('a', 62) || ' a'", "wait => '200000 days'",
    "payload_hash => 'abc'", "ttl => '0'", "ttl => '-1 s'", "duplicate => 'x'", "duplicate => NULL",
    "once => 'v', once_ttl => '0'", "ttl => '200000 days'"])
def test_an_argument_that_cannot_be_is_refused(app, option):
    assert app.refused(f"SELECT pawl.begin('m1', 'r', 'k', {option})") == "22023"


@pytest.mark.parametrize("most", ["-1", "0", "NULL", "1000001"])
def test_a_sweep_of_a_number_of_steps_that_cannot_be_is_refused(app, most):
    assert app.refused(f"SELECT pawl.maintain({most})") == "22023"


def test_more_keys_than_a_server_has_locks_for_are_refused(app):
    lock = "SELECT pawl.lock('m1', 'r', ARRAY(SELECT 'k' || i FROM generate_series(1, %s) i))"
    app.sql(lock, 1000)
    app.connection.commit()
    assert app.refused(lock, 1001) == "22023"


@pytest.mark.parametrize("arguments", ["100", "600", "NULL", "204, 'body'"])
def test_a_response_that_cannot_be_is_refused(app, arguments):
    token = app.begin("k1")["token"]
    assert app.refused(f"SELECT pawl.complete(%s, {arguments})", token) == "22023"


def test_a_schema_of_another_version_and_a_frozen_store_are_refused(app, database):
    token = app.do("k1")
    calls = (("begin('m1', 'r', %s)", "k"), ("key_hash('m1', 'r', %s)", "k"),
             ("complete(%s)", token), ("release(%s)", token))
    for change, codes in (("format = 3", ["PW003"] * 4),
                          ("format = 2, frozen = true", ["PW005", "PW005", "PW001", "PW001"])):
        database.sql(f"UPDATE pawl.store SET {change}")
        assert [app.refused(f"SELECT pawl.{call}", value) for call, value in calls] == codes


def test_what_began_before_the_freeze_is_completed_or_released(app, database):
    kept = app.begin("k1")["token"]
    given_up = app.begin("k2")["token"]
    database.sql("UPDATE pawl.store SET frozen = true")
    app.complete(kept)
    app.sql("SELECT pawl.release(%s)", given_up)
    app.connection.commit()
    database.sql("UPDATE pawl.store SET frozen = false")
    assert (app.decision("k1"), app.decision("k2")) == ("replay", "proceed")


def test_a_snapshot_from_before_the_freeze_goes_on_and_the_guide_says_so(app, database):
    app.connection.set_session(isolation_level="REPEATABLE READ")
    app.sql("SELECT 1")
    database.sql("UPDATE pawl.store SET frozen = true")
    assert app.do("k1")
    assert app.refused("SELECT pawl.begin('m1', 'refunds.create', 'k2')") == "PW005"


# ---- rights ----

TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'pawl'::regnamespace AND relkind IN " \
         "('r', 'v', 'S')"


def test_an_application_may_read_and_write_no_table(app, database):
    for (table,) in database.sql(TABLES):
        assert app.refused(f"SELECT * FROM pawl.{table}") == "42501"
        assert app.refused(f"DELETE FROM pawl.{table}") in ("42501", "42809", "55000")
    assert app.refused("SELECT pawl.save(1,1,1,1,'{}','{}','{}','{}','{}','{}','{}','{}','{}')") \
        == "42501"


def test_a_role_that_was_not_admitted_may_call_nothing(app, database):
    database.sql(f"REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl FROM {ROLE}")
    for call in ("begin('m1', 'r', 'k')", "complete(1)", "complete_bytes(1)", "release(1)",
                 "lock('m1', 'r', '{k}')", "key_hash('m1', 'r', 'k')", "maintain()"):
        assert app.refused(f"SELECT pawl.{call}") == "42501"


def test_what_acts_with_the_owner_s_rights_looks_names_up_where_nobody_else_writes(app, database):
    """Neither a schema nor a temporary object of the caller's comes in between."""
    unsafe = database.sql(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'pawl'::regnamespace AND prosecdef"
        " AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)")
    assert unsafe == []
    app.sql("CREATE TYPE pg_temp.bytea AS (a int); CREATE TYPE pg_temp.record AS (a int);"
            "CREATE TEMP TABLE pg_class(a int); SET search_path = pg_temp, pawl, pg_catalog")
    token = app.begin("k1")["token"]
    app.complete(token)
    assert app.begin("k1")["decision"] == "replay"


# ---- beside a gateway ----

def test_a_key_has_the_name_that_the_gateway_gives_it(app, database, gateway):
    gateway.post("/refunds", {}, key="k1", headers=MERCHANT)
    ((stored, secret),) = database.sql("SELECT r.key_hash, s.secret FROM pawl.record r,"
                                       " pawl.store s")
    message = b"".join(len(part).to_bytes(8, "big") + part
                       for part in (b"m1", b"refunds.create", b"k1"))
    assert bytes(stored) == hmac.digest(bytes(secret), message, hashlib.sha256)
    assert app.one("SELECT pawl.key_hash('m1', 'refunds.create', 'k1')") == bytes(stored)


def test_the_gateway_replays_what_an_application_completed(app, gateway, upstream):
    token = app.begin("k1")["token"]
    app.complete(token, headers='{"Content-Type": "application/json", "Location": "/r/7"}')
    app.connection.commit()
    answer = gateway.post("/refunds", {}, key="k1", headers=MERCHANT)
    assert (answer.status, answer.body) == (201, BODY.encode())
    assert answer["Idempotency-Status"] == "replayed" and answer["Location"] == "/r/7"
    assert upstream.effects() == 0


def test_an_application_replays_what_the_gateway_stored(app, gateway):
    answer = gateway.post("/refunds", {}, key="k1", headers=MERCHANT)
    replay = app.begin("k1")
    assert (replay["decision"], replay["http_code"]) == ("replay", answer.status)
    assert replay["body"] == answer.body
    assert replay["headers"]["Content-Type"] == answer["Content-Type"]


def test_what_one_side_runs_is_in_progress_for_the_other(app, gateway, upstream):
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {}, key="k1", headers=MERCHANT))
    gate.wait_for()
    met = app.begin("k1", wait="1 hour")
    assert met["decision"] == "in_progress" and met["lease_left"].total_seconds() > 0
    gate.open()
    assert first.result().status == 201
    app.connection.rollback()
    app.begin("k2")
    answer = gateway.post("/refunds", {}, key="k2", headers=MERCHANT)
    assert answer["Error-Code"] == "CONFLICT.idempotency.in_progress"
    app.connection.rollback()
