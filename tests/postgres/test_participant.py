# SPDX-License-Identifier: Apache-2.0
"""`unknown: participant`: the service completes the record in the transaction of its effect. Killed
anywhere, it happened once, and everybody is told the same."""
from __future__ import annotations

import json
import re
from contextlib import closing, contextmanager
from typing import Any, Callable, Iterator

import psycopg2
import pytest

from pawltest.admin import Admin
from pawltest.gateway import ROOT, Gateway, free_port, run
from pawltest.participant import CONFIG, LOCK, Participant
from pawltest.wire import Answer, Broken, Client, Later, eventually
from server import Database

BODY = {"account": "a", "amount": 5}
RUNNING = "CONFLICT.idempotency.in_progress"
NOT_KEPT = "CONFLICT.idempotency.result_not_kept"
Make = Callable[..., Gateway]


@pytest.fixture
def gateway(gateway_of: Make) -> Gateway:
    return gateway_of()


def pay(gateway: Gateway, fault: str = "", key: str = "k1", target: str = "/payments",
        body: Any = None) -> Answer:
    return gateway.post(target, body or BODY, key=key, headers=[("Fault", fault)] if fault else [])


def check_paid_once(gateway: Gateway, payer: Participant, told: Answer | None = None) -> None:
    """Everybody is told the same from now on, and nothing is left over."""
    again = [pay(gateway) for _ in range(2)]
    assert {answer.mark for answer in again} == {(201, "replayed")}
    assert len({answer.kept for answer in (*again, *([told] if told else []))}) == 1
    assert payer.effects() == {"k1": 1}
    assert payer.database.sql("SELECT id FROM payments") == [(again[0].json["id"],)]
    assert payer.database.sql("SELECT status, provisional, lease_until FROM pawl.record"
                              " WHERE NOT (status = 2 AND provisional = 0 AND lease_until = 0)"
                              ) == []
    wait_for_counts(payer.database)


def wait_for_counts(database: Database) -> None:
    """One record is complete, and there are no others, nor leases that somebody holds."""
    database.until(lambda rows: rows == [(0, 1, 0, 0, 0, 0)],
                   "SELECT sum(pending), sum(complete), sum(failed), sum(unknown), sum(released),"
                   " coalesce(sum(leases) FILTER (WHERE owner <> 0), 0) FROM pawl.tally")


