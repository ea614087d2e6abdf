# SPDX-License-Identifier: Apache-2.0
"""What is built from the tables beside the binary: manual pages, and the completion of bash."""
from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from pawltest.gateway import PAWL, run
from pawltest.wire import PATIENCE

pytestmark = pytest.mark.no_store

PAGES = PAWL.resolve().parent / "packaging"
MANUALS = [PAGES / "pawl.1", PAGES / "pawl.yaml.5"]
COMPLETION = PAGES / "pawl"


def tool(*arguments: str | Path, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE,
                          check=False, **more)


def read(page: Path) -> str:
    """As a reader sees it, without hyphenation, in words."""
    ran = tool("groff", "-man", "-Tutf8", "-P-cbou", "-rHY=0", "-rLL=400n", page)
    assert ran.returncode == 0
    return " ".join(ran.stdout.replace("\u2212", "-").replace("\u2010", "-").split())


@pytest.mark.parametrize("page", MANUALS, ids=lambda page: page.name)
def test_the_manual_pages_are_written_without_fault(page):
    for ran in (tool("groff", "-man", "-ww", "-z", page), tool("mandoc", "-T", "lint", page)):
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_the_manual_has_every_command_and_flag():
    text = read(MANUALS[0])
    commands = re.findall(r"^  (\w+) ", run("help").stdout, re.M)
    commands += [f"keys {name}" for name in re.findall(r"^  (\w+) ", run("help", "keys").stdout,
                                                       re.M)]
    for command in commands:
        part = run("help", *command.split()).stdout
        assert f" pawl {command} {part.splitlines()[0][7:]} " in text, command
        for flag in re.findall(r"^  (?:-\w,|   ) (--[\w-]+)", part, re.M):
            assert flag == "--help" or f"{flag} " in text


def plain(text: str) -> str:
    """As the manual shows a help text."""
    return " ".join(text.replace("`", "").split())


def test_the_manual_has_every_option_of_the_config_with_its_default():
    text = read(MANUALS[1])
    for option in json.loads(run("config", "explain", "--json").stdout)["options"]:
        default = option.get("default", option.get("without"))
        assert f" {option['name']} {plain(option['help'])}. Default {default}; " in text
        for part in option.get("parts", []):
            default = part.get("default", part.get("without"))
            assert f" {part['name']}: {plain(part['help'])}. Default {default}. " in text


def test_the_manuals_examples_are_commands_with_their_flags():
    source = MANUALS[0].read_text("utf-8").replace("\\-", "-")
    blocks = re.findall(r"^\.EX\n(.*?)^\.EE$", source, re.M | re.S)
    lines = "".join(blocks).replace("--token N", "--token 5").splitlines()
    assert len(lines) >= 6
    for line in lines:
        words = line.split()
        assert words[0] == "pawl"
        assert run(*words[1:], "--help").stdout.startswith("usage: pawl "), line


def test_the_manuals_example_is_a_config(tmp_path):
    source = MANUALS[1].read_text("utf-8")
    example = re.search(r"^\.EX\n(.*?)^\.EE$", source, re.M | re.S).group(1)
    path = tmp_path / "pawl.yaml"
    path.write_text(example.replace("\\-", "-"))
    assert run("serve", "-t", "-c", path).returncode == 0


def test_two_builds_of_one_day_are_the_same():
    for page in ("pawl.1", "pawl.yaml.5"):
        ran = tool(PAGES / "pages", page, env={"SOURCE_DATE_EPOCH": "86400"})
        assert '1970-01-02 "pawl ' in ran.stdout


# ---- completion ----


def complete(line: str, directory: Path | None = None) -> list[str]:
    """What a tabulator offers behind `line`, whose words stand as bash would split them."""
    words = re.findall(r"=|[^\s=]+", line) + ([""] if line.endswith(" ") else [])
    script = ('source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _pawl; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    ran = tool("bash", "--norc", "-c", script, COMPLETION, *words, cwd=directory)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.split("\n")[:-1]


@pytest.mark.parametrize("line, offered", [
    ("pawl ser", ["serve"]), ("pawl keys s", ["show", "succeeded", "stats"]),
    ("pawl config ", ["explain", "--help"]),
    ("pawl keys list --st", ["--status", "--store"]),
    ("pawl keys list --status ", ["pending", "released", "complete", "failed",
                                   "unknown"]),
    ("pawl keys list --status=un", ["unknown"]), ("pawl keys list --json --status f", ["failed"]),
    ("pawl keys resolve --status ", [""]), ("pawl help ke", ["keys"]),
    ("pawl help keys re", ["resolve", "release"]), ("pawl config explain tt", ["ttl"]),
    ("pawl errors RATE", ["RATE_LIMIT.exceeded"]), ("pawl --v", ["--version"]),
    ("pawl nothing ", None),
])
def test_bash_completes_commands_flags_and_values(line, offered):
    assert complete(line) == (complete("pawl ") if offered is None else offered)


def test_bash_completes_files_where_files_are_asked_for(tmp_path):
    for name in ("pawl.yaml", "pawl two.db"):
        (tmp_path / name).touch()
    for line in ("pawl serve -c p", "pawl serve --config=p", "pawl keys list --store p",
                 "pawl hash p"):
        assert sorted(complete(line, tmp_path)) == ["pawl two.db", "pawl.yaml"]


def test_every_command_is_completed():
    assert [*re.findall(r"^  (\w+) ", run("help").stdout, re.M), "--help", "--version"] == \
        complete("pawl ")


def test_the_completion_is_clean_bash():
    assert tool("bash", "-n", COMPLETION).stderr == ""
