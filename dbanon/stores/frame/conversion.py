"""Convert tables to data frames, and released frames back to the type of the original table.

Arrow tables and objects that export them (polars, DuckDB relations, …) are converted to pandas
types that distinguish NULL from NaN and keep all digits. Dicts of columns and lists of dicts become
frames.

A report of a frame records which released row came from which original row (its alignment). The
module also builds this alignment, and checks that it still fits two frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from hashlib import sha256
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dbanon.data.array_types import AnyDtype
from dbanon.data.conversion import is_numeric_text
from dbanon.errors import InvalidParameter, RowsNotAligned, UnsupportedType, invalid_text_error
from dbanon.release.alignment import SHUFFLED, Alignment
from dbanon.release.report import Report

if TYPE_CHECKING:
    import polars
    import pyarrow as pa
    from pandas.api.extensions import ExtensionDtype

    from dbanon.hierarchy.spec import HierarchySource


_SUPPORTED_DATA_HINT = (
    "Pass a pandas or polars data frame, an Arrow table, a dict of columns or a list of dicts."
)


def frame_of(data: object) -> tuple[pd.DataFrame, Callable[[pd.DataFrame], Any]]:
    """Convert a table to a data frame.

    Also returns a function that converts a released frame to the type of the table.

    Raises
    ------
    InvalidParameter : the data is not a table, or its columns differ in length.
    UnsupportedType : a text in a dict or list cannot be encoded.
    """
    if isinstance(data, pd.DataFrame):
        return data, _return_unchanged
    if isinstance(data, pd.Series):
        raise InvalidParameter("A single column is not a table.", hint="Write series.to_frame().")
    if hasattr(data, "__arrow_c_stream__"):
        return _frame_from_arrow(data)
    if isinstance(data, Mapping) or _is_list_of_dicts(data):
        try:
            return pd.DataFrame(data), _return_unchanged
        except UnicodeEncodeError:
            unencodable_column = next(
                (name for name, values in _columns_of(data) if has_lone_surrogate(values)), None
            )
        except (ValueError, TypeError, AttributeError):
            unencodable_column = None
        # Raised outside the handlers: the chained exception of Python or pandas may quote a value.
        if unencodable_column is not None:
            raise invalid_text_error(str(unencodable_column))
        raise InvalidParameter(
            "The columns do not form a table.",
            hint="Every column must be a list, and all lists must have the same length.",
        )
    # A LazyFrame of polars.
    if _package_name(data) == "polars" and hasattr(data, "collect_schema"):
        raise InvalidParameter(
            "The table has not been computed yet.", hint="Pass frame.collect() instead of frame."
        )
    raise InvalidParameter("The data is not a table with named columns.", hint=_SUPPORTED_DATA_HINT)


def has_lone_surrogate(values: Iterable[object]) -> bool:
    """Return True if a text contains a lone surrogate, which UTF-8 cannot encode."""
    try:
        "".join(value for value in values if isinstance(value, str)).encode()
    except UnicodeEncodeError:
        return True
    return False


def _columns_of(
    data: Mapping[object, Iterable[object]] | Sequence[Mapping[object, object]],
) -> Iterable[tuple[object, Iterable[object]]]:
    """Return the name and the values of each column of a dict or list of dicts."""
    if isinstance(data, Mapping):
        return data.items()
    names = dict.fromkeys(name for row in data for name in row)
    return ((name, [row.get(name) for row in data]) for name in names)


def _return_unchanged(released: pd.DataFrame) -> pd.DataFrame:
    return released


def _package_name(data: object) -> str:
    return type(data).__module__.partition(".")[0]


def _is_list_of_dicts(data: object) -> TypeGuard[Sequence[Mapping[object, object]]]:
    return isinstance(data, (list, tuple)) and bool(data) and isinstance(data[0], Mapping)


def _frame_from_arrow(data: Any) -> tuple[pd.DataFrame, Callable[[pd.DataFrame], Any]]:
    """Convert an Arrow table, or an object that exports one; raises and returns as ``frame_of``."""
    # Import lazily, and pass the module on as ``pa``: frames of pandas do not need it.
    import pyarrow as pa

    try:
        table = _with_decimals(pa, pa.table(data))
        schema = pa.schema([_with_readable_type(pa, field) for field in table.schema])
        if schema != table.schema:
            table = table.cast(schema)
        frame = _to_pandas(pa, table)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as error:
        raise InvalidParameter(
            "The Arrow table cannot be read.",
            detail=type(error).__name__,
            hint=_SUPPORTED_DATA_HINT,
        ) from None
    arrow_types = {field.name: field.type for field in table.schema}

    def to_original_form(released: pd.DataFrame) -> pa.Table | polars.DataFrame:
        columns = [
            _to_arrow_column(pa, released[name], arrow_types.get(name)) for name in released.columns
        ]
        released_table = pa.table(columns, names=list(released.columns))
        if _package_name(data) != "polars":
            return released_table
        return _to_polars(import_module("polars"), released_table, data.schema)

    return frame, to_original_form


def _with_decimals(pa: ModuleType, table: pa.Table) -> pa.Table:
    """Convert numbers that arrive as text, such as PostgreSQL's numeric through ADBC, to decimals.

    Columns with NaN or infinity stay text.
    """
    for i, field in enumerate(table.schema):
        if is_numeric_text(field.type):
            texts = table.column(i).cast(field.type.storage_type).to_pylist()
            with suppress(pa.ArrowException):
                numbers = pa.array([None if text is None else Decimal(text) for text in texts])
                table = table.set_column(i, field.name, numbers)
    return table


def _to_pandas(pa: ModuleType, table: pa.Table) -> pd.DataFrame:
    """Convert a table to a frame.

    Raises UnsupportedType for the first column that pandas cannot hold.
    """
    types_mapper = _nullable_types(pa).get
    try:
        frame: pd.DataFrame = table.to_pandas(types_mapper=types_mapper, date_as_object=True)
        return frame
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
        for name in table.column_names:
            try:
                table.select([name]).to_pandas(types_mapper=types_mapper, date_as_object=True)
            except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
                arrow_type = table.schema.field(name).type
                raise UnsupportedType(
                    f'Column "{name}" is of type {arrow_type}, which a data frame cannot hold.',
                    hint="Cast it to a number, text, date, timestamp or boolean, or leave it out"
                    " of the table.",
                ) from None
        raise


def _to_polars(pl: ModuleType, table: pa.Table, schema: Mapping[str, Any]) -> polars.DataFrame:
    """Convert a release to polars; Enum columns keep only the categories of released rows."""
    result: polars.DataFrame = pl.from_arrow(table)
    for name, polars_type in schema.items():
        if not isinstance(polars_type, pl.Enum) or name not in result.columns:
            continue
        released_values = set(result[name].cast(pl.String).drop_nulls().unique())
        used_categories = [value for value in polars_type.categories if value in released_values]
        # Labels, such as those of a hierarchy, may be no categories; then the column stays text.
        if len(used_categories) == len(released_values):
            # Converting from Arrow loses the order of categories.
            values = result[name].cast(pl.String).cast(pl.Enum(used_categories))
            result = result.with_columns(values)
    return result


def _with_readable_type(pa: ModuleType, field: pa.Field) -> pa.Field:
    """Replace a type that pandas cannot read by one with the same values in another layout."""
    type_name = str(field.type)
    if isinstance(field.type, pa.BaseExtensionType) and type_name == "extension<arrow.bool8>":
        return field.with_type(pa.bool_())
    if type_name in ("string_view", "binary_view"):
        return field.with_type(pa.large_string() if "string" in type_name else pa.large_binary())
    return field


def _nullable_types(pa: ModuleType) -> dict[object, AnyDtype | ExtensionDtype]:
    """Return the nullable pandas types of booleans and integers, by Arrow type."""
    pandas_types: dict[object, AnyDtype | ExtensionDtype] = {pa.bool_(): pd.BooleanDtype()}
    for sign in ("Int", "UInt"):
        for bits in (8, 16, 32, 64):
            name = f"{sign}{bits}"
            pandas_types[getattr(pa, name.lower())()] = pd.api.types.pandas_dtype(name)
    return pandas_types


def _to_arrow_column(
    pa: ModuleType, series: pd.Series[Any], original_type: pa.DataType | None
) -> pa.Array | pa.ChunkedArray:
    """Convert a released column to its original type, or to another if the values do not fit it."""
    if original_type is not None:
        try:
            return pa.array(series, type=original_type, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError):
            pass
    return pa.array(series, from_pandas=True)


# dbanon's key in ``DataFrame.attrs``, which pandas carries over to copies and Parquet files.
_ATTRS_KEY = "dbanon"


def mark_row_order(released: pd.DataFrame, row_order: str) -> pd.DataFrame:
    """Record the row order, ``shuffled`` or ``input``, in the frame's attrs."""
    released.attrs = {_ATTRS_KEY: {"rows": row_order}}
    return released


