# SPDX-License-Identifier: Apache-2.0
"""`pawl each`: a command once for each item, by key, however often it is run. What items are, what
templates make of them, and what is done when it is run again."""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pawltest.each import EFFECT, Each, lines, shell
from pawltest.gateway import Clock

pytestmark = pytest.mark.file_only

ROW = 'printf "%s|%s\\n" "$1" "$2" >> "$JOURNAL"'
FORMS: dict[str, tuple[tuple[str, ...], Any]] = {
    "lines": ((), lines),
    "null": (("-0",), "\0".join),
    "csv": (("--csv",), lambda items: lines(["name", *items])),
    "jsonl": (("--jsonl",), lambda items: lines(json.dumps({"name": item}) for item in items)),
}


@pytest.fixture
def each(tmp_path: Path, clock: Clock) -> Each:
    return Each(tmp_path, clock)


# ---- items ----


@pytest.mark.parametrize("form", FORMS)
def test_each_item_is_run_once_in_its_order_and_not_again(each, form):
    flags, make = FORMS[form]
    name = "{}" if form in ("lines", "null") else "{name}"
    for end in ("3 items: 3 run", "3 items: 0 run, 3 done before"):
        ran = each.run(*flags, *shell(EFFECT, name), items=make(["b", "a b", "ç"]), key=name)
        assert (ran.returncode, ran.last) == (0, f"pawl: {end}"), ran
    assert each.effects == ["b", "a b", "ç"]


def test_a_line_is_the_last_argument_where_the_command_names_no_part_of_it(each):
    each.run("--", "sh", "-c", 'echo "$#:$1:$2" >> "$JOURNAL"', "-", "x", items="a b\nc\n")
    assert each.effects == ["2:x:a b", "2:x:c"]


def test_lines_end_with_lf_cr_lf_or_the_input_and_empty_ones_are_none(each):
    ran = each.run(*shell(EFFECT), items="a\r\n\n\r\nb\n c \nd")
    assert each.effects == ["a", "b", " c ", "d"] and "4 items: 4 run" in ran.last


def test_of_nul_items_every_other_byte_is_kept(each):
    ran = each.run("-0", *shell('printf "%s;" "$1" >> "$JOURNAL"'),
                   items=b"two\nlines\0 \xff\xfe \0\0last\r\n")
    assert each.journal.read_bytes() == b"two\nlines; \xff\xfe ;last\r\n;", ran


def test_a_byte_order_mark_is_no_part_of_the_first_item(each):
    each.run(*shell(EFFECT), items="\ufeffa\nb\n")
    assert each.effects == ["a", "b"]


def test_csv_fields_may_be_quoted_span_lines_and_be_empty(each):
    items = 'id,note\r\n1,"say ""hi"", you"\r\n2,"two\nlines"\r\n3,\r\n'
    ran = each.run("--csv", *shell(ROW, "{id}", "{note}"), items=items, key="{id}")
    assert each.effects == ['1|say "hi", you', "2|two", "lines", "3|"] and ran.returncode == 0


def test_json_members_pointers_and_the_whole_item(each):
    items = '{"id": 7, "user": {"name": "ann", "tags": ["x", true]}}\n'
    each.run("--jsonl", *shell(ROW, "{id}-{/user/name}-{/user/tags/1}", "{}"), items=items,
             key="{id}")
    assert each.effects == [f"7-ann-true|{items.strip()}"]


def test_an_item_of_json_may_be_any_value(each):
    ran = each.run("--jsonl", *shell(EFFECT), items='"a"\n12\n\ntrue\n[1,2]\n')
    assert each.effects == ['"a"', "12", "true", "[1,2]"] and ran.returncode == 0


def test_the_input_may_be_a_file(each, tmp_path):
    (tmp_path / "items").write_text("a\nb\n")
    assert each.run("-a", "items", *shell(EFFECT)).returncode == 0
    assert each.effects == ["a", "b"]


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_input_has_no_items(each, form):
    flags, make = FORMS[form]
    ran = each.run(*flags, *shell(EFFECT), items=make([]))
    assert (ran.returncode, ran.last) == (0, "pawl: 0 items: 0 run"), ran


def test_an_input_that_cannot_be_read_is_an_error(each, tmp_path):
    missing = each.run("-a", "missing", *shell(EFFECT))
    assert missing.returncode == 2 and "cannot read missing: No such file" in missing.stderr
    folder = each.run("-a", str(tmp_path), *shell(EFFECT))
    assert folder.returncode == 65 and "cannot read the input: Is a directory" in folder.stderr
    assert not each.effects


def test_items_of_a_mebibyte_are_run_by_a_part_of_them_and_larger_ones_are_malformed(each):
    most = 1 << 20
    small = json.dumps({"id": "fits", "text": "x" * (most - 26)})
    large = json.dumps({"id": "over", "text": "x" * (most - 25)})
    assert (len(small), len(large)) == (most, most + 1)
    ran = each.run("--jsonl", *shell(EFFECT, "{id}"), items=lines([large, small]), key="{id}")
    assert ran.returncode == 65 and "line 1: longer than 1048576 bytes" in ran.stderr
    assert each.effects == ["fits"]


