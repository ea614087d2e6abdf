#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Daily offers of a match-making service, on SQLite: a row, its state and the record of the job are
one transaction.

usage: offers.py schema                       makes the tables, and twelve users
       offers.py users                        prints the users as CSV
       offers.py offer --user U --zone Z      makes the offer of the date in $PAWL_KEY, once
       offers.py act OFFER ACTION ACTION_ID [--seq N]
                                              accept, pass, not_now, mutual_accept or unmatch; a
                                              repeat under its ACTION_ID prints the same
       offers.py count                        prints how many offers each date has

The database is $OFFERS_DB (offers.db). $PAWL_EXTENSION names pawl's extension for SQLite, if it is
neither built beside this example nor installed. Exit codes: 0 done; 1 the offer's state does not
allow the action; 2 usage.
"""
from __future__ import annotations

import argparse
import csv
import json
import os
import sqlite3
import sys
from contextlib import closing
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bindings/python"))

import pawl_sqlite  # noqa: E402

EXTENSIONS = [ROOT / "build/pawl.so", *Path("/usr").glob("lib/*/pawl/pawl.so"),
              *Path("/usr/local").glob("lib/*/pawl/pawl.so")]
USERS = [("user-123", "America/New_York"), ("user-124", "America/Los_Angeles"),
         ("user-125", "America/Havana"), ("user-126", "America/Sao_Paulo"),
         ("user-127", "Atlantic/Azores"), ("user-128", "Europe/Berlin"),
         ("user-129", "Africa/Cairo"), ("user-130", "Asia/Kolkata"), ("user-131", "Asia/Tokyo"),
         ("user-132", "Australia/Lord_Howe"), ("user-133", "Pacific/Apia"),
         ("user-134", "Antarctica/Troll")]
MACHINE = [("", "offer", "offered"), ("offered", "accept", "accepted"),
           ("offered", "pass", "passed"), ("offered", "not_now", "not_now"),
           ("accepted", "mutual_accept", "matched"), ("matched", "unmatch", "closed")]
REASONS = {"unmatch": "unmatched"}
SCHEMA = """
CREATE TABLE IF NOT EXISTS users(id TEXT PRIMARY KEY, zone TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS offers(id INTEGER PRIMARY KEY, user TEXT NOT NULL, date TEXT NOT NULL,
    zone TEXT NOT NULL, candidate TEXT, state TEXT NOT NULL, reason TEXT);
CREATE UNIQUE INDEX IF NOT EXISTS one_a_date ON offers(user, date);
"""


def connect() -> sqlite3.Connection:
    conn = sqlite3.connect(os.environ.get("OFFERS_DB", "offers.db"), timeout=30,
                           isolation_level=None)
    extension = os.environ.get("PAWL_EXTENSION") or next(filter(Path.exists, EXTENSIONS), None)
    if not extension:
        sys.exit("offers.py: pawl.so is not built and not installed: set PAWL_EXTENSION")
    pawl_sqlite.load(conn, str(extension))
    return conn


def make_schema(conn: sqlite3.Connection) -> None:
    conn.executescript(SCHEMA)
    conn.execute("BEGIN IMMEDIATE")
    conn.execute("SELECT pawl_install()").fetchone()
    conn.executemany("INSERT OR IGNORE INTO pawl_machine(name, from_state, action, to_state)"
                     " VALUES ('offers', ?, ?, ?)", MACHINE)
    conn.executemany("INSERT OR IGNORE INTO users VALUES (?, ?)", USERS)
    conn.execute("COMMIT")


def print_users(conn: sqlite3.Connection) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("id", "zone"))
    writer.writerows(conn.execute("SELECT id, zone FROM users ORDER BY id"))


def transition(conn: sqlite3.Connection, offer: int, action: str, action_id: str,
               seq: int | None = None) -> tuple[str, bool, str, str]:
    return conn.execute("SELECT decision, replayed, from_state, to_state FROM"
                        " pawl_transition('', 'offers', ?, ?, ?, ?)",
                        (str(offer), action, action_id, seq)).fetchone()


# The record has the key of the job. So a job that is repeated because pawl died after this commit
# prints what the first one printed, the candidate too, which is drawn by chance.
@pawl_sqlite.operation("daily_offers", ttl="7d")
def make_offer(conn: sqlite3.Connection, user: str, zone: str, day: str) -> tuple[int, dict]:
    # A user who moves to another zone may see a date twice, under two keys: the index ignores it.
    made = conn.execute("INSERT OR IGNORE INTO offers(user, date, zone, candidate, state)"
                        " VALUES (?1, ?2, ?3, (SELECT id FROM users WHERE id <> ?1"
                        " ORDER BY random() LIMIT 1), 'offered')", (user, day, zone)).rowcount
    offer, candidate = conn.execute("SELECT id, candidate FROM offers WHERE user = ? AND date = ?",
                                    (user, day)).fetchone()
    if made:
        transition(conn, offer, "offer", f"offer-{offer}")
    return 201, {"id": offer, "user": user, "date": day, "candidate": candidate,
                 "state": "offered"}


def print_offer(conn: sqlite3.Connection, user: str, zone: str) -> None:
    key = os.environ.get("PAWL_KEY", "")
    try:
        day = date.fromisoformat(key.partition(":")[0]).isoformat()
    except ValueError:
        sys.exit(f"offers.py: PAWL_KEY begins with no date: {key!r}")
    print(make_offer(conn, user, zone, day, tenant="", key=key).body.decode())


def act(conn: sqlite3.Connection, offer: int, action: str, action_id: str,
        seq: int | None) -> int:
    conn.execute("BEGIN IMMEDIATE")
    if not conn.execute("SELECT 1 FROM offers WHERE id = ?", (offer,)).fetchone():
        sys.exit(f"offers.py: there is no offer {offer}")
    decision, replayed, before, after = transition(conn, offer, action, action_id, seq)
    if decision == "moved" and not replayed:
        conn.execute("UPDATE offers SET state = ?, reason = ? WHERE id = ?",
                     (after, REASONS.get(action), offer))
    conn.execute("COMMIT")
    result = {"offer": offer, "decision": decision, "from": before, "state": after}
    if decision == "moved" and action in REASONS:
        result["reason"] = REASONS[action]
    print(json.dumps(result))
    return 0 if decision == "moved" else 1


def print_counts(conn: sqlite3.Connection) -> None:
    for day, offers, users in conn.execute(
            "SELECT date, count(*), count(DISTINCT user) FROM offers GROUP BY date ORDER BY date"):
        print(f"{day}: {offers} offers to {users} users")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(usage=__doc__.partition("usage: ")[2])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("schema", "users", "count"):
        commands.add_parser(name)
    offer = commands.add_parser("offer")
    offer.add_argument("--user", required=True)
    offer.add_argument("--zone", required=True)
    step = commands.add_parser("act")
    step.add_argument("offer", type=int)
    step.add_argument("action", choices=[action for before, action, _ in MACHINE if before])
    step.add_argument("action_id")
    step.add_argument("--seq", type=int, help="of the event; one that is not newer is stale")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    with closing(connect()) as conn:
        if given.command == "schema":
            make_schema(conn)
        elif given.command == "users":
            print_users(conn)
        elif given.command == "offer":
            print_offer(conn, given.user, given.zone)
        elif given.command == "act":
            return act(conn, given.offer, given.action, given.action_id, given.seq)
        else:
            print_counts(conn)
    return 0


if __name__ == "__main__":
    sys.exit(main())
