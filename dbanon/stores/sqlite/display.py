"""SQL that distinguishes values of SQLite columns if they are displayed differently."""

from __future__ import annotations

from dbanon.data.schema import Attribute, Kind


def expression_as_displayed(attribute: Attribute, column: str) -> tuple[str, ...]:
    """SQL expressions that are all equal exactly if two values are displayed in the same way."""
    if attribute.kind is Kind.INTEGER:
        return (column,)
    binary = f"{column} COLLATE BINARY"
    if attribute.kind in (Kind.CATEGORY, Kind.DATE, Kind.TIMESTAMP):
        return (binary,)
    # A column may contain both 1 and 1.0, which are equal but displayed differently.
    return binary, f"typeof({column})"
