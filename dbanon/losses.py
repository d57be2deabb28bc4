"""The loss of a release in the measure that its recoding names."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dbanon.hierarchy import Hierarchy
from dbanon.leaves import leaf_codes, trees_of
from dbanon.measures import Loss, iloss, released_loss
from dbanon.microdata import Microdata
from dbanon.partitions import Partition
from dbanon.recoding import ReleasedColumn
from dbanon.space import standardization


def _sse(
    microdata: Microdata,
    partition: Partition,
    hierarchies: Mapping[str, Hierarchy],
    columns: tuple[ReleasedColumn, ...],
) -> tuple[Loss, Loss]:
    """SSE/SST on z-scores before and after rounding."""
    del hierarchies
    valid = microdata.numeric_valid()
    transform = standardization(microdata.numbers, "zscore", valid)
    points = transform.apply(microdata.numbers)

    def loss(released: list[NDArray[np.float64]]) -> Loss:
        standardized = transform.apply(np.column_stack(released))
        return released_loss(
            points, partition, standardized, None if microdata.valid is None else valid
        )

    before = loss([_filled(column.unrounded) for column in columns])
    return before, loss([column.as_float() for column in columns])


def _iloss(
    microdata: Microdata,
    partition: Partition,
    hierarchies: Mapping[str, Hierarchy],
    columns: tuple[ReleasedColumn, ...],
) -> tuple[Loss, Loss]:
    """iloss per cell on the classes' own ranges, and as released."""
    records = max(int(partition.sizes.sum()), 1)
    own = class_losses(microdata, partition, hierarchies) / records
    released = np.array([column.lost.sum() for column in columns if column.lost is not None])
    released /= records
    return Loss(own, float(own.mean())), Loss(released, float(released.mean()))


# By the name that a recoding gives.
LOSSES = {"sse": _sse, "iloss": _iloss}


def class_losses(
    microdata: Microdata, partition: Partition, hierarchies: Mapping[str, Hierarchy]
) -> NDArray[np.float64]:
    """iloss of each attribute on the classes' own ranges, float64 (d,), summed over records."""
    losses = []
    trees = trees_of(microdata, hierarchies)
    for attribute, tree in zip(microdata.attributes, trees, strict=True):
        values = (
            microdata.numbers[:, microdata.numeric.index(attribute)]
            if tree is None
            else leaf_codes(microdata, attribute, tree)
        )
        losses.append(iloss(values, tree, partition, microdata.valid_column(attribute.name)))
    return np.array(losses)


def _filled(values: NDArray[np.float64] | None) -> NDArray[np.float64]:
    assert values is not None
    return values
