"""Local suppression: few cells are released as NULL, such that k rows share each combination.

Rows that are released alike form a class: in each column, all of them keep a common value, or all
of them are released as NULL. NULL counts as a value of its own, also where the source has it. So
the classes are ordinary ones, and each is released with the values that its rows have in common.

A search (``suppression_category``) forms classes greedily, the cheapest per row first. The compiled
search of the refinement then moves rows between them. With sets of columns that must be k-anonymous
by themselves, the improvement step of the first search does. Rounds are counted, so that the result
does not depend on the machine. Of rows with equal values, those that lose cells are drawn with the
seed: their order says nothing. Columns that are equal in all rows lose no cell, and are left out of
the search for greedy classes.

With ``missing="wildcard"``, NULL agrees with every value, and rows lose cells one by one
(``suppression_wildcard``). Classes are still rows that are released alike, of any size.

Sources: A. Meyerson and R. Williams, "On the complexity of optimal k-anonymity", PODS 2004, for
k-anonymity by suppression, which is NP-hard; M. Templ, A. Kowarik and B. Meindl, "Statistical
disclosure control for micro-data using the R package sdcMicro", Journal of Statistical Software 67
(2015), section 4.2, for local suppression with the importance of columns.
Classes: k or more, without a bound. Cost: O(n) to find equal rows; the search grows with the
distinct rows times 2^d for d columns, at most 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dbanon.data.option import Option, Parameter
from dbanon.data.partition import Partition, PartitionWithNulls
from dbanon.errors import InvalidParameter, TooFewRecords
from dbanon.kernels import Models, RefineLoss
from dbanon.methods.registry import (
    CATEGORY,
    MISSING_OPTION,
    MISSING_RULES,
    WILDCARD,
    Method,
    Tick,
    drive,
)
from dbanon.spaces.cells import MISSING, CellSpace, NamedSets, cell_codes, cell_space
from dbanon.spaces.mixed import ROOT_COST, MixedSpace

if TYPE_CHECKING:
    from dbanon.methods.suppression_problem import Demand

# The search visits all sets of columns.
MAX_COLUMNS = 12
# The share of the progress bar for greedy classes.
_GREEDY_SHARE = 0.5
# The most rounds of the improvement step that knows sets of columns.
_MAX_ROUNDS_WITH_SETS = 200
# The effort of the compiled search, as that of ``refine="fast"`` (``partitioning.refine``): the
# most rounds as a multiple of n / k, and when it ends earlier.
_ROUNDS_PER_CLASS, _STOP_DIVISOR, _MAX_RECORDS_WITHOUT_SWAPS = 42, 3000, 5_000


def local_suppression(
    space: MixedSpace,
    k: int,
    *,
    tick: Tick,
    rng: np.random.Generator,
    importance: str,
    missing: str = CATEGORY,
) -> Partition:
    """Partition the records of ``space`` into classes that lose few cells.

    Parameters
    ----------
    importance : names of attributes, separated by commas, whose cells are spared; the most
        important first.
    missing : one of ``MISSING_RULES``.

    Raises
    ------
    TooFewRecords : there are fewer than k records.
    InvalidParameter : ``importance`` names no attribute, or one twice.
    """
    # Imported here, as a PostgreSQL backend loads all methods and rarely needs these.
    from dbanon.methods.suppression_category import search_category_plan
    from dbanon.methods.suppression_problem import (
        Problem,
        blank_columns,
        distinct_rows,
        row_ids,
        row_masks,
    )

    n = space.n_records
    if n < k:
        raise TooFewRecords(f"There are {n} records, fewer than k = {k}.")
    tick(0.0)
    codes, prices = cell_codes(space), _read_prices(space, importance)
    varying = np.flatnonzero((codes != codes[0]).any(axis=0))
    combos, sizes, index = distinct_rows(codes[:, varying])
    demands = list_demands(
        [space.names[position] for position in varying.tolist()], k, column_sets_of(space), n
    )
    if missing == WILDCARD:
        from dbanon.methods.suppression_wildcard import search_own_masks

        problem = Problem(combos, sizes, demands, prices[varying])
        masks, _ = search_own_masks(problem, tick=tick)
        released = codes.copy()
        released[:, varying] = blank_columns(codes[:, varying], masks[index])
        tick(1.0)
        return _group_alike(released)
    plan = search_category_plan(
        Problem(combos, sizes, demands, prices[varying]),
        tick=lambda share: tick(_GREEDY_SHARE * share),
        # The compiled search, which is faster, knows no sets of columns.
        max_rounds=_MAX_ROUNDS_WITH_SETS if len(demands) > 1 else 0,
    )
    released = blank_columns(codes[:, varying], row_masks(plan, index, sizes))
    labels = _number_rows(row_ids(released, range(len(varying))))
    if plan and len(demands) == 1:
        improved = _improve(space, labels, k, prices, tick)
        if _cost(codes, improved, prices) < _cost(codes, labels, prices):
            # Classes that are released alike are one class.
            released = np.where(_blank_cells(codes, improved), np.int32(MISSING), codes)
            labels = _number_rows(row_ids(released, range(codes.shape[1])))
    # Which of equal rows lose cells is drawn: exchange their labels at random.
    rows_by_combo = np.argsort(index, kind="stable")
    drawn_rows = rng.permutation(n)
    drawn_rows = drawn_rows[np.argsort(index[drawn_rows], kind="stable")]
    drawn_labels = np.empty_like(labels)
    drawn_labels[drawn_rows] = labels[rows_by_combo]
    tick(1.0)
    return Partition(drawn_labels)


def _improve(
    space: MixedSpace, labels: NDArray[np.int32], k: int, prices: NDArray[np.float64], tick: Tick
) -> NDArray[np.int32]:
    """Move rows between classes of k or more as long as that saves cells; int32 (n,)."""
    root_costs = np.rint(prices / prices.max() * ROOT_COST).astype(np.int64)
    kernel = RefineLoss(
        replace(space, root_costs=root_costs).table(),
        labels,
        k,
        _ROUNDS_PER_CLASS * (space.n_records // k),
        0,
        Models(np.empty(0, np.int32)),
        worth=_STOP_DIVISOR,
        swaps=space.n_records > _MAX_RECORDS_WITHOUT_SWAPS,
    )
    partition = drive(kernel, lambda share: tick(_GREEDY_SHARE + (1 - _GREEDY_SHARE) * share))
    return partition.labels


def _blank_cells(codes: NDArray[np.int32], labels: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Mark the columns in which the rows of a row's class differ, bool (n, d)."""
    partition = Partition(labels)
    grouped = codes[partition.members]
    smallest = np.minimum.reduceat(grouped, partition.starts)
    differs: NDArray[np.bool_] = smallest != np.maximum.reduceat(grouped, partition.starts)
    return differs[labels]


