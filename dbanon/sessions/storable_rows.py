"""Retained values of another database, converted for storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from dbanon.data.schema import Attribute
from dbanon.errors import UnsupportedType


def storable_rows(
    attributes: Sequence[Attribute],
    rows: Iterable[tuple[Any, ...]],
    storable: Callable[[Any], Any],
    first: int = 2,
) -> Iterator[tuple[Any, ...]]:
    """Convert rows of class, position and retained values to what a database can store.

    Parameters
    ----------
    attributes : of the retained values.
    first : the index of the first retained value in a row.
    storable : converts a value, or raises UnsupportedType.

    Raises
    ------
    UnsupportedType : a value cannot be stored; the error names its column.
    """
    for row in rows:
        try:
            yield tuple(map(storable, row))
        except UnsupportedType:
            for attribute, value in zip(attributes, row[first:], strict=True):
                _require_storable(attribute, value, storable)
            raise


def _require_storable(attribute: Attribute, value: Any, storable: Callable[[Any], Any]) -> None:
    try:
        storable(value)
    except UnsupportedType as error:
        raise UnsupportedType(
            f'Column "{attribute.name}" cannot be stored. {error.message}', hint=error._hint
        ) from None
