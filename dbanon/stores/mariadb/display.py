"""What readers of a MariaDB column see: SQL that tells values apart as they are shown."""

from __future__ import annotations

from dbanon.data.schema import Attribute, Kind
from dbanon.stores.mariadb.dialect import text


def display_key(attribute: Attribute, column: str) -> tuple[str, ...]:
    """SQL of what tells a column's values apart as readers see them, whatever its collation."""
    # A double that is -0 is stored as 0.
    if attribute.kind in (Kind.CATEGORY, Kind.OTHER):
        return (text(attribute, column),)
    return (column,)
