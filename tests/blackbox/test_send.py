# SPDX-License-Identifier: Apache-2.0
"""`pawl send`: one request, tried again under one key until it is done, and done once. The
upstream counts the effects by key, as a service does."""
from __future__ import annotations

import contextlib
import csv
import fcntl
import json
import os
import socket
import sqlite3
import stat
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from pawltest.certificates import SecureUpstream, issue, served_by
from pawltest.gateway import DIE_WITH_THE_TEST, PAWL, Clock, free_port, make_store
from pawltest.upstream import Reply, Upstream, closes, resets, say
from pawltest.wire import PATIENCE, Request, eventually

pytestmark, hooks = pytest.mark.file_only, pytest.mark.hooks
EXAMPLE = PAWL.parent / "tests/unit/send_once"  # examples/client, over the shared library
RULE = "tenant: none\nrules:\n  - {name: refunds.create, match: POST /refunds, unknown: UNKNOWN}\n"
KEY = "5e1d3f0a-0000-4000-8000-000000000001"
NO_TIME = ("Retry-After", "3600")  # with --deadline 20 no other attempt is made
RARELY = ("--profile", "webhook", "--deadline", "4")  # the second would come after 5 s


class Sender:
    """Commands on one store, under the test's clock."""

    def __init__(self, directory: Path, clock: Clock, url: str):
        self.store = make_store(directory / "sent" / "pawl.db")
        self.log = directory / "attempts.csv"
        self.clock = clock
        self.url = url

    def start(self, *words: Any, **environment: str) -> subprocess.Popen[str]:
        made = subprocess.Popen(
            [*DIE_WITH_THE_TEST, str(PAWL), "send", "--store", str(self.store),
             "--attempts", str(self.log), *map(str, words)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PAWL_TEST_CLOCK": str(self.clock.path), **environment})
        self.clock.processes.append(made)
        return made

    def end(self, process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
        out, err = process.communicate(timeout=PATIENCE)
        self.clock.processes.remove(process)
        assert "assertion" not in err and "Sanitizer" not in err, err
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def run(self, *words: Any, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.end(self.start(*words, **environment))

    def post(self, *words: Any, key: str = KEY, **environment: str
             ) -> subprocess.CompletedProcess[str]:
        return self.run("--json", '{"amount":5}', "--key", key, *words, self.url, **environment)

    def post_and_let_pass(self, seconds: float) -> subprocess.CompletedProcess[str]:
        """Once the first attempt has failed."""
        process = self.start("--json", '{"amount":5}', "--key", KEY, self.url)
        eventually(self.attempts, "the first attempt's line")
        self.clock.advance(seconds)
        return self.end(process)

    def attempts(self) -> list[dict[str, str]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return list(csv.DictReader(lines))

    def delays(self) -> list[int]:
        return [int(line["delay_ms"]) for line in self.attempts()]


@pytest.fixture
def sender(tmp_path: Path, clock: Clock, upstream: Upstream) -> Iterator[Sender]:
    upstream.default = once_for_each_key(upstream)
    yield Sender(tmp_path, clock, f"http://127.0.0.1:{upstream.port}/refunds")
    upstream.open_gates()


def once_for_each_key(upstream: Upstream) -> Callable[[Request], Reply]:
    def reply(request: Request) -> Reply:
        done = any(one["Idempotency-Key"] == request["Idempotency-Key"] for one in upstream.done)
        return say(201, {"id": request["Idempotency-Key"]}, effect=not done)

    return reply


def failing(status: int, *headers: tuple[str, str], value: Any = None) -> Reply:
    return say(status, value or {"no": True}, *headers, effect=False)


def problem(status: int, **members: Any) -> Reply:
    body = json.dumps(members).encode()
    return Reply(status, body, (("Content-Type", "application/problem+json"),), effect=False)


def is_empty(pipe: int) -> bool:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder) == 0


def keys(upstream: Upstream) -> list[str | None]:
    return [request["Idempotency-Key"] for request in upstream.requests]


# ---- what is tried again ----


@pytest.mark.parametrize("reply", [failing(s) for s in (425, 429, 500, 502, 503, 504, 507)] +
                         [closes(effect=False), resets(), Reply(raw=b"no HTTP\r\n\r\n")])
def test_r3_what_may_pass_by_itself_is_sent_again_under_the_same_key(sender, upstream, reply):
    upstream.then(reply)
    sent = sender.post()
    assert (sent.returncode, json.loads(sent.stdout)) == (0, {"id": KEY})
    assert keys(upstream) == [KEY, KEY] and upstream.effects() == 1
    assert 100 <= sender.delays()[1] <= 200
    assert [request["Idempotency-Attempt"] for request in upstream.requests] == ["1", "2"]


def test_r3_a_408_is_sent_again_at_once(sender, upstream):
    upstream.then(failing(408))
    sent = sender.post()
    assert sent.returncode == 0 and sender.delays() == [0, 0] and "again at once" in sent.stderr


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 409, 422, 501, 505])
def test_r3_what_would_end_the_same_way_is_sent_once(sender, upstream, status):
    upstream.then(failing(status, ("Location", "/elsewhere"), ("Idempotency-Status", "stored")))
    sent = sender.post()
    assert (sent.returncode, sent.stdout) == (1, '{"no": true}')
    assert len(upstream.requests) == 1 and str(status) in sent.stderr
    assert sender.post().returncode == 0, "a failure is not remembered"


def test_a_refusal_of_who_sends_says_what_is_to_be_renewed(sender, upstream, tmp_path):
    token = tmp_path / "token"
    token.write_text("Authorization: old\n")
    for words, renew in (["-H", f"@{token}"], str(token)), (["-u", "a:b"], "the header Authoriz"):
        upstream.then(failing(401))
        sent = sender.post(*words)
        assert sent.returncode == 1 and f"renew {renew}" in sent.stderr, sent.stderr


@pytest.mark.parametrize("value", [{"error_code": "CONFLICT.idempotency.payload_mismatch"},
                                   {"error": {"code": "PAYLOAD_MISMATCH"}}])
def test_r3_a_409_for_another_payload_is_65(sender, upstream, value):
    upstream.then(failing(409, value=value))
    assert sender.post().returncode == 65 and len(upstream.requests) == 1


INSTANCE = "urn:uuid:518f0000-0000-8000-8000-000000000001"
MISMATCH = {"error_code": "CONFLICT.idempotency.payload_mismatch", "instance": INSTANCE}
UNKNOWN = {"error_code": "CONFLICT.idempotency.outcome_unknown", "instance": INSTANCE}


@pytest.mark.parametrize("before, value, advises, repeats", [
    ([], {**MISMATCH, "safe_new_key": True}, True, False),
    ([], {**MISMATCH, "safe_new_key": False}, False, False),
    ([], MISMATCH, False, False),
    ([closes(effect=True)], {**MISMATCH, "safe_new_key": True}, False, True),
    ([closes(effect=True)], UNKNOWN, False, False)])
def test_a_new_key_is_advised_only_where_the_response_says_that_it_is_safe(
        sender, upstream, before, value, advises, repeats):
    """found: G3. And one order, with the instance that an operator asks for (found: G7)."""
    upstream.then(*before, problem(409, retryable=False, **value))
    said = sender.post().stderr.splitlines()[-1]
    assert ("Generate a new key" in said) == advises, said
    assert ("repeat it under the same key" in said) == repeats, said
    assert ".;" not in said and said.endswith(f"(instance {INSTANCE})")


@hooks
@pytest.mark.parametrize("status", [429, 503])
def test_r3_retry_after_is_kept(sender, upstream, status):
    upstream.then(failing(status, ("Retry-After", "2")))
    assert sender.post_and_let_pass(2.2).returncode == 0
    assert 2000 <= sender.delays()[1] <= 4000 and len(upstream.requests) == 2


@hooks
def test_r4_a_timeout_and_a_502_are_sent_again_and_logged(sender, upstream, clock):
    gate = upstream.hold(effect=False)
    upstream.then(failing(502))
    process = sender.start("--json", "{}", "--key", KEY, "--max-time", "5", sender.url)
    gate.wait_for()
    clock.advance(5)
    sent = sender.end(process)
    assert sent.returncode == 0 and upstream.effects() == 1 and keys(upstream) == [KEY] * 3
    first, second, third = sender.attempts()
    assert list(first) == ["attempt", "delay_ms", "status", "code", "notes"]
    assert (first["delay_ms"], first["status"], first["code"], first["notes"]) == \
        ("0", "timeout", "", "timeout")
    assert (second["attempt"], second["status"], second["code"]) == ("2", "5xx", "502")
    assert (third["status"], third["code"]) == ("2xx", "201")
    assert 100 <= int(second["delay_ms"]) <= 200 <= int(third["delay_ms"]) <= 400


@pytest.mark.parametrize("hint", ["60", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_r5_a_hint_beyond_the_deadline_ends_at_once(sender, upstream, hint):
    upstream.then(failing(503, ("Retry-After", hint)))
    sent = sender.post()
    assert (sent.returncode, len(upstream.requests)) == (75, 1) and "Retry-After" in sent.stderr


@hooks
def test_r6_a_409_in_progress_is_waited_out_under_the_same_key(sender, upstream):
    upstream.then(failing(409, value={"error": {"code": "CONCURRENT_REQUEST"}}))
    assert sender.post_and_let_pass(2.2).returncode == 0
    assert keys(upstream) == [KEY, KEY] and sender.delays()[1] >= 2000
    upstream.then(failing(409, value={"error": {"code": "OTHER"}}))
    assert sender.post(key="another").returncode == 1 and len(upstream.requests) == 3


BUSY = [failing(409, value={"error": {"code": "idempotency_key_in_use"}}),
        failing(422, value={"errorCode": "704"}),
        problem(409, title="A request is outstanding for this Idempotency-Key"),
        problem(409, error_code="CONFLICT.idempotency.outcome_unknown", retryable=True)]


@hooks
def test_what_is_busy_is_waited_out_and_uses_up_no_attempt(sender, upstream, clock):
    """found: G1, G4."""
    for n, reply in enumerate([*BUSY, failing(409)]):
        upstream.then(closes(effect=False), *[reply] * 7)
        process = sender.start("--profile", "background", "-d", "a", "--key", f"k{n}", sender.url)
        clock.run_until(lambda: process.poll() is not None, step=1)  # pylint: disable=W0640
        sent = sender.end(process)
        assert (sent.returncode, len(sender.attempts())) == (0, 9), sent.stderr


def test_what_a_response_says_of_retries_counts_more_than_its_status(sender, upstream):
    """found: G4, G6. After an attempt in doubt what is refused is in doubt, too."""
    again, never = (("X-Should-Retry", said) for said in ("true", "false"))
    duplicate = problem(409, error_code="CONFLICT.idempotency.duplicate", retryable=False)
    for n, (replies, code, requests) in enumerate([
            ([failing(400, ("Stripe-Should-Retry", "true"))], 0, 2),
            ([problem(422, retryable=True, error_code="TRANSIENT.x")], 0, 2),
            ([failing(503, never)], 1, 1),
            ([failing(500, never)], 76, 1),
            ([problem(503, retryable=False), failing(500)], 1, 1),
            ([failing(302, again)], 0, 2),
            ([failing(403, ("x-ratelimit-remaining", "0"))], 0, 2),
            ([closes(effect=False), failing(300)], 76, 2),
            ([closes(effect=False), duplicate], 1, 2)]):
        before = len(upstream.requests)
        upstream.then(*replies[:requests])
        sent = sender.post(key=f"k{n}")
        assert (sent.returncode, len(upstream.requests) - before) == (code, requests), (n, sent)
        assert ("may be why" in sent.stderr) == (requests == 2 and code == 76), sent.stderr


def test_hint_exit_code_and_conduct_agree(sender, upstream):
    """found: G6. A code counts where the response as a whole means the same."""
    upstream.then(failing(400, value={"error_code": "TRANSIENT.x"}))
    sent = sender.post()
    assert sent.returncode == 1 and "etry" not in sent.stderr and len(upstream.requests) == 1
    upstream.default = failing(503, value={"error_code": "VALIDATION.x"})
    sent = sender.post(*RARELY)
    assert sent.returncode == 124 and "Correct" not in sent.stderr and len(upstream.requests) > 1
    upstream.default = failing(422, value={"error_code": "VALIDATION.x"})
    sent = sender.post()
    assert sent.returncode == 1 and "Correct the request" in sent.stderr


def test_a_success_that_says_that_it_was_not_done_is_sent_again(sender, upstream):
    """It is not remembered, and of a 500 nothing is in doubt."""
    said = ["--not-done", "/state=queued", "--not-done", "X-State: queued"]
    large = b"x" * (64 * 1024 * 1024 + 1)
    upstream.then(Reply(200, large, (("X-State", "queued"),), effect=False),
                  say(200, {"state": "queued"}, effect=False),
                  failing(500, ("X-State", "queued")), failing(500, value={"state": "queued"}),
                  failing(422))
    sent = sender.post(*said)
    assert (sent.returncode, len(upstream.requests)) == (1, 5), sent.stderr
    assert sender.post(*said).returncode == 0 and upstream.effects() == 1
    assert {sender.post("--not-done", way).returncode for way in ("a=b", "/a/*/b=c")} == {2}


# ---- what is remembered ----


@hooks
def test_q3_a_success_is_remembered_for_its_time_whatever_the_service_forgets(
        sender, upstream, clock):
    first = sender.post("--remember", "24h")
    upstream.done.clear()
    second = sender.post("--remember", "24h")
    assert (second.returncode, second.stdout) == (0, first.stdout)
    assert "done before" in second.stderr and len(upstream.requests) == 1
    clock.advance(86401)
    assert sender.post().returncode == 0 and len(upstream.requests) == 2


def test_another_request_under_the_key_is_refused_and_not_sent(sender, upstream):
    gate = upstream.hold()
    first = sender.start("--json", '{"amount":5}', "--key", KEY, sender.url)
    gate.wait_for()
    other = sender.run("--json", '{"amount":6}', "--key", KEY, sender.url)
    assert "may have been done" in other.stderr and "new key" not in other.stderr, other
    gate.open()
    assert sender.end(first).returncode == 0
    for words in (["--json", '{"amount":6}', sender.url], ["-X", "PUT", sender.url],
                  ["--json", '{"amount":5}', sender.url + "?x"],
                  ["--json", '{"amount":5}', sender.url.replace("127.0.0.1", "localhost")]):
        refused = sender.run("--key", KEY, *words)
        assert refused.returncode == 65 and "take a new key" in refused.stderr
    same = sender.run("--json", '{ "amount": 5.0 }', "-H", f"Idempotency-Key: {KEY}", sender.url)
    assert same.returncode == 0 and len(upstream.requests) == 1


def test_another_request_under_a_key_in_doubt_is_advised_no_new_key(sender, upstream):
    upstream.then(closes(), failing(503, NO_TIME))
    assert sender.post("--deadline", "20").returncode == 76
    other = sender.run("--json", '{"amount":6}', "--key", KEY, sender.url)
    assert other.returncode == 65 and "new key" not in other.stderr and "may have" in other.stderr


def test_again_goes_past_a_success_and_says_so(sender, upstream):
    sender.post()
    again = sender.post("--again")
    assert again.returncode == 0 and "again" in again.stderr
    assert keys(upstream) == [KEY, KEY] and sender.post().returncode == 0
    assert len(upstream.requests) == 2
    other = sender.run("--again", "--json", "{}", "--key", KEY, sender.url)
    assert other.returncode == 65 and len(upstream.requests) == 2


def test_without_a_key_each_command_makes_its_own_and_prints_it(sender, upstream):
    said = {sender.run("-d", "a=1", sender.url).stderr for _ in range(2)}
    assert said == {f"pawl send: key {key}\n" for key in keys(upstream)} and len(said) == 2
    for key in keys(upstream):
        assert key and key[14] == "4" and key[19] in "89ab" and len(key) == 36


# ---- when it dies, and when others do the same ----


@hooks
@pytest.mark.parametrize("point", [
    "after_claim_commit", "before_connect", "between_request_writes", "after_response_body",
    "before_outcome_commit", "after_outcome_commit"])
def test_after_kill_9_the_same_key_is_sent_and_there_is_one_effect(
        sender, upstream, clock, point, tmp_path):
    body = tmp_path / "body"
    body.write_bytes(b"x" * 200_000)
    words = ["--data-binary", f"@{body}", "--key", KEY, sender.url]
    assert sender.run(*words, PAWL_CRASH_AT=point).returncode == -9
    arrived = len(upstream.requests)
    if point != "after_outcome_commit":
        at_once = sender.run("--deadline", "0.2", *words)
        assert at_once.returncode == 75 and "in progress elsewhere" in at_once.stderr
        assert len(upstream.requests) == arrived
        clock.advance(60)
    assert sender.run(*words).returncode == 0
    assert upstream.effects() == 1 and set(keys(upstream)) == {KEY}


@hooks
def test_a_response_that_cannot_be_stored_is_not_printed(sender, upstream, clock):
    gate = upstream.hold()
    process = sender.start("-d", "a=1", "--key", KEY, sender.url)
    gate.wait_for()
    with contextlib.closing(sqlite3.connect(sender.store, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        gate.open()
        eventually(lambda: upstream.has_ended(upstream.requests[0]), "the response")
        clock.run_until(lambda: process.poll() is not None, step=2)
        sent = sender.end(process)
    assert (sent.returncode, sent.stdout) == (76, "") and "same key" in sent.stderr
    clock.advance(60)
    assert sender.run("-d", "a=1", "--key", KEY, sender.url).returncode == 0
    assert upstream.effects() == 1 and keys(upstream) == [KEY, KEY]


def test_of_two_at_the_same_time_one_sends_and_both_print_its_response(sender, upstream):
    gate = upstream.hold()
    first = sender.start("-d", "a=1", "--key", KEY, sender.url)
    gate.wait_for()
    second = sender.start("-d", "a=1", "--key", KEY, sender.url)
    threading.Timer(0.3, gate.open).start()
    printed = [sender.end(one) for one in (first, second)]
    assert [one.returncode for one in printed] == [0, 0] and len(upstream.requests) == 1
    assert {one.stdout for one in printed} == {'{"held": true}'}


# ---- exit codes ----


def test_exit_codes_say_how_attempts_without_a_final_response_ended(sender, upstream):
    for host in (f"127.0.0.1:{free_port()}", "nobody.invalid"):
        assert sender.run("-d", "a", f"http://{host}/", "--deadline", "300ms").returncode == 69
    upstream.default = failing(503)
    assert sender.post(*RARELY).returncode == 124
    upstream.default = failing(503, NO_TIME)
    upstream.then(closes(effect=False))
    doubt = sender.post("--deadline", "20", key="k2")
    assert doubt.returncode == 76 and "same key" in doubt.stderr
    upstream.default = failing(429, NO_TIME, value={"error_code": "RATE_LIMIT.exceeded"})
    assert sender.post("--deadline", "20", key="k3").returncode == 75


@pytest.mark.parametrize("reply", [failing(401), failing(404), failing(300), failing(501)])
def test_a_refusal_after_an_attempt_in_doubt_leaves_the_outcome_unknown(sender, upstream, reply):
    upstream.then(closes(effect=True), reply)
    sent = sender.post()
    assert sent.returncode == 76 and "it may have been done" in sent.stderr
    assert upstream.effects() == 1 and len(upstream.requests) == 2
    upstream.then(reply)
    assert sender.post().returncode == 76  # the record knows of the first run's attempt
    assert sender.post().returncode == 0 and upstream.effects() == 1


@pytest.mark.parametrize("status", [302, 303, 304])
def test_a_redirect_that_is_remembered_is_no_success_when_repeated(sender, upstream, status):
    upstream.then(say(status, None, ("Idempotency-Status", "stored"), effect=False))
    assert sender.post().returncode == 1
    again = sender.post()
    assert again.returncode == 1 and f"with HTTP status {status}" in again.stderr
    assert len(upstream.requests) == 1


def test_what_was_resolved_as_failed_is_no_success(sender, upstream):
    upstream.then(closes(effect=False), failing(503, NO_TIME))
    assert sender.post("--deadline", "20").returncode == 76
    keys_command = [str(PAWL), "keys"], ["--store", str(sender.store), "--rule", "send"]
    shown = subprocess.run([*keys_command[0], "show", KEY, "--json", *keys_command[1]],
                           capture_output=True, check=True, timeout=PATIENCE)
    token = json.loads(shown.stdout)["token"]
    subprocess.run([*keys_command[0], "resolve", KEY, "--token", str(token), "--status", "422",
                    *keys_command[1]], capture_output=True, check=True, timeout=PATIENCE)
    before = len(upstream.requests)
    sent = sender.post()
    assert sent.returncode == 1 and "with HTTP status 422" in sent.stderr
    assert len(upstream.requests) == before


def test_a_response_that_cannot_be_written_is_printed_by_the_same_command(sender, upstream):
    full = sender.post("-o", "/dev/full")
    assert full.returncode == 75 and "cannot write /dev/full" in full.stderr
    assert json.loads(sender.post().stdout) == {"id": KEY} and len(upstream.requests) == 1
    upstream.then(failing(500), closes(effect=True), failing(503, NO_TIME))
    assert sender.post("-o", "/dev/full", "--deadline", "20", key="k2").returncode == 76


@pytest.mark.parametrize("words, said", [
    (["ftp://127.0.0.1/"], "http://"), (["http://127.0.0.1/#a"], "#"), (["http:///"], "host"),
    (["-X", "get", "http://a/"], "capital"), (["--key", "ä", "http://a/"], "printable ASCII"),
    (["-H", "Content-Length: 1", "http://a/"], "set by pawl"),
    (["-H", "Idempotency-Key: a", "--key", "b", "http://a/"], "exclude each other"),
    (["--profile", "apii", "http://a/"], "did you mean `api`"),
    (["--max-time", "0", "http://a/"], "seconds"), (["--cert-key", "x", "https://a/"], "--cert"),
    (["--cacert", "/nowhere", "https://a/"], "/nowhere"), ([], "needs a URL")])
def test_what_cannot_be_sent_is_refused_with_the_reason(sender, words, said):
    sent = sender.run(*words)
    assert sent.returncode == 2 and said in sent.stderr


# ---- curl's options ----


def test_bodies_and_headers_are_those_of_curl(sender, upstream, tmp_path):
    text = tmp_path / "text"
    text.write_bytes(b"b=2\r\nc\n")
    sender.run("-d", "a=1", "-d", f"@{text}", "-H", "X-One: 1", "-H", "Accept:", sender.url)
    sender.run("--data-binary", f"@{text}", "-X", "PUT", "-u", "me:it", sender.url)
    sender.run(sender.url.replace("http://", "http://me:i%74@"))
    sender.run("-X", "DELETE", sender.url)
    sender.run("-X", "PATCH", sender.url)
    first, second, third, fourth, fifth = upstream.requests
    assert (fourth["Content-Length"], fifth["Content-Length"]) == (None, "0")
    assert (first.method, first.body) == ("POST", b"a=1&b=2c")
    assert first["Content-Type"] == "application/x-www-form-urlencoded"
    assert first["X-One"] == "1" and first["Accept"] is None
    assert (second.method, second.body) == ("PUT", text.read_bytes())
    assert second["Authorization"] == third["Authorization"] == "Basic bWU6aXQ="
    assert (third.method, third.body, third["Content-Length"]) == ("GET", b"", None)


def test_headers_of_a_pipe_are_read_to_its_end(sender, upstream, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = sender.start("-H", f"@{pipe}", sender.url)
    with pipe.open("w") as written:
        written.write("X-One: 1\nX-Token: abc")
        written.flush()
        eventually(lambda: is_empty(written.fileno()), "the first half to be read")
        written.write("def\n")
    assert sender.end(process).returncode == 0
    assert (upstream.requests[0]["X-One"], upstream.requests[0]["X-Token"]) == ("1", "abcdef")


def test_the_response_goes_where_curl_puts_it(sender, upstream, tmp_path):
    out = tmp_path / "out"
    assert sender.post("-o", out).stdout == "" and json.loads(out.read_text()) == {"id": KEY}
    shown = sender.post("-i", key="k2")
    assert shown.stdout.startswith("HTTP/1.1 201 Created\n") and "\n\n{" in shown.stdout
    verbose = sender.post("-v", key="k3").stderr
    assert "> POST /refunds HTTP/1.1\n" in verbose and "< HTTP/1.1 201 " in verbose
    upstream.then(failing(404))
    assert sender.post("-s", key="k4").stderr == ""


def test_a_unix_socket_takes_the_place_of_the_host(sender, tmp_path):
    path = tmp_path / "socket"
    seen: list[bytes] = []

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            seen.append(connection.recv(65536))
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        threading.Thread(target=serve, daemon=True).start()
        sent = sender.run("--unix-socket", path, "http://api.example/x")
    assert (sent.returncode, sent.stdout) == (0, "ok") and b"Host: api.example\r\n" in seen[0]


def test_why_a_unix_socket_is_not_reached_is_said_of_each_attempt(sender, tmp_path):
    words = ["--deadline", "0.3", "http://api.example/x"]
    sent = sender.run("--unix-socket", tmp_path / "none", *words)
    assert sent.returncode == 69 and "too long" not in sent.stderr
    assert sent.stderr.count("No such file or directory") == len(sender.attempts())
    assert "too long" in sender.run("--unix-socket", "/" + "a" * 200, *words).stderr


def test_a_server_is_proven_under_tls_unless_that_is_switched_off(sender, tmp_path):
    authority = issue(tmp_path, "ca", is_ca=True)
    certificate = issue(tmp_path, "server", authority, names=("127.0.0.1",))
    upstream = SecureUpstream(served_by(certificate))
    url = f"https://127.0.0.1:{upstream.port}/x"
    try:
        refused = sender.run(url, "--deadline", "2")
        assert refused.returncode == 69 and "unknown CA" in refused.stderr
        assert sender.run("-k", url).returncode == 0
        assert sender.run("--cacert", authority.cert_file, url).returncode == 0
        other = sender.run("--cacert", authority.cert_file, url.replace("127.0.0.1", "localhost"),
                           "--deadline", "2")
        assert other.returncode == 69 and "another host name" in other.stderr
        assert len(upstream.requests) == 2
    finally:
        upstream.stop()


def test_the_default_store_is_for_this_user_alone(upstream, tmp_path):
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "PATH": os.environ["PATH"]}
    subprocess.run([str(PAWL), "send", f"http://127.0.0.1:{upstream.port}/"], check=True,
                   capture_output=True, env=environment, timeout=PATIENCE)
    folder = tmp_path / "state" / "pawl"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "pawl.db").stat().st_mode) == 0o600


# ---- through a gateway ----


def test_r7_a_502_behind_a_gateway_is_healed_where_its_rule_says_retry(sender, upstream, pawl):
    gateway = pawl(RULE.replace("UNKNOWN", "retry"))
    upstream.then(failing(502))
    sent = sender.run("--json", "{}", "--key", KEY, f"http://127.0.0.1:{gateway.port}/refunds")
    assert sent.returncode == 0 and upstream.effects() == 1 and keys(upstream) == [KEY] * 2


def test_r7_under_hold_the_sender_learns_that_it_must_not_start_over(sender, upstream, pawl):
    gateway = pawl(RULE.replace("UNKNOWN", "hold"))
    upstream.then(say(502, {"no": True}))
    sent = sender.run("--json", "{}", "--key", KEY, f"http://127.0.0.1:{gateway.port}/refunds")
    assert sent.returncode == 76 and len(upstream.requests) == 1
    assert "outcome_unknown" in sent.stderr and "Do not start over under a new key" in sent.stderr
    assert [line["code"] for line in sender.attempts()] == ["502", "409"]


# ---- the library ----


@pytest.mark.hooks  # a build that has the tests' programs, too
def test_the_library_sends_once_what_the_command_and_it_are_asked_for(sender, upstream):
    def send(body: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([EXAMPLE, sender.url, KEY, body, sender.store], capture_output=True,
                              text=True, timeout=PATIENCE, check=False,
                              env={**os.environ, "PAWL_TEST_CLOCK": str(sender.clock.path)})

    upstream.then(failing(503))
    first, second = send('{"amount":5}'), send('{"amount": 5}')
    assert (first.returncode, json.loads(first.stdout)) == (0, {"id": KEY})
    assert first.stderr == "attempt 1: HTTP status 503 \nattempt 2: HTTP status 201 \n"
    assert (second.returncode, second.stdout) == (0, "before: " + first.stdout)
    assert send('{"amount":6}').returncode == 65
    assert sender.post().stdout + "\n" == first.stdout and keys(upstream) == [KEY, KEY]
