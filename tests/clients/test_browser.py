# SPDX-License-Identifier: Apache-2.0
"""A page's fetch through the gateway, from another origin: what it may read, and that what it may
not read has no second effect either."""
from __future__ import annotations

from typing import Any, Iterator

import pytest

from browser import Page, pages
from pawltest.upstream import closes, say
from pawltest.wire import Request

CONFIG = """
tenant: none
cors: {origins: [ORIGIN], credentials: true}
rules:
  - {name: refunds.create, match: POST /refunds, in_progress: conflict}
  - name: probed
    match: POST /probed
    unknown: {probe: "GET /probed/{key}"}
"""
BODY = {"amount": 5}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, Page]]:
    with pages(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture
def page(two: tuple[Page, Page]) -> Page:
    """Of the origin that the config names."""
    return two[0]


@pytest.fixture
def stranger(two: tuple[Page, Page]) -> Page:
    return two[1]


@pytest.fixture
def shop(pawl, upstream, page) -> str:
    """The gateway's address. The service lets any page ask; preflights are its own."""

    def serve(request: Request) -> Any:
        if request.method == "OPTIONS":
            return say(204, None, ("Access-Control-Allow-Origin", request["Origin"] or "*"),
                       ("Access-Control-Allow-Credentials", "true"),
                       ("Access-Control-Allow-Methods", "POST"),
                       ("Access-Control-Allow-Headers", "idempotency-key, content-type"))
        return upstream.created(request)

    upstream.default = serve
    return f"http://127.0.0.1:{pawl(CONFIG.replace('ORIGIN', page.origin)).port}"


def refusal(result: dict[str, Any]) -> tuple[int, str, str]:
    """Status, and the code as header and body tell it."""
    return result["status"], result["headers"]["error-code"], result["body"]["error_code"]


def test_a_page_reads_the_first_answer_and_its_replay(page, shop, upstream):
    first, again = (page.fetch(f"{shop}/refunds", "k1", BODY) for _ in range(2))
    assert (first["status"], first["body"]) == (again["status"], again["body"]) == (201, {"id": 1})
    assert first["headers"]["idempotency-status"] == "stored"
    assert again["headers"]["idempotency-status"] == "replayed"
    assert again["headers"]["idempotent-replayed"] == "true"
    assert upstream.effects() == 1


def test_a_page_reads_why_it_was_refused_and_mints_no_new_key(page, shop, upstream):
    page.fetch(f"{shop}/refunds", "k1", BODY)
    other = page.fetch(f"{shop}/refunds", "k1", {"amount": 6})
    code = "CONFLICT.idempotency.payload_mismatch"
    assert refusal(other) == (409, code, code)
    assert upstream.effects() == 1


def test_a_page_reads_that_its_outcome_is_unknown(page, shop, upstream):
    upstream.on("POST", "/refunds", closes())
    broke, again = (page.fetch(f"{shop}/refunds", "k1", BODY) for _ in range(2))
    assert refusal(broke) == (502, "TRANSIENT.upstream_broke", "TRANSIENT.upstream_broke")
    code = "CONFLICT.idempotency.outcome_unknown"
    assert refusal(again) == (409, code, code)
    assert again["body"]["safe_new_key"] is False
    assert upstream.effects() == 1


def test_a_page_gets_the_outcome_that_a_probe_found(page, shop, upstream):
    upstream.on("POST", "/probed", closes())
    upstream.on("GET", "/probed/k1", say(200, {"id": 7}))
    first, again = (page.fetch(f"{shop}/probed", "k1", BODY) for _ in range(2))
    assert first["body"] == again["body"] == {"id": 7}
    assert again["headers"]["idempotency-status"] == "replayed"
    assert upstream.effects() == 1


def test_a_page_reads_that_its_first_try_still_runs_and_when_to_come_again(page, stranger, shop,
                                                                          upstream):
    gate = upstream.gate()
    upstream.on("POST", "/refunds", say(201, {"id": 1}, gate=gate))
    stranger.start(f"{shop}/refunds", "k1", BODY)
    gate.wait_for()
    running = page.fetch(f"{shop}/refunds", "k1", BODY)
    code = "CONFLICT.idempotency.in_progress"
    assert refusal(running) == (409, code, code)
    assert running["headers"]["retry-after"] == "1"
    gate.open()
    stranger.result()
    assert page.fetch(f"{shop}/refunds", "k1", BODY)["body"] == {"id": 1}
    assert upstream.effects() == 1


def test_a_page_of_another_origin_reads_nothing_and_its_retries_have_one_effect(page, stranger,
                                                                               shop, upstream):
    hidden = [stranger.fetch(f"{shop}/refunds", "k1", BODY) for _ in range(2)]
    assert hidden == [{"error": "TypeError"}] * 2
    assert page.fetch(f"{shop}/refunds", "k1", BODY)["body"] == {"id": 1}
    assert upstream.effects() == 1


def test_a_page_with_credentials_reads_the_answer(page, shop, upstream):
    result = page.fetch(f"{shop}/refunds", "k1", BODY, credentials="include")
    assert (result["status"], result["body"]) == (201, {"id": 1})
    assert upstream.effects() == 1
