# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL behind the black box's gateways: a server a session, a database a test."""
from __future__ import annotations

from typing import Iterator

import pytest

from relay import Relay
from server import Database, Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One that no test stops or crashes."""
    with Server() as made:
        yield made


@pytest.fixture
def database(server: Server) -> Database:
    return server.add_database()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """One that the test may do anything to; what it acknowledged survives its death."""
    with Server(durable=True) as made:
        yield made


@pytest.fixture
def relay(server: Server) -> Iterator[Relay]:
    """The way to the server."""
    with Relay(server.port) as made:
        yield made
