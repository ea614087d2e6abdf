# SPDX-License-Identifier: Apache-2.0
"""What a command under `pawl run` finds: its environment, its descriptors, its signals and group;
and how it is ended by time limits, signals and keys of a terminal."""
from __future__ import annotations

import os
import pty
import signal
import sys
from typing import Iterator

import pytest

from pawltest.gateway import PAWL
from pawltest.jobs import EFFECT, KEY, Jobs, is_alive
from pawltest.wire import eventually

pytestmark = pytest.mark.file_only

hooks = pytest.mark.hooks
SIGNALS = ("INT", "TERM", "HUP", "QUIT")
OURS = ("PAWL_KEY", "PAWL_TOKEN", "PAWL_ATTEMPT", "IDEMPOTENCY_KEY")


def environment_in(out: bytes) -> dict[str, str]:
    lines = out.decode().splitlines()
    pairs = [line.split("=", 1) for line in lines if line.startswith(OURS)]
    assert len(pairs) == len({name for name, _ in pairs}), pairs  # none twice
    return dict(pairs)


def number_of(status: bytes, name: str, base: int = 10) -> int:
    line = next(line for line in status.decode().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1], base)


# ---- its environment ----


def test_the_command_knows_its_key_its_attempt_and_its_token(jobs):
    first = environment_in(jobs.run("env; exit 1").stdout)
    second = environment_in(jobs.run("env; exit 1").stdout)
    assert first["PAWL_KEY"] == first["IDEMPOTENCY_KEY"] == KEY
    assert (first["PAWL_ATTEMPT"], second["PAWL_ATTEMPT"]) == ("1", "2")
    assert 0 < int(first["PAWL_TOKEN"]) < int(second["PAWL_TOKEN"]) < 2**53
    other = environment_in(jobs.run("env", key="k").stdout)
    assert int(other["PAWL_TOKEN"]) > int(second["PAWL_TOKEN"]) and other["PAWL_ATTEMPT"] == "1"


def test_retries_of_one_run_have_growing_attempts_and_tokens(jobs):
    script = "env | grep ^PAWL_ | sort; test $PAWL_ATTEMPT = 3"
    lines = jobs.run(script, "--retry", "user_facing").stdout.decode().splitlines()
    assert [line for line in lines if "ATTEMPT" in line] == [f"PAWL_ATTEMPT={n}" for n in (1, 2, 3)]
    tokens = [int(line.partition("=")[2]) for line in lines if "TOKEN" in line]
    assert tokens == sorted(set(tokens)) and len(tokens) == 3


def test_the_variables_of_an_outer_run_are_replaced(jobs):
    inner = f"{PAWL} run --key inner -- env"
    ran = jobs.run(f"env; echo; {inner}", key="outer", PAWL_KEY="x", PAWL_TOKEN="1",
                   PAWL_ATTEMPT="7", IDEMPOTENCY_KEY="x", OTHER="kept")
    outer, _, rest = ran.stdout.partition(b"\n\n")
    assert environment_in(outer)["PAWL_KEY"] == environment_in(outer)["IDEMPOTENCY_KEY"] == "outer"
    assert environment_in(rest)["PAWL_KEY"] == environment_in(rest)["IDEMPOTENCY_KEY"] == "inner"
    assert 1 < int(environment_in(outer)["PAWL_TOKEN"]) < int(environment_in(rest)["PAWL_TOKEN"])
    assert environment_in(outer)["PAWL_ATTEMPT"] == environment_in(rest)["PAWL_ATTEMPT"] == "1"
    assert outer.count(b"OTHER=kept") == rest.count(b"OTHER=kept") == 1


def test_a_key_of_255_bytes_is_in_the_environment_whole(jobs):
    key = "k" * 255
    assert environment_in(jobs.run("env", key=key).stdout)["PAWL_KEY"] == key


# ---- descriptors, signals, group ----


