# SPDX-License-Identifier: Apache-2.0
"""The operator's listener: health, who may ask, records and acts on them."""
from __future__ import annotations

import json
import re
import signal
import socket
import time

import pytest

from pawltest.admin import TOKEN, Admin, with_admin
from conftest import CONFIG, standing
from pawltest.gateway import free_port, run
from pawltest.hostile_requests import requests
from pawltest.upstream import closes
from pawltest.wire import Broken, Later, at_once, eventually, request_bytes

JSON = [("Content-Type", "application/json")]


@pytest.fixture
def both(pawl):
    return with_admin(pawl, CONFIG)


@pytest.fixture
def admin(both):
    return both[1]


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """A gateway for all requests that are refused or change nothing, which it must survive; its
    upstream and its listener."""
    port = free_port()
    config = f"admin: 127.0.0.1:{port}\n{CONFIG}"
    with standing(tmp_path_factory.mktemp("lasting"), config) as (gateway, behind):
        yield gateway, behind, Admin(port)


@pytest.fixture
def listener(lasting):
    assert lasting[0].process.poll() is None, "pawl died"
    return lasting[2]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """The listener of one that asks for a token."""
    port = free_port()
    config = f"admin: 127.0.0.1:{port}\nadmin_token: {TOKEN}\n{CONFIG}"
    with standing(tmp_path_factory.mktemp("guarded"), config):
        yield Admin(port, TOKEN)


def unknown(gateway, upstream, admin, key="k1"):
    """A record whose outcome nobody knows, as the listener shows it."""
    upstream.then(closes())
    assert gateway.post("/refunds", {"key": key}, key).status == 502
    return [row for row in admin.keys() if row["key"] == key][0]


# ---- health ----

def test_livez_and_readyz_say_so(admin):
    assert (admin.get("/livez").status, admin.get("/livez").body) == (200, b"alive\n")
    admin.until_ready()
    assert admin.get("/readyz").body == b"ready\n"
    assert admin.request("HEAD", "/readyz").status == 200


def test_without_a_word_in_the_config_nobody_listens(gateway):
    """Its own port answers no page of the operator's."""
    assert gateway.request("GET", "/metrics").json == {"read": "/metrics"}


@pytest.mark.hooks
def test_readyz_fails_from_the_signal_on_while_livez_answers(pawl, upstream, clock):
    gateway, admin = with_admin(pawl, "drain_delay: 1h\n" + CONFIG)
    admin.until_ready()
    gateway.signal(signal.SIGTERM)
    answer = eventually(lambda: (a := admin.get("/readyz")).status == 503 and a, "readyz fails")
    assert "shutting down" in answer.json["detail"]
    assert admin.get("/livez").status == 200
    assert gateway.post("/refunds", {}, "k1").status == 201, "it still serves"
    clock.advance(3601)
    assert gateway.wait() == 0


def test_readyz_fails_while_exchanges_end(pawl, upstream):
    gateway, admin = with_admin(pawl, CONFIG)
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {}, "k1"))
    gate.wait_for()
    gateway.signal(signal.SIGTERM)
    eventually(lambda: admin.get("/readyz").status == 503, "readyz fails")
    assert admin.get("/livez").status == 200
    gate.open()
    assert first.result().status == 201
    assert gateway.wait() == 0


@pytest.mark.file_only
def test_readyz_fails_when_the_store_is_gone_and_livez_does_not_ask_it(both):
    gateway, admin = both
    admin.until_ready()
    gateway.store.rename(gateway.store.with_suffix(".away"))
    answer = eventually(lambda: (a := admin.get("/readyz")).status == 503 and a, "readyz fails")
    assert "store" in answer.json["detail"]
    assert answer["Content-Type"] == "application/problem+json"
    assert admin.get("/livez").status == 200
    gateway.store.with_suffix(".away").rename(gateway.store)
    admin.until_ready()


# ---- who may ask ----

def test_a_second_listener_on_the_address_is_refused(both, pawl):
    gateway, admin = both
    other = pawl(f"admin: 127.0.0.1:{admin.port}\n" + CONFIG, started=False)
    ran = run("serve", "-c", other.config)
    assert (ran.returncode, ran.stdout) == (69, "")
    assert re.search("address is in use; .* choose another `admin:`", ran.stderr)


