# SPDX-License-Identifier: Apache-2.0
"""What a record adds to a transaction of an application's: pgbench inserts a row, alone, beside the
usual hand-written table of keys, and between pawl.begin and pawl.complete; as many clients at once,
and the same where a sync of the log takes two milliseconds longer."""
from __future__ import annotations

import contextlib
import os
import re
import statistics
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Iterator

from loads import TICKS
from postgres import SETTINGS, cpu_ticks
from report import Aim
from servers import ROOT, Failure

sys.path.insert(0, str(ROOT / "tests/postgres"))

CLIENTS = (1, 16)
DISKS = ("disk", "disk + 2 ms")
ALONE, BY_HAND, PAWL = "insert alone", "hand-written table", "pawl"
AIMS = {("disk", 1): 1.5, ("disk", 16): 1.8, ("disk + 2 ms", 1): 1.25, ("disk + 2 ms", 16): 1.8}

TABLES = """
CREATE TABLE public.refunds (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount int NOT NULL);
CREATE TABLE public.idempotency_keys (
  key text PRIMARY KEY, payload_hash text NOT NULL, status text NOT NULL, result_ref text,
  http_code int, created_at timestamptz NOT NULL DEFAULT now(), expires_at timestamptz NOT NULL);
"""
FILL = """
INSERT INTO public.idempotency_keys
SELECT 'old-' || n, repeat('a', 64), 'complete', '{"id": 7}', 201, now(), now() + interval '1 day'
FROM generate_series(1, RECORDS) n;
SELECT count(pawl.complete(b.token, 201, '{"id": 7}')) FROM generate_series(1, RECORDS) n,
  LATERAL pawl.begin('m1', 'refunds', 'old-' || n, repeat('a', 64)) b;
VACUUM ANALYZE public.idempotency_keys, pawl.record, pawl.outcome;
"""
KEY = "'k-' || :client_id || '-' || :n, repeat('a', 64)"
INSERT = "INSERT INTO public.refunds (amount) VALUES (1000) RETURNING id \\gset\n"
BEFORE, AFTER = "\\set n random(1, 1000000000000000)\nBEGIN;\n", "COMMIT;\n"
SCRIPTS = {
    ALONE: BEFORE + INSERT + AFTER,
    BY_HAND: BEFORE + f"""
INSERT INTO public.idempotency_keys (key, payload_hash, status, expires_at)
VALUES ({KEY}, 'pending', now() + interval '1 day') ON CONFLICT (key) DO NOTHING RETURNING status;
{INSERT}
UPDATE public.idempotency_keys SET status = 'complete', result_ref = '{{"id": ' || :id || '}}',
http_code = 201 WHERE key = 'k-' || :client_id || '-' || :n;
""" + AFTER,
    PAWL: BEFORE + f"SELECT * FROM pawl.begin('m1', 'refunds', {KEY}) \\gset\n{INSERT}"
    + "SELECT pawl.complete(:token, 201, '{\"id\": ' || :id || '}');\n" + AFTER,
}
Rows = dict[tuple[str, int, str], list[dict]]  # by disk, clients and name; one a round


class Bench:
    """`length`: how long pgbench runs, in its own words."""

    def __init__(self, directory: Path, server: Any, database: Any, length: tuple[str, str]):
        self.directory, self.server, self.length = directory, server, length
        self.database = database
        self.pgbench = server.programs / "pgbench"

    def measure(self, name: str, clients: int) -> dict:
        script = self.directory / "script.sql"
        script.write_text(SCRIPTS[name])
        before = cpu_ticks(self.server)
        ran = subprocess.run(
            [self.pgbench, "--no-vacuum", "--file", script, "--client", str(clients),
             *self.length, "--protocol", "extended", self.database.url],
            capture_output=True, text=True, check=False)
        done = re.search(r"transactions actually processed: (\d+)", ran.stdout)
        rate = re.search(r"tps = ([\d.]+)", ran.stdout)
        failed = re.search(r"failed transactions: (\d+)", ran.stdout)
        if ran.returncode != 0 or not done or not rate or int(failed[1]) or not int(done[1]):
            raise Failure(f"pgbench: {ran.stdout}{ran.stderr}")
        return {"per_s": float(rate[1]), "server_us":
                (cpu_ticks(self.server) - before) * 1e6 / TICKS / int(done[1])}


