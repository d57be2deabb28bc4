"""Conversion of retained values from another database to values that this one can store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from dbanon.data.schema import Attribute
from dbanon.data.types import SqlRow
from dbanon.errors import UnsupportedType


def storable_rows(
    attributes: Sequence[Attribute],
    rows: Iterable[SqlRow],
    to_storable: Callable[[object], object],
    first_value_index: int = 2,
) -> Iterator[SqlRow]:
    """Convert the values of rows to values that a database can store.

    A row begins with its class and its position in the release; then follow the retained values.

    Parameters
    ----------
    attributes : the columns of the retained values.
    to_storable : converts a value, or raises UnsupportedType.
    first_value_index : the index of the first retained value in a row; 0 for rows without class and
        position.

    Raises
    ------
    UnsupportedType : a value cannot be stored; the error names its column.
    """
    for row in rows:
        try:
            # Class and position are integers, which the conversion leaves unchanged.
            yield tuple(map(to_storable, row))
        except UnsupportedType:
            for attribute, value in zip(attributes, row[first_value_index:], strict=True):
                _require_storable(attribute, value, to_storable)
            raise


def _require_storable(
    attribute: Attribute, value: object, to_storable: Callable[[object], object]
) -> None:
    try:
        to_storable(value)
    except UnsupportedType as error:
        raise UnsupportedType(
            f'Column "{attribute.name}" cannot be stored. {error.message}', hint=error._hint
        ) from None
