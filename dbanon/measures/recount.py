"""Privacy models applied to the recount of a written table: the levels its classes reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.counts import ClassValueCounts, Counts, EntityCount
from dbanon.data.measures import ValueFrequencies
from dbanon.data.microdata import CodedColumn
from dbanon.data.schema import Attribute
from dbanon.errors import RecountFailed
from dbanon.hierarchy.leaves import leaf_text, spell_as_leaves
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures.models import CountedModel, Model

# If persons are counted, single classes may satisfy entropy_l although their union does not.
_MAY_FAIL_TOGETHER = (
    "Classes with the same released values form one class, and a person with several values counts"
    " once. Lower the level of entropy_l, or choose distinct_l."
)


def trees_of_models(models: Sequence[Model]) -> dict[str, Hierarchy]:
    """The hierarchies by sensitive column."""
    return {m.attribute: m.distance for m in models if isinstance(m.distance, Hierarchy)}


def value_positions(
    column: CodedColumn, attribute: Attribute, models: Sequence[Model]
) -> NDArray[np.int32]:
    """The position of each value among the column's values, or its leaf, int32 (n,)."""
    positions: NDArray[np.int32] = positions_of_codes(
        ValueFrequencies.of_column(column), attribute, models
    )[column.codes]
    return positions


def positions_of_codes(
    frequencies: ValueFrequencies, attribute: Attribute, models: Sequence[Model]
) -> NDArray[np.int32]:
    """The position of each code among occurring ones, or its leaf, int32 (s,); NULL is last."""
    occurs = frequencies.counts[:-1] > 0
    positions = np.zeros(len(frequencies.counts), np.int32)
    tree = trees_of_models(models).get(attribute.name)
    if tree is None:
        positions[:-1] = np.maximum(np.cumsum(occurs) - 1, 0)
        positions[-1] = occurs.sum()
        return positions
    texts = [
        leaf_text(frequencies.values[code], attribute) for code in np.flatnonzero(occurs).tolist()
    ]
    positions[:-1][occurs] = tree.encode(spell_as_leaves(tree, texts, attribute), attribute.name)
    positions[-1] = tree.n_leaves - 1
    return positions


def require_levels(
    models: Sequence[Model],
    attributes: Mapping[str, Attribute],
    counts: Counts,
    persons: EntityCount | None = None,
) -> tuple[CountedModel, ...]:
    """The levels that all classes of a written table reach; ``attributes`` by column.

    Parameters
    ----------
    persons : counts of persons from staging, if models count persons.

    Raises
    ------
    RecountFailed : a class violates a model, or the counts do not cover all rows.
    """
    counts_by_column, sizes = {}, None if persons is None else persons.in_class
    for name, cells in counts.cells.items():
        rows = _row_counts(cells, attributes[name], models)
        if int(rows.sum()) != counts.rows.rows:
            raise RecountFailed(
                f'The values of "{name}" that were counted do not cover all rows.',
                hint="This is an error in dbanon: please report it.",
            )
        counts_by_column[name] = (
            rows if persons is None else _person_counts(rows, persons, name, attributes, models)
        )
    return require_models(models, counts_by_column, sizes)


def row_levels(
    models: Sequence[Model], attributes: Mapping[str, Attribute], counts: Counts
) -> tuple[float, ...]:
    """The levels that all classes reach when counting rows, even if models count persons."""
    counts_by_column = {
        name: _row_counts(cells, attributes[name], models) for name, cells in counts.cells.items()
    }
    return tuple(
        model.reached_level(
            counts_by_column[model.attribute],
            _table_shares(counts_by_column[model.attribute], None),
        )
        for model in models
    )


def _person_counts(
    rows: NDArray[np.int64],
    persons: EntityCount,
    name: str,
    attributes: Mapping[str, Attribute],
    models: Sequence[Model],
) -> NDArray[np.int64]:
    """Persons by class and value, after checking that staged and written classes agree."""
    cells = persons.cells[name]
    assert cells.persons is not None
    staged = _row_counts(cells, attributes[name], models)
    if not np.array_equal(_sort_classes(staged), _sort_classes(rows)):
        raise RecountFailed(
            f'The values of "{name}"'
            " in the written table differ from those of the rows whose persons were counted;"
            " nothing was published.",
            hint="This is an error in dbanon: please report it.",
        )
    person_cells = replace(cells, sizes=cells.persons)
    return _row_counts(person_cells, attributes[name], models)


def _sort_classes(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort classes by their counts: class ids depend on collation, which staging lacks."""
    return counts[np.lexsort(counts.T[::-1])] if counts.size else counts


def _row_counts(
    cells: ClassValueCounts, attribute: Attribute, models: Sequence[Model]
) -> NDArray[np.int64]:
    """Rows by class and value, int64 (n_classes, s)."""
    positions = value_positions(cells.column, attribute, models)
    width = count_values(models, attribute.name, positions)
    counts = np.zeros((int(cells.classes.max(initial=-1)) + 1, width), np.int64)
    np.add.at(counts, (cells.classes, positions), cells.sizes)
    return counts


def require_models(
    models: Sequence[Model],
    counts: Mapping[str, NDArray[np.int64]],
    persons: NDArray[np.int64] | None = None,
) -> tuple[CountedModel, ...]:
    """Check the counts of a written table, by sensitive attribute int64 (n_classes, s).

    ``persons``, int64 (n_classes,), are persons per class if counts are of persons. The table's
    distribution is the sum over classes. Returns the levels that all classes reach.

    Raises
    ------
    RecountFailed : a class violates a model.
    """
    for model in models:
        class_counts = counts[model.attribute]
        table = _table_shares(class_counts, persons)
        failing = int((~model.is_satisfied(class_counts, table, persons)).sum())
        if failing:
            raise RecountFailed(
                f"{failing} of {len(class_counts)} classes counted do not keep to"
                f" {model.describe()}.",
                hint=_MAY_FAIL_TOGETHER
                if persons is not None and model.kind == "entropy_l"
                else "This is an error in dbanon: please report it.",
            )
    return tuple(
        CountedModel(
            model.describe(),
            model.reached_level(class_counts, _table_shares(class_counts, persons), persons),
        )
        for model, class_counts in ((model, counts[model.attribute]) for model in models)
    )


def _table_shares(
    counts: NDArray[np.int64], persons: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    """The share of each value over all classes, float64 (s,)."""
    size = None if persons is None else int(persons.sum())
    return ValueFrequencies(counts.sum(axis=0), size=size).shares


def count_values(models: Sequence[Model], name: str, codes: NDArray[np.int32]) -> int:
    """The number of values, or of leaves if there is a hierarchy."""
    leaves = [
        model.distance.n_leaves
        for model in models
        if model.attribute == name and isinstance(model.distance, Hierarchy)
    ]
    return max([int(codes.max(initial=-1)) + 1, *leaves])
