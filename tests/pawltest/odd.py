# SPDX-License-Identifier: Apache-2.0
"""Rows that no pawl wrote: in a store, by SQL, under a gateway that goes on."""
from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Iterator

from pawltest.admin import with_admin
from pawltest.gateway import run
from pawltest.tasks import Tasks
from pawltest.upstream import Upstream, closes
from pawltest.wire import Later, at_once, eventually

NUMBERS: list[Any] = [None, -1, 0, 1, 2, 3, 99, 2**31, 2**63 - 1, -2**63]
TEXTS: list[Any] = [None, "", "odd", "x" * 5000]
SIDE_BY_SIDE = 3
Columns = dict[str, bool]  # whether it is a number


class File:
    """A store in a file."""

    numbers = [*NUMBERS, "text", ""]
    texts = [*TEXTS, 5, b"\xff\x00"]

    def __init__(self, path: str | Path):
        self.path = str(path)

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path, timeout=60)) as database:
            rows = database.execute(statement.replace("%s", "?"), values).fetchall()
            database.commit()
            return rows

    def name(self, table: str) -> str:
        return table

    def columns(self, table: str) -> Columns:
        return {name: kind == "INTEGER"
                for _, name, kind, *_ in self.sql(f"PRAGMA table_info({table})")
                if name not in ("id", "version")}

    def uniques(self, table: str) -> list[list[str]]:
        indexes = [row[1] for row in self.sql(f"PRAGMA index_list({table})") if row[2]]
        return [[row[2] for row in self.sql(f"PRAGMA index_info({index})")] for index in indexes]

    def text(self, value: Any) -> Any:
        return value

    def let_anything_in(self, table: str) -> None:
        """A file asks for nothing."""


class Server:
    """A store in a database."""

    numbers = NUMBERS
    texts = TEXTS

    def __init__(self, database: Any):
        self.database = database
        self.connection = database.connect()
        self.connection.autocommit = True

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def name(self, table: str) -> str:
        return table.replace("pawl_", "pawl.", 1)

    def columns(self, table: str) -> Columns:
        rows = self.sql("SELECT attname, format_type(atttypid, -1) FROM pg_attribute WHERE attrelid"
                        " = %s::regclass AND attnum > 0 AND attname NOT IN ('id', 'version')"
                        " ORDER BY attnum", self.name(table))
        return {name: kind == "bigint" for name, kind in rows}

    def uniques(self, table: str) -> list[list[str]]:
        rows = self.sql("SELECT array(SELECT attname::text FROM pg_attribute WHERE attrelid ="
                        " i.indrelid AND attnum = ANY (i.indkey) ORDER BY attnum) FROM pg_index i"
                        " WHERE indrelid = %s::regclass AND indisunique AND NOT indisprimary",
                        self.name(table))
        return [list(row[0]) for row in rows]

    def text(self, value: Any) -> Any:
        return value.encode() if isinstance(value, str) else value

    def let_anything_in(self, table: str) -> None:
        """What is asked of rows by now is not asked of those that were there before."""
        name = self.name(table)
        for (check,) in self.sql("SELECT conname::text FROM pg_constraint WHERE contype = 'c' AND"
                                 " conrelid = %s::regclass", name):
            self.sql(f'ALTER TABLE {name} DROP CONSTRAINT "{check}"')


Store = File | Server


def _base(store: Store, table: str, columns: Columns) -> tuple[int, dict[str, Any]]:
    names = ", ".join(f'"{name}"' for name in columns)
    rows = store.sql(f"SELECT id, {names} FROM {store.name(table)} ORDER BY id LIMIT 1")
    if rows:
        return rows[0][0], dict(zip(columns, rows[0][1:]))
    return 10**12, {name: 0 if number else store.text("t") for name, number in columns.items()}


def _apart(store: Store, uniques: list[list[str]], columns: Columns, row: dict[str, Any],
           column: str, n: int) -> None:
    """Gives the row a place of its own in each unique index."""
    for unique in uniques:
        texts = [name for name in unique if not columns[name]]
        name = (texts or unique)[-1]
        if name == column or any(row[text] in ("", b"") for text in texts):
            continue
        row[name] = n if columns[name] else store.text(f"odd-{n}")


def _flips(store: Store, columns: Columns) -> Iterator[tuple[str, Any]]:
    for column, number in columns.items():
        for value in store.numbers if number else store.texts:
            yield column, value if number else store.text(value)


