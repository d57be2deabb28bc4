"""Generalization: a class is released as what its records have in common.

With a hierarchy: the label of the lowest common ancestor. A category without one: its value, or
``*``. A number: an interval around the class. By default the interval's borders lie on a grid that
is the same for all classes: the borders of a class's own range are values of its members. An
ordinal attribute: an interval of ranks, which holds both of its ends. After a full-domain search:
the node of the level found, and an interval around all numbers of the part that the level makes.

Loss of a cell: climbed edges over all edges; width over the width of the table's column, 1 at most.
It is that of the label released, not of the range behind it. The width is that of the values that a
label holds: ``[30, 32)`` holds the whole numbers 30 and 31, which are 1 apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.grid import around, grid_for, held_width, unit_of
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.leaves import leaf_codes, number_text, trees_of
from dbanon.hierarchy.tree import Hierarchy
from dbanon.recoding.columns import (
    GENERALIZED,
    RANGE,
    ExactTotals,
    Recoding,
    ReleasedColumn,
    Settings,
    require_room,
)

# Digits of whole seconds, which are told where one border of the column needs them.
_WHOLE = ".000000"
_WIDER = "Release its ranges as text, or cast the column to a wider type in a view."


def generalization(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    exact_totals: ExactTotals,
    settings: Settings,
) -> tuple[ReleasedColumn, ...]:
    """The common ancestor or interval of every class and attribute, in the attributes' order.

    Raises
    ------
    HierarchyBroken : a value is no leaf of its hierarchy.
    InvalidParameter : a step is not positive or names no number, or midpoints or bounds are wanted
        of numbers that float64 does not hold exactly.
    UnsupportedType : a border or midpoint lies outside of what the column's type holds.
    """
    del exact_totals
    trees = trees_of(microdata.attributes, settings.hierarchies, measures)
    _check_steps(microdata, trees, settings)
    columns: list[ReleasedColumn] = []
    for attribute, tree in zip(microdata.attributes, trees, strict=True):
        valid = microdata.valid_column(attribute.name)
        # A class holds records of one NULL pattern, so its first member speaks for all.
        missing = None if valid is None else ~valid[partition.members[partition.starts]]
        if tree is not None:
            level = 0 if settings.levels is None else settings.levels.levels[attribute.name]
            columns.append(_ancestors(microdata, partition, attribute, tree, missing, level))
        else:
            columns += _intervals(microdata, measures, partition, attribute, settings, missing)
    return tuple(columns)


def _ancestors(
    microdata: Microdata,
    partition: Partition,
    attribute: Attribute,
    tree: Hierarchy,
    missing: NDArray[np.bool_] | None,
    level: int,
) -> ReleasedColumn:
    leaves = leaf_codes(microdata, attribute, tree)
    low, high = _ends(leaves, partition)
    nodes = tree.common(low, high)
    if level and len(nodes):
        # Both are above the class's first leaf: the higher one.
        at_level = tree.at_level(level)[low]
        nodes = np.where(tree.depths[at_level] < tree.depths[nodes], at_level, nodes)
    released = partition.labels >= 0
    cells = tree.loss(leaves[released], nodes[partition.labels[released]])
    lost = np.zeros(partition.n_classes)
    np.add.at(lost, partition.labels[released], cells)
    labels = np.array(tree.labels, object)[nodes]
    return ReleasedColumn(_as_text(attribute), labels, missing, lost=_none_where(lost, missing))


def _intervals(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    attribute: Attribute,
    settings: Settings,
    missing: NDArray[np.bool_] | None,
) -> list[ReleasedColumn]:
    position = microdata.numeric.index(attribute)
    numbers = microdata.numbers[:, position]
    if attribute.name in microdata.wide:
        raise InvalidParameter(
            f'Column "{attribute.name}" holds numbers of more than 15 digits, which intervals'
            " would round.",
            hint="Give it a hierarchy (`hierarchies`), or leave it out of the quasi-identifiers.",
        )
    valid = microdata.valid_column(attribute.name)
    scale = measures.numbers[attribute.name]
    if valid is not None:
        # Any number of the column will do.
        numbers = np.where(valid, numbers, scale.least)
    if settings.levels is None:
        low, high = _ends(numbers, partition)
    else:
        parts = settings.levels.parts[attribute.name]
        low, high = _ends_of_parts(numbers, partition, parts, valid)
    grid = grid_for(attribute, scale, settings.steps.get(attribute.name))
    ordinal = attribute.kind is Kind.ORDINAL
    closed = settings.local_range or ordinal
    if not settings.local_range:
        low, high = around(attribute, grid, low, high)
    width = held_width(low, high, scale, 0.0 if closed else unit_of(attribute))
    lost = _none_where(width * partition.sizes, missing)
    if settings.intervals == "text" or (settings.intervals == RANGE and ordinal):
        texts = _texts(low, high, attribute, closed)
        return [ReleasedColumn(_as_text(attribute), texts, missing, lost=lost)]
    if settings.intervals == "midpoint":
        middle = low + (np.floor((high - low) / 2) if ordinal else (high - low) / 2)
        typed = _typed(middle, attribute)
        require_room(attribute, typed, _WIDER)
        return [ReleasedColumn(attribute, typed, missing, middle, lost=lost)]
    borders = _typed(low, attribute, closed), _typed(high, attribute, closed)
    if settings.intervals == RANGE:
        lower, upper = (_exact(ends) for ends in borders)
        # The type is the database's to choose.
        ranges = replace(attribute, sql_type="")
        return [ReleasedColumn(ranges, lower, missing, lost=lost, upper=upper, closed=closed)]
    for ends in borders:
        require_room(attribute, ends, _WIDER)
    names = (f"{attribute.name}_low", f"{attribute.name}_high")
    return [
        ReleasedColumn(
            replace(attribute, name=name),
            typed,
            missing,
            ends,
            lost=share,
            of=attribute.name,
            closed=closed,
        )
        for name, typed, ends, share in zip(names, borders, (low, high), (lost, None), strict=True)
    ]


def _ends(values: NDArray[Any], partition: Partition) -> tuple[NDArray[Any], NDArray[Any]]:
    """The smallest and the largest value of each class."""
    if not partition.n_classes:
        return values[:0], values[:0]
    grouped = values[partition.members]
    starts = partition.starts
    return np.minimum.reduceat(grouped, starts), np.maximum.reduceat(grouped, starts)


def _ends_of_parts(
    numbers: NDArray[np.float64],
    partition: Partition,
    parts: NDArray[np.int64],
    valid: NDArray[np.bool_] | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The smallest and the largest number in the parts that the records of each class are in."""
    released = partition.labels >= 0
    if valid is not None:
        released &= valid
    _, part = np.unique(parts[released], return_inverse=True)
    part = part.reshape(-1)
    whole = Partition(part)
    low, high = numbers.copy(), numbers.copy()
    for ends, found in zip((low, high), _ends(numbers[released], whole), strict=True):
        ends[released] = found[part]
    return _ends(low, partition)[0], _ends(high, partition)[1]


