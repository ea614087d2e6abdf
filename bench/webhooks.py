#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Webhooks out alone: how many deliveries a second to 100 endpoints, beside `curl --parallel` with
the same requests; and what one endpoint that hangs costs the others.

usage: bench/webhooks.py BUILD [--events N] [--latency FILE.csv]
       bench/webhooks.py BUILD --kept N

The second form: what N delivered events that are kept cost, and what it costs to remove them.
"""
from __future__ import annotations

import argparse
import contextlib
import csv
import http.client
import json
import resource
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from servers import BENCH, Server, cpu_of  # noqa: E402

RECEIVER, GATEWAY, ADMIN, HUNG = 18101, 18102, 18103, 18104
ENDPOINTS = 100
RATE = 200  # events a second, while one endpoint hangs
SPAN = 10  # seconds of that
DATA = {"id": "re_00001234", "amount": 1000, "currency": "EUR", "note": "x" * 200}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def endpoint(i: int, port: int = RECEIVER) -> dict:
    return {"name": f"e{i}", "url": f"http://127.0.0.1:{port}/e{i}", "types": [f"refund.e{i}"],
            "secret": SECRET}


def write_config(place: Path, endpoints: list[dict]) -> Path:
    webhooks = {"allow": ["127.0.0.0/8"], "allow_http": True, "endpoints": endpoints}
    file = place / "pawl.yaml"
    file.write_text(f"listen: 127.0.0.1:{GATEWAY}\nadmin: 127.0.0.1:{ADMIN}\n"
                    f"upstream: http://127.0.0.1:{RECEIVER}\ntenant: none\nlog_keys: plain\n"
                    f"webhooks: {json.dumps(webhooks)}\n")
    return file


def publish(connection: http.client.HTTPConnection, events: list[dict]) -> None:
    lines = "".join(json.dumps(event) + "\n" for event in events)
    connection.request("POST", "/events", lines, {"Content-Type": "application/x-ndjson"})
    response = connection.getresponse()
    body = response.read()
    assert response.status in (200, 202), body


def told(log: Path) -> list[tuple[float, str]]:
    """When each request was answered, and its event."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(float(at), event) for at, event in (line.split() for line in lines)]


@contextlib.contextmanager
def receiver(place: Path):
    text = (BENCH / "upstream.conf.in").read_text().replace("@UPSTREAM@", str(RECEIVER))
    text = text.replace("@ANSWER@", "{}").replace(
        "access_log off;", "log_format told '$msec $http_webhook_id'; access_log told.log told;")
    (place / "receiver.conf").write_text(text)
    server = Server("receiver", ["nginx", "-p", str(place), "-c", str(place / "receiver.conf")],
                    RECEIVER, place)
    try:
        yield place / "told.log"
    finally:
        server.end()


@contextlib.contextmanager
def gateway(pawl: str, place: Path, endpoints: list[dict], store: Path | None = None):
    store = store or place / f"pawl-{time.monotonic_ns()}.db"
    server = Server("pawl", [pawl, "serve", "-c", str(write_config(place, endpoints)), "--store",
                             str(store)], GATEWAY, place)
    try:
        yield server
    finally:
        server.end()


def cpu_ms(server: Server) -> float:
    return sum(sum(cpu_of(Path(f"/proc/{pid}/stat"))[1:]) for pid in server.pids()) * 10


def deliver(pawl: str, place: Path, log: Path, n: int) -> None:
    with gateway(pawl, place, [endpoint(i) for i in range(ENDPOINTS)]) as server:
        connection = http.client.HTTPConnection("127.0.0.1", ADMIN)
        began, cpu = time.monotonic(), cpu_ms(server)
        for first in range(0, n, 200):
            publish(connection, [{"type": f"refund.e{i % ENDPOINTS}", "id": f"d{i}", "data": DATA}
                                 for i in range(first, min(first + 200, n))])
        published = time.monotonic() - began
        while len(told(log)) < n:
            time.sleep(0.05)
        took = time.monotonic() - began
        print(f"publish, 200 at a time:  {n / published:.0f} events/s")
        print(f"deliver to {ENDPOINTS}:          {n / took:.0f}/s, "
              f"{(cpu_ms(server) - cpu) / n * 1000:.0f} us of processor each, publishing included")


