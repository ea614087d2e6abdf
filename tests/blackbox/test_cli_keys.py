# SPDX-License-Identifier: Apache-2.0
"""`pawl keys`: an operator looks into a store and settles its records while the gateway runs."""
from __future__ import annotations

import json
import os
import pwd
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pawltest.gateway import Gateway, run
from pawltest.upstream import Reply, closes, say
from pawltest.wire import Later, eventually

BODY = {"charge_id": "ch_1", "amount": 500}
CONFIG = """
tenant: "{header:X-Merchant-Id}"
trust_tenant: true
rules:
  - name: refunds.create
    match: POST /refunds
    settle: 0s
  - name: refunds.slow
    match: POST /slow
    settle: 60s
  - name: refunds.brief
    match: POST /brief
    timeout: 10s
    in_progress: conflict
    ttl: 10s
    tombstone: 1h
  - name: refunds.again
    match: POST /again
    unknown: retry
    settle: 60s
"""

hooks = pytest.mark.hooks


class Operator:
    """Runs `pawl keys` on a gateway's store, under the gateway's clock."""

    def __init__(self, gateway: Gateway):
        self.gateway = gateway

    def __call__(self, *arguments: Any, **more: Any) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PAWL_TEST_CLOCK": str(self.gateway.clock.path)}
        return run("keys", *map(str, arguments), "--store", self.gateway.store, env=environment,
                   **more)

    def list(self, *arguments: str) -> list[dict[str, Any]]:
        ran = self("list", "--json", *arguments)
        assert ran.returncode == 0, ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def show(self, key: str, *arguments: str) -> dict[str, Any]:
        ran = self("show", key, "--json", *arguments)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def token(self, key: str) -> int:
        return self.show(key)["token"]


@pytest.fixture
def gateway(pawl) -> Gateway:
    return pawl(CONFIG)


@pytest.fixture
def keys(gateway) -> Operator:
    return Operator(gateway)


def post(gateway: Gateway, key: str, target: str = "/refunds", tenant: str = "m1"):
    return gateway.post(target, BODY, key=key, headers=[("X-Merchant-Id", tenant)])


def leave_unknown(gateway, upstream, key: str, target: str = "/refunds") -> None:
    upstream.then(closes())
    assert post(gateway, key, target)["Idempotency-Status"] == "unknown"


# ---- looking ----


def test_list_shows_what_the_store_holds_oldest_first(gateway, upstream, keys):
    post(gateway, "k1")
    upstream.then(say(422, {"no": 1}))
    post(gateway, "k2", tenant="m2")
    leave_unknown(gateway, upstream, "k3", "/slow")
    rows = keys.list()
    assert [(row["key"], row["tenant"], row["rule"], row["status"], row["http_code"],
             row["result_ref"]) for row in rows] == [
        ("k1", "m1", "refunds.create", "complete", 201, "/refunds/1"),
        ("k2", "m2", "refunds.create", "failed", 422, None),
        ("k3", "m1", "refunds.slow", "unknown", None, None)]
    assert rows[0]["token"] < rows[1]["token"] < rows[2]["token"]
    assert {row["lease"] for row in rows} == {None}
    heading, *lines = keys("list").stdout.splitlines()
    assert heading.split() == ["STATUS", "HTTP", "TOKEN", "ATTEMPTS", "CREATED", "TENANT",
                               "RULE", "KEY"]
    assert [line.split()[0] for line in lines] == ["complete", "failed", "unknown"]
    assert [line.split()[-1] for line in lines] == ["k1", "k2", "k3"]


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
KEEPS = """
tenant: none
rules:
  - {name: held, match: "POST /orders/{id}/items", timeout: 1s, in_doubt: [500], keep_request: 20}
  - {name: credential, match: "POST /of/{token}", tenant: "{path:token}", secret: true}
"""


