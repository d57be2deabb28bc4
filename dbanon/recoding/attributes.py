"""Each attribute recoded by the classes that it has: those of rows, or its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.partition import MethodResult, Partition
from dbanon.data.schema import Attribute
from dbanon.recoding.columns import ExactTotals, ReleasedColumn


def recode_attributes(
    microdata: Microdata,
    classes: MethodResult,
    run: Callable[[Microdata, Partition, ExactTotals], tuple[ReleasedColumn, ...]],
    exact_totals: Callable[[Sequence[Attribute]], Mapping[str, NDArray[np.object_]]],
) -> tuple[ReleasedColumn, ...]:
    """The released columns, with one value for each set of rows that are released alike.

    Parameters
    ----------
    run : a recoding, which gives the columns of the attributes that it sees.
    exact_totals : of sets of rows that are released alike; they are added up here.
    """
    names = [attribute.name for attribute in microdata.attributes]
    _, places = classes.rows()
    columns: list[ReleasedColumn] = []
    for (own_names, own), of_rows in zip(classes.by_columns(names), places.T, strict=True):

        def totals(
            own: Partition, attributes: Sequence[Attribute], of_rows: NDArray[np.int32] = of_rows
        ) -> Mapping[str, NDArray[np.object_]]:
            found = {}
            for name, parts in exact_totals(attributes).items():
                found[name] = np.zeros(own.n_classes, object)
                np.add.at(found[name], of_rows, parts)
            return found

        seen = microdata if len(own_names) == len(names) else microdata.of_attributes(own_names)
        columns += [column.take(of_rows.astype(np.int64)) for column in run(seen, own, totals)]
    return tuple(columns)
