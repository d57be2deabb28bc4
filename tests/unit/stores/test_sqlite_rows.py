"""Rows of SQLite: their digest, which ledgers have recorded, and the numbers that are read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from dbanon.data.schema import Attribute, Kind
from dbanon.sessions.names import RelationName
from dbanon.stores.sqlite import dialect
from dbanon.stores.sqlite.store import SqliteStore

# Values of every storage class, and those where a class has limits. Columns without a type keep
# them; columns of a type convert some.
ODD_VALUES = """
NULL; 0; -1; 2147483647; 2147483648; -2147483648; -2147483649; 9223372036854775807;
-9223372036854775808; 1e999; -1e999; -0.0; 5e-324; 1.0; 0.1; ''; 'text'; 'é'; '1'; '1.50';
'a' || char(0) || 'b'; CAST(x'ff00fe' AS TEXT); x''; x'ff00fe'; x'74657874'; zeroblob(300);
replace(hex(zeroblob(100)), '0', 'é')
"""
TYPES = ("", "TEXT", "INTEGER", "REAL", "NUMERIC", "BLOB")
# What versions before the compiled digest computed for this table.
ODD_DIGEST = (27, 177477103797214449712224843647701422945)
PROBE = "65677892551675324605676690291247667682"


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        yield connection


def test_digests_of_earlier_versions_stand(connection: sqlite3.Connection) -> None:
    columns = ", ".join(f"c{i} {sql_type}" for i, sql_type in enumerate(TYPES))
    connection.execute(f"CREATE TABLE odd ({columns})")
    for value in ODD_VALUES.split(";"):
        connection.execute(f"INSERT INTO odd VALUES ({', '.join([value] * len(TYPES))})")
    connection.text_factory = bytes
    assert dialect.digest_of_query(connection, "SELECT * FROM odd", 2**61 + 7) == ODD_DIGEST
    assert dialect.digest_of_query(connection, "SELECT * FROM odd WHERE false", 1) == (0, 0)
    assert dialect.digest_probe() == PROBE
    # A failed query leaves the connection as it was, too.
    with pytest.raises(sqlite3.OperationalError):
        dialect.digest_of_query(connection, "SELECT abs(-9223372036854775807 - 1)", 1)
    assert connection.text_factory is bytes


def test_a_text_is_no_blob_and_an_integer_no_float(connection: sqlite3.Connection) -> None:
    pairs = [("'a'", "x'61'"), ("1", "1.0"), ("0.0", "-0.0"), ("NULL", "''"), ("'1'", "1")]
    for pair in pairs:
        digests = {dialect.digest_of_query(connection, f"SELECT {value}", 5) for value in pair}
        assert len(digests) == 2, pair


def test_chunks_hold_numbers_codes_and_days(connection: sqlite3.Connection) -> None:
    kinds = (Kind.INTEGER, Kind.FLOAT, Kind.CATEGORY, Kind.DATE, Kind.TIMESTAMP)
    attributes = [Attribute(kind.value, kind) for kind in kinds]
    rows = connection.execute(
        "VALUES (1, 9007199254740993, 1e999, 1, '1970-01-03', '1970-01-01 00:00:01.5'),"
        " (-9223372036854775808, NULL, 0.1, NULL, NULL, NULL),"
        " (3, -1, 2, 0, '1969-12-31', '1969-12-31T23:59:59')"
    )
    chunk = dialect.take_chunk(rows, 2, attributes)
    assert chunk.keys.tolist() == [[1], [-(2**63)]]
    assert chunk.numbers.tolist() == [[2.0**53, np.inf, 2, 1_500_000], [0, 0.1, 0, 0]]
    # Values that are read as codes.
    assert chunk.codes is not None
    assert chunk.codes.tolist() == [[1], [-1]]
    assert chunk.valid is not None
    assert chunk.valid.tolist() == [[True] * 5, [False, True, False, False, False]]
    last = dialect.take_chunk(rows, 2, attributes)
    assert last.numbers.tolist() == [[-1, 2, -1, -1_000_000]]
    assert last.valid is None
    assert len(dialect.take_chunk(rows, 2, attributes).keys) == 0


@pytest.mark.parametrize("sql_type", ["REAL", "DOUBLE", "DECIMAL(9, 2)", "NUMERIC", "FLOAT BLOB"])
@pytest.mark.parametrize("collation", ["BINARY", "NOCASE", "backwards"])
def test_whatever_is_no_number_is_counted(
    connection: sqlite3.Connection, sql_type: str, collation: str
) -> None:
    connection.create_collation("backwards", lambda left, right: (right > left) - (left > right))
    attribute = dialect.to_attribute("v", sql_type, nullable=True)
    connection.execute(f'CREATE TABLE odd (v "{sql_type}" COLLATE {collation})')
    for value in ODD_VALUES.split(";"):
        connection.execute(f"INSERT INTO odd VALUES ({value})")
    count = dialect.malformed_count(attribute)
    of_types = "sum(typeof(s.v) IN ('text', 'blob'))"
    # Expressions have no affinity, as columns of views may have none.
    for source in ("odd", "(SELECT v + 0 AS v FROM odd)", "(SELECT 'x' || v AS v FROM odd)"):
        [counts] = connection.execute(f"SELECT {count}, {of_types} FROM {source} AS s")
        assert counts[0] == counts[1]


ROWS = """
CREATE TABLE rows (v {0}, a {0}, b {0});
INSERT INTO rows SELECT v, v, NULL FROM odd;
INSERT INTO rows SELECT v, iif(rowid % 3, v, 'other'), iif(rowid % 5, v, NULL) FROM odd;
INSERT INTO rows SELECT v + 0, v, b FROM (SELECT v, b FROM rows);
INSERT INTO rows SELECT upper(v), v, upper(v) FROM odd;
"""


@pytest.mark.parametrize("sql_type", [*TYPES, "TEXT COLLATE NOCASE", "TEXT collate rtrim"])
def test_groups_are_those_that_sql_counts(connection: sqlite3.Connection, sql_type: str) -> None:
    connection.execute("CREATE TABLE odd (v)")
    for value in ODD_VALUES.split(";"):
        connection.execute(f"INSERT INTO odd VALUES ({value})")
    connection.executescript(ROWS.format(sql_type))
    connection.execute("PRAGMA case_sensitive_like = ON")
    statements: list[str] = []
    with SqliteStore(connection, statements.append).session(write=False) as session:
        for value in ("s.v", "CAST(s.v AS TEXT) COLLATE BINARY", "length(s.v)"):
            arguments = "rows AS s", value, ["s.a", "s.b"], "count(*) < 3"
            del statements[:]
            counts = session.count_value_groups(*arguments, rare_below=3)
            by_sql = session.count_value_groups(*arguments, rare_below=None)
            assert sorted(counts) == sorted(by_sql)
            # The first statement reads rows; where texts of a column are not compared by their
            # bytes, SQLite groups them.
            is_collated = "collate" in sql_type.lower()
            assert ["GROUP BY" in statement for statement in statements] == [is_collated, True]


def test_too_many_groups_are_counted_by_sql(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialect, "_MOST_GROUPS", 2)
    connection.execute("CREATE TABLE rows AS SELECT column1 AS v FROM (VALUES (1), (1), (2), (3))")
    statements: list[str] = []
    with SqliteStore(connection, statements.append).session(write=False) as session:
        del statements[:]
        counts = session.count_value_groups("rows AS s", "s.v", [], "count(*) < 2", 2)
        assert ["GROUP BY" in statement for statement in statements] == [False, True]
    assert sorted(counts) == [(0, 1, 2, 2), (0, 2, 1, 0)]


def test_converters_of_the_caller_do_not_join_groups() -> None:
    sqlite3.register_converter("folded", lambda value: "same")
    with closing(
        sqlite3.connect(":memory:", detect_types=sqlite3.PARSE_DECLTYPES | sqlite3.PARSE_COLNAMES)
    ) as connection:
        connection.execute("CREATE TABLE rows (v folded, a folded)")
        connection.execute("INSERT INTO rows VALUES ('x', 1), ('x', 2), ('y', 3)")
        connection.commit()
        with SqliteStore(connection).session(write=False) as session:
            counts = session.count_value_groups("rows AS s", "s.v", ["s.a"], "count(*) < 2", 2)
    assert sorted(counts) == [(0, 1, 1, 1, 1), (0, 2, 1, 0, 0)]


@pytest.mark.parametrize("sql_type", ["REAL", "DOUBLE", "FLOAT", "NUMERIC", "FLOAT BLOB"])
@pytest.mark.parametrize("relation", ["stored", "seen", "mixed"])
def test_recounts_tell_integers_from_floats(
    connection: sqlite3.Connection, sql_type: str, relation: str
) -> None:
    """A table of floats holds no integers; a view of the same type can hold both."""
    connection.execute(f'CREATE TABLE stored (v "{sql_type}")')
    connection.execute(f'CREATE TABLE others (v "{sql_type.replace("O", "0").replace("A", "4")}")')
    for table in ("stored", "others"):
        connection.execute(f"INSERT INTO {table} VALUES (1), (1.0), ('1'), ('a'), (x'61'), (NULL)")
        connection.execute(f"INSERT INTO {table} VALUES (2.5), ('A'), (0), (-0.0)")
    connection.execute("CREATE VIEW seen AS SELECT v FROM stored")
    connection.execute("CREATE VIEW mixed AS SELECT v FROM stored UNION ALL SELECT v FROM others")
    connection.commit()
    statements: list[str] = []
    displayed = f"SELECT count(*) FROM {relation} GROUP BY v COLLATE BINARY, typeof(v)"
    sizes = sorted(size for (size,) in connection.execute(displayed))
    with SqliteStore(connection, statements.append).session(write=False) as session:
        del statements[:]
        histogram = session.recount(RelationName(None, relation), ["v"]).histogram
        [grouping] = [statement for statement in statements if "GROUP BY" in statement]
    counted = [size for size, n_classes in histogram.items() for _ in range(n_classes)]
    assert sorted(counted) == sizes
    is_plain = relation == "stored" and sql_type in ("REAL", "DOUBLE", "FLOAT")
    assert ("typeof" in grouping) != is_plain
