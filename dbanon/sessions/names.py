"""Parse, quote and check the names of relations and columns; all names are quoted here.

The module also writes values and arrays as text for PostgreSQL statements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from datetime import datetime

import numpy as np

from dbanon import kernels
from dbanon.data.array_types import AnyArray
from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidName, NameTooLong, SchemaCreated, SchemaNotFound

DOUBLE_QUOTE = '"'


@dataclass(frozen=True)
class RelationName:
    """The name of a table or view, with its schema if one was given.

    Parameters
    ----------
    catalog : the database, if the name would be ambiguous without it; ignored in comparisons.
    staging_table : if this is the name of a file that serves as a source, the name of the temporary
        table with its rows, which SQL reads instead; None for tables and views, and for files that
        are read in place. Ignored in comparisons.
    """

    schema: str | None
    name: str
    catalog: str | None = field(default=None, kw_only=True, compare=False)
    staging_table: str | None = field(default=None, kw_only=True, compare=False)

    def __str__(self) -> str:
        """The name as people write it, quoted only if it contains a dot or quote."""
        return ".".join(
            _quote_part_if_needed(part) for part in (self.schema, self.name) if part is not None
        )

    @property
    def quoted(self) -> str:
        """The name in SQL."""
        return self.quote(DOUBLE_QUOTE)

    def quote(self, mark: str) -> str:
        """Write the name in SQL, with this quotation mark around each part."""
        if self.staging_table is not None:
            return quote(self.staging_table, mark)
        parts = (self.catalog, self.schema, self.name)
        return ".".join(quote(part, mark) for part in parts if part is not None)

    def sibling(self, name: str) -> RelationName:
        """Return the name of another relation in the same schema."""
        return RelationName(self.schema, name, catalog=self.catalog)


def quote(identifier: str, mark: str = DOUBLE_QUOTE) -> str:
    """Quote an identifier, which preserves case and all characters.

    Parameters
    ----------
    mark : the quotation mark. dbanon's own sessions read names in double quotes on all databases.
        Statements that users run need ``Dialect.quotation_mark``.

    Raises
    ------
    InvalidName : the identifier is empty or contains a NUL character.
    """
    if not identifier or "\0" in identifier:
        raise InvalidName("A name is empty or contains a NUL character.")
    return mark + identifier.replace(mark, mark + mark) + mark


def quote_list(identifiers: Iterable[str], prefix: str = "") -> str:
    """Quote identifiers and join them with commas; ``prefix``, such as ``s.``, precedes each."""
    return ", ".join(prefix + quote(identifier) for identifier in identifiers)


def unused_name(name: str, existing_names: Sequence[str]) -> str:
    """Append underscores to a lower-case name until it differs from all existing names.

    Case is ignored, as MariaDB and SQLite do for columns.
    """
    lower_names = {existing.lower() for existing in existing_names}
    while name in lower_names:
        name += "_"
    return name


def parse_relation(text: str) -> RelationName:
    """Parse ``people``, ``app.people`` or ``"App"."Peo ple"``; case is preserved.

    Raises
    ------
    InvalidName : the text is not one or two names joined by a dot.
    """
    parts: list[str] = []
    remainder = text
    while True:
        part, remainder = (
            _parse_quoted_part(remainder)
            if remainder.startswith('"')
            else _parse_unquoted_part(remainder)
        )
        parts.append(part)
        if not remainder:
            break
        if not remainder.startswith("."):
            raise _invalid_name_error()
        remainder = remainder[1:]
    if len(parts) > 2 or not all(parts) or any("\0" in part for part in parts):
        raise _invalid_name_error()
    return RelationName(parts[0] if len(parts) == 2 else None, parts[-1])


def require_length(identifier: str, limit: int | None, label: str) -> None:
    """Check that a name fits the database's limit.

    Parameters
    ----------
    limit : maximum length in bytes; None for no limit.
    label : the kind of name, for the error message.

    Raises
    ------
    NameTooLong : the name is longer.
    """
    length = len(identifier.encode())
    if limit is not None and length > limit:
        raise NameTooLong(
            f"The {label} is {length} bytes long; at most {limit} bytes are allowed.",
            hint=f"Choose a name of at most {limit} bytes.",
        )


def released_name(name: RelationName, release_id: str, limit: int | None) -> RelationName:
    """Name the table of a release: the output's name, truncated if necessary, with a suffix.

    Parameters
    ----------
    release_id : the UUID of the release.
    limit : maximum length in bytes; None for no limit.
    """
    # With twelve hexadecimal digits of the UUID, two releases hardly ever get the same name.
    suffix = "_r" + release_id.replace("-", "")[:12]
    base_name = name.name
    if limit is not None:
        base_name = base_name.encode()[: limit - len(suffix)].decode(errors="ignore")
    return name.sibling(base_name + suffix)


def _parse_quoted_part(text: str) -> tuple[str, str]:
    """Parse the quoted part at the start of a text; return its name and the remaining text."""
    position, part = 1, ""
    while True:
        end = text.find('"', position)
        if end < 0:
            raise _invalid_name_error()
        part += text[position:end]
        if text[end + 1 : end + 2] != '"':
            return part, text[end + 1 :]
        part += '"'
        position = end + 2


def _parse_unquoted_part(text: str) -> tuple[str, str]:
    """Parse the part before the first dot; return it and the remaining text."""
    part, dot, remainder = text.partition(".")
    if '"' in part or not part or (dot and not remainder):
        raise _invalid_name_error()
    return part, dot + remainder


def _invalid_name_error() -> InvalidName:
    return InvalidName(
        "The name of a table is not valid.",
        hint='Write table, schema.table or "Schema"."Table"; a dot or a double quote inside a part'
        ' needs quotes around the part, as in "a.b" or "a""b".',
    )


def _quote_part_if_needed(part: str) -> str:
    return quote(part) if "." in part or '"' in part else part


def literal(value: object) -> str:
    """Write a value as a literal in PostgreSQL's SQL; a list becomes an array of texts."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"ARRAY[{', '.join(map(literal, value))}]::text[]"
    # Unlike plain strings, E'' does not depend on standard_conforming_strings.
    return "E'" + to_sql_text(value).replace("\\", "\\\\").replace("'", "''") + "'"