def add_odd_rows(store: Store, table: str) -> list[int]:
    """A copy of a row for every column and everything odd that the store lets in. Their ids."""
    columns, added = store.columns(table), []
    store.let_anything_in(table)
    base, like = _base(store, table, columns)
    uniques = store.uniques(table)
    names = ", ".join(f'"{name}"' for name in columns)
    has_version = not table.endswith(("_audit", "_reason")) or isinstance(store, Server)
    for n, (column, value) in enumerate(_flips(store, columns), 1):
        row = dict(like)
        _apart(store, uniques, columns, row, column, n)
        row[column] = value
        marks = ", ".join(["%s"] * (len(row) + 1 + has_version))
        version = ", version" if has_version else ""
        try:
            store.sql(f"INSERT INTO {store.name(table)} (id{version}, {names}) VALUES ({marks})",
                      base - n, *([7] if has_version else []), *row.values())
        except Exception:  # pylint: disable=broad-except # not allowed in: of each driver another
            continue
        added.append(base - n)
    return added


# ---- a gateway on such a store ----

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ODD_TASKS = ["due_at = 1", "state = 0, lease_until = 5, ended_at = 0", "state = 99",
             "state = 0, attempts = -3", "holds = 1", "profile = 77", "reason = 4000000000"]
LISTS = [("webhook", "list"), ("webhook", "endpoint", "list"), ("inbox", "list"),
         ("queue", "list"), ("queue", "audit"), ("keys", "audit"), ("webhook", "audit"),
         ("keys", "list")]


class Deliveries(Tasks):
    """A gateway, and the commands on its store."""

    group = "webhook"


class Odd:
    """A gateway with a rule and an endpoint, and its store as a stranger sees it."""

    def __init__(self, pawl: Callable[..., Any], receiver: Upstream, store: Store | None = None):
        webhooks = {"allow": ["127.0.0.0/8"], "allow_http": True,
                    "endpoints": [{"name": "billing", "types": ["refund.*"],
                                   "url": f"http://127.0.0.1:{receiver.port}/billing",
                                   "secret": SECRET}]}
        self.gateway, self.admin = with_admin(
            pawl, "tenant: none\ncache: 0\n"
                  "rules:\n  - {name: refunds.create, match: POST /refunds}\n"
                  "  - {name: payouts, match: POST /payouts,"
                  " once: {key: '{body:/ref}', duplicate: replay}}\n"
                  f"webhooks: {json.dumps(webhooks)}\n")
        self.box = Deliveries(self.gateway)
        self.store = store or File(self.gateway.store)
        self.receiver = receiver

    def publish(self) -> str:
        return self.box.done("publish", "refund.created", "-d", "{}").strip()

    def held(self, table: str) -> float:
        return self.admin.value("pawl_rows_held", table=table)

    def tables(self) -> list[str]:
        return [dict(labels)["table"] for name, labels in self.admin.series()
                if name == "pawl_rows_held" and dict(labels)["table"] != "pawl_record"]

    def others_go_on(self, key: str) -> None:
        assert self.gateway.post("/refunds", {}, key=key)["Idempotency-Status"] == "stored"
        event = self.publish()
        eventually(lambda: any(request["webhook-id"] == event for request in
                               list(self.receiver.requests)), f"{event} is told")

    def restart(self) -> None:
        self.gateway.restart()
        self.admin.until_ready()


def held_lines(odd: Odd) -> set[tuple[str, int]]:
    return {(line["table"], line["id"]) for line in odd.gateway.lines("row_held")}


def odd_tasks_are_held(odd: Odd) -> None:
    """They are dead for their odd rows, whatever they were; all others go on; a person takes them
    up."""
    events = [odd.publish() for _ in ODD_TASKS]
    done = ["done"] * len(events)
    eventually(lambda: odd.box.states() == done, "they are told")
    odd.store.let_anything_in("pawl_task")
    for event, change in zip(events, ODD_TASKS):
        odd.store.sql(f"UPDATE {odd.store.name('pawl_task')} SET {change} WHERE key = %s",
                      odd.store.text(event))
    odd.others_go_on("k1")
    odd.restart()
    odd.others_go_on("k2")
    rows = [row for row in odd.box.list() if row["key"] in events]
    assert [(row["state"], row["reason"]) for row in rows] == [("dead", "odd_row")] * len(events)
    eventually(lambda: odd.held("pawl_task") == len(events), "they are counted")
    named = {("pawl_task", row["id"]) for row in rows}
    eventually(lambda: held_lines(odd) == named, "they are logged")
    for row in rows:
        odd.box.done("replay", str(row["id"]))
    eventually(lambda: odd.box.states() == [*done, "done", "done"], "they are told once more")
    told = [request["webhook-id"] for request in odd.receiver.requests]
    assert [told.count(event) for event in events] == [2] * len(events)
    eventually(lambda: odd.held("pawl_task") == 0, "they are counted no more")


