#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Asking before the first send (`first:` under `unknown: {probe: ...}`; src/core/record_inquiry.c):
one record, its attempts, their requests, and a store that is put back to a backup. Explores all
states; ends with the property that the first error breaks, or `errors: 0`, in the words of a spin
model's checker.

usage: first.py [-DFIRST=restored] [-DN=2] [-DF=2] [-DRESTORE=1] [-DLIVE=0] [-DEXPIRE=0]
                [-DOLDER=0] [-DONCE=0] [-DBY=value] [-DHONEST=1] [-DM=MUTANT]

  FIRST    restored: asks while records may be missing; always
  N, F     attempts; faults that may come (a lost look, a lost response, a kill, a lapse)
  RESTORE  times that the store is put back     EXPIRE  times that a record may expire
  LIVE     it goes back under attempts that live, begins nothing, and is marked later
  OLDER    the last attempt is of a pawl that knows nothing of `asking`
  ONCE     attempts have keys of their own, and one once value; BY: what a look asks by
  HONEST   0: the service says that it did whatever it is asked about

Properties, each of which a mutant breaks:

  e  the effect happens once     t  an attempt is told what happened, and all are told the same
  a  what was only asked about is never in doubt
  s  from every state there is a way to an end
"""
import sys
from collections import deque
from typing import Iterator, NamedTuple

MUTANTS = ("M_ASKED M_ASKSOON M_BETWEEN M_EARLY M_FLAG M_HELD M_LAPSED M_LOOKED M_MARKQUIET "
           "M_MEMTURN M_NOLEASE M_NOLOOK M_NOMARK M_OLDFRESH M_STALETURN").split()
CHOICES = {"FIRST": ["restored", "always"], "BY": ["value", "key"], "HONEST": ["1", "0"],
           "LIVE": ["0", "1"], "OLDER": ["0", "1"], "ONCE": ["0", "1"], "N": ["2", "3"],
           "F": ["2", "0", "1", "3", "4"], "RESTORE": ["1", "0", "2"], "EXPIRE": ["0", "1"],
           "M": ["", *MUTANTS]}  # the first one is meant where none is given
GIVEN = dict(a.removeprefix("-D").partition("=")[::2] for a in sys.argv[1:])
WRONG = [f"{name}={value}" for name, value in GIVEN.items() if value not in CHOICES.get(name, ())]
OPTIONS = {name: values[0] for name, values in CHOICES.items()} | ({} if WRONG else GIVEN)
FIRST, MUTANT = OPTIONS["FIRST"], OPTIONS["M"]
N, F, RESTORE, EXPIRE = (int(OPTIONS[name]) for name in ("N", "F", "RESTORE", "EXPIRE"))
LIVE, OLDER, ONCE = OPTIONS["LIVE"] == "1", OPTIONS["OLDER"] == "1", OPTIONS["ONCE"] == "1"
BY_KEY, HONEST = OPTIONS["BY"] == "key", OPTIONS["HONEST"] == "1"


class Broken(Exception):
    """A property, by its letter; the move that breaks it."""


class Record(NamedTuple):
    status: str = "absent"  # absent, leased, lapsed, released, unknown, complete
    token: int = 0
    asking: int = 0      # the token of an acquisition that asks; as in struct record
    since: bool = False  # the last acquisition, or its turn, is later than the mark
    probing: bool = False
    doubt: bool = False
    effect: int = 0      # complete: the one that its outcome is of


class Attempt(NamedTuple):
    phase: str = "idle"  # idle, asks, probes, owns, sent, told
    token: int = 0
    saw: str = ""        # of a look: yes, no (believed), early (not believed), nothing
    live: bool = True    # its own clock says that its lease runs
    old: bool = False     # it owns by an acquisition from before the mark, and has not sent yet
    turned: bool = False  # a mutant's: it sends although that is not stored


class Request(NamedTuple):
    token: int
    number: int
    key: int
    old: bool = False   # sent before the mark
    late: bool = False  # sent after it, under an acquisition from before it
    done: bool = False  # it had its effect, and the response is on its way


class State(NamedTuple):
    record: Record
    attempts: tuple[Attempt, ...]
    requests: tuple[Request, ...] = ()
    effects: tuple[tuple[int, int], ...] = ()  # the request's number, its key
    told: int = 0
    marked: bool = False
    closed: bool = False  # it went back, and nobody has marked it yet: nothing begins
    backup: Record = Record()
    tokens: int = 1
    numbers: int = 1
    faults: int = F
    restores: int = RESTORE
    expiries: int = EXPIRE


Move = tuple[str, State]


def put(of: tuple, at: int, what: object) -> tuple:
    return of[:at] + (what,) + of[at + 1:]


def attempt(state: State, at: int, **changed: object) -> State:
    return state._replace(attempts=put(state.attempts, at, state.attempts[at]._replace(**changed)))


def key_of(at: int) -> int:
    return at if ONCE else 0


def is_older(at: int) -> bool:
    return OLDER and at == N - 1


def is_asking(record: Record) -> bool:
    if MUTANT == "M_FLAG":  # `asking` is a flag, and not a token
        return record.asking != 0 and not record.doubt
    return record.asking == record.token and record.asking != 0 and not record.doubt


def inquires(state: State) -> bool:
    record = state.record
    if MUTANT == "M_NOMARK" and FIRST == "restored":
        return False
    if FIRST == "restored" and not state.marked:
        return False
    if record.status == "absent":
        return True
    if MUTANT == "M_NOLOOK":  # what was released is not asked about
        return False
    if MUTANT == "M_ASKED" and is_asking(record):  # an inquiry that found out nothing counts
        return False
    old = state.marked and not record.since and MUTANT != "M_OLDFRESH"
    return is_asking(record) or old


def acquire(state: State, at: int, name: str, phase: str) -> Move:
    record, token = state.record, state.tokens
    taken = Record("leased", token, token if phase == "asks" else record.asking, True,
                   phase == "probes", phase == "probes" or record.doubt, 0)
    if phase == "owns" and not is_older(at) and MUTANT != "M_FLAG":
        taken = taken._replace(asking=0)
    after = state._replace(record=taken, tokens=token + 1)
    return f"{name} {at}", attempt(after, at, phase=phase, token=token, saw="", live=True,
                                   old=False, turned=False)


def tell(state: State, at: int, effect: int, name: str) -> Move:
    if effect not in [number for number, _ in state.effects]:
        raise Broken("t", name)
    if state.told not in (0, effect):
        raise Broken("t", name)
    return name, attempt(state._replace(told=effect), at, phase="told", token=0, saw="")


def begin(state: State, at: int) -> Iterator[Move]:
    record = state.record
    asking = is_asking(record) and not is_older(at) and MUTANT != "M_LAPSED"
    if record.status == "complete":
        yield tell(state, at, record.effect, f"replay {at}")
    elif state.closed or (record.status == "lapsed" and asking and MUTANT == "M_HELD"):
        return
    elif record.status == "unknown" or (record.status == "lapsed" and not asking):
        if record.status == "lapsed" and is_asking(record) and not is_older(at):
            raise Broken("a", f"probe {at}")
        yield acquire(state, at, "probe", "probes")
    elif record.status in ("absent", "released", "lapsed"):
        if inquires(state) and not is_older(at):
            yield acquire(state, at, "ask", "asks")
        else:
            yield acquire(state, at, "own", "owns")


def is_quiet(state: State, token: int) -> bool:
    """Whether nothing can be on its way that a look would not find yet."""
    for request in state.requests:
        if request.done:
            continue
        if request.token <= token and not request.old and MUTANT != "M_EARLY":
            return False
    return not state.marked or MUTANT == "M_MARKQUIET" or is_silent(state)


def is_silent(state: State) -> bool:
    """Whether nothing more comes of an acquisition from before the mark: its lease is over, by its
    owner's clock, and so is the settle time of what it sent."""
    if MUTANT == "M_NOLEASE":  # the settle time from the mark on
        return all(r.done or not r.old for r in state.requests)
    owned = any(a.old and a.live and a.phase == "owns" for a in state.attempts)
    return not owned and all(r.done or not (r.old or r.late) for r in state.requests)


