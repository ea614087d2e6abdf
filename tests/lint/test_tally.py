# SPDX-License-Identifier: Apache-2.0
"""tests/tally.py counts what ran, and takes silence for a failure."""
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tally import ran_again

TALLY = Path(__file__).resolve().parents[1] / "tally.py"
CMOCKA = "[  PASSED  ] 3 test(s).\n[  FAILED  ] 2 test(s), listed below:\n[  FAILED  ] a_b\n"


def tally(*arguments: object) -> str:
    return subprocess.run([sys.executable, TALLY, *map(str, arguments)], capture_output=True,
                          text=True, check=True).stdout.strip()


@pytest.mark.parametrize("log, status, expected", [
    ("7 passed, 0 failed\n", 0, "7 0"),
    ("1 passed, 0 failed\n7 passed, 2 failed\n", 1, "7 2"),
    ("7 passed, 0 failed\n", 1, "7 1"),  # it said so and died
    ("7 passed, 0 failed\n", 124, "7 1"),  # over its budget
    ("12 passed in 1.08s\n", 0, "12 0"),
    ("==== 1 failed, 12 passed, 3 deselected, 1 warning in 61.08s (0:01:01) ====\n", 1, "12 1"),
    ("2 failed, 12 passed, 1 skipped, 3 errors in 1.08s\n", 1, "12 6"),
    ("no tests ran in 0.00s\n", 5, "0 1"),
    ("", 0, "0 1"),
    (CMOCKA, 2, "3 2"),
    ("[  PASSED  ] 3 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n", 0, "3 1"),
])
def test_a_log_is_counted(tmp_path, log, status, expected):
    path = tmp_path / "log"
    path.write_text(log)
    assert tally(path, status) == expected


@pytest.mark.parametrize("programs, status, expected", [
    ([("OK", "[  PASSED  ] 3 test(s).\n"), ("OK", "5 inputs\n")], 0, "4 0"),
    ([("FAIL", CMOCKA), ("OK", "[  PASSED  ] 3 test(s).\n")], 1, "6 2"),
    ([("ERROR", "[  PASSED  ] 3 test(s).\n")], 1, "3 1"),  # it crashed in the end
    ([("EXPECTEDFAIL", "CHECK failed\n")], 0, "1 0"),  # a mutant that was found
    ([("UNEXPECTEDPASS", "")], 1, "0 1"),
    ([("TIMEOUT", "")], 1, "0 1"),
    ([("SKIP", "")], 0, "0 1"),
    ([], 0, "0 1"),
])
def test_programs_that_meson_ran_are_counted(tmp_path, programs, status, expected):
    path = tmp_path / "log.json"
    path.write_text("".join(json.dumps({"result": result, "stdout": "", "stderr": text}) + "\n"
                            for result, text in programs))
    assert tally(path, status, path) == expected


def test_a_meson_log_that_was_not_written_is_a_failure(tmp_path):
    (tmp_path / "log").write_text("")
    assert tally(tmp_path / "log", 0, tmp_path / "none.json") == "0 1"


def test_what_ran_again_is_named_without_its_parameters():
    text = ("RAN AGAIN blackbox/test_a.py::test_b[x: 1-y]: assert 1 == 2\n"
            "RAN AGAIN blackbox/test_a.py::test_b[z]: Broken\n"
            "RAN AGAIN postgres/test_c.py::test_d: AssertionError: never came: x::y\n"
            "it never RAN AGAIN blackbox/test_a.py::test_e: no\n1 passed in 1s\n")
    assert ran_again(text) == {"blackbox/test_a.py::test_b", "postgres/test_c.py::test_d"}
