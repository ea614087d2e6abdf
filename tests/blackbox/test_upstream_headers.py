# SPDX-License-Identifier: Apache-2.0
"""What the service learns of where a request came from, and what pawl adds to it."""
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Callable, Iterator

import pytest

from pawltest.gateway import DIE_WITH_THE_TEST, Gateway, free_port
from pawltest.upstream import Reply, Upstream, say
from pawltest.wire import Answer, Client, Request, eventually

pytestmark = pytest.mark.no_store

CONFIG = """
tenant: none
rules:
  - {name: refunds.create, match: POST /refunds}
"""
FAMILY = [("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "shop.example"),
          ("X-Forwarded-Port", "443"), ("Forwarded", "for=192.0.2.1;proto=https"),
          ("X-Forwarded-Prefix", "/api"), ("X-Real-IP", "192.0.2.1")]
PATHS = pytest.mark.parametrize("path", ["/refunds", "/other"])
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def sent(gateway: Gateway, upstream: Upstream, *headers: tuple[str, str],
         path: str = "/refunds") -> Request:
    answer = gateway.post(path, {}, key=f"k{len(upstream.requests)}", headers=headers)
    assert answer.status == 201
    return upstream.requests[-1]


# ---- where a request came in ----


@PATHS
def test_what_a_trusted_proxy_says_of_where_a_request_came_in_is_kept(gateway, upstream, path):
    """found: A-M12, C-C1, E-F2"""
    seen = sent(gateway, upstream, *FAMILY, path=path)
    assert [line for line in seen.headers if line in FAMILY] == FAMILY
    for name, _ in FAMILY:
        assert len(seen.all(name)) == 1, "pawl adds none beside it"


@PATHS
@pytest.mark.parametrize("trusted", ["[]", "[10.0.0.0/8, 127.0.0.2, fd00::/8]"])
def test_what_anybody_else_says_of_where_a_request_came_in_is_replaced(pawl, upstream, path,
                                                                       trusted):
    """found: A-M12"""
    gateway = pawl(f"trust_forwarded: {trusted}\n{CONFIG}")
    seen = sent(gateway, upstream, *FAMILY, path=path)
    assert (seen["X-Forwarded-Proto"], seen["X-Forwarded-Host"]) == ("http", "gateway.test")
    for name in ("X-Forwarded-Port", "Forwarded", "X-Forwarded-Prefix", "X-Real-IP"):
        assert seen[name] is None


CERTIFICATES = ["Client-Cert", "Client-Cert-Chain", "X-Client-Cert", "X-Client-Verify",
                "X-SSL-Client-CN", "SSL-Client-S-DN", "X-ARR-ClientCert", "X-Amzn-Mtls-Clientcert",
                "Cf-Client-Cert-Der", "X-Forwarded-Client-Cert", "X-Forwarded-Tls-Client-Cert",
                "X-Forwarded-Tls-Client-Cert-Info"]
SPOKEN = [(name, "root") for name in CERTIFICATES]
UNDERSCORED = [(name.replace("-", "_"), "root") for name in CERTIFICATES]
NEAR = [("Client-Certs", "x"), ("X-SSL", "x"), ("SSL-Clients", "x"), ("Cf-Client", "x")]


@PATHS
def test_no_stranger_says_whose_certificate_a_client_showed(pawl, upstream, path):
    """found: L11"""
    gateway = pawl(f"trust_forwarded: []\n{CONFIG}")
    seen = sent(gateway, upstream, *SPOKEN, *UNDERSCORED, *NEAR, path=path)
    assert [line for line in seen.headers if line[1] in ("root", "x")] == NEAR
    sent(gateway, upstream, *SPOKEN, path=path)
    eventually(lambda: len(removed(gateway)) >= 11, "a line for each family")
    assert len(removed(gateway)) == 11
    line = removed(gateway)[0]
    assert (line["level"], line["client"], line["header"]) == ("warn", "127.0.0.1", "Client-Cert")
    assert "trust_forwarded" in line["hint"]


def removed(gateway: Gateway) -> list[dict]:
    return gateway.lines("certificate_header_removed")


@PATHS
def test_a_trusted_proxy_says_whose_certificate_a_client_showed(gateway, upstream, path):
    """found: L11"""
    seen = sent(gateway, upstream, *SPOKEN, *UNDERSCORED, path=path)
    assert [line for line in seen.headers if line[1] == "root"] == SPOKEN


OWN = ["Idempotency-Status", "Idempotent-Replayed", "Error-Code", "Webhook-Source",
       "Proxy-Connection", "Keep-Alive", "Trailer"]


@PATHS
@pytest.mark.parametrize("spell", [str, lambda name: name.replace("-", "_"),
                                   lambda name: name.replace("-", "_", 1).upper()],
                         ids=["dashed", "underscored", "upper"])
def test_what_pawl_removes_is_removed_by_whatever_spelling(gateway, upstream, path, spell):
    """found: R17"""
    seen = sent(gateway, upstream, *[(spell(name), "forged") for name in OWN],
                (spell("X-Own"), "kept"), path=path)
    assert [value for _, value in seen.headers if value in ("forged", "kept")] == ["kept"]


def test_a_block_of_addresses_is_trusted(pawl, upstream):
    gateway = pawl(f'trust_forwarded: ["::1", 127.0.0.0/30]\n{CONFIG}')
    assert sent(gateway, upstream, *FAMILY)["X-Forwarded-Proto"] == "https"


def test_without_a_word_of_a_proxy_it_came_in_here(gateway, upstream):
    seen = sent(gateway, upstream)
    assert (seen["X-Forwarded-Proto"], seen["X-Forwarded-Host"]) == ("http", "gateway.test")
    assert seen["X-Forwarded-Port"] is None and seen["Forwarded"] is None


def test_nothing_contradicts_what_a_trusted_proxy_says_in_forwarded_alone(gateway, upstream):
    """found: E-F2"""
    seen = sent(gateway, upstream, ("Forwarded", "proto=https;host=shop.example"))
    assert seen["Forwarded"] == "proto=https;host=shop.example"
    assert (seen["X-Forwarded-Proto"], seen["X-Forwarded-Host"]) == (None, None)


@pytest.mark.parametrize("trusted", ["[]", "[127.0.0.1]"])
def test_no_spelling_that_a_cgi_like_server_takes_for_it_goes_through(pawl, upstream, trusted):
    """found: A-M12"""
    gateway = pawl(f"trust_forwarded: {trusted}\n{CONFIG}")
    names = ["X_Forwarded_For", "X_Forwarded_Proto", "X-Forwarded_Host", "x_real_ip",
             "X_FORWARDED_PREFIX"]
    seen = sent(gateway, upstream, *[(name, "evil.test") for name in names])
    assert all(seen[name] is None for name in names)


def test_what_connection_drops_a_proxy_has_not_said(gateway, upstream):
    seen = sent(gateway, upstream, ("X-Forwarded-Proto", "https"), ("Forwarded", "proto=https"),
                ("Connection", "X-Forwarded-Proto, Forwarded"))
    assert (seen["X-Forwarded-Proto"], seen["Forwarded"]) == ("http", None)


# ---- behind nginx ----

NGINX = """
daemon off; pid {dir}/pid; error_log {dir}/error.log; worker_processes 1;
events {{}}
http {{
  access_log off;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{pawl};
      proxy_http_version 1.1;
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto https;
    }}
  }}
}}
"""


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Callable[[int], int]]:
    """Starts an nginx before a port, as one that ends TLS; the port that it listens on."""
    made = []

    def start(pawl_port: int) -> int:
        port = free_port()
        config = tmp_path / "nginx.conf"
        config.write_text(NGINX.format(dir=tmp_path, port=port, pawl=pawl_port))
        made.append(subprocess.Popen([*DIE_WITH_THE_TEST, "nginx", "-c", str(config)]))

        def listens() -> bool:
            try:
                Client(port).sock.close()
                return True
            except ConnectionRefusedError:
                return False

        eventually(listens, "nginx")
        return port

    yield start
    for process in made:
        process.terminate()
        process.wait()


