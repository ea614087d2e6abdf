# SPDX-License-Identifier: Apache-2.0
"""What is installed: by `make install`, by the unit of systemd, by the Debian package."""
from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
from pathlib import Path
from typing import Iterator

import pytest

from pawltest.gateway import PAWL, ROOT, free_port
from pawltest.wire import PATIENCE, Client

BUILD = PAWL.resolve().parent
BUILDING = 120  # seconds
UNIT = "lib/systemd/system/pawl.service"
QUEUES = ("lib/systemd/system/pawl-queue@.service", "lib/systemd/user/pawl-queue.service")
EXPOSURE_MOST = 2.0  # of 10; systemd calls up to 2 "ok"


def tool(*arguments: str | Path, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=BUILDING, check=False, **more)


def good(*arguments: str | Path, **more) -> str:
    ran = tool(*arguments, **more)
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def debconf_in(folder: Path, seen_as: str | None = None) -> dict[str, str]:
    """The environment in which debconf asks nobody and has its answers in this folder, which
    scripts may call otherwise ($DPKG_ROOT)."""
    seen = str(folder) if seen_as is None else seen_as
    (folder / "debconf.conf").write_text("Config: answers\nTemplates: templates\n" + "".join(
        f"\nName: {name}\nDriver: File\nFilename: {seen}/debconf.{name}\n"
        for name in ("answers", "templates")))
    return {"DEBCONF_SYSTEMRC": f"{seen}/debconf.conf", "DEBIAN_FRONTEND": "noninteractive"}


