# SPDX-License-Identifier: Apache-2.0
"""A reload after which a path meets a rule that does not find its records: the log names a path for
each pair of rules. Nothing is refused, as the path may be of another operation by now."""
from __future__ import annotations

import pytest

from pawltest.gateway import Gateway
from pawltest.wire import Answer

pytestmark = pytest.mark.no_store

ALL = "  - {name: all, match: POST /**}\n"
TOP = "tenant: none\nrules:\n"
PAY = "  - {name: pay, match: 'POST /{tenant}/pay'}\n"
AGAIN = "a retry of what ran before runs again"
TO_PAY = ("POST /any-value/pay had rule 'all' and now has rule 'pay', which has other keys: "
          f"{AGAIN} (to find it, add key_space: all to the rule) [identity-moved]")


def pay(gateway: Gateway) -> Answer:
    return gateway.post("/acme/pay", {"amount": 5}, key="k1")


def told(gateway: Gateway, config: str) -> list[tuple[str, str, str]]:
    """What the log says of paths and targets between a reload and its end."""
    begin = len(gateway.log)
    gateway.reload(config)
    return [(line["event"], line["level"], line["problem"]) for line in gateway.log[begin:]
            if line["event"] in ("config_warning", "config_note")
            and "identity-moved" in line["problem"]]


@pytest.mark.parametrize("more, lines, effects", [
    ("", [("config_warning", "warn", TO_PAY)], 2),
    (", key_space: all", [], 1),
])
def test_a_rule_in_front_of_a_catch_all_says_what_it_does_not_find(pawl, upstream, more, lines,
                                                                   effects):
    """found: R2"""
    gateway = pawl(TOP + ALL)
    assert pay(gateway).status == 201
    assert told(gateway, TOP + PAY.replace("pay'}", f"pay'{more}}}") + ALL) == lines
    assert pay(gateway).status == 201
    assert upstream.effects() == effects


def test_a_path_that_no_rule_protects_any_more_is_told(pawl):
    gateway = pawl(TOP + PAY)
    lines = told(gateway, TOP + PAY.replace("'}", "', protect: false}"))
    assert lines == [("config_warning", "warn", "POST /any-value/pay had rule 'pay' and now has "
                      f"none that protects it: {AGAIN} [identity-moved]")]


def test_each_reload_is_compared_with_the_config_in_force(pawl):
    """Neither with the one of the start, nor with one that was refused."""
    gateway = pawl(TOP + ALL)
    assert len(told(gateway, TOP + PAY + ALL)) == 1
    assert told(gateway, TOP + PAY + ALL) == []
    assert len(told(gateway, TOP + ALL)) == 1
    assert told(gateway, "allow: [identity-moved]\n" + TOP + PAY + ALL) == []


def test_another_comparison_of_targets_is_a_note(pawl):
    """The retry that differs in it only now is another request."""
    gateway = pawl(TOP + PAY)
    assert pay(gateway).status == 201
    lines = told(gateway, TOP + PAY.replace("'}", "', headers: [Content-Language]}"))
    assert lines == [("config_note", "info", "rule 'pay' compares other headers now: a retry "
                      "across the reload may be refused as another request [identity-moved]")]
    again = gateway.post("/acme/pay", {"amount": 5}, key="k1",
                         headers=[("Content-Language", "de")])
    assert again.is_problem(409, "CONFLICT.idempotency.payload_mismatch")
