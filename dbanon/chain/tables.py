"""Several tables of the same persons in one chain: what a job and a chain say of each."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dbanon.chain.membership import CellState
from dbanon.chain.several import Part
from dbanon.chain.staging import FileSource, require_one_table
from dbanon.chain.state import require_entity
from dbanon.data.schema import Schema
from dbanon.errors import ChainFirstTable, InvalidParameter
from dbanon.job.chain import Rules
from dbanon.job.job import Asked, Job
from dbanon.run.plan import Plan
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, parse_relation, quote, quote_list
from dbanon.sessions.pseudonym_session import HISTORIES
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import SqlSource


def tables_of(
    session: Session, relation: Relation, entity: str, tables: Sequence[str]
) -> tuple[str, ...]:
    """The names of a new chain's further tables, as the database has them.

    Parameters
    ----------
    relation : the first table.

    Raises
    ------
    TableNotFound, ColumnNotFound, InsufficientRights : one cannot be read.
    UnsupportedType, ChainEntityRows : as ``require_entity``.
    InvalidParameter : one is named twice, or says otherwise whose a row is.
    """
    found = [relation]
    for table in tables:
        other = session.find_source(parse_relation(table))
        if other.name in [one.name for one in found]:
            raise InvalidParameter(
                f"The table {other.name} is named twice.", hint="Name each table once."
            )
        _require_persons(session, relation, other, entity)
        found.append(other)
    return tuple(str(one.name) for one in found[1:])


def _require_persons(session: Session, first: Relation, other: Relation, entity: str) -> None:
    attribute, wanted = other.attribute(entity), first.attribute(entity)
    session.require_rights(other, [entity])
    require_entity(session, other, attribute)
    if attribute.sql_type != wanted.sql_type:
        raise InvalidParameter(
            f'The entity column "{entity}" is of type {wanted.sql_type} in {first.name}, and of'
            f" type {attribute.sql_type} in {other.name}.",
            hint="Cast it in a view: a person has one identifier in all tables.",
        )


@dataclass(frozen=True)
class TablesSource(SqlSource):
    """The first table of a chain of several, which has all that classes are made by.

    Parameters
    ----------
    others : the further tables.
    """

    others: tuple[Relation, ...] = ()

    def describe(self, job: Asked) -> Relation:
        """The relation of a job; raises as ``ports.Source``, and ChainFirstTable."""
        relation = self.session.find_source(parse_relation(job.table))
        own = {attribute.name for attribute in relation.schema.attributes}
        for name in (*job.quasi_identifiers, *job.by) if isinstance(job, Job) else ():
            having = [o for o in self.others if name in {a.name for a in o.schema.attributes}]
            if name not in own and having:
                raise _not_in_first_table(name, relation, having[0])
        return super().describe(job)


def _not_in_first_table(name: str, first: Relation, other: Relation) -> ChainFirstTable:
    return ChainFirstTable(
        f'The quasi-identifier "{name}" is a column of {other.name}, and not of {first.name}, the'
        " first table of the chain.",
        detail=f"It would be NULL for everybody without a row in {other.name}. So the rows that a"
        " person has there would decide when and with whom the person is released.",
        hint=f'Bring "{name}" into the first table, from a table of persons or in a view. A chain'
        " that was released with it: close it, and create another one of such a view with"
        " new_chain_from.",
    )


def source_of(session: Session, rules: Rules) -> SqlSource:
    """What the releases of a chain read.

    Raises
    ------
    InvalidParameter : the chain has several tables, and a file is one.
    """
    if session.staged_rows is not None:
        require_one_table(rules.tables)
        return FileSource(session)
    if not rules.tables:
        return SqlSource(session)
    others = tuple(session.find_source(parse_relation(table)) for table in rules.tables)
    return TablesSource(session, others=others)


def parts_of(session: Session, job: Job, relation: Relation, rules: Rules) -> list[Part]:
    """The tables that a job's chain has rows of, the job's own first.

    Raises
    ------
    InvalidParameter : the job names other tables than the chain has, or a column that a table is
        released with is a quasi-identifier, or says whose a row is.
    ColumnNotFound, TableNotFound, InsufficientRights : one cannot be read.
    """
    assert job.chain is not None
    own = tuple(map(relation.attribute, (*job.sensitive, *job.keep)))
    parts, entity = [Part(0, relation, own)], str(job.entity)
    outputs = _by_table(session, job.chain.outputs)
    kept = _by_table(session, job.chain.kept)
    for wrong in (set(outputs) ^ set(rules.tables), set(kept) - set(rules.tables)):
        if wrong:
            raise InvalidParameter(
                "Each further table of a chain is released to a place of its own, and no other is:"
                f" {', '.join(sorted(wrong))}.",
                hint=(
                    "Name the tables that dbanon chain show lists, each with its output: outputs."
                ),
            )
    places = [parse_relation(place) for place in (job.output, *outputs.values())]
    if len(set(places)) < len(places):
        raise InvalidParameter(
            "Two tables of a chain would be released to one place.",
            hint="Name a place for each: output, and the outputs of the chain.",
        )
    if rules.tables and job.exports:
        raise InvalidParameter(
            "A chain of several tables writes no files, because a file would hold one table"
            " without the others.",
            hint="Leave out the exports, and copy the tables once they are released.",
        )
    if rules.tables and job.where is not None:
        raise InvalidParameter(
            "where selects rows of one table, but the chain has several.",
            hint="Choose rows in views, of each table by itself.",
        )
    for number, table in enumerate(rules.tables, 1):
        other = session.find_source(parse_relation(table))
        _require_persons(session, relation, other, entity)
        names = tuple(kept.get(table, ()))
        taken = set(names) & {*job.quasi_identifiers, *job.by, entity}
        if taken or len(set(names)) < len(names):
            raise InvalidParameter(
                f"Columns of {other.name} would be released twice, or with whose they are:"
                f" {', '.join(sorted(taken or set(names)))}.",
                hint="All tables of a chain are released with its quasi-identifiers: name columns"
                " that only this one has.",
            )
        attributes = tuple(map(other.attribute, names))
        session.require_rights(other, [entity, *names])
        session.require_equality(other, list(names))
        first = parts[-1].first + len(parts[-1].kept)
        parts.append(Part(number, other, attributes, first, outputs[table]))
    return parts


def _by_table(session: Session, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of tables, by their names as the database has them."""
    return {
        str(session.find_source(parse_relation(table)).name): said for table, said in given.items()
    }


