"""How many rows lie below each node of a generalization tree, and what of that may be shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.schema import Attribute, Kind, Role
from dbanon.errors import InvalidParameter, pluralize
from dbanon.hierarchy.leaves import leaf_text, spell_as_leaves
from dbanon.hierarchy.tree import Hierarchy
from dbanon.release.distribution import Bar, build_label_distribution, least_displayed_rows
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.session import Session

# Of a tree that can be read.
MOST_NODES = 150


@dataclass(frozen=True)
class TreeNode:
    """A node that many rows lie below.

    Parameters
    ----------
    bar : its label, and its rows as a multiple of the bound; of the root the label alone.
    below : its children that may be shown.
    others : what else lies below it, in words.
    """

    bar: Bar
    below: tuple[TreeNode, ...] = ()
    others: str = ""


@dataclass(frozen=True)
class TreeCounts:
    """A tree as it may be shown.

    Parameters
    ----------
    root : None where fewer than the bound have a value.
    persons : True where persons are counted in place of rows.
    """

    column: str
    leaves: int
    height: int
    bound: int
    persons: bool
    root: TreeNode | None


def tree_counts(
    session: Session,
    relation: Relation,
    column: str,
    tree: Hierarchy,
    k: int,
    entity: str | None = None,
) -> TreeCounts:
    """Count rows below each node; where persons have several, persons. No label of few is kept.

    Parameters
    ----------
    k : a label is shown where at least so many rows, and never fewer than 5, lie below it.

    Raises
    ------
    HierarchyBroken : a value of the column is no leaf.
    InvalidParameter : the column holds timestamps, which databases spell differently.
    InsufficientRights : the columns may not be read.
    """
    [attribute] = session.inspect(relation, [relation.attribute(column)])
    if attribute.kind is Kind.TIMESTAMP:
        raise InvalidParameter(
            f'Column "{column}" holds timestamps.', hint="Cast it to a date in a view."
        )
    session.require_rights(relation, [column, *([entity] if entity else [])])
    person_column = relation.attribute(entity) if entity else None
    rows = _below(tree, *_count_values(session, relation, attribute, tree, person_column))
    bound = least_displayed_rows(k)
    root = _node(tree, rows, k, Bar(tree.labels[0], 0)) if rows[0] >= bound else None
    return TreeCounts(column, tree.n_leaves, tree.height, bound, bool(entity), root)


def _count_values(
    session: Session,
    relation: Relation,
    attribute: Attribute,
    tree: Hierarchy,
    person_column: Attribute | None,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64] | None]:
    """Leaf positions with the rows of each; with ``whose`` each with a person's code."""
    text = session.text_of(attribute)
    if person_column is None:
        query = statements.value_counts(relation.relation, text)
        value_rows = [
            (value, int(size)) for value, size in session.rows(query) if value is not None
        ]
    else:
        query = statements.persons_of_values(
            relation.relation, text, session.compared(person_column)
        )
        numbers: dict[object, int] = {}
        value_rows = [
            (value, numbers.setdefault(person, len(numbers)))
            for value, person in session.rows(query)
        ]
    texts = spell_as_leaves(
        tree, [leaf_text(value, attribute) for value, _ in value_rows], attribute
    )
    leaves = tree.encode(texts, attribute.name)
    second = np.array([number for _, number in value_rows], np.int64)
    if person_column is None:
        return leaves, second, None
    return leaves, np.ones(len(value_rows), np.int64), second


def _below(
    tree: Hierarchy,
    leaves: NDArray[np.int32],
    rows: NDArray[np.int64],
    persons: NDArray[np.int64] | None,
) -> NDArray[np.int64]:
    """int64 (m,), the rows at or below each node, or the persons, each counted once a node."""
    totals = np.zeros(len(tree.labels), np.int64)
    nodes = tree.leaves[leaves]
    while len(nodes):
        if persons is not None:
            # A person with several values below a node is one person there.
            pairs = np.unique(np.stack([nodes, persons], axis=1), axis=0)
            nodes, persons = pairs[:, 0], pairs[:, 1]
            rows = np.ones(len(nodes), np.int64)
        np.add.at(totals, nodes, rows)
        inner = nodes > 0
        nodes, rows = tree.parents[nodes[inner]], rows[inner]
        persons = None if persons is None else persons[inner]
    return totals


def _node(tree: Hierarchy, rows: NDArray[np.int64], k: int, bar: Bar) -> TreeNode:
    """The node with what may be shown below it: its upper levels first, so many nodes in all."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents[1:].tolist(), 1):
        children.setdefault(parent, []).append(node)
    below: dict[int, tuple[list[tuple[int, Bar]], str]] = {}
    waiting, left = deque([0]), MOST_NODES
    while waiting:
        node = waiting.popleft()
        visible, others = _visible_nodes(tree, rows, children.get(node, []), k)
        left -= len(visible)
        below[node] = (visible, others) if left >= 0 else ([], "more below, not shown")
        waiting.extend(child for child, _ in below[node][0])

    def build_node(node: int, bar: Bar) -> TreeNode:
        visible, others = below[node]
        return TreeNode(
            bar, tuple(build_node(child, child_bar) for child, child_bar in visible), others
        )

    return build_node(0, bar)


def _visible_nodes(
    tree: Hierarchy, rows: NDArray[np.int64], nodes: Sequence[int], k: int
) -> tuple[list[tuple[int, Bar]], str]:
    """Of some nodes those that many rows lie below, in the tree's order; the others in words."""
    nodes = [node for node in nodes if rows[node]]
    many = [node for node in nodes if rows[node] >= least_displayed_rows(k)]
    few = [node for node in nodes if rows[node] < least_displayed_rows(k)]
    summary = build_label_distribution(
        "",
        Role.QUASI_IDENTIFIER.value,
        k,
        [(tree.labels[node], int(rows[node])) for node in many],
        len(few),
        int(sum(rows[node] for node in few)),
    )
    bars = {bar.label: bar for bar in summary.bars}
    chosen = [(node, bars[tree.labels[node]]) for node in many if tree.labels[node] in bars]
    if nodes and not chosen:
        labels_text = pluralize(len(nodes), "label")
        return [], f"{labels_text} of fewer than {least_displayed_rows(k)} rows each"
    return chosen, summary.others