def below(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


# ---- make install ----


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    stage = tmp_path_factory.mktemp("stage")
    good("make", "install", f"DESTDIR={stage}", "PREFIX=/opt/pawl", f"PAWL_BUILD={BUILD}", cwd=ROOT)
    return stage


def test_make_install_puts_everything_below_prefix_and_destdir(installed):
    files = below(installed)
    assert all(name.startswith("opt/pawl/") for name in files)
    for name in ("bin/pawl", "share/man/man1/pawl.1", "share/man/man5/pawl.yaml.5", UNIT, *QUEUES,
                 "share/bash-completion/completions/pawl", "share/doc/pawl/README.md",
                 "share/doc/pawl/examples/service/pawl.yaml"):
        assert f"opt/pawl/{name}" in files
    assert good(installed / "opt/pawl/bin/pawl", "version") == good(PAWL, "version")
    [package] = (installed / "opt/pawl").glob("lib/**/pkgconfig/pawl.pc")
    assert package.read_text("utf-8").startswith("prefix=/opt/pawl\n")
    assert service(installed / "opt/pawl" / UNIT)["ExecStart"].startswith("/opt/pawl/bin/pawl ")
    assert "opt/pawl/share/pawl/compose.yaml" in files
    for folder in ("prometheus", "grafana", "kubernetes", "compose"):
        shipped = below(ROOT / "packaging" / folder)
        assert {f"opt/pawl/share/pawl/{folder}/{name}" for name in shipped} <= files


def times_of(build: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in build.rglob("*")
            if path.is_file() and "meson-logs" not in path.parts}


def test_make_install_builds_nothing_and_leaves_what_is_there_alone(tmp_path):
    """found: C-M13"""
    there = tmp_path / "usr/bin"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    there.parent.mkdir()
    there.symlink_to(elsewhere)
    before = times_of(BUILD)
    good(ROOT / "scripts/install", env={**os.environ, "PAWL_BUILD": str(BUILD), "PREFIX": "/usr",
                                        "DESTDIR": str(tmp_path)})
    assert times_of(BUILD) == before
    assert (elsewhere / "pawl").exists() and elsewhere.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("settings, status, word", [
    ({"PAWL_BUILD": "/nonexistent"}, 69, "run `make` first"),
    ({"PAWL_BUILD": str(BUILD), "PREFIX": "usr"}, 2, "absolute path")])
def test_make_install_says_what_it_lacks(tmp_path, settings, status, word):
    """found: C-M13"""
    ran = tool(ROOT / "scripts/install", env={**os.environ, "DESTDIR": str(tmp_path), **settings})
    assert (ran.returncode, word in ran.stdout) == (status, True), ran.stdout
    assert not below(tmp_path)


def test_a_program_is_built_with_the_installed_library(installed, tmp_path):
    prefix = installed / "opt/pawl"
    [found] = prefix.glob("lib/**/pkgconfig/pawl.pc")
    flags = good("pkg-config", f"--define-variable=prefix={prefix}", "--cflags", "--libs", "pawl",
                 env={**os.environ, "PKG_CONFIG_PATH": str(found.parent)}).split()
    program = tmp_path / "send_once"
    good("cc", "-Wall", "-Wextra", "-Werror", ROOT / "examples/client/send_once.c", *flags, "-o",
         program)
    ran = subprocess.run([program, "ftp://a/", "k", "{}", tmp_path / "pawl.db"], check=False,
                         capture_output=True, text=True,
                         env={**os.environ, "LD_LIBRARY_PATH": str(found.parent.parent)})
    assert ran.returncode == 2 and "http://" in ran.stderr
    assert (prefix / "share/man/man3/pawl_send.3").exists()


INSIDE = r"""
#include <assert.h>
#include <pawl/pawl.h>
#include <sqlite3.h>
#include <stdio.h>
int main(void)
{
    sqlite3 *db;
    struct pawl_operation operation = {.rule = "r", .key = "k"};
    struct pawl_outcome outcome = {.http_code = 200};
    struct pawl_begun begun;
    sqlite3_open(":memory:", &db);
    struct pawl *pawl = pawl_on_sqlite(db);
    sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
    if (pawl_begin(pawl, &operation, &begun) || begun.decision != PAWL_PROCEED)
        return 1;
    if (pawl_complete(pawl, begun.token, &outcome, NULL) || pawl_begin(pawl, &operation, &begun))
        return 2;
    puts(pawl_decision_name(begun.decision));
    pawl_free(pawl);
    return sqlite3_close(db);
}
"""


def test_a_program_is_linked_with_either_library(installed, tmp_path):
    """The static one has no global names but those of the headers."""
    prefix = installed / "opt/pawl"
    [found] = prefix.glob("lib/**/pkgconfig/pawl.pc")
    folder = found.parent.parent
    source = tmp_path / "inside.c"
    source.write_text(INSIDE)
    wanted = ("pkg-config", f"--define-variable=prefix={prefix}", "--cflags", "--libs")
    env = {**os.environ, "PKG_CONFIG_PATH": str(found.parent)}
    shared = good(*wanted, "pawl", env=env).split()
    static = good(*wanted, "--static", "pawl", env=env).split()
    static[static.index("-lpawl")] = str(folder / "libpawl.a")
    for flags in (shared, static):
        good("cc", "-Wall", "-Wextra", "-Werror", source, *flags, "-lsqlite3", "-o",
             tmp_path / "inside")
        ran = good(tmp_path / "inside", env={**os.environ, "LD_LIBRARY_PATH": str(folder)})
        assert ran == "replay\n"
    names = {line.split()[-1] for line in good("nm", "--defined-only", "-g",
                                               folder / "libpawl.a").splitlines() if " " in line}
    declared = {name for header in (prefix / "include/pawl").glob("*.h")
                for name in re.findall(r"\b(pawl_\w+)\(",
                                       re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S))}
    assert names == declared
    assert (prefix / "share/man/man3/pawl.3").exists()


def exports_of(library: Path) -> list[str]:
    """Each exported function and the version that it came with."""
    symbols = good("nm", "-D", "--defined-only", library).splitlines()
    return sorted(line.split()[-1] for line in symbols if " T " in line)


