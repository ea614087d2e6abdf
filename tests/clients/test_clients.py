# SPDX-License-Identifier: Apache-2.0
"""Clients as they come, with their own retries: whatever gets lost on the way, the effect happens
once and the client has its answer."""
from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from relay import Relay
from pawltest.upstream import SAFE, Upstream, closes, say
from pawltest.wire import PATIENCE, Later, Request, eventually

HERE = Path(__file__).resolve().parent
MODULES = Path(os.environ.get("PAWL_CLIENTS", HERE.parents[1] / "build/clients")) / "node_modules"
RETRIES = "8"  # more than a slow machine needs

CONFIG = """
tenant: "{header:Authorization}"
rules:
  - name: refunds.create
    match: POST /v1/refunds
    unknown: {probe: "GET /v1/refunds/by-key/{key}"}
    settle: 0s
    in_progress: conflict
"""


@dataclass(frozen=True)
class Kind:
    """A client: how it is started, and what it makes of a refusal."""

    name: str
    command: tuple[str, ...]
    retries_409: bool  # of an operation that still runs, where nothing forbids it
    mismatch: dict[str, Any]  # its result

    def __str__(self) -> str:
        return self.name


CURL = """
curl --silent --show-error --max-time 60 --retry "$1" --retry-all-errors --output answer \
    --write-out '%{http_code}' --header 'Authorization: Bearer sk_test_pawl' \
    --header "Idempotency-Key: $2" --data "charge=ch_1&amount=$3" \
    "http://127.0.0.1:$0/v1/refunds" >status || exit
printf '{"status": %s, "answer": %s}' "$(cat status)" "$(cat answer)"
"""

REFUSED = "CONFLICT.idempotency.payload_mismatch"
STRIPE_NODE = Kind("stripe-node", ("node", "stripe.cjs"), True,
                   {"error": "StripeAPIError", "code": "PAYLOAD_MISMATCH", "status": 409})
STRIPE_PYTHON = Kind("stripe-python", (sys.executable, "stripe_python.py"), True,
                     {"error": "APIError", "code": "PAYLOAD_MISMATCH", "status": 409})
AXIOS = Kind("axios", ("node", "axios.cjs"), True,
             {"error": "ERR_BAD_REQUEST", "code": REFUSED, "status": 409})
REQUESTS = Kind("requests", (sys.executable, "requests_retry.py"), False,
                {"code": REFUSED, "status": 409})
CURL_KIND = Kind("curl", ("sh", "-c", CURL), False, {"code": REFUSED, "status": 409})
# Those of examples/clients.
PYTHON = Kind("python", (sys.executable, "one_refund.py"), True, {"code": REFUSED, "status": 409})
TYPESCRIPT = Kind("typescript", ("node", "one_refund.mjs"), True, {"code": REFUSED, "status": 409})
CLIENTS = (STRIPE_NODE, STRIPE_PYTHON, AXIOS, REQUESTS, CURL_KIND, PYTHON, TYPESCRIPT)
EXAMPLES = HERE.parents[1] / "examples/clients"


@functools.cache
def compiled_client() -> Path:
    """The client in TypeScript, once its types have been checked."""
    to = MODULES.parent / "compiled"
    subprocess.run(["node", str(MODULES / "typescript/bin/tsc"), "-p", str(HERE), "--outDir",
                    str(to)], check=True, timeout=2 * PATIENCE)
    (to / "package.json").write_text('{"type": "module"}')
    return to / "pawl_client.js"


def environment(kind: Kind) -> dict[str, str]:
    mine = {"NODE_PATH": str(MODULES), "no_proxy": "*", "PYTHONPATH": str(EXAMPLES),
            "PYTHONDONTWRITEBYTECODE": "1"}
    return {**os.environ, **mine,
            **({"PAWL_CLIENT": str(compiled_client())} if kind is TYPESCRIPT else {})}


