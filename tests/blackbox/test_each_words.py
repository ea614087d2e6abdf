# SPDX-License-Identifier: Apache-2.0
"""`pawl each`: names of columns, and what it says of items that are not run."""
from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pawltest.each import EFFECT, HELD, Each, lines, shell
from pawltest.gateway import Clock
from pawltest.upstream import Upstream, say
from pawltest.wire import eventually

pytestmark = pytest.mark.file_only

NAMES = "id,first name,Név\n1,Ann Lee,ű\n2,Bo,é\n"


@pytest.fixture
def each(tmp_path: Path, clock: Clock) -> Each:
    return Each(tmp_path, clock)


# ---- names ----


def test_a_column_is_named_alike_in_the_key_the_command_and_the_group(each):
    ran = each.run("--csv", "--group", "{/first name}", *shell(
        'echo "$1|$2|$3" >> "$JOURNAL"', "{/first name}", "{Név}", "{/Név}"),
        key="{/first name}:{Név}", items=NAMES)
    assert ran.returncode == 0, ran
    assert each.effects == ["Ann Lee|ű|ű", "Bo|é|é"]


@pytest.mark.parametrize("word, says", [
    ("{first name}", "{first name} is a text; the column of that name is {/first name}"),
    ("x{id}{first name}", "{/first name}"),
    ("{/first nam}", "no column first nam; it has id, first name, Név; did you mean {first name}?"),
    ("{/id/x}", "no column id/x"),
    ("{date:/zone}", "no column zone"),
    ("{Nev}", "no column Nev"),
])
def test_what_looks_like_a_column_and_is_none_is_refused_before_anything_is_run(each, word, says):
    ran = each.run("--csv", *shell(EFFECT, word), key="{id}", items=NAMES)
    assert ran.returncode == 65 and says in ran.stderr and not each.effects, ran


def test_a_doubled_brace_is_a_text_whatever_columns_there_are(each):
    ran = each.run("--csv", *shell(EFFECT, "{{first name}{{id}"), key="{id}", items=NAMES)
    assert ran.returncode == 0 and each.effects == ["{first name}{id}"] * 2


def test_braces_of_other_languages_are_text(each):
    ran = each.run("--csv", *shell(EFFECT, "{print $1; x = {a b}}"), key="{id}", items=NAMES)
    assert ran.returncode == 0 and each.effects == ["{print $1; x = {a b}}"] * 2


# ---- many that are wrong ----


def test_of_many_malformed_items_the_first_ten_are_named_and_the_rest_counted(each):
    items = lines(json.dumps({"id": n, "name": None}) for n in range(25))
    ran = each.run("--jsonl", *shell(EFFECT, "{nmae}"), key="{id}", items=items)
    said = ran.stderr.splitlines()
    assert said[0] == "pawl: line 1: {nmae} has no value: the item has only id, name"
    assert said[9].startswith("pawl: line 10: ") and len(said) == 12
    assert said[10] == "pawl: 15 more items are malformed (--json lists all)"
    assert ran.returncode == 65 and not each.effects
    ran = each.run("--jsonl", "--json", *shell(EFFECT, "{nmae}"), key="{id}", items=items)
    assert len(ran.lines) == 25


def test_of_many_changed_items_the_first_ten_are_named_and_the_rest_counted(each):
    items = lines(range(12))
    each.run(*shell("true"), items=items)
    ran = each.run(*shell(EFFECT), items=items)
    said = ran.stderr.splitlines()
    assert said[0] == ("pawl: item 1 (key 0): ended before, with another command line (--payload "
                       "ignore skips it without a word)")
    assert said[10] == ("pawl: 2 more items have keys that were used for something else (--json "
                        "lists all)")
    assert ran.returncode == 65 and len(said) == 12 and not each.effects


@pytest.mark.parametrize("value, says", [
    (None, "which is null"), ("", "which is empty"), 
    ([1], "but an array ({name|json} in a text puts it there as JSON)"),
    ({"a": 1}, "but an object ({name|json} in a text puts it there as JSON)")])
def test_why_a_member_has_no_value_is_said_exactly(each, value, says):
    ran = each.run("--jsonl", *shell(EFFECT, "x"), key="{x}", items=json.dumps({"x": value}) + "\n")
    assert ran.stderr.splitlines()[0] == f"pawl: line 1: --key: {{x}} has no value, {says}"


def test_a_line_is_counted_with_the_empty_ones_as_an_editor_does(each):
    ran = each.run("--jsonl", *shell(EFFECT, "{a}"), key="{a}", items='{"a":1}\n\n\n{"b":1}\n[1]\n')
    said = ran.stderr.splitlines()
    assert said[0].startswith("pawl: line 4: ") and "has only b" in said[0]
    assert said[1].startswith("pawl: line 5: ") and "no object" in said[1]


# ---- failures ----


