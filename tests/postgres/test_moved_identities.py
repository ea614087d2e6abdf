# SPDX-License-Identifier: Apache-2.0
"""One identity of a rule at a time, in all gateways on one PostgreSQL."""
from __future__ import annotations

import re
import threading

import pytest

from pawltest.admin import with_admin
from pawltest.gateway import Gateway
from pawltest.wire import Answer, Later, eventually

DOWN = "DEPENDENCY.store_unavailable"
KEY = "550E8400-E29B-41D4-A716-446655440000"


def config(more: str = "") -> str:
    return ("tenant: none\nrules:\n"
            f"  - {{name: pay, match: POST /pay, unknown: hold{more}}}\n"
            "  - {name: other, match: POST /other, unknown: hold}\n")


FOLDS = config(", key_format: uuid")


def post(gateway: Gateway, target: str = "/pay", key: str = KEY) -> Answer:
    return gateway.post(target, {}, key=f'"{key}"')


def refusal(gateway: Gateway, text: str) -> str:
    begin = len(gateway.log)
    gateway.configure(text)
    gateway.signal(1)

    def problems() -> list[str]:
        return [line["problem"] for line in gateway.log[begin:]
                if line["event"] == "config_refused"]

    eventually(problems, "the refusal")
    return problems()[0]


def accept(text: str, problem: str) -> str:
    return text.replace("name: pay,", f"name: pay, {re.search('moved: [0-9a-f]{8}', problem)[0]},")


def test_one_moves_and_the_other_says_so_for_that_rule_alone(pawl, upstream):
    """found: R2"""
    one = pawl(config())
    two, admin = with_admin(pawl, config())
    assert post(two).mark == (201, "stored")
    moved = accept(FOLDS, refusal(one, FOLDS))
    one.reload(moved)
    assert post(one).mark == (201, "stored")  # as accepted
    refused = post(two, key=KEY.lower())
    assert refused.is_problem(503, DOWN)
    assert "another gateway moved the keys of rule 'pay'; reload this one" in refused.json["detail"]
    assert refused["Idempotency-Status"] is None
    assert post(two, "/other").mark == (201, "stored")
    assert admin.get("/readyz").body.startswith(b"ready\nbut for rule 'pay': another gateway moved")
    assert b'pawl_identity_moved{rule="pay"} 1\n' in admin.get("/metrics").body
    eventually(lambda: [line["rule"] for line in two.lines("identity_moved")]
               == ["pay"], "the log line")
    two.reload(f"admin: 127.0.0.1:{admin.port}\n{moved}")
    assert post(two).mark == (201, "replayed")
    assert admin.get("/readyz").body == b"ready\n"
    assert b"pawl_identity_moved{" not in admin.get("/metrics").body
    assert upstream.effects("/pay") == 2


def test_the_old_config_comes_back_on_neither(pawl, upstream):
    one, two = pawl(config()), pawl(config())
    one.reload(FOLDS)
    assert post(one).mark == (201, "stored")
    assert post(two).is_problem(503, DOWN)
    assert "rule 'pay' moves its keys (key)" in refusal(two, config())
    assert post(two).is_problem(503, DOWN)
    assert two.stop() == 0
    two.configure(config())
    with pytest.raises(AssertionError, match="rule 'pay' moves its keys"):
        two.start()
    assert upstream.effects() == 1


def test_what_runs_while_another_gateway_moves_its_rule_is_stored(pawl, upstream):
    one, two = pawl(config()), pawl(config())
    gate = upstream.hold()
    first = Later(lambda: post(two))
    gate.wait_for()
    problem = refusal(one, FOLDS)
    assert "1 without an outcome" in problem
    one.reload(accept(FOLDS, problem))
    gate.open()
    assert first.result().mark == (201, "stored")
    assert post(two).mark == (201, "replayed")  # what it knows of itself
    assert post(two, key="k2").is_problem(503, DOWN)
    assert post(two).is_problem(503, DOWN)


def test_under_load_no_key_has_two_effects_while_a_rule_moves(pawl, upstream):
    """Each key is sent to both gateways; the change is made if no record was there before it."""
    one, two = pawl(config()), pawl(config())
    answers: list[Answer] = []
    lock = threading.Lock()

    def send(gateway: Gateway, n: int) -> None:
        answer = post(gateway, key=f"AAAAAAAA-E29B-41D4-A716-{n:012d}")
        with lock:
            answers.append(answer)

    one.configure(FOLDS)
    one.signal(1)
    threads = [threading.Thread(target=send, args=(gateway, n))
               for n in range(40) for gateway in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} <= {201, 409, 503}
    sent = [request["Idempotency-Key"].strip('"').lower() for request in upstream.done]
    assert len(sent) == len(set(sent))
