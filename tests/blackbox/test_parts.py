# SPDX-License-Identifier: Apache-2.0
"""A part joins the process by one file (tests/parts/counter.c) and one row (tests/parts/parts.c):
its section of the config, its readiness, its series, its word on a reload, its end."""
from __future__ import annotations

import re
import signal
import subprocess

import pytest

from pawltest.admin import Admin, with_admin
from pawltest.gateway import PAWL, Gateway
from pawltest.wire import eventually

pytestmark = [pytest.mark.hooks, pytest.mark.no_store]

COUNTER = PAWL.parent / "tests/parts/pawl-counter"
RULES = "tenant: none\nrules:\n  - {name: refunds.create, match: POST /refunds}\n"
ONE_MORE = RULES + "  - {name: payments.create, match: POST /payments}\n"


def counting(pawl, section: str = "counter: {every: 1h, ready_at: 2}\n") -> tuple[Gateway, Admin]:
    gateway, admin = with_admin(pawl, section + RULES, started=False)
    gateway.binary = COUNTER
    return gateway.start(), admin


def reload(gateway: Gateway, admin: Admin, config: str, event: str) -> list[dict]:
    begin = len(gateway.log)
    gateway.configure(f"admin: 127.0.0.1:{admin.port}\n{config}")
    gateway.signal(signal.SIGHUP)
    eventually(lambda: gateway.lines(event, begin), event)
    return gateway.log[begin:]


def explain(gateway: Gateway, *arguments: str) -> str:
    return subprocess.run([COUNTER, "config", "explain", *arguments], check=True, text=True,
                          capture_output=True, cwd=gateway.directory).stdout


def test_what_a_part_counts_is_on_the_page_and_says_whether_the_process_is_ready(pawl, clock):
    gateway, admin = counting(pawl)
    unready = admin.get("/readyz")
    assert unready.status == 503
    assert unready.json["detail"] == "the counter has not counted far enough"
    assert admin.value("counter_counted_total") == 0
    clock.advance(2 * 3600)
    admin.until_ready()
    assert admin.value("counter_counted_total") == 2
    assert "# TYPE counter_counted_total counter\n" in admin.get("/metrics").body.decode()


def test_a_config_that_one_part_refuses_changes_no_part(pawl):
    gateway, admin = counting(pawl)
    lines = reload(gateway, admin, "counter: {every: 5ms}\n" + ONE_MORE, "config_refused")
    assert [line["problem"] for line in lines] == ["counter: counts too often"]
    assert gateway.post("/payments", {})["Idempotency-Status"] == "bypassed"
    assert admin.get("/readyz").status == 503
    reload(gateway, admin, "counter: {every: 1h}\n" + ONE_MORE, "config_reloaded")
    assert gateway.post("/payments", {}).is_problem(400, "VALIDATION.idempotency.key_missing")
    admin.until_ready()


def test_a_config_that_a_part_refuses_is_refused_by_test_and_at_the_start(pawl):
    gateway, _ = with_admin(pawl, "counter: {every: 5ms}\n" + RULES, started=False)
    for words in (["--test"], []):
        ran = subprocess.run([COUNTER, "serve", *words, "-c", gateway.config], text=True,
                             capture_output=True, cwd=gateway.directory, timeout=60)
        assert (ran.returncode, ran.stdout) == (69, "")
        assert "pawl serve: counter: counts too often\n" in ran.stderr


@pytest.mark.parametrize("section, complaint", [
    ("counter: {evry: 1s}",
     "evry: unknown option (did you mean 'every'? expected every or ready_at)"),
    ("counter: {every: 1}",
     "every: '1' is not valid here (did you mean '1h' or '1m' or '1s'? expected a duration"),
    ("counter: {ready_at: 101}", "ready_at: '101' is out of range (expected 0 to 100)"),
    ("counter: often", "counter: 'often' is not valid here (expected a map of options)"),
    ("conter: {}", "conter: unknown option (did you mean 'counter'?)"),
])
def test_a_section_is_read_by_the_readers_of_its_rows(pawl, section, complaint):
    gateway, _ = with_admin(pawl, f"{section}\n{RULES}", started=False)
    gateway.binary = COUNTER
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        gateway.start()


def test_a_section_is_explained_as_any_option_is(pawl):
    gateway, _ = counting(pawl, "counter: {every: 1h}\n")
    assert re.search(r"^counter: \{every: 1h, ready_at: 0\} +# line 5$",
                     explain(gateway, "-c", "pawl.yaml"), re.M)
    assert "ready_at: the least it counts\n      default  0" in explain(gateway, "counter")
    assert "# counter: (every 10s)\n" in explain(gateway)


def test_a_part_is_stopped_before_the_process_ends(pawl, clock):
    gateway, admin = counting(pawl, "counter: {every: 1h}\n")
    clock.advance(3600)
    eventually(lambda: admin.value("counter_counted_total") == 1, "a count")
    assert gateway.stop() == 0
    assert [line["count"] for line in gateway.lines("counter_stopped")] == [1]
