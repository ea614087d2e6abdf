# SPDX-License-Identifier: Apache-2.0
"""Limits that this machine cannot keep are refused at start and by a reload, and not met
under load."""
from __future__ import annotations

import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

from pawltest.gateway import Gateway, run
from pawltest.wire import eventually

CONFIG = "tenant: none\nthreads: 2\nrules:\n  - {name: r, match: POST /refunds}\n"


def ends(gateway: Gateway, **options: Any) -> subprocess.CompletedProcess[str]:
    """`pawl serve` to its end."""
    return run("serve", "-c", gateway.config, **options)


def test_more_connections_than_open_files_are_refused_with_what_to_change(pawl):
    gateway = pawl(CONFIG + "max_connections: 900\nmax_in_flight: 100\n", started=False)
    ran = ends(gateway, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                                              (1000, 1000)))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "max_connections" in ran.stderr and "1000" in ran.stderr
    assert "LimitNOFILE" in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert not gateway.store.exists(), "nothing was begun"


def test_the_soft_limit_of_open_files_is_raised_to_the_hard_one(pawl):
    gateway = pawl(CONFIG, started=False)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        gateway.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)[0] == before[1]


def test_more_connections_than_memory_mappings_for_their_stacks_are_refused(pawl):
    allowed = int(Path("/proc/sys/vm/max_map_count").read_text("ascii"))
    ran = ends(pawl(CONFIG + f"max_connections: {min(allowed, 1_000_000)}\n", started=False))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "sysctl vm.max_map_count" in ran.stderr and str(allowed) in ran.stderr


def test_a_reload_that_this_machine_cannot_keep_is_refused_and_the_old_limits_hold(pawl):
    gateway = pawl(CONFIG)
    hard = resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (min(hard, 100_000),) * 2)
    gateway.configure(CONFIG + "max_in_flight: 200000\n")
    gateway.signal(signal.SIGHUP)
    line, = eventually(lambda: [line for line in gateway.log
                                if line["event"] in ("config_refused", "config_reloaded")])
    assert line["event"] == "config_refused" and "max_in_flight" in line["problem"]
    assert gateway.post("/refunds", {}, key="k1").status == 201
