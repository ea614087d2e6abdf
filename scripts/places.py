# SPDX-License-Identifier: Apache-2.0
"""Places in C sources by what stands there: within a function, code that it has once, however it
is laid out."""
from __future__ import annotations

import re

from c_source import closing, strip_code


class NoPlace(Exception):
    """The function or the code is not there, or not once."""


def body_of(code: str, function: str) -> tuple[int, int]:
    """The inside of the one definition."""
    found = []
    for head in re.finditer(rf"^\w[^;{{}}=]*?\b{function}\(", code, re.M):
        brace = re.compile(r"\s*\{").match(code, closing(code, head.end() - 1) + 1)
        if brace:
            found.append((brace.end(), code.index("\n}", brace.end())))
    if len(found) != 1:
        raise NoPlace(f"{function} is defined {len(found)} times")
    return found[0]


def replace(text: str, function: str, old: str, new: str) -> str:
    """The source with something else there; `{}` in it is what stood there."""
    code = strip_code(text)
    tokens = re.compile(r"\s*".join(re.escape(token) for token in re.findall(r"\w+|\S", old)))
    found = list(tokens.finditer(code, *body_of(code, function)))
    if len(found) != 1:
        raise NoPlace(f"{function} has `{old}` {len(found)} times")
    begin, end = found[0].span()
    return text[:begin] + new.replace("{}", text[begin:end]) + text[end:]