@pytest.mark.file_only
def test_an_unknown_record_tells_which_request_it_was_and_why_nobody_knows(pawl, upstream):
    """found: C-H4"""
    gateway = pawl(KEEPS)
    keys = Operator(gateway)
    ids = [("X-Request-Id", "r-1"), ("traceparent", f"00-{TRACE}-00f067aa0ba902b7-01")]
    gate = upstream.gate()
    upstream.then(closes(), say(500), Reply(raw=b"nonsense\r\n\r\n"),
                  say(201, gate=gate), closes())
    for n in range(4):
        gateway.post("/orders/5/items?s3cret", {"n": n, "pad": "x" * 50}, f"k{n}", ids)
    gateway.post("/of/t0ken", {}, "k4")
    gate.open()
    rows = {row["key"]: row for row in keys.list()}
    assert [rows[f"k{n}"]["cause"] for n in range(5)] == ["reset", "status 500",
                                                          "malformed: status line", "timeout",
                                                          "reset"]
    assert rows["k2"]["origin"] == {
        "method": "POST", "path": "/orders/5/items", "client": "127.0.0.1",
        "correlation_id": "r-1", "trace_id": TRACE, "body": '{"n": 2, "pad": "xxx'}
    assert rows["k4"]["origin"]["path"] is None and rows["k4"]["origin"]["body"] is None
    shown = keys("show", "k0").stdout
    for fact in ("cause:        reset", "request:      POST /orders/5/items",
                 "client:       127.0.0.1", "correlation:  r-1", f"trace:        {TRACE}",
                 'body:         {"n": 0, "pad": "xxx'):
        assert fact in shown
    keys("resolve", "k0", "--token", keys.token("k0"), "--status", "200")
    assert (keys.show("k0")["cause"], keys.show("k0")["origin"]) == (None, None)
    assert b"s3cret" not in gateway.store.read_bytes() + Path(f"{gateway.store}-wal").read_bytes()
    assert b"t0ken" not in gateway.store.read_bytes() + Path(f"{gateway.store}-wal").read_bytes()


def test_a_record_and_its_log_line_name_the_tenant_by_one_hash(pawl):
    """found: C-M2"""
    gateway = pawl(KEEPS + '  - {name: b, match: POST /b, tenant: "{header:X-Api-Key}"}\n')
    gateway.post("/b", {}, "k1", [("X-Api-Key", "s3cret")])
    shown = Operator(gateway).show("k1")
    assert shown["tenant"].startswith("credential:")
    line = eventually(lambda: gateway.lines("request"))[0]
    assert line["tenant_hash"] == shown["tenant_hash"]
    assert f"tenant hash:  {shown['tenant_hash']}" in Operator(gateway)("show", "k1").stdout


def test_how_often_a_record_was_acquired_counts_probes_and_says_so(pawl, upstream):
    gateway = pawl('''
tenant: none
rules:
  - {name: a, match: POST /a, unknown: {probe: "GET /by/{key}"}}
''')
    upstream.then(closes(), say(500))
    gateway.post("/a", {}, "k1")
    keys = Operator(gateway)
    assert keys.show("k1")["attempts"] == 2
    assert "\nattempts:     2, probes included\n" in keys("show", "k1").stdout
    heading, line = keys("list").stdout.splitlines()
    assert line.split()[heading.split().index("ATTEMPTS")] == "2"


def test_a_known_outcome_names_no_policy_that_its_row_does_not_hold(pawl, upstream):
    """found: E-F7"""
    gateway = pawl('''
tenant: none
rules:
  - {name: a, match: POST /a, unknown: {probe: "GET /by/{key}"}}
''')
    gateway.post("/a", {}, "k1")
    upstream.then(closes(), say(500))
    gateway.post("/a", {}, "k2")
    keys = Operator(gateway)
    assert (keys.show("k1")["unknown"], keys.show("k2")["unknown"]) == (None, "probe")


@hooks
@pytest.mark.file_only
def test_a_record_whose_owner_died_says_that_its_lease_lapsed(gateway, upstream, keys):
    """found: C-H4"""
    gate = upstream.hold()
    first = Later(lambda: post(gateway, "k1"))
    gate.wait_for()
    gateway.kill9()
    gate.open()
    gateway.start()
    assert post(gateway, "k1").status == 409
    assert keys.show("k1")["cause"] == "lapsed"


