# SPDX-License-Identifier: Apache-2.0
"""`retry:` under `unknown: participant`: two tries under one token could both have an effect."""
from __future__ import annotations

import pytest

from pawltest.upstream import closes, resets, say
from pawltest.wire import Later, eventually

CONFIG = """
tenant: none
rules:
  - {name: refunds.create, match: POST /refunds, unknown: participant, retry: user_facing}
"""


@pytest.mark.parametrize("reply", [say(503), say(429), say(408), say(502), closes(), resets()])
def test_what_a_participant_has_received_is_not_sent_again(pawl, upstream, reply):
    gateway = pawl(CONFIG)
    upstream.then(reply)
    assert gateway.post("/refunds", {}, key="k1").status == (reply.status if reply.cut is None
                                                             else 502)
    assert len(upstream.requests) == 1


def test_what_did_not_reach_a_participant_is_sent_again(pawl, upstream):
    gateway = pawl(CONFIG.replace("user_facing", "api"))
    upstream.stop()
    first = Later(lambda: gateway.post("/refunds", {}, key="k1"))
    eventually(lambda: gateway.lines("retry"), "a second try")
    upstream.start()
    assert first.result().status == 201 and len(upstream.requests) == 1
