# SPDX-License-Identifier: Apache-2.0
"""Endpoints that are made by a command or over HTTP: they stay in the store, are told of events
like those of a config, and their secrets rotate meanwhile."""
from __future__ import annotations

import json
import signal
import sqlite3
from typing import Any, Iterator

import pytest

from conftest import standing
from pawltest.admin import Admin, with_admin
from pawltest.gateway import free_port
from pawltest.upstream import Upstream, say
from pawltest.wire import eventually
from test_webhooks import DAY, OLD, SECRET, Outbox, config, signed, sink

pytestmark = pytest.mark.hooks


@pytest.fixture
def admin(pawl) -> tuple[Outbox, Admin]:
    gateway, listener = with_admin(pawl, config())
    return Outbox(gateway), listener


@pytest.fixture
def box(admin) -> Outbox:
    return admin[0]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Outbox, Admin]]:
    """One for all that is refused, which has no endpoint ever."""
    port = free_port()
    with standing(tmp_path_factory.mktemp("bare"), f"admin: 127.0.0.1:{port}\n{config()}") as made:
        yield Outbox(made[0]), Admin(port)


def add(box: Outbox, receiver: Upstream, name: str = "billing", *more: str) -> str:
    return box.done("endpoint", "add", "--name", name, "--url",
                    f"http://127.0.0.1:{receiver.port}/{name}", "--types", "refund.*,match.made",
                    *more)


def refused(box: Outbox, *arguments: str, code: int = 65) -> str:
    ran = box.run("endpoint", *arguments)
    assert ran.returncode == code, ran
    return ran.stderr


def listed(box: Outbox) -> dict[str, dict[str, Any]]:
    rows = [json.loads(line) for line in box.done("endpoint", "list", "--json").splitlines()]
    return {row["name"]: row for row in rows}


def shown(box: Outbox, name: str = "billing") -> dict[str, Any]:
    return json.loads(box.done("endpoint", "show", name, "--json"))


# ---- by command ----

def test_an_endpoint_that_was_added_is_told_without_a_restart(box, receiver):
    assert add(box, receiver, "billing", "--secret", SECRET) == "endpoint billing is added\n"
    event = box.publish()
    box.until("done", step=1)
    (request,) = receiver.requests
    assert request["webhook-id"] == event and request["webhook-signature"] == signed(request)
    assert request.target == "/billing"
    row = shown(box)
    assert (row["origin"], row["enabled"], row["secrets"]) == (
        "stored", True, [{"ends_with": SECRET[-4:], "until": None}])
    assert row["settings"] == {"url": f"http://127.0.0.1:{receiver.port}/billing",
                               "types": ["refund.*", "match.made"]}
    assert SECRET not in box.done("endpoint", "show", "billing") + box.done("endpoint", "list")
    box.gateway.restart()
    box.publish()
    box.until("done", "done", step=1)


def test_a_secret_is_minted_and_shown_once(box, receiver):
    said = add(box, receiver)
    secret = said.rsplit(" ", 1)[1].strip()
    assert "not shown again" in said and secret.startswith("whsec_")
    box.publish()
    box.until("done", step=1)
    (request,) = receiver.requests
    assert request["webhook-signature"] == signed(request, secret)
    assert secret not in box.done("endpoint", "show", "billing", "--json")


def test_other_options_are_those_of_the_config(box, receiver):
    add(box, receiver, "billing", "--secret", SECRET, "--option", "envelope=none",
        "--option", 'tenants=["m1"]', "--option", "timeout=2s", "--option", "ordered=true")
    assert shown(box)["settings"] | {"url": ""} == {
        "url": "", "types": ["refund.*", "match.made"], "envelope": "none", "tenants": ["m1"],
        "timeout": "2s", "ordered": True}
    box.publish("refund.created", '{"a": 1.0}', "--tenant", "m2")
    box.publish("refund.created", '{"a": 2.0}', "--tenant", "m1")
    box.until("done", step=1)
    assert [request.body for request in receiver.requests] == [b'{"a": 2.0}']