def test_an_item_too_long_for_an_argument_fails_and_others_are_run(each):
    ran = each.run("--", "sh", "-c", EFFECT, "-", items=lines(["x" * (1 << 20), "short"]))
    assert ran.returncode == 1 and "Argument list too long" in ran.stderr, ran.stderr
    assert each.effects == ["short"]


def test_malformed_items_are_named_by_line_and_others_are_run(each):
    ran = each.run("--csv", *shell(EFFECT, "{id}"), key="{id}",
                   items='id,n\n1,x\n2\n3,"a"b\n4,y\n5,x,y\n')
    assert ran.returncode == 65 and each.effects == ["1", "4"]
    assert [line for line in ran.stderr.splitlines() if "line" in line] == [
        "pawl: line 3: the record has 1 field, the header has 2",
        *[line for line in ran.stderr.splitlines() if "line 4: " in line],
        "pawl: line 6: the record has 3 fields, the header has 2"]
    assert ran.last == "pawl: 5 items: 2 run, 3 malformed"
    ran = each.run("--jsonl", *shell(EFFECT, "{id}"), key="{id}",
                   items='{"id":6}\n{"id":\n\n{"id":7}\n')
    assert ran.returncode == 65 and "line 2: not JSON at byte 6" in ran.stderr
    assert each.effects == ["1", "4", "6", "7"]


def test_items_that_lack_what_a_template_names_are_named_and_others_are_run(each):
    items = '{"id":1,"to":"a"}\n{"id":2}\n{"to":"b"}\n{"id":4,"to":{}}\n{"id":5,"to":""}\n'
    ran = each.run("--jsonl", *shell(ROW, "{id}", "{to}"), items=items, key="{id}")
    assert ran.returncode == 65 and each.effects == ["1|a", "5|"]
    assert "line 2: {to} has no value: the item has only id" in ran.stderr
    assert "line 3: --key: {id} has no value: the item has only to" in ran.stderr
    assert "line 4: {to} has no value, but an object" in ran.stderr


def test_a_quote_that_is_not_closed_ends_the_input(each):
    ran = each.run("--csv", *shell(EFFECT, "{id}"), key="{id}", items='id\n1\n"2\n3\n')
    assert ran.returncode == 65 and "line 3" in ran.stderr
    assert "the rest of the input not read" in ran.last


@pytest.mark.parametrize("at", ["key", "command", "group"])
def test_a_column_that_is_not_there_is_an_error_before_anything_is_run(each, at):
    words = {"key": "{id}", "command": "x", "group": "{id}", at: "{emial}:{id}"}
    ran = each.run("--csv", "--group", words["group"], *shell(EFFECT, words["command"]),
                   key=words["key"], items="id,email\n1,a\n2,b\n")
    assert ran.returncode == 65 and not each.effects
    assert "the input has no column emial; it has id, email; did you mean {email}?" in ran.stderr


@pytest.mark.parametrize("word", ["{name}", "{/name}", "{date:/zone}"])
def test_a_line_has_no_parts(each, word):
    ran = each.run(*shell(EFFECT, word), items="a\n")
    assert ran.returncode == 2 and "say --csv or --jsonl" in ran.stderr and not each.effects


# ---- templates ----


def test_every_source_is_filled_in_in_command_key_and_group(each):
    item = {"id": 7, "zone": "Asia/Tokyo", "at": {"home": "America/New_York"}}
    template = "{id} {/zone} {date:/zone} {date:/at/home} {week:/zone} {hour:/zone} {env:WHO}"
    ran = each.run("--jsonl", "--at", "2026-02-19T22:00:00-05:00", "--group", template, "--json",
                   *shell(EFFECT, template), items=lines([json.dumps(item)]), key=template,
                   WHO="me")
    want = "7 Asia/Tokyo 2026-02-20 2026-02-19 2026-W08 2026-02-20T12+0900 me"
    assert each.effects == [want] and ran.returncode == 0
    assert ran.lines[0]["key"] == want


def test_the_same_item_is_another_one_on_another_day(each):
    for at in ("2026-02-19T23:30:00Z", "2026-02-20T04:59:00Z", "2026-02-20T05:01:00Z"):
        each.run("--at", at, *shell(EFFECT), items="a\n", key="{}:{date:America/New_York}")
    assert each.effects == ["a", "a"]


def test_a_brace_is_doubled_where_it_would_name_a_source(each):
    each.run("--", "sh", "-c", "printf '%s\\n' \"$1\" | awk '{print $1}' >> \"$JOURNAL\"", "-",
             "{{} { } {{x} {}", items="a\n")
    each.run(*shell(EFFECT, '{{"a":1} {"b":2} {}'), items="b\n")
    assert each.effects == ["{}", '{"a":1} {"b":2} b']


def test_items_reach_commands_as_data_never_as_shell(each):
    items = ["$(touch owned)", "`touch owned`", "; touch owned", "-n", "--", "'\"\\"]
    each.run(*shell('printf "%s\\n" "$1" >> "$JOURNAL"'), items=lines(items))
    assert each.effects == items and not (each.directory / "owned").exists()


