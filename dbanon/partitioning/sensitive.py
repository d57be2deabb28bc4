"""Sensitive columns as models take them: places in an order of values, or leaves of a hierarchy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import Distribution, Measures
from dbanon.data.microdata import Coded, Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.errors import MemoryLimit
from dbanon.measures import Model
from dbanon.measures.counted import places_of_codes, width_of

# Counts of classes before and after merging, and a copy of them while classes merge.
_COPIES_OF_COUNTS = 3


def released_places(
    microdata: Microdata,
    partition: Partition,
    models: Sequence[Model],
    attributes: Mapping[str, Attribute],
    measures: Measures,
    memory_limit: int | None,
) -> tuple[dict[str, NDArray[np.int32]], dict[str, Distribution]]:
    """The place of each released record's value, int32 (n,), by sensitive column; NULL comes last.
    Beside them how often each place occurs in the table.

    The order is that of the released values alone, so that it can be found again on what was
    written.

    Raises
    ------
    HierarchyBroken : a released value is no leaf.
    MemoryLimit : counts per class and value would need more than these bytes.
    """
    released = partition.labels >= 0
    found, tables = {}, {}
    for name, column in microdata.sensitive.items():
        table = measures.sensitive[name]
        null = len(table.values)
        codes = np.append(_codes_in(table, column), null)[column.codes].astype(np.int32)
        table = table.without(codes[~released])
        place_of = places_of_codes(table, attributes[name], models)
        found[name] = np.where(released, place_of[codes], np.int32(0))
        counts = np.zeros(int(place_of.max(initial=-1)) + 1, np.int64)
        np.add.at(counts, place_of, table.counts)
        tables[name] = Distribution(counts)
        _require_memory(
            partition.n_classes, width_of(models, name, found[name]), name, memory_limit
        )
    return found, tables


def _codes_in(table: Distribution, column: Coded) -> NDArray[np.int64]:
    """Where the column's values are among the table's, int64."""
    if column.values == table.values:
        return np.arange(len(column.values))
    code_of = {value: code for code, value in enumerate(table.values)}
    return np.array([code_of[value] for value in column.values], np.int64)


def _require_memory(n_classes: int, width: int, name: str, memory_limit: int | None) -> None:
    needed = _COPIES_OF_COUNTS * 8 * n_classes * width
    if memory_limit is not None and needed > memory_limit:
        raise MemoryLimit.over(
            f'The counts of "{name}" need',
            memory_limit,
            detail=f"There are {n_classes} classes and {width} values.",
            hint="Raise the limit (`memory_limit`), or bring values together in a view.",
        )
