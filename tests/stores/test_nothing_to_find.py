"""A table on which nothing hangs that could be code is not searched for code of other roles.

Nor are columns whose types are made of nothing.
"""

from __future__ import annotations

import pytest

from dbanon.stores.postgresql.catalog import COLUMNS, PLAIN_COLUMNS
from dbanon.stores.postgresql.foreign import foreign_code_query, no_attached_code_query
from tests.stores.databases import PostgresqlDatabase

pytestmark = pytest.mark.postgresql

PLAIN = {
    "a table": [],
    "a table with keys": ["ALTER TABLE t ADD PRIMARY KEY (a)", "CREATE INDEX ON t (b, a)"],
    "a table with statistics of columns": ["CREATE STATISTICS s ON a, b FROM t"],
    "a table with a check, a default and a trigger's function": [
        "ALTER TABLE t ADD CHECK (f(a) > 0), ALTER b SET DEFAULT f(1)",
    ],
    "a materialized view": [
        "ALTER TABLE t RENAME TO u",
        "CREATE MATERIALIZED VIEW t AS SELECT f(a) AS a FROM u",
    ],
}
OTHERS = {
    "a part": [
        "CREATE TABLE whole (a integer, b integer) PARTITION BY LIST (a)",
        "ALTER TABLE whole ATTACH PARTITION t DEFAULT",
    ],
    "a view": ["ALTER TABLE t RENAME TO u", "CREATE VIEW t AS SELECT f(a) AS a FROM u"],
    "an index of an expression": ["CREATE INDEX ON t (f(a))"],
    "an index of some rows": ["CREATE INDEX ON t (a) WHERE f(b) > 0"],
    "statistics of an expression": ["CREATE STATISTICS s ON f(a), b FROM t"],
    "a parent": ["CREATE TABLE child () INHERITS (t)"],
    "a table in parts": ["DROP TABLE t", "CREATE TABLE t (a integer) PARTITION BY RANGE (f(a))"],
}


@pytest.mark.parametrize("case", [*PLAIN, *OTHERS])
def test_what_is_searched(postgresql: PostgresqlDatabase, case: str) -> None:
    postgresql.execute(
        "CREATE FUNCTION f(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT $1'",
        "CREATE TABLE t (a integer, b integer)",
        *(PLAIN | OTHERS)[case],
    )
    rows = postgresql.rows(no_attached_code_query("'t'::regclass"))
    assert rows == [(case in PLAIN,)]
    if case in PLAIN:
        # Regardless of the role that created all this.
        everybodys = foreign_code_query("'t'::regclass").replace("NOT o.rolsuper AND", "true OR")
        assert postgresql.rows(everybodys) == []


PLAIN_TYPES = (
    "integer",
    "smallint NOT NULL",
    "double precision",
    "numeric",
    "numeric(6, 2)",
    "text",
    "varchar(3)",
    "char(5)",
    "date",
    "timestamp(3)",
    "timestamptz",
    "uuid",
    "boolean",
    "json",
    "bytea",
    "interval",
    "inet",
)
OTHER_TYPES = (
    "integer[]",
    "name",
    "point",
    "int4range",
    "int4multirange",
    "d",
    "of_d",
    "e",
    "pair",
    "d[]",
    'text COLLATE "C"',
    "text COLLATE own",
)


@pytest.fixture
def types(postgresql: PostgresqlDatabase) -> PostgresqlDatabase:
    postgresql.execute(
        "CREATE DOMAIN d AS numeric(5, 1) CHECK (VALUE > 0)",
        "CREATE DOMAIN of_d AS d",
        "CREATE TYPE e AS ENUM ('b', 'a')",
        "CREATE TYPE pair AS (x integer, y d)",
        "CREATE COLLATION own (provider = libc, locale = 'C')",
    )
    return postgresql


def rows_of(database: PostgresqlDatabase, query: str) -> list[tuple[object, ...]]:
    return database.rows(query.replace("?", "'t'::regclass"))


@pytest.mark.parametrize("sql_type", [*PLAIN_TYPES, *OTHER_TYPES])
def test_columns_of_plain_types(types: PostgresqlDatabase, sql_type: str) -> None:
    types.execute(f"CREATE TABLE t (gone text, a {sql_type})", "ALTER TABLE t DROP gone")
    [(*findings, plain)] = rows_of(types, PLAIN_COLUMNS)
    assert plain is (sql_type in PLAIN_TYPES)
    if plain:
        assert [tuple(findings)] == rows_of(types, COLUMNS)


def test_columns_of_anothers_base_type(types: PostgresqlDatabase) -> None:
    """A base type is a superuser's, until he gives it away."""
    types.execute(
        "CREATE TABLE t (a integer, b uuid)",
        "CREATE ROLE mallory_of_types",
        "ALTER TYPE pg_catalog.uuid OWNER TO mallory_of_types",
    )
    try:
        assert [plain for *_, plain in rows_of(types, PLAIN_COLUMNS)] == [True, False]
    finally:
        types.execute(
            f"ALTER TYPE pg_catalog.uuid OWNER TO {types.rows('SELECT current_user')[0][0]}",
            "DROP ROLE mallory_of_types",
        )
