# SPDX-License-Identifier: Apache-2.0
"""Every build and suite of scripts/test, which runs this: what each covers, and how they run side
by side.

usage: scripts/test [--quick | --no-servers | --list | SUITE...]

  --quick       one build (gcc with hooks): unit, contract, black box, lint; under two minutes
  --no-servers  every build, and every suite but those about PostgreSQL. Without an option those
                run, too: half an hour on two cores
  --list        runs nothing, and says which suite covers what
  SUITE         the suites whose name begins so ("unit", "blackbox asan"), and their builds

Ends with "N passed, N failed". What a suite printed lies in build-test/logs.
"""
from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

sys.dont_write_bytecode = True
from tally import ran_again, tally  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
BUILDS_AT = ROOT / "build-test"
LOGS = BUILDS_AT / "logs"
PYTHON = "/usr/bin/python3"
# So many suites at a time, and so many files of tests in one: they wait more than they work.
LANES = min(4, (os.cpu_count() or 1) + 2)
WIDTH = min(4, (os.cpu_count() or 1) + 1)
# A test that ran again so often in so many days, in this clone, has failed: no machine is so busy.
AGAIN_TOO_OFTEN, AGAIN_DAYS = 3, 30
SLACK = 4  # a noisy machine takes longer than is meant; beyond this the whole has failed
OVER = 124  # the status of what took longer than its budget
END_TIME = 20  # seconds that it is then given to end
ENVIRONMENT = {
    # How long a test waits for what must come: only one that fails waits so long.
    "PAWL_TEST_PATIENCE": "90",
    "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:abort_on_error=1:print_stacktrace=1",
    # A drain whose time is over ends the process with its threads: no leak.
    "TSAN_OPTIONS": "halt_on_error=1:abort_on_error=1:second_deadlock_stack=1:"
                    "report_thread_leaks=0",
}


@dataclass(frozen=True)
class Build:
    """A folder of build-test, compiled with warnings as errors."""

    name: str
    compiler: str
    options: tuple[str, ...]
    covers: str
    budget: int = 1200
    build: str = ""  # needs no other


@dataclass(frozen=True)
class Suite:
    """Begins once its build is there. A budget is several times what a quiet machine takes."""

    name: str
    build: str  # "": none
    budget: int  # seconds
    command: tuple[str, ...]
    covers: str
    quick: bool = False
    full: bool = True  # without --quick

    @property
    def needs_server(self) -> bool:
        return any(word in self.name for word in ("postgres", "sql"))


Step = Build | Suite

# At -O1 a build takes three quarters of the time, with sanitizers half, and they see as much, where
# the compiler has dropped less. `gcc` and `clang` are optimised as what is shipped.
# lld links in half the time: each of the tests is a program. It knows nothing of gcc's `lto`.
LINKED = ("-Dc_link_args=-fuse-ld=lld",)
HOOKED = (*LINKED, "-Dhooks=true", "-Doptimization=1")
BUILDS = (
    Build("hooks", "gcc", HOOKED, "test clock, crash points, failing allocations"),
    Build("asan", "clang", (*HOOKED, "-Db_sanitize=address,undefined"),
          "memory and undefined behaviour; clang's warnings with hooks"),
    Build("tsan", "clang", (*HOOKED, "-Db_sanitize=thread"), "data races"),
    Build("gcc", "gcc", ("--buildtype=release", "-Db_lto=true", "-Dtests=false"),
          "what is shipped, as scripts/build makes it"),
    Build("clang", "clang", (*LINKED, "--buildtype=release"),
          "clang's warnings and frame sizes without hooks, the tests of a build by hand"),
)


def meson(suite: str, build: str, covers: str, quick: bool = False,
          beside: tuple[str, ...] = ()) -> Suite:
    """A suite of meson's in that build; `beside`: what starts the server that it needs."""
    return Suite(f"{suite} {build}", build, 1200,
                 (*beside, "meson", "test", "-C", f"build-test/{build}", "--no-rebuild",
                  "--print-errorlogs", "--logbase", suite, "--timeout-multiplier", "5", "--suite",
                  suite), covers, quick)


