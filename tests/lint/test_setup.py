# SPDX-License-Identifier: Apache-2.0
"""scripts/setup where there is no apt-get: it says what is needed, and never more than it knows."""
from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("bash", "dirname", "cat", "env")
NEEDED = ("cc", "meson", "ninja", "pkg-config", "curl", "sqlite3")


def run_setup(directory: Path, found: tuple[str, ...], *arguments: str,
              system: str = "linux-gnu") -> tuple[int, str]:
    """Its exit status and what it printed, on a system that has these commands; each of them does
    nothing, successfully."""
    for name in found:
        (directory / name).symlink_to("/bin/true")
    for name in TOOLS:
        (directory / name).symlink_to(Path("/usr/bin") / name)
    ran = subprocess.run(["bash", str(ROOT / "scripts/setup"), *arguments], text=True, check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30,
                         env={"PATH": str(directory), "OSTYPE": system})
    return ran.returncode, ran.stdout


def test_all_that_a_build_needs_is_there(tmp_path):
    """found: C-H9"""
    status, told = run_setup(tmp_path, NEEDED)
    assert (status, "not found" in told) == (0, False)
    assert "libyaml-dev" in told


@pytest.mark.parametrize("lacking", ["meson", "cc"])
def test_what_is_missing_is_named(tmp_path, lacking):
    """found: C-H9"""
    status, told = run_setup(tmp_path, tuple(name for name in NEEDED if name != lacking))
    assert status == 69
    assert f"not found: {lacking} " in told and "command not found" not in told


def test_libraries_are_missing_without_pkg_config(tmp_path):
    """found: C-H9"""
    status, told = run_setup(tmp_path, ("cc", "meson", "ninja", "curl", "sqlite3"))
    assert status == 69
    assert ("pkg-config libcrypto.pc libpq.pc nettle.pc sqlite3.pc yaml-0.1.pc libzstd.pc zlib.pc"
            in told)


def test_clients_for_tests_need_npm(tmp_path):
    """found: C-H9"""
    status, told = run_setup(tmp_path, NEEDED, "--test")
    assert status == 69 and "not found: npm " in told


@pytest.mark.parametrize("manager, command", [
    ("apk", "apk add samurai openssl-dev libpq-dev nettle-dev sqlite-dev yaml-dev zstd-dev"
            " zlib-dev pkgconf"),
    ("dnf", "dnf install ninja-build pkgconf-pkg-config openssl-devel libpq-devel nettle-devel"
            " sqlite-devel libyaml-devel libzstd-devel zlib-devel"),
    ("pacman", "pacman -S ninja pkgconf openssl postgresql-libs nettle sqlite libyaml zstd zlib"),
    ("brew", "brew install ninja pkgconf openssl@3 libpq nettle sqlite libyaml zstd zlib")])
def test_what_is_missing_has_the_names_of_the_package_manager_that_is_there(tmp_path, manager,
                                                                            command):
    status, told = run_setup(tmp_path, ("cc", "meson", "curl", "sqlite3", manager))
    assert status == 69
    [said] = re.findall(r"with: (.*)$", told, re.M)
    assert sorted(said.split()) == sorted(command.split())


@pytest.mark.parametrize("system", ["darwin23", "linux-musl", "freebsd14.0"])
def test_a_system_that_pawl_was_not_ported_to_is_named_even_if_all_is_there(tmp_path, system):
    status, told = run_setup(tmp_path, NEEDED, system=system)
    assert status == 69
    assert system in told and "docs/porting.md" in told and "not found" not in told