@pytest.mark.skipif(not shutil.which("nginx"), reason="there is no nginx")
def test_a_service_that_insists_on_tls_works_behind_a_proxy_that_ends_it(gateway, upstream, nginx):
    """found: A-M12, C-C1, E-F2"""
    def insists(request: Request) -> Reply:
        if request["X-Forwarded-Proto"] != "https":
            return say(301, None, ("Location", "https://shop.example/refunds"))
        return upstream.created(request)

    upstream.default = insists
    port = nginx(gateway.port)
    headers = [("Idempotency-Key", "k1"), ("Content-Type", "application/json")]

    def post() -> Answer:
        with Client(port) as client:
            return client.request("POST", "/refunds", headers, b"{}")

    first, again = post(), post()
    assert first.mark == (201, "stored")
    assert again.mark == (201, "replayed")
    assert upstream.requests[0]["X-Forwarded-For"] == "127.0.0.1, 127.0.0.1"


# ---- Via ----


@PATHS
def test_pawl_names_itself_in_via_behind_those_before_it(pawl, upstream, path):
    """found: A-L20"""
    gateway = pawl()
    first = sent(gateway, upstream, path=path)["Via"]
    assert first.startswith("1.1 pawl-") and len(first) == len("1.1 pawl-01234567")
    int(first[-8:], 16)
    gateway.restart()
    assert sent(gateway, upstream, ("Via", "1.0 a, 1.1 b"), path=path).all("Via") == [
        "1.0 a, 1.1 b", first], "the same for all processes of a store"
    other = pawl()
    assert sent(other, upstream, ("Via", first), path=path).all("Via")[1] != first


