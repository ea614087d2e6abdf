# SPDX-License-Identifier: Apache-2.0
"""What others do in the database: whoever holds a record stops that key alone."""
from __future__ import annotations

import json
from contextlib import closing

import pytest

from pawltest.gateway import ROOT, Gateway, run
from pawltest.upstream import say
from pawltest.wire import Answer, Later, at_once, eventually

CONFIG = """
tenant: none
threads: 1
cache: 0
store_timeout: 2s
defaults: {in_progress: conflict}
rules:
  - {name: refunds.create, match: POST /refunds, timeout: 5s}
"""
PAGE = (ROOT / "docs/guide/postgresql.md").read_text("utf-8")
HOLDERS = PAGE.partition("-- holders.sql\n")[2].partition("```")[0]
RUNNING = "CONFLICT.idempotency.in_progress"
AWAY = "DEPENDENCY.store_unavailable"


@pytest.fixture
def gateway(pawl) -> Gateway:
    return pawl(CONFIG)


def ask(gateway: Gateway, key: str) -> Answer:
    return gateway.post("/refunds", {}, key=key)


def test_a_record_that_a_stranger_holds_stops_its_own_key_alone(gateway, upstream, database):
    """Its outcome waits for the stranger; every other key goes on meanwhile."""
    gate = upstream.hold()
    first = Later(lambda: ask(gateway, "held"))
    gate.wait_for()
    with closing(database.connect()) as stranger:
        stranger.cursor().execute("SELECT id FROM pawl.record FOR UPDATE")
        gate.open()
        answers = at_once(8, lambda i: ask(gateway, f"other-{i}"))
        assert [answer["Idempotency-Status"] for answer in answers] == ["stored"] * 8
        assert not first.is_done
        stranger.rollback()
    assert first.result()["Idempotency-Status"] == "stored"
    assert ask(gateway, "held")["Idempotency-Status"] == "replayed"
    assert upstream.effects() == 9


def test_a_replay_needs_no_lock(gateway, upstream, database):
    kept = ask(gateway, "k1").kept
    with closing(database.connect()) as stranger:
        stranger.cursor().execute("SELECT id FROM pawl.record FOR UPDATE")
        assert ask(gateway, "k1").kept == kept


def test_a_key_that_an_application_begins_is_in_progress(gateway, upstream, database):
    """It holds the lock of the key's name: as SQL functions of an application do."""
    ask(gateway, "k1")
    ((lock,),) = database.sql("SELECT ('x' || encode(substr(key_hash, 1, 8), 'hex'))::bit(64)"
                              "::bigint FROM pawl.record")
    database.sql("DELETE FROM pawl.record")
    with closing(database.connect()) as stranger:
        stranger.cursor().execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
        assert ask(gateway, "k1")["Error-Code"] == RUNNING
        assert ask(gateway, "k2")["Idempotency-Status"] == "stored"
        stranger.rollback()
    assert ask(gateway, "k1")["Idempotency-Status"] == "stored"


def test_a_locked_table_is_a_store_that_is_away_and_comes_back(gateway, upstream, database):
    with closing(database.connect()) as stranger:
        stranger.cursor().execute("LOCK TABLE pawl.record IN ACCESS EXCLUSIVE MODE")
        first = Later(lambda: ask(gateway, "k1"))
        holder = stranger.info.backend_pid
        eventually(lambda: [pid for pid, *_ in database.sql(HOLDERS)] == [holder],
                   "the guide's query to name the stranger")
        assert first.result().is_problem(503, AWAY)
        assert ask(gateway, "k2").is_problem(503, AWAY)
        assert upstream.effects() == 0
        stranger.rollback()
    eventually(lambda: ask(gateway, "k1").status == 201, "the store")
    assert upstream.effects() == 1


