# SPDX-License-Identifier: Apache-2.0
"""examples/ledger: every command of both tiers twice, at once, across merchants, after a restart
and after 25 hours."""
from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Iterator

import psycopg2
import pytest
import requests

from pawltest.gateway import PAWL
from server import Database, Server, run_schema

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/ledger"
LIBRARY = Path(PAWL).parent / "src/client"
NEVER = 2**63 - 1
HOURS_25_US = 25 * 3600 * 10**6
TABLES = ("receipts, lots, operations, grants, adjustments, products, operation_types, returns")
TIER_1 = {
    "Purchase.Settled": {"external_ref": "pay_77", "user_id": "u1", "amount": 500},
    "Operation.Open": {"idempotency_key": "open-1", "user_id": "u1", "code": "draw",
                       "timeout_s": 900},
    "Grant.Apply.welcome": {"user_id": "u1", "credits": 50},
}
TIER_2 = {
    "Grant.Apply.promo": {"ref": "promo-1", "user_id": "u1", "credits": 20},
    "Grant.Apply.admin": {"ref": "admin-1", "user_id": "u1", "credits": 10},
    "CreditAdjustment.Apply": {"ref": "adj-1", "user_id": "u1", "amount": 7},
    "DebitAdjustment.Apply": {"ref": "adj-2", "user_id": "u1", "amount": 3},
    "Product.Create": {"product_code": "P1", "price": 100},
    "OperationType.CreateWithArchival": {"operation_code": "draw", "rate": 2,
                                         "effective_at": "2026-12-01T00:00:00Z"},
    "Refund.Apply": {"external_ref": "r1", "purchase_ref": "pay_77", "amount": 100},
    "Chargeback.Apply": {"external_ref": "r1", "purchase_ref": "pay_77", "amount": 40},
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The service, as a user builds it."""
    made = tmp_path_factory.mktemp("ledger") / "service"
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libpq", "libmicrohttpd",
                            "jansson"], stdout=subprocess.PIPE, text=True, check=True).stdout
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}",
                    EXAMPLE / "service.c", EXAMPLE / "commands.c", f"-L{LIBRARY}",
                    "-l:libpawl.so.0", *flags.split(), "-o", made], check=True)
    return made


@pytest.fixture(scope="module")
def tables(server: Server) -> Database:
    made = server.add_database()
    run_schema(made)
    if not server.sql("SELECT 1 FROM pg_roles WHERE rolname = 'ledger'"):
        server.sql("CREATE ROLE ledger LOGIN PASSWORD 'ledger'")
    subprocess.run([server.programs / "psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1",
                    "-f", EXAMPLE / "schema.sql", made.url], check=True)
    made.sql("GRANT ALL ON ALL TABLES IN SCHEMA public TO ledger")
    made.sql("SELECT pawl.admit('ledger')")
    return made


def public(database: Database, statement: str) -> list[tuple[Any, ...]]:
    """As the owner, who is called as pawl's schema is, and would look there first."""
    return database.sql(f"SET search_path = public; {statement}")


class Ledger:
    def __init__(self, program: Path, database: Database):
        self.database = database
        self.url = (f"postgres://ledger:ledger@127.0.0.1:{database.server.port}/{database.name}")
        self.program = program
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen([self.program, self.url, "0"], stdout=subprocess.PIPE,
                                        text=True, env={**os.environ,
                                                        "LD_LIBRARY_PATH": str(LIBRARY)})
        self.port = int(self.process.stdout.readline().rpartition(":")[2])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def do(self, name: str, body: Any, merchant: str = "m1") -> requests.Response:
        return requests.post(f"http://127.0.0.1:{self.port}/commands/{name}", json=body,
                             headers={"X-Merchant": merchant}, timeout=60)

    def get(self, path: str, merchant: str = "m1") -> requests.Response:
        return requests.get(f"http://127.0.0.1:{self.port}{path}",
                            headers={"X-Merchant": merchant}, timeout=60)

    def balance(self, user: str = "u1", merchant: str = "m1") -> int:
        return self.get(f"/accounts/{user}", merchant).json()["balance"]

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return public(self.database, statement)

    def count(self, table: str) -> int:
        return self.rows(f"SELECT count(*) FROM {table}")[0][0]

    def pass_time(self, us: int) -> None:
        """What is stored is so much older."""
        def older(column: str) -> str:
            return (f"{column} = CASE WHEN {column} BETWEEN 1 AND {NEVER - 1}"
                    f" THEN {column} - {us} ELSE {column} END")

        self.rows("UPDATE pawl.record SET " + ", ".join(map(older, (
            "created_at", "started_at", "completed_at", "expires_at", "gone_at", "once_until"))))
        self.rows("UPDATE pawl.outcome SET " + older("sweep_at"))
        for column in ("opened_at", "closes_at"):
            self.rows(f"UPDATE operations SET {column} = {column} - interval '{us} us'")


@pytest.fixture
def ledger(program: Path, tables: Database) -> Iterator[Ledger]:
    public(tables, f"TRUNCATE {TABLES} RESTART IDENTITY CASCADE")
    public(tables, "ALTER TABLE entries DISABLE TRIGGER immutable;"
               "ALTER TABLE audit DISABLE TRIGGER immutable; TRUNCATE entries, audit;"
               "ALTER TABLE entries ENABLE TRIGGER immutable;"
               "ALTER TABLE audit ENABLE TRIGGER immutable")
    public(tables, "TRUNCATE pawl.record, pawl.outcome, pawl.bound, pawl.unheld, pawl.tally_entry,"
               " pawl.tally, pawl.decisions")
    made = Ledger(program, tables)
    yield made
    made.kill()


def at_once(ledger: Ledger, name: str, body: Any, n: int = 20) -> list[requests.Response]:
    with ThreadPoolExecutor(n) as clients:
        return list(clients.map(lambda _: ledger.do(name, body), range(n)))


def test_t3_a_purchase_is_settled_once(ledger: Ledger) -> None:
    body = TIER_1["Purchase.Settled"]
    told = [ledger.do("Purchase.Settled", body) for _ in range(2)]
    told += at_once(ledger, "Purchase.Settled", body)
    ledger.kill()
    ledger.start()
    told.append(ledger.do("Purchase.Settled", body))
    ledger.pass_time(HOURS_25_US)
    told.append(ledger.do("Purchase.Settled", body))
    assert {(one.status_code, one.content) for one in told} == {(201, told[0].content)}
    assert told[0].json() == {"lot": 1, "receipt": 1, "credits": 500}
    assert (ledger.count("lots"), ledger.count("receipts"), ledger.balance()) == (1, 1, 500)
    other = ledger.do("Purchase.Settled", body, "m2")
    assert other.status_code == 201 and other.json()["lot"] == 2
    assert (ledger.balance(merchant="m2"), ledger.balance()) == (500, 500)
    changed = ledger.do("Purchase.Settled", {**body, "amount": 501})
    assert changed.status_code == 409 and ledger.count("receipts") == 2


def test_t3_twenty_at_once_with_a_new_key(ledger: Ledger) -> None:
    told = at_once(ledger, "Purchase.Settled", TIER_1["Purchase.Settled"])
    assert len({one.content for one in told}) == 1 and ledger.count("receipts") == 1


def test_t4_an_open_operation_tells_its_time_beside_the_response(ledger: Ledger) -> None:
    body = TIER_1["Operation.Open"]
    first = ledger.do("Operation.Open", body)
    assert first.status_code == 201 and first.json()["status"] == "open"
    assert first.headers["Operation-Time-Remaining"] == "900"
    ledger.pass_time(60 * 10**6)
    again = ledger.do("Operation.Open", body)
    assert again.content == first.content
    left = int(again.headers["Operation-Time-Remaining"])
    assert again.headers["Operation-Status"] == "open" and 0 < left <= 840
    for key in ("", "k" * 256):
        refused = ledger.do("Operation.Open", {**body, "idempotency_key": key})
        assert refused.status_code == 400 and refused.json()["error"]["code"] == "VALIDATION"
    assert ledger.count("operations") == 1


def test_t4_a_second_open_waits_for_the_first(ledger: Ledger) -> None:
    """Whose transaction waits for a lock that the test holds. The second request is sent once the
    first one waits: so a thread that is free takes it."""
    body = TIER_1["Operation.Open"]
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'" \
              " AND usename = 'ledger'"
    with psycopg2.connect(ledger.database.url) as holder, ThreadPoolExecutor(2) as clients:
        holder.cursor().execute("LOCK TABLE public.operations")
        told = []
        for n in (1, 2):
            told.append(clients.submit(ledger.do, "Operation.Open", body))
            while ledger.rows(waiting)[0][0] < n:
                assert not any(one.done() for one in told)
        holder.rollback()
        assert told[0].result().content == told[1].result().content
    assert ledger.count("operations") == 1


HOLD_CLOSING = """
CREATE OR REPLACE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NEW; END $$;
CREATE TRIGGER hold BEFORE UPDATE ON operations FOR EACH ROW WHEN (NEW.status = 'closed')
    EXECUTE FUNCTION hold();
"""


def test_t4_what_is_recorded_and_not_closed_is_cleaned_up_once(ledger: Ledger) -> None:
    """The service dies between debit and close, which waits for a lock that the test holds."""
    ledger.do("Purchase.Settled", TIER_1["Purchase.Settled"])
    operation = ledger.do("Operation.Open", TIER_1["Operation.Open"]).json()["operation"]
    body = {"idempotency_key": "close-1", "operation": operation, "cost": 120}
    ledger.rows(HOLD_CLOSING)
    holder = psycopg2.connect(ledger.database.url)
    holder.cursor().execute("SELECT pg_advisory_lock(42)")
    with ThreadPoolExecutor(1) as clients:
        told = clients.submit(ledger.do, "Operation.RecordAndClose", body)
        while ledger.count("pg_locks WHERE locktype = 'advisory' AND NOT granted") == 0:
            assert not told.done()
        ledger.kill()
        assert isinstance(told.exception(), requests.ConnectionError)
    ledger.database.server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                               " WHERE usename = 'ledger'")
    holder.close()
    ledger.rows("DROP TRIGGER hold ON operations")
    ledger.start()
    retry = ledger.do("Operation.RecordAndClose", body)
    assert retry.status_code == 201 and retry.json()["debited"] == 120
    assert retry.headers["Operation-Status"] == "recorded"
    assert ledger.do("Operation.Cleanup", {}).json() == {"closed": 1, "expired": 0}
    assert ledger.do("Operation.Cleanup", {}).json() == {"closed": 0, "expired": 0}
    again = ledger.do("Operation.RecordAndClose", body)
    assert (again.content, again.headers["Operation-Status"]) == (retry.content, "closed")
    assert ledger.balance() == 500 - 120