def test_it_has_no_descriptor_of_pawl_s(jobs):
    ran = jobs.run_words("--key", KEY, "ls", "/proc/self/fd")
    assert ran.stdout.split() == [b"0", b"1", b"2", b"3"]  # 3: the folder


def test_it_reads_nothing_where_no_terminal_is(jobs):
    ran = jobs.end(jobs.start("readlink /proc/$$/fd/0; cat", stdin=-1), b"not for it")
    assert (ran.returncode, ran.stdout) == (0, b"/dev/null\n")


def test_it_begins_with_default_signals_and_leads_a_group_of_its_own(jobs):
    process = jobs.spawn("--key", KEY, "cat", "/proc/self/status")
    pawl_pid = process.pid
    status = jobs.end(process).stdout
    assert number_of(status, "SigBlk", 16) == 0
    assert number_of(status, "SigIgn", 16) & 0x7FFFFFFF == 0  # 32, 33: the C library's
    assert number_of(status, "NSpgid") == number_of(status, "Pid") != pawl_pid


# ---- time limits ----


@hooks
def test_a_time_limit_ends_the_command_with_all_that_it_started(jobs):
    gate, inner = jobs.gate(), jobs.gate("inner")
    process = jobs.start(f"{EFFECT}; sh -c '{inner.waits}' & {gate.waits}", "--timeout", "60s")
    pids = gate.wait_for(), inner.wait_for()
    jobs.clock.step(50)
    assert process.poll() is None and all(map(is_alive, pids))
    jobs.clock.advance(11)
    ran = jobs.end(process)
    assert ran.returncode == 124 and b"pawl: timed out after " in ran.stderr
    assert not any(map(is_alive, pids))
    assert jobs.record()["status"] == "pending" and jobs.counted() == {"failed": 1}


@hooks
def test_a_time_limit_ends_what_has_left_the_commands_group(jobs):
    gate, inner = jobs.gate(), jobs.gate("inner")
    process = jobs.start(f"setsid sh -c '{inner.waits}; {EFFECT}' & {gate.waits}",
                         "--timeout", "60s")
    pids = gate.wait_for(), inner.wait_for()
    jobs.clock.advance(61)
    assert jobs.end(process).returncode == 124
    eventually(lambda: not any(map(is_alive, pids)), "the end of both")
    assert jobs.effects() == 0


@hooks
def test_what_ignores_its_end_is_killed_five_seconds_later(jobs):
    gate = jobs.gate()
    waits = "while :; do read go < gate; done"
    process = jobs.start(f"trap 'echo > heard' TERM; {gate.waits}; {waits}", "--timeout", "60s")
    pid = gate.wait_for()
    jobs.clock.advance(61)
    jobs.read("heard")
    jobs.clock.step(4)
    assert process.poll() is None and is_alive(pid)
    jobs.clock.advance(2)
    assert jobs.end(process).returncode == 124 and not is_alive(pid)


@hooks
def test_a_command_that_ends_well_when_its_time_is_over_is_124_too(jobs):
    gate = jobs.gate()
    process = jobs.start(f"{EFFECT}; trap 'exit 0' TERM; {gate.waits}", "--timeout", "60s")
    gate.wait_for()
    jobs.clock.advance(61)
    assert jobs.end(process).returncode == 124 and jobs.record()["status"] == "pending"


@hooks
def test_a_time_limit_counts_for_each_attempt_and_is_a_failed_one(jobs):
    gate = jobs.gate()
    script = f"{EFFECT}; test $PAWL_ATTEMPT = 2 || {{ {gate.waits}; }}"
    process = jobs.start(script, "--timeout", "30m", "--retry", "scheduled")
    gate.wait_for()
    jobs.clock.advance(30 * 60 + 1)
    ran = jobs.end_later(process)
    assert (ran.returncode, jobs.effects()) == (0, 2)
    assert b"attempt 1: timed out after " in ran.stderr


