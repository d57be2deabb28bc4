"""Build a tree from edges, or report every problem with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from dbanon.data.frozen import dataclass
from dbanon.errors import HierarchyBroken

# The steps of hierarchies of dates, from the finest to the coarsest.
DATE_STEPS = ("day", "week", "month", "quarter", "year", "5y", "decade")
_MAX_LISTED_PROBLEMS = 100
_ITEMS_PER_PULSE = 10_000

T = TypeVar("T")

# A callback that is called regularly during long work; an exception from it cancels the work.
Pulse: TypeAlias = Callable[[], None]

# The label of a child, that of its parent (None for a root), and the line in the source (0 if
# unknown). An edge from a label to itself marks an inner label that is also a value.
Edge: TypeAlias = tuple[str, "str | None", int]


@dataclass(frozen=True)
class HierarchyProblem:
    """A problem with a hierarchy.

    Parameters
    ----------
    kind : ``second parent``, ``cycle``, ``missing root``, ``second root`` or ``empty label`` if the
        edges are no tree; ``missing value`` or ``not a leaf`` if the tree does not cover a column.
    line : line in the source of the hierarchy, from 1; 0 if unknown.
    text : a description without labels or values.
    label : the node or value concerned. Messages must not contain it.
    """

    kind: str
    line: int
    text: str
    label: str

    @property
    def text_with_line(self) -> str:
        """The description, prefixed with its line."""
        return f"line {self.line}: {self.text}" if self.line else self.text


def ignore_pulses() -> None:
    """Do nothing; a pulse for callers that never cancel."""


def with_pulses(items: Iterable[T], pulse: Pulse) -> Iterator[T]:
    """Yield the items, and call ``pulse`` regularly, so that long work can be cancelled."""
    for count, item in enumerate(items):
        if count % _ITEMS_PER_PULSE == 0:
            pulse()
        yield item


def hierarchy_error(
    problems: Sequence[HierarchyProblem],
    subject: str,
    hint: str = "Correct the hierarchy; for its labels see `problems()`.",
) -> HierarchyBroken:
    """Create an error that lists the problems, without labels.

    Parameters
    ----------
    subject : the beginning of the message, such as "The hierarchy is not a tree".
    """
    located_texts = [problem.text_with_line for problem in problems[:_MAX_LISTED_PROBLEMS]]
    counts = {text: located_texts.count(text) for text in located_texts}
    problem_texts = [
        text if count == 1 else f"{text} ({count} times)" for text, count in counts.items()
    ]
    if len(problems) > _MAX_LISTED_PROBLEMS:
        problem_texts.append(f"and {len(problems) - _MAX_LISTED_PROBLEMS} more")
    return HierarchyBroken(
        f"{subject}: {len(problems)} problem{'s' if len(problems) > 1 else ''}.",
        detail="; ".join(problem_texts),
        hint=hint,
        problems=problems,
    )


def build_nodes(
    edges: Sequence[Edge],
    subject: str = "The hierarchy",
    earlier_problems: Sequence[HierarchyProblem] = (),
    pulse: Pulse = ignore_pulses,
) -> tuple[list[str], list[int]]:
    """Build the labels and parents of the nodes of a tree, depth first.

    A value may also be an inner label, as E11 is above E11.9. An edge from the label to itself
    marks such a value, and adds a leaf with the same label as the first child of the node. A label
    without children is a leaf even without such an edge.

    Parameters
    ----------
    subject : a name for the hierarchy in the error.
    earlier_problems : problems that the caller found; the error includes them.

    Raises
    ------
    HierarchyBroken : the edges do not form a tree; the error holds every problem.
    """
    problems = list(earlier_problems)
    parents: dict[str, str | None] = {}
    lines: dict[str, int] = {}
    inner_labels = {parent for child, parent, _ in edges if parent is not None and parent != child}
    values = {child for child, parent, _ in edges if child == parent}
    child_labels = {child for child, parent, _ in edges if child != parent}
    for child, parent, line in with_pulses(edges, pulse):
        if child == parent and (child in inner_labels or child in child_labels):
            # The edge only marks the label as a value, which ``values`` says already. If a label
            # has no other edge than this, it is reported as a cycle below.
            continue
        # An empty label is allowed only for a leaf, since the empty text is a value.
        if (child == "" and "" in inner_labels) or parent == "":
            # A line has several edges: report its empty label once.
            if not any(p.line == line and p.kind == "empty label" for p in problems[-1:]):
                problems.append(
                    HierarchyProblem("empty label", line, "a label above a leaf is empty", "")
                )
            continue
        if child not in parents:
            parents[child], lines[child] = parent, line
        elif parents[child] != parent:
            first_parent = f"; its first is in line {lines[child]}" if line else ""
            text = f"a label has a second parent{first_parent}"
            problems.append(HierarchyProblem("second parent", line, text, child))
    # A label that is a parent but never a child is a root.
    for parent in [p for child, p, _ in edges if p and p != child]:
        parents.setdefault(parent, None)
    roots = [label for label, parent in parents.items() if parent is None]
    children: dict[str, list[str]] = {label: [] for label in parents}
    for child, parent in with_pulses(parents.items(), pulse):
        if parent is not None:
            children[parent].append(child)
    problems += _find_cycles(parents, lines, pulse)
    if not roots:
        problems.append(HierarchyProblem("missing root", 0, "no label is above all others", ""))
    for root in roots[1:]:
        line = lines.get(root, 0)
        problems.append(HierarchyProblem("second root", line, "a second label has no parent", root))
    if problems:
        raise hierarchy_error(problems, f"{subject} is not a tree")
    labels: list[str] = []
    parent_indices: list[int] = []
    stack = [(roots[0], -1)]
    while stack:
        if len(labels) % _ITEMS_PER_PULSE == 0:
            pulse()
        label, parent_index = stack.pop()
        stack += [(child, len(labels)) for child in reversed(children[label])]
        labels.append(label)
        parent_indices.append(parent_index)
        if label in values and label in inner_labels:
            # Add the leaf with the label of this node, as its first child.
            labels.append(label)
            parent_indices.append(len(labels) - 2)
    return labels, parent_indices


def _find_cycles(
    parents: Mapping[str, str | None], lines: Mapping[str, int], pulse: Pulse
) -> list[HierarchyProblem]:
    """Return one problem per cycle.

    Parameters
    ----------
    parents : the parent of each label; None for a root.
    lines : the line of each label in the source.
    """
    problems: list[HierarchyProblem] = []
    walk_of_label: dict[str, int] = {}
    # Walk up from each label, numbering the walks. A label that the same walk meets twice is on a
    # cycle.
    for walk, first_label in enumerate(with_pulses(parents, pulse), 1):
        label: str | None = first_label
        while label is not None and label not in walk_of_label:
            walk_of_label[label] = walk
            label = parents[label]
        if label is not None and walk_of_label[label] == walk:
            text = "a label is above itself"
            problems.append(HierarchyProblem("cycle", lines.get(label, 0), text, label))
    return problems
