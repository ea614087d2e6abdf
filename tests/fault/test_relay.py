# SPDX-License-Identifier: Apache-2.0
"""`pawl serve` without an upstream beside an application: what the application publishes in its own
SQLite file is delivered once it has committed, and the file stays the application's."""
from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from pawltest.gateway import PAWL, Clock, Relay, run
from pawltest.upstream import Upstream
from pawltest.wire import eventually

pytestmark = pytest.mark.hooks
EXTENSION = Path(PAWL).parent / "pawl.so"
IS_MENDED = sqlite3.sqlite_version_info >= (3, 51, 3)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SEED = 20261124


def refusal(relay: Relay) -> str:
    """What it says where it can't start."""
    ended = run("serve", "-c", relay.config)
    assert ended.returncode == 69, ended
    return ended.stderr


def config(receiver: Upstream) -> str:
    endpoint = {"name": "billing", "url": f"http://127.0.0.1:{receiver.port}/", "types": ["*"],
                "secret": SECRET}
    webhooks = {"allow": ["127.0.0.0/8"], "allow_http": True, "endpoints": [endpoint]}
    return f"webhooks: {json.dumps(webhooks)}\n"


class App:
    """The application: a connection of its own, with pawl.so."""

    def __init__(self, path: Path, *pragmas: str):
        self.db = sqlite3.connect(path, timeout=60, isolation_level=None)
        for pragma in pragmas:
            self.db.execute(f"PRAGMA {pragma}")
        self.db.enable_load_extension(True)
        self.db.load_extension(str(EXTENSION))
        self.db.execute("CREATE TABLE IF NOT EXISTS refunds(id INTEGER PRIMARY KEY, note TEXT)")

    def ask(self, sql: str, *values: Any) -> Any:
        return self.db.execute(sql, values).fetchone()[0]

    def install(self) -> App:
        self.db.execute("BEGIN IMMEDIATE")
        self.ask("SELECT pawl_install()")
        self.db.execute("COMMIT")
        return self

    def refund(self, id_: str, end: str = "COMMIT") -> None:
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("INSERT INTO refunds(note) VALUES(?)", (id_,))
        self.ask("SELECT pawl_publish('refund.created', ?, '{\"n\": \"é\"}')", id_)
        self.db.execute(end)


@pytest.fixture
def relay(tmp_path: Path, clock: Clock, receiver: Upstream) -> Iterator[Callable[..., Relay]]:
    made: list[Relay] = []

    def make(path: Path, more: str = "") -> Relay:
        made.append(Relay(tmp_path, 0, config(receiver) + more, clock))
        return made[-1].move_to(path)

    yield make
    try:
        for one in made:
            one.close()
    finally:
        for one in made:
            one.discard()


def told(receiver: Upstream) -> list[str]:
    return [request["webhook-id"] for request in receiver.requests]


JOURNALS = {"delete": "", "truncate": "", "persist": "", "wal": "accept_weaker: true\n"}


@pytest.mark.parametrize("journal", JOURNALS)
@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le"])
def test_what_was_committed_is_delivered(tmp_path, relay, receiver, journal, encoding):
    path = tmp_path / "shop.db"
    app = App(path, f"encoding='{encoding}'", f"journal_mode={journal}", "application_id=77",
              "user_version=12").install()
    app.refund("before")
    one = relay(path, JOURNALS[journal]).start()
    app.refund("taken-back", "ROLLBACK")
    app.refund("after")
    receiver.wait_for(2)
    assert sorted(told(receiver)) == ["after", "before"]
    assert '"data":{"n": "é"}' in receiver.requests[0].body.decode()
    eventually(lambda: run("webhook", "list", "--store", path).stdout.count(" done ") == 2, "both")
    warned = [line for line in one.printed if "may lose what it acknowledged" in line]
    assert len(warned) == (journal == "wal" and not IS_MENDED)
    assert one.stop() == 0
    pragmas = [app.ask(f"PRAGMA {name}")
               for name in ("encoding", "journal_mode", "application_id", "user_version",
                            "integrity_check")]
    assert pragmas == [encoding, journal if journal in ("wal", "delete") else pragmas[1], 77, 12,
                       "ok"]
    assert app.ask("SELECT count(*) FROM refunds") == 2


@pytest.mark.skipif(IS_MENDED, reason="this SQLite has no WAL-reset bug")
def test_wal_is_refused_where_sqlite_may_damage_it(tmp_path, relay, receiver):
    path = tmp_path / "shop.db"
    app = App(path, "journal_mode=wal").install()
    said = refusal(relay(path))
    assert "journal_mode=WAL" in said and "accept_weaker: true" in said
    app.db.execute("PRAGMA journal_mode=delete")
    one = relay(path).start()
    app.db.execute("PRAGMA journal_mode=wal")
    eventually(lambda: any(line["event"] == "store_down" and "journal_mode=WAL" in line["problem"]
                           for line in one.log), "that it stops")
    app.refund("late")
    assert one.stop() == 0
    app.db.execute("PRAGMA journal_mode=delete")
    one.start()
    assert receiver.wait_for(1)["webhook-id"] == "late"


def test_only_a_relay_opens_an_application_s_file(tmp_path, pawl, relay):
    path = tmp_path / "shop.db"
    App(path).install()
    gateway = pawl(started=False).move_to(path)
    for arguments in (("serve", "-c", gateway.config),
                      ("send", "--store", path, "--key", "k", "-d", "1", "http://127.0.0.1:9/"),
                      ("queue", "add", "--store", path, "--key", "k", "http://127.0.0.1:9/"),
                      ("queue", "drain", "--store", path)):
        refused = run(*arguments)
        assert refused.returncode == 69 and "an application's own database" in refused.stderr
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM pawl_pending").fetchone() == (0,)


