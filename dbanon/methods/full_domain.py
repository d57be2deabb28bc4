"""Full-domain generalization: one level of every attribute for the whole table.

A level is a number of steps up from the leaves. The method chooses the combination of levels with
the least loss among the combinations whose classes have k or more records. The loss of a cell (the
value of a record in an attribute) is the height of its label above the leaf, divided by the height
of the hierarchy; for numbers, it is the share of the range that the label covers. Records in
classes below k are withheld if their share of all records is at most ``suppression``; their cells
count as fully lost. Numbers without a hierarchy have the levels of ``data.number_levels``: the
intervals of the column's grid, and unions of intervals up to the whole range. Ties go to the lower
level of the attribute named first.

If a combination needs no more suppression than allowed, the same holds for all combinations above
it in the lattice of combinations. If it needs more, so do all combinations below it (K. LeFevre,
D. DeWitt and R. Ramakrishnan, "Incognito: efficient full-domain k-anonymity", SIGMOD 2005).
``lattice_search`` visits combinations by a lower bound of their loss and skips all that are known
to need more. It looks at few combinations and lists none in advance. Among more than
``_MAX_COMPLETE`` combinations, it ends after a number of looks, which does not depend on the
machine. Then the levels are the best that it found, and the result tells the owner by how much any
others can be better.

Classes: k or more. All records, in all strata, are released at the same levels. With ``contract``
each class is released with the lowest labels that its records have in common, which loses less but
is no longer full-domain.
Cost: O(n d) and a sort for each combination looked at.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from dbanon.data.option import Option, Parameter
from dbanon.data.partition import Levels, max_count_of_share
from dbanon.errors import TooFewRecords
from dbanon.methods.forecast import MethodForecast, PowerLaw
from dbanon.methods.registry import MixedMethod, Tick
from dbanon.spaces.levels import LevelSpace, level_space

# Up to so many combinations are searched to the end.
_MAX_COMPLETE = 2**25
# Among more, the search ends after as many looks as group so many records, within these limits; or
# if it has listed so many levels of combinations to visit, which limits its memory.
_MAX_GROUPED_RECORDS, _MIN_LOOKS, _MAX_LOOKS = 400_000_000, 1_000, 20_000
_MAX_LISTED_LEVELS = 5_000_000


def full_domain(
    space: LevelSpace,
    k: int,
    *,
    tick: Tick,
    rng: np.random.Generator,
    suppression: float,
    contract: bool = False,
    strata: NDArray[np.int64] | None = None,
) -> Levels:
    """Partition the records of ``space`` by the best combination of levels.

    Parameters
    ----------
    contract : ignored here, because it only affects how classes are released.
    suppression : the largest share of records to withhold, 0 to 1.
    strata : int64 (n,), the stratum of each record; every stratum has k records or more. None for a
        single stratum.

    Raises
    ------
    TooFewRecords : there are fewer than k records.
    """
    n = space.mixed.n_records
    if n < k:
        raise TooFewRecords(f"There are {n} records, fewer than k = {k}.")
    # Imported here, as a PostgreSQL backend loads all methods and rarely needs this.
    from dbanon.methods.lattice_search import Budget, LeastLossSearch, LevelKeys

    budget = None
    if prod(height + 1 for height in space.heights()) > _MAX_COMPLETE:
        n_looks = min(max(_MAX_GROUPED_RECORDS // n, _MIN_LOOKS), _MAX_LOOKS)
        budget = Budget(n_looks, _MAX_LISTED_LEVELS // len(space.mixed.names))
    keys = LevelKeys(space, np.zeros(n, np.int64) if strata is None else strata)
    search = LeastLossSearch(
        keys,
        k,
        max_count_of_share(suppression, n),
        # A withheld record loses the most in each attribute: the cost of the root.
        sum(int(cost) for cost in space.mixed.root_costs),
        budget,
        tick,
    )
    lower_bound = search.run()
    labels = keys.labels(search.best, k)
    if lower_bound == search.least_loss:
        return space.partition_by_levels(labels, search.best)
    # The bound is a loss at levels that are not released, so it depends on more than the release.
    figures = {"looks": search.n_looks, "lower_bound": lower_bound / search.least_loss}
    return space.partition_by_levels(labels, search.best, figures)


METHOD = MixedMethod(
    name="full_domain",
    run=full_domain,
    summary="One level of each hierarchy for the whole table",
    class_sizes="k and more",
    cost="O(n) for each combination of levels looked at",
    reference="LeFevre, DeWitt & Ramakrishnan 2005",
    max_size=None,
    result_type=Levels,
    space=level_space,
    refine=None,
    forecast=MethodForecast(
        PowerLaw(seconds=1.4, records=1.11, attributes=1.61),
        PowerLaw(
            seconds=0.67,
            records=0.93,
            attributes=2.1,
            trees=-1.66,
            categories=-1.24,
            distinct_exponent=0.0,
        ),
    ),
    options=(
        Parameter(
            "suppression",
            float,
            0.0,
            Option("Largest share of records to withhold.", minimum=0, maximum=1),
        ),
        Parameter(
            "contract", bool, False, Option("Release what classes have in common, not the levels.")
        ),
    ),
)