@pytest.mark.no_store
@pytest.mark.parametrize("more, what", [
    (("--option", "fly=1"), "fly: unknown"), (("--option", "timeout=soon"), "timeout: "),
    (("--option", "schedule=[]"), "schedule: "), (("--secret", "a b"), "the secret "),
    (("--option", "name=other"), "duplicate"), (("--option", "url=ftp://x/"), "duplicate"),
    (("--option", "secret=x"), "duplicate"),
    (("--secret", "whsec_AA==", "--secret", "x"), "secret")],
    ids=["unknown", "duration", "empty", "secret", "name", "url", "secrets", "one-of-two"])
def test_what_cannot_be_is_refused(bare, more, what):
    with_secret = () if "--secret" in more else ("--secret", SECRET)
    said = refused(bare[0], "add", "--name", "billing", "--url", "http://127.0.0.1:9/",
                   "--types", "*", *with_secret, *more)
    assert what in said and listed(bare[0]) == {}


@pytest.mark.no_store
@pytest.mark.parametrize("url, what", [
    ("ftp://hooks.example/", "URL"), ("https://u:p@hooks.example/", "has credentials"),
    ("https://0x7f.1/", "four decimal numbers"), ("${HOME}", "URL"), ("hooks", "URL")])
def test_a_url_that_no_config_could_allow_is_refused_at_once(bare, url, what):
    said = refused(bare[0], "add", "--name", "x", "--url", url, "--types", "*")
    assert what in said and "/root" not in said


def test_nothing_of_the_environment_or_of_files_gets_in(box, receiver, tmp_path):
    (tmp_path / "key").write_text(SECRET)
    add(box, receiver, "billing", "--secret", f"file:{tmp_path}/key", "--option",
        'tenants=["${HOME}"]')
    assert shown(box)["settings"]["tenants"] == ["${HOME}"]
    box.publish("refund.created", "1", "--tenant", "${HOME}")
    box.until("done", step=1)
    assert receiver.requests[0]["webhook-signature"] == signed(receiver.requests[0])


def test_a_private_address_is_judged_when_it_is_sent_to(pawl, receiver):
    box = Outbox(pawl(config(allow=[])))
    add(box, receiver)
    box.publish()
    assert box.until("dead", step=1)[0]["reason"] == "address_refused"
    assert not receiver.requests


def test_a_command_is_misused(box):
    for wrong in (("add",), ("add", "--name", "x"), ("rotate",), ("show",), ("list", "x"), ("fly",),
                  ("rotate", "x", "--overlap", "soon"), ("add", "--name", "x", "--url", "u",
                                                         "--types", "*", "--option", "x")):
        refused(box, *wrong, code=2)
    for act in ("show", "enable", "disable", "rotate", "remove"):
        refused(box, act, "nobody", code=1)


# ---- one set of names ----

def test_a_name_is_one_endpoint_s(pawl, receiver):
    gateway = pawl(config(sink("billing", receiver)))
    box = Outbox(gateway)
    eventually(lambda: listed(box), "the config's endpoint in the store")
    assert (listed(box)["billing"]["origin"], shown(box)["enabled"]) == ("config", True)
    assert "there is an endpoint `billing`" in refused(
        box, "add", "--name", "billing", "--url", "https://x.example/", "--types", "*")
    assert "is changed there" in refused(box, "rotate", "billing")
    assert "of a config that is in force" in refused(box, "remove", "billing")
    add(box, receiver, "ledger")
    gateway.configure(config(sink("ledger", receiver)))
    gateway.signal(signal.SIGHUP)
    eventually(lambda: any("the store has an endpoint ledger, too" in json.dumps(line)
                           for line in gateway.log), "the refused reload")
    gateway.configure(config())
    gateway.restart()
    box.done("endpoint", "remove", "billing", "--force")
    assert list(listed(box)) == ["ledger"]


def test_a_start_is_refused_where_a_config_name_is_stored(pawl, receiver):
    gateway = pawl(config())
    add(Outbox(gateway), receiver, "ledger")
    gateway.stop()
    for names, problem in (({}, "the store has an endpoint ledger, too"), (
            {"formerly": ["ledger"]}, "`formerly` of sales names ledger, which is an endpoint of "
            "the store .* once nothing waits for it, `pawl webhook endpoint remove ledger`")):
        gateway.configure(config(sink("sales" if names else "ledger", receiver, **names)))
        with pytest.raises(AssertionError, match=problem):
            gateway.start()


# ---- its life ----

