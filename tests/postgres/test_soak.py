# SPDX-License-Identifier: Apache-2.0
"""A short soak: three gateways, and kill -9 of them, of the server's sessions, of the server and,
under `participant`, of the service. `scripts/soak --store postgres` goes on for longer."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).resolve().parents[1] / "fault" / "soak.py"


@pytest.mark.parametrize("policy, seconds", [("hold", 6), ("retry", 6), ("participant", 15)])
def test_nothing_is_lost_or_done_twice_whatever_is_killed(upstream, policy, seconds):
    ran = subprocess.run([sys.executable, SOAK, "--store", "postgres", "--seconds", str(seconds),
                          "--clients", "6", "--policy", policy], capture_output=True, text=True,
                         timeout=200, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " 0 duplicates, 0 lost" in ran.stdout