def test_t4_record_and_close_twice_debits_once(ledger: Ledger) -> None:
    ledger.do("Purchase.Settled", TIER_1["Purchase.Settled"])
    operation = ledger.do("Operation.Open", TIER_1["Operation.Open"]).json()["operation"]
    body = {"idempotency_key": "close-1", "operation": operation, "cost": 120}
    told = [ledger.do("Operation.RecordAndClose", body) for _ in range(2)]
    told += at_once(ledger, "Operation.RecordAndClose", body)
    assert len({one.content for one in told}) == 1 and ledger.balance() == 380
    assert told[-1].headers["Operation-Status"] == "closed"
    other = ledger.do("Operation.RecordAndClose", {**body, "idempotency_key": "close-2"})
    assert other.status_code == 409 and other.json()["error"]["existing"]["status"] == "closed"
    none = ledger.do("Operation.RecordAndClose", {**body, "idempotency_key": "c3", "operation": 99})
    assert none.status_code == 404 and ledger.balance() == 380


def test_an_operation_that_nobody_closes_expires(ledger: Ledger) -> None:
    ledger.do("Operation.Open", TIER_1["Operation.Open"])
    ledger.pass_time(901 * 10**6)
    assert ledger.do("Operation.Cleanup", {}).json() == {"closed": 0, "expired": 1}
    told = ledger.do("Operation.Open", TIER_1["Operation.Open"])
    assert (told.headers["Operation-Status"], told.headers["Operation-Time-Remaining"]) == (
        "expired", "0")


