"""Generalization: each class is released as a label that covers all of its records.

- With a hierarchy, the label is that of the lowest common ancestor of the values.
- For a category without a hierarchy, it is the value if all records share it, otherwise ``*``.
- For a number, it is an interval around the values. By default its borders are on a grid shared by
  all classes, since the exact range would reveal values of members.
- For an ordinal attribute, it is a closed interval of ranks.
- After a full-domain search, it is the node of the hierarchy, or the cell of the grid, on the
  chosen level.

The loss of a released value, for a hierarchy, is the number of edges from the leaf to the label,
divided by the number of edges from the leaf to the root. For an interval, it is the width, divided
by the range of the table's column, at most 1. It is computed for the released label, not for the
range of the class.
The width is the difference between the largest and the smallest value that the label can hold:
``[30, 32)`` holds the integers 30 and 31, so its width is 1. This applies to integer columns and to
columns of floats that are all whole numbers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.grid import ends_around, grid_for, value_spacing, width_share
from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata, widen_to_unrounded
from dbanon.data.number_levels import NumberLevels
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.data.types import KeywordArguments
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.leaves import encode_leaves, format_number, resolve_hierarchies
from dbanon.hierarchy.tree import Hierarchy
from dbanon.recoding.columns import (
    GENERALIZED,
    RANGE,
    ExactTotals,
    Recoding,
    ReleasedColumn,
    Settings,
    require_fit,
)

# Fractions of seconds are omitted if they are zero in all borders of the column.
_ZERO_FRACTION = ".000000"
_WIDER_TYPE_HINT = "Release its ranges as text, or cast the column to a wider type in a view."


def generalize(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    partition: Partition,
    exact_totals: ExactTotals,
    settings: Settings,
) -> tuple[ReleasedColumn, ...]:
    """Release the common ancestor or interval of every class, for each attribute in order.

    Raises
    ------
    HierarchyBroken : a value is not a leaf of its hierarchy.
    InvalidParameter : a step is not positive or not for a number, or midpoints or bounds are
        requested for numbers that float64 cannot hold exactly.
    UnsupportedType : a border or midpoint does not fit into the column's type.
    """
    del exact_totals  # a parameter of all recodings, which only means need
    trees = resolve_hierarchies(microdata.attributes, settings.hierarchies, column_statistics)
    _check_steps(microdata, trees, settings)
    columns: list[ReleasedColumn] = []
    for attribute, tree in zip(microdata.attributes, trees, strict=True):
        valid = microdata.valid_column(attribute.name)
        # All records of a class have the same NULL pattern.
        missing = None if valid is None else ~valid[partition.members[partition.starts]]
        if tree is not None:
            chosen_levels = settings.chosen_levels
            level = 0 if chosen_levels is None else chosen_levels.levels[attribute.name]
            columns.append(
                _release_common_ancestors(microdata, partition, attribute, tree, missing, level)
            )
        else:
            columns += _release_intervals(
                microdata, column_statistics, partition, attribute, settings, missing
            )
    return tuple(columns)


def _release_common_ancestors(
    microdata: Microdata,
    partition: Partition,
    attribute: Attribute,
    tree: Hierarchy,
    missing: NDArray[np.bool_] | None,
    level: int,
) -> ReleasedColumn:
    """Release the label of each class's lowest common ancestor in a hierarchy.

    Parameters
    ----------
    missing : bool (n_classes,), True for classes with NULL; None if no value is NULL.
    level : the lowest level of the labels; 0 for the leaves.
    """
    leaves = encode_leaves(microdata, attribute, tree)
    low, high = _compute_class_ranges(leaves, partition)
    nodes = tree.common_nodes(low, high)
    if level and len(nodes):
        # Both are ancestors of the class's first leaf: use the higher one.
        level_nodes = tree.nodes_at_level(level)[low]
        nodes = np.where(tree.depths[level_nodes] < tree.depths[nodes], level_nodes, nodes)
    is_released = partition.labels >= 0
    record_losses = tree.loss(leaves[is_released], nodes[partition.labels[is_released]])
    losses = np.zeros(partition.n_classes)
    np.add.at(losses, partition.labels[is_released], record_losses)
    labels = np.array(tree.labels, object)[nodes]
    return ReleasedColumn(
        _to_text_attribute(attribute),
        labels,
        missing,
        losses=_set_zero_if_missing(losses, missing),
        label_losses=tree.label_loss(nodes),
        loss_depends_only_on_label=tree.is_balanced,
    )


def _release_intervals(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    partition: Partition,
    attribute: Attribute,
    settings: Settings,
    missing: NDArray[np.bool_] | None,
) -> list[ReleasedColumn]:
    """Release an interval or a midpoint for each class; bounds are two columns.

    Parameters
    ----------
    missing : bool (n_classes,), True for classes with NULL; None if no value is NULL.
    """
    position = microdata.numeric.index(attribute)
    numbers = microdata.numbers[:, position]
    is_wide = attribute.name in microdata.wide
    if is_wide and (settings.local_range or settings.intervals != "text"):
        raise _wide_column_error(attribute)
    valid = microdata.valid_column(attribute.name)
    scale = column_statistics.scales[attribute.name]
    if valid is not None:
        # NULL is released as NULL, so the number that stands for it here does not matter.
        numbers = np.where(valid, numbers, scale.least)
    step = settings.grid_steps.get(attribute.name)
    is_ordinal = attribute.kind is Kind.ORDINAL
    # True for [low, high] instead of [low, high).
    is_closed = settings.local_range or is_ordinal
    if settings.chosen_levels is not None:
        is_released = partition.labels >= 0 if valid is None else (partition.labels >= 0) & valid
        # The search may have built its levels from the statistics of other records. Find the lowest
        # level of these statistics that is at least as coarse as the chosen one.
        levels = NumberLevels.of(attribute, scale, step)
        level = levels.level_covering(
            settings.chosen_levels.number_levels[attribute.name],
            settings.chosen_levels.levels[attribute.name],
            numbers[is_released],
        )
        low, high = _compute_level_ranges(
            numbers, is_released, partition, levels, level, settings.local_range, is_wide
        )
    else:
        low, high = _compute_class_ranges(numbers, partition)
        if is_wide:
            low, high = widen_to_unrounded(low, high, attribute)
        # Build the grid even if it is not used: this refuses columns whose borders float64 cannot
        # represent.
        grid = grid_for(attribute, scale, step)
        if not settings.local_range:
            low, high = ends_around(attribute, grid, low, high)
    # The largest value in [low, high) is one spacing below ``high``: 31 for integers in [30, 32).
    spacing = 0.0 if is_closed else value_spacing(attribute, scale)
    width = width_share(low, high, scale, spacing)
    losses = _set_zero_if_missing(width * partition.sizes, missing)
    interval_ranges = np.column_stack((low, np.maximum(high - spacing, low)))
    fields: KeywordArguments = {"losses": losses, "interval_ranges": interval_ranges}
    # Databases have no range type for ranks.
    if settings.intervals == "text" or (settings.intervals == RANGE and is_ordinal):
        texts = _format_intervals(low, high, attribute, is_closed)
        return [ReleasedColumn(_to_text_attribute(attribute), texts, missing, **fields)]
    if settings.intervals == "midpoint":
        midpoints = low + (np.floor((high - low) / 2) if is_ordinal else (high - low) / 2)
        values = _to_column_type(midpoints, attribute)
        require_fit(attribute, values, _WIDER_TYPE_HINT)
        fields |= {"unrounded": midpoints, "loss_depends_only_on_label": False}
        return [ReleasedColumn(attribute, values, missing, **fields)]
    if settings.intervals == RANGE:
        lower, upper = (
            _to_exact_borders(_to_column_type(ends, attribute, round_to_nearest=is_closed))
            for ends in (low, high)
        )
        # The database chooses the range type.
        range_attribute = replace(attribute, sql_type="")
        return [
            ReleasedColumn(
                range_attribute, lower, missing, upper=upper, is_closed=is_closed, **fields
            )
        ]
    return _release_bounds(
        attribute, low, high, missing, losses, interval_ranges, is_closed=is_closed
    )


def _release_bounds(
    attribute: Attribute,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    missing: NDArray[np.bool_] | None,
    losses: NDArray[np.float64],
    interval_ranges: NDArray[np.float64],
    *,
    is_closed: bool,
) -> list[ReleasedColumn]:
    """Release a column with the lower and one with the upper borders of intervals.

    Parameters
    ----------
    low, high : float64 (n_classes,), the borders.
    missing, losses, interval_ranges : fields of ``ReleasedColumn``. Only the first column has the
        losses.
    """
    borders = tuple(
        _to_column_type(ends, attribute, round_to_nearest=is_closed) for ends in (low, high)
    )
    for values in borders:
        require_fit(attribute, values, _WIDER_TYPE_HINT)
    names = (f"{attribute.name}_low", f"{attribute.name}_high")
    return [
        ReleasedColumn(
            replace(attribute, name=name),
            values,
            missing,
            unrounded=unrounded,
            losses=column_losses,
            renamed_from=attribute.name,
            is_closed=is_closed,
            interval_ranges=interval_ranges,
        )
        for name, values, unrounded, column_losses in zip(
            names, borders, (low, high), (losses, None), strict=True
        )
    ]


def _wide_column_error(attribute: Attribute) -> InvalidParameter:
    """Build the error for a column whose numbers float64 may have rounded."""
    return InvalidParameter(
        f'Column "{attribute.name}"'
        " has numbers or timestamps of more than 15 digits, for which only grid bounds can be"
        " released, as text.",
        hint='Use `intervals="text"` without `local_range`, or give it a hierarchy'
        " (`hierarchies`).",
    )


def _compute_class_ranges(values: AnyArray, partition: Partition) -> tuple[AnyArray, AnyArray]:
    """Compute the smallest and the largest value of each class, two arrays (n_classes,).

    Parameters
    ----------
    values : the value of each record, (n,).
    """
    if not partition.n_classes:
        return values[:0], values[:0]
    values_by_class, starts = values[partition.members], partition.starts
    smallest = np.minimum.reduceat(values_by_class, starts)
    return smallest, np.maximum.reduceat(values_by_class, starts)


def _compute_level_ranges(
    numbers: NDArray[np.float64],
    is_released: NDArray[np.bool_],
    partition: Partition,
    levels: NumberLevels,
    level: int,
    local_range: bool,
    is_wide: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the released range of each class, after a full-domain search.

    It is the cell of the class on a level of the column, or the range of the numbers in this cell.

    A class that spans several cells, for example after merging for a privacy model, gets the cell
    of the lowest level on which one cell covers it. So two labels are equal, disjoint or nested.

    Parameters
    ----------
    numbers : float64 (n,), the value of each record; arbitrary for NULL.
    is_released : bool (n,), True for records that are released and not NULL in this column.
    level : the lowest level to use.
    local_range : True to release the smallest and the largest released number in the cell, instead
        of its borders.
    is_wide : True if float64 may have rounded numbers; cells then cover the rounding error.
    """
    low, high = _compute_class_ranges(numbers, partition)
    if is_wide:
        low, high = widen_to_unrounded(low, high, levels.attribute)
    class_levels = levels.lowest_common_level(low, high, level)
    for class_level in np.unique(class_levels).tolist():
        classes = np.flatnonzero(class_levels == class_level)
        if not local_range:
            low[classes], high[classes] = levels.cell_borders(low[classes], class_level)
            continue
        values = np.sort(numbers[is_released])
        cells = levels.cells_of(values, class_level)
        class_cells = levels.cells_of(low[classes], class_level)
        first, last = (np.searchsorted(cells, class_cells, side) for side in ("left", "right"))
        # The range of a class of NULLs is not released.
        first, last = np.minimum(first, len(values) - 1), np.maximum(last - 1, 0)
        if len(values):
            low[classes], high[classes] = values[first], values[last]
    return low, high


