"""Newcomers of a chain with several rows per person: stage one record for each person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dbanon.chain.rows_per_person import Part
from dbanon.errors import ChainEntityRows, InvalidParameter
from dbanon.sessions.base import Locator, Relation
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.pseudonym_session import PERSONS

if TYPE_CHECKING:
    from dbanon.chain.membership import CellState

_ORDINAL = "dbanon_ordinal"


def stage_newcomers(
    state: CellState, relation: Relation, parts: Sequence[Part], columns: Sequence[str]
) -> Relation:
    """Stage newcomers with one row per person, and return the relation that reads these rows.

    Row keys are the ranks of persons by tag.

    Parameters
    ----------
    relation : the first table, with all of these columns.
    columns : quasi-identifiers and strata, all in the first table. Other tables may repeat them
        with equal values.

    Raises
    ------
    ChainEntityRows : a person has more than one value of a column.
    InvalidParameter : tables have a column with other types.
    """
    entity = quote(state.chain.entity)
    sources: dict[str, list[str]] = {}
    for name in columns:
        having = [p for p in parts if name in {a.name for a in p.relation.schema.attributes}]
        _require_same_type(having, name)
        _require_single_value(state, having, name)
        sources[name] = [f"p{part.number}.{quote(name)}" for part in having]
    joins = ""
    for part in parts:
        own_columns = [name for name in columns if f"p{part.number}.{quote(name)}" in sources[name]]
        values = "".join(f", s.{quote(name)}" for name in own_columns)
        numbered = (
            f"SELECT s.{entity}{values}, row_number() OVER (PARTITION BY s.{entity}"
            f" ORDER BY s.{entity}) AS {_ORDINAL} FROM {part.relation.relation.quoted} AS s"
        )
        joins += (
            f" LEFT JOIN ({numbered}) AS p{part.number} ON p{part.number}.{entity} = n.person"
            f" AND p{part.number}.{_ORDINAL} = 1"
        )
    values = ""
    for name, where in sources.items():
        value = where[0] if len(where) == 1 else f"coalesce({', '.join(where)})"
        values += f", {value} AS {quote(name)}"
    state.make(
        PERSONS,
        f"SELECT row_number() OVER (ORDER BY n.tag) AS {_ORDINAL}, n.person AS {entity}{values}"
        f" FROM {state.arrivals} AS n{joins}",
    )
    locator = Locator((f"s.{_ORDINAL}",), ("bigint",))
    return replace(relation, copy=RelationName(None, PERSONS), selected_rows=None, locator=locator)


def _require_same_type(parts: Sequence[Part], name: str) -> None:
    types = {part.relation.attribute(name).sql_type for part in parts}
    if len(types) > 1:
        raise InvalidParameter(
            f'The column "{name}" has different types in the tables of a chain:'
            f" {', '.join(sorted(types))}.",
            hint="Give it the same type in all tables of the chain.",
        )


def _require_single_value(state: CellState, parts: Sequence[Part], name: str) -> None:
    """Check that no newcomer has two values of a quasi-identifier or stratum."""
    session = state.session
    values = " UNION ALL ".join(
        f"SELECT a.person, {session.comparison_value(part.relation.attribute(name), name)} AS value"
        f" FROM {part.relation.relation.quoted} AS s"
        f" JOIN {state.arrivals} AS a ON a.person = s.{quote(state.chain.entity)}"
        for part in parts
    )
    [(persons,)] = session.rows(
        f"SELECT count(*) FROM (SELECT v.person FROM ({values}) AS v GROUP BY v.person"
        " HAVING count(DISTINCT v.value) > 1"
        " OR (count(v.value) <> 0 AND count(v.value) <> count(*))) AS differing"
    )
    if persons:
        many = str(persons) if persons >= state.k else f"fewer than {state.k}"
        raise ChainEntityRows(
            f'The column "{name}"'
            f" has more than one value in the rows of {many} persons: in a chain each person has"
            " one value of each quasi-identifier.",
            hint="Give each person a single value in the source, or name the column in `keep`,"
            " which releases the value of each row as it is.",
        )
