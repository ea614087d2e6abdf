# SPDX-License-Identifier: Apache-2.0
"""`pawl each` while it runs: how many at a time, in which order, how often again, and how it stops.
Commands wait at gates (FIFOs) that the test opens; delays pass by the test's clock."""
from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from pawltest.each import EFFECT, HELD, Each, lines, shell
from pawltest.gateway import Clock
from pawltest.wire import eventually

pytestmark = pytest.mark.file_only

hooks = pytest.mark.hooks
FAIL = 'echo "$1" >> "$JOURNAL"; exit 3'
FAIL_B = 'echo "$1" >> "$JOURNAL"; test "$1" != b'


@pytest.fixture
def each(tmp_path: Path, clock: Clock) -> Each:
    return Each(tmp_path, clock)


# ---- how many at a time ----


@pytest.mark.parametrize("jobs", [1, 3])
def test_n_commands_run_at_once_and_never_more(each, jobs):
    names = [f"i{n}" for n in range(7)]
    each.hold(*names)
    process = each.start("-j", jobs, *shell(HELD), items=lines(names))
    assert sorted(each.begun(jobs)) == names[:jobs]
    for n, name in enumerate(names, 1):
        each.let_go(name)
        each.begun(min(n + jobs, len(names)))
    assert each.end(process).returncode == 0
    assert each.running_most() == jobs and sorted(each.begun(7)) == names


def test_items_of_a_group_run_one_after_the_other_in_order_and_others_go_on(each):
    names = ["x1", "x2", "y1", "x3", "y2", "z1"]
    each.hold(*names)
    process = each.start("--csv", "-j", "6", "--group", "{g}", *shell(HELD, "{id}"), key="{id}",
                         items="id,g\n" + lines(f"{name},{name[0]}" for name in names))
    assert sorted(each.begun(3)) == ["x1", "y1", "z1"]
    each.let_go("y1")
    assert each.begun(4)[-1] == "y2"
    each.let_go("x1")
    assert each.begun(5)[-1] == "x2"
    each.let_go("x2")
    assert each.begun(6)[-1] == "x3"
    each.let_go("x3", "y2", "z1")
    assert each.end(process).returncode == 0


def test_the_next_one_of_a_group_runs_although_one_has_failed(each):
    ran = each.run("-j", "4", "--csv", "--group", "{g}", *shell(FAIL_B, "{id}"), key="{id}",
                   items="id,g\na,1\nb,1\nc,1\nd,1\n")
    assert ran.returncode == 1 and each.effects == ["a", "b", "c", "d"]
    assert ran.last == "pawl: 4 items: 3 run, 1 failed"


def test_an_empty_group_is_none(each):
    each.hold("a", "b")
    process = each.start("--csv", "-j", "2", "--group", "{g}", *shell(HELD, "{id}"), key="{id}",
                         items="id,g\na,\nb,\n")
    assert sorted(each.begun(2)) == ["a", "b"]
    each.let_go("a", "b")
    assert each.end(process).returncode == 0


@hooks
def test_no_more_begin_a_second_than_the_rate_says(each):
    began = each.now
    process = each.start("-j", "5", "--rate", "2/s", *shell(EFFECT), items=lines(range(9)))
    each.clock.run_until(lambda: process.poll() is not None)
    assert each.now - began >= 4 and each.end(process).returncode == 0
    assert sorted(each.effects) == list("012345678")


# ---- items as they come ----


def test_items_run_as_they_come(each):
    process = each.start(*shell(EFFECT))
    for n, name in enumerate(("a", "b", "c"), 1):
        process.stdin.write(f"{name}\n".encode())
        process.stdin.flush()
        eventually(lambda n=n: len(each.effects) == n, f"the effect of {name}")
    process.stdin.write(b"without its end")
    assert each.end(process).returncode == 0
    assert each.effects == ["a", "b", "c", "without its end"]


def test_items_that_come_with_the_end_of_the_input_are_run(each):
    """Though nothing else is left to do while they are looked up."""
    for round_ in range(10):
        process = each.start(*shell(EFFECT))
        process.stdin.write(f"first {round_}\n".encode())
        process.stdin.flush()
        eventually(lambda n=round_: f"first {n}" in each.effects, "the first effect")
        ran = each.end(process, f"last {round_}")
        assert (ran.returncode, each.effects[-1]) == (0, f"last {round_}"), ran


