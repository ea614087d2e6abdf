# SPDX-License-Identifier: Apache-2.0
"""Changes of what the keys of a rule are made of: refused while records live that they would leave
behind, unless the rule accepts this one (`moved:`)."""
from __future__ import annotations

import contextlib
import re
import sqlite3

import pytest

from pawltest.crossing import reload
from pawltest.gateway import Gateway, run
from pawltest.upstream import closes
from pawltest.wire import Answer, Later

TENANT = "tenant: '{header:X-T}', trust_tenant: true"
ONCE = 'once: {key: "{body:/order}", ttl: 1h}'
KEY = "550E8400-E29B-41D4-A716-446655440000"  # as Swift writes them


def rule(more: str = "tenant: none") -> str:
    return f"rules:\n  - {{name: pay, match: POST /pay, unknown: hold, {more}}}\n"


# What moves: (one side, the other, the word of the message), both ways unless ONE_WAY has it.
MOVES = {
    "a format that folds": (rule(), rule("tenant: none, key_format: uuid"), "key"),
    "a format of the source": (rule(),
                               rule('tenant: none, key: "{header:Idempotency-Key|uuid}"'), "key"),
    "a literal": (rule('tenant: none, key: "a{header:Idempotency-Key}"'),
                  rule('tenant: none, key: "b{header:Idempotency-Key}"'), "key"),
    "another header": (rule(), rule('tenant: none, key: "{header:X-Key}"'), "key"),
    "the body": (rule(), rule('tenant: none, key: "{body:/order}"'), "key"),
    "a source of the tenant": (rule(TENANT), rule(TENANT.replace("X-T", "X-U")), "tenant"),
    "no tenant": (rule(TENANT), rule(), "tenant"),
    "a secret tenant": (rule(TENANT), rule("tenant: '{header:X-T}', secret: true"), "secret"),
    "a key space": (rule("tenant: none, key_space: money"), rule(), "key_space"),
    "another once value": (rule(f"tenant: none, {ONCE}"),
                           rule(f"tenant: none, {ONCE.replace('/order', '/other')}"), "once"),
    "no once value": (rule(f"tenant: none, {ONCE}"), rule(), "once"),
    "once in place of a key": (rule(f"tenant: none, {ONCE}, require: false"),
                               rule("tenant: none, key: '{body:/order}'"), "key, once"),
}
ONE_WAY = ("no once value", "once in place of a key")
BY_VALUE = ("another once value", "no once value")  # what has the same key is found all the same
# What a store is asked differs in these; the rest is what a config means.
ASKED = ("a format that folds", "a secret tenant", "a key space", *BY_VALUE)

# What leaves every record where it is.
STAYS = {
    "key_syntax": (rule(), rule("tenant: none, key_syntax: strict")),
    "a format that folds nothing": (rule(), rule("tenant: none, key_format: {regex: '.*'}")),
    "once added": (rule(), rule(f"tenant: none, {ONCE}")),
    "the key becomes a once value": (rule("tenant: none, key: '{body:/order}'"),
                                     rule(f"tenant: none, {ONCE}")),
    "the spelling of a header": (rule(), rule('tenant: none, key: "{header:IDEMPOTENCY-KEY}"')),
}


def changes(*but: str):
    rows = [pytest.param(one, other, what, id=f"{name}, {way}",
                         marks=() if name in ASKED else pytest.mark.no_store)
            for name, (a, b, what) in MOVES.items() if name not in but
            for way, one, other in (("forth", a, b), ("back", b, a))
            if way == "forth" or name not in ONE_WAY]
    return pytest.mark.parametrize("before, after, what", rows)


def pay(gateway: Gateway, key: str = KEY) -> Answer:
    return gateway.post("/pay", {"order": "o-1", "other": "x-1"}, key=f'"{key}"',
                        headers=[("X-T", "acme"), ("X-U", "other"), ("X-Key", f"x{key}")])


def try_reload(gateway: Gateway, config: str) -> str | None:
    """What refused it; None: it is in force."""
    return reload(gateway, config)[0]


def accept(config: str, problem: str) -> str:
    line = re.search(r"`(moved: [0-9a-f]{8})`", problem)
    assert line, problem
    return config.replace("name: pay,", f"name: pay, {line[1]},")


