# SPDX-License-Identifier: Apache-2.0
"""A session that is told what batches call: one that forgets it, and one that was never ours."""
from __future__ import annotations

import re

import pytest

from pawltest.gateway import Gateway
from pawltest.wire import at_once
from relay import Lender
from server import Server

CONFIG = """
tenant: none
threads: 1
cache: 0
rules:
  - {name: refunds.create, match: POST /refunds}
  - {name: orders.create, match: POST /orders, once: {key: "{body:/number}", ttl: 7d}}
"""
# Of this connection alone, in the middle of a batch: the next one finds nothing that it was told,
# or something else.
FORGET = """
    CREATE FUNCTION public.forget() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE told text[] := ARRAY(SELECT name FROM pg_prepared_statements WHERE name ~ '^pawl_');
    one text;
    BEGIN EXECUTE 'DEALLOCATE ALL'; %s RETURN NULL; END $$;
    CREATE TRIGGER forget AFTER INSERT ON pawl.record FOR EACH ROW
    EXECUTE FUNCTION public.forget()"""
# pawl.pairs of another pawl: it returns a column more.
OTHER_PAIRS = """
    DO $$ DECLARE made text := pg_get_functiondef('pawl.pairs'::regproc); BEGIN
    DROP FUNCTION pawl.pairs;
    EXECUTE replace(made, 'OUT restored_until bigint',
        'OUT restored_until bigint, OUT more bigint');
    END $$"""
PREPARE = """
    FOREACH one IN ARRAY told LOOP EXECUTE format('PREPARE %I AS SELECT 1', one); END LOOP;"""
NO_STATEMENT = 'ERROR:  prepared statement "pawl_[^"]+" does not exist'
TAKEN = 'ERROR:  prepared statement "pawl_[^"]+" already exists'
OTHER_PARAMS = 'parameters, but prepared statement "pawl_[^"]+" requires 0'
OTHER_ROWS = "ERROR:  cached plan must not change result type"


@pytest.fixture
def gateway(pawl, database) -> Gateway:
    return pawl(CONFIG, started=False).move_to(database.url).start()


def run_all(gateway: Gateway, upstream, rounds: int) -> None:
    """Begins and finishes with and without a load: each has one effect, and is replayed."""
    before = upstream.effects()
    for i in range(rounds):
        for path, body in (("/refunds", {}), ("/orders", {"number": f"{before}-{i}"})):
            key = f"{path}-{before}-{i}"
            assert gateway.post(path, body, key=key).status == 201
            assert gateway.post(path, body, key=key)["Idempotency-Status"] == "replayed"
    assert upstream.effects() == before + 2 * rounds


def said(server: Server, words: str) -> int:
    """How often, of any statement."""
    return len(re.findall(words, server.log.read_text("utf8", "replace")))


@pytest.mark.parametrize("then, words", [("", NO_STATEMENT), (PREPARE, OTHER_PARAMS)],
                         ids=["nothing", "another"])
def test_a_session_that_forgets_what_it_was_told_costs_nothing(gateway, database, upstream, then,
                                                               words):
    times = said(database.server, words)
    run_all(gateway, upstream, 1)
    assert said(database.server, words) == times
    database.sql(FORGET % then)
    for time in (1, 2):
        run_all(gateway, upstream, 3)
        assert said(database.server, words) == times + time
        database.server.end_backends(database)


def test_a_function_that_returns_other_rows_is_called_as_it_is_now(gateway, database, upstream):
    times = said(database.server, OTHER_ROWS)
    run_all(gateway, upstream, 1)
    database.sql(OTHER_PAIRS)
    run_all(gateway, upstream, 3)
    assert said(database.server, OTHER_ROWS) == times + 1


def test_sessions_that_are_lent_with_the_number_of_another_one(pawl, database, upstream):
    taken, lacking = (said(database.server, words) for words in (TAKEN, NO_STATEMENT))
    with Lender(database.server.directory, database.server.port) as lender:
        gateways = [pawl(CONFIG, started=False).move_to(database.url_at(lender.port)).start()
                    for _ in range(2)]
        for gateway in gateways:
            run_all(gateway, upstream, 3)
        before = upstream.effects()
        answers = at_once(6, lambda i: gateways[i % 2].post("/refunds", {}, key="shared"))
        assert {answer.status for answer in answers} == {201}
        assert upstream.effects() == before + 1
        assert lender.lent > 0
    assert said(database.server, TAKEN) > taken and said(database.server, NO_STATEMENT) > lacking
