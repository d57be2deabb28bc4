"""What chains need of DuckDB: row hashes, and an unpredictable row order."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.chain_dialect import ChainDialect
from dbanon.sessions.chain_staging import SHUFFLE
from dbanon.sessions.connection import Connection
from dbanon.sessions.names import RelationName, quote
from dbanon.stores.duckdb import dialect


class DuckdbChainDialect(ChainDialect):
    """The SQL with which DuckDB makes releases of chains.

    Parameters
    ----------
    find_source : looks up a relation with its columns.
    """

    def __init__(
        self, connection: Connection, find_source: Callable[[RelationName], Relation]
    ) -> None:
        super().__init__(connection)
        self._find_source = find_source
        # Whether the secret of ``random_order_key`` is staged.
        self._has_secret = False

    def row_hash(self, relation: RelationName, names: Sequence[str]) -> str | None:
        source = self._find_source(relation)
        columns = [source.attribute(name) for name in names]
        # Each call draws a new salt, a positive BIGINT, so that equal rows get different hashes in
        # different calls.
        return dialect.row_hash(columns, secrets.randbits(62) + 1)

    def random_order_key(self, alias: str) -> str:
        # Do not use DuckDB's random functions, which the caller can predict by ``setseed``.
        if not self._has_secret:
            self._has_secret = True
            self._connection.run(statements.create_staging(SHUFFLE, [("secret", "BLOB")]))
            secret = [(secrets.token_bytes(32),)]
            self._connection.insert_rows(RelationName(None, SHUFFLE), ["secret"], secret)
        secret_query = f"(SELECT secret FROM {quote(SHUFFLE)})"
        return f"sha256({secret_query} || encode(CAST({alias}.rowid AS VARCHAR)))"
