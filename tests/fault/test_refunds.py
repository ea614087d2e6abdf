# SPDX-License-Identifier: Apache-2.0
"""examples/refunds: the record in the service's own SQLite transaction, beside a provider that
times out after it has paid, and tells a request id that it knows."""
from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
import requests

from pawltest.gateway import PAWL

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/refunds"
LIBRARY = Path(PAWL).parent / "src/client"
SEED = 20261124
CHARGE = {"charge": "ch_1", "amount": 1000}


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The service, as a user builds it."""
    made = tmp_path_factory.mktemp("refunds") / "service"
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "sqlite3", "libmicrohttpd",
                            "jansson"], stdout=subprocess.PIPE, text=True, check=True).stdout
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}",
                    EXAMPLE / "service.c", f"-L{LIBRARY}", "-l:libpawl.so.0", *flags.split(), "-o",
                    made], check=True)
    return made


class Process:
    """One that says on which port it listens."""

    def __init__(self, *command: Any):
        self.command = [str(word) for word in command]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "LD_LIBRARY_PATH": str(LIBRARY)})
        self.port = int(self.process.stdout.readline().rpartition(":")[2])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Shop:
    def __init__(self, program: Path, file: Path, lose: int, *options: str):
        self.file = file
        self.provider = Process(sys.executable, EXAMPLE / "provider.py", 0, "--lose", lose)
        self.service = Process(program, file, f"http://127.0.0.1:{self.provider.port}/payouts", 0,
                               *options)

    def refund(self, key: str, charge: dict[str, Any] = CHARGE,
               merchant: str = "m1") -> requests.Response:
        return requests.post(f"http://127.0.0.1:{self.service.port}/refunds", json=charge,
                             headers={"Idempotency-Key": key, "X-Merchant": merchant}, timeout=30)

    def payouts(self) -> list[dict[str, Any]]:
        return requests.get(f"http://127.0.0.1:{self.provider.port}/payouts", timeout=30).json()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.file)) as connection:
            return connection.execute(statement).fetchall()

    def check(self, n: int) -> None:
        """Each payout has one refund and one ledger entry, and there are no others."""
        paid = {(row["id"], row["charge"], row["amount"]) for row in self.payouts()}
        assert len(paid) == n
        assert set(self.rows("SELECT id, charge, amount FROM refunds")) == paid
        assert sorted(self.rows("SELECT refund, -amount FROM ledger")) == sorted(
            (row[0], row[2]) for row in paid)

    def close(self) -> None:
        self.service.kill()
        self.provider.kill()


@pytest.fixture
def shop(program: Path, tmp_path: Path) -> Iterator[Callable[..., Shop]]:
    made: list[Shop] = []

    def start(lose: int = 0, *options: str) -> Shop:
        made.append(Shop(program, tmp_path / "refunds.db", lose, *options))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_t2_a_provider_that_times_out_after_paying(shop: Callable[..., Shop]) -> None:
    service = shop(100)  # as many tries of one request as there may be
    first = service.refund("k1")
    assert first.status_code == 504 and first.json()["error"]["code"] == "PROVIDER.timeout"
    assert len(service.payouts()) == 1 and service.rows("SELECT * FROM refunds") == []


def test_t2_the_retry_gets_the_refund_that_exists(shop: Callable[..., Shop]) -> None:
    service = shop(1)
    told = service.refund("k1")
    while told.status_code == 504:
        told = service.refund("k1")
    assert told.status_code == 201
    assert told.json() == {"id": "rf_123", "charge": "ch_1", "amount": 1000}
    assert told.headers["Error-Code"] == "PROVIDER.duplicate"
    again = service.refund("k1")
    assert (again.content, again.headers["Error-Code"]) == (told.content, "PROVIDER.duplicate")
    assert service.refund("k1", {"charge": "ch_1", "amount": 2}).json()["error"]["code"] == (
        "CONFLICT.idempotency.payload_mismatch")
    service.check(1)
    assert service.refund("k2").json()["id"] == "rf_124"  # another key, another refund
    assert service.refund("k1", merchant="m2").json()["id"] == "rf_125"
    service.check(3)


def test_t2_once_per_charge_refuses_the_second_refund(shop: Callable[..., Shop]) -> None:
    service = shop(0, "--once-per-charge")
    assert service.refund("k1").status_code == 201
    refused = service.refund("k2")
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "CONFLICT.idempotency.duplicate"
    assert service.refund("k1").status_code == 201
    service.check(1)


def test_many_clients_with_one_key_get_one_response(shop: Callable[..., Shop]) -> None:
    service = shop()
    with ThreadPoolExecutor(20) as clients:
        told = list(clients.map(lambda _: service.refund("k1").content, range(60)))
    assert len(set(told)) == 1
    service.check(1)


def test_malformed_keys_leave_no_row(shop: Callable[..., Shop]) -> None:
    service = shop()
    for key in ("", "k" * 256, "k" * 400):
        assert service.refund(key).status_code == 400
    assert service.refund("k1", {"charge": "ch_1", "amount": 0}).status_code == 400
    assert service.payouts() == []


def test_killed_at_any_point_it_refunds_once(shop: Callable[..., Shop]) -> None:
    """kill -9 again and again while clients repeat what they were not told."""
    service = shop()
    chance = random.Random(SEED)
    over = threading.Event()

    def client(key: str) -> bytes:
        while True:
            try:
                told = service.refund(key)
                if told.status_code == 201:
                    return told.content
            except requests.ConnectionError:
                pass

    def killer() -> None:
        for _ in range(25):
            time.sleep(chance.uniform(0, 0.02))
            service.service.kill()
            service.service.start()
        over.set()

    def clients(name: int) -> dict[str, bytes]:
        told, n = {}, 0
        while not over.is_set():
            told[f"c{name}-{n}"] = client(f"c{name}-{n}")
            n += 1
        return told

    killing = threading.Thread(target=killer)
    killing.start()
    with ThreadPoolExecutor(4) as pool:
        told = {key: body for one in pool.map(clients, range(4)) for key, body in one.items()}
    killing.join()
    service.check(len(told))
    assert {json.loads(body)["id"] for body in told.values()} == {
        row["id"] for row in service.payouts()}
    for key, body in told.items():
        assert service.refund(key).content == body
