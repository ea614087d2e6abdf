# SPDX-License-Identifier: Apache-2.0
"""`pawl health`: the health of a gateway as an exit code."""
from __future__ import annotations

import os
import socket
import threading

import pytest

from conftest import CONFIG
from pawltest.admin import with_admin
from pawltest.gateway import free_port, run
from pawltest.wire import eventually


@pytest.fixture
def both(pawl):
    return with_admin(pawl, CONFIG)


def ask(port: int, *words: str) -> tuple[int, str]:
    ran = run("health", *words, f"http://127.0.0.1:{port}")
    assert ran.stdout == ""
    return ran.returncode, ran.stderr


@pytest.fixture
def stranger():
    """A port where something else responds; what it says is appended."""
    said: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def respond() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.recv(65536)
                peer.sendall(said[-1])

    thread = threading.Thread(target=respond)
    thread.start()
    yield listener.getsockname()[1], said
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_a_gateway_that_lives_and_is_ready_is_said_by_the_exit_code_alone(both):
    _, admin = both
    admin.until_ready()
    assert ask(admin.port) == ask(admin.port, "--ready") == (0, "")
    named = {**os.environ, "PAWL_ADMIN": f"http://localhost:{admin.port}/"}
    assert run("health", env=named).returncode == 0


def test_a_gateway_that_is_not_ready_says_why_and_lives(both):
    gateway, admin = both
    admin.until_ready()
    run("store", "freeze", "--reason", "x", "--store", gateway.store_option)
    eventually(lambda: admin.get("/readyz").status == 503)
    code, said = ask(admin.port, "--ready")
    assert code == 1
    assert said.startswith(f"pawl health: http://127.0.0.1:{admin.port}/readyz: 503, ")
    assert "froze it" in said and said.count("\n") == 1
    assert ask(admin.port) == (0, "")


@pytest.mark.no_store
def test_nobody_there_is_not_healthy():
    port = free_port()
    assert ask(port) == (1, f"pawl health: http://127.0.0.1:{port}/livez: Connection refused\n")
    named = {**os.environ, "PAWL_ADMIN": f"http://127.0.0.1:{port}"}
    assert run("health", "--ready", env=named).stderr.endswith("/readyz: Connection refused\n")


@pytest.mark.no_store
@pytest.mark.parametrize("said, meant", [
    (b"HTTP/1.1 404 Not Found\r\nContent-Length: 8\r\n\r\nno\x1b[2J\r\n", r"404, no\x1b[2J"),
    (b"HTTP/1.1 204 No Content\r\n\r\n", "204, "),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n", "is not pawl's admin listener"),
    (b"SSH-2.0-x\r\n\r\n", "is not pawl's admin listener"), (b"", "the connection broke off"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nali", "the connection broke off"),
])
def test_whatever_else_responds_is_not_healthy(stranger, said, meant):
    port, says = stranger
    says.append(said)
    code, told = ask(port)
    assert code == 1 and meant in told and told.count("\n") == 1


@pytest.mark.no_store
@pytest.mark.parametrize("url", ["127.0.0.1:8081", "https://127.0.0.1:8081", "http://a/readyz",
                                 "http://u:p@a", "http://a/?b", "http://"])
def test_a_url_of_no_admin_listener_is_a_mistake_of_usage(url):
    ran = run("health", url)
    assert (ran.returncode, ran.stdout) == (2, "") and url in ran.stderr
