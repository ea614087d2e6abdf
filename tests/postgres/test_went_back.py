# SPDX-License-Identifier: Apache-2.0
"""A store that lost what it had acknowledged: the gateway that it acknowledged it to notices before
it acknowledges anything more, and nothing that is not lost looks like it."""
from __future__ import annotations

import os
import random
import re
import shlex
import signal
from contextlib import closing
from typing import Any, Callable, Iterator

import psycopg2
import pytest

from pawltest.admin import Admin
from pawltest.gateway import Gateway, free_port, run
from pawltest.wire import Later, eventually
from relay import Act, CutAt, Way, passes
from server import Database, Server, children
from test_failover import ask

RULES = """
tenant: none
threads: 1
store_timeout: 2s
store_sessions: 3
rules:
  - {name: refunds.create, match: POST /refunds, timeout: 60s}
"""
AWAY = "DEPENDENCY.store_unavailable"
ROUNDS = int(os.environ.get("PAWL_TEST_ALARMS", "20"))  # in which nothing may look like a loss
Made = Callable[..., Gateway]


@pytest.fixture
def made(pawl: Callable[..., Gateway]) -> Made:
    """A gateway on a database, which is started, with an admin listener."""
    def make(url: str, more: str = "") -> Gateway:
        gateway = pawl(RULES, started=False)
        gateway.admin = Admin(free_port())
        gateway.configure(f"admin: 127.0.0.1:{gateway.admin.port}\n{more}{RULES}")
        return gateway.move_to(url).start()
    return make


@pytest.fixture
def standby(own_server: Server) -> Iterator[Server]:
    """It follows, and is not waited for."""
    made = own_server.add_standby()
    try:
        made.start()
        eventually(lambda: own_server.sql("SELECT 1 FROM pg_stat_replication"
                                          " WHERE state = 'streaming'"), "a standby")
        yield made
    finally:
        made.discard()


def hosts_of(database: Database, *servers: Server) -> str:
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return database.url.replace(f"127.0.0.1:{database.server.port}", hosts)


def database_of(server: Server, database: Database) -> Database:
    return Database(server, database.name)


def receiver_of(standby: Server) -> int:
    """The process that takes what the primary sends."""
    def find() -> int | None:
        found = [pid for pid in children(standby.process.pid)
                 if b"walreceiver" in open(f"/proc/{pid}/cmdline", "rb").read()]
        return found[0] if found else None
    return eventually(find, "the standby's receiver")


def fail_over_without(own_server: Server, standby: Server, lost: Callable[[], Any]) -> Any:
    """What is done in between does not reach the standby."""
    eventually(lambda: own_server.sql("SELECT pg_current_wal_lsn() = replay_lsn"
                                      " FROM pg_stat_replication") == [(True,)], "the standby")
    receiver = receiver_of(standby)
    os.kill(receiver, signal.SIGSTOP)
    result = lost()
    own_server.kill9()
    os.kill(receiver, signal.SIGTERM)
    os.kill(receiver, signal.SIGCONT)
    standby.sql("SELECT pg_promote()")
    return result


def test_a_failover_that_lost_responses_is_noticed_where_it_is_accepted(made, upstream, own_server,
                                                                         standby):
    """found: F1

    No cached response hides it: what was lost runs again at once, not after the next restart."""
    database = own_server.add_database()
    gateway = made(hosts_of(database, own_server, standby), "accept_weaker: true\n")
    assert ask(gateway, "before")["Idempotency-Status"] == "stored"
    keys = [f"k{i}" for i in range(10)]
    fail_over_without(own_server, standby, lambda: [ask(gateway, key) for key in keys])
    assert upstream.effects() == 11
    assert ask(gateway, "after")["Idempotency-Status"] == "stored"
    (line,) = eventually(lambda: gateway.lines("store_went_back"), "its line")
    assert line["level"] == "error" and line["above"] > 0 and "run" not in line
    assert gateway.admin.value("pawl_store_went_back_total") == 1
    assert ask(gateway, "before")["Idempotency-Status"] == "replayed"
    assert [ask(gateway, key)["Idempotency-Status"] for key in keys] == ["stored"] * 10
    assert upstream.effects() == 22
    assert database_of(standby, database).sql("SELECT went_back_at FROM pawl.store") == [(0,)]
    tokens = [int(one["Idempotency-Token"]) for one in upstream.requests]
    assert tokens == sorted(set(tokens))