def _texts(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    attribute: Attribute,
    closed: bool,
) -> NDArray[np.object_]:
    """``[low, high)``; closed ``[low, high]``, or the one value that all share."""
    ends = [[number_text(x, attribute) for x in side.tolist()] for side in (low, high)]
    if attribute.kind is Kind.TIMESTAMP and all(_WHOLE in text for side in ends for text in side):
        ends = [[text.replace(_WHOLE, "") for text in side] for side in ends]
    texts = []
    for first, last in zip(*ends, strict=True):
        if closed:
            texts.append(first if first == last else f"[{first}, {last}]")
        else:
            texts.append(f"[{first}, {last})")
    return np.array(texts, object)


def _typed(
    numbers: NDArray[np.float64], attribute: Attribute, whole: bool = True
) -> NDArray[np.generic]:
    """Numbers in the column's own type, as ``ReleasedColumn`` holds them.

    Borders that are no whole units are rounded up: a value of the type is in ``[low, high)`` if and
    only if it is between these.
    """
    if attribute.kind is Kind.FLOAT:
        return numbers
    scale = 10.0**attribute.scale if attribute.kind is Kind.DECIMAL else 1.0
    units = numbers * scale
    if not whole:
        # But for what rounding left behind the 15th digit.
        units = np.where(np.abs(units - np.rint(units)) < 1e-6, units, np.ceil(units))
    return np.rint(units).astype(np.int64)


def _exact(numbers: NDArray[Any]) -> NDArray[Any]:
    """Borders of ranges; floats as text, which loses no digit on its way to a decimal type."""
    if numbers.dtype != np.float64:
        return numbers
    return np.array([repr(x) for x in numbers.tolist()], object)


def _as_text(attribute: Attribute) -> Attribute:
    nullable = attribute.nullable
    return Attribute(
        attribute.name, Kind.CATEGORY, attribute.role, sql_type=GENERALIZED, nullable=nullable
    )


def _none_where(
    lost: NDArray[np.float64], missing: NDArray[np.bool_] | None
) -> NDArray[np.float64]:
    """A NULL loses nothing: it is released as it was."""
    return lost if missing is None else np.where(missing, 0.0, lost)


def _check_steps(
    microdata: Microdata, trees: tuple[Hierarchy | None, ...], settings: Settings
) -> None:
    kinds = {
        a.name: a.kind for a, tree in zip(microdata.attributes, trees, strict=True) if tree is None
    }
    for name, step in settings.steps.items():
        if name not in kinds:
            raise InvalidParameter(f'The step of "{name}" names no number without a hierarchy.')
        if not np.isfinite(step) or step <= 0:
            raise InvalidParameter(f'The step of "{name}" must be positive and finite.')
        if step % 1 and kinds[name] is Kind.ORDINAL:
            raise InvalidParameter(f'The step of "{name}" must be a whole number of ranks.')


RECODING = Recoding(
    name="generalization",
    run=generalization,
    summary="Lowest common ancestor, or interval",
    measure="iloss",
    takes_categories=True,
)
