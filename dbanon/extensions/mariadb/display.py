"""Compare values of MariaDB columns as they are displayed."""

from __future__ import annotations

from dbanon.data.schema import Attribute, Kind
from dbanon.extensions.mariadb.dialect import as_text


def display_key(attribute: Attribute, column: str) -> tuple[str, ...]:
    """SQL that distinguishes a column's values as displayed, whatever its collation."""
    # Numbers need no care: MariaDB stores -0 as 0.
    if attribute.kind in (Kind.CATEGORY, Kind.OTHER):
        return (as_text(attribute, column),)
    return (column,)