def to_sql_text(value: object) -> str:
    """Write a value, or a list of values, as text that PostgreSQL casts back to the value.

    Raises
    ------
    InvalidName : it contains a NUL character.
    """
    if isinstance(value, (list, tuple)):
        # With the None, which is cut off, numpy makes no further dimension of inner lists.
        return array_text(np.array([*value, None], object)[:-1])
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    if "\0" in text:
        raise InvalidName("A value contains a NUL character.")
    return text


def array_text(values: AnyArray) -> str:
    """Write an array, (n,), as the text of a PostgreSQL array; PostgreSQL parses floats exactly."""
    if values.dtype == np.float64:
        # Hexadecimal floats are faster to write and to parse than decimal ones. The kernel returns
        # None if it cannot write a value, such as NaN.
        text = kernels.floats_text(np.ascontiguousarray(values))
        return "{" + (str(values.tolist())[1:-1] if text is None else text.decode("ascii")) + "}"
    if values.dtype == np.bool_:
        return "{" + ",".join("t" if value else "f" for value in values.tolist()) + "}"
    if values.dtype == object:
        return "{" + ",".join(map(_array_element, values.tolist())) + "}"
    text = kernels.integers_text(np.ascontiguousarray(values, np.int64))
    return "{" + text.decode("ascii") + "}"


def _array_element(value: object) -> str:
    if value is None:
        return "NULL"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def schema_not_found(schema: str, statement: str) -> SchemaNotFound:
    """Return the error for a strict release into a missing schema.

    Parameters
    ----------
    statement : SQL that creates the schema.
    """
    return SchemaNotFound(
        f'There is no schema "{schema}", and a strict release does not create it.',
        hint=f"If the name is right, create it first: {statement};",
    )


def schema_created(schema: str) -> SchemaCreated:
    """Return the warning about a schema that a release created."""
    return SchemaCreated(f'There was no schema "{schema}": it was created.')
