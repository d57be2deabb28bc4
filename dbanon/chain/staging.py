"""The rows of files as the source of a chain: staged in the database that keeps the chain.

Files keep no state. Their rows go into a temporary table of the transaction that continues the
chain. Nobody else reads it. It goes with the transaction, and with a process that is killed. What
is known of a file, such as its reading options and the types of its columns, is checked before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from dbanon.chain import state as chain_state
from dbanon.chain.state import ChainKept
from dbanon.data.schema import Attribute, Kind, Schema
from dbanon.errors import ChainChanged, DatabaseFailure, DbanonError, InvalidParameter
from dbanon.job.job import DEFAULT_CHUNK_ROWS, Asked, Job
from dbanon.sessions.base import Locator, Relation, StagedRows
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.sessions.store import ClientStore, Store
from dbanon.stores.sql_source import SqlSource

# Of rows that are read once, and never looked for.
_UNADDRESSED = Locator(("0",), ("bigint",))
Reopened = Callable[[], AbstractContextManager[Session]]


@dataclass(frozen=True)
class FileSource(SqlSource):
    """The rows of files that a session has staged."""

    @property
    def _staged(self) -> StagedRows:
        staged = self.session.staged_rows
        assert staged is not None
        return staged

    def describe(self, job: Asked) -> Relation:
        """The staged relation, with all columns of the file; raises as ``ports.Source``."""
        return self._with_roles(job, self._staged.relation)

    def locate(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """The relation as it is: the condition of the job has chosen what was staged."""
        if job.policy.nulls == "suppress":
            relation = replace(relation, required=job.quasi_identifiers)
        self.session.require_equality(relation, [*job.by, *job.in_sets])
        return relation

    def numbers_of_persons(self, relation: Relation) -> dict[str, str]:
        """As ``SqlSource``, of the columns that were staged."""
        staged = tuple(relation.attribute(name) for name in self._staged.columns)
        return super().numbers_of_persons(replace(relation, schema=Schema(staged)))

    def takes(self, relation: Relation, columns: Sequence[str], condition: str) -> bool:
        """As ``SqlSource``; the condition is one on the file."""
        return self._staged.takes(columns, condition)

    def with_condition(
        self, relation: Relation, job: Job, names: Sequence[str], condition: str
    ) -> Relation:
        """As ``SqlSource``; the condition of the job has chosen what was staged."""
        return super().with_condition(relation, replace(job, where=None), names, condition)

    def state(self, relation: Relation) -> Mapping[str, Any]:
        """The types of its columns; a file has no number, and nobody counts writes to it."""
        return {"types": {a.name: a.sql_type for a in relation.schema.attributes}}


@contextmanager
def chain_session(
    database: Store, file: Store | None, job: Job, *, write: bool = True
) -> Iterator[Session]:
    """A transaction on the database of a chain, with the rows of a file staged in it, if any.

    Parameters
    ----------
    file : the store of the files that the job reads; None where it reads the database.

    Raises
    ------
    ChainNotFound, ChainsNotHere : there is no such chain.
    ChainChanged : a column of the file has a type that the chain's does not hold.
    DbanonError : as the file raises it.
    """
    if file is None:
        with database.session(write=write) as session:
            yield session
        return
    with database.session(write=True, create=True) as session:
        # It ends before the other one commits: nothing that follows a commit may fail.
        with file.session(write=False) as reads:
            stage_job(session, SqlSource(reads), job, partial(file.session, write=False))
        yield session


def stage_job(session: Session, file: SqlSource, job: Job, reopened: Reopened) -> None:
    """Stage the columns of a file that a job reads, of the rows that it chooses.

    Parameters
    ----------
    reopened : gives a session on the file later on.

    Raises
    ------
    DbanonError : as ``chain_session``.
    """
    assert job.chain is not None
    session.require("chains")
    chain = chain_state.find(session, job.chain.name)
    whole = file.describe(job)
    asked = [*job.read, *job.guarantee.looked_at, *job.expected_columns]
    names = list(dict.fromkeys(asked))
    # Rows are read in their order. Those with NULL are withheld where they are counted.
    chosen = file.choose(replace(whole, locator=_UNADDRESSED), job, names)
    staged = _stage(session, file, chosen, names, _types_of(chain), job.chunk_rows)

    def takes(columns: Sequence[str], condition: str) -> bool:
        found = False
        # A condition that is refused ends the transaction.
        with suppress(DbanonError), reopened() as reads:
            found = SqlSource(reads).takes(chosen, columns, condition)
        return found

    session.staged_rows = StagedRows(staged, tuple(names), takes)


def stage_entity(session: Session, file: Store, table: str, entity: str) -> Relation:
    """Stage the entity column of a file, by which a chain is created; the staged relation.

    Raises
    ------
    ColumnNotFound, UnsupportedType : it cannot be.
    DbanonError : as the file raises it.
    """
    with file.session(write=False) as reads:
        source = SqlSource(reads)
        relation = reads.find_source(parse_relation(table))
        relation.attribute(entity)
        reads.require_typed([entity])
        relation = replace(relation, locator=_UNADDRESSED)
        return _stage(session, source, relation, [entity], {}, DEFAULT_CHUNK_ROWS)


def _types_of(chain: ChainKept) -> dict[str, str]:
    """The types of columns at the first release of a chain, which all later ones have."""
    if chain.definition is None:
        return {}
    job = chain.definition["job"]
    typed = ("entity", "quasi_identifiers", "by", "sensitive", "keep")
    return {name: kind for one in typed for name, kind in job.get(one, ())}


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
    types : by column, those that it must have here; of others they follow from the file.
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
        raise _changed(relation, changed, staged, "holds values that do not fit") from error
    own = {a.name: a for a in staged.schema.attributes}
    # The names of columns that are not read are known, and their values are not here.
    schema = Schema(tuple(own.get(a.name, a) for a in relation.schema.attributes))
    return replace(staged, schema=schema)


def _require_types(
    file: SqlSource, relation: Relation, own: Sequence[Attribute], staged: Relation
) -> None:
    """Check that columns of a file can have the types that they have in their chain.

    Raises
    ------
    ChainChanged : one has a value of another kind.
    """
    changed = [a for a in own if not _is_held(a, staged.attribute(a.name))]
    if changed:
        counted = file.totals(relation, (), [a.name for a in changed])
        # A column without a value is read as text.
        changed = [a for a in changed if counted.nulls[a.name] < counted.totals["rows"]]
    if changed:
        raise _changed(relation, changed, staged, "is")


def _is_held(own: Attribute, held: Attribute) -> bool:
    """Whether a column of one type holds each value of another, but for its width."""
    if held.kind is Kind.DECIMAL:
        whole = own.kind is Kind.INTEGER
        return whole or (own.kind is Kind.DECIMAL and own.scale <= held.scale)
    return own.kind is held.kind and own.zoned == held.zoned


def _changed(
    relation: Relation, changed: Sequence[Attribute], staged: Relation, how: str
) -> ChainChanged:
    told = "; ".join(
        f'"{a.name}" of {a.sql_type} {how} {staged.attribute(a.name).sql_type}' for a in changed
    )
    return ChainChanged(
        f"Columns of {relation.name} have other types than at the first release of the chain.",
        detail=f"{told}.",
        hint="State how the column is read (`types`), or correct the file. If the type is as it"
        " should be, begin another chain.",
    )


def require_one_table(tables: Sequence[str]) -> None:
    """Check that a chain whose rows come from files has no further tables.

    Raises
    ------
    InvalidParameter : it has some.
    """
    if tables:
        raise InvalidParameter(
            "A chain of several tables does not read files.",
            hint="Load the files into tables of one database.",
        )


def keeper(source: Store, target: Store | None) -> tuple[ClientStore, Store | None]:
    """The database that keeps the chain of a source, and the source again where it is of files.

    Parameters
    ----------
    target : the database that a release goes to; None for the source's own.

    Raises
    ------
    InvalidParameter : there is no such database.
    """
    if source.lasting:
        return cast(ClientStore, source), None
    if target is None:
        raise InvalidParameter(
            "A chain keeps its state in a database, and a file is not a database.",
            hint="Name a database as the target, such as duckdb:///released.duckdb: it keeps the"
            " chain, and takes the releases.",
        )
    return cast(ClientStore, target), source