def _format_intervals(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    attribute: Attribute,
    is_closed: bool,
) -> NDArray[np.object_]:
    """Format intervals as text: ``[low, high)``.

    Closed intervals are formatted as ``[low, high]``, or as the value if both ends are equal.
    Neighboring bands of a coded column have the label of their union.
    """
    if (bands := attribute.bands) is not None:
        ranks = zip(low.astype(int).tolist(), high.astype(int).tolist(), strict=True)
        return np.array([bands.label(first, last) for first, last in ranks], object)
    lows, highs = (
        [format_number(number, attribute) for number in borders.tolist()] for borders in (low, high)
    )
    if attribute.kind is Kind.TIMESTAMP and all(_ZERO_FRACTION in text for text in lows + highs):
        lows, highs = (
            [text.replace(_ZERO_FRACTION, "") for text in borders] for borders in (lows, highs)
        )
    texts = []
    for low_text, high_text in zip(lows, highs, strict=True):
        if is_closed:
            texts.append(low_text if low_text == high_text else f"[{low_text}, {high_text}]")
        else:
            texts.append(f"[{low_text}, {high_text})")
    return np.array(texts, object)


def _to_column_type(
    numbers: NDArray[np.float64], attribute: Attribute, round_to_nearest: bool = True
) -> NDArray[np.generic]:
    """Convert numbers, float64 (n_classes,), to the representation of ``ReleasedColumn.values``.

    Parameters
    ----------
    round_to_nearest : True to round numbers to the nearest value of the type. False to round them
        up, so that ``[low, high)`` holds the same values of the type as before.
    """
    if attribute.kind is Kind.FLOAT:
        return numbers
    scale = 10.0**attribute.scale if attribute.kind is Kind.DECIMAL else 1.0
    scaled = numbers * scale
    if not round_to_nearest:
        # A scaled number that is this close to an integer differs from it by a rounding error.
        scaled = np.where(np.abs(scaled - np.rint(scaled)) < 1e-6, scaled, np.ceil(scaled))
    return np.rint(scaled).astype(np.int64)