def sees(state: State, at: int) -> str:
    mine = state.attempts[at]
    asks = mine.phase == "asks"
    found = [key for _, key in state.effects if not (asks and BY_KEY) or key == key_of(at)]
    if found or not HONEST:
        return "yes"
    if asks and not state.marked:
        return "no"
    if asks:
        return "no" if MUTANT == "M_ASKSOON" or is_silent(state) else "early"
    return "no" if is_quiet(state, mine.token) else "early"


def is_mine(state: State, at: int) -> bool:
    record = state.record
    return record.token == state.attempts[at].token and record.status not in ("absent", "complete")


def look(state: State, at: int) -> Iterator[Move]:
    """An inquiry, or a probe: it looks at one moment, and acts later."""
    mine, record = state.attempts[at], state.record
    if not mine.saw:
        yield f"look {at}", attempt(state, at, saw=sees(state, at))
        if state.faults:
            yield f"look lost {at}", attempt(state._replace(faults=state.faults - 1), at,
                                             saw="nothing")
        return
    idle = attempt(state, at, phase="idle", token=0, saw="")
    stale = mine.phase == "asks" and mine.saw == "no" and MUTANT == "M_STALETURN"
    if stale:
        yield f"turn, stale {at}", attempt(state, at, phase="owns", saw="", turned=True)
    if not is_mine(state, at):
        yield f"stale {at}", idle
    elif mine.saw == "yes":
        effect = state.effects[0][0] if state.effects else -1
        done = record._replace(status="complete", probing=False, doubt=False, effect=effect)
        yield tell(state._replace(record=done), at, effect, f"found {at}")
    elif mine.phase == "asks":
        yield from turn(state, at, idle)
    elif mine.saw == "no":
        free = record._replace(status="released", probing=False, doubt=False)
        yield f"settled {at}", idle._replace(record=free)
    else:
        yield f"in doubt {at}", idle._replace(record=record._replace(status="unknown",
                                                                      probing=False))


