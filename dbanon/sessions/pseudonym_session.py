"""The part of a session that chains need: keyed tags and an unpredictable row order.

A chain is a series of releases of one source, whose persons stay in the same classes. Such a
lasting class is a *cell*, and a *member* is a person who was admitted to a cell. A *tag* is the
keyed hash of a person's identifier. *Displayed* rows are those in the newest release. A person's
*history* is the person's cell, and the release at which the person left it, if any. A *retained*
column is released unchanged.
"""

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

# Names of the staging tables of a chain's release.

# The key material of tags: the bytes before the identifier in the inner hash, and the bytes before
# the inner hash in the outer one (see ``PseudonymSession.stage_key``).
SECRET = "dbanon_secret"
# A random secret for the row order, or for the hashes of rows that are fetched.
SHUFFLE = "dbanon_shuffle"

# All persons in the source or the chain, with their tags; only on PostgreSQL.
TAGGED_PERSONS = "dbanon_tagged"
# Persons in the source: person (identifier), tag, cell, left_at, retained columns k0, k1 and so on.
# The cell, and the release at which the person left it, are NULL unless the person is a member.
PRESENT_PERSONS = "dbanon_present"
# Members who are not in the source.
ABSENT_MEMBERS = "dbanon_missing"
# Persons in the source who are not members yet.
NEWCOMERS = "dbanon_newcomers"
# Newcomers who are not admitted yet, with the release since which they have been waiting.
WAITING_NEWCOMERS = "dbanon_waiting"
# Row keys, tags and cells of persons that the client loaded.
LOADED_PERSONS = "dbanon_matched"
# The tags of persons to withdraw; in chains that only measure, the tags of all persons, with their
# histories.
PERSON_TAGS = "dbanon_traces"
# Members of the closed chain that this one follows, with their cells there.
PREDECESSOR_MEMBERS = "dbanon_before"

# Per displayed cell, the number of members in the source, and whether their rows changed.
CELL_COUNTS = "dbanon_counted"
# The next state of every displayed cell: cell, members, present, is_unchanged, state. ``members``
# and ``present`` are the numbers of all members, and of those in the source.
NEXT_CELL_STATES = "dbanon_verdict"
# The rows that the release takes from the source: those of new cells, and of cells whose displayed
# rows are replaced; only for sources with several rows per person.
NEW_ROWS = "dbanon_current"
# Per cell with changed rows, the number of rows (n_changed) that differ from the last release.
CHANGED_CELLS = "dbanon_differing"
# Frozen cells whose rows have changed, and with a member who was absent and has returned.
CELLS_WITH_RETURNED = "dbanon_returned"
# Cells whose rows in the source would violate a privacy model.
FAILING_CELLS = "dbanon_unfit"

# The following three are for the recount of a release.
# Cells that display rows of persons who are not in the source.
CELLS_WITH_ABSENT = "dbanon_absent"
# The rows that ``CELLS_WITH_ABSENT`` displayed in the last release.
EARLIER_ROWS = "dbanon_shown"
# The number of persons (size) who share each history: cell, left_at.
HISTORY_SIZES = "dbanon_histories"

# The following six are for sources with several rows per person.
# All rows of the persons in the source.
SOURCE_ROWS = "dbanon_entries"
# The rows that may be displayed, for persons who have more rows than the limit.
LIMITED_ROWS = "dbanon_chosen"
# The newcomers, one row each, with the values by which they are grouped into classes.
NEWCOMER_RECORDS = "dbanon_persons"
# The persons with displayed rows, one row each, with a digest of these rows.
DISPLAYED_PERSONS = "dbanon_displayed"
# The persons in new cells, and in cells whose displayed rows are replaced.
RENEWED_PERSONS = "dbanon_renewed"
# The same persons with their numbers in the release.
NUMBERED_PERSONS = "dbanon_numbered"
# All staging tables of chains.
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

# The values of a fetched column: int64 (n_rows,); or the halves of 16 bytes, uint64 (n_rows, 2).
ColumnArray: TypeAlias = "NDArray[Any]"

# Names of the columns of the table ``SECRET``.
INNER_BLOCK, OUTER_BLOCK = "inner_block", "outer_block"


