"""Hash the rows of tables of SQLite, in Python."""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.data.schema import Attribute
from dbanon.sessions.digests import AttributeDigests
from dbanon.sessions.names import RelationName, quote_list
from dbanon.stores.sqlite import dialect
from dbanon.stores.sqlite.connection import SqliteConnection
from dbanon.stores.sqlite.errors import translate_errors


class SqliteDigests(AttributeDigests):
    """Computes digests of rows that SQLite returns."""

    _connection: SqliteConnection
    method = dialect.DIGEST_METHOD

    def of_attributes(
        self, relation: RelationName, columns: Sequence[Attribute], salt: int
    ) -> tuple[int, int]:
        names = quote_list((column.name for column in columns), "s.")
        query = f"SELECT {names} FROM {relation.quoted} AS s"
        self._connection.report(query)
        with translate_errors():
            return dialect.digest_of_query(self._connection.driver, query, salt)

    def probe(self) -> str:
        return dialect.digest_probe()
