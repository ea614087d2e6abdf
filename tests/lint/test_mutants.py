# SPDX-License-Identifier: Apache-2.0
"""scripts/mutants finds its places by what stands there, and each is still there, once."""
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


@pytest.mark.parametrize("old, new, expected", [
    ("a > (1 + 2)", "false && ({})", "if (false && (a > (1 + 2)))"),
    ("!text", "!({})", "if (!(!text))"),
    ("two(a, 3)", "0", "return 0;"),
    ("3", "{} + {}", "return two(a, 3 + 3);"),
    ("three(one( a ))", "(void)0", "        (void)0;"),
    ("NULL", "{} + 0", "text = NULL + 0;"),
])
def test_a_place_is_found_by_what_stands_there(old, new, expected):
    changed = replace(CODE, "one", old, new)
    assert expected in changed and changed.count("\n") == CODE.count("\n")


@pytest.mark.parametrize("function, old", [
    ("two", "1"), ("one", "return 7"), ("one", "if (a)"), ("one", "text = NULL; return"),
    ("one", "return"),
])
def test_what_is_not_there_once_is_an_error(function, old):
    with pytest.raises(NoPlace):
        replace(CODE, function, old, "")


def test_every_mutant_has_its_place_and_its_test():
    ran = subprocess.run([SCRIPTS / "mutants", "--check"], capture_output=True, text=True,
                         check=False)
    assert ran.returncode == 0, ran.stdout