# ---- once ----


def test_done_items_are_skipped_whatever_the_order_and_content_of_the_list(each):
    each.run(*shell(EFFECT), items=lines(range(300)))
    ran = each.run("-j", "4", *shell(EFFECT), items=lines([*range(309, 200, -1), "new", 7]))
    assert ran.last == "pawl: 111 items: 11 run, 100 done before" and ran.returncode == 0
    assert sorted(each.effects) == sorted([*map(str, range(310)), "new"])


def test_the_same_key_twice_in_one_input_has_one_effect(each):
    for jobs in (1, 8):
        items = [f"{jobs}-{n % 5}" for n in range(40)]
        ran = each.run("-j", jobs, *shell(EFFECT), items=lines(items))
        assert ran.last == "pawl: 40 items: 5 run, 35 done before" and ran.returncode == 0
    assert len(each.effects) == len(set(each.effects)) == 10


def test_a_done_item_with_another_command_line_is_changed_and_not_run(each):
    each.run(*shell(EFFECT), items="a\n")
    changed = each.run("--json", *shell(EFFECT, "other {}"), items="a\nb\n")
    assert changed.returncode == 65 and changed.results == {"a": "changed", "b": "run"}
    said = each.run(*shell(EFFECT, "another {}"), items="a\n")
    assert said.returncode == 65 and said.last == "pawl: 1 item: 0 run, 1 changed"
    assert "item 1 (key a): " in said.stderr and "another command line" in said.stderr
    ignored = each.run("--payload", "ignore", *shell(EFFECT, "other {}"), items="a\n")
    assert (ignored.returncode, ignored.last) == (0, "pawl: 1 item: 0 run, 1 done before")
    assert each.effects == ["a", "other b"]


def test_two_items_of_one_key_and_different_commands_are_one_run_and_one_changed(each):
    ran = each.run("--jsonl", "--json", *shell(EFFECT, "{v}"), key="{id}",
                   items='{"id":1,"v":"a"}\n{"id":1,"v":"b"}\n')
    assert ran.returncode == 65 and len(each.effects) == 1
    assert sorted(line["result"] for line in ran.lines) == ["changed", "run"]


def test_jobs_of_different_names_never_share_a_key(each):
    for name in ("mail", "report", "mail"):
        each.run("--name", name, *shell(EFFECT, f"{name} {{}}"), items="a\n")
    assert each.effects == ["mail a", "report a"]


def test_each_and_run_share_their_records(each):
    each.other("run", "--key", "a", *shell(EFFECT, "a"))
    ran = each.run(*shell(EFFECT), items="a\nb\n")
    assert ran.last == "pawl: 2 items: 1 run, 1 done before" and each.effects == ["a", "b"]


@pytest.mark.hooks
def test_what_was_done_is_remembered_for_its_time(each, clock):
    each.run("--ttl", "1h", *shell(EFFECT), items="a\n")
    each.run(*shell(EFFECT), items="b\n")
    clock.advance(3601)
    each.run(*shell(EFFECT), items="a\nb\n")
    clock.advance(7 * 86400)
    each.run(*shell(EFFECT), items="b\n")
    assert each.effects == ["a", "b", "a", "b"]


def test_dry_run_runs_and_claims_nothing_and_says_what_would_be(each):
    each.run(*shell(EFFECT), items="a\n")
    before = each.counters()
    dry = each.run("--dry-run", "--", "sh", "-c", EFFECT, "-", items="a\nb\n")
    assert dry.returncode == 0 and dry.last == "pawl: 2 items: 1 to be run, 1 done before"
    plan = [line.split("\t") for line in dry.stdout.splitlines()]
    assert [row[:2] for row in plan] == [["skipped", "a"], ["run", "b"]]
    assert plan[1][2].startswith("sh -c ") and plan[1][2].endswith(" b")
    assert each.effects == ["a"] and each.counters() == before
    assert each.other("keys", "show", "b", "--rule", "job").returncode != 0
    wrong = each.run("-n", *shell(EFFECT, "c"), items="a\n")
    assert wrong.returncode == 65 and wrong.stdout.startswith("changed\ta\t")


def test_the_store_counts_what_was_run_skipped_and_failed(each):
    each.run(*shell(EFFECT), items="a\nb\n")
    each.run(*shell('test "$1" != c'), "--payload", "ignore", items="a\n")
    each.run("--payload", "ignore", *shell('test "$1" != c'), items="a\nb\nc\nd\n")
    counted = each.counters()
    assert {name: counted.get(name, 0) for name in ("run", "skipped", "failed", "doubt")} == \
        {"run": 3, "skipped": 2, "failed": 1, "doubt": 0}


def test_a_store_that_cannot_be_used_is_69_and_nothing_is_run(each):
    each.store = "/dev/null/nowhere.db"
    ran = each.run(*shell(EFFECT), items="a\n")
    assert ran.returncode == 69 and not os.path.exists(each.journal)
