# SPDX-License-Identifier: Apache-2.0
"""`pawl config explain`: what the options mean, and what a config comes to."""
from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from pawltest.gateway import ROOT, run

pytestmark = pytest.mark.no_store

TEXT = """\
listen: 127.0.0.1:8080
upstream: http://${WHERE}:9
store: sqlite:./pawl.db
tenant: "{header:X-Merchant-Id}"
trust_tenant: true
drain: 5s
defaults:
  ttl: 72h
  probe_status: 201
  payload: {exclude: [/sent, "/a b"]}
rules:
  - name: asked
    match: POST /asked/{id}
    unknown: {probe: "GET /by-key/{key}?id={path:id}"}
    key_format: {regex: "^[a-z]\\"\\\\\\\\:#{1,8}$"}
  - match: POST /held
    name: held
    ttl: forever
    query: ["a:b", 'c, d', "ü"]
  - {name: open, match: POST /open, protect: false, trust_tenant: false}
"""
VALUE = re.compile(r"^ *(?:- )?(\w+): (.*?) +# (.*)$")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "pawl.yaml"
    path.write_text(TEXT, "utf-8")
    return path


def explain(*arguments: str | Path) -> str:
    ran = run("config", "explain", *arguments, env={**os.environ, "WHERE": "127.0.0.1"})
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def options_of(text: str) -> dict[str, tuple[str, str]]:
    """name -> (value, origin) of a part of what explain printed."""
    return {found.group(1): (found.group(2), found.group(3))
            for line in text.splitlines() if (found := VALUE.match(line))}


def bare(text: str) -> list[str]:
    """The values, without where they come from."""
    return [re.sub(r" +# (default|(\w+, )?line \d+)$", "", line) for line in text.splitlines()
            if not line.lstrip().startswith("#")]


def test_the_reference_has_every_option_and_is_a_config(tmp_path):
    text = explain()
    names = re.findall(r"^    X\((\w+), (?:OPTION|SHARED|AT_START)",
                       (ROOT / "src/config/options.h").read_text("utf-8"), re.M)
    assert len(names) > 40
    assert all(re.search(rf"^ *(# )?{name}: ", text, re.M) for name in names)
    told = json.loads(explain("--json"))["options"]
    assert [one["name"] for one in told] == names
    path = tmp_path / "reference.yaml"
    path.write_text(text + "upstream: http://127.0.0.1:9\ntenant: none\n")
    assert run("serve", "-t", "-c", path).returncode == 0


def test_one_option_is_told_with_range_default_and_place():
    text = explain("ttl")
    assert text.startswith("ttl: how long a response is kept")
    assert re.findall(r"^  (\w+) +(.*)$", text, re.M) == [
        ("type", "duration"), ("where", "in a rule or in defaults"), ("default", "24h"),
        ("range", "1ms to forever"), ("reload", "yes"),
        ("related", "tombstone, duplicate, replay, replay_cookies")]
    assert "  reload   needs a restart\n" in explain("listen")
    assert "range" not in explain("match") and "at the top" in explain("listen")
    told = json.loads(explain("--json", "max_request_body"))
    assert (told["default"], told["range"]) == ("1MiB", "0 to 1GiB")
    assert (told["type"], told["reload"]) == ("size", True)


def test_an_option_with_parts_is_told_with_each_of_them():
    text = explain("once")
    assert re.findall(r"^    (\w+): .*\n      default  (.*)$", text, re.M) == [
        ("key", "(required)"), ("ttl", "(the rule's ttl)"), ("duplicate", "reject"),
        ("payload", "(what the rule compares)")]
    assert "forever is allowed" in text and "reject | replay | ack" in text
    told = json.loads(explain("--json", "once"))["parts"]
    assert [one["name"] for one in told] == ["key", "ttl", "duplicate", "payload"]
    assert told[0]["without"] == "(required)" and told[2]["default"] == "reject"
    assert re.findall(r"^    (\w+): ", explain("cors"), re.M) == ["origins", "credentials"]
    assert "parts" not in explain("ttl") and "parts" not in json.loads(explain("--json", "ttl"))


