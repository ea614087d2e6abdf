# SPDX-License-Identifier: Apache-2.0
"""What a command writes and how it ends under `pawl run`: printed as it comes, kept, and printed
again with the same exit code."""
from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios

import pytest

from pawltest.jobs import EFFECT, Jobs, is_alive
from pawltest.wire import PATIENCE, eventually

pytestmark = pytest.mark.file_only

hooks = pytest.mark.hooks
CUT_OUT = b"pawl: standard output was longer: only its beginning was kept (--keep-output)\n"
CUT_ERR = b"pawl: standard error was longer: only its beginning was kept (--keep-output)\n"
FULL = 30_000  # of a pipe: a short write may take a page of it
MUCH = 3_000_000  # beyond every pipe and what pawl holds for a slow reader
# Writes MUCH bytes to standard output, and as many lines to standard error as it has written parts.
WRITES_MUCH = f"""{sys.executable} -c '
import sys
for n in range({MUCH} // 1000):
    sys.stdout.buffer.write(b"%09d" % n * 111 + b"\\n")
    sys.stdout.buffer.flush()
'"""
MUCH_WRITTEN = b"".join(b"%09d" % n * 111 + b"\n" for n in range(MUCH // 1000))


def waiting_in(pipe: int) -> int:
    """Bytes that nobody has read yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


# ---- exit codes ----


@pytest.mark.parametrize("code", [0, 1, 2, 64, 75, 76, 124, 126, 127, 128, 129, 200, 254, 255])
def test_the_command_s_exit_code_is_pawl_s(jobs, code):
    ran = jobs.run(f"{EFFECT}; exit {code}")
    assert (ran.returncode, jobs.effects()) == (code, 1)
    again = jobs.run(f"{EFFECT}; exit {code}")
    assert (again.returncode, jobs.effects()) == (code, 1 if code == 0 else 2)


@pytest.mark.parametrize("name", ["HUP", "INT", "KILL", "SEGV", "TERM", "USR1"])
def test_death_by_a_signal_is_128_and_its_number_and_said(jobs, name):
    number = getattr(signal, f"SIG{name}")
    ran = jobs.run(f"{EFFECT}; kill -{name} $$")
    assert ran.returncode == 128 + number
    assert ran.stderr == f"pawl: ended by signal {number} ({name})\n".encode()
    assert jobs.record()["status"] == "pending"  # and not kept


def test_death_by_a_signal_without_a_name_is_said_by_its_number(jobs):
    ran = jobs.run("kill -40 $$")
    assert (ran.returncode, ran.stderr) == (168, b"pawl: ended by signal 40\n")


@pytest.mark.parametrize("code", [130, 193, 200, 255])
def test_an_exit_code_that_no_signal_gave_is_called_an_exit_code(jobs, code):
    assert jobs.run(f"exit {code}").stderr == b""
    said = jobs.run(f"{EFFECT}; exit {code}", "--retry", "user_facing", key="k").stderr
    assert f"attempt 1: exit code {code}; trying again in 0.".encode() in said
    assert b"signal" not in said and b"null" not in said


def test_what_cannot_be_found_is_127_and_what_cannot_be_run_126(jobs):
    jobs.write("text", "no program")
    for words, code in ((["no-such-command"], 127), (["./text"], 126), ([str(jobs.folder)], 126)):
        ran = jobs.run_words("--key", words[0], "--", *words)
        assert ran.returncode == code
        assert ran.stderr.startswith(f"pawl: cannot run {words[0]}: ".encode())


# ---- live and kept ----


def test_output_and_errors_are_printed_and_printed_again_in_the_same_order(jobs):
    script = "; ".join(f"echo out {n}; echo err {n} >&2" for n in range(200))
    live = jobs.merged(f"{EFFECT}; {script}")
    assert live.count(b"\n") == 400
    assert jobs.merged(f"{EFFECT}; {script}") == live and jobs.effects() == 1


def test_what_was_printed_before_something_else_was_written_stays_before_it(jobs):
    gate = jobs.gate()
    lines = ["echo one", "echo two >&2", "echo three >&2", "echo four", "echo five >&2"]
    script = "; ".join(f"{line}; {gate.waits}" for line in lines)
    process = jobs.start(script, stderr=subprocess.STDOUT)
    wanted = b"one\ntwo\nthree\nfour\nfive\n"
    for line in wanted.splitlines(keepends=True):
        gate.wait_for()
        assert process.stdout.readline() == line  # as it comes
        gate.open()
    assert jobs.end(process).returncode == 0
    assert jobs.merged(script) == wanted
    apart = jobs.run(script)
    assert (apart.stdout, apart.stderr) == (b"one\nfour\n", b"two\nthree\nfive\n")


def test_binary_output_is_kept_byte_for_byte(jobs):
    (jobs.folder / "bytes").write_bytes(bytes(range(256)) * 300 + b"\0\1\2" * 7 + b"\r\n\0")
    script = f"{EFFECT}; cat bytes; cat bytes >&2"
    for _ in range(2):
        ran = jobs.run(script)
        assert ran.stdout == ran.stderr == (jobs.folder / "bytes").read_bytes()
    assert jobs.effects() == 1


def test_a_command_that_writes_nothing_is_replayed_without_a_word(jobs):
    for _ in range(2):
        ran = jobs.run(EFFECT)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    assert jobs.effects() == 1


def test_verbose_says_on_standard_error_that_nothing_was_run(jobs):
    assert jobs.run(f"{EFFECT}; echo fine", "-v").stderr == b""
    again = jobs.run(f"{EFFECT}; echo fine", "-v")
    assert again.stdout == b"fine\n" and b"pawl: ran before, on 2" in again.stderr


def test_output_up_to_the_cap_is_kept_whole(jobs):
    script = f"{EFFECT}; head -c 4096 /dev/zero; head -c 4096 /dev/zero >&2"
    for _ in range(2):
        ran = jobs.run(script, "--keep-output", "4KiB")
        assert ran.stdout == ran.stderr == bytes(4096)
    assert jobs.effects() == 1


@pytest.mark.parametrize("out, err, marks", [
    (4097, 5, CUT_OUT), (5, 100_000, CUT_ERR), (100_000, 100_000, CUT_OUT + CUT_ERR)])
def test_output_beyond_the_cap_is_printed_whole_and_kept_to_the_cap_with_a_mark(
        jobs, out, err, marks):
    script = f"{EFFECT}; head -c {out} /dev/zero; head -c {err} /dev/zero >&2"
    live = jobs.run(script, "--keep-output", "4KiB")
    assert (live.stdout, live.stderr) == (bytes(out), bytes(err))
    kept = jobs.run(script, "--keep-output", "1MiB")
    assert kept.stdout == bytes(min(out, 4096)) and kept.stderr == bytes(min(err, 4096)) + marks
    assert kept.returncode == 0 and jobs.effects() == 1


def test_nothing_is_kept_with_a_cap_of_nothing(jobs):
    assert jobs.run("echo out", "--keep-output", "0").stdout == b"out\n"
    again = jobs.run("echo out", "--keep-output", "0")
    assert (again.returncode, again.stdout, again.stderr) == (0, b"", CUT_OUT)


def test_only_the_last_attempt_s_output_is_kept(jobs):
    script = f"{EFFECT}; wc -l < effects; test $PAWL_ATTEMPT -ge 3"
    live = jobs.run(script, "--retry", "user_facing")
    assert (live.stdout.split(), live.returncode) == ([b"1", b"2", b"3"], 0)
    assert jobs.run(script).stdout.split() == [b"3"]


def test_what_a_grandchild_writes_after_the_command_has_ended_is_kept_too(jobs):
    gate = jobs.gate()
    script = f"sh -c '{gate.waits}; echo late' & echo early"
    process = jobs.start(script)
    gate.wait_for()
    gate.open()
    assert jobs.end(process).stdout == b"early\nlate\n"
    assert jobs.run(script).stdout == b"early\nlate\n"


@hooks
def test_a_daemon_that_keeps_the_output_open_is_left_after_five_seconds_and_lives(jobs):
    gate = jobs.gate()
    process = jobs.start(f"{EFFECT}; sh -c '{gate.waits}' & echo early")
    daemon = gate.wait_for()
    ran = jobs.end_later(process)
    assert (ran.returncode, ran.stdout) == (0, b"early\n") and 5 <= jobs.clock.offset < 15
    assert is_alive(daemon)
    assert jobs.run(f"{EFFECT}; sh -c '{gate.waits}' & echo early").stdout == b"early\n"
    assert jobs.effects() == 1


# ---- readers ----


def test_a_reader_that_is_slow_loses_nothing(jobs):
    process = jobs.start(f"{EFFECT}; {WRITES_MUCH}; echo end >&2")
    eventually(lambda: waiting_in(process.stdout.fileno()) >= FULL, "a full pipe")
    assert process.poll() is None  # it waits for its reader
    ran = jobs.end(process)
    assert ran.returncode == 0 and ran.stdout == MUCH_WRITTEN and ran.stderr == b"end\n"
    again = jobs.run(f"{EFFECT}; {WRITES_MUCH}; echo end >&2")
    assert again.stdout == MUCH_WRITTEN[:1 << 20] and again.stderr == b"end\n" + CUT_OUT
    assert jobs.effects() == 1


def test_a_slow_reader_of_one_attempt_and_the_next_loses_nothing(jobs):
    script = f"{EFFECT}; {WRITES_MUCH}; test -e fixed && exit 0; echo > fixed; exit 1"
    process = jobs.start(script, "--retry", "user_facing")
    parts: list[bytes] = []
    for size in (200_000, 100_000, 700_000, 64_000):  # it has room, and has not, again and again
        while size > 0:
            parts.append(os.read(process.stdout.fileno(), size))
            size -= len(parts[-1])
        eventually(lambda: waiting_in(process.stdout.fileno()) >= FULL, "a full pipe")
    ran = jobs.end(process)
    assert b"".join(parts) + ran.stdout == MUCH_WRITTEN * 2 and ran.returncode == 0


@hooks
def test_a_signal_is_passed_on_while_nobody_reads(jobs):
    process = jobs.start(f"{EFFECT}; trap 'echo > heard; exit 3' TERM; {WRITES_MUCH} & wait")
    eventually(lambda: waiting_in(process.stdout.fileno()) >= FULL, "a full pipe")
    process.send_signal(signal.SIGTERM)
    jobs.read("heard")
    ran = jobs.end(process)
    assert ran.returncode == 3 and MUCH_WRITTEN.startswith(ran.stdout) and jobs.effects() == 1


def test_what_is_done_is_stored_while_nobody_reads_and_a_signal_ends_the_wait_for_a_reader(jobs):
    gate = jobs.gate()
    script = f"{EFFECT}; {WRITES_MUCH} & {gate.waits}; kill $!; wait; exit 0"
    process = jobs.start(script)
    eventually(lambda: waiting_in(process.stdout.fileno()) >= FULL, "a full pipe")
    gate.wait_for()
    gate.open()
    eventually(lambda: jobs.record()["status"] == "complete", "the outcome in the store")
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == -signal.SIGTERM
    jobs.end(process)
    again = jobs.run(script)
    assert again.returncode == 0 and MUCH_WRITTEN.startswith(again.stdout) and jobs.effects() == 1


@hooks
def test_a_time_limit_is_heeded_while_nobody_reads(jobs):
    process = jobs.start(f"echo $$ > pid; exec {WRITES_MUCH}", "--timeout", "60s")
    eventually(lambda: waiting_in(process.stdout.fileno()) >= FULL, "a full pipe")
    pid = int(jobs.read("pid"))
    jobs.clock.run_until(lambda: not is_alive(pid), step=10)
    assert jobs.end(process).returncode == 124


def closed(jobs: Jobs, script: str, *flags: str) -> subprocess.Popen[bytes]:
    """Its standard output is a pipe whose reader has gone."""
    reads, writes = os.pipe()
    os.close(reads)
    process = jobs.start(script, *flags, stdout=writes)
    os.close(writes)
    return process


def test_a_reader_that_has_gone_stops_neither_the_job_nor_its_record(jobs):
    script = f"echo before; {WRITES_MUCH}; {EFFECT}; echo after >&2"
    ran = jobs.end(closed(jobs, script))
    assert (ran.returncode, ran.stderr, jobs.effects()) == (0, b"after\n", 1)
    again = jobs.run(script)
    assert again.returncode == 0 and again.stdout.startswith(b"before\n0000")
    assert jobs.end(closed(jobs, script)).returncode == 0 and jobs.effects() == 1


def test_output_that_cannot_be_written_is_75_and_printed_by_the_next_run(jobs):
    with open("/dev/full", "wb") as full:
        ran = jobs.run(f"{EFFECT}; echo fine", stdout=full)
        assert ran.returncode == 75 and b"No space left" in ran.stderr
        assert jobs.run(f"{EFFECT}; echo fine", stdout=full).returncode == 75
    assert jobs.run(f"{EFFECT}; echo fine").stdout == b"fine\n" and jobs.effects() == 1


def test_keys_show_prints_how_a_job_ended_and_its_output(jobs):
    jobs.run("echo out; echo err >&2; exit 66", "--final", "all", key="k")
    shown = jobs.keys("show", "k").stdout
    assert "Exit-Code: 66" in shown and "rule:         job" in shown
