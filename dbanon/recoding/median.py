"""Median recoding: every class is released with the median of each attribute.

The lower median is always a value of the class and needs no rounding. It is more robust to outliers
than the mean, but does not preserve the sum of an attribute.
"""

from __future__ import annotations

from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.recoding.columns import (
    ExactTotals,
    Recoding,
    ReleasedColumn,
    Settings,
    compute_class_medians,
    refuse_inexact_numbers,
    release_member_values,
)


def release_medians(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    partition: Partition,
    exact_totals: ExactTotals,
    settings: Settings,
) -> tuple[ReleasedColumn, ...]:
    """Release the class medians of every attribute, in the type of its column.

    Raises
    ------
    UnsupportedType : an attribute holds values that float64 cannot hold exactly.
    """
    refuse_inexact_numbers(microdata, "median")
    return tuple(
        release_member_values(
            microdata, partition, position, compute_class_medians(values, partition)
        )
        for position, values in enumerate(microdata.numbers.T)
    )


RECODING = Recoding(
    name="median",
    run=release_medians,
    summary="Class median (the lower one if there are two), which is always a value of the class",
)