def pytest(name: str, build: str, budget: int, arguments: tuple[str, ...], covers: str,
           quick: bool = False, full: bool = True) -> Suite:
    """A folder of pytest's, on the binary of that build."""
    command = (PYTHON, "-m", "pytest", "-c", "tests/pytest.ini", *arguments)
    return Suite(name, build, budget, command, covers, quick, full)


SIDE_BY_SIDE = ("-n", str(WIDTH), "--dist", "loadfile")  # a module's gateway serves its whole file
ONE_BY_ONE = ("-n", str(WIDTH), "--dist", "load")  # each test has gateways of its own


def without(*names: str) -> tuple[str, ...]:
    return tuple(f"--ignore=tests/blackbox/test_{name}.py" for name in names)


# What no sanitizer sees more of: alerts by Prometheus, missing libraries by one in front, a night
# of drains by one of them, a table of responses that clients get which it sees elsewhere.
PLAIN = ("alerts", "libraries", "queue_night", "services")
# What a request, a command or a config means: one of them at a time, and the same bytes whatever
# the optimiser did; ASan shows them. The threads that they go through meet in the others, many at
# a time.
ONE_AT_A_TIME = without(
    *PLAIN,
    "identity", "rules", "policy", "complaints", "hostile", "cli_hash", "cli_explain", "cli_pages",
    "cli_commands", "config_cli", "cli_keys", "cli_find", "cli_probe", "cli_webhook", "run_words",
    "run_settling", "run_child", "each_words", "answers", "authorize", "browsers",
    "contract_config", "counted_elsewhere", "defaults", "endings", "endpoints", "formerly",
    "key_ages", "limits_fit", "logs", "once", "parts", "playbook", "probe_requests", "queue",
    "queue_acts", "queue_happened", "queue_linked", "queue_people", "refusals_heard",
    "replay_headers", "rule_answers", "unknown", "upstream_headers", "upstream_names", "yoked")
# What a config or an odd store means is not the optimiser's either.
MEANINGS = without(
    "clocks", "deadlines", "each_output", "each_send", "freeze", "identity_changes",
    "identity_cross", "identity_moves", "leaving", "moved_paths", "odd_rows", "older_copy",
    "owners", "reasons", "run_output", "weaker", "webhook_names")
# For TSan, too: what measures memory, and what has only threads that others have: reloads meet
# requests in identity_moves, identity_cross and reload, what a store holds back is in odd_rows.
FEW_THREADS = without(
    "clocks", "emit", "identity_changes", "memory", "memory_bounds", "moved_paths", "older_copy",
    "reasons", "retries", "send", "upstream_tls", "weaker")


def blackbox(build: str, covers: str, but: tuple[str, ...] = (), **runs: bool) -> Suite:
    return pytest(f"blackbox {build}", build, 1500, (*SIDE_BY_SIDE, "tests/blackbox", *but), covers,
                  **runs)


# Where a gateway connects, loses its server and finds it again; without libfaketime, which a
# sanitizer calls before it is ready.
RECONNECTING = (*SIDE_BY_SIDE, "-k", "not clocks",
                *(f"tests/postgres/test_{name}.py"
                  for name in ("connecting", "schema", "two_gateways", "strangers")))

