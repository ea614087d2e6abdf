# SPDX-License-Identifier: Apache-2.0
"""`pawl run` and `pawl each` on a store that was restored from a backup: what may have been done is
asked about by `--unknown probe:CMD`, and else said."""
from __future__ import annotations

from pathlib import Path

import pytest

from pawltest.each import Each, shell
from pawltest.gateway import Clock, run
from pawltest.jobs import EFFECT, Jobs

LEASE = 15

pytestmark = [pytest.mark.hooks, pytest.mark.file_only]


@pytest.fixture
def each(tmp_path: Path, clock: Clock) -> Each:
    return Each(tmp_path, clock)


def mark(jobs: Jobs) -> None:
    assert jobs.run("true", key="a store").returncode == 0
    ended = run("store", "restored", "--since", "2026-01-31T12:00:00Z",
                env=jobs.environment({}), cwd=jobs.folder)
    assert ended.returncode == 0, ended
    assert jobs.clock.offset == 0


@pytest.mark.parametrize("code, end, effects", [(0, 0, 0), (1, 0, 1), (7, 75, 0)])
def test_a_probe_is_asked_before_what_may_have_run(jobs, code, end, effects):
    mark(jobs)
    jobs.clock.advance(LEASE + 1)
    probe = f"echo $PAWL_KEY >> asked; exit {code}"
    ran = jobs.run(EFFECT, "--unknown", f"probe:{probe}", key="k1")
    assert (ran.returncode, jobs.effects()) == (end, effects)
    assert jobs.read("asked") == "k1\n"
    if code == 7:
        assert b"the probe did not find out" in ran.stderr and b"nothing was run" in ran.stderr
    again = jobs.run(EFFECT, "--unknown", "probe:exit 0", key="k1")
    assert (again.returncode, jobs.effects()) == (0, effects)


def test_that_it_was_not_done_is_not_believed_too_soon(jobs):
    mark(jobs)
    ran = jobs.run(EFFECT, "--unknown", "probe:exit 1", key="k1")
    assert ran.returncode == 75 and jobs.effects() == 0
    jobs.clock.advance(LEASE + 1)
    assert jobs.run(EFFECT, "--unknown", "probe:exit 1", key="k1").returncode == 0
    assert jobs.effects() == 1


@pytest.mark.parametrize("policy", [(), ("--unknown", "hold")])
def test_where_nobody_is_asked_that_is_said(jobs, policy):
    mark(jobs)
    ran = jobs.run(EFFECT, *policy, key="k1")
    assert ran.returncode == 0 and jobs.effects() == 1
    assert b"although the store may lack the record of an earlier run" in ran.stderr
    again = jobs.run(EFFECT, *policy, key="k1")
    assert again.returncode == 0 and jobs.effects() == 1 and b"may lack" not in again.stderr


def test_of_items_those_that_were_done_are_skipped(each):
    assert each.run(*shell("true"), items="z\n").returncode == 0
    marked = each.other("store", "restored", "--since", "2026-01-31T12:00:00Z")
    assert marked.returncode == 0
    each.clock.advance(LEASE + 1)
    script = shell("echo $1 >> ran")
    asks = ("--unknown", 'probe:test "$PAWL_KEY" = a')
    ran = each.run(*asks, *script, items="a\nb\n")
    assert ran.returncode == 0
    assert (each.directory / "ran").read_text() == "b\n"
    ran = each.run(*script, items="c\nd\nb\n")
    assert "2 items were run although the store may lack their records" in ran.stderr
    ran = each.run("--unknown", "probe:exit 9", *script, items="e\n")
    assert ran.last == "pawl: 1 item: 0 run, 1 left" and ran.returncode == 75
    assert (each.directory / "ran").read_text() == "b\nc\nd\n"
