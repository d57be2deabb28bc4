"""From edges to a tree, or to all that is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from dbanon.data.frozen import dataclass
from dbanon.errors import HierarchyBroken

_NAMED_PROBLEMS = 100
_BETWEEN_PULSES = 10_000

T = TypeVar("T")

# Called while something is made: what it raises ends it.
Pulse: TypeAlias = Callable[[], None]

# Child, parent (None: a root) and line in the source, 0 when in none. A label that is its own
# parent is also a value.
Edge: TypeAlias = tuple[str, "str | None", int]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a hierarchy.

    Parameters
    ----------
    kind : ``second parent``, ``cycle``, ``missing root``, ``second root``, ``empty label``,
        ``missing value`` or ``not a leaf``.
    line : where in the hierarchy's source, counted from 1; 0 when in none.
    text : what is wrong, in words without a label or a value.
    label : the node or value meant. It is not part of any message.
    """

    kind: str
    line: int
    text: str
    label: str

    @property
    def located(self) -> str:
        """What is wrong, after its line."""
        return f"line {self.line}: {self.text}" if self.line else self.text


def no_pulse() -> None:
    """A pulse for callers who never end what they began."""


def paced(items: Iterable[T], pulse: Pulse) -> Iterator[T]:
    """The items, with a pulse now and then, so that long work can be cancelled."""
    for count, item in enumerate(items):
        if count % _BETWEEN_PULSES == 0:
            pulse()
        yield item


def broken(
    problems: Sequence[Problem],
    what: str,
    hint: str = "Correct the hierarchy; for its labels see `problems()`.",
) -> HierarchyBroken:
    """The error that names all problems, without a label."""
    texts = [problem.located for problem in problems[:_NAMED_PROBLEMS]]
    counted = {text: texts.count(text) for text in texts}
    named = [text if count == 1 else f"{text} ({count} times)" for text, count in counted.items()]
    if len(problems) > _NAMED_PROBLEMS:
        named.append(f"and {len(problems) - _NAMED_PROBLEMS} more")
    return HierarchyBroken(
        f"{what}: {len(problems)} problem{'s' if len(problems) > 1 else ''}.",
        detail="; ".join(named),
        hint=hint,
        problems=problems,
    )


def tree_of(
    edges: Sequence[Edge],
    what: str = "The hierarchy",
    found: Sequence[Problem] = (),
    pulse: Pulse = no_pulse,
) -> tuple[list[str], list[int]]:
    """Labels and parents of the nodes of a tree, depth first.

    A value may also be a label above others, as E11 is above E11.9: an edge from a label to itself
    says so, and puts a leaf of the same label first below it. Without others below it the label is
    a leaf anyway.

    ``what`` names the hierarchy in the error, which also tells of problems ``found`` before.

    Raises
    ------
    HierarchyBroken : the edges are no tree; it holds all that is wrong with them.
    """
    problems = list(found)
    parents: dict[str, str | None] = {}
    lines: dict[str, int] = {}
    inner = {parent for child, parent, _ in edges if parent is not None and parent != child}
    values = {child for child, parent, _ in edges if child == parent}
    placed = {child for child, parent, _ in edges if child != parent}
    for child, parent, line in paced(edges, pulse):
        if child == parent and (child in inner or child in placed):
            continue
        if (child == "" and "" in inner) or parent == "":
            if not any(p.line == line and p.kind == "empty label" for p in problems[-1:]):
                problems.append(Problem("empty label", line, "a label above a leaf is empty", ""))
            continue
        if child not in parents:
            parents[child], lines[child] = parent, line
        elif parents[child] != parent:
            first = f"; its first is in line {lines[child]}" if line else ""
            text = f"a label has a second parent{first}"
            problems.append(Problem("second parent", line, text, child))
    for parent in [p for child, p, _ in edges if p and p != child]:
        parents.setdefault(parent, None)
    roots = [label for label, parent in parents.items() if parent is None]
    children: dict[str, list[str]] = {label: [] for label in parents}
    for child, parent in paced(parents.items(), pulse):
        if parent is not None:
            children[parent].append(child)
    problems += _cycles(parents, lines, pulse)
    if not roots:
        problems.append(Problem("missing root", 0, "no label is above all others", ""))
    for root in roots[1:]:
        line = lines.get(root, 0)
        problems.append(Problem("second root", line, "a second label has no parent", root))
    if problems:
        raise broken(problems, f"{what} is not a tree")
    labels: list[str] = []
    numbers: list[int] = []
    stack = [(roots[0], -1)]
    while stack:
        if len(labels) % _BETWEEN_PULSES == 0:
            pulse()
        label, above = stack.pop()
        stack += [(child, len(labels)) for child in reversed(children[label])]
        labels.append(label)
        numbers.append(above)
        if label in values and label in inner:
            labels.append(label)
            numbers.append(len(labels) - 2)
    return labels, numbers


def _cycles(
    parents: Mapping[str, str | None], lines: Mapping[str, int], pulse: Pulse
) -> list[Problem]:
    """One problem a cycle."""
    found: list[Problem] = []
    state: dict[str, int] = {}
    for run, start in enumerate(paced(parents, pulse), 1):
        at: str | None = start
        while at is not None and at not in state:
            state[at] = run
            at = parents[at]
        if at is not None and state[at] == run:
            text = "a label is above itself"
            found.append(Problem("cycle", lines.get(at, 0), text, at))
    return found
