"""What columns a release has, before any of its rows are there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.partition import Found, Partition
from dbanon.data.schema import Attribute
from dbanon.recoding.columns import ReleasedColumn
from dbanon.release.recode import recode
from dbanon.spark.pieces import Known


def released_columns(known: Known) -> tuple[ReleasedColumn, ...]:
    """The columns of a release, told by one made-up record that has a value of each column.

    Raises
    ------
    DbanonError : the recoding does not take the columns.
    """
    attributes = known.layout.quasi_identifiers
    measures = known.released
    numbers = [measures.numbers[a.name] for a in attributes if a.kind.is_numeric]
    held = [
        (
            measures.numbers[a.name].count
            if a.kind.is_numeric
            else measures.categories[a.name].counts.sum()
        )
        > 0
        for a in attributes
    ]
    dictionaries = tuple(
        measures.categories[a.name].values for a in attributes if not a.kind.is_numeric
    )
    one = Microdata(
        attributes,
        np.zeros((1, 1), np.int64),
        np.array([[scale.least for scale in numbers]], np.float64),
        np.array([[0 if values else -1 for values in dictionaries]], np.int32),
        dictionaries,
        valid=np.array([held], np.bool_),
        wide=known.wide,
    )
    found = Found(Partition(np.zeros(1, np.int32)), measures=measures)

    def nothing(partition: Partition, wide: Sequence[Attribute]) -> dict[str, NDArray[np.object_]]:
        return {attribute.name: np.array([0], object) for attribute in wide}

    return recode(one, found, known.policy, nothing).columns
