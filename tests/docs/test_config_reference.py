# SPDX-License-Identifier: Apache-2.0
"""docs/config-reference.md is what scripts/config-reference prints, and what it says is so."""
from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAWL = Path(os.environ.get("PAWL_BIN", ROOT / "build" / "pawl"))
PAGE = (ROOT / "docs/config-reference.md").read_text("utf-8")
EXAMPLE = re.compile(r"^### (\w+)\n.*?^- ([^;]+); (?:applied|needs).*?^- example: `(.*?)`$",
                     re.M | re.S)
EXAMPLES = EXAMPLE.findall(PAGE)
SOURCES = re.findall(r"^\| `(\{.*\})` \| .* \| (yes|no) \| (yes|no) \| (yes|no) \|$", PAGE, re.M)
TOP = {"upstream": "http://h", "tenant": '"{header:X-T}"', "trust_tenant": "true"}
RULE = {"name": "a", "match": "POST /a/{id}"}
# Without which an option has no effect, or does not fit.
BESIDE = {"probe_status": {"unknown": '{probe: "GET /a/{key}"}'},
          "replay": {"payload": "{exclude: [/id]}"},
          "not_found": {"unknown": '{probe: "GET /a/{key}"}'},
          "probe_headers": {"unknown": '{probe: "GET /{tenant}/a/{key}"}'},
          "upstream_tls": {"upstream": "https://h"}, "key": {"match": "POST /a/{id}"},
          "key_max_age": {"key_format": "uuid7"},
          "authorize_host": {"authorize": "GET /a/{tenant}"}}


def generator():
    loader = importlib.machinery.SourceFileLoader("config_reference",
                                                  str(ROOT / "scripts/config-reference"))
    spec = importlib.util.spec_from_loader("config_reference", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def explain(folder: Path, top: dict[str, str], rule: dict[str, str]) -> str:
    """What is wrong with the config; empty: nothing."""
    config = folder / "pawl.yaml"
    lines = [f"{name}: {value}\n" for name, value in top.items()]
    if "rules" not in top:
        lines += ["rules:\n  -\n", *(f"    {name}: {value}\n" for name, value in rule.items())]
    config.write_text("".join(lines), "utf-8")
    ran = subprocess.run([PAWL, "config", "explain", "-c", config], capture_output=True, text=True,
                         timeout=60, check=False)
    return ran.stderr if ran.returncode else ""


def test_the_page_is_what_the_generator_prints():
    assert generator().page(PAWL) == PAGE, "run scripts/config-reference (see its head)"


def test_every_option_has_an_example():
    assert [name for name, _, _ in EXAMPLES] == re.findall(r"^### (\w+)$", PAGE, re.M)
    assert len(EXAMPLES) > 70 and len(SOURCES) == 21


@pytest.mark.parametrize("name, where, example", EXAMPLES, ids=[name for name, _, _ in EXAMPLES])
def test_an_example_is_accepted_where_the_page_allows_it(tmp_path, name, where, example):
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    value = example.removeprefix(f"{name}: ").replace("/etc/pawl/admin-token", str(token))
    beside = BESIDE.get(name, {})
    for place in re.split(r", | or ", where):
        top, rule = {**TOP}, {**RULE}
        for one, other in beside.items():
            (top if one in top else rule)[one] = other
        if place == "at the top":
            top[name] = value
        elif place == "in defaults":
            top["defaults"] = f"{{{name}: {value}}}"
        else:
            rule[name] = value
        assert explain(tmp_path, top, rule) == ""


@pytest.mark.parametrize("source, in_key, in_tenant, in_probe", SOURCES)
def test_a_source_is_accepted_where_the_table_says_so(tmp_path, source, in_key, in_tenant,
                                                      in_probe):
    source = source.replace("param", "id").replace("Area/City", "UTC")
    probe = {"unknown": f"{{probe: \"GET /a/{source}?id={{key}}\"}}"}
    for said, top, rule in ((in_key, {}, {"key": f'"{{body:/x}} {source}"'}),
                            (in_tenant, {"tenant": f'"{source}"'}, {}), (in_probe, {}, probe)):
        problem = explain(tmp_path, {**TOP, **top}, {**RULE, **rule})
        assert (problem == "") == (said == "yes"), problem
