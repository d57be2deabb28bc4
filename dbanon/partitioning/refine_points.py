"""Refinement after methods on points: less information loss, whatever method made the classes.

Local search on the sum of squares (SSE) of the points that the method used. Pools of neighbouring
classes are taken out of the partition and improved by all moves and swaps of records that pay.
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
and cutting never adds loss. The loss never rises.
Cost: the iterations end after a fixed number of elementary steps, the same on every machine: about
0.2 s for ``fast`` and about 20 s for ``thorough``, more for many records and less for very few
(_Effort).
"""

from __future__ import annotations

from dataclasses import dataclass

from dbanon.data.partition import Partition
from dbanon.kernels import Pass, Refine
from dbanon.methods.registry import Tick, drive
from dbanon.spaces.numeric import Space

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
    space: Space,
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
    space : the points that the partition was made from.
    partition : every record in a class of at least k.
    effort : ``pass``, ``fast`` or ``thorough``.
    seed : the same seed gives the same classes, unless ``seconds`` is given.
    iterations : pools drawn and built anew; None for as many as the effort's budget allows.
    seconds : when to stop before that; None for no limit.
    share : of the effort's budget.
    """
    if effort == "pass" or iterations == 0:
        return drive(Pass(space.points, k, partition.labels), tick)
    budget = _EFFORTS[effort]
    kernel = Refine(
        space.points,
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