def curl(place: Path, n: int) -> None:
    requests = place / "requests"
    body = json.dumps({"type": "refund.e0", "timestamp": "2026-01-01T00:00:00Z", "data": DATA})
    lines = []
    for i in range(n):
        lines += [f'url = "http://127.0.0.1:{RECEIVER}/e{i % ENDPOINTS}"', 'output = "/dev/null"',
                  'data = "' + body.replace('"', '\\"') + '"', "next"]
    requests.write_text("\n".join(lines[:-1]) + "\n")
    began = time.monotonic()
    before = sum(children_cpu())
    subprocess.run(["curl", "-s", "--parallel", "--parallel-max", "32", "-K", str(requests)],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    took = time.monotonic() - began
    print(f"curl --parallel, 32:     {n / took:.0f}/s, "
          f"{(sum(children_cpu()) - before) / n * 1e6:.0f} us of processor each")


def children_cpu() -> tuple[float, float]:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime, usage.ru_stime


def hangs(listener: socket.socket) -> None:
    kept = []
    with contextlib.suppress(OSError):
        while True:
            kept.append(listener.accept())


def waits_ms(pawl: str, place: Path, log: Path, hung: bool) -> list[float]:
    """From publish to the response of the receiver, of the other endpoints: its percentiles."""
    others = [endpoint(i) for i in range(ENDPOINTS - 1)]
    last = endpoint(ENDPOINTS - 1, HUNG if hung else RECEIVER)
    run = f"h{hung}-{time.monotonic_ns()}-"
    published: dict[str, float] = {}
    with gateway(pawl, place, [*others, last]):
        connection = http.client.HTTPConnection("127.0.0.1", ADMIN)
        began = time.monotonic()
        for i in range(RATE * SPAN):
            time.sleep(max(0.0, began + i / RATE - time.monotonic()))
            published[f"{run}{i}"] = time.time()
            publish(connection, [{"type": f"refund.e{i % ENDPOINTS}", "id": f"{run}{i}",
                                  "data": DATA}])
        wanted = {event for i, event in enumerate(published) if i % ENDPOINTS != ENDPOINTS - 1}
        while not wanted <= {event for _, event in told(log)}:
            time.sleep(0.1)
    waits = [at - published[event] for at, event in told(log) if event in wanted]
    return [wait * 1000 for wait in statistics.quantiles(waits, n=100)]


# ---- what is kept ----

def publish_ms(connection: http.client.HTTPConnection, run: str, n: int) -> list[float]:
    """One after the other, 200 a second."""
    took = []
    for i in range(n):
        began = time.monotonic()
        publish(connection, [{"type": "refund.e1", "id": f"{run}{i}", "data": DATA}])
        took.append((time.monotonic() - began) * 1000)
        time.sleep(1 / RATE)
    return took


def quantiles(took: list[float]) -> str:
    at = statistics.quantiles(took, n=100)
    return f"p50 {at[49]:.2f} ms, p99 {at[98]:.2f} ms"


def count(store: Path, sql: str) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as file:
        return file.execute(sql).fetchone()[0]


def end_all(store: Path, table: str) -> None:
    """As if all that is kept had been kept long enough."""
    with contextlib.closing(sqlite3.connect(store)) as file, file:
        file.execute(f"UPDATE {table} SET gone_at = 1 WHERE gone_at < {2 ** 62}")


def swept(pawl: str, place: Path, store: Path, table: str) -> None:
    end_all(store, table)
    left = f"SELECT count(*) FROM {table} WHERE gone_at = 1"
    with gateway(pawl, place, [endpoint(1)], store):
        connection = http.client.HTTPConnection("127.0.0.1", ADMIN)
        began, n, took, rounds = time.monotonic(), count(store, left), [], 0
        while count(store, left) > 0:
            took += publish_ms(connection, f"{table}{rounds}-", 200)
            rounds += 1
        print(f"sweep of {n} rows of {table}: {n / (time.monotonic() - began):.0f}/s; "
              f"publish meanwhile: {quantiles(took)}", flush=True)


def keep(pawl: str, place: Path, log: Path, n: int) -> None:
    store = place / "kept.db"
    with gateway(pawl, place, [endpoint(i) for i in range(ENDPOINTS)], store) as server:
        connection = http.client.HTTPConnection("127.0.0.1", ADMIN)
        began = time.monotonic()
        for first in range(0, n, 200):
            publish(connection, [{"type": f"refund.e{i % ENDPOINTS}", "id": f"m{i}", "data": DATA}
                                 for i in range(first, first + 200)])
        print(f"published:               {n / (time.monotonic() - began):.0f}/s")
        while sum(1 for _ in log.open()) < n:
            time.sleep(1)
        print(f"delivered:               {n / (time.monotonic() - began):.0f}/s", flush=True)
        connection = http.client.HTTPConnection("127.0.0.1", ADMIN)  # the idle one was closed
        print(f"publish, one at a time:  {quantiles(publish_ms(connection, 'p', 1000))}")
        began = time.monotonic()
        connection.request("GET", "/deliveries")
        connection.getresponse().read()
        print(f"GET /deliveries:         {(time.monotonic() - began) * 1000:.1f} ms")
        times = []
        for _ in range(9):
            began = time.monotonic()
            subprocess.run([pawl, "webhook", "list", "--limit", "100", "--store", str(store)],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            times.append((time.monotonic() - began) * 1000)
        print(f"pawl webhook list:       {statistics.median(times):.1f} ms")
        [rss] = [line for line in Path(f"/proc/{server.process.pid}/status").open()
                 if line.startswith("VmRSS")]
        print(f"memory of pawl serve:    {int(rss.split()[1]) / 1024:.0f} MiB")
    print(f"file:                    {store.stat().st_size / 1e6:.0f} MB", flush=True)
    for table in ("pawl_task", "pawl_event"):
        swept(pawl, place, store, table)


def write_latency(file: Path, rounds: list[tuple[list[float], list[float]]]) -> None:
    """The percentiles of the round in the middle, by its ratio."""
    alone, beside = sorted(rounds, key=lambda pair: pair[1][98] / pair[0][98])[len(rounds) // 2]
    with file.open("w", encoding="utf-8", newline="") as to:
        writer = csv.writer(to, lineterminator="\n")
        writer.writerow(["percent", "alone_ms", "beside_ms"])
        writer.writerows([i + 1, f"{alone[i]:.2f}", f"{beside[i]:.2f}"] for i in range(99))


def compare(pawl: str, place: Path, log: Path, n: int, latency: Path | None) -> None:
    deliver(pawl, place, log, n)
    curl(place, n)
    rounds = [(waits_ms(pawl, place, log, False), waits_ms(pawl, place, log, True))
              for _ in range(3)]
    for without, with_one in rounds:
        print(f"p99 of the others:       {without[98]:.1f} ms; with one that hangs "
              f"{with_one[98]:.1f} ms ({with_one[98] / without[98]:.2f} times)")
    if latency:
        write_latency(latency, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--latency", type=Path)
    parser.add_argument("--kept", type=int)
    given = parser.parse_args()
    pawl = str(given.build.resolve() / "pawl")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name, socket.socket() as listener:
        place = Path(name)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", HUNG))
        listener.listen(1024)
        threading.Thread(target=hangs, args=(listener,), daemon=True).start()
        with receiver(place) as log:
            if given.kept:
                keep(pawl, place, log, given.kept)
            else:
                compare(pawl, place, log, given.events, given.latency)


if __name__ == "__main__":
    main()
