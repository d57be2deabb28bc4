"""Some records of microdata, as if there were no others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata, is_wide
from dbanon.hierarchy.tree import Hierarchy

# The hierarchies by column, those of builders made from the values of these records alone.
Trees: TypeAlias = Callable[[Microdata], Mapping[str, Hierarchy]]


def only(microdata: Microdata, records: NDArray[np.int64]) -> Microdata:
    """Microdata of some of the records, int64 (m,), in their order, as if there were no others.

    Dictionaries hold the values that these records have, and only these records' values count as
    wide.
    """
    numbers = np.ascontiguousarray(microdata.numbers[records])
    codes = microdata.codes[records]
    categories = []
    for column, values in enumerate(microdata.categories):
        used, places = np.unique(codes[:, column], return_inverse=True)
        has_null = int(used.size > 0 and used[0] < 0)
        codes[:, column] = places.reshape(-1) - has_null
        categories.append(tuple(values[code] for code in used[has_null:].tolist()))
    valid = None if microdata.valid is None else microdata.valid[records]
    return replace(
        microdata,
        keys=microdata.keys[records],
        numbers=numbers,
        codes=codes,
        categories=tuple(categories),
        valid=None if valid is None or bool(valid.all()) else valid,
        wide=frozenset(
            attribute.name
            for column, attribute in enumerate(microdata.numeric)
            if attribute.name in microdata.wide and is_wide(numbers[:, column], attribute)
        ),
        strata=None if microdata.strata is None else microdata.strata[records],
        entities=None if microdata.entities is None else microdata.entities[records],
        sensitive={name: column.take(records) for name, column in microdata.sensitive.items()},
    )