# In the order in which they begin: what takes longest comes first.
SUITES = (
    Suite("model", "", 1200, ("scripts/model", "--small"),
          "the protocol's models: clean ones, and mutants that the checker must find"),
    Suite("lint", "", 120, ("scripts/lint",), "the house rules", quick=True),
    pytest("lint itself", "", 120, ("tests/lint",), "scripts/lint, scripts/setup, this count",
           quick=True),
    blackbox("hooks", "all that a client, an operator and a service see, with moved clocks",
             quick=True, full=False),
    pytest("blackbox plain", "hooks", 300,
           (*SIDE_BY_SIDE, *(f"tests/blackbox/test_{name}.py" for name in PLAIN)),
           "alerts by Prometheus, libraries that are missing, services that deduplicate"),
    meson("contract", "hooks", "what every store promises, on each embedded backend", quick=True),
    meson("unit", "hooks", "each module beside its header", quick=True),
    meson("fault", "hooks", "each I/O call and allocation of the store failing in turn"),
    meson("simulation", "hooks",
          "engine and store under a seed and a virtual clock; the oracle finds its mutants"),
    pytest("faults hooks", "hooks", 1200, (*ONE_BY_ONE, "tests/fault"),
           "kill -9 at every crash point, pauses, failing disks and system calls"),
    pytest("clients", "hooks", 300, ("tests/clients",), "clients as they come, with their retries"),
    pytest("differential", "hooks", 120, ("tests/differential",),
           "requests through nginx, HAProxy and pawl: every difference is documented"),
    pytest("postgres", "hooks", 1200, (*ONE_BY_ONE, "tests/postgres"),
           "a PostgreSQL of the tests' own, and the network before it"),
    pytest("sql", "hooks", 1200, ("tests/sql",),
           "what applications do in their own transactions on PostgreSQL"),
    meson("contract-postgres", "hooks", "what every store promises, on PostgreSQL",
          beside=("tests/postgres/with_server",)),
    pytest("blackbox postgres", "hooks", 1200,
           (*SIDE_BY_SIDE, "tests/blackbox", "--store", "postgres"),
           "the black box on PostgreSQL, as far as the store is asked"),
    meson("fuzz-corpus", "hooks", "each parser on its corpus"),
    blackbox("asan", "all that a client, an operator and a service see, with moved clocks; no byte"
             " out of bounds, no leak", without(*PLAIN)),
    pytest("postgres asan", "asan", 1200, RECONNECTING, "memory of what libpq was given and gave"),
    meson("simulation", "asan", "memory of engine and store in orders no test wrote"),
    meson("fault", "asan", "memory on the paths of failure"),
    meson("contract", "asan", "memory of the store"),
    meson("unit", "asan", "memory of each module"),
    meson("fuzz-corpus", "asan", "memory of each parser"),
    blackbox("tsan", "no race between loops, committer and offloaded work",
             ONE_AT_A_TIME + FEW_THREADS),
    pytest("postgres tsan", "tsan", 1200, RECONNECTING,
           "no race between loops and a committer that connects"),
    meson("contract", "tsan", "no race among a store's threads"),
    meson("unit", "tsan", "no race within a module"),
    blackbox("gcc", "the shipped binary works: optimised, linked as one, no hooks",
             ONE_AT_A_TIME + MEANINGS),
    pytest("bench", "gcc", 300, ("tests/bench", "--ignore=tests/bench/test_bench_postgres.py"),
           "each load of scripts/bench runs"),
    pytest("bench postgres", "gcc", 300, ("tests/bench/test_bench_postgres.py",),
           "each load of scripts/bench on PostgreSQL runs"),
    pytest("docs", "gcc", 300, ("tests/docs",),
           "links, names, commands and configs in the documents"),
    pytest("install", "gcc", 900, ("tests/install",), "make install, the unit, the Debian package,"
           " an upgrade from the last release and back"),
    meson("unit", "clang", "each module without hooks, as another compiler optimises it"),
)
# Seconds on two quiet cores, by the option; "": all.
MEANT = {"": 1200, "--no-servers": 900, "--quick": 120}


def environment(lane: int, build: str) -> dict[str, str]:
    """Suites that run at the same time take ports from ranges of their own."""
    return {**os.environ, **ENVIRONMENT, "PAWL_TEST_LANE": str(lane),
            "PAWL_BIN": str(BUILDS_AT / build / "pawl")}


def without_random_addresses() -> list[str]:
    """Sanitizers of clang 14 need addresses that a kernel with more random bits does not leave."""
    flat = ["setarch", platform.machine(), "-R"]
    try:
        return flat if subprocess.run([*flat, "true"], capture_output=True,
                                      check=False).returncode == 0 else []
    except FileNotFoundError:
        return []


