"""Converts a file of SPSS, Stata or SAS to Parquet, in a process of its own.

``statistics_files`` starts the process, because the library that reads these formats can crash on a
damaged file. Numbers in these formats have no type of their own, so columns get the narrowest type
that holds all values: numbers without decimals become integers. Values that the file declares
missing become NULL.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyreadstat
from pyarrow import parquet

from dbanon.data.types import JsonObject

# Reads a file, or part of it: returns the values of each column by name, and metadata.
_Reader: TypeAlias = "Callable[..., tuple[Mapping[str, list[object]], Any]]"

_READERS: dict[str, _Reader] = {
    ".sav": pyreadstat.read_sav,
    ".zsav": pyreadstat.read_sav,
    ".por": pyreadstat.read_por,
    ".dta": pyreadstat.read_dta,
    ".sas7bdat": pyreadstat.read_sas7bdat,
    ".xpt": pyreadstat.read_xport,
}
# The key of the Parquet file's metadata with the number of each label, by column.
CODES_KEY = "dbanon_codes"
# Up to here, all whole numbers have a float64 of their own.
_MAX_WHOLE_FLOAT = 2.0**53


def convert(
    source: int,
    target: int,
    *,
    ending: str,
    memory_bytes: int | None,
    reads_labels: bool,
    cells_per_read: int,
) -> JsonObject:
    """Convert a file; returns ``needed_bytes`` if it needs more memory, else nothing.

    Parameters
    ----------
    source, target : descriptors of the file, and of the Parquet file to write.
    ending : the ending of the file name, which determines the format.
    memory_bytes : the memory limit; None for no limit.
    reads_labels : True to replace the values of a column by their labels, if all have one.
    cells_per_read : the number of cells to read at a time. Each is a Python object at first.
    """
    read, path = _READERS[ending], f"/dev/fd/{source}"
    _, metadata = read(path, metadataonly=True)
    names: list[str] = metadata.column_names
    rows_per_read = max(1, cells_per_read // max(1, len(names)))
    parts: list[pa.Table] = []
    # The table is held twice, before and after its conversion.
    needed_bytes = 0
    while not parts or parts[-1].num_rows == rows_per_read:
        values, _ = read(
            path,
            row_offset=len(parts) * rows_per_read,
            row_limit=rows_per_read,
            output_format="dict",
        )
        parts.append(pa.table({column: _to_arrow(values[column]) for column in names}))
        needed_bytes += 2 * parts[-1].nbytes
        if memory_bytes is not None and needed_bytes > memory_bytes:
            return {"needed_bytes": needed_bytes}
    table = pa.concat_tables(parts, promote_options="permissive")
    columns = []
    codes: dict[str, dict[str, int]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        labels = metadata.variable_value_labels.get(name, {})
        labeled_column = _replace_by_labels(column, labels) if reads_labels and labels else None
        columns.append(_narrow(column) if labeled_column is None else labeled_column)
        if labeled_column is not None and pa.types.is_floating(column.type):
            codes[name] = {labels[value]: int(value) for value in _list_values(column)}
    result = pa.table(columns, table.column_names)
    # Exports may give labels the same numbers again.
    result = result.replace_schema_metadata({CODES_KEY: json.dumps(codes)})
    with os.fdopen(target, "wb", closefd=False) as file:
        parquet.write_table(result, file)
    return {}


def _to_arrow(values: list[object]) -> pa.Array:
    """Convert the values of a column; an empty text is a missing value in these formats."""
    array = pa.array(values)
    if pa.types.is_string(array.type):
        return pc.if_else(pc.equal(array, ""), pa.scalar(None, pa.string()), array)
    return array


def _replace_by_labels(
    column: pa.ChunkedArray, labels: Mapping[object, str]
) -> pa.ChunkedArray | None:
    """Return the labels of all values; None if a value has no label, or two have the same one."""
    values = pc.unique(column).drop_null()
    if len(values) > len(labels):
        return None
    texts = [labels.get(value) for value in values.to_pylist()]
    if not texts or None in texts or len(set(texts)) < len(texts):
        return None
    return pc.take(pa.array(texts, pa.string()), pc.index_in(column, values))


def _list_values(column: pa.ChunkedArray) -> list[float]:
    """List the distinct numbers of a column without decimals; empty if one has decimals."""
    values: list[float] = pc.unique(column).drop_null().to_pylist()
    return values if all(value == int(value) for value in values) else []


def _narrow(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert floats without decimals to integers, and a column without any value to text."""
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    if not pa.types.is_floating(column.type):
        return column
    is_whole = pc.and_(
        pc.equal(pc.trunc(column), column), pc.less(pc.abs(column), _MAX_WHOLE_FLOAT)
    )
    # ``pc.all`` skips NULL; a column of NULL alone has no decimals either.
    return column.cast(pa.int64()) if pc.all(is_whole, min_count=0).as_py() else column


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    try:
        outcome = convert(**arguments)
    except MemoryError:
        raise
    except Exception as error:
        # A broken file may raise anything. Report only the class, as the text may quote the file.
        outcome = {"malformed": type(error).__name__}
    sys.stdout.write(json.dumps(outcome))
