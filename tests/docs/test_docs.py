# SPDX-License-Identifier: Apache-2.0
"""What the documents say is so: their links lead somewhere, the scripts, files and tests they name
exist, and the binary ($PAWL_BIN) takes every config they show."""
from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAWL = Path(os.environ.get("PAWL_BIN", ROOT / "build" / "pawl"))
SKIPPED = ("build", ".git", ".pytest")
DOCUMENTS = [path for path in sorted(ROOT.rglob("*.md"))
             if not path.relative_to(ROOT).parts[0].startswith(SKIPPED)]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"(?<![\w/.-])((?:scripts|docs|examples|src|tests|bench|model|packaging|ext)/"
                   r"[\w./-]*\w)")
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.M | re.S)
HEADING = re.compile(r"^#+ +(.*)$", re.M)
TEST = re.compile(r"\b(\w+/test_\w+\.(?:py|c))::(\w+)")
PROMISES = (ROOT / "tests/promises.md").read_text("utf-8")
LISTEN = re.compile(r"^(listen|upstream|rules):", re.M)


def anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-")


def prose(text: str) -> str:
    return FENCE.sub("", text)


def configs() -> list[tuple[str, str]]:
    shown = [(str(path.relative_to(ROOT)), path.read_text("utf-8"))
             for path in sorted((ROOT / "examples").rglob("*.yaml"))]
    shown += [(f"{path.relative_to(ROOT)}#{i}", body) for path in DOCUMENTS
              for i, (kind, body) in enumerate(FENCE.findall(path.read_text("utf-8")))
              if kind in ("yaml", "yml")]
    return [(name, text) for name, text in shown if len(set(LISTEN.findall(text))) == 3]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    text = path.read_text("utf-8")
    for link in LINK.findall(prose(text)):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, fragment = link.partition("#")
        file = (path.parent / target) if target else path
        assert file.exists(), link
        if fragment and file.suffix == ".md":
            assert fragment in map(anchor, HEADING.findall(file.read_text("utf-8"))), link


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path.is_relative_to(ROOT / "docs")
                                  and not path.name.startswith("0")], ids=lambda path: path.name)
def test_a_page_begins_with_whom_it_is_for(path):
    """Decisions, whose names begin with their number, are for one kind of reader."""
    assert re.match(r"# [^\n]+\n\nFor ", path.read_text("utf-8"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_are_named_exist(path):
    for name in NAMED.findall(path.read_text("utf-8")):
        assert any(base.exists() for base in (ROOT / name, path.parent / name)) or \
            any(ROOT.glob(name + "*")), name


def runs(file: Path, test: str) -> bool:
    """Whether the file has this test, and runs it: in C it is defined and then listed."""
    if not file.is_file():
        return False
    text = file.read_text("utf-8")
    if file.suffix == ".py":
        return test.startswith("test_") and f"\ndef {test}(" in text
    listed = re.search(rf"(?:\bT|BED_TEST(?:_AFTER)?|cmocka_unit_test)\(\s*{test}[,)]", text)
    defined = re.search(rf"\nstatic void {test}\(\s*void \*\*", text)
    return defined is not None and listed is not None


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_tests_that_are_named_exist(path):
    missing = [f"{file}::{test}" for file, test in TEST.findall(path.read_text("utf-8"))
               if not runs(ROOT / "tests" / file, test)]
    assert not missing


def test_the_code_on_the_page_of_the_simulation_is_in_it():
    folder = ROOT / "tests/simulation"
    sources = " ".join(" ".join(path.read_text("utf-8").split()) for path in folder.glob("*.c"))
    page = (folder / "README.md").read_text("utf-8")
    shown = re.findall(r"^ {7}.*(?:\n(?: {7}.*)?)*", page, re.M)
    assert len(shown) == 2
    assert all(" ".join(block.split()) in sources for block in shown)


def test_every_invariant_has_its_tests():
    parts = re.split(r"^### (\d+)\. ", PROMISES.partition("## Answers")[0], flags=re.M)[1:]
    assert parts[::2] == [str(n) for n in range(1, 14)]
    assert all(TEST.search(part) for part in parts[1::2])


@pytest.mark.parametrize("what, table, name", [
    ("crash point", "src/base/crash_points.h", r"^    X\((\w+)\)"),
    ("error code", "src/core/errors.h", r"^    X\(\w+,\s*\"([^\"]+)\"")])
def test_every_crash_point_and_error_code_has_its_tests(what, table, name):
    names = re.findall(name, (ROOT / table).read_text("utf-8"), re.M)
    rows = [line for line in PROMISES.splitlines() if line.startswith("|")]
    assert len(names) > 15
    for each in names:
        assert any(f"`{each}`" in row for row in rows), f"{what} {each}"


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in configs()])
def test_a_config_that_is_shown_is_taken(tmp_path, text):
    config = tmp_path / "examples/one/pawl.yaml"  # where ../../build is a folder, as it is here
    config.parent.mkdir(parents=True)
    (tmp_path / "build").mkdir()
    config.write_text(text)
    ran = subprocess.run([str(PAWL), "serve", "--test", "-c", str(config)], capture_output=True,
                         text=True, timeout=30, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_config_here_is_looked_at():
    assert any(name == "examples/demo/pawl.yaml" for name, _ in configs())


def test_every_class_of_warnings_is_in_the_guide():
    table = (ROOT / "src/config/warnings.h").read_text("utf-8")
    names = re.findall(r'^    X\(\w+, "([a-z0-9-]+)"\)', table, re.M)
    guide = (ROOT / "docs/guide/operating.md").read_text("utf-8")
    assert len(names) > 10
    assert names == re.findall(r"^\| `([a-z0-9-]+)` \|", guide.split("## Check a config")[1]
                               .split("\n## ")[0], re.M)


def numbers_of(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def test_the_changelog_has_what_is_to_come_and_then_the_last_release():
    """VERSION is that one in the commit of a release, and the next one from then on."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    version = (ROOT / "VERSION").read_text("utf-8").strip()
    headings = re.findall(r"^## \[([^]]+)\](?: - \d{4}-\d\d-\d\d)?$", text, re.M)
    assert headings[0] == "Unreleased"
    assert numbers_of(headings[1]) <= numbers_of(version)
    sections = set(re.findall(r"^### (.*)$", text, re.M))
    assert sections <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_page_on_security_names_every_header_that_counts_as_a_credential():
    source = (ROOT / "src/core/template/template_source.c").read_text("utf-8")
    function = source.partition("static bool is_credential(")[2].partition("\n}")[0]
    names = re.findall(r'\{"([\w-]+)", \d+\}', function)
    page = (ROOT / "docs/security.md").read_text("utf-8")
    assert len(names) == 4 and all(f"`{name}`" in page for name in names)
