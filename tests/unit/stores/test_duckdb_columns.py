"""Arrow columns to and from numpy, beside pyarrow's own ways."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.stores.duckdb.arrow import to_arrow, to_numpy, to_table, validity_mask


@given(
    st.sampled_from([np.int32, np.int64, np.float64]),
    st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.booleans()), max_size=40),
    st.integers(0, 40),
)
def test_columns_are_those_of_pyarrow(
    dtype: type[np.generic], rows: list[tuple[int, bool]], skipped: int
) -> None:
    values = np.array([value for value, _ in rows], dtype)
    missing = np.array([null for _, null in rows], bool)
    for mask in (None, missing):
        column = to_arrow(values, mask)
        column.validate(full=True)
        expected = pa.array(values, mask=mask)
        assert column.equals(expected)
        part = expected[skipped:]
        valid = validity_mask(part)
        assert valid.tolist() == part.is_valid().to_pylist()
        assert to_numpy(part)[valid].tolist() == [v for v in part.to_pylist() if v is not None]
    assert to_table([column]).column_names == ["0"]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.uint64(), pa.float32(), pa.float64()])
def test_numbers_of_every_width(kind: pa.DataType) -> None:
    assert to_numpy(pa.array([0, 1, 100], kind)).tolist() == [0, 1, 100]
    assert to_numpy(pa.array([], kind)).tolist() == []


RUN = """
import sys
import duckdb
import dbanon
with duckdb.connect() as connection:
    connection.execute("CREATE TABLE t AS SELECT random() AS a, 'x' AS b,"
                       " CASE WHEN i > 5 THEN i END AS c FROM range(20) t(i)")
    dbanon.anonymize(connection, table="t", quasi_identifiers=["a"], k=3, keep=["b"], output="r")
    dbanon.anonymize(connection, table="t", quasi_identifiers=["a", "c"], k=3, output="s",
                     nulls="category")
    found = connection.execute("SELECT count(*), count(DISTINCT a) FROM r").fetchone()
    connection.execute("COPY t TO 't.parquet'")
dbanon.anonymize("file:t.parquet", table="t", quasi_identifiers=["a"], k=3, keep=["b"], output="r",
                 exports=["r.parquet"])
print(found, "pandas" in sys.modules)
"""


@pytest.mark.slow
def test_a_release_imports_no_pandas(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout.split("(")[1] == "20, 6) False\n"
