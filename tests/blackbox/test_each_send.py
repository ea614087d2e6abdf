# SPDX-License-Identifier: Apache-2.0
"""`pawl each --send`: a request for each item, under the item's key. The upstream counts the
effects."""
from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from pawltest.each import Each, lines
from pawltest.gateway import Clock, free_port
from pawltest.upstream import Upstream, closes, say
from pawltest.wire import eventually

pytestmark = pytest.mark.file_only

hooks = pytest.mark.hooks
JSON = ("-H", "Content-Type: application/json")


class Sending(Each):
    """Requests to the test's upstream."""

    def __init__(self, directory: Path, clock: Clock, port: int):
        super().__init__(directory, clock)
        self.url = f"http://127.0.0.1:{port}"

    def words(self, target: str, *more: Any) -> tuple[Any, ...]:
        return (*more, "--send", f"POST {self.url}{target}")


@pytest.fixture
def each(tmp_path: Path, clock: Clock, upstream: Upstream) -> Sending:
    return Sending(tmp_path, clock, upstream.port)


def failing(status: int, *headers: tuple[str, str]) -> Any:
    return say(status, {"no": True}, *headers, effect=False)


def keys(upstream: Upstream) -> list[str | None]:
    return [request["Idempotency-Key"] for request in upstream.requests]


def test_each_item_is_sent_once_under_its_key_and_a_second_run_sends_nothing(each, upstream):
    words = each.words("/users/{id}/offers", "-j", "8", "--jsonl", *JSON, "-d", '{"to": {id}}')
    items = lines(json.dumps({"id": n}) for n in range(100))
    first = each.run(*words, items=items, key="offer:{id}")
    assert (first.returncode, first.last) == (0, "pawl: 100 items: 100 run")
    again = each.run(*words, items=items, key="offer:{id}")
    assert (again.returncode, again.last) == (0, "pawl: 100 items: 0 run, 100 done before")
    assert upstream.effects() == len(upstream.requests) == 100
    assert {(request.target, request["Idempotency-Key"]) for request in upstream.requests} == \
        {(f"/users/{n}/offers", f"offer:{n}") for n in range(100)}


def test_values_are_percent_encoded_in_the_url(each, upstream):
    each.run(*each.words("/users/{}/x?q={}"), items="a/b?c&d=%é +\n")
    encoded = "a%2Fb%3Fc%26d%3D%25%C3%A9%20%2B"
    assert [request.target for request in upstream.requests] == [f"/users/{encoded}/x?q={encoded}"]


def test_in_a_body_of_json_strings_are_escaped_and_numbers_are_as_they_were(each, upstream):
    item = '{"name": "a \\"b\\"\\n\\u00e9", "n": 1.50, "yes": true}'
    body = '{"name": {name}, "text": "to {name}!", "n": {n}, "t": "{n}", "yes": {yes}, "all": {}}'
    ran = each.run(*each.words("/x", "--jsonl", *JSON, "-d", body), items=item + "\n", key="{n}")
    sent = upstream.requests[0]
    name = 'a "b"\né'
    assert json.loads(sent.body) == {"name": name, "text": f"to {name}!", "n": 1.5, "t": "1.50",
                                     "yes": True, "all": json.loads(item)}, ran
    assert b'"n": 1.50,' in sent.body and sent["Content-Type"] == "application/json"


def test_a_body_without_a_type_is_a_form(each, upstream):
    each.run(*each.words("/x", "--csv", "-d", "name={name}&id={id}"), key="{id}",
             items="id,name\n7,a&b=c é\n")
    sent = upstream.requests[0]
    assert sent.body == b"name=a%26b%3Dc%20%C3%A9&id=7"
    assert sent["Content-Type"] == "application/x-www-form-urlencoded"


def test_in_a_body_of_another_type_values_are_as_they_are(each, upstream):
    each.run(*each.words("/x", "-H", "Content-Type: text/plain", "-d", "<{}>"), items='a&"b\n')
    assert upstream.requests[0].body == b'<a&"b>'


