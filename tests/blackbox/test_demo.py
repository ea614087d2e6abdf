# SPDX-License-Identifier: Apache-2.0
"""What a reader of README.md meets first: `pawl serve --demo`, and the lines to try."""
from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from pawltest.gateway import PAWL, ROOT, free_port, run
from pawltest.wire import PATIENCE, eventually

pytestmark = pytest.mark.file_only

GATEWAY_PID = re.compile(r"^pawl: PID (\d+); kill -9 \1 ", re.M)
DEMO_PID = re.compile(r"^pawl demo: listening on .*, pid (\d+)$", re.M)
LINES = re.findall(r"^    ((?:curl|seq) .*:8080.*)$", (ROOT / "README.md").read_text("utf-8"), re.M)


class Demo:
    """The config of examples/demo on ports of its own; its gateway may die and start again."""

    def __init__(self, directory: Path):
        self.port, self.upstream_port = free_port(), free_port()
        text = (ROOT / "examples/demo/pawl.yaml").read_text("utf-8")
        text = text.replace(":8080", f":{self.port}").replace(":9000", f":{self.upstream_port}")
        self.config = directory / "pawl.yaml"
        self.config.write_text(text.replace("../../build/", ""))
        self.printed = directory / "printed"
        self.command = [str(PAWL), "serve", "--demo", "-c", str(self.config)]
        self.process: subprocess.Popen[bytes] | None = None
        self.lives = 0

    def start(self) -> None:
        self.lives += 1
        with self.printed.open("ab") as to:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=to,
                                            stderr=to)
        eventually(lambda: self.process.poll() is not None
                   or self.text.count("pawl: ready") == self.lives, "the ready line")
        assert self.process.poll() is None, self.text

    def kill9(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    @property
    def text(self) -> str:
        return self.printed.read_text("utf-8")

    def run(self, line: str) -> str:
        """What a line of the README prints here."""
        line = line.replace("127.0.0.1:8080", f"127.0.0.1:{self.port}")
        ran = subprocess.run(["bash", "-c", line.replace("curl ", "curl -sS ")], text=True,
                             capture_output=True, timeout=PATIENCE, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def ledger(self) -> list[Any]:
        return json.loads(self.run("curl 127.0.0.1:8080/ledger"))

    def discard(self) -> None:
        if self.process and self.process.poll() is None:
            self.kill9()
        for pid in DEMO_PID.findall(self.text):
            subprocess.run(["kill", "-9", pid], check=False)


@pytest.fixture(name="demo")
def made_demo(tmp_path: Path) -> Iterator[Demo]:
    made = Demo(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.discard()


def curl(needed: Callable[..., Any]) -> Callable[..., Any]:
    return pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")(needed)


@curl
def test_the_lines_of_the_readme_do_what_it_says(demo):
    first, again, other, at_once, lost, _ = [demo.run(line) for line in LINES]
    assert first.startswith("HTTP/1.1 201 ") and "Idempotency-Status: stored" in first
    assert again.startswith("HTTP/1.1 201 ") and "Idempotency-Status: replayed" in again
    assert other.startswith("HTTP/1.1 409 ") and "payload_mismatch" in other
    assert len(at_once.splitlines()) == 10 and len(set(at_once.splitlines())) == 1
    assert lost.startswith("HTTP/1.1 201 ") and "Idempotency-Status: stored" in lost
    assert [entry["key"] for entry in demo.ledger()] == ["k1", "k2", "k3"]


def test_the_lines_that_are_printed_are_those_of_the_readme(demo):
    printed = demo.text.replace(str(demo.port), "8080")
    assert len(LINES) == 6
    for line in LINES:
        assert f"\n  {line}\n" in printed


@curl
def test_there_is_no_demo_behind_https(tmp_path):
    config = tmp_path / "pawl.yaml"
    config.write_text("upstream: https://127.0.0.1:9\ntenant: none\nstore: sqlite:pawl.db\n")
    ran = run("serve", "--demo", "-c", config)
    assert ran.returncode != 0 and "the demo upstream needs `upstream: http:" in ran.stderr


def test_the_demo_outlives_a_killed_gateway_and_its_ledger_counts_on(demo):
    told = demo.run(LINES[0])
    demo.kill9()
    demo.start()
    assert demo.run(LINES[1]).split("\n\n")[1] == told.split("\n\n")[1]
    assert len(demo.ledger()) == 1
    assert len(DEMO_PID.findall(demo.text)) == 1
    assert "no demo upstream is started" in demo.text


@curl
def test_the_script_prints_the_pid_of_the_gateway(demo, tmp_path):
    demo.kill9()
    for folder in ("scripts", "build", "examples/demo"):
        (tmp_path / folder).mkdir(parents=True)
    script = tmp_path / "scripts/run"
    shutil.copy(ROOT / "scripts/run", script)
    (tmp_path / "scripts/build").symlink_to(shutil.which("true"))
    (tmp_path / "build/pawl").symlink_to(PAWL.resolve())
    demo.config.rename(tmp_path / "examples/demo/pawl.yaml")
    demo.command = [str(script)]
    demo.start()
    assert GATEWAY_PID.findall(demo.text) == [str(demo.process.pid)]
    assert demo.run("curl 127.0.0.1:8080/ledger")