@hooks
def test_a_time_limit_that_is_among_the_final_codes_is_kept(jobs):
    gate = jobs.gate()
    script = f"{EFFECT}; {gate.waits}"
    process = jobs.start(script, "--timeout", "60s", "--final", "124")
    gate.wait_for()
    jobs.clock.advance(61)
    assert jobs.end(process).returncode == 124 and jobs.record()["status"] == "failed"
    assert jobs.run(script).returncode == 124 and jobs.effects() == 1


# ---- signals ----


@pytest.mark.parametrize("name", [*SIGNALS, "USR1", "USR2"])
def test_a_signal_is_passed_on_to_the_command_and_its_group(jobs, name):
    gate = jobs.gate()
    inner = f"trap \"echo > heard.inner; exit\" {name}; {gate.waits}"
    process = jobs.start(f"trap 'echo >> heard' {name}; sh -c '{inner}' | cat; exit 7")
    gate.wait_for()
    process.send_signal(getattr(signal, f"SIG{name}"))
    assert jobs.end(process).returncode == 7
    assert jobs.read("heard") == "\n" and jobs.read("heard.inner") == "\n"


@pytest.mark.parametrize("name", SIGNALS)
def test_after_a_signal_that_ends_it_no_attempt_follows(jobs, name):
    gate = jobs.gate()
    process = jobs.start(f"{EFFECT}; {gate.waits}", "--retry", "user_facing")
    gate.wait_for()
    process.send_signal(getattr(signal, f"SIG{name}"))
    ran = jobs.end(process)
    assert ran.returncode == 128 + getattr(signal, f"SIG{name}") and jobs.effects() == 1
    assert jobs.record()["status"] == "pending" and not jobs.record()["in_doubt"]


def test_a_command_that_ends_well_after_a_signal_is_done(jobs):
    gate = jobs.gate()
    script = f"{EFFECT}; trap 'echo last; exit 0' TERM; {gate.waits}"
    process = jobs.start(script)
    gate.wait_for()
    process.send_signal(signal.SIGTERM)
    assert jobs.end(process).returncode == 0
    assert jobs.run(script).stdout == b"last\n" and jobs.effects() == 1


@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_between_two_attempts_ends_it_with_128_and_its_number(jobs, name):
    process = jobs.start(f"{EFFECT}; exit 3", "--retry", "background")
    process.stderr.readline()  # trying again in ..
    process.send_signal(getattr(signal, f"SIG{name}"))
    assert jobs.end(process).returncode == 128 + getattr(signal, f"SIG{name}")
    assert jobs.effects() == 1


@hooks
@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_while_it_waits_for_another_run_ends_it_with_128_and_its_number(jobs, name):
    gate = jobs.gate()
    first = jobs.start(f"{EFFECT}; {gate.waits}")
    gate.wait_for()
    process = jobs.start(f"{EFFECT}; {gate.waits}", "--wait", "1h")
    jobs.clock.step(1)  # until it has come to rest
    process.send_signal(getattr(signal, f"SIG{name}"))
    ran = jobs.end(process)
    assert ran.returncode == 128 + getattr(signal, f"SIG{name}")
    gate.open()
    assert jobs.end(first).returncode == 0 and jobs.effects() == 1


@hooks
def test_usr1_neither_ends_a_wait_nor_stops_retries(jobs):
    process = jobs.start(f"{EFFECT}; test $PAWL_ATTEMPT = 2", "--retry", "scheduled")
    process.stderr.readline()
    process.send_signal(signal.SIGUSR1)
    assert jobs.end_later(process).returncode == 0 and jobs.effects() == 2


# ---- at a terminal ----


