# SPDX-License-Identifier: Apache-2.0
"""Many clients that retry, an upstream that fails at random, and a gateway killed with kill -9
again and again. On PostgreSQL three gateways share the store, and killed are they, the server's
sessions and the server. Exits 1 when an effect happened twice or an answer was lost.

Under `participant`, which is on PostgreSQL alone, the service shares its database, and is killed,
too.

usage: soak.py [--seconds N | --kills N] [--policy NAME] [--clients N] [--seed N]
               [--store sqlite|postgres]

  NAME  hold, ends (a hold with an end), probe, first (asked before each send), restored (the store
        is put back to a backup now and then, and asks from there on), retry, once, participant
"""
from __future__ import annotations

import argparse
import dataclasses
import math
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter, deque
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pawltest.gateway import Clock, Gateway, run  # noqa: E402
from pawltest.upstream import Reply, Upstream, closes, resets, say  # noqa: E402
from pawltest.wire import Answer, Broken, Request  # noqa: E402

SETTLE = 1
HOLD = 2
ATTEMPTS_MOST = 200  # of one operation, most of them against a gateway that is down
HEALED_SECONDS = 60  # within which an operation has its outcome once nothing fails any more
REMEMBERED = 500  # of each client: answers that it asks for once more
UNKNOWN = "CONFLICT.idempotency.outcome_unknown"
_RULE = """
tenant: none
store_sessions: 3
defaults: {lease: 10s, timeout: 10s}
rules:
  - name: refunds.create
    match: POST /refunds
"""
CONFIGS = {
    "hold": _RULE + "    unknown: hold\n",
    "probe": _RULE + '    unknown: {probe: "GET /refunds/by-key/{key}"}\n'
                     f"    probe_status: 201\n    settle: {SETTLE}s\n",
    "first": _RULE + '    unknown: {probe: "GET /refunds/by-key/{key}", first: always}\n'
                     f"    probe_status: 201\n    settle: {SETTLE}s\n",
    "restored": _RULE.replace("lease: 10s", "lease: 2s")
                + '    unknown: {probe: "GET /refunds/by-key/{key}", first: restored}\n'
                f"    probe_status: 201\n    settle: {SETTLE}s\n",
    # At most once until each end.
    "ends": _RULE + f"    unknown: {{hold: {HOLD}s}}\n    settle: {SETTLE}s\n",
    "retry": _RULE + "    unknown: retry\n",
    # No attempt repeats a key: what must not happen twice is known by the body alone.
    "once": _RULE + '    unknown: {probe: "GET /refunds/by-key/{key}"}\n'
                    f"    probe_status: 201\n    settle: {SETTLE}s\n"
                    '    once: {key: "{body:/of}", ttl: 1h, duplicate: replay}\n',
    "participant": _RULE + "    unknown: participant\n",
}
# Under these no operation stays without an outcome.
SETTLES_ALL = ("probe", "first", "restored", "ends", "retry", "once", "participant")


class Service:
    """The upstream: does an effect per request, answers or fails at random, and counts. One that
    `dedupes` repeats its first final answer to a key, as `unknown: retry` asks of it. An effect is
    done twice if it comes again within `apart` seconds."""

    def __init__(self, seed: int, dedupes: bool = False, apart: float = math.inf):
        self.random = random.Random(seed)
        self.dedupes = dedupes
        self.apart = apart
        self.done_at: dict[str, float] = {}
        self.doubled: set[str] = set()
        self.final: dict[str, Reply] = {}  # by key: the first final answer, even if it was lost
        self.lock = threading.Lock()
        self.effects: Counter[str] = Counter()
        self.faults = True
        self.upstream = Upstream()
        self.upstream.default = self._serve
        self.port = self.upstream.port

    def heal(self) -> None:
        """Nothing fails any more."""
        self.faults = False

    def discard(self) -> None:
        self.upstream.stop()

    def _serve(self, request: Request) -> Reply:
        if request.method == "GET":
            key = request.target.rpartition("/")[2].partition("~")[0]
            return say(200, {"found": key}) if self.effects[key] else say(404)
        key = request.json["of"]
        with self.lock:
            if self.dedupes and key in self.final:
                return self.final[key]
            made = {"key": key, "effect": self.effects[key] + 1, "n": self.random.random()}
            done = say(201, made)
            reply = self._reply(done)
            self.effects[key] += reply.effect
            if reply.effect:
                self._note_effect(key)
                self.final[key] = done
            elif reply.status == 422:
                self.final[key] = reply
            return reply

    def _note_effect(self, key: str) -> None:
        now = time.monotonic()
        if key in self.done_at and now - self.done_at[key] < self.apart:
            self.doubled.add(key)
        self.done_at[key] = now

    def _reply(self, done: Reply) -> Reply:
        draw = self.random.random() if self.faults else 1.0
        faults = [(0.04, closes()), (0.03, closes(effect=False)), (0.03, resets()),
                  (0.04, say(503, effect=False)), (0.02, say(502)),
                  (0.03, Reply(201, b"x" * 5000, cut=600)), (0.02, say(422, effect=False))]
        for share, fault in faults:
            draw -= share
            if draw < 0:
                return fault
        return dataclasses.replace(done, delay=self.random.choice((0, 0, 0, 0.01, 0.1)))


