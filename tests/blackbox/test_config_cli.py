# SPDX-License-Identifier: Apache-2.0
"""`pawl serve` as its operator meets it: configs, stores, addresses, exit codes."""
from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Iterator

import pytest

from conftest import CONFIG
from pawltest.gateway import PAWL, Gateway, free_port, run
from pawltest.upstream import closes
from pawltest.wire import Later, eventually

pytestmark = pytest.mark.no_store

HEAD = "upstream: http://127.0.0.1:9\ntenant: none\nstore: sqlite:pawl.db\n"
RULED = HEAD + "rules:\n  - name: a\n    match: POST /a\n"
BODY = {"amount": 5}
hooks = pytest.mark.hooks


def written(directory: Path, text: str) -> Path:
    path = directory / "pawl.yaml"
    path.write_text(text)
    return path


def ends(config: Path, *more: str, **options) -> subprocess.CompletedProcess[str]:
    """A serve that must end by itself."""
    return run("serve", "-c", config, *more, cwd=config.parent, **options)


# ---- configs ----


@pytest.mark.parametrize("text, complaint", [
    (HEAD + "tenat: none\n", "4:1: tenat: unknown option (did you mean 'tenant'?)"),
    (RULED + "    tlt: 5s\n", "7:5: tlt: unknown option (did you mean 'ttl'?)"),
    (RULED + "    ttl: 5x\n", "7:10: ttl: '5x' is not valid here"),
    (RULED + "    unknown: holdd\n", "7:14: unknown: "),
    (HEAD + "a: [1\n", "5:1: config: not valid YAML"),
    (HEAD + "listen: 127.0.0.1:99999\n", "4:9: listen: "),
    (RULED + "  - name: b\n    match: POST /a\n", "match: "),
    (RULED + "  - name: a\n    match: POST /b\n", "7:11: name: "),
    (RULED + "    retry: twice\n", "7:12: retry: "),
    (RULED.replace("tenant: none\n", ""), "tenant: "),
    ("tenant: none\n", "upstream: "), ("", ":1:1: "),
])
def test_a_bad_config_is_refused_with_file_line_and_column(tmp_path, text, complaint):
    path = written(tmp_path, text)
    for flag in ([], ["--test"]):
        ran = ends(path, *flag)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr.startswith(f"{path}:")
        assert complaint in ran.stderr
        assert all(line.startswith(f"{path}:") for line in ran.stderr.splitlines())
    assert not (tmp_path / "pawl.db").exists()


def test_every_complaint_is_told_at_once(tmp_path):
    ran = ends(written(tmp_path, RULED + "    ttl: 5x\n    tlt: 1\nlissten: 1\n"))
    assert [line.split(": ")[1] for line in ran.stderr.splitlines()] == ["ttl", "tlt", "lissten"]


def test_a_config_that_is_not_there_is_named(tmp_path):
    for flag in ([], ["--test"]):
        ran = ends(tmp_path / "none.yaml", *flag)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr == f"{tmp_path}/none.yaml: cannot be read: No such file or directory\n"


def test_a_good_config_is_said_to_be_good_and_touches_nothing(tmp_path):
    path = written(tmp_path, RULED)
    ran = ends(path, "--test")
    assert (ran.returncode, ran.stdout) == (0, f"{path}: configuration OK\n")
    assert not list(tmp_path.glob("pawl.db*"))


@pytest.mark.parametrize("rules", ["[{name: a, match: POST /a}]",
                                   "[{name: a, match: POST /a}, {name: b, match: POST /b}]"])
def test_what_a_500_means_is_said_in_one_line(tmp_path, rules):
    path = written(tmp_path, HEAD + f"defaults: {{in_doubt: [500]}}\nrules: {rules}\n")
    ran = ends(path, "--test")
    lines = [line for line in ran.stderr.splitlines() if "after a 500" in line]
    assert (ran.returncode, len(lines)) == (0, 1)
    assert lines[0].startswith(f"{path}:5:16: unknown: after a 500 the outcome is unknown")
    assert "not_done: [500]" in lines[0] and "probe" in lines[0]


