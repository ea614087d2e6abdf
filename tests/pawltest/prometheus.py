# SPDX-License-Identifier: Apache-2.0
"""A Prometheus that scrapes gateways under test. Its rules are those of packaging/prometheus with
shorter times."""
from __future__ import annotations

import json
import re
import subprocess
import threading
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Callable, Iterable

import pytest

from pawltest.gateway import DIE_WITH_THE_TEST, ROOT, Gateway, free_port
from pawltest.wire import eventually

RULES = ("pawl-rules.yml", "pawl-alerts.yml")


def shortened(rules: str) -> str:
    """Windows of two seconds a minute; what must hold for minutes must for seconds."""
    rules = re.sub(r"\[(\d+)m\]", lambda match: f"[{2 * int(match[1])}s]", rules)
    return re.sub(r"for: (\d+)m", r"for: \1s", rules)


class Prometheus:
    """Scrapes twice a second; the instances have the names that the test gave them."""

    def __init__(self, directory: Path, targets: dict[str, int]):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/api/v1"
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
                 f"--web.listen-address=127.0.0.1:{port}"],
                stdout=log, stderr=log)

    def firing(self) -> dict[str, set[str]] | None:
        """The alerts of each instance; None: it does not answer yet."""
        try:
            with urllib.request.urlopen(f"{self.url}/alerts") as page:
                alerts = json.load(page)["data"]["alerts"]
        except OSError:
            return None
        found: dict[str, set[str]] = {}
        for alert in alerts:
            if alert["state"] == "firing" and "instance" in alert["labels"]:
                found.setdefault(alert["labels"]["instance"], set()).add(
                    alert["labels"]["alertname"])
        return found

    def value(self, expression: str) -> float | None:
        """What it is now, of one series; None: there is none yet."""
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"{self.url}/query?{query}") as page:
                (found,) = json.load(page)["data"]["result"] or (None,)
        except OSError:
            return None
        return None if found is None else float(found["value"][1])

    def await_alerts(self, instances: Iterable[str],
                     are_right: Callable[[str, set[str]], bool]) -> None:
        """Until those of each instance are right; fails with what stands instead."""
        firing: dict[str, set[str]] | None = None

        def are_all_right() -> bool:
            nonlocal firing
            firing = self.firing()
            return firing is not None and all(are_right(name, firing.get(name, set()))
                                              for name in instances)

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