def turn(state: State, at: int, idle: State) -> Iterator[Move]:
    mine, record = state.attempts[at], state.record
    if mine.saw != "no" or (state.closed and MUTANT != "M_BETWEEN"):
        yield f"unproved {at}", idle._replace(record=record._replace(status="released"))
    elif record.status != "leased":
        free = record._replace(status="released", asking=0, since=True)
        yield f"turn, lapsed {at}", idle._replace(record=free)
    elif MUTANT == "M_MEMTURN":  # it sends, and nothing says so
        yield f"turn {at}", attempt(state, at, phase="owns", saw="", turned=True)
    else:
        sends = record._replace(asking=0, since=True)
        yield f"turn {at}", attempt(state._replace(record=sends), at, phase="owns", saw="",
                                    live=True)


def owner(state: State, at: int) -> Iterator[Move]:
    mine, record = state.attempts[at], state.record
    if mine.live or mine.turned:
        sent = Request(mine.token, state.numbers, key_of(at), late=mine.old)
        yield f"send {at}", attempt(state._replace(requests=state.requests + (sent,),
                                                   numbers=state.numbers + 1), at, phase="sent",
                                    old=False)
    if mine.old and mine.live and not is_mine(state, at):
        yield f"its lease is over {at}", attempt(state, at, live=False)
    idle = attempt(state, at, phase="idle", token=0, old=False)
    if is_mine(state, at):
        idle = idle._replace(record=record._replace(status="released"))
    yield f"not sent {at}", idle


def response(state: State, at: int) -> Iterator[Move]:
    """Of what was sent: its response, a refusal without an effect, or none."""
    mine, record = state.attempts[at], state.record
    idle = attempt(state, at, phase="idle", token=0)
    for place, request in enumerate(state.requests):
        if request.token != mine.token:
            continue
        rest = state.requests[:place] + state.requests[place + 1:]
        if request.done and is_mine(state, at):
            done = record._replace(status="complete", probing=False, doubt=False,
                                   effect=request.number)
            yield tell(state._replace(record=done, requests=rest), at, request.number,
                       f"response {at}")
        elif request.done:
            yield f"response, stale {at}", idle._replace(requests=rest)
        elif state.faults:
            free = record._replace(status="released") if is_mine(state, at) else record
            yield f"not done {at}", idle._replace(record=free, requests=rest,
                                                  faults=state.faults - 1)
    if state.faults == 0:
        return
    lost = state._replace(faults=state.faults - 1)
    if is_mine(state, at) and record.status == "leased":
        doubted = lost._replace(record=record._replace(doubt=True))
        yield acquire(doubted, at, "lost: probe", "probes")
    else:
        yield f"lost {at}", attempt(lost, at, phase="idle", token=0)


def mishap(state: State, at: int) -> Iterator[Move]:
    """A kill, or an owner that goes on beyond its lease."""
    mine, record = state.attempts[at], state.record
    if not state.faults:
        return
    holds = is_mine(state, at) and record.status == "leased"
    lapsed = record._replace(status="lapsed") if holds else record
    hurt = state._replace(record=lapsed, faults=state.faults - 1)
    yield f"killed {at}", attempt(hurt, at, phase="idle", token=0, saw="", old=False)
    if holds:
        yield f"lapsed {at}", attempt(hurt, at, live=False)


def service(state: State) -> Iterator[Move]:
    for place, request in enumerate(state.requests):
        if request.done:
            continue
        rest = state.requests[:place] + state.requests[place + 1:]
        if state.effects:
            raise Broken("e", f"effect {request.number}")
        yield f"effect {request.number}", state._replace(
            requests=put(state.requests, place, request._replace(done=True)),
            effects=((request.number, request.key),))
        if not any(a.phase == "sent" and a.token == request.token for a in state.attempts):
            yield f"request lost {request.number}", state._replace(requests=rest)


def put_back(state: State) -> State:
    """The store is as it was. Who still holds its lease there goes on with it."""
    back = state.backup._replace(since=False)
    held = any(a.token == back.token and a.phase not in ("idle", "told") for a in state.attempts)
    if back.status == "leased" and not (LIVE and held):
        back = back._replace(status="lapsed")
    return state._replace(record=back, backup=Record(), restores=state.restores - 1)


