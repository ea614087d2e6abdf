# SPDX-License-Identifier: Apache-2.0
"""`pawl each`: what it writes. Output of its commands, lines of --json, the job log, the items that
failed, progress; and what its commands find when they start."""
from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pawltest.each import EFFECT, HELD, Each, lines, shell
from pawltest.gateway import PAWL, Clock
from pawltest.wire import eventually

pytestmark = pytest.mark.file_only

# As GNU parallel 20221122 writes it.
JOBLOG = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand"


@pytest.fixture
def each(tmp_path: Path, clock: Clock) -> Each:
    return Each(tmp_path, clock)


# ---- output of commands ----


def test_output_and_errors_of_commands_are_printed_in_whole_lines(each):
    script = 'for i in 1 2 3 4 5 6 7 8 9; do printf "$1 "; printf "out $i\\n"; ' \
             'printf "$1 err " >&2; echo $i >&2; done; printf "$1 end"'
    ran = each.run("-j", "8", "-s", *shell(script), items=lines(range(16)))
    assert ran.returncode == 0
    for n in range(16):
        mine = re.findall(rf"(?:^|(?<=end)){n} out (\d)$", ran.stdout, re.M)
        assert mine == list("123456789"), ran.stdout
        assert re.findall(rf"^{n} err (\d)$", ran.stderr, re.M) == mine
    assert len(re.findall(r"\d+ end", ran.stdout)) == 16 and len(ran.stderr.splitlines()) == 144


def test_output_is_printed_as_it_comes(each):
    each.hold("a")
    process = each.start(*shell(f'echo hello; echo "half"; {HELD}'), items="a\n")
    assert process.stdout.readline() + process.stdout.readline() == b"hello\nhalf\n"
    each.let_go("a")
    assert each.end(process).returncode == 0


def test_long_lines_and_binary_output_arrive_byte_for_byte(each):
    data = b"".join(bytes([n % 256]) * (n * 37 % 1000) for n in range(4000))
    assert b"\0" in data and max(map(len, data.split(b"\n"))) > 1 << 17
    (each.directory / "data").write_bytes(data)
    process = each.start("--", "sh", "-c", "cat data; cat data >&2", items="a\n")
    out, err = process.communicate(timeout=60)
    each.clock.processes.remove(process)
    assert out == data and err == data + b"pawl: 1 item: 1 run\n"


def test_long_lines_of_several_commands_mix_in_large_pieces_at_most(each):
    script = 'head -c 300000 /dev/zero | tr "\\0" "$1"; echo'
    ran = each.run("-j", "4", *shell(script), items="a\nb\nc\nd\n")
    assert {name: ran.stdout.count(name) for name in "abcd"} == dict.fromkeys("abcd", 300000)
    pieces = [match.group() for match in re.finditer(r"a+|b+|c+|d+", ran.stdout)]
    assert sum(len(piece) < 60000 for piece in pieces) <= 4


def test_a_reader_that_has_gone_ends_no_command(each):
    process = each.start("-j", "2", *shell(f'{EFFECT}; yes "$1" | head -c 200000; echo "done $1" '
                                           '>> "$JOURNAL"'), items="a\nb\nc\n")
    process.stdout.close()
    process.stdout = None
    eventually(lambda: process.poll() is not None, "its end")
    each.clock.processes.remove(process)
    assert process.wait() == 0 and sorted(each.effects) == ["a", "b", "c", "done a", "done b",
                                                            "done c"]
    process.stderr.close()


def test_a_reader_that_is_slow_holds_up_and_loses_nothing(each):
    process = each.start("-j", "4", *shell('yes "$1" | head -c 1000000'), items=lines("abcdefgh"))
    assert os.read(process.stdout.fileno(), 1) and process.poll() is None
    ran = each.end(process)
    assert ran.returncode == 0 and len(ran.stdout) == 8 * 1_000_000 - 1


def test_what_cannot_be_written_is_said_and_every_item_is_run(each):
    with open("/dev/full", "wb") as full:
        process = subprocess.run(
            [str(PAWL.resolve()), "each", "--store", each.store, "--key", "{}", *shell(
                f"{EFFECT}; echo out")], input=b"a\nb\n", stdout=full, stderr=subprocess.PIPE,
            env={**os.environ, "JOURNAL": str(each.journal)}, timeout=60, check=False)
    assert process.returncode == 75 and b"cannot write the output: No space" in process.stderr
    assert each.effects == ["a", "b"]


