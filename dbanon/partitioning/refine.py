"""Refinements by name: a local search after the method, never with a larger loss.

After methods on points it is on the sum of squares (SSE) of the points that the method used. Pools
of neighbouring classes are taken out of the partition and improved by all moves and swaps of
records that pay.
``pass`` does so with each class and the seven nearest to it, until nothing pays in any of these
pools, at most eight times, and that is all. The others go on with iterations of destroy and repair:
the classes of a drawn pool are built anew, one less, as many or one more of them, or a few records
near each other change places; then all is searched again, and kept when it loses less. Classes of
much loss are drawn more often. ``thorough`` also keeps some that lose more (threshold accepting:
Dueck & Scheuer 1990): twice fewer and fewer, each time from the best partition so far, in which it
ends. It remembers the classes that it has seen, of partitions that it kept or not, and puts the
best together anew from them after each time: a set partition, exact in regions of some ten to
eighty classes (kernels/points/recombine.hpp). For k above 32 regions would hold too few classes,
and that is left out.

Classes: k to 2k-1 whatever the method gave, for a class of 2k or more is cut where that pays most,
and cutting never adds loss. The loss that is searched by never rises; another measure may.
Cost: the iterations end after a fixed number of elementary steps, the same on every machine: about
0.2 s for ``fast`` and about 20 s for ``thorough``, more for many records and less for very few
(_Effort).
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

# Rounds for each class of k records that the table could hold; under models, which make classes
# larger, for each class that there is.
ROUNDS = {"pass": 4, "fast": 42, "thorough": 1200}
# They end before that, where one for each k records saves less than this part of the loss.
_STOP_DIVISOR = {"pass": 3000, "fast": 3000, "thorough": 0}
# Of up to so many records that are no block rounds take little time, and end in less loss without
# swaps before them, the more so where classes are joined afterwards, for models or persons.
_ROUNDS_ALONE = 5_000


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
    """Classes of k or more with no larger loss; suppressed records stay suppressed.

    Parameters
    ----------
    effort : ``pass``, ``fast`` or ``thorough``.
    iterations : rounds; None for as many as the effort says, as long as they pay.
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
    stop_divisor = 0
    if iterations is None:
        stop_divisor = _STOP_DIVISOR[effort]
        # Before a later turn, classes of equal records were joined, so many have more than k.
        counted = guard is not None or share < 1
        classes = partition.n_classes if counted else space.n_records // k
        iterations = int(ROUNDS[effort] * classes * share)
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
        swaps=space.n_records > _ROUNDS_ALONE or share < 1,
    )
    return drive(kernel, tick)


_NO_LIMIT = 2**63 - 1


@dataclass(frozen=True)
class _Effort:
    """A budget in elementary steps of the kernel, each about a nanosecond."""

    work: int
    most_per_record: int
    least_per_record: int
    most_heat: float
    classes: int

    def steps(self, n: int) -> int:
        """Steps for n records: ``work``, unless that is too much or too little for each."""
        return max(min(self.work, self.most_per_record * n), self.least_per_record * n)

    def heat(self, k: int) -> float:
        """The share of a pool's loss that may be given up at first.

        Less in larger classes, of whose loss one record is a smaller part; measured for k = 3, 4, 5
        and 10 on the CASC tables.
        """
        return min(self.most_heat, 0.4 / k)


# Besides ``pass``, which is the local search alone, whatever it takes.
_EFFORTS = {
    "fast": _Effort(150_000_000, 250_000, 8_000, most_heat=0.0, classes=6),
    "thorough": _Effort(17_000_000_000, 20_000_000, 2_000_000, most_heat=0.09, classes=7),
}


