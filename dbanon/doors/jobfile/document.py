"""Reads the values of a job file and their line numbers, following the core schema of YAML 1.2.

PyYAML follows YAML 1.1: it reads ``010`` as 8, ``no`` as false and a column named ``on`` as True.
If a key occurs twice, the second silently replaces the first. This module therefore uses only
PyYAML's parser, and converts its events to values itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dbanon.errors import JobFileInvalid

MAX_BYTES = 2**20
_MAX_DEPTH = 32
# A key that is not text is replaced by this prefix and its line number.
INVALID_KEY_PREFIX = "\0 line "

KeyPath = tuple[str | int, ...]

# The last alternative is an empty scalar.
_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL_OR_HEX = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# Scalars that YAML 1.1, which most programs implement, and YAML 1.2 read differently, each with an
# explanation that follows "this is" in the error.
_AMBIGUOUS_SCALARS = (
    (
        re.compile(r"(?i:y|n|yes|no|on|off)"),
        "read as true or false by some programs, as text by others",
    ),
    (re.compile(r"[-+]?0[0-9]+"), "read in base 8 by some programs, in base 10 by others"),
    (
        re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*"),
        "read as a number by some programs, as text by others",
    ),
    (
        re.compile(r"[-+]?0[bx][0-9a-fA-F_]+|0o[0-7]+"),
        "read as a number by some programs, as text by others",
    ),
    (
        re.compile(r"[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?"),
        "read as a number in base 60 by some programs",
    ),
    (re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?"), "read as a date by some programs"),
    (re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"), "not a usable number"),
    (re.compile(r"=|<<"), "given a special meaning by some programs"),
)


@dataclass(frozen=True, order=True)
class JobFileProblem:
    """A problem in a job file. Its text quotes no value of the file.

    Parameters
    ----------
    line : the line number, from 1.
    path : the keys and list indexes that lead to the problem, as text such as ``jobs.0.name``.
    text : the description of the problem.
    """

    line: int
    path: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.path + ': ' if self.path else ''}{self.text}"


@dataclass
class Document:
    """The values of a job file, with the line of each key and the problems so far.

    Parameters
    ----------
    content : the file's mappings, lists and scalars as dicts, lists and Python values.
    lines : maps the path of each key or list item to its line number, from 1.
    problems : the problems that have been recorded so far.
    error_class : the class of the error that lists the problems.
    """

    file: Path
    content: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[JobFileProblem] = field(default_factory=list)
    error_class: type[JobFileInvalid] = JobFileInvalid

    def add_problem(self, path: KeyPath, text: str, line: int | None = None) -> None:
        """Record a problem at a path; ``line`` defaults to the line of the path."""
        self.problems.append(
            JobFileProblem(line or self.find_line(path), describe_path(path), text)
        )

    def find_line(self, path: KeyPath) -> int:
        """Return the line of a path, or of its nearest known ancestor."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def require_no_problems(self) -> None:
        """Check that no problem was recorded.

        Raises
        ------
        JobFileInvalid : lists all problems at once.
        """
        if self.problems:
            raise self.error_class.of(self.file, sorted(set(self.problems)))


def describe_path(path: Sequence[str | int]) -> str:
    """Render a path for messages, quoting keys with dots, spaces and other special characters."""
    return ".".join(
        key
        if isinstance(key, str) and re.fullmatch(r"[\w$-]+", key)
        else str(key)
        if isinstance(key, int)
        else '"' + key.replace('"', '""') + '"'
        for key in path
    )