def test_t5_a_grant_is_welcome_once_and_a_promo_shows_its_row(ledger: Ledger) -> None:
    welcome = TIER_1["Grant.Apply.welcome"]
    told = at_once(ledger, "Grant.Apply.welcome", welcome)
    assert len({one.content for one in told}) == 1 and ledger.count("grants") == 1
    assert ledger.do("Grant.Apply.welcome", welcome, "m2").json()["id"] != told[0].json()["id"]
    promo = TIER_2["Grant.Apply.promo"]
    first = ledger.do("Grant.Apply.promo", promo)
    again = ledger.do("Grant.Apply.promo", {**promo, "user_id": "u2"})
    assert (first.status_code, again.status_code) == (201, 409)
    error = again.json()["error"]
    assert error["existing"] == first.json() and "promo-1" in error["message"]
    assert ledger.balance() == 50 + 20 and ledger.balance("u2") == 0


@pytest.mark.parametrize("name", TIER_2)
def test_t6_a_constraint_tells_the_row_that_is_there(ledger: Ledger, name: str) -> None:
    ledger.do("Purchase.Settled", TIER_1["Purchase.Settled"])
    ledger.do("Purchase.Settled", TIER_1["Purchase.Settled"], "m2")
    told = at_once(ledger, name, TIER_2[name])
    made = [one for one in told if one.status_code == 201]
    assert len(made) == 1
    row, key = made[0].json(), next(iter(TIER_2[name].values()))
    for one in told:
        if one is made[0]:
            continue
        error = one.json()["error"]
        assert (one.status_code, error["code"], error["existing"]) == (409, "DUPLICATE", row)
        assert str(key) in error["message"] and f"id {row['id']}" in error["message"]
        assert row["created_at"] in error["message"]
    assert ledger.do(name, TIER_2[name], "m2").status_code == 201
    assert "idempotency_key" not in (EXAMPLE / "commands.c").read_text().split("tier 2")[1]


