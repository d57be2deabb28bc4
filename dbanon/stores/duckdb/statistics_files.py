"""Conversion of files of SPSS, Stata and SAS to Parquet in memory.

Their numbers have no type of their own, so columns get the narrowest type that holds all values:
numbers without decimals become integers. Values that the file declares missing become NULL.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from dbanon.data.types import KeywordArguments
from dbanon.errors import FileMalformed, InvalidParameter, MissingDependency
from dbanon.stores.duckdb.file_formats import TooLarge

# Reads a file, or part of it: returns the values of each column by name, and metadata.
_Reader: TypeAlias = "Callable[..., tuple[Mapping[str, list[object]], Any]]"

# The number of cells to read at a time. Each is a Python object at first.
_CELLS_PER_READ = 5_000_000
# Up to here, all whole numbers have a float64 of their own.
_MAX_WHOLE_FLOAT = 2.0**53


@contextmanager
def open_as_parquet(
    file: BinaryIO, name: str, memory_bytes: float = math.inf, *, reads_labels: bool = True
) -> Iterator[BinaryIO]:
    """Yield the rows of a file as Parquet in memory.

    Parameters
    ----------
    name : the file name, whose ending determines the format; used in messages, too.
    memory_bytes : the memory limit.
    reads_labels : True to replace the values of a column by their labels, if all have one.

    Raises
    ------
    TooLarge : the rows need more memory.
    FileMalformed : the contents do not match the name.
    InvalidParameter : this system has no memory files.
    MissingDependency : the package that reads the format is not installed.
    """
    if sys.platform != "linux":
        raise InvalidParameter(
            "Files of SPSS, Stata and SAS cannot be read on this system.",
            hint="Write the file as .csv or .parquet.",
        )
    table, value_labels = _read_table(file, name, memory_bytes)
    columns = []
    for column_name, column in zip(table.column_names, table.columns, strict=True):
        labels = value_labels.get(column_name, {})
        labeled_column = _replace_by_labels(column, labels) if reads_labels and labels else None
        columns.append(_narrow(column) if labeled_column is None else labeled_column)
    with os.fdopen(os.memfd_create("dbanon"), "w+b") as memory_file:
        parquet.write_table(pa.table(columns, table.column_names), memory_file)
        memory_file.flush()
        yield memory_file


def _read_table(
    file: BinaryIO, name: str, memory_bytes: float
) -> tuple[pa.Table, Mapping[str, Mapping[object, str]]]:
    """Read all rows; returns them, and the label of each value by column.

    Raises the same errors as ``open_as_parquet``.
    """
    try:
        import pyreadstat
    except ModuleNotFoundError:
        raise MissingDependency.of_extra(
            "SPSS, Stata and SAS", "pyreadstat", "statistics"
        ) from None
    readers: dict[str, _Reader] = {
        ".sav": pyreadstat.read_sav,
        ".zsav": pyreadstat.read_sav,
        ".por": pyreadstat.read_por,
        ".dta": pyreadstat.read_dta,
        ".sas7bdat": pyreadstat.read_sas7bdat,
        ".xpt": pyreadstat.read_xport,
    }
    read = readers[PurePosixPath(name.lower()).suffix]
    # The descriptor keeps reading the file that was checked, whatever its name refers to now.
    path = f"/dev/fd/{file.fileno()}"
    options: KeywordArguments = {"output_format": "dict"}
    parts: list[pa.Table] = []
    n_bytes = 0
    try:
        _, metadata = read(path, metadataonly=True)
        names: list[str] = metadata.column_names
        rows_per_read = max(1, _CELLS_PER_READ // max(1, len(names)))
        while not parts or parts[-1].num_rows == rows_per_read:
            values, _ = read(
                path, row_offset=len(parts) * rows_per_read, row_limit=rows_per_read, **options
            )
            part = pa.table({column: _to_arrow(values[column]) for column in names})
            parts.append(part)
            n_bytes += part.nbytes
            # The table is held twice, before and after its conversion.
            if 2 * n_bytes > memory_bytes:
                raise TooLarge(2 * n_bytes)
    except (
        pyreadstat.ReadstatError,
        pyreadstat.PyreadstatError,
        UnicodeDecodeError,
        OverflowError,
        pa.ArrowException,
    ) as error:
        raise FileMalformed(
            f"The file {name} is not of the kind that its name says.",
            detail=type(error).__name__,
            hint="It may be truncated: write it again, with text in UTF-8.",
        ) from None
    table = pa.concat_tables(parts, promote_options="permissive")
    return table, metadata.variable_value_labels


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
