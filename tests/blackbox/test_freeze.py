# SPDX-License-Identifier: Apache-2.0
"""`pawl store freeze`: until `thaw` nothing begins in a store, is claimed or added, by gateways and
by commands; what began ends, and what is stored is replayed."""
from __future__ import annotations

import getpass
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pawltest.admin import with_admin
from pawltest.gateway import Gateway, run
from pawltest.upstream import closes, say
from pawltest.wire import Later, eventually
from test_cli_probe import BY_KEY, Asked
from test_cli_probe import config as probe_config
from test_inbox import Inbox
from test_inbox import config as inbox_config
from test_webhooks import Outbox, sink
from test_webhooks import config as webhook_config

pytestmark = pytest.mark.hooks
RULE = """
tenant: none
rules:
  - {name: refunds.create, match: POST /refunds, store_down: %s}
"""
AWAY = "DEPENDENCY.store_unavailable"
REFUSED = "an operator froze the store: nothing is begun or added before `pawl store thaw`"
QUIET = re.compile(r"frozen since \S+Z, in flight: 0 operations and 0 deliveries\n")


def store(command: str, path: Path | str, *more: str) -> Any:
    return run("store", command, *more, "--store", path)


def freeze(gateway: Gateway, code: int = 0) -> str:
    ran = store("freeze", gateway.store)
    assert ran.returncode == code, ran
    return ran.stderr if code else ran.stdout


def thaw(gateway: Gateway) -> None:
    ran = store("thaw", gateway.store)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "the store is open again\n", "")


def shown(path: Path | str) -> dict[str, Any]:
    ran = store("show", path, "--json")
    assert ran.returncode == 0, ran
    return json.loads(ran.stdout)


# ---- requests ----

@pytest.mark.parametrize("store_down", ["refuse", "pass"])
def test_a_gateway_begins_nothing_and_stores_what_runs(pawl, upstream, store_down):
    """found: R20"""
    gateway, admin = with_admin(pawl, RULE % store_down)
    kept = gateway.post("/refunds", {}, key="k1").kept
    gate = upstream.hold()
    running = Later(lambda: gateway.post("/refunds", {}, key="k2"))
    gate.wait_for()
    assert "1 operation and 0 deliveries are still in flight" in freeze(gateway, code=75)
    refused = gateway.post("/refunds", {}, key="k3")
    assert refused.is_problem(503, AWAY) and "froze" in refused.json["detail"]
    assert gateway.post("/refunds", {}, key="k1").kept == kept
    since = shown(gateway.store)
    assert (since["frozen"], since["operations"], since["deliveries"]) == (True, 1, 0)
    eventually(lambda: b"froze" in admin.get("/readyz").body, "not ready, and why")
    assert since["frozen_at"].encode() in admin.get("/readyz").body
    waiting = Later(lambda: store("freeze", gateway.store, "--wait"))
    assert store("freeze", gateway.store, "--wait=0").returncode == 75
    gate.open()
    assert running.result()["Idempotency-Status"] == "stored"
    ended = waiting.result()
    assert ended.returncode == 0 and QUIET.fullmatch(ended.stdout), ended
    assert upstream.effects() == 2
    assert shown(gateway.store)["frozen_at"] == since["frozen_at"], "it was frozen already"
    thaw(gateway)
    assert gateway.post_up("/refunds", {}, key="k3").status == 201
    assert shown(gateway.store) == {"frozen": False, "frozen_at": None, "operations": 0,
                                    "deliveries": 0}


def test_who_froze_it_is_in_the_audit(pawl):
    gateway = pawl(RULE % "refuse")
    assert QUIET.fullmatch(freeze(gateway)) and QUIET.fullmatch(freeze(gateway))
    thaw(gateway)
    again = store("thaw", gateway.store)
    assert (again.returncode, again.stdout) == (0, "the store was not frozen\n")
    listed = store("audit", gateway.store, "--json").stdout.splitlines()
    acts = [json.loads(line) for line in listed]
    assert [(act["act"], act["from"], act["to"]) for act in acts] == [
        ("freeze", "open", "frozen"), ("thaw", "frozen", "open")]
    assert {act["actor"] for act in acts} == {f"cli:{getpass.getuser()}"}
    assert "freeze: open -> frozen" in store("audit", gateway.store).stdout


# ---- deliveries and events ----

