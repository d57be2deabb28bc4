"""Global recoding with local suppression: one level per attribute for all rows, and a few NULLs.

As in full-domain generalization, each attribute gets one level of its hierarchy, or of the
intervals of its numbers, for the whole table. Rows whose combination of labels is still too rare
lose single cells, not the whole row: ``local_suppression`` works on the labels. NULL counts as a
value of its own, so the classes are ordinary ones.

The method chooses the levels with the least loss (``level_search``). The loss of a cell is the
height of its label above the leaf, divided by the height of the hierarchy, or the share of the
range that its interval covers; a cell that becomes NULL is lost completely. Coarser levels need
fewer NULLs, so neither kind of loss is least by itself. At most the share ``cells`` of all cells
may become NULL.

Sources: A. Hundepool et al., "Statistical Disclosure Control", Wiley 2012, section 3.2, for global
recoding before local suppression; K. LeFevre, D. DeWitt and R. Ramakrishnan, "Incognito: efficient
full-domain k-anonymity", SIGMOD 2005, for the lattice; ``local_suppression`` for cells.
Classes: k or more, without a bound. Cost: O(u d) for each combination looked at, for u distinct
rows and d attributes, of which there are at most 12; a plan of cells costs O(u 2^d).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.option import Option, Parameter
from dbanon.data.partition import Levels, max_count_of_share, required_share_text
from dbanon.errors import SuppressionOverBudget, TooFewRecords
from dbanon.methods.local_suppression import MAX_COLUMNS
from dbanon.methods.registry import MixedMethod, Tick
from dbanon.spaces.levels import Combination, LevelSpace, level_space

# The share of the progress bar for choosing levels.
_LEVELS_SHARE = 0.7


def global_recoding(
    space: LevelSpace,
    k: int,
    *,
    tick: Tick,
    rng: np.random.Generator,
    cells: float,
    strata: NDArray[np.int64] | None = None,
) -> Levels:
    """Choose a level of each attribute of ``space``, and partition its records at these levels.

    Parameters
    ----------
    cells : the largest share of cells to release as NULL, 0 to 1; cells that are NULL in the source
        do not count as released so.
    strata : int64 (n,), the stratum of each record; every stratum has k records or more. None for a
        single stratum.

    Raises
    ------
    TooFewRecords : there are fewer than k records.
    InvalidParameter : there are too many combinations of levels.
    SuppressionOverBudget : more cells than allowed would be NULL at any levels.
    """
    n, names = space.mixed.n_records, space.mixed.names
    if n < k:
        raise TooFewRecords(f"There are {n} records, fewer than k = {k}.")
    # Imported here, as a PostgreSQL backend loads all methods and rarely needs these.
    from dbanon.methods.level_search import LevelTable, choose_levels

    stratum_of_record = np.zeros(n, np.int64) if strata is None else strata
    table = LevelTable(space, k, stratum_of_record, max_count_of_share(cells, n * len(names)))
    excluded: set[Combination] = set()
    while True:
        levels, n_left = choose_levels(
            table, excluded, rng, lambda share: tick(_LEVELS_SHARE * share)
        )
        labels = table.suppress_cells(
            levels, rng, lambda share: tick(_LEVELS_SHARE + (1 - _LEVELS_SHARE) * share)
        )
        n_cells = int(table.count_blank_cells(levels, labels).sum())
        if n_cells <= table.max_cells:
            break
        if levels == table.top:
            raise _over_budget_error(n_cells, n * len(names))
        # Saving cells of one attribute may have cost more of others.
        excluded.add(levels)
    tick(1.0)
    # How many are left follows from rows and levels that are not released.
    owner_figures = {"combinations_left": n_left} if n_left else {}
    return space.partition_by_levels(labels, levels, owner_figures)


def _over_budget_error(n_cells: int, n_all_cells: int) -> SuppressionOverBudget:
    """Build the error for records whose NULLs need more cells than allowed at any levels."""
    share = required_share_text(n_cells, n_all_cells)
    return SuppressionOverBudget(
        "Too few records are NULL in the same columns: at any levels, more cells would be released"
        " as NULL than the option cells allows.",
        hint=f'Allow this share of cells: `options={{"cells": {share}}}`.',
    )


METHOD = MixedMethod(
    name="global_recoding",
    run=global_recoding,
    summary="One level of each hierarchy for the whole table, and few cells as NULL",
    class_sizes="k and more",
    cost="O(n) for each combination of levels looked at, and a search over sets of columns",
    reference="Hundepool et al. 2012; LeFevre, DeWitt & Ramakrishnan 2005",
    max_size=None,
    max_attributes=MAX_COLUMNS,
    result_type=Levels,
    space=level_space,
    refine=None,
    random=True,
    suppresses_cells=True,
    options=(
        Parameter(
            "cells",
            float,
            0.1,
            Option("Largest share of cells to release as NULL.", minimum=0, maximum=1),
        ),
    ),
)
