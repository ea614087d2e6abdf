# SPDX-License-Identifier: Apache-2.0
"""Debian's PostgreSQL as a test wants it: a server with a data directory and ports of its own, as a
user that is not root, and ended by its process id whatever becomes of the test."""
from __future__ import annotations

import base64
import ctypes
import ctypes.util
import hashlib
import hmac
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Sequence
from urllib.parse import unquote

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pawltest.gateway import PAWL, Gateway, free_port  # noqa: E402
from pawltest.wire import PATIENCE, eventually  # noqa: E402

PR_SET_PDEATHSIG = 1
SUPERUSER = "postgres"
ROLE = "pawl"  # whose databases those of the tests are; may create more
PASSWORD = "p%40wl-secret"  # in a URL, where an @ is not one as it stands
SALT = b"salt of the tests"
STARTS = 20  # tries, while what a killed server left still holds its memory
_libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)

ALWAYS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "dynamic_shared_memory_type": "mmap",  # in the data directory: nothing is left in /dev/shm
    "log_line_prefix": "%m [%p] %u@%d %a ",
    "log_lock_waits": "on",
    "max_prepared_transactions": "10",
    "hot_standby": "on",
}
# Not kept for long: a vacuum would keep a database from being dropped.
FLEETING = {"autovacuum": "off"}
# Its settings are a durable server's, which pawl asks for, and it waits for no disk: nothing of it
# is looked at after a crash of the machine.
NO_SYNC = Path(__file__).with_name("no_sync.c")


# What a test may change of a database besides rows of pawl's tables: emptied, these are as new.
SHAPE = """
    SELECT md5(string_agg(thing, '|' ORDER BY thing)) FROM (
        SELECT concat_ws(' ', 'class', oid, relname, relkind, relnatts, relowner, relacl,
                         reloptions)
        FROM pg_class WHERE oid >= 16384 AND relkind <> 't' AND relpersistence <> 't'
        UNION ALL SELECT concat_ws(' ', 'schema', oid, xmin) FROM pg_namespace
        WHERE nspname !~ '^pg_(toast_)?temp_'
        UNION ALL SELECT concat_ws(' ', 'proc', oid, xmin) FROM pg_proc WHERE oid >= 16384
        UNION ALL SELECT concat_ws(' ', 'trigger', oid, xmin) FROM pg_trigger
        UNION ALL SELECT concat_ws(' ', 'constraint', oid, xmin) FROM pg_constraint
        WHERE oid >= 16384
        UNION ALL SELECT concat_ws(' ', 'default', oid, xmin) FROM pg_attrdef
        UNION ALL SELECT concat_ws(' ', 'index', indexrelid, xmin) FROM pg_index
        WHERE indexrelid >= 16384
        UNION ALL SELECT concat_ws(' ', 'statistic', starelid) FROM pg_statistic
        WHERE starelid >= 16384
        UNION ALL SELECT concat_ws(' ', 'setting', setconfig) FROM pg_db_role_setting s
        JOIN pg_database d ON d.oid = s.setdatabase WHERE datname = current_database()
        UNION ALL SELECT concat_ws(' ', 'database', datdba, datacl, datconnlimit) FROM pg_database
        WHERE datname = current_database()) AS thing(thing)"""
# All of pawl's tables that have ever had a row; `store` has the one of a new store.
WRITTEN = """
    SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'pawl'::regnamespace
    AND relkind = 'r' AND relname <> 'store' AND pg_relation_size(oid) > 0"""
STRANGE = """
    SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'public'::regnamespace
    AND relkind = 'r'"""
SEQUENCES = """
    SELECT setval(seqrelid, seqstart, false) FROM pg_sequence JOIN pg_class c ON c.oid = seqrelid
    WHERE relnamespace = 'pawl'::regnamespace"""
GIVEN = """
    SELECT string_agg(attname, ', ') FROM pg_attribute
    WHERE attrelid = 'pawl.store'::regclass AND attnum > 0 AND NOT attisdropped
    AND attgenerated = ''"""
