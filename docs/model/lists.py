#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A linked list of the queue (src/core/steps.h): its steps, their undos, its service, and every act
of a person at every moment. Explores all states; ends with the property that the first error
breaks, or `errors: 0`, in the words of a spin model's checker.

usage: lists.py [-DN=2] [-DF=2] [-DDEDUPES=1] [-DSAYS=1] [-DGONE=0] [-DM=MUTANT]

  N        steps            F      faults that may come: lost answers (a killed sender loses one,
                                   too), refusals, an undo that cannot be filled in
  DEDUPES  the service does nothing twice under one key, and answers a known key as it did first,
           or says that it was done before; 0: it may do it again, and may refuse what it has done
           ("exists")
  SAYS     the list says that it does    GONE  the last step's server never answers

Properties, each of which a mutant breaks:

  s  from every state there is a way to an end, if people act
  d  `done`: every step happened, and none was undone
  u  `undone`: nothing stands that has an undo, and no step that was sent is in doubt
  p  `partial`: an undo, or a step in doubt, was given up
  k  `kept`: no undo was sent
  r  nothing is sent that nobody wrote
"""
import sys
from collections import deque
from typing import Iterator

OPTIONS = dict(a[2:].split("=", 1) for a in sys.argv[1:] if a.startswith("-D"))
N, F = int(OPTIONS.get("N", "2")), int(OPTIONS.get("F", "2"))
DEDUPES, SAYS = OPTIONS.get("DEDUPES", "1") == "1", OPTIONS.get("SAYS", "1") == "1"
GONE, MUTANT = OPTIONS.get("GONE", "0") == "1", OPTIONS.get("M", "")
OVER = ("done", "undone", "partial", "kept")

# A step: its task (waiting, sending, done, dead, Dropped, swept), in doubt, happened. An undo:
# none, waiting, sending, done, dead, unfilled, Dropped. `sent`: an undo was sent at all.
Step = tuple[str, bool, bool]
State = tuple[str, tuple[Step, ...], tuple[str, ...], int, bool]
Move = tuple[str, State]


def put(of: tuple, at: int, what: object) -> tuple:
    return of[:at] + (what,) + of[at + 1:]


def backward(steps: tuple[Step, ...], undos: tuple[str, ...]) -> str:
    """The first unfinished undo says what the list is; without one it is over."""
    for undo in reversed(undos):
        if undo in ("waiting", "sending"):
            return "undoing"
        if undo in ("dead", "unfilled"):
            return "parked"
    doubted = any(task == "Dropped" and doubt for task, doubt, _ in steps)
    given_up = "Dropped" in undos or (doubted and MUTANT != "M_FORCE")
    return "partial" if given_up and MUTANT != "M_GIVENUP" else "undone"


def undo(name: str, steps: tuple[Step, ...], left: int) -> Iterator[Move]:
    """What waits is dropped; what is done gets an undo, which may be unfilled."""
    steps = tuple(("Dropped", *step[1:]) if step[0] == "waiting" else step for step in steps)
    plain = tuple("waiting" if step[0] == "done" else "none" for step in steps)
    yield name, (backward(steps, plain), steps, plain, left, False)
    for at in range(N if left else 0):
        if steps[at][0] == "done":
            undos = put(plain, at, "unfilled")
            yield f"{name}, unfilled {at}", (backward(steps, undos), steps, undos, left - 1, False)


def forward(name: str, steps: tuple[Step, ...], left: int) -> Iterator[Move]:
    """The first step that is not done says what the list is."""
    for task, _, _ in steps:
        if task in ("waiting", "sending"):
            yield name, ("running", steps, ("none",) * N, left, False)
            return
        if task in ("dead", "Dropped"):
            yield from undo(name, steps, left)
            return
    yield name, ("done", steps, ("none",) * N, left, False)


def send_step(state: State, at: int) -> Iterator[Move]:
    _, steps, undos, left, _ = state
    task, doubt, happened = steps[at]
    if task == "waiting":
        yield f"send {at}", ("running", put(steps, at, ("sending", doubt, happened)), undos, left,
                             False)
        return
    if GONE and at == N - 1:
        waits = put(steps, at, ("waiting", doubt, happened))
        yield f"not reached {at}", ("running", waits, undos, left, False)
        return
    yield from forward(f"done {at}", put(steps, at, ("done", False, True)), left)
    if left == 0:
        return
    for did in {happened, True}:
        lost = put(steps, at, ("waiting", True, did))
        yield f"lost {at}", ("running", lost, undos, left - 1, False)
        if doubt or did:
            ended = put(steps, at, ("dead", True, did))
            yield f"ended without an answer {at}", ("parked", ended, undos, left - 1, False)
    if DEDUPES and happened:
        stands = put(steps, at, ("dead", True, True))  # what its undo needs is not known
        if MUTANT == "M_EXPIRED":
            yield from undo(f"done before {at}", put(steps, at, ("dead", False, True)), left - 1)
        else:
            yield f"done before {at}", ("parked", stands, undos, left - 1, False)
        return
    if not doubt or SAYS or MUTANT == "M_BLIND":
        refused = put(steps, at, ("dead", doubt and MUTANT == "M_STAYS", happened))
        yield from undo(f"refused {at}", refused, left - 1)
    else:
        refused = put(steps, at, ("dead", True, happened))
        yield f"refused {at}, in doubt", ("parked", refused, undos, left - 1, False)


def send_undo(state: State, at: int) -> Iterator[Move]:
    name, steps, undos, left, _ = state
    if undos[at] == "waiting":
        yield f"send undo {at}", (name, steps, put(undos, at, "sending"), left, True)
        return
    done = put(undos, at, "done")
    yield f"undone {at}", (backward(steps, done), steps, done, left, True)
    if left > 0:
        yield f"lost undo {at}", (name, steps, put(undos, at, "waiting"), left - 1, True)
        yield f"refused undo {at}", ("parked", steps, put(undos, at, "dead"), left - 1, True)


def act_on_step(state: State, at: int) -> Iterator[Move]:
    """Parked at a step. Who settles it says what is so; who drops it by force says nothing, and the
    doubt stays."""
    _, steps, undos, left, _ = state
    _, doubt, happened = steps[at]
    stays = doubt and MUTANT != "M_DROP"
    yield f"retry {at}", ("running", put(steps, at, ("waiting", doubt, happened)), undos, left,
                          False)
    if happened:
        yield from forward(f"settle --done {at}", put(steps, at, ("done", False, True)), left)
    else:
        settled = put(steps, at, ("Dropped", False, False))
        yield from undo(f"settle --not-done {at}", settled, left)
    yield from undo(f"drop {at}", put(steps, at, ("Dropped", stays, happened)), left)


def act_on_undo(state: State, at: int) -> Iterator[Move]:
    """In a list that is being undone only undos may be touched."""
    _, steps, undos, left, sent = state
    if undos[at] == "unfilled" and MUTANT == "M_HELD":
        return
    if undos[at] == "unfilled" and MUTANT == "M_EMPTY":
        done = put(undos, at, "done")
        yield f"nobody wrote {at}", (backward(steps, done), steps, done, left, True)
    ways = {"dead": ("retry", "edit"), "unfilled": ("edit",), "waiting": ("retry",)}
    for way in ways.get(undos[at], ()):
        again = put(undos, at, "waiting")
        yield f"{way} undo {at}", (backward(steps, again), steps, again, left, sent)
    dropped = put(undos, at, "Dropped")
    if undos[at] in ways:
        yield f"drop undo {at}", (backward(steps, dropped), steps, dropped, left, sent)
    if undos[at] in ("dead", "unfilled"):
        by_hand = put(undos, at, "done")
        yield f"settle --done undo {at}", (backward(steps, by_hand), steps, by_hand, left, sent)
        yield f"settle --not-done undo {at}", (backward(steps, dropped), steps, dropped, left, sent)


def act_on_list(state: State) -> Iterator[Move]:
    """`drop --list` while nothing is being sent; in doubt with --force alone."""
    _, steps, undos, left, sent = state
    if any(step[0] == "sending" for step in steps) or "sending" in undos:
        return
    if any(undo != "none" for undo in undos):
        stopped = tuple("Dropped" if u in ("waiting", "dead", "unfilled") else u for u in undos)
        yield "drop --list", (backward(steps, stopped), steps, stopped, left, sent)
        return
    dropped = tuple(("Dropped", *s[1:]) if s[0] in ("waiting", "dead") else s for s in steps)
    yield "drop --list --keep", ("kept", dropped, undos, left, sent)
    yield from undo("drop --list", dropped, left)


def moves(state: State) -> Iterator[Move]:
    name, steps, undos, left, _ = state
    if name in OVER:
        return
    backwards = any(undo != "none" for undo in undos)
    step = next((i for i in range(N) if steps[i][0] not in ("done", "swept")), N - 1)
    if name == "running":
        yield from send_step(state, step)
        if MUTANT == "M_SWEEP" and step > 0 and steps[0][0] == "done":
            yield "sweep 0", (name, put(steps, 0, ("swept", *steps[0][1:])), undos, left, False)
    elif name == "undoing":
        yield from send_undo(state, max(i for i in range(N) if undos[i] in ("waiting", "sending")))
    elif not backwards:
        yield from act_on_step(state, step)
    if backwards:
        for at in range(N):
            yield from act_on_undo(state, at)
            if MUTANT == "M_STEP" and steps[at][0] == "dead" and at == N - 1:
                again = put(steps, at, ("done", False, True))
                yield f"retry {at}", ("done", again, undos, left, True)
    if MUTANT != "M_NODROP" and not (backwards and MUTANT == "M_HELD"):
        yield from act_on_list(state)


def untrue(state: State) -> str:
    """The property that an end breaks; empty: none."""
    name, steps, undos, _, sent = state
    stands = any((step[2] and undo != "done") or step[:2] == ("dead", True)
                 for step, undo in zip(steps, undos))
    if name == "done" and (not all(step[2] for step in steps) or any(u != "none" for u in undos)):
        return "d"
    if name == "undone" and stands:
        return "u"
    given_up = "Dropped" in undos or any(s[0] == "Dropped" and s[1] for s in steps)
    if name == "partial" and not given_up:
        return "p"
    return "k" if name == "kept" and sent else ""


def check() -> tuple[str, str, int]:
    first: State = ("running", (("waiting", False, False),) * N, ("none",) * N, F, False)
    came: dict[State, tuple[State | None, str]] = {first: (None, "")}
    before: dict[State, list[State]] = {}
    queue = deque([first])
    bad: tuple[str, State] | None = None
    done_once: set[State] = set()
    while queue:
        state = queue.popleft()
        wrong = untrue(state)
        bad = bad or ((wrong, state) if wrong else None)
        for name, after in moves(state):
            bad = bad or (("r", state) if name.startswith("nobody wrote") else None)
            before.setdefault(after, []).append(state)
            if after not in came:
                came[after] = (state, name)
                queue.append(after)
    todo = [state for state in came if state[0] in OVER]
    while todo:
        state = todo.pop()
        if state not in done_once:
            done_once.add(state)
            todo += before.get(state, [])
    stuck = [state for state in came if state not in done_once]
    bad = bad or (("s", stuck[0]) if stuck else None)
    trail: list[str] = []
    at: State | None = bad[1] if bad else None
    while at:
        at, name = came[at]
        trail.append(name)
    return (bad[0] if bad else "", ", ".join(reversed(trail)), len(came))


def main() -> int:
    known = {"N", "F", "DEDUPES", "SAYS", "GONE", "M"}
    if not set(OPTIONS) <= known or (SAYS and not DEDUPES):
        print("lists.py: a list that says so has a service that does; see the usage")
        return 2
    broken, trail, n = check()
    print(f"{n:>9} states, stored")
    if broken:
        print(f"pan:1: property_{broken} ({trail})")
    print(f"State-vector, depth reached, errors: {int(bool(broken))}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
