# SPDX-License-Identifier: Apache-2.0
"""Places in C sources by what stands there, so that a line that moves or is put in other words is
still found: the function, and within it a condition, a value or a call.

A place is pairs of words, each looked for within what the one before found:

    if N         the condition of the N-th `if`
    return N     what the N-th `return` gives
    call NAME    the first call of it, with its arguments
    word NAME    the first time that it is named
    = NAME       the first value that it is given
    case LABEL   what stands between that label (`default` too) and the next
"""
from __future__ import annotations

import re

from c_source import closing, strip_code

Span = tuple[int, int]


class NoPlace(Exception):
    """The function or the place is not there, or not once."""


def body_of(code: str, function: str) -> Span:
    """The inside of the one definition."""
    found = []
    for head in re.finditer(rf"^\w[^;{{}}=]*?\b{function}\(", code, re.M):
        brace = re.compile(r"\s*\{").match(code, closing(code, head.end() - 1) + 1)
        if brace:
            found.append((brace.end(), code.index("\n}", brace.end())))
    if len(found) != 1:
        raise NoPlace(f"{function} is defined {len(found)} times")
    return found[0]


def end_of_value(code: str, at: int) -> int:
    """The `;` or `,` that ends what begins there, or the bracket around it."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth < 0 or depth == 0 and code[i] in ";,":
            return i
    return len(code)


def within(code: str, span: Span, kind: str, which: str) -> Span:
    """What one pair of words finds there."""
    patterns = {"if": r"\bif \(", "return": r"\breturn ", "call": rf"\b{which}\(",
                "word": rf"\b{which}\b", "=": rf"\b{which} =(?!=)\s*",
                "case": rf"\b(?:case )?{which}:"}
    found = list(re.compile(patterns[kind]).finditer(code, *span))
    nth = int(which) - 1 if kind in ("if", "return") else 0
    if nth >= len(found):
        raise NoPlace(f"no `{kind} {which}`")
    match = found[nth]
    if kind == "if":
        return match.end(), closing(code, match.end() - 1)
    if kind == "word":
        return match.span()
    if kind == "call":
        return match.start(), closing(code, match.end() - 1) + 1
    if kind == "case":
        label = re.compile(r"\b(?:case [\w :]+|default):").search(code, match.end(), span[1])
        return match.end(), label.start() if label else span[1]
    return match.end(), end_of_value(code, match.end())


def find(text: str, function: str, place: str) -> Span:
    """Where it stands in the source; raises NoPlace."""
    code = strip_code(text)
    span = body_of(code, function)
    words = place.split()
    for kind, which in zip(words[::2], words[1::2], strict=True):
        span = within(code, span, kind, which)
    return span


def replace(text: str, function: str, place: str, new: str) -> str:
    """The source with something else there; `{}` in it is what stood there."""
    begin, end = find(text, function, place)
    return text[:begin] + new.replace("{}", text[begin:end]) + text[end:]
