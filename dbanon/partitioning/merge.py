"""Merging or withholding classes until all keep to privacy models.

Two ways are gone, and what loses less (iloss) is kept, the first where they lose the same. In the
first the largest failing class merges with the class that, of those with which it keeps to the
models, makes the loss grow least; with any class where there is none such. In the second the
smallest one merges with the class that makes the loss grow least for what it helps: for each record
that the two lack less of what the models want. The first is short where one more class is enough;
where many have to come together, it lets one class swallow all others, and the second does not.
The merged class has the other one's number; ties go to the smaller number. Merging ends, at the
latest with all records in one class.

Where records may be withheld, a class is, rather than merge, when merging would make the loss grow
by more than all that its records say.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.partition import Partition
from dbanon.errors import ModelInfeasible
from dbanon.kernels import Enforce, Models, Split
from dbanon.methods.registry import Tick, drive
from dbanon.spaces.mixed import MixedSpace


@dataclass(frozen=True)
class Guard:
    """Privacy models, and what they look at.

    Parameters
    ----------
    values : int32 (n, m), C order: the value of each record in the m sensitive attributes. Where
        the models count persons, the last column does, and -1 counts nowhere.
    models : what the values of a class must keep to.
    """

    values: NDArray[np.int32]
    models: Models

    def take(self, records: NDArray[np.int64]) -> Guard:
        """The guard of some of the records, int64 (m,)."""
        return Guard(np.ascontiguousarray(self.values[records]), self.models)

    def counts(self, groups: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
        """How often groups have each value, int64 (n_groups, s), attribute by attribute.

        Parameters
        ----------
        groups : of each record, int64 (n,); -1 for none.
        """
        columns = []
        for column, width in zip(self.values.T, self.models.widths, strict=True):
            counted = (groups >= 0) & (column >= 0)
            cells = groups[counted] * width + column[counted]
            counts = np.bincount(cells, minlength=n_groups * width)
            columns.append(counts.reshape(n_groups, width))
        return np.concatenate(columns, axis=1).astype(np.int64, copy=False)

    def allows(self, counts: NDArray[np.int64]) -> bool:
        """Whether a class with these counts of values, int64 (s,), keeps to the models."""
        return bool(self.models.keeps(counts.astype(np.int32)))


def merge(
    space: MixedSpace, partition: Partition, guard: Guard, tick: Tick, budget: int = 0
) -> Partition:
    """The partition with classes merged until each keeps to the models.

    Parameters
    ----------
    budget : how many records may be withheld.

    Raises
    ------
    ModelInfeasible : the table as one class does not keep to them.
    """
    if not partition.n_classes:
        return partition
    if not keeps(guard.take(partition.members)):
        raise ModelInfeasible()
    merged = merge_block(space, partition, guard, tick, budget)
    if merged.n_classes == 1 and not keeps(guard.take(merged.members)):
        # What was withheld was needed.
        merged = merge_block(space, partition, guard, tick)
    return merged


def merge_block(
    space: MixedSpace, partition: Partition, guard: Guard, tick: Tick, budget: int = 0
) -> Partition:
    """As ``merge``; one class that does not keep to the models is left as it is."""
    kernel = Enforce(space.table(), partition.labels, guard.values, guard.models, budget)
    return drive(kernel, tick)


def split(space: MixedSpace, partition: Partition, k: int, guard: Guard, tick: Tick) -> Partition:
    """The partition with classes cut in two where both parts keep to k and the models.

    Of all cuts between two values of a column the one that loses least, if it loses less than the
    class; the first column and value in a tie. Parts are cut again.
    """
    if not partition.n_classes:
        return partition
    return drive(Split(space.table(), partition.labels, k, guard.values, guard.models), tick)


def keeps(guard: Guard) -> bool:
    """Whether all records as one class keep to the models."""
    counts = [
        np.bincount(column[column >= 0], minlength=width)
        for column, width in zip(guard.values.T, guard.models.widths, strict=True)
    ]
    return guard.models.keeps(np.concatenate(counts).astype(np.int32))
