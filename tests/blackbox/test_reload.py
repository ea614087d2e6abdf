# SPDX-License-Identifier: Apache-2.0
"""SIGHUP: other rules from one request to the next, none cut, none served by half of each."""
from __future__ import annotations

import json
import signal
import threading

import pytest

from pawltest.gateway import Gateway
from pawltest.upstream import Upstream, closes, say
from pawltest.wire import Later, eventually, request_bytes

ONE_RULE = "tenant: none\nrules:\n  - {name: refunds.create, match: POST /refunds}\n"
WHOLE = request_bytes("POST", "/refunds", [("Idempotency-Key", "k1"),
                                           ("Content-Type", "application/json")], b"{}")
TWO_RULES = ONE_RULE + "  - {name: payments.create, match: POST /payments}\n"


def reload(gateway: Gateway, config: str, event: str = "config_reloaded") -> list[dict]:
    """Until the log tells what became of it; the lines that are new."""
    begin = len(gateway.log)
    gateway.configure(config)
    gateway.signal(signal.SIGHUP)
    eventually(lambda: gateway.lines(event, begin), event)
    return gateway.log[begin:]


def test_new_rules_hold_for_the_next_request_also_on_a_kept_connection(gateway):
    with gateway.connect() as client:
        before = client.request("POST", "/payments", [], b"{}")
        assert before.mark == (201, "bypassed")
        reload(gateway, TWO_RULES)
        after = client.request("POST", "/payments", [], b"{}")
    assert after.is_problem(400, "VALIDATION.idempotency.key_missing")


@pytest.mark.file_only
def test_a_participant_is_refused_where_the_store_is_a_file(gateway):
    """What the command line names decides, too: this config names the file."""
    refused = reload(gateway, ONE_RULE.replace("refunds}", "refunds, unknown: participant}"),
                     "config_refused")
    assert "unknown: " in refused[-1]["problem"]
    text = gateway.config.read_text("utf-8").replace(f"store: {gateway.store_option}\n", "")
    begin = len(gateway.log)
    gateway.config.write_text(text)
    gateway.signal(signal.SIGHUP)
    eventually(lambda: any(line["event"] == "config_refused"
                           and "needs the database" in line["problem"]
                           for line in gateway.log[begin:]), "the refusal")


def test_another_config_file_is_reloaded_without_a_signal(pawl, tmp_path):
    """As a volume of Kubernetes changes it: a link on the way leads to another folder. What is
    refused is read once."""
    gateway = pawl(ONE_RULE, started=False)
    volume, link = tmp_path / "volume", tmp_path / "volume" / "..data"

    def become(version: str, config: str) -> None:
        (volume / version).mkdir()
        gateway.configure("reload: 1s\n" + config)
        gateway.config.replace(volume / version / "pawl.yaml")
        (volume / "..next").symlink_to(version)
        (volume / "..next").rename(link)

    volume.mkdir()
    become("1", ONE_RULE)
    gateway.config.symlink_to(link / "pawl.yaml")
    gateway.start()
    written = gateway.config
    gateway.config = tmp_path / "next.yaml"
    become("2", ONE_RULE + "nonsense: 1\n")
    eventually(lambda: gateway.lines("config_refused"), "the refusal")
    become("3", TWO_RULES)
    eventually(lambda: gateway.lines("config_reloaded"), "the reload")
    assert gateway.post("/payments", {}).is_problem(400, "VALIDATION.idempotency.key_missing")
    assert len(gateway.lines("config_refused")) == 1
    text = written.read_text("utf-8")
    written.resolve().write_text(text.replace("  - {name: payments", "  - {name: paid"), "utf-8")
    eventually(lambda: len(gateway.lines("config_reloaded")) == 2, "the same file, written anew")


def test_an_exchange_ends_under_the_rule_it_began_with(gateway, upstream):
    gate = upstream.hold()
    with gateway.connect() as client:
        client.send(WHOLE)
        gate.wait_for()
        reload(gateway, "tenant: none\n")
        gate.open()
        first = client.answer()
    assert first.mark == (201, "stored")
    reload(gateway, ONE_RULE)
    again = gateway.post("/refunds", {}, key="k1")
    assert (again["Idempotency-Status"], again.body) == ("replayed", first.body)
    assert upstream.effects() == 1


def test_a_request_that_is_still_read_is_judged_by_the_rules_of_its_begin(gateway, upstream):
    whole = request_bytes("POST", "/refunds", [("Idempotency-Key", "k1"),
                                               ("Content-Type", "application/json")],
                          b'{"ref":"r1"}')
    with gateway.connect() as client:
        client.send(whole[:-1])
        eventually(lambda: gateway.request("GET", "/x").status == 200)
        reload(gateway, ONE_RULE.replace("/refunds", "/refunds, key: '{body:/ref}'"))
        client.send(whole[-1:])
        assert client.answer()["Idempotency-Status"] == "stored"
    assert [each["Idempotency-Key"] for each in upstream.done] == ["r1"]


