# SPDX-License-Identifier: Apache-2.0
"""`upstream: https://`: who answers is proven, and a connection that fails has sent nothing."""
from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import threading
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from pawltest.admin import Admin
from pawltest.certificates import Certificate, SecureUpstream, issue, served_by
from pawltest.gateway import Gateway, free_port, run
from pawltest.upstream import Reply, Upstream, closes, say, shut
from pawltest.wire import Later, at_once, eventually, request_bytes

pytestmark = pytest.mark.no_store

CONFIG = """
tenant: none
threads: 1
rules:
  - {name: refunds.create, match: POST /refunds, max_request_body: 16MiB, max_response_body: 16MiB}
"""
UNAVAILABLE = 503, "DEPENDENCY.unavailable"
hooks = pytest.mark.hooks


class Authority:
    """A CA, and what it has certified."""

    def __init__(self, directory: Path, name: str = "ca"):
        self.directory = directory
        self.ca = issue(directory, name, is_ca=True)
        self.server = self.issue("server", names=("localhost", "127.0.0.1"))

    def issue(self, name: str, **more: Any) -> Certificate:
        return issue(self.directory, name, self.ca, **more)


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("trusted"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), "another ca")


@pytest.fixture(scope="module")
def namesake(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Says that it is the trusted one."""
    return Authority(tmp_path_factory.mktemp("namesake"))


@pytest.fixture
def context(trusted: Authority) -> ssl.SSLContext:
    """What a test changes before it asks for `upstream`'s first connection."""
    return served_by(trusted.server)


@pytest.fixture
def upstream(context: ssl.SSLContext) -> Iterator[Upstream]:
    made = SecureUpstream(context)
    yield made
    made.stop()


@pytest.fixture
def secured(pawl: Callable[..., Gateway], trusted: Authority) -> Callable[..., Gateway]:
    """Makes gateways before the upstream, which trust `ca` (None: the system's roots)."""
    def make(more: str = "", host: str = "localhost", ca: Path | None = trusted.ca.cert_file,
             config: str = CONFIG, **environment: str) -> Gateway:
        gateway = pawl(started=False)
        gateway.upstream_host = f"https://{host}"
        parts = ", ".join(([f"ca: {ca}"] if ca else []) + ([more] if more else []))
        gateway.configure(config + (f"upstream_tls: {{{parts}}}\n" if parts else ""))
        return gateway.start(**environment)

    return make


def identity(certificate: Certificate, key: Path | None = None) -> str:
    return f"cert: {certificate.cert_file}, key: {key or certificate.key_file}"


def lines_of(gateway: Gateway) -> list[dict]:
    return [line for line in gateway.log if line["event"] in ("request", "pass")]


def refuses(gateway: Gateway, upstream: Upstream, problem: str) -> None:
    """Nothing was sent, everybody is told why, and the key is free again."""
    for answer in (gateway.post("/refunds", {}, key="k"), gateway.post("/other", {})):
        assert answer.is_problem(*UNAVAILABLE), answer
        assert answer.json["detail"].endswith(problem), answer.json
    assert upstream.requests == []
    eventually(lambda: len(lines_of(gateway)) == 2, "the lines of both")
    lines = lines_of(gateway)
    assert [line["problem"] for line in lines] == [problem] * 2
    assert lines[0]["idempotency_status"] == "released"


# ---- who answers ----


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_both_versions_carry_one_effect_and_its_replay(secured, upstream, context, version):
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    gateway = secured()
    first = gateway.post("/refunds", {}, key="k")
    again = gateway.post("/refunds", {}, key="k")
    assert (first.status, again["Idempotency-Status"], again.body) == (201, "replayed", first.body)
    assert gateway.post("/other", {}).status == 201
    assert upstream.versions[0] == version.replace("_", ".")
    assert (upstream.effects(), upstream.names[0]) == (2, "localhost")
    assert upstream.requests[0]["Host"] == "gateway.test"


def test_a_service_without_tls_1_2_is_refused(secured, upstream, context):
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    refuses(secured(), upstream, "TLS: the service speaks neither TLS 1.2 nor TLS 1.3")


@pytest.mark.parametrize("host, names, more", [
    ("127.0.0.1", ("127.0.0.1",), ""),
    ("localhost", ("api.example.com",), "server_name: api.example.com"),
    ("127.0.0.1", ("*.example.com",), "server_name: api.example.com"),
])
def test_the_certificate_carries_the_hosts_name_or_server_name(secured, upstream, context, trusted,
                                                               host, names, more):
    named = trusted.issue("named", names=names)
    context.load_cert_chain(named.cert_file, named.key_file)
    assert secured(more, host).post("/refunds", {}, key="k").status == 201
    assert upstream.names == [more[13:] or None]


BAD = {
    "expired": ({"names": ("localhost",), "begin": -3, "end": -1},
                "TLS: the service's certificate has expired"),
    "early": ({"names": ("localhost",), "begin": 1, "end": 2},
              "TLS: the service's certificate is not valid yet"),
    "other": ({"names": ("api.example.com", "127.0.0.1")},
              "TLS: the service's certificate is for another host name"),
    # By its subject only.
    "localhost": ({}, "TLS: the service's certificate is for another host name"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_certificate_that_does_not_hold_is_refused(secured, upstream, context, trusted, name):
    how, problem = BAD[name]
    bad = trusted.issue(name, **how)
    context.load_cert_chain(bad.cert_file, bad.key_file)
    refuses(secured(), upstream, problem)


def test_a_self_signed_certificate_is_trusted_only_by_name(secured, upstream, context, tmp_path):
    own = issue(tmp_path, "own", names=("localhost",))
    context.load_cert_chain(own.cert_file, own.key_file)
    refuses(secured(), upstream, "TLS: the service's certificate is self-signed")
    assert secured(ca=own.cert_file).post("/refunds", {}, key="k").status == 201


def test_a_certificate_of_an_unknown_ca_is_refused(secured, upstream, stranger, namesake):
    problem = "TLS: the service's certificate is from an unknown CA"
    refuses(secured(ca=stranger.ca.cert_file), upstream, problem)
    refuses(secured(ca=namesake.ca.cert_file), upstream, problem)


def test_without_a_ca_of_its_own_the_systems_roots_count(secured, upstream, trusted):
    refuses(secured(ca=None), upstream, "TLS: the service's certificate is from an unknown CA")
    known = secured(ca=None, SSL_CERT_FILE=str(trusted.ca.cert_file))
    assert known.post("/refunds", {}, key="k").status == 201


# ---- who asks ----


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("who", ["trusted", "stranger", "namesake", "nobody"])
def test_a_client_certificate_is_shown_where_it_is_wanted(secured, upstream, context, trusted,
                                                          stranger, namesake, version, who):
    """TLS 1.3 judges it when the request is under way already: nobody has seen that."""
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(trusted.ca.cert_file)
    authorities = {"trusted": trusted, "stranger": stranger, "namesake": namesake}
    more = identity(authorities[who].issue("client")) if who in authorities else ""
    gateway = secured(more)
    answer = gateway.post("/refunds", {}, key="k")
    if who == "trusted":
        assert answer.status == 201
        return
    assert answer.is_problem(*UNAVAILABLE), answer
    eventually(lambda: upstream.refused, "a handshake that failed")
    assert upstream.requests == []
    assert answer["Idempotency-Status"] == "released"
    context.verify_mode = ssl.CERT_NONE
    again = gateway.post("/refunds", {}, key="k")
    assert (again.status, again["Idempotency-Status"], upstream.effects()) == (201, "stored", 1)


def test_a_wanted_client_certificate_is_named(secured, upstream, context, trusted):
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(trusted.ca.cert_file)
    gateway = secured()
    assert gateway.post("/refunds", {}, key="k").json["detail"].endswith(
        "TLS: the service requires a client certificate")


# ---- handshakes that do not end ----


def end(sock: socket.socket) -> None:
    """Ends a connection, and takes what still comes: closed with bytes unread it would be reset."""
    sock.shutdown(socket.SHUT_WR)
    while sock.recv(65536):
        pass
    sock.close()


def test_a_service_that_closes_in_the_handshake_has_been_sent_nothing(secured, upstream):
    def closing(sock: socket.socket) -> None:
        sock.recv(1)
        end(sock)

    upstream._connection = closing  # pylint: disable=protected-access
    refuses(secured(), upstream, "TLS: the service closed the connection in the handshake")


def test_a_service_that_speaks_plain_http_is_named(secured, upstream):
    def plain(sock: socket.socket) -> None:
        sock.recv(65536)
        sock.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        end(sock)

    upstream._connection = plain  # pylint: disable=protected-access
    refuses(secured(), upstream, "TLS: the service does not speak TLS on this port")


@hooks
def test_a_handshake_has_the_time_to_connect(secured, upstream, clock):
    held: list[socket.socket] = []
    upstream._connection = held.append  # pylint: disable=protected-access
    gateway = secured()
    answer = Later(lambda: gateway.post("/refunds", {}, key="k"))
    eventually(lambda: held, "a connection")
    clock.run_until(lambda: answer.is_done)
    assert answer.result().is_problem(*UNAVAILABLE)
    assert answer.result().json["detail"].endswith("TLS: no handshake in time")


# ---- bytes ----


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
@pytest.mark.parametrize("route", ["/refunds", "/other"])
def test_large_bodies_go_both_ways(secured, upstream, route, framing):
    body = os.urandom(3_000_000)
    gateway = secured()
    upstream.default = Reply(201, body[::-1], framing=framing)
    first = gateway.post(route, body, key="k")
    assert (first.status, first.body) == (201, body[::-1])
    assert upstream.requests[0].body == body
    if route == "/refunds":
        assert gateway.post(route, body, key="k").body == first.body
        assert upstream.effects() == 1


def test_a_body_that_ends_with_the_connection_ends_only_with_its_announcement(secured, upstream,
                                                                              context):
    """Anybody on the way can cut a TCP connection (RFC 9112 9.8)."""
    context.sslsocket_class = ssl.SSLSocket
    upstream.default = Reply(201, b"half of it", framing="close")
    gateway = secured()
    answer = gateway.post("/refunds", {}, key="k")
    assert answer.is_problem(502, "TRANSIENT.upstream_broke"), answer
    assert gateway.post("/refunds", {}, key="k")["Idempotency-Status"] != "stored"
    assert upstream.effects() == 1


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_body_that_is_whole_needs_no_announcement(secured, upstream, context, framing):
    context.sslsocket_class = ssl.SSLSocket
    upstream.default = Reply(201, b"all of it", [("Connection", "close")], framing, close=True)
    gateway = secured()
    for n in range(3):
        assert gateway.post("/refunds", {}, key=f"k{n}").body == b"all of it"


def test_pieces_of_many_records_are_one_message(secured, upstream):
    upstream.default = Reply(201, b"abcdefghij" * 30, framing="chunked", drip=7,
                             interim=b"HTTP/1.1 103 Early Hints\r\n\r\n")
    assert secured().post("/refunds", {}, key="k").body == b"abcdefghij" * 30


def test_an_early_refusal_of_a_large_body_is_heard(secured, upstream):
    upstream.then(say(413, {"too": "large"}, early=True, effect=False))
    answer = secured().post("/refunds", os.urandom(8_000_000), key="k")
    assert answer.status in (413, 502) and upstream.effects() == 0


# ---- connections ----


def test_a_connection_is_used_again_and_its_handshake_saved(secured, upstream):
    gateway = secured(config=CONFIG + "upstream_idle: 1h\n")
    for n in range(5):
        assert gateway.post("/refunds", {}, key=f"k{n}").status == 201
        assert gateway.request("GET", "/x").status == 200
    assert len(upstream.versions) == 2, "one for ruled requests, one for the others"


@pytest.mark.parametrize("polite", [True, False])
def test_a_kept_connection_that_was_closed_carries_no_request(secured, upstream, context, polite):
    if not polite:
        context.sslsocket_class = ssl.SSLSocket
    gateway = secured(config=CONFIG + "upstream_idle: 1h\n")
    for n in range(3):
        assert gateway.post("/refunds", {}, key=f"k{n}").status == 201
        last = upstream.requests[-1]
        for sock in list(upstream._sockets):  # pylint: disable=protected-access
            shut(sock)
        eventually(lambda: upstream.has_ended(last), "the end of it")
    assert (upstream.effects(), len(upstream.versions)) == (3, 3)


def test_many_at_once_have_one_effect_each(secured, upstream):
    gateway = secured(config=CONFIG.replace("threads: 1", "threads: 2"))
    answers = at_once(40, lambda i: gateway.post("/refunds", {}, key=f"k{i // 4}"))
    assert {answer.status for answer in answers} == {201}
    assert upstream.effects() == 10


def test_a_websocket_goes_through(secured, upstream):
    ask = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
           ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]
    agreed = (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
              b"Connection: Upgrade\r\n\r\n")

    class Echo(SecureUpstream):
        def _send(self, sock: socket.socket, reply: Reply, method: str) -> None:
            sock.sendall(agreed)
            while got := sock.recv(65536):
                sock.sendall(got)

    upstream.__class__ = Echo
    with secured().connect() as client:
        client.send(request_bytes("GET", "/chat", ask))
        assert client.reader.head()[0].startswith("HTTP/1.1 101")
        data = os.urandom(1_000_000)
        threading.Thread(target=client.send, args=(data,), daemon=True).start()
        assert client.reader.take(len(data)) == data
        client.sock.shutdown(socket.SHUT_WR)
        assert client.is_closed()


# ---- pawl's own requests ----


@pytest.fixture
def asking(secured: Callable[..., Gateway], upstream: Upstream) -> Gateway:
    """One that asks the service who may act, and what became of an operation."""
    upstream.on("GET", "/access", say(204))
    return secured(config=CONFIG.replace("match: POST /refunds", "match: POST /refunds, "
                                         "authorize: GET /access, settle: 0s, "
                                         "unknown: {probe: 'GET /refunds/by-key/{key}'}"))


def test_authorize_and_probes_go_the_same_way(asking, upstream):
    upstream.on("GET", "/refunds/by-key/k", say(200, {"id": 1}))
    upstream.on("POST", "/refunds", closes())
    answer = asking.post("/refunds", {}, key="k")
    assert (answer.status, answer.json) == (200, {"id": 1})
    assert [request.target for request in upstream.requests] == ["/access", "/refunds",
                                                                "/refunds/by-key/k"]


def test_the_operators_probe_goes_the_same_way(asking, upstream):
    upstream.on("GET", "/refunds/by-key/k", say(500))
    upstream.on("POST", "/refunds", closes())
    assert asking.post("/refunds", {}, key="k")["Idempotency-Status"] == "unknown"
    upstream.on("GET", "/refunds/by-key/k", say(200, {"id": 1}))
    environment = {**os.environ, "PAWL_TEST_CLOCK": str(asking.clock.path)}
    shown = json.loads(run("keys", "show", "k", "--json", "--store", asking.store,
                           env=environment).stdout)
    ran = run("keys", "resolve", "k", "--token", shown["token"], "--probe", "-c", asking.config,
              env=environment)
    assert ran.returncode == 0, ran.stderr
    assert asking.post("/refunds", {}, key="k").json == {"id": 1}
    assert upstream.effects() == 1


def test_a_failed_handshake_is_counted_by_its_name(secured, stranger):
    port = free_port()
    gateway = secured(ca=stranger.ca.cert_file, config=CONFIG + f"admin: 127.0.0.1:{port}\n")
    gateway.post("/refunds", {}, key="k")
    assert Admin(port).value("pawl_upstream_errors_total", reason="tls") == 1


# ---- the config ----


def test_a_reload_reads_the_files_again(secured, upstream, trusted, stranger, tmp_path):
    ca = tmp_path / "ca.pem"
    ca.write_bytes(stranger.ca.cert_file.read_bytes())
    gateway = secured(ca=ca)
    assert gateway.post("/refunds", {}, key="k").status == 503

    def reload(event: str) -> list[dict]:
        begin = len(gateway.log)
        gateway.signal(signal.SIGHUP)
        eventually(lambda: gateway.lines(event, begin), event)
        return gateway.lines(event, begin)

    ca.write_bytes(trusted.ca.cert_file.read_bytes())
    reload("config_reloaded")
    assert gateway.post("/refunds", {}, key="k").status == 201
    ca.write_text("nothing\n")
    assert reload("config_refused")[0]["problem"].endswith(
        f": upstream_tls: {ca}: contains no PEM certificate")
    assert gateway.post("/refunds", {}, key="k2").status == 201
    ca.unlink()
    assert reload("config_refused")[0]["problem"].endswith("No such file or directory")
    assert gateway.post("/refunds", {}, key="k3").status == 201
    assert upstream.effects() == 3


def tested(directory: Path, text: str) -> str:
    """What `pawl serve -t` says of a config that is no good."""
    file = directory / "pawl.yaml"
    file.write_text(f"store: sqlite:pawl.db\n{text}\ntenant: none\n")
    ran = run("serve", "-t", "-c", file, env={**os.environ, "PAWL_STORE": str(directory / "s.db")})
    assert ran.returncode != 0, ran.stdout
    return ran.stderr


@pytest.mark.parametrize("parts, complaint", [
    ("cert: {server}", "a certificate and its key go together"),
    ("ca: {missing}", ":3:20: upstream_tls: {missing}: No such file or directory"),
    ("ca: {key}", ":3:20: upstream_tls: {key}: contains no PEM certificate"),
    ("cert: {server}, key: {ca_key}",
     ": upstream_tls: {ca_key}: does not match the certificate"),
    ("cert: {key}, key: {key}", ": upstream_tls: {key}: contains no PEM certificate"),
    ("cert: {server}, key: {server}",
     ": upstream_tls: {server}: contains no unencrypted PEM private key"),
    ("verify: none", "verify"),
    ("server_name: a/b", "expected a host name or an address"),
    ("server_name: .example.com", "expected a host name or an address"),
])
def test_what_is_wrong_with_the_files_is_said_with_its_place(trusted, tmp_path, parts, complaint):
    names = {"server": trusted.server.cert_file, "key": trusted.server.key_file,
             "ca_key": trusted.ca.key_file, "missing": tmp_path / "missing.pem"}
    said = tested(tmp_path, "upstream: https://localhost\nupstream_tls: {"
                  + parts.format(**names) + "}")
    assert complaint.format(**names) in said


def test_upstream_tls_means_nothing_for_http(trusted, tmp_path):
    said = tested(tmp_path, "upstream: http://localhost\n"
                  f"upstream_tls: {{ca: {trusted.ca.cert_file}}}")
    assert ":3:15: upstream_tls: the upstream is not https" in said


def test_paths_are_relative_to_the_config(secured, trusted, tmp_path):
    near = Path("..") / os.path.relpath(trusted.ca.cert_file, tmp_path)
    assert secured(ca=near).post("/refunds", {}, key="k").status == 201