def test_a_column_that_is_not_there_is_said_as_soon_as_the_header_is_known(each):
    process = each.start("--csv", *shell(EFFECT, "{emial}"), key="{id}")
    process.stdin.write(b"id,email\n1,")
    process.stdin.flush()
    assert process.wait(30) == 65
    ran = each.end(process)
    assert "did you mean {email}?" in ran.stderr and not each.effects


# ---- failures ----


def test_a_failed_item_is_run_again_by_the_next_run_and_the_others_are_not(each):
    first = each.run(*shell(FAIL_B), items="a\nb\nc\n")
    assert first.returncode == 1 and first.last == "pawl: 3 items: 2 run, 1 failed"
    assert "pawl: item 2 (key b): exit code 1\n" in first.stderr
    again = each.run(*shell(FAIL_B), items="a\nb\nc\n")
    assert again.last == "pawl: 3 items: 0 run, 2 done before, 1 failed"
    assert each.effects == ["a", "b", "c", "b"]


def test_fail_fast_starts_nothing_more_after_a_failure(each):
    ran = each.run("--fail-fast", *shell(FAIL_B), items="a\nb\nc\nd\n")
    assert ran.returncode == 1 and each.effects == ["a", "b"]
    assert ran.last.startswith("pawl: 4 items: 1 run, 1 failed, 2 left")


def test_fail_fast_lets_end_what_runs(each):
    each.hold("a")
    script = f'case $1 in b) echo fails >> "$JOURNAL"; exit 1;; esac; {HELD}'
    process = each.start("-j", "2", "--fail-fast", *shell(script), items="a\nb\nc\n")
    eventually(lambda: "fails" in each.effects)
    each.let_go("a")
    ran = each.end(process)
    assert ran.returncode == 1 and each.effects[-1] == "end a" and "begin c" not in each.effects


@pytest.mark.parametrize("final, code, again", [("3", 3, 1), ("1,64-78", 70, 1), ("all", 9, 1),
                                                ("4", 3, 2)])
def test_final_codes_are_kept_and_the_item_is_not_run_again(each, final, code, again):
    script = f'echo "$1" >> "$JOURNAL"; exit {code}'
    for _ in range(2):
        ran = each.run("--final", final, "--json", *shell(script), items="a\n")
        assert ran.returncode == 1 and ran.results == {"a": "failed"}
    assert len(each.effects) == again
    if again == 1:
        said = each.run("--final", final, *shell(script), items="a\n")
        assert "item 1 (key a): failed for good in an earlier run (--final)" in said.stderr


@hooks
def test_retry_runs_it_again_by_the_profile_and_others_go_on_meanwhile(each):
    """One that has succeeded once its second attempt is made."""
    script = 'echo "$1" >> "$JOURNAL"; test "$1" != a || test "$PAWL_ATTEMPT" = 2'
    process = each.start("--retry", "api", "--json", *shell(script), items="a\nb\nc\n")
    eventually(lambda: {"b", "c"} <= set(each.effects), "the others")
    assert each.effects[0] == "a"
    each.clock.run_until(lambda: process.poll() is not None)
    ran = each.end(process)
    assert ran.returncode == 0 and sorted(each.effects) == ["a", "a", "b", "c"]
    assert {line["key"]: line["attempts"] for line in ran.lines} == {"a": 2, "b": 1, "c": 1}


@hooks
def test_while_an_item_waits_for_its_next_attempt_its_group_waits_and_its_slot_does_not(each):
    script = 'echo "$1" >> "$JOURNAL"; test "$1" != x1 || test "$PAWL_ATTEMPT" = 2'
    process = each.start("--retry", "api", "--csv", "--group", "{g}", *shell(script, "{id}"),
                         key="{id}", items="id,g\nx1,x\nx2,x\ny1,y\n")
    eventually(lambda: "y1" in each.effects, "the other group")
    each.clock.run_until(lambda: process.poll() is not None)
    assert each.end(process).returncode == 0
    assert [name for name in each.effects if name[0] == "x"] == ["x1", "x1", "x2"]


@hooks
def test_an_attempt_ends_after_its_time_with_all_that_it_started(each):
    each.hold("a")
    script = f'( {HELD} ) & wait'
    process = each.start("--timeout", "1s", "--json", *shell(script), items="a\n")
    each.begun(1)
    each.clock.run_until(lambda: process.poll() is not None, step=2)
    ran = each.end(process)
    assert ran.returncode == 1 and ran.lines[0]["exit_code"] == 124
    assert "--timeout" in ran.lines[0]["problem"] and each.effects == ["begin a"]


