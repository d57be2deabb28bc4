"""SQL that distinguishes values of MariaDB columns if they are displayed differently."""

from __future__ import annotations

from dbanon.data.schema import Attribute, Kind
from dbanon.extensions.mariadb.dialect import as_text


def expression_as_displayed(attribute: Attribute, column: str) -> tuple[str, ...]:
    """SQL expressions that are all equal exactly if two values are displayed in the same way.

    The column's collation has no effect.
    """
    # Numbers need no care: MariaDB stores -0 as 0.
    if attribute.kind in (Kind.CATEGORY, Kind.OTHER):
        return (as_text(attribute, column),)
    return (column,)