def test_an_address_that_others_reach_needs_a_token(pawl):
    gateway = pawl(f"admin: 0.0.0.0:{free_port()}\n" + CONFIG, started=False)
    with pytest.raises(AssertionError, match="admin: others can reach it"):
        gateway.start()


@pytest.mark.no_store
@pytest.mark.parametrize("target", ["/metrics", "/keys", "/keys/1", "/nothing"])
def test_with_a_token_all_but_health_asks_for_it(guarded, target):
    admin = guarded
    for wrong in (None, "", TOKEN[:-1], TOKEN + "x", TOKEN.upper()):
        headers = [] if wrong is None else [("Authorization", f"Bearer {wrong}")]
        answer = Admin(admin.port).get(target, headers)
        assert answer.status == 401 and answer["WWW-Authenticate"] == "Bearer"
        assert "admin_token" in answer.json["detail"]
    twice = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", f"Bearer {TOKEN}")]
    assert Admin(admin.port).get(target, twice).status == 401
    assert admin.get(target).status in (200, 404)
    assert admin.get(target, [("Host", "pawl.internal:80")]).status in (200, 404)
    assert Admin(admin.port).get("/livez").status == 200
    eventually(lambda: Admin(admin.port).get("/readyz").status == 200, "ready")


@pytest.mark.hooks
def test_whoever_is_refused_is_counted_and_logged_without_flooding_the_log(pawl, clock):
    """found: A-L22"""
    gateway, admin = with_admin(pawl, CONFIG, token=TOKEN)
    stranger = Admin(admin.port)

    def told() -> list[dict]:
        return gateway.lines("admin_refused")

    began = time.monotonic()
    assert admin.get("/keys?tenant=t", [("Origin", "https://evil.example")]).status == 403
    for _ in range(50):
        assert stranger.get("/metrics").status == 401
    lasted = time.monotonic() - began
    clock.advance(2)
    assert stranger.get("/keys").status == 401
    eventually(lambda: sum(line["refused"] for line in told()) == 52, "each is in some line")
    assert 2 <= len(told()) <= lasted + 3
    first = told()[0]
    assert [first[name] for name in ("level", "client", "path", "status")] == [
        "warn", "127.0.0.1", "/keys", 403]
    assert admin.value("pawl_admin_refused_total", status="401") == 51
    assert admin.value("pawl_admin_refused_total", status="403") == 1


def test_an_act_without_the_token_changes_nothing(pawl, upstream):
    gateway, admin = with_admin(pawl, CONFIG, token=TOKEN)
    row = unknown(gateway, upstream, admin)
    assert Admin(admin.port).act(row["id"], "forget", token=row["token"]).status == 401
    assert admin.get(f"/keys/{row['id']}").json["status"] == "unknown"


@pytest.mark.no_store
@pytest.mark.parametrize("headers", [
    [("Origin", "http://evil.example")],
    [("Origin", "null")],
    [("Host", "evil.example")],
    [("Host", "evil.example:8081")],
    [("Host", "127.0.0.1.evil.example")],
    [("Host", "localhost.evil.example")],
])
def test_a_browser_that_was_led_here_is_refused(lasting, word, headers):
    gateway, behind, admin = lasting
    row = unknown(gateway, behind, admin, word)
    for target in ("/keys", "/metrics", f"/keys/{row['id']}"):
        assert admin.get(target, headers).status == 403
    answer = admin.request("POST", f"/keys/{row['id']}/forget", [*headers, *JSON], b"{}")
    assert answer.status == 403
    assert admin.get(f"/keys/{row['id']}").json["status"] == "unknown"


@pytest.mark.no_store
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:9",
                                  "127.8.8.8", "[::1]", "[::1]:8081"])
def test_every_name_of_loopback_is_answered(listener, host):
    assert listener.get("/keys", [("Host", host)]).status == 200


# ---- what is asked ----

