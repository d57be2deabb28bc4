"""Stage the rows of files as the source of a chain, in the database that stores the chain.

Files hold no state. Their rows are copied to a temporary table of the transaction that continues
the chain. No other session can read it, and it disappears with the transaction or the process. The
reading options and column types of a file are checked first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from dbanon.chain import state as chain_state
from dbanon.chain.state import ChainRecord
from dbanon.data.schema import Attribute, Kind, Schema
from dbanon.errors import ChainChanged, DatabaseFailure, DbanonError, InvalidParameter
from dbanon.job.job import DEFAULT_CHUNK_ROWS, Job, SourceRequest
from dbanon.sessions.base import Locator, Relation, StagedRows
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.sessions.store import ClientStore, Store
from dbanon.stores.sql_source import SqlSource

# For rows that are read once and never looked up by key.
_UNADDRESSED = Locator(("0",), ("bigint",))
OpenSession = Callable[[], AbstractContextManager[Session]]


@dataclass(frozen=True)
class FileSource(SqlSource):
    """The rows of files that a session has staged."""

    @property
    def _staged(self) -> StagedRows:
        staged = self.session.staged_rows
        assert staged is not None
        return staged

    def describe(self, job: SourceRequest) -> Relation:
        """The staged relation, with all columns of the file; raises as ``ports.Source``."""
        return self._with_roles(job, self._staged.relation)

    def locate(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """Return the relation; the job's condition was applied when its rows were staged."""
        if job.policy.nulls == "suppress":
            relation = replace(relation, required_columns=job.quasi_identifiers)
        self.session.require_equality(relation, [*job.by, *job.columns_in_sets])
        return relation

    def find_identifier_columns(self, relation: Relation) -> dict[str, str]:
        """As ``SqlSource``, but only for the staged columns."""
        staged = tuple(relation.attribute(name) for name in self._staged.columns)
        return super().find_identifier_columns(replace(relation, schema=Schema(staged)))

    def accepts_condition(self, relation: Relation, columns: Sequence[str], condition: str) -> bool:
        """As ``SqlSource``; the condition refers to the file."""
        return self._staged.accepts_condition(columns, condition)

    def with_condition(
        self, relation: Relation, job: Job, names: Sequence[str], condition: str
    ) -> Relation:
        """As ``SqlSource``; the job's condition was applied when the rows were staged."""
        return super().with_condition(relation, replace(job, where=None), names, condition)

    def state(self, relation: Relation) -> Mapping[str, Any]:
        """The types of its columns; a file has no identifier and no counter of writes."""
        return {"types": {a.name: a.sql_type for a in relation.schema.attributes}}


@contextmanager
def chain_session(
    database: Store, file: Store | None, job: Job, *, write: bool = True
) -> Iterator[Session]:
    """Open a transaction on the database of a chain, and stage the rows of a file in it, if any.

    Parameters
    ----------
    file : the store of the files that the job reads; None if it reads the database.

    Raises
    ------
    ChainNotFound, ChainsNotHere : there is no such chain.
    ChainChanged : a column of the file does not fit the type that the chain has for it.
    DbanonError : reading the file failed.
    """
    if file is None:
        with database.session(write=write) as session:
            yield session
        return
    with database.session(write=True, create=True) as session:
        # Close the file's session before the commit: nothing may fail after it.
        with file.session(write=False) as file_session:
            stage_job(session, SqlSource(file_session), job, partial(file.session, write=False))
        yield session


def stage_job(session: Session, file: SqlSource, job: Job, open_again: OpenSession) -> None:
    """Stage the rows and columns of a file that a job reads.

    Parameters
    ----------
    open_again : opens another session on the file, later.

    Raises
    ------
    DbanonError : as ``chain_session``.
    """
    assert job.chain is not None
    session.require("chains")
    chain = chain_state.find(session, job.chain.name)
    relation = file.describe(job)
    requested = [*job.read, *job.guarantee.counted_columns, *job.expected_columns]
    names = list(dict.fromkeys(requested))
    # Read rows in file order. Rows with NULL are withheld later, where they are counted.
    chosen = file.select_rows(replace(relation, locator=_UNADDRESSED), job, names)
    staged = _stage(session, file, chosen, names, _types_of(chain), job.chunk_rows)

    def accepts_condition(columns: Sequence[str], condition: str) -> bool:
        is_accepted = False
        # A refused condition would abort the chain's transaction, so ask in another session.
        with suppress(DbanonError), open_again() as file_session:
            is_accepted = SqlSource(file_session).accepts_condition(chosen, columns, condition)
        return is_accepted

    session.staged_rows = StagedRows(staged, tuple(names), accepts_condition)


