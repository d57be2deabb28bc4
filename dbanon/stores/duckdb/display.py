"""What readers of a DuckDB column see: SQL that tells values apart as they are shown."""

from __future__ import annotations

from dbanon.data.schema import Attribute, Kind


def display_key(attribute: Attribute, column: str) -> tuple[str, ...]:
    """SQL of what tells a column's values apart as readers see them."""
    if attribute.kind is Kind.FLOAT:
        return column, f"signbit({column})"
    if attribute.kind is Kind.OTHER:
        # Intervals are equal that are shown differently; lists differ that are shown alike.
        return f"CAST({column} AS VARCHAR) COLLATE C", column
    if attribute.sql_type == "VARCHAR":
        return (f"CAST({column} AS VARCHAR) COLLATE C",)
    return (column,)
