"""Map values of microdata to leaves of hierarchies, and select records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata, is_wide
from dbanon.data.pieces import split_records
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.tree import Hierarchy, flat_hierarchy

# The suffix of timestamps in columns with a time zone, which are all written in UTC.
UTC = "+00:00"

# The label of a completely generalized value, and of the root of flat hierarchies.
ANY = "*"

Hierarchies: TypeAlias = Mapping[str, Hierarchy]


def resolve_hierarchies(
    attributes: Sequence[Attribute], hierarchies: Hierarchies, column_statistics: ColumnStatistics
) -> tuple[Hierarchy | None, ...]:
    """Determine the hierarchy of each attribute.

    It is the one in ``hierarchies``, if there is any. Otherwise it is None for an attribute of
    numbers, and a flat hierarchy for other attributes.

    Parameters
    ----------
    column_statistics : the statistics of the table; their values are the leaves of flat
        hierarchies.

    Raises
    ------
    InvalidParameter : a name is not a quasi-identifier.
    """
    for name in hierarchies:
        if name not in [attribute.name for attribute in attributes]:
            raise InvalidParameter(
                f'The hierarchy of "{name}" does not name a quasi-identifier.',
                hint="Give hierarchies to quasi-identifiers only.",
            )
    trees: list[Hierarchy | None] = []
    for attribute in attributes:
        if attribute.name in hierarchies:
            trees.append(hierarchies[attribute.name])
        elif attribute.kind.is_numeric:
            trees.append(None)
        else:
            trees.append(flat_hierarchy(column_statistics.categories[attribute.name].values))
    return tuple(trees)


def encode_leaves(microdata: Microdata, attribute: Attribute, tree: Hierarchy) -> NDArray[np.int32]:
    """Return the leaf position of each record's value, int32 (n,); 0 for NULL.

    Raises
    ------
    HierarchyBroken : a value is not a leaf.
    """
    if not attribute.kind.is_numeric:
        position = microdata.categorical.index(attribute)
        leaves = tree.encode(microdata.categories[position], attribute.name)
        # Index -1, the code of NULL, selects the appended zero.
        return np.append(leaves, np.int32(0))[microdata.codes[:, position]]
    numbers = microdata.numbers[:, microdata.numeric.index(attribute)]
    valid = microdata.valid_column(attribute.name)
    values = np.unique(numbers if valid is None else numbers[valid])
    leaves = tree.encode(format_as_leaves(tree, values, attribute), attribute.name)
    codes = np.zeros(len(numbers), np.int32)
    # Work piece by piece to save memory.
    for piece in split_records(len(numbers)):
        selected = slice(None) if valid is None else valid[piece]
        codes[piece][selected] = leaves[np.searchsorted(values, numbers[piece][selected])]
    return codes


def format_as_leaves(
    tree: Hierarchy, values: NDArray[np.float64], attribute: Attribute
) -> list[str]:
    """Format values of a numeric attribute, float64 (m,), in the spelling of the tree's leaves."""
    return spell_as_leaves(tree, [format_number(value, attribute) for value in values], attribute)


def spell_as_leaves(tree: Hierarchy, texts: Sequence[str], attribute: Attribute) -> list[str]:
    """Convert values to the spelling of a hierarchy: 0.50 to 0.5 if only 0.5 is a label.

    Values that the hierarchy lacks are unchanged.

    Parameters
    ----------
    texts : the values, formatted by ``format_leaf`` or ``format_number``.
    """
    if not attribute.kind.is_numeric:
        return list(texts)
    labels = set(tree.labels)
    if labels.issuperset(texts):
        return list(texts)
    if attribute.has_time_zone:
        # Hand-written trees may omit the time zone of timestamps, which is UTC.
        return [text if text in labels else text.removesuffix(UTC) for text in texts]
    if attribute.kind not in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
        return list(texts)
    return [
        text if text in labels else tree.label_of_number.get(Decimal(text), text) for text in texts
    ]


def list_column_texts(microdata: Microdata, attribute: Attribute) -> list[str]:
    """List the distinct values of an attribute, spelled as leaves, in the attribute's order."""
    if not attribute.kind.is_numeric:
        return list(microdata.categories[microdata.categorical.index(attribute)])
    numbers = microdata.numbers[:, microdata.numeric.index(attribute)]
    valid = microdata.valid_column(attribute.name)
    values = np.unique(numbers if valid is None else numbers[valid])
    return list(dict.fromkeys(format_number(value, attribute) for value in values))


