"""The values of microdata as leaves of hierarchies, and some records as if there were no others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata, is_wide
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.tree import Hierarchy, flat

# Behind the text of an instant.
UTC = "+00:00"

# What stands for any value.
ANY = "*"

Hierarchies: TypeAlias = Mapping[str, Hierarchy]


def trees_of(
    attributes: Sequence[Attribute], hierarchies: Hierarchies, measures: Measures
) -> tuple[Hierarchy | None, ...]:
    """The hierarchy of each attribute: the one given, None for a number, flat for another: the
    values of its table's dictionary, different or not.

    Raises
    ------
    InvalidParameter : a name is no quasi-identifier.
    """
    names = [attribute.name for attribute in attributes]
    for name in hierarchies:
        if name not in names:
            raise InvalidParameter(
                f'The hierarchy of "{name}" names no quasi-identifier.',
                hint="Give hierarchies to quasi-identifiers only.",
            )
    found: list[Hierarchy | None] = []
    for attribute in attributes:
        if attribute.name in hierarchies:
            found.append(hierarchies[attribute.name])
        elif attribute.kind.is_numeric:
            found.append(None)
        else:
            found.append(flat(measures.categories[attribute.name].values))
    return tuple(found)


def leaf_codes(microdata: Microdata, attribute: Attribute, tree: Hierarchy) -> NDArray[np.int32]:
    """The leaf position of each record's value, int32 (n,); 0 where it is NULL.

    Raises
    ------
    HierarchyBroken : a value is no leaf.
    """
    if not attribute.kind.is_numeric:
        position = microdata.categorical.index(attribute)
        leaves = tree.encode(microdata.categories[position], attribute.name)
        # One more place for the code -1 of NULL.
        return np.append(leaves, np.int32(0))[microdata.codes[:, position]]
    numbers = microdata.numbers[:, microdata.numeric.index(attribute)]
    valid = microdata.valid_column(attribute.name)
    codes = np.zeros(len(numbers), np.int32)
    present = slice(None) if valid is None else valid
    values, inverse = np.unique(numbers[present], return_inverse=True)
    leaves = tree.encode(texts_in(tree, values, attribute), attribute.name)
    codes[present] = leaves[inverse.reshape(-1)]
    return codes


def texts_in(tree: Hierarchy, values: NDArray[np.float64], attribute: Attribute) -> list[str]:
    """Values of a numeric attribute, float64 (m,), as the leaves of this hierarchy spell them."""
    return spelled_by(tree, [number_text(value, attribute) for value in values], attribute)


def spelled_by(tree: Hierarchy, texts: Sequence[str], attribute: Attribute) -> list[str]:
    """Values of an attribute as this hierarchy spells them: 0.5 for 0.50, where 0.50 is no label.

    A value that the hierarchy does not have stays as it is.
    """
    if not attribute.kind.is_numeric:
        return list(texts)
    labels = set(tree.labels)
    if labels.issuperset(texts):
        return list(texts)
    if attribute.zoned:
        # A tree that somebody wrote may leave out the zone of its leaves, which is UTC.
        return [text if text in labels else text.removesuffix(UTC) for text in texts]
    if attribute.kind not in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
        return list(texts)
    return [text if text in labels else tree.numbers.get(Decimal(text), text) for text in texts]


def column_texts(microdata: Microdata, attribute: Attribute) -> list[str]:
    """The distinct values of an attribute as leaves spell them, in the attribute's order."""
    if not attribute.kind.is_numeric:
        return list(microdata.categories[microdata.categorical.index(attribute)])
    numbers = microdata.numbers[:, microdata.numeric.index(attribute)]
    valid = microdata.valid_column(attribute.name)
    values = np.unique(numbers if valid is None else numbers[valid])
    return list(dict.fromkeys(number_text(value, attribute) for value in values))


def number_text(value: float, attribute: Attribute) -> str:
    """A number, date, timestamp or rank as the leaves of a hierarchy spell it."""
    if attribute.kind is Kind.ORDINAL:
        return attribute.order[int(value)]
    if attribute.kind is Kind.DATE:
        return str(np.datetime64(int(value), "D"))
    if attribute.kind is Kind.TIMESTAMP:
        # An instant is told in UTC and says so: readers cannot know whose clock it is.
        zone = UTC if attribute.zoned else ""
        return str(np.datetime64(int(value), "us")).replace("T", " ") + zone
    if attribute.kind is Kind.DECIMAL:
        return f"{value:.{attribute.scale}f}"
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def leaf_text(text: str, attribute: Attribute) -> str:
    """A value as the leaves of a hierarchy spell it, from the text that a database makes of it."""
    if attribute.kind is Kind.DECIMAL and attribute.scale > 0:
        return f"{Decimal(text):.{attribute.scale}f}"
    return number_text(float(text), attribute) if attribute.kind is Kind.FLOAT else text


def by_value(texts: Collection[str], attribute: Attribute) -> list[str]:
    """The values of a column, as leaves spell them, in the column's order: by code point, by number
    or as the type states it.
    """
    if set(texts) <= set(attribute.order):
        return [text for text in attribute.order if text in texts]
    if attribute.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
        return sorted(texts, key=_by_number)
    return sorted(texts)


def in_place(text: str, attribute: Attribute) -> Any:
    """What sorts the values of a column as ``by_value`` does; alike for texts of one number."""
    if text in attribute.order:
        return attribute.order.index(text)
    if attribute.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
        return _by_number(text)
    return text


def _by_number(text: str) -> tuple[bool, Decimal]:
    """NaN, which has no place among numbers, comes last."""
    number = Decimal(text)
    return number.is_nan(), Decimal(0) if number.is_nan() else number


# The hierarchies by column, those of builders made from the values of these records alone.
Trees: TypeAlias = Callable[[Microdata], Mapping[str, Hierarchy]]


def only(microdata: Microdata, records: NDArray[np.int64]) -> Microdata:
    """Microdata of some of the records, int64 (m,), in their order, as if there were no others.

    Dictionaries hold the values that these records have, and only these records' values count as
    wide.
    """
    numbers = np.ascontiguousarray(microdata.numbers[records])
    codes = microdata.codes[records]
    categories = []
    for column, values in enumerate(microdata.categories):
        used, places = np.unique(codes[:, column], return_inverse=True)
        has_null = int(used.size > 0 and used[0] < 0)
        codes[:, column] = places.reshape(-1) - has_null
        categories.append(tuple(values[code] for code in used[has_null:].tolist()))
    valid = None if microdata.valid is None else microdata.valid[records]
    return replace(
        microdata,
        keys=microdata.keys[records],
        numbers=numbers,
        codes=codes,
        categories=tuple(categories),
        valid=None if valid is None or bool(valid.all()) else valid,
        wide=frozenset(
            attribute.name
            for column, attribute in enumerate(microdata.numeric)
            if attribute.name in microdata.wide and is_wide(numbers[:, column], attribute)
        ),
        strata=None if microdata.strata is None else microdata.strata[records],
        entities=None if microdata.entities is None else microdata.entities[records],
        layers=None if microdata.layers is None else microdata.layers[records],
        suppressed=None if microdata.suppressed is None else microdata.suppressed[records],
        sensitive={name: column.take(records) for name, column in microdata.sensitive.items()},
    )
