"""What classes of a chain are compared with, at all times: the table of its first release.

Models that compare with a table need one that stays. The source's is another one at each release,
and while one of two persons is out, it would have the values of the other alone.
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
from dbanon.data.measures import Distribution, Measures
from dbanon.data.microdata import Coded
from dbanon.data.schema import Attribute
from dbanon.hierarchy.leaves import leaf_text, sort_key, spell_as_leaves
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures import Model
from dbanon.measures.recount import trees_of_models
from dbanon.sessions import statements

# Numbers that are compared at once: each class takes one for every value.
_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class Reference:
    """How often each value of a sensitive column occurs in a chain's first release.

    Parameters
    ----------
    attribute : the column.
    known : the values that occur there, in the column's order, NULL as the last one.
    tree : of a model with a hierarchy: places are its leaves, the last one NULL's.
    ordered : True of a model that measures along the order: a value that did not occur counts as
        the next lower one that did, or as the lowest. Elsewhere it has the last place, of no share.
    """

    attribute: Attribute
    known: Distribution
    tree: Hierarchy | None
    ordered: bool

    def places(self, values: Sequence[str]) -> NDArray[np.int32]:
        """The place of each of some values, int32 (s + 1,), the last NULL's."""
        found = np.zeros(len(values) + 1, np.int32)
        if self.tree is not None:
            texts = [leaf_text(value, self.attribute) for value in values]
            spelled = spell_as_leaves(self.tree, texts, self.attribute)
            found[:-1] = self.tree.encode(spelled, self.attribute.name)
            found[-1] = self.tree.n_leaves - 1
            return found
        have = [sort_key(value, self.attribute) for value in self.known.values]
        place_of = {value: place for place, value in enumerate(have)}
        nowhere = len(self.known.counts)
        for number, value in enumerate(values):
            own = sort_key(value, self.attribute)
            other = max(bisect_right(have, own) - 1, 0) if self.ordered else nowhere
            found[number] = place_of.get(own, other)
        has_null = len(self.known.counts) > len(have)
        found[-1] = len(have) if has_null else len(have) - 1 if self.ordered else nowhere
        return found

    @property
    def table(self) -> Distribution:
        """How often each place occurs."""
        counts = self.known.counts
        if self.tree is not None:
            places = self.places(self.known.values)
            counts = np.zeros(self.tree.n_leaves, np.int64)
            np.add.at(counts, places[: len(self.known.counts)], self.known.counts)
        elif not self.ordered:
            counts = np.append(counts, 0)
        return Distribution(counts, fixed=True)

    def of(self, column: Coded) -> NDArray[np.int32]:
        """The place of each record's value, int32 (n,)."""
        found: NDArray[np.int32] = self.places(column.values)[column.codes]
        return found


References = Mapping[str, Reference]


def beside(references: References, columns: Mapping[str, Coded]) \
        -> dict[str, tuple[NDArray[np.int32], Distribution]]:  # fmt: skip
    """The places of records' values, int32 (n,), and how often each occurs, by sensitive column."""
    return {name: (one.of(columns[name]), one.table) for name, one in references.items()}


def to_plain(measures: Measures, models: Sequence[Model]) -> dict[str, Any]:
    """The shares that a chain is to remember: of columns whose models compare with the table."""
    found = {}
    for name in dict.fromkeys(m.attribute for m in models if m.compares_with_table):
        known = measures.sensitive[name].occurring()
        found[name] = {"values": list(known.values), "counts": known.counts.tolist()}
    return found


def of_plain(
    definition: Mapping[str, Any] | None,
    models: Sequence[Model],
    attributes: Mapping[str, Attribute],
) -> dict[str, Reference]:
    """What ``to_plain`` kept, by column; nothing before the first release, or without such models.

    Parameters
    ----------
    attributes : the columns of the models.
    """
    trees, found = trees_of_models(models), {}
    for name, plain in (definition or {}).get("sensitive", {}).items():
        known = Distribution(np.array(plain["counts"], np.int64), tuple(plain["values"]))
        ordered = any(m.attribute == name and m.distance == "ordered" for m in models)
        found[name] = Reference(attributes[name], known, trees.get(name), ordered)
    return found


def breaking(
    state: CellState, rows: str, column: Attribute, model: Model, reference: Reference
) -> tuple[list[int], float]:
    """The cells that break a model, and the level that all cells keep to.

    Parameters
    ----------
    rows : FROM and WHERE of their rows, with the alias s.
    column : the model's, as it is named there.
    """
    text = state.session.text_of(column)
    found = state.session.rows(
        f"SELECT t.cell, t.value, count(*) FROM (SELECT s.cell AS cell, {text} AS value {rows})"
        " AS t GROUP BY t.cell, t.value ORDER BY t.cell"
    )
    values = sorted({value for _, value, _ in found if value is not None})
    place_of = dict(zip([*values, None], reference.places(values).tolist(), strict=True))
    whole = reference.table.shares
    cells = np.array([cell for cell, _, _ in found], np.int64)
    places = np.array([place_of[value] for _, value, _ in found], np.int64)
    sizes = np.array([size for *_, size in found], np.int64)
    known, of_rows = np.unique(cells, return_inverse=True)
    failing: list[int] = []
    level = 0.0
    step = max(1, _AT_ONCE // len(whole))
    for start in range(0, len(known), step):
        first, last = np.searchsorted(of_rows, (start, start + step))
        own = slice(int(first), int(last))
        part = known[start : start + step]
        counts = np.zeros((len(part), len(whole)), np.int64)
        np.add.at(counts, (of_rows[own] - start, places[own]), sizes[own])
        failing += part[~model.satisfied(counts, whole)].tolist()
        level = max(level, model.worst(counts, whole))
    return failing, level


def recounted(
    state: CellState,
    kept: Sequence[Attribute],
    models: Sequence[Model],
    sensitive: Mapping[str, Attribute],
) -> tuple[int, dict[int, float]]:
    """Cells on display whose rows, as they were written, break a model that compares with a table.

    Beside them the level that all keep to, by the model's place among ``models``.

    Parameters
    ----------
    kept : the columns that the rows have.
    sensitive : the columns of the models.
    """
    failing, levels = 0, {}
    names = [attribute.name for attribute in kept]
    asked = {n: model for n, model in enumerate(models) if model.compares_with_table}
    if not asked:
        return 0, {}
    # As it is in the database: with the first release it has just been written.
    told = find(state.session, state.chain.name).definition
    references = of_plain(told, models, sensitive)
    for number, model in asked.items():
        place = names.index(model.attribute)
        column = replace(kept[place], name=statements.kept_column(place))
        broken, levels[number] = breaking(
            state, f"FROM {state.rows} AS s", column, model, references[model.attribute]
        )
        failing += len(broken)
    return failing, levels