class Terminal:
    """`pawl run` in the foreground of a terminal of its own."""

    def __init__(self, jobs: Jobs, script: str, *flags: str):
        self.said = b""
        environment = jobs.environment({})
        words = ["run", "--key", KEY, *flags, "--", "sh", "-c", script]
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(jobs.folder)
            os.execve(PAWL, [str(PAWL), *words], environment)

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def _ended(self) -> bool:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.pid, self.status = 0, os.waitstatus_to_exitcode(status)
        return pid != 0

    def wait(self) -> int:
        """Its exit status; what it said is in `said`."""
        eventually(self._ended, "its end")
        while True:
            try:
                self.said += os.read(self.fd, 65536)
            except OSError:  # all of it was read
                return self.status

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    made: list[Terminal] = []
    yield made
    for terminal in made:
        terminal.close()


def test_at_a_terminal_control_c_reaches_the_command_once(jobs, terminals):
    gate = jobs.gate()
    counts = f"""exec {sys.executable} -c '
import os, signal, time
def heard(number, frame):
    os.write(log, b"INT\\n")
log = os.open("heard", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
signal.signal(signal.SIGINT, heard)
signal.signal(signal.SIGUSR1, lambda *_: os._exit(9))
open("at", "w").write(str(os.getpid()))
os.rename("at", "gate.at")
while True:
    time.sleep(1000)
'"""
    terminals.append(Terminal(jobs, counts))
    pid = gate.wait_for()
    assert os.getpgid(pid) == os.getpgid(terminals[0].pid) == terminals[0].pid
    terminals[0].type(b"\x03")
    eventually(lambda: (jobs.folder / "heard").read_text(), "Control-C")
    os.kill(terminals[0].pid, signal.SIGUSR1)  # behind it: passed on, after all of Control-C
    assert terminals[0].wait() == 9
    assert jobs.read("heard") == "INT\n"


def test_at_a_terminal_a_signal_that_is_sent_to_pawl_alone_is_passed_on(jobs, terminals):
    gate = jobs.gate()
    terminals.append(Terminal(jobs, f"trap 'exit 5' TERM; {gate.waits}"))
    gate.wait_for()
    os.kill(terminals[0].pid, signal.SIGTERM)
    assert terminals[0].wait() == 5


def test_at_a_terminal_the_command_reads_what_is_typed(jobs, terminals):
    gate = jobs.gate()
    terminals.append(Terminal(jobs, "echo > gate.at; read line; echo \"got $line\""))
    eventually((jobs.folder / "gate.at").exists, "the command")
    terminals[0].type(b"a word\n")
    assert terminals[0].wait() == 0 and b"got a word" in terminals[0].said
    gate.end()


def test_at_a_terminal_a_replay_says_that_nothing_was_run(jobs, terminals):
    assert jobs.run("echo fine").returncode == 0
    terminals.append(Terminal(jobs, "echo fine"))
    assert terminals[0].wait() == 0
    assert b"fine\r\n" in terminals[0].said and b"pawl: ran before, on " in terminals[0].said


@hooks
def test_at_a_terminal_a_time_limit_ends_what_the_command_started_too(jobs, terminals):
    gate, inner = jobs.gate(), jobs.gate("inner")
    terminals.append(Terminal(
        jobs, f"sh -c 'trap \"\" TERM; {inner.waits}' & {gate.waits}", "--timeout", "60s"))
    pids = gate.wait_for(), inner.wait_for()
    jobs.clock.run_until(lambda: not any(map(is_alive, pids)), step=10)
    assert terminals[0].wait() == 124 and b"timed out after 1m (--timeout)" in terminals[0].said


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT"])
def test_a_signal_that_it_was_started_to_ignore_reaches_neither_it_nor_its_command(jobs, name):
    gate = jobs.gate()
    nohup = ("sh", "-c", f"trap '' {name}; exec \"$@\"", "-", str(PAWL))
    process = jobs.start(f"{gate.waits}; kill -{name} $$; {EFFECT}", command=nohup)
    gate.wait_for()
    process.send_signal(getattr(signal, f"SIG{name}"))
    gate.open()
    assert jobs.end(process).returncode == 0 and jobs.effects() == 1
