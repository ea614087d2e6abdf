# SPDX-License-Identifier: Apache-2.0
"""pawl beside other proxies; see test_differences.py."""
from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "blackbox"), str(HERE)]
