# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/guide/queue.md: every act of a person in every state of an operation and of a
list does what its cell says. Each cell has an operation or a list of its own."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pawltest.upstream import Gate, Reply, Upstream, closes, say
from pawltest.wire import Request, eventually
from test_queue import lines
from test_queue_drain import Drained, queue
from test_queue_linked import Lists, lists

pytestmark = [pytest.mark.hooks, pytest.mark.file_only]
assert queue and lists  # fixtures
PAGE = (Path(__file__).resolve().parents[2] / "docs/guide/queue.md").read_text("utf-8")
PART = PAGE.partition("## States, and")[2].partition("\n## ")[0]
Table = dict[tuple[str, str], str]


def tables() -> list[Table]:
    """By what the row and the column are called."""
    found: list[Table] = []
    for text in re.findall(r"(?:^\|.*\n)+", PART, re.M):
        head, _, *rows = [[cell.strip(" `") for cell in line.strip("|\n").split("|")]
                          for line in text.splitlines()]
        found.append({(row[0], name): cell
                      for row in rows for name, cell in zip(head[1:], row[1:])})
    return found


OPERATIONS, TASKS, WHOLE = tables()
PROBLEM = ("Content-Type", "application/problem+json")
UNSURE = {"error_code": "CONFLICT.idempotency.outcome_unknown", "retryable": False}


LATER = ("Retry-After", "3600")
REPLIES = {"ok": say(201, {"id": "7"}), "no": say(422, {}), "later": say(503, {}, LATER),
           "unsure": say(504, {}, LATER), "lost": closes(),
           "ended": say(409, UNSURE, PROBLEM, effect=False)}


def answer(upstream: Upstream) -> Gate:
    """By the last word of the path; `held` stands at the gate."""
    gate = upstream.gate()

    def reply(request: Request) -> Reply:
        word = request.target.rpartition("/")[2]
        return say(201, {"id": "7"}, gate=gate) if word == "held" else REPLIES[word]

    upstream.default = reply
    return gate


def die_while_sending(queue: Drained, upstream: Upstream, gate: Gate, n: int) -> None:
    drain = queue.start("-j", "64")
    eventually(lambda: sum(request.target.endswith("/held") for request in upstream.requests) == n,
               "those that are being sent")
    drain.kill()
    queue.end(drain)
    gate.open()


def is_code(wanted: str) -> bool:
    return wanted.isdigit()


def act(queue: Drained, cell: tuple[str, str], wanted: str, *command: str) -> None:
    ran = queue.run(*command)
    assert ran.returncode == (int(wanted) if is_code(wanted) else 0), (cell, ran)


# ---- operations ----

# In this order: the breaker stays closed.
STATES = {"done": "ok", "dead": "no", "dropped": "no", "waiting, in doubt": "unsure",
          "dead, in doubt": "lost", "being sent": "held", "waiting": "ok"}
VALUES = {"-d": ["-d", "new"], "-H": ["-H", "A: b"]}


def add_cells(queue: Drained, state: str) -> dict[tuple[str, str], str]:
    cells = [cell for cell in OPERATIONS if cell[1] == state]
    ends = {"attempts": 1} if state == "dead, in doubt" else {}
    added = queue.did("add", "-", input=lines(*[
        {"url": f"{queue.url}/{STATES[state]}", "data": "x", **ends} for _ in cells]))
    return dict(zip(cells, [line.split()[0] for line in added.splitlines()]))


def words(shown: dict[str, Any]) -> str:
    return shown["state"].replace("sending", "being sent") + ", in doubt" * shown["in_doubt"]


def test_every_act_on_an_operation_does_what_the_guide_says(queue, upstream):
    gate = answer(upstream)
    assert {state for _, state in OPERATIONS} == set(STATES) and len(OPERATIONS) == 49
    ids: dict[tuple[str, str], str] = {}
    for state in STATES:
        if state not in ("waiting", "being sent"):
            ids |= add_cells(queue, state)
    queue.drain("--once", code=1)
    for cell in [cell for cell in ids if cell[1] == "dropped"]:
        queue.did("drop", ids[cell])
    sending = add_cells(queue, "being sent")
    die_while_sending(queue, upstream, gate, len(sending))
    ids |= sending | add_cells(queue, "waiting")
    queue.clock.advance(120)  # what was on its way has arrived
    for cell, identity in ids.items():
        before, wanted = queue.show(identity), OPERATIONS[cell]
        assert words(before) == cell[1]
        command, *options = cell[0].split()
        given = [word for option in options for word in VALUES.get(option, [option])]
        act(queue, cell, wanted, command, identity, *given)
        after = queue.show(identity)
        assert words(after) == (cell[1] if is_code(wanted) else wanted), cell
        is_new = "-d" in options and not is_code(wanted)
        assert (after["key"] != before["key"]) == is_new, cell


