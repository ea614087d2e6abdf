# SPDX-License-Identifier: Apache-2.0
"""An older copy in the place of a SQLite store; and the command by which an operator says that
something may be missing. What PostgreSQL loses: tests/postgres/test_went_back.py."""
from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from pawltest.admin import Admin, with_admin
from pawltest.gateway import PAWL, Gateway, run
from pawltest.wire import PATIENCE, eventually

pytestmark = pytest.mark.file_only

CONFIG = """
tenant: none
rules:
  - {name: refunds.create, match: POST /refunds}
"""


def copy(source: Path, target: Path) -> None:
    """By SQLite, as a restore into a store that is in use can only be done."""
    with closing(sqlite3.connect(source)) as opened, closing(sqlite3.connect(target)) as copied:
        opened.backup(copied)


def marks_of(store: Path) -> tuple[int, ...]:
    with closing(sqlite3.connect(store)) as opened:
        return opened.execute("SELECT went_back_at > 0, restored_since / 1000000, restored_at > 0,"
                              " restored_until / 1000000 FROM pawl_state").fetchone()


def went_back(gateway: Gateway, key: str) -> bool:
    answer = gateway.post("/refunds", {}, key=key)
    assert answer.is_problem(503, "DEPENDENCY.store_unavailable"), answer
    return "lost what it had confirmed" in answer.json["detail"]


def with_an_older_copy(pawl, tmp_path: Path, more: str = "") -> tuple[Gateway, Admin]:
    """k1 is in the copy, k2 and k3 are not."""
    gateway, admin = with_admin(pawl, more + CONFIG)
    assert gateway.post("/refunds", {}, key="k1")["Idempotency-Status"] == "stored"
    copy(gateway.store, tmp_path / "copy.db")
    for key in ("k2", "k3"):
        assert gateway.post("/refunds", {}, key=key)["Idempotency-Status"] == "stored"
    copy(tmp_path / "copy.db", gateway.store)
    return gateway, admin


def test_an_older_copy_under_a_running_gateway_is_noticed(pawl, upstream, tmp_path):
    gateway, admin = with_an_older_copy(pawl, tmp_path)
    eventually(lambda: went_back(gateway, "k4"), "a refusal")
    assert went_back(gateway, "k2") and upstream.effects() == 3
    assert gateway.post("/refunds", {}, key="k1")["Idempotency-Status"] == "replayed"
    eventually(lambda: admin.get("/readyz").status == 503, "not ready")
    assert b"went back" in admin.get("/readyz").body
    assert admin.value("pawl_store_went_back_total") == 1
    (line,) = eventually(lambda: gateway.lines("store_went_back"), "its line")
    assert marks_of(gateway.store)[0] == 1
    assert gateway.stop() == 0
    started = run("serve", "-c", gateway.config)
    assert started.returncode == 69 and "the store went back" in started.stderr
    said = re.search("`(pawl store restored .*)`", started.stderr)
    assert said and "--since 20" in said[1]
    done = run(*shlex.split(line["run"])[1:])
    assert done.returncode == 0 and "may be missing" in done.stdout
    gateway.start()
    assert gateway.post("/refunds", {}, key="k2")["Idempotency-Status"] == "stored"
    tokens = [int(one["Idempotency-Token"]) for one in upstream.requests]
    assert tokens == sorted(set(tokens)) and upstream.effects() == 4


def test_where_it_is_accepted_it_goes_on(pawl, upstream, tmp_path):
    gateway, admin = with_an_older_copy(pawl, tmp_path, "accept_weaker: true\n")
    assert gateway.post_up("/refunds", {}, key="k4").status == 201
    assert gateway.post("/refunds", {}, key="k2")["Idempotency-Status"] == "stored"
    assert admin.value("pawl_store_went_back_total") == 1 and upstream.effects() == 5
    assert marks_of(gateway.store)[0] == 0
    tokens = [int(one["Idempotency-Token"]) for one in upstream.requests]
    assert tokens == sorted(set(tokens))


def restored(store: Path, *arguments: str) -> tuple[int, str]:
    ended = run("store", "restored", "--store", str(store), *arguments)
    return ended.returncode, ended.stdout + ended.stderr


def test_an_operator_marks_a_store_and_takes_that_back(gateway):
    assert gateway.post("/refunds", {"of": 1}, key="k1").status == 201
    code, said = restored(gateway.store, "--since", "2026-01-31T12:00:00Z")
    assert code == 75 and "--live" in said
    assert gateway.stop() == 0
    code, said = restored(gateway.store, "--since", "2026-01-31T12:00:00Z",
                          "--until", "2200-01-01T00:00:00Z")
    assert code == 0 and "since 2026-01-31T12:00:00.000Z may be missing" in said
    assert marks_of(gateway.store) == (0, 1769860800, 1, 7258118400)
    assert restored(gateway.store, "--clear", "--reason", "a wrong store")[0] == 0
    assert marks_of(gateway.store) == (0, 0, 0, 0)
    audit = run("store", "audit", "--json", "--store", gateway.store).stdout.splitlines()
    acts = [(act["act"], act["to"], act["reason"]) for act in map(json.loads, audit)]
    assert acts == [("restored", "restored", None), ("clear", "open", "a wrong store")]