@contextmanager
def lock_held(database: Database) -> Iterator[Any]:
    """While it is, faults that wait for it do; what is yielded commits."""
    with closing(database.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        yield connection.commit


# Of each transaction that is at the lock, whether it has it.
LOCKERS = ("SELECT granted FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND database ="
           " (SELECT oid FROM pg_database WHERE datname = current_database())")


def wait_for_payer(database: Database) -> None:
    database.until(lambda rows: (False,) in rows, LOCKERS, LOCK)


def wait_for_end(database: Database) -> None:
    """Of the transactions that are at the lock."""
    database.until(lambda rows: not rows, LOCKERS, LOCK)


def noted(gateway: Gateway, what: str) -> dict[str, Any] | None:
    """The only line of the log that says it of the participant."""
    lines = [line for line in gateway.log if "participant" in line]
    assert len(lines) <= 1
    return next((line for line in lines if line["participant"] == what), None)


def test_what_was_paid_is_stored_with_the_response_of_the_service(gateway, payer):
    told = pay(gateway)
    assert told.mark == (201, "stored")
    assert told["Server"]  # the record has what the service sent, not only what it completed with
    check_paid_once(gateway, payer, told)


@pytest.mark.parametrize("point, paid", [("insert", False), ("complete", False),
                                         ("commit", False), ("reply", True)])
@pytest.mark.parametrize("how", ["close", "die"])
def test_a_service_that_dies_anywhere_has_paid_once_in_the_end(gateway, payer, point, paid, how):
    """What committed is told at once, to the first client too; what did not may run again."""
    first = pay(gateway, f"{point}={how}")
    if how == "die":
        payer.start().wait_until_ready()
    if paid:
        assert first.mark == (201, "replayed")
    else:
        assert first.is_problem(502, "TRANSIENT.upstream_broke")
        assert (first["Idempotency-Status"], first.json["retryable"]) == ("released", True)
        assert payer.effects() == {}
        first = pay(gateway)
        assert first.mark == (201, "stored")
    check_paid_once(gateway, payer, first)


@pytest.mark.parametrize("status", [500, 502, 503, 401, 307])
def test_what_the_service_says_after_it_has_paid_changes_nothing(gateway, payer, status):
    """In doubt, not done, elsewhere: the record says what happened."""
    told = pay(gateway, f"reply={status}")
    assert told.mark == (201, "replayed")
    check_paid_once(gateway, payer, told)


def test_a_status_that_differs_is_overruled_by_what_was_completed(gateway, payer):
    told = pay(gateway, "reply=202")
    assert told.mark == (201, "replayed")
    line = eventually(lambda: noted(gateway, "overruled"), "the line")
    assert (line["event"], line["level"], line["status"]) == ("request", "warn", 201)
    check_paid_once(gateway, payer, told)


def missed(admin: Admin) -> dict[str, float]:
    return {dict(labels)["rule"]: value for (name, labels), value in admin.series().items()
            if name == "pawl_participant_missing_total" and value}


def test_a_2xx_without_a_completed_record_is_stored_logged_and_counted(gateway_of, payer):
    port = free_port()
    gateway, admin = gateway_of(f"admin: 127.0.0.1:{port}\n{CONFIG}"), Admin(port)
    assert pay(gateway).mark == (201, "stored")
    assert pay(gateway, key="k2", body={**BODY, "amount": 0}).mark == (422, "stored")
    assert missed(admin) == {}
    told = pay(gateway, "complete=skip", key="k3")
    assert told.mark == (201, "stored")
    assert pay(gateway, key="k3").mark == (201, "replayed")
    assert missed(admin) == {"payments.create": 1}
    line = eventually(lambda: noted(gateway, "missing"), "the line")
    assert (line["idempotency_key"], line["level"]) == ("k3", "warn")


@pytest.mark.parametrize("point", ["insert", "complete", "commit"])
def test_an_attempt_that_outlives_its_gateway_pays_once_with_the_next(gateway_of, payer, point):
    """Before it has the row, the next attempt replaces its token: it rolls back. Once it has the
    row, the next attempt waits for it."""
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        lost = Later(lambda: pay(first, f"{point}=wait"))
        wait_for_payer(payer.database)
        first.kill9()
        later = Later(lambda: pay(second))
        if point != "commit":  # else it waits for the row
            assert later.result().mark == (201, "stored")
        release()
        told = later.result()
    with pytest.raises((Broken, OSError)):
        lost.result()
    assert told.mark == (201, "stored" if point != "commit" else "replayed")
    wait_for_end(payer.database)
    check_paid_once(second, payer, told)


def test_an_open_transaction_that_has_the_record_is_in_progress(gateway_of, payer):
    """Also where its lease has lapsed, and to whom waits for nothing."""
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        Later(lambda: pay(first, "commit=wait", target="/at-once"))
        wait_for_payer(payer.database)
        first.kill9()
        payer.database.until(
            bool, "SELECT 1 FROM pawl.record r JOIN pawl.owner o ON o.incarnation = r.owner"
            " WHERE greatest(r.lease_until, o.beat_at + r.lease_us)"
            " < extract(epoch FROM clock_timestamp()) * 1000000")
        assert pay(second, target="/at-once").is_problem(409, RUNNING)
        release()
    told = eventually(lambda: next((answer for answer in [pay(second, target="/at-once")]
                                    if answer.status != 409), None), "the outcome")
    assert told.mark == (201, "replayed")
    assert payer.effects() == {"k1": 1}


def test_a_duplicate_elsewhere_waits_for_the_response_and_gets_what_was_paid(gateway_of, payer):
    """The gateway that owns it died after the service has paid: the record waits for its lease."""
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        Later(lambda: pay(first, "reply=wait"))
        wait_for_payer(payer.database)
        shown = run("keys", "list", "--store", payer.database.url)
        assert "complete,provisional" in shown.stdout
        shown = run("keys", "show", "k1", "--store", payer.database.url)
        assert "provisional:" in shown.stdout and "expires:      -" in shown.stdout
        first.kill9()
        told = pay(second)
        release()
    assert told.mark == (201, "replayed")
    check_paid_once(second, payer, told)


def test_a_duplicate_waits_while_the_response_may_still_come(gateway_of, payer):
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        owner = Later(lambda: pay(first, "reply=wait"))
        wait_for_payer(payer.database)
        waiters = [Later(lambda gateway=gateway: pay(gateway)) for gateway in (first, second)]
        release()
        told = owner.result()
    assert told.mark == (201, "stored")
    for waiter in waiters:
        assert waiter.result().kept == told.kept
    check_paid_once(second, payer, told)


def test_a_request_that_is_delivered_twice_is_paid_once(gateway, payer):
    """A proxy before the service sends it again, under the same token."""
    told = pay(gateway)
    [(token,)] = payer.database.sql("SELECT token FROM pawl.record")
    with Client(payer.port) as client:
        again = client.request("POST", "/payments", [
            ("Idempotency-Token", str(token)), ("Idempotency-Key", "k1")],
            json.dumps(BODY).encode())
    assert (again.status, again["Error-Code"]) == (409, "CONFLICT.idempotency.token_stale")
    check_paid_once(gateway, payer, told)


def test_a_transaction_that_completes_twice_does_so_once(gateway, payer):
    """Also in savepoints, of which one is rolled back; another transaction may not."""
    first = Later(lambda: pay(gateway, "insert=wait"))
    with lock_held(payer.database) as release:
        wait_for_payer(payer.database)
        [(token,)] = payer.database.sql("SELECT token FROM pawl.record")
        complete = f"SELECT pawl.complete({token}, 201, '{{}}')"
        with closing(payer.database.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(f"SAVEPOINT a; {complete}; ROLLBACK TO a; SAVEPOINT b; {complete}")
            assert cursor.fetchall() == [("stored",)]
            cursor.execute(f"RELEASE b; {complete}")
            assert cursor.fetchall() == [("already",)]
            connection.commit()
            with pytest.raises(psycopg2.Error) as refused:
                cursor.execute(complete)
            assert refused.value.pgcode == "PW001"
        release()
    assert first.result().mark == (201, "replayed")
    assert payer.effects() == {}  # the other transaction's effect is the test's own


def test_of_a_response_that_is_too_large_nothing_is_kept_and_nothing_is_repeated(gateway, payer):
    told = pay(gateway, target="/small")
    assert told.mark == (201, "not-kept")
    assert pay(gateway, target="/small").is_problem(410, NOT_KEPT)
    assert payer.effects() == {"k1": 1}


def test_a_rule_that_was_renamed_finds_what_was_paid_under_its_old_name(gateway_of, payer):
    first = gateway_of()
    told = pay(first, "reply=close")
    renamed = CONFIG.replace("{name: payments.create,", "{name: pay, formerly: [payments.create],")
    check_paid_once(gateway_of(renamed), payer, told)


def test_a_once_value_is_paid_once_whatever_key_the_retry_has(gateway_of, payer):
    text = CONFIG.replace("match: POST /payments", 'match: POST /payments,'
                          ' once: {key: "{body:/account}", duplicate: replay}')
    first, second = gateway_of(text), gateway_of(text)
    with lock_held(payer.database) as release:
        Later(lambda: pay(first, "reply=wait"))
        wait_for_payer(payer.database)
        first.kill9()
        told = pay(second, key="k2")
        release()
    assert told.mark == (201, "replayed")
    assert pay(second, key="k3").kept == told.kept
    check_paid_once(second, payer, told)


# ---- the page ----


def block_of(language: str, name: str) -> str:
    page = (ROOT / "docs/guide/participants.md").read_text("utf-8")
    found = [block for block in re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)
             if name in block]
    assert len(found) == 1
    return found[0]


def test_the_page_shows_what_the_example_does():
    example = (ROOT / "examples/participant/service.py").read_text("utf-8")
    assert block_of("py", "pawl.complete") in example


def test_a_role_with_the_rights_of_the_page_may_complete_and_nothing_else(gateway, payer):
    """With the statements of the page, too."""
    payer.database.sql("CREATE ROLE payments LOGIN; GRANT ALL ON payments TO payments")
    payer.database.sql(block_of("sql", "rights.sql"))
    with lock_held(payer.database) as release:
        first = Later(lambda: pay(gateway, "insert=wait", key="k-1"))
        wait_for_payer(payer.database)
        [(token,)] = payer.database.sql("SELECT token FROM pawl.record")
        with closing(payer.database.connect()) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            cursor.execute("SET ROLE payments")
            cursor.execute(block_of("sql", "payment.sql").replace(":token", str(token)))
            for other in ("SELECT * FROM pawl.record", "SELECT pawl.release(1)"):
                with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                    cursor.execute(other)
        release()
    assert first.result().mark == (201, "replayed")
    assert payer.effects() == {"k-1": 1}


@pytest.mark.parametrize("fault", ["", "reply=close", "commit=close"])
def test_what_it_completes_is_told_in_its_own_transaction(gateway_of, payer, fault):
    gateway = gateway_of(CONFIG.replace("match: POST /payments",
                                        "match: POST /payments, emit: {type: payment.made}"))
    pay(gateway, fault)
    answer = pay(gateway)
    events = payer.database.sql("SELECT convert_from(event_id, 'UTF8'), convert_from(type, 'UTF8'),"
                                " convert_from(data, 'UTF8'), is_new FROM pawl.event")
    ((id_, type_, data, is_new),) = events
    assert re.fullmatch("evt_[0-9a-f]{32}", id_) and (type_, is_new) == ("payment.made", 1)
    assert json.loads(data) == answer.json and payer.effects() == {"k1": 1}
