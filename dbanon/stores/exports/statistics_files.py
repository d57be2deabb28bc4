"""Write rows as files of SPSS, Stata or SAS.

Texts with few different values become numbers with value labels, as these programs store
categories. SAS has no value labels in its files, so texts stay texts there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from dbanon.errors import InvalidParameter, UnsupportedType, name_missing_extras
from dbanon.job.export import SAS, SPSS, STATA

if TYPE_CHECKING:
    import pandas as pd

# Texts with more different values than this are probably no categories.
_MAX_LABELS = 500
# The most bytes of a label in SPSS.
_MAX_LABEL_BYTES = 120
# Up to here, float64 holds all whole numbers.
_MAX_WHOLE_FLOAT = 2**53
# The smallest number above 0 and the largest one of a format, unless it holds all of float64. SAS
# knows 16 times larger numbers, but pyreadstat does not read all of these back.
_RANGES = {STATA: (0.0, 2.0**1023 * (1 - 2.0**-53)), SAS: (16.0**-65, 16.0**62)}
# The largest number that Stata does not take for a missing value; labels have such numbers.
_MAX_STATA_CODE = 2**31 - 28
# For decimals of any number of digits.
_WIDE = Context(prec=100)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@name_missing_extras()
def import_writers() -> tuple[Any, Any]:
    """Import pandas and pyreadstat, which write these files; raises MissingDependency."""
    import pandas
    import pyreadstat

    return pandas, pyreadstat


def write_statistics_file(
    file: BinaryIO,
    file_format: str,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    label_codes: Mapping[str, Mapping[str, int]] | None = None,
) -> None:
    """Write rows to a file, which needs all of them in memory.

    Parameters
    ----------
    file_format : one of ``dbanon.job.export.STATISTICS_FORMATS``.
    label_codes : the numbers that texts keep, by column and text; None to number all from 1.

    Raises
    ------
    UnsupportedType : the format has no type for a column, or cannot represent a value.
    InvalidParameter : the format does not allow the name of a column, or the number of a label.
    """
    pandas, pyreadstat = import_writers()
    table = pa.Table.from_batches(batches, schema)
    columns, labels = {}, {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        column_labels: Mapping[str, int] = {}
        if file_format in (SPSS, STATA):
            column_labels = _choose_labels(column, (label_codes or {}).get(name, {}))
        if column_labels:
            if file_format == STATA and max(map(abs, column_labels.values())) > _MAX_STATA_CODE:
                raise InvalidParameter(
                    f'Column "{name}" has codes of labels that are too large for a .dta file.',
                    hint="Leave out codes of the export.",
                )
            labels[name] = {code: text for text, code in column_labels.items()}
            indices = pc.index_in(column, pa.array(column_labels))
            columns[name] = pc.take(pa.array(list(column_labels.values())), indices).to_pandas()
        else:
            columns[name] = _to_series(name, column, file_format)
    frame = pandas.DataFrame(columns)
    # By descriptor, because files for object stores have no name.
    path = f"/dev/fd/{file.fileno()}"
    try:
        if file_format == SPSS:
            measures = dict.fromkeys(labels, "nominal")
            pyreadstat.write_sav(
                frame, path, variable_value_labels=labels, variable_measure=measures
            )
        elif file_format == STATA:
            pyreadstat.write_dta(frame, path, variable_value_labels=labels)
        else:
            pyreadstat.write_xport(frame, path)
    except (pyreadstat.PyreadstatError, pyreadstat.ReadstatError) as error:
        raise InvalidParameter(
            f"The release cannot be written as a .{file_format} file.",
            detail=type(error).__name__,
            hint="Its columns probably have names that the format does not allow: rename them in a"
            " view, with letters, digits and underscores only, or export Parquet.",
        ) from None


def _choose_labels(column: pa.ChunkedArray, codes: Mapping[str, int]) -> Mapping[str, int]:
    """Number the texts of a column from 1, in natural order; empty if they are no categories.

    Parameters
    ----------
    codes : the numbers that texts keep. The numbers of others then have more digits.
    """
    if not pa.types.is_string(column.type):
        return {}
    values = pc.unique(column).drop_null()
    if not 0 < len(values) <= _MAX_LABELS:
        return {}
    texts: list[str] = sorted(values.to_pylist(), key=_natural_order)
    if any(not text or len(text.encode()) > _MAX_LABEL_BYTES for text in texts):
        return {}
    kept_codes = {text: codes[text] for text in texts if text in codes}
    other_texts = [text for text in texts if text not in codes]
    # Only numbers of released texts count, so that nothing shows which others the source has.
    largest_code = max(kept_codes.values(), default=0)
    first_code = 10 ** len(str(largest_code)) if largest_code > 0 else 1
    return kept_codes | {text: number for number, text in enumerate(other_texts, first_code)}


def _natural_order(text: str) -> tuple[tuple[float, ...], str]:
    """Sort intervals and other texts with numbers by their numbers, and others by the alphabet."""
    return tuple(map(float, _NUMBER.findall(text))), text


def _to_series(name: str, column: pa.ChunkedArray, file_format: str) -> pd.Series:
    """Convert a column to pandas; raises UnsupportedType where a value would change."""
    if pa.types.is_decimal(column.type) or pa.types.is_integer(column.type):
        extremes = pc.min_max(column).as_py()
        # In units of the last digit, which are whole numbers.
        units = [
            Decimal(value).scaleb(getattr(column.type, "scale", 0), _WIDE)
            for value in extremes.values()
            if value is not None
        ]
        if any(abs(value) > _MAX_WHOLE_FLOAT for value in units):
            raise UnsupportedType(
                f'Column "{name}" has numbers of more digits than the file format holds.',
                hint="Export Parquet, or leave the column out.",
            )
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
    elif pa.types.is_floating(column.type):
        _require_range(name, column, file_format)
    elif pa.types.is_timestamp(column.type) and column.type.tz is not None:
        # The formats have no time zones: moments are written in UTC.
        column = column.cast(pa.timestamp("us"))
    series: pd.Series = column.to_pandas()
    return series


def _require_range(name: str, column: pa.ChunkedArray, file_format: str) -> None:
    """Check that a format holds the size of all floats; NaN is a missing value in each."""
    if file_format not in _RANGES:
        return
    smallest, largest = _RANGES[file_format]
    sizes = pc.abs(column.cast(pa.float64()))
    is_outside = pc.or_(
        pc.greater(sizes, largest), pc.and_(pc.greater(sizes, 0.0), pc.less(sizes, smallest))
    )
    if pc.any(is_outside).as_py():
        raise UnsupportedType(
            f'Column "{name}" has numbers that are too large or too small for a .{file_format}'
            " file.",
            hint="Export Parquet, or leave the column out.",
        )
