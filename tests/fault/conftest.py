# SPDX-License-Identifier: Apache-2.0
"""Faults: what a place must allow for processes to die and disks to fail."""
from __future__ import annotations

import functools
import subprocess
import tempfile

import pytest

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
    out = [item for item in items for need in ("strace", "mount")
           if item.get_closest_marker(need) and not may(need)]
    items[:] = [item for item in items if item not in out]
    config.hook.pytest_deselected(items=out)
