"""Rows of SQLite: their digest, which ledgers have recorded, and the numbers that are read."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

import dbanon
from dbanon.data.schema import Attribute, Kind
from dbanon.recoding import ReleasedColumn
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


@pytest.mark.parametrize("collation", ["", "COLLATE NOCASE", "collate RTRIM"])
def test_recounts_compare_columns_in_binary(connection: sqlite3.Connection, collation: str) -> None:
    """Also floats that agree in all digits by which they are sorted first, and others beyond."""
    connection.execute(f"CREATE TABLE people (x REAL {collation}, t TEXT {collation}, w)")
    numbers = ["1e-12", "2e-12", "-1e300", "1e300", "9e999", "-9e999", "0", "-0.0", "NULL", "'b'"]
    texts = ["'a'", "'A'", "'a '", "NULL", "1"]
    for i in range(200):
        row = numbers[i % 10], texts[i % 7 % 5], ["1", "1.0", "x'31'"][i % 3]
        connection.execute(f"INSERT INTO people VALUES ({', '.join(row)})")
    connection.commit()
    columns = ["x", "t", "w"]
    with SqliteStore(connection).session(write=False) as session:
        recounts = {
            tuple(names): session.recount(RelationName(None, "people"), names)
            for names in (columns, columns[::-1], columns[:1], columns[1:])
        }
    for names, recount in recounts.items():
        keys = ", ".join(f"{name} COLLATE BINARY, typeof({name})" for name in names)
        missing = " OR ".join(f"{name} IS NULL" for name in names)
        sizes = [n for (n,) in connection.execute(f"SELECT count(*) FROM people GROUP BY {keys}")]
        [(null_rows,)] = connection.execute(f"SELECT count(*) FROM people WHERE {missing}")
        assert recount.histogram == Counter(sizes)
        assert (recount.rows, recount.null_rows) == (200, null_rows)


@pytest.mark.parametrize("n_rows", [1, 332, 333, 334, 500, 667, 999])
def test_rows_are_staged_whatever_their_number(connection: sqlite3.Connection, n_rows: int) -> None:
    keys = np.arange(n_rows)[::-1].reshape(-1, 1) * 2
    classes = np.arange(n_rows, dtype=np.int32)
    values = ReleasedColumn(Attribute("v", Kind.FLOAT), classes / 7)
    with SqliteStore(connection).session(write=True) as session:
        session.load_labels(keys, classes, classes + 5, ["INTEGER"])
        session.load_classes([values, values], n_rows)
        labels = session.rows("SELECT * FROM dbanon_labels ORDER BY key0 DESC")
        staged_classes = session.rows("SELECT * FROM dbanon_classes ORDER BY class")
    assert labels == [(2 * (n_rows - 1 - i), i, i + 5) for i in range(n_rows)]
    assert staged_classes == [(i, i / 7, i / 7) for i in range(n_rows)]


def test_released_rows_lie_by_class_with_their_values_as_stored(
    connection: sqlite3.Connection,
) -> None:
    # Columns may be called as those of the staging table of sorted rows.
    retained = ["class", "Position", "ordinal", "class_", "rowid"]
    connection.execute(f"CREATE TABLE people (age INTEGER, {', '.join(retained)})")
    odd = ["1", "1.0", "'1'", "x'31'", "NULL", "9007199254740993", "'é'"]
    for i in range(42):
        values = ", ".join(odd[(i + position) % len(odd)] for position in range(len(retained)))
        # Three rows of each age, which become a class.
        connection.execute(f"INSERT INTO people VALUES ({i % 14}, {values})")
    connection.commit()
    dbanon.anonymize(
        connection, table="people", quasi_identifiers=["age"], k=3, keep=retained, output="released"
    )
    columns = ", ".join(f'hex("{name}"), typeof("{name}")' for name in retained)
    assert sorted(connection.execute(f"SELECT {columns} FROM released")) == sorted(
        connection.execute(f"SELECT {columns} FROM people")
    )
    ages = [age for (age,) in connection.execute("SELECT age FROM released ORDER BY _rowid_")]
    assert len(set(ages)) == 14
    assert ages[::3] == ages[1::3] == ages[2::3]
    assert ages != sorted(ages)
    assert not connection.execute("SELECT * FROM sqlite_temp_master").fetchall()
