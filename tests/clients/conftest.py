# SPDX-License-Identifier: Apache-2.0
"""Clients as they come, through the black box's gateway to its upstream."""
from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BLACKBOX = HERE.parent / "blackbox"
sys.path[:0] = [str(BLACKBOX), str(HERE)]

# Two modules named conftest cannot both be imported by that name.
_spec = importlib.util.spec_from_file_location("blackbox_conftest", BLACKBOX / "conftest.py")
_shared = importlib.util.module_from_spec(_spec)
sys.modules["blackbox_conftest"] = _shared
_spec.loader.exec_module(_shared)

pytest_runtest_makereport = _shared.pytest_runtest_makereport
pytest_runtestloop = _shared.pytest_runtestloop
upstream = _shared.upstream
clock = _shared.clock
pawl = _shared.pawl
