# SPDX-License-Identifier: Apache-2.0
"""`pawl run`: a command, run once per key; what is run again, what is remembered, and for how
long."""
from __future__ import annotations

import json

import pytest

from pawltest.admin import with_admin
from pawltest.gateway import run
from pawltest.jobs import EFFECT, KEY, counted_jobs
from pawltest.wire import eventually

pytestmark = pytest.mark.file_only

hooks = pytest.mark.hooks
DAILY = "{date:America/New_York}:America/New_York:user-123:daily_offers"
AT = "2026-02-20T03:00:00Z"
CONFIG = "tenant: none\nrules:\n  - {name: refunds.create, match: POST /refunds}\n"
HOUR = 3600


# ---- once per key ----


def test_J1_a_daily_job_runs_once_for_its_local_date_and_is_replayed(jobs, pawl):
    words = ["--key", DAILY, "--at", AT, "--", "sh", "-c", f"{EFFECT}; echo \"offers $PAWL_KEY\""]
    first, second = jobs.run_words(*words), jobs.run_words(*words)
    key = "2026-02-19:America/New_York:user-123:daily_offers"
    assert (first.returncode, first.stdout) == (0, f"offers {key}\n".encode())
    assert (second.returncode, second.stdout, second.stderr) == (0, first.stdout, b"")
    assert jobs.effects() == 1 and jobs.record(key)["status"] == "complete"
    assert jobs.counted() == {"run": 1, "skipped": 1}
    gateway, admin = with_admin(pawl, CONFIG, started=False)
    gateway.move_to(f"sqlite:{jobs.store}").start()
    jobs.clock.run_until(
        lambda: counted_jobs(admin.series()) == {"run": 1, "skipped": 1}, step=5)
    assert jobs.run_words(*words).returncode == 0
    jobs.clock.run_until(lambda: counted_jobs(admin.series()).get("skipped") == 2, step=5)


@hooks
def test_J2_a_first_run_that_fails_is_tried_again_and_complete_after_two(jobs):
    script = f"{EFFECT}; test -e fixed && echo fine"
    process = jobs.start(script, "--retry", "scheduled")
    eventually(lambda: jobs.effects() == 1, "the first attempt")
    jobs.write("fixed")
    ran = jobs.end_later(process)
    assert (ran.returncode, ran.stdout, jobs.effects()) == (0, b"fine\n", 2)
    assert b"attempt 1: exit code 1; trying again in " in ran.stderr
    record = jobs.record()
    assert (record["status"], record["attempts"]) == ("complete", 2)


@hooks
def test_J2_scheduled_is_at_most_three_retries_within_an_hour(jobs):
    ran = jobs.end_later(jobs.start(f"{EFFECT}; exit 9", "--retry", "scheduled"), step=5)
    assert ran.returncode == 9 and jobs.effects() == 4 and jobs.clock.offset < HOUR
    assert b"attempt 4, the last: exit code 9" in ran.stderr
    assert jobs.record()["attempts"] == 4 and jobs.counted() == {"failed": 1}


def test_without_retry_a_failure_is_one_attempt_and_the_next_run_is_another(jobs):
    script = f"{EFFECT}; echo $PAWL_ATTEMPT; test -e fixed"
    failed = jobs.run(script)
    assert (failed.returncode, failed.stdout, failed.stderr) == (1, b"1\n", b"")
    jobs.write("fixed")
    assert [jobs.run(script).stdout for _ in range(2)] == [b"2\n", b"2\n"]
    assert jobs.effects() == 2 and jobs.counted() == {"failed": 1, "run": 1, "skipped": 1}


def test_of_ten_at_once_one_runs_and_nine_are_told_that_it_is_in_progress(jobs):
    gate = jobs.gate()
    script = f"{EFFECT}; {gate.waits}; echo fine"
    first = jobs.start(script)
    gate.wait_for()
    others = [jobs.start(script) for _ in range(9)]
    for ran in map(jobs.end, others):
        assert (ran.returncode, ran.stdout) == (75, b"") and b"the key is in use" in ran.stderr
    gate.open()
    assert jobs.end(first).stdout == b"fine\n" and jobs.effects() == 1


