# SPDX-License-Identifier: Apache-2.0
"""scripts/mutants finds its places by what stands there, and every one is still there."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

from places import NoPlace, replace  # noqa: E402

CODE = """
static int one(int a); /* return 7; */

static int one(int a)
{
    const char *text = "if (a)";
    if (a > (1 + 2))
        return two(a, 3);
    switch (a) {
    case ONE:
        return 1;
    default:
        text = NULL;
    }
    if (!text)
        three(one(a));
    return a;
}
"""


@pytest.mark.parametrize("place, new, expected", [
    ("if 1", "false && ({})", "if (false && (a > (1 + 2)))"),
    ("if 2", "!({})", "if (!(!text))"),
    ("return 2", "-{}", "return -1;"),
    ("call two", "0", "return 0;"),
    ("call two word a", "1", "return two(1, 3);"),
    ("call three", "(void)0", "        (void)0;"),
    ("= text", "NULL", "const char *text = NULL;"),
    ("case default = text", "{} + 0", "text = NULL + 0;"),
    ("case ONE return 1", "2", "return 2;"),
])
def test_a_place_is_found_by_what_stands_there(place, new, expected):
    changed = replace(CODE, "one", place, new)
    assert expected in changed and changed.count("\n") == CODE.count("\n")


@pytest.mark.parametrize("function, place", [
    ("two", "return 1"), ("one", "if 3"), ("one", "call four"), ("one", "case TWO return 1"),
    ("one", "case ONE return 2"),
])
def test_what_is_not_there_is_an_error(function, place):
    with pytest.raises(NoPlace):
        replace(CODE, function, place, "")


def test_every_mutant_has_its_place_and_its_test():
    ran = subprocess.run([SCRIPTS / "mutants", "--check"], capture_output=True, text=True,
                         check=False)
    assert ran.returncode == 0, ran.stdout
