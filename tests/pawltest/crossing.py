# SPDX-License-Identifier: Apache-2.0
"""Every change of what the names of a rule's records are made of, and of which rule a path meets,
with records of every state on both sides of it. The table says what a retry gets."""
from __future__ import annotations

import json
import re
import signal
from dataclasses import dataclass
from typing import Callable, Iterator

from pawltest.gateway import Gateway
from pawltest.upstream import Reply, Upstream, closes, say
from pawltest.wire import Answer, Later, Request, at_once, eventually

HANDS = 8
STATES = ("complete", "running", "doubt")
UNKNOWN = ("hold", '{probe: "GET /by-key/{key}"}')
HEAD = ("tenant: none\ndefaults: {timeout: 5m, lease: 5m, in_progress: {wait: 0s}}\n"
        "allow: [tenant-open]\nrules:\n")

# What the retry of a complete, a running and a doubtful record gets.
FOUND = ((201, "replayed"), (409, "CONFLICT.idempotency.in_progress"),
         (409, "CONFLICT.idempotency.outcome_unknown"))
AGAIN = ((201, "stored"),) * 3
BYPASSED = ((201, "bypassed"),) * 3
MISMATCH = ((409, "CONFLICT.idempotency.payload_mismatch"),) * 3
MALFORMED = ((400, "VALIDATION.idempotency.key_malformed"),) * 3
REJECTED = ((409, "CONFLICT.idempotency.duplicate"), *FOUND[1:])
SHUT = (503, "DEPENDENCY.store_unavailable")
FENCED = tuple((SHUT, known) for known in FOUND)  # what a gateway knows of itself it may say


@dataclass(frozen=True)
class Change:
    """One way of one change. A rule is its lines, of which `@` is the name and the first segment of
    its path. `after` is what its retries get once the change is in force."""

    before: str
    after: str
    gets: tuple
    warns: bool = False  # the reload names it, [identity-moved]
    moves: str = ""  # the reload is refused for this; `gets` is what it gets once it was accepted
    fences: bool = False  # other gateways begin nothing by this rule until they are reloaded
    key: str | None = '"%s"'


def rule(more: str = "", name: str = "@", match: str = "POST /@/{a}/{b}") -> str:
    lines = f'  - {{name: {name}, match: "{match}", unknown: UNKNOWN'
    return f"{lines}, {more}}}\n" if more else f"{lines}}}\n"


KEY = "{header:Idempotency-Key}"


def keyed(template: str, more: str = "") -> str:
    return rule(f"key: '{template}'" + (f", {more}" if more else ""))


def once(template: str = "{body:/order}", more: str = "") -> str:
    return f"once: {{key: '{template}', ttl: 1h{more}}}"


T = "tenant: '{header:X-T}', trust_tenant: true"
CATCH_ALL = rule(name="@-all", match="POST /@/**")
NARROW = rule(match="POST /@/a1/{b}")

# (one side, the other): every record is found, both ways.
SAME = {
    "key_syntax": (rule(), rule("key_syntax: strict")),
    "a format that folds nothing": (rule(), rule("key_format: {regex: '.*'}")),
    "a format of the source that folds nothing": (keyed(KEY), keyed(KEY[:-1] + "|max:99}")),
    "the spelling of a header": (rule(), keyed("{header:IDEMPOTENCY-KEY}")),
    "the name of a parameter": (keyed(KEY + "{path:a}"),
                                rule(f"key: '{KEY}{{path:x}}'", match="POST /@/{x}/{b}")),
    "the length of a window": (keyed(KEY + "{window:1h}"), keyed(KEY + "{window:2h}")),
    "a tenant that may be absent": (rule(T), rule(T.replace("X-T", "X-T?"))),
    "trust_tenant": (rule("tenant: '{header:X-T}', trust_tenant: false"), rule(T)),
    "forward_key": (rule(), rule("forward_key: quoted")),
    "formerly": (rule("formerly: [@-old]"), rule("formerly: [@]", "@-old")),
    "formerly, and {route} in the key": (
        rule(f"key: '{KEY}{{route}}', formerly: [@-old]"),
        rule(f"key: '{KEY}{{route}}', formerly: [@]", "@-old")),
    "formerly, and once": (rule(once() + ", formerly: [@-old]"),
                           rule(once() + ", formerly: [@]", "@-old")),
    "renamed, in the key space of the old name": (rule(), rule("key_space: @", "@-new")),
    "renamed, in a key space of its own": (rule("key_space: '@-m'"),
                                           rule("key_space: '@-m'", "@-new")),
    "in front of a catch-all, in its key space": (CATCH_ALL,
                                                  rule("key_space: @-all") + CATCH_ALL),
    "once, of which more counts": (rule(once()), rule(once(more=", payload: ignore"))),
    "the time of once": (rule(once()), rule(once().replace("1h", "2h"))),
    "payload": (rule("payload: {exclude: [/extra]}"), rule()),
    "body": (rule(), rule("body: json")),
    "ttl, and a tombstone": (rule(), rule("ttl: 2h, tombstone: 1h")),
    "require": (rule(), rule("require: false")),
    "duplicate of a once value": (rule(once()), rule(once(more=", duplicate: ack"))),
    "mismatch": (rule(), rule("mismatch: 422")),
    "remember": (rule(), rule("remember: success")),
}

