"""Check privacy models on the recount of a written table, and compute the levels it reaches."""

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
from dbanon.hierarchy.leaves import format_leaf, spell_as_leaves
from dbanon.hierarchy.tree import Hierarchy, flat_hierarchy
from dbanon.measures.models import CountedModel, Model

# If persons are counted, several classes may satisfy entropy_l although their union does not.
_UNION_HINT = (
    "Classes with the same released values form one class, and a person with several values counts"
    " once. Lower the level of entropy_l, or choose distinct_l."
)


def trees_of_models(models: Sequence[Model]) -> dict[str, Hierarchy]:
    """Return the hierarchies of the models, by sensitive column.

    The distance of a t-closeness model may be a hierarchy of the column's values.
    """
    return {
        model.attribute: model.distance for model in models if isinstance(model.distance, Hierarchy)
    }


def value_positions(
    column: CodedColumn, attribute: Attribute, models: Sequence[Model]
) -> NDArray[np.int32]:
    """Return the position of each record's value among the values or leaves, int32 (n,)."""
    # Index -1, the code of NULL, selects the last position, which is that of NULL.
    positions: NDArray[np.int32] = positions_of_codes(
        ValueFrequencies.of_column(column), attribute, models
    )[column.codes]
    return positions


def positions_of_codes(
    frequencies: ValueFrequencies, attribute: Attribute, models: Sequence[Model]
) -> NDArray[np.int32]:
    """Return the position of each code's value, int32 (s,); the position of NULL is last.

    The position is the value's leaf if a model has a hierarchy for the column; otherwise it is the
    value's index among the values that occur.
    """
    # The last count is that of NULL.
    occurs = frequencies.counts[:-1] > 0
    positions = np.zeros(len(frequencies.counts), np.int32)
    tree = trees_of_models(models).get(attribute.name)
    if tree is None:
        positions[:-1] = np.maximum(np.cumsum(occurs) - 1, 0)
        positions[-1] = occurs.sum()
        return positions
    texts = [
        format_leaf(frequencies.values[code], attribute) for code in np.flatnonzero(occurs).tolist()
    ]
    positions[:-1][occurs] = tree.encode(spell_as_leaves(tree, texts, attribute), attribute.name)
    # Hierarchies of models have a leaf for NULL, the last one.
    positions[-1] = tree.n_leaves - 1
    return positions


def require_levels(
    models: Sequence[Model],
    attributes: Mapping[str, Attribute],
    counts: Counts,
    persons: EntityCount | None = None,
) -> tuple[CountedModel, ...]:
    """Check the models of a written table, and return the levels that all classes reach.

    Parameters
    ----------
    attributes : the sensitive attributes, by column.
    counts : the recount of the written table, in rows.
    persons : counts of persons in the staging tables, if models count persons; otherwise None.

    Raises
    ------
    RecountFailed : a class violates a model, or the counts do not cover all rows.
    """
    counts_by_column = {}
    for name, class_values in counts.value_counts.items():
        row_counts = _count_by_class_and_value(class_values, attributes[name], models)
        recount = counts.rows
        if int(row_counts.sum()) != recount.rows:
            raise RecountFailed(
                f'The values of "{name}" that were counted do not cover all rows.',
                hint="This is an error in dbanon: please report it.",
            )
        counts_by_column[name] = (
            row_counts
            if persons is None
            else _person_counts(row_counts, persons, name, attributes, models)
        )
    persons_per_class = None if persons is None else persons.persons_per_class
    return require_models(models, counts_by_column, persons_per_class)


def row_levels(
    models: Sequence[Model], attributes: Mapping[str, Attribute], counts: Counts
) -> tuple[float, ...]:
    """Return the levels that all classes reach if rows are counted, even if models count persons.

    Parameters
    ----------
    attributes : the sensitive attributes, by column.
    counts : the recount of the written table, in rows.
    """
    counts_by_column = {
        name: _count_by_class_and_value(class_values, attributes[name], models)
        for name, class_values in counts.value_counts.items()
    }
    return tuple(
        model.reached_level(
            counts_by_column[model.attribute],
            _table_shares(counts_by_column[model.attribute], persons=None),
        )
        for model in models
    )