class Call:
    """A command to its end, in a group of processes that ends with it."""

    running: set[Call] = set()

    def __init__(self, command: list[str], log: Path, environment_: dict[str, str]):
        with log.open("ab") as out:
            self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=out, env=environment_, start_new_session=True)

    def end(self, number: int) -> None:
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def wait(self, budget: int) -> tuple[int, float]:
        """Its status, and the seconds of processor time of all that it started and waited for."""
        ends = [threading.Timer(budget, self.end, [signal.SIGTERM]),
                threading.Timer(budget + END_TIME, self.end, [signal.SIGKILL])]
        began = time.monotonic()
        Call.running.add(self)
        for end in ends:
            end.start()
        try:
            _, status, used = os.wait4(self.process.pid, 0)
        finally:
            for end in ends:
                end.cancel()
            self.end(signal.SIGKILL)
            Call.running.discard(self)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        over = time.monotonic() - began >= budget
        return OVER if over else self.process.returncode, used.ru_utime + used.ru_stime


class Result(NamedTuple):
    """Of a step: what it counted, and what is to be shown of what it printed. A build counts only
    its failure."""

    passed: int = 0
    failed: int = 0
    text: str = ""
    cpu: float = 0  # seconds of processor time
    again: frozenset[str] = frozenset()  # the tests that ran once more


def run_build(build: Build, lane: int) -> Result:
    log, at = LOGS / f"build-{build.name}.log", BUILDS_AT / build.name
    kept, options = BUILDS_AT / f"{build.name}.options", " ".join((build.compiler, *build.options))
    calls, cpu = [["ninja", "-C", str(at)]], 0.0
    if not kept.exists() or kept.read_text("utf-8") != options:
        shutil.rmtree(at, ignore_errors=True)
        kept.unlink(missing_ok=True)
        calls.insert(0, ["meson", "setup", str(at), *build.options])
    for call in calls:
        variables = {**environment(lane, build.name), "CC": build.compiler}
        status, used = Call(call, log, variables).wait(build.budget)
        cpu += used
        if status != 0:
            return Result(0, 1, log.read_text("utf-8", "replace"), cpu)
    kept.write_text(options, "utf-8")
    return Result(cpu=cpu)


def run_suite(suite: Suite, lane: int) -> Result:
    log, meson_log = LOGS / f"{suite.name.replace(' ', '-')}.log", None
    if "meson" in suite.command:
        meson_log = BUILDS_AT / suite.build / "meson-logs" / f"{suite.name.split()[0]}.json"
        meson_log.unlink(missing_ok=True)
    prefix = without_random_addresses() if suite.build in ("asan", "tsan") else []
    status, cpu = Call([*prefix, *suite.command], log, environment(lane, suite.build)).wait(
        suite.budget)
    passed, failed = tally(log, status, meson_log)
    text = log.read_text("utf-8", "replace")
    again = ran_again(text)
    if not failed:
        lines = [line for line in text.splitlines() if line.startswith("RAN AGAIN")]
        return Result(passed, failed, "\n".join(lines), cpu, again)
    over = f"over its budget of {suite.budget} s\n" if status == OVER else ""
    return Result(passed, failed, over + text, cpu, again)


