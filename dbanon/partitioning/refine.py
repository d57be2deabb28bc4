"""Refinements by name: a local search after the method, never with a larger loss."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import Partition
from dbanon.job.policy import Policy
from dbanon.methods.registry import Tick
from dbanon.partitioning import refine_generalized, refine_points
from dbanon.partitioning.blocks import cut_classes, partition_blocks
from dbanon.partitioning.merge import Guard


class Refine(Protocol):
    """How a method's classes are improved: never a larger loss, all classes still >= k."""

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
    ) -> Partition: ...


# By the names that ``Method.refine`` has.
_REFINEMENTS: dict[str, Refine] = {
    "points": refine_points.refine,
    "generalized": refine_generalized.refine,
}
# Those that work in blocks of classes; a pool of the other is small whatever the table is.
_IN_BLOCKS = ("generalized",)

# Refinements in blocks, each with borders across another direction.
_TURNS = 2


def max_refined_size(name: str, k: int) -> int | None:
    """The largest class that the refinement leaves; None where there is no such bound."""
    return refine_points.max_refined_size(k) if name == "points" else None


def refine_classes(
    name: str,
    space: Any,
    partition: Partition,
    policy: Policy,
    tick: Tick,
    guard: Guard | None = None,
) -> Partition:
    """The refinement of all records at once, or, in generalization, of blocks of classes.

    Parameters
    ----------
    name : ``points`` or ``generalized``, as ``Method.refine`` says.
    guard : of ``generalized``, the privacy models that classes keep to.
    """
    refine = _REFINEMENTS[name]
    guarded = {} if guard is None else {"guard": guard}
    size = policy.block_size
    if size is None or space.n_records <= size or name not in _IN_BLOCKS:
        return refine(
            space,
            partition,
            int(policy.k),
            str(policy.refine),
            tick=tick,
            seed=policy.seed,
            iterations=policy.refine_iterations,
            seconds=policy.refine_seconds,
            **guarded,
        )
    for turn in range(_TURNS):
        before = partition

        def run(
            number: int,
            records: NDArray[np.int64],
            tick: Tick,
            turn: int = turn,
            before: Partition = before,
        ) -> Partition:
            found, labels = np.unique(before.labels[records], return_inverse=True)
            # A later turn has fewer classes: those of equal records were joined.
            rounds = refine_generalized.ROUNDS[str(policy.refine)] * len(found)
            if policy.refine_iterations is not None:
                rounds = policy.refine_iterations * len(records) // space.n_records
            # Of its own, so that the order in which blocks end changes nothing.
            seed = np.random.SeedSequence([policy.seed, turn, number]).generate_state(1, np.uint64)
            return refine(
                space.take(records),
                Partition(labels),
                int(policy.k),
                str(policy.refine),
                tick=tick,
                seed=int(seed[0]),
                iterations=rounds // _TURNS,
                seconds=policy.refine_seconds,
                **({} if guard is None else {"guard": guard.take(records)}),
            )

        def advance(share: float, turn: int = turn) -> None:
            tick((turn + share) / _TURNS)

        blocks = cut_classes(space.coordinates, partition, size, turn)
        partition = partition_blocks(blocks, run, advance)
    return partition
