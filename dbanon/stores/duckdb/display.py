"""SQL that distinguishes values of DuckDB columns if they are displayed differently."""

from __future__ import annotations

from dbanon.data.schema import Attribute, Kind


def expression_as_displayed(attribute: Attribute, column: str) -> tuple[str, ...]:
    """SQL expressions that are all equal exactly if two values are displayed in the same way."""
    if attribute.kind is Kind.FLOAT:
        return column, f"signbit({column})"
    if attribute.kind is Kind.OTHER:
        # Equal intervals may be displayed differently, and different lists alike.
        return f"CAST({column} AS VARCHAR) COLLATE C", column
    if attribute.sql_type == "VARCHAR":
        return (f"CAST({column} AS VARCHAR) COLLATE C",)
    return (column,)
