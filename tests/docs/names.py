"""Names and comments that say nothing without their context, counted by room.

``python -m tests.docs.names`` prints the counts of every room. With ``--check`` it lists the uses
in rooms that have been rewritten (``REWRITTEN``), and fails if there are any.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("dbanon", "tests", "benchmarks", "migrations")

# Past participles, adverbs and pronouns that do not say what a value is.
VAGUE = {
    *("alike", "alone", "asked", "begun", "beside", "drawn", "found", "given", "gone", "held"),
    *("here", "kept", "known", "lost", "made", "noted", "one", "own", "place", "rest", "said"),
    *("shown", "taken", "there", "told", "wanted", "way", "what", "whole", "wholes", "whose"),
    *("wished", "wishes", "within", "worth"),
}
# Turns of phrase that an English-speaking engineer would not write.
TRANSLATED = re.compile(
    r"\b(told|tells of|is had|no more than there|nobody|somebody|are let|for ever(?!y)|whose a row"
    r"|but for|of whoever|of nobody|stands? (here|there|beside)|as it is told|of which no)\b"
    r"|\bwhat (is|was|stands|follows|says|comes|counts) ",
    re.I,
)
# Rooms without any of these. A room joins once it has been rewritten, and stays.
REWRITTEN = (
    "dbanon/hierarchy",
    "dbanon/kernels",
    "dbanon/recoding",
    "dbanon/sessions",
    "dbanon/spaces",
    "dbanon/stores/exports",
    "tests/contracts",
    "tests/reference",
    "tests/stores",
    "tests/unit",
)
# Names that stay, and why; at most twenty.
ALLOWED: dict[str, frozenset[str]] = {
    # Every store has it, as does the documentation of sources.
    "dbanon/sessions/interface.py": frozenset({"drawn"}),
    # The name of a staging table.
    "dbanon/sessions/pseudonym_session.py": frozenset({"SHOWN"}),
    # The retained columns of a row, as the documentation of chains has them.
    "tests/reference/chain_rules.py": frozenset({"kept"}),
}


class Use(NamedTuple):
    """A vague name or a translated turn, and its line."""

    path: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {self.text}"


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The names that a module binds, each with its line: variables, parameters, fields, classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.lineno, node.name


def texts(source: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield node.body[0].lineno, docstring
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def uses(path: Path) -> Iterator[Use]:
    """The vague names and translated turns of a module."""
    name = path.relative_to(ROOT).as_posix()
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    allowed = ALLOWED.get(name, frozenset())
    for line, bound in names(tree):
        if bound.strip("_").lower() in VAGUE and bound not in allowed:
            yield Use(name, line, "vague name", bound)
    for line, text in texts(source, tree):
        if match := TRANSLATED.search(text):
            yield Use(name, line, "translated turn", match[0].strip())


def modules(*rooms: str) -> Iterator[Path]:
    """The modules of rooms, sorted by path."""
    for room in rooms:
        yield from sorted((ROOT / room).rglob("*.py"))


def main() -> None:
    if "--check" in sys.argv:
        listed = [str(use) for path in modules(*REWRITTEN) for use in uses(path)]
        sys.exit("\n".join(listed) if listed else 0)
    counts: Counter[tuple[str, str]] = Counter()
    for path in modules(*ROOMS):
        room = path.parent.relative_to(ROOT).as_posix()
        counts.update((room, use.kind) for use in uses(path))
    print(f"{'room':40} vague names  translated turns")
    for room in sorted({room for room, _ in counts}):
        print(f"{room:40} {counts[room, 'vague name']:11} {counts[room, 'translated turn']:17}")


if __name__ == "__main__":
    main()
