"""A job's types: of one kind from month to month, however large the values are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

import dbanon
from dbanon.errors import OutputChanged
from dbanon.sessions.types import type_family
from tests.prerequisites import skip_case
from tests.stores.databases import ALL_NAMES, Database, PostgresqlDatabase
from tests.stores.job_lines import call, job, write

DATABASES = ALL_NAMES


@pytest.mark.parametrize("kind", ["view", "table"])
def test_a_larger_value_is_no_other_type(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Widths may grow within a kind, and a column that is not read may take any type."""
    if (database.name, kind) == ("mariadb", "view"):
        skip_case("MariaDB releases tables only")
    monkeypatch.setenv("PEOPLE", database.url)
    decimal = database.types["decimal"].partition("(")[0]
    roles = dict.fromkeys(("age", "cost", "days"), "{role: quasi_identifier}")
    roles["note"] = "{role: drop}"
    more = ", keep_last: 2" if kind == "view" else ""

    def run(month: int, cost: str, days: str, note: str, **condition: str) -> tuple[int, str]:
        database.execute(*["DROP TABLE stays"] * (month > 0))
        database.execute(
            f"CREATE TABLE stays (age {database.types['integer']}, cost {decimal}({cost}),"
            f" days {database.types[days]}, note {note})",
            *(f"INSERT INTO stays VALUES ({20 + n % 7}, {n % 5}.5, {n}, NULL)" for n in range(20)),
        )
        named = job("stays", roles, f"{{{kind}: stays_out{more}}}", table="stays", **condition)
        done = call("run", write(tmp_path, named))
        return done.exit_code, done.stderr

    assert run(0, "5,2", "integer", "VARCHAR(9)")[0] == 0
    done = run(1, "6,2", "bigint", "INTEGER")
    assert done[0] == 0, done
    assert run(2, "6,2", "bigint", "VARCHAR(20)")[0] == 0
    # A condition may be about a column that is not read.
    exit_code, message = run(3, "6,2", "bigint", "INTEGER", where="note IS NULL")
    assert exit_code == 6
    assert "--accept-types note" in message
    exit_code, message = run(4, "6,2", "text", "VARCHAR(20)")
    assert exit_code == 6
    assert "--accept-types days" in message


@pytest.mark.parametrize(
    ("first", "other", "same"),
    [
        ("DECIMAL(5,2)", "DECIMAL(6, 3)", True),
        ("numeric", "numeric(10,2)", True),
        ("INTEGER", "BIGINT", True),
        ("int(11)", "bigint(20) unsigned", True),
        ("character varying(10)", "text", True),
        ("VARCHAR(9)", "VARCHAR(20)", True),
        ("float4", "double precision", True),
        ("timestamp(3)", "TIMESTAMP", True),
        ("INTEGER", "DECIMAL(5,2)", False),
        ("DECIMAL(5,2)", "VARCHAR", False),
        ("BIGINT", "DOUBLE", False),
        ("DATE", "TIMESTAMP", False),
        ("character(3)", "text", False),
        ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", False),
        ("enum('a','b')", "enum('a')", False),
    ],
)
def test_kinds_of_types(first: str, other: str, same: bool) -> None:
    assert (type_family(first) == type_family(other)) is same


def test_a_view_keeps_its_grants_when_a_column_widens(pg_url: str, pg_role: Any) -> None:
    postgresql = PostgresqlDatabase(pg_url)
    postgresql.make_schema("release")
    options: dict[str, Any] = {
        "table": "shown",
        "quasi_identifiers": ["age", "cost"],
        "output_kind": "view",
        "if_exists": "replace",
    }

    def widen(width: str) -> None:
        # The source is a view, too: PostgreSQL has it dropped before its column is altered.
        postgresql.execute(
            "DROP VIEW IF EXISTS shown",
            f"ALTER TABLE stays ALTER COLUMN cost TYPE numeric({width})",
            "CREATE VIEW shown AS SELECT * FROM stays",
        )

    rows = [(n, 20 + n % 7, n % 5 + 0.5) for n in range(20)]
    postgresql.load(
        "stays", {"id": "integer PRIMARY KEY", "age": "integer", "cost": "numeric"}, rows
    )
    widen("5,2")
    reader, stranger = (
        PostgresqlDatabase(pg_role("reader")),
        PostgresqlDatabase(pg_role("stranger")),
    )
    postgresql.execute(
        "ALTER DEFAULT PRIVILEGES IN SCHEMA release GRANT SELECT ON TABLES TO stranger",
        "GRANT USAGE ON SCHEMA release TO stranger",
    )
    first = postgresql.anonymize(**options, key=["id"])
    assert stranger.rows("SELECT count(*) FROM release.people") == [(20,)]
    postgresql.execute("REVOKE SELECT ON release.people FROM stranger")
    postgresql.execute(
        "GRANT USAGE ON SCHEMA release TO reader", "GRANT SELECT ON release.people TO reader"
    )
    widen("7,2")
    second = postgresql.anonymize(**options, key=["id"])
    assert reader.rows("SELECT count(*) FROM release.people") == [(20,)]
    # Default privileges do not restore a grant that the owner revoked.
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        stranger.rows("SELECT count(*) FROM release.people")
    verification = dbanon.verify(postgresql.url, "release.people")
    assert (verification.release_id, verification.unchanged) == (second.release_id, True)
    assert dbanon.verify(postgresql.url, first.release_id).unchanged
    postgresql.execute("CREATE VIEW release.mine AS SELECT age FROM release.people")
    # Objects that depend on the view are not dropped; they only prevent a change of widths.
    third = postgresql.anonymize(**options, key=["id"])
    widen("9,2")
    before = postgresql.state()
    with pytest.raises(OutputChanged, match=r'"cost" of the view release\.people'):
        postgresql.anonymize(**options, key=["id"])
    assert postgresql.state() == before
    assert dbanon.verify(postgresql.url, "release.people").release_id == third.release_id