@pytest.mark.parametrize("change, told", [
    (("127.0.0.1:9", "no..host:80"), "cannot resolve no..host of `upstream:`"),
    (("sqlite:pawl.db", "sqlite:none/pawl.db"), "its folder {}/none/: No such file or directory"),
    (("sqlite:pawl.db", "sqlite:pawl.yaml/x.db"), "its folder {}/pawl.yaml/: Not a directory"),
    (("tenant:", "listen: no..host:80\ntenant:"), "cannot resolve no..host of `listen:`"),
])
def test_test_proves_what_a_start_would_fail_on(tmp_path, change, told):
    """found: C-M11"""
    path = written(tmp_path, RULED.replace(*change))
    ran = ends(path, "--test")
    assert (ran.returncode, ran.stdout) == (69, "")
    assert told.format(tmp_path) in ran.stderr


PARTICIPANT = RULED.replace("store: sqlite:pawl.db\n", "") + "    unknown: participant\n"


@pytest.mark.parametrize("flags", [[], ["--test"]])
@pytest.mark.parametrize("store", [["--store", "pawl.db"], []])
def test_a_participant_with_a_file_for_a_store_is_refused_wherever_it_is_named(
        tmp_path, flags, store):
    path = written(tmp_path, PARTICIPANT)
    ran = ends(path, *flags, *store, env={**os.environ, "XDG_STATE_HOME": str(tmp_path)})
    assert (ran.returncode, ran.stdout) == (69, "")
    assert "rule 'a' says unknown: participant, which needs the database" in ran.stderr
    assert "expected --store or store: postgres://USER@HOST/DATABASE" in ran.stderr
    assert not list(tmp_path.glob("**/pawl.db"))


def test_what_a_participant_relies_on_is_said_once(tmp_path):
    ran = ends(written(tmp_path, PARTICIPANT), "--test", "--store", "postgres://nobody@nowhere/x")
    assert ran.returncode == 0
    assert ran.stderr.count("pawl.complete with its Idempotency-Token, in a (") == 1


def test_a_rule_that_was_renamed_is_told_while_its_records_live(pawl, upstream):
    """found: C-M9: at a test, a reload and a start; `formerly`, `key_space` or `allow` ends it."""
    gateway = pawl()
    gateway.post("/refunds", BODY, key="k1")
    told = "records of a rule 'refunds.create', which is not in the config"
    renamed = CONFIG.replace("name: refunds.create", "name: refunds.make")
    for text, is_told in ((renamed, True), (CONFIG, False),
                          (renamed + "    formerly: [refunds.create]\n", False),
                          (renamed + "    key_space: refunds.create\n", False),
                          ("allow: [rule-renamed]\n" + renamed, False)):
        gateway.configure(text)
        assert (told in ends(gateway.config, "--test").stderr) == is_told
    gateway.configure(renamed)
    gateway.signal(signal.SIGHUP)
    warning = eventually(lambda: [line for line in gateway.log if line["event"] == "config_warning"
                                  and told in line["problem"]], "the warning")
    assert "formerly: [refunds.create]" in warning[0]["problem"]
    gateway.restart()
    eventually(lambda: any(told in line and line.startswith("pawl serve: warning:")
                           for line in gateway.printed), "the warning")


def test_serve_says_what_a_500_means_too(pawl):
    gateway = pawl(CONFIG + "    in_doubt: [500]\n")
    eventually(lambda: any("unknown: after a 500 the outcome is unknown" in line
                           for line in gateway.printed), "the note")


def test_a_config_that_is_good_but_risky_is_taken_with_its_warnings(tmp_path):
    path = written(tmp_path, RULED + "    unknown: retry\n")
    ran = ends(path, "-t")
    assert (ran.returncode, ran.stdout) == (0, f"{path}: configuration OK\n")
    assert ran.stderr.startswith(f"pawl serve: warnings:\n{path}:7:14: unknown: ")
    ran = ends(path, "-t", "--strict")
    assert (ran.returncode, ran.stdout) == (1, "") and "has warnings" in ran.stderr
    assert ends(path, "--strict").returncode == 2
    meant = written(tmp_path, "allow: [upstream-remembers]\n" + RULED + "    unknown: retry\n")
    assert ends(meant, "-t", "--strict").returncode == 0


