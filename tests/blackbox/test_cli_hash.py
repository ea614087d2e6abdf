# SPDX-License-Identifier: Apache-2.0
"""`pawl hash`: any client can compute the payload hash, and the canonical bytes that it is of."""
from __future__ import annotations

import hashlib
import json
import subprocess

import pytest

from pawltest.gateway import PAWL
from pawltest.wire import PATIENCE

pytestmark = pytest.mark.no_store

MIB = 1024 * 1024


def hashed(*arguments: str, body: bytes = b"", **more) -> subprocess.CompletedProcess[bytes]:
    more.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([PAWL, "hash", *arguments], input=body, stderr=subprocess.PIPE,
                          timeout=PATIENCE, check=False, **more)


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode() + b"\n"


def escape(text: str) -> str:
    short = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
    return "".join(short.get(ord(c)) or (f"\\u{ord(c):04x}" if ord(c) < 32 else c) for c in text)


def canonical(value) -> str:
    """RFC 8785 for what it and pawl agree on: doubles by their shortest text are left to `repr`
    within the range where it and ECMAScript write no exponent."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f'"{escape(value)}"'
    if isinstance(value, (int, float)):
        return str(int(value)) if value == int(value) else repr(value)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    return "{" + ",".join(f'"{escape(name)}":{canonical(value[name])}' for name in names) + "}"


VALUES = [
    None, True, False, 0, -1, 500, 1.5, -0.25, 123456789.125, "", "plain", [], {}, [[], {}],
    {"b": 1, "a": 2, "": 3}, {"amount": 500, "charge_id": "ch_1", "meta": {"z": [1, 2], "y": None}},
    {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\xf6": 7},
    'quote " backslash \\ slash / tab \t bell \x07 del \x7f', "\u00e9\u4e2d\U0001f600",
    [1, [2, [3, [4]]], {"deep": {"er": {}}}],
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_json_written_in_any_way_has_the_hash_of_its_canonical_form(value):
    expected = canonical(value).encode()
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=3)):
        ran = hashed("--canonical", body=text.encode())
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, expected, b"")
        assert hashed(body=text.encode()).stdout == sha256(expected)


@pytest.mark.parametrize("text, expected", [
    (b"1.0", b"1"), (b"1e0", b"1"), (b"-0", b"0"), (b"1E30", b"1e+30"), (b"0.0000001", b"1e-7"),
    (b"9007199254740993", b"9007199254740993"), (b"1e20", b"100000000000000000000"),
])
def test_numbers_count_by_their_decimal_value(text, expected):
    assert hashed("--canonical", body=text).stdout == expected


def test_a_file_a_dash_and_no_name_at_all_are_read_alike(tmp_path):
    path = tmp_path / "body.json"
    path.write_bytes(b'{"b":1,"a":2}')
    expected = sha256(b'{"a":2,"b":1}')
    assert hashed(str(path)).stdout == expected
    assert hashed("-", body=path.read_bytes()).stdout == expected
    assert hashed(body=path.read_bytes()).stdout == expected


@pytest.mark.parametrize("body, offset", [
    (b"", 0), (b'{"a":1,', 7), (b"[1 2]", 3), (b"1 2", 2), (b'"\xff"', 1), (b"\xef\xbb\xbf1", 0),
    (b"nul", 0),
])
def test_what_is_not_json_fails_and_names_the_byte(body, offset):
    ran = hashed(body=body)
    assert (ran.returncode, ran.stdout) == (65, b"")
    assert b"not JSON" in ran.stderr and ran.stderr.endswith(b" at byte %d\n" % offset)


@pytest.mark.parametrize("body, what", [
    (b'{"a":1,"a":2}', b"duplicate"), (b'"\\ud800"', b"surrogate"), (b"1e10000", b"number"),
    (b"[" * 201 + b"]" * 201, b"nested"),
])
def test_json_whose_raw_bytes_count_is_hashed_raw_with_a_note(body, what):
    ran = hashed(body=body)
    assert (ran.returncode, ran.stdout) == (0, sha256(body))
    assert b"note: " in ran.stderr and what in ran.stderr and b"raw bytes" in ran.stderr
    assert hashed("--canonical", body=body).stdout == body


def test_other_types_are_hashed_by_what_they_are():
    body = b'{ "a" : 1 }'
    assert hashed("--content-type", "text/plain", body=body).stdout == sha256(body)
    problem = "application/problem+json; charset=utf-8"
    assert hashed("-t", problem, "-c", body=body).stdout == b'{"a":1}'
    form = "application/x-www-form-urlencoded"
    assert hashed("-t", form, body=b"a=%41").stdout == hashed("-t", form, body=b"a=A").stdout
    ran = hashed("-t", "application/octet-stream", body=b"")
    assert (ran.returncode, ran.stdout) == (0, sha256(b""))


def test_more_than_64_mib_is_refused_and_64_mib_are_not():
    ran = hashed("-t", "text/plain", body=bytes(64 * MIB + 1))
    assert (ran.returncode, ran.stdout) == (65, b"")
    assert b"64 MiB" in ran.stderr
    assert hashed("-t", "text/plain", body=bytes(64 * MIB)).stdout == sha256(bytes(64 * MIB))


def test_what_cannot_be_read_or_written_is_an_error(tmp_path):
    ran = hashed(str(tmp_path / "none"))
    assert ran.returncode == 2 and b"none" in ran.stderr
    assert hashed(str(tmp_path)).returncode == 2
    with open("/dev/full", "wb") as full:
        ran = hashed(body=b"1", stdout=full)
    assert ran.returncode == 1 and b"cannot write" in ran.stderr


@pytest.mark.parametrize("value, key", [
    ("abc", "abc"), ('"abc"', "abc"), ('"a b";v=1', "a b"), ('"a\\"\\\\b"', 'a"\\b'),
    (' "k" ', "k"),
])
def test_a_header_value_gives_its_key(value, key):
    ran = hashed("--key", value)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, key.encode() + b"\n", b"")


@pytest.mark.parametrize("arguments", [
    ["--key", ""], ["--key", '""'], ["--key", "a,b"], ["--key", "a b"], ["--key", '"open'],
    ["--key", "k" * 256], ["--key", "caf\u00e9"], ["--key", "abc", "--strict"],
])
def test_a_value_that_is_no_key_fails_with_the_reason(arguments):
    ran = hashed(*arguments)
    assert (ran.returncode, ran.stdout) == (65, b"")
    assert ran.stderr.startswith(b"pawl hash: the key is ")


def test_json_prints_one_object():
    ran = hashed("--json", body=b"1.0")
    assert json.loads(ran.stdout) == {"payload_hash": sha256(b"1").decode().strip()}
    assert json.loads(hashed("--json", "--key", '"a \\"b"').stdout) == {"key": 'a "b'}
    assert hashed("--json", "--canonical", body=b"1").returncode == 2


def test_strict_takes_a_quoted_key():
    assert hashed("--key", '"abc"', "--strict").stdout == b"abc\n"


@pytest.mark.parametrize("arguments, said", [
    (["--canonicl"], "did you mean --canonical?"), (["--c"], "--c is ambiguous"),
    (["-x"], "no option -x"), (["--strict=1"], "takes no value"), (["--key"], "needs a value"),
    (["a", "b"], "unexpected argument `b`"), (["--strict"], "needs --key"),
    (["--key", "k", "a"], "no FILE"),
])
def test_a_wrong_command_line_is_explained(arguments, said):
    ran = hashed(*arguments)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert said in ran.stderr.decode()


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_goes_to_stdout(option):
    ran = hashed(option)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.startswith(b"usage: pawl hash ")
