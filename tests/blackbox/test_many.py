# SPDX-License-Identifier: Apache-2.0
"""Acts on many records at once, by command and by the admin listener, and what programs are told of
an act."""
from __future__ import annotations

import json
import os

import pytest

from pawltest.admin import TOKEN, Admin, with_admin
from pawltest.gateway import Gateway, run
from test_cli_keys import Operator
from pawltest.upstream import Upstream, closes, say
from pawltest.wire import Answer, Later, eventually

CONFIG = """
tenant: "{header:X-Merchant-Id}"
trust_tenant: true
rules:
  - {name: slow, match: POST /slow, settle: 60s}
  - {name: held, match: POST /held, settle: 0s}
  - {name: again, match: POST /again, unknown: retry, settle: 0s}
"""
JSON = [("Content-Type", "application/json")]
EVER = "2100-01-01T00:00:00Z"
hooks = pytest.mark.hooks


@pytest.fixture
def both(pawl) -> tuple[Gateway, Admin]:
    return with_admin(pawl, CONFIG)


@pytest.fixture
def keys(both) -> Operator:
    return Operator(both[0])


def post(gateway: Gateway, key: str, target: str = "/held", tenant: str = "m1") -> Answer:
    return gateway.post(target, {"k": key}, key, [("X-Merchant-Id", tenant)])


def leave(gateway: Gateway, upstream: Upstream, *names: str, target: str = "/held",
          tenant: str = "m1") -> None:
    """Records whose outcome nobody knows."""
    for key in names:
        upstream.then(closes())
        headers = [("X-Merchant-Id", tenant)]
        assert gateway.post_up(target, {"k": key}, key, headers).status == 502


def act(admin: Admin, name: str, **members) -> Answer:
    return admin.request("POST", f"/keys/{name}", JSON, json.dumps(members).encode())


def told(answer: Answer) -> dict:
    assert answer.status == 200, answer
    return answer.json


def audited(keys: Operator) -> list[tuple[str, str, str]]:
    lines = keys("audit", "--json").stdout.splitlines()
    return [(row["actor"], row["act"], row["key"]) for row in map(json.loads, lines)]


# ---- over HTTP ----

def test_all_of_a_rule_in_doubt_are_released_each_by_its_token(both, upstream, keys):
    gateway, admin = both
    leave(gateway, upstream, "k1", "k2")
    leave(gateway, upstream, "other", target="/slow")
    post(gateway, "done")
    before = {row["key"]: row["token"] for row in admin.keys()}
    page = told(act(admin, "release", rule="held", before=EVER))
    assert {name: page[name] for name in ("settled", "too_early", "changed", "retry_after",
                                          "next")} == {
        "settled": 2, "too_early": 0, "changed": 0, "retry_after": None, "next": None}
    assert [(row["key"], row["token"], row["act"], row["result"], row["changed"], row["lease"])
            for row in page["keys"]] == [
        (key, before[key], "release", "done", True, "released") for key in ("k1", "k2")]
    assert "the next attempt will run the operation" in page["keys"][0]["message"]
    assert audited(keys) == [("admin:127.0.0.1", "release", key) for key in ("k1", "k2")]
    lines = eventually(lambda: len(found := gateway.lines("act")) == 2 and found)
    assert [(line["idempotency_key"], line["token"], line["result"]) for line in lines] == [
        (key, before[key], "done") for key in ("k1", "k2")]
    assert post(gateway, "k1")["Idempotency-Status"] == "stored"
    assert told(act(admin, "release", rule="held", before=EVER))["keys"] == []


def test_all_of_a_rule_in_doubt_get_one_answer(both, upstream, keys):
    gateway, admin = both
    leave(gateway, upstream, "k1", "k2", target="/again")
    body = json.dumps({"id": 1, "pad": "x" * 5000})
    page = told(act(admin, "resolve", rule="again", before=EVER, status=201,
                    headers={"Location": "/r/1"}, body=body))
    assert page["settled"] == 2, page
    assert {(row["status"], row["http_code"], row["result_ref"]) for row in page["keys"]} == {
        ("complete", 201, "/r/1")}
    for key in ("k1", "k2"):
        again = post(gateway, key, "/again")
        assert (again.status, again.body, again["Location"]) == (201, body.encode(), "/r/1")
    assert upstream.effects() == 2
    leave(gateway, upstream, "k3", target="/again")
    assert told(act(admin, "resolve", rule="again", before=EVER, released=True))["settled"] == 1
    assert keys.show("k3")["in_doubt"] is False


