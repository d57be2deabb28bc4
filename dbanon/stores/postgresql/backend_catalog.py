"""The catalog for SQL functions, whose source is known by its oid.

Public methods without a docstring override documented ones of ``sessions.catalog.Catalog``.
"""

from __future__ import annotations

from dbanon.data.types import SqlRow
from dbanon.errors import InvalidName, TableNotFound
from dbanon.sessions.names import RelationName
from dbanon.stores.postgresql import catalog
from dbanon.stores.postgresql.connection import PostgresqlConnection
from dbanon.stores.postgresql.relation_catalog import PostgresqlCatalog


class PlpyCatalog(PostgresqlCatalog):
    """The catalog of the database that runs a SQL function.

    SQL functions pin the search path, so all names that they look up have a schema.

    Parameters
    ----------
    source_oid : oid of the source; None if there is no source.
    """

    def __init__(
        self,
        connection: PostgresqlConnection,
        source_oid: int | None,
    ) -> None:
        super().__init__(connection)
        self._source_oid = source_oid
        self._source: RelationName | None = None

    def find_source_name(self) -> RelationName:
        """Look up the name of the source.

        Raises
        ------
        TableNotFound : there is no relation with this oid.
        """
        rows = self._connection.look_up(catalog.RELATION, (self._source_oid,))
        if not rows:
            raise TableNotFound("The source is not a relation of this database.")
        self._source = RelationName(rows[0][1], rows[0][2])
        return self._source

    def _look_up_relation(self, name: RelationName) -> SqlRow | None:
        if name != self._source:
            return super()._look_up_relation(name)
        # Look the source up by oid, which stays valid even if it was renamed.
        rows = self._connection.look_up(catalog.RELATION, (self._source_oid,))
        return rows[0] if rows else None

    def resolve_output(self, name: RelationName) -> RelationName:
        if name.schema is None:
            raise InvalidName(
                "The output has no schema.", hint="Name its schema, as in release.people."
            )
        return super().resolve_output(name)
