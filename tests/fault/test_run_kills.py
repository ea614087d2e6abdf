# SPDX-License-Identifier: Apache-2.0
"""`pawl run` killed at every point that a run passes, alone or with its command: what the next run
does under each `--unknown`. Effects are counted by a file."""
from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from pawltest.gateway import PAWL
from pawltest.jobs import EFFECT, KEY, Done, Jobs, is_alive
from pawltest.wire import eventually

pytestmark = pytest.mark.hooks
LEASE = 16  # seconds, and it has lapsed
SCRIPT = f"{EFFECT}; echo fine"
# Where a run may be killed, and whether it has had its effect by then.
POINTS = {"before_begin": 0, "after_claim_commit": 0, "before_outcome_commit": 1,
          "after_outcome_commit": 1}
IN_DOUBT = {"after_claim_commit": 0, "before_outcome_commit": 1}
POLICIES = ("retry", "hold", "probe:test -e effects && cat effects")
# They look whether the effect is there, as `--unknown probe` is meant; it is the output.
PROBE = "probe:test -e effects && echo \"$PAWL_KEY was done\""


def kill_at(jobs: Jobs, point: str, *flags: str, script: str = SCRIPT) -> None:
    assert jobs.run(script, *flags, PAWL_CRASH_AT=point).returncode == -9


def kill_running(jobs: Jobs, *flags: str) -> int:
    """pawl alone, while its command waits at the gate; the command."""
    gate = jobs.gates[0]
    process = jobs.start(waiting(jobs), *flags)
    pid = gate.wait_for()
    process.kill()
    assert jobs.end(process).returncode == -9 and is_alive(pid)
    return pid


def waiting(jobs: Jobs) -> str:
    return f"{jobs.gates[0].waits}; {EFFECT}; echo fine"


def is_done(ran: Done) -> bool:
    return (ran.returncode, ran.stdout) == (0, b"fine\n")


def is_held(ran: Done) -> bool:
    return (ran.returncode, ran.stdout) == (76, b"") and b"keys resolve" in ran.stderr


# ---- before, between and after ----


@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_the_next_run_completes_it_under_retry(jobs, point):
    kill_at(jobs, point)
    assert jobs.effects() == POINTS[point]
    if point in IN_DOUBT:
        early = jobs.run(SCRIPT)
        assert early.returncode == 75 and b"it becomes free in " in early.stderr
        assert jobs.effects() == POINTS[point]
        jobs.clock.advance(LEASE)
    assert is_done(jobs.run(SCRIPT)) and is_done(jobs.run(SCRIPT))
    assert jobs.effects() == (2 if point == "before_outcome_commit" else 1)
    assert jobs.record()["status"] == "complete"


@pytest.mark.parametrize("point", IN_DOUBT)
def test_a_lease_is_waited_for_with_wait(jobs, point):
    kill_at(jobs, point)
    ran = jobs.end_later(jobs.start(SCRIPT, "--wait", "1h"))
    assert is_done(ran) and 14 < jobs.clock.offset < 20


@pytest.mark.parametrize("point", IN_DOUBT)
def test_under_hold_nothing_is_run_before_a_person_has_settled_it(jobs, point):
    kill_at(jobs, point, "--unknown", "hold")
    jobs.clock.advance(LEASE)
    for _ in range(2):
        assert is_held(jobs.run(SCRIPT, "--unknown", "hold"))
    assert jobs.effects() == IN_DOUBT[point] and jobs.counted() == {"doubt": 2}
    assert is_held(jobs.run(SCRIPT, "--unknown", "retry"))  # its own policy is stricter


@pytest.mark.parametrize("code", [0, 3])
def test_what_was_held_and_is_resolved_is_not_run(jobs, code):
    kill_at(jobs, "before_outcome_commit", "--unknown", "hold")
    jobs.clock.advance(LEASE)
    assert is_held(jobs.run(SCRIPT, "--unknown", "hold"))
    token = jobs.record()["token"]
    done = jobs.keys("resolve", KEY, "--token", token, "--exit-code", code, "--reason", "looked")
    assert done.returncode == 0, done
    ran = jobs.run(SCRIPT, "--unknown", "hold")
    assert (ran.returncode, ran.stdout, jobs.effects()) == (code, b"", 1)
    assert "looked" in jobs.keys("audit").stdout


