# SPDX-License-Identifier: Apache-2.0
"""An operator, the sweep or a reload meets a record of a participant: while its transaction is
open, once it has committed, once the outcome was told, and with its gateway waiting, paused or
dead. It is paid at most once, everybody is told what the store holds, an act that is refused did
nothing, and the audit has the acts that were done and no others."""
from __future__ import annotations

import json
import signal
from typing import Any, Callable

import pytest

from pawltest.admin import Admin
from pawltest.gateway import Gateway, free_port, run
from pawltest.participant import CONFIG, Participant
from pawltest.wire import Answer, Later, at_once, eventually
from server import Database
from test_participant import (lock_held, pay, wait_for_counts, wait_for_end,
                              wait_for_payer)

DONE, REFUSED, IN_USE = 0, 1, 75
TOLD = {"id": "settled"}
ACTS = {
    "forget": ("forget", "k1"),
    "release": ("release", "k1"),
    "resolve": ("resolve", "k1", "--status", "201", "--body", json.dumps(TOLD)),
}
WITHOUT_THE_ROW = ("insert", "complete")
POINTS = (*WITHOUT_THE_ROW, "commit", "reply")
UNKNOWN = "CONFLICT.idempotency.outcome_unknown"
Make = Callable[..., Gateway]


def token_of(database: Database) -> int:
    [(token,)] = database.sql("SELECT token FROM pawl.record")
    return token


def act_on(database: Database, act: str, *more: str, token: int | None = None) -> int:
    """Its exit code; what it says of it fits."""
    ran = run("keys", *ACTS[act], "--token", str(token or token_of(database)), *more,
              "--store", database.url)
    assert ran.returncode == DONE or any(
        why in ran.stderr for why in ("nothing was changed", "is in use", "too early"))
    return ran.returncode


def audited(database: Database) -> list[tuple[str, str, str]]:
    """Acts, each with the states of its record before and after."""
    ran = run("keys", "audit", "--json", "--store", database.url)
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return [(line["act"], line["from"], line["to"]) for line in lines]


def state(database: Database) -> list[tuple[Any, ...]]:
    return database.sql("SELECT id, version, token, status, provisional, http_code, lease_until"
                        " FROM pawl.record")


def wait_for_lapse(database: Database) -> None:
    database.until(
        bool, "SELECT 1 FROM pawl.record r LEFT JOIN pawl.owner o ON o.incarnation = r.owner"
        " WHERE greatest(r.lease_until, coalesce(o.beat_at, 0) + r.lease_us)"
        " < extract(epoch FROM clock_timestamp()) * 1000000")


def reload(gateway: Gateway, config: str) -> None:
    before = len(gateway.lines("config_reloaded"))
    gateway.configure(config)
    gateway.signal(signal.SIGHUP)
    eventually(lambda: len(gateway.lines("config_reloaded")) > before, "the reload")


def check_settled(gateway: Gateway, payer: Participant, paid: int, *told: Answer) -> None:
    """All who were told of a success were told what the store has; nothing is left over."""
    again = pay(gateway)
    assert again.mark == (201, "replayed")
    for answer in told:
        assert answer.status != 201 or answer.json == again.json
    assert payer.effects()["k1"] == paid
    assert payer.database.sql("SELECT status, provisional, lease_until FROM pawl.record") == [
        (2, 0, 0)]
    wait_for_counts(payer.database)


# ---- refused ----


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("point", POINTS)
def test_without_force_no_act_changes_what_a_live_gateway_runs(gateway_of, payer, point, act):
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        told = Later(lambda: pay(first, f"{point}=wait"))
        wait_for_payer(payer.database)
        said = act_on(payer.database, act)
        release()
    paid_already = point == "reply" and act != "forget"
    assert said == ((DONE if act == "resolve" else REFUSED) if paid_already else IN_USE)
    assert told.result().mark == (201, "stored")
    assert audited(payer.database) == []
    check_settled(second, payer, 1, told.result())


@pytest.mark.parametrize("force", [(), ("--force",)], ids=["plain", "forced"])
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("point", POINTS)
def test_an_old_token_changes_nothing(gateway_of, payer, point, act, force):
    """Also where the record is paid, and where its gateway is dead."""
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        Later(lambda: pay(first, f"{point}=wait"))
        wait_for_payer(payer.database)
        first.kill9()
        wait_for_lapse(payer.database)
        before = state(payer.database)
        old = token_of(payer.database) - 1
        assert act_on(payer.database, act, *force, token=old) == REFUSED
        assert state(payer.database) == before
        release()
    wait_for_end(payer.database)
    told = pay(second)
    assert audited(payer.database) == []
    check_settled(second, payer, 1, told)