def test_a_body_that_cannot_be_made_is_a_bad_item_and_others_are_sent(each, upstream):
    ran = each.run(*each.words("/x", *JSON, "-d", '{"v": {}}'), items=b"good\n\xff\n")
    assert ran.returncode == 65 and "line 2: the value of {} cannot be put there" in ran.stderr
    assert [request.json for request in upstream.requests] == [{"v": "good"}]


def test_a_url_alone_is_sent_as_curl_would(each, upstream):
    each.run("--send", f"{each.url}/a/{{}}", items="1\n")
    each.run("--send", f"{each.url}/b/{{}}", "-d", "x=1", items="2\n")
    each.run("--send", f"PUT {each.url}/c/{{}}", "-H", "X-Who: me", items="3\n")
    assert [(one.method, one.target, one["X-Who"]) for one in upstream.requests] == [
        ("GET", "/a/1", None), ("POST", "/b/2", None), ("PUT", "/c/3", "me")]


def test_another_request_under_the_key_is_changed_and_not_sent(each, upstream):
    each.run(*each.words("/x/{}", *JSON, "-d", '{"v": 1}'), items="a\n")
    for words in (each.words("/x/{}", *JSON, "-d", '{"v": 2}'),
                  each.words("/y/{}", *JSON, "-d", '{"v": 1}')):
        ran = each.run(*words, "--json", items="a\n")
        assert ran.returncode == 65 and ran.results == {"a": "changed"}
        assert each.run(*words, "--payload", "ignore", items="a\n").returncode == 0
    assert upstream.effects() == len(upstream.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422])
def test_a_4xx_fails_the_item_at_once_and_others_go_on(each, upstream, status):
    upstream.then(failing(status))
    ran = each.run(*each.words("/x/{}", "--retry", "api"), items="a\nb\n")
    assert ran.returncode == 1 and f"item 1 (key a): HTTP status {status}" in ran.stderr
    assert keys(upstream) == ["a", "b"] and upstream.effects() == 1
    assert each.run(*each.words("/x/{}"), items="a\nb\n").returncode == 0
    assert keys(upstream) == ["a", "b", "a"], "a failure is not remembered"


def test_json_has_the_status_and_the_job_log_the_url(each, upstream):
    upstream.then(failing(422))
    ran = each.run(*each.words("/x/{}", "--json", "--joblog", "log"), items="a\nb\n")
    assert {line["key"]: line["http_code"] for line in ran.lines} == {"a": 422, "b": 201}
    rows = [row.split("\t") for row in (each.directory / "log").read_text().splitlines()[1:]]
    assert [row[6] for row in rows] == ["1", "0"] and rows[0][8] == f"POST {each.url}/x/a"


@hooks
def test_a_503_is_sent_again_after_the_time_it_asks_for(each, upstream):
    upstream.then(failing(503, ("Retry-After", "2")))
    process = each.start(*each.words("/x/{}", "--retry", "api", "--json"), items="a\nb\n")
    upstream.wait_for(2)
    failed = each.now
    each.clock.run_until(lambda: process.poll() is not None)
    ran = each.end(process)
    assert ran.returncode == 0 and keys(upstream) == ["a", "b", "a"]
    assert upstream.effects() == 2 and each.now - failed >= 1.5
    assert {line["key"]: line["attempts"] for line in ran.lines} == {"a": 2, "b": 1}


@hooks
def test_a_503_is_not_sent_again_without_a_profile(each, upstream):
    upstream.then(failing(503))
    ran = each.run(*each.words("/x/{}"), items="a\n")
    assert ran.returncode == 1 and keys(upstream) == ["a"]


@hooks
def test_a_request_without_a_response_in_its_time_is_ended(each, upstream):
    gate = upstream.hold()
    process = each.start(*each.words("/x/{}", "--max-time", "3", "--json"), items="a\n")
    gate.wait_for()
    each.clock.run_until(lambda: process.poll() is not None, step=1)
    ran = each.end(process)
    assert ran.returncode != 0 and ran.lines[0]["problem"] == "timeout"