class Lanes:
    """Each takes the first step that may begin: a build while no other builds, a suite once its
    build is there."""

    def __init__(self, steps: list[Step]):
        self.steps = steps
        self.built: set[str] = {""}
        self.builds = False
        self.passed = self.failed = 0
        self.again: list[tuple[str, str]] = []  # suite and test
        self.cpu = 0.0
        self.changed = threading.Condition()

    def run(self) -> None:
        lanes = [threading.Thread(target=self._lane, args=(lane,), daemon=True)
                 for lane in range(LANES)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()

    def _may_begin(self, step: Step) -> bool:
        return not self.builds if isinstance(step, Build) else step.build in self.built

    def _next(self) -> Step | None:
        with self.changed:
            while self.steps:
                for step in self.steps:
                    if self._may_begin(step):
                        self.steps.remove(step)
                        self.builds |= isinstance(step, Build)
                        return step
                self.changed.wait()
        return None

    def _lane(self, lane: int) -> None:
        while step := self._next():
            began = time.monotonic()
            run = run_build if isinstance(step, Build) else run_suite
            try:
                result = run(step, lane)
            except Exception as error:  # pylint: disable=broad-except
                result = Result(0, 1, repr(error))
            with self.changed:
                self._report(step, result, time.monotonic() - began)
                self._ended(step, result.failed)

    def _report(self, step: Step, result: Result, seconds: float) -> None:
        passed, failed, text, cpu, again = result
        name = f"build {step.name}" if isinstance(step, Build) else step.name
        counts = f"{passed:5} passed {failed:3} failed" if passed or failed else " " * 24
        print(f"{name:20} {counts} {seconds:5.0f} s {cpu:5.0f} s of CPU", flush=True)
        if text:
            print("\n".join(text.splitlines()[-60:]), flush=True)
        self.passed += passed
        self.failed += failed
        self.cpu += cpu
        self.again += [(step.name, test) for test in sorted(again)]

    def _ended(self, step: Step, failed: int) -> None:
        if isinstance(step, Build):
            self.builds = False
            if failed:  # its suites cannot run, and its failure stands for theirs
                self.steps[:] = [other for other in self.steps if other.build != step.name]
            else:
                self.built.add(step.name)
        self.changed.notify_all()


def keep_again(again: list[tuple[str, str]]) -> Counter[str]:
    """Adds to what build-test/reran says of earlier runs: how often each test ran again of late."""
    kept, today = BUILDS_AT / "reran", datetime.now(timezone.utc)
    first = f"{today - timedelta(days=AGAIN_DAYS):%F}"
    lines = kept.read_text("utf-8").splitlines() if kept.exists() else []
    lines = [line for line in lines if line >= first]
    lines += [f"{today:%F} {test} {suite}" for suite, test in again]
    kept.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return Counter(line.split()[1] for line in lines)


def report_again(again: list[tuple[str, str]]) -> int:
    """Names all that ran again, and returns how many of them did so too often."""
    counts, often = keep_again(again), 0
    for test in sorted({test for _, test in again}):
        too_often = counts[test] >= AGAIN_TOO_OFTEN
        print(f"RAN AGAIN {test} in {', '.join(suite for suite, other in again if other == test)}"
              + (f": {counts[test]} times in {AGAIN_DAYS} days, which is a failure;"
                 " mend it, and take its lines out of build-test/reran" if too_often else ""))
        often += too_often
    return often


def chosen(option: str, names: list[str]) -> list[Step]:
    """The suites that are asked for, after the builds that they need."""
    suites = [suite for suite in SUITES
              if (any(f"{suite.name} ".startswith(f"{name} ") for name in names) if names
                  else suite.quick if option == "--quick"
                  else suite.full and not (suite.needs_server and option == "--no-servers"))]
    return [*(build for build in BUILDS
              if any(suite.build == build.name for suite in suites)), *suites]


def describe() -> None:
    for step in (*BUILDS, *SUITES):
        name = f"build {step.name}" if isinstance(step, Build) else step.name
        print(f"{name:20} {step.covers}")


def end_all(*_: object) -> None:
    for call in list(Call.running):
        call.end(signal.SIGKILL)
    os._exit(130)


def main(arguments: list[str]) -> int:
    if arguments in (["-h"], ["--help"]):
        print(__doc__.split("\n\n", 1)[1].strip())
        return 0
    if arguments == ["--list"]:
        describe()
        return 0
    option = arguments[0] if len(arguments) == 1 and arguments[0] in MEANT else ""
    names = [] if option else arguments
    steps = chosen(option, names)
    if not steps:
        print(__doc__.split("\n\n", 1)[1].strip(), file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, end_all)
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    began, lanes = time.monotonic(), Lanes(steps)
    lanes.run()
    lanes.failed += report_again(lanes.again)
    seconds, meant = time.monotonic() - began, MEANT[option]
    print(f"total {seconds:.0f} s, {lanes.cpu:.0f} s of CPU; {meant} s are meant on two quiet"
          f" cores, {SLACK * meant} allowed")
    lanes.failed += seconds > SLACK * meant
    print(f"{lanes.passed} passed, {lanes.failed} failed")
    return 0 if lanes.passed and not lanes.failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
