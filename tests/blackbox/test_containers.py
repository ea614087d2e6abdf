# SPDX-License-Identifier: Apache-2.0
"""pawl as the first process of a container: the system ignores what such a one does not wait for,
and in its container its pid is 1, as that of every other one is in its own."""
from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from pawltest.gateway import PAWL, Gateway
from pawltest.wire import PATIENCE, eventually, request_bytes

AS_PID_1 = ["unshare", "--map-root-user", "--pid", "--fork", "--kill-child"]


def contained(gateway: Gateway) -> int:
    """Starts it so; its pid outside of the container."""
    gateway.wrapper = AS_PID_1
    gateway.start()
    pid = gateway.process.pid
    [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    status = Path(f"/proc/{child}/status").read_text("ascii")
    assert f"NSpid:\t{child}\t1\n" in status
    return int(child)


@pytest.mark.no_store
def test_the_first_process_of_a_container_drains_at_sigterm(pawl, upstream):
    gateway = pawl(started=False)
    pid = contained(gateway)
    gate = upstream.hold()
    with gateway.connect() as client:
        client.send(request_bytes("POST", "/refunds", [("Idempotency-Key", "k1")], b"{}"))
        gate.wait_for()
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: not gateway.is_listening, "the end of listening")
        gate.open()
        assert client.answer().status == 201
    assert gateway.wait() == 0


@pytest.mark.file_only
def test_of_two_containers_on_one_volume_the_second_is_refused_until_the_first_is_gone(pawl):
    gateway = pawl(started=False)
    pid = contained(gateway)
    assert gateway.post("/refunds", {}, key="k1").mark == (201, "stored")
    second = subprocess.run([*AS_PID_1, str(PAWL), "serve", "-c", str(gateway.config)], text=True,
                            capture_output=True, check=False, timeout=PATIENCE)
    assert second.returncode == 69
    assert f"{gateway.store} is in use by another `pawl serve` (pid 1)" in second.stderr
    assert gateway.post("/refunds", {}, key="k1").mark == (201, "replayed")
    os.kill(pid, signal.SIGKILL)
    assert gateway.wait() != 0
    pid = contained(gateway)
    assert gateway.post("/refunds", {}, key="k1").mark == (201, "replayed")
    os.kill(pid, signal.SIGTERM)
    assert gateway.wait() == 0
