# SPDX-License-Identifier: Apache-2.0
"""What `pawl send` and `pawl queue` do on a store is in `/metrics` of any `serve` on it, and in
`pawl stats`: as many as there were."""
from __future__ import annotations

import json
from typing import Any

import pytest

from pawltest.admin import Admin, Series, series, with_admin
from pawltest.gateway import run
from pawltest.upstream import Upstream, say
from pawltest.wire import eventually

pytestmark = pytest.mark.file_only

CONFIG = "tenant: none\nrules:\n  - {name: refunds.create, match: POST /refunds, unknown: hold}\n"
COUNTED = ("pawl_retry_operations_total", "pawl_retry_attempts_total", "pawl_retry_exhausted_total")


def failing() -> Any:
    return say(503, {"no": True}, effect=False)


def counted(page: Series) -> dict[tuple[str, str], int]:
    """By series and profile, what the store counted."""
    return {(name, dict(labels)["profile"]): int(value) for (name, labels), value in page.items()
            if name in COUNTED and dict(labels).get("counted_in") == "store"}


@pytest.fixture
def both(pawl: Any) -> Any:
    return with_admin(pawl, CONFIG)


def send(gateway: Any, upstream: Upstream, key: str, *options: str) -> int:
    return run("send", "--store", gateway.store, "--key", key, "-d", "x", *options,
               f"http://127.0.0.1:{upstream.port}/sent").returncode


def shows(admin: Admin, wanted: dict[tuple[str, str], int]) -> None:
    eventually(lambda: counted(admin.series()) == wanted, str(wanted))


def test_R8_what_send_tried_is_counted_in_the_store(both, upstream):
    gateway, admin = both
    assert counted(admin.series()) == {}
    upstream.then(failing(), failing())
    assert send(gateway, upstream, "k-1") == 0
    assert send(gateway, upstream, "k-1") == 0  # done before: no attempt
    upstream.default = failing()
    assert send(gateway, upstream, "k-2", "--deadline", "2s") in (75, 124)
    retried = len(upstream.requests) - 2
    wanted = {("pawl_retry_operations_total", "user_facing"): 2,
              ("pawl_retry_attempts_total", "user_facing"): retried,
              ("pawl_retry_exhausted_total", "user_facing"): 1}
    shows(admin, wanted)
    printed = run("stats", "--prometheus", "--store", gateway.store).stdout
    assert counted(series(printed)) == wanted
    own = {name: value for (name, labels), value in admin.series().items()
           if name in COUNTED and "counted_in" not in dict(labels)}
    assert set(own.values()) == {0.0}  # none of its own


def tasks(admin: Admin) -> dict[str, int]:
    return {dict(labels)["state"]: int(value) for (name, labels), value in admin.series().items()
            if name == "pawl_tasks" and dict(labels)["kind"] == "queue" and value}


def test_tasks_are_counted_by_state_and_the_oldest_has_an_age(both, upstream):
    gateway, admin = both
    url = f"http://127.0.0.1:{upstream.port}/queued"
    assert tasks(admin) == {} and admin.value("pawl_task_oldest_seconds", kind="queue") == 0
    line = json.dumps({"url": url})
    run("queue", "add", "--store", gateway.store, "-", input=f"{line}\n{line}\n{line}\n")
    eventually(lambda: tasks(admin) == {"waiting": 3}, "what waits")
    eventually(lambda: admin.value("pawl_task_oldest_seconds", kind="queue") >= 1, "an age")
    upstream.then(say(422, {"no": True}, effect=False))
    assert run("queue", "drain", "-j", "1", "--store", gateway.store).returncode == 1
    eventually(lambda: tasks(admin) == {"done": 2, "dead": 1}, "what was done")
    assert admin.value("pawl_task_oldest_seconds", kind="queue") == 0
