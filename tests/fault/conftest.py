# SPDX-License-Identifier: Apache-2.0
"""Faults: the black box's gateway, upstream and clock, while processes die and disks fail."""
from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

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
upstream = _shared.upstream
clock = _shared.clock
pawl = _shared.pawl


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "strace: needs a strace that may trace; not collected else")
    config.addinivalue_line("markers", "mount: mounts a small disk; not collected where it may not")


@functools.cache
def may(need: str) -> bool:
    """Whether this place lets a test do so: a container may forbid either."""
    with tempfile.TemporaryDirectory() as place:
        command = {"strace": ["strace", "-o", "/dev/null", "true"],
                   "mount": ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place]}[need]
        try:
            done = subprocess.run(command, capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            return False
        if done and need == "mount":
            subprocess.run(["umount", place], check=True)
        return done


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _shared.pytest_collection_modifyitems(config, items)
    out = [item for item in items for need in ("strace", "mount")
           if item.get_closest_marker(need) and not may(need)]
    items[:] = [item for item in items if item not in out]
    config.hook.pytest_deselected(items=out)
