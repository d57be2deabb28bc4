"""Where to start, in the words of each door: a command, a statement."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from dbanon.sessions.names import RelationName, literal, parse_relation

# Where releases of a file go in what is proposed: a database that the first one makes.
PLACE = "duckdb:///released.duckdb"


def command(url: str, start: Mapping[str, Any], hierarchies: Iterable[str] = ()) -> str:
    """The command that makes the recommended release.

    Parameters
    ----------
    url : without secrets.
    hierarchies : as they were given, NAME=HIERARCHY.
    """
    words = ["dbanon", "anonymize", url]
    for name, value in start.items():
        short = {"quasi_identifiers": "-q", "sensitive": "-s"}.get(name)
        if short is not None:
            for column in value:
                words += [short, column]
        elif isinstance(value, (tuple, list)):
            words += ["--" + name.replace("_", "-"), ",".join(map(_field, value))]
        else:
            words += ["--" + name.replace("_", "-"), str(value)]
    for given in hierarchies:
        words += ["--hierarchy", given]
    if url.startswith("file:"):
        # A file is not written into.
        words += ["--target", PLACE]
    return shlex.join(words)


def statement(start: Mapping[str, Any], hierarchies: Mapping[str, Any] | None = None) -> str:
    """The call in SQL, inside PostgreSQL."""
    source = parse_relation(start["table"])
    options = {name: start[name] for name in ("refine", "recoding", "key") if name in start}
    words = [
        _text(source.quoted),
        _text(str(RelationName("release", source.name))),
        _array(start["quasi_identifiers"]),
        f"k => {start['k']}",
    ]
    if start["sensitive"]:
        words.append(f"sensitive => {_array(start['sensitive'])}")
    for name in ("entity", "nulls", "max_suppression"):
        if name in start:
            words.append(f"{name} => {_plain(start[name])}")
    for name, given in (("hierarchies", hierarchies), ("options", options)):
        if given:
            words.append(f"{name} => {_text(json.dumps(given, ensure_ascii=False))}")
    return f"SELECT * FROM dbanon.{start['method']}({', '.join(words)})"


def _plain(value: Any) -> str:
    return _text(value) if isinstance(value, str) else str(value)


def _text(value: str) -> str:
    """A literal for people: in the escape form only where that makes a difference."""
    found = literal(value)
    return found if "\\" in found else found.removeprefix("E")


def _array(names: Iterable[str]) -> str:
    return f"ARRAY[{', '.join(map(_text, names))}]"


def _field(name: str) -> str:
    """A name as a list on the command line holds it."""
    return '"' + name.replace('"', '""') + '"' if set(name) & {",", '"', " "} else name