class Payer:
    """The upstream that is a participant: a process, which dies of its own faults, too."""

    def __init__(self, database: Any, seed: int):
        from pawltest.participant import Participant  # needs psycopg2

        self.process = Participant(database, seed)
        self.port = self.process.port

    def revive(self) -> bool:
        """Whether it was dead."""
        if self.process.is_alive:
            return False
        self.process.start()
        return True

    def heal(self) -> None:
        self.process.discard()
        self.process.seed = None
        self.process.start().wait_until_ready()

    def discard(self) -> None:
        self.process.discard()

    @property
    def effects(self) -> Counter[str]:
        return self.process.effects()

    @property
    def doubled(self) -> set[str]:
        return {key for key, n in self.effects.items() if n > 1}

    def find_strays(self, told: dict[str, Answer]) -> list[str]:
        """Records that are not settled, and keys that were told of another payment than theirs."""
        strays = self.process.database.sql(
            "SELECT convert_from(key, 'UTF8') FROM pawl.record"
            " WHERE status NOT IN (2, 3) OR provisional <> 0 OR lease_until <> 0")
        paid = dict(self.process.database.sql("SELECT client_key, id FROM payments"))
        return [f"{key} (unsettled)" for key, in strays] + [
            f"{key} (paid {paid.get(key)}, told {told[key].kept if key in told else 'nothing'})"
            for key in {*told, *paid} if key not in told
            or (told[key].status, told[key].json.get("id")) != (
                (201, paid[key]) if key in paid else (422, None))]


def body_of(key: str) -> dict[str, Any]:
    """A participant refuses some for good."""
    return {"of": key, "account": key, "amount": 5 if zlib.crc32(key.encode()) % 50 else 0}


class Crowd:
    """The clients, and what they were told."""

    def __init__(self, gateways: list[Gateway], n: int, seed: int, policy: str):
        self.gateways = gateways
        self.fresh_keys = policy == "once"  # a new one for each attempt, not the operation's
        self.may_differ = policy == "restored"  # what a backup lacks is answered by the service
        self.over = threading.Event()
        self.is_healed = False  # nothing fails any more
        self.attempts = 0
        self.told: dict[str, Answer] = {}  # what was acknowledged first
        self.open: list[str] = []  # operations without an outcome
        self.lost: dict[str, str] = {}  # and what was told instead
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._client, args=(i, random.Random(seed + i)),
                                          daemon=True) for i in range(n)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join()

    def _client(self, number: int, rand: random.Random) -> None:
        remembered: deque[str] = deque(maxlen=REMEMBERED)
        count = 0
        while not self.over.is_set():
            if remembered and rand.random() < 0.3:
                self.operate(rand.choice(remembered), rand)
                continue
            count += 1
            key = f"c{number // 2}-{count}"  # two clients share their keys
            self.operate(key, rand)
            if key in self.told:
                remembered.append(key)

    def operate(self, key: str, rand: random.Random) -> bool:
        """Retries until there is an outcome, or nobody can know; True: there is one. An outcome
        that was told is lost once it is unknown, or does not come when nothing fails any more: who
        gives up before that found no gateway up, which says nothing."""
        answer: Answer | None = None
        end = time.monotonic() + HEALED_SECONDS
        attempts = 0
        while time.monotonic() < end if self.is_healed else attempts < ATTEMPTS_MOST:
            attempts += 1
            answer = self._attempt(key, rand.choice(self.gateways))
            if answer is not None and self._is_outcome(answer):
                self._note(key, answer)
                return True
            if answer is not None and answer["Error-Code"] == UNKNOWN:
                break
            time.sleep(rand.uniform(0.01, 0.05))
        with self._lock:
            self.open.append(key)
            told = answer["Error-Code"] if answer else "nothing"
            first = self.told.get(key)
            # One that was refused, which a backup does not know, is sent and in doubt again.
            may_be_unknown = first and self.may_differ and first.status == 422
            if first and (told == UNKNOWN and not may_be_unknown or self.is_healed):
                self.lost[key] = f"{first.status}, then {told}, {attempts} attempts"
        return False

    def _is_outcome(self, answer: Answer) -> bool:
        """What failed is final for its key alone: another key takes its value over."""
        kept = answer["Idempotency-Status"] in ("stored", "replayed")
        return kept and not (self.fresh_keys and answer.status == 422)

    def _attempt(self, key: str, gateway: Gateway) -> Answer | None:
        with self._lock:
            self.attempts += 1
            sent_key = f"{key}~{self.attempts}" if self.fresh_keys else key
        try:
            return gateway.post("/refunds", body_of(key), key=sent_key)
        except (Broken, OSError, ValueError):
            return None

    def _note(self, key: str, answer: Answer) -> None:
        with self._lock:
            first = self.told.setdefault(key, answer)
            if first.kept != answer.kept and not self.may_differ:
                self.lost[key] = f"{first.kept} and {answer.kept}"


