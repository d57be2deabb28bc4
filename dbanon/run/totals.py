"""Compute exact sums per class of records in memory, for releases that are never written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.recoding import ExactTotals


def exact_totals_of(microdata: Microdata) -> ExactTotals:
    """Return a function that sums attributes per class.

    Sums are Python integers, in the smallest unit of the attribute, such as cents.

    The sums of a published release come from the database; these come from the float64 numbers of
    ``microdata``.
    """
    names = [attribute.name for attribute in microdata.numeric]

    def sum_by_class(
        partition: Partition, attributes: Sequence[Attribute]
    ) -> dict[str, NDArray[np.object_]]:
        sums = {}
        for attribute in attributes:
            values = microdata.numbers[:, names.index(attribute.name)]
            valid = microdata.valid_column(attribute.name)
            if valid is not None:
                values = np.where(valid, values, 0.0)
            # ``scale`` is the number of decimals to sum. Timestamps are stored in microseconds, so
            # six of them are whole already; other numbers are unscaled.
            decimals = attribute.scale - (6 if attribute.kind is Kind.TIMESTAMP else 0)
            # The products are whole numbers except for rounding errors: 0.29 * 100 is below 29.
            scaled = np.rint(values * 10.0**decimals)[partition.members]
            # Members are in the order of their classes, and ``starts`` has each class's first one.
            integers = np.array([int(value) for value in scaled.tolist()], object)
            sums[attribute.name] = np.asarray(np.add.reduceat(integers, partition.starts), object)
        return sums

    return sum_by_class
