# SPDX-License-Identifier: Apache-2.0
"""What the tests of all folders share: the built binary ($PAWL_BIN, else build/pawl) between a
client and an upstream that count and record. A test's name is what pawl promises. Time is moved
with `clock`, never slept."""
from __future__ import annotations

import contextlib
import functools
import secrets
import signal
import sys
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from _pytest.runner import runtestprotocol

from pawltest.gateway import ALARMS, PAWL, Clock, Gateway, run
from pawltest.jobs import Jobs
from pawltest.upstream import Upstream

CONFIG = """
tenant: none
rules:
  - name: refunds.create
    match: POST /refunds
"""


# Of a shell's background job, say: pawl leaves ignored what it was started to ignore.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

GATEWAYS = pytest.StashKey[list[Gateway]]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test that failed shows what its gateways printed."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for gateway in item.stash.get(GATEWAYS, []):
            report.sections.append(("pawl printed", "\n".join(gateway.printed[-40:])))


# ---- what fails once ----

AGAIN_MOST = 2  # tests of a process that are run a second time
AGAIN = "RAN AGAIN"


def may_run_again(item: pytest.Item, reports: list[pytest.TestReport]) -> bool:
    """Whether a busy machine may be why it failed: it is run once more, and named in the summary.
    Never after what no run may print, such as a sanitizer's report, and not often."""
    alarms = [alarm for gateway in item.stash.get(GATEWAYS, []) for alarm in gateway.alarms]
    said = "".join(report.longreprtext for report in reports if report.failed)
    count = item.session.stash.get(RUN_AGAIN, 0)
    if not said or alarms or ALARMS.search(said) or count >= AGAIN_MOST:
        return False
    item.session.stash[RUN_AGAIN] = count + 1
    return True


RUN_AGAIN = pytest.StashKey[int]()
RUN = pytest.StashKey[str]()


def forget_failed_fixtures(item: pytest.Item) -> None:
    """pytest keeps the failure of a module's fixture, and would raise it again."""
    item._initrequest()  # pylint: disable=protected-access
    for definitions in item._fixtureinfo.name2fixturedefs.values():  # pylint: disable=W0212
        for definition in definitions:
            if definition.cached_result and definition.cached_result[2]:
                definition.finish(item._request)  # pylint: disable=protected-access


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    place = {"nodeid": item.nodeid, "location": item.location}
    item.ihook.pytest_runtest_logstart(**place)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if may_run_again(item, reports):
        first = next(report for report in reports if report.failed)
        forget_failed_fixtures(item)
        item.stash[RUN] = " again"
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        reports[0].user_properties.append((AGAIN, first.longreprtext.strip().splitlines()[-1]))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(**place)
    return True


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for reports in list(terminalreporter.stats.values()):
        for report in reports:
            for name, why in getattr(report, "user_properties", []):
                if name == AGAIN and report.when == "setup":
                    terminalreporter.write_line(f"{AGAIN} {report.nodeid}: {why}")


@functools.cache
def has_hooks() -> bool:
    return not PAWL.exists() or "+hooks" in run("version").stdout


def pytest_runtestloop(session: pytest.Session) -> None:
    needed = any("upstream" in getattr(item, "fixturenames", ()) for item in session.items)
    if needed and not session.config.option.collectonly and not PAWL.exists():
        pytest.exit(f"{PAWL} is not built", returncode=3)


def is_for_sqlite(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("file_only", "no_store"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    on_postgres = config.getoption("store") == "postgres"
    out = [item for item in items if (item.get_closest_marker("hooks") and not has_hooks())
           or (on_postgres and is_for_sqlite(item))]
    if not out:
        return
    items[:] = [item for item in items if item not in out]
    config.hook.pytest_deselected(items=out)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store", choices=("sqlite", "postgres"), default="sqlite",
                     help="what gateways keep their records in: a file or a database each")


@pytest.fixture(scope="session", autouse=True)
def stores(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.config.getoption("store") == "sqlite":
        yield
        return
    sys.path.insert(0, str(Path(__file__).parent / "postgres"))
    from server import Server  # needs psycopg2, which is not everywhere

    with Server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gateway, "new_store", lambda _: server.add_fleeting_database().url)
        yield


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    made = Upstream()
    yield made
    made.stop()


@pytest.fixture
def receiver() -> Iterator[Upstream]:
    """Of webhooks, beside the service."""
    made = Upstream()
    yield made
    made.stop()


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path / "clock")


@pytest.fixture
def jobs(tmp_path: Path, clock: Clock) -> Iterator[Jobs]:
    """`pawl run`, on a store of its own."""
    made = Jobs(tmp_path, clock)
    yield made
    made.close()


@pytest.fixture
def pawl(tmp_path: Path, upstream: Upstream, clock: Clock,
         request: pytest.FixtureRequest) -> Iterator[Callable[..., Gateway]]:
    """Makes gateways: pawl() with CONFIG, pawl(text) with another config (without listen, upstream
    and store), pawl(text, started=False) for one that the test starts."""
    made: list[Gateway] = []

    def make(config: str = CONFIG, started: bool = True) -> Gateway:
        directory = tmp_path / f"pawl{len(made)}"
        directory.mkdir()
        made.append(Gateway(directory, upstream.port, config, clock))
        return made[-1].start() if started else made[-1]

    request.node.stash[GATEWAYS] = made
    yield make
    upstream.open_gates()
    try:
        for gateway in made:
            gateway.close()
    finally:
        for gateway in made:
            gateway.discard()


@contextlib.contextmanager
def standing(directory: Path, config: str) -> Iterator[tuple[Gateway, Upstream]]:
    """A gateway and its upstream for a whole module, whose tests keep their keys apart."""
    behind = Upstream()
    gateway = Gateway(directory, behind.port, config, Clock(directory / "clock"))
    try:
        gateway.start()
        yield gateway, behind
        behind.open_gates()
        gateway.close()
    finally:
        gateway.discard()
        behind.stop()


@pytest.fixture(scope="module")
def pair(request: pytest.FixtureRequest,
         tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Upstream]]:
    """The module's own, with its CONFIG."""
    with standing(tmp_path_factory.mktemp(request.module.__name__), request.module.CONFIG) as made:
        yield made


@pytest.fixture
def shared(pair: tuple[Gateway, Upstream]) -> Gateway:
    """The module's gateway, which must have survived the tests before."""
    assert pair[0].process.poll() is None, "pawl died"
    return pair[0]


@pytest.fixture
def behind(pair: tuple[Gateway, Upstream]) -> Upstream:
    """The upstream of `shared`, without what a test that failed has left."""
    pair[1].forget_replies()
    pair[1].requests.clear()
    pair[1].done.clear()
    return pair[1]


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """One that no other test of the module uses, nor this one when it ran before."""
    return f'"{request.node.name}{request.node.stash.get(RUN, "")}"'


@pytest.fixture
def word() -> str:
    """A key that no other test has, which is part of a path as it stands."""
    return secrets.token_hex(8)


@pytest.fixture
def gateway(pawl: Callable[..., Gateway]) -> Gateway:
    """One with CONFIG."""
    return pawl()
