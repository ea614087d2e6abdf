# SPDX-License-Identifier: Apache-2.0
"""The configs of docs/guide/behind-a-proxy.md, each started before pawl as the page shows it, save
for ports and the folder of its certificate."""
from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator

import pytest

from pawltest.certificates import Certificate, issue
from pawltest.gateway import DIE_WITH_THE_TEST, Gateway, free_port
from pawltest.upstream import closes, resets, say
from pawltest.wire import PATIENCE, Answer, Client, Later, Reader, eventually, request_bytes

pytestmark = pytest.mark.no_store

PAGE = (Path(__file__).resolve().parents[2] / "docs/guide/behind-a-proxy.md").read_text("utf-8")
CONFIG = """
admin: 127.0.0.1:{admin}
tenant: none
rules:
  - name: refunds.create
    match: POST /refunds
  - name: payments.create
    match: POST /payments
    in_progress: conflict
"""
SHOP = "shop.example"
CLIENT = "127.0.0.2"  # not the proxy's own address
JSON = ("Content-Type", "application/json")
NGINX = """
daemon off; pid {dir}/pid; error_log {dir}/log; worker_processes 1; user root;
events {{}}
http {{
  access_log off;
  client_body_temp_path {dir}/b; proxy_temp_path {dir}/p;
  fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  include {dir}/conf.d/*.conf;
}}
"""
KINDS = ["nginx", "haproxy", "caddy"]
COMMANDS = {"nginx": ["nginx", "-c", "nginx.conf", "-e", "log"],
            "haproxy": ["haproxy", "-db", "-q", "-f", "haproxy.cfg"],
            "caddy": ["caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile"]}


def shown(kind: str) -> str:
    """The page's config, without the line that names its file."""
    return re.search(rf"^```{kind}\n# \S+\n(.*?)^```$", PAGE, re.M | re.S)[1]


class TlsClient(Client):
    """One connection of a client on another address than the proxy's."""

    def __init__(self, port: int, certificate: Certificate):
        sock = socket.create_connection(("127.0.0.1", port), PATIENCE, source_address=(CLIENT, 0))
        context = ssl.create_default_context(cafile=str(certificate.cert_file))
        self.sock = context.wrap_socket(sock, server_hostname=SHOP)
        self.reader = Reader(self.sock)


@dataclass
class Proxy:
    kind: str
    port: int
    certificate: Certificate

    def post(self, path: str, key: str, *headers: tuple[str, str], body: bytes = b"{}") -> Answer:
        fields = [("Host", SHOP), ("Idempotency-Key", key), JSON, *headers]
        with TlsClient(self.port, self.certificate) as client:
            client.send(request_bytes("POST", path, fields, body))
            return client.answer()

    def post_up(self, path: str, key: str) -> Answer:
        """post(), once the store is up, as Gateway.post_up()."""
        def answered() -> Answer | None:
            answer = self.post(path, key)
            return None if answer["Error-Code"] == "DEPENDENCY.store_unavailable" else answer

        return eventually(answered, "the store")

    def listens(self) -> bool:
        try:
            TlsClient(self.port, self.certificate).sock.close()
            return True
        except OSError:
            return False


def place(kind: str, folder: Path, ports: dict[str, int]) -> str:
    text = shown(kind).replace("/etc/ssl", str(folder))
    for port, own in ports.items():
        text = re.sub(rf"\b{port}\b", str(own), text)
    if kind == "nginx":
        (folder / "conf.d").mkdir()
        (folder / "conf.d/pawl.conf").write_text(text)
        return NGINX.format(dir=folder)
    if kind == "caddy":
        text = text.replace(f"{SHOP} {{", f"https://{SHOP}:{ports['443']} {{", 1)
        return "{\n admin off\n auto_https off\n log {\n output discard\n }\n}\n" + text
    return text


@pytest.fixture(params=KINDS)
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Proxy]]:
    """Starts one kind of proxy before a port of pawl's, with that of its admin listener."""
    kind = request.param
    if not shutil.which(kind):
        pytest.skip(f"there is no {kind}")
    folder = tmp_path / kind
    folder.mkdir()
    made = []

    def run(port: int, admin: int) -> Proxy:
        own = issue(folder, "shop", names=[SHOP], is_ca=True)
        (folder / "shop-and-key.pem").write_bytes(own.cert_file.read_bytes()
                                                  + own.key_file.read_bytes())
        proxy = Proxy(kind, free_port(), own)
        config = place(kind, folder, {"443": proxy.port, "8080": port, "8081": admin})
        command = [word if word != "nginx.conf" else str(folder / word) for word in COMMANDS[kind]]
        name = next(word for word in COMMANDS[kind] if "." in word or word == "Caddyfile")
        (folder / name).write_text(config)
        made.append(subprocess.Popen([*DIE_WITH_THE_TEST, *command], cwd=folder,
                                     env={**os.environ, "HOME": str(folder), "GOMAXPROCS": "1"}))
        eventually(lambda: proxy.listens() or made[-1].poll() is not None, kind)
        assert made[-1].poll() is None, f"{kind} refused the page's config"
        return proxy

    yield run
    for process in made:
        process.terminate()
        process.wait(PATIENCE)