@pytest.mark.no_store
@pytest.mark.parametrize("method, target, status, allow", [
    ("GET", "/", 404, None),
    ("GET", "/keys/", 404, None),
    ("GET", "/keys/x", 404, None),
    ("GET", "/keys/1/", 404, None),
    ("POST", "/keys/1/destroy", 404, None),
    ("GET", "/keys/99999999999999999999", 404, None),
    ("GET", "/keys/0", 404, None),
    ("GET", "/keys/9223372036854775807", 404, None),
    ("GET", "/keys/12345678", 404, None),
    ("POST", "/metrics", 405, "GET, HEAD"),
    ("DELETE", "/keys/1", 405, "GET, HEAD"),
    ("GET", "/keys/1/forget", 405, "POST"),
    ("GET", "/keys?limit=0", 400, None),
    ("GET", "/keys?limit=1001", 400, None),
    ("GET", "/keys?status=lost", 400, None),
    ("GET", "/keys?lapsed=yes", 400, None),
    ("GET", "/keys?after=-1", 400, None),
    ("GET", "/keys?color=red", 400, None),
    ("GET", "/keys?key=%zz", 400, None),
    ("GET", "/keys?key=%", 400, None),
])
def test_what_is_not_there_or_not_understood_is_a_problem_that_says_so(listener, method, target,
                                                                       status, allow):
    answer = listener.request(method, target)
    assert answer.status == status == answer.json["status"]
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["Allow"] == allow
    assert answer.json["detail"] and answer.json["title"]


def test_records_are_listed_in_the_json_of_the_command(both):
    gateway, admin = both
    for number in range(5):
        gateway.post("/refunds", {"n": number}, f"k{number}")
    ran = run("keys", "list", "--json", "--store", gateway.store)
    assert admin.keys() == [json.loads(line) for line in ran.stdout.splitlines()]
    row = admin.keys()[2]
    shown = json.loads(run("keys", "show", row["key"], "--json", "--store", gateway.store).stdout)
    assert admin.get(f"/keys/{row['id']}").json == shown


def test_a_list_is_narrowed_and_goes_on_page_by_page(pawl, upstream):
    gateway, admin = with_admin(pawl, 'tenant: "{header:X-Tenant}"\ntrust_tenant: true\nrules:\n'
                                      "  - {name: a, match: POST /a}\n"
                                      "  - {name: b b, match: POST /b}\n".replace("b b", "b.b"))
    for tenant in ("t1", "t 2&"):
        for target in ("/a", "/b"):
            assert gateway.post(target, {}, "k", [("X-Tenant", tenant)]).status == 201
    upstream.then(closes())
    gateway.post("/a", {}, "lost", [("X-Tenant", "t1")])
    assert len(admin.keys()) == 5
    assert len(admin.keys("?tenant=t1")) == 3
    assert len(admin.keys("?tenant=t+2%26")) == 2
    assert len(admin.keys("?tenant=")) == 0
    assert len(admin.keys("?rule=b.b&tenant=t1")) == 1
    assert [row["key"] for row in admin.keys("?status=unknown")] == ["lost"]
    assert [row["key"] for row in admin.keys("?key=lost&lapsed=false")] == ["lost"]
    found, page = [], admin.get("/keys?limit=2").json
    while True:
        found += page["keys"]
        if page["next"] is None:
            break
        page = admin.get(f"/keys?limit=2&after={page['next']}").json
    assert found == admin.keys()


# ---- acts ----

def test_an_unknown_outcome_is_resolved_and_replayed(both, upstream):
    gateway, admin = both
    row = unknown(gateway, upstream, admin)
    answer = admin.act(row["id"], "resolve", token=row["token"], status=201,
                       headers={"Location": "/refunds/9"}, body='{"id":9}')
    assert answer.status == 200 and answer.json["changed"] is True
    assert answer.json["key"]["status"] == "complete"
    again = gateway.post("/refunds", {"key": "k1"}, "k1")
    assert (again.status, again["Idempotency-Status"], again.json) == (201, "replayed", {"id": 9})
    assert (again["Location"], again["Content-Type"]) == ("/refunds/9", "application/json")
    assert upstream.effects() == 1
    same = admin.act(row["id"], "resolve", token=row["token"], status=201)
    assert same.status == 200 and same.json["changed"] is False
    other = admin.act(row["id"], "resolve", token=row["token"], status=422)
    assert other.status == 409 and "already" in other.json["detail"]


