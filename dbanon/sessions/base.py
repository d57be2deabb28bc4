"""Plain values that stores and jobs exchange."""

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

# Number of records shuffled at a time.
_SHUFFLE_ROWS = 32_768

MARK = "dbanon release "
# Suffix of the table with aggregates that may accompany a release.
SUMMARY_SUFFIX = "_summary"

OnSql = Callable[[str], None]


@dataclass(frozen=True)
class Locator:
    """How to address the rows of a source.

    Parameters
    ----------
    expressions : SQL of each key column over the aliases s (source) and m (key map).
    types : SQL types of the key columns in staging.
    mapped : key columns that a key map numbers; empty if the key is used directly.
    unchecked : key columns that the caller states to be unique; only NULLs are looked for.
    compared : SQL of the mapped columns as the key map stores them, if that differs.
    """

    expressions: tuple[str, ...]
    types: tuple[str, ...]
    mapped: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()


@dataclass(frozen=True)
class ColumnReading:
    """The type that a CSV column was read as, and the pattern of its texts. Contains no values.

    Parameters
    ----------
    by, decided : the option that sets its type here, and in other files; empty for none.
    kind : the type in terms of ``types``; empty if the values do not determine it.
    look, option : the pattern of most texts, and the option that would parse it; empty for none.
    n_matching, n_values : how many texts have the pattern, and how many there are.
    """

    name: str
    sql_type: str
    look: str = ""
    option: str = ""
    n_matching: int = 0
    n_values: int = 0
    by: str = ""
    kind: str = ""
    decided: tuple[str, str] | None = None


@dataclass(frozen=True)
class FilteredRelation(RelationName):
    """The rows of a relation that satisfy a condition, as a FROM clause takes them with an alias.

    Parameters
    ----------
    condition : SQL written by the job's owner.
    columns : the columns to read; the role may have rights to these only.
    system_columns : system columns outside the schema, such as ctid.
    """

    condition: str
    columns: tuple[str, ...]
    system_columns: tuple[str, ...] = ()

    @property
    def quoted(self) -> str:
        """A query in parentheses; the condition is on lines of its own."""
        # A key column may have the same name as the row address.
        names = [f"{name} AS {name}" for name in self.system_columns]
        names += [quote(name) for name in self.columns]
        rows = f"SELECT {', '.join(names) or '1 AS one'} FROM {super().quoted}"
        return f"({rows} WHERE (\n{self.condition}\n))"


@dataclass(frozen=True)
class Relation:
    """A relation that can be read.

    Parameters
    ----------
    name : its resolved name.
    schema : its columns.
    kind : ``table``, ``view`` …, in the database's terms.
    estimated_rows : approximate row count for the progress bar; 0 if unknown.
    locator : how to address its rows; None before ``locate``.
    copy : a copy to read instead, where statements see different snapshots.
    required : columns whose NULL withholds a row, so that the rest of the row is not read.
    filtered : the rows that a condition selects; None for all.
    """

    name: RelationName
    schema: Schema
    kind: str
    estimated_rows: int = 0
    locator: Locator | None = None
    copy: RelationName | None = None
    required: tuple[str, ...] = ()
    filtered: FilteredRelation | None = None

    def attribute(self, name: str) -> Attribute:
        """Return the column with this name.

        Raises
        ------
        ColumnNotFound : the relation has no such column.
        """
        for attribute in self.schema.attributes:
            if attribute.name == name:
                return attribute
        raise ColumnNotFound(
            f'Table {self.name} has no column "{name}".',
            hint=nearest_names(name, [a.name for a in self.schema.attributes]),
        )

    def with_attributes(self, attributes: Sequence[Attribute]) -> Relation:
        """Return the source with these attributes replacing those of the same names."""
        changed = {attribute.name: attribute for attribute in attributes}
        return replace(
            self, schema=Schema(tuple(changed.get(a.name, a) for a in self.schema.attributes))
        )

    def with_columns(self, names: Sequence[str]) -> Relation:
        """Return the source with these columns added to those read from the selected rows."""
        if self.filtered is None:
            return self
        columns = tuple(dict.fromkeys([*self.filtered.columns, *names]))
        return replace(self, filtered=replace(self.filtered, columns=columns))

    @property
    def required_locator(self) -> Locator:
        """The locator; call only after ``locate``."""
        assert self.locator is not None
        return self.locator

    @property
    def relation(self) -> RelationName:
        """The relation, filter or copy to read from."""
        return self.filtered or self.copy or self.name

    @property
    def numbered_relation(self) -> RelationName:
        """The relation whose keys are numbered; for a copy, the original."""
        return self.filtered or self.name

    @property
    def where(self) -> str:
        """WHERE clause, over the alias s, that excludes withheld rows; empty if there are none."""
        return f" WHERE {self.complete}" if self.required else ""

    @property
    def and_where(self) -> str:
        """The same as an additional condition."""
        return f" AND {self.complete}" if self.required else ""

    @property
    def complete(self) -> str:
        """SQL that is true for rows with a value in every required column."""
        return "NOT (" + " OR ".join(f"s.{quote(name)} IS NULL" for name in self.required) + ")"

    @property
    def from_clause(self) -> str:
        """The source and its key map as a FROM clause."""
        located = self.required_locator
        join = statements.join_key_map(located.mapped, located.compared) if located.mapped else ""
        return f"{self.relation.quoted} AS s{join}"