def mark(state: State) -> State:
    """`pawl store restored`: nothing counts that was looked at, or acquired, before it."""
    looked = {"no": "no" if MUTANT == "M_LOOKED" else "early"}
    attempts = tuple(a._replace(saw=looked.get(a.saw, a.saw), old=a.phase == "owns")
                     for a in state.attempts)
    requests = tuple(r._replace(old=True, late=False) for r in state.requests)
    return state._replace(record=state.record._replace(since=False), attempts=attempts,
                          requests=requests, marked=True, closed=False)


def store(state: State) -> Iterator[Move]:
    record = state.record
    if state.closed:
        yield "marked", mark(state)
    elif state.restores and state.backup != record:
        yield "backup", state._replace(backup=record)
    if state.restores and LIVE and not state.closed:
        yield "went back", put_back(state)._replace(marked=False, closed=True)
    elif state.restores and not LIVE:
        died = tuple(a if a.phase == "told" else Attempt() for a in state.attempts)
        yield "restored", mark(put_back(state)._replace(attempts=died))
    settled = record.status == "complete" or (record.status == "released" and not record.doubt)
    if state.expiries and settled:
        yield "expired", state._replace(record=Record(), expiries=state.expiries - 1)


def moves(state: State) -> Iterator[Move]:
    steps = {"idle": begin, "asks": look, "probes": look, "owns": owner, "sent": response}
    for at, mine in enumerate(state.attempts):
        if mine.phase == "told":
            continue
        yield from steps[mine.phase](state, at)
        if mine.phase != "idle":
            yield from mishap(state, at)
    yield from service(state)
    yield from store(state)


def canonical(state: State) -> State:
    """The same with tokens and numbers of requests by their order, without what nobody reads."""
    waited = {a.token for a in state.attempts if a.phase == "sent"}
    requests = tuple(r for r in state.requests if not r.done or r.token in waited)
    tokens = {0, state.record.token, state.record.asking, state.backup.token, state.backup.asking}
    tokens |= {a.token for a in state.attempts} | {r.token for r in requests}
    token = {old: new for new, old in enumerate(sorted(tokens))}
    numbers = {0, state.told, state.record.effect, state.backup.effect}
    numbers |= {r.number for r in requests} | {number for number, _ in state.effects}
    number = {old: new for new, old in enumerate(sorted(numbers))}

    def of_record(record: Record) -> Record:
        return record._replace(token=token[record.token], asking=token[record.asking],
                               effect=number[record.effect])
    return state._replace(
        record=of_record(state.record), backup=of_record(state.backup), told=number[state.told],
        attempts=tuple(sorted((a._replace(token=token[a.token]) for a in state.attempts))
                       if not ONCE and not OLDER else
                       (a._replace(token=token[a.token]) for a in state.attempts)),
        requests=tuple(sorted(r._replace(token=token[r.token], number=number[r.number])
                              for r in requests)),
        effects=tuple((number[n], key) for n, key in state.effects),
        tokens=len(token), numbers=len(number))


def stuck(came: dict[State, tuple[State, str]], before: dict[State, list[State]]) -> State | None:
    """A state from which nothing leads to an end, where all are told."""
    ends = deque(s for s in came if all(a.phase == "told" for a in s.attempts))
    reached = set(ends)
    while ends:
        for state in before.get(ends.popleft(), []):
            if state not in reached:
                reached.add(state)
                ends.append(state)
    return next((s for s in came if s not in reached), None)


def trail(came: dict[State, tuple[State, str]], last: State) -> list[str]:
    way = []
    while came[last][1]:
        last, name = came[last]
        way.append(name)
    return way[::-1]


def explore(start: State) -> tuple[str, str, int]:
    """The property that breaks ("": none does), the way there, and the number of states."""
    came: dict[State, tuple[State, str]] = {start: (start, "")}
    before: dict[State, list[State]] = {}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        try:
            for name, after in moves(state):
                after = canonical(after)
                before.setdefault(after, []).append(state)
                if after not in came:
                    came[after] = (state, name)
                    queue.append(after)
        except Broken as error:
            broken, name = error.args
            return broken, ", ".join([*trail(came, state), name]), len(came)
    wedge = stuck(came, before)
    return ("s", ", ".join(trail(came, wedge)), len(came)) if wedge else ("", "", len(came))


def main() -> int:
    if WRONG:
        print(f"first.py: what is {', '.join(WRONG)}? See the usage")
        return 2
    broken, way, states = explore(State(Record(), (Attempt(),) * N))
    print(f"{states:>9} states, stored")
    if broken:
        print(f"pan:1: property_{broken} ({way})")
    print(f"State-vector, depth reached, errors: {int(bool(broken))}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
