"""Refinements by name: a local search after the method, never with a larger loss.

After methods on points, the search minimizes the sum of squares (SSE) of the points that the method
used. It takes pools of neighbouring classes out of the partition, and applies all moves and swaps
of records that reduce the loss. ``pass`` searches the pool of each class and its seven nearest
classes, until nothing improves in any pool, at most eight times.

The other efforts then destroy and repair: the classes of a random pool are rebuilt, as many or one
more or less, or a few records near each other are exchanged. The pool is searched again, and the
result is kept if it reduces the loss. Classes with much loss are drawn more often. ``thorough``
also accepts some increases (threshold accepting: Dueck & Scheuer 1990), in two runs with decreasing
thresholds, each from the best partition so far, and returns the best one. After each run it
combines the best partition of all classes that it has seen, even those of rejected partitions: a
set partitioning problem, solved exactly in regions of about ten to eighty classes
(kernels/points/recombine.hpp). For k above 32 this is skipped, because regions would hold too few
classes.

Classes have k to 2k-1 records whatever the method returned: a class of 2k or more is cut where that
reduces the loss most, and cutting never increases it. The loss that is minimized is never larger
afterwards; other measures may be. The iterations end after a number of elementary steps that is the
same on every machine: about 0.2 s for ``fast`` and about 20 s for ``thorough``, more for many
records and less for very few (_Effort).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.partition import Partition
from dbanon.errors import InvalidParameter
from dbanon.job.policy import Policy
from dbanon.kernels import MixedPass, MixedRefine, Models, Pass, Refine, RefineLoss
from dbanon.methods.registry import Tick, drive
from dbanon.partitioning.blocks import Blocks, partition_blocks
from dbanon.partitioning.merge import Guard
from dbanon.spaces.codes import CodeSpace
from dbanon.spaces.mixed import MixedSpace
from dbanon.spaces.numeric import Space

# Maximum number of rounds per class, if all classes had k records. With models, which make classes
# larger, per actual class.
ROUNDS_PER_CLASS = {"pass": 4, "fast": 42, "thorough": 1200}
# Rounds end earlier if n / k of them reduce the loss by less than the loss divided by this.
_STOP_DIVISOR = {"pass": 3000, "fast": 3000, "thorough": 0}
# Up to this number of records, swaps before the rounds are skipped, except in blocks. Rounds take
# little time then, and reach a smaller loss without swaps, especially if classes are merged
# afterwards because of models or persons.
_MOST_WITHOUT_SWAPS = 5_000


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
    """Reduce the loss of classes of k or more; suppressed records stay suppressed.

    Parameters
    ----------
    effort : ``pass``, ``fast`` or ``thorough``.
    iterations : number of rounds; None for a number that depends on the effort, or fewer if they
        no longer reduce the loss enough.
    share : the share of these rounds, if the records are a block and this is one of several steps.
    guard : privacy models that the classes satisfy before and afterwards; None without models.

    Raises
    ------
    InvalidParameter : ``seconds`` is given, which this search does not support.
    """
    if seconds is not None:
        raise InvalidParameter(
            "The refinement of generalization counts rounds, not seconds.",
            hint="Give `refine_iterations`.",
        )
    stop_divisor = 0
    if iterations is None:
        stop_divisor = _STOP_DIVISOR[effort]
        # Before a later step, classes of equal records were joined, so many have more than k.
        has_larger_classes = guard is not None or share < 1
        n_classes = partition.n_classes if has_larger_classes else space.n_records // k
        iterations = int(ROUNDS_PER_CLASS[effort] * n_classes * share)
    models = Models(np.empty(0, np.int32)) if guard is None else guard.models
    table = space.table(None if guard is None else guard.values)
    costs = space.label_costs.arrays()
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
        swaps=space.n_records > _MOST_WITHOUT_SWAPS or share < 1,
    )
    return drive(kernel, tick)


_NO_LIMIT = 2**63 - 1


@dataclass(frozen=True)
class _Effort:
    """A budget in elementary steps of the kernel, each about a nanosecond.

    Parameters
    ----------
    work : the number of steps, within limits per record.
    most_heat : upper limit of ``heat``.
    pool_classes : maximum number of classes in a pool.
    """

    work: int
    most_per_record: int
    least_per_record: int
    most_heat: float
    pool_classes: int

    def steps(self, n: int) -> int:
        """The number of steps for n records: ``work``, within the limits per record."""
        return max(min(self.work, self.most_per_record * n), self.least_per_record * n)

    def heat(self, k: int) -> float:
        """The largest accepted increase at first, as a share of a pool's loss.

        It is smaller for larger classes, where one record contributes a smaller share of the loss;
        tuned for k = 3, 4, 5 and 10 on the CASC tables.
        """
        return min(self.most_heat, 0.4 / k)


# Budgets by effort. ``pass`` has none: it is only the local search, which runs to its end.
_EFFORT_BUDGETS = {
    "fast": _Effort(150_000_000, 250_000, 8_000, most_heat=0.0, pool_classes=6),
    "thorough": _Effort(17_000_000_000, 20_000_000, 2_000_000, most_heat=0.09, pool_classes=7),
}


def max_points_size(k: int) -> int:
    """The maximum class size after refinement of points."""
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
    partition : has every record in a class of at least k.
    effort : ``pass``, ``fast`` or ``thorough``.
    seed : the same seed gives the same classes, unless ``seconds`` is given.
    iterations : number of pools to rebuild; None for as many as the budget of the effort allows.
    seconds : time limit; None for no limit.
    share : the share of the budget to use.
    """
    if effort == "pass" or iterations == 0:
        return drive(space.kernel(Pass, MixedPass)(k, partition.labels), tick)
    budget = _EFFORT_BUDGETS[effort]
    kernel = space.kernel(Refine, MixedRefine)(
        k,
        partition.labels,
        _NO_LIMIT if iterations is None else iterations,
        int(share * budget.steps(space.n_records)) if iterations is None else _NO_LIMIT,
        seconds or 0.0,
        budget.heat(k),
        budget.pool_classes,
        seed,
    )
    return drive(kernel, tick)


