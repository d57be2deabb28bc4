"""What differs between databases when they make a release of a chain.

``chain_staging`` explains the terms, and names the staging tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dbanon.data.schema import Attribute
from dbanon.sessions.base import Relation
from dbanon.sessions.chain_staging import ABSENT_MEMBERS, PRESENT_PERSONS
from dbanon.sessions.connection import Connection
from dbanon.sessions.names import RelationName, quote


class ChainDialect(ABC):
    """The SQL and the settings with which a database makes releases of chains.

    Parameters
    ----------
    connection : executes SQL in the transaction that makes the release.
    """

    # SQL that is appended to a subquery so that its expressions are computed only once per row.
    compute_once_clause: ClassVar[str] = ""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @abstractmethod
    def random_order_key(self, alias: str) -> str:
        """SQL of a sort key that puts the rows of a table in an unpredictable order.

        Parameters
        ----------
        alias : the alias of the table.
        """

    @contextmanager
    def tune_for_tagging(self) -> Iterator[None]:
        """While the block runs, tune the database for computing the tags of many rows."""
        yield

    @contextmanager
    def tune_for_sorting(self) -> Iterator[None]:
        """While the block runs, tune the database for joining or grouping by nearly sorted keys."""
        yield

    @contextmanager
    def tune_for_lookup(self) -> Iterator[None]:
        """While the block runs, tune the database for looking up a few of the rows just read."""
        yield

    def build_person_queries(
        self, persons: str, columns: Sequence[str], members: str
    ) -> list[tuple[str, str, str]]:
        """Return how to create ``PRESENT_PERSONS``, ``ABSENT_MEMBERS`` and what they depend on.

        Each relation is described by its kind (TABLE or VIEW), name and query.

        Parameters
        ----------
        persons : query of the persons in the source, with columns ``person``, ``tag`` and
            ``columns``.
        columns : the names of the further columns of ``persons``.
        members : query of all members of the chain, with columns ``tag``, ``cell`` and ``left_at``,
            the release at which the member left the cell; NULL if the member has not left.
        """
        person_columns = ", ".join(f"t.{name}" for name in ("person", "tag", *columns))
        return [
            (
                "TABLE",
                PRESENT_PERSONS,
                f"SELECT {person_columns}, m.cell, m.left_at FROM ({persons}) AS t"
                f" LEFT JOIN ({members}) AS m ON m.tag = t.tag",
            ),
            (
                "TABLE",
                ABSENT_MEMBERS,
                f"SELECT m.tag FROM ({members}) AS m WHERE m.left_at IS NULL"
                f" AND NOT EXISTS (SELECT 1 FROM {quote(PRESENT_PERSONS)} AS p"
                " WHERE p.tag = m.tag)",
            ),
        ]

    def count_pairs_sql(self, first: str, second: str, second_name: str, rows: str) -> str:
        """SQL that counts the rows for each pair of values in two integer columns.

        The result has the two values of each pair, and ``size``, the number of rows with both.

        Parameters
        ----------
        first : name of the first column, also in the result.
        second : name of the second column, which may hold NULL.
        second_name : name of the second column in the result.
        rows : FROM clause with a condition.
        """
        return (
            f"SELECT {first}, {second} AS {second_name}, CAST(count(*) AS integer) AS size"
            f" FROM {rows} GROUP BY {first}, {second}"
        )

    def shuffled_join_sql(self, rows: str, values: RelationName) -> tuple[str, str]:
        """Return a FROM clause that joins rows with their cells' values, and a random sort key.

        The aliases are r for rows and v for values. Rows with equal values may be adjacent, but the
        order must not reveal which of them are in the same cell.

        Parameters
        ----------
        rows : the quoted table of rows, with a column ``cell``.
        values : the table with one row of released values per ``cell``.
        """
        return f"{rows} AS r JOIN {values.quoted} AS v ON v.cell = r.cell", self.random_order_key(
            "r"
        )

    def row_hash(self, relation: RelationName, names: Sequence[str]) -> str | None:
        """SQL for a hash of columns, over the alias s, with a new random salt at each call.

        Rows that differ in any byte have different hashes. Returns None if not supported.

        Parameters
        ----------
        relation : a relation that has these columns; it determines their types.
        """
        return None

    def row_digest(self, relation: RelationName, names: Sequence[str]) -> str:
        """SQL for a hash of these columns as a number, over the alias s; see ``row_hash``.

        Two sets of rows have the same sum of these numbers only if they are equal, or by chance.
        """
        hash_sql = self.row_hash(relation, names)
        assert hash_sql is not None
        return hash_sql

    def distinguishes_all_texts(self, source: Relation, attribute: Attribute) -> bool:
        """Return True unless the column's collation equates different texts, such as a and A."""
        # Compare texts with the collation of the column, which the empty first SELECT determines.
        column = f"s.{quote(attribute.name)}"
        [(equates_spellings,)] = self._connection.rows(
            f"SELECT count(*) FROM (SELECT {column} AS value FROM {source.name.quoted} AS s"
            " WHERE 1 = 0 UNION ALL SELECT 'a') AS t WHERE t.value = 'A' OR t.value = 'a '"
        )
        return not equates_spellings

    def logarithm(self, number: str) -> str:
        """SQL for the natural logarithm of a positive SQL number."""
        return f"ln({number})"

    def read_keys_in_order(
        self, source: Relation, joins: str, integer: str, sort_key: str
    ) -> NDArray[np.int64]:
        """Read the row keys, each followed by an integer, int64 (n_rows, n_key_columns + 1).

        Parameters
        ----------
        joins : JOINs that follow the source in the FROM clause.
        integer : SQL of the integer.
        sort_key : SQL of the value by which the rows are sorted.
        """
        keys = ", ".join(source.required_locator.expressions)
        rows = self._connection.rows(
            f"SELECT {keys}, {integer} FROM {source.from_clause} {joins}{source.where_clause}"
            f" ORDER BY {sort_key}"
        )
        return np.array(rows, np.int64).reshape(len(rows), len(source.required_locator.types) + 1)
