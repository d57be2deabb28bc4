"""Hash the rows of tables of SQLite, in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbanon.data.schema import Attribute
from dbanon.sessions.base import Relation
from dbanon.sessions.digests import AttributeDigests
from dbanon.sessions.names import RelationName, quote_list
from dbanon.stores.sqlite import dialect
from dbanon.stores.sqlite.connection import SqliteConnection
from dbanon.stores.sqlite.errors import translate_errors


class SqliteDigests(AttributeDigests):
    """Computes digests of rows that SQLite returns.

    Parameters
    ----------
    connection : executes the queries.
    """

    method = dialect.DIGEST_METHOD

    def __init__(
        self, connection: SqliteConnection, find_source: Callable[[RelationName], Relation]
    ) -> None:
        super().__init__(find_source)
        self._connection = connection

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
