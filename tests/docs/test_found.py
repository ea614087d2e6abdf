# SPDX-License-Identifier: Apache-2.0
"""Every finding of tests/found.md is mended, which a test shows, or left with a reason."""
from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
FINDING = r"(?:[A-E]-[A-Z]\d*|[F-R]\d+)"  # of a trial of 0.1.0; of the build after it
ROW = re.compile(rf"^\| ({FINDING}) \| ([^|]+) \| ([^|]*)\|$", re.M)
FOUND = re.compile(rf"found: ((?:{FINDING}(?:, )?)+)")
C_TEST = re.compile(r"^(/\*(?:[^*]|\*[^/])*\*/)\nstatic void \w+\(void \*\*", re.M)
ROWS = {finding: reason.strip() for finding, _, reason
        in ROW.findall((TESTS / "found.md").read_text("utf-8"))}


def documents(path: Path) -> list[str]:
    """What its tests say of themselves."""
    text = path.read_text("utf-8")
    if path.suffix == ".c":
        return C_TEST.findall(text)
    return [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def shown() -> set[str]:
    paths = [*TESTS.rglob("test_*.py"), *TESTS.rglob("test_*.c")]
    return {finding for path in paths for document in documents(path)
            for found in FOUND.findall(document) for finding in re.findall(FINDING, found)}


SHOWN = shown()


@pytest.mark.parametrize("finding", ROWS)
def test_a_finding_has_a_test_or_a_reason(finding):
    assert finding in SHOWN or ROWS[finding]


def test_every_finding_that_a_test_names_is_listed():
    assert SHOWN <= set(ROWS)
    assert len(ROWS) > 100
