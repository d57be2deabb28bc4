"""Create, publish and drop the outputs of releases on SQLite."""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.sessions.base import MARK, Output
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.sessions.publication import Publication
from dbanon.stores.file_session import read_only_error
from dbanon.stores.sqlite.connection import SqliteConnection
from dbanon.stores.sqlite.dialect import quote_type


class SqlitePublication(Publication):
    """Writes and publishes releases on SQLite."""

    _connection: SqliteConnection

    def lock(self, name: RelationName) -> None:
        # Lock nothing, since a database file has a single writer; only check that it is writable.
        if self._connection.is_read_only:
            raise read_only_error()

    def create_table(
        self, output: Output, columns: Sequence[tuple[str, str]], release_id: str
    ) -> None:
        # SQLite stores the text of CREATE statements, so a comment in it can mark the release.
        body = ", ".join(f"{quote(name)} {quote_type(sql_type)}" for name, sql_type in columns)
        self._connection.run(
            f"CREATE TABLE {output.staging_name.quoted} (/* {MARK}{release_id} */ {body})"
        )

    def publish(self, output: Output, columns: Sequence[str]) -> None:
        if output.kind == "view":
            if output.replaced_kind:
                self._connection.run(f"DROP VIEW {output.name.quoted}")
            # Put the mark before the column names: a name could contain text that looks like it.
            self._connection.run(
                f"CREATE VIEW {output.name.quoted} /* {MARK}{output.release_id} */"
                f" ({quote_list(columns)}) AS"
                f" SELECT {quote_list(columns)} FROM {output.relation.quoted}"
            )
            return
        if output.replaced_kind:
            self.drop_table(output.name)
        # Without this setting, RENAME fails if views still refer to the dropped table.
        self._connection.run("PRAGMA legacy_alter_table = ON")
        try:
            self._connection.run(
                f"ALTER TABLE {output.staging_name.quoted} RENAME TO {quote(output.name.name)}"
            )
        finally:
            self._connection.run("PRAGMA legacy_alter_table = OFF")