@pytest.mark.parametrize("act", ACTS)
def test_what_an_open_transaction_refused_is_not_audited_and_not_done_later(gateway_of, payer, act):
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        told = Later(lambda: pay(first, "commit=wait"))
        wait_for_payer(payer.database)
        before = state(payer.database)
        assert act_on(payer.database, act, "--force") == IN_USE
        assert state(payer.database) == before
        release()
    assert told.result().mark == (201, "stored")
    assert audited(payer.database) == []
    check_settled(second, payer, 1, told.result())


# ---- done ----


@pytest.mark.parametrize("how", ["dead", "paused"])
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("point", WITHOUT_THE_ROW)
def test_a_lapsed_record_is_settled_without_force_while_it_is_paid(gateway_of, payer, point, act,
                                                                  how):
    """Who has the row first wins; the gateway that comes back tells the outcome of the store."""
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        told = Later(lambda: pay(first, f"{point}=wait"))
        wait_for_payer(payer.database)
        (first.kill9 if how == "dead" else first.pause)()
        wait_for_lapse(payer.database)
        assert act_on(payer.database, act) == DONE
        release()
    wait_for_end(payer.database)
    after = pay(second)
    late = []
    if how == "paused":
        first.go_on()
        late = [told.result()]
    to = {"forget": "absent", "release": "released", "resolve": "complete"}[act]
    assert audited(payer.database) == [(act, "pending", to)]
    check_settled(second, payer, 0 if act == "resolve" else 1, after, *late)


@pytest.mark.parametrize("act", ACTS)
def test_what_a_dead_gateway_had_paid_is_complete_to_an_operator(gateway_of, payer, act):
    """Only `forget` takes it away, and the audit says that it was complete."""
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        Later(lambda: pay(first, "reply=wait"))
        wait_for_payer(payer.database)
        first.kill9()
        wait_for_lapse(payer.database)
        said = act_on(payer.database, act)
        release()
    assert said == (REFUSED if act == "release" else DONE)
    assert audited(payer.database) == ([("forget", "complete", "absent")] if act == "forget"
                                       else [])
    told = pay(second)
    assert told.mark == (201, "stored" if act == "forget" else "replayed")
    check_settled(second, payer, 2 if act == "forget" else 1, told)


@pytest.mark.parametrize("dead", [False, True], ids=["alive", "dead"])
def test_a_resolution_that_contradicts_what_was_paid_is_refused(gateway_of, payer, dead):
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        told = Later(lambda: pay(first, "reply=wait"))
        wait_for_payer(payer.database)
        if dead:
            first.kill9()
            wait_for_lapse(payer.database)
        before = state(payer.database)
        ran = run("keys", "resolve", "k1", "--status", "422", "--force", "--token",
                  str(token_of(payer.database)), "--store", payer.database.url)
        assert ran.returncode == REFUSED and "nothing was changed" in ran.stderr
        assert state(payer.database) == before
        release()
    assert audited(payer.database) == []
    check_settled(second, payer, 1, *([] if dead else [told.result()]))


@pytest.mark.parametrize("act", ["", *ACTS])
def test_what_a_replay_froze_stays_when_the_paused_gateway_goes_on(gateway_of, payer, act):
    """Its response comes too late; after `forget` it tells nobody of an effect without a record."""
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        told = Later(lambda: pay(first, "reply=wait"))
        wait_for_payer(payer.database)
        first.pause()
        wait_for_lapse(payer.database)
        frozen = pay(second)
        assert frozen.mark == (201, "replayed")
        if act:
            said = act_on(payer.database, act)
            assert said == (REFUSED if act == "release" else DONE)
        release()
        first.go_on()
        late = told.result()
    if act == "forget":
        assert late.is_problem(409, UNKNOWN)
        assert payer.effects() == {"k1": 1} and state(payer.database) == []
    else:
        assert late.mark == (201, "replayed") and late.json == frozen.json
        check_settled(second, payer, 1, frozen, late)
    assert [line[0] for line in audited(payer.database)] == (["forget"] if act == "forget" else [])


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("point", WITHOUT_THE_ROW)
def test_duplicates_that_wait_in_both_gateways_are_told_one_outcome(gateway_of, payer, point, act):
    """The act wakes them while the first transaction is open: one of them may pay instead."""
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        owner = Later(lambda: pay(first, f"{point}=wait"))
        wait_for_payer(payer.database)
        waiters = [Later(lambda gateway=gateway: pay(gateway))
                   for gateway in (first, second, first, second)]
        assert act_on(payer.database, act, "--force") == DONE
        answers = [waiter.result() for waiter in waiters]
        release()
    wait_for_end(payer.database)
    assert {answer.status for answer in answers} == {201}
    check_settled(second, payer, 0 if act == "resolve" else 1, owner.result(), *answers)
    assert len(audited(payer.database)) == 1


