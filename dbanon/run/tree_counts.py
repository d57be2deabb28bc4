"""Count the rows at or below each node of a hierarchy, and hide the nodes with few rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.schema import Attribute, Kind, Role
from dbanon.errors import InvalidParameter, pluralize
from dbanon.hierarchy.leaves import format_leaf, spell_as_leaves
from dbanon.hierarchy.tree import Hierarchy
from dbanon.release.distribution import Bar, build_label_distribution, least_displayed_rows
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.session import Session

# A page with more nodes would not be readable.
MAX_NODES = 150


@dataclass(frozen=True)
class TreeNode:
    """A node with enough rows below it to be shown.

    Parameters
    ----------
    bar : the node's label, and its number of rows as a multiple of ``TreeCounts.bound``; for the
        root, only the label.
    children : the children with enough rows to be shown.
    others_text : a description of the children that have too few rows.
    """

    bar: Bar
    children: tuple[TreeNode, ...] = ()
    others_text: str = ""


@dataclass(frozen=True)
class TreeCounts:
    """A hierarchy with the counts that may be shown.

    Parameters
    ----------
    leaves, height : the number of leaves, and of levels above them.
    bound : the smallest number of rows, or persons, that is shown.
    counts_persons : True if persons are counted instead of rows.
    root : the root of the tree; None if fewer rows than ``bound`` have a value.
    """

    column: str
    leaves: int
    height: int
    bound: int
    counts_persons: bool
    root: TreeNode | None


def count_tree(
    session: Session,
    relation: Relation,
    column: str,
    tree: Hierarchy,
    k: int,
    entity: str | None = None,
) -> TreeCounts:
    """Count the rows at or below each node of a column's hierarchy; leave out rare nodes.

    Parameters
    ----------
    k : a node is shown if at least k rows, and at least 5, lie at or below it.
    entity : column that identifies persons, to count persons instead of rows.

    Raises
    ------
    HierarchyBroken : a value of the column is not a leaf.
    InvalidParameter : the column holds timestamps, which databases spell differently.
    InsufficientRights : the columns may not be read.
    """
    [attribute] = session.complete_attributes_from_values(relation, [relation.attribute(column)])
    if attribute.kind is Kind.TIMESTAMP:
        raise InvalidParameter(
            f'Column "{column}" holds timestamps.', hint="Cast it to a date in a view."
        )
    session.catalog.require_readable(relation, [column, *([entity] if entity else [])])
    person_column = relation.attribute(entity) if entity else None
    # By node; these are persons if there is an entity.
    rows = _count_below(tree, *_count_values(session, relation, attribute, tree, person_column))
    bound = least_displayed_rows(k)
    # The bar of the root only has a label, and no number of rows.
    root = _build_tree(tree, rows, k, Bar(tree.labels[0], 0)) if rows[0] >= bound else None
    return TreeCounts(
        column=column,
        leaves=tree.n_leaves,
        height=tree.height,
        bound=bound,
        counts_persons=bool(entity),
        root=root,
    )


def _count_values(
    session: Session,
    relation: Relation,
    attribute: Attribute,
    tree: Hierarchy,
    person_column: Attribute | None,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64] | None]:
    """Count rows by leaf, or list each pair of a leaf and a person once.

    Returns three arrays of v entries: the position of a leaf, int32; its number of rows, int64; and
    the code of a person, int64. The last one is None without a person column.
    """
    # SQL for the column's values as text.
    text_sql = session.dialect.text_of(attribute)
    if person_column is None:
        query = statements.value_counts(relation.relation_to_read, text_sql)
        pairs = [(value, int(n_rows)) for value, n_rows in session.rows(query) if value is not None]
    else:
        query = statements.persons_of_values(
            relation.relation_to_read, text_sql, session.dialect.grouping_sql(person_column)
        )
        person_codes: dict[object, int] = {}
        pairs = [
            (value, person_codes.setdefault(person, len(person_codes)))
            for value, person in session.rows(query)
        ]
    texts = spell_as_leaves(tree, [format_leaf(value, attribute) for value, _ in pairs], attribute)
    leaves = tree.encode(texts, attribute.name)
    rows_or_persons = np.array([rows_or_person for _, rows_or_person in pairs], np.int64)
    if person_column is None:
        return leaves, rows_or_persons, None
    return leaves, np.ones(len(pairs), np.int64), rows_or_persons


def _count_below(
    tree: Hierarchy,
    leaves: NDArray[np.int32],
    rows: NDArray[np.int64],
    persons: NDArray[np.int64] | None,
) -> NDArray[np.int64]:
    """Count the rows at or below each of the m nodes of a hierarchy, int64 (m,).

    If ``persons`` is given, count persons instead, each of them once per node. The other arguments
    are as returned by ``_count_values``.
    """
    totals = np.zeros(len(tree.labels), np.int64)
    # ``tree.leaves`` has the node of each leaf. Begin there, and go up a level in each round.
    nodes = tree.leaves[leaves]
    while len(nodes):
        if persons is not None:
            # Count a person with several values below a node once.
            pairs = np.unique(np.stack([nodes, persons], axis=1), axis=0)
            nodes, persons = pairs[:, 0], pairs[:, 1]
            rows = np.ones(len(nodes), np.int64)
        np.add.at(totals, nodes, rows)
        # Continue with the parents. Node 0 is the root.
        has_parent = nodes > 0
        nodes, rows = tree.parents[nodes[has_parent]], rows[has_parent]
        persons = None if persons is None else persons[has_parent]
    return totals


def _build_tree(tree: Hierarchy, rows: NDArray[np.int64], k: int, bar: Bar) -> TreeNode:
    """Build the tree of nodes that may be shown.

    It has at most ``MAX_NODES`` nodes; upper levels are completed first.

    Parameters
    ----------
    rows : int64 (m,), the number of rows, or persons, at or below each node.
    bar : the bar of the root.
    """
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents[1:].tolist(), 1):
        children.setdefault(parent, []).append(node)
    # By node: its visible children with their bars, and a text about its other children.
    shown_below: dict[int, tuple[list[tuple[int, Bar]], str]] = {}
    # Node 0 is the root.
    pending_nodes, nodes_left = deque([0]), MAX_NODES
    while pending_nodes:
        node = pending_nodes.popleft()
        visible_nodes, others_text = _select_visible_nodes(tree, rows, children.get(node, []), k)
        # Once there are more nodes than allowed, the children of the remaining nodes are left out.
        nodes_left -= len(visible_nodes)
        if nodes_left < 0 and visible_nodes:
            visible_nodes, others_text = [], "more below, not shown"
        shown_below[node] = (visible_nodes, others_text)
        pending_nodes.extend(child for child, _ in shown_below[node][0])

    def build_node(node: int, bar: Bar) -> TreeNode:
        visible_nodes, others_text = shown_below[node]
        return TreeNode(
            bar,
            tuple(build_node(child, child_bar) for child, child_bar in visible_nodes),
            others_text,
        )

    return build_node(0, bar)


def _select_visible_nodes(
    tree: Hierarchy, rows: NDArray[np.int64], nodes: Sequence[int], k: int
) -> tuple[list[tuple[int, Bar]], str]:
    """Select the nodes that have enough rows to be shown, from siblings.

    Returns pairs of a node and its bar, in the tree's order, and a description of the other nodes.
    """
    nodes = [node for node in nodes if rows[node]]
    frequent_nodes = [node for node in nodes if rows[node] >= least_displayed_rows(k)]
    rare_nodes = [node for node in nodes if rows[node] < least_displayed_rows(k)]
    summary = build_label_distribution(
        name="",
        role=Role.QUASI_IDENTIFIER.value,
        k=k,
        labels=[(tree.labels[node], int(rows[node])) for node in frequent_nodes],
        other_values=len(rare_nodes),
        other_rows=int(sum(rows[node] for node in rare_nodes)),
    )
    # The summary has bars only for the most frequent labels, up to a limit. Nodes without a bar are
    # part of ``summary.others``.
    bars = {bar.label: bar for bar in summary.bars}
    shown_nodes = [
        (node, bars[tree.labels[node]]) for node in frequent_nodes if tree.labels[node] in bars
    ]
    if nodes and not shown_nodes:
        labels_text = pluralize(len(nodes), "label")
        return [], f"{labels_text} of fewer than {least_displayed_rows(k)} rows each"
    return shown_nodes, summary.others