# ---- signals ----


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_starts_nothing_more_and_lets_end_what_runs(each, number):
    each.hold("a", "b")
    process = each.start("-j", "2", *shell(HELD), items="a\nb\nc\nd\n")
    each.begun(2)
    process.send_signal(number)
    assert b"stopping: what runs goes on" in process.stderr.readline()
    each.let_go("b", "a")
    ran = each.end(process)
    assert ran.returncode == 75 and ran.last.startswith("pawl: 4 items: 2 run, 2 left")
    assert sorted(each.effects[2:]) == ["end a", "end b"]
    again = each.run(*shell(EFFECT.replace("$1", "again $1")), items="a\n")
    assert again.returncode == 65, "a is done"


def test_a_signal_ends_the_wait_for_input(each):
    process = each.start(*shell(EFFECT))
    process.stdin.write(b"a\n")
    process.stdin.flush()
    eventually(lambda: each.effects == ["a"])
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 75
    assert each.end(process).last == "pawl: 1 item: 1 run, the rest of the input not read"


def test_a_second_signal_kills_what_runs(each):
    each.hold("a")
    process = each.start(*shell(f'trap "" INT TERM; ( {HELD} )'), items="a\nb\n")
    each.begun(1)
    process.send_signal(signal.SIGINT)
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    ran = each.end(process)
    assert ran.returncode == 1 and each.effects == ["begin a"]
    assert "item 1 (key a): ended by signal 9" in ran.stderr


@hooks
def test_a_signal_ends_the_wait_for_the_next_attempt(each):
    process = each.start("--retry", "api", *shell(FAIL), items="a\n")
    eventually(lambda: each.effects == ["a"])
    eventually(lambda: not each.counters().get("run"))
    process.send_signal(signal.SIGINT)
    ran = each.end(process)
    assert ran.returncode in (1, 75) and each.effects == ["a"]


# ---- in progress elsewhere, in doubt ----


def run_elsewhere(each: Each, name: str) -> subprocess.Popen[bytes]:
    """`pawl run` of the same command under the same key, which waits at its gate."""
    process = each.pawl("run", "--key", name, *shell(HELD, name))
    eventually(lambda: f"begin {name}" in each.effects, f"{name} elsewhere")
    return process


def test_an_item_in_progress_elsewhere_is_looked_at_again_at_the_end(each):
    each.hold("a")
    other = run_elsewhere(each, "a")
    script = f'case $1 in a) ;; *) {EFFECT}; exit;; esac; {HELD}'
    process = each.start("--json", "--payload", "ignore", *shell(script), items="a\nb\nc\n")
    eventually(lambda: each.effects == ["begin a", "b", "c"], "the others")
    each.let_go("a")
    ran = each.end(process)
    assert each.end(other).returncode == 0 and ran.returncode == 0
    assert ran.results == {"a": "skipped", "b": "run", "c": "run"}
    assert each.effects == ["begin a", "b", "c", "end a"]


def bytes_read(process: subprocess.Popen[bytes], name: str) -> int:
    """How far it has read a file."""
    for fd in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since
            if os.readlink(fd).endswith(name):
                return int(Path(f"/proc/{process.pid}/fdinfo/{fd.name}").read_text().split()[1])
    return 0


def test_more_items_in_progress_elsewhere_than_are_held_are_looked_at_before_the_end(each):
    each.hold("a")
    other = run_elsewhere(each, "a")
    long = "x" * 900_000
    rows = [f"a,{i}{long}" for i in range(80)] + ["b,"]  # 80 of them are more than 64 MiB
    each.directory.joinpath("list.csv").write_text("\n".join(["id,text", *rows]) + "\n")
    process = each.start("--json", "--csv", "-a", "list.csv", "--payload", "ignore",
                         *shell(EFFECT, "{id}"), items="", key="{id}")
    eventually(lambda: bytes_read(process, "list.csv") > 64 << 20, "all that is held")
    each.let_go("a")
    ran = each.end(process)
    assert each.end(other).returncode == 0 and ran.returncode == 0
    assert ran.sum["skipped"] == 80 and ran.sum["run"] == 1
    assert each.effects == ["begin a", "end a", "b"]


def test_the_next_one_of_a_group_waits_for_one_that_is_in_progress_elsewhere(each):
    each.hold("a1")
    other = run_elsewhere(each, "a1")
    process = each.start("--csv", "-j", "3", "--group", "{g}", "--payload", "ignore",
                         *shell(EFFECT, "{id}"), key="{id}",
                         items="id,g\na1,a\na2,a\nb1,b\na3,a\n")
    eventually(lambda: "b1" in each.effects, "the other group")
    each.let_go("a1")
    ran = each.end(process)
    assert each.end(other).returncode == 0 and ran.returncode == 0
    assert each.effects == ["begin a1", "b1", "end a1", "a2", "a3"]