def test_list_takes_filters_and_a_limit_and_says_when_there_is_more(gateway, upstream, keys):
    post(gateway, "k1")
    post(gateway, "k2", tenant="m2")
    leave_unknown(gateway, upstream, "k3", "/slow")

    def listed(*arguments: str) -> list[str]:
        return [row["key"] for row in keys.list(*arguments)]

    assert listed("--status", "unknown") == ["k3"]
    assert listed("--tenant", "m2") == ["k2"]
    assert listed("--tenant", "") == []
    assert listed("--rule", "refunds.slow") == ["k3"]
    assert listed("--key", "k1") == ["k1"]
    assert listed("--lapsed") == []
    ran = keys("list", "--json", "--limit", "2")
    assert len(ran.stdout.splitlines()) == 2 and "only the first 2" in ran.stderr
    ran = keys("list", "--json", "--limit", "3")
    assert len(ran.stdout.splitlines()) == 3 and ran.stderr == ""


def test_show_tells_all_of_a_record_and_its_answer(gateway, upstream, keys):
    upstream.then(Reply(201, b'{"id": 7}', (("Location", "/r/7"), ("X-B", "2"))))
    post(gateway, "k1")
    shown = keys.show("k1")
    assert (shown["status"], shown["attempts"], shown["kept"]) == ("complete", 1, True)
    expected = run("hash", input=json.dumps(BODY)).stdout.strip()
    assert shown["payload_hash"] == expected
    assert shown["outcome"]["status"] == 201 and shown["outcome"]["body_bytes"] == 9
    assert ["Location", "/r/7"] in shown["outcome"]["headers"]
    assert shown["created_at"] <= shown["completed_at"] < shown["expires_at"]
    text = keys("show", "k1").stdout
    for part in (str(shown["token"]), shown["expires_at"], "refunds.create", "9 bytes", "X-B: 2"):
        assert part in text
    assert keys("show", "k1", "--body").stdout == '{"id": 7}'


def test_show_of_a_running_operation_tells_its_lease(gateway, upstream, keys):
    gate = upstream.hold()
    first = Later(lambda: post(gateway, "k1"))
    gate.wait_for()
    shown = keys.show("k1")
    assert (shown["status"], shown["lease"]) == ("pending", "live")
    assert 0 < shown["lease_left_ms"] <= 30000
    assert "live, " in keys("show", "k1").stdout
    assert keys("show", "k1", "--body").returncode == 1
    gate.open()
    assert first.result().status == 201


@hooks
def test_a_record_whose_answer_expired_is_shown_until_its_tombstone_goes(gateway, keys):
    post(gateway, "k1", "/brief")
    gateway.clock.advance(11)
    shown = keys.show("k1")
    assert (shown["status"], shown["http_code"], shown["outcome"]) == ("complete", 201, None)
    assert shown["expires_at"] < shown["gone_at"]
    assert "complete,expired" in keys("list").stdout
    assert "response:     expired" in keys("show", "k1").stdout
    gateway.clock.advance(3600)
    assert keys.list() == []
    assert keys("show", "k1").returncode == 1


def test_stats_counts_by_status(gateway, upstream, keys):
    post(gateway, "k1")
    leave_unknown(gateway, upstream, "k2")
    counts = {"pending": 0, "released": 0, "complete": 1, "failed": 0, "unknown": 1}
    assert json.loads(keys("stats", "--json").stdout) == counts
    assert keys("stats").stdout.split() == [str(part) for item in counts.items() for part in item]


def test_a_key_of_several_records_lists_them_and_asks_which(gateway, keys):
    post(gateway, "k1", tenant="m1")
    post(gateway, "k1", tenant="m2")
    ran = keys("forget", "k1")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "m1" in ran.stderr and "m2" in ran.stderr and "--tenant" in ran.stderr
    assert keys("forget", "k1", "--tenant", "m2").returncode == 0
    assert [row["tenant"] for row in keys.list()] == ["m1"]


def test_a_key_that_is_not_there_is_said(gateway, keys):
    for act in (["show"], ["resolve", "--token", "1", "--released"], ["release", "--token", "1"],
                ["forget"]):
        ran = keys(act[0], "nobody", *act[1:])
        assert (ran.returncode, ran.stdout) == (1, "")
        assert 'there is no record of key "nobody"' in ran.stderr


