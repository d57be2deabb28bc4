"""Sums of wide numbers of records in memory, for classes that are tried and not released."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.recoding import ExactTotals


def totals_of(microdata: Microdata) -> ExactTotals:
    """Sums by class and attribute, of the numbers as they were read: a store has exact ones."""
    names = [attribute.name for attribute in microdata.numeric]

    def totals(partition: Partition, wide: Sequence[Attribute]) -> dict[str, NDArray[np.object_]]:
        sums = {}
        for attribute in wide:
            values = microdata.numbers[:, names.index(attribute.name)]
            valid = microdata.valid_column(attribute.name)
            if valid is not None:
                values = np.where(valid, values, 0.0)
            # Moments are held in microseconds, other numbers as they are.
            digits = attribute.scale - (6 if attribute.kind is Kind.TIMESTAMP else 0)
            units = (values * 10.0**digits)[partition.members]
            exact = np.array([int(value) for value in units.tolist()], object)
            sums[attribute.name] = np.asarray(np.add.reduceat(exact, partition.starts), object)
        return sums

    return totals