@dataclass(frozen=True)
class StagedRows:
    """The rows of files in a staging table, which is read in the place of a source.

    Parameters
    ----------
    relation : located, under the name that the files have as a source.
    columns : the names of the columns that are staged; the files may have others.
    accepts_condition : whether a condition on the files needs no more than these columns.
    """

    relation: Relation
    columns: tuple[str, ...]
    accepts_condition: Callable[[Sequence[str], str], bool]


@dataclass(frozen=True)
class Output:
    """Where a release is written.

    Parameters
    ----------
    name : the name that readers use.
    relation : the released table; equal to ``name`` for a table, different for a view.
    written : the table's name until it has been recounted.
    kind : ``table`` or ``view``.
    release_id : the release's id, which is part of the mark on the relation.
    replaces : kind of the relation that is replaced, or None.
    creates_schema : whether the missing schema is created too.
    """

    name: RelationName
    relation: RelationName
    written: RelationName
    kind: str
    release_id: str
    replaces: str | None = None
    creates_schema: bool = False


@dataclass(frozen=True)
class ExistingRelation:
    """The relation that currently has a name.

    Parameters
    ----------
    kind : ``table``, ``view`` or ``relation``.
    mark : its comment, where dbanon writes its mark, or None.
    oid, owner : the database's id of it, and the owning role, if the database has them.
    owner_oid : the id of that role.
    """

    kind: str
    mark: str | None
    oid: int | None = None
    owner: str | None = None
    owner_oid: int | None = None


MAX_SALT = 2**62


def random_salt() -> int:
    """Return an unpredictable number from 1 to 2**62."""
    # The secrets module loads OpenSSL, which would slow down a backend's first call.
    return int.from_bytes(os.urandom(8), "big") % MAX_SALT + 1


def random_order(n: int) -> NDArray[np.int64]:
    """Return a random permutation of n, int64 (n,), from the operating system's random source."""
    return kernels.shuffled(np.frombuffer(os.urandom(8 * n), np.uint64))


