# SPDX-License-Identifier: Apache-2.0
"""Checks examples/clients/pawl_client.py by its vectors. Prints what differs."""
from __future__ import annotations

import json
import sys
from email import message_from_string
from pathlib import Path

CLIENTS = Path(__file__).resolve().parents[2] / "examples/clients"
sys.path.insert(0, str(CLIENTS))
sys.dont_write_bytecode = True
import pawl_client as client  # noqa: E402

vectors = json.loads((CLIENTS / "vectors.json").read_text("utf-8"))
bad = checked = 0


def expect(made: object, wanted: object, what: object) -> None:
    global bad, checked  # pylint: disable=global-statement
    checked += 1
    if made != wanted:
        bad += 1
        print(f"{what}: {made!r}")


for one in vectors["canonical"]:
    body = one["body"].encode()
    expect(client.canonical(body).decode(), one["canonical"], one)
    expect(client.payload_hash(body), one["payload_hash"], one)
for one in vectors["keys"]:
    expect(client.format_key(bytes.fromhex(one["random"])), one["key"], one)
for one in vectors["dated_keys"]:
    expect(client.format_dated_key(one["made_ms"], bytes.fromhex(one["random"])), one["key"], one)
for one in vectors["delays"]:
    profile = client.PROFILES[one["profile"]]
    expect([client.delay_ms(profile, n, int(one["seed"]))
            for n in range(2, profile.attempts + 1)], one["delays_ms"], one)
for one in vectors["responses"]:
    for in_doubt in (False, True):
        lines = message_from_string("".join(f"{line}\n" for line in one["headers"]))
        made = client.classify(one["status"], lines, one["body"].encode(), in_doubt, one["done"],
                               one["later"])
        expect(made, one["in_doubt" if in_doubt else "class"], one)
        made = client.leaves_doubt(one["status"], lines, one["body"].encode())
        expect(made, one["leaves_doubt"], one)
for one in vectors["portals"]:
    lines = message_from_string("".join(f"{line}\n" for line in one["headers"]))
    sent = [tuple(line.split(": ", 1)) for line in one["sent"]]
    expect(client.is_portal(one["url"], sent, one["status"], lines, one["done"], one["later"]),
           one["portal"], one)
for one in vectors["hints"]:
    expect(client.read_hint([one["value"]], vectors["hints_at_ms"]), one["hint_ms"], one)
for one in vectors["decisions"]:
    course = client.Course(client.PROFILES[one["profile"]], int(one["seed"]),
                           one.get("deadline_ms"))
    now = 0
    for step in one["steps"]:
        lines = message_from_string(f"Error-Code: {step['code']}\n")
        kind = client.classify(step["status"], lines, b"", course.in_doubt)
        made = course.decide(kind, step.get("hint_ms"), now + step["took_ms"])
        course.in_doubt |= client.leaves_doubt(step["status"], lines, b"")
        expect(made, (step["decision"], step.get("at_ms", 0)), step)
        now, course.attempts = made[1], course.attempts + 1
expect(client.read_hint(["5", "soon", "7"], 0), 7000, "three lines")
expect(client.read_hint(["soon", "1s"], 0), None, "two lines")
print(f"{checked} checked, {bad} differ")
sys.exit(bad > 0)