def test_an_attempt_ends_and_no_other_begins_before_the_thaw(pawl, receiver):
    """found: R20"""
    box = Outbox(pawl(webhook_config(sink("billing", receiver))))
    gate = receiver.gate()
    receiver.then(say(503, gate=gate))
    event = box.publish("refund.created", "1", "--id", "e1")
    gate.wait_for()
    assert "0 operations and 1 delivery are still in flight" in freeze(box.gateway, code=75)
    refused = box.run("publish", "refund.created", "-d", "2", "--id", "e2")
    assert refused.returncode == 75 and REFUSED in refused.stderr
    assert box.publish("refund.created", "1", "--id", "e1") == event, "it is there already"
    gate.open()
    eventually(lambda: box.states() == ["waiting"], "the end of the attempt")
    box.gateway.clock.advance(3600)
    assert store("freeze", box.gateway.store, "--wait").returncode == 0
    assert box.states() == ["waiting"] and len(receiver.requests) == 1
    thaw(box.gateway)
    box.until("done")
    assert len(receiver.requests) == 2


def test_a_received_event_is_refused_or_known_and_none_is_handled(pawl, upstream):
    """found: R20"""
    box = Inbox(pawl(inbox_config()))
    box.send("ev_1")
    box.until("done")
    freeze(box.gateway)
    refused = box.send("ev_2")
    assert refused.is_problem(503, AWAY) and "froze" in refused.json["detail"]
    assert box.send("ev_1")["Idempotency-Status"] == "replayed"
    thaw(box.gateway)
    eventually(lambda: box.send("ev_2").status == 200, "the gateway sees it thawed")
    box.until("done", "done")
    assert upstream.effects() == 2


# ---- commands ----

COMMANDS = {
    "queue add": (["queue", "add", "http://127.0.0.1:1/x", "-d", "{}"], ""),
    "run": (["run", "--key", "k2", "--", "sh", "-c", "echo x >> effects"], ""),
    "each": (["each", "--key", "{}", "--", "sh", "-c", "echo x >> effects"], "item\n"),
    "send": (["send", "http://127.0.0.1:1/x", "-d", "{}", "--key", "k3"], ""),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_begins_or_adds_exits_75_and_says_why(tmp_path, command):
    """found: R20"""
    path = tmp_path / "pawl.db"
    kept = ["run", "--key", "k1", "--store", path, "--", "echo", "kept"]
    assert run(*kept).stdout == "kept\n"
    assert store("freeze", path).returncode == 0
    (group, *words), given = COMMANDS[command]
    at = 1 if group == "queue" else 0
    refused = run(group, *words[:at], "--store", path, *words[at:], input=given, cwd=tmp_path)
    assert refused.returncode == 75, refused
    assert REFUSED in refused.stderr
    assert not (tmp_path / "effects").exists()
    assert run(*kept).stdout == "kept\n", "it is replayed"
    assert store("thaw", path).returncode == 0
    assert run("run", "--key", "k2", "--store", path, "--", "true").returncode == 0


def test_a_drain_of_a_frozen_store_sends_nothing_and_exits_75(tmp_path, upstream):
    """found: R20"""
    path = tmp_path / "pawl.db"
    url = f"http://127.0.0.1:{upstream.port}/operations"
    assert run("queue", "add", "--store", path, url, "-d", "{}").returncode == 0
    assert store("freeze", path).returncode == 0
    for more in ([], ["--once"]):
        drained = run("queue", "drain", "--store", path, *more)
        assert drained.returncode == 75 and REFUSED in drained.stderr, drained
    assert not upstream.requests
    assert store("thaw", path).returncode == 0
    assert run("queue", "drain", "--store", path).returncode == 0
    assert upstream.effects() == 1


def test_an_operators_probe_begins_nothing_and_his_other_acts_go_on(pawl, upstream):
    """A probe holds the record while it is sent."""
    asked = Asked(pawl(probe_config()), BY_KEY, "0s")
    upstream.then(closes())
    assert asked.post()["Idempotency-Status"] == "unknown"
    freeze(asked.gateway)
    probed = asked.probe()
    assert probed.returncode == 75 and REFUSED in probed.stderr, probed
    assert len(upstream.requests) == 1
    resolved = asked.keys("resolve", "k1", "--token", str(asked.show()["token"]), "--status", "201",
                          "--store", asked.gateway.store)
    assert resolved.returncode == 0, resolved
    assert asked.post().status == 201 and len(upstream.requests) == 1


# ---- the command line ----

@pytest.mark.parametrize("more, said", [(["--wait=soon"], "--wait=D wants a duration, such as 10m"),
                                        (["--wait", "5m"], "unexpected argument `5m`")])
def test_what_it_waits_is_a_duration(tmp_path, more, said):
    ran = store("freeze", tmp_path / "pawl.db", *more)
    assert ran.returncode == 2 and said in ran.stderr


def test_a_store_that_is_not_there_is_not_made(tmp_path):
    missing = store("freeze", tmp_path / "pawl.db")
    assert missing.returncode == 69 and "pawl.db" in missing.stderr
    assert not (tmp_path / "pawl.db").exists()
