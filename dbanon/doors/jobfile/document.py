"""A job file as plain values, with the line of each: YAML 1.2's core, without what surprises.

PyYAML's own rules make ``010`` 8, ``no`` false, a column ``on`` True, and let the second of two
equal keys win. So its events are taken, and what they mean is said here.
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
# What stands for a key that is none.
NO_KEY = "\0 line "

Path_ = tuple[str | int, ...]

_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# What YAML 1.1, which most programs read, takes for something else than YAML 1.2 does.
_TRAPS = (
    (re.compile(r"(?i:y|n|yes|no|on|off)"), "true or false to some programs, text to others"),
    (re.compile(r"[-+]?0[0-9]+"), "a number to base 8 to some programs, to base 10 to others"),
    (re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*"), "a number to some programs, text to others"),
    (re.compile(r"[-+]?0[bx][0-9a-fA-F_]+|0o[0-7]+"), "a number to some programs, text to others"),
    (re.compile(r"[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?"), "a number to base 60 to some programs"),
    (re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?"), "a date to some programs"),
    (re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"), "no number that can be used"),
    (re.compile(r"=|<<"), "of a meaning of its own to some programs"),
)


@dataclass(frozen=True, order=True)
class Problem:
    """Something that is wrong in a job file. Holds no value.

    Parameters
    ----------
    line : from 1.
    path : of keys and places, as in ``("jobs", 0, "columns", "age")``.
    text : what is wrong.
    """

    line: int
    path: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.path + ': ' if self.path else ''}{self.text}"


@dataclass
class Document:
    """A file's plain values.

    Parameters
    ----------
    lines : by path, the line where a value begins; of a key's value that of the key.
    problems : what was refused.
    """

    file: Path
    value: Any = None
    lines: dict[Path_, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, path: Path_, text: str, line: int | None = None) -> None:
        """Note what is wrong at a path."""
        self.problems.append(Problem(line or self.line(path), describe_path(path), text))

    def line(self, path: Path_) -> int:
        """The line of a path, or of the nearest thing around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def require(self) -> None:
        """Go on only where nothing is wrong.

        Raises
        ------
        JobFileInvalid : with all problems at once.
        """
        if self.problems:
            raise JobFileInvalid.of(self.file, sorted(set(self.problems)))


def describe_path(path: Sequence[str | int]) -> str:
    """A path as people read it; a key stands in quotes where a dot or space is in it."""
    return ".".join(
        part if isinstance(part, str) and re.fullmatch(r"[\w$-]+", part)
        else str(part) if isinstance(part, int)
        else '"' + part.replace('"', '""') + '"'
        for part in path
    )  # fmt: skip


def read(file: Path) -> Document:
    """The plain values of a file.

    Raises
    ------
    JobFileInvalid : it cannot be read, is too large or no YAML.
    """
    document = Document(file)
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise JobFileInvalid(
            f"The job file {file} cannot be read.", detail=error.strerror
        ) from None
    if len(content) > MAX_BYTES:
        raise JobFileInvalid(f"The job file {file} is larger than {MAX_BYTES // 2**20} MiB.")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        document.refuse((), "is no UTF-8", content[: error.start].count(b"\n") + 1)
        document.require()
        raise
    try:
        events = yaml.parse(text, Loader=yaml.SafeLoader)
        document.value = _Reader(document, events).value()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        if mark is None and hasattr(error, "position"):
            line = text[: error.position].count("\n") + 1
        document.refuse((), _no_yaml(error), line)
    return document


def _no_yaml(error: yaml.YAMLError) -> str:
    """What is wrong in words of the library's own; none of them is of the file."""
    context = getattr(error, "context", None) or ""
    if not re.fullmatch(r"while (parsing|scanning) (an? )?[a-z -]+", context):
        context = ""
    more = f", found {context}" if context else ""
    return f"is no YAML{more}: look at brackets, quotes, colons and how far lines are indented"


class _Reader:
    """Events of PyYAML as values."""

    def __init__(self, document: Document, events: Iterator[Any]) -> None:
        self._document, self._events = document, events

    def value(self) -> Any:
        """The one document's value."""
        next(self._events)
        start = next(self._events)
        if isinstance(start, yaml.StreamEndEvent):
            self._document.refuse((), "is empty", 1)
            return None
        found = self._node(next(self._events), ())
        next(self._events)
        more = next(self._events)
        if not isinstance(more, yaml.StreamEndEvent):
            line = more.start_mark.line + 1
            self._document.refuse((), "there is a second document: write one", line)
        return found

    def _node(self, event: Any, path: Path_) -> Any:
        line = event.start_mark.line + 1
        self._document.lines.setdefault(path, line)
        if len(path) > _MAX_DEPTH:
            raise yaml.MarkedYAMLError("nested too deeply", None, None, event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            self._document.refuse(path, "an alias (*) is not taken: write it out", line)
            return None
        if event.anchor is not None:
            self._document.refuse(path, "an anchor (&) is not taken: write it out", line)
        if event.tag is not None:
            self._document.refuse(path, "a tag (!) is not taken", line)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, path)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
                items.append(self._node(event, (*path, len(items))))
            return items
        return self._mapping(path)

    def _mapping(self, path: Path_) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = event.start_mark.line + 1
            key = self._key(event, path, line)
            inner = (*path, key)
            if key in found:
                first = self._document.lines.get(inner, line)
                self._document.refuse(inner, f"this key is already in line {first}", line)
                # What the second one holds is looked at, too, under a path of its own.
                inner = (*path, key, "(again)")
            self._document.lines.setdefault(inner, line)
            value = self._node(next(self._events), inner)
            found.setdefault(key, value)
        return found

    def _key(self, event: Any, path: Path_, line: int) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            # Read to its end, so that what follows is understood.
            if not isinstance(event, yaml.AliasEvent):
                self._node(event, (*path, "(key)"))
            self._document.refuse(path, "a key must be text", line)
            return f"{NO_KEY}{line}"
        if event.anchor is not None or event.tag is not None:
            self._document.refuse(path, "a key takes neither anchor (&) nor tag (!)", line)
        key = str(event.value)
        if event.style is None:
            if key == "<<":
                self._document.refuse((*path, key), "a merge (<<) is not taken: write it out", line)
            elif any(known.fullmatch(key) for known in (_NULL, _BOOL, _INT, _BASED, _FLOAT)):
                self._document.refuse(
                    (*path, key), "this key is no text to YAML: put it in quotes", line
                )
        return key

    def _scalar(self, event: Any, path: Path_) -> Any:
        text = str(event.value)
        if event.style is not None:
            return text
        for trap, why in _TRAPS:
            if trap.fullmatch(text):
                self._document.refuse(
                    path,
                    f"this is {why}: put it in quotes if it is text, write a number in plain"
                    f" digits, and write a truth value as true or false",
                )
                return None
        if _NULL.fullmatch(text):
            return None
        if _BOOL.fullmatch(text):
            return text.lower() == "true"
        if _INT.fullmatch(text):
            # Python refuses to read more digits; no option has as many.
            return int(text) if len(text) < 100 else text
        return float(text) if _FLOAT.fullmatch(text) else text
