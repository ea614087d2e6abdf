# SPDX-License-Identifier: Apache-2.0
"""bindings/node/pawl_sqlite.js on node:sqlite, as an application uses it."""
from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any, Callable

import pytest

from pawltest.gateway import PAWL, run

ROOT = Path(__file__).resolve().parents[2]
MODULES = Path(os.environ.get("PAWL_SQL_MODULES", ROOT / "build/sql")) / "node_modules"
PRELUDE = """
const {DatabaseSync} = require('node:sqlite');
const pawl = require(process.env.BINDING);
const open = () => {
    const db = new DatabaseSync(process.env.FILE, {allowExtension: true, timeout: 30000});
    pawl.load(db, process.env.EXTENSION);
    db.exec('CREATE TABLE IF NOT EXISTS refunds(id INTEGER PRIMARY KEY, amount INTEGER)');
    return db;
};
const db = open();
const count = () => db.prepare('SELECT count(*) AS n FROM refunds').get().n;
const refund = (more = {}, response = {status: 201}) => pawl.once(db,
    {tenant: 'm1', rule: 'refunds.create', key: 'k1', ...more}, () => {
        const {id} = db.prepare('INSERT INTO refunds(amount) VALUES(5) RETURNING id').get();
        return response && {body: {id}, ...response};
    });
const thrown = (act) => {
    try { act(); } catch (error) { return error; }
    return {message: 'nothing'};
};
const say = (...values) => console.log(JSON.stringify(values));
"""


def node() -> Path:
    """A Node.js with node:sqlite: Debian's has none yet."""
    found = sorted(MODULES.glob("node-linux-*/bin/node"))
    assert found, f"there is no Node.js in {MODULES}: scripts/setup --test"
    return found[0]


@pytest.fixture
def start(tmp_path: Path) -> Callable[[str], subprocess.Popen[str]]:
    def start(script: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [node(), "--no-warnings", "-e", PRELUDE + script], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "FILE": str(tmp_path / "shop.db"),
                 "BINDING": str(ROOT / "bindings/node/pawl_sqlite.js"),
                 "EXTENSION": str(Path(PAWL).parent / "pawl.so")})

    return start


@pytest.fixture
def js(start: Callable[[str], subprocess.Popen[str]]) -> Callable[[str], list[Any]]:
    """What the script says, each time a list of values."""
    def js(script: str) -> list[Any]:
        process = start(script)
        said = process.communicate()[0]
        assert process.returncode == 0
        return [json.loads(line) for line in said.splitlines()]

    return js


def test_the_effect_runs_once_and_each_retry_gets_its_response(js):
    told = js("for (let i = 0; i < 3; i++) {"
              " const op = refund(); say(op.isNew, op.status, String(op.body), op.headers); }"
              "say(count(), db.isTransaction);")
    response = [201, '{"id":1}', {"Content-Type": "application/json"}]
    assert told == [[True, *response], [False, *response], [False, *response], [1, False]]


def test_another_payload_is_refused_however_it_is_spelled(js):
    body = '{"charge": "ch_1", "amount": 1.0}'
    told = js(f"""
        refund({{payload: '{body}'}});
        say(refund({{payload: Buffer.from('{body}')}}).isNew,
            refund({{payload: {{amount: 1, charge: 'ch_1'}}}}).isNew);
        const error = thrown(() => refund({{payload: '2'}}));
        say(error instanceof pawl.Refused, error.decision, error.status, error.code);
        say(db.prepare('SELECT payload_hash FROM idempotency_keys').get().payload_hash);""")
    assert told[:2] == [[False, False], [True, "mismatch", 409,
                                         "CONFLICT.idempotency.payload_mismatch"]]
    assert told[2][0] in run("hash", input=body).stdout


def test_an_exception_or_a_promise_rolls_both_back(js):
    told = js("""
        const fails = (effect) => {
            const error = thrown(() => pawl.once(db, {tenant: 'm1', rule: 'r', key: 'k1'}, effect));
            say(error.message, count(), db.isTransaction);
        };
        const insert = () => db.exec('INSERT INTO refunds(amount) VALUES(5)');
        fails(() => { insert(); throw new Error('no money'); });
        fails(async () => { insert(); return {status: 201}; });
        fails((op) => { insert(); op.isOpen = false; });
        db.exec('BEGIN');
        fails(insert);
        db.exec('ROLLBACK');
        say(refund({rule: 'r'}).isNew);""")
    assert told == [["no money", 0, False],
                    ["the effect of pawl.once must be synchronous", 0, False],
                    ["FOREIGN KEY constraint failed", 0, False],
                    ["pawl.once needs a connection without an open transaction", 0, True], [True]]


def test_options_are_those_of_pawl_begin(js):
    told = js("""
        const done = {status: 201, body: 'done', headers: {'X-Cost': 7}, resultRef: '/refunds/7'};
        refund({once: 'ch_1', ttl: '7d'}, done);
        const op = refund({key: 'k2', once: 'ch_1'});
        say(op.isNew, String(op.body), op.headers, op.resultRef);
        say(thrown(() => refund({key: 'k3', once: 'ch_1', duplicate: 'reject'})).decision);
        say(refund({key: 'k4', once: 'ch_1', duplicate: 'ack'}).status);
        say(refund({key: 'k5', ttl: null}).isNew, refund({key: 'k5'}).isNew);
        say(refund({key: 'k6'}, undefined).isNew, refund({key: 'k7'}, null).status);
        say(refund({key: 'k7'}).isNew);
        say(thrown(() => refund({key: 'k8', ttl: '7 days'})).message);""")
    assert told[:4] == [[False, "done", {"X-Cost": "7"}, "/refunds/7"], ["duplicate"], [204],
                        [True, False]]
    assert told[5] == [True], "a release leaves the key to the next attempt"
    assert told[6][0].startswith("22023")


def test_t1_a_hundred_of_many_processes_have_one_effect(start, js):
    workers = [start("for (let i = 0; i < 10; i++) say(String(refund().body));") for _ in range(10)]
    told = [line for worker in workers for line in worker.communicate()[0].splitlines()]
    assert [worker.returncode for worker in workers] == [0] * 10
    assert len(told) == 100 and len(set(told)) == 1
    assert js("say(count());") == [[1]]


def test_a_transaction_of_its_own(js, tmp_path):
    told = js("""
        db.exec('BEGIN IMMEDIATE');
        const op = pawl.begin(db, {tenant: 'm1', rule: 'r', key: 'k1'});
        say(op.isNew, thrown(() => db.exec('COMMIT')).message);
        op.complete({status: 200, body: Buffer.from([0, 255])});
        db.exec('COMMIT');
        say([...refund({rule: 'r'}).body]);""")
    assert told == [[True, "FOREIGN KEY constraint failed"], [[0, 255]]]
    with closing(sqlite3.connect(tmp_path / "shop.db")) as file:
        assert file.execute("SELECT status, http_code FROM idempotency_keys").fetchall() == [
            ("complete", 200)]
