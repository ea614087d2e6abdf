# SPDX-License-Identifier: Apache-2.0
"""A store of many records in a minute or two, where pawl itself would need half an hour.

    bulk.py STORE RECORDS

pawl's own store has written the first records (store_pairs); SQL copies them under other ids and
other hashes, and enters all hashes into the index of keys. It knows this much of the schema
(src/store/sqlite/schema.c): the tables and columns named here, and that an index of pawl_outcome
may be made last. What it does not find stops it. The file is for measuring: no copy is the answer
to any key.
"""
from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

KEY_BYTES = 16


def columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]


def copy_records(db: sqlite3.Connection, records: int) -> None:
    """Rows go in by ascending id, as pawl appends them."""
    names = columns(db, "pawl_outcome")
    values = {"id": "id + :shift", "key_hash": "randomblob(32)"}
    chosen = ", ".join(values.get(name, name) for name in names)
    first, last, n = db.execute("SELECT min(id), max(id), count(*) FROM pawl_outcome").fetchone()
    indexes = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND "
                         "tbl_name = 'pawl_outcome' AND sql IS NOT NULL").fetchall()
    for name, _ in indexes:
        db.execute(f"DROP INDEX {name}")
    for copy in range(1, -(-records // n)):
        db.execute(f"INSERT INTO pawl_outcome({', '.join(names)}) SELECT {chosen} FROM pawl_outcome"
                   " WHERE id BETWEEN :first AND :last ORDER BY id",
                   {"shift": copy * (last - first + 1), "first": first, "last": last})
    for _, sql in indexes:
        db.execute(sql)


def enter_keys(db: sqlite3.Connection, index: str) -> None:
    """In two goes, each in order: the second splits the pages of the first, so that they are about
    as full as those of an index that grew at random."""
    held, known = db.execute(
        f"SELECT count(*), count(o.id) FROM {index} AS k LEFT JOIN pawl_outcome AS o "
        f"ON o.id = k.id AND k.k = substr(o.key_hash, 1, {KEY_BYTES})").fetchone()
    if held != known:
        raise SystemExit(f"bulk.py: {index} holds something else than the first bytes of key_hash")
    for half in (0, 1):
        db.execute(f"INSERT OR REPLACE INTO {index}(k, id) SELECT substr(key_hash, 1, {KEY_BYTES}),"
                   " id FROM pawl_outcome WHERE id % 2 = ? ORDER BY 1", (half,))


def count(db: sqlite3.Connection) -> None:
    # Ids are tokens since format 5; before, they had a counter of their own.
    last = "next_row" if "next_row" in columns(db, "pawl_state") else "token"
    db.execute("UPDATE pawl_state SET complete = (SELECT count(*) FROM pawl_outcome), "
               f"{last} = max({last}, (SELECT max(id) + 1 FROM pawl_outcome))")


def grow(store: Path, records: int) -> None:
    db = sqlite3.connect(store, isolation_level=None)
    # A file that is half written is not kept: nothing here needs a journal.
    for setting in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -400000",
                    "locking_mode = EXCLUSIVE"):
        db.execute(f"PRAGMA {setting}")
    # Formats that enter keys later have it under the first of these names.
    index = next(name for name in ("pawl_key_index", "pawl_key") if columns(db, name))
    for step in (lambda: copy_records(db, records), lambda: enter_keys(db, index),
                 lambda: count(db)):
        db.execute("BEGIN")
        step()
        db.execute("COMMIT")
    keys, = db.execute(f"SELECT count(*) FROM {index}").fetchone()
    if keys < records:
        raise SystemExit(f"bulk.py: {keys} keys of {records} records")
    db.execute("PRAGMA journal_mode = WAL")
    db.close()


if __name__ == "__main__":
    grow(Path(sys.argv[1]), int(sys.argv[2]))
