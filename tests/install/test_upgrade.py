# SPDX-License-Identifier: Apache-2.0
"""From the last release to this build and back, on one file, while clients post and repeat."""
from __future__ import annotations

import os
import sqlite3
import subprocess
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pawltest.gateway import PAWL, ROOT, Gateway
from pawltest.wire import PATIENCE, Broken, eventually

pytestmark = pytest.mark.file_only
LAST = "6aa6fa92"  # 0.1.0, whose stores are of format 3
COPY = "before-3"
BUILDING = 300  # seconds
CLIENTS = 4
SOME = 12
CONFIG = """
tenant: none
rules:
  - {name: refunds.create, match: POST /refunds}
"""


@pytest.fixture(name="last", scope="module")
def fixture_last(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the last release, from the sources' history."""
    known = subprocess.run(["git", "-C", str(ROOT), "cat-file", "-e", LAST + "^{commit}"],
                           capture_output=True, check=False)
    if known.returncode != 0:
        pytest.skip(f"the history beside these sources lacks {LAST}")
    at = tmp_path_factory.mktemp("last")
    source, build = at / "source", at / "build"
    source.mkdir()
    made = subprocess.run(
        f"git -C '{ROOT}' archive {LAST} | tar -x -C '{source}' && meson setup '{build}' '{source}'"
        f" -Doptimization=1 -Dtests=false && nice ninja -C '{build}' pawl", shell=True, text=True,
        env={**os.environ, "CC": os.environ.get("CC", "ccache gcc")}, timeout=BUILDING, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert made.returncode == 0, made.stdout[-4000:]
    return build / "pawl"


class Clients:
    """They post under keys of their own, each until it is answered, across restarts, and repeat
    each key once."""

    def __init__(self, gateway: Gateway, name: str):
        self.gateway, self.name, self.kept, self.wrong = gateway, name, {}, []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(CLIENTS)]

    def _answered(self, key: str) -> Any:
        while not self._over.is_set():
            try:
                answer = self.gateway.post("/refunds", {"of": key}, key=key)
            except (OSError, Broken):
                answer = None
            if answer is None or answer.status == 503:  # nobody listens, or it drains
                self._over.wait(0.01)
                continue
            return answer
        return None

    def _run(self, client: int) -> None:
        n = 0
        while not self._over.is_set():
            key = f"{self.name}{client}-{n}"
            first = self._answered(key)
            if first is None:
                return
            self.kept[key] = first.kept
            if first.status != 201:
                self.wrong.append(first)
            again = self._answered(key)
            if again is not None and again.kept != first.kept:
                self.wrong.append(again)
            n += 1

    def wait_for_some(self) -> None:
        seen = len(self.kept)
        eventually(lambda: len(self.kept) >= seen + SOME, "load")

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE)


def keys_in(store: Path) -> set[str]:
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as opened:
        return {key for key, in opened.execute("SELECT key FROM idempotency_keys")}


def put_back(store: Path) -> Path:
    """As docs/guide/upgrading.md says; where the newer file is now."""
    newer = store.with_name("newer.db")
    store.rename(newer)
    for name in ("-wal", "-shm"):
        Path(f"{store}{name}").unlink(missing_ok=True)
    store.with_name(f"{store.name}.{COPY}").rename(store)
    return newer


def repeat(gateway: Gateway, keys: set[str], kept: dict[str, Any]) -> set[str]:
    """Those that were not replayed as they were."""
    return {key for key in keys
            if gateway.post("/refunds", {"of": key}, key=key).kept != kept[key]}


def test_an_upgrade_under_load_loses_nothing_and_the_way_back_only_what_was_done_since(
        pawl, upstream, last):
    gateway = pawl(CONFIG, started=False)
    gateway.binary = last
    gateway.store.unlink()  # which this build made
    gateway.start()
    with Clients(gateway, "up") as clients:
        clients.wait_for_some()
        assert gateway.stop() == 0
        gateway.binary = PAWL
        gateway.start()
        clients.wait_for_some()
    kept = dict(clients.kept)
    assert not clients.wrong
    before = keys_in(gateway.store.with_name(f"{gateway.store.name}.{COPY}"))
    assert len(before) >= SOME and len(set(kept) - before) >= SOME
    assert not repeat(gateway, set(kept), kept)
    assert upstream.effects() == len(keys_in(gateway.store))

    assert gateway.stop() == 0
    gateway.binary = last
    refused = subprocess.run([str(last), "serve", "-c", str(gateway.config)], capture_output=True,
                             text=True, timeout=PATIENCE, check=False)
    assert refused.returncode == 69 and "newer pawl" in refused.stderr
    newer = put_back(gateway.store)
    gateway.start()
    done = upstream.effects()
    with Clients(gateway, "back") as later:
        later.wait_for_some()
    assert not later.wrong
    assert not repeat(gateway, before & set(kept), kept)
    assert not repeat(gateway, set(later.kept), later.kept)
    done += len(keys_in(gateway.store) - before)
    assert upstream.effects() == done
    price = (keys_in(newer) - before) & set(kept)
    assert repeat(gateway, price, kept) == price and upstream.effects() == done + len(price)