def test_a_response_that_was_lost_is_in_doubt_and_the_next_run_sends_the_same_key(each, upstream):
    upstream.default = lambda request: say(
        201, {}, effect=request["Idempotency-Key"] not in [one["Idempotency-Key"]
                                                           for one in upstream.done])
    upstream.then(closes(effect=True))
    ran = each.run(*each.words("/x/{}"), items="a\n")
    assert ran.returncode == 76 and "the next run repeats it under its key" in ran.stderr
    assert each.run(*each.words("/x/{}"), items="a\n").returncode == 0
    assert keys(upstream) == ["a", "a"] and upstream.effects() == 1


def test_under_hold_a_response_that_was_lost_is_76_and_not_sent_again(each, upstream):
    upstream.then(closes(effect=True))
    each.run(*each.words("/x/{}", "--unknown", "hold"), items="a\n")
    ran = each.run(*each.words("/x/{}", "--unknown", "hold"), items="a\nb\n")
    assert ran.returncode == 76 and "1 run, 1 in doubt" in ran.last
    assert keys(upstream) == ["a", "b"]


def test_an_upstream_that_is_not_there_fails_every_item(each):
    ran = each.run("--send", f"http://127.0.0.1:{free_port()}/{{}}", items="a\nb\n")
    assert ran.returncode == 1 and ran.last == "pawl: 2 items: 0 run, 2 failed"


def test_n_requests_are_under_way_at_once_and_never_more(each, upstream):
    gate = upstream.gate()
    upstream.default = say(201, {}, gate=gate)
    process = each.start(*each.words("/x/{}", "-j", "3"), items=lines(range(9)))
    gate.wait_for(3)
    assert len(upstream.requests) == 3
    gate.open()
    assert each.end(process).returncode == 0 and upstream.effects() == 9
    assert upstream.connections <= 3


def test_a_signal_sends_nothing_more_and_waits_for_what_was_sent(each, upstream):
    gate = upstream.hold()
    process = each.start(*each.words("/x/{}"), items="a\nb\n")
    gate.wait_for()
    process.send_signal(signal.SIGTERM)
    assert b"stopping" in process.stderr.readline()
    gate.open()
    ran = each.end(process)
    assert ran.returncode == 75 and "1 run, 1 left" in ran.last and keys(upstream) == ["a"]


@hooks
@pytest.mark.parametrize("point", ["after_claim_commit", "before_connect",
                                   "after_response_body", "before_outcome_commit",
                                   "after_outcome_commit"])
def test_after_kill_9_at_any_point_the_next_run_ends_with_one_effect_an_item(
        each, upstream, clock, point):
    upstream.default = lambda request: say(
        201, {}, effect=request["Idempotency-Key"] not in [one["Idempotency-Key"]
                                                           for one in upstream.done])
    words = each.words("/x/{}", "-j", "4", *JSON, "-d", '{"v": {}}')
    assert each.run(*words, items=lines(range(20)), PAWL_CRASH_AT=point).returncode == -9
    clock.advance(60)
    assert each.run(*words, items=lines(range(20))).returncode == 0
    eventually(lambda: upstream.effects() == 20)
    assert set(keys(upstream)) == {str(n) for n in range(20)}


def test_dry_run_sends_nothing_and_shows_url_and_body(each, upstream):
    ran = each.run(*each.words("/x/{}", "-n", "-d", "a={}"), items="b c\n")
    assert ran.returncode == 0 and not upstream.requests
    assert ran.stdout == f"run\tb%20c\tPOST {each.url}/x/b%20c -d a=b%20c\n"


def test_a_url_that_is_none_is_a_bad_item_and_others_are_sent(each, upstream):
    ran = each.run("--send", "POST {url}", "--csv", key="{id}",
                   items=f"id,url\n1,{each.url}/a\n2,ftp://x/\n")
    assert ran.returncode == 65 and len(upstream.requests) <= 1
