"""Rights that a job's role lacks: the plan prints the statements that grant them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.postgres_server import Server
from tests.stores.databases import PostgresqlDatabase
from tests.stores.job_lines import call, job, job_results, write
from tests.stores.people import load_people

pytestmark = pytest.mark.own_backends


def test_what_lacks_is_what_has_to_be_granted(
    pg_server: Server,
    pg_url: str,
    pg_role: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = PostgresqlDatabase(pg_url)
    load_people(database)
    name = database.rows("SELECT current_database()")[0][0]
    anna = pg_role("an na")
    database.execute(
        'CREATE SCHEMA "re lease"',
        'CREATE SCHEMA "Ap p"',
        'ALTER TABLE people SET SCHEMA "Ap p"',
        f'REVOKE TEMPORARY ON DATABASE "{name}" FROM PUBLIC',
    )
    monkeypatch.setenv("PEOPLE", anna)
    job_lines = job(
        table="'\"Ap p\".people'",
        output="{table: '\"re lease\".people'}",
        entity="id",
        where="\"name <> 'x'\"",
    )
    file = write(tmp_path, job_lines)
    before = database.state()
    done = call("plan", file, "--format", "json")
    assert done.exit_code == call("run", file).exit_code == 5
    grants = job_results(done)[0]["grants"]
    assert 'GRANT USAGE ON SCHEMA "Ap p" TO "an na"' in grants
    assert 'GRANT SELECT ("age", "income", "site", "id") ON "Ap p"."people" TO "an na"' in grants
    assert 'GRANT USAGE, CREATE ON SCHEMA "re lease" TO "an na"' in grants
    planned = call("plan", file)
    assert (planned.exit_code, "GRANT USAGE ON SCHEMA" in planned.stdout) == (5, True)
    assert database.state() == before
    # They are the missing ones, and all of them.
    database.execute(*grants, 'GRANT SELECT (name) ON "Ap p".people TO "an na"')
    done = call("plan", file, "--format", "json")
    assert done.exit_code == 0, done.stderr
    assert call("run", file).exit_code == 0