def require_not_shuffled(released: pd.DataFrame) -> None:
    """Check that dbanon did not shuffle the rows of a frame.

    Raises
    ------
    RowsNotAligned : dbanon has shuffled them.
    """
    marks = released.attrs.get(_ATTRS_KEY)
    if isinstance(marks, Mapping) and marks.get("rows") == SHUFFLED:
        raise RowsNotAligned(
            "The released rows are in random order, because anonymize_frame shuffles them.",
            hint="Pass the `report` of the same call, name a `key` of both tables, or release rows"
            " in the order of the input.",
        )


def alignment_of(
    original: pd.DataFrame,
    released: ArrayLike,
    names: Iterable[str],
    original_positions: NDArray[np.int64],
    hierarchies: Mapping[str, HierarchySource],
) -> Alignment:
    """Build the alignment of released rows with their originals.

    Parameters
    ----------
    released : the table returned to the caller; its types may differ from those in the run.
    names : the quasi-identifiers. Digests of their values identify the two tables later.
    original_positions : int64 (r,), the position in ``original`` of each released row's original.
    hierarchies : the run's hierarchies, by column.
    """
    names = list(names)
    released_frame, _ = frame_of(released)
    original_digests = _digests(original, names)
    released_digests = _digests(released_frame, names)
    return Alignment(
        len(original),
        original_positions,
        original_digests,
        released_digests,
        released,
        hierarchies,
    )