def layout_of(headers: Path, work: Path) -> list[str]:
    """Where each member of a struct is, and how large each is: `struct pawl_event.data 16`."""
    lines = []
    for header in sorted(headers.glob("*.h")):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        for name, body in re.findall(r"struct (pawl_\w+) \{(.*?)\n\};", text, re.S):
            lines.append(f'printf("struct {name} %zu\\n", sizeof(struct {name}));')
            for member in re.findall(r"(?:\(\*(\w+)\)\(|(\w+);)", body):
                at = member[0] or member[1]
                lines.append(f'printf("struct {name}.{at} %zu\\n",'
                             f' offsetof(struct {name}, {at}));')
    source = work / "layout.c"
    source.write_text("#include <pawl/client.h>\n#include <pawl/pawl.h>\n#include <stdio.h>\n"
                      "int main(void)\n{\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
    good("cc", f"-I{headers.parent}", source, "-o", work / "layout")
    return good(work / "layout").splitlines()


def test_the_library_is_what_programs_were_built_with(installed, tmp_path):
    """A function that goes or changes its version, and a member that moves, break programs that are
    there: see src/client/libpawl.map. What is new is added to libpawl.abi."""
    prefix = installed / "opt/pawl"
    [library] = prefix.glob("lib/**/libpawl.so.0")
    is_64_bit = b"\x02" == library.read_bytes()[4:5]
    now = exports_of(library) + (layout_of(prefix / "include/pawl", tmp_path) if is_64_bit else [])
    then = (ROOT / "tests/install/libpawl.abi").read_text().splitlines()
    assert now == [line for line in then if is_64_bit or "struct" not in line]


def test_the_extension_is_installed_and_needs_no_sqlite_of_its_own(installed):
    [extension] = (installed / "opt/pawl").glob("lib/**/pawl/pawl.so")
    assert "sqlite3_pawl_init" in good("nm", "-D", "--defined-only", extension)
    assert not re.search(r"sqlite3", good("nm", "-D", "--undefined-only", extension))
    assert "libsqlite3" not in good("readelf", "-d", extension)
    ran = good("sqlite3", ":memory:", f".load {extension}", "BEGIN",
               "SELECT decision FROM pawl_begin('m1', 'r', 'k')")
    assert ran == "proceed\n"


LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def test_the_guide_is_installed_and_every_link_in_what_is_installed_resolves(installed):
    documents = installed / "opt/pawl/share/doc/pawl"
    pages = {str(path.relative_to(documents)): FENCE.sub("", path.read_text("utf-8"))
             for path in documents.rglob("*.md")}
    shipped = {f"docs/{name}" for name in below(ROOT / "docs")}
    assert {"README.md", "CHANGELOG.md", "docs/guide/README.md"} <= set(pages)
    assert shipped <= below(documents)
    links = [(page, link.partition("#")[0]) for page, text in pages.items()
             for link in LINK.findall(text) if not re.match(r"[a-z]+:|#", link)]
    assert len(links) > 50
    assert not [link for link in links if not (documents / link[0]).parent.joinpath(
        link[1]).exists()]
    assert "[guide](docs/guide/README.md)" in pages["README.md"]


# ---- the unit ----


def service(unit: Path) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", unit.read_text("utf-8"), re.M))


def unit_at(installed: Path, tmp_path: Path, name: str) -> Path:
    """An installed one, its binary where it stands now; of a template that of one account."""
    path = tmp_path / Path(name).name.replace("@", "@till")
    text = (installed / "opt/pawl" / name).read_text("utf-8")
    path.write_text(text.replace("/opt/pawl/bin/pawl", str(installed / "opt/pawl/bin/pawl")))
    return path


@pytest.fixture
def unit(installed: Path, tmp_path: Path) -> Path:
    return unit_at(installed, tmp_path, UNIT)


def test_the_unit_is_one_that_systemd_takes(unit):
    assert good("systemd-analyze", "verify", "--man=no", unit) == ""
    settings = service(unit)
    assert settings["Type"] == "notify" and settings["StateDirectory"] == "pawl"
    assert settings["AssertPathExists"] == "/etc/pawl/pawl.yaml"
    assert settings["RestartPreventExitStatus"] == "2 74"


GOOD_CONFIG = "tenant: none\nrules: [{name: a, match: POST /a}]\n"


@pytest.mark.parametrize("config, status", [(GOOD_CONFIG, [0, 0]), ("rules: [nonsense\n", [2])])
def test_a_reload_with_a_config_that_is_wrong_fails_and_signals_nobody(unit, tmp_path, config,
                                                                       status):
    """found: C-H11. systemd runs the lines in order, up to one that fails."""
    path = tmp_path / "pawl.yaml"
    path.write_text("listen: 127.0.0.1:1\nupstream: http://127.0.0.1:2\n" + config)
    commands = re.findall(r"^ExecReload=(.*)$", unit.read_text("utf-8"), re.M)
    assert commands[-1] == "/bin/kill -HUP $MAINPID"
    ended = []
    for command in commands:
        command = command.replace("/etc/pawl/pawl.yaml", str(path)).replace("$MAINPID", "$$")
        ended.append(tool("sh", "-c", f"trap '' HUP; {command}").returncode)
        if ended[-1] != 0:
            break
    assert ended == status


@pytest.mark.parametrize("config, restarts", [(0, True), (2, False)])
def test_an_upgrade_restarts_a_gateway_only_by_a_config_that_the_new_one_takes(tmp_path, config,
                                                                              restarts):
    """found: C-H11"""
    script = (ROOT / "packaging/debian/postinst").read_text("utf-8")
    (tmp_path / "pawl.postinst").write_text(script.replace("/run/systemd/system", str(tmp_path)))
    for name, text in (("systemctl", f'echo "$1" >> {tmp_path}/done'), ("pawl", f"exit {config}")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
    for name in ("pawl.postinst", "systemctl", "pawl"):
        (tmp_path / name).chmod(0o755)
    told = good(tmp_path / "pawl.postinst", "configure", env={
        "PATH": f"{tmp_path}:/usr/bin:/bin", **debconf_in(tmp_path)})
    assert (tmp_path / "done").read_text().split() == [
        "daemon-reload", "is-active", *(["try-restart"] if restarts else []), "try-restart"]
    assert ("systemctl restart pawl" in told) != restarts


def has_few_rights(unit: Path) -> None:
    told = good("systemd-analyze", "security", "--offline=yes", unit)
    exposure = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", told).group(1))
    assert exposure <= EXPOSURE_MOST, told


def test_the_unit_gives_the_gateway_few_rights(unit):
    has_few_rights(unit)


@pytest.mark.parametrize("name", QUEUES)
def test_a_unit_drains_a_queue_and_what_is_left_is_no_failure(installed, tmp_path, upstream, name):
    """found: J8"""
    unit = unit_at(installed, tmp_path, name)
    manager = ["--user"] if "/user/" in name else []
    assert good("systemd-analyze", *manager, "verify", "--man=no", unit,
                env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}) == ""
    if not manager:
        has_few_rights(unit)
    settings, store = service(unit), tmp_path / "queue.db"
    env = {**os.environ, "PAWL_STORE": str(store)}
    add = (installed / "opt/pawl/bin/pawl", "queue", "add", "-d", "a")
    good(*add, f"http://127.0.0.1:{upstream.port}/a", env=env)
    good(*add, f"http://127.0.0.1:{free_port()}/b", env=env)
    process = subprocess.Popen(settings["ExecStart"].split(), env=env, stdout=subprocess.DEVNULL)
    upstream.wait_for(1)
    process.send_signal(signal.SIGTERM)
    assert str(process.wait(PATIENCE)) in settings["SuccessExitStatus"].split()


# ---- the package ----


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    good("make", "deb", f"PAWL_BUILD={BUILD}", f"OUT={out}", cwd=ROOT)
    return next(out.glob("pawl_*.deb"))


def test_the_package_is_one_that_debian_takes(package):
    told = tool("lintian", "--fail-on", "error,warning", package)
    assert told.returncode == 0, told.stdout
    fields = good("dpkg-deb", "-f", package)
    assert all(one in fields for one in ("libsqlite3-0", "libssl3", "libpq5"))
    assert "./usr/share/doc/pawl/html/index.html\n" in good("dpkg-deb", "-c", package)


class Machine:
    """A root directory of its own that dpkg installs into, without being root."""

    def __init__(self, root: Path):
        self.root = root
        (root / "var/lib/dpkg").mkdir(parents=True)
        for name in ("status", "available"):
            (root / "var/lib/dpkg" / name).touch()
        for name in ("updates", "info", "triggers"):
            (root / "var/lib/dpkg" / name).mkdir()
        self.env = {**os.environ, **debconf_in(root, "")}
        self.before = self.files()

    def command(self, *arguments: str | Path) -> list[str]:
        return ["dpkg", f"--root={self.root}", f"--log={self.root}/var/log", "--force-not-root",
                "--force-depends", "--force-bad-path", "--force-script-chrootless",
                *map(str, arguments)]

    def dpkg(self, *arguments: str | Path) -> str:
        return good(*self.command(*arguments), env=self.env)

    def dpkg_asks(self, answer: str, *arguments: str | Path) -> str:
        """At a terminal, where somebody types this answer."""
        return good("script", "-qec", shlex.join(self.command(*arguments)), "/dev/null",
                    input=f"{answer}\n", env={**self.env, "DEBIAN_FRONTEND": "teletype"})

    def files(self) -> set[str]:
        return {name for name in below(self.root)
                if not name.startswith(("var/lib/dpkg/", "debconf.")) and name != "var/log"}

    def start(self, upstream_port: int) -> tuple[subprocess.Popen[bytes], int, socket.socket]:
        """As the unit does, until it says that it is ready: process, port, manager."""
        settings = service(self.root / UNIT)
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        manager.settimeout(PATIENCE)
        manager.bind(str(self.root / "notify"))
        config, port = self.root / "etc/pawl/pawl.yaml", free_port()
        config.parent.mkdir(parents=True)
        example = self.root / "usr/share/doc/pawl/examples/service/pawl.yaml"
        config.write_text(example.read_text("utf-8").replace(":8080", f":{port}")
                          .replace(":9000", f":{upstream_port}"))
        name, _, value = settings["Environment"].partition("=")
        (self.root / value.lstrip("/")).parent.mkdir(parents=True)
        words = [f"{self.root}{word}" if word.startswith("/") else word
                 for word in settings["ExecStart"].split()]
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL, env={
            **os.environ, name: f"{self.root}{value}", "NOTIFY_SOCKET": str(self.root / "notify")})
        assert manager.recv(4096).startswith(b"READY=1")
        return process, port, manager


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    yield Machine(tmp_path / "root")


def test_the_package_installs_starts_removes_and_purges_cleanly(machine, package, upstream):
    """found: C-M14. A purge deletes what was done only if somebody says so."""
    machine.dpkg("--install", package)
    assert "usr/bin/pawl" in machine.files()
    process, port, manager = machine.start(upstream.port)
    try:
        with Client(port) as client:
            answer = client.request("POST", "/refunds", [
                ("Idempotency-Key", "k1"), ("X-Merchant-Id", "m1"),
                ("Content-Type", "application/json")], b'{"amount": 1}')
        assert answer.mark == (201, "stored")
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        manager.close()
        (machine.root / "notify").unlink()
    store = machine.root / "var/lib/pawl/pawl.db"
    machine.dpkg("--remove", "pawl")
    kept = machine.files() - machine.before
    assert store.exists() and all(name.startswith(("var/lib/pawl/", "etc/pawl/")) for name in kept)
    told = machine.dpkg("--purge", "pawl")
    assert "kept" in told and "/var/lib/pawl\n" in told
    assert store.exists() and not (machine.root / "etc/pawl").exists()
    machine.dpkg("--install", package)
    assert "[yes/no]" in machine.dpkg_asks("yes", "--purge", "pawl")
    assert machine.files() == machine.before