def test_a_part_that_a_config_leaves_out_is_told_with_its_default(tmp_path):
    path = tmp_path / "pawl.yaml"
    path.write_text("upstream: http://127.0.0.1:9\ntenant: none\ncors: {origins: ['*']}\nrules:\n"
                    "  - {name: a, match: POST /a, once: {key: '{body:/ref}', ttl: 7d}}\n")
    assert bare(explain("-c", path, "once")) == [
        "rules:", "  - name: a", '    once: {key: "{body:/ref}", ttl: 7d, duplicate: reject}']
    path.write_text(path.read_text().replace("once: {key: '{body:/ref}', ttl: 7d}",
                                             "retry: {schedule: [1s, 5s]}"))
    assert bare(explain("-c", path, "retry")) == [
        "rules:", "  - name: a", "    retry: {schedule: [1s, 5s], profile: user_facing}"]
    path.write_text(path.read_text().replace("retry: {schedule: [1s, 5s]}",
                                             "once: {key: '{body:/ref}', ttl: 7d}"))
    told = json.loads(explain("-c", path, "--json"))
    assert told["options"]["cors"]["value"] == {"origins": ["*"], "credentials": "false"}
    assert told["rules"][0]["once"]["value"]["duplicate"] == "reject"


def test_an_option_that_there_is_not_is_met_with_the_nearest():
    for more in ([], ["-c", ROOT / "examples/demo/pawl.yaml"]):
        ran = run("config", "explain", "tlt", *more)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert "did you mean `ttl`?" in ran.stderr


def test_a_config_is_told_with_where_each_value_comes_from(config):
    top, asked, held, open_ = map(options_of, explain("-c", config).split("  - name: "))
    assert top["listen"] == ('"127.0.0.1:8080"', "line 1")
    assert top["drain"] == ("5s", "line 6") and top["cache"] == ("auto", "default")
    assert asked["ttl"] == ("72h", "defaults, line 8")
    assert asked["unknown"] == ('{probe: "GET /by-key/{key}?id={path:id}"}', "line 14")
    assert asked["tenant"] == ('"{header:X-Merchant-Id}"', "top, line 4")
    assert asked["lease"] == ("30s", "default")
    assert held["ttl"] == ("forever", "line 18") and held["match"][1] == "line 16"
    assert held["payload"] == ('{exclude: ["/sent", "/a b"]}', "defaults, line 10")
    assert (asked["trust_tenant"], open_["trust_tenant"]) == (("true", "top, line 5"),
                                                              ("false", "line 20"))


def test_what_is_told_is_a_config_that_means_the_same(config, tmp_path):
    again, last = tmp_path / "deeper" / "again.yaml", tmp_path / "last.yaml"
    again.parent.mkdir()
    again.write_text(explain("-c", config), "utf-8")
    last.write_text(explain("-c", again), "utf-8")
    assert bare(last.read_text("utf-8")) == bare(again.read_text("utf-8"))
    assert explain("-c", last) == last.read_text("utf-8")
    assert f'store: "sqlite:{tmp_path}/pawl.db"' in again.read_text("utf-8")


def test_the_files_of_a_part_are_named_from_everywhere_too(tmp_path):
    config = tmp_path / "pawl.yaml"
    config.write_text("upstream: https://h\ntenant: none\n"
                      "upstream_tls: {ca: ca.pem, cert: ./c.pem, key: /k.pem, server_name: n}\n")
    assert options_of(explain("-c", config))["upstream_tls"][0] == (
        f'{{ca: "{tmp_path}/ca.pem", cert: "{tmp_path}/c.pem", key: "/k.pem", server_name: n}}')


def test_a_config_of_a_thousand_rules_is_told_as_a_config(tmp_path):
    path, again = tmp_path / "pawl.yaml", tmp_path / "again.yaml"
    rules = "".join(f"  - {{name: rule.{i}, match: POST /path/{i}}}\n" for i in range(1000))
    path.write_text(f"upstream: http://127.0.0.1:9\ntenant: none\nrules:\n{rules}")
    again.write_text(explain("-c", path))
    assert run("serve", "-t", "-c", again).returncode == 0


def test_what_would_be_refused_in_a_rule_is_a_comment_there(config):
    _, asked, held, _ = explain("-c", config).split("  - name: ")
    assert re.search(r"^    probe_status: 201 +# defaults, line 9$", asked, re.M)
    assert re.search(r"^    # probe_status: 201 +# defaults, line 9$", held, re.M)


