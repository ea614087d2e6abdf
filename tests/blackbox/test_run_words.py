# SPDX-License-Identifier: Apache-2.0
"""The command line of `pawl run`: whose a word is, what a key may be made of, and what is refused
before anything is run."""
from __future__ import annotations

import pytest

from pawltest.jobs import EFFECT, KEY

pytestmark = pytest.mark.file_only


def key_of(jobs, template: str, *flags: str, **environment: str) -> str:
    """What the command finds as its key."""
    ran = jobs.run("printf %s \"$PAWL_KEY\"", *flags, key=template, **environment)
    assert ran.returncode == 0, ran
    return ran.stdout.decode()


# ---- whose a word is ----


def test_options_behind_the_command_are_the_command_s(jobs):
    ran = jobs.run_words("--key", KEY, "echo", "--key", "x", "-v", "--help", "--", "--ttl")
    assert (ran.returncode, ran.stdout) == (0, b"--key x -v --help -- --ttl\n")


def test_two_dashes_end_the_options(jobs):
    jobs.write("-v", "#!/bin/sh\necho \"mine $*\"\n")
    (jobs.folder / "-v").chmod(0o755)
    path = f"{jobs.folder}:/usr/bin:/bin"
    ran = jobs.run_words("--key", KEY, "--", "-v", "--", "-x", PATH=path)
    assert (ran.returncode, ran.stdout) == (0, b"mine -- -x\n")


def test_empty_arguments_and_those_with_blanks_arrive_as_they_are(jobs):
    ran = jobs.run_words("--key", KEY, "--", "printf", "<%s>", "", "a b", "'", "é", "\n")
    assert ran.stdout == "<><a b><'><é><\n>".encode()


# ---- keys ----


@pytest.mark.parametrize("template, at, key", [
    ("{date:America/New_York}", "2026-02-20T04:59:59Z", "2026-02-19"),
    ("{date:America/New_York}", "2026-02-20T05:00:00Z", "2026-02-20"),
    ("{date:America/New_York}", "2026-02-19T22:00:00-05:00", "2026-02-19"),
    ("{date:UTC}", "2026-02-19T22:00:00-05:00", "2026-02-20"),
    ("{week:Europe/Berlin}", "2026-02-19T12:00:00Z", "2026-W08"),
    ("{week:Europe/Berlin}", "2027-01-03T22:59:59.999Z", "2026-W53"),
    ("{week:Europe/Berlin}", "2027-01-03T23:00:00Z", "2027-W01"),
    ("{hour}", "2026-11-01T05:30:00Z", "2026-11-01T05Z"),
    ("{hour:America/New_York}", "2026-11-01T05:30:00Z", "2026-11-01T01-0400"),
    ("{hour:America/New_York}", "2026-11-01T06:30:00Z", "2026-11-01T01-0500"),
    ("{hour:Australia/Lord_Howe}", "2026-04-04T14:59:00Z", "2026-04-05T01+1100"),
    ("{hour:Australia/Lord_Howe}", "2026-04-04T15:00:00Z", "2026-04-05T01+1030"),
    ("{date:Antarctica/Troll}:x", "2026-02-19T23:59:59Z", "2026-02-19:x")])
def test_a_key_of_a_time_is_that_of_at(jobs, template, at, key):
    assert key_of(jobs, template, "--at", at) == key


def test_a_repeated_hour_is_two_keys_and_its_date_one(jobs):
    for at in ("2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"):
        jobs.run(EFFECT, "--at", at, key="{hour:America/New_York}")
        jobs.run(EFFECT, "--at", at, key="{date:America/New_York}")
    assert jobs.effects() == 3


def test_a_key_may_name_the_environment(jobs):
    assert key_of(jobs, "a-{env:WHO}-b", WHO="u 1:2") == "a-u%201%3A2-b"  # never two keys in one


def test_a_key_beyond_255_bytes_is_its_hash(jobs):
    long = key_of(jobs, "k" * 256)
    assert long.startswith("sha256-") and len(long) == 71 and long != key_of(jobs, "k" * 257)


def test_a_literal_key_is_taken_as_it_is(jobs):
    assert key_of(jobs, "daily") == "daily"


# ---- what is refused ----


@pytest.mark.parametrize("words, said", [
    (["true"], "--key"),
    (["--key", "k"], "CMD"),
    (["--key", "k", "--"], "CMD"),
    (["--key", "", "true"], "--key"),
    (["--key", "{date:", "true"], "--key: "),
    (["--key", "{nothing}", "true"], "--key: "),
    (["--key", "{date}", "true"], "{date:Area/City}"),
    (["--key", "{item}", "true"], "--key: "),
    (["--key", "{date:Mars/Olympus}", "true"], "there is no time zone `Mars/Olympus`"),
    (["--key", "{date:../../etc/passwd}", "true"], "--key: "),
    (["--key", "{env:NOT_SET}", "true"], "the environment variable NOT_SET is not set"),
    (["--key", "{hour}", "--at", "2026-02-19T22:00:00", "true"], "distance from UTC"),
    (["--key", "{hour}", "--at", "2026-02-19", "true"], "--at"),
    (["--key", "{hour}", "--at", "2026-02-30T22:00:00Z", "true"], "--at"),
    (["--key", "k", "--at", "now", "true"], "--at"),
    (["--key", "k", "--ttl", "0", "true"], "--ttl wants a duration"),
    (["--key", "k", "--ttl", "1", "true"], "--ttl wants a duration"),
    (["--key", "k", "--timeout", "0", "true"], "--timeout wants a duration"),
    (["--key", "k", "--wait", "-1s", "true"], "--wait wants a duration"),
    (["--key", "k", "--retry", "schedule", "true"], "did you mean `scheduled`"),
    (["--key", "k", "--unknown", "probe:", "true"], "--unknown must be"),
    (["--key", "k", "--unknown", "never", "true"], "--unknown must be"),
    (["--key", "k", "--final", "0", "true"], "--final wants exit codes"),
    (["--key", "k", "--final", "", "true"], "--final wants exit codes"),
    (["--key", "k", "--final", "256", "true"], "--final wants exit codes"),
    (["--key", "k", "--final", "5-3", "true"], "--final wants exit codes"),
    (["--key", "k", "--final", "1,", "true"], "--final wants exit codes"),
    (["--key", "k", "--keep-output", "65MiB", "true"], "--keep-output wants a size"),
    (["--key", "k", "--name", "a b", "true"], "--name"),
    (["--key", "k", "--name", "", "true"], "--name"),
    (["--key", "k", "--nothing", "true"], "--nothing")])
def test_what_cannot_be_meant_is_refused_with_the_reason_and_nothing_is_run(jobs, words, said):
    jobs.store.unlink()
    ran = jobs.run_words(*words)
    assert ran.returncode == 2 and said in ran.stderr.decode() and ran.stdout == b""
    assert not jobs.store.exists()
