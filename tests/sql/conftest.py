# SPDX-License-Identifier: Apache-2.0
"""What the tests of the SQL functions share: one server a session, a database a test."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable, Iterator

import psycopg2
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "postgres"))

from server import Database, Server  # noqa: E402
from shop import RESET, Shop, install, url_of  # noqa: E402


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One that no test stops or crashes."""
    with Server() as made:
        yield made


@pytest.fixture
def plain(server: Server) -> Database:
    """An application's database, without the schema."""
    return server.add_database()


@pytest.fixture(scope="session")
def installed(server: Server) -> Database:
    """The application's database, for all tests."""
    return install(server)


@pytest.fixture
def database(server: Server, installed: Database) -> Database:
    """The application's database, as new."""
    server.end_backends(installed)
    installed.sql(RESET)
    return installed


@pytest.fixture
def connecting() -> Iterator[Callable[[Database], Any]]:
    """Opens connections of the application's role, which end with the test."""
    made: list[Any] = []

    def connect(database: Database) -> Any:
        made.append(psycopg2.connect(url_of(database)))
        return made[-1]

    yield connect
    for connection in made:
        connection.close()


@pytest.fixture
def shop(database: Database, connecting: Callable[[Database], Any]) -> Callable[[], Shop]:
    """Opens sessions of the application."""
    return lambda: Shop(connecting(database))
