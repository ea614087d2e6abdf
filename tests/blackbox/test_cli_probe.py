# SPDX-License-Identifier: Apache-2.0
"""`pawl keys resolve --probe`: the operator asks the service what became of an operation."""
from __future__ import annotations

import json
import os
import socket
import subprocess
from typing import Any

import pytest

from pawltest.gateway import Gateway, run
from pawltest.upstream import Reply, closes, resets, say
from pawltest.wire import Later

BODY = {"charge_id": "ch_1", "amount": 500}
HELD = """
tenant: "{header:X-Merchant-Id}"
trust_tenant: true
rules:
  - name: refunds.create
    match: POST /refunds
    settle: SETTLE
    timeout: 1m
    UNKNOWN
"""
BY_KEY = 'unknown: {probe: "GET /refunds/by-key/{key}?of={tenant}"}'
TARGET = "/refunds/by-key/k1?of=m1"
hooks = pytest.mark.hooks


def config(settle: str = "0s", unknown: str = "unknown: hold") -> str:
    return HELD.replace("SETTLE", settle).replace("UNKNOWN", unknown)


class Asked:
    """A gateway whose record of `k1` is unknown, and an operator with a config that has a probe."""

    def __init__(self, gateway: Gateway, unknown: str, settle: str):
        self.gateway = gateway
        self.file = gateway.directory / "operator.yaml"
        self.configure(unknown, settle)

    def configure(self, unknown: str, settle: str = "0s", upstream: int | None = None) -> None:
        port = upstream or self.gateway.upstream_port
        self.file.write_text(f"upstream: http://127.0.0.1:{port}\n"
                             f"store: {self.gateway.store_option}\n{config(settle, unknown)}")

    def keys(self, *arguments: Any) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PAWL_TEST_CLOCK": str(self.gateway.clock.path)}
        return run("keys", *arguments, env=environment)

    def show(self) -> dict[str, Any]:
        return json.loads(self.keys("show", "k1", "--json", "--store", self.gateway.store).stdout)

    def probe(self, *more: str, token: int | None = None) -> subprocess.CompletedProcess[str]:
        token = token or self.show()["token"]
        return self.keys("resolve", "k1", "--token", str(token), "--probe", "-c", self.file, *more)

    def post(self):
        return self.gateway.post("/refunds", BODY, key="k1", headers=[("X-Merchant-Id", "m1")])


@pytest.fixture
def asked(pawl, upstream, request) -> Asked:
    settle = getattr(request, "param", "0s")
    gateway = pawl(config(settle))
    upstream.then(closes())
    made = Asked(gateway, BY_KEY, settle)
    assert made.post()["Idempotency-Status"] == "unknown"
    return made


def test_the_service_is_asked_under_the_line_that_was_sent_whatever_the_rule_says_by_now(
        asked, upstream):
    asked.configure(BY_KEY + "\n    forward_key: quoted")
    upstream.on("GET", TARGET, say(200, {"id": 7}))
    assert asked.probe().returncode == 0
    assert [request["Idempotency-Key"] for request in upstream.requests] == ["k1", "k1"]


def test_what_the_service_knows_becomes_the_answer_of_every_duplicate(asked, upstream):
    before = asked.show()["token"]
    upstream.on("GET", TARGET, say(200, {"id": 9}, ("Location", "/refunds/9")))
    ran = asked.probe()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith('refunds.create "k1" of tenant "m1": resolved as complete')
    sent = upstream.requests[-1]
    assert (sent.method, sent.target, sent["Idempotency-Key"]) == ("GET", TARGET, "k1")
    assert int(sent["Idempotency-Token"]) > before
    answer = asked.post()
    assert answer.mark == (200, "replayed")
    assert (answer["Location"], json.loads(answer.body)) == ("/refunds/9", {"id": 9})
    assert upstream.effects() == 1


def test_the_status_is_the_rules_where_it_names_one(asked, upstream):
    asked.configure(BY_KEY + "\n    probe_status: 201")
    upstream.on("GET", TARGET, say(200, {"id": 9}))
    assert "HTTP status 201" in asked.probe().stdout
    assert asked.post().status == 201


