# SPDX-License-Identifier: Apache-2.0
"""`key_format: uuid7`: a key that says when it was made begins nothing once it is too old."""
from __future__ import annotations

import json
import re
import time

import pytest

from pawltest.gateway import make_store, run
from pawltest.upstream import say
from test_queue_drain import Drained

pytestmark = pytest.mark.no_store

HOUR, DAY = 3600, 86400
BODY = {"amount": 5}
EXPIRED = "VALIDATION.idempotency.key_expired"
AHEAD = "VALIDATION.idempotency.key_ahead"
RULE = "{name: a, match: POST /refunds, ttl: 24h"
CONFIG = """
tenant: none
rules:
  - %s, key_format: uuid7}
  - {name: b, match: POST /orders, key_format: uuid7, key_max_age: 1h,
     key: "{header:X-Key}:{body:/amount}"}
  - {name: c, match: POST /visits, key_format: uuid7, key_max_age: 1h, require: false,
     once: {key: "{body:/amount}", ttl: 1h}}
""" % RULE


def made(age: float, n: int = 0) -> str:
    """A key that was made so many seconds ago."""
    ms = f"{int((time.time() - age) * 1000):012x}"
    return f"{ms[:8]}-{ms[8:]}-7{n:03x}-8000-00000000000{n:x}"


def test_only_a_key_of_now_begins(pawl, upstream):
    gateway = pawl(CONFIG)
    told = gateway.post("/refunds", BODY, key=made(DAY + 60))
    assert told.is_problem(400, EXPIRED)
    assert (told.json["retryable"], told.json["safe_new_key"]) == (False, False)
    assert "look before you start over" in told.json["hint"]
    assert "the key says that it was made at 2" in told.json["detail"]
    told = gateway.post("/refunds", BODY, key=made(-360))
    assert told.is_problem(400, AHEAD)
    assert (told.json["retryable"], told.json["safe_new_key"]) == (False, True)
    assert "the client's clock" in told.json["hint"]
    told = gateway.post("/refunds", BODY, key="ffffffff-ffff-7cc3-98c4-dc0c0c07398f")
    assert told.is_problem(400, AHEAD) and "after the year 9999" in told.json["detail"]
    told = gateway.post("/refunds", BODY, key="8e03978e-40d5-43e8-bc93-6894a57f9324")
    assert told.is_problem(400, "VALIDATION.idempotency.key_malformed")
    old = [("X-Key", made(2 * HOUR))]
    assert gateway.post("/orders", BODY, key=None, headers=old).is_problem(400, EXPIRED)
    assert gateway.post("/visits", BODY, key=made(2 * HOUR)).is_problem(400, EXPIRED)
    assert not upstream.requests
    for age in (DAY - 60, 0, -240):
        assert gateway.post("/refunds", BODY, key=made(age)).status == 201
    assert gateway.post("/orders", BODY, key=None, headers=[("X-Key", made(60))]).status == 201
    assert gateway.post("/visits", BODY, key=None).status == 201  # by its value alone


@pytest.mark.hooks
def test_what_lives_answers_and_what_expired_does_not_run_again(pawl, upstream, clock):
    """The keys are those of `uuid`: a rule that asks for version 7 later finds its records."""
    gateway = pawl("\ntenant: none\nrules:\n  - %s, key_format: uuid}\n" % RULE)
    key = made(12 * HOUR)
    first = gateway.post("/refunds", BODY, key=key.upper())
    assert first.status == 201
    gateway.reload(CONFIG)
    clock.advance(18 * HOUR)
    again = gateway.post("/refunds", BODY, key=key)
    assert again.body == first.body and again["Idempotency-Status"] == "replayed"
    assert gateway.post("/refunds", {"amount": 6}, key=key).status == 409
    clock.advance(12 * HOUR)
    assert gateway.post("/refunds", BODY, key=key).is_problem(400, EXPIRED)
    assert upstream.effects() == 1


def test_commands_make_such_keys_where_they_are_told_to(pawl, upstream, tmp_path):
    gateway = pawl(CONFIG)
    url, store = f"http://127.0.0.1:{gateway.port}/refunds", ("--store", tmp_path / "queue.db")
    sent = run("send", url, "-d", "a=1", "--key-version", "7", *store)
    assert sent.returncode == 0 and abs(age(sent.stderr)) < 60, sent.stderr
    sent = run("send", url, "-d", "a=1", "--key-version", "4", *store)
    assert sent.returncode == 1 and "key_malformed" in sent.stderr
    refused = run("send", url, "--key", "k1", "--key-version", "7", *store)
    assert refused.returncode == 2 and "--key-version is of a key that pawl makes" in refused.stderr
    line = json.dumps({"url": url, "json": {"a": 2}}) + "\n"
    added = run("queue", "add", "-", "--key-version", "7", *store, input=line)
    edited = run("queue", "edit", added.stdout.split()[0], "-d", "a=3", *store)
    keys = {told.stdout.split()[1] for told in (added, edited)}
    assert len(keys) == 2 and all(abs(age(key)) < 60 for key in keys)


def age(text: str) -> float:
    """Of the UUIDv7 in it."""
    found = re.search(r"\b([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-", text)
    assert found, text
    return time.time() - int(found[1] + found[2], 16) / 1000


EXPIRES = say(400, {"error_code": EXPIRED}, effect=False)


@pytest.mark.hooks
def test_what_nobody_was_sent_before_takes_a_new_key_once(upstream, clock, tmp_path):
    queue = Drained(make_store(tmp_path / "queue.db"), clock, upstream)
    cases = ((EXPIRES,), "done"), ((EXPIRES, EXPIRES), "dead"), ((say(429, {}), EXPIRES), "dead")
    for replies, state in cases:
        upstream.then(*replies)
        identity, key = queue.add(queue.url, "-d", f"a={len(upstream.requests)}",
                                  "--key-version", "7")
        for _ in range(4):
            queue.run("drain", "--once")
            clock.advance(60)
        shown = queue.show(identity)
        assert (shown["state"], shown["key"] != key) == (state, replies[0] is EXPIRES)
        assert state == "done" or shown["reason"] == "key_expired"
        assert age(shown["key"]) < HOUR
    assert len({request["Idempotency-Key"] for request in upstream.requests}) == 5
    acts = [json.loads(line) for line in queue.did("audit", "--json").splitlines()]
    assert [(act["actor"], act["act"]) for act in acts] == [("queue", "key_renewed")] * 2
