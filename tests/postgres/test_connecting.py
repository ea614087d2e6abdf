# SPDX-License-Identifier: Apache-2.0
"""How a gateway finds its server, proves who it is, and is let in; and what it says where not."""
from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Iterator

import pytest

from pawltest.certificates import Certificate, issue
from pawltest.gateway import Gateway, free_port, run
from pawltest.wire import eventually
from server import PASSWORD, Database, Server

CONFIG = """
tenant: none
threads: 1
store_timeout: 1s
rules:
  - {name: refunds.create, match: POST /refunds, timeout: 3s}
"""
SECRET = PASSWORD.replace("%40", "@")


@pytest.fixture
def gateway(pawl) -> Gateway:
    return pawl(CONFIG, started=False)


def works(gateway: Gateway, **environment: str) -> bool:
    """Started so, and nothing that it printed has the password."""
    gateway.start(**environment)
    answer = gateway.post("/refunds", {}, key="k1")
    assert not any(word in line for line in gateway.printed for word in (SECRET, PASSWORD))
    return answer.status == 201


def start_in_vain(gateway: Gateway) -> str:
    """What it said, and that it ended as unavailable."""
    gateway._spawn({})  # pylint: disable=protected-access
    assert gateway.wait() == 69
    return "\n".join(gateway.printed)


# ---- what is missing is named ----


def test_a_start_without_a_server_says_which_one_is_missing(gateway, database):
    port = free_port()
    said = start_in_vain(gateway.move_to(database.url_at(port)))
    assert f"127.0.0.1:{port}/{database.name}" in said and "refused" in said


def test_a_wrong_password_is_said_and_none_is_shown(gateway, server, database):
    said = start_in_vain(gateway.move_to(database.url_at(server.port, "wr0ng")))
    assert "password" in said and "wr0ng" not in said
    assert "it comes from the URL, PGPASSWORD or ~/.pgpass" in said


def test_a_database_that_is_not_there_is_named(gateway, server):
    said = start_in_vain(gateway.move_to(Database(server, "nowhere").url))
    assert 'database "nowhere" does not exist' in said


def test_a_host_that_is_not_there_is_named(gateway, server, database):
    said = start_in_vain(gateway.move_to(database.url_at(server.port, host="db.invalid")))
    assert "db.invalid" in said


# ---- where a password may come from ----


@pytest.fixture
def passwords(tmp_path: Path) -> Path:
    made = tmp_path / "pgpass"
    made.write_text(f"127.0.0.1:*:*:pawl:{SECRET}\n")
    made.chmod(0o600)
    return made


def without_password(database: Database) -> str:
    return database.url.replace(f":{PASSWORD}@", "@")


def test_a_password_may_come_from_libpqs_file(gateway, upstream, database, passwords):
    assert works(gateway.move_to(without_password(database)), PGPASSFILE=str(passwords))


def test_a_password_that_is_not_encoded_is_said_how_to_encode(gateway, database):
    said = start_in_vain(gateway.move_to(database.url.replace(PASSWORD, "50%off")))
    assert "the store's URL is not valid: invalid percent-encoded token (" in said
    assert "%25 for %" in said and "50%off" not in said


def test_the_url_may_name_libpqs_file(gateway, upstream, database, passwords):
    assert works(gateway.move_to(f"{without_password(database)}?passfile={passwords}"))


def test_a_password_may_come_from_the_environment(gateway, upstream, database):
    gateway.move_to(database.url.replace(PASSWORD, "${PAWL_DB_PASSWORD}"))
    assert works(gateway, PAWL_DB_PASSWORD=PASSWORD)


def test_the_whole_url_may_come_from_a_file_beside_the_config(gateway, upstream, database):
    (gateway.directory / "store.url").write_text(database.url + "\n")
    assert works(gateway.move_to("file:store.url"))
    shown = run("config", "explain", "-c", gateway.config, "store").stdout
    assert "store.url" in shown and PASSWORD not in shown


def test_commands_take_the_same_file(gateway, upstream, database, monkeypatch, tmp_path):
    assert works(gateway.move_to(database.url))
    (tmp_path / "store.url").write_text(database.url + "\n")
    monkeypatch.setenv("PAWL_STORE", f"file:{tmp_path / 'store.url'}")
    listed = run("keys", "list", "--json")
    assert listed.returncode == 0 and listed.stdout.count("refunds.create") == 1


@pytest.mark.parametrize("text, why", [(None, "No such file"), ("", "it is empty"),
                                       ("pawl.db\n", "is no store")])
