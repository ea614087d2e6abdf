# SPDX-License-Identifier: Apache-2.0
"""bindings/node/pawl.js: its Express middleware and `once`, as an application uses them."""
from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Iterator

import pytest

from pawltest.gateway import run
from pawltest.wire import Answer, Broken, Client, Later, at_once, eventually
from shop import check_defaults, effects, is_waiting, url_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODULES = Path(os.environ.get("PAWL_SQL_MODULES", ROOT / "build/sql")) / "node_modules"
ENVIRONMENT = {**os.environ, "NODE_PATH": str(MODULES), "NODE_ENV": "production"}
BODY = b'{"charge": "ch_1", "amount": 1000}'
WAYS = ("/refunds", "/wrapped")


class App:
    """node_app.js on a database."""

    def __init__(self, database: Any):
        self.database = database
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            ["node", HERE / "node_app.js"], stdout=subprocess.PIPE, text=True,
            env={**ENVIRONMENT, "DATABASE_URL": url_of(self.database)})
        self.port = int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def post(self, target: str, body: bytes = BODY, key: str = "k1", tenant: str = "m1") -> Answer:
        headers = [("Content-Type", "application/json"), ("X-Tenant", tenant)]
        with Client(self.port) as client:
            return client.request("POST", target, headers + [("Idempotency-Key", key)][:len(key)],
                                  body)

    def effects(self) -> int:
        return effects(self.database)


@pytest.fixture
def app(database: Any) -> Iterator[App]:
    made = App(database)
    yield made
    made.end()


def test_its_defaults_are_those_of_the_function(database):
    """Of the statement that it makes where the application brings none."""
    script = ("require(process.argv[1]).begin({query: (text, values) => {"
              " console.log(JSON.stringify({text, values}));"
              " return {rows: [{decision: 'proceed'}]}; }}, {tenant: 't', rule: 'r', key: 'k'})")
    made = json.loads(subprocess.run(["node", "-e", script, ROOT / "bindings/node/pawl.js"],
                                     stdout=subprocess.PIPE, check=True).stdout)
    names = re.findall(r"(\w+) => \$(\d+)", made["text"])
    check_defaults(database, {name: made["values"][int(at) - 1] for name, at in names})


@pytest.mark.parametrize("way", WAYS)
def test_a_retry_gets_the_first_one_s_response(app, way):
    first, again = app.post(way), app.post(way)
    assert (first.status, first.json) == (201, {"id": "rf_1"})
    assert (again.status, again.body) == (first.status, first.body)
    assert again["Content-Type"] == first["Content-Type"] and app.effects() == 1


def test_the_middleware_marks_and_repeats_all_headers(app):
    first, again = app.post("/refunds"), app.post("/refunds")
    assert (first["Idempotency-Status"], again["Idempotency-Status"]) == ("stored", "replayed")
    assert first["Location"] == again["Location"] == "/refunds/rf_1"
    assert first["ETag"] == again["ETag"] is not None


@pytest.mark.parametrize("way", WAYS)
def test_another_payload_is_refused_and_another_spelling_is_not(app, way):
    app.post(way)
    refusal = app.post(way, b'{"charge": "ch_1", "amount": 500}')
    assert refusal.status == 409 and b"CONFLICT.idempotency.payload_mismatch" in refusal.body
    assert app.post(way, b'{"amount":1e3,"charge":"ch_1"}').status == 201
    assert app.effects() == 1


@pytest.mark.parametrize("way", WAYS)
def test_keys_of_two_tenants_never_meet(app, way):
    assert [app.post(way, tenant=tenant).json["id"] for tenant in ("m1", "m2")] == ["rf_1", "rf_2"]


@pytest.mark.parametrize("way", WAYS)
def test_of_many_at_once_one_runs_and_all_get_its_response(app, way):
    answers = at_once(8, lambda _: app.post(way))
    assert {answer.status for answer in answers} == {201}
    assert len({answer.body for answer in answers}) == app.effects() == 1


def test_one_that_runs_is_in_progress_for_who_does_not_wait(app, database):
    with database.connect() as first, first.cursor() as cursor:
        cursor.execute("SELECT token FROM pawl.begin('m1', 'refunds.create', 'k1')")
        refusal = app.post("/impatient")
        assert refusal.is_problem(409, "CONFLICT.idempotency.in_progress")
        assert int(refusal["Retry-After"]) >= 1
        first.rollback()
    assert app.post("/impatient").status == 201


@pytest.mark.parametrize("way", WAYS)
def test_killed_before_commit_neither_is_there(app, way):
    with pytest.raises(Broken):
        app.post(f"{way}?die=before")
    app.end()
    assert app.effects() == 0
    app.start()
    assert app.post(way).status == 201 and app.effects() == 1


def test_killed_after_commit_both_are_there(app):
    with pytest.raises(Broken):
        app.post("/wrapped?die=after")
    app.end()
    assert app.effects() == 1
    app.start()
    assert app.post("/wrapped").json == {"id": "rf_1"} and app.effects() == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_failure_is_passed_on_and_leaves_nothing(app, way):
    assert app.post(f"{way}?fail=500").status == 500
    assert app.effects() == 0
    assert app.post(way).status == 201


def test_a_refusal_of_the_handler_is_stored_like_any_response(app):
    first, again = app.post("/refunds?fail=422"), app.post("/refunds")
    assert (first.status, again.status, again.body) == (422, 422, first.body)


def test_nothing_returned_releases_the_key_and_keeps_the_effect(app):
    app.post("/wrapped?nothing=1")
    assert app.effects() == 1
    assert app.post("/wrapped")["X-Runs"] == "1" and app.effects() == 2


def test_a_commit_that_fails_is_503_and_the_retry_runs(app, database):
    database.sql("CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS"
                 " $$ BEGIN RAISE 'no'; END $$;"
                 " CREATE CONSTRAINT TRIGGER no AFTER INSERT ON refunds"
                 " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION no()")
    refusal = app.post("/refunds")
    assert refusal.is_problem(503, "DEPENDENCY.store_unavailable")
    database.sql("DROP TRIGGER no ON refunds")
    assert app.post("/refunds").status == 201 and app.effects() == 1


def test_a_serialization_failure_runs_it_again_from_its_start(app, database):
    with database.connect() as other, other.cursor() as cursor:
        cursor.execute("UPDATE balance SET cents = cents - 100")
        late = Later(lambda: app.post("/wrapped?strict=1"))
        eventually(lambda: is_waiting(database))
        other.commit()
    assert (late.result().status, late.result()["X-Runs"]) == (201, "2")
    assert database.sql("SELECT cents FROM balance") == [(899,)] and app.effects() == 1


def test_a_request_without_a_key_is_refused(app):
    assert app.post("/refunds", key="").is_problem(400, "VALIDATION.idempotency.key_missing")
    assert app.effects() == 0


def test_payload_hashes_are_those_of_pawl_hash():
    """Of what is not JSON, `pawl hash` prints none: the bytes count."""
    paths = sorted((ROOT / "tests/fuzz/corpus/json").iterdir())
    script = ("const {payloadHash} = require(process.argv[1]), fs = require('fs');"
              "console.log(JSON.stringify(process.argv.slice(2)"
              ".map((path) => payloadHash(fs.readFileSync(path)))))")
    hashed = subprocess.run(["node", "-e", script, ROOT / "bindings/node/pawl.js", *paths],
                            stdout=subprocess.PIPE, check=True)
    assert json.loads(hashed.stdout) == [
        run("hash", path).stdout.strip() or hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths]
