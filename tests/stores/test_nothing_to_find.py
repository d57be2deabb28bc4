"""A table on which nothing hangs that could be code is not searched for code of other roles."""

from __future__ import annotations

import pytest

from dbanon.stores.postgresql.foreign import foreign_code, nothing_to_find
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
        "ALTER TABLE t RENAME TO u", "CREATE MATERIALIZED VIEW t AS SELECT f(a) AS a FROM u"
    ],
}  # fmt: skip
OTHERS = {
    "a part": ["CREATE TABLE whole (a integer, b integer) PARTITION BY LIST (a)",
               "ALTER TABLE whole ATTACH PARTITION t DEFAULT"],
    "a view": ["ALTER TABLE t RENAME TO u", "CREATE VIEW t AS SELECT f(a) AS a FROM u"],
    "an index of an expression": ["CREATE INDEX ON t (f(a))"],
    "an index of some rows": ["CREATE INDEX ON t (a) WHERE f(b) > 0"],
    "statistics of an expression": ["CREATE STATISTICS s ON f(a), b FROM t"],
    "a parent": ["CREATE TABLE child () INHERITS (t)"],
    "a table in parts": [
        "DROP TABLE t", "CREATE TABLE t (a integer) PARTITION BY RANGE (f(a))"
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", [*PLAIN, *OTHERS])
def test_what_is_searched(postgresql: PostgresqlDatabase, case: str) -> None:
    postgresql.execute(
        "CREATE FUNCTION f(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT $1'",
        "CREATE TABLE t (a integer, b integer)",
        *(PLAIN | OTHERS)[case],
    )
    found = postgresql.rows(nothing_to_find("'t'::regclass"))
    assert found == [(case in PLAIN,)]
    if case in PLAIN:
        # Whoever had made all this.
        everybodys = foreign_code("'t'::regclass").replace("NOT o.rolsuper AND", "true OR")
        assert postgresql.rows(everybodys) == []
