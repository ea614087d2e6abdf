# SPDX-License-Identifier: Apache-2.0
"""pawl.so in an application that is careless, hostile, or short of luck: nothing of another tenant,
nothing half done, and no end of the application's process."""
from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from pawltest.gateway import PAWL

EXTENSION = str(Path(PAWL).parent / "pawl.so")


class App:
    """A connection, in a transaction while `with` it: that is rolled back."""

    def __init__(self, name: str | Path = ":memory:", **options: Any):
        self.db = sqlite3.connect(name, isolation_level=None, timeout=30, **options)
        self.db.enable_load_extension(True)
        self.db.load_extension(EXTENSION)
        self.db.execute("PRAGMA foreign_keys = ON")

    def __enter__(self) -> App:
        self.db.execute("BEGIN IMMEDIATE")
        return self

    def __exit__(self, *_: Any) -> None:
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")

    def row(self, sql: str, *values: Any) -> tuple[Any, ...]:
        return self.db.execute(sql, values).fetchone()

    def begin(self, key: str, tenant: str = "m1", **more: Any) -> tuple[str, int]:
        given = "".join(f" AND {name} = ?" for name in more)
        return self.row(f"SELECT decision, token FROM pawl_begin(?, 'r', ?) WHERE 1{given}",
                        tenant, key, *more.values())

    def complete(self, token: int, code: int = 201, *more: Any) -> str:
        marks = ", ?" * len(more)
        return self.row(f"SELECT pawl_complete(?, ?{marks})", token, code, *more)[0]

    def do(self, key: str, **more: Any) -> None:
        with self:
            self.complete(self.begin(key, **more)[1], 201, f"response to {key}")
            self.db.execute("COMMIT")

    def refused(self, sql: str, *values: Any) -> str:
        with pytest.raises(sqlite3.Error) as caught:
            self.row(sql, *values)
        return str(caught.value)


@pytest.fixture
def app() -> Iterator[App]:
    made = App()
    yield made
    made.db.close()


@pytest.mark.parametrize("ttl", [-1, -9.2e18, -1.7e308, -2 ** 63, 1e13, 9.2e18, 1.7e308,
                                 float("inf"), float("-inf"), 2 ** 63 - 1])
def test_a_span_beyond_all_numbers_is_refused(app, ttl):
    """found: R21"""
    with app:
        for name in ("ttl", "tombstone", "once_ttl"):
            assert "22023" in app.refused(
                f"SELECT token FROM pawl_begin('m1', 'r', 'k1') WHERE {name} = ?", ttl)


@pytest.mark.parametrize("call", [
    "SELECT * FROM pawl_begin(?, 'r', 'k1')", "SELECT * FROM pawl_begin('m1', ?, 'k1')",
    "SELECT * FROM pawl_begin('m1', 'r', ?)",
    "SELECT * FROM pawl_begin('m1', 'r', 'k2') WHERE once = ?",
    "SELECT * FROM pawl_claim(?, 'r', 'c1', '{}')", "SELECT * FROM pawl_receive(?, 'e1')",
    "SELECT pawl_publish('a.b', 'e1', ?)", "SELECT pawl_publish('a.b', 'e1', '{}', ?)"])
@pytest.mark.parametrize("text", ["m1\0other", b"m1\0other"], ids=["text", "blob"])
def test_a_text_is_not_cut_at_a_nul_byte(app, call, text):
    """It would be another tenant's, another key."""
    app.do("k1")
    with app:
        assert "NUL byte" in app.refused(call, text)


def test_a_load_that_fails_leaves_what_is_loaded(app):
    def deny(action: int, _one: str, name: str, *_: Any) -> int:
        hidden = action == sqlite3.SQLITE_FUNCTION and (name or "").startswith("pawl")
        return sqlite3.SQLITE_DENY if hidden else sqlite3.SQLITE_OK

    app.db.set_authorizer(deny)
    with contextlib.closing(app.db.execute("SELECT 1 UNION SELECT 2")) as rows:
        rows.fetchone()
        with pytest.raises(sqlite3.Error):
            app.db.load_extension(EXTENSION)
    app.db.set_authorizer(None)
    app.do("k1")


def test_connections_that_come_and_go_leave_no_memory_behind(tmp_path):
    """Nor do threads: the extension is unloaded with its last connection."""
    script = f"""
import sqlite3, threading
def resident():
    return int(open('/proc/self/statm').read().split()[1]) * 4096
def work():
    c = sqlite3.connect({str(tmp_path / "app.db")!r}, isolation_level=None)
    c.enable_load_extension(True)
    c.load_extension({EXTENSION!r})
    c.execute("BEGIN IMMEDIATE")
    c.execute("SELECT * FROM pawl_begin('m1', 'r', 'k1')").fetchall()
    c.close()
def thread():
    t = threading.Thread(target=work)
    t.start()
    t.join()
for one in (work, thread):
    for _ in range(50):
        one()
    before = resident()
    for _ in range(400):
        one()
    print(resident() - before)
"""
    told = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.split()
    assert len(told) == 2 and all(int(grown) < 3 << 20 for grown in told), told


