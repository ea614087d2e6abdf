# SPDX-License-Identifier: Apache-2.0
"""examples/offers: a scheduler that runs twice, dies, runs on two hosts at once, and on nights on
which clocks change; and the states of an offer."""
from __future__ import annotations

import json
import random
import subprocess
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Callable

import pytest

from pawltest.gateway import Clock
from pawltest.offers import KEY, Scheduler, changes_of, children, hosts, kill, text_of
from pawltest.wire import PATIENCE

SEED = 20260219
LEASE = 15  # seconds, of a job
NIGHT = datetime(2026, 2, 20, 3, 0, tzinfo=timezone.utc)
NEW_YORK = ("user-123", "America/New_York")
# Where a midnight is repeated or skipped, where half an hour or two are, and the usual ones.
ZONES = ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Havana",
         "Atlantic/Azores", "Antarctica/Troll", "Africa/Cairo", "America/Santiago",
         "Pacific/Chatham", "Asia/Beirut")


@pytest.fixture
def scheduler(tmp_path: Path) -> Scheduler:
    return Scheduler(tmp_path, tmp_path / "jobs.db")


@pytest.fixture
def timed(tmp_path: Path, clock: Clock) -> Scheduler:
    made = Scheduler(tmp_path, tmp_path / "jobs.db", clock)
    made.drop_index()
    return made


def test_j1_the_key_is_the_seed_s_letter_by_letter(scheduler: Scheduler) -> None:
    scheduler.night(NIGHT)
    keys = scheduler.run("pawl", "keys", "list", "--json").stdout
    assert "2026-02-19:America/New_York:user-123:daily_offers" in [
        json.loads(line)["key"] for line in keys.splitlines()]


def test_run_twice_it_makes_no_second_offer_and_prints_the_same_bytes(scheduler: Scheduler) -> None:
    scheduler.drop_index()
    printed, run, skipped = scheduler.night(NIGHT)
    assert (len(printed), run, skipped) == (12, 12, 0)
    assert scheduler.night(NIGHT) == ([], 0, 12)
    for user, zone in scheduler.rows("SELECT id, zone FROM users"):
        again = scheduler.job(user, zone, NIGHT)
        assert again.returncode == 0 and again.stdout.rstrip("\n") in printed, again.stderr
    scheduler.check()


def test_a_user_who_moves_has_one_offer_for_a_date_under_two_keys(scheduler: Scheduler) -> None:
    user, zone = NEW_YORK
    first = scheduler.job(user, "Europe/Berlin", NIGHT - timedelta(days=1)).stdout
    assert json.loads(first)["date"] == "2026-02-19"
    assert scheduler.job(user, zone, NIGHT).stdout == first
    assert scheduler.rows("SELECT user, zone FROM offers") == [(user, "Europe/Berlin")]


def test_users_that_cannot_be_listed_are_an_error_and_no_empty_night(scheduler: Scheduler) -> None:
    scheduler.rows("DROP TABLE users")
    ended = scheduler.run("./nightly")
    assert ended.returncode == 1 and "no such table: users" in ended.stderr


@pytest.mark.parametrize("zone", ZONES)
def test_on_a_night_on_which_clocks_change_there_is_one_offer_a_local_date(
        scheduler: Scheduler, zone: str) -> None:
    scheduler.drop_index()
    scheduler.set_users([("user-1", zone)])
    changes = changes_of(zone, 2026)
    assert len(changes) == 2
    for change in changes:
        for seconds in (-3601, -3600, -1, 0, 1800, 3600):
            scheduler.night(change + timedelta(seconds=seconds))
    scheduler.check()


def test_two_hosts_at_once_make_each_offer_once(scheduler: Scheduler) -> None:
    scheduler.drop_index()
    for day in range(4):
        at = NIGHT + timedelta(days=day)
        ended = [scheduler.end(host) for host in [scheduler.start(at) for _ in range(2)]]
        assert sum(run for _, run, _ in ended) == 12
        assert all(run + skipped == 12 for _, run, skipped in ended)
    scheduler.check()


# ---- killed ----

@pytest.mark.hooks
def test_an_offer_that_was_made_when_pawl_died_is_printed_by_the_next_run(
        timed: Scheduler, clock: Clock, tmp_path: Path) -> None:
    user, zone = NEW_YORK
    dies = (f"./offers.py offer --user {user} --zone {zone}; [ -e {tmp_path}/died ] ||"
            f" {{ touch {tmp_path}/died; kill -9 $PPID; }}")
    command = ("pawl", "run", "--key", KEY % (zone, zone, user), "--at", text_of(NIGHT), "--",
               "sh", "-c", dies)
    timed.run(*command)
    offers = timed.rows("SELECT * FROM offers")
    assert len(offers) == 1
    assert timed.run(*command).returncode == 75
    clock.advance(LEASE + 1)
    again = timed.run(*command)
    assert again.returncode == 0 and json.loads(again.stdout)["candidate"] == offers[0][4]
    assert timed.rows("SELECT * FROM offers") == offers
    assert timed.run(*command).stdout == again.stdout


