"""Hash the rows of tables, so that later runs see whether a table was changed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from dbanon.data.schema import Attribute
from dbanon.sessions.base import Relation
from dbanon.sessions.connection import Connection
from dbanon.sessions.names import RelationName


class Digests(ABC):
    """Computes digests: sums of the hashes of rows, which do not depend on the rows' order."""

    # The name of the algorithm of ``of_rows``, as the ledger records it.
    method: ClassVar[str]

    @abstractmethod
    def of_rows(self, relation: RelationName, salt: int) -> tuple[int, int]:
        """Return the row count and the sum of the row hashes under a salt, 1 to 2**62."""

    @abstractmethod
    def of_columns(self, relation: Relation, names: Sequence[str], salt: int) -> tuple[int, int]:
        """Return the same as ``of_rows``, but over these columns of a source only."""

    @abstractmethod
    def probe(self) -> str:
        """Hash fixed values, to show whether the database still has the same hash function.

        If the result differs from the one that was recorded with an earlier digest, the digest
        cannot be compared with new ones.
        """


class AttributeDigests(Digests):
    """Computes digests whose SQL depends on the types of the columns.

    Parameters
    ----------
    connection : executes the queries.
    find_source : looks up a relation, with the types of its columns.
    """

    def __init__(
        self, connection: Connection, find_source: Callable[[RelationName], Relation]
    ) -> None:
        self._connection, self._find_source = connection, find_source

    @abstractmethod
    def of_attributes(
        self, relation: RelationName, columns: Sequence[Attribute], salt: int
    ) -> tuple[int, int]:
        """Return the number of rows, and the sum of the rows' salted hashes over these columns."""

    def of_rows(self, relation: RelationName, salt: int) -> tuple[int, int]:
        return self.of_attributes(relation, self._find_source(relation).schema.attributes, salt)

    def of_columns(self, relation: Relation, names: Sequence[str], salt: int) -> tuple[int, int]:
        return self.of_attributes(
            relation.relation_to_read, [relation.attribute(name) for name in names], salt
        )
