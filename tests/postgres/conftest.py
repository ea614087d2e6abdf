# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL behind the black box's gateways: a server a session, a database a test."""
from __future__ import annotations

from typing import Callable, Iterator

import pytest

from pawltest.gateway import Gateway
from pawltest.participant import CONFIG, Participant
from relay import Relay
from server import Database, Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One that no test stops or crashes."""
    with Server() as made:
        yield made


@pytest.fixture
def database(server: Server) -> Database:
    """One with the schema: a gateway's first start finds it. Another test's, once it is over."""
    return server.add_fleeting_database()


@pytest.fixture
def empty_database(server: Server) -> Database:
    return server.add_database()


@pytest.fixture(autouse=True)
def one_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All gateways of a test have its one database."""
    monkeypatch.setattr(Gateway, "new_store",
                        lambda _: request.getfixturevalue("database").url)


@pytest.fixture
def own_server() -> Iterator[Server]:
    """One that the test may do anything to; what it acknowledged survives its death."""
    with Server(durable=True) as made:
        yield made


@pytest.fixture
def own_database(own_server: Server) -> Database:
    return own_server.add_database()


@pytest.fixture
def relay(server: Server) -> Iterator[Relay]:
    """The way to the server."""
    with Relay(server.port) as made:
        yield made


@pytest.fixture
def payer(database: Database) -> Iterator[Participant]:
    made = Participant(database).start().wait_until_ready()
    yield made
    made.discard()


@pytest.fixture
def gateway_of(pawl: Callable[..., Gateway], payer: Participant) -> Callable[..., Gateway]:
    def make(config: str = CONFIG) -> Gateway:
        made = pawl(config, started=False)
        made.upstream_port = payer.port
        made.configure(config)
        return made.start()

    return make
