# SPDX-License-Identifier: Apache-2.0
"""A schema that is missing, older or newer is named, with what mends it."""
from __future__ import annotations

import pytest

from server import ROLE
from test_away import start_in_vain

CONFIG = """
tenant: none
rules:
  - {name: refunds.create, match: POST /refunds}
"""
MENDS = "pawl schema postgres | psql"


def test_a_first_start_installs_it_where_it_may(pawl, upstream):
    gateway = pawl(CONFIG)
    assert gateway.post("/refunds", {}, key="k1").status == 201


def test_where_it_may_not_it_says_what_the_owner_is_to_run(pawl, server, database):
    database.sql(f"ALTER DATABASE {database.name} OWNER TO postgres")
    said = start_in_vain(pawl(CONFIG, started=False))
    assert "permission denied for database" in said and MENDS in said and "GRANT" in said
    assert "ERROR" not in said and "\t" not in said


@pytest.mark.parametrize("change, word", [("99", "newer"), ("0", "older")])
def test_a_schema_of_another_version_is_named(pawl, database, change, word):
    gateway = pawl(CONFIG)
    gateway.stop()
    database.sql(f"UPDATE pawl.store SET format = {change}")
    said = start_in_vain(gateway)
    assert f"{word} pawl" in said
    assert (MENDS in said) == (word == "older")


def test_a_schema_that_goes_is_a_store_that_is_away_until_it_is_back(pawl, upstream, database):
    gateway = pawl(CONFIG + "store_timeout: 1s\n")
    database.sql("ALTER SCHEMA pawl RENAME TO elsewhere")
    answer = gateway.post("/refunds", {}, key="k1")
    assert answer.is_problem(503, "DEPENDENCY.store_unavailable")
    database.sql("ALTER SCHEMA elsewhere RENAME TO pawl")
    assert gateway.post_up("/refunds", {}, key="k1").status == 201
    assert upstream.effects() == 1


def test_a_role_needs_no_more_than_the_schemas_rights(pawl, upstream, server, database):
    """Installed by its owner, used by another role."""
    gateway = pawl(CONFIG)
    assert gateway.post("/refunds", {}, key="k1").status == 201
    assert server.sql("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = %s",
                      ROLE) == [(False,)]
