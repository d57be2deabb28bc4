"""Others at work during a run: one snapshot, or nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from dbanon.errors import SourceChanged
from tests.stores.databases import Database, DuckdbDatabase, PostgresqlDatabase
from tests.stores.people import load_people, rows_of_people

pytestmark = pytest.mark.own_backends

NUMERIC = ["age", "height"]

CHANGES = [
    # As often as there are changes to make: ids are new each time.
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
    here: Database = postgresql if target is None else duckdb_file
    found = here.rows("SELECT site FROM release.people")
    assert Counter(found) == Counter((row[7],) for row in rows)
    assert here.rows("SELECT count(*) FROM release.people WHERE age = 1") == [(0,)]


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


def test_two_runs_to_one_output(postgresql: PostgresqlDatabase) -> None:
    """The one that commits first wins, the other leaves nothing."""
    load_people(postgresql)
    # Makes the schemas: whoever makes one holds up others until the end.
    earlier = postgresql.anonymize(quasi_identifiers=NUMERIC, output="release.other")
    first: list[Any] = []

    def overtake(phase: str, share: float) -> None:
        if phase == "cluster" and not first:
            first.append(None)
            first.append(postgresql.anonymize(quasi_identifiers=NUMERIC, k=5))

    with pytest.raises(Exception, match="Another session made a relation of this name"):
        postgresql.anonymize(quasi_identifiers=NUMERIC, progress=overtake)
    assert {release_id for release_id, *_ in postgresql.ledger_rows("release")} == {
        UUID(earlier.release_id),
        UUID(first[1].release_id),
    }
    # At once, both replacing one release: the ledger shows one of them.
    first.clear()
    how: dict[str, Any] = {"quasi_identifiers": NUMERIC, "if_exists": "replace"}

    def replace(phase: str, share: float) -> None:
        if phase == "cluster" and not first:
            first.append(None)
            first.append(postgresql.anonymize(k=7, **how))

    with pytest.raises(SourceChanged):
        postgresql.anonymize(k=4, progress=replace, **how)
    current = postgresql.rows(
        "SELECT release_id::text, k_requested FROM dbanon.release"
        " WHERE superseded_at IS NULL AND output_name = 'people'"
    )
    assert current == [(first[1].release_id, 7)]