def nothing_odd_stops_anything(odd: Odd) -> None:
    odd.others_go_on("k1")
    odd.box.until("done")
    added = {table: add_odd_rows(odd.store, table) for table in odd.tables()}
    assert all(added.values()), added
    odd.others_go_on("k2")
    odd.restart()
    odd.others_go_on("k3")
    for command in LISTS:
        for more in ((), ("--json",)):
            ran = run(*command, *more, "--store", odd.gateway.store)
            assert ran.returncode == 0, ran
    heal_tasks(odd, added["pawl_task"])
    odd.others_go_on("k4")
    assert odd.gateway.stop() == 0


def heal_tasks(odd: Odd, added: list[int]) -> None:
    """Of those that this command knows: the kind of others is odd, too."""
    eventually(lambda: odd.held("pawl_task") > 20, "they are counted")
    rows = [row for row in odd.box.list("--limit", "2000")
            if row["reason"] == "odd_row" and row["id"] in added]
    assert len(rows) > 20 and {row["state"] for row in rows} == {"dead"}

    def drop(i: int) -> None:
        for row in rows[i::SIDE_BY_SIDE]:
            odd.box.done("drop", str(row["id"]))

    at_once(SIDE_BY_SIDE, drop)
    eventually(lambda: odd.held("pawl_task") == 0, "none is odd any more")


# ---- records ----

WRONG_NUMBERS = [-2**63]  # in a column that is one
WRONG_IN_FILES = ["text", -2**63]
# What is odd of these cannot be seen: any text or number may stand there; a once value is not read
# where there is none. Of what is read only to sweep a row `records_are_not_swept` says more.
ANYTHING_GOES = {"tenant", "rule", "key", "recipe", "fingerprint", "origin", "location", "headers",
                 "body", "packed", "sweep_at", "result_ref", "once", "once_window", "once_template",
                 "once_ttl_us", "once_replay", "once_until", "once_name", "named", "owner"}


class Record:
    """One that was made odd, and what its key got before."""

    def __init__(self, key: str, is_done: bool, change: str):
        self.key = key
        self.is_done = is_done
        self.change = change


def _changes(store: Store) -> Iterator[tuple[bool, str, str, Any]]:
    """Whether the record is done; its table, a column and a value that no pawl writes there."""
    wrong = WRONG_IN_FILES if isinstance(store, File) else WRONG_NUMBERS
    tables = ([(True, "pawl_outcome"), (False, "pawl_pending")] if isinstance(store, File)
              else [(True, "pawl_record"), (False, "pawl_record")])
    for is_done, table in tables:
        for column, is_number in store.columns(table).items():
            if is_number and column not in ANYTHING_GOES:
                for value in wrong:
                    yield is_done, table, column, value


def make_odd_records(odd: Odd, upstream: Upstream) -> list[Record]:
    made = []
    for n, (is_done, table, column, value) in enumerate(_changes(odd.store)):
        key = f"odd-{n}"
        if not is_done:
            upstream.then(closes())
        answer = odd.gateway.post("/refunds", {}, key=key)
        assert answer.status == (201 if is_done else 502), answer
        odd.store.sql(f'UPDATE {odd.store.name(table)} SET "{column}" = %s WHERE key = %s', value,
                      odd.store.text(key))
        made.append(Record(key, is_done, f"{column} = {value}"))
    return made


def odd_records_are_held(odd: Odd, upstream: Upstream) -> None:
    """Unknown, whatever they were, and in nobody's way; a person settles or forgets them."""
    records = make_odd_records(odd, upstream)
    if isinstance(odd.store, Server):
        [(n,)] = odd.store.sql("SELECT count(*) FROM pawl.record r WHERE NOT pawl.is_sound(r)")
        assert n == len(records), "functions of SQL see the same"
    odd.restart()
    effects = upstream.effects()
    for record in records:
        answer = odd.gateway.post("/refunds", {}, key=record.key)
        assert (answer.status, answer["Error-Code"]) == (
            409, "CONFLICT.idempotency.outcome_unknown"), (record.change, record.is_done, answer)
    assert upstream.effects() == effects
    odd.others_go_on("k1")
    eventually(lambda: odd.held("pawl_record") == len(records), f"{len(records)} are counted")
    eventually(lambda: len(held_lines(odd)) == len(records), "they are logged")
    listed = run("keys", "list", "--json", "--limit", "1000", "--store", odd.gateway.store)
    rows = {row["key"]: row for row in map(json.loads, listed.stdout.splitlines())}
    assert {rows[record.key]["cause"] for record in records} == {"odd_row"}
    for n, record in enumerate(records):
        act = ["forget", "--force"] if n % 2 else ["resolve", "--status", "200"]
        ran = run("keys", act[0], record.key, *act[1:], "--token", str(rows[record.key]["token"]),
                  "--store", odd.gateway.store)
        assert ran.returncode == 0, (record.change, ran)
    for n, record in enumerate(records):
        answer = odd.gateway.post("/refunds", {}, key=record.key)
        assert answer["Idempotency-Status"] == ("stored" if n % 2 else "replayed"), (
            record.change, record.is_done, answer)
    eventually(lambda: odd.held("pawl_record") == 0, "they are odd no more")
    odd.restart()
    odd.others_go_on("k2")
    assert odd.gateway.stop() == 0