@pytest.mark.parametrize("change", [
    "expires_at = expires_at + 86400000000", "attempts = 0", "token = -1", "status = 9",
    "gone_at = 'never'"])
def test_a_record_that_somebody_edited_by_hand_is_unknown(app, change):
    app.do("k1")
    app.db.execute(f"UPDATE pawl_outcome SET {change}")
    with app:
        assert app.begin("k1")[0] == "outcome_unknown"


@pytest.mark.parametrize("damage", [
    "UPDATE pawl_state SET time_boot = -9000000000000000000",
    "UPDATE pawl_state SET token = 9007199254740991"])
def test_a_state_that_somebody_edited_by_hand_is_an_error(app, damage):
    app.do("k1")
    app.db.execute(damage)
    with app:
        assert app.refused("SELECT * FROM pawl_begin('m1', 'r', 'k1')")


def test_what_was_ended_here_is_ended_already(app):
    """Its key had been released before, so that it has a row from before."""
    with app:
        app.row("SELECT pawl_release(?)", app.begin("k1")[1])
        app.db.execute("COMMIT")
    with app:
        token = app.begin("k1")[1]
        assert app.complete(token) == "stored"
        app.complete(app.begin("k2")[1])
        assert app.complete(token) == "already"
        app.db.execute("COMMIT")
    with app:
        assert "PW001" in app.refused("SELECT pawl_complete(?, 201)", token)


def test_a_claim_without_json_begins_nothing(app):
    with app:
        assert "JSON" in app.refused("SELECT * FROM pawl_claim('m1', 'p', 'k1', '{bad')")
        assert app.row("SELECT claimed FROM pawl_claim('m1', 'p', 'k1', '{}')") == (1,)
        app.db.execute("COMMIT")


@pytest.mark.parametrize("kind", ["TABLE {}(a)", "INDEX {} ON t(a)", "VIEW {} AS SELECT 1"])
def test_names_that_the_application_has_stay_its_own(app, kind):
    app.db.execute("CREATE TABLE t(a)")
    for name in ("idempotency_keys", "inbox_events"):
        app.db.execute("CREATE " + kind.format(name))
    app.do("k1")
    assert app.row("SELECT count(*) FROM sqlite_master WHERE name = 'inbox_events'") == (1,)


def test_what_hinders_the_schema_is_told(app):
    app.db.execute("CREATE TABLE t(a)")
    app.db.execute("CREATE INDEX pawl_outcome ON t(a)")
    with app:
        assert "pawl_outcome" in app.refused("SELECT pawl_install()")


@pytest.mark.parametrize("sql, wanted", [
    ("SELECT pawl_complete(?, 4294967496)", "http_code must be"),
    ("SELECT pawl_complete(?, -1)", "http_code must be"),
    ("SELECT pawl_complete(?, 201, 'x', '{}', 'x' || char(13, 10) || 'Evil: 1')", "result_ref")])
def test_an_outcome_out_of_range_is_refused(app, sql, wanted):
    with app:
        assert wanted in app.refused(sql, app.begin("k1")[1])


def test_a_connection_that_only_reads_replays(tmp_path):
    path = tmp_path / "app.db"
    App(path).do("k1")
    reader = App(f"file:{path}?mode=ro", uri=True)
    reader.db.execute("BEGIN")
    assert reader.row("SELECT decision, body FROM pawl_begin('m1', 'r', 'k1')") == (
        "replay", b"response to k1")
    reader.db.execute("ROLLBACK")


def test_dirty_data_is_read_in_no_transaction(tmp_path):
    name = f"file:{tmp_path / 'app.db'}?cache=shared"
    writer, reader = App(name, uri=True), App(name, uri=True)
    writer.db.execute("CREATE TABLE app(x)")
    writer.do("k0")
    with reader:
        reader.begin("k0")
    reader.db.execute("PRAGMA read_uncommitted = ON")
    with writer:
        writer.complete(writer.begin("k1")[1])
        for _ in range(3):
            reader.db.execute("BEGIN")
            reader.db.execute("SELECT * FROM app").fetchall()
            assert "read_uncommitted" in reader.refused("SELECT * FROM pawl_begin('m1', 'r', 'k1')")
            reader.db.execute("ROLLBACK")
