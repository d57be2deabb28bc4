"""Hash the rows of tables on MariaDB."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from dbanon.data.schema import Attribute
from dbanon.extensions.mariadb import dialect as mariadb_dialect
from dbanon.sessions.digests import AttributeDigests
from dbanon.sessions.names import RelationName


class MariadbDigests(AttributeDigests):
    """Computes digests of rows on the server."""

    method = mariadb_dialect.DIGEST_METHOD

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