@contextlib.contextmanager
def slow_sync(build: Path, disk: str) -> Iterator[None]:
    """Servers that start within sync as that disk does."""
    if disk != DISKS[0]:
        os.environ["LD_PRELOAD"] = str(build / "bench/slow_sync.so")
    try:
        yield
    finally:
        os.environ.pop("LD_PRELOAD", None)


def measure(build: Path, options: Any) -> Rows:
    """Each round on both servers, all rows of it in turn."""
    try:
        from server import Server, find_programs
        if not (find_programs() / "pgbench").exists():
            raise Failure("pgbench is missing: scripts/setup --test installs PostgreSQL")
    except (ImportError, AssertionError) as missing:
        raise Failure(f"{missing}: scripts/setup --test installs PostgreSQL") from missing
    rows: Rows = {}
    # In a second a busy disk may not sync once.
    length = ("--transactions", "5") if options.smoke else ("--time", str(options.seconds))
    with contextlib.ExitStack() as stack:
        benches = {}
        for disk in DISKS:
            with slow_sync(build, disk):
                server = stack.enter_context(Server(durable=True, **SETTINGS))
            database = server.add_database()
            fill(build, database, options.records)
            benches[disk] = Bench(options.out, server, database, length)
        for number in range(options.rounds):
            print(f"round {number + 1}", file=sys.stderr)
            for disk, bench in benches.items():
                for clients in CLIENTS:
                    for name in SCRIPTS:
                        row = bench.measure(name, clients)
                        rows.setdefault((disk, clients, name), []).append(row)
                        print(f"  {disk:<12} {clients:>3} {name:<19} {row['per_s']:7.0f}/s",
                              file=sys.stderr)
    (options.out / "script.sql").unlink()
    return rows


def fill(build: Path, database: Any, records: int) -> None:
    schema = subprocess.run([build / "pawl", "schema", "postgres"], stdout=subprocess.PIPE,
                            text=True, check=True).stdout
    psql = [database.server.programs / "psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1",
            database.url]
    for script in (schema, TABLES + FILL.replace("RECORDS", str(records))):
        subprocess.run(psql, input=script, text=True, stdout=subprocess.DEVNULL, check=True)


# ---- what is printed ----


def ratio(rows: Rows, disk: str, clients: int, beside: str) -> float:
    """The time of a transaction with pawl, times that of the other."""
    return statistics.median(other["per_s"] / row["per_s"] for row, other in zip(
        rows[disk, clients, PAWL], rows[disk, clients, beside]))


def aims_of(rows: Rows) -> list[Aim]:
    return [Aim(f"{clients} client{'s' * (clients > 1)}, {disk}, times hand-written",
                ratio(rows, disk, clients, BY_HAND), aim) for (disk, clients), aim in AIMS.items()]


def text_of(rows: Rows, options: Any) -> list[str]:
    lines = [f"a transaction with a record, medians of {options.rounds} rounds of "
             f"{options.seconds} s, {options.records} records first",
             f"{'':<12} {'clients':>7} {'':<19} {'per s':>7} {'server us':>10} {'times alone':>12}"]
    for (disk, clients, name), of in rows.items():
        per_s, server_us = (statistics.median(row[figure] for row in of)
                            for figure in ("per_s", "server_us"))
        alone = statistics.median(other["per_s"] / row["per_s"] for row, other in zip(
            of, rows[disk, clients, ALONE]))
        lines.append(f"{disk:<12} {clients:>7} {name:<19} {per_s:>7.0f} {server_us:>10.0f} "
                     f"{alone:>12.2f}")
    return [*lines, "", f"{'aims':<48} {'measured':>9}", *(aim.text() for aim in aims_of(rows))]


def results_of(rows: Rows) -> dict:
    return {"rounds": [{"disk": disk, "clients": clients, "name": name, "rounds": of}
                       for (disk, clients, name), of in rows.items()],
            "aims": [{**asdict(aim), "met": aim.is_met()} for aim in aims_of(rows)]}
