"""Hierarchy: the generalization tree of one attribute.

Nodes are numbered depth first from the root, which is node 0, and leaves have positions from left
to right. So the leaves below a node are a range of positions, and the lowest common ancestor of a
set of leaves is that of its first and last leaf.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.files import open_regular_file
from dbanon.data.pieces import split_records
from dbanon.hierarchy.edges import (
    Edge,
    HierarchyProblem,
    Pulse,
    build_nodes,
    hierarchy_error,
    ignore_pulses,
    with_pulses,
)

# The branches below a node by its label, or the labels of its leaves.
NestedTree: TypeAlias = "Mapping[str, NestedTree] | Iterable[str]"

# ARX uses the semicolon. The comma is last because labels may contain one.
_DELIMITERS = (";", "\t", "|", ",")


class Hierarchy:
    """A generalization tree as a parent array; immutable.

    If a value is also an inner label (E11 above E11.9), the first child of the inner node is a leaf
    with the same label. The leaf is released as the inner node, because readers cannot distinguish
    them.

    Parameters
    ----------
    labels : the label of each of the m nodes, depth first, the root first.
    parents : int (m,), the parent of each node; -1 for the root.
    """

    labels: tuple[str, ...]
    parents: NDArray[np.int32]

    def __init__(self, labels: Sequence[str], parents: Sequence[int] | NDArray[np.integer]) -> None:
        self.labels = tuple(labels)
        self.parents = np.array(parents, np.int32)
        self.parents.setflags(write=False)
        m = len(self.labels)
        if m != len(self.parents):
            raise ValueError("each node must have one label and one parent")
        # In depth-first order, a node's parent is the previous node or an ancestor of it.
        if not m or self.parents[0] != -1 or (self.parents[1:] < 0).any():
            raise ValueError("the first node must be the only root")
        path = [0]
        for node in range(1, m):
            while path and path[-1] != self.parents[node]:
                path.pop()
            if not path:
                raise ValueError("nodes must be in depth-first order")
            path.append(node)
        if len(set(self.labels)) + len(self._same_label_leaves) != m:
            raise ValueError("labels must be unique, except a first leaf below its own label")

    # --- the tree --------------------------------------------------------------------------------

    @cached_property
    def depths(self) -> NDArray[np.int32]:
        """The number of edges from the root to each node, int32 (m,)."""
        depths = np.zeros(len(self.labels), np.int32)
        for node, parent in enumerate(self.parents[1:].tolist(), 1):
            depths[node] = depths[parent] + 1
        return depths

    @property
    def height(self) -> int:
        """The number of edges from the root to the deepest leaf."""
        return int(self.depths.max())

    @cached_property
    def leaves(self) -> NDArray[np.int32]:
        """The node of each leaf, from left to right, int32 (L,)."""
        is_inner = np.zeros(len(self.labels), bool)
        is_inner[self.parents[1:]] = True
        return np.flatnonzero(~is_inner).astype(np.int32)

    @cached_property
    def _same_label_leaves(self) -> NDArray[np.int64]:
        """The nodes of the leaves that have the same label as their parent, int64."""
        same_label_nodes = [
            node
            for node in range(1, len(self.labels))
            if self.parents[node] == node - 1 and self.labels[node] == self.labels[node - 1]
        ]
        inner_nodes = set(self.parents.tolist())
        return np.array([node for node in same_label_nodes if node not in inner_nodes], np.int64)

    def _released_nodes(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Replace each leaf that has the same label as its parent by the parent.

        Parameters
        ----------
        nodes : int32, nodes of the tree.
        """
        if not self._same_label_leaves.size:
            return nodes
        has_same_label = np.isin(nodes, self._same_label_leaves)
        return np.where(has_same_label, self.parents[nodes], nodes).astype(np.int32, copy=False)

    @property
    def n_leaves(self) -> int:
        """The number of leaves, L."""
        return len(self.leaves)

    @cached_property
    def leaf_depths(self) -> NDArray[np.int32]:
        """The number of edges from the root to each leaf, int32 (L,)."""
        return self.depths[self.leaves]

    @cached_property
    def heights(self) -> NDArray[np.int64]:
        """The number of edges from each node down to its deepest leaf, int64 (m,)."""
        heights = np.zeros(len(self.labels), np.int64)
        parents = self.parents.tolist()
        for node in range(len(heights) - 1, 0, -1):
            heights[parents[node]] = max(heights[parents[node]], heights[node] + 1)
        return heights

    @cached_property
    def leaf_ranges(self) -> NDArray[np.int32]:
        """The first and the last leaf position below each node, int32 (m, 2)."""
        m = len(self.labels)
        ranges = np.empty((m, 2), np.int32)
        ranges[:, 0], ranges[:, 1] = self.n_leaves, -1
        ranges[self.leaves] = np.arange(self.n_leaves)[:, None]
        for node in range(m - 1, 0, -1):
            parent = self.parents[node]
            ranges[parent, 0] = min(ranges[parent, 0], ranges[node, 0])
            ranges[parent, 1] = max(ranges[parent, 1], ranges[node, 1])
        return ranges

    @cached_property
    def neighbor_ancestor_depths(self) -> NDArray[np.int32]:
        """The depth of the lowest common ancestor of each leaf and the next one, int32 (L - 1,).

        The lowest common ancestor of leaves i < j has the depth that is the minimum of
        ``neighbor_ancestor_depths[i:j]``.
        """
        return self.depths[self.common_ancestors(self.leaves[:-1], self.leaves[1:])]

    def node(self, label: str) -> int:
        """Return the highest node with this label; raises KeyError if missing."""
        return self._nodes[label]

    @cached_property
    def _nodes(self) -> dict[str, int]:
        """The highest node of each label."""
        last_node = len(self.labels) - 1
        # The first node of a label comes last, and replaces the others.
        return {label: last_node - index for index, label in enumerate(reversed(self.labels))}

    @cached_property
    def positions(self) -> dict[str, int]:
        """The leaf position of each leaf's label."""
        return {self.labels[node]: position for position, node in enumerate(self.leaves.tolist())}

    @cached_property
    def label_of_number(self) -> dict[Decimal, str]:
        """The leaf label of each number, without numbers that several labels spell."""
        labels: dict[Decimal, str] = {}
        ambiguous_numbers: set[Decimal] = set()
        for label in self.positions:
            with suppress(InvalidOperation):
                number = Decimal(label)
                if number.is_finite() and labels.setdefault(number, label) != label:
                    ambiguous_numbers.add(number)
        return {
            number: label for number, label in labels.items() if number not in ambiguous_numbers
        }

    def common_ancestors(
        self, first: NDArray[np.integer], second: NDArray[np.integer]
    ) -> NDArray[np.int32]:
        """Find the lowest common ancestors of pairs of nodes, int32, in the shape of the arguments.

        Parameters
        ----------
        first, second : nodes, int, of the same shape.
        """
        left, right = np.array(first, np.int32), np.array(second, np.int32)
        while (differs := left != right).any():
            # Parents have smaller numbers, so the larger of two different nodes is not the answer.
            climb_left = differs & (left > right)
            climb_right = differs & ~climb_left
            left[climb_left] = self.parents[left[climb_left]]
            right[climb_right] = self.parents[right[climb_right]]
        return left

    def common_nodes(
        self, low: NDArray[np.integer], high: NDArray[np.integer]
    ) -> NDArray[np.int32]:
        """Return the node as which each range of leaves is released, int32 (m,).

        It is the lowest common ancestor of the leaves.

        Parameters
        ----------
        low, high : int (m,), the first and the last leaf position of each range.
        """
        return self._released_nodes(self.common_ancestors(self.leaves[low], self.leaves[high]))

    def loss(self, leaves: AnyArray, nodes: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the share of lost edges: 0 if a leaf itself is released, 1 if the root is.

        Of the edges from a leaf up to the root, those up to the released node are lost. A leaf that
        is the root loses nothing.

        Parameters
        ----------
        leaves : int (n,), leaf positions.
        nodes : int (n,), the released nodes: the leaves or nodes above them.
        """
        shares = np.zeros(len(leaves))
        # Work piece by piece to save memory.
        for piece in split_records(len(leaves)):
            depths = self.leaf_depths[leaves[piece]]
            generalized_edges = depths - self.depths[nodes[piece]]
            np.divide(generalized_edges, depths, out=shares[piece], where=depths > 0)
        return shares

    @cached_property
    def is_balanced(self) -> bool:
        """True if all leaves have the same depth, so a node has the same loss for all of them."""
        return int(self.leaf_depths.min(initial=self.height)) == self.height

    def label_loss(self, nodes: NDArray[np.integer]) -> NDArray[np.float64]:
        """Compute the mean ``loss`` of the leaves below each node, float64 (m,).

        Parameters
        ----------
        nodes : int (m,).
        """
        depths = self.leaf_depths.astype(np.float64)
        # A leaf of depth d loses 1 - (depth of the node) / d.
        shares = np.divide(1.0, depths, out=np.zeros(len(depths)), where=depths > 0)
        cumulative = np.concatenate(([0.0], np.cumsum(shares)))
        first, last = self.leaf_ranges[nodes].T
        retained = (
            self.depths[nodes] * (cumulative[last + 1] - cumulative[first]) / (last + 1 - first)
        )
        # A leaf that is the root loses nothing.
        return np.asarray(np.where(self.height > 0, 1.0 - retained, 0.0))

    def path(self, label: str) -> tuple[str, ...]:
        """List the labels from this one up to the root."""
        return self._path_of_node(self.node(label))

    def _path_of_node(self, node: int) -> tuple[str, ...]:
        """List the labels from a node up to the root."""
        labels = [self.labels[node]]
        while node:
            node = int(self.parents[node])
            labels.append(self.labels[node])
        return tuple(labels)

    def nodes_at_level(self, level: int) -> NDArray[np.int32]:
        """Return the node as which each leaf is released at a level, int32 (L,).

        It is the ancestor ``level`` edges above the leaf, or the root if there are fewer edges.
        """
        nodes: NDArray[np.int32] = self.leaves.copy()
        for _ in range(level):
            nodes = np.maximum(self.parents[nodes], 0).astype(np.int32, copy=False)
        return self._released_nodes(nodes)

    @property
    def sha256(self) -> str:
        """A fingerprint of labels and parents, in hexadecimal digits."""
        import hashlib

        content = json.dumps([self.labels, self.parents.tolist()]).encode()
        return hashlib.sha256(content).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hierarchy):
            return NotImplemented
        return self.labels == other.labels and bool((self.parents == other.parents).all())

    def __hash__(self) -> int:
        return hash((self.labels, self.parents.tobytes()))

    def __repr__(self) -> str:
        return f"Hierarchy({self.n_leaves} leaves, height {self.height})"

    # --- values of a column ----------------------------------------------------------------------

    def check(self, values: Iterable[str]) -> tuple[HierarchyProblem, ...]:
        """Report all values of a column that are not leaves of this tree."""
        problems = []
        for value in sorted(set(values)):
            if value in self.positions:
                continue
            is_inner = value in self._nodes
            kind = "not a leaf" if is_inner else "missing value"
            text = (
                "a value is a label above others" if is_inner else "a value is not in the hierarchy"
            )
            problems.append(HierarchyProblem(kind, 0, text, value))
        return tuple(problems)

    def encode(self, values: Sequence[str], column: str) -> NDArray[np.int32]:
        """Return the leaf position of each value, int32.

        Raises
        ------
        HierarchyBroken : a value is not a leaf.
        """
        problems = self.check(values)
        if problems:
            raise hierarchy_error(
                problems,
                f'The hierarchy of column "{column}" does not cover its values',
                hint="Give each value a row of its own, also one that is a label above others; in a"
                " tree list it below itself. For the values see `problems()`.",
            )
        return np.array([self.positions[value] for value in values], np.int32)

    # --- conversions -----------------------------------------------------------------------------

    @classmethod
    def from_levels(
        cls, rows: Iterable[Sequence[str]], pulse: Pulse = ignore_pulses, first: int = 1
    ) -> Hierarchy:
        """Build from rows (leaf, level 1, ..., root).

        A label that is repeated within a row is one node. A leaf may also be an inner label of
        other rows.

        Parameters
        ----------
        pulse : called regularly; an exception from it cancels the work.
        first : the line number of the first row, for errors.

        Raises
        ------
        HierarchyBroken : the rows do not form a tree; the error lists all problems.
        """
        edges: list[Edge] = []
        for line, row in enumerate(with_pulses(rows, pulse), first):
            path = [
                str(label)
                for level, label in enumerate(row)
                if not level or label != row[level - 1]
            ]
            parents = [*path[1:], None] if path else []
            edges += [(child, parent, line) for child, parent in zip(path, parents, strict=True)]
            # Mark the leaf as a value, because it may be an inner label of other rows.
            edges += [(label, label, line) for label in path[:1]]
        return cls(*build_nodes(edges, pulse=pulse))

    @classmethod
    def from_parents(cls, rows: Iterable[tuple[str, str | None]]) -> Hierarchy:
        """Build from rows (child, parent).

        The root has the parent None, or no row as a child. A row whose child is its own parent
        marks an inner label that is also a value.

        Raises
        ------
        HierarchyBroken : the rows do not form a tree; the error lists all problems.
        """
        edges: list[Edge] = [
            (str(child), parent, line) for line, (child, parent) in enumerate(rows, 1)
        ]
        return cls(*build_nodes(edges))

    @classmethod
    def from_nested(cls, tree: NestedTree) -> Hierarchy:
        """Build from ``{root: {child: {...}, child: [leaf, ...]}}``.

        Raises
        ------
        HierarchyBroken : the object is not a tree; the error lists all problems.
        TypeError : a branch is neither an object nor a list.
        """
        edges: list[Edge] = []

        def walk(branch: NestedTree, parent: str | None) -> None:
            if isinstance(branch, str):
                raise TypeError("a branch of a hierarchy must be an object or a list, not text")
            branches: Iterable[tuple[str, NestedTree]] = (
                branch.items() if isinstance(branch, Mapping) else ((leaf, ()) for leaf in branch)
            )
            for label, subbranch in branches:
                edges.append((str(label), parent, 0))
                walk(subbranch, str(label))

        walk(tree, None)
        return cls(*build_nodes(edges))

    @classmethod
    def from_csv(cls, text: str, delimiter: str | None = None) -> Hierarchy:
        """Build from CSV text with lines of leaf, level 1, ..., root (``read_levels``).

        Raises
        ------
        HierarchyBroken : the lines do not form a tree; the error lists all problems.
        """
        rows, first_line = read_levels(text, delimiter)
        return cls.from_levels(rows, first=first_line)

    @classmethod
    def from_json(cls, content: object) -> Hierarchy:
        """Build from parsed JSON: ``{root: {child: [leaf, ...]}}``, or a list of [child, parent].

        Raises
        ------
        HierarchyBroken : the content is not a tree; the error lists all problems.
        TypeError : the content has another form, or a label is neither text nor a number.
        """
        if isinstance(content, (list, tuple)):
            return cls.from_parents([_convert_pair(pair) for pair in content])
        return cls.from_nested(_convert_branch(content))

    @classmethod
    def load(cls, path: str | Path) -> Hierarchy:
        """Read a ``.json`` file (nested, or a list of [child, parent]), or another file as CSV.

        Raises
        ------
        HierarchyBroken : the file is not a tree; the error lists all problems.
        TypeError : a JSON file has another form.
        ForeignFile : the path goes through another account's link.
        """
        path = Path(os.path.expanduser(path))
        with open_regular_file(path) as file, io.TextIOWrapper(file, "utf-8-sig") as lines:
            text = lines.read()
        if path.suffix.lower() != ".json":
            return cls.from_csv(text)
        return cls.from_json(json.loads(text))

    def to_levels(self) -> list[tuple[str, ...]]:
        """Return rows (leaf, level 1, ..., root) of equal length; short ones repeat their leaf."""
        rows = [self._path_of_node(leaf) for leaf in self.leaves.tolist()]
        width = max(len(row) for row in rows)
        return [(row[0],) * (width - len(row)) + row for row in rows]

    def to_pairs(self) -> list[tuple[str, str | None]]:
        """Return rows (child, parent), depth first; the root's parent is None."""
        return [
            (label, None if parent < 0 else self.labels[parent])
            for label, parent in zip(self.labels, self.parents.tolist(), strict=True)
        ]

    def to_csv(self) -> str:
        """Return CSV text in the format of ARX."""
        text = io.StringIO()
        csv.writer(text, delimiter=";", lineterminator="\n").writerows(self.to_levels())
        return text.getvalue()


def _convert_pair(pair: object) -> tuple[str, str | None]:
    """Convert the labels of a pair [child, parent] to text; raises TypeError as ``from_json``."""
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        raise TypeError("a pair of labels must be a list of two")
    child, parent = pair
    return _label_of(child), None if parent is None else _label_of(parent)


def _convert_branch(branch: object) -> NestedTree:
    """Convert the labels of a nested tree to text; raises TypeError as ``from_json``."""
    if isinstance(branch, Mapping):
        return {label: _convert_branch(subbranch) for label, subbranch in branch.items()}
    if isinstance(branch, (list, tuple)):
        return [_label_of(leaf) for leaf in branch]
    raise TypeError("a branch of a hierarchy must be an object or a list")


def _label_of(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise TypeError("a label must be text or a number")
    return str(value)


def flat_hierarchy(values: Sequence[str], root: str = "*") -> Hierarchy:
    """Build a hierarchy with all values directly below the root."""
    while root in values:
        root += "*"
    return (
        Hierarchy([root, *values], [-1] + [0] * len(values)) if values else Hierarchy([root], [-1])
    )


def read_levels(text: str, delimiter: str | None = None) -> tuple[list[list[str]], int]:
    """Read rows (leaf, level 1, ..., root) from CSV text, without a header.

    A delimiter that is not given is detected: semicolon, tab, bar or comma. Except for the
    semicolon, a delimiter is only chosen if all lines have equally many fields.

    The first line is a header if it has as many fields as the others and shares no label with them:
    a row of the tree would at least share the root.

    Returns
    -------
    The rows, and the line number of the first of them, from 1.

    Raises
    ------
    csv.Error : the text is not valid CSV.
    """
    rows = _read_rows(text, delimiter or _detect_delimiter(text))
    if not _has_header(rows):
        return rows, 1
    return rows[1:], 2


def _read_rows(text: str, delimiter: str) -> list[list[str]]:
    """Read CSV text; spaces after commas are skipped."""
    return list(
        csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=delimiter == ",")
    )


def _detect_delimiter(text: str) -> str:
    """Return the first delimiter that splits the lines of CSV text; see ``read_levels``."""
    for delimiter in _DELIMITERS:
        rows = [row for row in _read_rows(text, delimiter) if row]
        if rows and len(rows[0]) > 1 and (delimiter == ";" or len(set(map(len, rows))) == 1):
            return delimiter
    return ";"


def _has_header(rows: list[list[str]]) -> bool:
    """Return True if the first row is a header; see ``read_levels``."""
    first, *others = rows or [[]]
    if len(others) < 2 or len(first) < 2 or any(len(row) != len(first) for row in others if row):
        return False
    roots = {row[-1] for row in others if row}
    return len(roots) == 1 and not any(set(first) & set(row) for row in others)
