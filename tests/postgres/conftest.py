# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL behind the black box's gateways: a server a session, a database a test."""
from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Iterator

import pytest

BLACKBOX = Path(__file__).resolve().parents[1] / "blackbox"
sys.path.insert(0, str(BLACKBOX))
sys.path.insert(0, str(Path(__file__).parent))

# Two modules named conftest cannot both be imported by that name.
_spec = importlib.util.spec_from_file_location("blackbox_conftest", BLACKBOX / "conftest.py")
_shared = importlib.util.module_from_spec(_spec)
sys.modules["blackbox_conftest"] = _shared
_spec.loader.exec_module(_shared)

pytest_runtest_makereport = _shared.pytest_runtest_makereport
pytest_runtestloop = _shared.pytest_runtestloop
pytest_collection_modifyitems = _shared.pytest_collection_modifyitems
upstream = _shared.upstream
clock = _shared.clock

from relay import Relay  # noqa: E402
from server import Database, Server  # noqa: E402


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
