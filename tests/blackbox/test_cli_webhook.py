# SPDX-License-Identifier: Apache-2.0
"""`pawl webhook sign`, `verify` and `listen`: the vectors of the unit tests by command, and what is
said of a request that is not signed."""
from __future__ import annotations

import base64
import json
import re
import subprocess
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from pawltest.gateway import DIE_WITH_THE_TEST, PAWL, ROOT, run
from pawltest.wire import PATIENCE, Answer, Client

pytestmark = pytest.mark.no_store

VECTORS = json.loads((ROOT / "tests/unit/signatures.json").read_text("utf-8"))["vectors"]
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID = "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek"
TIME = "webhook-timestamp: 1614265330"
SIGNATURE = "webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
BODY = '{"test": 2432232314}'
NOW = "1614265330"


def verify(*headers: str, body: str = BODY, secret: str = SECRET, at: str = NOW,
           more: tuple[str, ...] = ()) -> Any:
    words = [word for header in headers for word in ("-H", header)]
    return run("webhook", "verify", "--secret", secret, "--timestamp", at, *words, *more,
               input=body)


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_a_vector_is_signed(vector):
    words = [word for secret in vector["secrets"] for word in ("--secret", secret)]
    words += ["--timestamp", str(vector["seconds"])] if vector["seconds"] else []
    words += ["--id", vector["id"]] if "id" in vector else []
    ran = run("webhook", "sign", "--scheme", vector["scheme"], *words, input=vector["body"])
    assert (ran.returncode, ran.stdout) == (0, vector["value"] + "\n"), ran.stderr


def test_a_request_that_is_signed_is_good():
    assert verify(ID, TIME, SIGNATURE).stdout == "good\n"
    assert verify(ID, TIME, SIGNATURE, at="1614265630").returncode == 0
    assert verify(ID, TIME, SIGNATURE, at="1614269999", more=("--tolerance", "2h")).returncode == 0


@pytest.mark.parametrize("headers, options, said", [
    ((ID, TIME), {}, "no_signature"), ((TIME, SIGNATURE), {}, "no_id"),
    ((ID, SIGNATURE), {}, "no_timestamp"),
    ((ID, "webhook-timestamp: NaN", SIGNATURE), {}, "malformed_timestamp"),
    ((ID, TIME, SIGNATURE), {"at": "1614265631"}, "too_old"),
    ((ID, TIME, SIGNATURE), {"at": "1614265029"}, "too_new"),
    ((ID, TIME, "webhook-signature: abc"), {}, "malformed_signature"),
    ((ID, TIME, SIGNATURE), {"body": "{}"}, "no_match"),
    ((ID, TIME, SIGNATURE), {"body": BODY + "\n"}, "without the line end"),
    ((ID, TIME, SIGNATURE), {"secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"}, "no_match"),
])
def test_what_is_wrong_is_said(headers, options, said):
    ran = verify(*headers, **options)
    assert ran.returncode == 1 and said in ran.stderr and ran.stdout == ""


@pytest.mark.parametrize("signed_as, read_as, said", [
    ("stripe", "standard", "with the secret as it is"), ("standard", "stripe", "decoded")])
def test_a_secret_that_its_sender_takes_otherwise_is_told(signed_as, read_as, said):
    """The same prefix, and another key: of the same bytes, signed as the other scheme does."""
    assert signed_as != read_as
    secret = "whsec_" + "c2VjcmV0" * 4
    raw = f"1.{NOW}.{BODY}" if read_as == "standard" else f"{NOW}.{BODY}"
    key = ("--scheme", "github", "--secret", secret) if read_as == "standard" else (
        "--scheme", "github", "--secret", "secret" * 4)
    made = run("webhook", "sign", *key, input=raw).stdout.strip().removeprefix("sha256=")
    if read_as == "standard":
        value = base64.b64encode(bytes.fromhex(made)).decode()
        ran = verify("webhook-id: 1", TIME, f"webhook-signature: v1,{value}", secret=secret)
    else:
        ran = verify(f"Stripe-Signature: t={NOW},v1={made}", secret=secret,
                     more=("--scheme", "stripe"))
    assert ran.returncode == 1 and said in ran.stderr


