# SPDX-License-Identifier: Apache-2.0
"""What the tests of PostgreSQL stand on: the server, and the relay before it."""
from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from relay import Act, CutAt, Message, Relay, Way
from server import Database, Server, User, children, is_alive
from pawltest.wire import Later, eventually


def connect(database: Database, port: int, **more: Any) -> Any:
    """As a gateway does: over TCP, by password."""
    return psycopg2.connect(database.url_at(port), **more)


def answer(connection: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 42")
        return int(cursor.fetchone()[0])


def test_the_server_is_not_roots_and_leaves_nothing_behind():
    with Server() as made:
        owner = Path(f"/proc/{made.process.pid}").stat().st_uid
        assert (owner, owner == 0) == (User.pick().uid, False)
        pid, directory = made.process.pid, made.directory
        assert directory.exists()
    assert not is_alive(pid) and not directory.exists()


def test_two_databases_of_a_server_share_nothing(server):
    first, second = server.add_database(), server.add_database()
    first.sql("CREATE TABLE a (n int)")
    assert first.sql("SELECT count(*) FROM a") == [(0,)]
    with pytest.raises(psycopg2.errors.UndefinedTable):
        second.sql("SELECT count(*) FROM a")


def test_a_server_killed_with_all_its_backends_keeps_what_it_committed(own_server):
    database = own_server.add_database()
    database.sql("CREATE TABLE a (n int)")
    database.sql("INSERT INTO a VALUES (7)")
    backends = children(own_server.process.pid)
    own_server.kill9()
    assert backends and not any(map(is_alive, backends))
    own_server.start()
    assert database.sql("SELECT n FROM a") == [(7,)]


def test_a_command_finds_a_server_that_ends_with_it(tmp_path):
    script = Path(__file__).parent / "with_server"
    ran = subprocess.run([script, "sh", "-c", 'psql -AtXc "SELECT 42" "$PAWL_TEST_POSTGRES";'
                          'echo "$PAWL_TEST_POSTGRES"; exit 3'], text=True, capture_output=True,
                         cwd=tmp_path, env=dict(os.environ), check=False)
    value, url = ran.stdout.split()
    assert (value, ran.returncode) == ("42", 3), ran.stderr
    with pytest.raises(psycopg2.OperationalError):
        psycopg2.connect(url)


def test_the_relay_carries_each_message_by_itself(database, relay):
    with connect(database, relay.port) as connection:
        assert answer(connection) == 42
    sent = [one.kind for one in relay.messages if one.way is Way.TO_SERVER]
    came = [one.kind for one in relay.messages if one.way is Way.TO_CLIENT]
    # A request for TLS, the start, a password in two steps, BEGIN, SELECT, and COMMIT at the end.
    assert sent[:6] == ["", "", "p", "p", "Q", "Q"]
    assert came[0] == "N" and came[1] == "R" and came[-6:] == [*"TDCZCZ"]


@pytest.mark.parametrize("act", [Act.CUT, Act.CUT_INSIDE, Act.RESET])
@pytest.mark.parametrize("way", Way)
def test_the_relay_cuts_at_a_message(database, relay, way, act):
    connection = connect(database, relay.port)
    connection.autocommit = True
    wanted = "Q" if way is Way.TO_SERVER else "D"
    relay.judge = judge = CutAt(way, 0, act, lambda message: message.kind == wanted)
    with pytest.raises(psycopg2.OperationalError):
        answer(connection)
    assert judge.met.kind == wanted
    # The next connection is as any.
    assert answer(connect(database, relay.port)) == 42


def test_the_relay_swallows_and_tells_nobody(database, relay):
    connection = connect(database, relay.port)
    relay.judge = judge = CutAt(Way.TO_CLIENT, 0, Act.SWALLOW)
    asked = Later(lambda: answer(connection))
    eventually(lambda: judge.met, "the message that is lost")
    assert not asked.is_done
    relay.cut_all()
    with pytest.raises(psycopg2.OperationalError):
        asked.result()


def test_a_relay_without_a_server_closes(server):
    with Relay(1) as nowhere, pytest.raises(psycopg2.OperationalError):
        connect(Database(server, "none"), nowhere.port)


def test_a_judge_sees_messages_of_all_connections(database, relay):
    seen: set[int] = set()

    def judge(message: Message) -> Act:
        seen.add(message.connection)
        return Act.PASS

    relay.judge = judge
    for _ in range(2):
        assert answer(connect(database, relay.port)) == 42
    assert seen == {1, 2}
