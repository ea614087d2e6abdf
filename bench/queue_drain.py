#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`pawl queue` alone: how fast operations are added, listed and drained, beside xargs and curl.

usage: bench/queue_drain.py BUILD [OPERATIONS]
"""
from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from servers import BENCH, Server  # noqa: E402

PORT = 18099
URL = f"http://127.0.0.1:{PORT}/operations"


def timed(*command: str, **more) -> tuple[float, str]:
    began = time.monotonic()
    ran = subprocess.run(command, check=False, capture_output=True, text=True, **more)
    assert ran.returncode == 0, ran.stderr
    return time.monotonic() - began, ran.stdout


def median_ms(*command: str) -> float:
    return statistics.median(timed(*command)[0] for _ in range(15)) * 1000


def main() -> None:
    pawl = str(Path(sys.argv[1]).resolve() / "pawl")
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        place = Path(name)
        config = (BENCH / "upstream.conf.in").read_text().replace("@UPSTREAM@", str(PORT))
        (place / "upstream.conf").write_text(config.replace("@ANSWER@", '{"ok":true}'))
        lines = place / "operations"
        lines.write_text("".join(json.dumps(
            {"url": URL, "json": {"n": i, "amount": 100, "note": "x" * 100}}) + "\n"
            for i in range(n)))
        store = ("--store", str(place / "queue.db"))
        with lines.open() as given:
            took, printed = timed(pawl, "queue", "add", "-", *store, stdin=given)
        print(f"add, {n} from standard input: {took:.2f} s, {n / took:.0f}/s")
        first = printed.split()[0]
        print(f"add, one:  {median_ms(pawl, 'queue', 'add', '-d', 'a', URL, *store):.1f} ms")
        print(f"list:      {median_ms(pawl, 'queue', 'list', '--limit', '100', *store):.1f} ms")
        print(f"show:      {median_ms(pawl, 'queue', 'show', first, *store):.1f} ms")
        server = Server("upstream", ["nginx", "-p", str(place), "-c",
                                     str(place / "upstream.conf")], PORT, place)
        try:
            began = time.monotonic()
            drain = subprocess.Popen([pawl, "queue", "drain", "-j", "32", *store],
                                     stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(drain.pid, 0)
            took = time.monotonic() - began
            assert status == 0
            print(f"drain -j 32: {n / took:.0f}/s, {usage.ru_maxrss / 1024:.1f} MiB, "
                  f"{(usage.ru_utime + usage.ru_stime) / n * 1e6:.0f} us of processor each")
            m = min(n, 3000)
            took, _ = timed("sh", "-c", f"seq {m} | xargs -P32 -I% curl -sf -o /dev/null "
                            f"-H 'Idempotency-Key: %' -d '{{\"n\":%}}' {URL}")
            print(f"xargs -P32 curl: {m / took:.0f}/s")
        finally:
            server.end()


if __name__ == "__main__":
    main()
