# SPDX-License-Identifier: Apache-2.0
"""One load on one server: who sends it, what it cost, and whether its answers were right."""
from __future__ import annotations

import http.client
import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from servers import BENCH, Failure, Server

CONNECTIONS = 64
REPEATED_AFTER = 999  # as load.lua has it
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Load:
    """`mode` and what follows are words of load.lua; with a rate, paced.c sends it."""
    mode: str
    salt: str
    keys: int = 0
    stride: int = 1
    rate: float = 0

    def words(self) -> list[str]:
        numbers = [self.keys, self.stride] if self.mode == "replay" else []
        return [self.mode, self.salt, *map(str, numbers)]

    def forwarded(self, requests: int, repeats_too: bool) -> tuple[int, int]:
        """The least and the most of that many answered requests that the upstream may have seen.
        When time is over, every connection may be waiting for one more answer."""
        if repeats_too or self.mode == "first":
            return requests, requests + CONNECTIONS
        if self.mode == "replay":
            return 0, 0
        new = requests - max(0, requests - REPEATED_AFTER) // 10
        return new - CONNECTIONS, new + 2 * CONNECTIONS


def busy_share() -> float:
    """How much of the machine others use, over one second."""
    def ticks() -> tuple[int, int]:
        fields = [int(n) for n in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4]
    all_before, idle_before = ticks()
    time.sleep(1)
    all_after, idle_after = ticks()
    return 1 - (idle_after - idle_before) / max(1, all_after - all_before)


def upstream_count(upstream: Server) -> int:
    """Requests the upstream has read, its own counting requests left out."""
    connection = http.client.HTTPConnection("127.0.0.1", upstream.port, timeout=10)
    connection.request("GET", "/count")
    numbers = connection.getresponse().read().decode().split("\n")[2].split()
    connection.close()
    upstream.asked = getattr(upstream, "asked", 0) + 1
    return int(numbers[2]) - upstream.asked


def settled_count(upstream: Server) -> int:
    """The same, once it stands still: what was left running when the time was over ends within
    moments, on a busy machine later."""
    count = -1
    while count != (count := upstream_count(upstream)):
        time.sleep(0.3)
    return count


class Generator:
    """Sends loads. `build` holds paced."""

    def __init__(self, build: Path, seconds: int):
        self.build, self.seconds = build, seconds

    def send(self, port: int, load: Load) -> dict:
        if load.rate:
            command = [self.build / "bench/paced", str(port), f"{load.rate:.0f}",
                       str(self.seconds), load.salt]
        else:
            command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{self.seconds}s", "--timeout", "10s",
                       "-s", BENCH / "load.lua", f"http://127.0.0.1:{port}/payments", "--",
                       *load.words()]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return json.loads(done.stdout.strip().split("\n")[-1])

    def measure(self, server: Server, upstream: Server, load: Load, repeats_too: bool) -> dict:
        """CPU is that of all threads of the server, in microseconds a request. `repeats_too`: it
        sends on what it has sent before."""
        os.sync()  # what the load before has written is not to be paid for in this one
        count, ticks, threads = upstream_count(upstream), server.ticks(), server.threads()
        figures = self.send(server.port, load)
        spent, after = server.ticks() - ticks, server.threads()
        check(server.name, load, figures)
        forwarded = settled_count(upstream) - count
        least, most = load.forwarded(figures["requests"], repeats_too)
        if not least <= forwarded <= most:
            raise Failure(f"{server.name}, {load.mode}: {figures['requests']} requests, but the "
                          f"upstream read {forwarded}, not {least} to {most}")
        each = 1e6 / TICKS / figures["requests"]
        figures["cpu_us"] = spent * each
        figures["per_s"] = figures["requests"] * 1e6 / figures["us"]
        figures["peak_mib"] = server.peak_mib()
        figures["threads"] = {
            thread: [(now - then) * each for now, then in zip(sums, threads.get(thread, (0, 0)))]
            for thread, sums in after.items()}
        return figures


def check(name: str, load: Load, figures: dict) -> None:
    """Figures of wrong answers are no figures."""
    if figures["not_2xx"] or figures["broken"] or not figures["requests"]:
        raise Failure(f"{name}, {load.mode}: {figures['not_2xx']} answers were not 2xx, "
                      f"{figures['broken']} broke, of {figures['requests']}")
