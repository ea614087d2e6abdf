# SPDX-License-Identifier: Apache-2.0
"""A disk that fails, fills up or loses its file beneath the running gateway. strace makes the n-th
system call fail; it attaches when the gateway is ready and is taken away again."""
from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Iterator

import pytest

from pawltest.gateway import Gateway
from operations import BY_KEY, CONFIGS, Operations, died
from pawltest.upstream import Reply
from pawltest.wire import PATIENCE, Answer, Later, eventually

pytestmark = pytest.mark.hooks

EXIT_FAIL_STOP = 74
LETTING_GO = 10  # seconds
FAULTS_MOST = 40  # of one sweep; it ends where no fault fires any more
ROUND = ("a", "b", "c")  # the operations of one round: some ten syncs
needs_strace = pytest.mark.strace
needs_mount = pytest.mark.mount


class Traced:
    """strace sees some system calls of a running process, from `with` to its end."""

    def __init__(self, gateway: Gateway, calls: str, *more: str):
        self.log = gateway.directory / "strace"
        self._arguments = ["strace", "-f", "-q", "-o", str(self.log), "-e", f"trace={calls}",
                           *more, "-p", str(gateway.process.pid)]
        self._threads = f"/proc/{gateway.process.pid}/task"

    def __enter__(self) -> Traced:
        self.process = subprocess.Popen(self._arguments, stderr=subprocess.DEVNULL)
        eventually(lambda: self.process.poll() is not None or self._is_attached(), "strace")
        return self

    def _is_attached(self) -> bool:
        traced = f"TracerPid:\t{self.process.pid}\n"
        return all(traced in Path(self._threads, thread, "status").read_text("utf-8")
                   for thread in os.listdir(self._threads))

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)


class Injection(Traced):
    """System calls of a running process fail from `with` to its end."""

    def __init__(self, gateway: Gateway, call: str, how: str, only: Path | None = None):
        super().__init__(gateway, call, "-e", f"inject={call}:{how}",
                         *(["-P", str(only)] if only else []))
        self._is_lethal = "ENOSPC" not in how
        self._met_its_end = False

    def __exit__(self, *_: object) -> None:
        """strace must not be asked to let go of a process that is dying: both would hang. Where it
        begins to die just then, the end of strace frees it."""
        if not self._is_lethal or not self.fired:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(LETTING_GO)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(PATIENCE)
            self._met_its_end = self._is_lethal

    @property
    def fired(self) -> bool:
        text = self.log.read_text("utf-8")
        return self._met_its_end or "(INJECTED)" in text or "+++ killed" in text


@pytest.fixture(params=BY_KEY)
def operations(request: pytest.FixtureRequest, pawl, upstream, clock) -> Iterator[Operations]:
    """A gateway that answered one operation already."""
    made = Operations(pawl(CONFIGS[request.param]), upstream, clock, request.param)
    made.send("told")
    assert "told" in made.answered
    yield made


def one_round(operations: Operations, n: int) -> None:
    for name in ROUND:
        if died(operations.gateway):
            return
        operations.send(f"{name}{n}")


def check_fail_stop(gateway: Gateway, begin: int = 0) -> None:
    """It has ended, or is about to, with one line that says why."""
    assert gateway.wait() == EXIT_FAIL_STOP
    complaints = [line for line in gateway.printed[begin:] if line.startswith("pawl: ")
                  and not line.startswith("pawl: ready")]
    assert len(complaints) == 1, complaints
    assert "the store failed, stopping: " in complaints[0] and str(gateway.store) in complaints[0]


def sweep(operations: Operations, call: str, how: str) -> int:
    """Round after round with the n-th call failing; how many rounds met the fault."""
    gateway = operations.gateway
    for n in range(1, FAULTS_MOST):
        begin = len(gateway.printed)
        with Injection(gateway, call, f"{how}:when={n}") as injection:
            one_round(operations, n)
        fired = injection.fired
        if fired:  # its sockets end a moment before it does
            eventually(lambda: died(gateway), "its end")
        if died(gateway):
            assert fired
            if "KILL" in how:
                assert gateway.wait() == -signal.SIGKILL
            else:
                check_fail_stop(gateway, begin)
            gateway.start()
        for key in list(operations.sent):
            operations.check_retry(key)
        if not fired:
            return n - 1
    return FAULTS_MOST


