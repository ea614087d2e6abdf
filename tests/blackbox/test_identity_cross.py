# SPDX-License-Identifier: Apache-2.0
"""Each change of a rule's identity and of its paths, by reload, with complete, running and doubtful
records on both sides of it (pawltest/crossing.py is the table)."""
from __future__ import annotations

import re

import pytest

from pawltest import crossing
from pawltest.gateway import run

pytestmark = pytest.mark.no_store


def gets(case: crossing.Case) -> tuple:
    return case.change.gets


def test_no_change_makes_two_effects_unsaid_or_two_operations_one(pawl, upstream):
    """found: R2"""
    cross = crossing.Crossing(pawl, upstream, 1)
    cross.begin()
    cross.refuse()
    cross.make()
    cross.expect(cross.moves, cross.made, gets)
    cross.go_back()
    cross.expect_found(cross.moves)
    cross.expect_one_effect()
    cross.accept()
    cross.expect(cross.moves, cross.refused, gets)
    cross.end()


def test_every_option_of_a_rule_is_in_the_table_or_said_to_be_no_part_of_a_name(pawl):
    gateway = pawl("tenant: none\nrules:\n  - {name: pay, match: POST /pay}\n", started=False)
    shown = run("config", "explain", "-c", gateway.config).stdout.partition("rules:\n")[2]
    options = set(re.findall(r"^  [- ] (?:# )?(\w+):", shown, re.M))
    assert {"key", "once", "formerly", "match"} < options
    tried = {option for option in options for change in crossing.changes().values()
             if re.search(rf"\b{option}: ", change.before + change.after)}
    assert options - tried == crossing.NO_IDENTITY - {"unknown"}