def went_back(gateway: Gateway, key: str) -> bool:
    answer = gateway.post("/refunds", {}, key=key)
    assert answer.is_problem(503, AWAY), answer
    return "lost what it had confirmed" in answer.json["detail"]


def not_ready(gateway: Gateway) -> bytes | None:
    ready = gateway.admin.get("/readyz")
    return ready.body if ready.status == 503 and b"went back" in ready.body else None


def restored(url: str, *arguments: str, code: int = 0) -> str:
    """What `pawl store restored` printed."""
    ended = run("store", "restored", "--store", url, *arguments)
    assert ended.returncode == code, ended
    return ended.stdout if code == 0 else ended.stderr


def words_of(gateway: Gateway, url: str) -> list[str]:
    """The command that its log line has; the place in it has no password."""
    (line,) = eventually(lambda: gateway.lines("store_went_back"), "its line")
    command = shlex.split(line["run"])
    assert command[:3] == ["pawl", "store", "restored"] and command[-2] == "--store"
    assert command[-1] == re.sub(":[^:/]*@", "@", url)
    return command[3:-2]


@pytest.fixture
def put_back(own_server: Server) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """A copy takes the server's place, as a restored backup does: without what came after it."""
    copies: list[Server] = []

    def put(lost: Callable[[], Any]) -> Any:
        copy = own_server.add_standby()
        copies.append(copy)
        (copy.data / "standby.signal").unlink()
        result = lost()
        own_server.stop()
        copy.port = own_server.port
        copy.start()
        return result
    yield put
    for copy in copies:
        copy.discard()


def test_nothing_begins_in_a_restored_copy_until_somebody_says_so(made, upstream, own_server,
                                                                  put_back):
    """found: F1

    The gateway runs while a backup takes its server's place."""
    database = own_server.add_database()
    gateways = [made(database.url), made(database.url)]
    assert ask(gateways[0], "before")["Idempotency-Status"] == "stored"
    assert ask(gateways[1], "other")["Idempotency-Status"] == "stored"
    put_back(lambda: [ask(gateways[0], f"k{i}") for i in range(3)])
    for gateway, key in ((gateways[0], "new"), (gateways[0], "k0"), (gateways[1], "k0")):
        eventually(lambda: went_back(gateway, key), "a refusal")
    assert ask(gateways[0], "before")["Idempotency-Status"] == "replayed"
    assert ask(gateways[1], "other")["Idempotency-Status"] == "replayed"
    assert upstream.effects() == 5
    for gateway in gateways:
        ready = eventually(lambda: not_ready(gateway), "not ready")
        assert b"went back" in ready and b"pawl store restored --since 20" in ready
    assert not gateways[1].lines("store_went_back")  # it lost nothing itself
    command = words_of(gateways[0], database.url)
    told = run("serve", "-c", gateways[1].config, "--store", database.url)
    assert told.returncode == 69 and "pawl store restored --since 20" in told.stderr
    restored(database.url, *[word for word in command if word != "--live"], code=75)
    assert "use --since" in restored(database.url, "--clear", "--live", code=1)
    restored(database.url, *command)
    assert ask(gateways[1], "k0")["Idempotency-Status"] == "stored"
    assert ask(gateways[0], "new")["Idempotency-Status"] == "stored"
    assert upstream.effects() == 7
    tokens = [int(one["Idempotency-Token"]) for one in upstream.requests]
    assert tokens == sorted(set(tokens))
    for gateway in gateways:
        eventually(lambda: gateway.admin.get("/readyz").status == 200, "ready again")


def epoch_of(url: str) -> tuple[int, ...]:
    """And when the store was found to have gone back."""
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT epoch, went_back_at FROM pawl.store")
        return cursor.fetchone()


