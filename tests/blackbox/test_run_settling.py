# SPDX-License-Identifier: Apache-2.0
"""What `pawl run` and `pawl each` say of what nobody knows the outcome of: the commands that they
print settle it, as they stand."""
from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from pawltest.each import EFFECT, Each, lines, shell
from pawltest.gateway import PAWL, Clock
from pawltest.jobs import Jobs

LEASE = 15
KEY = "it's a key/$HOME"
DIES = "kill -9 $PPID"
BEFORE_LONG = "2100-01-01T00:00:00Z"


@pytest.fixture
def jobs(tmp_path: Path, clock: Clock):
    made = Jobs(tmp_path, clock)
    yield made
    made.close()


@pytest.fixture
def each(tmp_path: Path, clock: Clock) -> Each:
    return Each(tmp_path, clock)


def advice(said: str) -> list[str]:
    """The commands, in the order in which they are printed."""
    return re.findall(r"pawl keys .*", said)


def follow(command: str, folder: Path, environment: dict[str, str]
           ) -> subprocess.CompletedProcess[str]:
    path = f"{PAWL.parent.resolve()}:{os.environ['PATH']}"
    return subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True,
                          env={**environment, "PATH": path}, check=False)


def doubtful(jobs: Jobs, *flags: str, key: str = KEY) -> list[str]:
    """An earlier run has died; what the next one advises."""
    script = f"[ -e died ] || {{ touch died; {DIES}; exit; }}; echo ran >> effects"
    jobs.run(script, "--unknown", "hold", *flags, key=key)
    jobs.clock.advance(LEASE + 1)
    ran = jobs.run(script, "--unknown", "hold", *flags, key=key)
    assert ran.returncode == 76 and jobs.effects() == 0
    return advice(ran.stderr.decode())


@pytest.mark.hooks
@pytest.mark.parametrize("flags", [(), ("--store", "other store.db"), ("--name", "a/b")])
def test_the_printed_commands_settle_it_as_done(jobs, flags):
    done, _ = doubtful(jobs, *flags)
    settled = follow(done, jobs.folder, jobs.environment({}))
    assert settled.returncode == 0 and "exit code 0" in settled.stdout, settled
    ran = jobs.run("ignored", "--payload", "ignore", *flags, key=KEY)
    assert (ran.returncode, ran.stdout, jobs.effects()) == (0, b"", 0)


@pytest.mark.hooks
@pytest.mark.parametrize("key", [KEY, "-v"])
def test_the_printed_commands_settle_it_as_not_done(jobs, key):
    _, not_done = doubtful(jobs, key=key)
    settled = follow(not_done, jobs.folder, jobs.environment({}))
    assert settled.returncode == 0 and "released" in settled.stdout, settled
    assert jobs.run("echo ran >> effects", key=key).returncode == 0 and jobs.effects() == 1


def test_a_url_of_a_store_is_not_printed_since_it_may_hold_a_password(jobs):
    ran = jobs.run("true", "--store", "postgres://u:secret@127.0.0.1:1/db")
    assert ran.returncode == 69 and b"secret" not in ran.stderr


@pytest.mark.hooks
@pytest.mark.parametrize("code", ["0", "3"])
def test_an_operators_exit_code_and_output_are_those_of_the_next_runs(jobs, code):
    doubtful(jobs)
    token = str(jobs.record(KEY)["token"])
    settled = jobs.keys("resolve", KEY, "--token", token, "--exit-code", code,
                        "--body", "made by hand")
    status = "complete" if code == "0" else "failed"
    assert f"resolved as {status} with exit code {code}" in settled.stdout
    for _ in range(2):
        ran = jobs.run("ignored", "--payload", "ignore", key=KEY)
        assert (ran.returncode, ran.stdout, jobs.effects()) == (int(code), b"made by hand", 0)
    again = jobs.keys("resolve", KEY, "--token", token, "--exit-code", code)
    assert again.returncode == 0 and "already" in again.stdout
    other = jobs.keys("resolve", KEY, "--token", token, "--exit-code", "7" if code == "0" else "0")
    assert other.returncode == 1 and "already" in other.stderr


@pytest.mark.hooks
def test_a_command_has_no_http_status_and_a_request_no_exit_code(jobs, each):
    doubtful(jobs)
    token = str(jobs.record(KEY)["token"])
    refused = jobs.keys("resolve", KEY, "--token", token, "--status", "200")
    assert refused.returncode == 2 and "--exit-code" in refused.stderr
    each.run("--unknown", "hold", "--send", "POST http://127.0.0.1:1/", items="a\n")
    shown = each.other("keys", "show", "a", "--json")
    token = re.findall(r'"token": ?"?(\d+)', shown.stdout)[0]
    refused = each.other("keys", "resolve", "a", "--token", token, "--exit-code", "0")
    assert refused.returncode == 2 and "HTTP status" in refused.stderr


def test_resolve_takes_one_way_to_say_how_it_ended(jobs):
    for words in (["--exit-code", "0", "--status", "200"], ["--exit-code", "0", "--released"],
                  ["--exit-code", "0", "--header", "A: b"], ["--exit-code", "256"],
                  ["--exit-code", "-1"], ["--exit-code", "x"]):
        refused = jobs.keys("resolve", KEY, "--token", "1", *words)
        assert refused.returncode == 2 and "--exit-code" in refused.stderr, refused


@pytest.mark.hooks
def test_the_code_of_a_probe_that_said_nothing_is_printed(jobs):
    jobs.run(DIES, "--unknown", "probe:exit 4", key=KEY)
    jobs.clock.advance(LEASE + 1)
    ran = jobs.run(DIES, "--unknown", "probe:exit 4", key=KEY)
    assert ran.returncode == 76 and b"the probe ended with exit code 4" in ran.stderr


@pytest.mark.hooks
@pytest.mark.parametrize("at, run", [(1, 0), (2, 3)], ids=["done", "not-done"])
def test_items_in_doubt_are_settled_all_at_once_by_a_printed_command(each, at, run):
    words = ("-j", "3", "--unknown", "hold")
    dies = shell(f"echo $1 >> begun; while [ $(wc -l < begun) -lt 3 ]; do sleep 0.01; done; {DIES}")
    each.end(each.start(*words, *dies, items=lines("abc")))
    each.clock.advance(LEASE + 1)
    ran = each.run(*words, "--payload", "ignore", *shell(EFFECT), items=lines("abc"))
    assert ran.returncode == 76 and ran.last == "pawl: 3 items: 0 run, 3 in doubt", ran
    advised = advice(ran.stderr)
    assert shlex.split(advised[0]) == ["pawl", "keys", "list", "--status", "unknown", "--rule",
                                       "job"]
    environment = {**os.environ, "PAWL_STORE": each.store,
                   "PAWL_TEST_CLOCK": str(each.clock.path)}
    listed = follow(advised[0], each.directory, environment)
    assert len(listed.stdout.splitlines()) == 4
    settled = follow(advised[at], each.directory, environment)
    assert settled.returncode == 0 and "3 settled" in settled.stdout, settled
    ran = each.run(*words, "--payload", "ignore", *shell(EFFECT), items=lines("abc"))
    assert ran.returncode == 0 and len(each.effects) == run