# ---- what lies beside records ----

UNKNOWN = (409, "CONFLICT.idempotency.outcome_unknown")
REUSED = (409, "CONFLICT.idempotency.payload_mismatch")


def told(answer: Any) -> tuple[int, str | None]:
    return answer.status, answer["Error-Code"]


def _copy(store: Store, table: str, key: str, to_key: str) -> None:
    """The row of `key`, under the id of `to_key`'s record."""
    names = [f'"{name}"' for name in store.columns(table)]
    ((to,),) = store.sql("SELECT id FROM pawl_pending WHERE key = %s", store.text(to_key))
    store.sql(f"INSERT INTO {table}(id, {', '.join(names)}) SELECT {to}, {', '.join(names)}"
              f" FROM {table} WHERE key = %s LIMIT 1", store.text(key))


def _pay(odd: Odd, key: str, ref: str) -> Any:
    return odd.gateway.post("/payouts", {"ref": ref}, key=key)


def odd_bound_keys_stay_refused(odd: Odd, upstream: Upstream) -> None:
    """A key of which no pawl wrote where it leads is another request's, for ever."""
    changes: list[tuple[str, Any]] = [("expires_at = %s", -5),
                                      ("payload_hash = %s", odd.store.text("short"))]
    for n, (change, value) in enumerate(changes):
        assert _pay(odd, f"first-{n}", f"r{n}").status == 201
        assert _pay(odd, f"bound-{n}", f"r{n}")["Idempotency-Status"] == "replayed"
        odd.store.sql(f"UPDATE {odd.store.name('pawl_bound')} SET {change} WHERE key = %s", value,
                      odd.store.text(f"bound-{n}"))
    odd.gateway.clock.advance(61)  # a sweep
    odd.restart()
    effects = upstream.effects()
    for n, (change, _) in enumerate(changes):
        assert told(_pay(odd, f"bound-{n}", f"r{n}")) == REUSED, change
        assert _pay(odd, f"first-{n}", f"r{n}")["Idempotency-Status"] == "replayed"
    assert upstream.effects() == effects
    odd.others_go_on("k1")
    assert odd.gateway.stop() == 0


def stray_outcomes_settle_nothing(odd: Odd, upstream: Upstream) -> None:
    """An outcome beside what is not done: in a file; neither counts, and neither is swept."""
    assert odd.gateway.post("/refunds", {}, key="done").status == 201
    upstream.then(closes())
    assert odd.gateway.post("/refunds", {}, key="doubt").status == 502
    _copy(odd.store, "pawl_outcome", "done", "doubt")
    gate = upstream.hold()
    running = Later(lambda: odd.gateway.post("/refunds", {}, key="running"))
    gate.wait_for()
    _copy(odd.store, "pawl_outcome", "done", "running")
    gate.open()
    assert running.result().status == 201
    odd.store.sql("UPDATE pawl_pending SET once = '', once_ttl_us = 5 WHERE key = 'doubt'")
    odd.gateway.clock.advance(400 * 86400)
    odd.restart()
    odd.others_go_on("k1")
    assert told(odd.gateway.post("/refunds", {}, key="doubt")) == UNKNOWN


def a_name_that_leads_nowhere_is_held(odd: Odd, upstream: Upstream) -> None:
    """Whoever deletes a record by SQL has not said that it did not happen."""
    assert odd.gateway.post("/refunds", {}, key="lost").status == 201
    assert _pay(odd, "first", "r").status == 201
    assert _pay(odd, "bound", "r")["Idempotency-Status"] == "replayed"
    odd.store.sql("DELETE FROM pawl_outcome")
    odd.restart()
    effects = upstream.effects()
    assert told(odd.gateway.post("/refunds", {}, key="lost")) == UNKNOWN
    for key in ("first", "bound", "new"):
        assert told(_pay(odd, key, "r")) == UNKNOWN, key
    assert upstream.effects() == effects
    odd.others_go_on("k1")
    assert odd.gateway.stop() == 0
