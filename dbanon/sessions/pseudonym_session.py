"""What a session does for chains: tags under a key, rows in an order that nobody can foretell."""

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

# The staging tables of a chain's release. A cell is a class of the chain.
# The two blocks of the key that tags are computed with.
SECRET = "dbanon_secret"
# Every person in the source or in the chain, with the tag; only PostgreSQL has this table.
TAGGED = "dbanon_tagged"
# The persons in the source, with their tags, and with the cells of those who are members.
PRESENT = "dbanon_present"
# The members who are not in the source.
MISSING = "dbanon_missing"
# The persons in the source who are not members yet.
NEWCOMERS = "dbanon_newcomers"
# Those of them who are not admitted, and since when each waits.
WAITING = "dbanon_waiting"
# How many of each cell on display are in the source, and whether their rows are as shown.
COUNTED = "dbanon_counted"
# The row keys, tags and cells of persons, as they were brought.
MATCHED = "dbanon_matched"
# The next state of every cell.
VERDICT = "dbanon_verdict"
# The rows that the release writes anew.
CURRENT = "dbanon_current"
# The number of rows in each cell that differ from those of the last release.
DIFFERING = "dbanon_differing"
# The cells that persons are back in, and have other rows than were shown.
RETURNED = "dbanon_returned"
# The cells whose rows in the source would break a privacy model.
UNFIT = "dbanon_unfit"
# The history of every person, this release included, where a chain only measures.
TRACES = "dbanon_traces"
# The random secret that rows are sorted by.
SHUFFLE = "dbanon_shuffle"
# The recount of a release adds three: cells that show persons who are not in the source,
ABSENT = "dbanon_absent"
# the rows that these cells showed before,
SHOWN = "dbanon_shown"
# and the number of persons who share each history.
HISTORIES = "dbanon_histories"
# The members of the chain that this one follows, with their cells there.
BEFORE = "dbanon_before"
# Where a person has several rows: these rows, as the source has them,
ENTRIES = "dbanon_entries"
# those that may be shown of persons who have many,
CHOSEN = "dbanon_chosen"
# the persons who are not members yet, one row each, with what classes are made by,
PERSONS = "dbanon_persons"
# the persons on display, one row each, with a digest of what is shown of them,
DISPLAYED = "dbanon_displayed"
# and those whose rows the release writes anew, under the numbers that tell them apart there.
RENEWED = "dbanon_renewed"
NUMBERED = "dbanon_numbered"
STAGING = (SECRET, TAGGED, PRESENT, MISSING, NEWCOMERS, WAITING, VERDICT, CURRENT, DIFFERING,
           RETURNED, UNFIT, TRACES, SHUFFLE, ABSENT, SHOWN, HISTORIES, BEFORE, ENTRIES, CHOSEN,
           PERSONS, DISPLAYED, RENEWED, NUMBERED, COUNTED, MATCHED)  # fmt: skip

# A column that was brought: int64 (n,), or the halves of 16 bytes, uint64 (n, 2).
Fetched: TypeAlias = "NDArray[Any]"

INNER, OUTER = "inner_block", "outer_block"


