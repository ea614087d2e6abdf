# SPDX-License-Identifier: Apache-2.0
"""`pawl each` over a long list, killed ten times at random and run again with the list shuffled and
extended. An item that is not in doubt at a kill has exactly one effect, and at most one item a slot
is in doubt. PAWL_EACH_ITEMS=100000: a longer list; PAWL_EACH_SEED: those dice again; `-s` shows
what was counted."""
from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Iterator

import pytest

from pawltest.each import EFFECT, Each, Ran, lines, shell
from pawltest.gateway import Clock

pytestmark = pytest.mark.hooks
ITEMS = int(os.environ.get("PAWL_EACH_ITEMS", "3000"))
SEED = int(os.environ.get("PAWL_EACH_SEED", random.randrange(1 << 32)))
KILLS = 10
JOBS = 16
WIDTH = 10  # bytes of a line of the journal: all are of one length
LONGEST = 30 + ITEMS / 100  # seconds for one run


class Killed(Each):
    """A list that grows from run to run."""

    def __init__(self, directory: Path, clock: Clock, policy: str):
        super().__init__(directory, clock)
        self.dice = random.Random(SEED)
        self.words = ["-j", str(JOBS), "-a", "items", "--unknown", policy, *shell(EFFECT)]
        self.items: list[str] = []

    def extend_and_shuffle(self, n: int) -> None:
        self.items += [f"{i:0{WIDTH - 1}}" for i in range(len(self.items), n)]
        self.dice.shuffle(self.items)
        (self.directory / "items").write_text(lines(self.items))

    def count_effects(self) -> int:
        return self.journal.stat().st_size // WIDTH if self.journal.exists() else 0

    def run_until_killed(self, effects: int) -> None:
        """SIGKILL once there are so many more effects, or at its end."""
        process, least = self.start(*self.words), self.count_effects() + effects
        end = time.monotonic() + LONGEST
        while process.poll() is None and self.count_effects() < least:
            assert time.monotonic() < end, "it stands still"
            time.sleep(0.0005)
        process.kill()
        self.end(process)
        self.clock.advance(16)  # its leases lapse

    def finish(self) -> Ran:
        return self.end(self.start("--json", *self.words), patience=LONGEST)


@pytest.fixture
def told() -> Iterator[Counter[str]]:
    """What a test counts, printed at its end."""
    counted: Counter[str] = Counter()
    began = time.monotonic()
    yield counted
    print(f"\n{dict(counted)}, seed {SEED}, {time.monotonic() - began:.0f} s")


@pytest.mark.parametrize("policy", ["retry", "hold"])
def test_each_item_has_one_effect_but_for_those_in_doubt_at_a_kill(tmp_path, clock, told, policy):
    each = Killed(tmp_path, clock, policy)
    for kill in range(KILLS):
        each.extend_and_shuffle(ITEMS * (kill + 1) // KILLS)
        left = max(2, len(each.items) - each.count_effects())
        each.run_until_killed(each.dice.randrange(1, left))
        told["kills"] += 1
    each.extend_and_shuffle(ITEMS)
    ran = each.finish()
    effects = Counter(each.effects)
    told.update(items=ITEMS, effects=effects.total(),
                twice=sum(n > 1 for n in effects.values()), doubt=ran.sum["doubt"],
                run_last=ran.sum["run"])
    assert ran.sum["items"] == ITEMS and set(effects) <= set(each.items)
    if policy == "retry":
        assert ran.returncode == 0 and len(effects) == ITEMS
        assert effects.total() - ITEMS <= JOBS * KILLS
    else:
        assert ran.returncode == (76 if ran.sum["doubt"] else 0)
        assert effects.total() == len(effects) and ran.sum["doubt"] <= JOBS * KILLS
        assert ITEMS - len(effects) <= ran.sum["doubt"]
        done = {line["key"] for line in ran.lines if line["result"] in ("run", "skipped")}
        assert done <= set(effects) and len(done) == ITEMS - ran.sum["doubt"]
    assert each.counters()["run"] >= ITEMS - JOBS * KILLS


def test_a_third_run_does_nothing(tmp_path, clock):
    each = Killed(tmp_path, clock, "retry")
    each.extend_and_shuffle(ITEMS // 10)
    for n in (1, 5):
        each.run_until_killed(n)
    each.finish()
    before = each.count_effects()
    again = each.finish()
    assert again.sum["skipped"] == again.sum["items"] == ITEMS // 10
    assert each.count_effects() == before