# ---- lists ----

# What becomes of each step, and of its undo; which one is acted on.
TASK_ROWS = {
    "running: a step that reached nobody": ("ok/ok ok", 1),
    "running: a step that is tried again": ("ok/ok later", 1),
    "running: a step that is being sent": ("ok/ok held", 1),
    "running: a step that is done": ("ok/ok later", 0),
    "parked: the step in doubt": ("ok/ok lost ok", 1),
    "parked: a step behind it": ("ok/ok lost ok", 2),
    "undoing: a step": ("ok/later no", 1),
    "undoing: an undo that waits": ("ok/later no", "undo 0"),
    "undoing: an undo that waits, in doubt": ("ok/unsure no", "undo 0"),
    "undoing: an undo that is being sent": ("ok/held no", "undo 0"),
    "undoing: an undo that is done": ("ok/later ok/ok no", "undo 1"),
    "parked: an undo that was refused": ("ok/no no", "undo 0"),
    "parked: an undo in doubt": ("ok/ended no", "undo 0"),
    "parked: an undo that could not be filled in": ("ok/{response:/absent} no", "undo 0"),
    "over: a step": ("ok", 0),
}
WHOLE_ROWS = {
    "running": "ok/ok later", "running, a step in doubt": "ok/ok unsure",
    "running, a step is being sent": "ok/ok held", "parked at a step": "ok/ok lost",
    "undoing": "ok/later no", "undoing, an undo is being sent": "ok/held no",
    "parked at an undo": "ok/no no", "over": "ok",
}
NOT_SENT = "running: a step that reached nobody"


class Cells:
    """A list for each cell of a table, in the state of its row."""

    def __init__(self, lists: Lists):
        self.lists = lists
        self.steps: dict[tuple[str, str], list[str]] = {}

    def add(self, cell: tuple[str, str], recipe: str) -> None:
        steps = []
        for how, _, undo in (word.partition("/") for word in recipe.split()):
            step = {"url": self.lists.at(f"/step/{how}"), "data": "x"}
            if how == "lost":
                step["attempts"] = 1
            if undo:
                step["undo"] = {"url": self.lists.at(f"/undo/{undo}")}
            steps.append(step)
        self.lists.add_list(*steps)
        self.steps[cell] = self.lists.steps

    def make(self, upstream: Upstream, recipes: dict[tuple[str, str], str]) -> None:
        gate = answer(upstream)
        held = [cell for cell, recipe in recipes.items() if "held" in recipe]
        for cell, recipe in recipes.items():
            if cell not in held and cell[0] != NOT_SENT:
                self.add(cell, recipe)
        self.lists.drain("--once", code=1)
        for cell in held:
            self.add(cell, recipes[cell])
        die_while_sending(self.lists, upstream, gate, len(held))
        for cell in [cell for cell in recipes if cell[0] == NOT_SENT]:
            self.add(cell, recipes[cell])
        self.lists.clock.advance(120)  # what was on its way has arrived

    def state(self, cell: tuple[str, str]) -> str:
        return self.lists.show(self.steps[cell][0])["list_state"]

    def check(self, cell: tuple[str, str], wanted: str, *command: str) -> None:
        before = re.split("[: ,]", cell[0])[0]
        act(self.lists, cell, wanted, *command)
        after = self.state(cell)
        assert after == (wanted if not is_code(wanted) else before.replace("over", "done")), cell


def test_every_act_on_a_task_of_a_list_does_what_the_guide_says(lists, upstream):
    assert {row for row, _ in TASKS} == set(TASK_ROWS) and len(TASKS) == 105
    cells = Cells(lists)
    cells.make(upstream, {cell: TASK_ROWS[cell[0]][0] for cell in TASKS})
    undos = {row["key"]: str(row["id"]) for row in lists.list()}
    for cell, wanted in TASKS.items():
        command, *options = cell[1].split()
        which = str(TASK_ROWS[cell[0]][1])
        target = cells.steps[cell][int(which[-1])]
        if which.startswith("undo"):
            target = undos[lists.show(target)["undo_key"]]
        more = ["--url", lists.at("/step/ok"), "-d", "new"] if command == "edit" else []
        cells.check(cell, wanted, command, target, *options, *more)


def test_every_drop_of_a_list_does_what_the_guide_says(lists, upstream):
    assert {row for row, _ in WHOLE} == set(WHOLE_ROWS) and len(WHOLE) == 24
    cells = Cells(lists)
    cells.make(upstream, {cell: WHOLE_ROWS[cell[0]] for cell in WHOLE})
    for cell, wanted in WHOLE.items():
        number = str(lists.show(cells.steps[cell][0])["list"])
        options = [word for word in cell[1].split()[1:] if word != "--list"]
        cells.check(cell, wanted, "drop", "--list", number, *options)