def test_an_item_whose_other_run_fails_is_run(each):
    each.hold("a")
    script = f'{HELD}; test "$PAWL_ATTEMPT" = 2'
    other = each.pawl("run", "--key", "a", *shell(script, "a"))
    each.begun(1)
    process = each.start("--json", *shell(script), items="a\n")
    each.let_go("a")
    each.begun(2)
    each.let_go("a")
    assert each.end(other).returncode == 1
    ran = each.end(process)
    assert ran.returncode == 0 and ran.results == {"a": "run"} and each.running_most() == 1


def test_a_signal_ends_the_look_at_an_item_in_progress_elsewhere(each):
    each.hold("a")
    other = run_elsewhere(each, "a")
    script = f'case $1 in a) {HELD};; *) {EFFECT};; esac'
    process = each.start("--payload", "ignore", *shell(script), items="a\nb\n")
    eventually(lambda: "b" in each.effects, "the other item")
    process.send_signal(signal.SIGINT)
    ran = each.end(process)
    assert ran.returncode == 75 and "1 left" in ran.last
    each.let_go("a")
    assert each.end(other).returncode == 0


def kill_with_its_command(each: Each, process: subprocess.Popen[bytes], name: str) -> None:
    process.kill()
    each.end(process)
    each.let_go(name)
    eventually(lambda: f"end {name}" in each.effects, "the end of the command")


@hooks
def test_what_a_kill_left_in_doubt_is_run_again(each, clock):
    each.hold("a")
    process = each.start(*shell(HELD), items="a\n")
    each.begun(1)
    kill_with_its_command(each, process, "a")
    clock.advance(16)
    process = each.start(*shell(HELD), items="a\n")
    each.begun(2)
    each.let_go("a")
    assert each.end(process).returncode == 0


@hooks
def test_under_hold_what_a_kill_left_in_doubt_is_76_and_not_run(each, clock):
    each.hold("a")
    words = ["--unknown", "hold", *shell(f'test "$1" != a || {{{{ {HELD}; }}')]
    process = each.start(*words, items="a\nb\n")
    each.begun(1)
    kill_with_its_command(each, process, "a")
    clock.advance(16)
    ran = each.run(*words, items="a\nb\n")
    assert ran.returncode == 76 and ran.last == "pawl: 2 items: 1 run, 1 in doubt"
    assert re.search(r"item 1 \(key a, token \d+\): may have been done", ran.stderr)
    assert each.effects == ["begin a", "end a"] and each.counters()["doubt"] == 1


@hooks
@pytest.mark.parametrize("code, results, effects", [
    (0, {"a": "run"}, 1), (1, {"a": "run"}, 2), (7, {"a": "doubt"}, 1)])
def test_a_probe_says_what_became_of_it(each, clock, code, results, effects):
    each.hold("a")
    script = f'test "$PAWL_ATTEMPT" = 1 || {{{{ {EFFECT}; exit; }}; {HELD}'
    probe = f'probe:test "$PAWL_KEY" = a && exit {code}'
    process = each.start("--unknown", probe, *shell(script), items="a\n")
    each.begun(1)
    kill_with_its_command(each, process, "a")
    clock.advance(16)
    ran = each.run("--unknown", probe, "--json", *shell(script), items="a\n")
    assert ran.results == results and ran.returncode == (76 if code == 7 else 0)
    assert len(each.effects) == effects + 1


# ---- exit codes ----


FAULTS = {"malformed": 65, "doubt": 76, "failed": 1}


@hooks
@pytest.mark.parametrize("faults", [("malformed", "doubt", "failed"), ("doubt", "failed"),
                                    ("failed",), ("malformed", "failed"), ("malformed",),
                                    ("doubt",), ()])
def test_of_several_exit_codes_the_gravest_counts(each, clock, faults):
    """65 before 76 before 1 before 75 and 0."""
    each.hold("d")
    script = f'case $1 in f) exit 1;; g) exit 0;; esac; {HELD}'
    words = ["--csv", "--unknown", "hold", *shell(script, "{id}")]
    process = each.start(*words, key="{id}", items="id\nd\n")
    each.begun(1)
    kill_with_its_command(each, process, "d")
    clock.advance(16)
    rows = {"malformed": "x,y", "doubt": "d", "failed": "f"}
    items = lines(["id", "g", *(rows[fault] for fault in faults)])
    assert each.run(*words, key="{id}", items=items).returncode == \
        (FAULTS[faults[0]] if faults else 0)


