# SPDX-License-Identifier: Apache-2.0
"""Several `pawl each` on one database, as several hosts have them: they share a list, none runs
what another one runs or ran, and what a dead one left is run by the others."""
from __future__ import annotations

import os
import random
import signal
from datetime import datetime, timedelta
from pathlib import Path
from typing import Callable
from zoneinfo import ZoneInfo

import pytest

from pawltest.each import EFFECT, HELD, Each, lines, shell
from pawltest.gateway import Clock
from pawltest.wire import eventually
from server import Database, children, is_alive

pytestmark = pytest.mark.hooks
# Waits at its host's gate before its effect, once the host is told to.
GATED = f'if test -e "$GATES/stop-$HOST"; then echo "$1" > "$GATES/at-$1"; sleep 1000; fi; {EFFECT}'


@pytest.fixture
def host(tmp_path: Path, clock: Clock, database: Database) -> Callable[[], Each]:
    """Makes hosts that share a database; their commands write to one journal."""
    return lambda: Each(tmp_path, clock, database.url)


def test_four_hosts_with_one_list_run_each_item_once(host):
    items, hosts = [f"i{n}" for n in range(400)], [host() for _ in range(4)]
    processes = []
    for n, one in enumerate(hosts):
        random.Random(n).shuffle(items)
        (one.directory / f"items{n}").write_text(lines(items))
        processes.append(one.start("-a", f"items{n}", "-j", "4", "--json", *shell(EFFECT)))
    ran = [one.end(process) for one, process in zip(hosts, processes)]
    assert [one.returncode for one in ran] == [0] * 4, ran
    assert sorted(hosts[0].effects) == sorted(items)
    assert sum(one.sum["run"] for one in ran) == 400
    assert {one.sum["run"] + one.sum["skipped"] for one in ran} == {400}


def test_an_item_that_another_host_runs_is_waited_for_and_never_run_twice(host):
    first, second = host(), host()
    first.hold("a")
    words = ["--json", *shell(f'case $1 in b) {EFFECT};; *) {HELD};; esac')]
    one = first.start(*words, items="a\n")
    first.begun(1)
    two = second.start(*words, items="a\nb\n")
    eventually(lambda: first.effects == ["begin a", "b"], "the other item")
    first.clock.step(5)
    assert two.poll() is None
    first.let_go("a")
    assert first.end(one).results == {"a": "run"}
    assert second.end(two).results == {"a": "skipped", "b": "run"}
    assert first.effects == ["begin a", "b", "end a"]


def test_what_a_killed_host_had_begun_is_run_by_another_once_its_lease_is_over(host, clock):
    """All that it runs is killed with it, before its effect: every item has exactly one."""
    items = [f"i{n}" for n in range(200)]
    first, second = host(), host()
    (first.directory / "items").write_text(lines(items))
    one = first.start("-a", "items", "-j", "8", *shell(GATED), HOST="first")
    eventually(lambda: len(first.effects) >= 40, "its first effects")
    (first.gates / "stop-first").touch()
    eventually(lambda: len(list(first.gates.glob("at-*"))) == 8, "eight before their effects")
    commands = children(one.pid)
    groups = [pid for pid in commands if os.getpgid(pid) == pid]
    one.kill()
    killed = first.now
    first.end(one)
    for group in groups:
        os.killpg(group, signal.SIGKILL)
    eventually(lambda: not any(map(is_alive, commands)), "their end")
    begun = {path.name.removeprefix("at-") for path in first.gates.glob("at-*")}
    assert len(groups) == 8 and not begun & set(first.effects)
    two = second.start("-a", "items", "-j", "8", "--json", *shell(GATED), HOST="second")
    eventually(lambda: set(first.effects) == set(items) - begun, "all but those")
    assert two.poll() is None
    clock.run_until(lambda: two.poll() is not None, step=4)
    ran = second.end(two)
    assert ran.returncode == 0 and ran.sum["run"] + ran.sum["skipped"] == 200
    assert sorted(first.effects) == sorted(items)
    assert first.now - killed >= 8, "not before the lease was over"


def test_under_hold_what_a_killed_host_had_begun_is_run_by_nobody(host, clock):
    first, second = host(), host()
    words = ["--unknown", "hold", *shell(f'test "$1" = b || {{{{ {HELD}; }}')]
    first.hold("a")
    one = first.start(*words, items="a\n")
    first.begun(1)
    one.kill()
    first.end(one)
    first.let_go("a")
    eventually(lambda: "end a" in first.effects)
    two = second.start(*words, items="a\nb\n")
    clock.run_until(lambda: two.poll() is not None, step=4)
    ran = second.end(two)
    assert ran.returncode == 76 and ran.last == "pawl: 2 items: 1 run, 1 in doubt"
    assert first.effects == ["begin a", "end a"]


ZONES = ["America/New_York", "America/Havana", "America/Santiago", "America/St_Johns",
         "Atlantic/Azores", "Europe/Berlin", "Africa/Cairo", "Asia/Beirut", "Australia/Lord_Howe",
         "Antarctica/Troll"]
POINTS = ["after_claim_commit", "before_outcome_commit", "after_outcome_commit", "before_begin"]
NIGHTS = ["2026-03-08", "2026-03-29", "2026-10-25", "2026-11-01"]


@pytest.mark.parametrize("night", NIGHTS)
def test_j3_no_user_has_two_offers_for_a_date_in_a_night_whose_clocks_change(host, clock, night):
    """Two hosts, every four hours at the same time; one of them is killed at some point."""
    first, second = host(), host()
    users = {f"u{n}": zone for n, zone in enumerate(ZONES)}
    items = lines(["id,zone", *(f"{user},{zone}" for user, zone in users.items())])
    words = ["--csv", "-j", "3", "--unknown", "hold", *shell(EFFECT, "{id} {date:/zone}")]
    begin = datetime.fromisoformat(f"{night}T00:00:00+00:00") - timedelta(hours=12)
    instants = [begin + timedelta(hours=hours) for hours in range(0, 41, 4)]
    for n, instant in enumerate(instants):
        words_now = ["--at", instant.isoformat(), *words]
        one = first.start(*words_now, key="offer:{id}:{date:/zone}", items=items,
                          PAWL_CRASH_AT=POINTS[n % len(POINTS)])
        two = second.start(*words_now, key="offer:{id}:{date:/zone}", items=items)
        assert first.end(one).returncode in (0, -signal.SIGKILL, 76)
        clock.run_until(lambda two=two: two.poll() is not None, step=1)
        assert second.end(two).returncode in (0, 76)
    offers = first.effects
    assert len(offers) == len(set(offers)), "an offer that was made twice"
    wanted = {f"{user} {instant.astimezone(ZoneInfo(zone)).date()}"
              for user, zone in users.items() for instant in instants}
    assert set(offers) <= wanted and len(wanted - set(offers)) <= first.counters().get("doubt", 0)
