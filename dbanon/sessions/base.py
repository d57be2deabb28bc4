"""Values that stores and jobs exchange, and errors that several stores raise.

The SQL of all databases uses the same aliases for tables: s for the source, m for the key map.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon import kernels
from dbanon.data.frozen import dataclass
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind, Schema
from dbanon.data.types import SqlRow
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

# The approximate number of records whose order is drawn at a time.
_SHUFFLE_ROWS = 32_768

# The comment on a released table or view starts with this, followed by the release id.
MARK = "dbanon release "
# A release made inside PostgreSQL has a summary: a table of one row with figures such as the
# achieved k. Its name is that of the release with this suffix.
SUMMARY_SUFFIX = "_summary"

# A function that the caller passes, to be called with each SQL statement before it runs.
OnSql = Callable[[str], None]

# Rows of a release that are copied: the class of each row, int32 (n_rows,); its position in the
# release, int32 (n_rows,); and the retained values.
ReleasedBatch: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int32], Sequence[SqlRow]]


@dataclass(frozen=True)
class Locator:
    """How to address the rows of a source, by a row key of one or more columns.

    If the key has columns of the source, and is not a single integer, a *key map* numbers its
    values: a staging table with each value and its number. The number then serves as the row key.

    Parameters
    ----------
    expressions : SQL of each column of the row key, over the aliases s (source) and m (key map).
    types : SQL types of these columns in staging tables.
    key_map_columns : the columns of the source whose values the key map numbers; empty without a
        key map.
    columns_to_check : key columns that the run must check for NULLs and duplicates, because the
        database does not guarantee that they have none.
    comparison_sql : SQL of ``key_map_columns`` as the key map stores and compares them; empty if it
        stores the columns themselves.
    """

    expressions: tuple[str, ...]
    types: tuple[str, ...]
    key_map_columns: tuple[str, ...] = ()
    columns_to_check: tuple[str, ...] = ()
    comparison_sql: tuple[str, ...] = ()


@dataclass(frozen=True)
class ColumnReading:
    """The type that a CSV column was read as, and the pattern of its texts. Contains no values.

    Parameters
    ----------
    name : the name of the column.
    type_option : the option that set the column's type; empty if none did.
    kind : the type as the option ``types`` names it; empty if the values do not determine it.
    deciding_option : name and value of the option that makes dbanon read other files in the same
        way, whatever their values; None if there is none.
    pattern, parse_option : the pattern of most texts, and the option that would parse it; empty if
        the texts have no known pattern.
    n_matching, n_values : the number of texts with the pattern, and of all texts.
    """

    name: str
    sql_type: str
    pattern: str = ""
    parse_option: str = ""
    n_matching: int = 0
    n_values: int = 0
    type_option: str = ""
    kind: str = ""
    deciding_option: tuple[str, str] | None = None


@dataclass(frozen=True)
class FilteredRelation(RelationName):
    """The rows of a relation that satisfy a condition, for use in a FROM clause with an alias.

    Parameters
    ----------
    condition : SQL written by the job's owner.
    columns : the columns to read; the database role may lack the right to read others.
    system_columns : system columns to read that the schema does not list, such as ctid.
    """

    condition: str
    columns: tuple[str, ...]
    system_columns: tuple[str, ...] = ()

    @property
    def quoted(self) -> str:
        """The query in parentheses. Line breaks around the condition end any comments in it."""
        # In SQLite, an integer key column is the rowid, which without an alias gets its name.
        names = [f"{name} AS {name}" for name in self.system_columns]
        names += [quote(name) for name in self.columns]
        # A query that only counts rows reads no columns, but needs a select list.
        rows = f"SELECT {', '.join(names) or '1 AS one'} FROM {super().quoted}"
        return f"({rows} WHERE (\n{self.condition}\n))"


@dataclass(frozen=True)
class Relation:
    """A table, view or query that can be read.

    Parameters
    ----------
    name : the name of the relation, with the schema in which it was found.
    schema : the columns of the relation.
    kind : ``table``, ``view`` …, in the database's terms.
    estimated_rows : approximate row count for the progress bar; 0 if unknown.
    locator : how to address the rows; None before ``Catalog.with_row_locator``.
    copy : a copy of the source to read instead, on databases where each statement sees another
        snapshot; None otherwise.
    non_null_columns : rows with a NULL in one of these columns are withheld, and not read.
    selected_rows : the rows that the job's condition selects; None for all.
    """

    name: RelationName
    schema: Schema
    kind: str
    estimated_rows: int = 0
    locator: Locator | None = None
    copy: RelationName | None = None
    non_null_columns: tuple[str, ...] = ()
    selected_rows: FilteredRelation | None = None

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
            hint=nearest_names(name, [attribute.name for attribute in self.schema.attributes]),
        )

    def with_attributes(self, attributes: Sequence[Attribute]) -> Relation:
        """Return the source with these attributes in place of those that have the same names."""
        replacements = {attribute.name: attribute for attribute in attributes}
        new_attributes = tuple(
            replacements.get(attribute.name, attribute) for attribute in self.schema.attributes
        )
        return replace(self, schema=Schema(new_attributes))

    def with_columns(self, names: Sequence[str]) -> Relation:
        """Return the source, from whose selected rows these columns can be read, too."""
        if self.selected_rows is None:
            return self
        columns = tuple(dict.fromkeys([*self.selected_rows.columns, *names]))
        return replace(self, selected_rows=replace(self.selected_rows, columns=columns))

    @property
    def required_locator(self) -> Locator:
        """The locator; available after ``Catalog.with_row_locator``."""
        assert self.locator is not None
        return self.locator

    @property
    def relation_to_read(self) -> RelationName:
        """The relation for FROM clauses: the selected rows, the copy, or the relation itself."""
        return self.selected_rows or self.copy or self.name

    @property
    def numbered_relation(self) -> RelationName:
        """The relation whose keys the key map numbers: never the copy, but its original."""
        return self.selected_rows or self.name

    @property
    def where_clause(self) -> str:
        """WHERE clause, over the alias s, that excludes withheld rows; empty if there are none."""
        return f" WHERE {self.not_null_condition}" if self.non_null_columns else ""

    @property
    def and_not_null_condition(self) -> str:
        """The condition of ``where_clause``, after AND; empty if no rows are withheld."""
        return f" AND {self.not_null_condition}" if self.non_null_columns else ""

    @property
    def not_null_condition(self) -> str:
        """SQL that is true for rows with a value in every required column."""
        return (
            "NOT ("
            + " OR ".join(f"s.{quote(name)} IS NULL" for name in self.non_null_columns)
            + ")"
        )

    @property
    def from_clause(self) -> str:
        """The source and its key map as a FROM clause."""
        locator = self.required_locator
        join = (
            statements.join_key_map(locator.key_map_columns, locator.comparison_sql)
            if locator.key_map_columns
            else ""
        )
        return f"{self.relation_to_read.quoted} AS s{join}"


@dataclass(frozen=True)
class StagedRows:
    """Rows of files that were copied to a staging table, which is read instead of the files.

    Parameters
    ----------
    relation : the staging table with a locator, under the name of the files.
    columns : the names of the staged columns; the files may have others.
    accepts_condition : called with column names and an SQL condition on the files' rows; returns
        whether the condition uses these columns only.
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
    relation : the table with the released rows: ``name`` itself, or the table behind the view
        ``name``.
    staging_name : the name of that table until it has been recounted and is published.
    kind : ``table`` or ``view``.
    release_id : the release's id, which is part of the comment that marks the relation.
    replaced_kind : the kind of the relation that is replaced; None if there is none.
    creates_schema : whether the output's schema is missing, so that the release creates it.
    """

    name: RelationName
    relation: RelationName
    staging_name: RelationName
    kind: str
    release_id: str
    replaced_kind: str | None = None
    creates_schema: bool = False


@dataclass(frozen=True)
class ExistingRelation:
    """An existing relation, looked up by its name.

    Parameters
    ----------
    kind : ``table``, ``view`` or ``relation``.
    mark : the comment on the relation, which begins with ``MARK`` for releases; None if it has no
        comment.
    oid, owner, owner_oid : PostgreSQL's object ID of the relation, the role that owns it, and the
        object ID of the role; None if the database has no such IDs or roles.
    """

    kind: str
    mark: str | None
    oid: int | None = None
    owner: str | None = None
    owner_oid: int | None = None


# Salts of digests are from 1 to this number.
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

    Each batch holds the records of complete classes, as two arrays: the index in ``classes`` of
    each record's class, int64 (n_records,), and the record, int64 (n_records,).

    Parameters
    ----------
    classes : int64 (n_classes,), each class once, in the order of output.
    """
    members, starts = partition.members, partition.starts
    # On average, a class has len(members) / len(classes) records.
    classes_per_batch = max(_SHUFFLE_ROWS * len(classes) // max(len(members), 1), 1)
    for start in range(0, len(classes), classes_per_batch):
        batch = classes[start : start + classes_per_batch]
        random_words = np.frombuffer(os.urandom(8 * int(partition.sizes[batch].sum())), np.uint64)
        yield kernels.shuffled_classes(members, starts, batch, random_words, start)


def choose_key(source: Relation, key: Sequence[str]) -> tuple[Attribute, ...]:
    """Return the attributes of the key columns that the job names.

    Raises
    ------
    ColumnNotFound : a column of the key does not exist.
    InvalidParameter : a column is named twice.
    """
    if len(set(key)) != len(key):
        raise InvalidParameter("The row key names a column twice.")
    return tuple(source.attribute(name) for name in key)


def with_key_locator(
    source: Relation,
    attributes: Sequence[Attribute],
    sql_type: str,
    *,
    is_single_integer: bool,
    needs_uniqueness_check: bool,
    comparison_sql: tuple[str, ...] = (),
) -> Relation:
    """Return the source with a locator by key.

    Parameters
    ----------
    attributes : the key columns.
    sql_type : the SQL type of the key in staging tables.
    is_single_integer : True if the key is one integer column that fits ``sql_type``. It then
        addresses rows directly; other keys are numbered by a key map.
    needs_uniqueness_check : whether a single integer key must be checked for NULLs and duplicates;
        mapped keys are always checked.
    comparison_sql : SQL of the key columns as the key map stores them; empty if the map stores the
        columns themselves.
    """
    key = tuple(attribute.name for attribute in attributes)
    if is_single_integer:
        locator = Locator(
            (f"s.{quote(*key)}",),
            (sql_type,),
            columns_to_check=key if needs_uniqueness_check else (),
        )
    else:
        locator = Locator(
            ("m.ordinal",), (sql_type,), key_map_columns=key, comparison_sql=comparison_sql
        )
    return replace(source, locator=locator)


def key_required_error(source: Relation, shadowing_column: str | None = None) -> KeyRequired:
    """Return the error for a source whose rows can only be addressed by a key.

    Parameters
    ----------
    shadowing_column : the column that has the name of the database's row ID; None if the source has
        no row ID.
    """
    return KeyRequired(
        f"{source.name} is a {source.kind}: its rows have no key of their own."
        if shadowing_column is None
        else f'{source.name} has a column named "{shadowing_column}",'
        " which hides the address of its rows.",
        hint='Name columns that are unique for each row: `key=["…"]`.',
    )


def row_id_shadowed_error(source: Relation, shadowing_column: str) -> InvalidParameter:
    """Return the error for a file with a column that has the name of the database's row ID."""
    return InvalidParameter(
        f'{source.name} has a column named "{shadowing_column}",'
        " which hides the address of its rows in the database of the chain.",
        hint="Rename the column in the file, or do not release it.",
    )


def uncopyable_type_error(attribute: Attribute) -> UnsupportedType:
    """Return the error for a column whose type other database systems lack."""
    return UnsupportedType(
        f'Column "{attribute.name}" of type {attribute.sql_type} cannot be copied to'
        " another database.",
        hint="Cast it to text or to a number in a view, and anonymize the view.",
    )


def uncopyable_value_error(column: str | None = None) -> UnsupportedType:
    """Return the error for a retained value that other database systems cannot store."""
    subject = "A kept column" if column is None else f'Column "{column}"'
    return UnsupportedType(
        f"{subject} holds a value that cannot be copied to another database, such as NaN or an"
        " infinite date.",
        hint="Exclude these rows in a view, or cast the column to text there.",
    )


# Days from 1970-01-01 to the first day of a year: by year for 0 and 1, the first years of database
# systems; and for the year 10000, before which dates must end.
_FIRST_DAYS = {0: -719_528, 1: -719_162}
_FIRST_DAY_OF_YEAR_10000 = 2_932_897


def require_years(column: ReleasedColumn, first_year: int, database: str) -> None:
    """Check that dates are in years ``first_year`` to 9999; raises UnsupportedType.

    Parameters
    ----------
    column : released dates or timestamps, as days or microseconds since 1970.
    first_year : 0 or 1.
    database : the name of the database system, for the message.
    """
    values = column.values if column.missing is None else column.values[~column.missing]
    units_per_day = 1 if column.attribute.kind is Kind.DATE else 86_400_000_000
    if len(values) and not (
        _FIRST_DAYS[first_year] * units_per_day <= int(values.min())
        and int(values.max()) < _FIRST_DAY_OF_YEAR_10000 * units_per_day
    ):
        raise UnsupportedType(
            f'Column "{column.attribute.name}" would be released with dates outside the years'
            f" {first_year} to 9999, which {database} does not have.",
            hint="Write to another database, or exclude these rows in a view.",
        )


def prepend_class_and_position(batches: Iterable[ReleasedBatch]) -> Iterator[SqlRow]:
    """Yield rows that begin with their class and position."""
    for classes, positions, rows in batches:
        for class_number, position, row in zip(
            classes.tolist(), positions.tolist(), rows, strict=True
        ):
            yield class_number, position, *row


def passthrough_error() -> InvalidParameter:
    """Return the error for ``kept_columns="client"`` if passthrough columns are not supported.

    Passthrough columns are retained columns whose values are copied through the client.
    """
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


def job_running_error(
    job: str, holder: LockHolder | None = None, how_to_end: str = ""
) -> JobRunning:
    """Return the error for a job whose lock another process holds.

    Parameters
    ----------
    how_to_end : a sentence on how to end the other process, after a space; may be empty.
    """
    holder_sentence = (
        "" if holder is None or holder == LockHolder() else f" It is held by {holder}."
    )
    return JobRunning(
        f'The job "{job}" is already running.{holder_sentence}',
        hint=f"Wait until it is done: a second run would do the same work.{how_to_end}",
    )


def is_integer_key(attributes: Sequence[Attribute]) -> bool:
    """Return True for a key of one integer column, which needs no key map."""
    return len(attributes) == 1 and attributes[0].kind is Kind.INTEGER
