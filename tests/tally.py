# SPDX-License-Identifier: Apache-2.0
"""Counts the tests that a suite ran.

usage: tally.py LOG EXIT-STATUS [MESON-TEST-LOG.json]: prints `PASSED FAILED`

A test that was skipped did not pass. A suite that ended badly without a failed test failed once,
and so did one in which nothing ran.
"""
from __future__ import annotations

import json
import re
import sys
from pathlib import Path

CMOCKA_PASSED = re.compile(r"^\[  PASSED  \] (\d+) test", re.M)
CMOCKA_OTHER = re.compile(r"^\[  (?:FAILED |SKIPPED) *\] (\d+) test", re.M)
OWN = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)
PYTEST_END = re.compile(r"^=* ?((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s.*$", re.M)
AGAIN = re.compile(r"^RAN AGAIN (\S+?::[^\s\[]+?)(?:\[.*)?: ", re.M)
PYTEST_NEUTRAL = {"passed", "deselected", "warning", "warnings", "subtests"}


def of_text(text: str) -> tuple[int, int]:
    """What a program printed of its own tests; (0, 0) if nothing."""
    if CMOCKA_PASSED.search(text) or CMOCKA_OTHER.search(text):
        return (sum(map(int, CMOCKA_PASSED.findall(text))),
                sum(map(int, CMOCKA_OTHER.findall(text))))
    if own := OWN.findall(text):
        return int(own[-1][0]), int(own[-1][1])
    if ends := PYTEST_END.findall(text):
        counts = {word: int(n) for n, word in re.findall(r"(\d+) ([a-z]+)", ends[-1])}
        return counts.get("passed", 0), sum(n for word, n in counts.items()
                                            if word not in PYTEST_NEUTRAL)
    return 0, 0


def ran_again(text: str) -> frozenset[str]:
    """The tests, whatever their parameters, that a suite had to run once more."""
    return frozenset(AGAIN.findall(text))


def of_meson(path: Path) -> tuple[int, int]:
    """Of a log with one JSON object a program."""
    passed = failed = 0
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        test = json.loads(line)
        if test["result"] == "EXPECTEDFAIL":  # a mutant that was found: what it printed is no test
            passed += 1
            continue
        ok, bad = of_text(f"{test.get('stdout') or ''}\n{test.get('stderr') or ''}")
        is_ok = test["result"] == "OK"
        passed += ok + (is_ok and ok + bad == 0)
        failed += bad + (not is_ok and bad == 0)
    return passed, failed


def tally(log: Path, status: int, meson_log: Path | None = None) -> tuple[int, int]:
    """(passed, failed) of a suite that printed `log` and ended with `status`."""
    passed, failed = (of_meson(meson_log) if meson_log
                      else of_text(log.read_text("utf-8", "replace")))
    if failed == 0 and (status != 0 or passed == 0):
        failed = 1
    return passed, failed


if __name__ == "__main__":
    LOG, STATUS, *MESON_LOG = sys.argv[1:]
    print(*tally(Path(LOG), int(STATUS), *map(Path, MESON_LOG)))