class KeyedSession(SessionInterface):
    """The part of a session that chains ask for."""

    bytes_type: ClassVar[str] = "BLOB"
    # What ends a subquery whose expressions shall be computed once a row, wherever they are used.
    computed_once: ClassVar[str] = ""
    # Whether the keyed hash that is staged is an HMAC, of an inner and an outer one.
    _hashes_twice = True
    _has_key = False

    @abstractmethod
    def keyed_tag(self, text: str) -> str:
        """SQL of the keyed tag, 16 bytes, of a text that SQL gives, once a key is staged."""

    def pseudonym_of(self, text: str) -> str:
        """SQL of the pseudonym of a text that SQL gives, in hexadecimal digits; NULL has none."""
        return f"lower(hex({self.keyed_tag(text)}))"

    def salted_hash(self, text: str) -> str:
        """SQL of 8 bytes that tell apart the texts that SQL gives, once a salt is staged."""
        return f"substr({self.keyed_tag(text)}, 1, 8)"

    def stage_salt(self, salt: bytes) -> None:
        """Stage what ``salted_hash`` hashes with, in the place of a key that was staged."""
        if self._has_key:
            self.stage_other_key(salt, b"")
        else:
            self.stage_key(salt, b"")

    def pads(self, attribute: Attribute) -> bool:
        """Whether values of a type of fixed length are read with spaces that their text has not."""
        return False

    @abstractmethod
    def shuffled(self, alias: str) -> str:
        """SQL by which the rows of a table are ordered at random, as nobody can foretell."""

    @contextmanager
    def tagging(self) -> Iterator[None]:
        """While SQL computes a tag for each of many rows."""
        yield

    @contextmanager
    def sorting(self) -> Iterator[None]:
        """While SQL joins or groups as many rows as there are persons, by what is nearly sorted."""
        yield

    @contextmanager
    def seeking(self) -> Iterator[None]:
        """While SQL looks some rows up of many that were read a moment ago."""
        yield

    def tagged(
        self, persons: str, columns: Sequence[str], members: str
    ) -> list[tuple[str, str, str]]:
        """What is staged of who is in the source, and of members who are not: kind, name, query.

        Parameters
        ----------
        persons : SQL of who is in the source: ``person``, ``tag`` and these further columns.
        members : SQL of all members of the chain: ``tag``, ``cell`` and ``left_at``.
        """
        own = ", ".join(f"t.{name}" for name in ("person", "tag", *columns))
        return [
            ("TABLE", PRESENT,
             f"SELECT {own}, m.cell, m.left_at FROM ({persons}) AS t"
             f" LEFT JOIN ({members}) AS m ON m.tag = t.tag"),
            ("TABLE", MISSING,
             f"SELECT m.tag FROM ({members}) AS m WHERE m.left_at IS NULL"
             f" AND NOT EXISTS (SELECT 1 FROM {quote(PRESENT)} AS p WHERE p.tag = m.tag)"),
        ]  # fmt: skip

    def sizes_of_pairs(self, one: str, other: str, named: str, rows: str) -> str:
        """SQL of the rows that share two integers from 0 on, ``other`` or NULL: the two, and size.

        Parameters
        ----------
        named : what ``other`` is called in the answer.
        rows : what FROM has, and a condition.
        """
        return (
            f"SELECT {one}, {other} AS {named}, CAST(count(*) AS integer) AS size FROM {rows}"
            f" GROUP BY {one}, {other}"
        )

    def shuffled_by_cell(self, rows: str, values: RelationName) -> tuple[str, str]:
        """What FROM has for rows r of cells with the values v of each, and SQL as ``shuffled``.

        Rows of equal values may stand together, those of a cell not.

        Parameters
        ----------
        rows, values : the tables, the first quoted; both have a column ``cell``.
        """
        return f"{rows} AS r JOIN {values.quoted} AS v ON v.cell = r.cell", self.shuffled("r")

    def row_hash(self, relation: RelationName, names: Sequence[str]) -> str | None:
        """SQL of a hash of columns, of rows with the alias s, under a salt of its own.

        Rows that differ in a byte have another one. None where the database has none.

        Parameters
        ----------
        relation : whose columns of these names say of which types they are.
        """
        return None

    def row_digest(self, relation: RelationName, names: Sequence[str]) -> str:
        """SQL of a number that rows with the alias s have by these columns, as ``row_hash``.

        The sum over some rows tells them, as a multiset, from others, but for chance.
        """
        hashed = self.row_hash(relation, names)
        assert hashed is not None
        return hashed

    def tells_all_apart(self, source: Relation, attribute: Attribute) -> bool:
        """True where two values of a column of text are equal only if all of their bytes are."""
        column = f"s.{quote(attribute.name)}"
        [(wider,)] = self.rows(
            f"SELECT count(*) FROM (SELECT {column} AS told FROM {source.name.quoted} AS s"
            " WHERE 1 = 0 UNION ALL SELECT 'a') AS t WHERE t.told = 'A' OR t.told = 'a '"
        )
        return not wider

    def told_apart(self, attribute: Attribute, column: str) -> str:
        """SQL of a value as privacy models take it: numbers that are equal are one value.

        Parameters
        ----------
        column : of the alias s, that holds the attribute's values.
        """
        if attribute.kind.is_numeric:
            return f"s.{quote(column)}"
        return self.text_of(replace(attribute, name=column))

    def logarithm(self, number: str) -> str:
        """SQL of the natural logarithm of a number above 0 that SQL gives."""
        return f"ln({number})"

    # Whether the next six are there: columns are fixed in width, of the types ``bigint``,
    # ``integer``, ``oid``, ``tid``, ``bytea`` of 16 bytes and ``text`` of 4, and hold no NULL.
    brings_arrays: ClassVar[bool] = False
    # SQL of what is fetched in the place of the tag of a row that is nobody's: 16 bytes of 0.
    nobodys_tag: ClassVar[str] = ""

    def fetch(self, columns: Sequence[tuple[str, str]], rows: str) -> list[Fetched]:
        """Columns, SQL and type of each, no texts, of what FROM has, in whatever order."""
        raise NotImplementedError

    def load(self, table: str, columns: Sequence[tuple[str, str, Fetched]]) -> None:
        """Make a staging table of columns: name, type and values of each."""
        raise NotImplementedError

    def append(self, table: RelationName, columns: Sequence[tuple[str, str, Fetched]]) -> None:
        """Add rows to a table, as ``load``."""
        raise NotImplementedError

    def secret_code(self, hashed: str) -> str:
        """SQL of a hash that nobody can foretell, of one that SQL gives: it tells equal ones."""
        raise NotImplementedError

    def bring_cells(self, source: Relation, microdata: Microdata, partition: Partition) -> bool:
        """Bring the classes of rows to where ``insert_cells`` finds them; False where none does."""
        return False

    def insert_cells(
        self, table: RelationName, values: Mapping[str, str], source: Relation, reads: Sequence[str]
    ) -> bool:
        """Insert rows class by class, each class in random order, where classes were brought.

        Parameters
        ----------
        values : SQL by column, over the aliases s of the source and c, whose ``class`` is theirs.
        reads : the columns of the source that they take values from.
        """
        return False

    def keys_as_read(self, source: Relation) -> list[str]:
        """SQL of the columns of a row's key, as numbers, as ``read`` gives them."""
        return list(source.located.expressions)

    def keys_in_order(
        self, source: Relation, joined: str, number: str, order: str
    ) -> NDArray[np.int64]:
        """Row keys in an order, each with a whole number behind it, int64 (n, m + 1).

        Parameters
        ----------
        joined : SQL of what FROM has beside the source; ``number`` and ``order`` are SQL, too.
        """
        keys = ", ".join(self.keys_as_read(source))
        rows = self.rows(
            f"SELECT {keys}, {number} FROM {source.from_clause} {joined}{source.where}"
            f" ORDER BY {order}"
        )
        return np.array(rows, np.int64).reshape(len(rows), len(source.located.types) + 1)

    def stage_key(self, inner: bytes, outer: bytes) -> None:
        """Stage the two blocks of a keyed hash, in the way in which values are never logged.

        Parameters
        ----------
        outer : empty where the inner hash is all.
        """
        self._hashes_twice, self._has_key = bool(outer), True
        blocks = [(INNER, self.bytes_type), (OUTER, self.bytes_type)]
        self.run(statements.create_staging(SECRET, blocks, self.staging_suffix))
        self.insert_rows(RelationName(None, SECRET), [INNER, OUTER], [(inner, outer)])

    def stage_other_key(self, inner: bytes, outer: bytes) -> None:
        """Stage the blocks of another keyed hash in the place of those that were."""
        self.run(f"DROP TABLE {quote(SECRET)}")
        self.stage_key(inner, outer)


def staged_block(name: str) -> str:
    """SQL of a block of the key that is staged."""
    return f"(SELECT {name} FROM {quote(SECRET)})"