def told_of(parts: Sequence[Part]) -> dict[str, Any]:
    """What the releases of a chain have alike of its further tables; empty where it has none."""
    found = {
        str(part.relation.name): [[a.name, a.sql_type] for a in part.kept] for part in parts[1:]
    }
    return {"tables": found} if found else {}


def columns_of(
    part: Part, columns: Sequence[tuple[str, str, str]]
) -> tuple[tuple[str, str, str], ...]:
    """The columns of a table's release: those that classes share, and its own.

    Parameters
    ----------
    columns : of the first table.
    """
    if part.number == 0:
        return tuple(columns)
    shared = [one for one in columns if one[1].startswith("v")]
    own = [(a.name, place, a.name) for a, place in zip(part.kept, part.places, strict=True)]
    return (*shared, *own)


def planned_of(planned: Plan, part: Part) -> Plan:
    """The plan of a table's release: the same classes, with columns of its own."""
    if part.number == 0:
        return planned
    job, own = planned.job, {attribute.name for attribute in part.relation.schema.attributes}
    shared = [*job.quasi_identifiers, *job.by]
    more = [planned.relation.attribute(name) for name in shared if name not in own]
    schema = Schema((*part.relation.schema.attributes, *more))
    kept = tuple(attribute.name for attribute in part.kept)
    # Under no name of a job's: the types of its columns are those of the first table.
    of_part = replace(
        job, table=str(part.relation.name), output=part.output, keep=kept, sensitive=(), name=None,
        roles=None, run_id=str(uuid.uuid4()),
    )  # fmt: skip
    return replace(
        planned,
        job=of_part,
        relation=replace(part.relation, schema=schema),
        identifiers=part.identifiers,
    )


def recount_joined(
    state: CellState, written: Sequence[RelationName], combination: Sequence[tuple[str, str]]
) -> tuple[int, int]:
    """The combinations that stand in any of the tables, and those that fewer than k persons share.

    Whoever joins the tables has no more to join them by. Asked once the histories are staged.

    Parameters
    ----------
    written : the released tables, in the same database.
    combination : the columns that classes share, with the place of each in the cells' values.
    """
    places = ", ".join(place for _, place in combination)
    values = ", ".join(f"v.{place} AS {place}" for _, place in combination)
    names = quote_list(name for name, _ in combination)
    persons = (
        f"SELECT {values}, h.size AS persons, 0 AS n FROM {quote(HISTORIES)} AS h"
        f" JOIN {state.values} AS v ON v.cell = h.cell WHERE h.left_at IS NULL"
    )
    rows = "".join(f" UNION ALL SELECT {names}, 0, 1 FROM {one.quoted}" for one in written)
    [(found, apart)] = state.session.rows(
        f"SELECT count(*), coalesce(sum(CASE WHEN c.persons < {int(state.k)} THEN 1 ELSE 0 END), 0)"
        f" FROM (SELECT sum(persons) AS persons FROM ({persons}{rows}) AS both_ways"
        f" GROUP BY {places} HAVING sum(n) > 0) AS c"
    )
    return int(found), int(apart)