def stage_entity(session: Session, file: Store, table: str, entity: str) -> Relation:
    """Stage the entity column of a file for creating a chain; return the staged relation.

    Raises
    ------
    ColumnNotFound, UnsupportedType : the column cannot be staged.
    DbanonError : reading the file failed.
    """
    with file.session(write=False) as file_session:
        source = SqlSource(file_session)
        relation = file_session.find_source(parse_relation(table))
        relation.attribute(entity)
        file_session.require_typed([entity])
        relation = replace(relation, locator=_UNADDRESSED)
        return _stage(session, source, relation, [entity], {}, DEFAULT_CHUNK_ROWS)


def _types_of(chain: ChainRecord) -> dict[str, str]:
    """The column types of a chain's first release, which later releases must keep."""
    if chain.definition is None:
        return {}
    job = chain.definition["job"]
    typed = ("entity", "quasi_identifiers", "by", "sensitive", "keep")
    return {name: kind for role in typed for name, kind in job.get(role, ())}


def _stage(
    session: Session,
    file: SqlSource,
    relation: Relation,
    names: Sequence[str],
    types: Mapping[str, str],
    chunk_rows: int,
) -> Relation:
    """Stage some columns of the rows of a file.

    Parameters
    ----------
    types : required types by column; other columns have the types of the file.
    """
    inspected = file.inspect(relation, [relation.attribute(name) for name in names])
    columns = [(a.name, types.get(a.name) or session.type_of(a)) for a in inspected]
    staged = session.create_file_rows(relation.name, columns)
    _require_types(file, relation, inspected, staged)
    pieces = (rows for _, rows in file.kept_rows(relation, names, chunk_rows) if rows)
    try:
        session.fill_file_rows(inspected, pieces)
    except DatabaseFailure as error:
        changed = [a for a in inspected if types.get(a.name, "") not in ("", session.type_of(a))]
        if not changed:
            raise
        raise _type_error(relation, changed, staged, "holds values that do not fit") from error
    staged_attributes = {a.name: a for a in staged.schema.attributes}
    # The schema lists all columns, though only some are staged.
    schema = Schema(tuple(staged_attributes.get(a.name, a) for a in relation.schema.attributes))
    return replace(staged, schema=schema)


def _require_types(
    file: SqlSource, relation: Relation, attributes: Sequence[Attribute], staged: Relation
) -> None:
    """Check that columns of a file fit the types that the chain has for them.

    Raises
    ------
    ChainChanged : a column has values of another kind.
    """
    changed = [a for a in attributes if not _can_hold(a, staged.attribute(a.name))]
    if changed:
        counted = file.totals(relation, (), [a.name for a in changed])
        # Columns without values are read as text, which is no conflict.
        changed = [a for a in changed if counted.nulls[a.name] < counted.totals["rows"]]
    if changed:
        raise _type_error(relation, changed, staged, "is")


def _can_hold(attribute: Attribute, staged: Attribute) -> bool:
    """Whether a staged column's type can represent all values of a file's column, widths aside."""
    if staged.kind is Kind.DECIMAL:
        is_integer = attribute.kind is Kind.INTEGER
        return is_integer or (attribute.kind is Kind.DECIMAL and attribute.scale <= staged.scale)
    return attribute.kind is staged.kind and attribute.has_time_zone == staged.has_time_zone


def _type_error(
    relation: Relation, changed: Sequence[Attribute], staged: Relation, verb: str
) -> ChainChanged:
    differences = "; ".join(
        f'"{a.name}" of {a.sql_type} {verb} {staged.attribute(a.name).sql_type}' for a in changed
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


def chain_store(source: Store, target: Store | None) -> tuple[ClientStore, Store | None]:
    """The database that stores the chain of a source, and the source if it consists of files.

    Parameters
    ----------
    target : the database of the releases; None for the source's own.

    Raises
    ------
    InvalidParameter : there is no such database.
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