@pytest.fixture
def before_pawl(pawl: Callable[..., Gateway], start: Callable[..., Proxy]) -> tuple[Gateway, Proxy]:
    admin = free_port()
    gateway = pawl(CONFIG.format(admin=admin))
    return gateway, start(gateway.port, admin)


def test_a_retry_through_the_proxy_gets_the_first_response(before_pawl, upstream):
    _, proxy = before_pawl
    first, again = proxy.post("/refunds", "k1"), proxy.post("/refunds", "k1")
    assert first.mark == (201, "stored")
    assert again.mark == (201, "replayed")
    assert again.body == first.body and upstream.effects() == 1
    assert upstream.requests[0]["Idempotency-Key"] == "k1"


def test_a_refusal_comes_through_with_what_a_retry_needs(before_pawl, upstream):
    _, proxy = before_pawl
    upstream.then(closes())
    assert proxy.post("/refunds", "k1").is_problem(502, "TRANSIENT.upstream_broke")
    assert proxy.post("/refunds", "k1").is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    gate = upstream.hold()
    first = Later(lambda: proxy.post("/payments", "k2"))
    upstream.wait_for(2)
    again = proxy.post("/payments", "k2")
    assert again.is_problem(409, "CONFLICT.idempotency.in_progress") and again["Retry-After"] == "1"
    gate.open()
    assert first.result().status == 201 and len(upstream.requests) == 2


def test_the_log_has_the_clients_own_address_and_none_that_it_made_up(before_pawl, upstream):
    gateway, proxy = before_pawl
    made_up = [("X-Forwarded-For", "203.0.113.9"), ("X-Real-IP", "203.0.113.9"),
               ("Forwarded", "for=203.0.113.9;proto=http"), ("X-Forwarded-Proto", "gopher"),
               ("X-Forwarded-Host", "evil.test"), ("X-Forwarded-Port", "1")]
    assert proxy.post("/refunds", "k1", *made_up).status == 201
    line = eventually(lambda: gateway.lines("request"), "the log line")[0]
    assert (line["client"], line["peer"]) == (CLIENT, "127.0.0.1")
    seen = upstream.requests[0]
    assert seen["X-Forwarded-For"] == f"{CLIENT}, 127.0.0.1"
    assert (seen["X-Forwarded-Proto"], seen["X-Forwarded-Host"]) == ("https", SHOP)
    assert not any("203.0.113.9" in value or "evil" in value for _, value in seen.headers)


@pytest.mark.hooks
def test_a_timeout_does_not_become_a_second_post(before_pawl, upstream, clock):
    gateway, proxy = before_pawl
    upstream.hold()
    first = Later(lambda: proxy.post("/refunds", "k1"))
    upstream.wait_for(1)
    clock.run_until(lambda: first.is_done, step=5)
    assert first.result().is_problem(504, "DEPENDENCY.timeout")
    assert proxy.post_up("/refunds", "k1").is_problem(409, "CONFLICT.idempotency.outcome_unknown")
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("end", [closes(), resets()], ids=["closed", "reset"])
def test_a_request_that_breaks_off_is_not_sent_again(start, upstream, end):
    """pawl's place is taken by one that breaks off, also where the connection was in use before."""
    proxy = start(upstream.port, upstream.port)
    assert proxy.post("/other", "k1").status == 201
    upstream.requests.clear()
    upstream.default = end
    assert proxy.post("/other", "k2").status == 502
    posts = [one for one in upstream.requests if one.method == "POST"]
    assert [one["Idempotency-Key"] for one in posts] == ["k2"]


@pytest.mark.parametrize("start", ["caddy"], indirect=True)
def test_go_sends_a_keyed_post_without_a_body_again(start, upstream):
    """Which the page warns of: no option of Caddy's switches it off."""
    proxy = start(upstream.port, upstream.port)
    assert proxy.post("/other", "k1").status == 201
    upstream.requests.clear()
    upstream.then(closes())
    assert proxy.post("/other", "k2", body=b"").status == 201
    assert [one["Idempotency-Key"] for one in upstream.requests] == ["k2", "k2"]


def test_large_response_headers_pass(before_pawl, upstream):
    _, proxy = before_pawl
    upstream.then(say(201, {}, ("X-Large", "x" * 12000)))
    assert len(proxy.post("/refunds", "k1")["X-Large"]) == 12000