# (one side, the other, what moves): refused, both ways, while there are records.
MOVES = {
    "key_format": (rule(), rule("key_format: uuid"), "key"),
    "a format of the source": (rule(), keyed(KEY[:-1] + "|uuid4}"), "key"),
    "a literal": (keyed("a" + KEY), keyed("b" + KEY), "key"),
    "another header": (rule(), keyed("{header:X-Key}"), "key"),
    "a source of the body": (rule(), keyed("{body:/order}"), "key"),
    "another pointer": (keyed("{body:/order}"), keyed("{body:/other}"), "key"),
    "a parameter of the path": (rule(), keyed(KEY + "{path:a}"), "key"),
    "another parameter": (keyed(KEY + "{path:a}"), keyed(KEY + "{path:b}"), "key"),
    "a literal beside it": (rule(f"key: '{KEY}{{path:b}}'", match="POST /@/{a}/{b}"),
                            rule(f"key: '{KEY}{{path:b}}'", match="POST /@/{a}/b{b}"), "key"),
    "a parameter of the query": (rule(), keyed(KEY + "{query:q}"), "key"),
    "the method": (rule(), keyed(KEY + "{method}"), "key"),
    "the tenant in the key": (rule(T), rule(f"key: '{KEY}{{tenant}}', {T}"), "key"),
    "the rule in the key": (rule(), keyed(KEY + "{route}"), "key"),
    "the payload": (rule(), keyed("{payload}"), "key"),
    "what is left out of the payload": (
        keyed("{payload}"), keyed("{payload}", "payload: {exclude: [/extra]}"), "key"),
    "a window": (rule(), keyed(KEY + "{window:1h}"), "key"),
    "an hour": (rule(), keyed(KEY + "{hour}"), "key"),
    "a source of the tenant": (rule(T), rule(T.replace("X-T", "X-U")), "tenant"),
    "no tenant": (rule(T), rule(), "tenant"),
    "a secret tenant": (rule(T), rule("tenant: '{header:X-T}', secret: true"), "secret"),
    "a key space": (rule("key_space: '@-m'"), rule(), "key_space"),
    "another once value": (rule(once()), rule(once("{body:/other}")), "once"),
    "a name in a once value": (
        rule(once("{path:a}{body:/order}")),
        rule(once("{path:x}{body:/order}"), match="POST /@/{x}/{b}"), "once"),
}
# The same text under both, here: by the key; without what is left out; of a window no text is made.
KEPT = ("another once value", "a name in a once value", "what is left out of the payload",
        "a window")

PROBED = ("key_format, forth", "no tenant, back")  # whose doubts are probed, too: each is a reload

# One way: refused.
LEAVES = {
    "once is taken away": Change(rule(once()), rule(), FOUND, moves="once"),
    "a once value becomes the key": Change(
        rule(once() + ", require: false"), keyed("{body:/order}"), AGAIN, moves="key, once"),
    "renamed and folded": Change(
        rule(), rule("key_format: uuid, formerly: [@]", "@-new"), AGAIN, moves="key"),
}

# One way: in force at once.
GOES = {
    "a former name without records is taken away": Change(rule("formerly: [@-x]"), rule(), FOUND),
    "once is added": Change(rule(), rule(once()), FOUND, fences=True),
    "the key becomes a once value": Change(
        keyed("{body:/order}"), rule(once()), REJECTED, fences=True),
    "key_syntax, and a bare key": Change(rule(), rule("key_syntax: strict"), MALFORMED, key="%s"),
    "query": Change(rule(), rule("query: none"), MISMATCH, warns=True),
    "headers": Change(rule(), rule("headers: [X-T]"), MISMATCH, warns=True),
    "renamed": Change(rule(), rule(name="@-new"), AGAIN, warns=True),
    "in front of a catch-all": Change(CATCH_ALL, rule() + CATCH_ALL, AGAIN, warns=True),
    "a catch-all comes first": Change(NARROW + CATCH_ALL, CATCH_ALL.replace("/**", "/a1/**")
                                      + NARROW.replace("a1", "a2"), AGAIN, warns=True),
    "other order": Change(NARROW + CATCH_ALL.replace("@-all", "@-b"),
                          rule(name="@-c", match="POST /@/{a}/b1") + NARROW
                          + CATCH_ALL.replace("@-all", "@-b"), AGAIN, warns=True),
    "a narrower match": Change(rule(), rule(match="POST /@/a2/{b}"), BYPASSED, warns=True),
    "further methods": Change(rule(), rule(match="POST,PUT /@/{a}/{b}"), FOUND),
    "fewer methods": Change(rule(match="POST,PUT /@/{a}/{b}"), rule(), FOUND, warns=True),
    "another method": Change(rule(), rule(match="PUT /@/{a}/{b}"), BYPASSED, warns=True),
    "not protected": Change(rule(), rule("protect: false"), BYPASSED, warns=True),
    "taken away": Change(rule(), "", BYPASSED, warns=True),
    "replay to reject": Change(rule(), rule("duplicate: reject"), REJECTED),
}

