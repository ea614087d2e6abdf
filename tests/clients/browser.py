# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, and pages of two origins in it that fetch what a test tells them."""
from __future__ import annotations

import json
import queue
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Iterator

from pawltest.gateway import DIE_WITH_THE_TEST
from pawltest.wire import PATIENCE

CHROMIUM = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--disable-dev-shm-usage")
# What a page can read of an answer, and how it takes one that it may not read.
PAGE = """<!doctype html>
<meta charset="utf-8"><title>page</title>
<script>
async function ask({target, method, key, body, credentials}) {
  try {
    const answer = await fetch(target, {
      method, body: JSON.stringify(body), credentials,
      headers: {'Content-Type': 'application/json', 'Idempotency-Key': key},
    });
    return {status: answer.status, headers: Object.fromEntries(answer.headers),
            body: await answer.json()};
  } catch (error) {
    return {error: error.name};
  }
}
async function work() {
  for (;;) {
    const job = await (await fetch('/job')).json();
    await fetch('/done', {method: 'POST', body: JSON.stringify(await ask(job))});
  }
}
work();
</script>
"""


class Page:
    """A page and the server of its origin; it takes one job after the other from there."""

    def __init__(self, inner: Page | None = None):
        self._jobs: queue.Queue[dict[str, Any]] = queue.Queue()
        self._done: queue.Queue[dict[str, Any]] = queue.Queue()
        frame = f'<iframe src="{inner.origin}/"></iframe>' if inner else ""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(PAGE + frame))
        self._server.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _handler(self, text: str) -> type[BaseHTTPRequestHandler]:
        jobs, done = self._jobs, self._done

        class Handler(BaseHTTPRequestHandler):
            def answer(self, kind: str, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:  # pylint: disable=invalid-name
                if self.path == "/job":
                    self.answer("application/json", json.dumps(jobs.get()).encode())
                else:
                    self.answer("text/html", text.encode())

            def do_POST(self) -> None:  # pylint: disable=invalid-name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                done.put(json.loads(body))
                self.answer("text/plain", b"")

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def start(self, target: str, key: str, body: Any, method: str = "POST",
              credentials: str = "same-origin") -> None:
        self._jobs.put({"target": target, "key": key, "body": body, "method": method,
                        "credentials": credentials})

    def result(self) -> dict[str, Any]:
        """What the page read: status, headers, body; or the error's name."""
        return self._done.get(timeout=2 * PATIENCE)

    def fetch(self, *arguments: Any, **more: Any) -> dict[str, Any]:
        self.start(*arguments, **more)
        return self.result()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def pages(directory: Path) -> Iterator[tuple[Page, Page]]:
    """Two pages of two origins, the second within the first, in a browser of their own."""
    inner = Page()
    outer = Page(inner)
    with (directory / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            [*DIE_WITH_THE_TEST, *CHROMIUM, f"--user-data-dir={directory / 'profile'}",
             f"{outer.origin}/"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory,
            env={"HOME": str(directory), "PATH": "/usr/bin:/bin"})
    try:
        yield outer, inner
    finally:
        process.terminate()
        process.wait(PATIENCE)
        outer.close()
        inner.close()
