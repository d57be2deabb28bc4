"""What chains need of SQLite: row digests and logarithms, by functions written in Python."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Sequence

from dbanon.sessions.chain_dialect import ChainDialect
from dbanon.sessions.names import RelationName, quote
from dbanon.stores.sqlite.connection import SqliteConnection

# Names of the SQL functions.
_LOGARITHM_FUNCTION = "dbanon_ln"
_DIGEST_FUNCTION = "dbanon_row_digest"
# The size of row digests: small enough that sums over thousands of rows are 64-bit integers.
_DIGEST_BYTES = 6


class SqliteChainDialect(ChainDialect):
    """The SQL with which SQLite makes releases of chains."""

    _connection: SqliteConnection

    def logarithm(self, number: str) -> str:
        # SQLite may be built without math functions.
        self._connection.driver.create_function(
            _LOGARITHM_FUNCTION, 1, math.log, deterministic=True
        )
        return f"{_LOGARITHM_FUNCTION}({number})"

    def row_digest(self, relation: RelationName, names: Sequence[str]) -> str:
        salt = secrets.token_bytes(16)

        def digest(*values: float | str | bytes | None) -> int:
            row_hash = hashlib.blake2b(repr(values).encode(), key=salt, digest_size=_DIGEST_BYTES)
            return int.from_bytes(row_hash.digest(), "big")

        # Each call of row_digest has a new salt, so digests of different calls cannot be compared.
        self._connection.driver.create_function(_DIGEST_FUNCTION, -1, digest, deterministic=True)
        return f"{_DIGEST_FUNCTION}({', '.join(f's.{quote(name)}' for name in names)})"

    def random_order_key(self, alias: str) -> str:
        return "randomblob(16)"