# Options of a rule that no name is made of, and that change no path: a record is found whatever
# they say.
NO_IDENTITY = {
    "lease", "timeout", "in_progress", "settle", "retry", "store_down",  # how long, how often
    "unknown", "probe_status", "probe_headers",  # what becomes of a doubt
    "not_done", "in_doubt", "not_found", "keep_request", "stream", "replay_cookies",  # what is kept
    "replay",  # what it takes from who asks again
    "max_request_body", "max_response_body", "key_max_age",  # what is taken at all
    "authorize", "authorize_host", "emit", "errors", "allow", "moved"}


def changes() -> dict[str, Change]:
    rows = {f"{name}, {way}": Change(*pair, FOUND) for name, both in SAME.items()
            for way, pair in (("forth", both), ("back", both[::-1]))}
    rows |= {f"{name}, {way}": Change(*pair, FOUND if name in KEPT else AGAIN, moves=what)
             for name, (a, b, what) in MOVES.items()
             for way, pair in (("forth", (a, b)), ("back", (b, a)))}
    return rows | LEAVES | GOES


@dataclass(frozen=True)
class Case:
    """A change, with what its records' doubt leads to."""

    id: str
    title: str
    change: Change
    unknown: str

    def lines(self, which: str) -> str:
        return which.replace("@", self.id).replace("UNKNOWN", self.unknown)

    @property
    def before(self) -> str:
        return self.lines(self.change.before)

    @property
    def after(self) -> str:
        return self.lines(self.change.after)

    def op(self, state: str) -> str:
        return f"{self.id}-{state}"


def cases() -> list[Case]:
    return [Case(f"c{n}{'hp'[i]}", title, change, unknown)
            for n, (title, change) in enumerate(changes().items())
            for i, unknown in enumerate(UNKNOWN)
            if i == 0 or not change.moves or title in PROBED]