@pytest.mark.parametrize("words, code, said", [
    ((), 2, "needs --secret"), (("--secret", "whsec_*", "--id", "a"), 65, "is not base64"),
    (("--secret", SECRET), 2, "the id is missing"),
    (("--secret", SECRET, "--id", "a.b"), 2, "the id has a dot"),
    (("--secret", "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=", "--id", "a"), 2,
     "only verifies"),
    (("--secret", "file:/nowhere", "--id", "a"), 2, "/nowhere"),
    (("--secret", SECRET, "--scheme", "other"), 2, "standard"),
])
def test_what_cannot_be_signed_is_said(words, code, said):
    ran = run("webhook", "sign", *words, input="")
    assert ran.returncode == code and said in ran.stderr, ran


def test_a_secret_may_lie_in_a_file(tmp_path):
    (tmp_path / "secret").write_text(SECRET + "\n")
    ran = run("webhook", "sign", "--secret", f"file:{tmp_path / 'secret'}", "--id",
              "msg_p5jXN8AQM9LWM0D4loKWxJek", "--timestamp", NOW, input=BODY)
    assert SIGNATURE.endswith(ran.stdout.strip())


# ---- listen ----


class Receiver:
    """`pawl webhook listen`, and what it printed."""

    def __init__(self, printed: Path, *words: str):
        self.printed = printed
        with printed.open("w") as out:
            self.process = subprocess.Popen(
                [*DIE_WITH_THE_TEST, str(PAWL), "webhook", "listen", "--listen", "127.0.0.1:0",
                 *words], stdout=out, stderr=subprocess.PIPE, text=True)
        said = self.process.stderr.readline()
        self.port = int(re.search(r"127\.0\.0\.1:(\d+)", said)[1])

    def post(self, body: str, headers: list[tuple[str, str]]) -> Answer:
        with Client(self.port) as client:
            return client.request("POST", "/hook?a=1", headers, body.encode())

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.printed.read_text().splitlines()]

    def end(self) -> int:
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Callable[..., Receiver]]:
    made: list[Receiver] = []

    def start(*words: str) -> Receiver:
        made.append(Receiver(tmp_path / f"printed{len(made)}", *words))
        return made[-1]

    yield start
    assert [one.end() for one in made] == [0] * len(made)


def signed(body: str, *secrets: str) -> list[tuple[str, str]]:
    words = [word for secret in secrets for word in ("--secret", secret)]
    made = run("webhook", "sign", *words, "--id", "evt_1", "--headers", input=body)
    return [tuple(line.split(": ", 1)) for line in made.stdout.splitlines()]


def test_a_receiver_verifies_prints_and_responds(listening):
    receiver = listening("--secret", SECRET)
    assert receiver.post(BODY, signed(BODY, SECRET)).status == 200
    assert receiver.post(BODY + " ", signed(BODY, SECRET)).status == 401
    refused = receiver.post(BODY, [])
    assert refused.status == 401 and refused.json == {"error": "no_signature"}
    good, bad, bare = receiver.lines()
    assert good["signature"] == "good" and good["id"] == "evt_1" and good["body"] == BODY
    assert (good["method"], good["target"]) == ("POST", "/hook?a=1")
    assert (bad["signature"], bare["signature"], bare["id"]) == ("no_match", "no_signature", None)


def test_a_receiver_responds_as_it_is_told_and_takes_either_secret(listening):
    other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
    receiver = listening("--secret", SECRET, "--secret", other, "--status", "503")
    for secrets in ((SECRET,), (other,), (SECRET, other)):
        assert receiver.post(BODY, signed(BODY, *secrets)).status == 503
    assert listening("--status", "204").post("{}", []).status == 204  # nothing is verified


def test_a_receiver_takes_no_more_than_a_mebibyte(listening):
    receiver = listening()
    assert receiver.post("x" * (1024 * 1024), []).status == 200
    assert receiver.post("x" * (1024 * 1024 + 1), []).status == 413
    assert receiver.post("\x00\x1b[2J\u2028", []).status == 200
    assert len(receiver.lines()) == 2


def test_a_receiver_listens_on_loopback_alone():
    ran = run("webhook", "listen", "--listen", "0.0.0.0:9001")
    assert ran.returncode == 1 and "not a loopback address" in ran.stderr
