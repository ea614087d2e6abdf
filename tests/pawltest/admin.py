# SPDX-License-Identifier: Apache-2.0
"""The operator's listener of a gateway under test."""
from __future__ import annotations

import json
import re
from typing import Any

from pawltest.gateway import Gateway, free_port
from pawltest.wire import Answer, Client, Headers, eventually

SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
TOKEN = "a-token-of-the-tests"

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def series(page: str) -> Series:
    """Every sample of a page, by name and labels."""
    found: Series = {}
    for line in page.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = SAMPLE.match(line).groups()
        at = (name, frozenset(LABEL.findall(labels or "")))
        assert at not in found, f"twice: {line}"
        found[at] = float(value)
    return found


class Admin:
    """Asks on a connection of its own each time."""

    def __init__(self, port: int, token: str | None = None):
        self.port = port
        self.headers: Headers = [("Host", f"127.0.0.1:{port}")]
        if token is not None:
            self.headers = [*self.headers, ("Authorization", f"Bearer {token}")]

    def connect(self) -> Client:
        return Client(self.port)

    def request(self, method: str, target: str, headers: Headers = (), body: bytes = b"") -> Answer:
        named = {name.lower() for name, _ in headers}
        mine = [line for line in self.headers if line[0].lower() not in named]
        with self.connect() as client:
            return client.request(method, target, [*mine, *headers], body)

    def get(self, target: str, headers: Headers = ()) -> Answer:
        return self.request("GET", target, headers)

    def act(self, row: int, act: str, **members: Any) -> Answer:
        return self.request("POST", f"/keys/{row}/{act}", [("Content-Type", "application/json")],
                            json.dumps(members).encode())

    # ---- what it tells ----

    def series(self) -> Series:
        answer = self.get("/metrics")
        assert answer.status == 200, answer
        return series(answer.body.decode())

    def value(self, name: str, **labels: str) -> float:
        return self.series()[name, frozenset(labels.items())]

    def outcomes(self, rule: str) -> dict[str, int]:
        """How often each outcome was counted for the rule, without those that never were."""
        return {dict(labels)["outcome"]: int(value)
                for (name, labels), value in self.series().items()
                if name == "pawl_requests_total" and dict(labels)["rule"] == rule and value}

    def keys(self, query: str = "") -> list[dict[str, Any]]:
        answer = self.get("/keys" + query)
        assert answer.status == 200, answer
        return answer.json["keys"]

    def until_ready(self) -> None:
        eventually(lambda: self.get("/readyz").status == 200, "ready")


def with_admin(pawl: Any, config: str, started: bool = True,
               token: str | None = None) -> tuple[Gateway, Admin]:
    """A gateway of the fixture `pawl` with an admin listener, and that listener."""
    port = free_port()
    text = f"admin: 127.0.0.1:{port}\n{config}"
    if token is not None:
        text = f"admin_token: {token}\n{text}"
    return pawl(text, started), Admin(port, token)
