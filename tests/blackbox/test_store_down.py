# SPDX-License-Identifier: Apache-2.0
"""`store_down: pass`: what a rule gives up while the record store cannot decide, and what not."""
from __future__ import annotations

from pathlib import Path

import pytest

from pawltest.gateway import stands_still
from pawltest.upstream import closes, say
from test_reload import reload
from pawltest.wire import Answer, Later, eventually

CONFIG = """
tenant: none
threads: 1
cache: 0
rules:
  - {name: passes, match: POST /passes, store_down: pass}
  - {name: by.body, match: POST /by-body, key: "{body:/id}", store_down: pass}
  - {name: refuses, match: POST /refuses}
"""
BODY = {"amount": 5}
pytestmark = [pytest.mark.hooks, pytest.mark.file_only]


def take_away(store: Path) -> None:
    for path in (store, Path(f"{store}-wal"), Path(f"{store}-shm")):
        if path.exists():
            path.rename(f"{path}.away")


def put_back(store: Path) -> None:
    for path in (store, Path(f"{store}-wal"), Path(f"{store}-shm")):
        away = Path(f"{path}.away")
        if away.exists():
            away.rename(path)


@pytest.fixture
def down(pawl, upstream, clock):
    """A gateway whose store is gone, and a post that moves the clock while it waits."""
    gateway = pawl(CONFIG)
    take_away(gateway.store)

    def post(*arguments, **more) -> Answer:
        client = Later(lambda: gateway.post(*arguments, **more))
        clock.run_until(lambda: client.is_done)
        return client.result()

    gateway.post_down = post
    return gateway


def test_a_request_passes_once_with_its_key_and_without_a_token(down, upstream):
    upstream.then(say(201, {"id": 7}, ("X-Own", "1")))
    answer = down.post_down("/passes", BODY, key='"k1"')
    assert (answer.mark, answer.json, answer["X-Own"]) == ((201, "bypassed"), {"id": 7}, "1")
    assert answer["Idempotent-Replayed"] is None
    (seen,) = upstream.requests
    assert (seen["Idempotency-Key"], seen["Idempotency-Token"]) == ("k1", None)
    assert seen["Content-Length"] == str(len(seen.body))


def test_a_derived_key_is_sent_on(down, upstream):
    assert down.post_down("/by-body", {"id": "a b"}).mark == (201, "bypassed")
    assert upstream.requests[0]["Idempotency-Key"] == "a%20b"


def test_nothing_is_recorded_and_a_retry_happens_again(down, upstream):
    assert down.post_down("/passes", BODY, key="k1").mark == (201, "bypassed")
    assert down.post_down("/passes", BODY, key="k1").mark == (201, "bypassed")
    assert upstream.effects() == 2


def test_what_is_malformed_is_refused_all_the_same(down, upstream):
    answer = down.post_down("/passes", BODY)
    assert answer.is_problem(400, "VALIDATION.idempotency.key_missing")
    assert not upstream.requests


def test_a_rule_that_did_not_choose_it_refuses(down, upstream):
    answer = down.post_down("/refuses", BODY, key="k1")
    assert answer.is_problem(503, "DEPENDENCY.store_unavailable")
    assert not upstream.requests


def test_an_upstream_that_breaks_off_is_told_as_bypassed(down, upstream):
    upstream.then(closes())
    answer = down.post_down("/passes", BODY, key="k1")
    assert answer.is_problem(502, "TRANSIENT.upstream_broke")
    assert answer["Idempotency-Status"] == "bypassed"
    assert (answer.json["retryable"], answer.json["safe_new_key"]) == (True, False)
    assert upstream.effects() == 1


def test_when_the_store_is_back_requests_are_protected_again(down, upstream, clock):
    assert down.post_down("/passes", BODY, key="k1").mark == (201, "bypassed")
    put_back(down.store)
    tries = iter(range(1000))
    clock.run_until(lambda: down.post("/passes", BODY, key=f"back-{next(tries)}")
                    ["Idempotency-Status"] == "stored")
    assert down.post("/passes", BODY, key="k1").mark == (201, "stored")
    assert down.post("/passes", BODY, key="k1").mark == (201, "replayed")


def test_what_was_sent_before_the_store_went_is_not_sent_again(pawl, upstream, clock):
    gateway = pawl(CONFIG)
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/passes", BODY, key="k1"))
    gate.wait_for()
    take_away(gateway.store)
    gate.open()
    clock.run_until(lambda: first.is_done)
    assert first.result().is_problem(503, "DEPENDENCY.outcome_not_stored")
    put_back(gateway.store)
    assert len(upstream.requests) == 1


def test_a_duplicate_whose_record_was_found_does_not_pass_when_the_store_goes(pawl, upstream,
                                                                              clock):
    """It is hashed again by the record's recipe, and then the store is gone."""
    gateway = pawl(CONFIG, started=False).start(PAWL_STOP_AT="before_begin:3")
    assert gateway.post("/passes", BODY, key="k1").mark == (201, "stored")
    reload(gateway, CONFIG.replace("store_down: pass", "store_down: pass, payload: raw"))
    again = Later(lambda: gateway.post("/passes", BODY, key="k1"))
    eventually(lambda: stands_still(gateway.process.pid), "its stop before the second look")
    take_away(gateway.store)
    gateway.go_on()
    clock.run_until(lambda: again.is_done)
    assert again.result().is_problem(503, "DEPENDENCY.store_unavailable")
    assert upstream.effects() == 1
    put_back(gateway.store)
