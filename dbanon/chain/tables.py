"""Chains over several tables of the same persons: their settings, plans and joint recount."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dbanon.chain.membership import CellState
from dbanon.chain.rows_per_person import Part
from dbanon.chain.staging import FileSource, require_one_table
from dbanon.chain.state import require_entity
from dbanon.data.schema import Schema
from dbanon.errors import ChainFirstTable, InvalidParameter
from dbanon.job.chain import ChainRules
from dbanon.job.job import Job, SourceRequest
from dbanon.run.plan import Plan
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, parse_relation, quote, quote_list
from dbanon.sessions.pseudonym_session import HISTORIES
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import SqlSource


def tables_of(
    session: Session, relation: Relation, entity: str, tables: Sequence[str]
) -> tuple[str, ...]:
    """Resolve the names of a new chain's further tables.

    Parameters
    ----------
    relation : the first table.

    Raises
    ------
    TableNotFound, ColumnNotFound, InsufficientRights : a table cannot be read.
    UnsupportedType, ChainEntityRows : as ``require_entity``.
    InvalidParameter : a table is named twice, or its entity column has another type.
    """
    relations = [relation]
    for table in tables:
        other = session.find_source(parse_relation(table))
        if other.name in [previous.name for previous in relations]:
            raise InvalidParameter(
                f"The table {other.name} is named twice.", hint="Name each table once."
            )
        _require_persons(session, relation, other, entity)
        relations.append(other)
    return tuple(str(previous.name) for previous in relations[1:])


def _require_persons(session: Session, first: Relation, other: Relation, entity: str) -> None:
    attribute, expected = other.attribute(entity), first.attribute(entity)
    session.require_rights(other, [entity])
    require_entity(session, other, attribute)
    if attribute.sql_type != expected.sql_type:
        raise InvalidParameter(
            f'The entity column "{entity}" is of type {expected.sql_type} in {first.name}, and of'
            f" type {attribute.sql_type} in {other.name}.",
            hint=f"Cast it to {expected.sql_type} in a view, and anonymize the view.",
        )


@dataclass(frozen=True)
class TablesSource(SqlSource):
    """The first table of a chain over several tables, which has all quasi-identifiers.

    Parameters
    ----------
    others : the further tables.
    """

    others: tuple[Relation, ...] = ()

    def describe(self, job: SourceRequest) -> Relation:
        """Describe the relation of a job; raises as ``ports.Source``, and ChainFirstTable."""
        relation = self.session.find_source(parse_relation(job.table))
        first_columns = {attribute.name for attribute in relation.schema.attributes}
        for name in (*job.quasi_identifiers, *job.by) if isinstance(job, Job) else ():
            having = [o for o in self.others if name in {a.name for a in o.schema.attributes}]
            if name not in first_columns and having:
                raise _missing_column_error(name, relation, having[0])
        return super().describe(job)


def _missing_column_error(name: str, first: Relation, other: Relation) -> ChainFirstTable:
    return ChainFirstTable(
        f'The quasi-identifier "{name}" is a column of {other.name}, and not of {first.name}, the'
        " first table of the chain.",
        detail=f"It would be NULL for everybody without a row in {other.name}. So the rows that a"
        " person has there would decide when and with whom the person is released.",
        hint=f'Create the chain of a view that adds "{name}" to the rows of {first.name}. If the'
        " chain has releases, close it and name it as new_chain_from.",
    )


def source_of(session: Session, rules: ChainRules) -> SqlSource:
    """The source that the releases of a chain read.

    Raises
    ------
    InvalidParameter : the chain has several tables, and the source is a file.
    """
    if session.staged_rows is not None:
        require_one_table(rules.tables)
        return FileSource(session)
    if not rules.tables:
        return SqlSource(session)
    others = tuple(session.find_source(parse_relation(table)) for table in rules.tables)
    return TablesSource(session, others=others)


def parts_of(session: Session, job: Job, relation: Relation, rules: ChainRules) -> list[Part]:
    """The tables of a job's chain, the job's own table first.

    Raises
    ------
    InvalidParameter : the job names other tables than the chain, or retains a quasi-identifier or
        the entity column of a further table.
    ColumnNotFound, TableNotFound, InsufficientRights : a table cannot be read.
    """
    assert job.chain is not None
    retained = tuple(map(relation.attribute, (*job.sensitive, *job.keep)))
    parts, entity = [Part(0, relation, retained)], str(job.entity)
    outputs = _by_table(session, job.chain.outputs)
    retained_by_table = _by_table(session, job.chain.kept)
    for wrong in (set(outputs) ^ set(rules.tables), set(retained_by_table) - set(rules.tables)):
        if wrong:
            raise InvalidParameter(
                "Each further table of a chain, and no other, needs its own output:"
                f" {', '.join(sorted(wrong))}.",
                hint="Name one output for each of the further tables"
                f" ({', '.join(rules.tables) or 'none'}) and no other: `outputs`. Keep columns of"
                " these only: `kept`.",
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
            hint="Leave out `where`. To select rows, create the chain of a view for each table.",
        )
    for number, table in enumerate(rules.tables, 1):
        other = session.find_source(parse_relation(table))
        _require_persons(session, relation, other, entity)
        names = tuple(retained_by_table.get(table, ()))
        duplicates = set(names) & {*job.quasi_identifiers, *job.by, entity}
        if duplicates or len(set(names)) < len(names):
            raise InvalidParameter(
                f"Columns of {other.name} would be released twice, or together with the person"
                " identifier:"
                f" {', '.join(sorted(duplicates or set(names)))}.",
                hint="All tables are released with the quasi-identifiers: leave these out of"
                " `kept`, and name other columns once.",
            )
        attributes = tuple(map(other.attribute, names))
        session.require_rights(other, [entity, *names])
        session.require_equality(other, list(names))
        first = parts[-1].first + len(parts[-1].retained)
        parts.append(Part(number, other, attributes, first, outputs[table]))
    return parts


def _by_table(session: Session, values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the table names of a mapping with the names that the database has."""
    return {
        str(session.find_source(parse_relation(table)).name): value
        for table, value in values.items()
    }