@pytest.mark.parametrize("tenant, printed", [
    (b"m\xff\\", "m\\xff\\\\"), ("m\u202e".encode(), "m\\xe2\\x80\\xae"),
    ("m\x9b2J".encode(), "m\\xc2\\x9b2J"), ("\ufeffm".encode(), "\\xef\\xbb\\xbfm"),
    ("caf\u00e9\u4e2d\U0001f600".encode(), "caf\u00e9\u4e2d\U0001f600"),
])
def test_what_clients_wrote_cannot_steer_the_terminal(gateway, keys, tenant, printed):
    post(gateway, '"a b"', tenant=tenant.decode("latin-1"))
    for ran in (keys("list"), keys("show", "a b"), keys("forget", "a b")):
        assert printed in ran.stdout and "a b" in ran.stdout


def test_a_store_that_is_not_there_is_never_made(tmp_path):
    path = tmp_path / "none.db"
    ran = run("keys", "list", "--store", path)
    assert ran.returncode == 69 and str(path) in ran.stderr
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_store_is_refused(tmp_path):
    path = tmp_path / "other.db"
    path.write_bytes(b"not a database" * 100)
    assert run("keys", "list", "--store", path).returncode == 69
    assert path.read_bytes() == b"not a database" * 100


def test_the_store_comes_from_the_environment_too(gateway, keys):
    post(gateway, "k1")
    ran = run("keys", "list", "--json",
              env={**os.environ, "PAWL_STORE": str(gateway.store),
                   "PAWL_TEST_CLOCK": str(gateway.clock.path)})
    assert json.loads(ran.stdout)["key"] == "k1"


# ---- settling ----


def test_resolve_gives_the_answer_that_every_duplicate_gets(gateway, upstream, keys):
    leave_unknown(gateway, upstream, "k1")
    assert post(gateway, "k1").is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    ran = keys("resolve", "k1", "--token", keys.token("k1"), "--status", 201,
               "--header", "Location: /refunds/9", "--body", '{"id": 9}')
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith('refunds.create "k1" of tenant "m1": resolved as complete')
    answer = post(gateway, "k1")
    assert (answer.status, answer["Idempotency-Status"], answer.body) == (201, "replayed",
                                                                          b'{"id": 9}')
    assert (answer["Location"], answer["Content-Type"]) == ("/refunds/9", "application/json")
    assert upstream.effects() == 1


def test_resolve_reads_a_body_from_a_file_or_standard_input(gateway, upstream, keys, tmp_path):
    (tmp_path / "body").write_bytes(b"from a file")
    for key, body, more in (("k1", f"@{tmp_path / 'body'}", {}), ("k2", "@-", {"input": "piped"})):
        leave_unknown(gateway, upstream, key)
        ran = keys("resolve", key, "--token", keys.token(key), "--status", 422, "--body", body,
                   "--header", "Content-Type: text/plain", **more)
        assert ran.returncode == 0 and "resolved as failed" in ran.stdout
    answers = [post(gateway, key) for key in ("k1", "k2")]
    assert [(a.status, a.body, a["Content-Type"]) for a in answers] == [
        (422, b"from a file", "text/plain"), (422, b"piped", "text/plain")]


@pytest.mark.parametrize("act", [["resolve", "--released"], ["release"]])
def test_a_released_operation_is_done_by_the_next_attempt(gateway, upstream, keys, act):
    upstream.then(closes(effect=False))
    assert post(gateway, "k1")["Idempotency-Status"] == "unknown"
    ran = keys(act[0], "k1", "--token", keys.token("k1"), *act[1:])
    assert ran.returncode == 0 and "released" in ran.stdout
    assert keys.show("k1")["lease"] == "released"
    assert post(gateway, "k1")["Idempotency-Status"] == "stored"
    assert upstream.effects() == 1


