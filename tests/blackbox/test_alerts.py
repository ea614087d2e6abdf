# SPDX-License-Identifier: Apache-2.0
"""The alerts that ship, tried end to end: a Prometheus scrapes gateways in trouble. Its rules are
those of packaging/prometheus with shorter times."""
from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import threading
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from pawltest.admin import Admin
from conftest import CONFIG
from pawltest.gateway import DIE_WITH_THE_TEST, ROOT, Gateway, free_port
from pawltest.upstream import Upstream, say
from pawltest.wire import eventually

RULES = ("pawl-rules.yml", "pawl-alerts.yml")
ON_A_DISK_OF_ITS_OWN = ["unshare", "--map-root-user", "--mount", "sh", "-c",
                        'mount -t tmpfs -o size=16m none "$0" && exec "$@"']
TROUBLE = {"full": {"PawlStoreFull", "PawlStoreDown", "PawlStoreRefuses"},
           "held": {"PawlStoreDown", "PawlStoreRefuses"},
           "dead": {"PawlUpstreamDown", "PawlUpstreamFailing"},
           "failing": {"PawlUpstreamFailing"}}


def shortened(rules: str) -> str:
    """Windows of two seconds a minute; what must hold for minutes must for seconds."""
    rules = re.sub(r"\[(\d+)m\]", lambda match: f"[{2 * int(match[1])}s]", rules)
    return re.sub(r"for: (\d+)m", r"for: \1s", rules)


class Prometheus:
    """Scrapes twice a second; the instances have the names that the test gave them."""

    def __init__(self, directory: Path, targets: dict[str, int]):
        self.port = free_port()
        for name in RULES:
            text = (ROOT / "packaging/prometheus" / name).read_text("utf-8")
            (directory / name).write_text(shortened(text))
        jobs = [{"targets": [f"127.0.0.1:{port}"], "labels": {"instance": name}}
                for name, port in targets.items()]
        config = {"global": {"scrape_interval": "500ms", "evaluation_interval": "500ms",
                             "scrape_timeout": "500ms"}, "rule_files": list(RULES),
                  "scrape_configs": [{"job_name": "pawl", "static_configs": jobs}]}
        (directory / "prometheus.yml").write_text(json.dumps(config))
        with (directory / "prometheus.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*DIE_WITH_THE_TEST, "prometheus", f"--config.file={directory}/prometheus.yml",
                 f"--storage.tsdb.path={directory}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}"],
                stdout=log, stderr=log)

    def firing(self) -> dict[str, set[str]] | None:
        """The alerts of each instance; None: it does not answer yet."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/alerts") as page:
                alerts = json.load(page)["data"]["alerts"]
        except OSError:
            return None
        found: dict[str, set[str]] = {}
        for alert in alerts:
            if alert["state"] == "firing" and "instance" in alert["labels"]:
                found.setdefault(alert["labels"]["instance"], set()).add(
                    alert["labels"]["alertname"])
        return found

    def await_alerts(self, are_right: Callable[[str, set[str]], bool]) -> None:
        """Until those of each instance are right; fails with what stands instead."""
        firing: dict[str, set[str]] | None = None

        def are_all_right() -> bool:
            nonlocal firing
            firing = self.firing()
            return firing is not None and all(are_right(name, firing.get(name, set()))
                                              for name in TROUBLE)

        try:
            eventually(are_all_right)
        except AssertionError:
            pytest.fail(f"at last these stood: {firing}")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


class Traffic:
    """One new operation after the other on each gateway, whatever comes back."""

    def __init__(self, gateways: list[Gateway]):
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(one,)) for one in gateways]
        for thread in self._threads:
            thread.start()

    def _run(self, gateway: Gateway) -> None:
        n = 0
        while not self._over.wait(0.1):
            n += 1
            gateway.post("/refunds", {}, key=f"k{n}", headers=[("X-Request-Timeout", "1000")])

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def failing() -> Iterator[Upstream]:
    made = Upstream()
    yield made
    made.stop()


def with_admin_listener(gateway: Gateway, more: str = "") -> Admin:
    admin = Admin(free_port())
    gateway.configure(f"admin: 127.0.0.1:{admin.port}\n{more}{CONFIG}")
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


def lines(gateway: Gateway, event: str) -> list[dict[str, Any]]:
    return [line for line in gateway.log if line["event"] == event]


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
            prometheus.await_alerts(lambda name, alerts: TROUBLE[name] <= alerts)
            for name in ("full", "held"):
                assert admins[name].get("/readyz").status == 503
                assert turns(gateways[name])[0] == "store_down"
            # Whichever comes first: a write that finds no room, or the look at what is left of it.
            problem = lines(full, "store_down")[0]["problem"]
            assert "full" in problem or "low on space" in problem
        filler.unlink()
        dead_upstream.start()
        failing.default = failing.created
        prometheus.await_alerts(lambda name, alerts: not TROUBLE[name] & alerts)
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
