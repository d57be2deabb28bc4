"""Stage the rows of files as the source of a chain, in the database that stores the chain.

The state of a chain is stored in a database, and a release is computed there. The rows of a file
are therefore copied to a temporary table, in the transaction that makes the release. No other
session can read this table, and it disappears with the transaction or the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from dbanon.data.schema import Attribute, Kind, Schema
from dbanon.data.types import JsonMapping
from dbanon.errors import ChainChanged, DatabaseFailure, DbanonError, InvalidParameter
from dbanon.extensions.chains import state as chain_state
from dbanon.extensions.chains.state import ChainRecord
from dbanon.job.job import DEFAULT_CHUNK_ROWS, Job, SourceRequest
from dbanon.sessions.base import Locator, Relation, StagedRows
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.sessions.store import ClientStore, Store
from dbanon.stores.sql_source import SqlSource

# A constant row key, for rows that are read once and never looked up by key. (A locator holds the
# SQL of a row key and its types.)
_CONSTANT_KEY = Locator(("0",), ("bigint",))
# Opens a further session on a file.
OpenSession = Callable[[], AbstractContextManager[Session]]


@dataclass(frozen=True)
class FileSource(SqlSource):
    """A source that reads the rows of files, which were staged in its session."""

    @property
    def _staged_rows(self) -> StagedRows:
        """The staged rows of the session."""
        staged_rows = self.session.staged_rows
        assert staged_rows is not None
        return staged_rows

    def describe(self, job: SourceRequest) -> Relation:
        """Describe the staged relation, with all columns of the file.

        Raises the errors of ``ports.Source.describe``.
        """
        return self._require_columns(job, self._staged_rows.relation)

    def with_row_locator(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """Return the relation, which has a locator and was filtered when its rows were staged."""
        if job.policy.nulls == "suppress":
            relation = replace(relation, non_null_columns=job.quasi_identifiers)
        # Rows are grouped by these columns: those of strata, and those that ``also_k`` names.
        self.session.catalog.require_comparable_types(relation, [*job.by, *job.columns_in_sets])
        return relation

    def find_identifier_columns(self, relation: Relation) -> dict[str, str]:
        """Find the staged columns that look like identifiers; return the reason for each."""
        staged_attributes = tuple(relation.attribute(name) for name in self._staged_rows.columns)
        return super().find_identifier_columns(replace(relation, schema=Schema(staged_attributes)))

    def accepts_condition(self, relation: Relation, columns: Sequence[str], condition: str) -> bool:
        """Whether the file, which the condition refers to, accepts it with these columns alone."""
        return self._staged_rows.accepts_condition(columns, condition)

    def with_condition(
        self, relation: Relation, job: Job, names: Sequence[str], condition: str
    ) -> Relation:
        """Restrict the relation to rows that satisfy ``condition``.

        The job's own condition is left out: it was applied when the rows were staged.
        """
        return super().with_condition(relation, replace(job, where=None), names, condition)

    def describe_state(self, relation: Relation) -> JsonMapping:
        """Describe the file for checks for changes, by the types of its columns.

        A file has no table identifier and no write counter, which database tables have.
        """
        return {"types": {a.name: a.sql_type for a in relation.schema.attributes}}


@contextmanager
def chain_session(
    database: Store, file_store: Store | None, job: Job, *, write: bool = True
) -> Iterator[Session]:
    """Open a transaction on the database of a chain; if the job reads a file, stage its rows.

    Parameters
    ----------
    file_store : the store of the files that the job reads; None if it reads the database.
    write : True if the transaction may change the chain. With files it is always writable, because
        their rows are staged.

    Raises
    ------
    ChainNotFound : there is no such chain.
    ChainsNotHere : the database cannot store chains.
    ChainChanged : a column of the file does not fit the type that the chain has for it.
    DbanonError : reading the file failed.
    """
    if file_store is None:
        with database.session(write=write) as session:
            yield session
        return
    with database.session(write=True, create=True) as session:
        # Close the file's session before the commit: nothing may fail after it.
        with file_store.session(write=False) as file_session:
            stage_job_rows(
                session, SqlSource(file_session), job, partial(file_store.session, write=False)
            )
        yield session


def stage_job_rows(session: Session, file: SqlSource, job: Job, open_file: OpenSession) -> None:
    """Stage the rows and columns of a file that a job reads.

    Parameters
    ----------
    file : the source of the file's rows.
    open_file : a function that opens a further session on the file.

    Raises
    ------
    ChainNotFound : there is no such chain.
    ChainsNotHere : the database cannot store chains.
    ChainChanged : a column of the file does not fit the type that the chain has for it.
    DbanonError : reading the file failed.
    """
    assert job.chain is not None
    session.require_capability("chains")
    chain = chain_state.find_chain(session, job.chain.name)
    relation = file.describe(job)
    needed_columns = [
        *job.columns_to_read,
        *job.guarantee.counted_columns,
        *job.columns_with_expectations,
    ]
    names = list(dict.fromkeys(needed_columns))
    # Read rows in the order of the file. Rows with NULL are withheld and counted later.
    selected_rows = file.select_rows(replace(relation, locator=_CONSTANT_KEY), job, names)
    staged_relation = _stage_columns(
        session, file, selected_rows, names, _first_release_types(chain), job.chunk_rows
    )

    def accepts_condition(columns: Sequence[str], condition: str) -> bool:
        """Whether the file accepts the condition with these columns alone; False on any error."""
        is_accepted = False
        # A refused condition would abort the chain's transaction, so try it in another session.
        with suppress(DbanonError), open_file() as file_session:
            is_accepted = SqlSource(file_session).accepts_condition(
                selected_rows, columns, condition
            )
        return is_accepted

    session.staged_rows = StagedRows(staged_relation, tuple(names), accepts_condition)


def stage_entity(session: Session, file_store: Store, table: str, entity: str) -> Relation:
    """Stage the entity column of a file for creating a chain; return the staged relation.

    Raises
    ------
    ColumnNotFound, UnsupportedType : the column cannot be staged.
    DbanonError : reading the file failed.
    """
    with file_store.session(write=False) as file_session:
        source = SqlSource(file_session)
        relation = file_session.catalog.find_source(parse_relation(table))
        # Raises ColumnNotFound if the file lacks the column.
        relation.attribute(entity)
        file_session.require_typed([entity])
        relation = replace(relation, locator=_CONSTANT_KEY)
        return _stage_columns(
            session, source, relation, [entity], types={}, chunk_rows=DEFAULT_CHUNK_ROWS
        )


def _first_release_types(chain: ChainRecord) -> dict[str, str]:
    """Return the column types of a chain's first release, which later releases must have, too."""
    if chain.definition is None:
        return {}
    job = chain.definition["job"]
    settings_with_types = ("entity", "quasi_identifiers", "by", "sensitive", "keep")
    return {name: sql_type for role in settings_with_types for name, sql_type in job.get(role, ())}