def test_items_that_failed_are_in_the_file_at_once_whatever_becomes_of_pawl(each):
    each.hold("c")
    script = f'case $1 in a|b) echo "begin $1" >> "$JOURNAL"; exit 3;; esac; {HELD}'
    process = each.start("--csv", "--failed-to", "failed.csv", *shell(script, "{id}"), key="{id}",
                         items="id\na\nb\nc\n")
    each.begun(3)
    process.kill()
    each.end(process)
    each.let_go("c")
    assert (each.directory / "failed.csv").read_text() == '"id"\na\nb\n'


def test_a_corrected_command_runs_the_items_that_failed_and_no_others(each):
    items = lines("abc")
    first = each.run(*shell(f'[ "$1" = b ] && exit 3; {EFFECT}'), items=items)
    assert first.returncode == 1 and each.effects == ["a", "c"]
    ran = each.run("--", "sh", "-c", EFFECT, "--", "{}", items=items)
    assert ran.returncode == 65 and ran.last == "pawl: 3 items: 1 run, 2 changed"
    assert each.effects == ["a", "c", "b"]
    missing = each.run("--", "nosuchcmd", "{}", items="x\n")
    assert missing.returncode == 1 and "nosuchcmd" in missing.stderr
    assert each.run(*shell(EFFECT), items="x\n").returncode == 0 and each.effects[-1] == "x"


@pytest.mark.hooks
def test_where_too_many_items_fail_the_last_ones_say_that_they_were_not_tried_again(each):
    process = each.start("-j", "16", "--retry", "user_facing", *shell("exit 3"),
                         items=lines(range(40)))
    each.clock.run_until(lambda: process.poll() is not None, step=0.5)
    ran = each.end(process)
    assert ran.returncode == 1 and ran.last == "pawl: 40 items: 0 run, 40 failed"
    assert " attempts; not tried again: too many items fail\n" in ran.stderr
    assert " after 5 attempts\n" in ran.stderr


@pytest.mark.hooks
def test_that_it_waits_for_items_of_another_run_is_said_once(each):
    each.hold("a", "b")
    first = each.start("-j", "2", *shell(HELD), items=lines("ab"))
    each.begun(2)
    second = each.start(*shell(HELD), items=lines("ab"))
    said = eventually(lambda: os.read(second.stderr.fileno(), 4096).decode(), "what it says")
    assert said == ("pawl: waiting for 2 items in progress elsewhere; of a pawl that has died, it "
                    "is 15 s at most\n")
    each.let_go("a", "b")
    assert each.end(first).returncode == 0
    each.clock.run_until(lambda: second.poll() is not None, step=1)
    assert each.end(second).stderr == "pawl: 2 items: 0 run, 2 done before\n"


def test_dry_run_and_job_log_have_words_that_a_shell_reads(each):
    each.run("--joblog", "log", "--", "echo", "it's", "{}", "", items="a b\n")
    row = (each.directory / "log").read_text().splitlines()[1].split("\t")
    assert row[8] == "echo 'it'\\''s' 'a b' ''"
    ran = each.run("-n", "--", "echo", "it's", "{}", items="c d\n")
    assert ran.stdout == "run\tc%20d\techo 'it'\\''s' 'c d'\n"


@pytest.mark.hooks
def test_dry_run_says_what_is_in_doubt_and_what_was_done_as_something_else(each):
    each.run(*shell(EFFECT), items="done\n")
    each.run(*shell("exit 3"), items="failed\n")
    each.run("--unknown", "hold", *shell("kill -9 $PPID"), items="doubt\n")
    each.clock.advance(16)
    items = lines(["done", "failed", "doubt", "new"])
    ran = each.run("-n", "--unknown", "hold", *shell("kill -9 $PPID"), items=items)
    assert [line.split("\t")[0] for line in ran.stdout.splitlines()] == [
        "changed", "run", "doubt", "run"]
    assert ran.last == "pawl: 4 items: 2 to be run, 1 in doubt, 1 changed"
    ran = each.run("-n", *shell("kill -9 $PPID"), items=items)
    assert ran.last == "pawl: 4 items: 2 to be run, 1 in doubt, 1 changed"  # the dead run's policy
    ran = each.run("-n", *shell("true"), items="doubt\n")
    assert ran.last == "pawl: 1 item: 0 to be run, 1 changed"


@pytest.mark.hooks
def test_what_another_command_line_left_in_doubt_is_not_called_done(each):
    each.run(*shell("kill -9 $PPID"), items="a\n")
    each.clock.advance(16)
    ran = each.run(*shell(EFFECT), items="a\n")
    assert ran.returncode == 65 and not each.effects
    assert "item 1 (key a): may have been done, with another command line: repeat" in ran.stderr


def test_a_key_that_two_items_have_is_in_use_for_another_command_line(each):
    each.hold("1")
    process = each.start("-j", "2", "--csv", *shell(HELD, "{v}"), key="k:{k}",
                         items="k,v\na,1\na,2\n")
    each.begun(1)
    said = eventually(lambda: os.read(process.stderr.fileno(), 4096).decode(), "what it says")
    assert "item 2 (key k:a): the key is in use for another command line: of another item" in said
    each.let_go("1")
    assert each.end(process).returncode == 65


