# SPDX-License-Identifier: Apache-2.0
"""How an operator finds records: by what `keys stats` counts, and by what logs and clients say."""
from __future__ import annotations

import json

import pytest

from pawltest.admin import Admin, with_admin
from pawltest.gateway import Gateway
from test_cli_keys import Operator
from pawltest.upstream import closes, say
from pawltest.wire import Later, eventually

JSON = ("Content-Type", "application/json")
CONFIG = """
log_keys: hashed
tenant: "{header:X-Merchant-Id}"
trust_tenant: true
rules:
  - {name: refunds, match: POST /refunds, settle: 0s}
  - {name: paid, match: POST /paid, once: {key: "{body:/ref}:{body:/part}"}}
"""


@pytest.fixture
def both(pawl) -> tuple[Gateway, Admin]:
    return with_admin(pawl, CONFIG)


@pytest.fixture
def keys(both) -> Operator:
    return Operator(both[0])


def post(gateway: Gateway, key: str, tenant: str = "m1"):
    return gateway.post("/refunds", {}, key, [("X-Merchant-Id", tenant)])


def pay(gateway: Gateway, key: str, ref: str, part: str = "p"):
    headers = [JSON, ("Idempotency-Key", key), ("X-Merchant-Id", "m1")]
    body = json.dumps({"ref": ref, "part": part}).encode()
    assert gateway.request("POST", "/paid", headers, body).status == 201


def names(rows: list[dict]) -> list[str]:
    return [row["key"] for row in rows]


def test_list_takes_every_status_that_stats_counts_and_means_the_same_by_it(both, upstream, keys):
    gateway, admin = both
    post(gateway, "complete")
    upstream.then(say(422), closes(), say(503, effect=False))
    for key in ("failed", "unknown", "released"):
        post(gateway, key)
    gate = upstream.hold()
    running = Later(lambda: post(gateway, "pending"))
    gate.wait_for()
    counts = json.loads(keys("stats", "--json").stdout)
    assert counts == dict.fromkeys(["pending", "released", "complete", "failed", "unknown"], 1)
    for status in counts:
        assert names(keys.list("--status", status)) == [status]
        assert names(admin.keys(f"?status={status}")) == [status]
        assert names(admin.keys(f"?status={status}&limit=1")) == [status]
    assert "pending, released, complete, failed or unknown" in \
        admin.get("/keys?status=lost").json["detail"]
    gate.open()
    running.result()


def test_a_page_of_released_records_is_followed_by_the_rest(both, upstream, keys):
    gateway, admin = both
    for number in range(6):
        upstream.then(closes() if number % 2 else say(503, effect=False))
        post(gateway, f"k{number}")
    for key in ("k1", "k3"):
        assert keys("release", key, "--token", keys.token(key)).returncode == 0
    found, page = [], admin.get("/keys?status=released&limit=2").json
    while True:
        found += names(page["keys"])
        assert len(page["keys"]) <= 2
        if page["next"] is None:
            break
        page = admin.get(f"/keys?status=released&limit=2&after={page['next']}").json
    assert found == names(keys.list("--status", "released")) == ["k0", "k1", "k2", "k3", "k4"]
    ran = keys("list", "--json", "--status", "released", "--limit", "2")
    assert len(ran.stdout.splitlines()) == 2 and "only the first 2" in ran.stderr


def test_a_tenant_is_found_by_the_hash_that_its_log_lines_show(both, keys):
    gateway, admin = both
    post(gateway, "k1")
    post(gateway, "k1", tenant="m2")
    line = eventually(lambda: gateway.lines("request"))[0]
    assert line["tenant_hash"] == keys.show("k1", "--tenant", "m1")["tenant_hash"]
    by_hash = ("--tenant", line["tenant_hash"])
    assert [(row["key"], row["tenant"]) for row in keys.list(*by_hash)] == [("k1", "m1")]
    assert keys.show("k1", *by_hash, "--rule", "refunds")["tenant"] == "m1"
    assert [row["tenant"] for row in admin.keys(f"?tenant={line['tenant_hash']}")] == ["m1"]
    assert keys.list("--tenant", "0" * 16) == []
    post(gateway, "own", tenant=line["tenant_hash"])
    assert names(keys.list(*by_hash)) == ["own"], "a tenant of that very name comes first"


def test_a_once_value_is_found_as_stored_and_as_its_client_wrote_it(both, keys):
    gateway, admin = both
    pay(gateway, "k1", "pay 77/ü", "a:b")
    stored = keys.show("k1")["once"]
    assert stored == "pay%2077/%C3%BC:a%3Ab"
    for value in (stored, "pay 77/ü:a:b"):
        ran = keys("show", "--once", value, "--json")
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["key"] == "k1"
    assert names(admin.keys("?once=pay+77/%C3%BC:a:b")) == ["k1"]
    ran = keys("show", "--once", "pay 77")
    assert ran.returncode == 1 and 'no record of once value "pay 77"' in ran.stderr


def test_a_once_value_that_two_records_may_mean_is_asked_about(both, keys):
    gateway, _ = both
    pay(gateway, "spaced", "a b")
    pay(gateway, "written", "a%20b")
    assert keys.show("spaced")["once"] == "a%20b:p"
    ran = keys("forget", "--once", "a%20b:p")
    assert ran.returncode == 2 and "spaced" in ran.stderr and "written" in ran.stderr
    assert keys("show", "--once", "a b:p").stdout.startswith("key:          spaced")
    assert keys("show", "--once", "a%2520b:p").stdout.startswith("key:          written")


def test_an_exit_code_says_whether_a_success_is_remembered(both, upstream, keys):
    gateway = both[0]

    def succeeded(key: str, *arguments: str) -> tuple[int, str]:
        ran = keys("succeeded", key, *arguments)
        assert ran.stdout == ""
        return ran.returncode, ran.stderr

    post(gateway, "done")
    upstream.then(say(422), closes())
    post(gateway, "refused")
    post(gateway, "doubt")
    gate = upstream.hold()
    later = Later(lambda: post(gateway, "sent"))
    gate.wait_for()
    rule = ("--rule", "refunds")
    assert succeeded("done", *rule) == (0, "")
    for key, code, told in (("refused", 1, "may have been done, and forgotten"),
                            ("never", 1, "may have been done, and forgotten"),
                            ("sent", 75, "being sent"), ("doubt", 76, "in doubt")):
        ended, said = succeeded(key, *rule)
        assert ended == code and told in said
    assert succeeded("done")[0] == 1  # by `pawl send` it was not
    gate.open()
    later.result()
    assert succeeded("sent", *rule) == (0, "")
