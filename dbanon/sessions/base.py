"""The plain things that stores and jobs hand each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon import kernels
from dbanon.data.frozen import dataclass
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind, Schema
from dbanon.errors import (
    ColumnNotFound,
    InvalidParameter,
    JobRunning,
    KeyRequired,
    UnsupportedType,
    nearest_names,
)
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.names import RelationName, quote

# Records that are shuffled at a time.
_AT_ONCE = 32_768

MARK = "dbanon release "
# Of the table with aggregates beside a release, where there is one.
SUMMARY_SUFFIX = "_summary"

OnSql = Callable[[str], None]


@dataclass(frozen=True)
class Locator:
    """How the rows of a source are found again.

    Parameters
    ----------
    expressions : SQL of each key column over the aliases s (source) and m (key map).
    types : SQL types of the key columns in staging.
    mapped : key columns that a key map numbers, empty when the key is used as it is.
    unchecked : key columns that are used as they are on the caller's word: NULLs are looked for.
    compared : SQL of the mapped columns as the key map holds them, where that is not as they are.
    """

    expressions: tuple[str, ...]
    types: tuple[str, ...]
    mapped: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()


@dataclass(frozen=True)
class AsWritten:
    """What a column of a file was read as, and what its texts look like. Holds no value.

    Parameters
    ----------
    by, decided : the option by which it has its type here, and in other files; empty for none.
    kind : the type as ``types`` has it; empty where no value says it.
    look, option : how most texts are written, and what would read them; empty where nothing is.
    alike, known : how many texts look so, and how many there are.
    """

    name: str
    sql_type: str
    look: str = ""
    option: str = ""
    alike: int = 0
    known: int = 0
    by: str = ""
    kind: str = ""
    decided: tuple[str, str] | None = None


@dataclass(frozen=True)
class Filtered(RelationName):
    """The rows of a relation that a condition chooses, as FROM has them with an alias.

    Parameters
    ----------
    condition : SQL of whoever owns the job.
    columns : those that are read; a role may have rights to these alone.
    hidden : columns that a relation has beside those of its schema, such as ctid.
    """

    condition: str
    columns: tuple[str, ...]
    hidden: tuple[str, ...] = ()

    @property
    def quoted(self) -> str:
        """A query in parentheses; the condition stands on lines of its own."""
        # The address of a row may go by the name of a key column.
        names = [f"{name} AS {name}" for name in self.hidden]
        names += [quote(name) for name in self.columns]
        rows = f"SELECT {', '.join(names) or '1 AS one'} FROM {super().quoted}"
        return f"({rows} WHERE (\n{self.condition}\n))"


@dataclass(frozen=True)
class Relation:
    """A relation that can be read.

    Parameters
    ----------
    name : its name, resolved.
    schema : its columns.
    kind : ``table``, ``view`` …, as the database calls it.
    estimated_rows : about how many rows it has, for the progress bar; 0 when unknown.
    locator : how its rows are found again; None before ``locate``.
    copy : what is read in its place, where statements see different snapshots.
    required : columns whose NULL withholds a row, so that nothing else of the row is looked at.
    filtered : the rows of it that a condition chooses; None for all.
    """

    name: RelationName
    schema: Schema
    kind: str
    estimated_rows: int = 0
    locator: Locator | None = None
    copy: RelationName | None = None
    required: tuple[str, ...] = ()
    filtered: Filtered | None = None

    def attribute(self, name: str) -> Attribute:
        """The column of this name.

        Raises
        ------
        ColumnNotFound : there is none.
        """
        for attribute in self.schema.attributes:
            if attribute.name == name:
                return attribute
        raise ColumnNotFound(
            f'Table {self.name} has no column "{name}".',
            hint=nearest_names(name, [a.name for a in self.schema.attributes]),
        )

    def with_attributes(self, attributes: Sequence[Attribute]) -> Relation:
        """The source with these attributes in place of its own of the same names."""
        changed = {attribute.name: attribute for attribute in attributes}
        return replace(
            self, schema=Schema(tuple(changed.get(a.name, a) for a in self.schema.attributes))
        )

    def with_columns(self, names: Sequence[str]) -> Relation:
        """The source with these columns among those that are read of the rows that are chosen."""
        if self.filtered is None:
            return self
        columns = tuple(dict.fromkeys([*self.filtered.columns, *names]))
        return replace(self, filtered=replace(self.filtered, columns=columns))

    @property
    def located(self) -> Locator:
        """The locator, once it was chosen."""
        assert self.locator is not None
        return self.locator

    @property
    def relation(self) -> RelationName:
        """What is read."""
        return self.filtered or self.copy or self.name

    @property
    def keyed(self) -> RelationName:
        """What keys are numbered in: where a copy is read, the relation itself."""
        return self.filtered or self.name

    @property
    def where(self) -> str:
        """The WHERE, over the alias s, of the rows that may be released; empty where all may."""
        return f" WHERE {self.complete}" if self.required else ""

    @property
    def and_where(self) -> str:
        """The same as one more condition."""
        return f" AND {self.complete}" if self.required else ""

    @property
    def complete(self) -> str:
        """SQL that is true of rows with a value in each required column."""
        return "NOT (" + " OR ".join(f"s.{quote(name)} IS NULL" for name in self.required) + ")"

    @property
    def from_clause(self) -> str:
        """The source and its key map, as FROM has them."""
        located = self.located
        join = statements.join_key_map(located.mapped, located.compared) if located.mapped else ""
        return f"{self.relation.quoted} AS s{join}"


@dataclass(frozen=True)
class StagedFile:
    """The rows of files in a staging table, which is read in the place of a source.

    Parameters
    ----------
    relation : located, under the name that the files have as a source.
    takes : whether a condition on the files needs no more than these columns.
    """

    relation: Relation
    takes: Callable[[Sequence[str], str], bool]


@dataclass(frozen=True)
class Output:
    """Where a release goes.

    Parameters
    ----------
    name : what readers use.
    relation : the table that is released; the same name for a table, another one for a view.
    written : the name that this table has until it was recounted.
    kind : ``table`` or ``view``.
    release_id : the release, in the mark that the database keeps with the relation.
    replaces : kind of the relation that is replaced, or None.
    creates_schema : whether its schema is missing, and is created with it.
    """

    name: RelationName
    relation: RelationName
    written: RelationName
    kind: str
    release_id: str
    replaces: str | None = None
    creates_schema: bool = False


@dataclass(frozen=True)
class Existing:
    """A relation that has a name now.

    Parameters
    ----------
    kind : ``table``, ``view`` or ``relation``.
    mark : its comment, where dbanon writes its mark, or None.
    oid, owner : the database's own number of it, and the role it belongs to, where there are such.
    owner_oid : the number of that role.
    """

    kind: str
    mark: str | None
    oid: int | None = None
    owner: str | None = None
    owner_oid: int | None = None


LARGEST_SALT = 2**62


def random_salt() -> int:
    """A random number from 1 to 2**62, which nobody can foresee."""
    # Of the module secrets, which loads OpenSSL, a backend's first call has no need.
    return int.from_bytes(os.urandom(8), "big") % LARGEST_SALT + 1


def random_order(n: int) -> NDArray[np.int64]:
    """A random permutation of n, int64 (n,), from the operating system's random source."""
    return kernels.shuffled(np.frombuffer(os.urandom(8 * n), np.uint64))


