"""Exchange columns of a chain as arrays, on databases where this is faster than SQL.

Columns have no NULLs, and values of a fixed width: ``bigint``, ``integer``, ``oid``, ``tid``,
``bytea`` of 16 bytes, or ``text`` of 4 bytes. ``chain_staging`` explains the terms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

from dbanon.data.array_types import AnyArray
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName

# The values of a column: int64 (n_rows,); or the halves of 16 bytes, uint64 (n_rows, 2).
ColumnArray: TypeAlias = AnyArray


class ChainArrays(ABC):
    """The arrays that a chain fetches from its database, and sends there."""

    # SQL for the tag of a row without a person: 16 zero bytes, which no keyed hash of a person has.
    no_person_tag: ClassVar[str]

    @abstractmethod
    def fetch(self, columns: Sequence[tuple[str, str]], rows: str) -> list[ColumnArray]:
        """Fetch columns as arrays, with the rows in any order.

        Parameters
        ----------
        columns : pairs of SQL and type; texts are not supported.
        rows : the FROM clause.
        """

    @abstractmethod
    def load(self, table: str, columns: Sequence[tuple[str, str, ColumnArray]]) -> None:
        """Create a staging table from the name, type and values of each column."""

    @abstractmethod
    def append(self, table: RelationName, columns: Sequence[tuple[str, str, ColumnArray]]) -> None:
        """Add rows to a table, from the name, type and values of each column."""

    @abstractmethod
    def hash_with_secret(self, row_hash: str) -> str:
        """SQL for a hash of a row's hash and of a new secret, which never leaves the database.

        Parameters
        ----------
        row_hash : SQL of the row's hash.
        """

    @abstractmethod
    def load_cells(self, source: Relation, microdata: Microdata, partition: Partition) -> bool:
        """Load the class of each row as arrays, for ``insert_cells``.

        Returns False if the row keys do not fit arrays, or if the labels of the partition are
        staged already.
        """

    @abstractmethod
    def insert_cells(
        self,
        table: RelationName,
        values: Mapping[str, str],
        source: Relation,
        source_columns: Sequence[str],
    ) -> bool:
        """Insert the source's rows class by class, in random order within each class.

        Returns False if ``load_cells`` has not loaded the classes.

        Parameters
        ----------
        values : SQL of each column by name, over the aliases s (source) and c, whose column
            ``class`` is the row's class.
        source_columns : columns of the source that the values use.
        """