def test_an_act_on_what_a_transaction_holds_leaves_waiting_duplicates_alone(gateway_of, payer):
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        owner = Later(lambda: pay(first, "commit=wait"))
        wait_for_payer(payer.database)
        waiters = [Later(lambda gateway=gateway: pay(gateway)) for gateway in (first, second)]
        assert act_on(payer.database, "forget", "--force") == IN_USE
        assert not any(waiter.is_done for waiter in waiters)
        release()
    told = owner.result()
    for waiter in waiters:
        assert waiter.result().kept == told.kept
    check_settled(second, payer, 1, told)


@pytest.mark.parametrize("act", ["release", "resolve"])
def test_an_act_and_a_payment_at_once_come_to_one_outcome(gateway_of, payer, act):
    """Without locks, many times: whoever is first."""
    gateway, second = gateway_of(), gateway_of()
    for n in range(8):
        key = f"race{n}"

        def settle(_: int, key: str = key) -> int:
            rows = eventually(lambda: payer.database.sql(
                "SELECT token FROM pawl.record WHERE convert_from(key, 'UTF8') = %s", key), "begun")
            words = [word if word != "k1" else key for word in ACTS[act]]
            return run("keys", *words, "--force", "--token", str(rows[0][0]),
                       "--store", payer.database.url).returncode

        told, _ = at_once(2, lambda i, key=key: pay(gateway, "insert=slow", key=key) if i == 0
                          else settle(i))
        after = pay(second, key=key)
        assert after.status == 201
        assert told.status != 201 or told.json == after.json
        assert payer.effects()[key] == (0 if after.json == TOLD else 1)


# ---- the admin API ----


def with_admin(gateway_of: Make) -> tuple[Gateway, Admin]:
    port = free_port()
    return gateway_of(f"admin: 127.0.0.1:{port}\n{CONFIG}"), Admin(port)


MEMBERS: dict[str, dict[str, Any]] = {
    "forget": {}, "release": {}, "resolve": {"status": 201, "body": json.dumps(TOLD)}}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["owner", "other"])
def test_the_admin_api_of_either_gateway_says_that_a_transaction_holds_it(gateway_of, payer, act,
                                                                         elsewhere):
    """409, no audit, nothing done, and the gateway still serves meanwhile."""
    (first, admin), (second, other) = with_admin(gateway_of), with_admin(gateway_of)
    asked = other if elsewhere else admin
    with lock_held(payer.database) as release:
        told = Later(lambda: pay(first, "commit=wait"))
        wait_for_payer(payer.database)
        [row] = asked.keys()
        said = Later(lambda: asked.act(row["id"], act, token=row["token"], force=True,
                                       **MEMBERS[act]))
        assert pay(second if elsewhere else first, key="k2").mark == (201, "stored")
        answer = said.result()
        release()
    assert answer.status == 409 and "another session holds" in answer.json["detail"]
    assert audited(payer.database) == []
    assert told.result().mark == (201, "stored")
    assert pay(second).json == told.result().json and payer.effects() == {"k1": 1, "k2": 1}


@pytest.mark.parametrize("point", WITHOUT_THE_ROW)
def test_of_two_operators_at_once_the_audit_has_what_each_did(gateway_of, payer, point):
    """The command line and both admin APIs, while it is paid."""
    (first, admin), (second, other) = with_admin(gateway_of), with_admin(gateway_of)
    with lock_held(payer.database) as release:
        told = Later(lambda: pay(first, f"{point}=wait"))
        wait_for_payer(payer.database)
        [row] = admin.keys()
        members = {"token": row["token"], "force": True, **MEMBERS["resolve"]}
        acts = [lambda: act_on(payer.database, "resolve", "--force", token=row["token"]),
                lambda: admin.act(row["id"], "resolve", **members),
                lambda: other.act(row["id"], "resolve", **members)]
        code, one, two = at_once(3, lambda i: acts[i]())
        release()
    assert code == DONE and (one.status, two.status) == (200, 200)
    assert audited(payer.database) == [("resolve", "pending", "complete")]
    assert [one.json["changed"], two.json["changed"]].count(True) <= 1
    check_settled(second, payer, 0, told.result())
    assert pay(second).json == TOLD