OTHER_SESSIONS = """
    SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""
NEW_SECRET = "UPDATE pawl.store SET secret = sha256(gen_random_uuid()::text::bytea)"
FLEETING_MOST = 12  # databases that wait for their tests to end, and to be another's


def find_programs() -> Path:
    """Where Debian keeps the newest version's, else where PATH has them."""
    found = [path for path in Path("/usr/lib/postgresql").glob("*/bin")
             if (path / "initdb").exists()]
    if found:
        return max(found, key=lambda path: int(path.parent.name))
    initdb = shutil.which("initdb")
    assert initdb, "no PostgreSQL here: scripts/setup --test"
    return Path(initdb).parent


@dataclass(frozen=True)
class User:
    """Who runs the server: root may not."""

    uid: int
    gid: int

    @staticmethod
    def pick() -> User:
        if os.geteuid() != 0:
            return User(os.geteuid(), os.getegid())
        names = {entry.pw_name: entry for entry in pwd.getpwall()}
        entry = names.get("postgres") or names["nobody"]
        return User(entry.pw_uid, entry.pw_gid)

    def to_popen(self) -> dict[str, Any]:
        if os.geteuid() != 0:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def make_directory(user: User, name: str) -> Path:
    """A short one: the path of a socket has 107 bytes at most. pytest's own are root's alone."""
    made = Path(tempfile.mkdtemp(prefix=f"pawl-{name}-"))
    os.chown(made, user.uid, user.gid)
    return made


def die_with_the_test() -> None:
    """An immediate stop ends the backends, too."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


def verifier(password: str) -> str:
    """What a server keeps of it, of one round in place of 4,096: these are 8 ms of each client."""
    key = hashlib.pbkdf2_hmac("sha256", unquote(password).encode(), SALT, 1)
    stored = hashlib.sha256(hmac.digest(key, b"Client Key", "sha256")).digest()
    salt, stored, server = (base64.b64encode(part).decode() for part in (
        SALT, stored, hmac.digest(key, b"Server Key", "sha256")))
    return f"SCRAM-SHA-256$1:{salt}${stored}:{server}"


def stat_of(pid: int) -> list[str]:
    """The fields of its /proc/PID/stat from its state on; of one that is gone, a dead one's."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["X", "0"]


def is_alive(pid: int) -> bool:
    return stat_of(pid)[0] not in "ZX"


def children(pid: int) -> list[int]:
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [child for child in pids if int(stat_of(child)[1]) == pid]


