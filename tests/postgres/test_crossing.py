# SPDX-License-Identifier: Apache-2.0
"""Each change of a rule's identity and of its paths in one of two gateways on one PostgreSQL: the
other one has begun the records, and still has the config of before (pawltest/crossing.py)."""
from __future__ import annotations

from pawltest import crossing


def new(case: crossing.Case) -> tuple:
    return case.change.gets


def old(case: crossing.Case) -> tuple:
    return crossing.FENCED if case.change.moves or case.change.fences else crossing.FOUND


def test_two_configs_make_no_two_effects_unsaid_and_no_two_operations_one(pawl, upstream):
    """found: R2"""
    cross = crossing.Crossing(pawl, upstream, 2)
    cross.begin()
    cross.refuse()
    cross.expect_found(cross.stays)
    cross.make()
    cross.expect(cross.moves, cross.made, new)
    cross.expect(cross.stays, cross.made, old)
    cross.go_back()
    cross.expect_found(cross.moves)
    cross.expect_found(cross.stays)
    cross.expect_one_effect()
    cross.accept()
    cross.expect(cross.moves, cross.refused, new)
    cross.expect(cross.stays, cross.refused, old)
    cross.end()