def _stage_columns(
    session: Session,
    file: SqlSource,
    relation: Relation,
    names: Sequence[str],
    types: Mapping[str, str],
    chunk_rows: int,
) -> Relation:
    """Stage some columns of a file; return the staged relation.

    Parameters
    ----------
    relation : the rows of the file to stage.
    names : the columns to stage.
    types : the required SQL types, by column; other columns get the types of the file.
    chunk_rows : the number of rows to read and stage at once.
    """
    # The types of a file are inferred from its values.
    file_attributes = file.complete_attributes_from_values(
        relation, [relation.attribute(name) for name in names]
    )
    columns = [(a.name, types.get(a.name) or session.dialect.type_of(a)) for a in file_attributes]
    staged_relation = session.create_file_rows(relation.name, columns)
    _require_types(file, relation, file_attributes, staged_relation)
    chunks = (rows for _, rows in file.read_retained_rows(relation, names, chunk_rows) if rows)
    try:
        session.fill_file_rows(file_attributes, chunks)
    except DatabaseFailure as error:
        # Only a column that has another type than in the file can hold a value that does not fit.
        converted_columns = [
            a
            for a in file_attributes
            if types.get(a.name, "") not in ("", session.dialect.type_of(a))
        ]
        if not converted_columns:
            raise
        raise _type_error(
            relation, converted_columns, staged_relation, verb="holds values that do not fit"
        ) from error
    staged_attributes = {a.name: a for a in staged_relation.schema.attributes}
    # Checks of the job look up any column of the file, so the schema lists those that are not
    # staged.
    schema = Schema(tuple(staged_attributes.get(a.name, a) for a in relation.schema.attributes))
    return replace(staged_relation, schema=schema)