@dataclass
class Shop:
    """The way from a client to the effects."""

    upstream: Upstream
    gateway: Any
    directory: Path
    relays: list[Relay]

    def relay(self, lose: int = 0) -> Relay:
        self.relays.append(Relay(self.gateway.port, lose))
        return self.relays[-1]

    def ask(self, kind: Kind, relay: Relay, key: str = "k1", amount: str = "100") -> dict[str, Any]:
        """What the client says in the end; members that are None are left out."""
        command = [str(HERE / part) if (HERE / part).is_file() else part for part in kind.command]
        ran = subprocess.run([*command, str(relay.port), RETRIES, key, amount], cwd=self.directory,
                             env=environment(kind),
                             stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             timeout=2 * PATIENCE, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        said = json.loads(ran.stdout)
        if "answer" in said:
            answer = said.pop("answer")
            said |= {"id": answer.get("id"), "code": answer.get("error_code")}
        return {name: value for name, value in said.items() if value is not None}


@pytest.fixture
def shop(pawl: Callable[..., Any], upstream: Upstream, tmp_path: Path) -> Iterator[Shop]:
    """A service that makes refunds, and finds them by their key."""

    def serve(request: Request) -> Any:
        if request.method not in SAFE:
            return say(200, refund(len(upstream.done) + 1))
        keys = [done["Idempotency-Key"] for done in upstream.done]
        key = request.target.rpartition("/")[2]
        return say(200, refund(keys.index(key) + 1)) if key in keys else say(404, {})

    upstream.default = serve
    made = Shop(upstream, pawl(CONFIG), tmp_path, [])
    yield made
    for relay in made.relays:
        relay.close()


def refund(number: int) -> dict[str, Any]:
    return {"id": f"re_{number}", "object": "refund"}


DONE = {"id": "re_1", "status": 200}

every_client = pytest.mark.parametrize("kind", CLIENTS, ids=str)


@every_client
def test_a_refund_is_made_once_and_again_under_another_key(shop, kind):
    relay = shop.relay()
    assert [shop.ask(kind, relay), shop.ask(kind, relay)] == [DONE, DONE]
    assert shop.ask(kind, relay, "k2") == {"id": "re_2", "status": 200}
    assert shop.upstream.effects() == 2


@every_client
def test_an_answer_that_the_service_dropped_is_found_and_the_effect_not_repeated(shop, kind):
    shop.upstream.then(closes())
    relay = shop.relay()
    assert shop.ask(kind, relay) == DONE
    assert shop.upstream.effects() == 1
    assert relay.statuses == [200]


@every_client
def test_while_the_outcome_is_unknown_the_clients_retries_settle_it(shop, kind):
    """The service drops its answer and then cannot tell what became of the refund."""
    shop.upstream.then(closes(), say(503, {}))
    relay = shop.relay()
    assert shop.ask(kind, relay) == DONE
    assert shop.upstream.effects() == 1
    assert relay.statuses == [502, 200]
    assert len(set(relay.keys)) == 1


@every_client
def test_answers_that_are_lost_on_the_way_to_the_client_cost_no_second_effect(shop, kind):
    relay = shop.relay(lose=2)
    assert shop.ask(kind, relay) == DONE
    assert shop.upstream.effects() == 1
    assert relay.statuses == [200, 200, 200]
    assert len(set(relay.keys)) == 1


@every_client
def test_a_key_reused_for_another_refund_is_an_error_at_once_and_nothing_is_sent(shop, kind):
    relay = shop.relay()
    assert shop.ask(kind, relay) == DONE
    assert shop.ask(kind, relay, amount="200") == kind.mismatch
    assert shop.upstream.effects() == 1
    assert relay.statuses == [200, 409]


@pytest.mark.parametrize("kind, error", [(STRIPE_NODE, "StripeIdempotencyError"),
                                         (STRIPE_PYTHON, "IdempotencyError")], ids=str)
def test_under_mismatch_400_stripes_clients_know_a_reused_key_for_what_it_is(shop, pawl, kind,
                                                                             error):
    shop.gateway = pawl(CONFIG + "    mismatch: 400\n")
    relay = shop.relay()
    assert shop.ask(kind, relay) == DONE
    said = shop.ask(kind, relay, amount="200")
    assert (said["error"], said["status"]) == (error, 400)
    assert relay.statuses == [200, 400]
    assert shop.upstream.effects() == 1


@pytest.mark.parametrize("kind", [kind for kind in CLIENTS if kind.retries_409], ids=str)
def test_who_is_told_that_the_first_still_runs_comes_again_and_has_its_answer(shop, kind):
    gate = shop.upstream.gate()
    shop.upstream.then(say(200, refund(1), gate=gate))
    one, other = shop.relay(), shop.relay()
    first = Later(lambda: shop.ask(kind, one))
    gate.wait_for()
    second = Later(lambda: shop.ask(kind, other))
    eventually(lambda: other.statuses, "the refusal")
    gate.open()
    assert [first.result(), second.result()] == [DONE, DONE]
    assert other.statuses[0] == 409 and other.statuses[-1] == 200
    assert shop.upstream.effects() == 1


@pytest.mark.parametrize("kind", [STRIPE_NODE, STRIPE_PYTHON], ids=str)
def test_the_keys_that_stripes_clients_mint_protect_as_they_are(shop, kind):
    relay = shop.relay(lose=1)
    assert shop.ask(kind, relay, key="") == DONE
    assert shop.upstream.effects() == 1
    assert len(relay.keys) == 2 and len(set(relay.keys)) == 1


@pytest.mark.parametrize("kind", [STRIPE_NODE, STRIPE_PYTHON], ids=str)
def test_what_no_retry_heals_is_told_to_stripes_clients_once(shop, pawl, upstream, kind):
    """They would retry any 409 and 502; stripe-node takes a 409 without `error` for a success."""
    shop.gateway = pawl(CONFIG.replace('{probe: "GET /v1/refunds/by-key/{key}"}', "hold"))
    upstream.then(closes())
    relay = shop.relay()
    told = [shop.ask(kind, relay) for _ in range(2)]
    assert [said["code"] for said in told] == ["UPSTREAM_BROKE", "OUTCOME_UNKNOWN"]
    assert all(said["error"].endswith("APIError") for said in told)
    assert relay.statuses == [502, 409]
    assert upstream.effects() == 1


ENDS_PYTHON = """
import json, sys
from pawl_client import send
ends = []
for n in range(5):
    made = send("POST", f"http://127.0.0.1:{sys.argv[1]}/v1/refunds", b"{}", key=f"k{n}",
                not_done=lambda headers, body: headers["X-State"] == "queued")
    ends.append([made.ended, made.in_doubt, made.attempts])
print(json.dumps(ends))
"""
ENDS_TYPESCRIPT = """
import {pathToFileURL} from 'node:url';
const {send} = await import(pathToFileURL(process.env.PAWL_CLIENT));
const ends = [];
for (let n = 0; n < 5; n++) {
  const made = await send('POST', `http://127.0.0.1:${process.argv[1]}/v1/refunds`, '{}', {
    key: `k${n}`, notDone: (headers) => headers.get('X-State') === 'queued'});
  ends.push([made.ended, made.inDoubt, made.attempts]);
}
console.log(JSON.stringify(ends));
"""


@pytest.mark.parametrize("kind, command", [
    (PYTHON, [sys.executable, "-c", ENDS_PYTHON]),
    (TYPESCRIPT, ["node", "--input-type=module", "-e", ENDS_TYPESCRIPT])], ids=str)
def test_the_clients_of_the_examples_say_how_an_operation_ended(upstream, kind, command):
    upstream.then(say(401, {}, effect=False), closes(effect=False), say(422, {}, effect=False),
                  say(500, {}, ("X-State", "queued"), effect=False), say(422, {}, effect=False),
                  closes(effect=False), say(201, {}),
                  say(302, None, ("Location", "http://portal.example/"), effect=False),
                  say(200, {}))
    ran = subprocess.run([*command, str(upstream.port)], env=environment(kind), text=True,
                         stdin=subprocess.DEVNULL, capture_output=True, timeout=2 * PATIENCE,
                         check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [["credentials", False, 1], ["in_doubt", True, 2],
                                      ["final", False, 2], ["done", False, 2],
                                      ["done", False, 2]]


def test_the_clients_of_the_examples_agree_with_the_vectors(tmp_path):
    """Those in Python and TypeScript; Go's where there is a compiler."""
    vectors = EXAMPLES / "vectors.json"
    commands = [[sys.executable, "check_vectors.py"],
                ["node", "check_vectors.mjs", str(compiled_client()), str(vectors)]]
    if shutil.which("go"):
        for path in (vectors, EXAMPLES / "pawl_client.go", HERE / "vectors_test.go"):
            shutil.copy(path, tmp_path)
        (tmp_path / "go.mod").write_text("module pawlclient\n\ngo 1.19\n")
        commands.append(["go", "test", "."])
    for command in commands:
        ran = subprocess.run(command, cwd=tmp_path if "go" in command else HERE,
                             stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             timeout=2 * PATIENCE, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
