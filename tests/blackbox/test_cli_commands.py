# SPDX-License-Identifier: Apache-2.0
"""The table of commands: help, complaints and exit codes of all commands alike."""
from __future__ import annotations

import json
import re

import pytest

from pawltest.gateway import ROOT, run

pytestmark = pytest.mark.no_store

COMMANDS = ["serve", "health", "send", "stats", "hash", "schema", "errors", "backoff", "demo",
            "help", "version"]
GROUPS = {"keys": ["list", "show", "resolve", "release", "forget", "succeeded", "stats", "audit"],
          "config": ["explain"],
          "queue": ["add", "list", "show", "edit", "retry", "drop", "settle", "pause", "resume",
                    "drain", "audit"],
          "inbox": ["list", "show", "replay", "drop", "remove", "audit"],
          "webhook": ["publish", "list", "show", "replay", "drop", "audit", "endpoint", "sign",
                      "verify", "listen"],
          "store": ["freeze", "thaw", "backup", "check", "restored", "show", "audit"]}
EVERY = [[name] for name in [*COMMANDS, *GROUPS]]
EVERY += [[group, name] for group, names in GROUPS.items() for name in names]


def printed(*arguments: str) -> str:
    ran = run(*arguments)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_command_tells_the_same_help_in_every_way(words):
    text = printed("help", *words)
    assert text.startswith(f"usage: pawl {' '.join(words)}")
    assert printed(*words, "--help") == printed(*words, "-h") == text
    assert all(len(line) < 80 or line.startswith(("usage: ", "       pawl "))
               for line in text.splitlines())


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_an_option_in_the_usage_of_a_command_is_one_of_its_options(words):
    usage, _, rest = printed("help", *words).partition("\n\n")
    options = re.findall(r"^ +(?:-\w, )?(--[\w-]+)", rest, re.M)
    assert {*re.findall(r"--[\w-]+", usage)} <= {*options, "--"}


def test_help_lists_every_command():
    text = printed("help")
    assert text == printed("-h") == printed("--help")
    assert re.findall(r"^  (\w+) ", text, re.M) == \
        ["serve", "health", "send", "queue", "run", "each", "keys", "stats", "webhook", "inbox",
         "store", "hash", "config", "schema", "errors", "backoff", "demo", "help", "version"]
    for group, names in GROUPS.items():
        assert re.findall(r"^  (\w+) ", printed("help", group), re.M) == names


def test_a_command_that_is_not_given_is_asked_for():
    for words in ([], ["keys"], ["config"]):
        ran = run(*words)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert "usage: pawl" in ran.stderr


