"""The reference table of a chain: the sensitive values of its first release.

Models that compare classes with a table need one that stays the same. The source's table changes
with each release, and would reveal values of persons who are present while others are out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.chain.membership import CellState
from dbanon.chain.state import find
from dbanon.data.measures import Measures, ValueFrequencies
from dbanon.data.microdata import CodedColumn
from dbanon.data.schema import Attribute
from dbanon.hierarchy.leaves import leaf_text, sort_key, spell_as_leaves
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures import Model
from dbanon.measures.recount import trees_of_models
from dbanon.sessions import statements

# Counts to compare at once: each class has one for every value.
_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class Reference:
    """How often each value of a sensitive column occurs in a chain's first release.

    Parameters
    ----------
    attribute : the column.
    distribution : the values that occur there, in the column's order, NULL last.
    tree : of a model with a hierarchy: positions are its leaves, the last one for NULL.
    ordered : True for a model that uses the order: a new value counts as the next lower known one,
        or as the lowest. Otherwise new values share an extra last position with frequency 0.
    """

    attribute: Attribute
    distribution: ValueFrequencies
    tree: Hierarchy | None
    ordered: bool

    def places(self, values: Sequence[str]) -> NDArray[np.int32]:
        """The position of each value, int32 (s + 1,), with NULL's last."""
        indices = np.zeros(len(values) + 1, np.int32)
        if self.tree is not None:
            texts = [leaf_text(value, self.attribute) for value in values]
            spelled = spell_as_leaves(self.tree, texts, self.attribute)
            indices[:-1] = self.tree.encode(spelled, self.attribute.name)
            indices[-1] = self.tree.n_leaves - 1
            return indices
        keys = [sort_key(value, self.attribute) for value in self.distribution.values]
        index_of = {value: index for index, value in enumerate(keys)}
        nowhere = len(self.distribution.counts)
        for number, value in enumerate(values):
            key = sort_key(value, self.attribute)
            other = max(bisect_right(keys, key) - 1, 0) if self.ordered else nowhere
            indices[number] = index_of.get(key, other)
        has_null = len(self.distribution.counts) > len(keys)
        indices[-1] = len(keys) if has_null else len(keys) - 1 if self.ordered else nowhere
        return indices

    @property
    def table(self) -> ValueFrequencies:
        """The frequency of each position."""
        counts = self.distribution.counts
        if self.tree is not None:
            places = self.places(self.distribution.values)
            counts = np.zeros(self.tree.n_leaves, np.int64)
            np.add.at(counts, places[: len(self.distribution.counts)], self.distribution.counts)
        elif not self.ordered:
            counts = np.append(counts, 0)
        return ValueFrequencies(counts, fixed=True)

    def of(self, column: CodedColumn) -> NDArray[np.int32]:
        """The position of each record's value, int32 (n,)."""
        indices: NDArray[np.int32] = self.places(column.values)[column.codes]
        return indices


References = Mapping[str, Reference]


def place_values(
    references: References, columns: Mapping[str, CodedColumn]
) -> dict[str, tuple[NDArray[np.int32], ValueFrequencies]]:
    """Positions of records' values, int32 (n,), and their frequencies, by sensitive column."""
    return {
        name: (reference.of(columns[name]), reference.table)
        for name, reference in references.items()
    }


def to_plain(measures: Measures, models: Sequence[Model]) -> dict[str, Any]:
    """The distributions to store with a chain: of columns whose models compare with the table."""
    shares = {}
    for name in dict.fromkeys(m.attribute for m in models if m.compares_with_table):
        distribution = measures.sensitive[name].occurring()
        shares[name] = {"values": list(distribution.values), "counts": distribution.counts.tolist()}
    return shares


def of_plain(
    definition: Mapping[str, Any] | None,
    models: Sequence[Model],
    attributes: Mapping[str, Attribute],
) -> dict[str, Reference]:
    """The references stored by ``to_plain``, by column; none before the first release.

    Parameters
    ----------
    attributes : the columns of the models.
    """
    trees, references = trees_of_models(models), {}
    for name, plain in (definition or {}).get("sensitive", {}).items():
        distribution = ValueFrequencies(np.array(plain["counts"], np.int64), tuple(plain["values"]))
        ordered = any(m.attribute == name and m.distance == "ordered" for m in models)
        references[name] = Reference(attributes[name], distribution, trees.get(name), ordered)
    return references


def find_failing_cells(
    state: CellState, rows: str, column: Attribute, model: Model, reference: Reference
) -> tuple[list[int], float]:
    """The cells that break a model, and the level that all cells satisfy.

    Parameters
    ----------
    rows : FROM and WHERE that select their rows, with the alias s.
    column : the model's column, as it is named there.
    """
    text = state.session.text_of(column)
    value_counts = state.session.rows(
        f"SELECT t.cell, t.value, count(*) FROM (SELECT s.cell AS cell, {text} AS value {rows})"
        " AS t GROUP BY t.cell, t.value ORDER BY t.cell"
    )
    values = sorted({value for _, value, _ in value_counts if value is not None})
    place_of = dict(zip([*values, None], reference.places(values).tolist(), strict=True))
    table_shares = reference.table.shares
    cells = np.array([cell for cell, _, _ in value_counts], np.int64)
    places = np.array([place_of[value] for _, value, _ in value_counts], np.int64)
    sizes = np.array([size for *_, size in value_counts], np.int64)
    cell_ids, of_rows = np.unique(cells, return_inverse=True)
    failing: list[int] = []
    level = 0.0
    step = max(1, _AT_ONCE // len(table_shares))
    for start in range(0, len(cell_ids), step):
        first, last = np.searchsorted(of_rows, (start, start + step))
        selection = slice(int(first), int(last))
        part = cell_ids[start : start + step]
        counts = np.zeros((len(part), len(table_shares)), np.int64)
        np.add.at(counts, (of_rows[selection] - start, places[selection]), sizes[selection])
        failing += part[~model.is_satisfied(counts, table_shares)].tolist()
        level = max(level, model.reached_level(counts, table_shares))
    return failing, level


def recount_models(
    state: CellState,
    retained: Sequence[Attribute],
    models: Sequence[Model],
    sensitive: Mapping[str, Attribute],
) -> tuple[int, dict[int, float]]:
    """Count the displayed cells whose written rows break a model that compares with a table.

    Also returns the level that all cells satisfy, by the model's index in ``models``.

    Parameters
    ----------
    retained : the retained columns of the rows.
    sensitive : the columns of the models.
    """
    failing, levels = 0, {}
    names = [attribute.name for attribute in retained]
    compared_models = {n: model for n, model in enumerate(models) if model.compares_with_table}
    if not compared_models:
        return 0, {}
    # Read the definition from the database: the first release has just written it.
    definition = find(state.session, state.chain.name).definition
    references = of_plain(definition, models, sensitive)
    for number, model in compared_models.items():
        index = names.index(model.attribute)
        column = replace(retained[index], name=statements.kept_column(index))
        broken, levels[number] = find_failing_cells(
            state, f"FROM {state.rows} AS s", column, model, references[model.attribute]
        )
        failing += len(broken)
    return failing, levels