def test_t6_other_rates_archive_the_former_and_archiving_twice_changes_nothing(
        ledger: Ledger) -> None:
    name, body = "OperationType.CreateWithArchival", TIER_2["OperationType.CreateWithArchival"]
    ledger.do(name, body)
    later = ledger.do(name, {**body, "rate": 3, "effective_at": "2027-01-01T00:00:00Z"})
    assert later.status_code == 201
    assert ledger.rows("SELECT rate, archived_at IS NOT NULL FROM operation_types ORDER BY rate") \
        == [(2, True), (3, False)]
    ledger.do("Product.Create", TIER_2["Product.Create"])
    told = [ledger.do("Product.Archive", {"product_code": "P1"}) for _ in range(2)]
    assert [one.status_code for one in told] == [200, 200] and told[0].json() == told[1].json()
    assert told[0].json()["archived_at"]
    assert ledger.do("Product.Archive", {"product_code": "P2"}).status_code == 404


def test_t7_nothing_of_tier_2_changes_what_tier_1_told(ledger: Ledger) -> None:
    bodies = dict(TIER_1)
    first = {name: ledger.do(name, body) for name, body in bodies.items()}
    bodies["Operation.RecordAndClose"] = {"idempotency_key": "c1", "cost": 5, "operation":
                                          first["Operation.Open"].json()["operation"]}
    first["Operation.RecordAndClose"] = ledger.do("Operation.RecordAndClose",
                                                  bodies["Operation.RecordAndClose"])
    before = ledger.rows("SELECT * FROM entries ORDER BY id")
    commands = [*TIER_2.items(), ("Product.Archive", {"product_code": "P1"}),
                ("Operation.Cleanup", {}), ("Lot.Expire", {})]
    for name, body in commands:
        assert ledger.do(name, body).ok
        assert {name: ledger.do(name, body).content for name, body in bodies.items()} == {
            name: one.content for name, one in first.items()}
    assert ledger.rows("SELECT * FROM entries ORDER BY id")[:len(before)] == before
    for change in ("UPDATE entries SET amount = 1", "DELETE FROM entries", "TRUNCATE entries",
                   "UPDATE audit SET result = 'x'"):
        with pytest.raises(psycopg2.Error, match="only added to"):
            ledger.rows(change)
    told = ledger.rows("SELECT DISTINCT command FROM audit WHERE result = 'new'")
    assert {name for name, in told} == {*bodies, *(name for name, _ in commands)}


