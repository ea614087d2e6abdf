# SPDX-License-Identifier: Apache-2.0
"""What an operator sees of records that applications made, and does with them, is what it is of a
gateway's: the commands, the metrics, the sweep."""
from __future__ import annotations

import json
from typing import Any

import pytest

from pawltest.admin import Admin, with_admin
from pawltest.gateway import run
from pawltest.wire import eventually
from server import Database
from shop import RULE, Shop

CONFIG = f"tenant: none\nrules: [{{name: {RULE}, match: POST /refunds}}]"


@pytest.fixture
def admin(pawl: Any, database: Database) -> Admin:
    gateway, admin = with_admin(pawl, CONFIG, started=False)
    gateway.move_to(database.url).start()
    return admin


@pytest.fixture
def keys(database: Database) -> Any:
    """`pawl keys` on the database: what it printed."""
    def keys(*arguments: str) -> str:
        ran = run("keys", *arguments, "--store", database.url)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return keys


def refuse(session: Shop, key: str) -> None:
    session.run("SELECT pawl.complete(%s, 422)", session.begin(key).token)
    session.commit()


def records(admin: Admin) -> dict[str, int]:
    return {status: int(admin.value("pawl_records", status=status))
            for status in ("complete", "failed", "released")}


def test_the_commands_list_and_show_what_an_application_completed(shop, keys):
    session = shop()
    session.create("k1")
    refuse(session, "k2")
    rows = [json.loads(line) for line in keys("list", "--json").splitlines()]
    assert {(row["key"], row["tenant"], row["rule"], row["status"]) for row in rows} == {
        ("k1", "m1", RULE, "complete"), ("k2", "m1", RULE, "failed")}
    shown = keys("show", "k1")
    assert RULE in shown and "201" in shown


def test_an_open_transaction_is_not_listed(shop, keys):
    session = shop()
    session.open("k1")
    assert "k1" not in keys("list")
    session.commit()
    assert "k1" in keys("list")


def test_a_key_that_an_operator_forgets_is_begun_anew(shop, keys):
    session = shop()
    first = session.create("k1")
    keys("forget", "k1")
    assert "k1" not in keys("list")
    assert session.create("k1") != first


def test_the_metrics_count_what_applications_did(shop, admin):
    session = shop()
    session.create("k1")
    refuse(session, "k2")
    session.run("SELECT pawl.release(%s)", session.begin("k3").token)
    session.commit()
    eventually(lambda: records(admin) == {"complete": 1, "failed": 1, "released": 1}, "all three")


def test_the_rate_of_duplicates_of_each_rule_can_be_read(shop, database):
    session = shop()
    for key in ("k1", "k1", "k1", "k2"):
        session.create(key)
    session.run("SELECT pawl.release(%s)", session.begin("k3").token)
    session.commit()
    session.create("k3")  # takes over what was released
    database.sql("SELECT pawl.maintain()")
    assert dict(database.sql("SELECT decision, times FROM pawl.decisions")) == {
        "proceed": 3, "replay": 2}


def test_a_gateway_shows_the_decisions_of_applications_by_rule(shop, admin):
    def decisions() -> dict[tuple[str, ...], float]:
        return {tuple(sorted(labels)): value for (name, labels), value in admin.series().items()
                if name == "pawl_sql_decisions_total"}

    session = shop()
    assert decisions() == {}
    for key in ("k1", "k1", "k1", "k2"):
        session.create(key)
    rule = ("rule", RULE)
    eventually(lambda: decisions() == {(("decision", "proceed"), rule): 2,
                                       (("decision", "replay"), rule): 2}, "both are shown")


def test_what_an_application_calls_its_rule_breaks_no_line_of_the_metrics(admin, database):
    rule = 'a"b\\c\nd\u00e9'
    database.sql("INSERT INTO pawl.decisions VALUES (convert_to(%s, 'UTF8'), 'replay', 7)", rule)
    line = '\npawl_sql_decisions_total{rule="a\\"b\\\\c\\nd\u00e9",decision="replay"} 7\n'
    eventually(lambda: line in admin.get("/metrics").body.decode(), "it is shown escaped")


@pytest.mark.hooks
def test_a_gateway_sweeps_what_an_application_completed(shop, admin, clock, keys, database):
    shop().create("k1", ttl="1 hour")
    eventually(lambda: records(admin)["complete"] == 1, "it is counted")
    clock.advance(2 * 3600)
    eventually(lambda: database.sql("SELECT count(*) FROM pawl.record") == [(0,)], "it is swept")
    eventually(lambda: records(admin)["complete"] == 0, "it is counted no longer")
    assert "k1" not in keys("list")