# ---- EIO and kill -9 at the n-th call ----


@needs_strace
@pytest.mark.parametrize("call", ["fdatasync", "pwrite64"])
def test_an_io_error_stops_the_gateway_with_74_and_nothing_answered_is_lost(operations, call):
    assert sweep(operations, call, "error=EIO") > 3
    operations.check_all()


@needs_strace
@pytest.mark.parametrize("call", ["fdatasync", "pwrite64"])
def test_kill_9_inside_a_system_call_of_the_store_loses_nothing(operations, call):
    assert sweep(operations, call, "signal=KILL") > 3
    operations.check_all()


@needs_strace
@pytest.mark.parametrize("call", ["fdatasync", "pwrite64"])
def test_a_checkpoint_that_fails_stops_the_gateway(operations, call):
    gateway = operations.gateway
    operations.reply = Reply(201, os.urandom(64 * 1024), (("Cache-Control", "no-cache"),))
    # Only a checkpoint writes into the file itself; all else goes into its log.
    with Injection(gateway, call, "error=EIO", only=gateway.store):
        operations.send_until_death(200)
    check_fail_stop(gateway)
    gateway.start()
    operations.check_all()


# ---- no space ----


@needs_strace
def test_without_space_begins_are_refused_replays_go_on_and_it_recovers_by_itself(operations):
    gateway, upstream = operations.gateway, operations.upstream
    with Injection(gateway, "pwrite64", "error=ENOSPC"):
        for key in ("a", "b"):
            refused = gateway.post("/refunds", {"of": key}, key=key)
            assert refused.is_problem(503, "DEPENDENCY.store_unavailable")
            assert refused["Retry-After"] is not None
        assert operations.retry("told")["Idempotency-Status"] == "replayed"
        assert upstream.effects() == 1
    for key in ("a", "b"):
        assert operations.send(key)["Idempotency-Status"] == "stored"
    operations.check_all()


@needs_strace
def test_an_outcome_without_space_is_withheld_until_it_is_stored(operations):
    gateway = operations.gateway
    gate = operations.upstream.hold()
    operations.sent["k0"] = ({"of": "k0"}, (("X-Request-Timeout", "20000"),))
    first = Later(lambda: operations.retry("k0"))
    gate.wait_for()
    with Injection(gateway, "pwrite64", "error=ENOSPC") as injection:
        gate.open()
        eventually(lambda: injection.fired, "the outcome that finds no space")
        # It tries again and again, so that it never rests, and each step takes what one may take.
        operations.clock.run_until(lambda: first.is_done, step=2)
        withheld = first.result()
        assert withheld.status == 503, withheld.head
        assert withheld["Error-Code"] == "DEPENDENCY.outcome_not_stored"
    replayed = eventually(lambda: replay_of(operations, "k0"), "the stored outcome")
    assert (replayed.status, replayed.json) == (201, {"held": True})
    assert operations.effects("k0") == 1