def describe_tables(parts: Sequence[Part]) -> dict[str, Any]:
    """The settings of further tables that all releases of a chain share; empty if it has none."""
    columns_by_table = {
        str(part.relation.name): [[a.name, a.sql_type] for a in part.retained] for part in parts[1:]
    }
    return {"tables": columns_by_table} if columns_by_table else {}


def columns_of(
    part: Part, columns: Sequence[tuple[str, str, str]]
) -> tuple[tuple[str, str, str], ...]:
    """The columns of a table's release: those that classes share, and its retained columns.

    Parameters
    ----------
    columns : of the first table.
    """
    if part.number == 0:
        return tuple(columns)
    shared = [column for column in columns if column[1].startswith("v")]
    retained = [
        (a.name, state_column, a.name)
        for a, state_column in zip(part.retained, part.state_columns, strict=True)
    ]
    return (*shared, *retained)


def plan_table(planned: Plan, part: Part) -> Plan:
    """The plan of a table's release: the same classes, with the table's retained columns."""
    if part.number == 0:
        return planned
    job, table_columns = (
        planned.job,
        {attribute.name for attribute in part.relation.schema.attributes},
    )
    shared = [*job.quasi_identifiers, *job.by]
    more = [planned.relation.attribute(name) for name in shared if name not in table_columns]
    schema = Schema((*part.relation.schema.attributes, *more))
    retained = tuple(attribute.name for attribute in part.retained)
    # Drop the job's name: its column types are those of the first table.
    of_part = replace(
        job,
        table=str(part.relation.name),
        output=part.output,
        keep=retained,
        sensitive=(),
        name=None,
        roles=None,
        run_id=str(uuid.uuid4()),
    )
    return replace(
        planned,
        job=of_part,
        relation=replace(part.relation, schema=schema),
        identifiers=part.identifiers,
    )


def recount_joined(
    state: CellState, written: Sequence[RelationName], combination: Sequence[tuple[str, str]]
) -> tuple[int, int]:
    """Count the combinations that occur in any table, and those that fewer than k persons share.

    Combinations are all that the tables can be joined by. Requires staged histories.

    Parameters
    ----------
    written : the released tables, in the same database.
    combination : the columns that classes share, each with its state column.
    """
    places = ", ".join(column for _, column in combination)
    values = ", ".join(f"v.{column} AS {column}" for _, column in combination)
    names = quote_list(name for name, _ in combination)
    persons = (
        f"SELECT {values}, h.size AS persons, 0 AS n FROM {quote(HISTORIES)} AS h"
        f" JOIN {state.values} AS v ON v.cell = h.cell WHERE h.left_at IS NULL"
    )
    rows = "".join(
        f" UNION ALL SELECT {names}, 0, 1 FROM {relation.quoted}" for relation in written
    )
    [(n_combinations, apart)] = state.session.rows(
        f"SELECT count(*), coalesce(sum(CASE WHEN c.persons < {int(state.k)} THEN 1 ELSE 0 END), 0)"
        f" FROM (SELECT sum(persons) AS persons FROM ({persons}{rows}) AS both_ways"
        f" GROUP BY {places} HAVING sum(n) > 0) AS c"
    )
    return int(n_combinations), int(apart)
