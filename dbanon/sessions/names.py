"""Names of relations and columns: read, quoted and checked. The only place that quotes.

Last, values and arrays as text in statements for PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon import kernels
from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidName, NameTooLong, SchemaCreated, SchemaNotFound


@dataclass(frozen=True)
class RelationName:
    """The name of a table or view, with its schema when one was given.

    Parameters
    ----------
    catalog : the database, where its schema alone could mean another place; no part of the name.
    staged : the staging table that has the rows, where they come from files; no part of the name.
    """

    schema: str | None
    name: str
    catalog: str | None = field(default=None, kw_only=True, compare=False)
    staged: str | None = field(default=None, kw_only=True, compare=False)

    def __str__(self) -> str:
        """The name as people write it: parts are quoted only where a dot or quote is in them."""
        return ".".join(_shown(part) for part in (self.schema, self.name) if part is not None)

    @property
    def quoted(self) -> str:
        """The name as SQL has it."""
        if self.staged is not None:
            return quote(self.staged)
        parts = (self.catalog, self.schema, self.name)
        return ".".join(quote(part) for part in parts if part is not None)

    def sibling(self, name: str) -> RelationName:
        """Another name in the same schema."""
        return RelationName(self.schema, name, catalog=self.catalog)


def quote(identifier: str) -> str:
    """An identifier as SQL has it: in double quotes, so that case and every character are kept.

    Raises
    ------
    InvalidName : the identifier is empty or holds a NUL character.
    """
    if not identifier or "\0" in identifier:
        raise InvalidName("A name is empty or holds a NUL character.")
    return '"' + identifier.replace('"', '""') + '"'


def quote_list(identifiers: Iterable[str], prefix: str = "") -> str:
    """Identifiers as a SQL list, each behind ``prefix``."""
    return ", ".join(prefix + quote(identifier) for identifier in identifiers)


def parse_relation(text: str) -> RelationName:
    """Read ``people``, ``app.people`` or ``"App"."Peo ple"``; letters keep their case.

    Raises
    ------
    InvalidName : the text is not one or two names joined by a dot.
    """
    parts: list[str] = []
    rest = text
    while True:
        part, rest = _quoted_part(rest) if rest.startswith('"') else _plain_part(rest)
        parts.append(part)
        if not rest:
            break
        if not rest.startswith("."):
            raise _not_a_name()
        rest = rest[1:]
    if len(parts) > 2 or not all(parts) or any("\0" in part for part in parts):
        raise _not_a_name()
    return RelationName(parts[0] if len(parts) == 2 else None, parts[-1])


def check_length(identifier: str, limit: int | None, what: str) -> None:
    """Check that a name fits the database's limit.

    Parameters
    ----------
    limit : bytes that a name may have, None for no limit.

    Raises
    ------
    NameTooLong : the name has more bytes.
    """
    length = len(identifier.encode())
    if limit is not None and length > limit:
        raise NameTooLong(
            f"The {what} is {length} bytes long; at most {limit} bytes are allowed.",
            hint="Choose a shorter name.",
        )


def released_name(name: RelationName, release_id: str, limit: int | None) -> RelationName:
    """The name of a release's own table: the output's, cut where it must be, with a suffix."""
    suffix = "_r" + release_id.replace("-", "")[:12]
    start = name.name
    if limit is not None:
        start = start.encode()[: limit - len(suffix)].decode(errors="ignore")
    return name.sibling(start + suffix)


def _quoted_part(text: str) -> tuple[str, str]:
    position, part = 1, ""
    while True:
        end = text.find('"', position)
        if end < 0:
            raise _not_a_name()
        part += text[position:end]
        if text[end + 1 : end + 2] != '"':
            return part, text[end + 1 :]
        part += '"'
        position = end + 2


def _plain_part(text: str) -> tuple[str, str]:
    part, dot, rest = text.partition(".")
    if '"' in part or not part or (dot and not rest):
        raise _not_a_name()
    return part, dot + rest


def _not_a_name() -> InvalidName:
    return InvalidName(
        "The name of a table is not valid.",
        hint='Write table, schema.table or "Schema"."Table"; a dot or a double quote inside a part'
        ' needs quotes around the part, as in "a.b" or "a""b".',
    )


def _shown(part: str) -> str:
    return quote(part) if "." in part or '"' in part else part


def literal(value: Any) -> str:
    """A value as a literal in SQL; a list as an array of texts."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"ARRAY[{', '.join(map(literal, value))}]::text[]"
    # The escape form means the same whatever standard_conforming_strings is.
    return "E'" + plain_text(value).replace("\\", "\\\\").replace("'", "''") + "'"


def plain_text(value: Any) -> str:
    """The text of a value or of a list of values, as the type of its place reads it.

    Raises
    ------
    InvalidName : it holds a NUL character.
    """
    if isinstance(value, (list, tuple)):
        return array_text(np.array([*value, None], object)[:-1])
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    if "\0" in text:
        raise InvalidName("A name is empty or holds a NUL character.")
    return text


def array_text(values: NDArray[Any]) -> str:
    """The text of an array, of which floats are read back as the same floats."""
    if values.dtype == np.float64:
        # Hexadecimal: no digit is computed, here or there.
        found = kernels.floats_text(np.ascontiguousarray(values))
        return "{" + (str(values.tolist())[1:-1] if found is None else found.decode("ascii")) + "}"
    if values.dtype == np.bool_:
        return "{" + ",".join("t" if value else "f" for value in values.tolist()) + "}"
    if values.dtype == object:
        return "{" + ",".join(map(_element, values.tolist())) + "}"
    found = kernels.integers_text(np.ascontiguousarray(values, np.int64))
    return "{" + found.decode("ascii") + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def schema_not_found(schema: str, statement: str) -> SchemaNotFound:
    """The error for a strict release into a schema that is missing.

    Parameters
    ----------
    statement : SQL that creates it.
    """
    return SchemaNotFound(
        f'There is no schema "{schema}", and a strict release creates none.',
        hint=f"If the name is right, create it first: {statement};",
    )


def schema_created(schema: str) -> SchemaCreated:
    """The warning about a schema that a release has created."""
    return SchemaCreated(f'There was no schema "{schema}": it was created.')
