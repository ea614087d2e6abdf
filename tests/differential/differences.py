#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What nginx, HAProxy and pawl make of the same requests, and the tables of docs/differences.md.

usage: tests/differential/differences.py   writes the tables anew; the reasons are written by hand

A row of a table is one outcome and all requests that end so; a section is a class of differences.
The sections' names are those of `kind_of` with the topic of the request.
"""
from __future__ import annotations

import re
import sys
import tempfile
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import Iterable, Iterator

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

# pylint: disable=wrong-import-position
from pawltest import hostile_requests  # noqa: E402
import odd_requests  # noqa: E402
import peers  # noqa: E402
from pawltest.hostile_requests import Case  # noqa: E402
from peers import ADDED, Outcome, Proxy, Recorder, Seen  # noqa: E402

DOCUMENT = HERE.parents[1] / "docs" / "differences.md"
TABLE = re.compile(r"<!-- table: ([\w, ]+) -->\n(.*?)<!-- end -->\n", re.S)
NAMES = ("nginx", "HAProxy", "pawl")
TOPICS = {1: "length", 2: "length", 3: "length and coding", 4: "coding", 5: "coding",
          6: "chunks", 7: "chunks", 8: "chunks", 9: "trailers", 10: "fields", 11: "fields",
          12: "request line", 13: "host", 14: "expect", 15: "connection", 16: "framing",
          19: "key", 21: "target", 22: "fields", 23: "framing", 24: "connection"}
# What is forwarded in different ways falls into fewer classes.
FORWARDED = {"length": "framing", "coding": "framing", "chunks": "framing", "trailers": "framing",
             "connection": "fields", "expect": "fields", "request line": "target"}
HOP_BY_HOP = {"connection", "keep-alive", "te", "trailer", "upgrade", "proxy-connection",
              "transfer-encoding", "content-length"}

Row = tuple[str, str, str]  # an outcome for each of NAMES


def name_of(case: Case) -> str:
    return f"{case.item} {case.name}"


def alone() -> list[Case]:
    """Every request on a connection of its own; cases 17 and 20 repeat them behind a valid one."""
    return [*(case for case in hostile_requests.requests() if case.item not in (17, 20)),
            *odd_requests.requests()]


def behind_valid() -> list[Case]:
    return [case for case in hostile_requests.requests() if case.item in (17, 20)]


@contextmanager
def running(directory: Path) -> Iterator[list[Proxy]]:
    recorders = [Recorder() for _ in NAMES]
    starts = (peers.nginx, peers.haproxy, peers.pawl)
    lives = [start(directory, recorder) for start, recorder in zip(starts, recorders)]
    try:
        yield [next(life) for life in lives]
        for life in lives:
            next(life, None)
    finally:
        for life in lives:
            life.close()
        for recorder in recorders:
            recorder.close()


# ---- outcomes as text ----


def end_to_end(seen: Seen) -> list[tuple[str, str]]:
    """What must reach the upstream as it was sent, of what one proxy passed on."""
    return [field for field in seen.fields if field[0] not in HOP_BY_HOP]


def compared(outcome: Outcome, place: int, name: str) -> set[str]:
    """The field lines of one forwarded request that are not the proxy's own."""
    if place >= len(outcome.forwarded):
        return set()
    added = ADDED if name == "pawl" else set()
    lines: dict[str, list[str]] = defaultdict(list)
    for key, value in outcome.forwarded[place].fields:
        if key not in added | {"transfer-encoding", "content-length"}:
            lines[key].append(value)
    return {f"{shorten(key)}: {shorten(' / '.join(values))}" for key, values in lines.items()}


def shorten(text: str) -> str:
    shown = text.encode("latin-1").decode("ascii", "backslashreplace")
    shown = re.sub(r"[\x00-\x1f\x7f|`]", lambda found: f"\\x{ord(found.group()):02x}", shown)
    return shown if len(shown) <= 40 else f"{shown[:30]}... ({len(text)})"