def max_points_size(k: int) -> int:
    """The largest class that refinement leaves."""
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
    """A partition of the same records that loses no more, in classes of k to 2k-1.

    Parameters
    ----------
    space : the points that the partition was made from, or what needs no coordinates.
    partition : every record in a class of at least k.
    effort : ``pass``, ``fast`` or ``thorough``.
    seed : the same seed gives the same classes, unless ``seconds`` is given.
    iterations : pools drawn and built anew; None for as many as the effort's budget allows.
    seconds : when to stop before that; None for no limit.
    share : of the effort's budget.
    """
    if effort == "pass" or iterations == 0:
        return drive(space.kernel(Pass, MixedPass)(k, partition.labels), tick)
    budget = _EFFORTS[effort]
    kernel = space.kernel(Refine, MixedRefine)(
        k,
        partition.labels,
        _NO_LIMIT if iterations is None else iterations,
        int(share * budget.steps(space.n_records)) if iterations is None else _NO_LIMIT,
        seconds or 0.0,
        budget.heat(k),
        budget.classes,
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


# By the names that ``Method.refine`` has.
_REFINEMENTS: dict[str, Refinement] = {
    "points": refine_points,
    "generalized": refine_generalized,
}


@dataclass(frozen=True)
class RefinementStep:
    """One refinement of blocks of classes, a part of the whole refinement.

    Parameters
    ----------
    number : from 0.
    direction : across which principal direction borders lie, as in ``Blocks.cut_classes``.
    share : of the effort.
    """

    number: int
    direction: int
    share: float


# Across which directions blocks are cut, turn by turn.
_DIRECTIONS = {"points": (1, 0), "generalized": (0, 1)}


def max_refined_size(name: str, k: int) -> int | None:
    """The largest class that the refinement leaves; None where there is no such bound."""
    return max_points_size(k) if name == "points" else None


def refinement_steps(name: str) -> tuple[RefinementStep, ...]:
    """The turns of a refinement in blocks."""
    directions = _DIRECTIONS[name]
    return tuple(
        RefinementStep(i, across, 1 / len(directions)) for i, across in enumerate(directions)
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
    """The refinement of all records at once, or of blocks of classes.

    Parameters
    ----------
    name : ``points`` or ``generalized``, as ``Method.refine`` says.
    keys : int64 (n,), of the records, ascending.
    guard : of ``generalized``, the privacy models that classes keep to.
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
    turns = refinement_steps(name)
    for turn in turns:

        def run(
            number: int,
            records: NDArray[np.int64],
            tick: Tick,
            turn: RefinementStep = turn,
            before: Partition = partition,
        ) -> Partition:
            _, labels = np.unique(before.labels[records], return_inverse=True)
            guarded = None if guard is None else guard.take(records)
            part = Partition(labels.reshape(-1))
            return refine_block(
                name, space.take(records), part, policy, turn, number, n, tick, guarded
            )

        def advance(share: float, turn: RefinementStep = turn) -> None:
            tick((turn.number + share) * turn.share)

        cut = blocks.cut_classes(space, partition, keys, turn.direction)
        partition = partition_blocks(cut, run, advance)
    return partition


def refine_block(
    name: str,
    space: Any,
    partition: Partition,
    policy: Policy,
    turn: RefinementStep,
    number: int,
    n_records: int,
    tick: Tick,
    guard: Guard | None = None,
) -> Partition:
    """The refinement of one block, the same wherever its stratum's other blocks are.

    Parameters
    ----------
    number : of the block in its stratum and turn.
    n_records : of the stratum.
    """
    iterations = policy.refine_iterations
    if iterations is not None:
        iterations = int(iterations * space.n_records // n_records * turn.share)
    # Use one seed per block, so that the order in which blocks end does not matter.
    seed = np.random.SeedSequence([policy.seed, turn.number, number]).generate_state(1, np.uint64)
    return _REFINEMENTS[name](
        space,
        partition,
        int(policy.k),
        str(policy.refine),
        tick=tick,
        seed=int(seed[0]),
        iterations=iterations,
        seconds=policy.refine_seconds,
        share=turn.share,
        **({} if guard is None else {"guard": guard}),
    )
