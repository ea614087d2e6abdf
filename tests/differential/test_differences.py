# SPDX-License-Identifier: Apache-2.0
"""pawl beside nginx and HAProxy: docs/differences.md lists all that differs, and no more; and what
pawl forwards, nobody reads in another way."""
from __future__ import annotations

import re
from dataclasses import replace
from typing import Callable, Iterator

import pytest

import differences
from differences import NAMES, Row, alone, answers_in, behind_valid, end_to_end, name_of, row_of
from pawltest.hostile_requests import Case, head
from peers import ADDED, Outcome, Proxy, Seen

LISTED = differences.expected()
CASES = {name_of(case): case for case in alone()}
# Names that nginx drops without a word.
UNUSUAL = re.compile(r"[^a-z0-9-]")

def can_count(outcome: Outcome) -> bool:
    """Whether its answers are told apart and none may be lost."""
    return not {"bare", "refused"} & set(outcome.answers)


Played = Callable[[Case], list[Outcome]]


@pytest.fixture(scope="module")
def proxies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Proxy]]:
    with differences.running(tmp_path_factory.mktemp("proxies")) as running:
        yield running


@pytest.fixture(scope="module")
def played(proxies: list[Proxy]) -> Played:
    """What a request became behind each of the three; sent once."""
    kept: dict[str, list[Outcome]] = {}

    def play(case: Case) -> list[Outcome]:
        name = name_of(case)
        if name not in kept:
            kept[name] = differences.play(proxies, case, LISTED.get(differences.shorten(name)))
        return kept[name]

    return play


def listed(case: Case) -> Row | None:
    return LISTED.get(differences.shorten(name_of(case)))


@pytest.mark.parametrize("case", CASES.values(), ids=str)
def test_every_difference_is_listed_and_every_listed_one_is_seen(played, case):
    row = row_of(played(case))
    assert listed(case) == (row if len(set(row)) > 1 else None)


def test_every_row_stands_in_its_class_and_names_requests_that_are_sent():
    names = {differences.shorten(name): case for name, case in CASES.items()}
    assert len(names) == len(CASES)
    for kind, table in differences.documented().items():
        rows = list(differences.rows_of(table))
        assert rows, kind
        for name, row in rows:
            assert differences.kind_of(names[name], row) == kind


def readings(outcome: Outcome) -> list[tuple[object, ...]]:
    return [(seen.method, seen.target, seen.body, sorted(end_to_end(seen)))
            for seen in outcome.forwarded]


def usual(seen: Seen) -> Seen:
    return replace(seen, fields=tuple(f for f in seen.fields if not UNUSUAL.search(f[0])))


@pytest.mark.parametrize("case", CASES.values(), ids=str)
def test_what_pawl_forwards_its_peers_read_in_the_same_way_or_refuse(proxies, played, case):
    ours = played(case)[NAMES.index("pawl")]
    for seen in ours.forwarded:
        again = replace(case, steps=(seen.raw,), answers_due=())
        for proxy in proxies[:2]:
            theirs = proxy.play(again, 1)
            if not theirs.forwarded:
                assert [status[0] for status in theirs.answers] == ["4"], theirs
                continue
            one = Outcome(("200",), (usual(seen) if proxy.name == "nginx" else seen,))
            assert theirs.answers == ("200",)
            assert readings(theirs) == readings(one)


@pytest.mark.parametrize("case", behind_valid(), ids=str)
def test_behind_a_valid_request_each_ends_as_it_does_alone(proxies, played, case):
    number, _, name = case.name.partition(" ")
    before = CASES[f"{int(number)} {name}"]
    for proxy, outcome in zip(proxies, played(before), strict=True):
        got = proxy.play(case, 1 + len(outcome.answers) if can_count(outcome) else None)
        if can_count(outcome):
            assert got.answers == ("200", *outcome.answers)
        assert [differences.told(seen, ()) for seen in got.forwarded[1:]] == \
            [differences.told(seen, ()) for seen in outcome.forwarded]


def test_pawl_adds_only_the_fields_that_are_named_here_and_the_peers_none(proxies):
    sent = {"host", "idempotency-key", "content-length"}
    case = Case(0, "plain", (head(b"Content-Length: 0"),), (frozenset({200}),))
    nginx, haproxy, own = ({name for name, _ in proxy.play(case, 1).forwarded[0].fields}
                           for proxy in proxies)
    assert nginx == haproxy == sent
    assert own == sent | ADDED
    document = differences.DOCUMENT.read_text("utf-8").lower()
    assert all(f"`{name}" in document for name in ADDED)
    assert answers_in("200 200 ← `GET /`") == 2 and answers_in("-") == 0
