"""Hierarchy: the generalization tree of one attribute.

Nodes are numbered depth first, the root being 0, and leaves by their position from left to right,
so that the leaves below a node are a range of positions, and the lowest common ancestor of a set of
leaves is that of its first and its last one.
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.files import opened
from dbanon.hierarchy.csv_rows import rows_of
from dbanon.hierarchy.edges import Edge, Problem, Pulse, broken, no_pulse, paced, tree_of


class Hierarchy:
    """A generalization tree as a parent array; immutable.

    A value that is also a label above others (E11 above E11.9) is a leaf of the same label, first
    below that node. It is released as the node: readers cannot tell one from the other.

    Parameters
    ----------
    labels : the m nodes' labels, depth first, the root first.
    parents : int (m,), each node's parent; -1 for the root.
    """

    labels: tuple[str, ...]
    parents: NDArray[np.int32]

    def __init__(self, labels: Sequence[str], parents: Sequence[int] | NDArray[Any]) -> None:
        self.labels = tuple(labels)
        self.parents = np.array(parents, np.int32)
        self.parents.setflags(write=False)
        m = len(self.labels)
        if m != len(self.parents):
            raise ValueError("each node must have one label and one parent")
        # Depth first: a node's parent is the node before it or an ancestor of that one.
        if not m or self.parents[0] != -1 or (self.parents[1:] < 0).any():
            raise ValueError("the first node must be the only root")
        path = [0]
        for node in range(1, m):
            while path and path[-1] != self.parents[node]:
                path.pop()
            if not path:
                raise ValueError("nodes must be in depth-first order")
            path.append(node)
        if len(set(self.labels)) + len(self._own_leaves) != m:
            raise ValueError("labels must be unique, except a first leaf below its own label")

    # --- the tree --------------------------------------------------------------------------------

    @cached_property
    def depths(self) -> NDArray[np.int32]:
        """int32 (m,), edges from the root to each node."""
        depths = np.zeros(len(self.labels), np.int32)
        for node, parent in enumerate(self.parents[1:].tolist(), 1):
            depths[node] = depths[parent] + 1
        return depths

    @property
    def height(self) -> int:
        """Edges from the root to the deepest leaf."""
        return int(self.depths.max())

    @cached_property
    def leaves(self) -> NDArray[np.int32]:
        """int32 (L,), the node of each leaf, from left to right."""
        inner = np.zeros(len(self.labels), bool)
        inner[self.parents[1:]] = True
        return np.flatnonzero(~inner).astype(np.int32)

    @cached_property
    def _own_leaves(self) -> NDArray[np.int64]:
        """The leaves, as nodes, whose label is that of the node before and above them."""
        same = [
            node
            for node in range(1, len(self.labels))
            if self.parents[node] == node - 1 and self.labels[node] == self.labels[node - 1]
        ]
        inner = set(self.parents.tolist())
        return np.array([node for node in same if node not in inner], np.int64)

    def _released(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """The nodes that readers take these for, by their labels: the one above an own leaf."""
        if not self._own_leaves.size:
            return nodes
        own = np.isin(nodes, self._own_leaves)
        return np.where(own, self.parents[nodes], nodes).astype(np.int32, copy=False)

    @property
    def n_leaves(self) -> int:
        """The number of leaves, L."""
        return len(self.leaves)

    @cached_property
    def leaf_depths(self) -> NDArray[np.int32]:
        """int32 (L,), edges from the root to each leaf."""
        return self.depths[self.leaves]

    @cached_property
    def heights(self) -> NDArray[np.int64]:
        """int64 (m,), edges from each node down to its deepest leaf."""
        heights = np.zeros(len(self.labels), np.int64)
        parents = self.parents.tolist()
        for node in range(len(heights) - 1, 0, -1):
            heights[parents[node]] = max(heights[parents[node]], heights[node] + 1)
        return heights

    @cached_property
    def ranges(self) -> NDArray[np.int32]:
        """int32 (m, 2), the first and the last leaf position below each node."""
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
    def gaps(self) -> NDArray[np.int32]:
        """int32 (L - 1,), depth of the lowest common ancestor of each leaf and the next one.

        The depth of the lowest common ancestor of leaves i < j is the minimum over ``gaps[i:j]``.
        """
        return self.depths[self.ancestors(self.leaves[:-1], self.leaves[1:])]

    def node(self, label: str) -> int:
        """The highest node of this label; KeyError when there is none."""
        return self._nodes[label]

    @cached_property
    def _nodes(self) -> dict[str, int]:
        last = len(self.labels) - 1
        return {label: last - at for at, label in enumerate(reversed(self.labels))}

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each leaf by its label."""
        return {self.labels[node]: at for at, node in enumerate(self.leaves.tolist())}

    @cached_property
    def numbers(self) -> dict[Decimal, str]:
        """The labels of leaves by the number that they are; two spellings of one have none."""
        labels: dict[Decimal, str] = {}
        several: set[Decimal] = set()
        for label in self.positions:
            with suppress(InvalidOperation):
                number = Decimal(label)
                if number.is_finite() and labels.setdefault(number, label) != label:
                    several.add(number)
        return {number: label for number, label in labels.items() if number not in several}

    def ancestors(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.int32]:
        """The lowest common ancestors of pairs of nodes, int32, of the shape of the arguments."""
        left, right = np.array(first, np.int32), np.array(second, np.int32)
        while (apart := left != right).any():
            # Parents have smaller numbers: the larger of two different nodes is not the answer.
            higher = apart & (left > right)
            lower = apart & ~higher
            left[higher] = self.parents[left[higher]]
            right[lower] = self.parents[right[lower]]
        return left

    def common(self, low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.int32]:
        """What leaf positions ``low`` to ``high`` are released as: the lowest node above all."""
        return self._released(self.ancestors(self.leaves[low], self.leaves[high]))

    def loss(self, leaves: NDArray[Any], nodes: NDArray[Any]) -> NDArray[np.float64]:
        """Climbed edges over all edges, h(leaf to node) / h(leaf to root): 0 none, 1 at the root.

        A leaf that is the root itself loses nothing.

        Parameters
        ----------
        leaves : int (n,), positions of leaves.
        nodes : int (n,), what each is released as: itself or a node above it.
        """
        deep = self.leaf_depths[leaves]
        climbed = deep - self.depths[nodes]
        shares = np.zeros(len(deep))
        np.divide(climbed, deep, out=shares, where=deep > 0)
        return shares

    @cached_property
    def balanced(self) -> bool:
        """True where all leaves are as deep: then a node tells what each of them loses by it."""
        return int(self.leaf_depths.min(initial=self.height)) == self.height

    def label_loss(self, nodes: NDArray[Any]) -> NDArray[np.float64]:
        """The mean ``loss`` of the leaves below each node, float64 (m,)."""
        deep = self.leaf_depths.astype(np.float64)
        shares = np.divide(1.0, deep, out=np.zeros(len(deep)), where=deep > 0)
        up_to = np.concatenate(([0.0], np.cumsum(shares)))
        first, last = self.ranges[nodes].T
        kept = self.depths[nodes] * (up_to[last + 1] - up_to[first]) / (last + 1 - first)
        # A leaf that is the root loses nothing.
        return np.asarray(np.where(self.height > 0, 1.0 - kept, 0.0))

    def path(self, label: str) -> tuple[str, ...]:
        """The labels from this one up to the root."""
        return self._path(self.node(label))

    def _path(self, node: int) -> tuple[str, ...]:
        labels = [self.labels[node]]
        while node:
            node = int(self.parents[node])
            labels.append(self.labels[node])
        return tuple(labels)

    def at_level(self, level: int) -> NDArray[np.int32]:
        """int32 (L,), what each leaf is released as ``level`` edges above it, the root at most."""
        nodes: NDArray[np.int32] = self.leaves.copy()
        for _ in range(level):
            nodes = np.maximum(self.parents[nodes], 0).astype(np.int32, copy=False)
        return self._released(nodes)

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

    def check(self, values: Iterable[str]) -> tuple[Problem, ...]:
        """Every problem with the values of a column: those that are no leaf of this tree."""
        found = []
        for value in sorted(set(values)):
            if value in self.positions:
                continue
            inner = value in self._nodes
            kind = "not a leaf" if inner else "missing value"
            text = "a value is a label above others" if inner else "a value is not in the hierarchy"
            found.append(Problem(kind, 0, text, value))
        return tuple(found)

    def encode(self, values: Sequence[str], column: str) -> NDArray[np.int32]:
        """The leaf position of each value, int32.

        Raises
        ------
        HierarchyBroken : a value is no leaf.
        """
        problems = self.check(values)
        if problems:
            raise broken(
                problems,
                f'The hierarchy of column "{column}" does not cover its values',
                hint="Give each value a row of its own, also one that is a label above others; in a"
                " tree list it below itself. For the values see `problems()`.",
            )
        return np.array([self.positions[value] for value in values], np.int32)

    # --- forms -----------------------------------------------------------------------------------

    @classmethod
    def from_levels(
        cls, rows: Iterable[Sequence[str]], pulse: Pulse = no_pulse, first: int = 1
    ) -> Hierarchy:
        """From rows (leaf, level 1, ..., root). A label repeated along its row is one node.

        A leaf that other rows have as a label above their own is a value, too.

        ``pulse`` is called now and then: what it raises ends the making. ``first`` is the line of
        the first row.

        Raises
        ------
        HierarchyBroken : the rows are no tree; all problems are named.
        """
        edges: list[Edge] = []
        for line, row in enumerate(paced(rows, pulse), first):
            way = [str(label) for at, label in enumerate(row) if not at or label != row[at - 1]]
            ends = [*way[1:], None] if way else []
            edges += [(child, parent, line) for child, parent in zip(way, ends, strict=True)]
            edges += [(label, label, line) for label in way[:1]]
        return cls(*tree_of(edges, pulse=pulse))

    @classmethod
    def from_parents(cls, rows: Iterable[tuple[str, str | None]]) -> Hierarchy:
        """From rows (child, parent); the root's parent is None, or it is nobody's child.

        A child that is its own parent is a value beside those below it.

        Raises
        ------
        HierarchyBroken : the rows are no tree; all problems are named.
        """
        edges: list[Edge] = [
            (str(child), parent, line) for line, (child, parent) in enumerate(rows, 1)
        ]
        return cls(*tree_of(edges))

    @classmethod
    def from_nested(cls, tree: Mapping[str, Any]) -> Hierarchy:
        """From ``{root: {child: {...}, child: [leaf, ...]}}``.

        Raises
        ------
        HierarchyBroken : the rows are no tree; all problems are named.
        """
        edges: list[Edge] = []

        def walk(below: Any, parent: str | None) -> None:
            branches = below.items() if isinstance(below, Mapping) else ((x, ()) for x in below)
            for label, deeper in branches:
                edges.append((str(label), parent, 0))
                walk(deeper, str(label))

        walk(tree, None)
        return cls(*tree_of(edges))

    @classmethod
    def from_csv(cls, text: str, delimiter: str | None = None) -> Hierarchy:
        """From CSV text: leaf, level 1, ..., root in each line, as ``csv_rows.rows_of`` reads it.

        Raises
        ------
        HierarchyBroken : the lines are no tree; all problems are named.
        """
        rows, first = rows_of(text, delimiter)
        return cls.from_levels(rows, first=first)

    @classmethod
    def from_json(cls, content: Any) -> Hierarchy:
        """From what JSON holds: ``{root: {child: [leaf, ...]}}``, or a list of [child, parent].

        Raises
        ------
        HierarchyBroken : it is no tree; all problems are named.
        """
        return cls.from_parents(content) if isinstance(content, list) else cls.from_nested(content)

    @classmethod
    def load(cls, path: str | Path) -> Hierarchy:
        """From a file: ``.json`` (nested, or a list of [child, parent]), else CSV.

        Raises
        ------
        HierarchyBroken : the file is no tree; all problems are named.
        ForeignFile : it is reached by a link of another account.
        """
        path = Path(os.path.expanduser(path))
        with opened(path) as file, io.TextIOWrapper(file, "utf-8-sig") as lines:
            text = lines.read()
        if path.suffix.lower() != ".json":
            return cls.from_csv(text)
        return cls.from_json(json.loads(text))

    def to_levels(self) -> list[tuple[str, ...]]:
        """Rows (leaf, level 1, ..., root) of equal length: a short way repeats its leaf."""
        rows = [self._path(leaf) for leaf in self.leaves.tolist()]
        width = max(len(row) for row in rows)
        return [(row[0],) * (width - len(row)) + row for row in rows]

    def to_pairs(self) -> list[tuple[str, str | None]]:
        """Rows (child, parent), depth first; the root's parent is None."""
        return [
            (label, None if parent < 0 else self.labels[parent])
            for label, parent in zip(self.labels, self.parents.tolist(), strict=True)
        ]

    def to_csv(self) -> str:
        """CSV text as ARX has it."""
        text = io.StringIO()
        csv.writer(text, delimiter=";", lineterminator="\n").writerows(self.to_levels())
        return text.getvalue()


def flat(values: Sequence[str], root: str = "*") -> Hierarchy:
    """All values directly below the root."""
    while root in values:
        root += "*"
    return (
        Hierarchy([root, *values], [-1] + [0] * len(values)) if values else Hierarchy([root], [-1])
    )