@pytest.mark.parametrize("name", ["jobs.db", "link.db", "jobs.db-wal", "jobs.db-pawl"])
def test_neither_file_may_be_the_store(each, name):
    each.run(*shell(EFFECT), items="a\n")
    (each.directory / "link.db").symlink_to(each.store)
    for option in ("--failed-to", "--joblog"):
        ran = each.run(option, name, *shell(EFFECT), items="a\nb\n")
        assert ran.returncode in (0, 2)
        assert ran.returncode == 0 or "cannot be the store" in ran.stderr
    assert each.run(*shell(EFFECT), items="a\n").last == "pawl: 1 item: 0 run, 1 done before"


def test_the_two_files_are_two(each):
    ran = each.run("--failed-to", "x", "--joblog", "x", *shell(EFFECT), items="a\n")
    assert ran.returncode == 2 and "cannot be one file" in ran.stderr and not each.effects


# ---- requests ----


def test_why_a_request_failed_is_said_with_the_beginning_of_the_response(each, upstream: Upstream):
    upstream.then(say(422, {"error": "amount must be above 0"}, effect=False))
    ran = each.run("--send", f"POST http://127.0.0.1:{upstream.port}/x", items="a\n")
    assert ran.returncode == 1
    assert 'HTTP status 422: {"error": "amount must be above 0"}' in ran.stderr


def test_a_csv_field_is_put_into_json_as_a_number_where_it_is_asked_for(each, upstream: Upstream):
    ran = each.run("--csv", "-H", "Content-Type: application/json", "-d",
                   '{"id": {id}, "amount": {amount|json}}', "--send",
                   f"POST http://127.0.0.1:{upstream.port}/x", key="{id}",
                   items='id,amount\n007,1.50\n8,"[1, {""a"": null}]"\n9,seven\n10,\n')
    assert [json.loads(request.body) for request in upstream.requests] == [
        {"id": "007", "amount": 1.5}, {"id": "8", "amount": [1, {"a": None}]}]
    assert ran.returncode == 65 and "2 run, 2 malformed" in ran.last
    assert "line 4: the value of {amount|json} cannot be put there: it is no JSON" in ran.stderr


def test_an_object_of_an_item_is_an_argument_as_json(each):
    item = '{"id":1,"o":{"b":[1.50,true,null],"a":"x\\"\\u00e9"},"s":"t"}'
    ran = each.run("--jsonl", *shell('printf "%s|%s\\n" "$1" "$2" >> "$JOURNAL"', "{o|json}",
                                     "{/s|json}"), key="{id}", items=item + "\n")
    assert ran.returncode == 0, ran
    assert each.effects == ['{"b":[1.50,true,null],"a":"x\\"é"}|"t"']


@pytest.mark.parametrize("item", [".", ".."])
def test_an_item_is_no_step_in_a_path(each, upstream: Upstream, item):
    ran = each.run("--send", f"POST http://127.0.0.1:{upstream.port}/p/{{}}/z", items=f"{item}\n")
    assert ran.returncode == 65 and "a segment of the path" in ran.stderr and not upstream.requests


def test_headers_and_a_body_from_a_file_are_filled_in_from_the_item(each, upstream: Upstream):
    (each.directory / "body.json").write_text('{\n  "to": {id}\n}\n')
    ran = each.run("--jsonl", "-H", "Content-Type: application/json", "-H", "X-Id: <{id}> {{id}",
                   "-d", "@body.json", "--send", f"POST http://127.0.0.1:{upstream.port}/x",
                   key="{id}", items='{"id":7}\n')
    assert ran.returncode == 0, ran
    assert upstream.requests[0]["X-Id"] == "<7> {id}"
    assert json.loads(upstream.requests[0].body) == {"to": 7}


def test_a_value_that_would_end_a_header_is_a_malformed_item(each, upstream: Upstream):
    items = lines(json.dumps({"id": n, "v": v}) for n, v in ((1, "a\r\nX-Evil: 1"), (2, "b")))
    ran = each.run("--jsonl", "-H", "X-Value: {v}", "--send",
                   f"POST http://127.0.0.1:{upstream.port}/x", key="{id}", items=items)
    assert ran.returncode == 65 and "the header X-Value has a control character" in ran.stderr
    assert [request["X-Value"] for request in upstream.requests] == ["b"]


@pytest.mark.hooks
@pytest.mark.parametrize("rate, seconds", [("2/m", 30), ("4/h", 900)])
def test_a_rate_may_be_that_of_a_minute_or_an_hour(each, rate, seconds):
    process = each.start("--rate", rate, *shell(f"{EFFECT}"), items=lines("ab"))
    eventually(lambda: each.effects == ["a"], "the first item")
    each.clock.advance(seconds - 1)
    assert each.effects == ["a"]
    each.clock.run_until(lambda: process.poll() is not None, step=1)
    assert each.end(process).returncode == 0 and each.effects == ["a", "b"]
