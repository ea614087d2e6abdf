# SPDX-License-Identifier: Apache-2.0
"""A delivery is what it was made as, whatever names and options say by then."""
from __future__ import annotations

import signal
from typing import Callable

import pytest

from pawltest.odd import File
from test_config_cli import ends
from pawltest.upstream import Upstream, say
from pawltest.wire import eventually
from test_webhooks import Outbox, config, sink

pytestmark = [pytest.mark.hooks, pytest.mark.file_only]


@pytest.fixture
def outbox(pawl, receiver: Upstream) -> Callable[..., Outbox]:
    def make(*endpoints, **more) -> Outbox:
        return Outbox(pawl(config(*(endpoints or (sink("billing", receiver),)), **more)))

    return make


def reload(box: Outbox, text: str) -> None:
    before = [line["event"] for line in box.gateway.log].count("config_reloaded")
    box.gateway.configure(text)
    box.gateway.signal(signal.SIGHUP)
    eventually(lambda: [line["event"] for line in box.gateway.log].count("config_reloaded")
               > before, "the reload")


@pytest.mark.parametrize("how", ["reload", "restart"])
def test_a_delivery_has_the_bytes_of_the_config_that_it_was_made_under(outbox, receiver, how):
    """found: R15. The envelope, and the `source` of CloudEvents, are those of later events."""
    own = {"eventId": "id", "from": "source"}
    box = outbox(sink("one", receiver), sink("two", receiver, envelope="cloudevents"),
                 sink("three", receiver, envelope=own), source="/before")
    receiver.default = say(503)
    box.publish("refund.created", "1", "--id", "e1")
    receiver.wait_for(3)
    eventually(lambda: box.states() == ["waiting"] * 3, "the next attempts")
    before = {request.target: request for request in receiver.requests}
    receiver.default = receiver.created
    changed = config(sink("one", receiver, envelope="cloudevents"),
                     sink("two", receiver, envelope="none"), sink("three", receiver, envelope=own),
                     source="/after")
    if how == "reload":
        reload(box, changed)
    else:
        box.gateway.configure(changed)
        box.gateway.restart()
    box.until(*["done"] * 3, step=60)
    again = {request.target: request for request in receiver.requests[3:]}
    assert {path: request.body for path, request in again.items()} == {
        path: request.body for path, request in before.items()}
    assert {path: request["content-type"] for path, request in again.items()} == {
        path: request["content-type"] for path, request in before.items()}
    box.publish("refund.created", "2", "--id", "e2")
    box.until(*["done"] * 6, step=60)
    later = {request.target: request.body for request in receiver.requests[6:]}
    assert later["/two"] == b"2" and later["/three"] == b'{"eventId":"e2","from":"/after"}'
    assert b'"source":"/after"' in later["/one"]


def reason_of(box: Outbox, event: str) -> str | None:
    return next((row["reason"] for row in box.list() if row["key"] == event), None)


def test_what_an_endpoint_does_not_want_any_more_ends_and_holds_nothing(outbox, receiver):
    """Judged when its time comes: by type and tenant. A person may send any type, but not to
    another tenant's endpoint."""
    box = outbox(sink("billing", receiver, ordered=True))
    receiver.default = say(503)
    first = box.publish("refund.created", "1", "--tenant", "m1")
    receiver.wait_for(1)
    box.publish("refund.settled", "2", "--tenant", "m1")
    reload(box, config(sink("billing", receiver, ordered=True, types=["refund.settled"])))
    receiver.default = receiver.created
    box.until("dead", "done", step=30)
    assert reason_of(box, first) == "not_wanted"
    assert "does not want such events" in box.done("list")
    box.done("replay", "--dead")
    box.until("done", "done", step=5)
    assert receiver.requests[-1]["webhook-id"] == first
    receiver.default = say(503)
    third = box.publish("refund.settled", "3", "--tenant", "m1")
    receiver.wait_for(4)
    reload(box, config(sink("billing", receiver, ordered=True, tenants=["m2"])))
    receiver.default = receiver.created
    box.until("dead", "done", "done", step=30)
    box.done("replay", "--dead")
    box.until("dead", "done", "done", step=5)
    assert reason_of(box, third) == "not_wanted" and len(receiver.requests) == 4


