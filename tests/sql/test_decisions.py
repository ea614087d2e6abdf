# SPDX-License-Identifier: Apache-2.0
"""The decision table exists twice: in core, and in PL/pgSQL. A record in every state, with every
policy, hash and token, is put to both (record_table.c prints core's); verdict and row are compared.
"""
from __future__ import annotations

import json
import subprocess
from contextlib import closing
from typing import Any

import psycopg2

from pawltest.gateway import PAWL
from test_functions import installed  # noqa: F401

NOW = 1_000_000_000
TOKEN = 500
KEY = "('m1', 'refunds.create', 'k1')"
PLANTED = ("id, version, named, key_hash, tenant, rule, key, recipe, fingerprint, payload_hash,"
           " target_hash, attempt_id, origin, once, once_template, result_ref")
BROUGHT = (("01", "02"), ("09", "02"), ("01", "09"), (None, None), ("01", "02"))
KEPT_NONE = 4  # of record_table.c: the record has no hashes
STATES_FINAL = (2, 3)
KEPT_HOLDER = ("none", "continue")  # what else becomes of a holder is the store's to say


def plant(cursor: Any, case: dict[str, Any]) -> None:
    row = case["before"]
    if row["status"] == 0:
        return
    hashes = ("''", "''") if case.get("hashes") == KEPT_NONE else tuple(
        f"decode(repeat('{byte}', 32), 'hex')" for byte in ("01", "02"))
    cursor.execute(
        f"INSERT INTO pawl.record({PLANTED}, {', '.join(row)}) VALUES ({TOKEN}, 1, true,"
        f" pawl.key_hash{KEY}, 'm1', 'refunds.create', 'k1', '2 all', '', {hashes[0]}, {hashes[1]},"
        f" '', '', '', 0, '', {', '.join(['%s'] * len(row))})", list(row.values()))
    if row["status"] in STATES_FINAL:
        cursor.execute(f"INSERT INTO pawl.outcome VALUES ({TOKEN}, 1, 0, '', '')")
    elif row["lease_until"] == 0:
        cursor.execute(f"INSERT INTO pawl.unheld VALUES ({TOKEN}, {row['status']}, 1)")


def ask_once(cursor: Any, case: dict[str, Any]) -> str:
    """The planted record holds the value `v1`, and another key brings it."""
    cursor.execute("UPDATE pawl.record SET once = 'v1', once_name = (pawl.ask('m1',"
                   " 'refunds.create', 'k2', NULL, NULL, '1 hour', NULL, '0', 'replay', 'v1', NULL)"
                   ").once_hash")
    payload, target = (byte * 32 for byte in BROUGHT[case["hashes"]])
    cursor.execute("SELECT decision FROM pawl.begin('m1', 'refunds.create', 'k2', %s, '1 hour',"
                   " wait => '0', target_hash => %s, once => 'v1', duplicate => %s)",
                   (payload, target, "reject" if case["reject"] else "replay"))
    return cursor.fetchone()[0]


def find_done(cursor: Any) -> str:
    """What a begin that brought the value did about its holder."""
    cursor.execute("SELECT (SELECT count(*) FROM pawl.record WHERE key = 'k2'),"
                   " (SELECT count(*) FROM pawl.record WHERE key = 'k1'),"
                   " (SELECT count(*) FROM pawl.bound),"
                   " (SELECT count(*) FROM pawl.record WHERE owner < 0)")
    new, holders, bound, begun = cursor.fetchone()
    if new:
        return "take" if holders else "replace"
    return ("continue" if begun else "bind") if bound else "none"


