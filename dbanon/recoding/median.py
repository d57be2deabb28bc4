"""Median recoding: every class is released with the median of each attribute.

Of an even number of values the lower of the two in the middle is taken: a value that occurs, in
the column's own type, without rounding. Less drawn by outliers than the mean; the sum of an
attribute is not kept.
"""

from __future__ import annotations

from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.recoding.columns import (
    ExactTotals,
    Recoding,
    ReleasedColumn,
    Settings,
    class_medians,
    occurring,
    refuse_wide,
)


def median(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    exact_totals: ExactTotals,
    settings: Settings,
) -> tuple[ReleasedColumn, ...]:
    """The class medians of every attribute, in the type of its column.

    Raises
    ------
    UnsupportedType : an attribute holds values that float64 cannot hold exactly.
    """
    refuse_wide(microdata, "median")
    return tuple(
        occurring(microdata, partition, position, class_medians(values, partition))
        for position, values in enumerate(microdata.numbers.T)
    )


RECODING = Recoding(
    name="median",
    run=median,
    summary="Class median, the lower of two; a value that occurs",
)
