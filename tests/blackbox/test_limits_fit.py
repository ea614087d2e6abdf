# SPDX-License-Identifier: Apache-2.0
"""Limits that this machine cannot keep are refused at start and by a reload, and not met
under load."""
from __future__ import annotations

import os
import resource
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from pawltest.gateway import Gateway, free_port, run
from pawltest.wire import eventually

pytestmark = pytest.mark.no_store

hooks = pytest.mark.hooks

CONFIG = "tenant: none\nthreads: 2\nrules:\n  - {name: r, match: POST /refunds}\n"


def ends(gateway: Gateway, **options: Any) -> subprocess.CompletedProcess[str]:
    """`pawl serve` to its end."""
    return run("serve", "-c", gateway.config, **options)


def test_more_connections_than_open_files_are_refused_with_what_to_change(pawl):
    gateway = pawl(CONFIG + "max_connections: 900\nmax_in_flight: 100\n", started=False)
    gateway.store.unlink()
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


# ---- a container's limits ----

SELF = "tenant: none\nadmin: 127.0.0.1:{port}\nrules:\n  - {{name: r, match: POST /refunds}}\n"


def machine(root: Path, **files: str) -> dict[str, str]:
    """What a gateway is started with that finds its control group there."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("0::/\n")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    for name, text in files.items():
        (root / "sys/fs/cgroup" / name.replace("_", ".")).write_text(text)
    return {"PAWL_TEST_ROOT": str(root)}


def loops_of(gateway: Gateway) -> int:
    tasks = Path(f"/proc/{gateway.process.pid}/task")
    return sum((task / "comm").read_text().startswith("pawl-loop") for task in tasks.iterdir())


def ready_line(gateway: Gateway) -> str:
    return [line for line in gateway.printed if line.startswith("pawl: ready")][-1]


@hooks
def test_a_quota_of_half_a_processor_is_one_loop(pawl, tmp_path):
    """found: Q2"""
    gateway = pawl(CONFIG.replace("threads: 2\n", ""), started=False)
    gateway.start(**machine(tmp_path / "root", cpu_max="50000 100000\n"))
    assert loops_of(gateway) == 1 and ", 1 thread" in ready_line(gateway)
    gateway.configure(CONFIG)
    gateway.restart(PAWL_TEST_ROOT=str(tmp_path / "root"))
    assert loops_of(gateway) == 2 and ready_line(gateway).endswith(", 2 threads")


def test_a_process_that_may_run_on_one_processor_has_one_loop(pawl):
    """found: Q2"""
    gateway = pawl(CONFIG.replace("threads: 2\n", ""), started=False)
    may = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(may)})
    try:
        gateway.start()
    finally:
        os.sched_setaffinity(0, may)
    assert loops_of(gateway) == 1


@hooks
def test_memory_of_a_container_bounds_bodies_and_is_shown(pawl, tmp_path):
    """found: Q2"""
    port = free_port()
    gateway = pawl(SELF.format(port=port), started=False)
    gateway.start(**machine(tmp_path / "root", memory_max=f"{2 << 20}\n"))
    assert gateway.post("/refunds", {"a": "x" * 900_000}, key="k1").status == 429, "40 % of 2 MiB"
    assert gateway.post("/refunds", {"a": 1}, key="k2")["Idempotency-Status"] == "stored"
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    assert f"pawl_memory_limit_bytes {2 << 20}" in page
    assert "memory-limit" not in "\n".join(gateway.printed)


@hooks
def test_a_config_that_takes_more_than_its_container_has_is_warned_of(pawl, tmp_path):
    gateway = pawl(CONFIG + "max_buffered: 1GiB\n", started=False)
    there = {**os.environ, **machine(tmp_path / "root", memory_max=f"{64 << 20}\n")}
    ran = run("serve", "--test", "-c", gateway.config, env=there)
    assert ran.returncode == 0 and ran.stderr.count("[memory-limit]") == 1
    gateway.configure(CONFIG + "max_buffered: 1GiB\nallow: [memory-limit]\n")
    assert "memory-limit" not in run("serve", "--test", "-c", gateway.config, env=there).stderr
