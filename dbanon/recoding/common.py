"""Common values: every class is released with the values that all of its records share.

In an attribute in which its records differ, or of which one of them is NULL, a class is released as
NULL. ``recode`` sets these cells to NULL beforehand, and counts them as lost completely. So a class
that arrives here has one value in each attribute, which loses nothing.

Text columns keep their type; booleans and types that are read as text become text.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.recoding.columns import (
    ExactTotals,
    Recoding,
    ReleasedColumn,
    Settings,
    release_record_values,
)


def release_common_values(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    partition: Partition,
    exact_totals: ExactTotals,
    settings: Settings,
) -> tuple[ReleasedColumn, ...]:
    """Release the value of each class's first record, which is that of all of its records."""
    del column_statistics, exact_totals, settings  # parameters of all recodings
    first_records = partition.members[partition.starts]
    no_losses = np.zeros(partition.n_classes)
    return tuple(
        replace(
            release_record_values(microdata, partition, attribute, first_records),
            losses=no_losses,
            label_losses=no_losses,
        )
        for attribute in microdata.attributes
    )


RECODING = Recoding(
    name="common",
    run=release_common_values,
    summary="The value that all of a class share, else NULL: for local_suppression",
    measure="iloss",
    takes_categories=True,
    method="local_suppression",
)