class PseudonymSession(SessionInterface):
    """The part of a session that chains and pseudonyms need."""

    bytes_type: ClassVar[str] = "BLOB"
    # SQL that is appended to a subquery so that its expressions are computed only once per row.
    compute_once_clause: ClassVar[str] = ""
    # Whether tags are hashed twice, as in an HMAC: with the inner block, then with the outer one.
    # Otherwise, the tag is taken from the hash with the inner block.
    _hashes_twice = True
    # Whether a key, or a salt in place of a key, is in the table ``SECRET``.
    _has_key = False

    @abstractmethod
    def keyed_tag(self, text: str) -> str:
        """SQL for the keyed tag, 16 bytes, of a SQL text; call ``stage_key`` before."""

    def pseudonym_of(self, text: str) -> str:
        """SQL for the pseudonym of a SQL text, in hexadecimal digits; NULL for NULL."""
        return f"lower(hex({self.keyed_tag(text)}))"

    def salted_hash(self, text: str) -> str:
        """SQL for an 8-byte salted hash of a SQL text; call ``stage_salt`` before."""
        return f"substr({self.keyed_tag(text)}, 1, 8)"

    def stage_salt(self, salt: bytes) -> None:
        """Stage the salt of ``salted_hash``; it replaces a key that is staged already."""
        if self._has_key:
            self.stage_other_key(salt, b"")
        else:
            self.stage_key(salt, b"")

    def has_padding(self, attribute: Attribute) -> bool:
        """Return whether reading a column adds padding that casting it to text would not add."""
        return False

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

    def person_staging_queries(
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
        [(equates_spellings,)] = self.rows(
            f"SELECT count(*) FROM (SELECT {column} AS value FROM {source.name.quoted} AS s"
            " WHERE 1 = 0 UNION ALL SELECT 'a') AS t WHERE t.value = 'A' OR t.value = 'a '"
        )
        return not equates_spellings

    def comparison_value(self, attribute: Attribute, column: str) -> str:
        """SQL for a value as privacy models compare it: numbers by value, all else by its text.

        Parameters
        ----------
        column : the name of a column of the alias s that holds the attribute's values.
        """
        if attribute.kind.is_numeric:
            return f"s.{quote(column)}"
        return self.text_of(replace(attribute, name=column))

    def logarithm(self, number: str) -> str:
        """SQL for the natural logarithm of a positive SQL number."""
        return f"ln({number})"

    # Whether ``fetch``, ``load``, ``append``, ``hash_with_secret``, ``load_cells`` and
    # ``insert_cells`` are supported. They exchange columns as arrays, without NULLs, and with
    # values of a fixed width: ``bigint``, ``integer``, ``oid``, ``tid``, ``bytea`` of 16 bytes, or
    # ``text`` of 4 bytes.
    supports_arrays: ClassVar[bool] = False
    # SQL for the tag of a row without a person: 16 zero bytes.
    no_person_tag: ClassVar[str] = ""

    def fetch(self, columns: Sequence[tuple[str, str]], rows: str) -> list[ColumnArray]:
        """Fetch columns as arrays, with the rows in any order.

        Parameters
        ----------
        columns : pairs of SQL and type; texts are not supported.
        rows : the FROM clause.
        """
        raise NotImplementedError

    def load(self, table: str, columns: Sequence[tuple[str, str, ColumnArray]]) -> None:
        """Create a staging table from the name, type and values of each column."""
        raise NotImplementedError

    def append(self, table: RelationName, columns: Sequence[tuple[str, str, ColumnArray]]) -> None:
        """Add rows to a table, from the name, type and values of each column."""
        raise NotImplementedError

    def hash_with_secret(self, row_hash: str) -> str:
        """SQL for a hash of a row's hash and of a new secret, which never leaves the database.

        Parameters
        ----------
        row_hash : SQL of the row's hash.
        """
        raise NotImplementedError

    def load_cells(self, source: Relation, microdata: Microdata, partition: Partition) -> bool:
        """Load the class of each row as arrays, for ``insert_cells``.

        Returns False if this is not supported, or if the labels of the partition are staged
        already.
        """
        return False

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
        return False

    def locator_keys_as_integers(self, source: Relation) -> list[str]:
        """SQL for the columns of a row's key, as the integers of ``Microdata.keys``."""
        return list(source.required_locator.expressions)

    def keys_in_order(
        self, source: Relation, joins: str, integer: str, sort_key: str
    ) -> NDArray[np.int64]:
        """Return the row keys, each followed by an integer, int64 (n_rows, n_key_columns + 1).

        Parameters
        ----------
        joins : JOINs that follow the source in the FROM clause.
        integer : SQL of the integer.
        sort_key : SQL of the value by which the rows are sorted.
        """
        keys = ", ".join(self.locator_keys_as_integers(source))
        rows = self.rows(
            f"SELECT {keys}, {integer} FROM {source.from_clause} {joins}{source.where_clause}"
            f" ORDER BY {sort_key}"
        )
        return np.array(rows, np.int64).reshape(len(rows), len(source.required_locator.types) + 1)

    def stage_key(self, inner: bytes, outer: bytes) -> None:
        """Stage the two blocks of bytes that make hashes keyed, in a way that never logs them.

        Parameters
        ----------
        inner : the bytes that precede the text in the inner hash.
        outer : the bytes that precede the inner hash in the outer hash; empty if there is no outer
            hash.
        """
        self._hashes_twice, self._has_key = bool(outer), True
        blocks = [(INNER_BLOCK, self.bytes_type), (OUTER_BLOCK, self.bytes_type)]
        self.run(statements.create_staging(SECRET, blocks, self.staging_suffix))
        self.insert_rows(RelationName(None, SECRET), [INNER_BLOCK, OUTER_BLOCK], [(inner, outer)])

    def stage_other_key(self, inner: bytes, outer: bytes) -> None:
        """Replace the staged key blocks by those of another key."""
        self.run(f"DROP TABLE {quote(SECRET)}")
        self.stage_key(inner, outer)


def staged_block(name: str) -> str:
    """SQL for a block of the staged key: ``INNER_BLOCK`` or ``OUTER_BLOCK``."""
    return f"(SELECT {name} FROM {quote(SECRET)})"