def test_a_secret_rotates_with_an_overlap(admin, receiver):
    box, listener = admin
    add(box, receiver, "billing", "--secret", OLD)
    said = box.done("endpoint", "rotate", "billing", "--secret", SECRET)
    assert said == "endpoint billing is rotated\n"
    new, old = shown(box)["secrets"]
    assert (new["until"], old["ends_with"]) == (None, OLD[-4:]) and old["until"]
    box.publish()
    box.until("done", step=1)
    both = receiver.requests[0]["webhook-signature"].split()
    assert both == [signed(receiver.requests[0], secret) for secret in (SECRET, OLD)]
    box.gateway.clock.step(DAY + 5)
    box.publish()
    box.until("done", "done", step=1)
    assert receiver.requests[1]["webhook-signature"] == signed(receiver.requests[1])
    assert len(listener.get("/endpoints/billing").json["secrets"]) == 1
    assert "already" in refused(box, "rotate", "billing", "--secret", SECRET)
    rotated = post(listener, "/endpoints/billing/rotate", {"overlap": "0s"}).json
    assert rotated["secrets"] == [{"ends_with": rotated["secret"][-4:], "until": None}]


def test_an_ed25519_key_is_not_replaced_by_one_that_is_minted(box, receiver):
    key = "whsk_" + "A" * 43 + "="
    add(box, receiver, "billing", "--secret", key)
    assert "Ed25519" in refused(box, "rotate", "billing")
    assert "public key" in refused(box, "rotate", "billing", "--secret", "whpk_" + "A" * 43 + "=")
    box.publish()
    box.until("done", step=1)
    assert receiver.requests[0]["webhook-signature"].startswith("v1a,")


def test_so_many_secrets_sign_and_no_more(box, receiver):
    add(box, receiver)
    for _ in range(7):
        box.done("endpoint", "rotate", "billing")
    assert "8 secrets sign yet" in refused(box, "rotate", "billing")
    box.publish()
    box.until("done", step=1)
    assert len(receiver.requests[0]["webhook-signature"].split()) == 8
    box.done("endpoint", "rotate", "billing", "--overlap", "0")
    assert len(shown(box)["secrets"]) == 1


def test_a_disabled_endpoint_is_told_again_once_it_is_enabled(box, receiver):
    add(box, receiver)
    receiver.then(say(410))
    box.publish()
    assert box.until("dead", step=1)[0]["reason"] == "gone"
    assert "disabled: it responded 410" in box.done("endpoint", "list")
    box.done("endpoint", "enable", "billing")
    box.gateway.clock.step(2)
    box.done("replay", "--dead", "--endpoint", "billing")
    box.until("done", step=1)


def test_an_event_is_told_by_the_state_that_was_set_before_it_was_published(admin, receiver):
    box, listener = admin
    add(box, receiver)
    for n in range(3):
        post(listener, "/endpoints/billing/disable")
        post(listener, "/events", {"type": "refund.created", "id": f"off-{n}"})
        box.until(*["dead"] * (n + 1), *["done"] * n, step=1)
        post(listener, "/endpoints/billing/enable")
        post(listener, "/events", {"type": "refund.created", "id": f"on-{n}"})
        box.until(*["dead"] * (n + 1), *["done"] * (n + 1), step=1)


def test_what_is_due_to_an_endpoint_that_was_removed_is_dead(box, receiver):
    add(box, receiver)
    receiver.default = say(503)
    box.publish()
    receiver.wait_for(1)
    assert box.done("endpoint", "remove", "billing") == "endpoint billing is removed\n"
    assert box.until("dead", step=30)[0]["reason"] == "endpoint_removed"
    assert box.done("endpoint", "list") == ""
    receiver.default = receiver.created
    add(box, receiver)
    box.gateway.clock.step(2)
    box.done("replay", "--dead")
    box.until("done", step=1)


def test_a_name_that_is_used_again_gets_no_delivery_of_the_endpoint_before(box, receiver):
    """found: R9"""
    add(box, receiver)
    receiver.default = say(503)
    box.publish()
    receiver.wait_for(1)
    box.done("endpoint", "remove", "billing")
    receiver.default = receiver.created
    box.done("endpoint", "add", "--name", "billing", "--types", "other.*",
             "--url", f"http://127.0.0.1:{receiver.port}/another")
    assert box.until("dead", step=30)[0]["reason"] == "endpoint_removed"
    assert {request.target for request in receiver.requests} == {"/billing"}