def format_number(value: float, attribute: Attribute) -> str:
    """Format a number, date, timestamp or rank as a leaf of a hierarchy.

    Parameters
    ----------
    value : the number in ``Microdata.numbers``: days for dates, microseconds for timestamps.
    """
    if attribute.kind is Kind.ORDINAL:
        return attribute.order[int(value)]
    if attribute.kind is Kind.DATE:
        return str(np.datetime64(int(value), "D"))
    if attribute.kind is Kind.TIMESTAMP:
        # Write the time zone if the column has one, since readers cannot know it otherwise.
        zone = UTC if attribute.has_time_zone else ""
        return str(np.datetime64(int(value), "us")).replace("T", " ") + zone
    if attribute.kind is Kind.DECIMAL:
        return f"{value:.{attribute.scale}f}"
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def format_leaf(text: str, attribute: Attribute) -> str:
    """Format a value as a leaf of a hierarchy; ``text`` is the value as the database writes it."""
    if attribute.kind is Kind.DECIMAL and attribute.scale > 0:
        return f"{Decimal(text):.{attribute.scale}f}"
    return format_number(float(text), attribute) if attribute.kind is Kind.FLOAT else text


def sort_values(texts: Collection[str], attribute: Attribute) -> list[str]:
    """Sort values, spelled as leaves, by the attribute's order, numerically, or by code point."""
    if set(texts) <= set(attribute.order):
        return [text for text in attribute.order if text in texts]
    if attribute.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
        return sorted(texts, key=_number_sort_key)
    return sorted(texts)


def sort_key(text: str, attribute: Attribute) -> int | str | tuple[bool, Decimal]:
    """Return the key by which ``sort_values`` sorts; it is equal for two spellings of a number."""
    if text in attribute.order:
        return attribute.order.index(text)
    if attribute.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
        return _number_sort_key(text)
    return text


def _number_sort_key(text: str) -> tuple[bool, Decimal]:
    """Return a key that sorts numbers, NaN last."""
    number = Decimal(text)
    return number.is_nan(), Decimal(0) if number.is_nan() else number


# Builds hierarchies by column, using only the values in the given microdata.
TreeBuilder: TypeAlias = Callable[[Microdata], Mapping[str, Hierarchy]]


def take_records(microdata: Microdata, records: NDArray[np.int64]) -> Microdata:
    """Select records, int64 (m,), in the given order, without a trace of the other records.

    The categories contain only values of these records, and only these records decide which columns
    are in ``Microdata.wide``.
    """
    numbers = np.ascontiguousarray(microdata.numbers[records])
    codes = microdata.codes[records]
    categories = []
    for column, values in enumerate(microdata.categories):
        # Renumber the codes by the values that these records have; NULL remains -1.
        used_codes, new_codes = np.unique(codes[:, column], return_inverse=True)
        has_null = int(used_codes.size > 0 and used_codes[0] < 0)
        codes[:, column] = new_codes.reshape(-1) - has_null
        categories.append(tuple(values[code] for code in used_codes[has_null:].tolist()))
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
        weights=None if microdata.weights is None else microdata.weights[records],
        # Only evaluations of the complete table use the values before suppression.
        before_suppression=None,
        sensitive={name: column.take(records) for name, column in microdata.sensitive.items()},
    )


def suppress_values(
    microdata: Microdata, suppressed: NDArray[np.bool_], *, keep_originals: bool
) -> Microdata:
    """Replace some values by NULL.

    Parameters
    ----------
    suppressed : bool (n, d), True for values to replace; no NULL is among them.
    keep_originals : True to keep the values in ``Microdata.before_suppression``, for an evaluation.
    """
    if not suppressed.any():
        return microdata
    is_numeric = [attribute.kind.is_numeric for attribute in microdata.attributes]
    numbers, codes = microdata.numbers.copy(), microdata.codes.copy()
    # In place of NULL, stores write these values into the arrays, too.
    numbers[suppressed[:, is_numeric]] = 0.0
    codes[suppressed[:, np.logical_not(is_numeric)]] = -1
    changed = replace(
        microdata,
        numbers=numbers,
        codes=codes,
        valid=~suppressed if microdata.valid is None else microdata.valid & ~suppressed,
        suppressed=suppressed
        if microdata.suppressed is None
        else microdata.suppressed | suppressed,
    )
    # A suppressed value may have been the last of its category, or the last of its column that
    # float64 cannot represent. Taking all records determines such facts anew.
    result = take_records(changed, np.arange(microdata.n_records))
    if not keep_originals:
        return result
    return replace(result, before_suppression=microdata.before_suppression or microdata)
