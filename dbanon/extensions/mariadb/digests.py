"""Hash the rows of tables on MariaDB."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from dbanon.data.schema import Attribute
from dbanon.extensions.mariadb import dialect as mariadb_dialect
from dbanon.sessions.base import Relation
from dbanon.sessions.connection import Connection
from dbanon.sessions.digests import AttributeDigests
from dbanon.sessions.names import RelationName


class MariadbDigests(AttributeDigests):
    """Computes digests of rows on the server.

    Parameters
    ----------
    connection : executes the queries.
    """

    method = mariadb_dialect.DIGEST_METHOD

    def __init__(
        self, connection: Connection, find_source: Callable[[RelationName], Relation]
    ) -> None:
        super().__init__(find_source)
        self._connection = connection

    def of_attributes(
        self, relation: RelationName, columns: Sequence[Attribute], salt: int
    ) -> tuple[int, int]:
        query = mariadb_dialect.digest_statement(relation, columns, salt)
        [(n_rows, hash_sum)] = self._connection.rows(query)
        return int(n_rows), int(hash_sum)

    def probe(self) -> str:
        # Digests of servers with different results cannot be compared.
        [(probe,)] = self._connection.rows(mariadb_dialect.DIGEST_PROBE)
        return hashlib.sha256(str(probe).encode()).hexdigest()[:16]
