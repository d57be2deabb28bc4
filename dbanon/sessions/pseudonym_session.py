"""The part of a session that chains need: keyed tags and an unpredictable row order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.interface import SessionInterface
from dbanon.sessions.names import RelationName, quote

# Names of the staging tables of a chain's release. A cell is a class of the chain.
# The two blocks of the key for tags.
SECRET = "dbanon_secret"
# All persons in the source or the chain, with their tags; only on PostgreSQL.
TAGGED_PERSONS = "dbanon_tagged"
# Persons in the source, with their tags, and with their cells if they are members.
PRESENT_PERSONS = "dbanon_present"
# Members who are not in the source.
ABSENT_MEMBERS = "dbanon_missing"
# Persons in the source who are not members yet.
NEWCOMERS = "dbanon_newcomers"
# Newcomers who are not admitted, with the start of their wait.
WAITING_NEWCOMERS = "dbanon_waiting"
# Per displayed cell, the number of members in the source, and whether their rows changed.
CELL_COUNTS = "dbanon_counted"
# Row keys, tags and cells of persons that the client loaded.
LOADED_PERSONS = "dbanon_matched"
# The next state of every cell.
NEXT_CELL_STATES = "dbanon_verdict"
# The rows that the release writes anew.
NEW_ROWS = "dbanon_current"
# Per cell, the number of rows that differ from the last release.
CHANGED_CELLS = "dbanon_differing"
# Cells with returned persons whose rows differ from the displayed ones.
CELLS_WITH_RETURNED = "dbanon_returned"
# Cells whose rows in the source would violate a privacy model.
FAILING_CELLS = "dbanon_unfit"
# Tags of persons: of those to withdraw, or, in chains that only measure, of all persons with their
# histories.
PERSON_TAGS = "dbanon_traces"
# The random secret that determines the row order.
SHUFFLE = "dbanon_shuffle"
# For the recount of a release: cells that display persons who are not in the source,
CELLS_WITH_ABSENT = "dbanon_absent"
# the rows that these cells displayed before,
EARLIER_ROWS = "dbanon_shown"
# and the number of persons who share each history.
HISTORY_SIZES = "dbanon_histories"
# Members of the preceding chain, with their cells there.
PREDECESSOR_MEMBERS = "dbanon_before"
# For persons with several rows: these rows from the source,
SOURCE_ROWS = "dbanon_entries"
# the rows that may be displayed of persons who exceed the row limit,
LIMITED_ROWS = "dbanon_chosen"
# the persons who are not members yet, one row each, with the values that classes use,
NEWCOMER_RECORDS = "dbanon_persons"
# the displayed persons, one row each, with a digest of their displayed rows,
DISPLAYED_PERSONS = "dbanon_displayed"
# and the persons whose rows the release writes anew, with their numbers in it.
RENEWED_PERSONS = "dbanon_renewed"
NUMBERED_PERSONS = "dbanon_numbered"
STAGING = (
    SECRET,
    TAGGED_PERSONS,
    PRESENT_PERSONS,
    ABSENT_MEMBERS,
    NEWCOMERS,
    WAITING_NEWCOMERS,
    NEXT_CELL_STATES,
    NEW_ROWS,
    CHANGED_CELLS,
    CELLS_WITH_RETURNED,
    FAILING_CELLS,
    PERSON_TAGS,
    SHUFFLE,
    CELLS_WITH_ABSENT,
    EARLIER_ROWS,
    HISTORY_SIZES,
    PREDECESSOR_MEMBERS,
    SOURCE_ROWS,
    LIMITED_ROWS,
    NEWCOMER_RECORDS,
    DISPLAYED_PERSONS,
    RENEWED_PERSONS,
    NUMBERED_PERSONS,
    CELL_COUNTS,
    LOADED_PERSONS,
)

# The values of a fetched column: int64 (n,), or 16 bytes as two halves, uint64 (n, 2).
ColumnArray: TypeAlias = "NDArray[Any]"

# Columns of the staged key.
INNER_BLOCK, OUTER_BLOCK = "inner_block", "outer_block"


class PseudonymSession(SessionInterface):
    """The part of a session that chains and pseudonyms need."""

    bytes_type: ClassVar[str] = "BLOB"
    # Appended to a subquery so that its expressions are computed once per row.
    compute_once_clause: ClassVar[str] = ""
    # Whether the staged key is for an HMAC, with an inner and an outer hash.
    _hashes_twice = True
    _has_key = False

    @abstractmethod
    def keyed_tag(self, text: str) -> str:
        """SQL for the keyed tag, 16 bytes, of a SQL text; needs a staged key."""

    def pseudonym_of(self, text: str) -> str:
        """SQL for the pseudonym of a SQL text, in hexadecimal digits; NULL for NULL."""
        return f"lower(hex({self.keyed_tag(text)}))"

    def salted_hash(self, text: str) -> str:
        """SQL for an 8-byte salted hash of a SQL text; needs a staged salt."""
        return f"substr({self.keyed_tag(text)}, 1, 8)"

    def stage_salt(self, salt: bytes) -> None:
        """Stage the salt of ``salted_hash``, replacing a staged key."""
        if self._has_key:
            self.stage_other_key(salt, b"")
        else:
            self.stage_key(salt, b"")

    def has_padding(self, attribute: Attribute) -> bool:
        """Return whether fixed-length values are read with padding that their text lacks."""
        return False

    @abstractmethod
    def random_order_key(self, alias: str) -> str:
        """SQL to order the rows of a table unpredictably."""

    @contextmanager
    def prepare_tagging(self) -> Iterator[None]:
        """Prepare the database to compute a tag for each of many rows."""
        yield

    @contextmanager
    def prepare_sorting(self) -> Iterator[None]:
        """Prepare the database to join or group one row per person, by nearly sorted keys."""
        yield

    @contextmanager
    def prepare_lookup(self) -> Iterator[None]:
        """Prepare the database to look up some of many recently read rows."""
        yield

    def person_staging_queries(
        self, persons: str, columns: Sequence[str], members: str
    ) -> list[tuple[str, str, str]]:
        """Return the kind, name and query of staging tables: present persons and missing members.

        Parameters
        ----------
        persons : SQL of the persons in the source: ``person``, ``tag`` and further columns.
        columns : the names of the further columns.
        members : SQL of all members of the chain: ``tag``, ``cell`` and ``left_at``.
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
        """SQL that counts the rows for each pair of two integers; the second may be NULL.

        Parameters
        ----------
        first, second : SQL of the integers.
        second_name : name of ``second`` in the result.
        rows : FROM clause with a condition.
        """
        return (
            f"SELECT {first}, {second} AS {second_name}, CAST(count(*) AS integer) AS size"
            f" FROM {rows} GROUP BY {first}, {second}"
        )

    def shuffled_by_cell(self, rows: str, values: RelationName) -> tuple[str, str]:
        """FROM clause for rows r of cells with each cell's values v, and SQL of a random order.

        Rows with equal values may be adjacent, but the order must not reveal cells.

        Parameters
        ----------
        rows, values : the tables, the first one quoted; both have a column ``cell``.
        """
        return f"{rows} AS r JOIN {values.quoted} AS v ON v.cell = r.cell", self.random_order_key(
            "r"
        )

    def row_hash(self, relation: RelationName, names: Sequence[str]) -> str | None:
        """SQL for a freshly salted hash of columns, over the alias s; None if not supported.

        Rows that differ in any byte have different hashes.

        Parameters
        ----------
        relation : a relation with columns of these names and types.
        """
        return None

    def row_digest(self, relation: RelationName, names: Sequence[str]) -> str:
        """SQL for a number computed from these columns, over the alias s, as ``row_hash``.

        Different multisets of rows have different sums, except by chance.
        """
        hash_sql = self.row_hash(relation, names)
        assert hash_sql is not None
        return hash_sql

    def distinguishes_all_texts(self, source: Relation, attribute: Attribute) -> bool:
        """Return True if texts of a column are equal only if all their bytes are."""
        column = f"s.{quote(attribute.name)}"
        [(equates_spellings,)] = self.rows(
            f"SELECT count(*) FROM (SELECT {column} AS value FROM {source.name.quoted} AS s"
            " WHERE 1 = 0 UNION ALL SELECT 'a') AS t WHERE t.value = 'A' OR t.value = 'a '"
        )
        return not equates_spellings

    def comparison_value(self, attribute: Attribute, column: str) -> str:
        """SQL for a value as privacy models compare it: equal numbers are one value.

        Parameters
        ----------
        column : of the alias s, with the attribute's values.
        """
        if attribute.kind.is_numeric:
            return f"s.{quote(column)}"
        return self.text_of(replace(attribute, name=column))

    def logarithm(self, number: str) -> str:
        """SQL for the natural logarithm of a positive SQL number."""
        return f"ln({number})"

    # Whether the next six methods are supported. Their columns have fixed width, of the types
    # ``bigint``, ``integer``, ``oid``, ``tid``, ``bytea`` of 16 bytes and ``text`` of 4, and hold
    # no NULL.
    supports_arrays: ClassVar[bool] = False
    # SQL for the tag of a row without a person: 16 zero bytes.
    absent_tag: ClassVar[str] = ""

    def fetch(self, columns: Sequence[tuple[str, str]], rows: str) -> list[ColumnArray]:
        """Fetch columns, given by SQL and type, from a FROM clause, in any order; no texts."""
        raise NotImplementedError

    def load(self, table: str, columns: Sequence[tuple[str, str, ColumnArray]]) -> None:
        """Create a staging table from the name, type and values of each column."""
        raise NotImplementedError

    def append(self, table: RelationName, columns: Sequence[tuple[str, str, ColumnArray]]) -> None:
        """Add rows to a table; columns as in ``load``."""
        raise NotImplementedError

    def secret_code(self, hashed: str) -> str:
        """SQL for an unpredictable hash of a SQL hash; equal inputs give equal hashes."""
        raise NotImplementedError

    def load_cells(self, source: Relation, microdata: Microdata, partition: Partition) -> bool:
        """Load the classes of rows for ``insert_cells``; False if not supported."""
        return False

    def insert_cells(
        self, table: RelationName, values: Mapping[str, str], source: Relation, reads: Sequence[str]
    ) -> bool:
        """Insert rows class by class, in random order within each, if classes were loaded.

        Parameters
        ----------
        values : SQL by column, over the aliases s of the source and c, whose ``class`` is the
            class.
        reads : source columns that the values use.
        """
        return False

    def keys_as_read(self, source: Relation) -> list[str]:
        """SQL for the columns of a row's key, as the numbers that ``read`` returns."""
        return list(source.required_locator.expressions)

    def keys_in_order(
        self, source: Relation, joined: str, number: str, order: str
    ) -> NDArray[np.int64]:
        """Return row keys in a given order, each followed by an integer.

        The array is int64 (n_rows, n_key_columns + 1).

        Parameters
        ----------
        joined : SQL that follows the source in FROM.
        number, order : SQL of the integer, and of the sort key.
        """
        keys = ", ".join(self.keys_as_read(source))
        rows = self.rows(
            f"SELECT {keys}, {number} FROM {source.from_clause} {joined}{source.where_clause}"
            f" ORDER BY {order}"
        )
        return np.array(rows, np.int64).reshape(len(rows), len(source.required_locator.types) + 1)

    def stage_key(self, inner: bytes, outer: bytes) -> None:
        """Stage the two key blocks of a hash in a way that never logs values.

        Parameters
        ----------
        outer : empty if only the inner hash is used.
        """
        self._hashes_twice, self._has_key = bool(outer), True
        blocks = [(INNER_BLOCK, self.bytes_type), (OUTER_BLOCK, self.bytes_type)]
        self.run(statements.create_staging(SECRET, blocks, self.staging_suffix))
        self.insert_rows(RelationName(None, SECRET), [INNER_BLOCK, OUTER_BLOCK], [(inner, outer)])

    def stage_other_key(self, inner: bytes, outer: bytes) -> None:
        """Replace the staged blocks by those of another keyed hash."""
        self.run(f"DROP TABLE {quote(SECRET)}")
        self.stage_key(inner, outer)


def staged_block(name: str) -> str:
    """SQL for a block of the staged key."""
    return f"(SELECT {name} FROM {quote(SECRET)})"