def test_an_outcome_that_a_stranger_s_constraint_refuses_is_withheld_until_it_is_stored(
        gateway, upstream, database):
    """The client is told so at its deadline, others that it is in progress; and it is not lost."""
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {}, key="k1",
                                         headers=[("X-Request-Timeout", "1500")]))
    gate.wait_for()
    database.sql("ALTER TABLE pawl.record ADD CONSTRAINT strange CHECK (status = 1)")
    gate.open()
    assert first.result().is_problem(503, "DEPENDENCY.outcome_not_stored")
    # One that meets the refused outcome in its batch is told that the store is away.
    eventually(lambda: ask(gateway, "k1")["Error-Code"] == RUNNING, "what others are told")
    database.sql("ALTER TABLE pawl.record DROP CONSTRAINT strange")
    eventually(lambda: ask(gateway, "k1")["Idempotency-Status"] == "replayed", "the outcome")
    assert upstream.effects() == 1


def test_whoever_holds_the_rows_of_beats_counts_and_marks_stops_nobody(gateway, upstream, database):
    """Leases of a second are beaten for meanwhile, as soon as their row can be written."""
    assert ask(gateway, "k0")["Idempotency-Status"] == "stored"
    for table in ("tally", "owner", "mark"):
        with closing(database.connect()) as stranger:
            stranger.cursor().execute(f"SELECT FROM pawl.{table} FOR UPDATE")
            answers = at_once(8, lambda i: ask(gateway, f"{table}-{i}"))
            assert [answer["Idempotency-Status"] for answer in answers] == ["stored"] * 8
    assert upstream.effects() == 25
    assert database.sql("SELECT went_back_at FROM pawl.store") == [(0,)]


def test_a_row_that_is_refused_fails_its_own_operation_alone(gateway, upstream, database):
    database.sql("ALTER TABLE pawl.record ADD CHECK (key <> 'bad'::bytea)")
    keys = [f"k{i}" for i in range(23)] + ["bad"]
    answers = at_once(len(keys), lambda i: ask(gateway, keys[i]))
    assert [answer["Idempotency-Status"] for answer in answers[:-1]] == ["stored"] * 23
    assert answers[-1].status == 503 and answers[-1]["Error-Code"].startswith("DEPENDENCY.")
    assert upstream.effects() == 23


@pytest.mark.parametrize("table", ["outcome", "unheld"])
def test_what_belongs_to_a_record_and_is_held_stops_its_own_key_alone(gateway, upstream, database,
                                                                     table):
    if table == "unheld":
        upstream.then(say(503, effect=False))
    ask(gateway, "held")
    database.sql("UPDATE pawl.record SET completed_at = 1, expires_at = 1, gone_at = 1"
                 " WHERE status = 2")
    with closing(database.connect()) as stranger:
        stranger.cursor().execute(f"SELECT FROM pawl.{table} FOR UPDATE")
        first = Later(lambda: ask(gateway, "held"))
        answers = at_once(8, lambda i: ask(gateway, f"other-{i}"))
        assert [answer["Idempotency-Status"] for answer in answers] == ["stored"] * 8
        assert first.result()["Error-Code"] == RUNNING
        stranger.rollback()
    eventually(lambda: ask(gateway, "held").status == 201, "the key")


@pytest.mark.parametrize("act", ["INSERT", "UPDATE"])
def test_a_trigger_that_drops_a_row_does_not_make_it_stored(gateway, upstream, database, act):
    ask(gateway, "k0")
    database.sql("CREATE FUNCTION public.drop_it() RETURNS trigger LANGUAGE plpgsql AS"
                 " $$ BEGIN RETURN NULL; END $$")
    database.sql(f"CREATE TRIGGER t BEFORE {act} ON pawl.record FOR EACH ROW"
                 " EXECUTE FUNCTION public.drop_it()")
    answers = [gateway.post("/refunds", {}, key="k1", headers=[("X-Request-Timeout", "1500")])
               for _ in range(2)]
    assert all(answer.status in (409, 503) for answer in answers)
    assert upstream.effects() == (1 if act == "INSERT" else 2)
    database.sql("DROP TRIGGER t ON pawl.record")
    eventually(lambda: ask(gateway, "k1").status == 201, "the outcome")
    assert upstream.effects() == 2


