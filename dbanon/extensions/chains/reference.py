"""The reference table of a chain: the sensitive values of its first release.

Some privacy models compare the values of a class with those of the table. In a chain, this table is
that of the first release: the source changes with each release, so comparing with it could reveal
which values come from the persons who have joined or left. A *cell* is a class of a chain.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import ColumnStatistics, ValueFrequencies
from dbanon.data.microdata import CodedColumn
from dbanon.data.schema import Attribute
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.extensions.chains.membership import ChainState
from dbanon.extensions.chains.state import find_chain
from dbanon.hierarchy.leaves import format_leaf, sort_key, spell_as_leaves
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures import Model
from dbanon.measures.recount import trees_of_models
from dbanon.sessions import statements

# Largest number of counts to compare at once. Each cell has a count for every value.
_MAX_COUNTS = 2**22


@dataclass(frozen=True, eq=False)
class Reference:
    """How often each value of a sensitive column occurs in a chain's first release.

    A value's *position* is its index in the frequencies that models compare classes with
    (``table``).

    Parameters
    ----------
    attribute : the column.
    distribution : the values of the first release, in the column's order, NULL last.
    tree : the hierarchy of the column if a model uses it, else None. With a tree, positions are the
        leaves of the tree, and NULL has the last one.
    is_ordered : True if a model uses the order of the values (``distance="ordered"``). A value that
        the first release lacks then has the position of the next lower one (or of the lowest).
        Otherwise, all such values share an additional last position, with frequency 0.
    """

    attribute: Attribute
    distribution: ValueFrequencies
    tree: Hierarchy | None
    is_ordered: bool

    def find_positions(self, values: Sequence[str]) -> NDArray[np.int32]:
        """Find the positions of s values in ``table``, int32 (s + 1,); the last one is for NULL."""
        positions = np.zeros(len(values) + 1, np.int32)
        if self.tree is not None:
            texts = [format_leaf(value, self.attribute) for value in values]
            leaves = spell_as_leaves(self.tree, texts, self.attribute)
            positions[:-1] = self.tree.encode(leaves, self.attribute.name)
            positions[-1] = self.tree.n_leaves - 1
            return positions
        keys = [sort_key(value, self.attribute) for value in self.distribution.values]
        index_of = {value: index for index, value in enumerate(keys)}
        extra_position = len(self.distribution.counts)
        for index, value in enumerate(values):
            key = sort_key(value, self.attribute)
            position_if_new = (
                max(bisect_right(keys, key) - 1, 0) if self.is_ordered else extra_position
            )
            positions[index] = index_of.get(key, position_if_new)
        # The counts have one more item than the values if NULL occurs in the first release.
        has_null = len(self.distribution.counts) > len(keys)
        if has_null:
            positions[-1] = len(keys)
        else:
            # If values have an order, NULL comes last, so the next lower value is the last one.
            positions[-1] = len(keys) - 1 if self.is_ordered else extra_position
        return positions

    @property
    def table(self) -> ValueFrequencies:
        """How often the values of each position occur in the first release."""
        counts = self.distribution.counts
        if self.tree is not None:
            positions = self.find_positions(self.distribution.values)
            counts = np.zeros(self.tree.n_leaves, np.int64)
            np.add.at(counts, positions[: len(self.distribution.counts)], self.distribution.counts)
        elif not self.is_ordered:
            counts = np.append(counts, 0)
        return ValueFrequencies(counts, is_fixed=True)

    def find_positions_of_records(self, column: CodedColumn) -> NDArray[np.int32]:
        """Find the position of each record's value in ``table``, int32 (n,)."""
        positions: NDArray[np.int32] = self.find_positions(column.values)[column.codes]
        return positions


# The reference of each sensitive column, by name.
References = Mapping[str, Reference]


def encode_by_reference(
    references: References, columns: Mapping[str, CodedColumn]
) -> dict[str, tuple[NDArray[np.int32], ValueFrequencies]]:
    """Convert sensitive columns to positions in their reference tables.

    Returns, by column name, the position of each record's value, int32 (n,), and the reference
    table: the frequency of each position in the first release.
    """
    return {
        name: (reference.find_positions_of_records(columns[name]), reference.table)
        for name, reference in references.items()
    }


