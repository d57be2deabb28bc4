"""Sensitive columns as models take them: places in an order of values, or leaves of a hierarchy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.counts import Cells, Counts
from dbanon.data.measures import Distribution, Measures
from dbanon.data.microdata import Coded, Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.errors import MemoryLimit, RecountFailed
from dbanon.hierarchy.leaves import leaf_text
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures import Model
from dbanon.measures.models import CountedModel
from dbanon.partitioning.protect import require_models, width_of

# Counts of classes before and after merging, and a copy of them while classes merge.
_COPIES_OF_COUNTS = 3


def trees_of_models(models: Sequence[Model]) -> dict[str, Hierarchy]:
    """The hierarchies by sensitive column."""
    return {m.attribute: m.distance for m in models if isinstance(m.distance, Hierarchy)}


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
        place_of = _places_of(table, attributes[name], models)
        found[name] = np.where(released, place_of[codes], np.int32(0))
        counts = np.zeros(int(place_of.max(initial=-1)) + 1, np.int64)
        np.add.at(counts, place_of, table.counts)
        tables[name] = Distribution(counts)
        _require_memory(
            partition.n_classes, width_of(models, name, found[name]), name, memory_limit
        )
    return found, tables


def places(column: Coded, attribute: Attribute, models: Sequence[Model]) -> NDArray[np.int32]:
    """The place of each value among those of the column, or its leaf, int32 (n,)."""
    found: NDArray[np.int32] = _places_of(Distribution.of_column(column), attribute, models)[
        column.codes
    ]
    return found


def _places_of(
    table: Distribution, attribute: Attribute, models: Sequence[Model]
) -> NDArray[np.int32]:
    """The place of each code among those that occur, or its leaf, int32 (s,), the last NULL's."""
    known = table.counts[:-1] > 0
    found = np.zeros(len(table.counts), np.int32)
    tree = trees_of_models(models).get(attribute.name)
    if tree is None:
        found[:-1] = np.maximum(np.cumsum(known) - 1, 0)
        found[-1] = known.sum()
        return found
    texts = [leaf_text(table.values[code], attribute) for code in np.flatnonzero(known).tolist()]
    found[:-1][known] = tree.encode(texts, attribute.name)
    found[-1] = tree.n_leaves - 1
    return found


def _codes_in(table: Distribution, column: Coded) -> NDArray[np.int64]:
    """Where the column's values are among the table's, int64."""
    if column.values == table.values:
        return np.arange(len(column.values))
    code_of = {value: code for code, value in enumerate(table.values)}
    return np.array([code_of[value] for value in column.values], np.int64)


def levels_reached(
    models: Sequence[Model], attributes: Mapping[str, Attribute], counts: Counts
) -> tuple[CountedModel, ...]:
    """The levels that all classes of a written relation keep to; ``attributes`` by column.

    Raises
    ------
    RecountFailed : a class does not keep to a model, or other rows were counted than there are.
    """
    found = {}
    for name, cells in counts.cells.items():
        found[name] = _counts(cells, attributes[name], models)
        if int(found[name].sum()) != counts.rows.rows:
            raise RecountFailed(
                f'The values of "{name}" that were counted are not those of all rows.',
                hint="This is an error in dbanon: please report it.",
            )
    return require_models(models, found)


def _counts(cells: Cells, attribute: Attribute, models: Sequence[Model]) -> NDArray[np.int64]:
    """Rows by class and place of value, int64 (n_classes, s), of what was counted."""
    found = places(cells.column, attribute, models)
    width = width_of(models, attribute.name, found)
    counts = np.zeros((int(cells.classes.max(initial=-1)) + 1, width), np.int64)
    np.add.at(counts, (cells.classes, found), cells.sizes)
    return counts


def _require_memory(n_classes: int, width: int, name: str, memory_limit: int | None) -> None:
    needed = _COPIES_OF_COUNTS * 8 * n_classes * width
    if memory_limit is not None and needed > memory_limit:
        raise MemoryLimit(
            f'The counts of "{name}" need more than {memory_limit // 2**20} MiB of memory.',
            detail=f"There are {n_classes} classes and {width} values.",
            hint="Raise the memory limit, or bring values together in a view.",
        )
