# SPDX-License-Identifier: Apache-2.0
"""What ships for Prometheus and Grafana fits what is counted: docs/metrics.md, rules, alerts and
the board name only series and labels of src/observe/metrics.h."""
from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from pawltest.wire import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "src/observe/metrics.h").read_text("utf-8").replace("\\\n", " ")
SERIES = {name: (kind.lower(), labels, text) for name, kind, labels, text in re.findall(
    r'X\(\w+, "(\w+)", (\w+), "([\w,]*)",\s*"([^"]*)"\)', TABLE)}
OUTCOMES = set(re.findall(r'X\(\w+, "([a-z_]+)"\)',
                          TABLE.partition("METRICS_OUTCOMES(X)")[2].partition("\nenum ")[0]))
METRICS = (ROOT / "docs/metrics.md").read_text("utf-8")
RULES = [ROOT / "packaging/prometheus" / name for name in ("pawl-rules.yml", "pawl-alerts.yml")]
BOARD = json.loads((ROOT / "packaging/grafana/pawl.json").read_text("utf-8"))
NAME = re.compile(r"\b((?:pawl|process)_\w+|pawl:[\w:]+)")
OUTCOME = re.compile(r'outcome=~?"([a-z_|]+)"')
RECORDED = set(re.findall(r"record: (\S+)", RULES[0].read_text("utf-8")))


def unsuffixed(name: str) -> str:
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    return base if SERIES.get(base, ("",))[0] == "histogram" else name


def expressions() -> list[str]:
    of_rules = [line for path in RULES for line in path.read_text("utf-8").splitlines()
                if not re.match(r"\s*(#|- record:|- alert:|summary:|description:|- name:)", line)]
    of_board = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
    of_board += [one["query"] for one in BOARD["templating"]["list"]]
    return of_rules + of_board


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The rules' tests compute for some ten seconds on a quiet machine."""
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True,
                          timeout=10 * PATIENCE, check=False)


def test_the_table_is_read():
    assert len(SERIES) > 20 and len(OUTCOMES) == 14


def test_the_document_lists_every_series_as_it_is():
    listed = {name: (kind, ",".join(re.findall(r"`(\w+)`", labels)), text)
              for name, kind, labels, text in re.findall(
                  r"^\| `(\w+)` \| (counter|gauge|histogram) \| ([^|]*) \| ([^|]*) \|$", METRICS,
                  re.M)}
    assert listed == SERIES


def test_the_document_tells_every_outcome():
    section = METRICS.partition("## Outcomes")[2].partition("\n## ")[0]
    told = {name for cell in re.findall(r"^\| ([^|]+) \|", section, re.M)
            for name in re.findall(r"`([a-z_]+)`", cell)} - {"outcome"}
    assert told == OUTCOMES


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_names_only_what_is_counted(expression):
    for name in NAME.findall(expression):
        assert unsuffixed(name) in SERIES or name in RECORDED, name
    for names in OUTCOME.findall(expression):
        assert set(names.split("|")) <= OUTCOMES


def test_every_alert_that_the_document_names_exists():
    alerts = set(re.findall(r"alert: (\w+)", RULES[1].read_text("utf-8")))
    named = set(re.findall(r"`(Pawl\w+)`", METRICS))
    assert named and named <= alerts


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_promtool_accepts_the_rules(path):
    ran = promtool("check", "rules", "--lint-fatal", path)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_alerts_stand_when_they_should_and_only_then():
    """found: B-F9, B-F10: a sweep that stands still alerts; a route without a key does not."""
    ran = promtool("test", "rules", ROOT / "tests/docs/alerts.test.yml")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_board_has_a_place_for_each_panel():
    places = [(p["gridPos"]["x"] + dx, p["gridPos"]["y"] + dy) for p in BOARD["panels"]
              for dx in range(p["gridPos"]["w"]) for dy in range(p["gridPos"]["h"])]
    assert len(places) == len(set(places)) and max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
