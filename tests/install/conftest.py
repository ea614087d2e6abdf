# SPDX-License-Identifier: Apache-2.0
"""What is installed, of the build that $PAWL_BIN stands in."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Iterator

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "blackbox"))

from upstream import Upstream  # noqa: E402


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    made = Upstream()
    yield made
    made.stop()