def test_of_ten_that_start_together_exactly_one_runs(jobs):
    gate = jobs.gate()
    all_ten = [jobs.start(f"{EFFECT}; {gate.waits}; echo fine") for _ in range(10)]
    gate.wait_for()
    eventually(lambda: sum(one.poll() is not None for one in all_ten) == 9, "nine to be refused")
    gate.open()
    ran = [jobs.end(one) for one in all_ten]
    assert sorted(one.returncode for one in ran) == [0] + 9 * [75] and jobs.effects() == 1


def test_of_ten_that_wait_all_print_the_same_bytes_of_one_run(jobs):
    gate = jobs.gate()
    all_ten = [jobs.start(f"{EFFECT}; {gate.waits}; echo fine; echo bad >&2", "--wait", "1h")
               for _ in range(10)]
    gate.wait_for()
    gate.open()
    ran = [jobs.end(one) for one in all_ten]
    assert {(one.returncode, one.stdout, one.stderr) for one in ran} == {(0, b"fine\n", b"bad\n")}
    assert jobs.effects() == 1


@hooks
def test_who_waits_longer_than_it_may_is_told_that_it_is_in_progress(jobs):
    gate = jobs.gate()
    first = jobs.start(f"{EFFECT}; {gate.waits}")
    gate.wait_for()
    second = jobs.end_later(jobs.start(f"{EFFECT}; {gate.waits}", "--wait", "3s"))
    assert second.returncode == 75 and 3 <= jobs.clock.offset < 15
    gate.open()
    assert jobs.end(first).returncode == 0 and jobs.effects() == 1


@hooks
def test_the_time_for_retries_begins_with_the_first_attempt_and_bounds_no_wait(jobs):
    """user_facing has ten seconds for all of its attempts."""
    gate = jobs.gate()
    script = f"{EFFECT}; test -e failed || {{ {gate.waits}; mv go failed; exit 3; }}; test -e done"
    jobs.write("go")
    first = jobs.start(script)
    gate.wait_for()
    second = jobs.start(script, "--wait", "1h", "--retry", "user_facing")
    for _ in range(4):
        jobs.clock.advance(30)
    assert second.poll() is None
    gate.open()
    assert jobs.end(first).returncode == 3
    eventually(lambda: jobs.effects() >= 2, "its first attempt")
    jobs.write("done")
    ran = jobs.end_later(second)
    assert ran.returncode == 0 and b"attempt 1: exit code 1; trying again" in ran.stderr


def test_who_waits_for_a_run_that_fails_runs_it_itself(jobs):
    gate = jobs.gate()
    script = f"{EFFECT}; test -e failed || {{ {gate.waits}; mv go failed; exit 3; }}; echo fine"
    jobs.write("go")
    first = jobs.start(script)
    gate.wait_for()
    second = jobs.start(script, "--wait", "1h")
    gate.open()
    assert jobs.end(first).returncode == 3
    ran = jobs.end(second)
    assert (ran.returncode, ran.stdout, jobs.effects()) == (0, b"fine\n", 2)


@hooks
def test_a_run_of_an_hour_stays_its_own_while_others_come(jobs):
    gate = jobs.gate()
    first = jobs.start(f"{EFFECT}; {gate.waits}; echo fine")
    gate.wait_for()
    for _ in range(8):
        jobs.clock.step(HOUR / 8)
        assert jobs.run(f"{EFFECT}; {gate.waits}; echo fine").returncode == 75
    gate.open()
    assert jobs.end(first).stdout == b"fine\n" and jobs.effects() == 1
    assert jobs.record()["status"] == "complete"


# ---- what a key is ----