def told(seen: Seen, lines: Iterable[str]) -> str:
    body = f" +{len(seen.body)} {seen.framing}".rstrip() if seen.framing else ""
    own = "".join(f", `{line}`" for line in sorted(lines))
    return f"`{shorten(seen.method)} {shorten(seen.target)}`{body}{own}"


def row_of(outcomes: list[Outcome]) -> Row:
    """Answers, and behind an arrow what was forwarded: with the field lines that not every one of
    those that forwarded has."""
    forwarding = [o for o in outcomes if o.forwarded]
    cells = []
    for name, outcome in zip(NAMES, outcomes):
        parts = []
        for place, seen in enumerate(outcome.forwarded):
            everybodys = set.intersection(*(compared(o, place, n) for n, o in zip(NAMES, outcomes)
                                            if o in forwarding))
            parts.append(told(seen, compared(outcome, place, name) - everybodys))
        cell = " ".join(outcome.answers) or "-"
        cells.append(" ← ".join([cell, "; ".join(parts)] if parts else [cell]))
    return cells[0], cells[1], cells[2]


def answers_in(cell: str) -> int | None:
    """How many answers a cell tells of; None where bytes are none that can be counted."""
    answers = cell.split(" ←")[0].replace("-", "").split()
    return None if "bare" in answers else len(answers)


def kind_of(case: Case, row: Row) -> str | None:
    """The class of a difference; None where there is none."""
    if len(set(row)) == 1:
        return None
    nginx, haproxy, own = ("←" in cell for cell in row)
    topic = TOPICS[case.item]
    if not nginx and not haproxy and not own:
        return "refused, another status"
    if not own:
        return f"refused by pawl, {topic}"
    if not nginx or not haproxy:
        return "refused by a peer"
    return f"forwarded otherwise, {FORWARDED.get(topic, topic)}"


# ---- the document ----


def tables(rows: dict[str, tuple[Case, Row]]) -> dict[str, str]:
    """By class, the lines of its table."""
    grouped: dict[str, dict[Row, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, (case, row) in rows.items():
        kind = kind_of(case, row)
        if kind is not None:
            grouped[kind][row].append(name)
    head = f"| {' | '.join(NAMES)} | requests |\n|---|---|---|---|\n"
    return {kind: head + "".join(f"| {' | '.join(row)} | {'<br>'.join(map(shorten, names))} |\n"
                                 for row, names in found.items())
            for kind, found in grouped.items()}


def documented() -> dict[str, str]:
    return dict(TABLE.findall(DOCUMENT.read_text("utf-8")))


def rows_of(table: str) -> Iterator[tuple[str, Row]]:
    """By request, its row."""
    for line in table.splitlines()[2:]:
        nginx, haproxy, own, names = (cell.strip() for cell in line.strip("|").split(" | "))
        yield from ((name, (nginx, haproxy, own)) for name in names.split("<br>"))


def expected() -> dict[str, Row]:
    return {name: row for table in documented().values() for name, row in rows_of(table)}


def play(proxies: list[Proxy], case: Case, listed: Row | None) -> list[Outcome]:
    """Each proxy gets the time for the answers that are listed; all that it gives, where none."""
    return [proxy.play(case, len(case.answers) if listed is None else answers_in(listed[i]))
            for i, proxy in enumerate(proxies)]


def write() -> None:
    text = DOCUMENT.read_text("utf-8") if DOCUMENT.exists() else ""
    with tempfile.TemporaryDirectory() as directory, running(Path(directory)) as proxies:
        rows = {name_of(case): (case, row_of([proxy.play(case, None) for proxy in proxies]))
                for case in alone()}
    made = tables(rows)
    for kind in TABLE.findall(text):
        print(f"gone: {kind[0]}") if kind[0] not in made else None
    text = TABLE.sub(lambda found: f"<!-- table: {found[1]} -->\n{made.pop(found[1], '')}"
                     "<!-- end -->\n", text)
    for kind, table in sorted(made.items()):
        print(f"new, and without a reason: {kind}")
        text += f"\n### {kind}\n\n<!-- table: {kind} -->\n{table}<!-- end -->\n"
    DOCUMENT.write_text(text, "utf-8")


if __name__ == "__main__":
    write()
