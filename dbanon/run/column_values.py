"""The values of a column as the leaves of its hierarchy spell them."""

from __future__ import annotations

from dbanon.data.schema import Kind
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.leaves import leaf_text
from dbanon.stores import statements
from dbanon.stores.names import RelationName
from dbanon.stores.store import Store


def column_values(store: Store, table: RelationName, column: str) -> list[str]:
    """The distinct values of a column but for NULL, by code point.

    Raises
    ------
    InvalidParameter : the column holds timestamps, which databases spell differently.
    """
    with store.session(write=False) as session:
        source = session.find_source(table)
        [attribute] = session.inspect(source, [source.attribute(column)])
        if attribute.kind is Kind.TIMESTAMP:
            raise InvalidParameter(
                f'Column "{column}" holds timestamps.', hint="Give it as a date in a view."
            )
        session.require_rights(source, [column])
        found = session.rows(
            statements.distinct_values(source.relation, column, session.text_of(attribute))
        )
    return sorted({leaf_text(value, attribute) for (value,) in found})