@PATHS
def test_a_request_that_came_through_here_before_is_508_and_begins_nothing(gateway, upstream, path):
    """found: A-L20"""
    own = sent(gateway, upstream, path=path)["Via"]
    for via in own, f"1.1 a, {own} (x), 1.1 b":
        answer = gateway.post(path, {}, key="looped", headers=[("Via", "1.1 c"), ("Via", via)])
        assert answer.is_problem(508, "DEPENDENCY.loop")
        assert (answer.json["retryable"], answer.json["safe_new_key"]) == (False, False)
    assert upstream.effects() == 1
    assert gateway.post(path, {"other": 1}, key="looped").status == 201, "no record was made"


def test_two_gateways_that_are_each_others_upstream_end_it(pawl, upstream):
    """found: A-L20"""
    one, two = pawl(started=False), pawl(started=False)
    one.upstream_port, two.upstream_port = two.port, one.port
    for gateway in one, two:
        gateway.configure(CONFIG)
        gateway.start()
    assert one.request("GET", "/other").status == 508
    assert one.post("/refunds", {}, key="k1").status == 508
    assert not upstream.requests


# ---- traces, attempts ----


@PATHS
def test_a_trace_is_passed_on_and_none_is_made_up(gateway, upstream, path):
    """found: C-H8"""
    seen = sent(gateway, upstream, ("traceparent", TRACE), ("tracestate", "a=1"), path=path)
    assert (seen["traceparent"], seen["tracestate"]) == (TRACE, "a=1")
    assert sent(gateway, upstream, path=path)["traceparent"] is None
    logged = eventually(lambda: [line for line in gateway.log
                                 if line["event"] in ("request", "pass")][1:])
    assert "trace_id" not in logged[0]


def test_the_service_learns_which_attempt_it_gets(pawl, upstream):
    gateway = pawl(CONFIG + "  - {name: probed, match: POST /probed, settle: 0, "
                            "unknown: {probe: 'GET /by/{key}'}}\n")
    upstream.then(say(503, {}), say(201, {}))
    for n in ("1", "2"):
        gateway.post("/refunds", {}, key="k1", headers=[("Idempotency-Attempt", "9")])
        assert upstream.requests[-1]["Idempotency-Attempt"] == n
    assert sent(gateway, upstream, ("Idempotency-Attempt", "9"),
                path="/other")["Idempotency-Attempt"] is None
    upstream.then(Reply(cut=0))
    gateway.post("/probed", {}, key="k2")
    assert [request["Idempotency-Attempt"] for request in upstream.requests[-2:]] == ["1", "2"]


# ---- how many ----


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_what_pawl_adds_takes_no_request_over_a_servers_limit_of_100_lines(gateway, upstream,
                                                                          method):
    """found: A-P"""
    path = "/refunds" if method == "POST" else "/other"
    few = [("Host", "gateway.test"), ("Idempotency-Key", "k1"), ("Transfer-Encoding", "chunked")]
    lines = few + [(f"X-{n}", "1") for n in range(90 - len(few))]
    body = b"2\r\n{}\r\n0\r\n\r\n"
    assert gateway.request(method, path, lines, body).status < 300
    assert len(upstream.requests[-1].headers) < 100, "Python's http.server counts the empty line"
    refused = gateway.request(method, path, [*lines, ("X-More", "1")], body)
    assert refused.is_problem(431, "VALIDATION.request_malformed")