def test_a_file_that_names_no_store_is_not_taken_for_one(tmp_path, text, why):
    named = tmp_path / "store.url"
    if text is not None:
        named.write_text(text)
    config = tmp_path / "pawl.yaml"
    config.write_text(f"listen: 127.0.0.1:0\nupstream: http://127.0.0.1:9\n{CONFIG}")
    ran = run("serve", "-t", "-c", config, "--store", f"file:{named}")
    assert ran.returncode != 0 and why in ran.stderr and str(named) in ran.stderr
    assert [path.name for path in tmp_path.glob("*.db*")] == []


def test_a_file_that_is_not_there_is_named(gateway):
    ran = run("serve", "-t", "-c", gateway.move_to("file:store.url").config)
    assert ran.returncode == 2 and "store.url cannot be read: No such file" in ran.stderr


# ---- several hosts ----


def test_several_hosts_are_tried_and_the_one_that_takes_writes_is_found(gateway, upstream, server,
                                                                        database):
    """`target_session_attrs` is read-write where the URL says nothing."""
    gateway.configure(f"accept_weaker: true\n{CONFIG}")
    hosts = f"127.0.0.1:{free_port()},127.0.0.1:{server.port}"
    gateway.move_to(database.url.replace(f"127.0.0.1:{server.port}", hosts))
    assert works(gateway)


def test_a_server_that_takes_no_writes_is_not_the_one(gateway, server, database):
    database.sql(f"ALTER DATABASE {database.name} SET default_transaction_read_only = on")
    assert "session is read-only" in start_in_vain(gateway)


# ---- TLS, as libpq does it ----


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return issue(tmp_path_factory.mktemp("ca"), "ca", is_ca=True)


@pytest.fixture(scope="module")
def secure(authority: Certificate) -> Iterator[Server]:
    """Its certificate is for `localhost`, and without TLS it lets nobody in."""
    with Server() as made:
        shown = issue(made.data, "server", authority, names=("localhost",))
        for file in (shown.cert_file, shown.key_file):
            file.chmod(0o600)
            shutil.chown(file, made.user.uid, made.user.gid)
        rules = made.data / "pg_hba.conf"
        rules.write_text(re.sub("^host ", "hostssl ", rules.read_text("utf-8"), flags=re.M))
        made.sql(f"ALTER SYSTEM SET ssl_cert_file = '{shown.cert_file.name}'")
        made.sql("ALTER SYSTEM SET ssl = on")
        made.sql("SELECT pg_reload_conf()")
        eventually(lambda: made.sql("SHOW ssl") == [("on",)], "TLS")
        yield made


@pytest.fixture
def secured(secure: Server) -> Database:
    return secure.add_database()


def url_by_name(database: Database, more: str) -> str:
    return database.url_at(database.server.port, host="localhost") + "?" + more


def test_a_server_is_known_by_its_certificate(gateway, upstream, secured, authority):
    more = f"sslmode=verify-full&sslrootcert={authority.cert_file}"
    assert works(gateway.move_to(url_by_name(secured, more)))
    assert secured.sql("SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)"
                       " WHERE datname = %s AND application_name = 'pawl'",
                       secured.name) == [(True,)]


def test_a_server_whose_certificate_is_for_another_name_is_refused(gateway, secured, authority):
    more = f"?sslmode=verify-full&sslrootcert={authority.cert_file}"
    said = start_in_vain(gateway.move_to(secured.url + more))
    assert 'server certificate for "localhost"' in said
    assert 'does not match host name "127.0.0.1"' in said


def test_a_server_whose_certificate_is_another_authoritys_is_refused(gateway, secured, tmp_path):
    other = issue(tmp_path, "other", is_ca=True)
    more = f"sslmode=verify-full&sslrootcert={other.cert_file}"
    assert "certificate verify failed" in start_in_vain(gateway.move_to(url_by_name(secured, more)))


def test_an_authority_that_is_not_there_is_named(gateway, secured, tmp_path):
    more = f"sslmode=verify-full&sslrootcert={tmp_path}/none.pem"
    said = start_in_vain(gateway.move_to(url_by_name(secured, more)))
    assert f'root certificate file "{tmp_path}/none.pem" does not exist' in said


def test_a_server_without_tls_is_refused_where_tls_is_asked_for(gateway, database):
    said = start_in_vain(gateway.move_to(database.url + "?sslmode=require"))
    assert "server does not support SSL" in said


def test_a_server_that_lets_nobody_in_without_tls_says_so(gateway, secured):
    said = start_in_vain(gateway.move_to(secured.url + "?sslmode=disable"))
    assert "no encryption" in said
