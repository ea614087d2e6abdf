# SPDX-License-Identifier: Apache-2.0
"""A store file where locks, syncs or the file itself cannot be trusted to last: refused at the
start, unless that is accepted. The type of the file system is the test's, but for one that is
mounted."""
from __future__ import annotations

import os
import subprocess

import pytest

from conftest import CONFIG
from pawltest.admin import Admin
from pawltest.gateway import PAWL, free_port, run
from pawltest.wire import PATIENCE, eventually

pytestmark = [pytest.mark.hooks, pytest.mark.file_only]
NFS, TMPFS, OVERLAY, EXT4 = "6969", "1021994", "794c7630", "ef53"
SAID = {NFS: "it is on nfs, where locks and fsync cannot be trusted; use a block volume, "
             "or PostgreSQL",
        TMPFS: "it is on tmpfs, which is in memory and ends with the machine; use a disk"}
ON_TMPFS = ["unshare", "--map-root-user", "--mount", "sh", "-c",
            'mount -t tmpfs -o size=16m none "$0" && exec "$@"']


def on(file_system: str, **more: str) -> dict[str, str]:
    return {**os.environ, "PAWL_TEST_FILE_SYSTEM": file_system, **more}


@pytest.mark.parametrize("file_system", SAID)
def test_a_gateway_does_not_start_on_a_store_that_does_not_last(pawl, file_system):
    """found: F4"""
    gateway = pawl(CONFIG, started=False)
    gateway.store.unlink()
    ended = run("serve", "-c", gateway.config, env=on(file_system))
    assert ended.returncode == 69
    assert ended.stderr == (f"pawl serve: {gateway.store}: {SAID[file_system]},"
                            " or accept_weaker: true\n")
    assert not gateway.store.exists()


@pytest.mark.parametrize("file_system", SAID)
def test_it_starts_where_that_is_accepted_and_says_so(pawl, file_system):
    """found: F4"""
    gateway = pawl(CONFIG, started=False)
    admin = Admin(free_port())
    gateway.configure(f"admin: 127.0.0.1:{admin.port}\naccept_weaker: true\n{CONFIG}")
    gateway.start(PAWL_TEST_FILE_SYSTEM=file_system)
    eventually(lambda: "store_weaker" in [line["event"] for line in gateway.log], "its log line")
    assert admin.value("pawl_store_weaker") == 1
    said = (f"pawl serve: warning: the store {gateway.store} may lose what it acknowledged: "
            f"{SAID[file_system]} (accept_weaker: true)")
    eventually(lambda: said in gateway.printed, "the warning")
    assert gateway.post("/refunds", {}, "k1").status == 201


@pytest.mark.parametrize("allowed", [False, True])
def test_a_store_in_a_containers_own_layer_is_a_warning(pawl, allowed):
    """found: F4"""
    gateway = pawl(CONFIG, started=False)
    admin = Admin(free_port())
    allow = "allow: [store-in-image]\n" if allowed else ""
    gateway.configure(f"admin: 127.0.0.1:{admin.port}\n{allow}{CONFIG}")
    gateway.start(PAWL_TEST_FILE_SYSTEM=OVERLAY)
    assert admin.value("pawl_store_weaker") == 0 and gateway.stop() == 0
    warned = [line for line in gateway.printed if line.endswith("[store-in-image]")]
    assert len(warned) == (not allowed)


def test_a_disk_is_nothing_to_speak_of(pawl):
    gateway = pawl(CONFIG, started=False).start(PAWL_TEST_FILE_SYSTEM=EXT4)
    assert gateway.stop() == 0
    assert not any("serve: warning" in line or "store_weaker" in line for line in gateway.printed)


def test_commands_that_keep_records_ask_the_same(tmp_path):
    """found: F4"""
    store = tmp_path / "pawl.db"
    effects = tmp_path / "effects"
    command = ["run", "--key", "k1", "--store", store, "--", "sh", "-c", f"echo x >> {effects}"]
    refused = run(*command, env=on(TMPFS))
    assert (refused.returncode, effects.exists(), store.exists()) == (69, False, False)
    assert f"{SAID[TMPFS]}, or PAWL_ACCEPT_WEAKER=true" in refused.stderr
    assert run(*command, env=on(TMPFS, PAWL_ACCEPT_WEAKER="yes")).returncode == 69
    assert run(*command, env=on(TMPFS, PAWL_ACCEPT_WEAKER="true")).returncode == 0
    assert effects.read_text() == "x\n"
    refused = run("queue", "drain", "--once", "--store", store, env=on(TMPFS))
    assert refused.returncode == 69 and "PAWL_ACCEPT_WEAKER=true" in refused.stderr
    looked = run("keys", "list", "--store", store, env=on(TMPFS))  # which loses nothing
    assert looked.returncode == 0 and "k1" in looked.stdout


def test_the_file_system_is_asked(pawl):
    """found: F4"""
    gateway = pawl(CONFIG, started=False)
    disk = gateway.directory / "disk"
    disk.mkdir()
    gateway.store = disk / "pawl.db"
    gateway.configure(CONFIG)
    ended = subprocess.run([*ON_TMPFS, disk, PAWL, "serve", "-c", gateway.config], check=False,
                           capture_output=True, text=True, timeout=PATIENCE, env=on("real"))
    assert ended.returncode == 69 and SAID[TMPFS] in ended.stderr, ended.stderr