def read_document(file: Path, error_class: type[JobFileInvalid] = JobFileInvalid) -> Document:
    """Read a YAML file; errors are of ``error_class``.

    Raises
    ------
    JobFileInvalid : the file cannot be read, is too large or is not UTF-8.
    """
    document = Document(file, error_class=error_class)
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise error_class(
            f"The {error_class.subject} {file} cannot be read.", detail=error.strerror
        ) from None
    if len(content) > MAX_BYTES:
        raise error_class(
            f"The {error_class.subject} {file} is larger than {MAX_BYTES // 2**20} MiB."
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        document.add_problem((), "is not UTF-8", content[: error.start].count(b"\n") + 1)
        document.require_no_problems()  # always raises here
        raise
    try:
        events = yaml.parse(text, Loader=yaml.SafeLoader)
        document.content = _Reader(document, events).read_document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        # Errors about single characters have no mark, but a position in the text.
        if mark is None and hasattr(error, "position"):
            line = text[: error.position].count("\n") + 1
        document.add_problem((), _describe_yaml_error(error), line)
    return document


def _describe_yaml_error(error: yaml.YAMLError) -> str:
    """Describe a YAML error in PyYAML's fixed phrases, quoting nothing from the file."""
    context = getattr(error, "context", None) or ""
    if not re.fullmatch(r"while (parsing|scanning) (an? )?[a-z -]+", context):
        context = ""
    context_note = f", found {context}" if context else ""
    return f"is not YAML{context_note}: check brackets, quotes, colons and indentation"


class _Reader:
    """Builds values from PyYAML's events."""

    def __init__(self, document: Document, events: Iterator[Any]) -> None:
        self._document, self._events = document, events

    def read_document(self) -> object:
        """Return the value of the only document."""
        next(self._events)  # the start of the stream
        first_event = next(self._events)  # the start of the document, if there is one
        if isinstance(first_event, yaml.StreamEndEvent):
            self._document.add_problem((), "is empty", 1)
            return None
        content = self._read_node(next(self._events), ())
        next(self._events)  # the end of the document
        next_event = next(self._events)
        if not isinstance(next_event, yaml.StreamEndEvent):
            line = next_event.start_mark.line + 1
            self._document.add_problem((), "there is a second document: write only one", line)
        return content

    def _read_node(self, event: Any, path: KeyPath) -> object:
        """Return the value that begins with an event, consuming all of its events."""
        line = event.start_mark.line + 1
        # For the value of a key, the line of the key is already set.
        self._document.lines.setdefault(path, line)
        if len(path) > _MAX_DEPTH:
            raise yaml.MarkedYAMLError("nested too deeply", None, None, event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            self._document.add_problem(
                path, "aliases (*) are not allowed: write the value out", line
            )
            return None
        if event.anchor is not None:
            self._document.add_problem(
                path, "anchors (&) are not allowed: write the value out", line
            )
        if event.tag is not None:
            self._document.add_problem(path, "tags (!) are not allowed", line)
        if isinstance(event, yaml.ScalarEvent):
            return self._read_scalar(event, path)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[object] = []
            while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
                items.append(self._read_node(event, (*path, len(items))))
            return items
        return self._read_mapping(path)

    def _read_mapping(self, path: KeyPath) -> dict[str, object]:
        mapping: dict[str, object] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = event.start_mark.line + 1
            key = self._read_key(event, path, line)
            value_path = (*path, key)
            if key in mapping:
                first_line = self._document.lines.get(value_path, line)
                self._document.add_problem(
                    value_path, f"this key already appears on line {first_line}", line
                )
                # Check the second value as well, under a separate path.
                value_path = (*path, key, "(again)")
            self._document.lines.setdefault(value_path, line)
            value = self._read_node(next(self._events), value_path)
            mapping.setdefault(key, value)
        return mapping

    def _read_key(self, event: Any, path: KeyPath, line: int) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            # Consume all events of the invalid key.
            if not isinstance(event, yaml.AliasEvent):
                self._read_node(event, (*path, "(key)"))
            self._document.add_problem(path, "a key must be text", line)
            return f"{INVALID_KEY_PREFIX}{line}"
        if event.anchor is not None or event.tag is not None:
            self._document.add_problem(path, "a key must not have an anchor (&) or tag (!)", line)
        key = str(event.value)
        # Only plain scalars have no style. Those in quotes or blocks are always text.
        if event.style is None:
            if key == "<<":
                self._document.add_problem(
                    (*path, key), "merges (<<) are not allowed: write the keys out", line
                )
            elif any(
                pattern.fullmatch(key) for pattern in (_NULL, _BOOL, _INT, _OCTAL_OR_HEX, _FLOAT)
            ):
                self._document.add_problem(
                    (*path, key), "YAML does not read this key as text: put it in quotes", line
                )
        return key

    def _read_scalar(self, event: Any, path: KeyPath) -> object:
        text = str(event.value)
        # Only plain scalars have no style. Those in quotes or blocks are always text.
        if event.style is not None:
            return text
        for pattern, explanation in _AMBIGUOUS_SCALARS:
            if pattern.fullmatch(text):
                self._document.add_problem(
                    path,
                    f"this is {explanation}: put it in quotes if it is text, write a number in"
                    f" plain digits, and write a truth value as true or false",
                )
                return None
        if _NULL.fullmatch(text):
            return None
        if _BOOL.fullmatch(text):
            return text.lower() == "true"
        if _INT.fullmatch(text):
            # Python refuses to parse very long integers, and no option takes one.
            return int(text) if len(text) < 100 else text
        return float(text) if _FLOAT.fullmatch(text) else text