@pytest.mark.parametrize("words, meant", [
    (["srve"], "did you mean `serve`? See `pawl help`"), (["kesy", "list"], "did you mean `keys`?"),
    (["keys", "lits"], "did you mean `list`?"), (["config", "explian"], "did you mean `explain`?"),
    (["help", "hsah"], "did you mean `hash`?"), (["help", "keys", "shw"], "did you mean `show`?"),
    (["serve", "--confg", "x"], "did you mean --config? See `pawl serve -h`"),
    (["--nothing"], "no option --nothing; see `pawl help`"),
    (["--vesion"], "did you mean --version? See `pawl help`"),
    (["frobnicate"], "no command `frobnicate`"), (["help", "hash", "x"], "no subcommands"),
])
def test_a_mistyped_word_is_met_with_the_nearest_one(words, meant):
    ran = run(*words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert meant in ran.stderr and "see `pawl " in ran.stderr.lower()


@pytest.mark.parametrize("words, flag", [
    (["serve", "--test", "-c", "a.yaml", "-c", "b.yaml"], "--config"),
    (["config", "explain", "-c", "a.yaml", "--config=b.yaml"], "--config"),
    (["keys", "resolve", "k", "--token", "1", "--probe", "-c", "a.yaml", "-c", "b.yaml"],
     "--config"),
    (["keys", "release", "k", "--token", "1", "--token", "2"], "--token"),
    (["keys", "list", "--tenant", "a", "--tenant", "b"], "--tenant"),
    (["hash", "-t", "text/plain", "--content-type", "text/html"], "--content-type"),
])
def test_an_option_that_counts_once_is_refused_when_it_is_given_twice(words, flag):
    ran = run(*words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (f"pawl {' '.join(words[:1 + (words[0] in GROUPS)])}: {flag} is given "
                          f"twice; see `pawl "
                          f"{' '.join(words[:1 + (words[0] in GROUPS)])} -h`\n")


def test_header_lines_may_be_several_and_a_flag_without_a_value_may_be_repeated():
    ran = run("keys", "resolve", "k", "--token", "1", "-H", "A: b", "-H", "C: d", "--store", "none")
    assert "how did it end?" in ran.stderr
    assert printed("version", "--json", "--json") == printed("version", "--json")


def test_the_version_is_told_in_every_way():
    text = printed("version")
    assert text == printed("--version") == printed("-V")
    told = json.loads(printed("version", "--json"))
    assert text.split()[1] == told["version"] and ("+hooks" in text) == told["hooks"]
    assert re.fullmatch(r"[0-9a-f]{40}|unknown", told["commit"])
    assert told["commit"] == "unknown" or told["commit"][:12] in text


def test_the_version_names_the_libraries_where_it_is_asked():
    head, commit, *lines = printed("version", "--verbose").splitlines()
    told = json.loads(printed("version", "-v", "--json"))
    assert head == printed("version").strip() and commit.split() == ["commit", told["commit"]]
    assert dict(line.split(maxsplit=1) for line in lines) == told["libraries"]
    assert {"glibc", "libpq", "nettle", "openssl", "sqlite", "zlib"} < set(told["libraries"])


# ---- errors ----


def test_errors_prints_the_whole_table():
    rows = [json.loads(line) for line in printed("errors", "--json").splitlines()]
    codes = [row["error_code"] for row in rows]
    table = (ROOT / "src/core/errors.h").read_text("utf-8")
    assert codes == re.findall(r'^    X\(\w+,\s*"([^"]+)"', table, re.M)
    assert codes[-4:] == ["VALIDATION.*", "AUTH.*", "TRANSIENT.*", "PROVIDER.duplicate"]
    for row in rows:
        assert row["category"] == row["error_code"].split(".")[0]
        assert 400 <= row["status"] <= 599 and row["hint"].endswith(".")
        assert row["exit_code"] in (0, 1, 65, 69, 75, 76, 124)
    table, _, note = printed("errors").partition("\n\n")
    assert [line.split()[0] for line in table.splitlines()[1:]] == codes
    assert note.startswith("`policy`: the rule's `unknown:` decides")
    assert [line.split()[0] for line in table.splitlines() if line.split()[2] == "policy"] == [
        "CONFLICT.idempotency.outcome_unknown", "TRANSIENT.upstream_broke",
        "TRANSIENT.upstream_malformed", "DEPENDENCY.timeout"]
    assert "  retryable     policy\n" in printed("errors", "DEPENDENCY.timeout")


@pytest.mark.parametrize("code, row", [
    ("CONFLICT.idempotency.in_progress", "CONFLICT.idempotency.in_progress"),
    ("VALIDATION.amount.negative", "VALIDATION.*"), ("AUTH.expired", "AUTH.*"),
    ("TRANSIENT.flaky", "TRANSIENT.*"), ("PROVIDER.duplicate", "PROVIDER.duplicate"),
    ("VALIDATION.body_too_large", "VALIDATION.body_too_large"),
])
def test_an_error_without_a_row_has_that_of_its_family(code, row):
    assert json.loads(printed("errors", "--json", code))["error_code"] == row
    assert printed("errors", code).startswith(f"{row}: ")


@pytest.mark.parametrize("code", ["PROVIDER.other", "AUTH", "AUTH.", "VALIDATION", "x"])
def test_an_error_that_there_is_not_is_said(code):
    ran = run("errors", code)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert f"no error `{code}`" in ran.stderr


@pytest.mark.parametrize("word", ["payload_mismatch", "PAYLOAD_MISMATCH"])
def test_an_error_named_by_its_last_word_is_met_with_its_code(word):
    ran = run("errors", word)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "did you mean `CONFLICT.idempotency.payload_mismatch`?" in ran.stderr


# ---- backoff ----

PROFILES = {"user_facing": 5, "api": 4, "background": 6, "scheduled": 4, "webhook": 10, "queue": 10}


@pytest.mark.parametrize("profile, attempts", PROFILES.items())
def test_backoff_prints_the_same_delays_in_three_forms(profile, attempts):
    words = ["backoff", profile, "--seed", "7"]
    text = re.findall(r"(\d+)  (\d+) ms\n", printed(*words))
    assert [int(n) for n, _ in text] == list(range(1, attempts + 1)) and text[0][1] == "0"
    head, *rows = printed(*words, "--csv").splitlines()
    assert head == "attempt,delay_ms" and rows == [",".join(row) for row in text]
    told = [json.loads(line) for line in printed(*words, "--json").splitlines()]
    assert told == [{"attempt": int(n), "delay_ms": int(ms)} for n, ms in text]


def test_backoff_of_user_facing_is_within_the_bounds_of_r1():
    for _ in range(20):
        delays = [int(ms) for ms in re.findall(r"  (\d+) ms", printed("backoff", "user_facing"))]
        assert all(low <= ms <= 2 * low for ms, low in zip(delays, (0, 100, 200, 400, 800)))


def test_backoff_differs_without_a_seed_and_repeats_with_one():
    assert len({printed("backoff", "webhook") for _ in range(3)}) > 1
    assert len({printed("backoff", "webhook", "--seed", "9007199254740991")
                for _ in range(3)}) == 1
    assert printed("backoff", "user_facing", "--seed", "42") == \
        "1  0 ms\n2  163 ms\n3  233 ms\n4  504 ms\n5  1509 ms\n"


@pytest.mark.parametrize("words, meant", [
    ([], "needs a PROFILE"), (["user_facin"], "did you mean `user_facing`?"),
    (["polite"], "there is no profile `polite`"), (["api", "queue"], "unexpected argument `queue`"),
    (["api", "--csv", "--json"], "--csv and --json exclude each other"),
    (["api", "--seed", "x"], "--seed must be 0 to 9007199254740991, not `x`"),
    (["api", "--seed", "-1"], "--seed must be 0 to 9007199254740991, not `-1`"),
])
def test_backoff_says_what_it_cannot_print(words, meant):
    ran = run("backoff", *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert meant in ran.stderr