def _person_counts(
    row_counts: NDArray[np.int64],
    persons: EntityCount,
    name: str,
    attributes: Mapping[str, Attribute],
    models: Sequence[Model],
) -> NDArray[np.int64]:
    """Return the number of persons by class and value, int64 (n_classes, s).

    Also checks that the written table has the classes of the staging tables.

    Parameters
    ----------
    row_counts : int64 (n_classes, s), the rows of the written table by class and value.
    persons : counts of rows and persons in the staging tables.
    name : the sensitive column.

    Raises
    ------
    RecountFailed : the rows in staging differ from those of the written table.
    """
    class_values = persons.value_counts[name]
    assert class_values.persons is not None
    staged_counts = _count_by_class_and_value(class_values, attributes[name], models)
    if not np.array_equal(_sort_classes(staged_counts), _sort_classes(row_counts)):
        raise RecountFailed(
            f'The values of "{name}"'
            " in the written table differ from those of the rows whose persons were counted;"
            " nothing was published.",
            hint="This is an error in dbanon: please report it.",
        )
    class_values_of_persons = replace(class_values, sizes=class_values.persons)
    return _count_by_class_and_value(class_values_of_persons, attributes[name], models)


def _sort_classes(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort classes by their counts: their ids depend on collations, which staging tables lack."""
    return counts[np.lexsort(counts.T[::-1])] if counts.size else counts


def _count_by_class_and_value(
    class_values: ClassValueCounts, attribute: Attribute, models: Sequence[Model]
) -> NDArray[np.int64]:
    """Sum up the sizes of combinations of class and value, to int64 (n_classes, s).

    Parameters
    ----------
    class_values : the size, in rows or persons, of each combination of class and value that occurs.
    """
    positions = value_positions(class_values.column, attribute, models)
    n_values = count_values(models, attribute.name, positions)
    counts = np.zeros((int(class_values.classes.max(initial=-1)) + 1, n_values), np.int64)
    np.add.at(counts, (class_values.classes, positions), class_values.sizes)
    return counts


def require_models(
    models: Sequence[Model],
    counts: Mapping[str, NDArray[np.int64]],
    persons: NDArray[np.int64] | None = None,
) -> tuple[CountedModel, ...]:
    """Check the models on the counts of a written table; return the levels that all classes reach.

    Parameters
    ----------
    counts : by sensitive column, int64 (n_classes, s), counts by class and value. Their sums over
        classes give the distribution in the whole table.
    persons : int64 (n_classes,), persons per class if ``counts`` counts persons; None if it counts
        rows.

    Raises
    ------
    RecountFailed : a class violates a model.
    """
    for model in models:
        class_counts = counts[model.attribute]
        table_shares = _table_shares(class_counts, persons)
        n_failing = int((~model.is_satisfied(class_counts, table_shares, persons)).sum())
        if n_failing:
            raise RecountFailed(
                f"{n_failing} of {len(class_counts)} counted classes violate {model.describe()}.",
                hint=_UNION_HINT
                if persons is not None and model.kind == "entropy_l"
                else "This is an error in dbanon: please report it.",
            )
    return tuple(
        CountedModel(
            model.describe(),
            model.reached_level(
                counts[model.attribute], _table_shares(counts[model.attribute], persons), persons
            ),
        )
        for model in models
    )


def _table_shares(
    counts: NDArray[np.int64], persons: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    """Return the share of each value in the whole table, float64 (s,).

    Parameters
    ----------
    counts : int64 (n_classes, s), counts by class and value.
    persons : int64 (n_classes,), persons per class if ``counts`` counts persons; None if it counts
        rows.
    """
    n_persons = None if persons is None else int(persons.sum())
    return ValueFrequencies(counts.sum(axis=0), share_base=n_persons).shares


def count_values(models: Sequence[Model], name: str, codes: NDArray[np.int32]) -> int:
    """Return the number of values of a column, or of leaves if a model has a hierarchy for it.

    Parameters
    ----------
    name : the column.
    codes : its codes or leaf positions, from 0.
    """
    leaf_counts = [
        model.distance.n_leaves
        for model in models
        if model.attribute == name and isinstance(model.distance, Hierarchy)
    ]
    return max([int(codes.max(initial=-1)) + 1, *leaf_counts])


def add_null_leaves(models: Sequence[Model]) -> tuple[Model, ...]:
    """Add a leaf for NULL, as the last one below the root, to the hierarchies of the models."""
    return tuple(
        replace(model, distance=_add_null_leaf(model.distance))
        if isinstance(model.distance, Hierarchy)
        else model
        for model in models
    )


def _add_null_leaf(tree: Hierarchy) -> Hierarchy:
    label = "NULL"
    while label in tree.labels:
        label += "*"
    # The only node of such a tree is both root and leaf, and now needs a root above it.
    if len(tree.labels) == 1:
        return flat_hierarchy([*tree.labels, label])
    return Hierarchy([*tree.labels, label], [*tree.parents.tolist(), 0])