def replay_of(operations: Operations, key: str) -> Answer | None:
    answer = operations.retry(key)
    return answer if answer["Idempotency-Status"] == "replayed" else None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """2 MiB. Where the tests may not mount, strace alone plays the full disk."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@needs_mount
def test_a_disk_that_fills_up_refuses_begins_and_takes_them_again_when_space_is_back(
        pawl, upstream, clock, small_disk):
    gateway = pawl(CONFIGS["hold"], started=False)
    gateway.store = small_disk / "pawl.db"
    gateway.configure(CONFIGS["hold"])
    operations = Operations(gateway.start(), upstream, clock, "hold")
    operations.send("told")
    (small_disk / "ballast").write_bytes(bytes(1024 * 1024))
    fill(small_disk / "more")
    refused = eventually(lambda: refusal(gateway), "a refusal")
    assert refused.is_problem(503, "DEPENDENCY.store_unavailable")
    assert operations.retry("told")["Idempotency-Status"] == "replayed"
    (small_disk / "ballast").unlink()
    (small_disk / "more").unlink()
    assert eventually(lambda: operations.send("k0"), "an answer")["Idempotency-Status"] == "stored"
    operations.check_all()


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass


def refusal(gateway: Gateway) -> Answer | None:
    """The space is looked at each second."""
    answer = gateway.post("/refunds", {}, key=f"filler{len(gateway.printed)}")
    return answer if answer.status == 503 else None


# ---- the file itself ----


def at_rest(operations: Operations) -> Gateway:
    """The gateway has ended, and all it knows stands in the file."""
    assert operations.gateway.stop() == 0
    return operations.gateway


def refuses_to_start(gateway: Gateway) -> None:
    """With one line that names the file."""
    begin = len(gateway.printed)
    with pytest.raises(AssertionError, match="pawl is not ready"):
        gateway.start()
    told = gateway.printed[begin:]
    assert len(told) == 1 and str(gateway.store) in told[0], told


@pytest.mark.parametrize("harm", ["unlink", "replace"])
def test_a_file_removed_or_replaced_in_use_fails_closed_until_it_is_back(operations, harm):
    gateway, store = operations.gateway, operations.gateway.store
    away = store.with_name("away.db")
    store.rename(away)
    if harm == "replace":
        sqlite3.connect(store).close()
        store.touch()
    waiting = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    operations.clock.run_until(lambda: waiting.is_done)
    assert waiting.result().is_problem(503, "DEPENDENCY.store_unavailable")
    assert operations.effects("k1") == 0
    away.replace(store)
    assert operations.send("k0")["Idempotency-Status"] == "stored"
    operations.check_all()


def test_a_file_with_random_bytes_behind_its_head_is_refused(operations):
    for i in range(20):
        operations.send(f"k{i}")
    gateway = at_rest(operations)
    size = gateway.store.stat().st_size
    with gateway.store.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(size - 4096))
    refuses_to_start(gateway)


def test_a_file_that_is_no_store_is_refused(operations):
    gateway = at_rest(operations)
    gateway.store.write_bytes(os.urandom(16384))
    refuses_to_start(gateway)


def test_a_database_of_somebody_else_is_refused_and_left_alone(operations):
    gateway = at_rest(operations)
    gateway.store.unlink()
    with sqlite3.connect(gateway.store) as theirs:
        theirs.execute("CREATE TABLE mine (x)")
    theirs.close()
    before = gateway.store.read_bytes()
    refuses_to_start(gateway)
    assert gateway.store.read_bytes() == before


def test_a_directory_in_the_place_of_the_file_is_refused(operations):
    gateway = at_rest(operations)
    gateway.store.unlink()
    gateway.store.mkdir()
    refuses_to_start(gateway)


@needs_mount
def test_a_store_that_became_read_only_is_refused(pawl, upstream, clock, small_disk):
    gateway = pawl(CONFIGS["hold"], started=False)
    gateway.store = small_disk / "pawl.db"
    gateway.configure(CONFIGS["hold"])
    operations = Operations(gateway.start(), upstream, clock, "hold")
    operations.send("told")
    at_rest(operations)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    refuses_to_start(gateway)
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    gateway.start()
    operations.check_all()


def test_a_write_lock_of_a_shell_delays_begins_and_loses_none(operations):
    gateway = operations.gateway
    shell = sqlite3.connect(gateway.store, isolation_level=None)
    shell.execute("BEGIN IMMEDIATE")
    waiting = Later(lambda: operations.send("k0"))
    assert operations.upstream.effects() == 1
    assert not waiting.is_done
    shell.execute("COMMIT")
    shell.close()
    assert waiting.result()["Idempotency-Status"] == "stored"
    operations.check_all()


def test_a_write_lock_that_stays_refuses_begins_with_nothing_sent(operations):
    gateway = operations.gateway
    shell = sqlite3.connect(gateway.store, isolation_level=None)
    shell.execute("BEGIN IMMEDIATE")
    operations.sent["k0"] = ({"of": "k0"}, (("X-Request-Timeout", "20000"),))
    body, headers = operations.sent["k0"]
    waiting = Later(lambda: gateway.post("/refunds", body, key="k0", headers=headers))
    operations.clock.run_until(lambda: waiting.is_done)
    refused = waiting.result()
    assert refused.is_problem(503, "DEPENDENCY.store_unavailable")
    assert operations.effects("k0") == 0
    shell.execute("ROLLBACK")
    shell.close()
    assert operations.send("k0")["Idempotency-Status"] == "stored"
    operations.check_all()