def test_the_environments_secrets_are_not_printed(config):
    text = explain("-c", config, "upstream")
    assert text.startswith('upstream: "http://${WHERE}:9"') and "127.0.0.1" not in text
    assert json.loads(explain("-c", config, "--json"))["options"]["upstream"] == {
        "value": "http://${WHERE}:9", "from": "top", "line": 2}


def test_one_option_of_a_config_is_told_for_every_rule(config):
    assert bare(explain("-c", config, "ttl")) == [
        "rules:", "  - name: asked", "    ttl: 72h", "  - name: held", "    ttl: forever",
        "  - name: open", "    ttl: 72h"]


def test_as_json_every_rule_has_every_option(config):
    told = json.loads(explain("-c", config, "--json"))
    asked, held, _ = told["rules"]
    assert set(asked) == set(held) and len(asked) > 20
    assert asked["key_format"]["value"] == {"regex": '^[a-z]"\\\\:#{1,8}$'}
    assert held["query"] == {"value": ["a:b", "c, d", "ü"], "from": "rule", "line": 19}
    assert asked["settle"] == {"value": None, "from": "default", "without": "(the rule's timeout)"}
    assert asked["payload"]["from"] == "defaults"


def test_a_bad_config_is_refused_as_serve_does(config):
    config.write_text("tenat: 1\n")
    explained, served = run("config", "explain", "-c", config), run("serve", "-t", "-c", config)
    assert (explained.returncode, explained.stdout) == (2, "")
    assert explained.stderr == served.stderr
    ran = run("config", "explain", "-c", config.parent / "none")
    assert ran.stderr == f"{config.parent}/none: cannot be read: No such file or directory\n"


@pytest.mark.parametrize("token, shown", [
    ("sixteen-or-longer", "(hidden)"), ("prefix-of-${WHERE}", "(hidden)"),
    ("${TOKEN}", "${TOKEN}")])
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_token_in_the_config_is_not_printed(tmp_path, monkeypatch, token, shown, flags):
    """found: A-L22"""
    monkeypatch.setenv("TOKEN", "sixteen-or-longer")
    path = tmp_path / "pawl.yaml"
    path.write_text(f"admin_token: \"{token}\"\n" + TEXT, "utf-8")
    printed = explain(*flags, "-c", path)
    assert "sixteen-or-longer" not in printed and "prefix-of" not in printed
    assert (json.loads(printed)["options"]["admin_token"]["value"] if flags
            else options_of(printed)["admin_token"][0].strip('"')) == shown


@pytest.mark.parametrize("store, shown", [
    ("postgres://pawl@db/pawl", "postgres://pawl@db/pawl"),
    ("postgres://pawl:${PAWL_PW}@db/pawl", "postgres://pawl:${PAWL_PW}@db/pawl"),
    ("postgres://pawl:hunter2@db/pawl", "(hidden)"),
    ("postgres://pawl:${PAWL_PW}hunter2@db/pawl", "(hidden)"),
    ("postgres://db/pawl?user=pawl&password=hunter2", "(hidden)"),
])
def test_a_password_in_the_url_of_the_store_is_not_printed(tmp_path, monkeypatch, store, shown):
    monkeypatch.setenv("PAWL_PW", "secret")
    path = tmp_path / "pawl.yaml"
    text = TEXT.replace("sqlite:./pawl.db", f"\"{store}\"")
    path.write_text(text, "utf-8")
    monkeypatch.setenv("WHERE", "127.0.0.1")
    printed = explain("-c", path)
    assert "hunter2" not in printed
    assert options_of(printed)["store"][0].strip('"') == shown


@pytest.mark.parametrize("tenant, secret", [
    ('"{header:Authorization}"', "true"), ('"{header:X-Merchant-Id}"', "false"), ("none", "false"),
])
def test_a_tenant_that_is_a_credential_is_shown_as_secret(tmp_path, tenant, secret):
    config = tmp_path / "pawl.yaml"
    config.write_text(f"upstream: http://h\nrules:\n  - name: a\n    match: POST /a\n"
                      f"    tenant: {tenant}\n")
    origin = ("true", "tenant, line 5") if secret == "true" else ("false", "default")
    assert options_of(explain("secret", "-c", config).partition("rules:")[2])["secret"] == origin
    told = json.loads(explain("secret", "--json", "-c", config))["rules"][0]["secret"]
    assert told["value"] == secret
    config.write_text(explain("-c", config))
    assert options_of(explain("-c", config).partition("rules:")[2])["secret"][0] == secret
