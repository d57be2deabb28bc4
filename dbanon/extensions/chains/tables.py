"""Chains over several tables of the same persons: resolve, plan and recount their tables.

A *cell* is a class of a chain (see ``membership``). The rows of a cell share released values;
*retained columns* are released unchanged, with a value for each row. Columns of strata (``by``) are
released like quasi-identifiers, with one value per cell.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dbanon.data.schema import Schema
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.errors import ChainFirstTable, InvalidParameter
from dbanon.extensions.chains.membership import ChainState
from dbanon.extensions.chains.rows_per_person import ChainTable
from dbanon.extensions.chains.staging import FileSource, require_one_table
from dbanon.extensions.chains.state import ChainColumn, require_entity
from dbanon.job.chain import ChainRules
from dbanon.job.job import Job, SourceRequest
from dbanon.run.plan import Plan
from dbanon.sessions.base import Relation
from dbanon.sessions.chain_staging import HISTORY_SIZES
from dbanon.sessions.names import RelationName, parse_relation, quote, quote_list
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import SqlSource


def resolve_tables(
    session: Session, relation: Relation, entity: str, tables: Sequence[str]
) -> tuple[str, ...]:
    """Resolve and check the names of the further tables of a new chain.

    Parameters
    ----------
    relation, entity : the first table, and the column that identifies persons.
    tables : the names of the further tables.

    Raises
    ------
    TableNotFound, ColumnNotFound, InsufficientRights : a table cannot be read.
    UnsupportedType, ChainEntityRows : an entity column cannot identify persons; see
        ``require_entity``.
    InvalidParameter : a table is named twice, or its entity column has another type.
    """
    relations = [relation]
    for table in tables:
        further_table = session.catalog.find_source(parse_relation(table))
        if further_table.name in [earlier_table.name for earlier_table in relations]:
            raise InvalidParameter(
                f"The table {further_table.name} is named twice.", hint="Name each table once."
            )
        _require_same_entity(session, relation, further_table, entity)
        relations.append(further_table)
    return tuple(str(further_table.name) for further_table in relations[1:])


def _require_same_entity(
    session: Session, first_table: Relation, other_table: Relation, entity: str
) -> None:
    """Check that a further table identifies persons by a readable column of the same type."""
    attribute, first_entity = other_table.attribute(entity), first_table.attribute(entity)
    session.catalog.require_readable(other_table, [entity])
    require_entity(session, other_table, attribute)
    if attribute.sql_type != first_entity.sql_type:
        raise InvalidParameter(
            f'The entity column "{entity}"'
            f" is of type {first_entity.sql_type} in {first_table.name},"
            f" and of type {attribute.sql_type} in {other_table.name}.",
            hint=f"Cast it to {first_entity.sql_type} in a view, and anonymize the view.",
        )


@dataclass(frozen=True)
class TablesSource(SqlSource):
    """The source of a chain over several tables; the first one has all quasi-identifiers.

    Parameters
    ----------
    further_tables : the tables of the chain except the first.
    """

    further_tables: tuple[Relation, ...] = ()

    def describe(self, job: SourceRequest) -> Relation:
        """Describe the relation of a job.

        Raises
        ------
        ChainFirstTable : a further table has a quasi-identifier that the first table lacks.
        Other errors are those of ``ports.Source.describe``.
        """
        relation = self.session.catalog.find_source(parse_relation(job.table))
        first_columns = {attribute.name for attribute in relation.schema.attributes}
        for name in (*job.quasi_identifiers, *job.by) if isinstance(job, Job) else ():
            tables_with_column = [
                table
                for table in self.further_tables
                if name in {attribute.name for attribute in table.schema.attributes}
            ]
            if name not in first_columns and tables_with_column:
                raise _missing_column_error(name, relation, tables_with_column[0])
        return super().describe(job)


def _missing_column_error(
    name: str, first_table: Relation, other_table: Relation
) -> ChainFirstTable:
    """The error for a quasi-identifier that only a further table has."""
    return ChainFirstTable(
        f'The quasi-identifier "{name}" is a column of {other_table.name}, and not of'
        f" {first_table.name}, the first table of the chain.",
        detail=f"It would be NULL for everybody without a row in {other_table.name}. Then the class"
        " and the first release of a person would depend on whether the person has rows there.",
        hint=f'Create the chain on a view that adds "{name}" to the rows of {first_table.name}. If'
        " the chain has releases, close it, and name it as new_chain_from when you create the"
        " other.",
    )


def build_source(session: Session, rules: ChainRules) -> SqlSource:
    """Build the source that the releases of a chain read.

    Raises
    ------
    InvalidParameter : the source is a file, and the chain has several tables.
    """
    if session.staged_rows is not None:
        require_one_table(rules.tables)
        return FileSource(session)
    if not rules.tables:
        return SqlSource(session)
    further_tables = tuple(
        session.catalog.find_source(parse_relation(table)) for table in rules.tables
    )
    return TablesSource(session, further_tables=further_tables)


def find_chain_tables(
    session: Session, job: Job, relation: Relation, rules: ChainRules
) -> list[ChainTable]:
    """Find the tables of a job's chain, beginning with the table that the job names.

    Raises
    ------
    InvalidParameter : the job names other tables than the chain, or retains a quasi-identifier or
        the entity column of a further table.
    ColumnNotFound, TableNotFound, InsufficientRights : a table cannot be read.
    """
    assert job.chain is not None
    retained = tuple(map(relation.attribute, (*job.sensitive, *job.keep)))
    chain_tables = [ChainTable(number=0, relation=relation, retained=retained)]
    entity = str(job.entity)
    # By further table: the output, and the names of the retained columns (``kept``).
    outputs = _resolve_table_names(session, job.chain.outputs)
    retained_by_table = _resolve_table_names(session, job.chain.kept)
    # Each further table needs an output, but may have no retained columns.
    for mismatched_tables in (
        set(outputs) ^ set(rules.tables),
        set(retained_by_table) - set(rules.tables),
    ):
        if mismatched_tables:
            raise InvalidParameter(
                "`outputs` must name each further table of the chain, and no other; `kept` may name"
                " only further tables. This is not so for:"
                f" {', '.join(sorted(mismatched_tables))}.",
                hint="Name one output for each of the further tables"
                f" ({', '.join(rules.tables) or 'none'}) and no other: `outputs`. In `kept`, name"
                " only these tables.",
            )
    destinations = [parse_relation(output) for output in (job.output, *outputs.values())]
    if len(set(destinations)) < len(destinations):
        raise InvalidParameter(
            "Two tables of a chain would be released to the same output.",
            hint="Name another table for each: `output`, and `outputs` for the further tables.",
        )
    if rules.tables and job.exports:
        raise InvalidParameter(
            "A chain of several tables writes no files, because a file would hold one table"
            " without the others.",
            hint="Leave out `exports`, and export the tables yourself after the release.",
        )
    if rules.tables and job.where is not None:
        raise InvalidParameter(
            "where selects rows of one table, but the chain has several.",
            hint="Leave out `where`. To select rows, create the chain on a view of each table.",
        )
    for number, table in enumerate(rules.tables, 1):
        further_table = session.catalog.find_source(parse_relation(table))
        _require_same_entity(session, relation, further_table, entity)
        names = tuple(retained_by_table.get(table, ()))
        duplicates = set(names) & {*job.quasi_identifiers, *job.by, entity}
        if duplicates or len(set(names)) < len(names):
            raise InvalidParameter(
                f"Columns of {further_table.name} would be released twice, or together with the"
                f" person identifier: {', '.join(sorted(duplicates or set(names)))}.",
                hint="All tables are released with the quasi-identifiers: leave these out of"
                " `kept`, and name other columns once.",
            )
        attributes = tuple(map(further_table.attribute, names))
        session.catalog.require_readable(further_table, [entity, *names])
        session.catalog.require_comparable_types(further_table, list(names))
        first_retained = chain_tables[-1].first_retained + len(chain_tables[-1].retained)
        chain_tables.append(
            ChainTable(
                number=number,
                relation=further_table,
                retained=attributes,
                first_retained=first_retained,
                output=outputs[table],
            )
        )
    return chain_tables


def _resolve_table_names(session: Session, values: JsonMapping) -> JsonObject:
    """Replace the keys of a mapping, which are names of tables, by their names in the database."""
    return {
        str(session.catalog.find_source(parse_relation(table)).name): value
        for table, value in values.items()
    }


def describe_tables(chain_tables: Sequence[ChainTable]) -> JsonObject:
    """Return the settings of further tables that must be the same in all releases of a chain.

    These are the names and types of their retained columns.
    """
    columns_by_table = {
        str(chain_table.relation.name): [[a.name, a.sql_type] for a in chain_table.retained]
        for chain_table in chain_tables[1:]
    }
    return {"tables": columns_by_table} if columns_by_table else {}


def columns_of_table(
    chain_table: ChainTable, columns: Sequence[ChainColumn]
) -> tuple[ChainColumn, ...]:
    """Return the columns of a table's release.

    These are the columns whose values the rows of a class share, which all tables have in common,
    and the table's own retained columns.

    Parameters
    ----------
    columns : the columns of the first table's release.
    """
    if chain_table.number == 0:
        return tuple(columns)
    shared = [column for column in columns if column.is_shared]
    retained = [
        ChainColumn(a.name, state_column=state_column, source=a.name)
        for a, state_column in zip(chain_table.retained, chain_table.state_columns, strict=True)
    ]
    return (*shared, *retained)


def plan_table(planned: Plan, chain_table: ChainTable) -> Plan:
    """Plan the release of a table, with the same classes and the table's retained columns.

    Parameters
    ----------
    planned : the plan of the first table's release.
    """
    if chain_table.number == 0:
        return planned
    job = planned.job
    # The release has columns for all quasi-identifiers and strata, whose values come from the
    # chain's value table, so the plan needs their types even if the table lacks them.
    table_columns = {attribute.name for attribute in chain_table.relation.schema.attributes}
    shared = [*job.quasi_identifiers, *job.by]
    missing_columns = [
        planned.relation.attribute(name) for name in shared if name not in table_columns
    ]
    schema = Schema((*chain_table.relation.schema.attributes, *missing_columns))
    retained = tuple(attribute.name for attribute in chain_table.retained)
    # Leave out the job's name and roles: the column types recorded under the job's name are those
    # of the first table. Each table is recorded in the ledger as a run of its own.
    table_job = replace(
        job,
        table=str(chain_table.relation.name),
        output=chain_table.output,
        keep=retained,
        sensitive=(),
        name=None,
        roles=None,
        run_id=str(uuid.uuid4()),
    )
    return replace(
        planned,
        job=table_job,
        relation=replace(chain_table.relation, schema=schema),
        identifiers=chain_table.identifiers,
    )


def recount_across_tables(
    state: ChainState, released_tables: Sequence[RelationName], columns: Sequence[tuple[str, str]]
) -> tuple[int, int]:
    """Count the combinations of values that occur in any of the released tables.

    Also returns how many of these combinations fewer than k displayed persons share. Only the
    columns whose values all rows of a cell share are used, because the tables have no other columns
    in common. Call ``recount.stage_histories`` first.

    Parameters
    ----------
    state : the state of the chain: its cells and their released values.
    released_tables : the written relations of the chain's tables, in the same database.
    columns : pairs of a column's name in the release, and its name in the chain's value table.
    """
    # ``left_at`` is NULL for persons who have not left their cell: those who are displayed.
    state_columns = ", ".join(column for _, column in columns)
    values = ", ".join(f"v.{column} AS {column}" for _, column in columns)
    names = quote_list(name for name, _ in columns)
    persons = (
        f"SELECT {values}, h.size AS persons, 0 AS is_released FROM {quote(HISTORY_SIZES)} AS h"
        f" JOIN {state.value_table} AS v ON v.cell = h.cell WHERE h.left_at IS NULL"
    )
    # A row of a table adds no persons, but shows that its combination was released.
    rows = "".join(
        f" UNION ALL SELECT {names}, 0, 1 FROM {relation.quoted}" for relation in released_tables
    )
    [(n_combinations, n_below_k)] = state.session.rows(
        f"SELECT count(*), coalesce(sum(CASE WHEN c.persons < {int(state.k)} THEN 1 ELSE 0 END), 0)"
        f" FROM (SELECT sum(persons) AS persons FROM ({persons}{rows}) AS persons_and_rows"
        f" GROUP BY {state_columns} HAVING sum(is_released) > 0) AS c"
    )
    return int(n_combinations), int(n_below_k)
