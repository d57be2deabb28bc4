"""What readers of a SQLite column see: SQL that tells values apart as they are shown."""

from __future__ import annotations

from dbanon.data.schema import Attribute, Kind


def display_key(attribute: Attribute, column: str) -> tuple[str, ...]:
    """SQL of what tells a column's values apart as readers see them, whatever its collation."""
    if attribute.kind is Kind.INTEGER:
        return (column,)
    binary = f"{column} COLLATE BINARY"
    if attribute.kind in (Kind.CATEGORY, Kind.DATE, Kind.TIMESTAMP):
        return (binary,)
    # Without a type of the column's, 1 and 1.0 are equal.
    return binary, f"typeof({column})"
