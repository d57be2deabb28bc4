"""Medoid recoding: every class is released with the record nearest to its mean.

Distances are Euclidean distances of the table's z-scores; of several nearest records, the first is
used. The medoid has the least sum of squared distances to the other records of the class. The
released combination of values is that of a real record: k-anonymity holds, but anyone who knows
that record sees its values published.
"""

from __future__ import annotations

import numpy as np

from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.recoding.columns import (
    ExactTotals,
    Recoding,
    ReleasedColumn,
    Settings,
    compute_sample_deviation,
    refuse_inexact_numbers,
    release_member_values,
)
from dbanon.recoding.mean import compute_class_means


def release_medoids(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    partition: Partition,
    exact_totals: ExactTotals,
    settings: Settings,
) -> tuple[ReleasedColumn, ...]:
    """Release the values of each class's medoid, in the types of their columns.

    Raises
    ------
    UnsupportedType : an attribute holds values that float64 cannot hold exactly.
    """
    refuse_inexact_numbers(microdata, "medoid")
    members, starts = partition.members, partition.starts
    labels = partition.labels[members]
    distances = np.zeros(len(members))
    for attribute, values in zip(microdata.numeric, microdata.numbers.T, strict=True):
        valid = microdata.valid_column(attribute.name)
        scale = column_statistics.scales[attribute.name]
        if scale.is_constant:
            continue
        offsets = values[members] - compute_class_means(values, partition)[labels]
        offsets /= compute_sample_deviation(scale)
        # If a column is NULL for a record, it is NULL for the whole class, so it does not
        # distinguish records.
        distances += (
            np.square(offsets)
            if valid is None
            else np.where(valid[members], offsets * offsets, 0.0)
        )
    medoid_records = members[np.lexsort((members, distances, labels))[starts]]
    return tuple(
        release_member_values(
            microdata, partition, position, microdata.numbers[medoid_records, position]
        )
        for position in range(microdata.numbers.shape[1])
    )


RECODING = Recoding(
    name="medoid",
    run=release_medoids,
    summary="The record nearest to the class mean: values that occur together",
)