@hooks
def test_those_that_are_too_early_are_counted_and_left(both, upstream, clock, keys):
    gateway, admin = both
    leave(gateway, upstream, "k1", target="/slow")
    clock.advance(30)
    leave(gateway, upstream, "k2", target="/slow")
    clock.advance(31)
    page = told(eventually(lambda: (a := act(admin, "release", rule="slow", before=EVER)).status
                           == 200 and a))
    assert (page["settled"], page["too_early"]) == (1, 1)
    assert 0 < page["retry_after"] <= 60
    assert [row["result"] for row in page["keys"]] == ["done", "early"]
    assert [row["in_doubt"] for row in page["keys"]] == [False, True]
    assert keys.show("k2")["status"] == "unknown"


def test_a_page_of_them_is_followed_by_the_rest(both, upstream, keys):
    gateway, admin = both
    unknown = ["k1", "k2", "k3"]
    leave(gateway, upstream, *unknown)
    found, after = [], {}
    for pages in range(1, 9):
        page = told(act(admin, "release", rule="held", before=EVER, limit=2, **after))
        assert len(page["keys"]) <= 2 and page["settled"] == len(page["keys"])
        found += [row["key"] for row in page["keys"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert found == unknown and pages <= 4


def test_a_response_about_many_large_records_ends_early_and_goes_on(pawl, upstream):
    gateway, admin = with_admin(pawl, CONFIG.replace(
        "{name: held,", "{name: held, keep_request: 16KiB,"))
    count, pad = 280, "x" * 16384
    for number in range(count):
        upstream.then(closes())
        gateway.post("/held", {"pad": pad}, f"k{number}", [("X-Merchant-Id", "m1")])
    first = act(admin, "release", rule="held", before=EVER, limit=1000)
    page = told(first)
    assert 0 < page["settled"] < count and page["next"] is not None
    assert len(first.body) < 5 * 1024 * 1024
    rest = told(act(admin, "release", rule="held", before=EVER, limit=1000, after=page["next"]))
    assert page["settled"] + rest["settled"] == count and rest["next"] is None


def test_a_running_operation_and_one_of_another_tenant_or_time_is_not_meant(both, upstream, keys):
    gateway, admin = both
    leave(gateway, upstream, "k1")
    leave(gateway, upstream, "k2", tenant="m2")
    gate = upstream.hold()
    running = Later(lambda: post(gateway, "live"))
    gate.wait_for()
    assert told(act(admin, "release", rule="held", before="2020-01-01T00:00:00.000Z"))["keys"] == []
    page = told(act(admin, "release", rule="held", before=EVER, tenant="m2"))
    assert [row["key"] for row in page["keys"]] == ["k2"]
    page = told(act(admin, "release", rule="held", before=EVER))
    assert [row["key"] for row in page["keys"]] == ["k1"]
    gate.open()
    assert running.result().status == 201


def test_a_rule_that_no_record_is_of_is_probably_mistyped(both, upstream, keys):
    gateway, admin = both
    leave(gateway, upstream, "k1")
    answer = act(admin, "release", rule="heldd", before=EVER)
    assert answer.status == 404
    assert answer.json["detail"] == "no record belongs to the rule `heldd`; did you mean `held`?"
    ran = keys("release", "--rule", "heldd", "--unknown", "--before", EVER)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == ("pawl keys release: no record belongs to the rule `heldd`; "
                          "did you mean `held`?\n")
    ran = keys("resolve", "--rule", "nothing", "--unknown", "--before", EVER, "--released")
    assert (ran.returncode, ran.stdout) == (1, "") and ran.stderr.endswith("rule `nothing`\n")
    assert keys.show("k1")["status"] == "unknown"


@pytest.mark.parametrize("name, body, part", [
    ("release", {}, "`rule` is missing"), ("release", {"rule": "held"}, "`before` is missing"),
    ("release", {"rule": 1, "before": EVER}, "`rule` in the body: expected a string"),
    ("release", {"rule": "held", "before": "soon"}, "2026-01-31T12:00:00Z"),
    ("release", {"rule": "held", "before": 1}, "2026-01-31T12:00:00Z"),
    ("release", {"rule": "held", "before": EVER, "limit": 0}, "1 to 1000"),
    ("release", {"rule": "held", "before": EVER, "limit": 1001}, "1 to 1000"),
    ("release", {"rule": "held", "before": EVER, "after": -1}, "`next`"),
    ("release", {"rule": "held", "before": EVER, "token": 1}, "rule, before, tenant, limit, after"),
    ("release", {"rule": "held", "before": EVER, "status": 200}, "and force only"),
    ("resolve", {"rule": "held", "before": EVER}, "how did it end?"),
    ("resolve", {"rule": "held", "before": EVER, "status": 204, "body": "x"}, "no body"),
])
def test_an_act_on_many_that_is_not_understood_changes_nothing(both, upstream, name, body, part):
    gateway, admin = both
    leave(gateway, upstream, "k1")
    answer = act(admin, name, **body)
    assert answer.status == 400 and part in answer.json["detail"]
    assert admin.keys()[0]["status"] == "unknown"


def test_an_act_on_many_needs_the_token_of_the_listener_and_is_a_post(pawl, upstream):
    gateway, admin = with_admin(pawl, CONFIG, token=TOKEN)
    leave(gateway, upstream, "k1")
    assert act(Admin(admin.port), "release", rule="held", before=EVER).status == 401
    answer = admin.get("/keys/release")
    assert (answer.status, answer["Allow"]) == (405, "POST")
    assert act(admin, "forget", rule="held", before=EVER).status == 404
    assert admin.request("POST", "/keys/release", [], b"{}").status == 415
    assert admin.keys()[0]["status"] == "unknown"


# ---- as JSON, from commands ----

def objects(ran) -> list[dict]:
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_an_act_is_told_to_programs_with_the_record_and_its_result(both, upstream, keys):
    gateway, _ = both
    leave(gateway, upstream, "k1", "k2")
    token = keys.token("k1")
    stale = keys("resolve", "k1", "--token", token - 1, "--status", 201, "--json")
    assert (stale.returncode, stale.stderr) == (1, "")
    done = keys("resolve", "k1", "--token", token, "--status", 201, "-H", "Location: /r/1",
                "--json")
    assert (done.returncode, done.stderr) == (0, "")
    late = keys("release", "k1", "--token", token, "--json")
    forgot = keys("forget", "k1", "--json")
    assert (late.returncode, forgot.returncode) == (1, 0)
    told_of = [objects(ran)[0] for ran in (stale, done, late, forgot)]
    assert [(one["key"], one["status"], one["act"], one["result"], one["changed"])
            for one in told_of] == [("k1", "unknown", "resolve", "stale", False),
                                    ("k1", "complete", "resolve", "done", True),
                                    ("k1", "complete", "release", "late", False),
                                    ("k1", "complete", "forget", "done", True)]
    assert told_of[1]["result_ref"] == told_of[2]["result_ref"] == "/r/1"
    assert str(token) in told_of[0]["message"] and "forgotten" in told_of[3]["message"]
    row, = keys.list()
    assert set(told_of[1]) - set(row) == {"act", "result", "changed", "message"}
    assert set(row) <= set(told_of[1])


@hooks
def test_acts_on_many_are_told_to_programs_one_by_one(both, upstream, clock, keys):
    gateway, _ = both
    leave(gateway, upstream, "k1", target="/slow")
    clock.advance(30)
    leave(gateway, upstream, "k2", target="/slow")
    clock.advance(31)
    ran = keys("release", "--rule", "slow", "--unknown", "--before", EVER, "--json")
    assert [(one["key"], one["result"]) for one in objects(ran)] == [("k1", "done"),
                                                                     ("k2", "early")]
    assert ran.returncode == 75
    assert ran.stderr.startswith("1 settled, 1 too early, 0 changed meanwhile\ntry again in ")


def test_more_than_one_call_s_worth_are_settled_by_one_command(both, upstream, keys):
    """The store is asked for a thousand at a time."""
    gateway, _ = both
    count = 1003
    leave(gateway, upstream, *(f"k{number}" for number in range(count)))
    ran = keys("release", "--rule", "held", "--unknown", "--before", EVER)
    assert (ran.returncode, ran.stdout) == (
        0, f"{count} settled, 0 too early, 0 changed meanwhile\n")


def test_a_probe_that_settles_nothing_is_told_to_programs(both, upstream, keys, tmp_path):
    gateway, _ = both
    leave(gateway, upstream, "k1")
    config = tmp_path / "probing.yaml"
    config.write_text(
        f"upstream: http://127.0.0.1:{upstream.port}\n" + CONFIG.replace(
            "{name: held, match: POST /held, settle: 0s}",
            "{name: held, match: POST /held, settle: 0s, unknown: "
            "{probe: 'GET /of/{tenant}/{key}'}}"))
    upstream.then(say(500))
    ran = keys("resolve", "k1", "--token", keys.token("k1"), "--probe", "-c", config, "--json")
    assert ran.returncode == 76, ran.stderr
    one, = objects(ran)
    assert (one["key"], one["status"], one["result"], one["changed"]) == ("k1", "unknown",
                                                                          "unknown", False)
    assert one["token"] == keys.token("k1") and "inconclusive" in one["message"]


def test_help_of_acts_names_json():
    for name in ("resolve", "release", "forget"):
        assert "--json" in run("keys", name, "-h", env={**os.environ}).stdout
