# SPDX-License-Identifier: Apache-2.0
"""A rule that is renamed finds the records of its old name (`formerly:`)."""
from __future__ import annotations

import threading
from collections import Counter

from pawltest.upstream import closes
from pawltest.wire import Answer, Later, at_once, eventually

RULE = "tenant: none\nrules:\n  - {name: %s, match: POST /refunds, formerly: [%s]}\n"
OLD = "tenant: none\nrules:\n  - {name: old, match: POST /refunds}\n"
NEW = RULE % ("new", "older, old")


def marks(answer: Answer) -> tuple[int, str | None]:
    return answer.status, answer["Idempotency-Status"]


def test_an_answer_of_the_old_name_is_replayed_under_the_new_one(pawl, upstream):
    gateway = pawl(OLD)
    first = gateway.post("/refunds", {}, key="k1")
    gateway.reload(NEW)
    for _ in range(2):
        again = gateway.post("/refunds", {}, key="k1")
        assert (marks(again), again.body) == ((201, "replayed"), first.body)
    assert gateway.post("/refunds", {"x": 1}, key="k1").status == 409
    assert marks(gateway.post("/refunds", {}, key="k2")) == (201, "stored")
    assert upstream.effects() == 2


def test_a_duplicate_under_the_new_name_waits_for_the_first_under_the_old_one(pawl, upstream):
    gateway = pawl(OLD)
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    gate.wait_for()
    gateway.reload(NEW)
    second = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    gate.open()
    assert marks(first.result()) == (201, "stored")
    assert marks(second.result()) == (201, "replayed")
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
    assert marks(gateway.post("/refunds", {}, key="k1")) == (201, "stored")
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
    assert Counter(map(marks, answers))[201, "stored"] == len(counts)
    assert {answer.status for answer in answers} == {201}