def test_a_release_in_doubt_is_told_from_one_that_is_surely_not_done(gateway, upstream, keys):
    """A later not-done answer says nothing of the earlier try: the doubt stays."""
    upstream.then(say(503, effect=False))
    post(gateway, "sure", "/again")
    upstream.then(closes(), say(503, effect=False))
    for _ in range(2):
        assert post(gateway, "doubt", "/again")["Idempotency-Status"] == "released"
    assert [(row["key"], row["lease"], row["in_doubt"]) for row in keys.list()] == [
        ("sure", "released", False), ("doubt", "released", True)]
    lines = keys("list").stdout.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["released", "released,in-doubt"]
    assert "may have happened" in keys("show", "doubt").stdout
    assert "may have happened" not in keys("show", "sure").stdout


def test_the_same_act_again_is_done_and_another_one_is_too_late(gateway, upstream, keys):
    leave_unknown(gateway, upstream, "k1")
    token = keys.token("k1")
    assert keys("release", "k1", "--token", token).returncode == 0
    again = keys("release", "k1", "--token", token)
    assert again.returncode == 0 and "already" in again.stdout
    assert keys("resolve", "k1", "--token", token, "--status", 201).returncode == 0
    again = keys("resolve", "k1", "--token", token, "--status", 201)
    assert again.returncode == 0 and "already" in again.stdout
    for other in (["release"], ["resolve", "--status", 422]):
        ran = keys(other[0], "k1", "--token", token, *other[1:])
        assert ran.returncode == 1 and "complete already" in ran.stderr
    assert keys.show("k1")["http_code"] == 201


def test_a_stale_token_changes_nothing_and_names_the_current_one(gateway, upstream, keys):
    leave_unknown(gateway, upstream, "k1")
    before = keys.show("k1")
    for act in (["resolve", "--status", 201], ["release"], ["forget"]):
        ran = keys(act[0], "k1", "--token", before["token"] - 1, *act[1:])
        assert ran.returncode == 1 and "stale" in ran.stderr and str(before["token"]) in ran.stderr
    after = keys.show("k1")
    assert (after["status"], after["token"]) == ("unknown", before["token"])


def test_a_live_lease_is_not_settled_without_force(gateway, upstream, keys):
    gate = upstream.hold()
    first = Later(lambda: post(gateway, "k1"))
    gate.wait_for()
    token = keys.token("k1")
    for act in (["resolve", "--status", 201], ["release"], ["forget"]):
        ran = keys(act[0], "k1", "--token", token, *act[1:])
        assert (ran.returncode, ran.stdout) == (75, "")
        assert "the record is in use" in ran.stderr and "--force" in ran.stderr
    ran = keys("resolve", "k1", "--token", token, "--status", 202, "--body", "forced", "--force")
    assert ran.returncode == 0
    gate.open()
    answer = first.result()
    assert (answer.status, answer.body) == (202, b"forced")
    assert post(gateway, "k1").body == b"forced"


@hooks
def test_it_did_not_happen_is_believed_only_when_nobody_can_still_send(gateway, upstream, keys):
    leave_unknown(gateway, upstream, "k1", "/slow")
    token = keys.token("k1")
    for force in ([], ["--force"]):
        ran = keys("release", "k1", "--token", token, *force)
        assert (ran.returncode, ran.stdout) == (75, "")
        left = int(ran.stderr.rsplit("try again in ", 1)[1].split(" ")[0])
        assert 0 < left <= 60
    assert 0 < keys.show("k1")["quiet_in_ms"] <= 60000
    gateway.clock.advance(61)
    assert keys("release", "k1", "--token", token).returncode == 0


@hooks
@pytest.mark.file_only
def test_a_lapsed_lease_is_listed_and_settled(gateway, upstream, keys):
    gate = upstream.hold()
    first = Later(lambda: pytest.raises(Exception, post, gateway, "k1"))
    gate.wait_for()
    gateway.kill9()
    first.result()
    gate.open()
    assert [(row["key"], row["lease"]) for row in keys.list("--lapsed")] == [("k1", "lapsed")]
    assert keys("resolve", "k1", "--token", keys.token("k1"), "--status", 201).returncode == 0
    gateway.start()
    assert post(gateway, "k1")["Idempotency-Status"] == "replayed"