class Backup:
    """A copy of the store, put in its place now and then while no gateway runs; what was
    acknowledged after it is missing then, and the operator says so."""

    SECONDS = 6  # from a copy to its restore

    def __init__(self, store: Path | str, server: Any = None, database: Any = None):
        self.store, self.server, self.database = store, server, database
        self.since: datetime | None = None

    def is_due(self) -> bool:
        age = datetime.now(timezone.utc) - self.since if self.since else None
        return age is None or age.total_seconds() > self.SECONDS

    def take_turn(self) -> None:
        """Makes the copy, or restores it and lets the next one come."""
        if self.since is None:
            self.since = datetime.now(timezone.utc)
            self._copy(of=self.store, to="backup")
            return
        self._copy(of="backup", to=self.store)
        marked = run("store", "restored", "--since", f"{self.since:%Y-%m-%dT%H:%M:%SZ}", "--live",
                     "--reason", "a soak", "--store", str(self.store))
        assert marked.returncode == 0, marked
        self.since = None

    def _copy(self, of: Path | str, to: Path | str) -> None:
        if self.server:
            of, to = (self.database.name if name == self.store else name for name in (of, to))
            self.server.sql(f"DROP DATABASE IF EXISTS {to} WITH (FORCE)")
            self.server.sql(f"CREATE DATABASE {to} TEMPLATE {of} OWNER pawl")
            return
        of, to = (self.store.with_name(name) if name == "backup" else name for name in (of, to))
        for path in (to, *(to.with_name(to.name + end) for end in ("-wal", "-shm"))):
            path.unlink(missing_ok=True)
        with closing(sqlite3.connect(of)) as source, closing(sqlite3.connect(to)) as target:
            source.backup(target)