class Service:
    """Answers each operation with its name; the first time as the operation's state wants it."""

    def __init__(self, upstream: Upstream):
        self.upstream = upstream
        self.gate = upstream.gate()
        self.seen: set[str] = set()
        upstream.default = self.answer

    def answer(self, request: Request) -> Reply:
        if request.method == "GET":
            return say(500, {})
        op = json.loads(request.body)["op"]
        first, state = op not in self.seen, op.rpartition("-")[2]
        self.seen.add(op)
        if first and state == "doubt":
            return closes()
        return say(201, {"op": op, "first": first},
                   gate=self.gate if first and state == "running" else None)

    def effects(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for request in self.upstream.done:
            op = json.loads(request.body)["op"]
            counts[op] = counts.get(op, 0) + 1
        return counts


def send(gateway: Gateway, case: Case, state: str) -> Answer:
    op = case.op(state)
    key = f"550E8400-E29B-41D4-A716-44665544000{STATES.index(state)}"
    return gateway.post(f"/{case.id}/a1/b1?q=1",
                        {"op": op, "order": f"o-{op}", "other": f"x-{op}"},
                        key=case.change.key % key,
                        headers=[("X-T", "acme"), ("X-U", "other"), ("X-Key", f"x{key}")])


def got(answer: Answer) -> tuple[int, str | None]:
    return answer.status, answer["Error-Code"] or answer["Idempotency-Status"]


def wrong(gateway: Gateway, case: Case, wanted: tuple) -> Iterator[str]:
    """What the retries of the case's records get that the table does not say, or that is another
    operation's."""
    for state, right in zip(STATES, wanted):
        answer = send(gateway, case, state)
        own = answer.status != 201 or answer.json["op"] == case.op(state)
        if got(answer) not in (right if isinstance(right[0], tuple) else (right,)) or not own:
            yield f"{case.title} [{case.unknown}], {state}: {got(answer)}, not {right}" + (
                "" if own else f", and of {answer.json['op']}")


def reload(gateway: Gateway, config: str) -> tuple[str | None, list[str]]:
    """What refuses it (None: nothing), and what the log says of what moves."""
    begin = len(gateway.log)

    def ends() -> list[dict]:
        return [line for line in gateway.log[begin:]
                if line["event"] in ("config_refused", "config_reloaded")]

    gateway.configure(config)
    gateway.signal(signal.SIGHUP)
    eventually(ends, "the end of the reload")
    return ends()[0].get("problem"), [
        line["problem"] for line in gateway.log[begin:]
        if line["event"] in ("config_warning", "config_note")
        and "[identity-moved]" in line["problem"]]


class Crossing:
    """The steps of one cross, on the gateway that moves and the one that began the records: the
    same, or another one on its store."""

    def __init__(self, pawl: Callable[[str], Gateway], upstream: Upstream, n_gateways: int):
        self.cases = cases()
        self.service = Service(upstream)
        self.stuck: list[Case] = []  # made, and whose way back would be refused
        gateways = [pawl(self.config()) for _ in range(n_gateways)]
        self.moves, self.stays = gateways[0], gateways[-1]
        self.accepted: dict[str, str] = {}
        self.firsts: dict[str, Later] = {}

    def config(self, *after: Case) -> str:
        """With those of the changes made."""
        return HEAD + "".join(case.after if case in (*after, *self.stuck) else case.before
                              for case in self.cases)

    @property
    def refused(self) -> list[Case]:
        return [case for case in self.cases if case.change.moves]

    @property
    def made(self) -> list[Case]:
        return [case for case in self.cases if not case.change.moves]

    def begin(self) -> None:
        """A record of each state for each case."""
        at_once(HANDS, self.begin_some)
        self.service.gate.wait_for(len(self.cases))

    def begin_some(self, hand: int) -> None:
        for case in self.cases[hand::HANDS]:
            self.firsts[case.id] = Later(lambda case=case: send(self.stays, case, "running"))
            assert got(send(self.stays, case, "complete")) == (201, "stored"), case.title
            assert send(self.stays, case, "doubt").status >= 409, case.title

    def refuse(self) -> None:
        """Each change alone, so that its own line accepts it later."""
        for case in self.refused:
            problem, _ = reload(self.moves, self.config(case))
            what = rf"rule '{case.id}[-\w]*' moves its keys \({case.change.moves}\), " \
                   r"and the store holds 3 records of them, 2 without an outcome"
            assert problem and re.match(what, problem), f"{case.title}: {problem}"
            self.accepted[case.id] = re.search(r"`(moved: [0-9a-f]{8})`", problem)[1]

    def make(self) -> None:
        """The others, all at once; the log names those after which something runs again."""
        problem, lines = reload(self.moves, self.config(*self.made))
        assert problem is None, problem
        named = {case.id for case in self.cases
                 if any(f"'{case.id}'" in line or f"'{case.id}-" in line for line in lines)}
        wanted = {case.id for case in self.made if case.change.warns}
        assert named == wanted, {case.title for case in self.cases if case.id in named ^ wanted}

    def go_back(self) -> None:
        self.stuck = [case for case in self.made if case.change.fences]
        problem, _ = reload(self.moves, self.config())
        assert problem is None, problem

    def accept(self) -> None:
        """All that were refused."""
        config = self.config(*self.refused)
        for case in self.refused:
            line = self.accepted[case.id]
            config = re.sub(rf"(name: {case.id}(-\w+)?),", rf"\1, {line},", config)
        problem, _ = reload(self.moves, config)
        assert problem is None, problem

    def expect(self, gateway: Gateway, those: list[Case], wanted: Callable[[Case], tuple]) -> None:
        problems = sum(at_once(HANDS, lambda hand: [
            line for case in those[hand::HANDS] for line in wrong(gateway, case, wanted(case))]),
                       [])
        assert not problems, "\n".join(problems)

    def expect_found(self, gateway: Gateway) -> None:
        """Under the old config, everything."""
        those = [case for case in self.cases if case not in self.stuck]
        self.expect(gateway, those, lambda _: FOUND)

    def expect_one_effect(self) -> None:
        """Of every operation but where the log said that it runs again."""
        counts = self.service.effects()
        for case in self.cases:
            again = case.change.warns and case.change.gets in (AGAIN, BYPASSED)
            for state in STATES:
                assert counts[case.op(state)] == 1 + again, f"{case.title}, {state}"

    def end(self) -> None:
        """What ran all the while is stored, whatever became of its rule."""
        self.service.gate.open()
        for case in self.cases:
            answer = self.firsts[case.id].result()
            assert got(answer) == (201, "stored"), case.title
            assert answer.json == {"op": case.op("running"), "first": True}
