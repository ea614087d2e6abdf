# SPDX-License-Identifier: Apache-2.0
"""Mixed load on a thousand keys that live for 200 ms, and what it leaves: the key log, the store's
files and the memory of the process must stay as large as they were. Exits 1 when they grew. With a
build that has hooks the runs of keys are small, so that a minute sees many of them.

usage: flat.py [--seconds N] [--clients N] [--seed N] [--key-run N]
"""
from __future__ import annotations

import argparse
import dataclasses
import random
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pawltest.gateway import Clock, Gateway  # noqa: E402
from pawltest.upstream import Reply, Upstream, closes, say  # noqa: E402
from pawltest.wire import Broken, Request  # noqa: E402

KEYS = 1000
SAMPLES = 20  # the first half is compared with the second
SLACK = 1.1
CONFIG = """
tenant: none
cache: 1MiB
defaults: {ttl: 200ms, lease: 1s, timeout: 10s, unknown: retry}
rules:
  - name: otp.send
    match: POST /otp
"""


@dataclasses.dataclass
class Sample:
    log: int  # bytes
    files: int
    memory: int  # KiB

    def __str__(self) -> str:
        return f"log {self.log} B, files {self.files} B, memory {self.memory} KiB"


def sample(gateway: Gateway) -> Sample:
    with closing(sqlite3.connect(f"file:{gateway.store}?mode=ro", uri=True)) as db:
        log, = db.execute("SELECT coalesce(sum(length(keys)), 0) FROM pawl_key_log").fetchone()
    store = Path(gateway.store)
    files = sum(path.stat().st_size for path in store.parent.glob(store.name + "*"))
    assert gateway.process is not None
    status = Path(f"/proc/{gateway.process.pid}/status").read_text("utf-8")
    memory = next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line)
    return Sample(log, files, memory)


def most(samples: list[Sample]) -> Sample:
    return Sample(max(s.log for s in samples), max(s.files for s in samples),
                  max(s.memory for s in samples))


class Load:
    """Clients that send, repeat at once, send something else under the same key, and meet a
    service that fails now and then."""

    def __init__(self, gateway: Gateway, clients: int, seed: int):
        self.gateway, self.over, self.attempts = gateway, threading.Event(), 0
        self.threads = [threading.Thread(target=self._client, args=(random.Random(seed + i),),
                                         daemon=True) for i in range(clients)]
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()

    def _client(self, rand: random.Random) -> None:
        while not self.over.is_set():
            key = f"+49{rand.randrange(KEYS)}"
            for body in ({"n": 1}, {"n": rand.choice((1, 1, 2))}):
                self.attempts += 1
                try:
                    self.gateway.post("/otp", body, key=key)
                except (Broken, OSError, ValueError):
                    pass


def serve(rand: random.Random, _: Request) -> Reply:
    draw = rand.random()
    if draw < 0.02:
        return closes()
    return say(503, effect=False) if draw < 0.04 else say(201, {"n": draw})


def measure(options: argparse.Namespace) -> bool:
    directory, rand = Path(tempfile.mkdtemp(prefix="pawl-flat-")), random.Random(options.seed)
    upstream = Upstream()
    upstream.default = lambda request: serve(rand, request)
    gateway = Gateway(directory, upstream.port, CONFIG, Clock(directory / "clock"))
    try:
        gateway.start(PAWL_STORE_KEY_RUN=str(options.key_run))
        load, samples = Load(gateway, options.clients, options.seed), []
        for _ in range(SAMPLES):
            time.sleep(options.seconds / SAMPLES)
            samples.append(sample(gateway))
            print(samples[-1], flush=True)
        load.stop()
        gateway.close()
    finally:
        gateway.discard()
        upstream.stop()
        shutil.rmtree(directory, ignore_errors=True)
    first, second = most(samples[:SAMPLES // 2]), most(samples[SAMPLES // 2:])
    print(f"{load.attempts} requests; first half: {first}; second half: {second}")
    return all(after <= before * SLACK for before, after in
               zip(dataclasses.astuple(first), dataclasses.astuple(second)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--key-run", type=int, default=1024)
    return 0 if measure(parser.parse_args()) else 1


if __name__ == "__main__":
    sys.exit(main())
