# SPDX-License-Identifier: Apache-2.0
"""docs/guide/runbook.md has an entry for each alert that is shipped, and its commands are right."""
from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAWL = Path(os.environ.get("PAWL_BIN", ROOT / "build" / "pawl")).resolve()
PAGE = (ROOT / "docs/guide/runbook.md").read_text("utf-8")
ALERTS = re.findall(r"alert: (\w+)",
                    (ROOT / "packaging/prometheus/pawl-alerts.yml").read_text("utf-8"))
ENTRIES = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
COMMANDS = [line for block in SHELL.findall(PAGE) for line in block.splitlines()]
SOURCES = "".join(path.read_text("utf-8") for path in sorted((ROOT / "src").rglob("*.[ch]")))
FOUND = (0, 1)  # it did what it was told, or no such record
CONFIG = """upstream: http://127.0.0.1:9
tenant: none
rules:
  - {name: RULE, match: POST /a, unknown: {probe: "GET /a/{key}"}}
"""


def test_each_alert_has_an_entry_in_the_alerts_order():
    assert list(ENTRIES) == ALERTS and len(ALERTS) > 20


@pytest.mark.parametrize("alert", ALERTS)
def test_an_entry_says_what_to_look_at_first_and_what_fixes_it(alert):
    first, _, rest = ENTRIES[alert].strip().partition("\n\n```sh\n")
    assert first and len(rest.partition("\n```")[0].splitlines()) == 3
    assert re.search(r"^\*\*Fix\.\*\* \S", rest, re.M)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("runbook")
    (made / "pawl.yaml").write_text(CONFIG)
    (made / "response.json").write_text("{}")
    started = subprocess.Popen([PAWL, "serve", "-c", "pawl.yaml", "--store", "pawl.db"], cwd=made,
                               stderr=subprocess.PIPE, text=True)
    assert "ready" in started.stderr.readline()
    started.terminate()
    started.communicate(timeout=60)
    return made


@pytest.mark.parametrize("command", sorted({c for c in COMMANDS if c.startswith("pawl ")}))
def test_pawl_takes_the_command(folder, command):
    words = [{"/etc/pawl/pawl.yaml": "pawl.yaml", "TOKEN": "1"}.get(word, word)
             for word in shlex.split(command)[1:]]
    ran = subprocess.run([PAWL, *words], cwd=folder, capture_output=True, text=True, timeout=60,
                         check=False, env={**os.environ, "PAWL_STORE": str(folder / "pawl.db")})
    assert ran.returncode in FOUND, ran.stderr


@pytest.mark.parametrize("command", [c for c in COMMANDS if not c.startswith("pawl ")])
def test_the_shell_takes_the_command(command):
    subprocess.run(["bash", "-n", "-c", command], check=True, timeout=60)


def test_what_the_commands_look_for_is_written_by_pawl():
    told = re.findall(r'"(?:event|error_code)":"([\w.]+)"', "".join(COMMANDS))
    told += re.findall(r'outcome="(\w+)"|"to_state":"(\w+)"', "".join(COMMANDS))
    names = [name for one in told for name in ([one] if isinstance(one, str) else one) if name]
    assert len(names) > 8
    assert not [name for name in names if f'"{name}"' not in SOURCES]


def test_each_series_in_the_commands_is_counted():
    names = re.findall(r"\^?((?:pawl|process)_(?:\([\w|()]*\)|\w)+)", "".join(
        line for line in COMMANDS if "/metrics" in line))
    scraped = re.findall(r'X\(\w+, "((?:pawl|process)_\w+)"', SOURCES)
    assert len(names) > 10
    for name in names:
        assert any(re.match(name, series) or re.match(name, f"{series}_sum")
                   for series in scraped), name