class Processes:
    """What is killed. Gateways share a store, which is a server's if there are several; start and
    kill them on the main thread, with which they die."""

    def __init__(self, directory: Path, policy: str, store: str, seed: int):
        self.server: Any = None
        if store == "postgres":
            sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "postgres"))
            from server import Server  # needs psycopg2, which is not everywhere

            self.server = Server(durable=True).create()
            self.database = self.server.add_database()
        shares = policy == "participant"
        self.payer = Payer(self.database, seed) if shares else None
        self.service = self.payer or Service(seed, dedupes=policy == "retry",
                                             apart=HOLD if policy == "ends" else math.inf)
        config = CONFIGS[policy]
        if self.server:  # where no lock of a file shows that an owner is dead
            config = config.replace("lease: 10s", "lease: 2s")
        self.gateways = [self._gateway(directory / f"gateway{i}", config)
                         for i in range(3 if self.server else 1)]
        self.backup = (Backup(self.gateways[0].store, self.server, self.server and self.database)
                       if policy == "restored" else None)
        self.restores = 0

    def _gateway(self, directory: Path, config: str) -> Gateway:
        directory.mkdir()
        made = Gateway(directory, self.service.port, config, Clock(directory / "clock"))
        return made.move_to(self.database.url) if self.server else made

    def start(self) -> None:
        for gateway in self.gateways:
            gateway.start()
        if self.payer:
            self.payer.process.start().wait_until_ready()

    def back_up_or_restore(self) -> None:
        for gateway in self.gateways:
            gateway.kill9()
        if self.server:
            self.server.end_backends(self.database)
        self.backup.take_turn()
        self.restores += self.backup.since is None
        for gateway in self.gateways:
            gateway.start()

    def kill_one(self, rand: random.Random) -> None:
        draw = rand.random() if self.server else 1.0
        if self.payer and draw > 0.7:
            self.payer.process.kill9()
        elif draw < 0.2:
            self.server.kill9()
            self.server.start()
        elif draw < 0.5:
            self.server.end_backends(self.database)
        else:
            gateway = rand.choice(self.gateways)
            gateway.kill9()
            gateway.start()

    def kill_at_random(self, seconds: float, most: int, rand: random.Random) -> int:
        """For so long, or so often; how often."""
        kills, end = 0, time.monotonic() + seconds
        while kills < most and time.monotonic() < end:
            time.sleep(rand.uniform(0.05, 1.2))
            if self.payer:
                kills += self.payer.revive()
            if self.backup and self.backup.is_due():
                self.back_up_or_restore()
            else:
                self.kill_one(rand)
            kills += 1
        return kills

    def close(self) -> None:
        for gateway in self.gateways:
            gateway.close()

    def discard(self) -> None:
        for gateway in self.gateways:
            gateway.discard()
        self.service.discard()
        if self.server:
            self.server.discard()


def settle(crowd: Crowd, policy: str, rand: random.Random) -> list[str]:
    """Everybody comes once more, nothing fails any more. What is still without an outcome."""
    crowd.is_healed = True
    pause = SETTLE + 0.5 + (HOLD if policy == "ends" else 0)
    time.sleep(pause)
    for key in list(crowd.told):
        crowd.operate(key, rand)
    stuck = [key for key in set(crowd.open) - set(crowd.told) if not crowd.operate(key, rand)]
    if policy in SETTLES_ALL and stuck:
        time.sleep(pause)
        stuck = [key for key in stuck if not crowd.operate(key, rand)]
    return stuck


def soak(policy: str, options: argparse.Namespace) -> bool:
    seed, rand = options.seed, random.Random(options.seed)
    directory = Path(tempfile.mkdtemp(prefix="pawl-soak-"))
    processes = Processes(directory, policy, options.store, seed)
    service = processes.service
    crowd = Crowd(processes.gateways, options.clients, seed, policy)
    try:
        processes.start()
        crowd.start()
        most = options.kills or sys.maxsize
        kills = processes.kill_at_random(math.inf if options.kills else options.seconds, most, rand)
        crowd.join()
        service.heal()
        stuck = settle(crowd, policy, rand)
        effects, doubled = service.effects, sorted(service.doubled)
        strays = processes.payer.find_strays(crowd.told) if processes.payer else []
        processes.close()
    finally:
        processes.discard()
        shutil.rmtree(directory, ignore_errors=True)
    lost = [f"{key} ({told})" for key, told in sorted(crowd.lost.items())]
    lost += (stuck if policy in SETTLES_ALL else []) + strays
    restores = f"{processes.restores} restores, " if processes.backup else ""
    print(f"{policy}: {crowd.attempts} attempts, {kills} kills, {restores}"
          f"{effects.total()} effects, "
          f"{len(crowd.told)} outcomes told, {len(stuck)} in doubt, {len(doubled)} duplicates, "
          f"{len(lost)} lost (seed {seed})", flush=True)
    for what, keys in (("done twice", doubled), ("lost", lost)):
        if keys:
            print(f"  {what}: {' '.join(keys[:10])}")
    return not doubled and not lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kills", type=int, help="until so many, instead")
    parser.add_argument("--policy", choices=CONFIGS, action="append")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    options = parser.parse_args()
    policies = options.policy or [policy for policy in CONFIGS
                                  if policy != "participant" or options.store == "postgres"]
    if "participant" in policies and options.store != "postgres":
        parser.error("--policy participant needs --store postgres")
    results = [soak(policy, options) for policy in policies]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
