# SPDX-License-Identifier: Apache-2.0
"""scripts/bench still runs, beside the binary of $PAWL_BIN: each row and each aim is there. What
the figures are is no business of a test."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAWL = Path(os.environ.get("PAWL_BIN", ROOT / "build" / "pawl")).resolve()
ROWS = ["pawl first", "pawl first, big", "nginx", "haproxy", "floor first", "floor replay",
        "pawl replay", "pawl replay, disk", "pawl mix", "pawl first, half", "floor first, half",
        "nginx, that rate"]
AIMS = ["pawl first, CPU, share of the other's", "pawl first, half, CPU, share of the other's",
        "pawl replay, CPU, share of the other's", "pawl replay, disk, CPU, share of the other's",
        "store, pairs/s at 64, times the other's", "pawl first, half, p99, ms",
        "memory of pawl, peak, MiB", "first attempts/s with the big store, share"]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    place = tmp_path_factory.mktemp("bench")
    command = [ROOT / "scripts/bench", "--smoke", "--build", PAWL.parent, "--beside",
               PAWL.parent, "--out", place]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout == (place / "results.txt").read_text()
    return place


@pytest.mark.parametrize("row", ROWS)
def test_each_load_has_its_row_of_figures(out, row):
    figures = json.loads((out / "results.json").read_text())["rows"][row]
    assert all(figures[name] > 0 for name in ("per_s", "p50_us", "p99_us", "peak_mib"))
    lines = (out / "results.txt").read_text().splitlines()
    assert any(line[:27].rstrip() == row and len(line[27:].split()) == 7 for line in lines)


@pytest.mark.parametrize("aim", AIMS)
def test_each_aim_stands_beside_what_was_measured(out, aim):
    lines = (out / "results.txt").read_text().splitlines()
    found = [line.strip() for line in lines if line.strip().startswith(aim)]
    assert len(found) == 1
    assert found[0].endswith((" met", " MISSED")) and (" at most " in found[0] or
                                                      " at least " in found[0])


def test_another_version_is_measured_turn_by_turn(out):
    lines = (out / "results.txt").read_text().splitlines()
    shares = lines[1 + next(i for i, line in enumerate(lines) if line.startswith("beside")):]
    shares = shares[:shares.index("")]
    assert [line[:27].rstrip() for line in shares[:5]] == [
        row for row in ROWS if row.startswith("pawl") and row != "pawl first, big"]
    assert all(float(line.split()[-2]) > 0 < float(line.split()[-1]) for line in shares)


def test_the_table_says_what_each_keeps(out):
    lines = (out / "results.txt").read_text().splitlines()
    kept = lines[1 + lines.index("what each keeps"):]
    assert [line.split()[0] for line in kept[:kept.index("")]] == ["pawl", "floor"]


def test_pawl_stands_beside_the_floor(out):
    [line] = [line for line in (out / "results.txt").read_text().splitlines()
              if line.startswith("pawl's CPU, times the floor's: ")]
    assert all(float(part.rpartition(" ")[2]) > 0 for part in line.split(": ")[1].split(", "))


def test_no_load_s_answers_were_wrong_or_its_run_would_have_failed(out):
    rounds = json.loads((out / "results.json").read_text())["rounds"]
    for name, loads in rounds.items():
        assert all(load["requests"] > 0 and load["not_2xx"] == load["broken"] == 0
                   for load in loads), name


def test_nothing_is_left_of_the_stores_but_the_big_one(out):
    assert sorted(path.name for path in out.iterdir() if not path.name.startswith("store-")) == \
        ["results.json", "results.txt"]
    assert (out / "store-40000.db").exists()


def test_transactions_on_sqlite_are_measured(tmp_path):
    subprocess.run(["ninja", "-C", PAWL.parent, "bench/sqlite_transactions"], check=True,
                   stdout=subprocess.DEVNULL)
    for synchronous in ("FULL", "OFF"):
        (tmp_path / synchronous).mkdir()
        ran = subprocess.run([PAWL.parent / "bench/sqlite_transactions", tmp_path / synchronous,
                              "1", "50", synchronous], capture_output=True, text=True, check=True)
        rows = [line.split() for line in ran.stdout.splitlines()]
        assert [name for name, _, _ in rows] == ["effect_alone", "by_hand", "pawl"]
        assert all(float(rate) > 0 and float(times) > 0 for _, rate, times in rows)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    place = tmp_path_factory.mktemp("jobs")
    command = [ROOT / "scripts/bench", "--jobs", "--smoke", "--build", PAWL.parent, "--out", place]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout == (place / "jobs.txt").read_text()
    return place


@pytest.mark.parametrize("row, figures", [
    ("xargs -P 16", 4), ("parallel -j 16", 4), ("pawl each -j 16", 4), ("parallel, all done", 4),
    ("pawl each, all done", 4), ("true", 4), ("pawl run", 4), ("pawl run, done", 4),
    ("curl", 4), ("pawl send", 4), ("pawl send, done", 4), ("pawl queue add", 4)])
def test_each_way_to_run_jobs_has_its_row_of_figures(jobs, row, figures):
    [of] = json.loads((jobs / "jobs.json").read_text())["rounds"][row][:1]
    assert of.get("per_s", of.get("ms")) > 0
    lines = (jobs / "jobs.txt").read_text().splitlines()
    assert any(line[:22].rstrip() == row and len(line[22:].split()) == figures for line in lines)


@pytest.mark.parametrize("aim", ["pawl each, items/s, times GNU parallel's",
                                 "pawl each, time, times xargs'",
                                 "pawl run, ms more than the command alone",
                                 "pawl send, ms more than curl",
                                 "pawl queue add, ms more than true"])
def test_each_aim_of_jobs_stands_beside_what_was_measured(jobs, aim):
    lines = (jobs / "jobs.txt").read_text().splitlines()
    found = [line.strip() for line in lines if line.strip().startswith(aim)]
    assert len(found) == 1 and found[0].endswith((" met", " MISSED"))


def test_what_keeps_no_promise_is_not_measured(tmp_path):
    sys.path.insert(0, str(ROOT / "bench"))
    from promises import Promise, check_promise
    from servers import Failure, Stage
    with Stage(tmp_path, PAWL.parent, None, None) as stage, pytest.raises(Failure, match="at once"):
        check_promise(stage, Promise("nginx", "nothing: it forwards each request"))
