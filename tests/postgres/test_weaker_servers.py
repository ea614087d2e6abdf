# SPDX-License-Identifier: Apache-2.0
"""A server that may lose what it acknowledged: a gateway does not start on it unless that is
accepted, and says so when it becomes one while the gateway runs."""
from __future__ import annotations

import os
from typing import Callable, Iterator

import psycopg2
import pytest
from psycopg2.extras import LogicalReplicationConnection, PhysicalReplicationConnection

from pawltest.admin import Admin
from pawltest.gateway import Gateway, free_port, run
from pawltest.wire import eventually
from server import Database, Server, SUPERUSER

RULES = """
tenant: none
rules:
  - {name: refunds.create, match: POST /refunds}
"""
FAILOVER = ("a failover would lose responses that clients already got, because no standby is "
            "synchronous; set synchronous_standby_names on the server "
            "(docs/guide/postgresql.md#failover)")
Made = Callable[..., Gateway]


@pytest.fixture
def server() -> Iterator[Server]:
    """One that the test may do anything to."""
    with Server() as made:
        yield made


@pytest.fixture
def made(pawl: Callable[..., Gateway], database: Database) -> Made:
    """A gateway on the database that is not started, with an admin listener."""
    def make(more: str = "", url: str = database.url) -> Gateway:
        gateway = pawl(RULES, started=False)
        gateway.admin = Admin(free_port())
        gateway.configure(f"admin: 127.0.0.1:{gateway.admin.port}\n{more}{RULES}")
        return gateway.move_to(url)
    return make


def set_to(server: Server, name: str, value: str) -> None:
    server.sql(f"ALTER SYSTEM SET {name} = '{value}'")
    server.sql("SELECT pg_reload_conf()")
    eventually(lambda: server.sql(f"SHOW {name}") == [(value,)], "the setting in a new session")


def refusal(gateway: Gateway) -> str:
    ended = run("serve", "-c", gateway.config)
    assert ended.returncode == 69, ended
    return ended.stderr


def says(gateway: Gateway, *words: str) -> None:
    """A line of its start has all of them; it comes after the one that it is ready."""
    eventually(lambda: any(all(word in line for word in words) for line in gateway.printed),
               " ".join(words))


def never_said(gateway: Gateway, word: str) -> bool:
    """In all of its life, which is over."""
    assert gateway.stop() == 0
    return not any(word in line for line in gateway.printed)


def weaknesses(gateway: Gateway) -> list[str]:
    """What its log said, in order."""
    return [line.get("problem", "") for line in gateway.log
            if line["event"] in ("store_weaker", "store_durable")]


def two_hosts(url: str, server: Server) -> str:
    host = f"127.0.0.1:{server.port}"
    return url.replace(host, f"{host},{host}")


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_does_not_sync_is_refused(made, server, database, setting):
    """found: F2"""
    set_to(server, setting, "off")
    said = refusal(made())
    assert said.startswith("pawl serve: postgres://pawl@127.0.0.1:")
    assert f"the server runs with {setting} = off: a power cut would " in said
    assert said.endswith(f"; set {setting} = on, or accept_weaker: true\n")
    gateway = made("accept_weaker: true\n").start()
    says(gateway, f"{setting} = off", "may lose what it acknowledged", "(accept_weaker: true)")
    assert gateway.admin.value("pawl_store_weaker") == 1
    assert gateway.post("/refunds", {}, "k1").status == 201


def test_commands_ask_the_same(server, database, tmp_path):
    """found: F2"""
    set_to(server, "fsync", "off")
    command = ["run", "--key", "k1", "--store", database.url, "--", "true"]
    refused = run(*command)
    assert refused.returncode == 69
    assert "fsync = off" in refused.stderr and "or PAWL_ACCEPT_WEAKER=true" in refused.stderr
    accepted = run(*command, env={**os.environ, "PAWL_ACCEPT_WEAKER": "true"})
    assert accepted.returncode == 0, accepted
    assert "k1" in run("keys", "list", "--store", database.url).stdout


def test_a_setting_that_changes_while_it_runs_is_said_once_and_stops_nothing(made, server, clock):
    """found: F2"""
    gateway = made().start()
    assert gateway.admin.value("pawl_store_weaker") == 0
    set_to(server, "fsync", "off")
    clock.run_until(lambda: gateway.admin.value("pawl_store_weaker") == 1)
    clock.run_until(lambda: len(weaknesses(gateway)) == 1)
    assert "fsync = off" in weaknesses(gateway)[0]
    assert gateway.post("/refunds", {}, "k1").status == 201
    set_to(server, "fsync", "on")
    clock.run_until(lambda: gateway.admin.value("pawl_store_weaker") == 0)
    clock.run_until(lambda: len(weaknesses(gateway)) == 2)


@pytest.mark.parametrize("way", ["hosts", "session"])
def test_a_url_that_follows_a_failover_needs_a_synchronous_standby(made, server, database, way):
    """found: F1"""
    url = (two_hosts(database.url, server) if way == "hosts"
           else database.url + "?target_session_attrs=read-write")
    said = refusal(made(url=url))
    assert f": {FAILOVER}, or accept_weaker: true\n" in said
    assert made("accept_weaker: true\n", url).start().post("/refunds", {}, "k1").status == 201


def test_a_standby_is_a_warning_and_a_synchronous_one_is_what_is_wanted(made, server, database,
                                                                        clock):
    """found: F1"""
    early = made().start()
    standby = server.add_standby()
    try:
        standby.start()
        clock.run_until(lambda: any("none is synchronous" in said for said in weaknesses(early)))
        assert early.admin.value("pawl_store_weaker") == 0
        early.stop()
        warned = made().start()
        says(warned, "pawl serve: warning: the store", "[async-standby]")
        warned.stop()
        silent = made("allow: [async-standby]\n").start()
        assert never_said(silent, "async-standby")
        assert FAILOVER in refusal(made(url=two_hosts(database.url, server)))
        set_to(server, "synchronous_standby_names", "*")
        follows = made(url=two_hosts(database.url, server)).start()
        set_to(server, "synchronous_standby_names", "")
        clock.run_until(lambda: weaknesses(follows) == [FAILOVER])
        assert follows.admin.value("pawl_store_weaker") == 1
        assert never_said(follows, "pawl serve: warning")
    finally:
        standby.discard()


def test_a_copy_of_the_cluster_and_a_subscriber_are_no_standbys(made, server, database):
    where = {"host": str(server.directory), "port": server.port, "user": SUPERUSER}
    copies = [psycopg2.connect(**where, connection_factory=PhysicalReplicationConnection,
                               application_name=name) for name in ("pg_basebackup",
                                                                   "pg_receivewal")]
    copies.append(psycopg2.connect(**where, dbname=database.name,
                                   connection_factory=LogicalReplicationConnection))
    assert server.sql("SELECT count(*) FROM pg_stat_replication") == [(3,)]
    gateway = made().start()
    assert never_said(gateway, "standby")
    for copy in copies:
        copy.close()


def test_what_a_role_may_not_read_is_a_note_and_costs_no_gauge(made, database, clock):
    """found: F2"""
    database.sql("REVOKE SELECT ON pg_stat_replication FROM PUBLIC")
    gateway = made().start()
    says(gateway, "pawl serve: note: the store postgres://", "[durability-unknown]")
    assert gateway.post("/refunds", {}, "k1").status == 201
    clock.run_until(lambda: gateway.admin.value("pawl_records", status="complete") == 1)
    assert gateway.admin.value("pawl_store_weaker") == 0