@changes()
def test_a_change_that_would_leave_a_response_behind_is_refused(pawl, upstream, before, after,
                                                                what):
    """found: R2"""
    gateway = pawl(before)
    assert pay(gateway).mark == (201, "stored")
    problem = try_reload(gateway, after)
    assert problem.startswith(f"rule 'pay' moves its keys ({what}), and the store holds 1 record")
    assert re.search(r" until \d{4}-\d\d-\d\dT", problem)
    assert pay(gateway).mark == (201, "replayed")
    assert upstream.effects() == 1


@changes(*BY_VALUE)
def test_accepted_it_makes_the_same_request_another_operation(pawl, upstream, before, after, what):
    gateway = pawl(before)
    pay(gateway)
    gateway.reload(accept(after, try_reload(gateway, after)))
    assert pay(gateway).mark == (201, "stored")
    assert pay(gateway).mark == (201, "replayed")
    assert upstream.effects() == 2


@pytest.mark.parametrize("name", BY_VALUE)
def test_accepted_it_makes_a_once_value_count_no_more(pawl, upstream, name):
    before, after, _ = MOVES[name]
    gateway = pawl(before)
    pay(gateway)
    assert pay(gateway, "k2").status == 409
    problem = try_reload(gateway, after)
    assert "the same operation under another key would run again" in problem
    gateway.reload(accept(after, problem))
    assert pay(gateway, "k3").mark == (201, "stored")
    assert upstream.effects() == 2


@changes()
def test_without_a_record_it_is_no_change(pawl, upstream, before, after, what):
    gateway = pawl(before)
    gateway.reload(after)
    assert pay(gateway).mark == (201, "stored")
    assert pay(gateway).mark == (201, "replayed")
    assert upstream.effects() == 1


def test_a_running_record_is_left_behind_by_none(pawl, upstream):
    before, after, _ = MOVES["a secret tenant"]
    gateway = pawl(before)
    gate = upstream.hold()
    first = Later(lambda: pay(gateway))
    gate.wait_for()
    problem = try_reload(gateway, after)
    assert "1 record of them, 1 without an outcome, without an end:" in problem
    gate.open()
    assert first.result().mark == (201, "stored")
    assert pay(gateway).mark == (201, "replayed")
    assert upstream.effects() == 1


def test_nor_is_one_in_doubt(pawl, upstream):
    before, after, _ = MOVES["a format that folds"]
    gateway = pawl(before)
    upstream.then(closes())
    pay(gateway)
    assert "1 without an outcome" in try_reload(gateway, after)
    assert pay(gateway).is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert upstream.effects() == 1


def test_an_owner_stores_its_outcome_whatever_was_accepted_meanwhile(pawl, upstream):
    before, after, _ = MOVES["a format that folds"]
    gateway = pawl(before)
    gate = upstream.hold()
    first = Later(lambda: pay(gateway))
    gate.wait_for()
    gateway.reload(accept(after, try_reload(gateway, after)))
    gate.open()
    assert first.result().mark == (201, "stored")
    assert '"complete"' in run("keys", "list", "--json", "--store", gateway.store).stdout


def test_a_reload_that_one_rule_refuses_moves_no_other_rule(pawl, upstream):
    before, after, _ = MOVES["a format that folds"]
    other = "  - {name: other, match: POST /other, tenant: none MORE}\n"
    gateway = pawl(before + other.replace(" MORE", ""))
    pay(gateway)
    assert gateway.post("/other", {}, key=KEY).status == 201
    accepted = accept(after, try_reload(gateway, after + other.replace(" MORE", "")))
    problem = try_reload(gateway, accepted + other.replace(" MORE", ", key_format: uuid"))
    assert problem.startswith("rule 'other' moves its keys (key)")
    assert pay(gateway).mark == (201, "replayed")
    assert pay(gateway, "k2").mark == (201, "stored")


@pytest.mark.no_store
@pytest.mark.parametrize("before, after", STAYS.values(), ids=STAYS)
def test_what_names_alike_is_not_asked_about(pawl, upstream, before, after):
    gateway = pawl(before)
    pay(gateway)
    gateway.reload(after)
    assert pay(gateway).mark in ((201, "replayed"), (409, None))  # by its key; by its value
    assert upstream.effects() == 1


