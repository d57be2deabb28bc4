"""Spaces for full-domain methods, which choose one level per attribute for the whole table.

On each level, the numbers of an attribute are divided into intervals, called cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.number_levels import NumberLevels
from dbanon.data.partition import NO_COUNTS, Levels
from dbanon.hierarchy.leaves import Hierarchies
from dbanon.spaces.mixed import MixedSpace, mixed_space

# The level of each attribute.
Combination = tuple[int, ...]


@dataclass(frozen=True)
class LevelSpace:
    """A mixed space, and the levels of its numeric attributes.

    Parameters
    ----------
    mixed : the n records with d attributes.
    number_levels : the levels of each attribute; None for an attribute with a hierarchy.
    values : float64 (n, d), the numbers; NaN for NULL and in attributes with a hierarchy.
    valid : bool (n, d), False for NULL; None if no value is NULL.
    """

    mixed: MixedSpace
    number_levels: tuple[NumberLevels | None, ...]
    values: NDArray[np.float64]
    valid: NDArray[np.bool_] | None = None

    def heights(self) -> Combination:
        """Return the number of the highest level of each attribute."""
        top_levels = (None if levels is None else levels.top_level for levels in self.number_levels)
        return tuple(
            tree.height if tree is not None else int(top_level or 0)
            for tree, top_level in zip(self.mixed.trees, top_levels, strict=True)
        )

    def partition_by_levels(
        self,
        labels: NDArray[np.int32],
        levels: Combination,
        owner_figures: Mapping[str, float] = NO_COUNTS,
    ) -> Levels:
        """Build the result of a method that chose these levels.

        Parameters
        ----------
        labels : int32 (n,), the class of each record; -1 if suppressed.
        owner_figures : as for ``Levels``; readers see none of them.
        """
        names = self.mixed.names
        number_levels = {
            name: of_numbers
            for name, of_numbers in zip(names, self.number_levels, strict=True)
            if of_numbers is not None
        }
        levels_by_name = dict(zip(names, levels, strict=True))
        return Levels(labels, levels_by_name, number_levels, owner_figures=owner_figures)

    def groups(self, attribute: int) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
        """Return each record's group on each level, int64 (n,), and the total loss of each level.

        Records of a group have the same node or cell on that level. Losses are integers, so that
        equal losses compare equal: a record loses at most the attribute's root cost, which is
        the cost of releasing the root (``MixedSpace.root_costs``). Root costs are multiples of all
        depths up to 16.

        Parameters
        ----------
        attribute : the position of the attribute.
        """
        root_cost = float(self.mixed.root_costs[attribute])
        tree, levels = self.mixed.trees[attribute], self.number_levels[attribute]
        if tree is not None:
            codes = self.mixed.codes[:, attribute].astype(np.int64)
            nodes_by_level = [tree.nodes_at_level(level)[codes] for level in range(tree.height + 1)]
            # NULL is released as NULL, and loses nothing.
            has_value = slice(None) if self.valid is None else self.valid[:, attribute]
            losses = [
                np.rint(root_cost * tree.loss(codes[has_value], nodes[has_value])).sum()
                for nodes in nodes_by_level
            ]
            return [nodes.astype(np.int64) for nodes in nodes_by_level], np.array(losses, np.int64)
        assert levels is not None
        values = self.values[:, attribute]
        valid = ~np.isnan(values)
        # One value represents each cell of the finest level; cells of higher levels are unions of
        # these.
        _, first_in_cell, cell_of_value, counts = np.unique(
            levels.cells_of(values[valid], 0),
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        representatives = values[valid][first_in_cell]
        groups, losses = [], []
        for level in range(levels.top_level + 1):
            _, cell_group = np.unique(levels.cells_of(representatives, level), return_inverse=True)
            group = np.zeros(len(values), np.int64)
            # NULLs lose nothing. If they may share classes with values, ``valid`` tells them apart.
            group[valid] = cell_group.reshape(-1)[cell_of_value.reshape(-1)]
            groups.append(group)
            cell_losses = np.rint(root_cost * levels.loss(representatives, level)).astype(np.int64)
            losses.append(int((cell_losses * counts).sum()))
        return groups, np.array(losses, np.int64)


def level_space(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    *,
    standardize: str,
    weights: Mapping[str, float],
    hierarchies: Hierarchies,
    level_steps: Mapping[str, float] | None = None,
    level_statistics: ColumnStatistics | None = None,
) -> Callable[[NDArray[np.int64]], LevelSpace]:
    """Return a function that builds the space of given records, int64 (m,).

    Parameters
    ----------
    column_statistics : the ranges and categories of the table, by which costs are scaled.
    standardize, weights, hierarchies : as chosen by the caller; see ``mixed_space``.
    level_steps : widths of the finest cells by column, as chosen by the caller. Invalid ones are
        ignored here, since the recoding refuses them.
    level_statistics : the column statistics from which levels are built; None to use
        ``column_statistics``. Needed if each record of ``microdata`` stands for several records of
        a person that are clustered together: these are the statistics of the single records, which
        are released.

    Raises
    ------
    InvalidParameter, HierarchyBroken : see ``mixed_space``.
    RangeUnsuitable : the values of a column are too large, too far apart or too close for levels.
    """
    scales = (level_statistics or column_statistics).scales
    build_space = mixed_space(
        microdata,
        column_statistics,
        standardize=standardize,
        weights=weights,
        hierarchies=hierarchies,
    )
    full_space = build_space(np.arange(microdata.n_records))
    values = np.full((microdata.n_records, len(full_space.names)), np.nan)
    number_levels: list[NumberLevels | None] = []
    for position, (attribute, tree) in enumerate(
        zip(microdata.attributes, full_space.trees, strict=True)
    ):
        if tree is not None:
            number_levels.append(None)
            continue
        step = (level_steps or {}).get(attribute.name)
        is_usable = step is not None and bool(np.isfinite(step)) and step > 0
        number_levels.append(
            NumberLevels.of(attribute, scales[attribute.name], step if is_usable else None)
        )
        column = microdata.numbers[:, microdata.numeric.index(attribute)]
        valid = microdata.valid_column(attribute.name)
        values[:, position] = column if valid is None else np.where(valid, column, np.nan)

    def build(records: NDArray[np.int64]) -> LevelSpace:
        valid = None if microdata.valid is None else microdata.valid[records]
        return LevelSpace(build_space(records), tuple(number_levels), values[records], valid)

    return build