@pytest.mark.parametrize("arguments", [[], ["-c"], ["--nothing"], ["-c", "x", "more"]])
def test_wrong_use_exits_2_and_says_why(arguments):
    ran = run("serve", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "serve" in ran.stderr


def test_help_goes_to_stdout(tmp_path):
    for flag in ("-h", "--help"):
        ran = run("serve", flag)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert "usage: pawl serve" in ran.stdout


# ---- who else is there ----


def test_a_second_serve_on_the_same_store_is_told_who_holds_it(pawl, upstream):
    first, second = pawl(), pawl(started=False)
    second.store = first.store
    second.configure(CONFIG)
    ran = ends(second.config)
    assert (ran.returncode, ran.stdout) == (69, "")
    assert str(first.process.pid) in ran.stderr
    first.kill9()
    second.start()
    assert second.post("/refunds", BODY, key="k1").status == 201


def test_a_second_serve_on_the_same_address_is_refused(pawl, upstream):
    first, second = pawl(), pawl(started=False)
    second.port = first.port
    second.configure(CONFIG)
    ran = ends(second.config)
    assert (ran.returncode, ran.stdout) == (69, "")
    assert "in use" in ran.stderr
    assert first.post("/refunds", BODY, key="k1").status == 201


def test_an_address_that_is_free_a_moment_later_is_taken(pawl):
    """found: Q4"""
    gateway = pawl(started=False)
    stranger_port = gateway.port
    stranger = socket.create_server(("127.0.0.1", stranger_port))

    def leave() -> None:
        eventually(gateway.store.exists, "the store is opened before the address")
        time.sleep(0.2)
        stranger.close()

    leaving = Later(leave)
    gateway.start()
    leaving.result()
    assert gateway.port == stranger_port and not any("in use" in line for line in gateway.printed)


def test_a_store_by_a_link_is_the_same_store(pawl, upstream):
    first, second = pawl(), pawl(started=False)
    second.store = second.directory / "link.db"
    second.store.symlink_to(first.store)
    second.configure(CONFIG)
    assert ends(second.config).returncode == 69


@pytest.mark.parametrize("option, value", [("upstream", "http://no..host:80"),
                                           ("listen", "no..host:80"), ("admin", "no..host:80")])
def test_a_name_that_is_nobodys_is_told_with_its_option(tmp_path, option, value):
    lines = {"listen": "127.0.0.1:0", "upstream": "http://127.0.0.1:9", option: value}
    text = "".join(f"{name}: {given}\n" for name, given in lines.items())
    token = "admin_token: sixteen-or-longer\n" if option == "admin" else ""
    ran = ends(written(tmp_path, text + token + "tenant: none\nstore: sqlite:pawl.db\n"))
    assert (ran.returncode, ran.stdout) == (69, "")
    assert "cannot resolve no..host of " in ran.stderr
    assert f"`{option}:`" in ran.stderr


# ---- stores ----


@pytest.mark.parametrize("store, told", [
    ("none/pawl.db", "its folder does not exist; make it"),
    ("folder", "is a folder; name a file in it"),
    ("link.db", "is a symbolic link; name the file that it leads to"),
    ("text.db", "it is not an SQLite database; choose another path"),
    ("other.db", "it is another program's SQLite database"),
])
def test_a_store_that_cannot_be_one_is_told_with_what_to_do(tmp_path, store, told):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.db").symlink_to("elsewhere.db")
    (tmp_path / "text.db").write_text("a diary, and nothing that a database would hold\n" * 40)
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE songs(title)")
    other.close()
    kept = (tmp_path / "text.db").read_bytes(), (tmp_path / "other.db").read_bytes()
    ran = ends(written(tmp_path, RULED.replace("pawl.db", store)))
    assert (ran.returncode, ran.stdout) == (69, "")
    assert store in ran.stderr and told in ran.stderr
    assert kept == ((tmp_path / "text.db").read_bytes(), (tmp_path / "other.db").read_bytes())


def test_the_store_and_its_companions_are_only_the_owners(pawl, upstream):
    gateway = pawl()
    gateway.post("/refunds", BODY, key="k1")
    files = list(gateway.directory.glob("pawl.db*"))
    assert {file.name for file in files} >= {"pawl.db", "pawl.db-wal"}
    assert {oct(file.stat().st_mode & 0o777) for file in files} == {"0o600"}


def test_the_records_are_read_as_a_table_while_pawl_runs(pawl, upstream):
    gateway = pawl(CONFIG + "    ttl: 72h\n  - {name: ever, match: POST /ever, ttl: forever}\n")
    gate = upstream.hold()
    running = Later(lambda: gateway.post("/refunds", BODY, key="running"))
    gate.wait_for()
    gateway.post("/refunds", BODY, key='"done"')
    upstream.then(closes())
    gateway.post("/refunds", BODY, key="lost")
    gateway.post("/ever", BODY, key="ever")
    db = sqlite3.connect(f"file:{gateway.store}?mode=ro", uri=True)
    db.row_factory = sqlite3.Row
    rows = {row["key"]: dict(row) for row in db.execute("SELECT * FROM idempotency_keys")}
    db.close()
    assert {key: row["status"] for key, row in rows.items()} == \
        {"running": "pending", "done": "complete", "lost": "unknown", "ever": "complete"}
    done = rows["done"]
    assert (done["http_code"], done["result_ref"]) == (201, "/refunds/2")
    assert (done["rule"], done["tenant"], done["attempts"]) == ("refunds.create", "", 1)
    assert len(done["payload_hash"]) == 64
    assert done["payload_hash"] == rows["running"]["payload_hash"]
    for name in ("created_at", "completed_at", "expires_at"):
        assert done[name][10] == "T" and done[name].endswith("Z") and len(done[name]) == 24
    assert rows["ever"]["expires_at"] is None
    assert (rows["running"]["http_code"], rows["running"]["completed_at"]) == (None, None)
    gate.open()
    assert running.result().status == 201


def foreign(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE accounts(id)")
    db.commit()
    db.close()


def newer(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 1000")
    db.commit()
    db.close()


def foreign_wal(path: Path) -> None:
    """As a program left it that was killed with the file open."""
    script = ("import os, sqlite3, sys; db = sqlite3.connect(sys.argv[1]); "
              "db.execute('PRAGMA journal_mode=WAL'); db.execute('CREATE TABLE accounts(id)'); "
              "db.commit(); os.kill(os.getpid(), 9)")
    subprocess.run(["/usr/bin/python3", "-c", script, path], check=False)


def text_file(path: Path) -> None:
    path.write_text("Dear diary, this is no database.\n" * 100)


@pytest.mark.parametrize("spoil, reason", [
    (foreign, "another program"), (foreign_wal, "another program"), (text_file, "database")])
def test_a_file_that_is_not_pawls_is_refused_and_left_as_it_is(tmp_path, spoil, reason):
    store = tmp_path / "pawl.db"
    spoil(store)
    config = written(tmp_path, RULED)
    before = {path.name: path.read_bytes() for path in companions(store)[:2]}
    for ran in (ends(config), run("keys", "list", "--store", store)):
        assert (ran.returncode, ran.stdout) == (69, "")
        assert str(store) in ran.stderr and reason in ran.stderr
    assert {path.name: path.read_bytes() for path in companions(store)[:2]} == before
    assert not (tmp_path / "pawl.db-pawl").exists()


def test_a_store_of_a_newer_pawl_is_refused_and_left_as_it_is(pawl, upstream):
    gateway = pawl()
    first = gateway.post("/refunds", BODY, key="k1")
    assert gateway.stop() == 0
    newer(gateway.store)
    ran = ends(gateway.config)
    assert ran.returncode == 69
    assert "newer pawl" in ran.stderr
    db = sqlite3.connect(gateway.store)
    assert db.execute("PRAGMA user_version").fetchone() == (1000,)
    assert db.execute("SELECT key FROM idempotency_keys").fetchall() == [("k1",)]
    db.close()
    assert first.status == 201


@pytest.mark.parametrize("place", ["none/pawl.db", "pawl.yaml/pawl.db", "folder"])
def test_a_store_that_cannot_be_made_is_named(tmp_path, place):
    (tmp_path / "folder").mkdir()
    ran = ends(written(tmp_path, RULED.replace("sqlite:pawl.db", f"sqlite:{place}")))
    assert (ran.returncode, ran.stdout) == (69, "")
    assert str(tmp_path / place) in ran.stderr


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that other users may enter, too."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


def test_a_folder_that_cannot_be_written_is_refused(open_folder):
    binary = shutil.copy(PAWL, open_folder / "pawl")
    config = written(open_folder, RULED)
    config.chmod(0o644)
    open_folder.chmod(0o555)
    somebody = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
    ran = subprocess.run([binary, "serve", "-c", config], capture_output=True, text=True,
                         timeout=30, check=False, cwd="/", **somebody)
    assert (ran.returncode, ran.stdout) == (69, "")
    assert str(open_folder / "pawl.db") in ran.stderr


def companions(store: Path) -> list[Path]:
    return [path for path in (store, Path(f"{store}-wal"), Path(f"{store}-shm")) if path.exists()]


def answer_of(gateway: Gateway, clock, key: str):
    client = Later(lambda: gateway.post("/refunds", BODY, key=key))
    clock.run_until(lambda: client.is_done)
    return client.result()


@hooks
@pytest.mark.parametrize("then", ["removed", "replaced", "copied"])
def test_a_store_that_is_not_there_any_more_fails_closed(pawl, upstream, clock, then):
    """Writing on into a file without a name would forget everything at the next start."""
    gateway = pawl()
    assert gateway.post("/refunds", BODY, key="k1").status == 201
    for path in companions(gateway.store):
        path.rename(f"{path}.away")
        if then == "copied":
            shutil.copy(f"{path}.away", path)
    if then == "replaced":
        shutil.copy(f"{gateway.store}.away", gateway.store)
    for key in ("k2", "k3"):
        answer = answer_of(gateway, clock, key)
        assert answer.is_problem(503, "DEPENDENCY.store_unavailable")
        assert answer["Retry-After"] is not None
    assert upstream.effects() == 1


@hooks
def test_a_store_that_comes_back_is_used_again(pawl, upstream, clock):
    gateway = pawl()
    first = gateway.post("/refunds", BODY, key="k1")
    moved = companions(gateway.store)
    for path in moved:
        path.rename(f"{path}.away")
    assert answer_of(gateway, clock, "k2").is_problem(503, "DEPENDENCY.store_unavailable")
    for path in moved:
        Path(f"{path}.away").rename(path)
    again = gateway.post_up("/refunds", BODY, key="k2")
    assert again.mark == (201, "stored")
    assert gateway.post_up("/refunds", BODY, key="k1").kept == first.kept


# ---- its words ----


def test_the_ready_line_says_where_and_what(pawl, upstream):
    gateway = pawl()
    line = next(line for line in gateway.printed if line.startswith("pawl: ready"))
    assert f"127.0.0.1:{gateway.port}" in line and str(gateway.store) in line
    assert f"127.0.0.1:{upstream.port}" in line
    assert "(0 records), 1 rule, " in line and "admin on" not in line


def test_the_ready_line_says_where_the_operators_listener_is(pawl, upstream):
    port = free_port()
    gateway = pawl(CONFIG + f"admin: 127.0.0.1:{port}\n")
    line = next(line for line in gateway.printed if line.startswith("pawl: ready"))
    assert f", admin on 127.0.0.1:{port}, " in line


def test_the_store_is_named_by_its_shortest_path(pawl, upstream):
    gateway = pawl(started=False)
    (gateway.directory / "deep").mkdir()
    gateway.store = gateway.directory / "deep" / ".." / "pawl.db"
    gateway.configure(CONFIG)
    gateway.start()
    line = next(line for line in gateway.printed if line.startswith("pawl: ready"))
    assert f"store {gateway.directory}/pawl.db " in line


def test_every_exchange_is_one_line_of_json(pawl, upstream):
    gateway = pawl()
    for n, body in enumerate((BODY, BODY, {"amount": 6}), 1):
        gateway.post("/refunds", body, key="k1")
        lines = eventually(lambda n=n: len(gateway.log) >= n and gateway.log, "its line")
    assert [line["status"] for line in lines] == [201, 201, 409]
    assert {line["idempotency_key"] for line in lines} == {"k1"}
    assert [line.get("idempotency_status") for line in lines] == ["stored", "replayed", None]
    assert lines[2]["error_code"] == "CONFLICT.idempotency.payload_mismatch"
    assert all(len(line["payload_hash"]) == 64 and line["time"].endswith("Z") for line in lines)


def test_a_reader_of_the_log_that_leaves_ends_nothing(pawl, upstream):
    gateway = pawl()
    gateway.signal(signal.SIGPIPE)
    assert gateway.post("/refunds", BODY, key="k1").status == 201
