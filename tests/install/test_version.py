# SPDX-License-Identifier: Apache-2.0
"""What a source tree says that it is: a release, something between two, a copy."""
from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pawltest.gateway import ROOT

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b.invalid", "-C")
NUMBER = (ROOT / "VERSION").read_text("utf-8").strip()


def git(tree: Path, *arguments: str) -> str:
    return subprocess.run([*GIT, str(tree), *arguments], check=True, capture_output=True,
                          text=True).stdout.strip()


def told(tree: Path) -> list[str]:
    return subprocess.run([tree / "scripts/version"], check=True, capture_output=True,
                          text=True).stdout.split()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "packaging").mkdir()
    for name in ("VERSION", "scripts/version"):
        shutil.copy2(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def commit(tree: Path) -> str:
    git(tree, "init", "--quiet")
    git(tree, "add", ".")
    git(tree, "commit", "--quiet", "-m", "a")
    return git(tree, "rev-parse", "HEAD")


def test_between_releases_the_version_names_the_commit(tree, commit):
    assert told(tree)[:2] == [f"{NUMBER}-dev+{commit[:12]}", commit]


def test_a_tagged_commit_is_the_release_unless_a_file_was_changed(tree, commit):
    git(tree, "tag", "-a", "-m", "a", f"v{NUMBER}")
    assert told(tree) == [NUMBER, commit, git(tree, "log", "-1", "--format=%ct")]
    (tree / "scripts/version").open("a").write("# more\n")
    assert told(tree)[0] == f"{NUMBER}-dev+{commit[:12]}.changed"


def test_the_tag_of_another_version_is_no_release(tree, commit):
    git(tree, "tag", "v0.0.1")
    assert told(tree)[0] == f"{NUMBER}-dev+{commit[:12]}"


def test_a_copy_without_git_is_no_release_and_a_packed_source_is_what_it_was_packed_as(tree):
    assert told(tree) == [f"{NUMBER}-dev", "unknown", "0"]
    (tree / "packaging/source").write_text("1.2.3 abc 5\n")
    assert told(tree) == ["1.2.3", "abc", "5"]


def test_a_tree_inside_another_repository_does_not_take_its_commit(tree, commit):
    inside = tree / "inside"
    inside.mkdir()
    for name in ("VERSION", "scripts"):
        (shutil.copytree if name == "scripts" else shutil.copy2)(tree / name, inside / name)
    assert told(inside)[1] == "unknown"


def test_what_is_compiled_is_written_only_if_it_changed(tree, commit):
    written = tree / "build.c"
    run = [tree / "scripts/version", "--to", str(written)]
    subprocess.run(run, check=True)
    assert re.search(rf'{{"{NUMBER}-dev\+{commit[:12]}", "{commit}"}};$', written.read_text(), re.M)
    before = written.stat().st_mtime_ns
    subprocess.run(run, check=True)
    assert written.stat().st_mtime_ns == before
