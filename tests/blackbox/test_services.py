# SPDX-License-Identifier: Apache-2.0
"""pawl's clients before services that answer a repeated key as Stripe, Adyen, PayPal, Square,
Shopify, GitHub, Modern Treasury, Loops, the IETF draft and pawl itself document it, before and
after a lost response: what docs/guide/services.md says, one effect, and no advice to pay twice."""
from __future__ import annotations

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from operator import attrgetter
from typing import Any, Callable

import pytest

from pawltest.gateway import PAWL, ROOT, make_store, run
from pawltest.services import (CASES, DONE, DOUBT, FINAL, PROFILE, TRIES, WAIT, Case, Services,
                               Try)
from pawltest.upstream import Upstream
from pawltest.wire import PATIENCE, eventually
from test_queue import lines
from test_queue_drain import Drained

pytestmark = pytest.mark.file_only

SEND_ONCE = PAWL.parent / "tests/unit/send_once"  # examples/client, over the shared library
OPTIONS = attrgetter("case.options")
BY_OPTIONS = sorted(TRIES, key=OPTIONS)
PAYS_TWICE = re.compile(
    r"(?i)(?<![^.;:])(?![^.;:]*\b(?:no|not|never|nothing|twice|look before)\b)"
    r"[^.;:]*\b(?:new|another|fresh|different)\s+(?:idempotency[- ])?(?:key|one\b)")
CODES = {DONE: 0, FINAL: 1, DOUBT: 76}
RESULTS = {DONE: "run", FINAL: "failed", DOUBT: "doubt"}


@pytest.fixture
def services(upstream: Upstream) -> Services:
    return Services(upstream)


def code_of(one: Try) -> int:
    """What a command ends with."""
    if one.end == WAIT:
        return 76 if one.is_lost else 75
    return not one.is_lost and one.case.code or CODES[one.end]


def check_command(services: Services, client: str, tries: list[Try],
                  command: Callable[[Try, str], Any]) -> None:
    with ThreadPoolExecutor(32) as pool:  # most of them wait
        ended = pool.map(lambda one: command(one, one.key(client)), tries)
    for one, ran in zip(tries, ended):
        assert ran.returncode == code_of(one), (one, ran)
        assert not PAYS_TWICE.search(ran.stdout + ran.stderr), ran
        services.check(one, client, ran.returncode == 0)


def test_send(services, tmp_path):
    """found: G4"""
    check_command(services, "send", TRIES, lambda one, key: run(
        "send", "--key", key, "--json", '{"amount":5}', "--store", tmp_path / "send.db",
        "--profile", PROFILE, *OPTIONS(one), services.url))


def test_the_library(services, tmp_path):
    """Its program has no options."""
    check_command(services, "library", [one for one in TRIES if not OPTIONS(one)],
                  lambda _, key: subprocess.run(
                      [SEND_ONCE, services.url, key, '{"amount":5}', tmp_path / "sent.db"],
                      capture_output=True, text=True, timeout=PATIENCE, check=False))


def test_each(services, tmp_path):
    """An item is a key; those with the same options are one list."""
    def each(options: tuple[str, ...], keys: list[str]) -> Any:
        return run("each", "--store", tmp_path / "each.db", "--key", "{}", "-j", "64", "--json",
                   "--retry", PROFILE, *options, "--send", f"POST {services.url}",
                   "-d", "amount=5", input="".join(f"{key}\n" for key in keys))

    of_key = {one.key("each"): one for one in TRIES}
    with ThreadPoolExecutor() as pool:
        lists = [pool.submit(each, options, [one.key("each") for one in tries])
                 for options, tries in groupby(BY_OPTIONS, OPTIONS)]
    for ran in (one.result() for one in lists):
        assert not PAYS_TWICE.search(ran.stdout + ran.stderr), ran
        for line in map(json.loads, ran.stdout.splitlines()[:-1]):
            one = of_key.pop(line["key"])
            end = (DOUBT if one.is_lost else FINAL) if one.end == WAIT else one.end
            assert line["result"] == RESULTS[end], (one, line)
            services.check(one, "each", end == DONE)
    assert not of_key


@pytest.mark.hooks
def test_the_queue(services, tmp_path, clock, upstream):
    """It has the time that the others lack."""
    queue = Drained(make_store(tmp_path / "queue.db"), clock, upstream)
    for options, tries in groupby(BY_OPTIONS, OPTIONS):
        queue.did("add", "-", *options, input=lines(*[
            {"url": services.url, "json": {"amount": 5}, "key": one.key("queue")}
            for one in tries]))

    def drained() -> bool:
        said = queue.run("drain", "--once", "-j", "16").stderr
        assert not PAYS_TWICE.search(said), said
        clock.advance(300)
        return all(row["state"] in ("done", "dead") for row in queue.list())

    eventually(drained, "the end of all")
    rows = {row["key"]: row for row in queue.list()}
    for one in TRIES:
        end = DONE if one.end == WAIT else one.end
        reason = {DONE: None, FINAL: "final", DOUBT: "in_doubt"}[end]
        row = rows.pop(one.key("queue"))
        reasons = {reason, "happened"} if end == FINAL else {reason}
        assert row["state"] == ("done" if end == DONE else "dead"), row
        assert row["reason"] in reasons, row
        services.check(one, "queue", end == DONE)
    assert not rows


@pytest.mark.parametrize("pays_twice, text", [
    (True, "take a new key for a new one"),
    (True, "Nothing was done. Set the client's clock, then use a new key."),
    (True, "Generate a new key for a new operation; repeat the first request exactly."),
    (True, "HTTP status 409: it was not done; try it again with another key"),
    (True, "never repeat it. Start over under a fresh Idempotency-Key."),
    (True, "Try again under a\ndifferent idempotency key"),
    (True, "a new key is safe"),
    (True, "the key is in use: start over under a new one"),
    (False, "Do not start over under a new key: the operation may have happened."),
    (False, "Repeat under the same key; do not start over under a new one."),
    (False, "The operation may have happened; look before you start over under a new key."),
    (False, "Do not send it again: under a new key it would happen twice."),
    (False, "Send nothing under a different key before its outcome is known."),
    (False, "it may have been done: repeat it under the same key"),
    (False, "the key was used for another request. Repeat that one exactly, and send nothing in "
            "its place before its outcome is known."),
])
def test_advice_to_pay_twice_is_known_from_advice_not_to(pays_twice, text):
    assert bool(PAYS_TWICE.search(text)) == pays_twice


def test_no_hint_advises_to_pay_twice_where_no_new_key_is_safe():
    rows = [json.loads(line) for line in run("errors", "--json").stdout.splitlines()]
    advised = {row["error_code"] for row in rows if PAYS_TWICE.search(row["hint"])}
    assert "VALIDATION.idempotency.key_ahead" in advised
    assert advised <= {row["error_code"] for row in rows if row["safe_new_key"]}


def row_of(case: Case) -> str:
    option = f"`{case.options[0]} {case.options[1]}`" if case.options else ""
    return " | ".join([f"| {case.service}", f"{case.status} {case.what}", case.first, case.lost,
                       f"{option} |"]).replace("  ", " ")


def test_the_guide_has_this_table_and_says_where_each_service_says_so():
    page = (ROOT / "docs/guide/services.md").read_text("utf-8")
    rows = re.findall(r"(?m)^\| [^|]+ \| \d{3} .*$", page)
    assert rows == [row_of(case) for case in CASES]
    sources = re.findall(r"(?m)^\| ([^|]+) \| (?:\[.*\]\((?:https://|\.\./).*\))", page)
    assert sources == list(dict.fromkeys(case.service for case in CASES))
