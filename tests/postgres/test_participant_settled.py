# SPDX-License-Identifier: Apache-2.0
"""An operator settles or deletes a record while its participant is paying. The first to have the
row wins, and the other one is refused: it is paid at most once, and everybody is told the same.
A participant whose record was released may still complete it, as long as nobody began anew."""
from __future__ import annotations

from typing import Any

import pytest

from pawltest.gateway import Gateway, run
from pawltest.participant import Participant
from pawltest.wire import Later
from server import Database
from test_participant import lock_held, pay, wait_for_end, wait_for_payer

TOLD = '{"id":"settled"}'
IN_USE = 75
ACTS = {
    "forget": ("forget", "k1", "--force"),
    "release": ("release", "k1", "--force"),
    "resolve": ("resolve", "k1", "--force", "--status", "201", "--body", TOLD),
}
WITHOUT_THE_ROW = ("insert", "complete")


def settle(database: Database, act: str) -> int:
    """Its exit code."""
    [(token,)] = database.sql("SELECT token FROM pawl.record")
    ran = run("keys", *ACTS[act], "--token", str(token), "--store", database.url)
    assert (ran.returncode == IN_USE) == ("a transaction of another session holds" in ran.stderr)
    return ran.returncode


def check_all_told(gateway: Gateway, payer: Participant, paid: int, body: Any) -> None:
    """From now on, too."""
    again = pay(gateway)
    assert again.mark == (201, "replayed") and again.json == body
    assert payer.effects()["k1"] == paid
    assert payer.database.sql("SELECT count(*) FROM pawl.record") == [(1,)]


@pytest.mark.parametrize("dead", [False, True], ids=["alive", "dead"])
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("point", [*WITHOUT_THE_ROW, "commit"])
def test_settled_while_it_is_paid(gateway_of, payer, point, act, dead):
    """With its gateway alive, or dead with the transaction still open."""
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        told = Later(lambda: pay(first, f"{point}=wait"))
        wait_for_payer(payer.database)
        if dead:
            first.kill9()
        said = settle(payer.database, act)
        assert said == (IN_USE if point == "commit" else 0)
        release()
    wait_for_end(payer.database)
    after = pay(second)
    assert after.status == 201
    paid = 0 if act == "resolve" and point != "commit" else 1
    check_all_told(second, payer, paid, after.json)
    if not dead:
        assert told.result().status != 201 or told.result().json == after.json


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("point", WITHOUT_THE_ROW)
def test_settled_while_it_is_paid_and_repeated_at_once(gateway_of, payer, point, act):
    """The next attempt pays before the first one goes on."""
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        told = Later(lambda: pay(first, f"{point}=wait"))
        wait_for_payer(payer.database)
        assert settle(payer.database, act) == 0
        after = pay(second)
        release()
    wait_for_end(payer.database)
    paid = 0 if act == "resolve" else 1
    assert after.mark == (201, "stored" if paid else "replayed")
    check_all_told(second, payer, paid, after.json)
    late = told.result()
    assert late.status != 201 or late.json == after.json


@pytest.mark.parametrize("act", ACTS)
def test_settled_after_it_was_paid_and_before_its_response(gateway_of, payer, act):
    """It is complete by then: only `forget --force` may take it away, and says so."""
    first, second = gateway_of(), gateway_of()
    with lock_held(payer.database) as release:
        told = Later(lambda: pay(first, "reply=wait"))
        wait_for_payer(payer.database)
        said = settle(payer.database, act)
        release()
    assert (said == 0) == (act != "release")  # resolve: it is complete already, with that status
    assert told.result().mark == (201, "stored") or act == "forget"
    assert payer.effects() == {"k1": 1}
    if act != "forget":
        check_all_told(second, payer, 1, told.result().json)
