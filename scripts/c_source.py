# SPDX-License-Identifier: Apache-2.0
"""C sources as scripts/lint reads them: functions, objects, includes, names."""
from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Iterator

KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "do", "else", "case"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)


def comments(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of the lines of comments."""
    for found in TOKEN.finditer(text):
        if found.group(0)[0] == "/":
            first = text.count("\n", 0, found.start()) + 1
            yield from enumerate(found.group(0).split("\n"), first)


def strip_code(text: str) -> str:
    """`text` with comments and the insides of literals turned to blanks; lines stay."""

    def blank(match: re.Match[str]) -> str:
        found = match.group(0)
        if found[0] in "\"'":
            return found[0] + " " * (len(found) - 2) + found[0]
        return re.sub(r"[^\n]", " ", found)

    return TOKEN.sub(blank, text)


def drop_preprocessor(code: str) -> str:
    """`code` without directives and their continuation lines; lines stay."""
    out, inside = [], False
    for line in code.split("\n"):
        directive = inside or line.lstrip().startswith("#")
        inside = directive and line.rstrip().endswith("\\")
        out.append("" if directive else line)
    return "\n".join(out)


def drop_attributes(text: str) -> str:
    while (found := re.search(r"\b(__attribute__|_Alignas|alignas)\s*\(", text)) is not None:
        end = closing(text, found.end() - 1)
        text = text[:found.start()] + " " * (end + 1 - found.start()) + text[end + 1:]
    return text


def closing(text: str, at: int) -> int:
    """The place of the parenthesis that closes the one at `at`; the last place if there is none."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return len(text) - 1


@dataclass
class Function:
    name: str
    line: int  # where it begins, from 1
    parameters: int
    body_lines: int  # 0: a prototype
    static: bool


def function_head(text: str, line: int) -> Function | None:
    """Reads a declaration without its body or semicolon; None if it declares no function."""
    plain = drop_attributes(text)
    found = CALL.search(plain)
    if found is None or found.group(1) in KEYWORDS or "=" in plain[:found.start()]:
        return None
    before = plain[:found.start()].split()
    if not before or before[0] == "typedef":
        return None
    inside = plain[found.end():closing(plain, found.end() - 1)]
    if inside.lstrip().startswith("*"):
        return None
    depth, parts = 0, [""]
    for char in inside:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    named = [part for part in parts if part.strip() not in ("", "void", "...")]
    begin = line + text[:len(text) - len(text.lstrip())].count("\n")
    return Function(found.group(1), begin, len(named), 0, "static" in before)


def functions(code: str) -> Iterator[Function]:
    """Definitions and prototypes at file level of code without comments and directives."""
    depth, start, line, start_line, body_line = 0, 0, 1, 1, 1
    head: Function | None = None
    for i, char in enumerate(code):
        if char == "\n":
            line += 1
        elif char == "{":
            if depth == 0:
                head, body_line = function_head(code[start:i], start_line), line
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0 and head is not None:
                head.body_lines = line - body_line + 1
                yield head
                head, start, start_line = None, i + 1, line
        elif char == ";" and depth == 0:
            found = function_head(code[start:i], start_line)
            if found is not None and "{" not in code[start:i]:
                yield found
            start, start_line = i + 1, line


def objects(code: str) -> Iterator[tuple[str, int]]:
    """(name, line) of the objects that are defined, not only declared, and not static, at file
    level of code without comments and directives."""
    depth, text, line, start_line = 0, "", 1, 1
    for char in code:
        line += char == "\n"
        depth -= char == "}"
        if depth == 0:
            text += char
        depth += char == "{"
        function = char == "}" and function_head(text.split("{")[0], 1) is not None
        if depth == 0 and (char == ";" or function):
            found = re.search(r"(\w+)\s*(\[[^=]*)?(=.*|;)$", text.strip(), re.S)
            words = text.split()
            kept = function or not found or len(words) < 2 or "(" in text.split("=")[0]
            if not kept and words[0] not in ("static", "extern", "typedef", "_Static_assert"):
                if "=" in text or "{" not in text:
                    yield found.group(1), start_line
            text = ""
        if not text.strip():
            text, start_line = "", line


@dataclass
class Source:
    path: str  # from the root
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def code(self) -> str:
        return strip_code(self.text)

    @cached_property
    def functions(self) -> list[Function]:
        return list(functions(drop_preprocessor(self.code)))

    @cached_property
    def exports(self) -> list[tuple[str, int]]:
        """(name, line) of what the file defines for others: functions and objects."""
        found = [(f.name, f.line) for f in self.functions if f.body_lines and not f.static]
        return found + list(objects(drop_preprocessor(self.code)))

    @cached_property
    def named_sources(self) -> list[str]:
        """The sources that a header's first comment names, from its own folder or the root on."""
        folder = self.path.rpartition("/")[0]
        names = re.findall(r"[\w/]+\.c\b", self.text.partition("\n#")[0])
        return [name if name.startswith("src/") else f"{folder}/{name}" for name in names]

    @cached_property
    def beliefs(self) -> int:
        """How many the file asserts: each part of a CHECK that `&&` joins is one."""
        found = len(re.findall(r"\b(UNREACHABLE|\w+_check)\(", self.code))
        for check in re.finditer(r"\bCHECK\(", self.code):
            inside = self.code[check.end():closing(self.code, check.end() - 1)]
            while (flat := re.sub(r"\([^()]*\)", " ", inside)) != inside:
                inside = flat
            found += 1 + inside.count("&&")
        return found

    @cached_property
    def words(self) -> Counter[str]:
        """How often each name occurs outside comments and literals."""
        return Counter(re.findall(r"[A-Za-z_]\w*", self.code))

    @cached_property
    def pasted(self) -> set[str]:
        """The names that a table may make of its words, `word##_tail`."""
        tails = re.findall(r"##\s*(_\w+)", self.code)
        return {word + tail for tail in tails for word in self.words}

    @cached_property
    def tabled(self) -> set[str]:
        """The names that a table declares by its words, `extern ... head_##word;`."""
        heads = re.findall(r"\bextern\b[^;{]*?(\w+_)##\s*\w+;", self.code)
        return {head + word for head in heads for word in self.words}

    @cached_property
    def hooks(self) -> str:
        """What stands between `#ifdef PAWL_HOOKS` and its `#endif`."""
        return "".join(re.findall(r"^#ifdef PAWL_HOOKS$(.*?)^#endif$", self.code, re.S | re.M))

    @cached_property
    def includes(self) -> list[tuple[int, bool, str]]:
        """(line, whether in quotes, name)."""
        found = ((n, INCLUDE.match(line)) for n, line in enumerate(self.lines, 1))
        return [(n, m.group(1) == '"', m.group(2)) for n, m in found if m]

    @property
    def is_c(self) -> bool:
        return self.path.endswith((".c", ".h"))

    @property
    def in_src(self) -> bool:
        return self.path.startswith("src/")