def _to_exact_borders(numbers: AnyArray) -> AnyArray:
    """Convert float borders to text, which databases convert to decimals without loss.

    Other borders are returned unchanged.
    """
    if numbers.dtype != np.float64:
        return numbers
    return np.array([repr(number) for number in numbers.tolist()], object)


def _to_text_attribute(attribute: Attribute) -> Attribute:
    """The column of labels of this attribute: a text column with the same name and role."""
    nullable = attribute.nullable
    return Attribute(
        attribute.name, Kind.CATEGORY, attribute.role, sql_type=GENERALIZED, nullable=nullable
    )


def _set_zero_if_missing(
    losses: NDArray[np.float64], missing: NDArray[np.bool_] | None
) -> NDArray[np.float64]:
    """Set the losses of NULL to 0, since it is released unchanged."""
    return losses if missing is None else np.where(missing, 0.0, losses)


def _check_steps(
    microdata: Microdata, trees: tuple[Hierarchy | None, ...], settings: Settings
) -> None:
    """Check that steps are positive, and only given for numbers without a hierarchy.

    Parameters
    ----------
    trees : the hierarchy of each attribute; None for an attribute without one.

    Raises
    ------
    InvalidParameter : a step is not positive, or is given for another column.
    """
    kinds = {
        a.name: a.kind for a, tree in zip(microdata.attributes, trees, strict=True) if tree is None
    }
    for name, step in settings.grid_steps.items():
        if name not in kinds:
            raise InvalidParameter(
                f'A step is given for "{name}", but steps are only for columns of numbers that have'
                " no hierarchy."
            )
        if not np.isfinite(step) or step <= 0:
            raise InvalidParameter(f'The step of "{name}" must be positive and finite.')
        if step % 1 and kinds[name] is Kind.ORDINAL:
            raise InvalidParameter(f'The step of "{name}" must be a whole number of ranks.')


RECODING = Recoding(
    name="generalization",
    run=generalize,
    summary="Lowest common ancestor, or interval",
    measure="iloss",
    takes_categories=True,
)