class Refinement(Protocol):
    """A local search that never increases the loss and keeps all classes >= k."""

    def __call__(
        self,
        space: Any,
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
    """A step of a refinement in blocks of classes; each step has other blocks.

    Parameters
    ----------
    number : the index of the step.
    direction : the principal direction that blocks are cut across, as in ``Blocks.cut_classes``.
    share : the share of the effort that it uses.
    """

    number: int
    direction: int
    share: float


# Principal directions that blocks are cut across, by step.
_DIRECTIONS = {"points": (1, 0), "generalized": (0, 1)}


def max_refined_size(name: str, k: int) -> int | None:
    """The maximum class size after refinement; None without a limit."""
    return max_points_size(k) if name == "points" else None


def refinement_steps(name: str) -> tuple[RefinementStep, ...]:
    """The steps of this refinement in blocks."""
    directions = _DIRECTIONS[name]
    return tuple(
        RefinementStep(i, direction, 1 / len(directions)) for i, direction in enumerate(directions)
    )


def refine_classes(
    name: str,
    space: Any,
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
            **({} if guard is None else {"guard": guard}),
        )
    n = space.n_records
    steps = refinement_steps(name)
    for step in steps:

        def run(
            number: int,
            records: NDArray[np.int64],
            tick: Tick,
            step: RefinementStep = step,
            before: Partition = partition,
        ) -> Partition:
            _, labels = np.unique(before.labels[records], return_inverse=True)
            guarded = None if guard is None else guard.take(records)
            part = Partition(labels.reshape(-1))
            return refine_block(
                name, space.take(records), part, policy, step, number, n, tick, guarded
            )

        def advance(share: float, step: RefinementStep = step) -> None:
            tick((step.number + share) * step.share)

        cut = blocks.cut_classes(space, partition, keys, step.direction)
        partition = partition_blocks(cut, run, advance)
    return partition


def refine_block(
    name: str,
    space: Any,
    partition: Partition,
    policy: Policy,
    step: RefinementStep,
    number: int,
    n_records: int,
    tick: Tick,
    guard: Guard | None = None,
) -> Partition:
    """Refine one block; the result does not depend on where other blocks are refined.

    Parameters
    ----------
    number : the index of the block in its stratum and step.
    n_records : the number of records in the stratum.
    """
    iterations = policy.refine_iterations
    if iterations is not None:
        iterations = int(iterations * space.n_records // n_records * step.share)
    # Use one seed per block, so that the order in which blocks end does not matter.
    seed = np.random.SeedSequence([policy.seed, step.number, number]).generate_state(1, np.uint64)
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
