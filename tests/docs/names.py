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
# Words that do not name a module by themselves: participles, adverbs, and numbers of anything.
VAGUE_MODULES = VAGUE | {
    *("apart", "asking", "beyond", "carried", "changed", "copied", "declared", "explained"),
    *("handed", "listed", "many", "moving", "new", "old", "other", "others", "outside", "packed"),
    *("recorded", "several", "together", "waiting"),
}
# Words that say nothing in any name of a module: a part that was cut off, or anything at all.
NO_NAMES = {"misc", "more", "rest", "stuff", "thing", "things", "two", "util", "utils"}
# Turns of phrase that an English-speaking engineer would not write.
TRANSLATED = re.compile(
    r"\b(told|tells of|is had|no more than there|nobody|somebody|are let|for ever(?!y)|whose a row"
    r"|but for|of whoever|of nobody|stands? (here|there|beside)|as it is told|of which no)\b"
    r"|\bwhat (is|was|stands|follows|says|comes|counts) ",
    re.I,
)
# The names of parameters in a docstring, whose own check is that of names.
PARAMETERS = re.compile(r"^ *\w+(, \w+)* :", re.M)
# Rooms without any of these, except names that stay. A room joins once it has been rewritten.
REWRITTEN = (
    "benchmarks",
    "dbanon",
    "migrations",
    "tests/docs",
    "tests/doors/html",
    "tests/doors/jobs",
    "tests/doors/workbench",
    "tests/faults",
    "tests/golden",
    "tests/postgres",
    "tests/schedules",
    "tests/spark",
    "tests/sql",
    "tests/upgrade",
    "tests/contracts",
    "tests/reference",
    "tests/stores",
    "tests/unit",
)
# Names and turns that stay in some files, and why; at most twenty.
ALLOWED: dict[str, frozenset[str]] = {
    name: frozenset(f"{file}.py" if "tests/" in file else f"dbanon/{file}.py" for file in files)
    for name, files in {
        # Fields and keys that users read.
        "alone": ("extensions/chains/joint_measure", "extensions/chains/manage"),
        "beside": ("extensions/chains/manage",),
        "found": ("extensions/attacks/results",),
        "held": ("advice/forecast",),
        "kept": ("job/chain", "release/report", "run/outlook", "tests/reference/chain_rules"),
        "known": ("extensions/chains/joint_measure",),
        "lost": ("release/report",),
        "told": ("data/partition", "release/private_report"),
        "way": ("extensions/bounds/certificate",),
        # The function that PostgreSQL has installed imports this module.
        "given": ("stores/postgresql/given",),
        # Texts of help.
        "what is": ("doors/cli/tutorial",),
        "what was": ("doors/cli/administration",),
    }.items()
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


def is_allowed(name: str, path: str) -> bool:
    """Whether a name or a turn stays in the file with this path."""
    return path in ALLOWED.get(name, ())


def uses(path: Path) -> Iterator[Use]:
    """The vague names and translated turns of a module."""
    name = path.relative_to(ROOT).as_posix()
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    for line, bound in names(tree):
        if bound.strip("_").lower() in VAGUE and not is_allowed(bound, name):
            yield Use(name, line, "vague name", bound)
    for line, text in texts(source, tree):
        match = TRANSLATED.search(PARAMETERS.sub(":", text))
        if match and not is_allowed(match[0].strip().lower(), name):
            yield Use(name, line, "translated turn", match[0].strip())


def vague_modules(room: str = "dbanon") -> Iterator[Use]:
    """The modules and folders of a room whose names say nothing without their context."""
    for path in sorted((ROOT / room).rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if path.name.startswith("_") or (path.is_file() and path.suffix != ".py"):
            continue
        is_vague = path.stem in VAGUE_MODULES and not is_allowed(path.stem, name)
        if is_vague or NO_NAMES & set(path.stem.split("_")) or not _is_in_words(path.stem):
            yield Use(name, 1, "vague module", path.stem)


def _is_in_words(stem: str) -> bool:
    """Whether a name consists of words in lower case, and of more than a letter."""
    words = stem.split("_")
    return len(stem) > 1 and all(re.fullmatch(r"[a-z]+[0-9]?", word) for word in words)


def modules(*rooms: str) -> Iterator[Path]:
    """The modules of rooms, sorted by path."""
    for room in rooms:
        yield from sorted((ROOT / room).rglob("*.py"))


def main() -> None:
    if "--check" in sys.argv:
        listed = [str(use) for path in modules(*REWRITTEN) for use in uses(path)]
        listed += map(str, vague_modules())
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