def test_a_request_that_is_still_read_and_is_refused_by_the_new_rules_has_no_effect(gateway,
                                                                                   upstream):
    with gateway.connect() as client:
        client.send(WHOLE[:-1])
        eventually(lambda: gateway.request("GET", "/x").status == 200)
        reload(gateway, ONE_RULE.replace("/refunds", "/refunds, key_format: uuid"))
        client.send(WHOLE[-1:])
        assert client.answer().is_problem(400, "VALIDATION.idempotency.key_malformed")
    assert upstream.effects() == 0


@pytest.mark.parametrize("bad, told", [
    ("tenant: none\nrulez: []\n", "pawl.yaml:5:1: rulez: "),
    ("tenant: none\nrules:\n  - {name: a, match: GET /a}\n", "pawl.yaml:6:22: match: "),
    ("tenant: [\n", "pawl.yaml:"),
])
def test_a_bad_config_is_refused_with_its_place_and_the_old_one_goes_on(gateway, bad, told):
    new = reload(gateway, bad, "config_refused")
    problems = [line["problem"] for line in new if line["event"] == "config_refused"]
    assert any(told in problem for problem in problems), problems
    assert gateway.post("/refunds", {}).is_problem(400, "VALIDATION.idempotency.key_missing")
    assert gateway.post("/refunds", {}, key="k1")["Idempotency-Status"] == "stored"


def test_a_config_file_that_is_gone_is_refused(gateway):
    gateway.config.unlink()
    gateway.signal(signal.SIGHUP)
    eventually(lambda: gateway.lines("config_refused"), "its refusal")
    assert gateway.post("/refunds", {}, key="k1").status == 201


def test_what_needs_a_restart_is_said_and_the_rest_counts(gateway):
    new = reload(gateway, TWO_RULES + "threads: 1\nmax_connections: 77\n")
    told = [line["problem"] for line in new if line["event"] == "config_needs_restart"]
    assert told == ["threads", "max_connections"]
    assert gateway.post("/payments", {}).status == 400


def test_another_upstream_gets_the_next_request_and_the_old_one_ends_its_own(gateway, upstream):
    other = Upstream()
    try:
        gate = upstream.hold()
        with gateway.connect() as client:
            client.send(WHOLE)
            gate.wait_for()
            gateway.upstream_port = other.port
            reload(gateway, ONE_RULE)
            assert gateway.post("/refunds", {}, key="k2").status == 201
            gate.open()
            assert client.answer().status == 201
        assert [each["Idempotency-Key"] for each in other.done] == ["k2"]
        assert upstream.effects() == 1
    finally:
        other.stop()


def test_under_load_no_exchange_is_cut_and_none_is_served_by_half_of_two_configs(pawl, upstream):
    """Config A sends keys a-... to one upstream, config B keys b-... to the other."""
    other = Upstream()
    rule = "tenant: none\nrules:\n  - {name: r, match: POST /refunds, key: '%s-{body:/k}'}\n"
    gateway = pawl(rule % "a")
    assert gateway.post("/refunds", {"k": "0"}).status == 201
    accepted = {"b": gateway.accept(rule % "b")}
    reload(gateway, accepted["b"])
    accepted["a"] = gateway.accept(rule % "a")
    reload(gateway, accepted["a"])
    answers, stop = [], threading.Event()

    def load(worker: int) -> None:
        with gateway.connect() as client:
            for n in range(100_000):
                if stop.is_set():
                    return
                answers.append(client.request(
                    "POST", "/refunds", [("Content-Type", "application/json")],
                    json.dumps({"k": f"{worker}x{n}"}).encode()))

    workers = [threading.Thread(target=load, args=(n,)) for n in range(4)]
    try:
        for worker in workers:
            worker.start()
        for turn in range(12):
            gateway.upstream_port = (other if turn % 2 == 0 else upstream).port
            reload(gateway, accepted["b" if turn % 2 == 0 else "a"])
            seen = len(answers)
            eventually(lambda: len(answers) > seen + 8, "answers under the new config")
        stop.set()
        for worker in workers:
            worker.join()
        assert {each.mark for each in answers} == {(201, "stored")}
        assert upstream.effects() + other.effects() == len(answers) + 1
        assert {each["Idempotency-Key"][0] for each in upstream.done} == {"a"}
        assert {each["Idempotency-Key"][0] for each in other.done} == {"b"}
    finally:
        stop.set()
        other.stop()


