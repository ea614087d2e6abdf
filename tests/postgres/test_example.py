# SPDX-License-Identifier: Apache-2.0
"""examples/two-gateways, and the crash that it tells to try."""
from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Iterator

import pytest

from pawltest.admin import Admin
from pawltest.gateway import PAWL, ROOT, free_port
from pawltest.wire import Answer, Broken, Client, Later, eventually
from server import User, make_directory

KEY = ("Idempotency-Key", "k1")


def free_ports() -> int:
    """The first of seven that lie side by side: those of one process of the tests do not."""
    return eventually(lambda: next((first for first in [free_port()] if all(
        is_free(first + i) for i in range(1, 7))), None), "free ports")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


class Example:
    """The running script; it keeps a folder that it is given."""

    def __init__(self, folder: Path, port: int):
        self.folder = folder
        self.port = port
        self.printed = folder / "printed"
        with self.printed.open("w") as printed:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", ROOT / "examples/two-gateways/run", folder],
                stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT,
                env={**os.environ, "PAWL_BIN": str(PAWL), "PORT": str(port)})
        eventually(lambda: "ready in" in self.printed.read_text() or self.process.poll(),
                   "the example")
        assert self.process.poll() is None, self.printed.read_text()

    def ask(self, amount: int, port: int | None = None, *headers: tuple[str, str]) -> Answer:
        with Client(port or self.port) as client:
            return client.request("POST", "/refunds",
                                  [KEY, ("Content-Type", "application/json"), *headers],
                                  json.dumps({"charge_id": "ch_1", "amount": amount}).encode())

    def refunds(self) -> list[dict[str, object]]:
        path = self.folder / "ledger.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture
def example() -> Iterator[Example]:
    folder = make_directory(User.pick(), "example")
    made = Example(folder, free_ports())
    yield made
    if made.process.poll() is None:
        made.end()
    shutil.rmtree(folder)


def test_a_gateway_is_killed_and_the_other_does_its_request_once(example):
    first = Later(lambda: example.ask(7, example.port + 1, ("Demo-Fault", "delay=2000")))
    eventually(lambda: Admin(example.port + 3).keys(), "a record of it")
    os.kill(int((example.folder / "one.pid").read_text()), signal.SIGKILL)
    with pytest.raises((Broken, OSError)):
        first.result()
    answers: list[Answer] = []

    def told() -> bool:
        answers.append(example.ask(7))
        return answers[-1].status == 201

    eventually(told, "an answer from the other gateway")
    assert example.ask(7).body == answers[-1].body
    assert len(example.refunds()) == 1
    assert example.end() == 0


def test_both_gateways_know_one_truth_and_all_ends_with_the_script(example):
    answers = [example.ask(5) for _ in range(4)]
    assert [answer["Idempotency-Status"] for answer in answers] == ["stored"] + ["replayed"] * 3
    assert example.ask(6).status == 409
    pids = [int(path.read_text()) for path in example.folder.glob("*.pid")]
    assert len(pids) == 5 and example.end() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
