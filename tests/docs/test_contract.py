# SPDX-License-Identifier: Apache-2.0
"""docs/contract.md has what others cite of it, and its tables say what the code does; comments
point to nothing that is not here."""
from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = (ROOT / "docs/contract.md").read_text("utf-8")
KINDS = {".c", ".h", ".py", ".md", ".pml", ".build", ""}
SKIPPED = ("__pycache__", "corpus", "subprojects")
FILES = [path for top in ("src", "tests", "docs", "scripts", "bench", "examples", "packaging")
         for path in sorted((ROOT / top).rglob("*"))
         if path.is_file() and path.suffix in KINDS and not set(path.parts) & set(SKIPPED)]
SOURCES = [path for path in FILES if path.suffix != ".md"
           and path.name not in ("test_lint.py", "test_contract.py")]  # of a tree that they make up
NUMBERS = r"(\d+(?:\.\d+)*(?:(?:,| and| to|, and) (?=\d)\d+(?:\.\d+)*)*)"
SECTION = re.compile(rf"\bcontract sections? {NUMBERS}", re.I)
INVARIANT = re.compile(rf"\binvariants? {NUMBERS}", re.I)
NAMED = re.compile(r"(?<![\w/.-])((?:scripts|docs|examples|src|tests|bench|packaging)/[\w./-]*\w"
                   r"|(?:base|core|observe|fiber|http|store|engine|operator|config|gateway|admin"
                   r"|demo|daemon|cli)/[\w./-]*\w\.[ch])\b")
DOCUMENT = re.compile(r"(?<![\w/.-])([\w-]+\.md)\b")
COMMENT = re.compile(r"/\*.*?\*/", re.S)


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_of(path: Path) -> str:
    """Sentences on one line each, whatever a comment begins its lines with."""
    return re.sub(r"\s*\n[ \t]*(?:\*(?!/)|#|//)?[ \t]*", " ", path.read_text("utf-8", "replace"))


def numbers(text: str, pattern: re.Pattern[str]) -> list[str]:
    """What is cited, each number of a list and of a range."""
    found = []
    for cited in pattern.findall(text):
        for part in re.split(r", and |, | and ", cited):
            first, _, last = part.partition(" to ")
            found += [str(n) for n in range(int(first), int(last) + 1)] if last else [first]
    return found


def rows(heading: str) -> list[list[str]]:
    section = re.split(rf"^## {heading}.*$", CONTRACT, flags=re.M)[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for line in section.splitlines() if line.startswith("|")]


def macro(path: str, name: str) -> str:
    """The body of a table in a header, on one line."""
    body = (ROOT / path).read_text("utf-8").split(f"#define {name}(X)")[1].split("\n\n")[0]
    return re.sub(r"\s*\\\n\s*", " ", body)


@cache
def sections() -> set[str]:
    return set(re.findall(r"^## (\d+)\. ", CONTRACT, re.M))


@cache
def invariants() -> set[str]:
    part = CONTRACT.split("### Invariants")[1].split("\n###")[0]
    return set(re.findall(r"^(\d+)\. \*\*", part, re.M))


def missing(text: str) -> list[str]:
    return [f"section {n}" for n in numbers(text, SECTION) if n not in sections()] + \
           [f"invariant {n}" for n in numbers(text, INVARIANT) if n not in invariants()]


def test_sections_and_invariants_are_numbered_without_a_gap():
    assert sections() == {str(n) for n in range(1, 12)}
    assert invariants() == {str(n) for n in range(1, 14)}


def test_every_citation_of_the_contract_is_there():
    found = {ids(path): missing(text_of(path)) for path in FILES
             if path.name != "test_contract.py"}
    assert not {path: lack for path, lack in found.items() if lack}
    cited = [n for path in FILES if path.suffix == ".h" for n in numbers(text_of(path), SECTION)]
    assert len(cited) > 30


@pytest.mark.parametrize("text, lack", [
    ("(contract section 3, `once:`) and invariants 1 to 3, 5 and 13", []),
    ("contract sections 5 to 7; contract section 2, invariant 12", []),
    ("contract sections 2.12 and 5", ["section 2.12"]),
    ("contract sections 11, 12 and 13", ["section 12", "section 13"]),
    ("Invariants 12 to 14", ["invariant 14"])])
def test_a_citation_of_what_is_not_there_is_found(text, lack):
    assert missing(text) == lack


def test_the_error_codes_are_those_of_the_code():
    table = "".join(macro("src/core/errors.h", name)
                    for name in ("PAWL_ERRORS", "PAWL_ERROR_FAMILIES"))
    word = {"true": "yes", "false": "no"}
    there = [[f"`{code}`", status, word[retryable], word[safe], number]
             for code, status, retryable, safe, number in re.findall(
                 r'X\(\w+, "([^"]+)", (\d+), "\w+", (true|false), (true|false), (\d+),', table)]
    assert len(there) > 25
    assert [row for row in rows("6") if len(row) == 5][2:] == there


def test_the_exit_codes_are_those_of_the_code():
    there = [list(row) for row in re.findall(r'X\(\w+, (\d+), "([^"]+)"\)',
                                             macro("src/core/errors.h", "PAWL_EXIT_CODES"))]
    assert len(there) > 5
    assert [row for row in rows("7") if row[0].isdigit()] == there


def test_the_outcomes_are_those_of_the_code():
    table = macro("src/observe/metrics.h", "METRICS_OUTCOMES")
    shown = re.search(r"the\s+outcomes\s+are\s+(.*?)\.\n", CONTRACT, re.S)
    assert shown
    assert sorted(re.findall(r"`(\w+)`", shown[1])) == sorted(re.findall(r'X\(\w+, "(\w+)"', table))


def test_the_defaults_are_those_of_the_code():
    table = macro("src/config/options.h", "CONFIG_OPTIONS")
    shown = [pair for row in rows("11")[2:] for pair in (row[:2], row[2:])]
    assert len(shown) > 20
    for name, default in shown:
        there = re.search(rf'X\({name.strip("`")}, [^"]*"((?:[^"\\]|\\.)*)"', table)
        assert there and default == f"`{there[1]}`".replace('\\"', '"'), name


def comments(path: Path) -> str:
    """What a source says to its readers."""
    text = path.read_text("utf-8", "replace")
    if path.suffix in (".c", ".h", ".pml"):
        return "\n".join(COMMENT.findall(text))
    if path.suffix != ".py" and not text.startswith("#!/usr/bin/python3"):
        return "\n".join(re.findall(r"^\s*#.*$", text, re.M))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    said = [token.string for token in tokens if token.type == tokenize.COMMENT]
    nodes = [node for node in ast.walk(ast.parse(text))
             if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))]
    return "\n".join(said + [ast.get_docstring(node) or "" for node in nodes])


def is_here(name: str) -> bool:
    """The file, the folder, or what begins so: docs/decisions/0007; NAME stands for any."""
    begins = re.sub(r"\*+$", "", name.replace("NAME", "*"))
    return any((top / name).exists() or any(top.glob(begins + "*")) for top in (ROOT, ROOT / "src"))


def test_files_that_comments_name_exist():
    lack = {(ids(path), name) for path in SOURCES for name in NAMED.findall(comments(path))
            if not is_here(name)}
    assert not lack


def test_documents_that_comments_and_documents_name_exist():
    there = {path.name for path in ROOT.rglob("*.md")}
    lack = {(ids(path), name) for path in FILES if path.name != "test_contract.py"
            for name in DOCUMENT.findall(comments(path) if path in SOURCES
                                         else path.read_text("utf-8"))
            if name not in there}
    assert not lack
