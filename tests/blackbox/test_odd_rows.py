# SPDX-License-Identifier: Apache-2.0
"""Rows that no pawl wrote, in a file: they are held until a person acts on them, and nothing beside
them stops. In a database: tests/postgres/test_odd_rows_checked.py."""
from __future__ import annotations

import pytest

from pawltest.odd import Odd, nothing_odd_stops_anything, odd_tasks_are_held

pytestmark = pytest.mark.hooks


@pytest.fixture
def odd(pawl, receiver) -> Odd:
    return Odd(pawl, receiver)


def test_odd_tasks_are_held(odd):
    """found: R8"""
    odd_tasks_are_held(odd)


def test_nothing_odd_stops_anything(odd):
    """Every column of every table of modules, as the process names them."""
    nothing_odd_stops_anything(odd)