def rows_by_report(
    report: Report, original: pd.DataFrame, released: pd.DataFrame, names: Iterable[str]
) -> NDArray[np.int64]:
    """Return the position of each original's released row, int64 (n,); -1 if it was withheld.

    Raises
    ------
    RowsNotAligned : the report has no alignment, or a frame has changed since the run.
    """
    alignment = report.alignment
    if alignment is None:
        raise RowsNotAligned(
            "This report does not record which released row came from which original. Only the"
            " report object returned by anonymize_frame does; copies do not.",
            hint="Pass that report, or name a `key` of both tables.",
        )
    names = list(names)
    for title, table, recorded_digests, n_rows in (
        ("original", original, alignment.original_digests, alignment.n_originals),
        ("release", released, alignment.released_digests, len(alignment.original_of_row)),
    ):
        digests = _digests(table, names)
        if len(table) != n_rows or any(
            digests[name] != recorded_digests.get(name) for name in names
        ):
            raise RowsNotAligned(
                f"The {title} has changed since the run of this report: its rows, their order or"
                " values of quasi-identifiers differ.",
                hint="Pass both frames as they were then, or name a `key` of both tables.",
            )
    return alignment.row_of_original()


def _digests(frame: pd.DataFrame, names: Iterable[str]) -> dict[str, bytes]:
    """Return a digest of each column's values in row order; missing columns are skipped."""
    digests = {}
    for name in names:
        if name in frame.columns:
            hashes = pd.util.hash_pandas_object(frame[name], index=False)
            digests[name] = sha256(hashes.to_numpy().tobytes()).digest()
    return digests