def test_the_same_key_with_another_command_line_is_65_in_every_state(jobs):
    assert jobs.run("exit 5", "--final", "5", key="kept").returncode == 5
    assert jobs.run(EFFECT, key="kept").returncode == 65
    assert jobs.run("true", key="done").returncode == 0
    for other in (["sh", "-c", EFFECT], ["sh", "-c", "true", "x"], ["sh -c", "true"]):
        ran = jobs.run_words("--key", "done", *other)
        assert ran.returncode == 65 and b"another command line" in ran.stderr
        assert b"`pawl keys show --rule job done`" in ran.stderr
    assert "Command: sh -c true" in jobs.keys("show", "done").stdout
    gate = jobs.gate()
    first = jobs.start(gate.waits, key="held")
    gate.wait_for()
    assert jobs.run(EFFECT, key="held").returncode == 65
    gate.open()
    assert jobs.end(first).returncode == 0 and jobs.effects() == 0


def test_a_corrected_command_takes_the_place_of_one_that_failed(jobs):
    for wrong in (["nosuchcmd"], ["sh", "-c", "exit 3"], ["sh", "-c", "kill $$"]):
        assert jobs.run_words("--key", KEY, *wrong).returncode not in (0, 65)
    assert jobs.run(EFFECT).returncode == 0 and jobs.effects() == 1
    assert jobs.run_words("--key", KEY, "sh", "-c", "exit 3").returncode == 65
    assert jobs.run(EFFECT).returncode == 0 and jobs.effects() == 1


def test_the_folder_and_the_environment_are_not_compared(jobs):
    assert jobs.run(EFFECT).returncode == 0
    inner = jobs.folder / "inner"
    inner.mkdir()
    outer, jobs.folder = jobs.folder, inner
    assert jobs.run(EFFECT, MORE="x").returncode == 0
    jobs.folder = outer
    assert jobs.effects() == 1 and not (inner / "effects").exists()


def test_names_separate_keys(jobs):
    script = f"{EFFECT}; echo done"
    for name in ("a", "b/c", "a", "b/c"):
        assert jobs.run(script, "--name", name).returncode == 0
    assert jobs.run(f"{EFFECT}; echo other").returncode == 0
    assert jobs.effects() == 3
    listed = jobs.keys("list", "--json").stdout.splitlines()
    assert sorted(json.loads(line)["rule"] for line in listed) == ["a", "b/c", "job"]


def test_a_payload_takes_the_place_of_the_command_line(jobs):
    file = jobs.folder / "input"
    file.write_bytes(b"a")
    for script in (f"{EFFECT}; cat", f"{EFFECT}; cat; true"):
        ran = jobs.run(script, "--payload", "input")
        assert (ran.returncode, ran.stdout) == (0, b"")  # compared, and not given to it
    file.write_bytes(b"b")
    ran = jobs.run(f"{EFFECT}; cat", "--payload", "input")
    assert ran.returncode == 65 and b"payload" in ran.stderr and jobs.effects() == 1
    missing = jobs.run(EFFECT, "--payload", "nowhere", key="other")
    assert missing.returncode == 2 and b"nowhere" in missing.stderr and jobs.effects() == 1


def test_a_payload_from_standard_input_is_compared_and_given_to_the_command(jobs):
    def piped(script: str, given: bytes) -> tuple[int, bytes]:
        ran = jobs.end(jobs.start(script, "--payload", "-", stdin=-1), given)
        return ran.returncode, ran.stdout

    large = bytes(range(256)) * 2000
    assert piped(f"{EFFECT}; cat", large) == (0, large)
    assert piped(f"{EFFECT}; cat; true", large) == (0, large)
    assert piped(f"{EFFECT}; cat", large + b"x") == (65, b"")
    assert jobs.effects() == 1


def test_an_ignored_payload_compares_nothing(jobs):
    assert jobs.run(f"{EFFECT}; echo a", "--payload", "ignore").stdout == b"a\n"
    assert jobs.run(f"{EFFECT}; echo b", "--payload", "ignore").stdout == b"a\n"
    assert jobs.effects() == 1


# ---- final failures, and once more ----