def test_t8_an_explicit_key_is_new_after_24_hours_and_a_natural_one_never(ledger: Ledger) -> None:
    first = {name: ledger.do(name, body) for name, body in TIER_1.items()}
    ledger.pass_time(HOURS_25_US)
    again = {name: ledger.do(name, body) for name, body in TIER_1.items()}
    same = {name for name in TIER_1 if first[name].content == again[name].content}
    assert same == {"Purchase.Settled", "Grant.Apply.welcome"}
    assert ledger.count("operations") == 2
    metrics = ledger.get("/metrics").text
    assert 'ledger_commands_total{command="Purchase.Settled",result="new"} 1\n' in metrics
    assert 'ledger_commands_total{command="Purchase.Settled",result="replay"} 1\n' in metrics
    assert 'ledger_commands_total{command="Operation.Open",result="new"} 2\n' in metrics
    # And as pawl counts them, where a gateway or cron folds what was told.
    ledger.rows("SELECT pawl.maintain()")
    assert ledger.rows("SELECT times FROM pawl.decisions WHERE decision = 'replay'"
                       " AND rule = 'Purchase.Settled'") == [(1,)]


def test_a_lot_expires_once_by_what_is_left(ledger: Ledger) -> None:
    ledger.do("Purchase.Settled", TIER_1["Purchase.Settled"])
    ledger.do("DebitAdjustment.Apply", {"ref": "d1", "user_id": "u1", "amount": 450})
    ledger.rows("UPDATE lots SET expires_at = now() - interval '1 s'")
    told = at_once(ledger, "Lot.Expire", {}, 5)
    assert sorted(one.json()["lots"] for one in told) == [0, 0, 0, 0, 1]
    assert ledger.balance() == 0
    assert ledger.rows("SELECT amount FROM entries WHERE kind = 'expiry'") == [(-50,)]


def test_malformed_commands_leave_nothing(ledger: Ledger) -> None:
    purchase = TIER_1["Purchase.Settled"]
    for body in ({}, {**purchase, "amount": "much"}, {**purchase, "amount": -1},
                 {**purchase, "user_id": "u" * 300}, {**purchase, "external_ref": "r" * 256}, []):
        assert ledger.do("Purchase.Settled", body).status_code == 400, body
    assert ledger.do("Purchase.Unsettled", {}).status_code == 404
    assert ledger.do("Purchase.Settled", purchase, "").status_code == 400
    assert (ledger.count("receipts"), ledger.count("entries"), ledger.count("pawl.record")) == (
        0, 0, 0)


def test_killed_at_any_point_each_command_is_done_once(ledger: Ledger) -> None:
    """kill -9 again and again while four clients repeat what they were not told."""
    over = threading.Event()

    def settle(key: str) -> bytes:
        while True:
            try:
                told = ledger.do("Purchase.Settled", {"external_ref": key, "user_id": "u1",
                                                      "amount": 1})
                if told.status_code == 201:
                    return told.content
            except requests.ConnectionError:
                pass

    def client(name: int) -> int:
        n = 0
        while not over.is_set():
            first = settle(f"c{name}-{n}")
            assert settle(f"c{name}-{n}") == first
            n += 1
        return n

    with ThreadPoolExecutor(4) as clients:
        told = [clients.submit(client, i) for i in range(4)]
        for i in range(20):
            time.sleep(0.003 * (i % 5))
            ledger.kill()
            ledger.start()
        over.set()
        total = sum(one.result() for one in told)
    assert total == ledger.count("receipts") == ledger.count("lots") == ledger.balance()
    assert re.search(rf'"Purchase.Settled",result="new"}} {total}\n', ledger.get("/metrics").text)
