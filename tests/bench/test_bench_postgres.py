# SPDX-License-Identifier: Apache-2.0
"""scripts/bench --postgres and --sql still run, beside the binary of $PAWL_BIN: each row and each
aim is there. What the figures are is no business of a test."""
from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAWL = Path(os.environ.get("PAWL_BIN", ROOT / "build" / "pawl")).resolve()


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    place = tmp_path_factory.mktemp("postgres")
    command = [ROOT / "scripts/bench", "--postgres", "--smoke", "--build", PAWL.parent, "--beside",
               PAWL.parent, "--out", place]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout == (place / "postgres.txt").read_text()
    return place


@pytest.mark.parametrize("row", ["server's limit", "1 gateway", "1 gateway (beside)", "2 gateways",
                                 "single, delayed", "1 gateway, delayed"])
def test_each_load_on_postgresql_has_its_row_of_figures(postgres, row):
    rounds = json.loads((postgres / "postgres.json").read_text())["rounds"]
    figures = [of["rounds"] for of in rounds if of["name"] == row]
    assert len(figures) == 1 and all(value > 0 for name, value in figures[0][0].items()
                                     if name != "server_us")  # of a moment it may be no tick
    lines = (postgres / "postgres.txt").read_text().splitlines()
    assert any(line[:20].rstrip() == row and len(line[20:].split()) == 6 for line in lines)


@pytest.mark.parametrize("aim", ["at 64, server's CPU, share of before",
                                 "at 64, pairs/s, times before",
                                 "at 64, 2 ms away, times single statements"])
def test_each_aim_on_postgresql_stands_beside_what_was_measured(postgres, aim):
    lines = (postgres / "postgres.txt").read_text().splitlines()
    found = [line for line in lines if line.strip().startswith(aim)]
    assert len(found) == 1 and (" at least " in found[0] or " at most " in found[0])


@pytest.fixture(scope="module")
def transactions(tmp_path_factory):
    place = tmp_path_factory.mktemp("transactions")
    command = [ROOT / "scripts/bench", "--sql", "--smoke", "--build", PAWL.parent, "--out", place]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout == (place / "transactions.txt").read_text()
    return place


@pytest.mark.parametrize("clients", [1, 16])
@pytest.mark.parametrize("disk", ["disk", "disk + 2 ms"])
def test_each_kind_of_transaction_is_measured_with_its_aim(transactions, disk, clients):
    results = json.loads((transactions / "transactions.json").read_text())
    assert sorted(of["name"] for of in results["rounds"]
                  if (of["disk"], of["clients"]) == (disk, clients)
                  and of["rounds"][0]["per_s"] > 0) == [
        "hand-written table", "insert alone", "pawl"]
    what = f"{clients} client{'s' * (clients > 1)}, {disk}, times hand-written"
    lines = (transactions / "transactions.txt").read_text().splitlines()
    found = [line for line in lines if line.strip().startswith(what)]
    assert len(found) == 1 and " at most " in found[0]
