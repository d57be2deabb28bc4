"""Privacy models on what was counted of a written relation: the levels that its classes keep to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.counts import Cells, Counts
from dbanon.data.measures import Distribution
from dbanon.data.microdata import Coded
from dbanon.data.schema import Attribute
from dbanon.errors import RecountFailed
from dbanon.hierarchy.leaves import leaf_text
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures.models import CountedModel, Model


def trees_of_models(models: Sequence[Model]) -> dict[str, Hierarchy]:
    """The hierarchies by sensitive column."""
    return {m.attribute: m.distance for m in models if isinstance(m.distance, Hierarchy)}


def places(column: Coded, attribute: Attribute, models: Sequence[Model]) -> NDArray[np.int32]:
    """The place of each value among those of the column, or its leaf, int32 (n,)."""
    found: NDArray[np.int32] = places_of_codes(Distribution.of_column(column), attribute, models)[
        column.codes
    ]
    return found


def places_of_codes(
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


def require_models(
    models: Sequence[Model], counts: Mapping[str, NDArray[np.int64]]
) -> tuple[CountedModel, ...]:
    """Check counts of a written relation, by sensitive attribute int64 (n_classes, s).

    Returns the levels that all classes keep to.

    Raises
    ------
    RecountFailed : a class does not keep to a model.
    """
    for model in models:
        found = counts[model.attribute]
        failing = int((~model.satisfied(found, Distribution(found.sum(axis=0)).shares)).sum())
        if failing:
            raise RecountFailed(
                f"{failing} of {len(found)} classes counted do not keep to {model.describe()}.",
                hint="This is an error in dbanon: please report it.",
            )
    return tuple(
        CountedModel(model.describe(), model.worst(found, Distribution(found.sum(axis=0)).shares))
        for model, found in ((model, counts[model.attribute]) for model in models)
    )


def width_of(models: Sequence[Model], name: str, codes: NDArray[np.int32]) -> int:
    """The number of values: all leaves where a hierarchy has them."""
    leaves = [
        model.distance.n_leaves
        for model in models
        if model.attribute == name and isinstance(model.distance, Hierarchy)
    ]
    return max([int(codes.max(initial=-1)) + 1, *leaves])
