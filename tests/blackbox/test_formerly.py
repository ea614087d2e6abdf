# SPDX-License-Identifier: Apache-2.0
"""A rule that is renamed finds the records of its old name (`formerly:`)."""
from __future__ import annotations

import json
import threading
from collections import Counter

from pawltest.upstream import closes, say
from pawltest.wire import Answer, Later, at_once, eventually

RULE = "tenant: none\nrules:\n  - {name: %s, match: POST /refunds, formerly: [%s]}\n"
OLD = "tenant: none\nrules:\n  - {name: old, match: POST /refunds}\n"
NEW = RULE % ("new", "older, old")


def test_an_answer_of_the_old_name_is_replayed_under_the_new_one(pawl, upstream):
    gateway = pawl(OLD)
    first = gateway.post("/refunds", {}, key="k1")
    gateway.reload(NEW)
    for _ in range(2):
        again = gateway.post("/refunds", {}, key="k1")
        assert (again.mark, again.body) == ((201, "replayed"), first.body)
    assert gateway.post("/refunds", {"x": 1}, key="k1").status == 409
    assert gateway.post("/refunds", {}, key="k2").mark == (201, "stored")
    assert upstream.effects() == 2


def test_a_duplicate_under_the_new_name_waits_for_the_first_under_the_old_one(pawl, upstream):
    gateway = pawl(OLD)
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    gate.wait_for()
    gateway.reload(NEW)
    second = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    gate.open()
    assert first.result().mark == (201, "stored")
    assert second.result().mark == (201, "replayed")
    assert upstream.effects() == 1


def test_an_unknown_outcome_of_the_old_name_stays_unknown(pawl, upstream):
    gateway = pawl(OLD)
    upstream.then(closes())
    gateway.post("/refunds", {}, key="k1")
    gateway.reload(NEW)
    again = gateway.post("/refunds", {}, key="k1")
    assert again.is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert upstream.effects() == 1


def test_without_formerly_a_renamed_rule_is_another_one(pawl, upstream):
    gateway = pawl(OLD)
    gateway.post("/refunds", {}, key="k1")
    gateway.reload(OLD.replace("old", "new"))
    assert gateway.post("/refunds", {}, key="k1").mark == (201, "stored")
    assert upstream.effects() == 2


def test_while_a_rule_is_renamed_under_load_every_key_has_one_effect(pawl, upstream):
    gateway = pawl(RULE % ("a", "b"))
    stop = threading.Event()
    answers: list[Answer] = []

    def load() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            answers.extend(at_once(4, lambda _: gateway.post("/refunds", {}, key=f"k{n}")))

    worker = threading.Thread(target=load)
    worker.start()
    try:
        for turn in range(20):
            gateway.reload(RULE % (("b", "a") if turn % 2 == 0 else ("a", "b")))
            seen = len(answers)
            eventually(lambda: len(answers) > seen + 8, "answers under the new name")
    finally:
        stop.set()
        worker.join()
    counts = Counter(request["Idempotency-Key"] for request in upstream.done)
    assert set(counts.values()) == {1}
    assert Counter(answer.mark for answer in answers)[201, "stored"] == len(counts)
    assert {answer.status for answer in answers} == {201}


# ---- the rule's name in the key, or in the once value ----

NAMED = """
tenant: none
rules:
  - name: %s
    match: POST /refunds
    key: "{header:Idempotency-Key}{route}"
    unknown: %s
"""
HOLD, RETRY, PROBE = "hold", "retry", '{probe: "GET /refunds/by-key/{key}"}'


def renamed(config: str) -> str:
    return config.replace("name: old", "name: new\n    formerly: [older, old]")


def test_a_key_that_holds_the_rules_name_is_found_by_the_name_that_made_it(pawl, upstream):
    """found: R23"""
    config = NAMED % ("old", HOLD)
    gateway = pawl(config)
    first = gateway.post("/refunds", {}, key="k1")
    gateway.reload(renamed(config))
    again = gateway.post("/refunds", {}, key="k1")
    assert (again.mark, again.body) == ((201, "replayed"), first.body)
    assert gateway.post("/refunds", {}, key="k2").mark == (201, "stored")
    assert [request["Idempotency-Key"] for request in upstream.done] == ["k1:old", "k2:new"]


def test_what_goes_on_under_a_former_name_is_sent_under_the_key_that_was_sent(pawl, upstream):
    config = NAMED % ("old", RETRY)
    gateway = pawl(config)
    upstream.then(closes())
    gateway.post("/refunds", {}, key="k1")
    gateway.reload(renamed(config))
    assert gateway.post("/refunds", {}, key="k1").mark == (201, "stored")
    assert [request["Idempotency-Key"] for request in upstream.done] == ["k1:old", "k1:old"]


def test_a_probe_under_a_former_name_asks_for_the_key_that_was_sent(pawl, upstream):
    config = NAMED % ("old", PROBE)
    gateway = pawl(config)
    upstream.then(closes())
    upstream.on("GET", "/refunds/by-key/k1%3Aold", say(200, {"id": 7}))
    gateway.post("/refunds", {}, key="k1")
    gateway.reload(renamed(config))
    again = gateway.post("/refunds", {}, key="k1")
    assert (again.status, json.loads(again.body)) == (200, {"id": 7})
    assert upstream.effects() == 1


ONCE = """
tenant: none
rules:
  - name: old
    match: POST /refunds
    once: {key: "{body:/ref}{route}", duplicate: reject}
"""


def refund(gateway, key: str, ref: str) -> Answer:
    return gateway.post("/refunds", {"ref": ref}, key=key)


def test_a_once_value_that_holds_the_rules_name_is_found_by_the_name_that_made_it(pawl, upstream):
    gateway = pawl(ONCE)
    first = refund(gateway, "k1", "r1")
    gateway.reload(renamed(ONCE))
    again = refund(gateway, "k1", "r1")
    assert (again.mark, again.body) == ((201, "replayed"), first.body)
    assert refund(gateway, "k2", "r1").is_problem(409, "CONFLICT.idempotency.duplicate")
    assert refund(gateway, "k1", "r2").is_problem(409, "CONFLICT.idempotency.payload_mismatch")
    assert upstream.effects() == 1


def test_what_goes_on_under_a_former_name_holds_the_value_as_that_name_made_it(pawl, upstream):
    """A record from before the rule had `once`, and under another name."""
    before = ONCE.replace('once: {key: "{body:/ref}{route}", duplicate: reject}', "unknown: retry")
    after = renamed(ONCE.replace("once:", "unknown: retry\n    once:"))
    gateway = pawl(before)
    upstream.then(say(503, None, ("Retry-After", "0"), effect=False))
    refund(gateway, "k1", "r1")
    gateway.reload(after)
    assert refund(gateway, "k1", "r1").mark == (201, "stored")
    assert refund(gateway, "k2", "r1").is_problem(409, "CONFLICT.idempotency.duplicate")
    assert upstream.effects() == 1
