# SPDX-License-Identifier: Apache-2.0
"""The server stops, dies, ends its sessions or cannot be reached: a clear 503, nothing lost, and
all goes on by itself when it is back."""
from __future__ import annotations

import signal
import threading

import pytest

from pawltest.admin import with_admin
from pawltest.gateway import Gateway
from server import PASSWORD, Database, Server
from pawltest.wire import Answer, Later, eventually

CONFIG = """
tenant: none
threads: 1
store_timeout: 1s
rules:
  - {name: refunds.create, match: POST /refunds, timeout: 3s}
"""
AWAY = "DEPENDENCY.store_unavailable"
NOT_STORED = "DEPENDENCY.outcome_not_stored"
RUNNING = "CONFLICT.idempotency.in_progress"


@pytest.fixture
def database(own_database: Database) -> Database:
    return own_database


def ask(gateway: Gateway, key: str) -> Answer:
    return gateway.post("/refunds", {"of": key}, key=key)


def ask_until_told(gateway: Gateway, key: str) -> Answer:
    """As a client does: again, while it is told that the store is away."""
    def told() -> Answer | None:
        answer = ask(gateway, key)
        assert answer.status == 201 or answer["Error-Code"] in (AWAY, NOT_STORED, RUNNING), answer
        return answer if answer.status == 201 else None

    return eventually(told, "an outcome")


def turns(gateway: Gateway) -> list[str]:
    return [line["event"] for line in gateway.log if line["event"].startswith("store_")]


def test_without_a_server_nothing_is_sent_and_when_it_is_back_all_goes_on(
        pawl, upstream, own_server):
    gateway, admin = with_admin(pawl, CONFIG)
    before = ask(gateway, "before")
    own_server.stop()
    refused = ask(gateway, "during")
    assert refused.is_problem(503, AWAY) and int(refused["Retry-After"]) > 0
    assert upstream.effects() == 1
    eventually(lambda: admin.get("/readyz").status == 503, "not ready")
    assert admin.get("/livez").status == 200
    assert admin.value("pawl_store_up") == 0
    eventually(lambda: turns(gateway) == ["store_down"], "the line that it is away")
    own_server.start()
    assert ask_until_told(gateway, "before").kept == before.kept
    assert ask_until_told(gateway, "during")["Idempotency-Status"] == "stored"
    admin.until_ready()
    assert upstream.effects() == 2
    eventually(lambda: turns(gateway)[-1] == "store_up", "the line that it is back")
    # On a slow machine it may count as slow, and so as down, once more.
    assert turns(gateway) == ["store_down", "store_up"] * (len(turns(gateway)) // 2)


def test_an_outcome_is_withheld_until_the_server_is_back_and_stored_then(
        pawl, upstream, own_server):
    gateway = pawl(CONFIG)
    gate = upstream.hold()
    first = Later(lambda: ask(gateway, "k1"))
    gate.wait_for()
    own_server.stop()
    gate.open()
    assert first.result().is_problem(503, NOT_STORED)
    own_server.start()
    answer = ask_until_told(gateway, "k1")
    assert (answer["Idempotency-Status"], answer.json) == ("replayed", {"held": True})
    assert upstream.effects() == 1


def test_a_server_that_dies_loses_nothing_that_was_told(pawl, upstream, own_server):
    gateway = pawl(CONFIG)
    for life in range(3):
        kept = {key: ask_until_told(gateway, key).kept for key in (f"{life}-a", f"{life}-b")}
        own_server.kill9()
        own_server.start()
        assert {key: ask_until_told(gateway, key).kept for key in kept} == kept
    assert upstream.effects() == 6


def test_sessions_that_are_ended_again_and_again_cost_nothing(pawl, upstream, own_server, database):
    gateways = [pawl(CONFIG), pawl(CONFIG)]
    keys = [f"k{i}" for i in range(40)]
    told: dict[str, Answer] = {}
    failed: list[BaseException] = []

    def client(number: int) -> None:
        try:
            for i, key in enumerate(keys):
                answer = ask_until_told(gateways[(number + i) % 2], key)
                assert told.setdefault(key, answer).kept == answer.kept
        except BaseException as error:  # pylint: disable=broad-except
            failed.append(error)

    clients = [threading.Thread(target=client, args=(n,), daemon=True) for n in range(3)]
    for one in clients:
        one.start()
    ended = 0
    while running := [one for one in clients if one.is_alive()]:
        ended += own_server.end_backends(database)
        running[0].join(1.0)
    assert not failed and ended > 0
    assert upstream.effects() == len(keys)


def test_a_password_is_never_printed(pawl, upstream, own_server):
    gateway = pawl(CONFIG)
    ask(gateway, "k1")
    own_server.stop(signal.SIGQUIT)
    assert ask(gateway, "k2").is_problem(503, AWAY)
    own_server.start()
    ask_until_told(gateway, "k2")
    gateway.restart()
    printed = "\n".join(gateway.printed)
    assert "store postgres://" in printed
    for password in (PASSWORD, PASSWORD.replace("%40", "@")):
        assert password not in printed
