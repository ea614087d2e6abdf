# SPDX-License-Identifier: Apache-2.0
"""Natural keys, state machines, and events published and received in an application's transaction;
and the second identity of an operation."""
from __future__ import annotations

import json

import pytest

from pawltest.gateway import Relay
from pawltest.upstream import Upstream
from pawltest.wire import eventually
from test_functions import Application, app, connecting_app, database, installed  # noqa: F401

MACHINE = [("", "offer", "offered"), ("offered", "accept", "accepted"),
           ("offered", "pass", "passed"), ("offered", "not_now", "not_now"),
           ("accepted", "mutual_accept", "matched"), ("matched", "unmatch", "closed")]


@pytest.fixture
def machine(database):  # noqa: F811
    for row in MACHINE:
        database.sql("INSERT INTO pawl.machine VALUES ('offers', %s, %s, %s)", *row)


def move(app: Application, action: str, action_id: str,  # noqa: F811
         seq: int | None = None) -> tuple:
    (told,) = app.sql("SELECT decision, replayed, from_state, to_state FROM pawl.transition('m1',"
                      " 'offers', 'o1', %s, %s, %s)", action, action_id, seq)
    app.connection.commit()
    return told


# ---- claims ----

def claim(app: Application, row: str) -> tuple:  # noqa: F811
    (told,) = app.sql("SELECT claimed, existing FROM pawl.claim('m1', 'product', 'P1', %s)", row)
    app.connection.commit()
    return told


def test_a_natural_key_is_claimed_once_and_tells_the_row_that_has_it(app):  # noqa: F811
    assert claim(app, '{"id": 1}') == (True, None)
    assert claim(app, '{"id": 2}') == (False, {"id": 1})


def test_a_claim_that_is_rolled_back_is_free(app):  # noqa: F811
    app.sql("SELECT pawl.claim('m1', 'product', 'P1', '{}')")
    app.connection.rollback()
    assert claim(app, '{"id": 2}') == (True, None)


# ---- machines ----

def test_t9_each_action_is_told_the_same_twice_and_moves_once(app, machine):  # noqa: F811
    path = (("offer", "", "offered"), ("accept", "offered", "accepted"),
            ("mutual_accept", "accepted", "matched"), ("unmatch", "matched", "closed"))
    for action, before, after in path:
        assert move(app, action, action) == ("moved", False, before, after)
        assert move(app, action, action) == ("moved", True, before, after)
    assert move(app, "accept", "accept") == ("moved", True, "offered", "accepted")


def test_t9_a_conflict_names_the_state_and_stays_one(app, machine, database):  # noqa: F811
    move(app, "offer", "a1")
    move(app, "pass", "a2")
    assert move(app, "accept", "a3") == ("conflict", False, "passed", "passed")
    database.sql("UPDATE pawl.state SET state = 'offered'")
    assert move(app, "accept", "a3") == ("conflict", True, "passed", "passed")
    assert move(app, "accept", "a4") == ("moved", False, "offered", "accepted")


def test_t9_an_event_that_is_not_newer_than_the_state_is_stale(app, machine):  # noqa: F811
    move(app, "offer", "a1", 5)
    assert move(app, "accept", "a2", 4)[0] == "stale"
    assert move(app, "accept", "a3", 5)[0] == "stale"
    assert move(app, "accept", "a4", 6)[0] == "moved"


def test_an_action_id_of_another_action_and_an_action_that_is_none_are_refused(
        app, machine):  # noqa: F811
    move(app, "offer", "a1")
    assert move(app, "accept", "a1")[0] == "mismatch"
    assert app.refused("SELECT pawl.transition('m1', 'offers', 'o1', 'fly', 'a2')") == "22023"
    assert app.refused("SELECT pawl.transition('m1', 'offers', '', 'offer', 'a2')") == "PW004"


def test_an_action_that_was_told_since_the_snapshot_is_40001(
        app, machine, connecting_app):  # noqa: F811
    move(app, "offer", "a1")
    late = connecting_app()
    late.connection.set_session(isolation_level="REPEATABLE READ")
    late.sql("SELECT 1")
    move(app, "offer", "a2")
    assert late.refused(
        "SELECT pawl.transition('m1', 'offers', 'o1', 'offer', 'a2')") == "40001"


# ---- events ----

def test_an_event_is_published_with_the_transaction_and_once(app, database):  # noqa: F811
    publish = "SELECT pawl.publish('refund.created', 'evt_1', '{\"a\": 1}')"
    app.sql(publish)
    app.connection.rollback()
    assert [app.one(publish), app.one(publish)] == ["stored", "replayed"]
    app.connection.commit()
    assert app.refused("SELECT pawl.publish('refund.created', 'evt_1', '{\"a\": 2}')") == "23505"
    assert app.refused("SELECT pawl.publish('refund', 'evt_1', '{\"a\": 1}')") == "23505"
    assert app.refused("SELECT pawl.publish('refund.created', 'evt 1', '{}')") == "PW004"
    assert app.refused("SELECT pawl.publish('refund.', 'evt_2', '{}')") == "22023"
    assert database.sql("SELECT convert_from(event_id, 'UTF8'), convert_from(type, 'UTF8'),"
                        " convert_from(data, 'UTF8'), is_new FROM pawl.event") \
        == [("evt_1", "refund.created", '{"a": 1}', 1)]