@pytest.mark.parametrize("act", ["release", "resolve --released"])
def test_what_was_held_and_is_released_runs(jobs, act):
    kill_at(jobs, "after_claim_commit", "--unknown", "hold")
    jobs.clock.advance(LEASE)
    assert is_held(jobs.run(SCRIPT, "--unknown", "hold"))
    verb, *more = act.split()
    done = jobs.keys(verb, KEY, "--token", jobs.record()["token"], *more)
    assert done.returncode == 0, done
    assert is_done(jobs.run(SCRIPT, "--unknown", "hold")) and jobs.effects() == 1


@pytest.mark.parametrize("point", IN_DOUBT)
def test_a_probe_finds_out_whether_it_was_done(jobs, point):
    kill_at(jobs, point, "--unknown", PROBE)
    jobs.clock.advance(LEASE)
    for _ in range(2):
        ran = jobs.run(SCRIPT, "--unknown", PROBE)
        wanted = f"{KEY} was done\n" if IN_DOUBT[point] else "fine\n"
        assert (ran.returncode, ran.stdout.decode(), jobs.effects()) == (0, wanted, 1)
    assert jobs.record()["status"] == "complete"


@pytest.mark.parametrize("code", [2, 3, 126, 255])
def test_a_probe_that_does_not_know_leaves_it_held(jobs, code):
    probe = f"probe:echo asked >> asked; echo no; exit {code}"
    kill_at(jobs, "before_outcome_commit", "--unknown", probe)
    jobs.clock.advance(LEASE)
    for n in (1, 2):
        assert is_held(jobs.run(SCRIPT, "--unknown", probe))
        assert jobs.read("asked").count("asked") == n
    assert jobs.effects() == 1
    assert is_held(jobs.run(SCRIPT, "--unknown", "probe:kill -9 $$"))
    found = jobs.run(SCRIPT, "--unknown", PROBE)
    assert (found.returncode, jobs.effects()) == (0, 1)


def test_a_probe_that_never_ends_is_ended_after_a_minute(jobs):
    probe = f"probe:{jobs.gate().waits}"
    kill_at(jobs, "before_outcome_commit", "--unknown", probe)
    jobs.clock.advance(LEASE)
    process = jobs.start(SCRIPT, "--unknown", probe)
    pid = jobs.gates[0].wait_for()
    jobs.clock.advance(61)
    assert is_held(jobs.end(process)) and not is_alive(pid) and jobs.effects() == 1


def test_a_probe_that_never_stops_writing_is_ended_after_a_minute(jobs):
    probe = "probe:echo > writes; exec yes"
    kill_at(jobs, "before_outcome_commit", "--unknown", probe)
    jobs.clock.advance(LEASE)
    process = jobs.start(SCRIPT, "--unknown", probe)
    jobs.read("writes")
    jobs.clock.advance(61)
    assert is_held(jobs.end(process)) and jobs.effects() == 1


@pytest.mark.parametrize("point", ["before_doubt_commit", "before_outcome_commit",
                                   "before_release_commit"])
def test_killed_after_a_probe_the_next_run_probes_again(jobs, point):
    code = {"before_doubt_commit": 3, "before_outcome_commit": 0, "before_release_commit": 1}[point]
    flags = ["--unknown", f"probe:echo asked >> asked; exit {code}"]
    kill_at(jobs, "after_claim_commit", *flags)
    jobs.clock.advance(LEASE)
    kill_at(jobs, point, *flags)
    jobs.clock.advance(LEASE)
    ran = jobs.run(SCRIPT, *flags)
    assert ran.returncode == {3: 76, 0: 0, 1: 0}[code] and jobs.effects() == (code == 1)
    assert jobs.read("asked") == "asked\nasked\n"


@pytest.mark.parametrize("policy", POLICIES)
def test_killed_before_a_failure_is_written_down_it_is_in_doubt(jobs, policy):
    script = f"{EFFECT}; exit 3"
    kill_at(jobs, "before_release_commit", "--unknown", policy, script=script)
    jobs.clock.advance(LEASE)
    ran = jobs.run(script, "--unknown", policy)
    wanted = {"retry": (3, 2), "hold": (76, 1)}.get(policy, (0, 1))
    assert (ran.returncode, jobs.effects()) == wanted


def test_killed_between_two_attempts_nothing_is_waited_for(jobs):
    process = jobs.start(f"{EFFECT}; test -e fixed", "--retry", "scheduled", "--unknown", "hold")
    process.stderr.readline()  # trying again in ..
    process.kill()
    jobs.end(process)
    jobs.write("fixed")
    assert jobs.run(f"{EFFECT}; test -e fixed", "--unknown", "hold").returncode == 0
    assert jobs.effects() == 2


