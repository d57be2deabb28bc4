"""Few rows go through NumPy arrays, more rows through Arrow: the values are the same."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray

from dbanon.data.chunks import Chunk
from dbanon.data.schema import Attribute, Kind
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.names import RelationName
from dbanon.stores.duckdb import session as session_module
from dbanon.stores.duckdb.session import DuckdbSession

TABLE = """
CREATE TABLE t (f DOUBLE, r REAL, i BIGINT, h HUGEINT, d DATE, ts TIMESTAMP, dec DECIMAL(9,2),
                b BOOLEAN);
INSERT INTO t VALUES
    ('nan', 'inf', 9223372036854775807, 1e30::HUGEINT, '1969-12-31', '1969-12-31 23:59:59.999999',
     -0.01, true),
    ('-0.0', '-inf', -9223372036854775808, -1, 'infinity', '-infinity', 9999999.99, false),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (0.1, 0.1, 9007199254740993, 0, '0001-01-01', '2024-02-29', 0, true)
"""
# Numbers alone: categories would need a dictionary.
NUMBERS = ("f", "r", "i", "h", "d", "ts", "dec")
CLASS_VALUES = [
    np.array([0.1, -0.0, np.inf]),
    np.array([0.1, np.nan, 5e-324]),
    np.array([2**63 - 1, -(2**63), 0]),
]


def read(limit: int, where: str = "true") -> list[Chunk]:
    """Read the table with this limit of rows for NumPy arrays."""
    with duckdb.connect() as driver, pytest.MonkeyPatch.context() as patch:
        driver.execute(TABLE)
        driver.execute(f"DELETE FROM t WHERE NOT ({where})")
        patch.setattr(session_module, "_MAX_NUMPY_ROWS", limit)
        session = DuckdbSession(driver)
        source = session.catalog.with_row_locator(
            session.catalog.find_source(RelationName("main", "t")), ()
        )
        attributes = [source.attribute(name) for name in NUMBERS]
        return list(session.read_chunks(source, attributes, 1000))


@pytest.mark.parametrize("where", ["true", "f IS NOT NULL", "false"])
def test_chunks_are_those_of_arrow(where: str) -> None:
    few, many = read(1000, where), read(0, where)
    assert len(few) == len(many) == (where != "false")
    for chunk, expected in zip(few, many, strict=True):
        np.testing.assert_array_equal(chunk.keys, expected.keys)
        # With the sign of zero, which a comparison ignores.
        assert chunk.numbers.tobytes() == expected.numbers.tobytes()
        assert (chunk.valid is None) == (expected.valid is None) == (where != "true")
        np.testing.assert_array_equal(
            np.ones(0) if chunk.valid is None else chunk.valid,
            np.ones(0) if expected.valid is None else expected.valid,
        )
        assert chunk.wide == expected.wide


def stage(limit: int, columns: list[ReleasedColumn]) -> list[tuple[object, ...]]:
    """Stage classes and labels with this limit; return the rows of both tables as texts."""
    keys: NDArray[np.int64] = np.array([[2**62, 1], [-5, 2], [7, 3]], np.int64)
    numbers: NDArray[np.int32] = np.array([2, 0, 1], np.int32)
    with duckdb.connect() as driver, pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_module, "_MAX_NUMPY_ROWS", limit)
        session = DuckdbSession(driver)
        session.load_classes(columns, 3)
        session.load_labels(keys, numbers, numbers[::-1], ["BIGINT"])
        return [
            row
            for table in (statements.CLASSES, statements.LABELS)
            for row in driver.execute(
                f"SELECT COLUMNS(*)::VARCHAR, COLUMNS(*) IS NULL FROM {table} ORDER BY 1"
            ).fetchall()
            + driver.execute(f"DESCRIBE {table}").fetchall()
        ]


@pytest.mark.parametrize("values", CLASS_VALUES, ids=["floats", "nan", "integers"])
@pytest.mark.parametrize("has_missing", [False, True])
def test_staged_rows_are_those_of_arrow(values: NDArray[np.generic], has_missing: bool) -> None:
    kind = Kind.FLOAT if values.dtype == np.float64 else Kind.INTEGER
    missing = np.array([False, True, False]) if has_missing else None
    columns = [
        ReleasedColumn(Attribute("number", kind), values, missing),
        ReleasedColumn(Attribute("text", Kind.CATEGORY), np.array(["a", "", "é"], object)),
    ]
    for staged in (columns[:1], columns):
        assert stage(1000, staged) == stage(0, staged)


def test_staged_decimals_are_exact() -> None:
    decimal = Attribute("n", Kind.DECIMAL, precision=38, scale=2)
    column = ReleasedColumn(decimal, np.array([1, -(2**62), 99]))
    texts = [row[1] for row in stage(1000, [column])[:3]]
    assert texts == ["0.01", "-46116860184273879.04", "0.99"]


def test_uncommitted_rows_do_not_exceed_a_chunk() -> None:
    """The catalog's estimate of rows does not count those of a caller's open transaction."""
    with duckdb.connect() as driver:
        driver.execute("CREATE TABLE t AS SELECT range AS a FROM range(1000)")
        driver.execute("BEGIN")
        driver.execute("INSERT INTO t SELECT range FROM range(1000, 30000)")
        session = DuckdbSession(driver)
        source = session.catalog.with_row_locator(
            session.catalog.find_source(RelationName("main", "t")), ()
        )
        chunks = list(session.read_chunks(source, [source.attribute("a")], 2048))
    assert max(len(chunk.keys) for chunk in chunks) <= 2048
    numbers = np.concatenate([chunk.numbers[:, 0] for chunk in chunks])
    np.testing.assert_array_equal(np.sort(numbers), np.arange(30_000))