def distributions_to_plain(
    column_statistics: ColumnStatistics, models: Sequence[Model]
) -> JsonObject:
    """Convert the distributions of sensitive columns to JSON values.

    Only the columns are included that have a model that compares classes with a table.
    """
    distributions = {}
    for name in dict.fromkeys(m.attribute for m in models if m.compares_with_table):
        distribution = column_statistics.sensitive[name].occurring_values()
        distributions[name] = {
            "values": list(distribution.values),
            "counts": distribution.counts.tolist(),
        }
    return distributions


def references_from_plain(
    definition: JsonMapping | None,
    models: Sequence[Model],
    attributes: Mapping[str, Attribute],
) -> dict[str, Reference]:
    """Rebuild the references that ``distributions_to_plain`` stored; none at the first release.

    Parameters
    ----------
    definition : the definition of the chain; None at the first release.
    attributes : the columns of the models, by name.
    """
    trees, references = trees_of_models(models), {}
    for name, frequencies in (definition or {}).get("sensitive", {}).items():
        counts = np.array(frequencies["counts"], np.int64)
        distribution = ValueFrequencies(counts, tuple(frequencies["values"]))
        is_ordered = any(m.attribute == name and m.distance == "ordered" for m in models)
        references[name] = Reference(attributes[name], distribution, trees.get(name), is_ordered)
    return references


def find_failing_cells(
    state: ChainState, from_clause: str, column: Attribute, model: Model, reference: Reference
) -> tuple[list[int], float]:
    """Find the cells that violate a model that compares classes with a table.

    Returns the numbers of these cells, and the level of the model that all cells reach.

    Parameters
    ----------
    from_clause : SQL from FROM on, which selects the rows of the cells, with the alias s.
    column : the model's column, with its name in these rows.
    reference : the table to compare with, from the chain's first release.
    """
    text = state.session.dialect.text_of(column)
    value_counts = state.session.rows(
        f"SELECT t.cell, t.value, count(*) FROM (SELECT s.cell AS cell, {text}"
        f" AS value {from_clause}) AS t GROUP BY t.cell, t.value ORDER BY t.cell"
    )
    values = sorted({value for _, value, _ in value_counts if value is not None})
    position_of = dict(zip([*values, None], reference.find_positions(values).tolist(), strict=True))
    table_shares = reference.table.shares
    cells = np.array([cell for cell, _, _ in value_counts], np.int64)
    positions = np.array([position_of[value] for _, value, _ in value_counts], np.int64)
    sizes = np.array([size for *_, size in value_counts], np.int64)
    cell_numbers, cell_indices = np.unique(cells, return_inverse=True)
    failing_cells: list[int] = []
    level = 0.0
    cells_at_once = max(1, _MAX_COUNTS // len(table_shares))
    for start in range(0, len(cell_numbers), cells_at_once):
        begin, end = np.searchsorted(cell_indices, (start, start + cells_at_once))
        selection = slice(int(begin), int(end))
        selected_cells = cell_numbers[start : start + cells_at_once]
        counts = np.zeros((len(selected_cells), len(table_shares)), np.int64)
        np.add.at(counts, (cell_indices[selection] - start, positions[selection]), sizes[selection])
        failing_cells += selected_cells[~model.is_satisfied(counts, table_shares)].tolist()
        # A larger level of these models means a larger distance of a class from the table.
        level = max(level, model.reached_level(counts, table_shares))
    return failing_cells, level


def recount_models(
    state: ChainState,
    retained: Sequence[Attribute],
    models: Sequence[Model],
    sensitive: Mapping[str, Attribute],
) -> tuple[int, dict[int, float]]:
    """Count the displayed cells whose written rows violate a model that compares with a table.

    A cell counts once for each model that it violates. Also returns, by the index of a model in
    ``models``, the level that all cells reach.

    Parameters
    ----------
    retained : the retained columns of the rows.
    sensitive : the columns of the models, by name.
    """
    n_failing, levels = 0, {}
    names = [attribute.name for attribute in retained]
    compared_models = {
        index: model for index, model in enumerate(models) if model.compares_with_table
    }
    if not compared_models:
        return 0, {}
    # Read the definition from the database: the first release has just written it.
    definition = find_chain(state.session, state.chain.name).definition
    references = references_from_plain(definition, models, sensitive)
    for model_index, model in compared_models.items():
        index = names.index(model.attribute)
        column = replace(retained[index], name=statements.retained_column_name(index))
        failing_cells, levels[model_index] = find_failing_cells(
            state, f"FROM {state.row_table} AS s", column, model, references[model.attribute]
        )
        n_failing += len(failing_cells)
    return n_failing, levels
