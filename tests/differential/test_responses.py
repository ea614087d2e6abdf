# SPDX-License-Identifier: Apache-2.0
"""pawl beside nginx and HAProxy: docs/differences.md lists what each makes of odd responses."""
from __future__ import annotations

from typing import Iterator

import pytest

import responses
from odd_responses import RESPONSES, WHOLE, Odd
from responses import Speaker, ask, is_taken, kind_of, play

# As RFC 9112 has them: a connection goes on behind them.
REGULAR = {"coding in capitals", "status without a reason"}

Place = tuple[int, str, Speaker]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Place]]:
    with responses.running(tmp_path_factory.mktemp("proxies")) as running:
        yield running


@pytest.fixture(scope="module")
def listed() -> dict[str, tuple[str, responses.Row]]:
    return {name: (kind, row) for kind, table in responses.documented().items()
            for name, row in responses.rows_of(table)}


def test_every_response_ends_behind_each_as_it_is_listed(places, listed):
    """found: L1"""
    played = {odd.name: play(places, odd) for odd in RESPONSES}
    assert len(played) == len(RESPONSES)
    assert {name: (kind_of(row), row) for name, row in played.items()} == listed


def test_behind_an_odd_response_nothing_else_comes_on_its_connection(places, listed):
    """found: L1"""
    port, path, speaker = places[3]
    for odd in RESPONSES:
        if not is_taken(listed[odd.name][1][3]) or odd.closes:
            continue
        speaker.heard.clear()
        speaker.says = [Odd("whole", WHOLE), odd, Odd("whole", WHOLE)]
        answers = [ask(port, path) for _ in range(3)]
        first, second, third = speaker.heard
        assert first == second, odd.name
        assert (third == second) == (odd.name in REGULAR), odd.name
        # Its line end may be the end of what came before.
        is_late = odd.name in ("CR LF first", "LF first")
        assert answers[1] == ("502" if is_late else listed[odd.name][1][3]), odd.name
        assert (answers[0], answers[2]) == ("201", "201"), odd.name