# ---- while the command runs ----


@pytest.mark.parametrize("policy", POLICIES)
def test_a_command_that_lives_on_is_in_progress_for_as_long_as_it_runs(jobs, policy):
    gate = jobs.gate()
    pid = kill_running(jobs, "--unknown", policy)
    first = jobs.run(waiting(jobs), "--unknown", policy)
    assert first.returncode == 75 and b"it becomes free in " in first.stderr
    for seconds in (LEASE, 3600, 23 * 3600):
        jobs.clock.advance(seconds)
        ran = jobs.run(waiting(jobs), "--unknown", policy)
        assert ran.returncode == 75 and b"what it started still runs on this host" in ran.stderr
    assert is_alive(pid) and jobs.effects() == 0
    gate.open()
    eventually(lambda: not is_alive(pid), "its end")
    gate.open()
    last = jobs.run(waiting(jobs), "--unknown", policy)
    wanted = {"retry": (0, 2), "hold": (76, 1)}.get(policy, (0, 1))
    assert (last.returncode, jobs.effects()) == wanted


def test_with_wait_a_command_that_lives_on_is_waited_for(jobs):
    gate = jobs.gate()
    pid = kill_running(jobs, "--unknown", "probe:test -e effects")
    jobs.clock.advance(LEASE)
    process = jobs.start(waiting(jobs), "--wait", "1h", "--unknown", "probe:test -e effects")
    jobs.clock.step(1)
    assert process.poll() is None and is_alive(pid)
    gate.open()
    ran = jobs.end(process)
    assert ran.returncode == 0 and jobs.effects() == 1


def test_a_wait_for_a_command_that_lives_on_ends_with_its_time_or_a_signal(jobs):
    jobs.gate()
    kill_running(jobs)
    jobs.clock.advance(LEASE)
    late = jobs.end_later(jobs.start(waiting(jobs), "--wait", "10s"))
    assert late.returncode == 75 and b"what it started still runs on this host" in late.stderr
    process = jobs.start(waiting(jobs), "--wait", "1h")
    jobs.clock.step(1)
    process.send_signal(signal.SIGTERM)
    assert jobs.end(process).returncode == 128 + signal.SIGTERM and jobs.effects() == 0


def test_a_grandchild_that_left_the_group_keeps_it_in_progress(jobs):
    gate = jobs.gate()
    script = f"setsid sh -c '{gate.waits}; {EFFECT}' < /dev/null > /dev/null 2>&1 & exit 0"
    assert jobs.run(script, PAWL_CRASH_AT="before_outcome_commit").returncode == -9
    pid = gate.wait_for()
    jobs.clock.advance(LEASE)
    ran = jobs.run(script)
    assert ran.returncode == 75 and b"what it started still runs on this host" in ran.stderr
    gate.open()
    eventually(lambda: not is_alive(pid), "its end")
    assert jobs.run(script).returncode == 0 and gate.wait_for() != pid


@pytest.mark.parametrize("policy", POLICIES)
def test_when_both_are_killed_the_lease_alone_speaks(jobs, policy):
    gate = jobs.gate()
    pid = kill_running(jobs, "--unknown", policy)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(pid), "its end")
    assert jobs.run(waiting(jobs), "--unknown", policy).returncode == 75
    jobs.clock.advance(LEASE)
    gate.open()
    ran = jobs.run(waiting(jobs), "--unknown", policy)
    wanted = {"retry": (0, 1), "hold": (76, 0)}.get(policy, (0, 1))
    assert (ran.returncode, jobs.effects()) == wanted


def test_of_two_that_overtake_one_runs(jobs):
    gate = jobs.gate()
    pid = kill_running(jobs)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(pid), "its end")
    jobs.clock.advance(LEASE)
    both = [jobs.start(waiting(jobs)) for _ in range(2)]
    gate.wait_for()
    eventually(lambda: any(one.poll() is not None for one in both), "the refusal")
    gate.open()
    assert sorted(jobs.end(one).returncode for one in both) == [0, 75] and jobs.effects() == 1