def test_items_that_failed_count_before_those_that_are_left(each):
    each.hold("a")
    process = each.start(*shell(f'{HELD}; exit 1'), items="a\nb\n")
    each.begun(1)
    process.send_signal(signal.SIGINT)
    process.stderr.readline()
    each.let_go("a")
    assert each.end(process).returncode == 1


@hooks
def test_a_store_that_has_stopped_is_74(each):
    each.run(*shell(EFFECT), items="first\n")
    ran = each.run(*shell("exit 1"), items="x,y\nb\n", PAWL_STORE_FAULTS="sync:io:3")
    assert ran.returncode == 74 and "disk error" in ran.stderr, ran
    assert "1 in doubt" in ran.last


USAGE = [
    (["--", "true"], "--key"), (["--key", "{}"], "needs a CMD, or --send"),
    (["--key", "all", "--", "true"], "must name the item"),
    (["--key", "{date:UTC}", "--", "true"], "must name the item"),
    (["--key", "{}", "-0", "--csv", "--", "true"], "exclude each other"),
    (["--key", "{}", "--csv", "--jsonl", "--", "true"], "exclude each other"),
    (["--key", "{}", "--send", "POST http://h/", "--", "true"], "--send takes no CMD"),
    (["--key", "{}", "-d", "x", "--", "true"], "belong to --send"),
    (["--key", "{}", "-H", "A: b", "--", "true"], "belong to --send"),
    (["--key", "{}", "--send", "POST http://h/", "--unknown", "probe:true"], "takes no --unknown"),
    (["--key", "{}", "--send", "POST http://h/", "--timeout", "1s"], "--max-time"),
    (["--key", "{}", "--send", "P T h"], "METHOD"), (["--key", "{}", "--send", "P@ST h"], "METHOD"),
    (["--key", "{}", "--keep-going", "--fail-fast", "--", "true"], "exclude each other"),
    (["--key", "{}", "--json", "-n", "--", "true"], "exclude each other"),
    (["--key", "{}", "--payload", "x", "--", "true"], "must be ignore"),
    (["--key", "{}", "--rate", "0", "--", "true"], "--rate wants"),
    (["--key", "{}", "--rate", "5/d", "--", "true"], "--rate wants"),
    (["--key", "{}", "--rate", "5/", "--", "true"], "--rate wants"),
    (["--key", "{}", "--group", "g", "--", "true"], "--group must name a part of the item"),
    (["--key", "{}", "--", "echo", "{env:NOT_SET}"], "NOT_SET is not set"),
    (["--key", "{}", "--send", "post http://h/{}"], "capital letters"),
    (["--key", "{}", "--send", "POST htp://h/{}"], "http://"),
    (["--key", "{}", "--send", "POST http://h/{}", "-H", "Connection: {}"], "set by pawl"),
    (["--key", "{}", "--send", "POST http://h/", "-d", "@/nowhere/x"], "cannot read /nowhere/x"),
    (["--key", "{}", "-j", "0", "--", "true"], "-j|jobs"),
    (["--key", "{}", "--final", "0", "--", "true"], "--final wants"),
    (["--key", "{}", "--retry", "apj", "--", "true"], "api"),
    (["--key", "{}", "--name", "a b", "--", "true"], "--name"),
    (["--key", "{}", "--at", "2026-02-19T22:00:00", "--", "true"], "distance from UTC"),
    (["--key", "{}{date:Mars/Base}", "--", "true"], "Mars/Base|character"),
    (["--key", "{}", "--joblog", "/nowhere/x", "--", "true"], "cannot write /nowhere/x"),
    (["--key", "{}", "--failed-to", "/nowhere/x", "--", "true"], "cannot write /nowhere/x"),
    (["--key", "{}", "--wait", "1s", "--", "true"], "--wait"),
]


@pytest.mark.parametrize("words, says", USAGE)
def test_what_cannot_be_meant_is_2_and_nothing_is_run(each, words, says):
    Path(each.store).unlink()
    ran = each.end(each.pawl("each", *words, stdin=subprocess.PIPE), "a\n")
    assert ran.returncode == 2 and re.search(says, ran.stderr), ran.stderr
    assert not Path(each.store).exists()