def test_what_the_service_does_not_know_is_done_by_the_next_attempt(pawl, upstream):
    gateway = pawl(config())
    upstream.then(closes(effect=False))
    asked = Asked(gateway, BY_KEY, "0s")
    assert asked.post()["Idempotency-Status"] == "unknown"
    upstream.on("GET", TARGET, say(404))
    ran = asked.probe()
    assert ran.returncode == 0 and "released" in ran.stdout
    answer = asked.post()
    assert answer.mark == (201, "stored")
    assert upstream.effects() == 1


def test_what_was_released_in_doubt_is_asked_about_too(pawl, upstream):
    gateway = pawl(config(unknown="unknown: retry"))
    upstream.then(closes())
    asked = Asked(gateway, BY_KEY, "0s")
    assert asked.post()["Idempotency-Status"] == "released"
    upstream.on("GET", TARGET, say(200, {"id": 1}))
    assert asked.probe().returncode == 0
    answer = asked.post()
    assert (answer["Idempotency-Status"], answer.json) == ("replayed", {"id": 1})
    assert upstream.effects() == 1


@hooks
@pytest.mark.parametrize("asked", ["60s"], indirect=True)
def test_not_found_is_believed_only_when_nobody_can_still_send(asked, upstream):
    asked.configure(BY_KEY, "60s")
    upstream.on("GET", TARGET, say(404))
    ran = asked.probe()
    assert (ran.returncode, ran.stdout) == (75, "")
    assert 0 < int(ran.stderr.rsplit("try again in ", 1)[1].split(" ")[0]) <= 60
    assert asked.show()["status"] == "unknown"
    asked.gateway.clock.advance(61)
    assert asked.probe().returncode == 0
    assert asked.show()["lease"] == "released"


@pytest.mark.no_store
@pytest.mark.parametrize("reply, said", [
    (say(500, {}), "HTTP status 500"), (say(401, {}), "HTTP status 401"),
    (say(301, None), "HTTP status 301"), (closes(), "broke off"), (resets(), "broke off"),
    (Reply(200, b"x" * 100, cut=-10), "broke off"),
    (Reply(raw=b"HTTP/1.1 2000\n\n"), "malformed: "),
    (say(404, {}, ("Error-Code", "CONFLICT.idempotency.token_stale")), "later attempt"),
    (Reply(200, b"x" * 2_000_000), "larger than max_response_body"),
], ids=["500", "401", "301", "closed", "reset", "cut", "malformed", "stale", "large"])
def test_anything_else_leaves_it_unknown_and_can_be_asked_again(asked, upstream, reply, said):
    upstream.on("GET", TARGET, reply)
    ran = asked.probe()
    assert (ran.returncode, ran.stdout) == (76, "")
    assert said in ran.stderr
    assert asked.show()["status"] == "unknown"
    upstream.on("GET", TARGET, say(200, {"id": 9}))
    assert asked.probe().returncode == 0
    assert upstream.effects() == 1


def test_a_service_that_is_not_there_leaves_it_unknown(asked):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        asked.configure(BY_KEY, upstream=taken.getsockname()[1])
        ran = asked.probe()
    assert ran.returncode == 76 and "could not be reached" in ran.stderr
    assert asked.show()["status"] == "unknown"


def test_the_operators_headers_go_along(asked, upstream):
    upstream.on("GET", TARGET, say(200, {"id": 9}))
    assert asked.probe("-H", "Authorization: Bearer t", "--header", "Host: ledger").returncode == 0
    sent = upstream.requests[-1]
    assert (sent["Authorization"], sent["Host"]) == ("Bearer t", "ledger")


def test_a_stale_token_asks_nobody(asked, upstream):
    seen = len(upstream.requests)
    ran = asked.probe(token=asked.show()["token"] - 1)
    assert (ran.returncode, ran.stdout) == (1, "") and "stale" in ran.stderr
    assert len(upstream.requests) == seen


def test_what_is_settled_already_asks_nobody(asked, upstream):
    token = asked.show()["token"]
    asked.keys("resolve", "k1", "--token", str(token), "--status", "201", "--store",
               asked.gateway.store)
    seen = len(upstream.requests)
    ran = asked.probe(token=token)
    assert ran.returncode == 0 and "complete already, with HTTP status 201" in ran.stdout
    assert len(upstream.requests) == seen


