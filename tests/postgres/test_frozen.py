# SPDX-License-Identifier: Apache-2.0
"""A store that an operator froze, and the applications that have their records in it. What gateways
and commands do is in blackbox/test_freeze.py."""
from __future__ import annotations

import psycopg2
import pytest

from pawltest.gateway import ROOT, run

GUIDE = (ROOT / "docs/guide/postgresql.md").read_text("utf-8")
IN_FLIGHT = GUIDE.partition("-- in-flight.sql\n")[2].partition("```")[0]
BEGIN = "SELECT token FROM pawl.begin('m1', 'refunds.create', %s)"


def test_functions_of_applications_are_refused_and_what_began_is_shown(pawl, database):
    pawl()
    with database.connect() as early, database.connect() as late:
        cursor, refused = early.cursor(), late.cursor()
        cursor.execute(BEGIN, ["k1"])
        ((token,),) = cursor.fetchall()
        frozen = run("store", "freeze", "--store", database.url)
        assert frozen.returncode == 0, "it does not see transactions of applications"
        with pytest.raises(psycopg2.Error) as caught:
            refused.execute(BEGIN, ["k2"])
        assert caught.value.pgcode == "PW005"
        late.rollback()
        ((pid, *_),) = database.sql(IN_FLIGHT)
        assert pid == early.info.backend_pid
        cursor.execute("SELECT pawl.complete(%s)", [token])
        early.commit()
        assert database.sql(IN_FLIGHT) == []
        assert run("store", "thaw", "--store", database.url).returncode == 0
        refused.execute(BEGIN, ["k2"])
        late.rollback()