def test_acts_are_audited_under_the_address_they_came_from(both, upstream):
    gateway, admin = both
    row = unknown(gateway, upstream, admin)
    assert admin.act(row["id"], "resolve", token=row["token"] - 1, status=201).status == 409
    assert admin.act(row["id"], "resolve", token=row["token"], status=201).status == 200
    assert admin.act(row["id"], "forget", token=row["token"]).status == 200
    audit = run("keys", "audit", "--json", "--store", gateway.store).stdout.splitlines()
    acts = [json.loads(line) for line in audit]
    assert [(act["actor"], act["act"], act["from"], act["to"]) for act in acts] == [
        ("admin:127.0.0.1", "resolve", "unknown", "complete"),
        ("admin:127.0.0.1", "forget", "complete", "absent")]


def test_a_record_s_own_headers_are_taken_back(both, upstream):
    """The form in which a record shows its headers is one in which resolve takes them."""
    gateway, admin = both
    gateway.post("/refunds", {}, "done")
    outcome = admin.get(f"/keys/{admin.keys()[0]['id']}").json["outcome"]
    row = unknown(gateway, upstream, admin)
    kept = [line for line in outcome["headers"] if line[0] != "Date"]
    assert admin.act(row["id"], "resolve", token=row["token"], status=201,
                     headers=kept).status == 200


@pytest.mark.hooks
def test_release_is_believed_only_once_nobody_can_be_sending(pawl, upstream, clock):
    gateway, admin = with_admin(pawl, CONFIG + "    settle: 1h\n")
    row = unknown(gateway, upstream, admin)
    for act in ("release", "resolve"):
        more = {"released": True} if act == "resolve" else {}
        answer = admin.act(row["id"], act, token=row["token"], **more)
        assert answer.status == 425 and "too early" in answer.json["detail"]
        assert 3500 < int(answer["Retry-After"]) <= 3600
    clock.advance(3601)
    done = eventually(lambda: (a := admin.act(row["id"], "release", token=row["token"])).status
                      == 200 and a)
    assert done.json["key"]["lease"] == "released"
    assert gateway.post_up("/refunds", {"key": "k1"}, "k1")["Idempotency-Status"] == "stored"
    assert upstream.effects() == 2


def test_a_stale_token_changes_nothing(both, upstream):
    gateway, admin = both
    row = unknown(gateway, upstream, admin)
    for act, more in (("release", {}), ("resolve", {"status": 200}), ("forget", {})):
        answer = admin.act(row["id"], act, token=row["token"] - 1, **more)
        assert answer.status == 409 and str(row["token"]) in answer.json["detail"]
    assert admin.get(f"/keys/{row['id']}").json["status"] == "unknown"


def test_a_live_lease_needs_force(both, upstream):
    gateway, admin = both
    gate = upstream.hold()
    first = Later(lambda: gateway.post("/refunds", {}, "k1"))
    gate.wait_for()
    row = admin.keys()[0]
    answer = admin.act(row["id"], "forget")
    assert answer.status == 409 and "the record is in use" in answer.json["detail"]
    assert '"force": true' in answer.json["detail"] and int(answer["Retry-After"]) > 0
    assert admin.act(row["id"], "forget", force=True).json["key"] is None
    assert admin.keys() == []
    gate.open()
    first.result()


def test_an_unknown_operation_is_forgotten_by_its_token_only(both, upstream):
    """found: C-H5"""
    gateway, admin = both
    upstream.then(closes())
    gateway.post("/refunds", {}, "k1")
    row = admin.keys()[0]
    answer = admin.act(row["id"], "forget")
    assert answer.status == 409 and str(row["token"]) in answer.json["detail"]
    assert admin.act(row["id"], "forget", token=row["token"]).status in (200, 425)
    assert admin.act(row["id"], "forget", force=True).status in (200, 404)
    assert admin.keys() == []


def test_what_was_forgotten_is_a_new_operation(both, upstream):
    gateway, admin = both
    assert gateway.post("/refunds", {}, "k1").status == 201
    assert admin.act(admin.keys()[0]["id"], "forget").status == 200
    assert gateway.post("/refunds", {}, "k1")["Idempotency-Status"] == "stored"
    assert upstream.effects() == 2