def test_a_delivery_that_fails_after_its_endpoint_was_removed_does_not_bring_it_back(box, receiver):
    add(box, receiver)
    gate = receiver.gate()
    receiver.then(say(500, gate=gate))
    box.publish()
    receiver.wait_for(1)
    box.done("endpoint", "remove", "billing")
    gate.open()
    assert box.until("dead", step=30)[0]["reason"] == "endpoint_removed"
    assert box.done("endpoint", "list") == ""


def test_each_act_is_written_down(box, receiver):
    add(box, receiver)
    for act in ("disable", "disable", "enable", "rotate", "remove"):
        box.done("endpoint", act, "billing")
    acts = [json.loads(line) for line in box.done("audit", "--json").splitlines()]
    assert [(act["act"], act["from"], act["to"]) for act in acts] == [
        ("add", None, "enabled"), ("disable", "enabled", "disabled"),
        ("enable", "disabled", "enabled"), ("rotate", "enabled", "enabled"),
        ("remove", "enabled", None)]
    assert {act["lane"] for act in acts} == {"billing"}
    assert " remove billing: enabled\n" in box.done("audit")


# ---- over HTTP ----

def post(listener: Admin, path: str, body: Any = None) -> Any:
    return listener.request("POST", path, [("Content-Type", "application/json")],
                            b"" if body is None else json.dumps(body).encode())


def test_an_endpoint_is_made_and_changed_over_http(admin, receiver):
    box, listener = admin
    wanted = {"name": "billing", "url": f"http://127.0.0.1:{receiver.port}/billing",
              "types": ["refund.*"], "in_flight": 2}
    made = post(listener, "/endpoints", wanted)
    assert made.status == 201 and made.json["secret"].startswith("whsec_")
    assert made.json["settings"] == {key: wanted[key] for key in ("url", "types", "in_flight")}
    again = post(listener, "/endpoints", wanted)
    assert again.status == 409 and "there is an endpoint billing" in again.json["detail"]
    (row,) = listener.get("/endpoints").json["endpoints"]
    assert row == listener.get("/endpoints/billing").json and "secret" not in row
    box.publish()
    box.until("done", step=1)
    assert receiver.requests[0]["webhook-signature"] == signed(receiver.requests[0],
                                                                made.json["secret"])
    assert post(listener, "/endpoints/billing/disable").json["enabled"] is False
    assert post(listener, "/endpoints/billing/enable").json["enabled"] is True
    rotated = post(listener, "/endpoints/billing/rotate", {"overlap": "0s"})
    assert len(rotated.json["secrets"]) == 1 and rotated.json["secret"] != made.json["secret"]
    given = post(listener, "/endpoints/billing/rotate", {"secret": SECRET})
    assert "secret" not in given.json and given.json["secrets"][0]["ends_with"] == SECRET[-4:]
    assert post(listener, "/endpoints/billing/remove").json == {"name": "billing", "removed": True}
    assert listener.get("/endpoints/billing").status == 404
    acts = [json.loads(line) for line in box.done("audit", "--json").splitlines()]
    assert {act["actor"].split(":")[0] for act in acts} == {"admin"} and len(acts) == 6
    assert len(box.gateway.lines("endpoint_act")) == 7


@pytest.mark.no_store
@pytest.mark.parametrize("body, what", [
    ([], "not an object"), ({}, "name: "), ({"name": "x"}, "has no url"),
    ({"name": "x", "url": "https://h.example/", "types": ["*"], "secret": "file:/etc/passwd"},
     "the secret "),
    ({"name": "x", "url": "https://h.example/", "types": ["*"], "secret": "whsec_AA==\n0 x"},
     "secret: "),
    ({"name": "x", "url": "https://h.example/", "types": ["a b"]}, "types: "),
    ({"name": "x", "url": "https://h.example/", "types": ["*"], "tenants": ["t" * 20_000]},
     "longer than 16KiB"),
    ({"name": "", "url": "https://h.example/", "types": ["*"]}, "name: "),
    ({"name": "x\n", "url": "https://h.example/", "types": ["*"]}, "name: "),
    ({"name": "x", "url": "https://h.example/", "types": ["*"], "fly": "${HOME}"}, "fly: unknown")],
    ids=["list", "empty", "no-url", "file", "line", "type", "long", "no-name", "name", "unknown"])