def strike(host: subprocess.Popen[str], victim: str, chance: random.Random) -> bool:
    """Kills pawl, one of its commands, or all of them, somewhere on the way. False: it was over."""
    over = time.monotonic() + PATIENCE
    while not (pawl := list(hosts(host))):
        if host.poll() is not None or time.monotonic() > over:
            return False
    time.sleep(chance.uniform(0, 0.5))
    commands = list(children(pawl[0]))
    aims = {"pawl": pawl, "command": commands[:1], "both": [*pawl, *commands]}[victim]
    kill(aims)
    return bool(aims) and host.poll() is None


@pytest.mark.hooks
def test_killed_at_any_point_and_run_again_no_user_lacks_an_offer_or_has_two(
        timed: Scheduler, clock: Clock) -> None:
    chance, kills = random.Random(SEED), 0
    for day in range(40):
        at = NIGHT + timedelta(days=day)
        for victim in ("pawl", "command", "both"):
            host = timed.start(at)
            kills += strike(host, victim, chance)
            host.communicate(timeout=2 * PATIENCE)
            clock.advance(LEASE + 1)
        _, run, skipped = timed.night(at)
        assert run + skipped == 12
        timed.check()
        if kills >= 20:
            return
    pytest.fail(f"only {kills} kills met something")


@pytest.mark.hooks
def test_j3_two_hosts_killed_on_a_night_on_which_clocks_change_make_one_offer_a_date(
        timed: Scheduler, clock: Clock) -> None:
    """In ten zones."""
    chance = random.Random(SEED)
    timed.set_users([(f"user-{i}", zone) for i, zone in enumerate(ZONES)])
    changes = sorted({changes_of(zone, 2026)[i] for zone in ZONES for i in (0, 1)})
    for i, change in enumerate(changes):
        for seconds in (-1, 0):
            at = change + timedelta(seconds=seconds)
            first, second = timed.start(at), timed.start(at)
            strike(first, ("pawl", "both", "command")[i % 3], chance)
            first.communicate(timeout=2 * PATIENCE)
            clock.advance(LEASE + 1)  # the second takes over what the first has left, unless it
            second.communicate(timeout=2 * PATIENCE)  # was about to begin: its time is over, too
            _, run, skipped = timed.night(at)
            assert run + skipped == len(ZONES)
            assert timed.night(at) == ([], 0, len(ZONES))
    timed.check()


# ---- states ----

@pytest.fixture
def offer(scheduler: Scheduler) -> Callable[..., Any]:
    """act(ACTION, ACTION_ID) on an offer; what it printed, and the exit code."""
    made = json.loads(scheduler.job(*NEW_YORK, NIGHT).stdout)["id"]

    def act(action: str, action_id: str, *more: Any) -> tuple[dict[str, Any], int]:
        twice = [scheduler.run("./offers.py", "act", made, action, action_id, *more)
                 for _ in range(2)]
        assert (twice[0].stdout, twice[0].returncode) == (twice[1].stdout, twice[1].returncode)
        told = json.loads(twice[0].stdout)
        state, reason = scheduler.rows("SELECT state, reason FROM offers WHERE id = ?", made)[0]
        assert (told["state"], told.get("reason")) == (state, reason)
        return told, twice[0].returncode

    return act


@pytest.mark.parametrize("action, state", [("accept", "accepted"), ("pass", "passed"),
                                           ("not_now", "not_now")])
def test_t9_an_offer_is_accepted_passed_or_put_off_and_a_repeat_says_the_same(
        offer: Callable[..., Any], action: str, state: str) -> None:
    told, code = offer(action, "a1")
    assert (told["decision"], told["from"], told["state"], code) == ("moved", "offered", state, 0)


def test_t9_an_accepted_offer_is_matched_and_then_closed_as_unmatched(
        offer: Callable[..., Any]) -> None:
    assert offer("accept", "a1")[0]["state"] == "accepted"
    assert offer("mutual_accept", "a2")[0]["state"] == "matched"
    told, _ = offer("unmatch", "a3")
    assert (told["from"], told["state"], told["reason"]) == ("matched", "closed", "unmatched")


def test_t9_accept_on_passed_is_a_conflict_that_names_passed(offer: Callable[..., Any]) -> None:
    offer("pass", "a1")
    told, code = offer("accept", "a2")
    assert (told["decision"], told["from"], told["state"], code) == (
        "conflict", "passed", "passed", 1)


def test_t9_a_late_event_is_stale(offer: Callable[..., Any]) -> None:
    assert offer("accept", "a1", "--seq", 5)[0]["decision"] == "moved"
    told, code = offer("mutual_accept", "a2", "--seq", 4)
    assert (told["decision"], told["state"], code) == ("stale", "accepted", 1)