def shuffled_classes(
    partition: Partition, classes: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the records of classes batch by batch, in random order within each class.

    Each batch holds complete classes: for each record its class's index in ``classes``, int64 (r,),
    and the record, int64 (r,).

    Parameters
    ----------
    classes : int64 (n_classes,), each class once, in the order of output.
    """
    members, starts = partition.members, partition.starts
    batch_size = max(_SHUFFLE_ROWS * len(classes) // max(len(members), 1), 1)
    for first in range(0, len(classes), batch_size):
        batch = classes[first : first + batch_size]
        random_words = np.frombuffer(os.urandom(8 * int(partition.sizes[batch].sum())), np.uint64)
        yield kernels.shuffled_classes(members, starts, batch, random_words, first)


def choose_key(source: Relation, key: Sequence[str]) -> tuple[Attribute, ...]:
    """Look up the attributes of an explicit key.

    Raises
    ------
    ColumnNotFound : a column of the key does not exist.
    """
    if len(set(key)) != len(key):
        raise InvalidParameter("The row key names a column twice.")
    return tuple(source.attribute(name) for name in key)


def locate_by_key(
    source: Relation,
    attributes: Sequence[Attribute],
    sql_type: str,
    *,
    as_it_is: bool,
    unchecked: bool,
    compared: tuple[str, ...] = (),
) -> Relation:
    """Return the source with a locator by key: an integer column directly, others numbered."""
    key = tuple(attribute.name for attribute in attributes)
    if as_it_is:
        locator = Locator((f"s.{quote(*key)}",), (sql_type,), unchecked=key if unchecked else ())
    else:
        locator = Locator(("m.ordinal",), (sql_type,), key, compared=compared)
    return replace(source, locator=locator)


def key_required_error(source: Relation, hidden: str | None = None) -> KeyRequired:
    """Return the error for rows without address, or whose address a column ``hidden`` shadows."""
    return KeyRequired(
        f"{source.name} is a {source.kind}: its rows have no key of their own."
        if hidden is None
        else f'{source.name} has a column named "{hidden}", which hides the address of its rows.',
        hint='Name columns that are unique for each row: `key=["…"]`.',
    )


def hidden_address_error(source: Relation, hidden: str) -> InvalidParameter:
    """The error for a file whose rows have no address once they are staged."""
    return InvalidParameter(
        f'{source.name} has a column named "{hidden}", which hides the address of its rows in the'
        " database of the chain.",
        hint="Rename the column in the file, or do not release it.",
    )


def local_type_error(attribute: Attribute) -> UnsupportedType:
    """Return the error for a column whose type only its own database has."""
    return UnsupportedType(
        f'Column "{attribute.name}" of type {attribute.sql_type} cannot be copied to'
        " another database.",
        hint="Cast it to text or to a number in a view, and anonymize the view.",
    )


def uncopyable_value_error(column: str | None = None) -> UnsupportedType:
    """Return the error for a retained value that only its own database can hold."""
    subject = "A kept column" if column is None else f'Column "{column}"'
    return UnsupportedType(
        f"{subject} holds a value that cannot be copied to another database, such as NaN or an"
        " infinite date.",
        hint="Exclude these rows in a view, or cast the column to text there.",
    )


# Days from 1970-01-01 to the first days of years 0 and 1, and to that of year 10000.
_FIRST_DAYS, _DAY_AFTER = {0: -719_528, 1: -719_162}, 2_932_897


def require_years(column: ReleasedColumn, first: int, database: str) -> None:
    """Check that dates are in years ``first`` to 9999; raises UnsupportedType."""
    values = column.values if column.missing is None else column.values[~column.missing]
    unit = 1 if column.attribute.kind is Kind.DATE else 86_400_000_000
    if len(values) and not (
        _FIRST_DAYS[first] * unit <= int(values.min()) and int(values.max()) < _DAY_AFTER * unit
    ):
        raise UnsupportedType(
            f'Column "{column.attribute.name}" would be released with dates outside the years'
            f" {first} to 9999, which {database} does not have.",
            hint="Write to another database, or exclude these rows in a view.",
        )


def prepend_class_and_position(pieces: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows passed to ``load_rows``, each after its class and position."""
    for classes, positions, rows in pieces:
        for label, position, row in zip(classes.tolist(), positions.tolist(), rows, strict=True):
            yield label, position, *row


def passthrough_error() -> InvalidParameter:
    """Return the error for retained columns that cannot travel through the client."""
    return InvalidParameter(
        "Kept columns can travel through the client only if source and output are in one"
        " PostgreSQL database.",
        hint="Leave out `kept_columns`.",
    )


@dataclass(frozen=True)
class LockHolder:
    """The process that holds a lock, as far as it can be identified.

    Parameters
    ----------
    pid : process id on the server, or on this machine for a locked file.
    role : database role, or the account on this machine.
    since : a time in UTC, as text.
    """

    pid: int | None = None
    role: str | None = None
    since: str | None = None

    def __str__(self) -> str:
        description = "another process" if self.pid is None else f"process {self.pid}"
        description += "" if self.role is None else f' of role "{self.role}"'
        return description + ("" if self.since is None else f", since {self.since}")


def job_running_error(job: str, holder: LockHolder | None = None, ends: str = "") -> JobRunning:
    """Return the error for a job whose lock another process holds; ``ends`` says how to end it."""
    holder_sentence = (
        "" if holder is None or holder == LockHolder() else f" It is held by {holder}."
    )
    return JobRunning(
        f'The job "{job}" is already running.{holder_sentence}',
        hint=f"Wait until it is done: a second run would do the same work.{ends}",
    )


def is_integer_key(attributes: Sequence[Attribute]) -> bool:
    """Return True for a key of one integer column, which needs no numbering."""
    return len(attributes) == 1 and attributes[0].kind is Kind.INTEGER