def test_final_codes_are_kept_with_their_output_and_replayed(jobs):
    script = f"{EFFECT}; echo out; echo err >&2; exit 66"
    first = jobs.run(script, "--final", "2,64-78", "--retry", "scheduled")
    second = jobs.run(script, "--final", "2,64-78")
    assert (first.returncode, first.stdout, first.stderr) == (66, b"out\n", b"err\n")
    assert (second.returncode, second.stdout, second.stderr) == (66, b"out\n", b"err\n")
    assert jobs.effects() == 1 and jobs.record()["status"] == "failed"
    assert jobs.run(script).returncode == 66 and jobs.effects() == 1  # kept, whoever asks
    assert jobs.run(f"{EFFECT}; exit 79", "--final", "2,64-78", key="k").returncode == 79
    assert jobs.record("k")["status"] == "pending"


@pytest.mark.parametrize("code", [1, 2, 124, 128, 137, 255])
def test_under_final_all_every_failure_is_kept(jobs, code):
    for _ in range(2):
        assert jobs.run(f"{EFFECT}; exit {code}", "--final", "all").returncode == code
    assert jobs.effects() == 1 and jobs.record()["status"] == "failed"


def test_under_final_all_a_command_that_could_not_be_run_is_released(jobs):
    for code in (126, 127):
        for _ in range(2):
            ran = jobs.run(f"{EFFECT}; exit {code}", "--final", "all", key=str(code))
            assert ran.returncode == code
    assert jobs.effects() == 4 and jobs.record("126")["status"] == "pending"
    for words, code in ((["./nowhere"], 127), (["/dev/null"], 126)):
        ran = jobs.run_words("--key", words[0], "--final", "all", "--retry", "scheduled", *words)
        assert ran.returncode == code and b"pawl: cannot run " in ran.stderr
        assert jobs.record(words[0])["attempts"] == 1
    jobs.write("nowhere", "#!/bin/sh\necho here\n")
    (jobs.folder / "nowhere").chmod(0o755)
    assert jobs.run_words("--key", "./nowhere", "./nowhere").stdout == b"here\n"


def test_again_runs_it_once_more_and_the_audit_says_why(jobs):
    script = f"{EFFECT}; wc -l < effects"
    first = jobs.run(script)
    again = jobs.run(script, "--again", "--reason", "offers were wrong")
    assert (first.stdout.strip(), again.stdout.strip(), again.returncode) == (b"1", b"2", 0)
    assert jobs.run(script).stdout == again.stdout and jobs.effects() == 2
    audit = [json.loads(line) for line in jobs.keys("audit", "--json").stdout.splitlines()]
    assert [(one["act"], one["key"], one["reason"]) for one in audit] == \
        [("forget", KEY, "offers were wrong")]
    assert "offers were wrong" in jobs.keys("audit").stdout


def test_again_runs_a_kept_failure_once_more_and_what_was_never_run_too(jobs):
    script = f"{EFFECT}; test -e fixed"
    assert jobs.run(script, "--again").returncode == 1
    assert jobs.run(script, "--final", "all").returncode == 1
    jobs.write("fixed")
    assert jobs.run(script).returncode == 1 and jobs.effects() == 2
    assert jobs.run(script, "--again").returncode == 0 and jobs.effects() == 3


def test_again_runs_another_command_line_in_place_of_one_that_failed_for_good(jobs):
    assert jobs.run("exit 3", "--final", "3").returncode == 3
    refused = jobs.run(EFFECT)
    assert refused.returncode == 65 and b"--again" in refused.stderr
    assert jobs.run(EFFECT, "--again", "--reason", "typo").returncode == 0
    assert jobs.run(EFFECT).returncode == 0 and jobs.effects() == 1


def test_again_leaves_alone_what_is_in_progress(jobs):
    gate = jobs.gate()
    first = jobs.start(f"{EFFECT}; {gate.waits}")
    gate.wait_for()
    assert jobs.run(f"{EFFECT}; {gate.waits}", "--again").returncode == 75
    gate.open()
    assert jobs.end(first).returncode == 0 and jobs.effects() == 1