@pytest.mark.parametrize("damage, wanted", [
    ("DROP TABLE pawl_state", "another program's SQLite database"),
    ("UPDATE pawl_state SET format = format + 1", "of a newer pawl"),
    ("UPDATE pawl_state SET format = 1", "damaged: pawl_state.format"),
    ("DELETE FROM pawl_secret", "its secret is missing or damaged"),
], ids=["not-there", "newer", "older", "no-secret"])
def test_a_file_that_is_not_as_it_should_be_is_refused(tmp_path, relay, damage, wanted):
    path = tmp_path / "shop.db"
    App(path).install().db.execute(damage)
    before = path.read_bytes()
    assert wanted in refusal(relay(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("is_there", [False, True], ids=["missing", "empty"])
def test_it_makes_no_store_of_its_own_where_an_application_s_is_to_be(
        tmp_path, relay, receiver, is_there):
    path = tmp_path / "shop.db"
    if is_there:
        path.touch()
    one = relay(path)
    said = refusal(one)
    assert ("is empty" if is_there else "there is no store here") in said
    assert path.exists() == is_there and not is_there or path.read_bytes() == b""
    App(path).install().refund("e1")
    one.start()
    assert receiver.wait_for(1)["webhook-id"] == "e1"


def test_it_delivers_what_a_command_published_to_a_store_of_pawl_s(tmp_path, relay, receiver):
    path = tmp_path / "pawl.db"
    published = run("webhook", "publish", "refund.created", "--id", "e1", "--store", path)
    assert published.returncode == 0, published
    relay(path).start()
    assert receiver.wait_for(1)["webhook-id"] == "e1"


def test_the_records_of_the_application_stay_its_own(tmp_path, relay, receiver):
    path = tmp_path / "shop.db"
    app = App(path)

    def begin(key: str) -> tuple[Any, ...]:
        app.db.execute("BEGIN IMMEDIATE")
        return app.db.execute("SELECT decision, token, body FROM pawl_begin('m1', 'r', ?)",
                              (key,)).fetchone()

    token = begin("k1")[1]
    app.ask("SELECT pawl_complete(?, 201, 'one')", token)
    app.db.execute("COMMIT")
    begin("k2")
    app.db.execute("COMMIT")  # it forgot to complete: foreign keys are off
    relay(path).start()
    app.refund("e1")
    receiver.wait_for(1)
    listed = run("keys", "list", "--store", path, "--json").stdout.splitlines()
    assert sorted((json.loads(row)["key"], json.loads(row)["status"]) for row in listed) == [
        ("k1", "complete"), ("k2", "pending")]
    assert begin("k1")[::2] == ("replay", b"one")
    app.db.execute("ROLLBACK")
    assert begin("k2")[0] == "outcome_unknown"
    app.db.execute("COMMIT")
    forgotten = run("keys", "forget", "k2", "--force", "--store", path)
    assert forgotten.returncode == 0, forgotten
    assert begin("k2")[0] == "proceed"
    app.db.execute("ROLLBACK")


def test_an_application_that_writes_for_long_delays_it_and_nothing_else(tmp_path, relay, receiver):
    path = tmp_path / "shop.db"
    app, other = App(path).install(), App(path)
    one = relay(path).start()
    app.db.execute("BEGIN EXCLUSIVE")
    app.ask("SELECT pawl_publish('refund.created', 'e1', '{}')")
    time.sleep(1)  # some tries of the relay's, each of 200 ms; it needs none of them
    assert one.process.poll() is None and receiver.requests == []
    app.db.execute("COMMIT")
    other.refund("e2")
    receiver.wait_for(2)
    assert sorted(told(receiver)) == ["e1", "e2"]


def test_it_becomes_no_gateway_while_it_runs(tmp_path, relay, receiver):
    path = tmp_path / "shop.db"
    app = App(path).install()
    one = relay(path).start()
    good = one.config.read_text()
    one.config.write_text(good + "upstream: http://127.0.0.1:9000\ntenant: none\n")
    one.signal(signal.SIGHUP)
    eventually(lambda: any(line["event"] == "config_refused" and "upstream:" in line["problem"]
                           for line in one.log), "its refusal")
    app.refund("e1")
    assert receiver.wait_for(1)["webhook-id"] == "e1"


WRITER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
db.enable_load_extension(True)
db.load_extension(sys.argv[2])
for n in range(10**6):
    id = f"{sys.argv[3]}-{n}"
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO refunds(note) VALUES(?)", (id,))
    db.execute("SELECT pawl_publish('refund.created', ?, '{}')", (id,)).fetchone()
    db.execute("COMMIT")
    print(id, flush=True)
"""


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_kill_9_of_both_loses_no_event_and_invents_none(tmp_path, relay, receiver, journal):
    """What the application committed is delivered, at least once each under one id; what it did not
    is never sent."""
    path, chance = tmp_path / "shop.db", random.Random(SEED)
    app = App(path, f"journal_mode={journal}").install()
    one = relay(path, JOURNALS[journal])
    for run_ in range(12):
        one.start()
        writer = subprocess.Popen([sys.executable, "-c", WRITER, path, EXTENSION, str(run_)],
                                  stdout=subprocess.PIPE, text=True)
        for _ in range(chance.randrange(1, 6)):
            assert writer.stdout.readline()
        time.sleep(chance.uniform(0, 0.3))
        for victim in chance.sample([writer.kill, one.kill9], 2):
            victim()
        writer.communicate()
    one.start()
    committed = {row[0] for row in app.db.execute("SELECT note FROM refunds")}
    eventually(lambda: set(told(receiver)) >= committed, "all of them")
    assert set(told(receiver)) == committed and len(committed) >= 12
    assert app.ask("PRAGMA integrity_check") == "ok"