def execute(connection: Any, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []


@dataclass(frozen=True)
class Database:
    """One of a server's; `url` is what a gateway is given."""

    server: Server
    name: str

    def url_at(self, port: int, password: str = PASSWORD, host: str = "127.0.0.1") -> str:
        return f"postgres://{ROLE}:{password}@{host}:{port}/{self.name}"

    @property
    def url(self) -> str:
        return self.url_at(self.server.port)

    def connect(self) -> Any:
        """A connection of the superuser in a transaction of its own, for a stranger's locks."""
        return self.server.connect(self.name)

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.server.sql(statement, *values, database=self.name)

    def until(self, is_so: Callable[[list[tuple[Any, ...]]], Any], statement: str,
              *values: Any) -> None:
        """Until its rows are so, looked for on one connection: a new one costs the server 7 ms."""
        with closing(self.connect()) as connection:
            connection.autocommit = True
            eventually(lambda: is_so(execute(connection, statement, values)), statement)


class Server:
    """One with its databases. `durable`: it waits for the disk, and vacuums. Start it on the test's
    own thread: it dies with the thread that started it."""

    def __init__(self, durable: bool = False, **settings: str):
        self.user = User.pick()
        self.programs = find_programs()
        self.directory = make_directory(self.user, "pg")
        self.data = self.directory / "data"
        self.log = self.directory / "log"
        self.port = free_port()
        self.settings = {**ALWAYS, **({} if durable else FLEETING), **settings}
        self.environment = {**os.environ, **({} if durable else self._without_syncs())}
        self.process: subprocess.Popen[bytes] | None = None
        self._names = (f"test_{n}" for n in itertools.count(1))
        self._installed: Database | None = None
        self._new: tuple[Any, ...] = ()  # of it: SHAPE, GIVEN, and the row of `store`
        self._fleeting: list[Database] = []  # in the order in which tests got them

    def _without_syncs(self) -> dict[str, str]:
        library = self.directory / "no_sync.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(NO_SYNC)], check=True)
        return {"LD_PRELOAD": str(library)}

    # ---- its life ----

    def create(self) -> Server:
        """A new cluster, and it runs."""
        self.run("initdb", "--pgdata", self.data, "--username", SUPERUSER, "--encoding", "UTF8",
                 "--locale", "C", "--no-sync", "--auth-local", "trust",
                 "--auth-host", "scram-sha-256")
        self.start()
        self.sql(f"CREATE ROLE {ROLE} LOGIN CREATEDB PASSWORD %s", verifier(PASSWORD))
        return self

    def run(self, program: str, *arguments: str | Path) -> None:
        """One of PostgreSQL's programs to its end."""
        ran = subprocess.run([str(self.programs / program), *map(str, arguments)],
                             cwd=self.directory, capture_output=True, text=True, check=False,
                             timeout=4 * PATIENCE, **self.user.to_popen())
        assert ran.returncode == 0, f"{program}: {ran.stderr}"

    def start(self) -> Server:
        """Until it accepts connections; on the port that it had, whatever happened since."""
        for _ in range(STARTS):
            self._spawn()
            eventually(lambda: self.process.poll() is not None or self.is_ready(), "PostgreSQL")
            if self.process.poll() is None:
                return self
            self.process = None
            if "still in use" not in self.tail():
                break
            time.sleep(0.1)
        raise AssertionError(f"PostgreSQL does not start:\n{self.tail()}")

    def _spawn(self) -> None:
        assert self.process is None, "it runs already"
        settings = {**self.settings, "port": str(self.port),
                    "unix_socket_directories": str(self.directory)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(self.programs / "postgres"), "-D", str(self.data), *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory,
                env=self.environment, start_new_session=True, preexec_fn=die_with_the_test,
                **self.user.to_popen())

    def is_ready(self) -> bool:
        try:
            self.connect().close()
            return True
        except psycopg2.OperationalError:
            return False

    def tail(self) -> str:
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-30:])

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends its sessions and writes all; SIGQUIT leaves it to the next start."""
        self.process.send_signal(how)
        self.process.wait(PATIENCE)
        self.process = None

    def kill9(self) -> None:
        """All of its processes, as when the machine dies; stopped, it makes no more of them."""
        self.process.send_signal(signal.SIGSTOP)
        backends = children(self.process.pid)
        self.process.kill()
        self.process.wait(PATIENCE)
        self.process = None
        for pid in backends:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it saw its parent die
        eventually(lambda: not any(map(is_alive, backends)), "the end of the backends")

    def discard(self) -> None:
        if self.process is not None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Server:
        try:
            return self.create()
        except BaseException:
            self.discard()
            raise

    def __exit__(self, *_: object) -> None:
        self.discard()

    def add_standby(self) -> Server:
        """Another server that follows this one, not yet running."""
        other = Server(durable=True)
        other.settings = {**self.settings}
        other.run("pg_basebackup", "--pgdata", other.data, "--write-recovery-conf",
                  "--checkpoint", "fast", "--no-sync", "--host", self.directory,
                  "--port", str(self.port), "--username", SUPERUSER)
        return other

    # ---- what a test does in it ----

    def connect(self, database: str = "postgres") -> Any:
        return psycopg2.connect(host=str(self.directory), port=self.port, user=SUPERUSER,
                                dbname=database, connect_timeout=int(PATIENCE))

    def sql(self, statement: str, *values: Any,
            database: str = "postgres") -> list[tuple[Any, ...]]:
        """One statement that commits; its rows, if it has any."""
        connection = self.connect(database)
        try:
            connection.autocommit = True
            return execute(connection, statement, values)
        finally:
            connection.close()

    def add_database(self, template: str = "template0", name: str = "") -> Database:
        """A new one that the role of the tests owns. Its files are copied as they are: block by
        block through the log costs the server twice as much."""
        made = Database(self, name or next(self._names))
        self.sql(f"CREATE DATABASE {made.name} OWNER {ROLE} TEMPLATE {template}"
                 " STRATEGY FILE_COPY")
        return made

    def add_installed_database(self) -> Database:
        """One with the schema, and a store of its own: what a gateway's first start makes of an
        empty one, at a fifth of the cost."""
        if not self._installed:
            self._installed = self.add_database(name="installed")
            run_schema(self._installed)
        made = self.add_database(self._installed.name)
        made.sql(NEW_SECRET)
        return made

    def add_fleeting_database(self) -> Database:
        """An installed one, which is another test's once a dozen others were asked for, nobody is
        connected to it and no gateway of its own runs, which may have lost its connection:
        emptied, at a third of a new one's cost."""
        used = [str(gateway.store) for gateway in Gateway.made
                if gateway.process and gateway.process.poll() is None]
        for made in self._fleeting[:-FLEETING_MOST]:
            if any(url.startswith(made.url) for url in used):
                continue
            try:
                is_as_new = self._empty(made)
            except psycopg2.Error:  # its schema is gone, say
                is_as_new = False
            if is_as_new is None:
                continue
            self._fleeting.remove(made)
            if is_as_new:
                break
            self.sql(f"DROP DATABASE IF EXISTS {made.name}")
        else:
            made = self.add_installed_database()
        self._fleeting.append(made)
        return made

    def _empty(self, database: Database) -> bool | None:
        """Makes it as new; false where more has changed than rows of pawl's and tables of an
        application, None where others are connected to it."""
        if not self._new:
            assert not self._installed.sql(WRITTEN), "a new store has rows of its own"
            (self._new,) = self._installed.sql(f"SELECT ({SHAPE}), ({GIVEN}), s::text"
                                               " FROM pawl.store s")
        shape, given, row = self._new
        with closing(database.connect()) as connection, connection:
            execute(connection, "SET TRANSACTION READ WRITE", ())  # whatever is the default
            if execute(connection, OTHER_SESSIONS, ()):
                return None
            execute(connection, "SET session_replication_role = replica", ())  # no trigger
            for verb, tables in (("DROP TABLE", STRANGE), ("TRUNCATE", WRITTEN)):
                names = ", ".join(name for (name,) in execute(connection, tables, ()))
                if names:
                    execute(connection, f"{verb} {names}", ())
            for statement in (SEQUENCES, "SELECT pg_stat_reset()", "DELETE FROM pawl.store"):
                execute(connection, statement, ())
            execute(connection, f"INSERT INTO pawl.store ({given})"
                                f" SELECT {given} FROM (SELECT (%s::pawl.store).*) AS new", (row,))
            execute(connection, NEW_SECRET, ())
            return execute(connection, SHAPE, ()) == [(shape,)]

    def end_backends(self, database: Database) -> int:
        """As an administrator, or a failover, does; how many there were."""
        return len(self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                            " WHERE datname = %s AND pid <> pg_backend_pid()", database.name))


def run_schema(database: Database) -> None:
    """`pawl schema postgres | psql`, as the owner."""
    schema = subprocess.run([PAWL, "schema", "postgres"], stdout=subprocess.PIPE, check=True)
    subprocess.run([database.server.programs / "psql", "--quiet", "--no-psqlrc", database.url],
                   input=schema.stdout, check=True)


def run_with_server(command: Sequence[str]) -> int:
    """The command's exit status; it finds a server in $PAWL_TEST_POSTGRES."""
    with Server() as server:
        url = server.add_database().url
        return subprocess.run(command, env={**os.environ, "PAWL_TEST_POSTGRES": url},
                              check=False).returncode