@hooks
def test_all_of_a_rule_in_doubt_are_settled_at_once_each_by_its_token(gateway, upstream, keys,
                                                                     clock):
    """found: C-M5"""
    for key, target in (("k1", "/slow"), ("k2", "/slow"), ("d1", "/again"), ("other", "/refunds")):
        upstream.then(closes())
        post(gateway, key, target)
    post(gateway, "done", "/slow")
    upstream.then(say(503, effect=False))
    post(gateway, "sure", "/again")
    every = ("--unknown", "--before", "2100-01-01T00:00:00Z")
    ran = keys("release", "--rule", "refunds.slow", *every)
    assert ran.returncode == 75, ran.stderr
    assert ran.stdout == "0 settled, 2 too early, 0 changed meanwhile\n"
    clock.advance(61)
    assert keys("release", "--rule", "refunds.slow", "--unknown", "--before",
                "2020-01-01T00:00:00Z").stdout.startswith("0 settled, 0 too early")
    ran = keys("release", "--rule", "refunds.slow", *every)
    assert (ran.returncode, ran.stdout) == (0, "2 settled, 0 too early, 0 changed meanwhile\n")
    ran = keys("resolve", "--rule", "refunds.again", *every, "--status", 201, "--body", "done")
    assert (ran.returncode, ran.stdout) == (0, "1 settled, 0 too early, 0 changed meanwhile\n")
    states = {row["key"]: (row["status"], row["in_doubt"]) for row in keys.list()}
    assert states == {"k1": ("pending", False), "k2": ("pending", False),
                      "done": ("complete", False), "d1": ("complete", False),
                      "sure": ("pending", False), "other": ("unknown", True)}
    audit = [json.loads(line) for line in keys("audit", "--json").stdout.splitlines()]
    assert [(act["act"], act["key"]) for act in audit] == [("release", "k1"), ("release", "k2"),
                                                           ("resolve", "d1")]


@hooks
def test_a_release_in_doubt_is_settled_as_an_unknown_outcome_is(gateway, upstream, keys, clock):
    upstream.then(closes())
    post(gateway, "k1", "/again")
    token = keys.token("k1")
    assert keys("release", "k1", "--token", token).returncode == 75
    clock.advance(61)
    assert keys("release", "k1", "--token", token).returncode == 0
    assert keys.show("k1")["in_doubt"] is False


@pytest.mark.parametrize("arguments", [
    ["k1", "--rule", "r", "--unknown", "--before", "2100-01-01T00:00:00Z"],
    ["--unknown", "--before", "2100-01-01T00:00:00Z"], ["--rule", "r", "--unknown"],
    ["--rule", "r", "--unknown", "--before", "soon"],
    ["--rule", "r", "--unknown", "--before", "2100-01-01T00:00:00Z", "--token", "1"]])
def test_many_are_settled_by_rule_and_time_only(gateway, keys, arguments):
    ran = keys("release", *arguments)
    assert ran.returncode == 2 and "--before" in ran.stderr


@hooks
def test_what_may_have_happened_is_forgotten_as_it_is_released(gateway, upstream, keys, clock):
    """found: C-H5"""
    leave_unknown(gateway, upstream, "k1", "/slow")
    token = keys.token("k1")
    ran = keys("forget", "k1")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert f"give its token, {token}," in ran.stderr and "--force" in ran.stderr
    ran = keys("forget", "k1", "--token", token)
    assert ran.returncode == 75 and "too early" in ran.stderr
    assert post(gateway, "k1", "/slow").status == 409
    clock.advance(61)
    assert keys("forget", "k1", "--token", token).returncode == 0
    assert keys.list() == []
    leave_unknown(gateway, upstream, "k2", "/slow")
    assert keys("forget", "k2", "--force").returncode == 0


def test_once_forget_returned_the_key_is_new_in_a_running_gateway_too(gateway, upstream, keys):
    first = post(gateway, "k1")
    ran = keys("forget", "k1")
    assert ran.returncode == 0 and ran.stdout.startswith('refunds.create "k1" of tenant "m1": forg')
    assert keys.list() == []
    answer = post(gateway, "k1")
    assert answer["Idempotency-Status"] == "stored" and answer.body != first.body
    assert upstream.effects() == 2