def test_an_outcome_that_a_trigger_refuses_stops_its_own_key_alone(gateway, upstream, database):
    ask(gateway, "k0")
    database.sql("CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS"
                 " $$ BEGIN IF NEW.key = 'bad' THEN RAISE EXCEPTION 'no'; END IF; RETURN NEW;"
                 " END $$")
    database.sql("CREATE TRIGGER t BEFORE UPDATE ON pawl.record FOR EACH ROW"
                 " EXECUTE FUNCTION public.refuse()")
    first = gateway.post("/refunds", {}, key="bad", headers=[("X-Request-Timeout", "1500")])
    assert first.is_problem(503, "DEPENDENCY.outcome_not_stored")
    answers = at_once(8, lambda i: ask(gateway, f"other-{i}"))
    assert [answer["Idempotency-Status"] for answer in answers] == ["stored"] * 8
    database.sql("DROP TRIGGER t ON pawl.record")
    eventually(lambda: ask(gateway, "bad").status == 201, "the outcome")
    assert upstream.effects() == 10


@pytest.mark.parametrize("change", [
    "status = 99", "status = 4, unknown = 1", "status = 3, lease_until = 5", "attempts = 0",
    "token = 0", "probing = 1", "expires_at = 2, gone_at = 1"])
def test_a_record_that_no_pawl_wrote_is_held_for_an_operator(gateway, upstream, database, change):
    ask(gateway, "odd")
    database.sql(f"UPDATE pawl.record SET version = nextval('pawl.token'), {change}")
    assert ask(gateway, "odd").is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert ask(gateway, "k2")["Idempotency-Status"] == "stored"
    ran = run("keys", "list", "--json", "--key", "odd", "--store", database.url)
    [row] = [json.loads(line) for line in ran.stdout.splitlines()]
    assert row["status"] == "unknown"
    ran = run("keys", "forget", "odd", "--force", "--store", database.url)
    assert ran.returncode == 0, ran.stderr
    assert ask(gateway, "odd")["Idempotency-Status"] == "stored"
    assert upstream.effects() == 3


def test_a_table_that_is_being_indexed_or_analysed_goes_on(gateway, upstream, database):
    """What maintenance locks does not stop anybody."""
    with closing(database.connect()) as stranger:
        stranger.cursor().execute("LOCK TABLE pawl.record IN SHARE UPDATE EXCLUSIVE MODE")
        assert ask(gateway, "k1")["Idempotency-Status"] == "stored"


def test_outcomes_are_stored_whoever_holds_the_terms_that_begins_wait_for(
        gateway, upstream, database):
    """What has happened is stored beside begins that cannot be, in the same batches; and they are
    told that the store is away, not that they are in progress."""
    gate = upstream.hold()
    first = Later(lambda: ask(gateway, "running"))
    gate.wait_for()
    # Nor do tokens have to be lifted meanwhile, which asks for a lock of that table, too.
    database.sql("SELECT setval('pawl.token', last_value + 600000000) FROM pawl.token")
    with closing(database.connect()) as stranger:
        stranger.cursor().execute("LOCK TABLE pawl.store IN SHARE ROW EXCLUSIVE MODE")
        begins = [Later(lambda i=i: ask(gateway, f"other-{i}")) for i in range(4)]
        again = Later(lambda: [ask(gateway, f"more-{i}") for i in range(3)])
        gate.open()
        eventually(lambda: first.is_done, "it is stored")
        assert first.result()["Idempotency-Status"] == "stored"
        for answer in [*(begin.result() for begin in begins), *again.result()]:
            assert answer.is_problem(503, AWAY)
        stranger.rollback()
    assert ask(gateway, "afterwards")["Idempotency-Status"] == "stored"
    assert upstream.effects() == 2
