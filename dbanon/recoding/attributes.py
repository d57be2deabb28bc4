"""Attributes that are grouped by themselves: each is recoded by its own classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.partition import AttributePartition, Partition
from dbanon.data.schema import Attribute
from dbanon.recoding.columns import ExactTotals, ReleasedColumn


def recode_attributes(
    microdata: Microdata,
    partition: AttributePartition,
    run: Callable[[Microdata, Partition, ExactTotals], tuple[ReleasedColumn, ...]],
    exact_totals: ExactTotals,
) -> tuple[Partition, tuple[ReleasedColumn, ...]]:
    """The rows that are released alike, and the released columns with one value for each of them.

    Parameters
    ----------
    run : a recoding, which gives one column for each of the attributes that it sees.
    exact_totals : of sets of rows that are released alike; they are added up here.
    """
    rows, classes = partition.rows()
    columns = []
    for position, own in enumerate(partition.partitions):
        of_rows = classes[:, position]

        def totals(
            own: Partition, attributes: Sequence[Attribute], of_rows: NDArray[np.int32] = of_rows
        ) -> Mapping[str, NDArray[np.object_]]:
            found = {}
            for name, parts in exact_totals(rows, attributes).items():
                found[name] = np.zeros(own.n_classes, object)
                np.add.at(found[name], of_rows, parts)
            return found

        alone = microdata.of_attributes([microdata.attributes[position].name])
        [column] = run(alone, own, totals)
        columns.append(column.take(of_rows.astype(np.int64)))
    return rows, tuple(columns)
