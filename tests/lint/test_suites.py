# SPDX-License-Identifier: Apache-2.0
"""scripts/test: every test is in a suite, lanes run what may begin, nothing fails in silence."""
from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

import suites
from suites import BUILDS, SUITES, Build, Lanes, Result, Suite, chosen

TESTS = Path(suites.__file__).parent


@pytest.fixture(autouse=True)
def logs(tmp_path, monkeypatch):
    monkeypatch.setattr(suites, "LOGS", tmp_path)
    monkeypatch.setattr(suites, "BUILDS_AT", tmp_path)


def suite(name: str, script: str, build: str = "", budget: int = 60) -> Suite:
    return Suite(name, build, budget, ("sh", "-c", script), "")


def run(*steps) -> Lanes:
    lanes = Lanes(list(steps))
    lanes.run()
    return lanes


def test_every_folder_of_tests_is_in_a_suite():
    folders = {f"tests/{path.parent.name}" for path in TESTS.glob("*/test_*.py")}
    assert folders == {word for suite in SUITES for word in suite.command if word in folders}


def test_every_suite_of_meson_runs_in_the_build_with_hooks():
    named = {name for path in TESTS.glob("*/meson.build")
             for name in re.findall(r"suite: '([\w-]+)'", path.read_text("utf-8"))}
    assert {f"{name} hooks" for name in named} <= {suite.name for suite in SUITES}


def test_units_that_tsan_leaves_out_start_no_thread():
    listed = (TESTS / "unit/meson.build").read_text("utf-8").split("of_one_thread = [")[1]
    names = re.findall(r"\['(\w+)', ", listed.split("\n]\n")[0])
    assert len(names) > 50
    assert [name for name in names if re.search(
        r"base/thread\.h|pthread", (TESTS / f"unit/test_{name}.c").read_text("utf-8"))] == []


def test_every_suite_has_a_name_of_its_own_and_a_build_that_is_there():
    assert len({suite.name for suite in SUITES}) == len(SUITES)
    assert {suite.build for suite in SUITES} == {"", *(build.name for build in BUILDS)}


def test_one_suite_brings_its_build_and_no_other():
    assert [step.name for step in chosen("", ["blackbox asan"])] == ["asan", "blackbox asan"]
    quick = chosen("--quick", [])
    assert {step.build for step in quick if isinstance(step, Suite)} == {"", "hooks"}
    assert chosen("", []) == [*BUILDS, *(suite for suite in SUITES if suite.full)]
    assert not chosen("", ["no-such-suite"])


def test_every_file_of_the_black_box_runs_without_quick():
    asan, plain = chosen("", ["blackbox asan"])[1], chosen("", ["blackbox plain"])[1]
    left_out = {word.removeprefix("--ignore=") for word in asan.command if "--ignore=" in word}
    assert left_out == {word for word in plain.command if word.startswith("tests/blackbox/")}
    assert asan.full and plain.full


def test_without_servers_every_build_is_made_and_no_suite_is_about_postgresql():
    steps = chosen("--no-servers", [])
    assert {*BUILDS} < {*steps}
    assert {suite.name for suite in SUITES if suite not in steps} >= {
        "postgres", "sql", "postgres asan", "postgres tsan", "contract-postgres hooks",
        "blackbox postgres", "bench postgres"}
    assert {suite.name for suite in SUITES if suite in steps} >= {"model", "bench", "unit clang"}


def test_what_suites_count_is_added_up():
    lanes = run(suite("a", "echo 3 passed, 0 failed"),
                suite("b", "echo 4 passed, 1 failed; exit 1"))
    assert (lanes.passed, lanes.failed) == (7, 1)


@pytest.mark.parametrize("script, budget", [
    ("true", 60), ("echo 3 passed, 0 failed; kill -9 $$", 60), ("sleep 600", 0),
])
def test_silence_death_and_a_budget_that_is_over_are_failures(script, budget, capsys):
    assert run(suite("a", script, budget=budget)).failed == 1
    assert ("over its budget" in capsys.readouterr().out) == (budget == 0)


AGAIN = "echo RAN AGAIN a.py::test_b: busy; echo 1 passed, 0 failed"


def test_what_ran_again_is_named_with_its_suites_and_fails_only_the_third_time(capsys):
    lanes = run(suite("x", AGAIN), suite("y", AGAIN))
    assert sorted(lanes.again) == [("x", "a.py::test_b"), ("y", "a.py::test_b")]
    assert (lanes.failed, suites.report_again(sorted(lanes.again))) == (0, 0)
    assert "RAN AGAIN a.py::test_b in x, y\n" in capsys.readouterr().out
    assert suites.report_again([("x", "a.py::test_other")]) == 0
    assert suites.report_again([("x", "a.py::test_b")]) == 1
    assert "a.py::test_b in x: 3 times" in capsys.readouterr().out


def test_what_ran_again_is_named_beside_a_failure():
    assert run(suite("x", f"{AGAIN}; exit 1")).again == [("x", "a.py::test_b")]


def test_what_ran_again_long_ago_does_not_count(tmp_path):
    kept = tmp_path / "reran"
    kept.write_text("2020-01-01 a.py::test_b x\n" * 5)
    assert suites.report_again([("x", "a.py::test_b")]) == 0
    assert len(kept.read_text().splitlines()) == 1


def test_a_command_that_is_not_there_is_a_failure():
    assert run(Suite("a", "", 60, ("/nowhere/at/all",), "")).failed == 1


def test_a_build_that_fails_takes_its_suites_with_it(monkeypatch):
    monkeypatch.setattr(suites, "run_build",
                        lambda build, lane: Result(0, int(build.name == "bad")))
    lanes = run(Build("bad", "cc", (), ""), Build("good", "cc", (), ""),
                suite("a", "echo 1 passed, 0 failed", "bad"),
                suite("b", "echo 2 passed, 0 failed", "good"))
    assert (lanes.passed, lanes.failed) == (2, 1)


def test_suites_run_beside_each_other_and_builds_do_not(monkeypatch):
    together = threading.Barrier(2, timeout=60)
    building = threading.Lock()

    def build(*_):
        assert building.acquire(blocking=False)  # pylint: disable=consider-using-with
        threading.Event().wait(0.05)  # the other could begin
        building.release()
        return Result()

    def meet(*_):
        together.wait()
        return Result(1)

    monkeypatch.setattr(suites, "run_build", build)
    monkeypatch.setattr(suites, "run_suite", meet)
    lanes = run(Build("x", "cc", (), ""), Build("y", "cc", (), ""),
                suite("a", "", "x"), suite("b", "", "x"))
    assert (lanes.passed, lanes.failed) == (2, 0)


def test_suites_at_the_same_time_have_ports_of_their_own(monkeypatch):
    from pawltest import gateway  # pylint: disable=import-outside-toplevel
    taken = []
    for lane in range(4):
        monkeypatch.setenv("PAWL_TEST_LANE", str(lane))
        taken.append({gateway.free_port() for _ in range(50)})
    assert len(set.union(*taken)) == 200
