# SPDX-License-Identifier: Apache-2.0
"""The name of `upstream:` may get other addresses while pawl runs."""
from __future__ import annotations

from pathlib import Path
from typing import Callable, Iterator

import pytest

from pawltest.certificates import SecureUpstream, issue, served_by
from pawltest.gateway import Gateway
from pawltest.upstream import Upstream
from pawltest.wire import eventually

pytestmark = pytest.mark.no_store

CONFIG = """
tenant: none
threads: 1
upstream_idle: 0s
rules:
  - {name: refunds.create, match: POST /refunds}
"""
hooks = pytest.mark.hooks


@pytest.fixture
def other(upstream: Upstream) -> Iterator[Upstream]:
    """The service at its new address."""
    made = Upstream("127.0.0.2", upstream.port)
    yield made
    made.stop()


class Hosts:
    """What /etc/hosts says to one gateway."""

    def __init__(self, file: Path):
        self.file = file
        self.say("127.0.0.1")

    def say(self, *addresses: str) -> None:
        lines = "".join(f"{address} service.test\n" for address in addresses)
        with self.file.open("r+" if self.file.exists() else "w") as file:
            file.write(lines)
            file.truncate()


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path / "hosts")


@pytest.fixture
def named(pawl: Callable[..., Gateway], hosts: Hosts) -> Callable[..., Gateway]:
    """Makes gateways that know the upstream by its name."""
    def make(config: str = CONFIG, url: str = "") -> Gateway:
        gateway = pawl(started=False)
        gateway.wrapper = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                           'mount --bind "$0" /etc/hosts && exec "$@"', str(hosts.file)]
        gateway.upstream_host, _, port = (
            url or f"http://service.test:{gateway.upstream_port}").rpartition(":")
        gateway.upstream_port = int(port)
        gateway.configure(config)
        return gateway.start()

    return make


@hooks
def test_a_name_is_looked_up_again_when_its_addresses_are_old(named, hosts, upstream, other, clock):
    gateway = named()
    hosts.say("127.0.0.2")
    clock.advance(29)
    for n in range(3):
        assert gateway.post("/refunds", {}, key=f"before{n}").status == 201
    assert (upstream.effects(), other.effects()) == (3, 0)
    clock.advance(1)
    eventually(lambda: gateway.request("GET", "/x").status == 200 and other.requests, "the other")
    assert gateway.post("/refunds", {}, key="after").status == 201
    assert (upstream.effects(), other.effects()) == (3, 1)


@hooks
def test_resolve_says_when_addresses_are_old(named, hosts, upstream, other, clock):
    gateway = named(CONFIG + "resolve: 5m\n")
    hosts.say("127.0.0.2")
    clock.advance(299)
    assert gateway.request("GET", "/x").status == 200
    clock.advance(1)
    eventually(lambda: gateway.request("GET", "/x").status == 200 and other.requests, "the other")


@hooks
def test_a_connection_that_fails_has_the_name_looked_up_at_once(named, hosts, upstream, other,
                                                                clock):
    """Nothing was sent: the same request, sent again, has its one effect where the service is."""
    gateway = named(CONFIG + "resolve: 1h\n")
    upstream.stop()
    hosts.say("127.0.0.2")
    clock.advance(1)
    assert gateway.post("/refunds", {}, key="k").status == 503
    eventually(lambda: gateway.post("/refunds", {}, key="k").status == 201, "the other")
    assert other.effects() == 1


@hooks
def test_an_address_that_is_somebody_elses_now_is_looked_up_again(named, hosts, clock, tmp_path):
    someone = issue(tmp_path, "someone", names=("someone.test",))
    service = issue(tmp_path, "service", names=("service.test",))
    former = SecureUpstream(served_by(someone))
    other = SecureUpstream(served_by(service), "127.0.0.2", former.port)
    try:
        both = tmp_path / "both.pem"
        both.write_bytes(someone.cert_file.read_bytes() + service.cert_file.read_bytes())
        gateway = named(CONFIG + f"resolve: 1h\nupstream_tls: {{ca: {both}}}\n",
                        f"https://service.test:{former.port}")
        hosts.say("127.0.0.2")
        clock.advance(1)
        assert gateway.post("/refunds", {}, key="k").status == 503
        eventually(lambda: gateway.post("/refunds", {}, key="k").status == 201, "the service")
        assert (former.requests, other.effects()) == ([], 1)
    finally:
        former.stop()
        other.stop()


def test_all_addresses_are_tried(named, hosts, upstream):
    hosts.say("127.0.0.5", "127.0.0.4", "127.0.0.3", "127.0.0.1")
    gateway = named()
    assert gateway.post("/refunds", {}, key="k").status == 201
    assert upstream.effects() == 1


@hooks
def test_a_resolver_that_knows_nothing_changes_nothing(named, hosts, upstream, clock):
    gateway = named()
    hosts.say()
    for n in range(5):
        clock.advance(31)
        assert gateway.post("/refunds", {}, key=f"k{n}").status == 201
    assert upstream.effects() == 5