def test_a_key_that_was_forgotten_runs_again_and_the_audit_says_why(jobs):
    jobs.run(EFFECT)
    forgot = jobs.keys("forget", KEY, "--reason", "by mistake")
    assert forgot.returncode == 0 and "by mistake" in jobs.keys("audit").stdout
    assert jobs.run(EFFECT).returncode == 0 and jobs.effects() == 2


def test_a_reason_without_an_act_is_refused(jobs):
    ran = jobs.run(EFFECT, "--reason", "x")
    assert ran.returncode == 2 and b"--again" in ran.stderr and jobs.effects() == 0


# ---- for how long ----


@hooks
def test_it_is_remembered_for_24_hours_from_its_end(jobs):
    assert jobs.run(EFFECT).returncode == 0
    jobs.clock.advance(24 * HOUR - 60)
    assert jobs.run(EFFECT).returncode == 0 and jobs.effects() == 1
    jobs.clock.advance(120)
    assert jobs.run(EFFECT).returncode == 0 and jobs.effects() == 2


@hooks
@pytest.mark.parametrize("name, days", [("date", 2), ("week", 8)])
def test_a_date_or_a_week_is_remembered_until_it_is_over(jobs, name, days):
    key = f"{{{name}:UTC}}"
    at = ("--at", "2026-02-19T22:00:00Z")
    jobs.run(EFFECT, *at, key=key)
    jobs.clock.advance(days * 86400 - 60)
    jobs.run(EFFECT, *at, key=key)
    assert jobs.effects() == 1
    jobs.clock.advance(120)
    jobs.run(EFFECT, *at, key=key)
    assert jobs.effects() == 2


@hooks
def test_a_ttl_is_kept_and_forever_is_forever(jobs):
    jobs.run(EFFECT, "--ttl", "1h", key="short")
    jobs.run(EFFECT, "--ttl", "forever", key="long")
    jobs.clock.advance(HOUR + 60)
    jobs.run(EFFECT, key="short")
    assert jobs.effects() == 3
    for _ in range(3):
        jobs.clock.advance(10 * 365 * 24 * HOUR)
        assert jobs.run(EFFECT, key="long").returncode == 0
    assert jobs.effects() == 3


@hooks
def test_a_window_counts_from_the_first_begin(jobs):
    gate = jobs.gate()
    process = jobs.start(f"{EFFECT}; {gate.waits}", key="{window:1h}k")
    gate.wait_for()
    jobs.clock.step(HOUR / 2)
    gate.open()
    assert jobs.end(process).returncode == 0
    jobs.clock.advance(HOUR / 2 - 60)
    assert jobs.run(f"{EFFECT}; {gate.waits}", key="{window:1h}k").returncode == 0
    assert jobs.effects() == 1
    jobs.clock.advance(120)
    gate.open()
    assert jobs.run(f"{EFFECT}; {gate.waits}", key="{window:1h}k").returncode == 0
    assert jobs.effects() == 2


@hooks
def test_a_key_without_at_is_that_of_the_start(jobs):
    jobs.run(EFFECT, key="{hour}")
    jobs.clock.advance(HOUR)
    jobs.run(EFFECT, key="{hour}")
    assert jobs.effects() == 2


# ---- the store ----


def test_a_store_that_cannot_be_opened_is_69_and_nothing_is_run(jobs):
    ran = jobs.run(EFFECT, "--store", "/dev/null/pawl.db")
    assert ran.returncode == 69 and ran.stderr.startswith(b"pawl: ") and jobs.effects() == 0


def test_a_run_on_the_store_of_a_running_gateway_is_once_too(jobs, pawl):
    gateway = pawl()
    for _ in range(2):
        assert jobs.run(EFFECT, "--store", gateway.store).returncode == 0
    assert jobs.effects() == 1
    shown = run("keys", "show", KEY, "--json", "--store", gateway.store)
    assert json.loads(shown.stdout)["status"] == "complete"
