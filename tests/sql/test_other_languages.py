# SPDX-License-Identifier: Apache-2.0
"""docs/guide/transactions-in-other-languages.md: its functions, as they are printed, in a program
that calls one of them. Go where there is a compiler and pgx as Debian has it."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pawltest.wire import PATIENCE, at_once
from shop import effects, url_of

PAGE = Path(__file__).resolve().parents[2] / "docs/guide/transactions-in-other-languages.md"
GO_PATH = Path("/usr/share/gocode")
HASH, OTHER_HASH = "a" * 64, "b" * 64

# Around the page's function: URL, tenant, key and hash as arguments; prints the status and the
# body, or the decision by which it refused.
PROGRAMS = {
    "go": """package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	_ "github.com/jackc/pgx/v4/stdlib"
)

type Refused struct{ decision string }

func (refused *Refused) Error() string { return refused.decision }

FUNCTION
func main() {
	db, err := sql.Open("pgx", os.Args[1])
	if err != nil {
		panic(err)
	}
	tenant, key, hash := os.Args[2], os.Args[3], os.Args[4]
	code, body, err := CreateRefund(context.Background(), db, tenant, key, hash, 1000)
	if refused, ok := err.(*Refused); ok {
		fmt.Print(refused.decision)
	} else if err != nil {
		panic(err)
	} else {
		fmt.Print(code, " ", string(body))
	}
}
""",
    "ruby": """require "json"
require "pg"
class Refused < StandardError; end
FUNCTION
url, tenant, key, hash = ARGV
begin
  code, body = create_refund(PG.connect(url), tenant, key, hash, 1000)
  print code, " ", body
rescue Refused => refused
  print refused.message
end
""",
    "php": r"""<?php
class Refused extends Exception {}
FUNCTION
[, $url, $tenant, $key, $hash] = $argv;
$at = parse_url($url);
$db = new PDO("pgsql:host={$at['host']};port={$at['port']};dbname=" . substr($at['path'], 1),
    $at['user'], $at['pass']);
try {
    [$code, $body] = create_refund($db, $tenant, $key, $hash, 1000);
    echo $code, ' ', $body;
} catch (Refused $refused) {
    echo $refused->getMessage();
}
""",
}
HAS_GO = shutil.which("go") and (GO_PATH / "src/github.com/jackc/pgx").exists()
AT_HAND = [name for name in PROGRAMS if name != "go" or HAS_GO]


def function_of(language: str) -> str:
    """As the page prints it."""
    return re.search(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.M)[1]


@pytest.fixture(scope="module", params=AT_HAND)
def program(request: Any, tmp_path_factory: Any) -> list[str]:
    """The command that runs it."""
    folder = tmp_path_factory.mktemp(request.param)
    source = folder / f"main.{request.param}"
    source.write_text(PROGRAMS[request.param].replace("FUNCTION\n", function_of(request.param)))
    if request.param != "go":
        return [request.param, str(source)]
    subprocess.run(["go", "build", "-o", folder / "refund", source], check=True, env={
        **os.environ, "GO111MODULE": "off", "GOPATH": str(GO_PATH), "GOCACHE": str(folder / "go")})
    return [str(folder / "refund")]


@pytest.fixture
def refund(program: list[str], database: Any) -> Any:
    """Runs it: what it printed."""
    def call(key: str = "k1", payload: str = HASH, tenant: str = "m1") -> str:
        ran = subprocess.run([*program, url_of(database), tenant, key, payload], text=True,
                             capture_output=True, timeout=PATIENCE, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout
    return call


def test_a_retry_gets_the_first_one_s_response(refund, database):
    first = refund()
    assert first.startswith("201 {") and refund() == first
    assert effects(database) == 1


def test_another_payload_and_another_tenant(refund, database):
    refund()
    assert refund(payload=OTHER_HASH) == "mismatch"
    assert refund(tenant="m2").startswith("201 {")
    assert effects(database) == 2


def test_of_many_at_once_one_runs_and_all_get_its_response(refund, database):
    assert len(set(at_once(4, lambda _: refund()))) == 1
    assert effects(database) == 1


def test_what_did_not_commit_is_not_there(refund, database):
    """The effect is refused by the database: nothing is recorded."""
    database.sql("ALTER TABLE refunds ADD CONSTRAINT small CHECK (amount < 1000)")
    try:
        with pytest.raises(AssertionError, match="small"):
            refund()
    finally:
        database.sql("ALTER TABLE refunds DROP CONSTRAINT small")
    assert refund().startswith("201 {") and effects(database) == 1
