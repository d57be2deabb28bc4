"""Others at work during a run: one snapshot, or nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import make_url

import dbanon
from dbanon.errors import OutputBusy, SourceChanged
from tests.stores.databases import Database, DuckdbDatabase, PostgresqlDatabase
from tests.stores.people import load_people, rows_of_people

pytestmark = pytest.mark.own_backends

NUMERIC = ["age", "height"]

CHANGES = [
    # One per change: the identifiers are new each time.
    "INSERT INTO people SELECT id + (SELECT max(id) FROM people), name, 1, 0, 1, born, seen, 'late'"
    " FROM people",
    "UPDATE people SET age = 1, height = 1, site = 'late' WHERE id % 2 = 0",
    "DELETE FROM people WHERE id % 3 = 0",
    "VACUUM people",
    "ANALYZE people",
]


@pytest.mark.parametrize("key", [True, False])
@pytest.mark.parametrize("target", [None, "duckdb"])
def test_a_run_sees_one_snapshot(
    postgresql: PostgresqlDatabase, duckdb_file: DuckdbDatabase, key: bool, target: str | None
) -> None:
    rows = load_people(postgresql, key=key)
    changes = iter(CHANGES * 20)
    phases = set()

    def write(phase: str, share: float) -> None:
        if phase not in phases or phase == "read":
            phases.add(phase)
            postgresql.execute(next(changes))

    report = postgresql.anonymize(
        quasi_identifiers=NUMERIC,
        keep=["site"],
        chunk_rows=5,
        progress=write,
        target=None if target is None else duckdb_file.url,
    )
    assert phases == {"read", "cluster", "write", "verify"}
    assert report.rows_in == report.rows_out == len(rows)
    target_database: Database = postgresql if target is None else duckdb_file
    sites = target_database.rows("SELECT site FROM release.people")
    assert Counter(sites) == Counter((row[7],) for row in rows)
    assert target_database.rows("SELECT count(*) FROM release.people WHERE age = 1") == [(0,)]


def test_writers_are_not_held_up_by_a_reading_run(postgresql: PostgresqlDatabase) -> None:
    load_people(postgresql)

    def write(phase: str, share: float) -> None:
        postgresql.execute("SET lock_timeout = '2s'; UPDATE people SET name = name || '.'")

    postgresql.anonymize(quasi_identifiers=NUMERIC, progress=write)
    assert postgresql.rows("SELECT count(*) FROM people WHERE name NOT LIKE '%..%'") == [(0,)]


VOLATILE = {"postgresql": "random() < 0.5", "duckdb": "random() < 0.5", "sqlite": "random() > 0"}


@pytest.mark.parametrize("copied", [False, True])
def test_a_view_that_changes_by_itself_is_refused(
    database: Database, tmp_path: Any, copied: bool
) -> None:
    load_people(database, rows_of_people(200), "base")
    database.execute(f"CREATE VIEW people AS SELECT * FROM base WHERE {VOLATILE[database.name]}")
    target = DuckdbDatabase(tmp_path / "target.duckdb") if copied else None
    before = database.state(), target and target.state()
    with pytest.raises(SourceChanged) as caught:
        database.anonymize(
            quasi_identifiers=NUMERIC, keep=["site"], key=["id"], target=target and target.url
        )
    assert caught.value.exit_code == 4
    assert (database.state(), target and target.state()) == before


@pytest.mark.parametrize("if_exists", ["error", "replace"])
def test_a_second_run_to_one_output_is_refused_at_once(
    postgresql: PostgresqlDatabase, if_exists: str
) -> None:
    load_people(postgresql)
    # Makes the schemas: whoever makes one holds up others until the end.
    postgresql.anonymize(quasi_identifiers=NUMERIC, output="release.other")
    refused: list[OutputBusy] = []
    planned: list[Any] = []
    phases: list[str] = []

    def run_another(phase: str, share: float) -> None:
        if phase == "cluster" and not refused:
            with pytest.raises(
                OutputBusy, match=r"Another run is writing release\.people"
            ) as caught:
                postgresql.anonymize(
                    quasi_identifiers=NUMERIC,
                    k=5,
                    if_exists=if_exists,
                    progress=lambda phase, share: phases.append(phase),
                )
            refused.append(caught.value)
            # A plan neither blocks the output nor is blocked by it.
            planned.append(
                dbanon.plan(
                    postgresql.url,
                    table="people",
                    quasi_identifiers=NUMERIC,
                    k=5,
                    output="release.people",
                    if_exists=if_exists,
                )
            )

    report = postgresql.anonymize(
        quasi_identifiers=NUMERIC, if_exists=if_exists, progress=run_another
    )
    assert refused[0].exit_code == 4
    # It read no row: it ended while its plan was made.
    assert set(phases) <= {"read"}
    assert planned[0].output == "release.people"
    current = postgresql.rows(
        "SELECT release_id::text FROM dbanon.release"
        " WHERE superseded_at IS NULL AND output_name = 'people'"
    )
    assert current == [(report.release_id,)]


def test_a_lock_of_a_role_that_may_not_publish_blocks_no_run(
    postgresql: PostgresqlDatabase,
) -> None:
    load_people(postgresql)
    postgresql.anonymize(quasi_identifiers=NUMERIC, output="release.other")
    lock = 'SELECT pg_advisory_lock(hashtextextended(\'dbanon output "release"."people"\', 0))'
    role = f"squatter_{uuid4().hex[:8]}"
    postgresql.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'secret'")
    try:
        url = (
            make_url(postgresql.url)
            .set(username=role, password="secret")
            .render_as_string(hide_password=False)
        )
        with postgresql.connect(url) as squatter:
            squatter.execute(lock.encode())
            postgresql.anonymize(quasi_identifiers=NUMERIC)
    finally:
        postgresql.execute(f"DROP ROLE {role}")
    # A role that may publish there could as well make a relation of this name.
    with postgresql.connect() as publisher:
        publisher.execute(lock.encode())
        with pytest.raises(OutputBusy, match="process"):
            postgresql.anonymize(quasi_identifiers=NUMERIC, if_exists="replace")