def _cost(
    codes: NDArray[np.int32], labels: NDArray[np.int32], prices: NDArray[np.float64]
) -> float:
    """Return the price of the cells that the classes lose."""
    is_lost = _blank_cells(codes, labels) & (codes != MISSING)
    return float((is_lost.sum(axis=0) * prices).sum())


def _group_alike(released: NDArray[np.int32]) -> PartitionWithNulls:
    """Put rows with the same released codes, int32 (n, d), into a class."""
    from dbanon.methods.suppression_problem import row_ids

    labels = _number_rows(row_ids(released, range(released.shape[1])))
    first_rows = np.unique(labels, return_index=True)[1]
    return PartitionWithNulls(labels, released[first_rows] == MISSING)


def _number_rows(ids: NDArray[np.int64]) -> NDArray[np.int32]:
    """Number the ids of rows from 0 without gaps, int32 (n,)."""
    return np.unique(ids, return_inverse=True)[1].reshape(-1).astype(np.int32)


def price_columns(names: Sequence[str], importance: str) -> dict[str, float]:
    """Return the price of a cell of each column by name; empty if no importance is stated.

    Columns that ``importance`` does not name cost 1, and each one that it names costs 1 more than
    the next.

    Parameters
    ----------
    importance : names of columns, separated by commas, the most important first.

    Raises
    ------
    InvalidParameter : a name is not one of ``names``, or is repeated.
    """
    important = [name.strip() for name in importance.split(",")] if importance.strip() else []
    for name in important:
        if name not in names or important.count(name) > 1:
            raise InvalidParameter(
                f'The importance of "{name}" does not name a quasi-identifier, or does so twice.',
                hint=f"Name some of these columns, each once: {', '.join(names)}.",
            )
    if not important:
        return {}
    prices = dict.fromkeys(names, 1.0)
    n_cheaper = 0 if len(important) == len(names) else 1
    for rank, name in enumerate(reversed(important), start=1):
        prices[name] = float(rank + n_cheaper)
    return prices


def _read_prices(space: MixedSpace, importance: str) -> NDArray[np.float64]:
    """Return the price of a cell of each attribute, float64 (d,): of its importance or weight."""
    if prices := price_columns(space.names, importance):
        return np.array([prices[name] for name in space.names])
    # Attributes of weight 0 are the first to lose cells, and do not do so without need.
    costs = np.maximum(space.root_costs, 1)
    return np.asarray(costs / costs.max(), np.float64)


def column_sets_of(space: MixedSpace) -> NamedSets:
    """Return the sets of columns of a space that must be k-anonymous by themselves."""
    return space.column_sets if isinstance(space, CellSpace) else ()


def list_demands(
    names: Sequence[str], k: int, column_sets: NamedSets, n_records: int
) -> tuple[Demand, ...]:
    """List the sets of columns that must be k-anonymous, by the positions of their columns.

    Parameters
    ----------
    names : the columns of the search; those of sets that it does not have are left out.
    column_sets : columns and k of the sets besides all columns.
    """
    from dbanon.methods.suppression_problem import Demand

    demands = [Demand(tuple(range(len(names))), k)]
    for columns, set_k in column_sets:
        positions = tuple(position for position, name in enumerate(names) if name in columns)
        # A set of more rows than there are fails later, where the error names the set.
        if positions and set_k > k and set_k <= n_records:
            demands.append(Demand(positions, set_k))
    return tuple(demands)


METHOD = Method(
    name="local_suppression",
    run=local_suppression,
    summary="Releases few cells as NULL, and all other values as they are",
    data="numeric, ordinal, categorical; all compared as equal or not",
    class_sizes="k and more",
    cost="O(n), and a search over distinct rows and sets of columns",
    reference="Meyerson & Williams 2004; Templ, Kowarik & Meindl 2015",
    max_size=None,
    recoding="common",
    max_attributes=MAX_COLUMNS,
    takes_categories=True,
    space=cell_space,
    refine="generalized",
    random=True,
    suppresses_cells=True,
    options=(
        Parameter(
            "importance",
            str,
            "",
            Option(
                "Quasi-identifiers whose cells are spared, separated by commas, the most important"
                " first."
            ),
        ),
        Parameter(
            MISSING_OPTION,
            str,
            CATEGORY,
            Option(
                "category: NULL is a value of its own. wildcard: NULL agrees with every value, a"
                " weaker rule that needs fewer cells.",
                choices=MISSING_RULES,
            ),
        ),
    ),
)
