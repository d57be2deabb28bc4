"""Hash the rows of tables of SQLite, in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbanon.data.schema import Attribute
from dbanon.sessions.base import Relation
from dbanon.sessions.digests import AttributeDigests
from dbanon.sessions.names import RelationName, quote_list
from dbanon.stores.sqlite import dialect


class SqliteDigests(AttributeDigests):
    """Computes digests of rows that SQLite returns.

    Parameters
    ----------
    hash_query : executes a query, and returns the number of its rows and the sum of their hashes
        under a salt.
    """

    method = dialect.DIGEST_METHOD

    def __init__(
        self,
        find_source: Callable[[RelationName], Relation],
        hash_query: Callable[[str, int], tuple[int, int]],
    ) -> None:
        super().__init__(find_source)
        self._hash_query = hash_query

    def of_attributes(
        self, relation: RelationName, columns: Sequence[Attribute], salt: int
    ) -> tuple[int, int]:
        names = quote_list((column.name for column in columns), "s.")
        return self._hash_query(f"SELECT {names} FROM {relation.quoted} AS s", salt)

    def probe(self) -> str:
        return dialect.digest_probe()