def test_while_somebody_is_at_it_nobody_is_asked(pawl, upstream):
    asked = Asked(pawl(config()), BY_KEY, "0s")
    gate = upstream.hold()
    first = Later(asked.post)
    gate.wait_for()
    ran = asked.probe()
    assert (ran.returncode, ran.stdout) == (75, "") and "the record is in use" in ran.stderr
    gate.open()
    assert first.result().status == 201
    assert [request.method for request in upstream.requests] == ["POST"]


def test_a_duplicate_that_comes_while_the_operator_asks_has_the_answer(asked, upstream):
    gate = upstream.gate()
    upstream.on("GET", TARGET, say(200, {"id": 9}, gate=gate))
    probe = Later(asked.probe)
    gate.wait_for()
    duplicate = Later(asked.post)
    gate.open()
    assert probe.result().returncode == 0
    assert duplicate.result()["Idempotency-Status"] == "replayed"
    assert upstream.effects() == 1


@pytest.mark.no_store
@pytest.mark.parametrize("source", ["{body:/charge_id}", "{header:X-Id}", "{query:id}"])
def test_a_probe_that_needs_more_than_is_kept_is_refused(asked, upstream, source):
    seen, before = len(upstream.requests), asked.show()
    asked.configure(f'unknown: {{probe: "GET /refunds/{source}"}}')
    ran = asked.probe()
    assert (ran.returncode, ran.stdout) == (2, "")
    assert source in ran.stderr and "not kept" in ran.stderr
    assert asked.show()["token"] == before["token"] and len(upstream.requests) == seen


@pytest.mark.no_store
@pytest.mark.parametrize("arguments, said", [
    (["--probe"], "go together"), (["-c", "x"], "go together"),
    (["--probe", "-c", "x", "--status", "200"], "--probe takes no"),
    (["--probe", "-c", "x", "--force"], "--probe takes no"),
    (["--probe", "-c", "/none.yaml"], "/none.yaml: cannot be read"),
])
def test_a_wrong_command_line_is_explained(arguments, said):
    ran = run("keys", "resolve", "k1", "--token", "1", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "") and said in ran.stderr


@pytest.mark.no_store
@pytest.mark.parametrize("change, more, said", [
    (lambda a: a.configure("unknown: hold"), [], "has no probe"),
    (lambda a: a.file.write_text(a.file.read_text().replace("refunds.create", "other")), [],
     "no rule `refunds.create`"),
    (lambda a: None, ["-H", "Content-Length: 3"], "a probe cannot carry"),
    (lambda a: None, ["-H", "Connection: x"], "a probe cannot carry"),
], ids=["hold", "no-rule", "length", "connection"])
def test_a_config_or_header_that_cannot_ask_is_refused(asked, upstream, change, more, said):
    seen = len(upstream.requests)
    change(asked)
    ran = asked.probe(*more)
    assert (ran.returncode, ran.stdout) == (2, "") and said in ran.stderr
    assert len(upstream.requests) == seen and asked.show()["status"] == "unknown"


def test_what_was_found_is_audited(asked, upstream):
    upstream.on("GET", TARGET, say(200, {"id": 9}))
    asked.probe()
    acts = asked.keys("audit", "--json", "--store", asked.gateway.store).stdout.splitlines()
    assert [(act["act"], act["to"], act["http_code"], act["forced"])
            for act in map(json.loads, acts)] == [("resolve", "complete", 200, False)]


def test_a_key_that_the_probes_path_cannot_hold_is_refused(pawl, upstream):
    gateway = pawl(config())
    upstream.then(closes())
    answer = gateway.post("/refunds", BODY, key="a/b", headers=[("X-Merchant-Id", "m1")])
    assert answer["Idempotency-Status"] == "unknown"
    asked = Asked(gateway, BY_KEY, "0s")
    show = asked.keys("show", "a/b", "--json", "--store", gateway.store).stdout
    ran = asked.keys("resolve", "a/b", "--token", str(json.loads(show)["token"]), "--probe",
                     "-c", asked.file)
    assert ran.returncode == 2 and "path cannot hold" in ran.stderr
    assert len(upstream.requests) == 1
