"""Generalization: a class is released as what its records have in common.

With a hierarchy: the label of the lowest common ancestor. A category without one: its value, or
``*``. A number: an interval around the class. By default the interval's borders lie on a grid that
is the same for all classes: the borders of a class's own range are values of its members. An
ordinal attribute: an interval of ranks, which holds both of its ends. After a full-domain search:
the node, or the cell of numbers, of the level found.

Loss of a cell: climbed edges over all edges; width over the width of the table's column, 1 at most.
It is that of the label released, not of the range behind it. The width is that of the values that a
label holds: ``[30, 32)`` holds the whole numbers 30 and 31, which are 1 apart, in a column of
integers as in one of floats that are all whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.grid import around, grid_for, held_width, unit_of
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata, around_rounding
from dbanon.data.number_levels import NumberLevels
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
    return ReleasedColumn(
        _as_text(attribute),
        labels,
        missing,
        lost=_none_where(lost, missing),
        shares=tree.label_loss(nodes),
        label_alone=tree.balanced,
    )


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
    is_wide = attribute.name in microdata.wide
    if is_wide and (settings.local_range or settings.intervals != "text"):
        raise _borders_alone(attribute)
    valid = microdata.valid_column(attribute.name)
    scale = measures.numbers[attribute.name]
    if valid is not None:
        # Any number of the column will do.
        numbers = np.where(valid, numbers, scale.least)
    step = settings.steps.get(attribute.name)
    ordinal = attribute.kind is Kind.ORDINAL
    closed = settings.local_range or ordinal
    if settings.levels is not None:
        released = partition.labels >= 0 if valid is None else (partition.labels >= 0) & valid
        levels = NumberLevels.of(attribute, scale, step)
        level = levels.level_holding(
            settings.levels.numbers[attribute.name],
            settings.levels.levels[attribute.name],
            numbers[released],
        )
        low, high = _ends_of_levels(
            numbers, released, partition, levels, level, settings.local_range, is_wide
        )
    else:
        low, high = _ends(numbers, partition)
        if is_wide:
            low, high = around_rounding(low, high, attribute)
        # Also refuses what float64 has no borders for.
        grid = grid_for(attribute, scale, step)
        if not settings.local_range:
            low, high = around(attribute, grid, low, high)
    known: dict[str, Any]
    unit = 0.0 if closed else unit_of(attribute, scale)
    width = held_width(low, high, scale, unit)
    lost = _none_where(width * partition.sizes, missing)
    extent = np.column_stack((low, np.maximum(high - unit, low)))
    if settings.intervals == "text" or (settings.intervals == RANGE and ordinal):
        texts = _texts(low, high, attribute, closed)
        return [ReleasedColumn(_as_text(attribute), texts, missing, lost=lost, extent=extent)]
    if settings.intervals == "midpoint":
        middle = low + (np.floor((high - low) / 2) if ordinal else (high - low) / 2)
        typed = _typed(middle, attribute)
        require_room(attribute, typed, _WIDER)
        known = {"lost": lost, "extent": extent, "label_alone": False}
        return [ReleasedColumn(attribute, typed, missing, middle, **known)]
    borders = _typed(low, attribute, closed), _typed(high, attribute, closed)
    if settings.intervals == RANGE:
        lower, upper = (_exact(ends) for ends in borders)
        # The type is the database's to choose.
        ranges = replace(attribute, sql_type="")
        known = {"lost": lost, "extent": extent, "upper": upper, "closed": closed}
        return [ReleasedColumn(ranges, lower, missing, **known)]
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
            extent=extent,
        )
        for name, typed, ends, share in zip(names, borders, (low, high), (lost, None), strict=True)
    ]


def _borders_alone(attribute: Attribute) -> InvalidParameter:
    return InvalidParameter(
        f'Column "{attribute.name}" holds numbers or moments of more than 15 digits, of which only'
        " borders of a grid are released, as text.",
        hint='Use `intervals="text"` without `local_range`, or give it a hierarchy'
        " (`hierarchies`).",
    )


def _ends(values: NDArray[Any], partition: Partition) -> tuple[NDArray[Any], NDArray[Any]]:
    """The smallest and the largest value of each class."""
    if not partition.n_classes:
        return values[:0], values[:0]
    grouped = values[partition.members]
    starts = partition.starts
    return np.minimum.reduceat(grouped, starts), np.maximum.reduceat(grouped, starts)


def _ends_of_levels(
    numbers: NDArray[np.float64],
    released: NDArray[np.bool_],
    partition: Partition,
    levels: NumberLevels,
    level: int,
    local_range: bool,
    is_wide: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The ends released of each class: those of its cell on this level of the column.

    A class whose records are in several cells, such as one that was merged for a privacy model, has
    the cell of the first level that holds them all. So two labels are equal, disjoint, or one holds
    the other.

    Parameters
    ----------
    numbers : float64 (n,), of all records, any number where NULL.
    released : bool (n,), records that are released and not NULL here.
    local_range : True for the smallest and the largest number that the table has in that cell.
    is_wide : True where float64 may have rounded numbers: a cell holds what they may have been.
    """
    low, high = _ends(numbers, partition)
    if is_wide:
        low, high = around_rounding(low, high, levels.attribute)
    climbed = levels.climb(low, high, level)
    for higher in np.unique(climbed).tolist():
        classes = np.flatnonzero(climbed == higher)
        if not local_range:
            low[classes], high[classes] = levels.around(low[classes], higher)
            continue
        values = np.sort(numbers[released])
        cells = levels.cells_of(values, higher)
        own = levels.cells_of(low[classes], higher)
        first, last = (np.searchsorted(cells, own, side) for side in ("left", "right"))
        # A class of NULLs alone has no number, and its ends are not released.
        first, last = np.minimum(first, len(values) - 1), np.maximum(last - 1, 0)
        if len(values):
            low[classes], high[classes] = values[first], values[last]
    return low, high


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