@pytest.mark.no_store
@pytest.mark.parametrize("act, body, part", [
    ("resolve", b"", "not a JSON object"),
    ("resolve", b"[]", "not a JSON object"),
    ("resolve", b'{"token":1,"token":2}', "duplicate"),
    ("resolve", b"{}", "token"),
    ("resolve", b'{"token":0,"status":200}', "token"),
    ("resolve", b'{"token":1.5,"status":200}', "token"),
    ("resolve", b'{"token":99999999999999999999,"status":200}', "token"),
    ("resolve", b'{"token":1}', "how did it end"),
    ("resolve", b'{"token":1,"status":99}', "200 to 599"),
    ("resolve", b'{"token":1,"status":"200"}', "200 to 599"),
    ("resolve", b'{"token":1,"released":true,"status":200}', "released"),
    ("resolve", b'{"token":1,"released":"yes"}', "true or false"),
    ("resolve", b'{"token":1,"status":200,"headers":{"a b":"c"}}', "header"),
    ("resolve", b'{"token":1,"status":200,"headers":{"a":"b\\r\\nc: d"}}', "header"),
    ("resolve", b'{"token":1,"status":200,"headers":[["a"]]}', "header"),
    ("resolve", b'{"token":1,"status":200,"headers":{"a":1}}', "header"),
    ("resolve", b'{"token":1,"status":200,"body":{}}', "a string"),
    ("resolve", b'{"token":1,"status":200,"boddy":""}', "boddy"),
    ("release", b'{"token":1,"status":200}', "token, reason and force only"),
    ("release", b"{}", "token"),
    ("forget", b'{"force":1}', "true or false"),
    ("forget", b'{"reason":""}', "1 to 1024 bytes"),
    ("forget", b'{"reason":"%s"}' % (b"x" * 1025), "1 to 1024 bytes"),
])
def test_an_act_that_is_not_understood_changes_nothing(lasting, word, act, body, part):
    gateway, _, admin = lasting
    gateway.post("/refunds", {}, word)
    row, = admin.keys(f"?key={word}")
    answer = admin.request("POST", f"/keys/{row['id']}/{act}", JSON, body)
    assert answer.status == 400 and part in answer.json["detail"]
    assert admin.keys(f"?key={word}") == [row]


def test_headers_that_are_not_kept_are_refused(both, upstream):
    gateway, admin = both
    row = unknown(gateway, upstream, admin)
    answer = admin.act(row["id"], "resolve", token=row["token"], status=200,
                       headers={"Transfer-Encoding": "chunked"})
    assert answer.status == 400 and "not kept" in answer.json["detail"]
    answer = admin.act(row["id"], "resolve", token=row["token"], status=204, body="x")
    assert answer.status == 400 and "no body" in answer.json["detail"]


def test_a_form_from_a_web_page_is_no_act(both):
    gateway, admin = both
    gateway.post("/refunds", {}, "k1")
    row = admin.keys()[0]
    for kind in ("application/x-www-form-urlencoded", "text/plain"):
        answer = admin.request("POST", f"/keys/{row['id']}/forget", [("Content-Type", kind)], b"{}")
        assert answer.status == 415
    assert admin.keys() == [row]


def test_an_act_is_logged_with_who_did_what(both, upstream):
    gateway, admin = both
    row = unknown(gateway, upstream, admin)
    admin.act(row["id"], "release", token=row["token"] - 1)
    admin.act(row["id"], "resolve", token=row["token"], status=200)
    lines = eventually(lambda: len(found := gateway.lines("act")) == 2 and found)
    assert [line["result"] for line in lines] == ["stale", "done"]
    done = lines[1]
    assert (done["act"], done["actor"]) == ("resolve", "admin:127.0.0.1")
    assert (done["idempotency_key"], done["token"], done["status"]) == ("k1", row["token"], 200)
    assert (done["from_state"], done["to_state"], done["force"]) == ("unknown", "complete", False)


