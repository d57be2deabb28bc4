"""Column types of SQLite: how values are read and released, and what other types become."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import MixedTypes, UnsupportedType
from dbanon.microdata import Chunk, is_wide
from dbanon.recoding import ReleasedColumn
from dbanon.schema import Attribute, Kind
from dbanon.stores.base import Source
from dbanon.stores.names import quote

# What the values of a kind may be, in the words of typeof().
STORED_AS = {
    Kind.INTEGER: ("integer",),
    Kind.DECIMAL: ("integer", "real"),
    Kind.FLOAT: ("integer", "real"),
    Kind.DATE: ("text",),
    Kind.TIMESTAMP: ("text",),
}


def attribute(name: str, declared: str, nullable: bool) -> Attribute:
    """A column by the type it declares, as SQLite's own rules of affinity read it."""
    upper = declared.upper()
    kind, precision, scale = Kind.OTHER, 0, 0
    limits = re.search(r"\((\d+)\s*(?:,\s*(\d+))?\)", upper)
    if "BOOL" in upper:
        kind = Kind.BOOLEAN
    elif "INT" in upper:
        kind = Kind.INTEGER
    elif any(word in upper for word in ("CHAR", "CLOB", "TEXT")):
        kind = Kind.CATEGORY
    elif any(word in upper for word in ("REAL", "FLOA", "DOUB")):
        kind = Kind.FLOAT
    elif "TIME" in upper:
        kind = Kind.TIMESTAMP if upper.startswith(("DATETIME", "TIMESTAMP")) else Kind.OTHER
    elif "DATE" in upper:
        kind = Kind.DATE
    elif upper.startswith(("DEC", "NUM")):
        kind = Kind.FLOAT
        if limits is not None:
            kind = Kind.DECIMAL
            precision, scale = int(limits[1]), int(limits[2] or 0)
    return Attribute(
        name, kind, sql_type=declared, nullable=nullable, precision=precision, scale=scale
    )


def chunk(
    source: Source,
    keys: NDArray[np.int64],
    columns: Sequence[tuple[Any, ...]],
    attributes: Sequence[Attribute],
) -> Chunk:
    numbers = np.empty((len(keys), len(attributes)))
    valid = None
    wide = set()
    for position, (attribute, values) in enumerate(zip(attributes, columns, strict=True)):
        if None in values:
            if valid is None:
                valid = np.ones(numbers.shape, bool)
            valid[:, position] = [value is not None for value in values]
        numbers[:, position] = _numbers(source, attribute, values)
        if is_wide(numbers[:, position], attribute):
            wide.add(attribute.name)
    return Chunk(keys, numbers, valid=valid, wide=frozenset(wide))


def _numbers(source: Source, attribute: Attribute, values: Sequence[Any]) -> NDArray[np.float64]:
    """Stored values as numbers, float64 (c,); 0 where NULL."""
    if attribute.kind not in (Kind.DATE, Kind.TIMESTAMP):
        return np.array([0 if value is None else value for value in values], np.float64)
    unit = "D" if attribute.kind is Kind.DATE else "us"
    try:
        # A date with a time of day does not fit unit D: numpy refuses what it would cut.
        texts = [value or "1970-01-01" for value in values]
        moments = np.array(texts, dtype=f"datetime64[{unit}]")
    except ValueError:
        raise MixedTypes(
            f'Column "{attribute.name}" of {source.name} declares {attribute.sql_type}, but some'
            " values are not written as "
            + ("YYYY-MM-DD." if unit == "D" else "YYYY-MM-DD HH:MM:SS[.ffffff]."),
            hint="Correct these values, or cast the column in a view.",
        ) from None
    return moments.astype(np.int64).astype(np.float64)


def stored_values(column: ReleasedColumn) -> Sequence[Any]:
    """Class values as SQLite stores them, None where NULL."""
    attribute, values = column.attribute, column.values
    stored: list[Any]
    if attribute.kind is Kind.DATE:
        stored = np.datetime_as_string(values.astype("datetime64[D]")).tolist()
    elif attribute.kind is Kind.TIMESTAMP:
        unit = "s" if attribute.scale == 0 else "ms" if attribute.scale <= 3 else "us"
        moments = values.astype("datetime64[us]").astype(f"datetime64[{unit}]")
        stored = np.char.replace(np.datetime_as_string(moments), "T", " ").tolist()
    elif attribute.kind is Kind.DECIMAL and attribute.scale:
        stored = [int(value) / 10**attribute.scale for value in values]
    else:
        stored = values.tolist()
    if column.missing is not None:
        stored = [None if no else value for value, no in zip(stored, column.missing, strict=True)]
    return stored


def storable(value: Any) -> Any:
    """A value of another database as SQLite stores it."""
    if value is None or isinstance(value, (int, float, str, bytes)):
        return value
    if hasattr(value, "as_tuple"):  # Decimal
        return float(value) if value.as_tuple().exponent < 0 else int(value)
    if hasattr(value, "hour"):
        return value.isoformat(sep=" ")
    return str(value)


def wide_parts(attribute: Attribute) -> tuple[str, str]:
    column = f"s.{quote(attribute.name)}"
    if attribute.kind is Kind.TIMESTAMP:
        # Apart, because SQLite rounds what it reads to milliseconds.
        seconds = f"CAST(strftime('%s', substr({column}, 1, 19)) AS INTEGER)"
        fraction = (
            f"CAST(substr(substr({column}, 21) || '000000', 1, {attribute.scale}) AS INTEGER)"
        )
        column = f"({seconds} * {10**attribute.scale} + {fraction})"
    return f"{column} / n.size", f"{column} % n.size"


def type_of(attribute: Attribute) -> str:
    if attribute.kind is Kind.OTHER:
        raise UnsupportedType(
            f'Column "{attribute.name}" of type {attribute.sql_type} cannot be copied to'
            " another database.",
            hint="Cast it to text or to a number in a view, and anonymize the view.",
        )
    if attribute.kind is Kind.DECIMAL:
        return f"DECIMAL({attribute.precision or 38},{attribute.scale})"
    return {
        Kind.INTEGER: "INTEGER",
        Kind.FLOAT: "REAL",
        Kind.DATE: "DATE",
        Kind.TIMESTAMP: "TIMESTAMP",
        Kind.BOOLEAN: "BOOLEAN",
        Kind.CATEGORY: "TEXT",
    }[attribute.kind]
