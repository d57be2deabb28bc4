"""Privacy models on what was counted of a written relation: the levels that its classes keep to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.counts import Cells, Counts, EntityCount
from dbanon.data.measures import Distribution
from dbanon.data.microdata import Coded
from dbanon.data.schema import Attribute
from dbanon.errors import RecountFailed
from dbanon.hierarchy.leaves import leaf_text, spell_as_leaves
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures.models import CountedModel, Model

# The one model of persons that classes may keep to one by one, and not together.
_MAY_FAIL_TOGETHER = (
    "Classes that are released alike are one class, which may keep to less where persons have"
    " several values. Ask for less of entropy_l, or for distinct_l."
)


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
    found[:-1][known] = tree.encode(spell_as_leaves(tree, texts, attribute), attribute.name)
    found[-1] = tree.n_leaves - 1
    return found


def levels_reached(
    models: Sequence[Model],
    attributes: Mapping[str, Attribute],
    counts: Counts,
    persons: EntityCount | None = None,
) -> tuple[CountedModel, ...]:
    """The levels that all classes of a written relation keep to; ``attributes`` by column.

    Parameters
    ----------
    persons : where models count them: what was counted in staging, of the rows that were written.

    Raises
    ------
    RecountFailed : a class does not keep to a model, or other rows were counted than there are.
    """
    found, sizes = {}, None if persons is None else persons.in_class
    for name, cells in counts.cells.items():
        rows = _counts(cells, attributes[name], models)
        if int(rows.sum()) != counts.rows.rows:
            raise RecountFailed(
                f'The values of "{name}" that were counted are not those of all rows.',
                hint="This is an error in dbanon: please report it.",
            )
        found[name] = (
            rows if persons is None else _of_persons(rows, persons, name, attributes, models)
        )
    return require_models(models, found, sizes)


def levels_in_rows(
    models: Sequence[Model], attributes: Mapping[str, Attribute], counts: Counts
) -> tuple[float, ...]:
    """The level that all classes keep to when rows are counted, whatever the models count."""
    found = {name: _counts(cells, attributes[name], models) for name, cells in counts.cells.items()}
    return tuple(
        model.worst(found[model.attribute], _table(found[model.attribute], None))
        for model in models
    )


def _of_persons(
    rows: NDArray[np.int64],
    persons: EntityCount,
    name: str,
    attributes: Mapping[str, Attribute],
    models: Sequence[Model],
) -> NDArray[np.int64]:
    """Persons by class and place of value, of the same classes that were written."""
    cells = persons.cells[name]
    assert cells.persons is not None
    staged = _counts(cells, attributes[name], models)
    if not np.array_equal(_in_any_order(staged), _in_any_order(rows)):
        raise RecountFailed(
            f'The values of "{name}" in the written relation are not those of the rows whose'
            " persons were counted; nothing was published.",
            hint="This is an error in dbanon: please report it.",
        )
    own = replace(cells, sizes=cells.persons)
    return _counts(own, attributes[name], models)


def _in_any_order(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Classes by what they hold: their numbers are those of a collation, which staging has not."""
    return counts[np.lexsort(counts.T[::-1])] if counts.size else counts


def _counts(cells: Cells, attribute: Attribute, models: Sequence[Model]) -> NDArray[np.int64]:
    """Rows by class and place of value, int64 (n_classes, s), of what was counted."""
    found = places(cells.column, attribute, models)
    width = width_of(models, attribute.name, found)
    counts = np.zeros((int(cells.classes.max(initial=-1)) + 1, width), np.int64)
    np.add.at(counts, (cells.classes, found), cells.sizes)
    return counts


def require_models(
    models: Sequence[Model],
    counts: Mapping[str, NDArray[np.int64]],
    persons: NDArray[np.int64] | None = None,
) -> tuple[CountedModel, ...]:
    """Check counts of a written relation, by sensitive attribute int64 (n_classes, s).

    ``persons``, int64 (n_classes,), where they are of persons: those of each class. The table is
    all classes together. Returns the levels that all classes keep to.

    Raises
    ------
    RecountFailed : a class does not keep to a model.
    """
    for model in models:
        found = counts[model.attribute]
        whole = _table(found, persons)
        failing = int((~model.satisfied(found, whole, persons)).sum())
        if failing:
            raise RecountFailed(
                f"{failing} of {len(found)} classes counted do not keep to {model.describe()}.",
                hint=_MAY_FAIL_TOGETHER
                if persons is not None and model.kind == "entropy_l"
                else "This is an error in dbanon: please report it.",
            )
    return tuple(
        CountedModel(model.describe(), model.worst(found, _table(found, persons), persons))
        for model, found in ((model, counts[model.attribute]) for model in models)
    )


def _table(counts: NDArray[np.int64], persons: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """The share of each value in all classes together, float64 (s,)."""
    size = None if persons is None else int(persons.sum())
    return Distribution(counts.sum(axis=0), size=size).shares


def width_of(models: Sequence[Model], name: str, codes: NDArray[np.int32]) -> int:
    """The number of values: all leaves where a hierarchy has them."""
    leaves = [
        model.distance.n_leaves
        for model in models
        if model.attribute == name and isinstance(model.distance, Hierarchy)
    ]
    return max([int(codes.max(initial=-1)) + 1, *leaves])
