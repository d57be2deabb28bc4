"""Traces of a release besides its values: no class numbers, no raw statistics, no way back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stores.databases import Database, PostgresqlDatabase
from tests.stores.people import QUASI_IDENTIFIERS, load_people

FIRST, SECOND = "age", "height"


def columns(database: Database) -> list[str]:
    if database.name == "postgresql":
        query = (
            "SELECT attname FROM pg_attribute WHERE attrelid = 'release.people'::regclass"
            " AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
    elif database.name == "duckdb":
        query = (
            "SELECT column_name FROM duckdb_columns() WHERE schema_name = 'release'"
            " AND table_name = 'people' ORDER BY column_index"
        )
    else:
        table = database.relation("release.people").strip('"')
        query = f"SELECT name FROM pragma_table_info('{table}') ORDER BY cid"
    return [name for (name,) in database.rows(query)]


@pytest.mark.parametrize("kind", ["table", "view"])
def test_no_number_of_a_class_or_row_is_released(database: Database, kind: str) -> None:
    load_people(database)
    database.anonymize(quasi_identifiers=[FIRST, SECOND], keep=["site"], output_kind=kind)
    assert columns(database) == [FIRST, SECOND, "site"]


def test_the_source_is_not_written_to(postgresql: PostgresqlDatabase) -> None:
    # An UPDATE would leave the original on the page, and give the row another address.
    load_people(postgresql)
    query = "SELECT ctid::text, xmin::text, xmax::text, * FROM people ORDER BY id"
    before = postgresql.rows(query)
    postgresql.anonymize(quasi_identifiers=QUASI_IDENTIFIERS, keep=["site"])
    assert postgresql.rows(query) == before


def relations_under(database: PostgresqlDatabase, name: str) -> set[Any]:
    """The relations that a view's text names."""
    return {
        relation
        for (relation,) in database.rows(
            "SELECT d.refobjid::regclass::text FROM pg_rewrite AS r JOIN pg_depend AS d"
            " ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid"
            " AND d.refclassid = 'pg_class'::regclass"
            f" WHERE r.ev_class = '{name}'::regclass AND d.refobjid <> r.ev_class"
        )
    }


def test_a_view_names_nothing_but_its_released_table(postgresql: PostgresqlDatabase) -> None:
    load_people(postgresql)
    report = postgresql.anonymize(
        quasi_identifiers=QUASI_IDENTIFIERS, keep=["site"], output_kind="view"
    )
    assert relations_under(postgresql, "release.people") == {report.relation}
    [(text,)] = postgresql.rows("SELECT pg_get_viewdef('release.people'::regclass)")
    assert "WHERE" not in text.upper()


def test_nothing_but_released_values_is_in_index_constraint_or_statistics(
    postgresql: PostgresqlDatabase,
) -> None:
    load_people(postgresql)
    postgresql.anonymize(quasi_identifiers=[FIRST, SECOND], keep=["site"])
    for catalog, column in (
        ("pg_index", "indrelid"),
        ("pg_constraint", "conrelid"),
        ("pg_statistic_ext", "stxrelid"),
    ):
        traces = postgresql.rows(
            f"SELECT count(*) FROM {catalog} AS c JOIN pg_class AS r ON r.oid = c.{column}"
            " JOIN pg_namespace AS n ON n.oid = r.relnamespace WHERE n.nspname = 'release'"
        )
        assert traces == [(0,)], catalog
    statistics = postgresql.rows(
        "SELECT attname, unnest(coalesce(most_common_vals::text::text[], '{}')"
        " || coalesce(histogram_bounds::text::text[], '{}')) FROM pg_stats"
        " WHERE schemaname = 'release' AND tablename = 'people'"
    )
    assert statistics
    for name in (FIRST, SECOND):
        released = {
            value for (value,) in postgresql.rows(f'SELECT "{name}"::text FROM release.people')
        }
        assert {value for column, value in statistics if column == name} <= released
