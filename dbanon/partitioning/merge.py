"""Merge or withhold classes until all satisfy the privacy models.

Runs two strategies and uses the result with the smaller information loss (iloss), or that of the
first strategy if the losses are equal.

1. The largest failing class merges with the class that increases the loss least, among the classes
   with which it would satisfy the models, or among all classes if there are none.
2. The smallest failing class merges with the class for which the loss increases least in relation
   to the progress: the number of records by which the merged class is closer to satisfying the
   models.

The first strategy takes few steps if merging with one class is enough. If many classes have to be
merged, it lets one class absorb all others, which the second avoids. The merged class keeps the
number of the class that the failing class merged with; ties go to the smaller number. Merging ends
at the latest when all records are in one class.

If records may be withheld, a class is withheld instead of merged when merging would increase the
loss by more than withholding its records.
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
    """Privacy models with the sensitive values that they check.

    Parameters
    ----------
    values : int32 (n, m), C order: the value code of each record in each sensitive attribute; -1 is
        not counted. If the models count persons, there is one more column, which is 0 in the first
        record of each person and -1 in others.
    models : the models that the values of a class must satisfy. ``models.widths`` holds the number
        of possible values of each column.
    """

    values: NDArray[np.int32]
    models: Models

    def take(self, records: NDArray[np.int64]) -> Guard:
        """Return the guard of some of the records, given as indices, int64 (m,)."""
        return Guard(np.ascontiguousarray(self.values[records]), self.models)

    def counts(self, groups: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
        """Count the values in each group, int64 (n_groups, s).

        The s counts of a group are those of the first attribute's values, then the second's, etc.

        Parameters
        ----------
        groups : the group of each record, int64 (n,); -1 for none.
        """
        columns = []
        for column, n_values in zip(self.values.T, self.models.widths, strict=True):
            is_counted = (groups >= 0) & (column >= 0)
            flat_indices = groups[is_counted] * n_values + column[is_counted]
            counts = np.bincount(flat_indices, minlength=n_groups * n_values)
            columns.append(counts.reshape(n_groups, n_values))
        return np.concatenate(columns, axis=1).astype(np.int64, copy=False)

    def allows(self, counts: NDArray[np.int64]) -> bool:
        """Return True if a class with these counts of values, int64 (s,), satisfies the models.

        The s counts are those of a group in the result of ``counts``.
        """
        return bool(self.models.keeps(counts.astype(np.int32)))


def merge_classes(
    space: MixedSpace, partition: Partition, guard: Guard, tick: Tick, max_withheld: int = 0
) -> Partition:
    """Merge classes until each satisfies the models.

    Parameters
    ----------
    partition : the classes to merge, of the records of the space.
    guard : the models, with the sensitive values of all records of the partition.
    max_withheld : the maximum number of records to withhold.
    tick : called with the share done, 0 to 1.

    Raises
    ------
    ModelInfeasible : all records with classes, as one class, violate a model.
    """
    if not partition.n_classes:
        return partition
    if not satisfies_models(guard.take(partition.members)):
        raise ModelInfeasible()
    merged = merge_block(space, partition, guard, tick, max_withheld)
    if merged.n_classes == 1 and not satisfies_models(guard.take(merged.members)):
        # The last class violates the models without the withheld records. All records together
        # satisfy them, so merge again and withhold none.
        merged = merge_block(space, partition, guard, tick)
    return merged


def merge_block(
    space: MixedSpace, partition: Partition, guard: Guard, tick: Tick, max_withheld: int = 0
) -> Partition:
    """Merge the classes of a block, or of any records, as ``merge_classes`` does.

    If even all records as one class violate the models, returns that class instead of raising an
    error.
    """
    kernel = Enforce(space.table(), partition.labels, guard.values, guard.models, max_withheld)
    return drive(kernel, tick)


def split_classes(
    space: MixedSpace, partition: Partition, k: int, guard: Guard, tick: Tick
) -> Partition:
    """Split classes in two, repeatedly, if both halves have k records and satisfy the models.

    Cuts each class between the two values of a column that give the least loss of both halves, if
    that is less than the loss of the class; ties go to the first column and value.
    """
    if not partition.n_classes:
        return partition
    return drive(Split(space.table(), partition.labels, k, guard.values, guard.models), tick)


def satisfies_models(guard: Guard) -> bool:
    """Return True if all records, as one class, satisfy the models."""
    counts = [
        np.bincount(column[column >= 0], minlength=n_values)
        for column, n_values in zip(guard.values.T, guard.models.widths, strict=True)
    ]
    return guard.models.keeps(np.concatenate(counts).astype(np.int32))
