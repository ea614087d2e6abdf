# SPDX-License-Identifier: Apache-2.0
"""Faults: the black box's gateway, upstream and clock, while processes die and disks fail."""
from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

BLACKBOX = Path(__file__).resolve().parents[1] / "blackbox"
sys.path.insert(0, str(BLACKBOX))
sys.path.insert(0, str(Path(__file__).parent))

# Two modules named conftest cannot both be imported by that name.
_spec = importlib.util.spec_from_file_location("blackbox_conftest", BLACKBOX / "conftest.py")
_shared = importlib.util.module_from_spec(_spec)
sys.modules["blackbox_conftest"] = _shared
_spec.loader.exec_module(_shared)

pytest_runtest_makereport = _shared.pytest_runtest_makereport
pytest_runtestloop = _shared.pytest_runtestloop
pytest_collection_modifyitems = _shared.pytest_collection_modifyitems
upstream = _shared.upstream
clock = _shared.clock
pawl = _shared.pawl