# ---- the sweep ----


def test_what_nobody_was_told_is_never_swept(gateway_of, payer, clock):
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        Later(lambda: pay(first, "reply=wait"))
        wait_for_payer(payer.database)
        first.kill9()
        release()
    before = state(payer.database)
    clock.step(10 * 86400)
    assert pay(second, key="k2").mark == (201, "stored")
    clock.step(60)
    assert [row for row in state(payer.database) if row[0] == before[0][0]] == before
    told = pay(second)
    assert told.mark == (201, "replayed") and payer.effects()["k1"] == 1


@pytest.mark.parametrize("point", WITHOUT_THE_ROW)
def test_a_participant_whose_released_record_was_swept_rolls_back(gateway_of, payer, clock, point):
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        Later(lambda: pay(first, f"{point}=wait"))
        wait_for_payer(payer.database)
        first.kill9()
        assert act_on(payer.database, "release", "--force") == DONE
        clock.step(10 * 86400)
        clock.run_until(lambda: not state(payer.database), step=1)
        release()
    wait_for_end(payer.database)
    assert payer.effects() == {}
    told = pay(second)
    assert told.mark == (201, "stored") and payer.effects() == {"k1": 1}


# ---- reloads ----


def ruled(unknown: str) -> str:
    return CONFIG.replace("unknown: participant", f"unknown: {unknown}")


@pytest.mark.parametrize("unknown", ["hold", "retry"])
@pytest.mark.parametrize("point", POINTS)
def test_a_reload_to_another_policy_while_it_is_paid_pays_once(gateway_of, payer, point, unknown):
    """In the gateway that runs it, which then tells its client."""
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        told = Later(lambda: pay(first, f"{point}=wait"))
        wait_for_payer(payer.database)
        for gateway in (first, second):
            reload(gateway, ruled(unknown))
        release()
    assert told.result().mark == (201, "stored")
    check_settled(second, payer, 1, told.result())


@pytest.mark.parametrize("unknown", ["hold", "retry"])
@pytest.mark.parametrize("point", POINTS)
def test_a_reload_after_the_gateway_died_pays_once(gateway_of, payer, point, unknown):
    """Under `hold` what has not committed becomes unknown, and its late commit still counts."""
    first, second = gateway_of(), gateway_of()
    has_row = point not in WITHOUT_THE_ROW
    with lock_held(payer.database) as release:
        Later(lambda: pay(first, f"{point}=wait"))
        wait_for_payer(payer.database)
        first.kill9()
        reload(second, ruled(unknown))
        wait_for_lapse(payer.database)
        if not has_row:
            said = pay(second)
            assert said.is_problem(409, UNKNOWN) if unknown == "hold" else said.status == 201
        release()
    wait_for_end(payer.database)
    told = pay(second)
    assert told.mark == (201, "replayed")
    check_settled(second, payer, 1, told)


@pytest.mark.parametrize("act", ["release", "resolve"])
@pytest.mark.parametrize("point", WITHOUT_THE_ROW)
def test_what_a_reload_made_unknown_is_settled_and_paid_at_most_once(gateway_of, payer, point, act):
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        Later(lambda: pay(first, f"{point}=wait"))
        wait_for_payer(payer.database)
        first.kill9()
        reload(second, ruled("hold"))
        wait_for_lapse(payer.database)
        assert pay(second).is_problem(409, UNKNOWN)
        said = act_on(payer.database, act)
        assert said == (IN_USE if act == "release" else DONE)  # `settle:` counts under hold
        release()
    wait_for_end(payer.database)
    check_settled(second, payer, 0 if act == "resolve" else 1)


@pytest.mark.parametrize("point", POINTS)
def test_a_reload_that_removes_the_rule_while_it_is_paid_loses_nothing(gateway_of, payer, point):
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        told = Later(lambda: pay(first, f"{point}=wait"))
        wait_for_payer(payer.database)
        reload(first, "\n".join(line for line in CONFIG.splitlines() if "payments" not in line))
        release()
    assert told.result().mark == (201, "stored")
    check_settled(second, payer, 1, told.result())
