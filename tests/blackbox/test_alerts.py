# SPDX-License-Identifier: Apache-2.0
"""The alerts that ship, tried end to end: a Prometheus scrapes gateways in trouble. Its rules are
those of packaging/prometheus with shorter times."""
from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Callable, Iterator

import pytest

from pawltest.admin import Admin
from conftest import CONFIG
from pawltest.gateway import Gateway, free_port
from pawltest.prometheus import Prometheus, Traffic
from pawltest.upstream import Upstream, say
from pawltest.wire import eventually

pytestmark = pytest.mark.file_only

ON_A_DISK_OF_ITS_OWN = ["unshare", "--map-root-user", "--mount", "sh", "-c",
                        'mount -t tmpfs -o size=16m none "$0" && exec "$@"']
TROUBLE = {"full": {"PawlStoreFull", "PawlStoreDown", "PawlStoreRefuses"},
           "held": {"PawlStoreDown", "PawlStoreRefuses"},
           "dead": {"PawlUpstreamDown", "PawlUpstreamFailing"},
           "failing": {"PawlUpstreamFailing", "PawlRetriesExhausted"}}


@pytest.fixture
def failing() -> Iterator[Upstream]:
    made = Upstream()
    yield made
    made.stop()


def with_admin_listener(gateway: Gateway, more: str = "") -> Admin:
    admin = Admin(free_port())
    gateway.configure(f"admin: 127.0.0.1:{admin.port}\n{more}{CONFIG}    retry: user_facing\n")
    gateway.start()
    return admin


def put_on_a_disk_of_its_own(gateway: Gateway) -> Callable[[], Path]:
    """The disk as this process sees it, once it has started."""
    disk = gateway.directory / "disk"
    disk.mkdir()
    gateway.store = disk / "pawl.db"
    gateway.wrapper = [*ON_A_DISK_OF_ITS_OWN, str(disk)]
    return lambda: Path(f"/proc/{gateway.process.pid}/root{disk}")


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(64 * 1024))
    return filler


def turns(gateway: Gateway) -> list[str]:
    return [line["event"] for line in gateway.log if line["event"] in ("store_down", "store_up")]


def test_each_trouble_fires_its_alerts_and_they_clear_when_it_is_over(pawl, upstream, failing,
                                                                     tmp_path):
    """found: C-C3, C-H2"""
    gateways = {name: pawl(CONFIG, started=False) for name in TROUBLE}
    full, held, dead = (gateways[name] for name in ("full", "held", "dead"))
    disk = put_on_a_disk_of_its_own(full)
    dead_upstream = Upstream()
    dead.upstream_port, gateways["failing"].upstream_port = dead_upstream.port, failing.port
    admins = {name: with_admin_listener(one, "store_timeout: 1s\n")
              for name, one in gateways.items()}
    prometheus = Prometheus(tmp_path, {name: admin.port for name, admin in admins.items()})
    traffic = Traffic(list(gateways.values()))
    try:
        filler = fill(disk())
        dead_upstream.stop()
        failing.default = say(503)
        with closing(sqlite3.connect(held.store, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            prometheus.await_alerts(TROUBLE, lambda name, alerts: TROUBLE[name] <= alerts)
            for name in ("full", "held"):
                assert admins[name].get("/readyz").status == 503
                assert turns(gateways[name])[0] == "store_down"
            # Whichever comes first: a write that finds no room, or the look at what is left of it.
            problem = full.lines("store_down")[0]["problem"]
            assert "full" in problem or "low on space" in problem
        filler.unlink()
        dead_upstream.start()
        failing.default = failing.created
        prometheus.await_alerts(TROUBLE, lambda name, alerts: not TROUBLE[name] & alerts)
        for name in ("full", "held"):
            assert admins[name].get("/readyz").status == 200
            eventually(lambda: turns(gateways[name])[-1] == "store_up", "its line")
            told = turns(gateways[name])
            # A machine that stands still for a second may see it go and come once more.
            assert told == ["store_down", "store_up"] * (len(told) // 2)
    finally:
        traffic.stop()
        prometheus.stop()
        dead_upstream.stop()
