"""Medoid recoding: every class is released with the record nearest to its mean.

Distances are those of the table's z-scores; ties go to the smaller index. The medoid has the least
sum of squared distances to the others. The released combination of values is that of a real record:
k-anonymity holds, but anyone who knows that record sees its values published.
"""

from __future__ import annotations

import numpy as np

from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.recoding.columns import (
    ExactTotals,
    Recoding,
    ReleasedColumn,
    Settings,
    column_of_members,
    refuse_wide,
    table_deviation,
)
from dbanon.recoding.mean import class_means


def medoid(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    exact_totals: ExactTotals,
    settings: Settings,
) -> tuple[ReleasedColumn, ...]:
    """The values of each class's medoid, in the types of their columns.

    Raises
    ------
    UnsupportedType : an attribute holds values that float64 cannot hold exactly.
    """
    refuse_wide(microdata, "medoid")
    members, starts = partition.members, partition.starts
    labels = partition.labels[members]
    distance = np.zeros(len(members))
    for attribute, values in zip(microdata.numeric, microdata.numbers.T, strict=True):
        valid = microdata.valid_column(attribute.name)
        scale = measures.numbers[attribute.name]
        if scale.is_constant:
            continue
        gap = values[members] - class_means(values, partition)[labels]
        gap /= table_deviation(scale)
        # NULL applies to the whole class, so it does not distinguish records.
        distance += np.square(gap) if valid is None else np.where(valid[members], gap * gap, 0.0)
    chosen = members[np.lexsort((members, distance, labels))[starts]]
    return tuple(
        column_of_members(microdata, partition, position, microdata.numbers[chosen, position])
        for position in range(microdata.numbers.shape[1])
    )


RECODING = Recoding(
    name="medoid",
    run=medoid,
    summary="The record nearest to the class mean: values that occur together",
)
