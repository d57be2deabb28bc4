"""Hash the rows of tables on DuckDB."""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.data.schema import Attribute
from dbanon.sessions.digests import AttributeDigests
from dbanon.sessions.names import RelationName
from dbanon.stores.duckdb import dialect


class DuckdbDigests(AttributeDigests):
    """Computes digests of rows in DuckDB."""

    method = dialect.DIGEST_METHOD

    def of_attributes(
        self, relation: RelationName, columns: Sequence[Attribute], salt: int
    ) -> tuple[int, int]:
        query = dialect.digest_statement(relation, columns, salt)
        [(n_rows, hash_sum)] = self._connection.rows(query)
        return int(n_rows), int(hash_sum)

    def probe(self) -> str:
        return str(self._connection.rows(dialect.DIGEST_PROBE)[0][0])
