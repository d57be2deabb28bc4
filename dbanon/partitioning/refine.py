"""Refine partitions by a local search after the method, which never increases the loss.

After methods on points, the search minimizes the sum of squares (SSE) of the points that the method
used. A pool is a set of neighbouring classes. In each pool, the search applies all moves and swaps
of records between its classes that reduce the loss. The effort ``pass`` searches the pool of each
class and its seven nearest classes, until nothing improves in any pool, at most eight times.

The other efforts then destroy and repair. They rebuild the classes of a random pool, into the same
number of classes or into one more or one fewer, or they exchange a few records near each other. The
pool is searched again, and the result is kept if it reduces the loss. Classes with a larger loss
are chosen more often.
``thorough`` also accepts some increases (threshold accepting: Dueck & Scheuer 1990). It makes two
runs with decreasing thresholds, each from the best partition so far, and returns the best one.
After each run it forms the best partition from all classes that occurred in the run, even in
rejected partitions. This is a set partitioning problem, which is solved exactly in regions of about
ten to eighty classes (kernels/points/recombine.hpp). For k above 32 this is skipped, because
regions would hold too few classes.

Refined classes have k to 2k-1 records, even if the method returned larger ones: a class of 2k or
more is cut where that reduces the loss most; cutting never increases the loss. Measures other than
the minimized loss may increase. The search ends after a number of elementary steps that is the same
on every machine: about 0.2 s for ``fast`` and 20 s for ``thorough``, more for many records and less
for very few (``_EffortBudget``).

For methods on mixed attributes, the search minimizes the information loss of generalized values
(``refine_generalized``).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.partition import Partition
from dbanon.errors import InvalidParameter
from dbanon.job.policy import Policy
from dbanon.kernels import MixedPass, MixedRefine, Models, Pass, Refine, RefineLoss
from dbanon.methods.registry import MethodSpace, Tick, drive
from dbanon.partitioning.blocks import Blocks, partition_blocks
from dbanon.partitioning.merge import Guard
from dbanon.spaces.codes import CodeSpace
from dbanon.spaces.mixed import MixedSpace
from dbanon.spaces.numeric import Space

# Maximum number of rounds by effort, as a multiple of n / k. If classes may be larger because of
# models or an earlier step, it is a multiple of the number of classes.
ROUNDS_PER_CLASS = {"pass": 4, "fast": 42, "thorough": 1200}
# Rounds end earlier if n / k of them reduce the loss by less than the loss divided by this number;
# with 0 they never do.
_STOP_DIVISOR = {"pass": 3000, "fast": 3000, "thorough": 0}
# Up to this number of records, the swaps that precede the rounds are skipped, except in blocks. For
# few records rounds take little time, and reach a smaller loss without swaps, especially if classes
# are then merged because of models or persons.
_MAX_RECORDS_WITHOUT_SWAPS = 5_000


def refine_generalized(
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
    """Reduce the information loss of classes of k or more; suppressed records stay suppressed.

    Parameters
    ----------
    effort : ``pass``, ``fast`` or ``thorough``.
    tick : called with the share done, 0 to 1.
    iterations : number of rounds; None for a number that depends on the effort, or fewer if rounds
        no longer reduce the loss enough.
    seconds : must be None.
    share : the share of the effort's rounds to run, if a block is refined in several steps; 1 to
        run all of them.
    guard : privacy models, with the sensitive values of the records, which the classes satisfy
        before and afterwards; None without models.

    Raises
    ------
    InvalidParameter : ``seconds`` is not None, which this search does not support.
    """
    if seconds is not None:
        raise InvalidParameter(
            "The refinement of generalization counts rounds, not seconds.",
            hint="Give `refine_iterations`.",
        )
    stop_divisor = 0
    if iterations is None:
        stop_divisor = _STOP_DIVISOR[effort]
        # A step in blocks joins classes whose records are equal, and many joined classes have more
        # than k records.
        has_larger_classes = guard is not None or share < 1
        n_classes = partition.n_classes if has_larger_classes else space.n_records // k
        iterations = int(ROUNDS_PER_CLASS[effort] * n_classes * share)
    # The kernel always takes models. Without a guard, pass models of no attribute, which every
    # class satisfies.
    models = Models(np.empty(0, np.int32)) if guard is None else guard.models
    table = space.table(None if guard is None else guard.values)
    # What each range of numbers costs if it is released as a label; three arguments of the kernel.
    costs = space.label_costs.arrays()
    # The kernel takes an unsigned seed of 64 bits.
    labels, seed = partition.labels, seed % 2**64
    kernel = RefineLoss(
        table,
        labels,
        k,
        iterations,
        seed,
        models,
        *costs,
        worth=stop_divisor,
        swaps=space.n_records > _MAX_RECORDS_WITHOUT_SWAPS or share < 1,
    )
    return drive(kernel, tick)


# The kernel's largest number of iterations or steps.
_NO_LIMIT = 2**63 - 1


@dataclass(frozen=True)
class _EffortBudget:
    """The budget of an effort, in elementary steps of the kernel of about a nanosecond each.

    Parameters
    ----------
    n_steps : the number of steps, unless a limit per record applies.
    max_steps_per_record : upper limit of steps, as a multiple of the number of records.
    min_steps_per_record : lower limit of steps, as a multiple of the number of records.
    max_threshold : upper limit of ``initial_threshold``, a share of a pool's loss.
    max_pool_classes : maximum number of classes in a pool.
    """

    n_steps: int
    max_steps_per_record: int
    min_steps_per_record: int
    max_threshold: float
    max_pool_classes: int

    def steps_for(self, n: int) -> int:
        """Return the number of steps for n records: ``n_steps``, within the limits per record."""
        return max(min(self.n_steps, self.max_steps_per_record * n), self.min_steps_per_record * n)

    def initial_threshold(self, k: int) -> float:
        """Return the largest increase that is accepted initially, as a share of a pool's loss.

        It is smaller for larger classes, where one record contributes a smaller share of the loss;
        tuned for k = 3, 4, 5 and 10 on the CASC tables.
        """
        return min(self.max_threshold, 0.4 / k)


# Budgets by effort. ``pass`` has none: it consists only of the local search, which always runs to
# its end.
_EFFORT_BUDGETS = {
    "fast": _EffortBudget(
        n_steps=150_000_000,
        max_steps_per_record=250_000,
        min_steps_per_record=8_000,
        max_threshold=0.0,
        max_pool_classes=6,
    ),
    "thorough": _EffortBudget(
        n_steps=17_000_000_000,
        max_steps_per_record=20_000_000,
        min_steps_per_record=2_000_000,
        max_threshold=0.09,
        max_pool_classes=7,
    ),
}


def max_points_size(k: int) -> int:
    """Return the maximum class size after refinement of points."""
    return 2 * k - 1


def refine_points(
    space: Space | CodeSpace,
    partition: Partition,
    k: int,
    effort: str,
    *,
    tick: Tick,
    seed: int = 0,
    iterations: int | None = None,
    seconds: float | None = None,
    share: float = 1.0,
) -> Partition:
    """Refine a partition to classes of k to 2k-1 records without increasing the loss.

    Parameters
    ----------
    space : the space that the method used.
    partition : classes of at least k records that cover all records.
    effort : ``pass``, ``fast`` or ``thorough``.
    seed : the same seed gives the same classes, unless ``seconds`` is given.
    iterations : number of pools to rebuild; None for as many as the budget of the effort allows.
    seconds : time limit; None for no limit.
    share : the share of the effort's budget to use.
    """
    # Without rebuilding pools, only the local search remains.
    if effort == "pass" or iterations == 0:
        return drive(space.kernel(Pass, MixedPass)(k, partition.labels), tick)
    budget = _EFFORT_BUDGETS[effort]
    max_iterations, max_steps = iterations, _NO_LIMIT
    if max_iterations is None:
        max_iterations, max_steps = _NO_LIMIT, int(share * budget.steps_for(space.n_records))
    kernel = space.kernel(Refine, MixedRefine)(
        k,
        partition.labels,
        max_iterations,
        max_steps,
        seconds or 0.0,  # 0 for no time limit.
        budget.initial_threshold(k),
        budget.max_pool_classes,
        seed,
    )
    return drive(kernel, tick)


class Refinement(Protocol):
    """A local search that never increases the loss and never makes a class smaller than k."""

    def __call__(
        self,
        space: MethodSpace,
        partition: Partition,
        k: int,
        effort: str,
        *,
        tick: Tick,
        seed: int,
        iterations: int | None,
        seconds: float | None,
        share: float,
    ) -> Partition: ...


# Refinements by the value of ``Method.refine``.
_REFINEMENTS: dict[str, Refinement] = {
    "points": refine_points,
    "generalized": refine_generalized,
}


@dataclass(frozen=True)
class RefinementStep:
    """A step of a refinement in blocks of classes; each step has different blocks.

    Parameters
    ----------
    index : the index of the step, from 0.
    direction : the index of the principal direction that blocks are cut across, from 0, the one
        with the largest variance.
    share : the step's share of the rounds or steps of the effort, 0 to 1.
    """

    index: int
    direction: int
    share: float


# Indices of the principal directions that blocks are cut across, for each step, by the value of
# ``Method.refine``.
_DIRECTIONS = {"points": (1, 0), "generalized": (0, 1)}


def max_refined_size(name: str, k: int) -> int | None:
    """Return the maximum class size after a refinement; None without a limit.

    Parameters
    ----------
    name : the value of ``Method.refine``.
    """
    return max_points_size(k) if name == "points" else None


def refinement_steps(name: str) -> tuple[RefinementStep, ...]:
    """Return the steps of a refinement in blocks, for a value of ``Method.refine``."""
    directions = _DIRECTIONS[name]
    return tuple(
        RefinementStep(i, direction, 1 / len(directions)) for i, direction in enumerate(directions)
    )


def refine_classes(
    name: str,
    space: MethodSpace,
    partition: Partition,
    keys: NDArray[np.int64],
    policy: Policy,
    tick: Tick,
    guard: Guard | None = None,
) -> Partition:
    """Refine all records at once, or in blocks of classes.

    Parameters
    ----------
    name : the value of ``Method.refine``: ``points`` or ``generalized``.
    keys : int64 (n,), the key of each record, ascending.
    guard : the privacy models that classes satisfy; only for ``generalized``.
    """
    blocks = Blocks.of(policy)
    if blocks is None or blocks.block_count_for(space.n_records) is None:
        return _REFINEMENTS[name](
            space,
            partition,
            int(policy.k),
            str(policy.refine),
            tick=tick,
            seed=policy.seed,
            iterations=policy.refine_iterations,
            seconds=policy.refine_seconds,
            share=1.0,
            # Only ``refine_generalized`` has this parameter.
            **({} if guard is None else {"guard": guard}),
        )
    n = space.n_records
    steps = refinement_steps(name)
    for step in steps:

        def refine_in_block(
            block_index: int,
            records: NDArray[np.int64],
            tick: Tick,
            step: RefinementStep = step,
            partition_before: Partition = partition,
        ) -> Partition:
            _, labels = np.unique(partition_before.labels[records], return_inverse=True)
            block_guard = None if guard is None else guard.take(records)
            block_partition = Partition(labels.reshape(-1))
            return refine_block(
                name,
                space.take(records),
                block_partition,
                policy,
                step,
                block_index,
                n,
                tick,
                block_guard,
            )

        def step_tick(share: float, step: RefinementStep = step) -> None:
            tick((step.index + share) * step.share)

        partition = partition_blocks(
            blocks.cut_classes(space, partition, keys, step.direction), refine_in_block, step_tick
        )
    return partition


def refine_block(
    name: str,
    space: MethodSpace,
    partition: Partition,
    policy: Policy,
    step: RefinementStep,
    block_index: int,
    n_records: int,
    tick: Tick,
    guard: Guard | None = None,
) -> Partition:
    """Refine one block; the result does not depend on the order of blocks.

    Parameters
    ----------
    name : the value of ``Method.refine``: ``points`` or ``generalized``.
    space, partition : the records of the block, and their classes.
    block_index : the index of the block in its stratum and step.
    n_records : the number of records in the whole stratum.
    guard : the privacy models that classes satisfy; only for ``generalized``.
    """
    iterations = policy.refine_iterations
    if iterations is not None:
        # In proportion to the block's records and to the step's share.
        iterations = int(iterations * space.n_records // n_records * step.share)
    # Use one seed per block, so that the order in which blocks end does not matter.
    seed = np.random.SeedSequence([policy.seed, step.index, block_index]).generate_state(
        1, np.uint64
    )
    return _REFINEMENTS[name](
        space,
        partition,
        int(policy.k),
        str(policy.refine),
        tick=tick,
        seed=int(seed[0]),
        iterations=iterations,
        seconds=policy.refine_seconds,
        share=step.share,
        **({} if guard is None else {"guard": guard}),
    )