def shuffled_classes(
    partition: Partition, classes: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Records of classes that come in this order, in random order within each, in pieces.

    Each piece holds whole classes: the number of each record's class, which is its place among
    ``classes``, int64 (r,), and the records, int64 (r,).

    Parameters
    ----------
    classes : int64 (n_classes,), each class once.
    """
    members, starts = partition.members, partition.starts
    step = max(_AT_ONCE * len(classes) // max(len(members), 1), 1)
    for first in range(0, len(classes), step):
        own = classes[first : first + step]
        words = np.frombuffer(os.urandom(8 * int(partition.sizes[own].sum())), np.uint64)
        yield kernels.shuffled_classes(members, starts, own, words, first)


def choose_key(source: Relation, key: Sequence[str]) -> tuple[Attribute, ...]:
    """The attributes of a stated key.

    Raises
    ------
    ColumnNotFound : a column of the key does not exist.
    """
    if len(set(key)) != len(key):
        raise InvalidParameter("A column is named twice in the row key.")
    return tuple(source.attribute(name) for name in key)


def by_key(
    source: Relation,
    attributes: Sequence[Attribute],
    sql_type: str,
    *,
    as_it_is: bool,
    unchecked: bool,
    compared: tuple[str, ...] = (),
) -> Relation:
    """The source with the locator of a key: its one column as it is, or a number for each key."""
    key = tuple(attribute.name for attribute in attributes)
    if as_it_is:
        locator = Locator((f"s.{quote(*key)}",), (sql_type,), unchecked=key if unchecked else ())
    else:
        locator = Locator(("m.ordinal",), (sql_type,), key, compared=compared)
    return replace(source, locator=locator)


def key_required(source: Relation, hidden: str | None = None) -> KeyRequired:
    """The error for relations whose rows have no address, or a column of this name instead."""
    return KeyRequired(
        f"{source.name} is a {source.kind}: its rows have no key of their own."
        if hidden is None
        else f'{source.name} has a column named "{hidden}", which hides the address of its rows.',
        hint='Name columns that are unique for each row: `key=["…"]`.',
    )


def address_hidden(source: Relation, hidden: str) -> InvalidParameter:
    """The error for a file whose rows have no address once they are staged."""
    return InvalidParameter(
        f'{source.name} has a column named "{hidden}", which hides the address of its rows in the'
        " database of the chain.",
        hint="Rename the column in the file, or do not release it.",
    )


def stays_here(attribute: Attribute) -> UnsupportedType:
    """The error for a column of a type that only its own database has."""
    return UnsupportedType(
        f'Column "{attribute.name}" of type {attribute.sql_type} cannot be copied to'
        " another database.",
        hint="Cast it to text or to a number in a view, and anonymize the view.",
    )


def cannot_travel(column: str | None = None) -> UnsupportedType:
    """The error for a kept value that only its own database can hold, with its column if known."""
    what = "A kept column" if column is None else f'Column "{column}"'
    return UnsupportedType(
        f"{what} holds a value that cannot be copied to another database, such as NaN or an"
        " infinite date.",
        hint="Exclude these rows in a view, or cast the column to text there.",
    )


# Days from 1970-01-01 to the first of the years 0 and 1, and of 10000.
_FIRST_DAYS, _DAY_AFTER = {0: -719_528, 1: -719_162}, 2_932_897


def require_years(column: ReleasedColumn, first: int, database: str) -> None:
    """Check that dates are of a database's years, ``first`` to 9999; raises UnsupportedType."""
    values = column.values if column.missing is None else column.values[~column.missing]
    unit = 1 if column.attribute.kind is Kind.DATE else 86_400_000_000
    if len(values) and not (
        _FIRST_DAYS[first] * unit <= int(values.min()) and int(values.max()) < _DAY_AFTER * unit
    ):
        raise UnsupportedType(
            f'Column "{column.attribute.name}" is released with dates that are not of the years'
            f" {first} to 9999, which {database} does not have.",
            hint="Write to another database, or withhold such dates in a view.",
        )


def labelled_rows(pieces: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The rows that ``load_rows`` is given, each behind its class and its position."""
    for classes, positions, rows in pieces:
        for label, position, row in zip(classes.tolist(), positions.tolist(), rows, strict=True):
            yield label, position, *row


def passthrough_refused() -> InvalidParameter:
    """The error where kept columns cannot travel with the client and back."""
    return InvalidParameter(
        "Kept columns can travel through the client only if source and output are in one"
        " PostgreSQL database.",
        hint="Leave out `kept_columns`.",
    )


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, as far as that is known.

    Parameters
    ----------
    pid : of the process: the server's, or one of this machine where a file is locked.
    role : of the database, or the account of the machine.
    since : a time in UTC, as text.
    """

    pid: int | None = None
    role: str | None = None
    since: str | None = None

    def __str__(self) -> str:
        told = "another process" if self.pid is None else f"process {self.pid}"
        told += "" if self.role is None else f' of role "{self.role}"'
        return told + ("" if self.since is None else f", since {self.since}")


def job_running(job: str, holder: Holder | None = None, ends: str = "") -> JobRunning:
    """The error for a job whose lock another process holds; ``ends`` tells how one ends."""
    told = "" if holder is None or holder == Holder() else f" It is held by {holder}."
    return JobRunning(
        f'The job "{job}" is running already.{told}',
        hint=f"Wait until it is done. Two runs would do the same work.{ends}",
    )


def is_integer_key(attributes: Sequence[Attribute]) -> bool:
    """True when a key is one integer column, which can be used as it is."""
    return len(attributes) == 1 and attributes[0].kind is Kind.INTEGER
