"""Keys of SQLite columns that are equal exactly if readers see the same value."""

from __future__ import annotations

from dbanon.data.schema import Attribute, Kind


def display_key(attribute: Attribute, column: str) -> tuple[str, ...]:
    """SQL expressions that distinguish a column's values as displayed, regardless of collation."""
    if attribute.kind is Kind.INTEGER:
        return (column,)
    binary = f"{column} COLLATE BINARY"
    if attribute.kind in (Kind.CATEGORY, Kind.DATE, Kind.TIMESTAMP):
        return (binary,)
    # A column may contain both 1 and 1.0, which are equal but displayed differently.
    return binary, f"typeof({column})"