def test_after_a_reboot_only_the_lease_speaks(jobs):
    gate = jobs.gate()
    kill_running(jobs)
    with contextlib.closing(sqlite3.connect(jobs.store)) as store, store:
        sql = "UPDATE pawl_pending SET origin = replace(origin, 'boot ', 'boot 0')"
        assert store.execute(sql).rowcount == 1
    assert jobs.run(waiting(jobs)).returncode == 75
    jobs.clock.advance(LEASE)
    process = jobs.start(waiting(jobs))  # though the command lives, as on another host it might
    gate.wait_for()
    gate.open()
    gate.open()
    assert is_done(jobs.end(process))


def test_a_pawl_that_stands_still_beyond_its_lease_does_not_run_it_twice(jobs):
    """Its command runs on: the other run is told so, though the owner looks dead."""
    gate = jobs.gate()
    first = jobs.start(waiting(jobs))
    pid = gate.wait_for()
    first.send_signal(signal.SIGSTOP)
    jobs.clock.advance(LEASE)
    assert jobs.run(waiting(jobs)).returncode == 75 and is_alive(pid)
    first.send_signal(signal.SIGCONT)
    gate.open()
    assert is_done(jobs.end(first)) and jobs.effects() == 1


def test_a_pawl_that_stands_still_when_its_command_has_ended_does_not_run_it_twice(jobs):
    gate = jobs.gate()
    first = jobs.start(waiting(jobs))
    pid = gate.wait_for()
    first.send_signal(signal.SIGSTOP)
    gate.open()
    eventually(lambda: not is_alive(pid), "the end of the command")
    jobs.clock.advance(LEASE)
    ran = jobs.run(waiting(jobs))
    assert ran.returncode == 75 and b"stands still" in ran.stderr
    first.send_signal(signal.SIGCONT)
    assert is_done(jobs.end(first)) and is_done(jobs.run(waiting(jobs))) and jobs.effects() == 1


# ---- J3 ----

ZONES = ("America/New_York", "America/Havana", "America/Sao_Paulo", "Atlantic/Azores",
         "Europe/London", "Europe/Berlin", "Antarctica/Troll", "Africa/Cairo", "Asia/Beirut",
         "Australia/Lord_Howe")


def nights(zone: ZoneInfo) -> list[datetime]:
    """The hours of 2024 at which the zone's clock is put forward or back."""
    first = datetime(2024, 1, 1, tzinfo=timezone.utc)
    hours = [first + timedelta(hours=n) for n in range(366 * 24)]
    east = [hour.astimezone(zone).utcoffset() for hour in hours]
    return [hour for hour, before, after in zip(hours[1:], east, east[1:]) if before != after]


@pytest.mark.parametrize("name", ZONES)
def test_J3_killed_anywhere_in_a_night_of_changing_clocks_nobody_has_two_offers_for_a_date(
        jobs, name):
    zone = ZoneInfo(name)
    script = "echo done >> \"offer-$PAWL_KEY\""
    flags = ["--unknown", "probe:test -e \"offer-$PAWL_KEY\""]
    points = list(POINTS)
    dates = set()
    for night in nights(zone) or [datetime(2024, 3, 31, tzinfo=timezone.utc)]:
        for n, point in zip(range(-3, 4), points * 2):
            at = night + timedelta(minutes=30 * n)
            dates.add(at.astimezone(zone).date().isoformat())
            words = [*flags, "--at", at.strftime("%Y-%m-%dT%H:%M:%SZ")]
            jobs.run(script, *words, key=f"{{date:{name}}}-u1", PAWL_CRASH_AT=point)
            jobs.clock.advance(LEASE)
            hosts = [jobs.start(script, *words, key=f"{{date:{name}}}-u1") for _ in range(2)]
            assert {jobs.end(one).returncode for one in hosts} <= {0, 75}
    offers = {path.name: path.read_text() for path in jobs.folder.glob("offer-*")}
    assert offers == {f"offer-{date}-u1": "done\n" for date in dates}


# ---- the machine ----


@pytest.mark.mount
def test_without_time_zones_it_is_69_and_nothing_is_run(jobs):
    hidden = ["unshare", "--mount", "sh", "-c",
              "mount -t tmpfs none /usr/share/zoneinfo && exec \"$@\"", "sh", str(PAWL)]
    process = jobs.spawn("--key", "{date:Europe/Berlin}", "--", "sh", "-c", EFFECT, command=hidden)
    ran = jobs.end(process)
    assert ran.returncode == 69 and b"install tzdata" in ran.stderr and jobs.effects() == 0