def test_each_act_is_audited_with_who_did_what(gateway, upstream, keys):
    for key in ("k1", "k2"):
        leave_unknown(gateway, upstream, key)
    token = keys.token("k1")
    assert keys("resolve", "k1", "--token", token - 1, "--status", 201).returncode == 1
    assert keys("resolve", "k1", "--token", token, "--status", 201).returncode == 0
    assert keys("release", "k2", "--token", keys.token("k2")).returncode == 0
    assert keys("forget", "k1", "--force").returncode == 0
    acts = [json.loads(line) for line in keys("audit", "--json").stdout.splitlines()]
    assert [(act["act"], act["key"], act["from"], act["to"], act["http_code"], act["forced"])
            for act in acts] == [("resolve", "k1", "unknown", "complete", 201, False),
                                 ("release", "k2", "unknown", "released", None, False),
                                 ("forget", "k1", "complete", "absent", None, True)]
    assert acts[0]["token"] == token and acts[0]["id"] < acts[1]["id"] < acts[2]["id"]
    who = f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    assert {(act["actor"], act["rule"], act["tenant"]) for act in acts} == {
        (who, "refunds.create", "m1")}
    last = keys("audit", "--limit", 1)
    assert last.stdout.endswith(
        f' {who} forget refunds.create "k1" of tenant "m1": complete -> absent, token {token}, '
        "forced\n") and last.stdout.count("\n") == 1
    assert "the last 1 of 3" in last.stderr


def test_an_audit_of_many_acts_tells_every_one_once(gateway, upstream, keys):
    count = 70
    for number in range(count):
        assert post(gateway, f"k{number}").status == 201
    with ThreadPoolExecutor(10) as pool:  # each waits until no cache has it any more
        forgot = pool.map(lambda n: run("keys", "forget", f"k{n}", "--store", gateway.store),
                          range(count))
        assert all(ran.returncode == 0 for ran in forgot)
    lines = keys("audit", "--json").stdout.splitlines()
    told = [json.loads(line)["key"] for line in lines]
    assert len(told) == count and set(told) == {f"k{n}" for n in range(count)}


@pytest.mark.parametrize("arguments, said", [
    ([], "usage: pawl keys"), (["lst"], "did you mean `list`?"), (["zzz"], "no command `zzz`"),
    (["list", "--statsu", "x"], "did you mean --status?"), (["list", "--status", "x"], "pending"),
    (["list", "--limit", "0"], "--limit must be 1 to"), (["list", "k1"], "argument `k1`"),
    (["show"], "needs a KEY"), (["resolve", "k1", "--released"], "needs --token"),
    (["resolve", "k1", "--token", "x"], "--token must be 1 to 9007199254740991"),
    (["resolve", "k1", "--token", "1"], "--status CODE, --exit-code N, --released or"),
    (["resolve", "k1", "--token", "1", "--status", "99"], "200 to 599"),
    (["resolve", "k1", "--token", "1", "--released", "--status", "201"], "--released takes no"),
    (["resolve", "k1", "--token", "1", "--status", "204", "--body", "x"], "has no body"),
    (["resolve", "k1", "--token", "1", "--status", "200", "--header", "a b: c"], "Name: value"),
    (["resolve", "k1", "--token", "1", "--status", "200", "--header", "A: b\r\nC: d"],
     "Name: value"),
    (["resolve", "k1", "--token", "1", "--status", "200", "--header", "Content-Length: 1"],
     "not kept"),
    (["forget", "k1", "--limit", "1"], "no option --limit"),
])
def test_a_wrong_command_line_is_explained(arguments, said, tmp_path: Path):
    ran = run("keys", *arguments, env={**os.environ, "PAWL_STORE": str(tmp_path / "none")})
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr


@pytest.mark.parametrize("subcommand", ["", "list", "show", "resolve", "release", "forget",
                                        "stats", "audit"])
def test_help_goes_to_stdout(subcommand):
    for option in ("-h", "--help"):
        ran = run("keys", *filter(None, [subcommand]), option)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout.startswith("usage: pawl keys")