def test_an_act_says_who_did_it_and_why(both, upstream):
    """found: M3"""
    gateway, admin = both
    row = unknown(gateway, upstream, admin)
    body = json.dumps({"token": row["token"], "status": 200, "reason": "the bank has it"}).encode()
    named = [*JSON, ("X-Operator", "ada@example.com")]
    assert admin.request("POST", f"/keys/{row['id']}/resolve", named, body).status == 200
    line, = eventually(lambda: gateway.lines("act"))
    who, why = "admin:ada@example.com@127.0.0.1", "the bank has it"
    assert (line["actor"], line["reason"]) == (who, why)
    page = admin.get("/audit").json
    assert [(act["act"], act["actor"], act["reason"], act["token"]) for act in page["acts"]] == [
        ("resolve", who, why, row["token"])]
    assert page["next"] is None
    assert admin.get(f"/audit?after={page['acts'][0]['id']}").json == {"acts": [], "next": None}


def test_the_audit_goes_on_from_next(both):
    """found: M3"""
    gateway, admin = both
    for i in range(40):
        gateway.post("/refunds", {}, f"k{i}")
    for row in admin.keys():
        assert admin.act(row["id"], "forget").status == 200
    first = admin.get("/audit").json
    rest = admin.get(f"/audit?after={first['next']}").json
    assert len(first["acts"]) + len(rest["acts"]) == 40 and rest["next"] is None
    assert {act["key"] for act in first["acts"] + rest["acts"]} == {f"k{i}" for i in range(40)}


@pytest.mark.no_store
@pytest.mark.parametrize("target, named", [
    ("/audit?since=1", None), ("/audit?after=x", None), ("/keys", "a b"), ("/keys", "x" * 101)])
def test_what_is_not_understood_is_refused(listener, target, named):
    answer = listener.get(target, [("X-Operator", named)] if named else ())
    assert answer.status == 400 and (
        "X-Operator" if named else "after=ID") in answer.json["detail"]


# ---- limits ----

def test_many_queries_at_once_take_turns(both):
    """found: M3"""
    gateway, admin = both
    for i in range(20):
        gateway.post("/refunds", {}, f"k{i}")
    answers = at_once(24, lambda _: admin.get("/keys?limit=20"))
    assert [len(answer.json["keys"]) for answer in answers] == [20] * 24


@pytest.mark.no_store
@pytest.mark.parametrize("case", [case for case in requests() if case.closed and case.item < 17],
                         ids=str)
def test_hostile_requests_are_refused_here_too(listener, lasting, case):
    with listener.connect() as client:
        try:
            client.send(case.steps[0])
            assert client.answer().status >= 400
        except (Broken, OSError):
            pass  # cut off in its sending is refused, too
    assert lasting[0].process.poll() is None
    assert listener.get("/livez").status == 200


@pytest.mark.no_store
def test_a_body_over_the_limit_is_refused(listener):
    answer = listener.request("POST", "/keys/1/forget",
                              [*JSON, ("Content-Length", str(3 * 1024 * 1024))])
    assert answer.status == 413 and answer["Connection"] == "close"


def test_crowds_and_sleepers_at_this_listener_take_nothing_from_clients(both, upstream):
    """More connections than it takes, heads that never end, and readers that do not read."""
    gateway, admin = both
    open_ones = []
    for number in range(100):
        client = admin.connect()
        open_ones.append(client)
        if number % 2:
            client.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
        else:
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            try:
                client.send(request_bytes("GET", "/metrics", [("Host", "localhost")]) * 200)
            except OSError:
                pass
    for number in range(20):
        assert gateway.post("/refunds", {}, f"k{number}").status == 201
    for _ in range(20):
        assert admin.get("/livez").status == 200, "the oldest made room"
    for client in open_ones:
        client.sock.close()


@pytest.mark.no_store
def test_requests_on_one_connection_are_answered_in_order(listener):
    with listener.connect() as client:
        client.send(b"".join(request_bytes(method, target, [("Host", "localhost")])
                             for method, target in (("GET", "/livez"), ("HEAD", "/metrics"),
                                                    ("GET", "/nothing"), ("GET", "/livez"))))
        assert client.answer("GET").body == b"alive\n"
        assert client.answer("HEAD").status == 200
        assert client.answer("GET").status == 404
        assert client.answer("GET").body == b"alive\n"