# ---- what commands find ----


def test_commands_read_nothing_and_have_no_terminal(each):
    """Also where pawl itself has one."""
    script = 'cat; readlink /proc/self/fd/0; (exec 3</dev/tty) 2>&- || echo no terminal'
    main, side = pty.openpty()
    process = subprocess.Popen(
        [str(PAWL.resolve()), "each", "--store", each.store, "--key", "{}", "-a", "items",
         *shell(script)], stdin=side, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        cwd=each.directory, start_new_session=True,
        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0))
    os.close(side)
    os.write(main, b"typed\n")
    (each.directory / "items").write_text("a\n")
    out = process.communicate(timeout=60)[0]
    os.close(main)
    assert out == b"/dev/null\nno terminal\n"


def test_commands_inherit_three_descriptors_and_no_signal_that_is_blocked_or_ignored(each):
    script = ('ls /proc/self/fd | tr "\\n" " "; '
              'grep -E "^Sig(Blk|Ign)" /proc/self/status | tr "\\n" " "')
    ran = each.run("-j", "4", *shell(script), items="a\nb\nc\nd\n")
    for one in re.findall(r"0 1 2 3 SigBlk:\s*(\w+) SigIgn:\s*(\w+) ", ran.stdout):
        assert int(one[0], 16) == 0 and int(one[1], 16) & 1 << signal.SIGPIPE - 1 == 0
    assert ran.stdout.count("SigBlk") == ran.stdout.count("0 1 2 3 SigBlk") == 4, ran.stdout


def test_no_descriptor_is_left_open_after_an_item(each):
    process = each.start("-j", "2", *shell(EFFECT))
    counts = []
    for round_ in range(3):
        process.stdin.write(lines(f"{round_}-{n}" for n in range(100)).encode())
        process.stdin.flush()
        eventually(lambda n=100 * (round_ + 1): len(each.effects) == n)
        eventually(lambda: not children(process.pid))
        counts.append(len(os.listdir(f"/proc/{process.pid}/fd")))
    assert counts[2] <= counts[0] + 2, counts
    assert each.end(process).returncode == 0


def children(pid: int) -> str:
    return "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))


def test_commands_find_key_token_and_attempt_in_their_environment(each):
    ran = each.run("--", "sh", "-c", 'echo "$PAWL_KEY,$IDEMPOTENCY_KEY,$PAWL_ATTEMPT,$PAWL_TOKEN"',
                   items="a\n", key="k:{}")
    assert re.fullmatch(r"k:a,k:a,1,\d+\n", ran.stdout), ran


def test_a_command_that_does_not_exist_fails_each_item_and_says_why(each):
    ran = each.run("--json", "--", "./no-such-command", items="a\nb\n")
    assert ran.returncode == 1 and ran.sum["failed"] == 2
    assert {line["exit_code"] for line in ran.lines} == {127}
    assert "No such file" in ran.lines[0]["problem"]
    (each.directory / "no-such-command").write_text("#!/bin/sh\nexit 0\n")
    (each.directory / "no-such-command").chmod(0o755)
    assert each.run("--", "./no-such-command", items="a\nb\n").returncode == 0


# ---- --json ----


