"""The SQL with which readers count a release again runs as it is printed, on every database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import dbanon
from dbanon.errors import ReleaseChanged
from dbanon.run.inspect_release import inspect_release
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from tests.stores.databases import ALL_NAMES, Database

DATABASES = ALL_NAMES
# A reserved word, the aliases of the queries, and the quotation marks of all databases.
NAMES = ["rows", "class_size", "V0", 'a "b" `c`']

pytestmark = pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")


def load(database: Database) -> None:
    columns = dict.fromkeys(["id", *NAMES], "integer") | {"site": database.types["text"]}
    rows = [
        (person, person % 2, person % 3, person * 7 % 5, person * person % 4, "xX"[person % 2])
        for person in range(40)
    ]
    database.load("people", columns, rows)


def release(database: Database, **options: Any) -> dbanon.Report:
    # No row id or key is the same on all databases.
    return database.anonymize(quasi_identifiers=NAMES, key=["id"], **options)


def count(database: Database, queries: str) -> list[tuple[int, ...]]:
    """The counts of queries that end with a semicolon, which return one row each."""
    *statements, text_after_last = queries.split(";")
    assert not text_after_last.strip()
    counts = []
    for statement in statements:
        [row] = database.reader_rows(statement)
        counts.append(tuple(map(int, row)))
    return counts


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"by": ["site"]},
        {"method": "local_suppression"},
        {"method": "local_suppression", "options": {"missing": "wildcard"}},
    ],
    ids=str,
)
def test_whole_rows(database: Database, options: dict[str, Any]) -> None:
    load(database)
    report = release(database, **options)
    reported = [(report.k_achieved, report.classes, report.rows_out)]
    verification = dbanon.verify(database.url, "release.people")
    assert count(database, str(verification.recount_sql)) == reported
    inspection = inspect_release(open_store(database.url), parse_relation("release.people"))
    [(_, query)] = inspection.recount_queries
    assert count(database, query) == reported


def test_attributes_by_themselves(database: Database) -> None:
    load(database)
    report = release(database, method="individual_ranking", guarantee="per_attribute")
    verification = dbanon.verify(database.url, "release.people")
    counts = count(database, str(verification.recount_sql))
    assert len(counts) == len(NAMES)
    assert min(smallest for smallest, _, _ in counts) == report.k_achieved
    inspection = inspect_release(open_store(database.url), parse_relation("release.people"))
    *by_column, (_, whole_rows) = inspection.recount_queries
    assert [row for _, query in by_column for row in count(database, query)] == counts
    [(smallest, _, n_rows)] = count(database, whole_rows)
    assert (smallest, n_rows) == (report.k_rows, report.rows_out)


@pytest.mark.in_turn
def test_any_relation_and_file(database: Database, tmp_path: Path) -> None:
    load(database)
    verification = dbanon.verify(database.url, "people", quasi_identifiers=["rows"], k=2)
    assert count(database, str(verification.recount_sql)) == [(20, 2, 40)]
    file = tmp_path / 'people\'s "rows".parquet'
    report = release(database, exports=[file])
    query = str(dbanon.verify_file(file).recount_sql)
    assert duckdb.sql(query).fetchall() == [(report.k_achieved, report.classes, 40)]


def test_values_that_are_equal_and_look_different(database: Database) -> None:
    # Numbers are equal in their type and look different, except on MariaDB; so are towns on SQLite
    # and MariaDB, whose collation ignores case.
    sql_type, first, second = {
        "duckdb": ("INTERVAL", "INTERVAL '1 month'", "INTERVAL '30 days'"),
        "sqlite": ("BLOB", "1", "1.0"),
        "postgresql": ("numeric", "7.5", "7.50"),
        "mariadb": ("decimal(4,2)", "7.5", "8.5"),
    }[database.name]
    text_type = database.types["text"]
    if database.name == "sqlite":
        text_type += " COLLATE NOCASE"
    columns = {"id": "integer", "number": sql_type, "town": text_type}
    database.load("people", columns, [(i, None, "xX"[i % 3 == 0]) for i in range(40)])
    database.execute(f"UPDATE people SET number = CASE WHEN id < 12 THEN {first} ELSE {second} END")
    names = ["number", "town"]
    verification = dbanon.verify(database.url, "people", quasi_identifiers=names, k=2)
    assert verification.classes == 4
    reported = [(verification.k_achieved, 4, 40)]
    assert count(database, str(verification.recount_sql)) == reported


@pytest.mark.in_turn
def test_a_lost_column_is_left_to_verify(database: Database) -> None:
    load(database)
    release(database)
    database.execute(f"ALTER TABLE {database.relation('release.people')} DROP COLUMN class_size")
    inspection = inspect_release(open_store(database.url), parse_relation("release.people"))
    assert inspection.recount_queries == ()
    with pytest.raises(ReleaseChanged):
        dbanon.verify(database.url, "release.people")
