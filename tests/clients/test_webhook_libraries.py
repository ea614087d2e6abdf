# SPDX-License-Identifier: Apache-2.0
"""What `pawl webhook sign` signs is verified by the libraries that receivers use, and what senders
sign with theirs by `pawl webhook verify`: Standard Webhooks, Stripe, GitHub."""
from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from pawltest.gateway import run
from pawltest.wire import PATIENCE

HERE = Path(__file__).resolve().parent
MODULES = Path(os.environ.get("PAWL_CLIENT_MODULES", HERE.parents[1] / "build/clients"))
SECRETS = {"standard": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "stripe": "whsec_MfKQ9r8G",
           "github": "It's a Secret to Everybody"}
OTHERS = {"standard": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "stripe": "whsec_other",
          "github": "another"}
BODIES = ['{"type":"refund.succeeded","data":{"amount":5}}',
          '{"name": "Zo\u00eb \u2603", "n": 1e3}',
          '{"object":"event","id":"evt_1"}\n']


def library(act: str, scheme: str, **given: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", HERE / "webhooks.mjs"], text=True, capture_output=True, timeout=PATIENCE,
        input=json.dumps({"act": act, "scheme": scheme, **given}), check=False,
        env={**os.environ, "NODE_PATH": str(MODULES / "node_modules")})


def signed_by_pawl(scheme: str, body: str, *secrets: str) -> dict[str, str]:
    words = [word for secret in secrets for word in ("--secret", secret)]
    ran = run("webhook", "sign", "--scheme", scheme, *words, "--id", "msg_1", "--headers",
              input=body)
    assert ran.returncode == 0, ran.stderr
    return dict(line.split(": ", 1) for line in ran.stdout.splitlines())


@pytest.mark.parametrize("scheme", SECRETS)
@pytest.mark.parametrize("body", BODIES)
def test_the_library_verifies_what_pawl_signs(scheme, body):
    headers = signed_by_pawl(scheme, body, SECRETS[scheme])
    told = library("verify", scheme, secret=SECRETS[scheme], body=body, headers=headers)
    assert told.returncode == 0 and json.loads(told.stdout) == json.loads(body), told.stderr
    refused = library("verify", scheme, secret=OTHERS[scheme], body=body, headers=headers)
    assert refused.returncode != 0


@pytest.mark.parametrize("secret", [SECRETS["standard"], OTHERS["standard"]])
def test_the_library_verifies_with_either_secret_while_they_rotate(secret):
    headers = signed_by_pawl("standard", BODIES[0], *(SECRETS["standard"], OTHERS["standard"]))
    told = library("verify", "standard", secret=secret, body=BODIES[0], headers=headers)
    assert told.returncode == 0, told.stderr


@pytest.mark.parametrize("scheme", SECRETS)
@pytest.mark.parametrize("body", BODIES)
def test_pawl_verifies_what_the_library_signs(scheme, body):
    now = int(time.time())
    value = library("sign", scheme, secret=SECRETS[scheme], id="msg_1", seconds=now, body=body)
    assert value.returncode == 0, value.stderr
    header = {"standard": "webhook-signature", "stripe": "Stripe-Signature",
              "github": "X-Hub-Signature-256"}[scheme]
    lines = [f"{header}: {value.stdout}"]
    if scheme == "standard":
        lines += ["webhook-id: msg_1", f"webhook-timestamp: {now}"]
    words = [word for line in lines for word in ("-H", line)]
    good = run("webhook", "verify", "--scheme", scheme, "--secret", SECRETS[scheme], *words,
               "--timestamp", str(now), input=body)
    assert (good.returncode, good.stdout) == (0, "good\n"), good.stderr
    bad = run("webhook", "verify", "--scheme", scheme, "--secret", OTHERS[scheme], *words,
              "--timestamp", str(now), input=body)
    assert bad.returncode == 1 and "no_match" in bad.stderr
