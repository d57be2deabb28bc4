"""Hash the rows of tables on DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbanon.data.schema import Attribute
from dbanon.sessions.base import Relation
from dbanon.sessions.connection import Connection
from dbanon.sessions.digests import AttributeDigests
from dbanon.sessions.names import RelationName
from dbanon.stores.duckdb import dialect


class DuckdbDigests(AttributeDigests):
    """Computes digests of rows in DuckDB.

    Parameters
    ----------
    connection : executes the queries.
    """

    method = dialect.DIGEST_METHOD

    def __init__(
        self, connection: Connection, find_source: Callable[[RelationName], Relation]
    ) -> None:
        super().__init__(find_source)
        self._connection = connection

    def of_attributes(
        self, relation: RelationName, columns: Sequence[Attribute], salt: int
    ) -> tuple[int, int]:
        query = dialect.digest_statement(relation, columns, salt)
        [(n_rows, hash_sum)] = self._connection.rows(query)
        return int(n_rows), int(hash_sum)

    def probe(self) -> str:
        return str(self._connection.rows(dialect.DIGEST_PROBE)[0][0])
