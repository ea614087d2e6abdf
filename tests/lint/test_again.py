# SPDX-License-Identifier: Apache-2.0
"""A test that fails is run once more and named, and no more than a few are (tests/conftest.py)."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = '''
runs = []
def test_once(): runs.append(1); assert len(runs) > 1, "busy"
def test_alarm(): assert False, "AddressSanitizer: heap-use-after-free"
def test_always(): assert False, "never so"
def test_too_many(): runs.append(1); assert len(runs) > 3, "one more"
'''
PLACES = '''
import pytest
places = []
@pytest.fixture(scope="module")
def place(): places.append(1); assert len(places) > 1, "no place"
def test_first(place): pass
def test_second(place): assert len(places) == 2
'''


def run(tests: str, tmp_path: Path) -> tuple[list[str], list[str]]:
    """What ran again, and what failed."""
    file = tmp_path / "test_some.py"
    file.write_text(tests)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "tests/pytest.ini", "-p", "conftest", str(file)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "tests")}, capture_output=True,
        text=True, timeout=60, check=False)
    lines = [line for line in ran.stdout.splitlines() if "::" in line]
    return ([line.split("::")[1].split(":")[0] for line in lines if "RAN AGAIN" in line],
            [line.split("::")[1].split(" ")[0] for line in lines if line.startswith("FAILED")])


def test_what_fails_is_run_once_more_and_named(tmp_path: Path):
    again, failed = run(TESTS, tmp_path)
    assert again == ["test_once", "test_always"]
    assert failed == ["test_alarm", "test_always", "test_too_many"]


def test_a_fixture_that_failed_is_made_anew(tmp_path: Path):
    assert run(PLACES, tmp_path) == (["test_first"], [])
