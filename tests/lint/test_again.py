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


def test_what_fails_is_run_once_more_and_named(tmp_path: Path):
    file = tmp_path / "test_some.py"
    file.write_text(TESTS)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "tests/pytest.ini", "-p", "conftest", str(file)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "tests")}, capture_output=True,
        text=True, timeout=60, check=False)
    again = [line.split("::")[1] for line in ran.stdout.splitlines() if "RAN AGAIN" in line]
    assert [line.split(":")[0] for line in again] == ["test_once", "test_always"], ran.stdout
    failed = [line for line in ran.stdout.splitlines() if line.startswith("FAILED")]
    assert len(failed) == 3 and not any("test_once" in line for line in failed)
