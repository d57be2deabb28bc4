"""Refinement after methods of generalization: a local search on the loss of their classes.

A round takes a class that loses something, with a few classes that hold neighbours of its records,
apart and puts their records together anew: randomized agglomeration in which copies of one record
may part, then moves of single records. The result is kept when it does not lose more. Numbers that
are released by labels lose the mean of what the labels do and of what own ranges would; others lose
by own ranges. Rounds are counted, not seconds, so that a seed gives the same classes everywhere.
"""

from __future__ import annotations

import numpy as np

from dbanon.data.partition import Partition
from dbanon.errors import InvalidParameter
from dbanon.kernels import Models, RefineLoss
from dbanon.methods.registry import Tick, drive
from dbanon.partitioning.merge import Guard
from dbanon.spaces.mixed import MixedSpace

# Rounds for each class of k records that the table could hold; under models, which make classes
# larger, for each class that there is.
ROUNDS = {"pass": 4, "fast": 42, "thorough": 1200}


def refine(
    space: MixedSpace,
    partition: Partition,
    k: int,
    effort: str,
    *,
    tick: Tick,
    seed: int = 0,
    iterations: int | None = None,
    seconds: float | None = None,
    share: float = 1.0,
    guard: Guard | None = None,
) -> Partition:
    """Classes of k or more with no larger loss; suppressed records stay suppressed.

    Parameters
    ----------
    effort : ``pass``, ``fast`` or ``thorough``.
    iterations : rounds; None for as many as the effort says.
    share : of these, where records are a block of several and this is one turn of several.
    guard : privacy models that the classes keep to, and still do afterwards.

    Raises
    ------
    InvalidParameter : a limit in seconds, which this search has not.
    """
    if seconds is not None:
        raise InvalidParameter(
            "The refinement of generalization counts rounds, not seconds.",
            hint="Give `refine_iterations`.",
        )
    if iterations is None:
        # Classes of equal records, of which many hold more than k, were joined before a later turn.
        counted = guard is not None or share < 1
        classes = partition.n_classes if counted else space.n_records // k
        iterations = int(ROUNDS[effort] * classes * share)
    models = Models(np.empty(0, np.int32)) if guard is None else guard.models
    table = space.table(None if guard is None else guard.values)
    costs = space.label_costs.arrays()
    labels, seed = partition.labels, seed % 2**64
    return drive(RefineLoss(table, labels, k, iterations, seed, models, *costs), tick)