def ask(cursor: Any, case: dict[str, Any]) -> str:
    """The verdict of the functions, in the words of core."""
    if case["act"] == "begin":
        payload, target = (byte and byte * 32 for byte in BROUGHT[case["hashes"]])
        cursor.execute("SELECT decision FROM pawl.begin('m1', 'refunds.create', 'k1', %s, '1 hour',"
                       " wait => '0', target_hash => %s)", (payload, target))
        return cursor.fetchone()[0]
    act, _, code = case["act"].partition(" ")
    # As the transaction that has completed it: another one must not commit.
    cursor.execute(f"SAVEPOINT s; SET LOCAL pawl.completed = '{TOKEN}'")
    try:
        cursor.execute(f"SELECT pawl.{act}({', '.join([str(case['presented']), *code.split()])})")
    except psycopg2.Error as error:
        assert error.pgcode == "PW001"
        cursor.execute("ROLLBACK TO s")
        return "stale"
    told = cursor.fetchone()[0]
    return {"stored": "written", "released": "written"}.get(told, told)


def find(cursor: Any, case: dict[str, Any]) -> dict[str, Any]:
    columns = list(case["before"])
    cursor.execute(f"SELECT {', '.join(columns)} FROM pawl.record"
                   f" WHERE key_hash = pawl.key_hash{KEY} AND named")
    row = cursor.fetchone()
    return dict(zip(columns, row)) if row else dict.fromkeys(columns, 0)


def as_core_says(row: dict[str, Any]) -> dict[str, Any]:
    """A transaction's token and number are its own; core has NEXT, and -1."""
    token = row["token"] if row["token"] in (0, TOKEN) else TOKEN + 1
    owner = -1 if row["owner"] < 0 else row["owner"]
    return {**row, "token": token, "owner": owner}


def check_beside(cursor: Any, row: dict[str, Any]) -> None:
    """What lies beside the record is what its status asks for."""
    cursor.execute("SELECT (SELECT count(*) FROM pawl.outcome c JOIN pawl.record USING (id)),"
                   " (SELECT coalesce(sum(u.status), 0) FROM pawl.unheld u)")
    outcomes, unheld = cursor.fetchone()
    held = row["lease_until"] > 0 or row["status"] in (0, *STATES_FINAL)
    assert outcomes == (row["status"] in STATES_FINAL)
    assert unheld == (0 if held else row["status"])


def check_counts(cursor: Any, row: dict[str, Any], case: dict[str, Any]) -> None:
    """What is counted moves by what the record did; a transaction's new one is counted later."""
    columns = ("pending", "complete", "failed", "unknown", "released", "leases")
    cursor.execute("SELECT " + ", ".join(f"coalesce(sum({name}), 0)" for name in columns)
                   + " FROM pawl.tally_entry")
    before, fresh = case["before"], row["owner"] < 0 and row["attempts"] == 1
    after = {"status": 0, "lease_until": 0, "owner": 0} if fresh else row

    def of(found: dict[str, Any]) -> list[int]:
        status = found["status"]
        held = found["lease_until"] > 0 and found["owner"] > 0
        return [*(int(status == each) for each in (1, 2, 3, 4)),
                int(status == 1 and found["lease_until"] == 0), int(held)]

    assert list(cursor.fetchone()) == [b - a for a, b in zip(of(before), of(after))]


def check_one(cursor: Any, case: dict[str, Any]) -> None:
    line = json.dumps(case)
    plant(cursor, case)
    assert (ask_once if case["act"] == "once" else ask)(cursor, case) == case["verdict"], line
    if case["act"] == "once":
        assert find_done(cursor) == case["does"], line
        if case["does"] not in KEPT_HOLDER:
            return
    row = find(cursor, case)
    assert as_core_says(row) == case["after"], line
    check_beside(cursor, row)
    check_counts(cursor, row, case)


def test_core_and_the_functions_decide_alike_in_every_state(server, installed):  # noqa: F811
    database = server.add_database(installed.name)
    database.sql(f"CREATE OR REPLACE FUNCTION pawl.clock(at bigint) RETURNS bigint LANGUAGE sql AS"
                 f" $$ SELECT {NOW}::bigint $$")
    table = subprocess.run([PAWL.parent / "tests/sql/record_table"], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    assert len(table) > 500
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        for line in table:
            check_one(cursor, json.loads(line))
            connection.rollback()
