# SPDX-License-Identifier: Apache-2.0
"""Keys that name a date or an hour of a clock: {date:..} and {hour}."""
from __future__ import annotations

import json
import time
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from pawltest.gateway import Gateway, run
from pawltest.wire import Answer, eventually

CONFIG = """
tenant: none
defaults: {ttl: 48h}
rules:
  - {name: offers, match: POST /offers,
     key: "{date:/zone}:{body:/zone}:{body:/user}:daily_offers"}
  - {name: reports, match: POST /reports, key: "{body:/user}{hour}"}
  - {name: vouchers, match: POST /vouchers,
     once: {key: "{body:/user}{hour:Europe/Berlin}", duplicate: reject}}
"""
JSON = ("Content-Type", "application/json")
FAR = ("Pacific/Kiritimati", "Pacific/Pago_Pago")  # 25 hours apart: never the same day
pytestmark = pytest.mark.hooks


def ask(gateway: Gateway, path: str, body: dict, key: str | None = None) -> Answer:
    """After the clock moved the store counts as down until its next batch."""
    headers = [JSON] + ([("Idempotency-Key", key)] if key else [])

    def answered() -> Answer | None:
        answer = gateway.request("POST", path, headers, json.dumps(body).encode())
        return None if answer.status == 503 else answer

    return eventually(answered, "a store that is up")


def wait_for(clock, zone: str, **at: int) -> datetime:
    """Moves the clock to the next such moment of the place; all that came before is a past life."""
    now = datetime.now(timezone.utc)
    local = now.astimezone(ZoneInfo(zone)) + timedelta(days=1)
    then = local.replace(second=0, microsecond=0, **at)
    clock.advance(then.timestamp() - time.time())
    return then


def test_a_request_is_one_operation_a_day_where_its_user_is(pawl, upstream, clock):
    zone = "America/New_York"
    then = wait_for(clock, zone, hour=23, minute=30)
    gateway = pawl(CONFIG)
    body = {"zone": zone, "user": "user-123"}
    assert ask(gateway, "/offers", body)["Idempotency-Status"] == "stored"
    assert upstream.requests[-1]["Idempotency-Key"] == (
        f"{then:%Y-%m-%d}:{zone}:user-123:daily_offers")
    assert ask(gateway, "/offers", body)["Idempotency-Status"] == "replayed"
    clock.advance(3600)
    assert ask(gateway, "/offers", body)["Idempotency-Status"] == "stored"
    for place in FAR:
        ask(gateway, "/offers", {"zone": place, "user": "u"})
    days = [request["Idempotency-Key"][:10] for request in upstream.requests[-2:]]
    assert days[0] > days[1]
    assert upstream.effects() == 4


def test_a_key_with_the_hour_is_another_in_the_next_hour(pawl, upstream, clock):
    then = wait_for(clock, "UTC", hour=10, minute=59)
    gateway = pawl(CONFIG)
    assert ask(gateway, "/reports", {"user": "u"})["Idempotency-Status"] == "stored"
    assert upstream.requests[-1]["Idempotency-Key"] == f'"u:{then:%Y-%m-%d}T10Z"'.strip('"')
    assert ask(gateway, "/reports", {"user": "u"})["Idempotency-Status"] == "replayed"
    clock.advance(120)
    assert ask(gateway, "/reports", {"user": "u"})["Idempotency-Status"] == "stored"
    assert upstream.effects() == 2


def test_a_retry_in_the_next_hour_is_the_same_operation_and_another_key_a_new_one(
        pawl, upstream, clock):
    wait_for(clock, "Europe/Berlin", hour=10, minute=59)
    gateway = pawl(CONFIG)
    for user in ("u", "u" * 300):
        first = ask(gateway, "/vouchers", {"user": user}, "k1" + user[:200])
        assert first["Idempotency-Status"] == "stored"
        assert ask(gateway, "/vouchers", {"user": user}, "k2" + user[:200]).status == 409
        clock.advance(3600)
        retry = ask(gateway, "/vouchers", {"user": user}, "k1" + user[:200])
        assert (retry["Idempotency-Status"], retry.body) == ("replayed", first.body)
        assert ask(gateway, "/vouchers", {"user": user}, "k2" + user[:200]).status == 201
    assert upstream.effects() == 4


@pytest.mark.parametrize("zone, why", [
    ("Mars/Base", "not the name of a time zone"),
    ("../../../etc/passwd", "not the name of a time zone"),
    ("europe/berlin", "not the name of a time zone"),
    (5, "not a text with the name of a time zone"),
    (None, "not a text with the name of a time zone"),
])
def test_a_zone_that_is_not_there_is_refused_with_the_reason(pawl, upstream, zone, why):
    gateway = pawl(CONFIG)
    answer = ask(gateway, "/offers", {"zone": zone, "user": "u"})
    assert answer.is_problem(400, "VALIDATION.idempotency.key_source_missing"), answer
    assert "date:/zone" in answer.json["detail"]
    assert why in answer.json["detail"]
    assert upstream.effects() == 0


def test_a_zone_of_a_once_value_is_refused_with_the_reason_too(pawl, upstream):
    gateway = pawl(CONFIG.replace("hour:Europe/Berlin", "date:/zone"))
    answer = ask(gateway, "/vouchers", {"zone": "Mars/Base", "user": "u"}, "k1")
    assert answer.is_problem(400, "VALIDATION.idempotency.key_source_missing"), answer
    assert "date:/zone, which is not the name of a time zone" in answer.json["detail"]
    answer = ask(gateway, "/vouchers", {"user": "u"}, "k1")
    assert answer.is_problem(400, "VALIDATION.idempotency.key_source_missing"), answer
    assert upstream.effects() == 0


def test_a_zone_of_the_config_that_is_not_there_is_an_error_with_its_place(pawl):
    gateway = pawl(CONFIG.replace("Europe/Berlin", "Europe/Berlni"), started=False)
    done = run("serve", "--test", "-c", gateway.config)
    assert done.returncode == 2
    assert 'key: there is no time zone "Europe/Berlni"' in done.stderr
    assert "the nearest is Europe/Berlin" in done.stderr
    assert f"{gateway.config}:" in done.stderr
