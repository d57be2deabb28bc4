"""Where methods of one level for the whole table find its levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.number_levels import NumberLevels
from dbanon.hierarchy.leaves import Hierarchies
from dbanon.spaces.mixed import MixedSpace, mixed_space


@dataclass(frozen=True)
class LevelSpace:
    """A mixed space with the levels of its numbers.

    Parameters
    ----------
    mixed : the records, n of d attributes.
    numbers : the levels of each attribute; None where it has a hierarchy.
    values : float64 (n, d), the numbers themselves; NaN where NULL, and of other attributes.
    """

    mixed: MixedSpace
    numbers: tuple[NumberLevels | None, ...]
    values: NDArray[np.float64]

    def heights(self) -> tuple[int, ...]:
        """The number of the last level of each attribute."""
        tops = (None if levels is None else levels.top for levels in self.numbers)
        return tuple(
            tree.height if tree is not None else int(top or 0)
            for tree, top in zip(self.mixed.trees, tops, strict=True)
        )

    def groups(self, attribute: int) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
        """What an attribute is on each of its levels, int64 (n,) from 0, and its loss in all.

        Losses are whole numbers, as units are multiples of all depths, so that ties are ties.
        """
        unit = float(self.mixed.units[attribute])
        tree, levels = self.mixed.trees[attribute], self.numbers[attribute]
        if tree is not None:
            codes = self.mixed.codes[:, attribute].astype(np.int64)
            nodes = [tree.at_level(level)[codes] for level in range(tree.height + 1)]
            losses = [np.rint(unit * tree.loss(codes, node)).sum() for node in nodes]
            return [node.astype(np.int64) for node in nodes], np.array(losses, np.int64)
        assert levels is not None
        values = self.values[:, attribute]
        valid = ~np.isnan(values)
        # One value of each of the finest cells stands for all of them: levels are their unions.
        _, first, cell, counts = np.unique(
            levels.cells_of(values[valid], 0),
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        standing = values[valid][first]
        groups, losses = [], []
        for level in range(levels.top + 1):
            _, of_cell = np.unique(levels.cells_of(standing, level), return_inverse=True)
            group = np.zeros(len(values), np.int64)
            # A NULL is in a stratum of its own and loses nothing.
            group[valid] = of_cell.reshape(-1)[cell.reshape(-1)]
            groups.append(group)
            units = np.rint(unit * levels.loss(standing, level)).astype(np.int64)
            losses.append(int((units * counts).sum()))
        return groups, np.array(losses, np.int64)


def level_space(
    microdata: Microdata,
    measures: Measures,
    *,
    standardize: str,
    weights: Mapping[str, float],
    hierarchies: Hierarchies,
    level_steps: Mapping[str, float] | None = None,
    level_measures: Measures | None = None,
) -> Callable[[NDArray[np.int64]], LevelSpace]:
    """A function from sets of records, int64 (m,), to their space, as ``mixed_space`` makes it.

    Parameters
    ----------
    level_steps : the widths of the finest cells that the caller chose, by column. The recoding
        refuses a wrong one; here it counts as none.
    level_measures : of the records that are released, where those of ``microdata`` stand for
        several of them each; None where they are these.

    Raises
    ------
    DbanonError : as ``mixed_space``.
    RangeUnsuitable : as ``NumberLevels.of``.
    """
    steps = level_steps or {}
    scales = (level_measures or measures).numbers
    of_records = mixed_space(
        microdata, measures, standardize=standardize, weights=weights, hierarchies=hierarchies
    )
    everybody = of_records(np.arange(microdata.n_records))
    values = np.full((microdata.n_records, len(everybody.names)), np.nan)
    numbers: list[NumberLevels | None] = []
    for position, (attribute, tree) in enumerate(
        zip(microdata.attributes, everybody.trees, strict=True)
    ):
        if tree is not None:
            numbers.append(None)
            continue
        step = steps.get(attribute.name)
        usable = step is not None and bool(np.isfinite(step)) and step > 0
        numbers.append(NumberLevels.of(attribute, scales[attribute.name], step if usable else None))
        column = microdata.numbers[:, microdata.numeric.index(attribute)]
        valid = microdata.valid_column(attribute.name)
        values[:, position] = column if valid is None else np.where(valid, column, np.nan)
    return lambda records: LevelSpace(of_records(records), tuple(numbers), values[records])
