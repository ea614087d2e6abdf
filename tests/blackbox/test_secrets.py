# SPDX-License-Identifier: Apache-2.0
"""No secret of a config is in anything that pawl prints, logs or answers."""
from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pawltest.admin import with_admin
from pawltest.gateway import ROOT, run

pytestmark = pytest.mark.no_store

MARKS = re.compile(r"^ +(?:X\((\w+), [^,]*OPTION_SECRET[^,]*,|CONFIG_SECRET\((\w+), (\w+),)", re.M)
MARKER = "hunter2" * 5
CODED = "whsec_" + base64.b64encode(MARKER.encode()).decode()
NEEDLES = [MARKER, CODED, CODED.removeprefix("whsec_")]


def marked() -> set[str]:
    """What the tables mark as secret: options by name, members as struct.name."""
    found = set()
    for path in [*(ROOT / "src").rglob("*.c"), *(ROOT / "src/config").glob("*.h")]:
        for name, member, struct in MARKS.findall(path.read_text("utf-8")):
            found.add(name or f"{struct}.{member}")
    return found


# A value for each of them, and what does not stand in a table: URLs with a password.
PLACES: dict[str, dict[str, Any]] = {
    "admin_token": {"admin_token": MARKER},
    "probe_headers": {"defaults": {"probe_headers": {"Authorization": f"Bearer {MARKER}"}}},
    "webhook_endpoint.secret": {"webhooks": {"allow": ["127.0.0.0/8"], "endpoints": [
        {"name": "e", "url": "https://127.0.0.1:9/", "types": ["x.*"], "secret": [CODED]}]}},
    "verify_draft.secret": {"inbox": [
        {"name": "s", "match": "POST /hooks/s", "handler": "POST /internal/s",
         "verify": {"scheme": "standard", "secret": CODED}},
        {"name": "t", "match": "POST /hooks/t", "handler": "POST /internal/t", "id": "{body:/id}",
         "verify": {"header": "X-Sign", "secret": [MARKER, f"{MARKER}2"]}}]},
    "a password in a store": {"store": f"postgres://pawl:{MARKER}@127.0.0.1:1/pawl"},
    "a password among a store's parameters":
        {"store": f"postgres://127.0.0.1:1/pawl?user=pawl&password={MARKER}"},
}
RULES = {"tenant": "none", "rules": [{"name": "r", "match": "POST /r"}]}


def said(*texts: str) -> None:
    for needle in NEEDLES:
        assert not any(needle in text for text in texts), needle


def test_each_secret_of_the_tables_has_a_marker_here():
    assert marked() == {place for place in PLACES if " " not in place}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("wrong", [False, True], ids=["right", "beside a mistake"])
def test_no_command_that_reads_a_config_prints_a_secret(tmp_path: Path, place, wrong):
    """found: R13"""
    config = {"upstream": "http://127.0.0.1:9", "store": f"sqlite:{tmp_path}/pawl.db",
              **RULES, **PLACES[place], **({"drain": "x"} if wrong else {})}
    path = tmp_path / "pawl.yaml"
    path.write_text(json.dumps(config), "utf-8")
    for command in (["config", "explain"], ["config", "explain", "--json"], ["serve", "--test"],
                    ["keys", "list"], ["queue", "list"], ["webhook", "list"], ["inbox", "list"],
                    ["webhook", "endpoint", "list"], ["stats"]):
        ran = run(*command, "-c", path)
        said(ran.stdout, ran.stderr)
        if command[:2] == ["config", "explain"] and not wrong:
            assert "(hidden)" in ran.stdout


def test_a_wrong_secret_is_not_printed(tmp_path: Path):
    """found: R13"""
    short = "hunter2"
    for place in ({"admin_token": f"{short} {short}"},
                  {"inbox": [{"name": "s", "match": "POST /s", "handler": "POST /i",
                              "verify": {"scheme": "standard", "secret": f"whsec_{short}*"}}]},
                  {"webhooks": {"endpoints": [{"name": "e", "url": "https://e.example/",
                                               "types": ["x.*"], "secret": f"whsec_{short}*"}]}}):
        path = tmp_path / "pawl.yaml"
        path.write_text(json.dumps({"upstream": "http://127.0.0.1:9", **RULES, **place}), "utf-8")
        ran = run("serve", "--test", "-c", path)
        assert ran.returncode != 0 and short not in ran.stdout + ran.stderr


def test_no_log_and_no_answer_has_a_secret(pawl, upstream):
    """found: R13"""
    config: dict[str, Any] = dict(RULES)
    for place, more in PLACES.items():
        if "store" not in place and "admin_token" not in more:
            config.update(more)
    text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in config.items())
    gateway, admin = with_admin(pawl, text, token=MARKER)
    assert gateway.post("/r", {}, key="k1").status == 201
    forged = [("webhook-id", "e1"), ("webhook-timestamp", "1"), ("webhook-signature", "v1,x")]
    assert gateway.request("POST", "/hooks/s", forged, b"{}").status == 401
    answers = [gateway.request("GET", "/.well-known/idempotency")]
    for path in ("/metrics", "/readyz", "/keys", "/deliveries", "/endpoints", "/events", "/none"):
        answers.append(admin.get(path))
        answers.append(admin.get(path, [("Authorization", "Bearer x")]))
    said(*[f"{answer.headers} {answer.body.decode('latin-1')}" for answer in answers])
    gateway.stop()
    said("\n".join(gateway.printed))