def _require_types(
    file: SqlSource, relation: Relation, attributes: Sequence[Attribute], staged_relation: Relation
) -> None:
    """Check that columns of a file fit the types that the chain has for them.

    Raises
    ------
    ChainChanged : a column has values of another kind.
    """
    mismatched_columns = [
        a for a in attributes if not _can_hold(a, staged_relation.attribute(a.name))
    ]
    if mismatched_columns:
        counts = file.count_totals(
            relation, person_columns=(), columns=[a.name for a in mismatched_columns]
        )
        # A column without values is read as text, but fits any type.
        mismatched_columns = [
            a for a in mismatched_columns if counts.nulls[a.name] < counts.totals["rows"]
        ]
    if mismatched_columns:
        raise _type_error(relation, mismatched_columns, staged_relation, verb="is")


def _can_hold(attribute: Attribute, staged_column: Attribute) -> bool:
    """True if a staged column can hold the kind of values of a file's column; ignores lengths."""
    if staged_column.kind is Kind.DECIMAL:
        is_integer = attribute.kind is Kind.INTEGER
        return is_integer or (
            attribute.kind is Kind.DECIMAL and attribute.scale <= staged_column.scale
        )
    has_same_zone = attribute.has_time_zone == staged_column.has_time_zone
    return attribute.kind is staged_column.kind and has_same_zone


def _type_error(
    relation: Relation,
    mismatched_columns: Sequence[Attribute],
    staged_relation: Relation,
    verb: str,
) -> ChainChanged:
    """The error for columns of a file that do not have the types of the first release.

    Parameters
    ----------
    mismatched_columns : the columns, with their types in the file.
    staged_relation : the staged relation, whose columns have the types of the first release.
    verb : the words between the type in the file and the staged type in the message.
    """
    differences = "; ".join(
        f'"{a.name}" of {a.sql_type} {verb} {staged_relation.attribute(a.name).sql_type}'
        for a in mismatched_columns
    )
    return ChainChanged(
        f"Columns of {relation.name} have different types than at the first release of the chain.",
        detail=f"{differences}.",
        hint="State the former type (`types`), or correct the file. If the new type is right, close"
        " the chain and create another one.",
    )


def require_one_table(tables: Sequence[str]) -> None:
    """Check that a chain that reads files has no further tables.

    Raises
    ------
    InvalidParameter : it has further tables.
    """
    if tables:
        raise InvalidParameter(
            "A chain of several tables does not read files.",
            hint="Load the files into tables of one database, and create the chain of these.",
        )


def find_chain_stores(source: Store, target: Store | None) -> tuple[ClientStore, Store | None]:
    """Return the store of the chain's database, and the store of the files that its releases read.

    The second item is None if the releases read tables of the chain's database.

    Parameters
    ----------
    source : the store that the releases read: a database or files.
    target : the database that the releases go to; None for the source's database.

    Raises
    ------
    InvalidParameter : the source is files, and there is no target.
    """
    if source.is_persistent:
        return cast(ClientStore, source), None
    if target is None:
        raise InvalidParameter(
            "A chain keeps its state in a database, not in a file.",
            hint="Name the database that has the chain as target, such as"
            " duckdb:///released.duckdb: it also takes the releases.",
        )
    return cast(ClientStore, target), source
