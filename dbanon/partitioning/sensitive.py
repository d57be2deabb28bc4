"""Sensitive columns as models take them: places in an order of values, or leaves of a hierarchy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.errors import MemoryLimit
from dbanon.measures import Model
from dbanon.measures.counted import places, width_of

# Counts of classes before and after merging, and a copy of them while classes merge.
_COPIES_OF_COUNTS = 3


def released_places(
    microdata: Microdata,
    partition: Partition,
    models: Sequence[Model],
    attributes: Mapping[str, Attribute],
    memory_limit: int | None,
) -> dict[str, NDArray[np.int32]]:
    """The place of each released record's value, int32 (n,), by sensitive column; NULL comes last.

    The order is that of the released values alone, so that it can be found again on what was
    written.

    Raises
    ------
    HierarchyBroken : a released value is no leaf.
    MemoryLimit : counts per class and value would need more than these bytes.
    """
    released = partition.labels >= 0
    found = {}
    for name, column in microdata.sensitive.items():
        codes = np.zeros(len(released), np.int32)
        codes[released] = places(column.take(np.flatnonzero(released)), attributes[name], models)
        _require_memory(partition.n_classes, width_of(models, name, codes), name, memory_limit)
        found[name] = codes
    return found


def _require_memory(n_classes: int, width: int, name: str, memory_limit: int | None) -> None:
    needed = _COPIES_OF_COUNTS * 8 * n_classes * width
    if memory_limit is not None and needed > memory_limit:
        raise MemoryLimit(
            f'The counts of "{name}" need more than {memory_limit // 2**20} MiB of memory.',
            detail=f"There are {n_classes} classes and {width} values.",
            hint="Raise the memory limit, or bring values together in a view.",
        )
