# SPDX-License-Identifier: Apache-2.0
"""What `pawl run` and `pawl each` say of what nobody knows the outcome of: the commands that they
print settle it, as they stand."""
from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from pawltest.each import EFFECT, Each, Ran, lines, shell
from pawltest.gateway import PAWL, Clock
from pawltest.jobs import KEY as jobs_key
from pawltest.jobs import Jobs
from pawltest.upstream import closes
from pawltest.wire import eventually

pytestmark = pytest.mark.file_only

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


def three_in_doubt(each: Each, *words: str) -> str:
    """Of three items; what is said of them."""
    dies = shell(f"echo $1 >> begun; while [ $(wc -l < begun) -lt 3 ]; do sleep 0.01; done; {DIES}")
    each.end(each.start("-j", "3", "--unknown", "hold", *words, *dies, items=lines("abc")))
    each.clock.advance(LEASE + 1)
    ran = again(each, *words)
    assert ran.returncode == 76 and ran.last == "pawl: 3 items: 0 run, 3 in doubt", ran
    return ran.stderr


def again(each: Each, *words: str) -> Ran:
    return each.run("--unknown", "hold", *words, "--payload", "ignore", *shell(EFFECT),
                    items=lines("abc"))


def surroundings(each: Each) -> dict[str, str]:
    return {**os.environ, "PAWL_STORE": each.store, "PAWL_TEST_CLOCK": str(each.clock.path)}


@pytest.mark.hooks
@pytest.mark.parametrize("at, effects", [(0, []), (1, ["b"])], ids=["done", "not-done"])
def test_an_item_in_doubt_is_settled_by_its_token_and_no_other_is(each, at, effects):
    said = three_in_doubt(each)
    token = re.findall(r"\(key b, token (\d+)\)", said)[0]
    command = advice(said)[at].replace("TOKEN", token).replace("KEY", "b")
    settled = follow(command, each.directory, surroundings(each))
    assert settled.returncode == 0, settled
    ran = again(each)
    assert ran.returncode == 76 and each.effects == effects
    assert ran.last.endswith("2 in doubt")
    assert len(advice(said)) == 2  # without a name of its own nothing settles all at once


@pytest.mark.hooks
@pytest.mark.parametrize("at, run", [(2, 0), (3, 3)], ids=["done", "not-done"])
def test_a_list_with_a_name_is_settled_all_at_once_and_others_are_not(each, at, run):
    other = three_in_doubt(each)
    (each.directory / "begun").unlink()
    said = three_in_doubt(each, "--name", "list")
    settled = follow(advice(said)[at], each.directory, surroundings(each))
    assert settled.returncode == 0 and "3 settled" in settled.stdout, settled
    ran = again(each, "--name", "list")
    assert ran.returncode == 0 and len(each.effects) == run
    assert again(each).last == other.splitlines()[-1]


@pytest.mark.hooks
def test_of_many_those_of_another_kind_and_those_in_use_are_counted_apart(each, upstream):
    three_in_doubt(each)
    upstream.then(closes(effect=True))
    each.run("--unknown", "hold", "--send", f"POST http://127.0.0.1:{upstream.port}/",
             items="x\n", key="sent:{}")
    each.clock.advance(120)
    ran = each.other("keys", "resolve", "--rule", "job", "--unknown", "--before", BEFORE_LONG,
                     "--exit-code", "0")
    assert ran.returncode == 0
    assert ran.stdout == ("3 settled, 0 too early, 0 changed meanwhile, 1 requests left alone\n")


@pytest.mark.hooks
@pytest.mark.parametrize("act", [["release"], ["resolve", "--exit-code", "0"], ["forget"]])
def test_a_job_whose_command_still_runs_here_is_settled_by_force_alone(jobs, act):
    gate = jobs.gate()
    process = jobs.start(f"{gate.waits}; echo ran >> effects", "--unknown", "hold")
    gate.wait_for()
    process.kill()
    jobs.end(process)
    jobs.clock.advance(LEASE + 1)
    token = str(jobs.record()["token"])
    words = ("keys", act[0], jobs_key, "--token", token, *act[1:])
    for _ in range(2):
        refused = jobs.keys(*words[1:])
        assert refused.returncode == 75 and "still runs on this host" in refused.stderr, refused
    many = jobs.keys("release", "--rule", "job", "--unknown", "--before", BEFORE_LONG)
    assert many.returncode == 75 and "1 in use" in many.stdout
    assert jobs.keys(*words[1:], "--force").returncode == 0
    gate.open()
    eventually(lambda: jobs.effects() == 1, "the end of the command")