def test_what_an_operator_has_spoken_of_closes_the_store_no_second_time(made, upstream, own_server,
                                                                        put_back):
    """The other gateway lost something, too, and finds it out with its next outcome. No epoch comes
    again, to mean something else."""
    database = own_server.add_database()
    gateways = [made(database.url), made(database.url)]
    for gateway, key in zip(gateways, ("before", "other")):
        assert ask(gateway, key)["Idempotency-Status"] == "stored"
    put_back(lambda: [ask(gateway, f"k{i}") for i, gateway in enumerate(gateways)])
    eventually(lambda: went_back(gateways[0], "new"), "a refusal")
    epoch, _ = epoch_of(database.url)
    assert epoch > 0
    restored(database.url, *words_of(gateways[0], database.url))
    assert not gateways[1].lines("store_went_back")
    for i in range(3):
        for gateway in gateways[::-1]:
            assert ask(gateway, f"{i}-{gateway.port}")["Idempotency-Status"] == "stored"
    assert eventually(lambda: gateways[1].lines("store_went_back"), "its line")
    last, went_back_at = epoch_of(database.url)
    assert last >= epoch and went_back_at == 0
    assert upstream.effects() == 10


def test_exchanges_in_flight_are_listed(made, upstream, own_server, put_back):
    """What the service did is known from the log alone: which operation, and with which status."""
    database = own_server.add_database()
    gateway = made(database.url)
    assert ask(gateway, "before")["Idempotency-Status"] == "stored"
    gate = upstream.hold()

    def begin() -> Later:
        running = Later(lambda: gateway.post("/refunds", {}, key="running"))
        gate.wait_for()
        return running
    running = put_back(begin)
    gate.open()
    assert running.result().is_problem(503, "DEPENDENCY.outcome_not_stored")
    (line,) = eventually(lambda: gateway.lines("outcome_lost"), "its line")
    sent = upstream.requests[-1]
    assert line["level"] == "error" and line["status"] == 201
    assert (line["rule"], line["idempotency_key"]) == ("refunds.create", "running")
    assert line["token"] == int(sent["Idempotency-Token"])
    eventually(lambda: gateway.lines("store_went_back"), "the reason")


def test_nothing_that_is_not_lost_looks_like_it(made, upstream, database, relay):
    """Commits of which nobody knows, cut and ended sessions, vacuums, forgets and restarts."""
    dice = random.Random(7)
    gateway = made(database.url_at(relay.port))
    for n in range(ROUNDS):
        relay.judge = CutAt(dice.choice(list(Way)), dice.randrange(60),
                            dice.choice([Act.CUT, Act.RESET]))
        first = ask(gateway, f"k{n}")
        act = dice.randrange(4)
        if act == 0:
            database.server.end_backends(database)
        elif act == 1:
            database.sql("VACUUM pawl.mark")
        elif act == 2:
            forgotten = run("keys", "forget", f"k{n}", "--force", "--store", database.url)
            assert forgotten.returncode == 0, forgotten
        elif n % 5 == 0:
            relay.judge = passes
            assert gateway.stop() == 0
            gateway.start()
        again = ask(gateway, f"k{n}")
        assert act == 2 or again.kept == first.kept
        assert not gateway.lines("store_went_back")
    assert database.sql("SELECT went_back_at FROM pawl.store") == [(0,)]
    assert gateway.admin.value("pawl_store_went_back_total") == 0


@pytest.mark.hooks
def test_a_mark_that_was_swept_is_made_anew(made, upstream, database, clock):
    """Whoever wrote nothing for a week is none that could have lost it."""
    gateway = made(database.url)
    assert ask(gateway, "k1")["Idempotency-Status"] == "stored"
    assert database.sql("SELECT count(*) FROM pawl.mark") > [(0,)]
    clock.advance(8 * 86400)
    clock.run_until(lambda: database.sql("SELECT count(*) FROM pawl.mark") == [(0,)], step=5)
    assert ask(gateway, "k2")["Idempotency-Status"] == "stored"
    assert database.sql("SELECT count(*) FROM pawl.mark") > [(0,)]
    assert ask(gateway, "k3")["Idempotency-Status"] == "stored"
    assert gateway.admin.value("pawl_store_went_back_total") == 0


def test_a_mark_is_missed_where_it_should_be(made, upstream, database):
    """However it went: whoever deletes it by hand gets what a loss gets."""
    gateway = made(database.url)
    assert ask(gateway, "k1")["Idempotency-Status"] == "stored"
    database.sql("DELETE FROM pawl.mark")
    eventually(lambda: went_back(gateway, "k2"), "a refusal")
    assert upstream.effects() == 1
    restored(database.url, *words_of(gateway, database.url))
    assert ask(gateway, "k2")["Idempotency-Status"] == "stored"