def test_json_is_a_line_for_each_item_and_their_sum(each):
    each.run(*shell(EFFECT), items="old\n")
    each.journal.unlink()
    ran = each.run("--json", "--payload", "ignore", items="a\nb\nold\n",
                   *shell(f'echo noise; {EFFECT}; test "$1" != b'))
    a, b, old = sorted(ran.lines, key=lambda line: line["item"])
    assert (a["item"], a["key"], a["result"]) == (1, "a", "run")
    assert (a["exit_code"], a["attempts"]) == (0, 1)
    assert (b["result"], b["exit_code"]) == ("failed", 1)
    assert old == {"item": 3, "key": "old", "result": "skipped"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", a["started_at"])
    assert isinstance(a["took_ms"], int) and a["took_ms"] >= 0
    assert ran.sum == {"items": 3, "run": 1, "skipped": 1, "failed": 1, "doubt": 0, "changed": 0,
                       "bad": 0, "left": 0}
    assert ran.stderr == "" and ran.returncode == 1


def test_json_says_what_is_wrong_with_a_malformed_item(each):
    ran = each.run("--json", "--csv", *shell(EFFECT, "{id}"), items="id,x\n1\n2,y\n", key="{id}")
    bad = next(line for line in ran.lines if line["result"] == "bad")
    assert bad["problem"] == "line 2: the record has 1 field, the header has 2"
    assert ran.returncode == 65 and ran.sum["bad"] == 1 and ran.sum["run"] == 1


def test_json_escapes_whatever_a_key_holds(each):
    ran = each.run("-0", "--json", *shell(EFFECT), items=b'a"b\0\xff\n\0')
    assert ran.returncode == 0 and len(ran.lines) == 2
    assert ran.lines[0]["key"] == "a%22b" and ran.lines[1]["key"] == "%FF%0A"


# ---- --joblog ----


def joblog(each: Each, script: str, items: str) -> tuple[str, list[list[str]]]:
    each.run("--joblog", "log", "--payload", "ignore", *shell(script), items=items)
    header, *rows = (each.directory / "log").read_text().splitlines()
    return header, [row.split("\t") for row in rows]


def test_the_job_log_has_the_header_of_gnu_parallel(each):
    header, _ = joblog(each, "exit 0", "a\n")
    assert header == JOBLOG
    if shutil.which("parallel"):
        subprocess.run(["parallel", "--will-cite", "--joblog", "theirs", "true", ":::", "a"],
                       cwd=each.directory, check=True, timeout=60, stdin=subprocess.DEVNULL)
        assert (each.directory / "theirs").read_text().splitlines()[0] == header


def test_the_job_log_has_a_line_for_each_item_that_was_run(each):
    each.run(*shell(EFFECT), items="done\n", key="{}")
    script = 'case $1 in b) exit 200;; c) kill -9 $$;; esac; exit 0'
    _, rows = joblog(each, script, "a\ndone\nb\nc\nx\n")
    assert [(row[0], row[1], *row[4:8]) for row in rows] == [
        ("1", ":", "0", "0", "0", "0"), ("3", ":", "0", "0", "200", "0"),
        ("4", ":", "0", "0", "0", "9"), ("5", ":", "0", "0", "0", "0")]
    assert all(re.fullmatch(r"\d+\.\d{3}", row[2]) and re.fullmatch(r" *\d+\.\d{3}", row[3])
               for row in rows)
    assert [row[8][-2:] for row in rows] == [" a", " b", " c", " x"]


def test_nothing_in_an_item_divides_a_line_of_the_job_log(each):
    each.run("-0", "--joblog", "log", *shell(EFFECT), items="a\tb\nc\0")
    rows = (each.directory / "log").read_text().splitlines()
    assert len(rows) == 2 and len(rows[1].split("\t")) == 9 and rows[1].endswith(r" $'a\tb\nc'")


def test_a_job_log_that_cannot_be_written_is_said(each):
    (each.directory / "log").symlink_to("/dev/full")
    ran = each.run("--joblog", "log", *shell(EFFECT), items="a\n")
    assert ran.returncode == 75 and "cannot write log: No space" in ran.stderr
    assert each.effects == ["a"]


# ---- --failed-to ----

FAILING = 'test -e heal || test "$1" != b'
FAILED: dict[str, tuple[tuple[str, ...], Any, Any, str]] = {
    "lines": ((), "a\nb\nc\n", b"b\n", "{}"),
    "null": (("-0",), "a\0b\0c\0", b"b\0", "{}"),
    "csv": (("--csv",), 'id,"the ""note"""\r\n1,a\r\n2,"b"\r\n3,c\r\n',
            b'"id","the ""note"""\n2,"b"\n', '{id}'),
    "jsonl": (("--jsonl",), '{"note":"a"}\n{ "note": "b" }\n{"note":"c"}\n', b'{ "note": "b" }\n',
              "{note}"),
}


@pytest.mark.parametrize("form", FAILED)
def test_the_items_that_failed_can_be_the_input_of_the_next_run(each, form):
    flags, items, failed, key = FAILED[form]
    name = {"csv": '{id}', "jsonl": "{note}"}.get(form, "{}")
    script = FAILING.replace("b", "2") if form == "csv" else FAILING
    first = each.run(*flags, "--failed-to", "failed", *shell(script, name), items=items, key=key)
    assert first.returncode == 1 and (each.directory / "failed").read_bytes() == failed
    (each.directory / "heal").touch()
    again = each.run(*flags, "-a", "failed", "--failed-to", "rest", *shell(script, name), key=key)
    assert (again.returncode, again.last) == (0, "pawl: 1 item: 1 run")
    rest = (each.directory / "rest").read_bytes()
    assert rest == (b'"id","the ""note"""\n' if form == "csv" else b"")


def test_the_input_is_not_where_the_items_that_failed_go(each):
    (each.directory / "items").write_text("a\nb\n")
    ran = each.run("-a", "items", "--failed-to", "items", *shell(EFFECT))
    assert ran.returncode == 2 and "--failed-to" in ran.stderr
    assert (each.directory / "items").read_text() == "a\nb\n" and not each.effects



NOT_RUN: dict[str, tuple[int, tuple[str, ...], str]] = {
    "a dry run": (0, ("--dry-run",), ""),
    "an option that is wrong": (2, ("--fail-fast", "--keep-going"), ""),
    "a column that is not there": (65, ("--group", "{nope}"), ""),
    "a store that cannot be opened": (69, (), "/nowhere/at/all/pawl.db"),
}


@pytest.mark.parametrize("why", NOT_RUN)
def test_a_run_that_does_not_begin_leaves_the_files_of_the_one_before(each, why):
    code, words, store = NOT_RUN[why]
    files = [each.directory / name for name in ("failed", "log")]
    for file in files:
        file.write_text("of the run before\n")
    each.store = store or each.store
    ran = each.run("--csv", "--failed-to", "failed", "--joblog", "log", *words,
                   *shell(EFFECT, "{id}"), items="id\n1\n", key="{id}")
    assert ran.returncode == code and not each.effects
    assert [file.read_text() for file in files] == ["of the run before\n"] * 2


# ---- progress ----


def on_a_terminal(each: Each, *words: str, items: str = "a\nb\nc\n") -> str:
    """What a run writes to standard error, a terminal."""
    main, side = pty.openpty()
    (each.directory / "items").write_text(items)
    process = subprocess.Popen(
        [str(PAWL.resolve()), "each", "--store", each.store, "--key", "{}", "-a", "items", *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=side, cwd=each.directory)
    os.close(side)
    written = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:
            break
        written += piece
    os.close(main)
    process.communicate(timeout=60)
    return written.decode()


def test_a_terminal_shows_a_bar_with_counts_rate_and_time_left(each):
    shown = on_a_terminal(each, *shell("echo to-err >&2; exit 0"))
    bar = re.search(r"\[[=> ]{24}\] \d of ~?\d, 0 failed, \d+/s, ETA \d:\d\d:\d\d", shown)
    assert bar, shown
    assert shown.endswith("pawl: 3 items: 3 run\r\n")
    screen = re.sub(r"[^\n]*\r\x1b\[K", "", shown.replace("\r\n", "\n"))
    assert screen == "to-err\n" * 3 + "pawl: 3 items: 3 run\n", "the bar is taken away"


def test_silent_shows_no_bar_and_no_last_line(each):
    assert on_a_terminal(each, "-s", *shell("exit 0")) == ""
    assert on_a_terminal(each, "--json", *shell("exit 0")) == ""


def test_elsewhere_there_is_one_last_line(each):
    ran = each.run(*shell("exit 0"), items="a\nb\n")
    assert ran.stderr == "pawl: 2 items: 2 run\n"
    assert each.run("-s", *shell("exit 0"), items="a\nb\nc\n").stderr == ""


def test_items_typed_at_a_terminal_are_announced(each):
    main, side = pty.openpty()
    process = each.pawl("each", "--key", "{}", *shell(EFFECT), stdin=side)
    os.close(side)
    assert b"reading items from the terminal" in process.stderr.readline()
    os.write(main, b"a\n")
    eventually(lambda: each.effects == ["a"])
    os.write(main, b"\x04")
    ran = each.end(process)
    os.close(main)
    assert ran.returncode == 0 and json.dumps(each.effects) == '["a"]'