def test_tokens_are_lifted_above_what_an_operator_knows(gateway, upstream):
    assert gateway.post("/refunds", {"of": 1}, key="k1").status == 201
    above = int(upstream.requests[-1]["Idempotency-Token"]) + 10**9
    code, _ = restored(gateway.store, "--since", "2026-01-31T12:00:00Z", "--live",
                       "--above", str(above))
    assert code == 0
    assert gateway.post("/refunds", {"of": 2}, key="k2").status == 201
    assert int(upstream.requests[-1]["Idempotency-Token"]) > above


def test_what_cannot_be_meant_is_refused(gateway):
    for arguments, said in (((), "needs --since T, or --clear alone"),
                            (("--clear", "--since", "2026-01-31T12:00:00Z"), "--clear alone"),
                            (("--since", "yesterday"), "wants a time"),
                            (("--since", "2200-01-01T00:00:00Z"), "in the future"),
                            (("--since", "2026-01-31T12:00:00Z", "--until",
                              "2026-01-30T12:00:00Z"), "not after --since"),
                            (("--since", "2026-01-31T12:00:00Z", "--until",
                              "2026-02-01T12:00:00Z"), "over already"),
                            (("--since", "2026-01-31T12:00:00Z", "--above",
                              "9007199254740991"), "too large")):
        code, told = restored(gateway.store, *arguments)
        assert code == 2 and said in told, told


def test_commands_that_begin_something_are_refused_and_those_that_look_are_not(gateway):
    assert gateway.post("/refunds", {"of": 1}, key="k1").status == 201
    assert gateway.stop() == 0
    with closing(sqlite3.connect(gateway.store)) as opened, opened:
        opened.execute("UPDATE pawl_state SET went_back_at = 1, restored_since = 1")
    place = ["--store", str(gateway.store)]
    begins = (["run", "--key", "j1", *place, "--", "true"], ["queue", "drain", *place],
              ["queue", "add", "--json", "{}", *place, "http://127.0.0.1:9/x"])
    for command in begins:
        refused = run(*command)
        assert refused.returncode == 69, refused
        assert "the store went back" in refused.stderr and "pawl store restored" in refused.stderr
    assert "k1" in run("keys", "list", *place).stdout
    assert run("queue", "list", *place).returncode == 0
    accepts = {**os.environ, "PAWL_ACCEPT_WEAKER": "true"}
    assert run(*begins[0], env=accepts).returncode == 0


def test_commands_under_which_a_store_goes_back_say_so(tmp_path):
    """The first item's command marks it: what begins next is refused."""
    store = tmp_path / "pawl.db"
    mark = ("import sqlite3, sys; opened = sqlite3.connect(sys.argv[1], timeout=60); "
            "opened.execute('UPDATE pawl_state SET went_back_at = 1, restored_since = 1'); "
            "opened.commit()")
    each = run("each", "--jobs", "1", "--key", "{}", "--store", str(store), "--",
               sys.executable, "-c", mark, str(store), input="a\nb\n")
    assert each.returncode == 69, each
    assert "the store went back" in each.stderr and "did not respond" not in each.stderr


def test_a_drain_that_ends_in_such_a_store_says_so(gateway):
    """It claims nothing meanwhile, and a process that has the store open is seen."""
    assert gateway.post("/refunds", {"of": 1}, key="k1").status == 201
    assert gateway.stop() == 0
    place = ["--store", str(gateway.store)]
    added = run("queue", "add", "--json", "{}", *place, f"http://127.0.0.1:{gateway.port}/x")
    assert added.returncode == 0, added
    drain = subprocess.Popen([PAWL, "queue", "drain", "--follow", *place], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        eventually(lambda: restored(gateway.store, "--since", "2026-01-31T12:00:00Z")[0] == 75,
                   "a process that has it open")
        with closing(sqlite3.connect(gateway.store, timeout=PATIENCE)) as opened, opened:
            opened.execute("UPDATE pawl_state SET went_back_at = 1, restored_since = 1")
        drain.send_signal(signal.SIGTERM)
        _, said = drain.communicate(timeout=PATIENCE)
    finally:
        drain.kill()
    assert drain.returncode == 69 and "the store went back" in said
