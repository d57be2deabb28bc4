"""Kept values from elsewhere, as a database stores them."""

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
    """Rows of a class, a position and kept values, as a database stores them.

    Parameters
    ----------
    attributes : of the kept values.
    first : where they begin in a row.
    storable : gives a value as the database stores it, or raises UnsupportedType.

    Raises
    ------
    UnsupportedType : a value has no place there; the error names its column.
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