def test_limits_of_waiting_duplicates_follow_a_reload(gateway, upstream):
    gate = upstream.hold()
    with gateway.connect() as first, gateway.connect() as second:
        first.send(WHOLE)
        gate.wait_for()
        reload(gateway, ONE_RULE + "max_waiting: 0\n")
        second.send(WHOLE)
        assert second.answer().is_problem(429, "RATE_LIMIT.exceeded")
        gate.open()
        assert first.answer().status == 201


# ---- another policy for what is in doubt ----

POLICY = "tenant: none\nrules:\n  - {name: refunds.create, match: POST /refunds%s}\n"
RETRY = POLICY % ", unknown: retry"
HOLD = POLICY % ""
PROBE = POLICY % ', settle: 60s, unknown: {probe: "GET /refunds/by-key/{key}"}'
FOUND = "/refunds/by-key/k1"
UNKNOWN = "CONFLICT.idempotency.outcome_unknown"


def released_in_doubt(pawl, upstream) -> Gateway:
    """Under `retry`, after the operation was done and its answer lost."""
    gateway = pawl(RETRY)
    upstream.then(closes())
    first = gateway.post("/refunds", {}, key="k1")
    assert first.mark == (502, "released")
    assert upstream.effects() == 1
    return gateway


def test_what_was_released_in_doubt_is_held_once_the_rule_says_hold(pawl, upstream):
    gateway = released_in_doubt(pawl, upstream)
    reload(gateway, HOLD)
    for _ in range(2):
        again = gateway.post("/refunds", {}, key="k1")
        assert again.is_problem(409, UNKNOWN)
        assert (again.json["retryable"], again.json["safe_new_key"]) == (False, False)
    assert again.json["operation"]["state"] == "unknown"
    reload(gateway, RETRY)
    assert gateway.post("/refunds", {}, key="k1").is_problem(409, UNKNOWN)
    assert upstream.effects() == len(upstream.requests) == 1


def test_what_was_released_in_doubt_is_found_once_the_rule_says_probe(pawl, upstream):
    gateway = released_in_doubt(pawl, upstream)
    upstream.on("GET", FOUND, say(200, {"id": 1}))
    reload(gateway, PROBE)
    again = gateway.post("/refunds", {}, key="k1")
    assert (again.status, again["Idempotency-Status"], again.json) == (200, "stored", {"id": 1})
    assert [each.method for each in upstream.requests] == ["POST", "GET"]


@pytest.mark.hooks
def test_a_404_counts_only_settle_after_the_try_that_ended_in_doubt(pawl, upstream, clock):
    gateway = released_in_doubt(pawl, upstream)
    upstream.on("GET", FOUND, say(404))
    clock.advance(5)
    reload(gateway, PROBE)
    early = gateway.post("/refunds", {}, key="k1")
    assert early.is_problem(409, UNKNOWN)
    assert 45 < int(early["Retry-After"]) <= 55
    assert upstream.effects() == 1
    clock.advance(56)
    again = gateway.post("/refunds", {}, key="k1")
    assert again.mark == (201, "stored")
    assert [each.method for each in upstream.requests] == ["POST", "GET", "GET", "POST"]


@pytest.mark.parametrize("config", [HOLD, PROBE], ids=["hold", "probe"])
def test_what_was_surely_not_done_runs_under_another_policy_too(pawl, upstream, config):
    gateway = pawl(RETRY)
    upstream.then(say(503, effect=False))
    assert gateway.post("/refunds", {}, key="k1")["Idempotency-Status"] == "released"
    reload(gateway, config)
    again = gateway.post("/refunds", {}, key="k1")
    assert again.mark == (201, "stored")
    assert upstream.effects() == 1


def test_a_once_value_in_doubt_is_held_for_another_key_too(pawl, upstream):
    once = HOLD.replace("}", ', once: {key: "{body:/invoice}", ttl: 1d, duplicate: reject}}')
    gateway = pawl(once.replace("/refunds", "/refunds, unknown: retry"))
    upstream.then(closes())
    assert gateway.post("/refunds", {"invoice": 7}, key="k1").status == 502
    reload(gateway, once)
    for key in ("k2", "k1"):
        assert gateway.post("/refunds", {"invoice": 7}, key=key).is_problem(409, UNKNOWN)
    assert upstream.effects() == len(upstream.requests) == 1


def test_the_times_of_tries_hold_from_the_next_request_on(pawl, upstream):
    """The one that waits for its next try ends by the delays with which it began."""
    one = POLICY % ", retry: {schedule: [%s]}"
    gateway = pawl(one % "1s")
    upstream.default = say(503, effect=False)
    first = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    eventually(lambda: gateway.lines("retry"), "a wait")
    reload(gateway, one % "0s, 0s, 0s")
    assert first.result().status == 503 and len(upstream.requests) == 2
    assert gateway.post("/refunds", {}, key="k2").status == 503
    assert len(upstream.requests) == 2 + 4
