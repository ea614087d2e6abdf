# SPDX-License-Identifier: Apache-2.0
"""`pawl store backup` and `pawl store check`: a copy beside running gateways, its proof, and what
holds once it is in the store's place."""
from __future__ import annotations

import fcntl
import json
import re
import resource
import shlex
import sqlite3
import struct
import subprocess
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pawltest.gateway import PAWL, Gateway, run
from pawltest.wire import PATIENCE, eventually

pytestmark = pytest.mark.file_only
CONFIG = """
tenant: none
rules:
  - {name: refunds.create, match: POST /refunds}
"""
CLIENTS = 4


def backup(gateway: Gateway, to: Path, *more: str) -> Any:
    return run("store", "backup", *more, "--store", gateway.store, to)


def whole(path: Path) -> dict[str, Any]:
    ran = run("store", "check", "--json", path)
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    return json.loads(ran.stdout)


def damage(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.executescript(sql)


class Load:
    """Clients that post, each under keys of its own, until the block ends."""

    def __init__(self, gateway: Gateway):
        self.gateway, self.kept = gateway, {}
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._post, args=(i,)) for i in range(CLIENTS)]

    def _post(self, client: int) -> None:
        n = 0
        while not self._over.is_set():
            key = f"c{client}-{n}"
            answer = self.gateway.post("/refunds", {"n": n}, key=key)
            assert answer.status == 201, answer
            self.kept[key] = answer.kept
            n += 1

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE)


def test_a_copy_under_load_is_whole_and_replays_all_that_was_acknowledged_before(pawl, upstream,
                                                                                 tmp_path):
    gateway, copy = pawl(CONFIG), tmp_path / "copy.db"
    with Load(gateway) as load:
        eventually(lambda: len(load.kept) >= 8, "some load")
        before = dict(load.kept)
        made = backup(gateway, copy)
        assert made.returncode == 0, made
        seen = len(load.kept)
        eventually(lambda: len(load.kept) >= seen + 8, "more, which the copy lacks")
    assert copy.stat().st_mode & 0o777 == 0o600 and not list(tmp_path.glob("copy.db?*"))
    proof = whole(copy)
    assert proof["complete"] >= len(before)
    assert proof["identity"] == whole(gateway.store)["identity"]
    assert made.stdout.startswith(f"{copy}: the store as of {proof['as_of']}, ")
    gateway.kill9()
    for name in ("", "-wal", "-shm"):
        Path(f"{gateway.store}{name}").unlink(missing_ok=True)
    copy.rename(gateway.store)
    said = run("store", "check", gateway.store).stdout
    line = shlex.split(re.search(r"^  pawl (store restored .*)$", said, re.M)[1])
    assert line[:3] == ["store", "restored", "--since"] and line[3] == proof["as_of"]
    assert run(*line[:-1], gateway.store).returncode == 0
    effects, last = upstream.effects(), int(upstream.requests[-1]["Idempotency-Token"])
    gateway.start()
    for key, kept in before.items():
        n = int(key.partition("-")[2])
        answer = gateway.post("/refunds", {"n": n}, key=key)
        assert (answer["Idempotency-Status"], answer.kept) == ("replayed", kept)
    assert upstream.effects() == effects
    assert gateway.post("/refunds", {}, key="new").status == 201
    assert int(upstream.requests[-1]["Idempotency-Token"]) > last


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))


def test_an_interrupted_copy_leaves_nothing_under_its_name(gateway, tmp_path):
    """The limit on the size of a file ends the copy in its midst: by a signal, or by an error."""
    copy, partial = tmp_path / "copy.db", tmp_path / "copy.db.partial"
    command = [str(PAWL), "store", "backup", "--store", str(gateway.store), str(copy)]
    ended = subprocess.run(command, preexec_fn=limited, check=False,  # pylint: disable=W1509
                           capture_output=True, timeout=PATIENCE)
    assert ended.returncode < 0 and not copy.exists() and partial.exists()
    failed = subprocess.run(command, preexec_fn=limited, check=False,  # pylint: disable=W1509
                            restore_signals=False, capture_output=True, timeout=PATIENCE)
    assert failed.returncode == 69 and not copy.exists() and not partial.exists()
    partial.write_bytes(bytes(1 << 20))
    assert backup(gateway, copy).returncode == 0 and not partial.exists()
    assert whole(copy)["bytes"] == copy.stat().st_size


def test_a_copy_is_made_by_one_at_a_time_and_replaces_nothing(gateway, tmp_path):
    copy, partial = tmp_path / "copy.db", tmp_path / "copy.db.partial"
    with partial.open("wb") as held:
        lock = struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0)
        fcntl.fcntl(held, 37, lock)  # F_OFD_SETLK
        ran = backup(gateway, copy)
    assert ran.returncode == 75 and "another copy" in ran.stderr and not copy.exists()
    copy.write_text("mine")
    ran = backup(gateway, copy)
    assert ran.returncode == 69 and "is not replaced" in ran.stderr
    assert copy.read_text() == "mine"


def test_a_disk_that_is_too_small_is_left_as_it_is(gateway):
    script = ('mount -t tmpfs -o size=64k tmpfs /mnt && "$0" store backup --store "$1" /mnt/copy;'
              ' code=$?; ls /mnt; exit $code')
    if subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        pytest.skip("no user namespaces here")
    ran = subprocess.run(["unshare", "-rm", "sh", "-c", script, str(PAWL), str(gateway.store)],
                         check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert (ran.returncode, ran.stdout) == (69, "") and "are free there" in ran.stderr, ran


def test_what_is_no_whole_store_is_said(gateway, tmp_path):
    assert gateway.post("/refunds", {"of": 1}, key="k1").status == 201
    copy = tmp_path / "copy.db"
    assert backup(gateway, copy, "--json").returncode == 0
    content = copy.read_bytes()

    def wrong() -> str:
        ran = run("store", "check", copy)
        assert ran.returncode == 1 and not ran.stdout, ran
        return ran.stderr

    copy.write_bytes(content[:len(content) // 2])
    assert "copy.db" in wrong()
    copy.write_bytes(content[:40960] + bytes(4096) + content[45056:])
    assert "copy.db" in wrong()
    copy.write_bytes(content)
    assert whole(copy)["complete"] == 1
    damage(copy, "DELETE FROM pawl_key_log; DELETE FROM pawl_key_index")
    assert "not found by their keys" in wrong()
    copy.write_bytes(content)
    damage(copy, "DELETE FROM pawl_secret")
    assert "secret" in wrong()
    copy.write_bytes(content)
    damage(copy, "PRAGMA user_version=99")
    assert "newer pawl" in wrong()
    copy.write_bytes(b"")
    assert "it is empty" in wrong()
    copy.unlink()
    assert "No such file" in wrong()


def test_for_postgresql_its_own_tools_are_named(tmp_path):
    url = "postgres://pawl:secret@127.0.0.1:9/pawl"
    for ran, tool in ((run("store", "backup", "--store", url, tmp_path / "x"), "pg_dump"),
                      (run("store", "check", url), "pg_verifybackup")):
        assert ran.returncode == 2 and tool in ran.stderr and "secret" not in ran.stderr