def test_a_start_refuses_it_too_and_so_does_the_test_of_a_config(pawl, upstream):
    before, after, _ = MOVES["a secret tenant"]
    gateway = pawl(before)
    pay(gateway)
    assert gateway.stop() == 0
    gateway.configure(after)
    for arguments in ([], ["--test"]):
        done = run("serve", *arguments, "-c", gateway.config)
        assert done.returncode == 69
        assert "rule 'pay' moves its keys (secret)" in done.stderr
    gateway.configure(accept(after, done.stderr))
    assert run("serve", "--test", "-c", gateway.config).returncode == 0
    gateway.start()
    assert pay(gateway).mark == (201, "stored")


def test_what_was_accepted_once_is_accepted_once(pawl, upstream):
    """The line may stay: it names what is no more."""
    before, after, _ = MOVES["a format that folds"]
    gateway = pawl(before)
    pay(gateway)
    accepted = accept(after, try_reload(gateway, after))
    gateway.reload(accepted)
    gateway.restart()
    assert pay(gateway).mark == (201, "stored")
    back = accept(before, try_reload(gateway, before))
    assert back != accepted
    gateway.reload(back)
    third = back.replace("tenant: none", 'tenant: none, key: "a{header:Idempotency-Key}"')
    assert "(key)" in try_reload(gateway, third)


@pytest.mark.hooks
def test_once_their_time_is_over_no_record_is_in_the_way(pawl, upstream):
    before, after, _ = MOVES["a format that folds"]
    gateway = pawl(before.replace("name: pay,", "name: pay, ttl: 1h, tombstone: 0s,"))
    pay(gateway)
    assert try_reload(gateway, after)
    gateway.clock.advance(2 * 3600)
    gateway.reload(after)
    assert pay(gateway).mark == (201, "stored")


def test_a_rule_that_was_away_comes_back_as_it_was(pawl, upstream):
    before, after, _ = MOVES["a format that folds"]
    gateway = pawl(before)
    pay(gateway)
    gateway.reload(before.replace("name: pay, match: POST /pay", "name: other, match: POST /other"))
    assert "(key)" in try_reload(gateway, after)
    gateway.reload(before)
    assert pay(gateway).mark == (201, "replayed")


def test_a_new_name_does_not_hide_a_change(pawl, upstream):
    before, after, _ = MOVES["a format that folds"]
    gateway = pawl(before)
    pay(gateway)
    for joins in ("formerly: [pay]", "key_space: pay"):
        renamed = after.replace("name: pay,", f"name: paid, {joins},")
        problem = try_reload(gateway, renamed)
        assert problem.startswith("rule 'paid' moves its keys (key)")
    gateway.reload(before.replace("name: pay,", "name: paid, formerly: [pay],"))
    assert pay(gateway).mark == (201, "replayed")
    gone = before.replace("name: pay,", "name: paid,")
    assert try_reload(gateway, gone).startswith("rule 'paid' moves its keys (formerly)")


@pytest.mark.file_only
def test_a_change_whose_process_died_is_ended_by_the_next_start(pawl, upstream):
    before, after, _ = MOVES["a format that folds"]
    gateway = pawl(before)
    pay(gateway)
    for config, status in ((before, "replayed"), (accept(after, try_reload(gateway, after)),
                                                  "stored")):
        assert gateway.stop() == 0
        with contextlib.closing(sqlite3.connect(gateway.store)) as store:
            store.execute("UPDATE pawl_identity SET becomes = 'texts 0' || char(10)")
            store.commit()
        gateway.configure(config)
        gateway.start()
        assert pay(gateway).mark == (201, status)
        with contextlib.closing(sqlite3.connect(gateway.store)) as store:
            assert store.execute("SELECT becomes FROM pawl_identity").fetchall() == [("",)]


@pytest.mark.no_store
@pytest.mark.parametrize("wanted", ["3f2a9c1", "3F2A9C1B", "3f2a9c1g", "[3f2a9c1b]"])
def test_what_is_no_digest_is_refused(pawl, wanted):
    gateway = pawl(rule(f"tenant: none, moved: {wanted}"), started=False)
    done = run("serve", "--test", "-c", gateway.config)
    assert done.returncode == 2
    assert "moved" in done.stderr
