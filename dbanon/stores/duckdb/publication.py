"""Create, publish and drop the outputs of releases on DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbanon.errors import warn_caller
from dbanon.ledger.tables import LEDGER_SCHEMA
from dbanon.sessions.base import MARK, Output
from dbanon.sessions.names import RelationName, quote, quote_list, schema_created
from dbanon.sessions.publication import Publication
from dbanon.stores.duckdb.connection import DuckdbConnection
from dbanon.stores.duckdb.dialect import READ_ONLY_QUERY, create_view, default_schema, has_schema
from dbanon.stores.file_session import read_only_error


class DuckdbPublication(Publication):
    """Writes and publishes releases on DuckDB.

    Parameters
    ----------
    resolve_output : resolves the name of an output, with its schema.
    """

    _connection: DuckdbConnection

    def __init__(
        self,
        connection: DuckdbConnection,
        resolve_output: Callable[[RelationName], RelationName],
    ) -> None:
        super().__init__(connection)
        self._resolve_output = resolve_output

    def lock(self, name: RelationName) -> None:
        # Lock nothing, since a database file has a single writer; only check that it is writable.
        # Query only the caller's connections: those that dbanon opens for planning are always
        # read-only, which does not concern the later run.
        if self._connection.stays_open and self._connection.rows(READ_ONLY_QUERY)[0][0]:
            raise read_only_error()

    def ensure_schema(self, name: RelationName) -> None:
        # Warn of new schemas for releases only, not of the ledger's.
        is_new_schema = name.schema != LEDGER_SCHEMA and not has_schema(self._connection.rows, name)
        schema = RelationName(name.catalog, str(name.schema)).quoted
        self._connection.run(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        if is_new_schema:
            warn_caller(schema_created(str(name.schema)))

    def create_table(
        self, output: Output, columns: Sequence[tuple[str, str]], release_id: str
    ) -> None:
        body = ", ".join(f"{quote(name)} {sql_type}" for name, sql_type in columns)
        self._connection.run(f"CREATE TABLE {output.staging_name.quoted} ({body})")

    def publish(self, output: Output, columns: Sequence[str]) -> None:
        # By this comment on the relation, later runs recognize it as a release.
        mark = f"'{MARK}{output.release_id}'"
        if output.kind == "view":
            replaces = output.replaced_kind is not None
            with default_schema(self._connection.driver, output.name):
                self._connection.run(
                    create_view(
                        output.name, quote_list(columns), output.relation, replaces=replaces
                    )
                )
            self._connection.run(f"COMMENT ON VIEW {output.name.quoted} IS {mark}")
        else:
            if output.replaced_kind:
                self.drop_table(output.name)
            self._connection.run(
                f"ALTER TABLE {output.staging_name.quoted} RENAME TO {quote(output.name.name)}"
            )
        self._connection.run(f"COMMENT ON TABLE {output.relation.quoted} IS {mark}")

    def drop_view(self, relation: RelationName) -> None:
        super().drop_view(self._resolve_output(relation))

    def drop_table(self, relation: RelationName) -> None:
        super().drop_table(self._resolve_output(relation))
