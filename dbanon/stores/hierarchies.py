"""Hierarchies in a database: in the user's tables and views, or stored by name in the ledger.

The argument ``pulse`` is called repeatedly while a hierarchy is loaded; if it raises an exception,
loading stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import (
    HierarchyExists,
    HierarchyNotFound,
    InvalidName,
    InvalidParameter,
    MemoryLimit,
    OutputExists,
    UnsupportedType,
    nearest_names,
)
from dbanon.hierarchy.edges import (
    Edge,
    HierarchyProblem,
    Pulse,
    build_nodes,
    ignore_pulses,
    with_pulses,
)
from dbanon.hierarchy.leaves import format_leaf
from dbanon.hierarchy.spec import NAME, TABLE, HierarchySpec
from dbanon.hierarchy.tree import Hierarchy
from dbanon.release.words import now
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session

# The maximum number of rows of a table with a hierarchy. Python builds the tree in memory; this
# many rows take a few seconds.
MAX_ROWS = 1_000_000

# The number of nodes that one statement writes.
_NODES_PER_STATEMENT = 200
# The value of the ledger's column ``kind`` for stored hierarchies.
_STORED_KIND = "tree"
# The line number of an ``Edge`` whose source has no lines.
_NO_LINE = 0


@dataclass(frozen=True)
class Stored:
    """A stored hierarchy as the ledger describes it.

    Parameters
    ----------
    nodes, leaves : the numbers of nodes and of leaves.
    description : the user's description; None if there is none.
    created_at : when it was stored, as text.
    created_by : the database user who stored it; None in databases without users.
    """

    name: str
    nodes: int
    leaves: int
    description: str | None
    created_at: str
    created_by: str | None


def resolve(
    session: Session, source: Hierarchy | HierarchySpec, pulse: Pulse = ignore_pulses
) -> Hierarchy:
    """Load the hierarchy that a specification names; a hierarchy is returned unchanged.

    Parameters
    ----------
    source : the hierarchy, or the specification, which names a table or a stored hierarchy.

    Raises
    ------
    InvalidParameter : the specification builds the hierarchy from a column's values.
    """
    if isinstance(source, Hierarchy):
        return source
    if source.kind == TABLE:
        return read_table(session, parse_relation(source.value), pulse)
    if source.kind == NAME:
        return load(session, source.value)
    raise InvalidParameter(
        f'A hierarchy of kind "{source.kind}" is built from the values of a column.',
        hint=(
            "Only trees, levels, tables and files can be stored. Pass this hierarchy to the run"
            " that anonymizes the column: `hierarchies`."
        ),
    )


def read_table(session: Session, name: RelationName, pulse: Pulse = ignore_pulses) -> Hierarchy:
    """Read a hierarchy from a table or view, in the form that its column names indicate.

    The columns are either ``child`` and ``parent``, where the root's parent is NULL or is not a
    child in any row; or ``leaf``, ``level1``, … up to the root, where a NULL skips the level. If
    there is a column ``position``, the leaves are in its order; otherwise they are ordered by code
    point. All other columns are ignored.

    Raises
    ------
    InvalidParameter : the columns have other names.
    HierarchyBroken : the rows do not form a tree; the error lists all problems.
    MemoryLimit : the table has more than ``MAX_ROWS`` rows.
    """
    source = session.catalog.find_source(name)
    columns = _tree_columns(source)
    column_names = {attribute.name for attribute in source.schema.attributes}
    position_columns = [source.attribute("position")] if "position" in column_names else []
    session.catalog.require_readable(source, [a.name for a in (*columns, *position_columns)])
    # Find in the values what the types leave open, such as the scale of decimals.
    columns = session.complete_attributes_from_values(source, columns)
    for attribute in columns:
        if attribute.kind in (Kind.TIMESTAMP, Kind.OTHER):
            raise UnsupportedType(
                f'Column "{attribute.name}" of {source.name} is of type {attribute.sql_type}, and'
                " labels are text, numbers or dates.",
                hint="Cast it to text in a view, and read the hierarchy from the view.",
            )
    if position_columns and position_columns[0].kind is not Kind.INTEGER:
        raise UnsupportedType(f'Column "position" of {source.name} is not a whole number.')
    text_expressions = [
        session.dialect.text_of(attribute) for attribute in (*columns, *position_columns)
    ]
    text_rows = session.rows(
        statements.read_tree(source.relation_to_read, text_expressions, MAX_ROWS + 1)
    )
    if len(text_rows) > MAX_ROWS:
        raise MemoryLimit(f"The hierarchy in {source.name} has more than {MAX_ROWS} rows.")
    if position_columns:
        text_rows = [
            row[:-1] for row in sorted(text_rows, key=lambda row: _position_key(row[-1], row[:-1]))
        ]
    else:
        text_rows.sort(key=_code_point_key)
    rows = [
        [
            None if text is None else format_leaf(text, attribute)
            for text, attribute in zip(row, columns, strict=True)
        ]
        for row in with_pulses(text_rows, pulse)
    ]
    edges = _parent_edges(rows) if columns[0].name == "child" else _path_edges(rows, pulse)
    n_rows_without_label = sum(row[0] is None for row in rows)
    missing_label = HierarchyProblem(
        kind="empty label", line=_NO_LINE, text="a row has no label", label=""
    )
    problems = [missing_label] * n_rows_without_label
    return Hierarchy(*build_nodes(edges, f"The hierarchy in {source.name}", problems, pulse))


def _exists_error(name: str) -> HierarchyExists:
    """The error for a name that another stored hierarchy has."""
    return HierarchyExists(
        f'There is a hierarchy "{name}" already.', hint="Choose another name, or replace it."
    )


def store(
    session: Session, name: str, tree: Hierarchy, *, replace: bool, description: str | None = None
) -> None:
    """Store a hierarchy by name.

    Raises
    ------
    HierarchyExists : the name is taken, and ``replace`` is False.
    LedgerNotTrusted : the ledger belongs to another role.
    InvalidName : the name is empty or holds a NUL character.
    """
    if not name or "\0" in name:
        raise InvalidName("The name of a hierarchy is empty or holds a NUL character.")
    if any("\0" in label for label in tree.labels):
        raise InvalidParameter("A label of the hierarchy holds a NUL character.")
    session.ledger.require_trusted()
    session.ledger.ensure_current()
    if name in _stored_names(session):
        if not replace:
            raise _exists_error(name)
        _delete_stored(session, name)
    row = {
        "name": name,
        "kind": _STORED_KIND,
        "description": description,
        "created_at": session.ledger.to_timestamp(now()),
        "created_by": session.catalog.find_current_user(),
    }
    try:
        session.connection.insert_rows(
            session.ledger.table("hierarchy"), list(row), [[*row.values()]]
        )
    except OutputExists:
        # Another session has just stored one of this name.
        raise _exists_error(name) from None
    nodes = session.ledger.table("hierarchy_node")
    columns = ("hierarchy", "node", "parent", "label")
    parents: list[int | None] = tree.parents.tolist()
    # The first node is the root.
    parents[0] = None
    numbered_nodes = list(zip(range(len(parents)), parents, tree.labels, strict=True))
    for start in range(0, len(numbered_nodes), _NODES_PER_STATEMENT):
        batch = [(name, *node) for node in numbered_nodes[start : start + _NODES_PER_STATEMENT]]
        session.connection.insert_rows(nodes, columns, batch)


def load(session: Session, name: str) -> Hierarchy:
    """Load the stored hierarchy of this name.

    Raises
    ------
    HierarchyNotFound : there is none.
    """
    _require_stored(session, name)
    nodes = session.rows(
        f"SELECT label, parent FROM {session.ledger.table('hierarchy_node').quoted}"
        " WHERE hierarchy = ? ORDER BY node",
        (name,),
    )
    labels = [label for label, _ in nodes]
    parents = [-1 if parent is None else parent for _, parent in nodes]
    try:
        return Hierarchy(labels, parents)
    except ValueError:
        # Someone edited the ledger. ``build_nodes`` raises an error that names the mistake. A node
        # whose parent does not exist becomes a second root.
        edges = [
            (label, None if parent == -1 or parent >= len(labels) else labels[parent], _NO_LINE)
            for label, parent in zip(labels, parents, strict=True)
        ]
        return Hierarchy(*build_nodes(edges, f'The stored hierarchy "{name}"'))


def drop(session: Session, name: str) -> None:
    """Remove a stored hierarchy.

    Raises
    ------
    HierarchyNotFound : there is none.
    """
    _require_stored(session, name)
    _delete_stored(session, name)


def list_hierarchies(session: Session) -> list[Stored]:
    """List the stored hierarchies, ordered by name."""
    if not _has_stored_hierarchies(session):
        return []
    nodes = session.ledger.table("hierarchy_node").quoted
    # A leaf is a node that is not the parent of another node.
    stored_rows = session.rows(
        "SELECT h.name, count(n.node), count(n.node) - count(DISTINCT n.parent), h.description,"
        " CAST(h.created_at AS VARCHAR(40)), h.created_by"
        f" FROM {session.ledger.table('hierarchy').quoted} AS h"
        f" JOIN {nodes} AS n ON n.hierarchy = h.name"
        " GROUP BY h.name, h.description, h.created_at, h.created_by"
    )
    return sorted((Stored(*row) for row in stored_rows), key=lambda stored: stored.name)


def _tree_columns(source: Relation) -> tuple[Attribute, ...]:
    """The columns that describe the tree: child and parent, or leaf and all levels to the root."""
    attribute_by_name = {attribute.name: attribute for attribute in source.schema.attributes}
    if "child" in attribute_by_name and "parent" in attribute_by_name:
        return attribute_by_name["child"], attribute_by_name["parent"]
    levels: list[Attribute] = []
    while (name := f"level{len(levels) + 1}") in attribute_by_name:
        levels.append(attribute_by_name[name])
    if "leaf" in attribute_by_name and levels:
        return attribute_by_name["leaf"], *levels
    raise InvalidParameter(
        f"{source.name} has no columns with names from which a hierarchy can be read.",
        hint="Name the columns child and parent, or leaf, level1, level2 and so on, in a view.",
    )


def _parent_edges(rows: Sequence[Sequence[str | None]]) -> list[Edge]:
    """Convert rows of child and parent to edges."""
    return [(child, parent, _NO_LINE) for child, parent in rows if child is not None]


def _path_edges(rows: Sequence[Sequence[str | None]], pulse: Pulse) -> list[Edge]:
    """Convert rows, which list labels from a leaf to the root, to edges.

    Equal labels next to each other in a row are one node.
    """
    edges: list[Edge] = []
    for leaf, *levels in with_pulses(rows, pulse):
        if leaf is None:
            continue
        path = [leaf]
        path += [label for label in levels if label is not None]
        path = [label for i, label in enumerate(path) if not i or label != path[i - 1]]
        edges += [(child, parent, _NO_LINE) for child, parent in pairwise(path)]
        # An edge to None marks the root, and an edge from a label to itself marks a leaf.
        edges += [(path[-1], None, _NO_LINE), (leaf, leaf, _NO_LINE)]
    return edges


def _code_point_key(row: Sequence[str | None]) -> list[tuple[str, bool]]:
    """The key to sort rows by the code points of their texts; NULL follows the empty text."""
    return [("" if text is None else text, text is None) for text in row]


def _position_key(
    position: str | None, row: Sequence[str | None]
) -> tuple[bool, int, list[tuple[str, bool]]]:
    """The key to sort rows by position, then by their texts; rows without position come last."""
    return (position is None, int(position or 0), _code_point_key(row))


def _has_stored_hierarchies(session: Session) -> bool:
    """Whether the ledger has a table of hierarchies; raises LedgerNotTrusted."""
    session.ledger.require_trusted()
    return session.ledger.has_table("hierarchy")


def _stored_names(session: Session) -> list[str]:
    name_rows = session.rows(f"SELECT name FROM {session.ledger.table('hierarchy').quoted}")
    return [name for (name,) in name_rows]


def _require_stored(session: Session, name: str) -> None:
    """Check that a hierarchy of this name is stored; raises HierarchyNotFound."""
    names = _stored_names(session) if _has_stored_hierarchies(session) else []
    if name not in names:
        raise HierarchyNotFound(
            f'There is no stored hierarchy "{name}".', hint=nearest_names(name, names)
        )


def _delete_stored(session: Session, name: str) -> None:
    for table, column in (("hierarchy_node", "hierarchy"), ("hierarchy", "name")):
        relation = session.ledger.table(table)
        session.run(f"DELETE FROM {relation.quoted} WHERE {column} = ?", (name,))