@pytest.mark.parametrize("n_left", [230, 10])
def test_an_event_that_was_told_in_part_is_told_once_to_who_was_renamed_since(pawl, receiver,
                                                                              n_left):
    """In parts it is told to more than one commit takes; the others may be all in one."""
    box = Outbox(pawl(config(*(sink(f"e{i}", receiver) for i in range(230))), started=False))
    box.gateway.start(PAWL_CRASH_AT="inside_fan_out")
    event = box.publish()
    box.gateway.wait()
    left = {f"e{i}" for i in range(n_left)}
    store = File(box.gateway.store)
    assert 0 < len(store.sql("SELECT lane FROM pawl_task")) < 230
    begun = {lane for (lane,) in store.sql("SELECT lane FROM pawl_task")}
    assert begun & left
    for (name,) in store.sql("SELECT name FROM pawl_roster WHERE kind <> ''"):
        if name not in left:
            store.sql("DELETE FROM pawl_roster WHERE name = %s", name)
            store.sql("DELETE FROM pawl_task WHERE lane = %s", name)
    box.gateway.configure(config(*(
        sink(f"f{i}", receiver, url=f"http://127.0.0.1:{receiver.port}/e{i}", formerly=[f"e{i}"])
        for i in range(n_left))))
    box.gateway.start()
    box.until(*["done"] * n_left, step=5)
    assert sorted((request["webhook-id"], request.target) for request in receiver.done) == sorted(
        (event, f"/{name}") for name in left)


def test_however_many_endpoints_a_store_knows_the_last_one_is_told(outbox, receiver):
    """Those of configs of before are among them. Found when there were more than 10,000."""
    box = outbox(sink("before", receiver))
    box.publish()
    box.until("done")
    box.gateway.stop()
    File(box.gateway.store).sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10500)"
        " INSERT INTO pawl_endpoint (id, version, name, disabled, failing_since, why,"
        " changed_at) SELECT i, 1, 'old' || i, 0, 0, '', 1 FROM n")
    box.gateway.configure(config(sink("before", receiver), sink("after", receiver)))
    box.gateway.start()
    box.done("endpoint", "disable", "before")
    event = box.publish()
    rows = box.until("done", "done", "dead", step=1)
    assert [row["lane"] for row in rows if row["state"] == "dead"] == ["before"]
    assert (receiver.requests[-1]["webhook-id"], receiver.requests[-1].target) == (event, "/after")


WAITS = "an endpoint 'crm', which is in no config in force: they wait for one that has it"


def test_what_waits_for_an_endpoint_that_no_config_has_is_told_at_the_start(outbox, receiver):
    """And at a test; not what is stored, was renamed, or is allowed."""
    box = outbox(sink("crm", receiver), sink("billing", receiver))
    box.done("endpoint", "add", "--name", "stored", "--types", "refund.*", "--url",
             f"http://127.0.0.1:{receiver.port}/stored")
    receiver.default = say(503)
    box.publish()
    receiver.wait_for(3)
    eventually(lambda: box.states() == ["waiting"] * 3, "the next attempts")
    without = config(sink("billing", receiver))
    box.gateway.configure(without)
    assert "[endpoint-unserved]" not in ends(box.gateway.config, "--test").stderr  # it is running
    box.gateway.kill9()
    for text, is_told in (("allow: [endpoint-unserved]\n" + without, False),
                          (config(sink("sales", receiver, formerly=["crm"])), False),
                          (without, True), ("tenant: none\n", True)):
        begin = len(box.gateway.printed)
        box.gateway.configure(text)
        box.gateway.start()
        box.gateway.stop()
        told = [line for line in box.gateway.printed[begin:] if "[endpoint-unserved]" in line]
        assert [WAITS in line for line in told if "'crm'" in line] == [True] * is_told, told
        assert not any("'stored'" in line for line in told)
        assert (WAITS in ends(box.gateway.config, "--test").stderr) == is_told


def test_deliveries_of_before_that_are_older_than_their_endpoint_s_row_are_made(outbox, receiver):
    """An older pawl told the endpoints of a first config before all of them had rows, and did not
    write down whose a delivery is."""
    box = outbox()
    receiver.default = say(503)
    box.publish()
    receiver.wait_for(1)
    box.gateway.stop()
    store = File(box.gateway.store)
    store.sql("UPDATE pawl_task SET endpoint = 0")
    store.sql("UPDATE pawl_endpoint SET id = (SELECT max(id) FROM pawl_task) + 1000")
    receiver.default = receiver.created
    box.gateway.start()
    box.until("done", step=30)


def test_a_delivery_that_says_another_event_stops_none(outbox, receiver):
    """It has the event's key, and is not found by its row."""
    box = outbox()
    first = box.publish()
    box.until("done")
    box.gateway.stop()
    store = File(box.gateway.store)
    store.sql("UPDATE pawl_task SET event = 5")
    store.sql("UPDATE pawl_event SET is_new = 1, fanned_at = 0, gone_at = 9223372036854775807")
    box.gateway.start()
    second = box.publish()
    box.until("done", "done")
    eventually(lambda: store.sql("SELECT sum(is_new) FROM pawl_event") == [(0,)], "its mark")
    assert [request["webhook-id"] for request in receiver.requests] == [first, second]