def test_what_is_no_endpoint_is_refused_over_http(bare, body, what):
    box, listener = bare
    answer = post(listener, "/endpoints", body)
    assert answer.status == 400 and what in answer.json["detail"], answer.json
    assert "/root" not in answer.json["detail"] and "daemon" not in answer.json["detail"]
    assert listed(box) == {}


def test_a_page_that_is_not_there_is_named(admin, receiver):
    box, listener = admin
    add(box, receiver)
    for path, status in (("/endpoints/x", 404), ("/endpoints/x/enable", 405), ("/endpointsx", 404),
                         ("/endpoints/", 404)):
        assert listener.get(path).status == status, path
    for path, status in (("/endpoints/x/enable", 404), ("/endpoints/billing/fly", 404),
                         ("/endpoints/billing", 405)):
        assert post(listener, path).status == status, path
    bad = post(listener, "/endpoints/billing/rotate", {"overlap": "soon"})
    assert bad.status == 400 and "overlap" in bad.json["detail"]
    assert listener.request("POST", "/endpoints", body=b"{}").status == 415


# ---- what may go wrong ----

@pytest.mark.file_only
def test_one_that_this_version_cannot_read_waits_alone(admin, receiver):
    """found: R25. A newer version wrote it: its events wait for one that can read it, others are
    told; it is named, counted, and not given up."""
    box, listener = admin
    add(box, receiver)
    add(box, receiver, "ledger")
    box.gateway.stop()
    with sqlite3.connect(box.gateway.store) as store:
        id_, settings = store.execute("SELECT id, settings FROM pawl_endpoint_settings"
                                      " ORDER BY id").fetchone()
        newer = json.dumps({**json.loads(settings), "newer": True})
        store.execute("UPDATE pawl_endpoint_settings SET settings = ? WHERE id = ?", (newer, id_))
    box.gateway.start()
    listener.until_ready()
    event = box.publish()
    box.publish("other.type")
    rows = {row["lane"]: row for row in box.until("done", "waiting", step=1)}
    assert rows["ledger"]["state"] == "done" and rows["billing"]["key"] == event
    eventually(lambda: [(line["table"], line["id"]) for line in box.gateway.lines("row_held")]
               == [("pawl_endpoint_settings", id_)],
               "its line")
    assert listener.value("pawl_rows_held", table="pawl_endpoint_settings") == 1
    for _ in range(50):
        box.gateway.clock.step(1800)
    assert sorted(box.states()) == ["done", "waiting"] and len(receiver.requests) == 1
    box.gateway.stop()
    with sqlite3.connect(box.gateway.store) as store:
        store.execute("UPDATE pawl_endpoint_settings SET settings = ? WHERE id = ?",
                      (settings, id_))
    box.gateway.start()
    listener.until_ready()
    box.until("done", "done", step=1)
    eventually(lambda: listener.value("pawl_rows_held", table="pawl_endpoint_settings") == 0,
               "none is held")


def test_an_https_endpoint_may_come_when_there_was_none(box, receiver):
    add(box, receiver, "billing", "--secret", SECRET)
    box.done("endpoint", "add", "--name", "tls", "--url", f"https://127.0.0.1:{receiver.port}/",
             "--types", "*")
    box.publish()
    box.until("done", "waiting", step=1)
    (at,) = (i for i, row in enumerate(box.list()) if row["lane"] == "tls")
    eventually(lambda: box.show(at)["history"], "the attempt's end")
    assert box.show(at)["history"][0]["status"] is None


def test_only_so_many_are_stored(admin, receiver):
    box, listener = admin
    wanted = {"url": f"http://127.0.0.1:{receiver.port}/x", "types": ["a.b"], "secret": SECRET}
    for i in range(1000):
        assert post(listener, "/endpoints", {"name": f"e{i}", **wanted}).status == 201
    refused_ = post(listener, "/endpoints", {"name": "one-more", **wanted})
    assert refused_.status == 400 and "there are 1000 endpoints" in refused_.json["detail"]
    assert len(listener.get("/endpoints").json["endpoints"]) == 1000
