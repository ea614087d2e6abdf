# SPDX-License-Identifier: Apache-2.0
"""A portal on the way, such as the login page of a hotel's network, takes the place of a service
over http: what it says is no response, and nothing waits less for it."""
from __future__ import annotations

import json
from pathlib import Path

import pytest

from pawltest.gateway import Clock, make_store
from pawltest.upstream import Reply, Upstream, closes, say
from test_each_send import Sending
from test_queue_drain import Drained
from test_send import Sender, keys, once_for_each_key

pytestmark = [pytest.mark.hooks, pytest.mark.file_only]

PAGE = b"<html>Welcome to our hotel</html>"
HTML = ("Content-Type", "text/html; charset=utf-8")
LOGIN = Reply(302, PAGE, (("Location", "http://portal.example/"), HTML))


@pytest.fixture
def queue(tmp_path: Path, clock: Clock, upstream: Upstream) -> Drained:
    return Drained(make_store(tmp_path / "queue.db"), clock, upstream)


@pytest.fixture
def sender(tmp_path: Path, clock: Clock, upstream: Upstream) -> Sender:
    upstream.default = once_for_each_key(upstream)
    return Sender(tmp_path, clock, f"http://127.0.0.1:{upstream.port}/refunds")


def page(status: int, *headers: tuple[str, str]) -> Reply:
    return Reply(status, PAGE, (HTML, *headers))


def test_what_a_portal_says_waits_in_the_queue_and_counts_no_attempt(
        queue: Drained, upstream: Upstream) -> None:
    """found: J6. Neither done nor dead, and the whole time stays."""
    json_id, key = queue.add("--json", '{"a":1}', "-X", "POST", queue.url)
    for reply in LOGIN, page(200), page(511, ("Retry-After", "86000")):
        before = len(upstream.requests)
        upstream.default = lambda _, reply=reply: reply
        queue.drain("--once", code=75)
        assert len(upstream.requests) > before
        shown = queue.show(json_id)
        assert (shown["state"], shown["reason"], shown["attempts"]) == ("waiting", "portal", 0)
        assert "hotel" not in queue.did("show", json_id), "its page is no response"
        queue.clock.advance(600)
    form_id, _ = queue.add("-d", "a=1", queue.url + "/form")
    upstream.default = lambda request: page(200) if request.target.endswith("/form") else LOGIN
    queue.drain("--once", code=75)
    assert queue.show(form_id)["state"] == "done", "a form may be answered by a page"
    upstream.default = lambda _: say(201)
    queue.clock.advance(600)
    queue.drain()
    shown = queue.show(json_id)
    assert (shown["state"], shown["attempts"]) == ("done", 1)
    assert {request["Idempotency-Key"] for request in upstream.requests
            if request.target == "/operations"} == {key}


def test_a_redirect_ends_what_names_it(queue: Drained, upstream: Upstream) -> None:
    final, _ = queue.add("--final-on", "302", "-d", "a", queue.url)
    done, _ = queue.add("--done", "303", "-d", "b", queue.url)
    upstream.default = lambda request: say(302 if request.body == b"a" else 303, None)
    queue.drain(code=1)
    assert [queue.show(one)["state"] for one in (final, done)] == ["dead", "done"]


def test_send_tries_again_after_a_portal_and_ends_as_one_that_reached_nobody(
        sender: Sender, upstream: Upstream) -> None:
    for n, reply in enumerate([LOGIN, page(200), page(511)]):
        upstream.then(reply)
        sent = sender.post(key=f"k{n}")
        assert (sent.returncode, json.loads(sent.stdout)) == (0, {"id": f"k{n}"}), sent
        assert "portal" in sent.stderr and keys(upstream)[-2:] == [f"k{n}"] * 2
    upstream.default = lambda _: LOGIN
    ended = sender.post("--deadline", "300ms", key="ended")
    assert (ended.returncode, ended.stdout) == (69, ""), ended
    upstream.default = lambda _: page(200)
    upstream.then(closes(effect=True))
    doubt = sender.post("--deadline", "300ms", key="doubt")
    assert doubt.returncode == 76, "a portal ends no doubt"
    done = sender.run("-d", "a", "--key", "form", sender.url)
    assert (done.returncode, done.stdout) == (0, PAGE.decode())


def test_each_item_that_met_a_portal_is_sent_by_the_next_run(
        tmp_path: Path, clock: Clock, upstream: Upstream) -> None:
    each = Sending(tmp_path, clock, upstream.port)
    words = each.words("/x/{}")
    upstream.default = lambda _: LOGIN
    ran = each.run(*words, items="a\nb\n")
    assert ran.returncode == 1 and "2 failed" in ran.last, ran
    upstream.default = lambda _: say(201)
    ran = each.run(*words, items="a\nb\n")
    assert ran.returncode == 0 and sorted(keys(upstream)[2:]) == ["a", "b"], ran