def test_a_serve_without_an_upstream_delivers_it(app, database, clock, tmp_path):  # noqa: F811
    receiver = Upstream()
    endpoint = {"name": "billing", "url": f"http://127.0.0.1:{receiver.port}/", "types": ["*"],
                "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
    webhooks = {"allow": ["127.0.0.0/8"], "allow_http": True, "endpoints": [endpoint]}
    relay = Relay(tmp_path, 0, f"webhooks: {json.dumps(webhooks)}\n", clock)
    relay.move_to(database.url).start()
    app.sql("SELECT pawl.publish('refund.created', 'evt_0', '{}')")
    app.connection.rollback()
    app.sql("SELECT pawl.publish('refund.created', 'evt_1', '{}')")
    app.connection.commit()
    eventually(lambda: receiver.requests, "the event")
    assert [request["webhook-id"] for request in receiver.requests] == ["evt_1"]
    relay.close()
    receiver.stop()


def test_an_event_of_another_tenant_is_never_taken_for_the_same(app, database):  # noqa: F811
    def publish(tenant: str | None) -> str:
        return "SELECT pawl.publish('a', 'evt_1', '{}', %s)" % (f"'{tenant}'" if tenant else "NULL")

    assert [app.one(publish("m1")), app.one(publish("m1"))] == ["stored", "replayed"]
    app.connection.commit()
    assert app.refused(publish("m2")) == "23505"
    assert app.refused(publish(None)) == "23505"


@pytest.mark.parametrize("tenant", ["é", "a\nb", "m" * 1025, "credential:x"])
def test_an_event_of_a_tenant_that_no_gateway_could_have_is_refused(app, tenant):  # noqa: F811
    assert app.refused("SELECT pawl.publish('a', 'evt_1', '{}', %s)", tenant) == "PW004"


def test_an_event_that_is_kept_for_no_time_is_refused(app):  # noqa: F811
    """It would be new each time."""
    assert app.refused("SELECT pawl.receive('payments', 'ev_001', keep => '0')") == "22023"


def test_an_event_is_received_once_for_as_long_as_it_is_kept(app, database):  # noqa: F811
    def receive(source: str, payload_hash: str | None = None) -> str:
        decision = app.one("SELECT decision FROM pawl.receive(%s, 'ev_001', %s)", source,
                           payload_hash)
        app.connection.commit()
        return decision

    app.sql("SELECT pawl.receive('payments', 'ev_001')")
    app.connection.rollback()
    assert [receive("payments", "a" * 64), receive("payments", "a" * 64)] == ["proceed", "replay"]
    assert receive("payments", "b" * 64) == "mismatch"
    assert receive("other") == "proceed"
    database.sql("UPDATE pawl.inbox SET gone_at = 1 WHERE source = 'payments'")
    assert receive("payments") == "proceed"
    database.sql("UPDATE pawl.inbox SET gone_at = 1")
    assert app.one("SELECT pawl.maintain()") == 2


def test_the_views_have_the_columns_of_the_usual_tables(app, database):  # noqa: F811
    app.do("k1")
    app.sql("SELECT pawl.receive('payments', 'ev_001')")
    app.connection.commit()
    database.sql(f"ALTER ROLE postgres IN DATABASE {database.name} SET search_path = pawl")
    assert len(database.sql("SELECT key,payload_hash,status,result_ref,http_code,created_at,"
                            "expires_at FROM idempotency_keys")) == 1
    assert len(database.sql("SELECT event_id,source,payload_hash,received_at,processed_at,result"
                            " FROM inbox_events")) == 1


# ---- once ----

def test_a_once_value_is_refused_replayed_or_acknowledged_under_another_key(app):  # noqa: F811
    app.do("k1", once="pay_77", once_ttl=None, ttl="1 hour")
    assert app.decision("k2", once="pay_77", duplicate="reject") == "duplicate"
    assert app.begin("k2", once="pay_77")["body"] == b'{"id": 7}'
    acknowledged = app.begin("k3", once="pay_77", duplicate="ack")
    assert (acknowledged["decision"], acknowledged["http_code"]) == ("replay", 204)
    app.connection.commit()
    assert app.decision("k1", once="pay_77", duplicate="reject") == "replay"
    assert app.decision("k2") == "replay" and app.begin("k3")["http_code"] == 204
    assert app.decision("k1", once="pay_78") == "mismatch"
    assert app.decision("k4", once="pay_78") == "proceed"


def test_a_value_changes_hands_where_its_holder_surely_did_nothing(app, database):  # noqa: F811
    token = app.begin("k1", once="pay_77")["token"]
    assert app.begin("k2", once="pay_77")["decision"] == "begun_here"
    app.one("SELECT pawl.release(%s)", token)
    app.connection.commit()
    app.do("k2", once="pay_77")
    assert app.refused("SELECT pawl.complete(%s)", token) == "PW001"
    app.do("k3", 422, once="pay_78")
    app.do("k4", once="pay_78")
    assert app.decision("k3", once="pay_78") == "replay"
    app.one("SELECT pawl.maintain()")
    app.connection.commit()
    assert database.sql("SELECT sum(pending), sum(complete), sum(failed), sum(released) FROM"
                        " pawl.tally") == [(0, 2, 1, 0)]
