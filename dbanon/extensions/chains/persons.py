"""Stage one record for each newcomer of a chain with several rows per person.

Newcomers are persons in the source who are in no class of the chain yet. A *tag* is the keyed hash
of a person's identifier (see ``key``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dbanon.errors import ChainEntityRows, InvalidParameter
from dbanon.extensions.chains.membership import ChainState, comparison_value
from dbanon.extensions.chains.rows_per_person import ChainTable
from dbanon.sessions.base import Locator, Relation
from dbanon.sessions.chain_staging import NEWCOMER_RECORDS
from dbanon.sessions.names import RelationName, quote

# Column that numbers rows: first those of a person in a table, then the newcomers.
_ORDINAL = "dbanon_ordinal"


def stage_newcomer_records(
    state: ChainState,
    relation: Relation,
    chain_tables: Sequence[ChainTable],
    columns: Sequence[str],
) -> Relation:
    """Stage one row for each newcomer, and return the relation that reads these rows.

    The row key of a newcomer is the newcomer's rank when all newcomers are sorted by tag, from 1.

    Parameters
    ----------
    relation : the chain's first table.
    columns : the columns of quasi-identifiers and strata, all of which the first table has. Further
        tables may also have them, with the same value for the person.

    Raises
    ------
    ChainEntityRows : a person has more than one value of a column.
    InvalidParameter : a column has different types in the tables.
    """
    entity = quote(state.chain.entity)
    # SQL expressions of each column, one for each table that has it.
    expressions_by_column: dict[str, list[str]] = {}
    for name in columns:
        tables_with_column = [
            table
            for table in chain_tables
            if name in {attribute.name for attribute in table.relation.schema.attributes}
        ]
        _require_same_type(tables_with_column, name)
        _require_single_value(state, tables_with_column, name)
        expressions_by_column[name] = [
            f"p{chain_table.number}.{quote(name)}" for chain_table in tables_with_column
        ]
    joins = ""
    for chain_table in chain_tables:
        table_columns = [
            name
            for name in columns
            if f"p{chain_table.number}.{quote(name)}" in expressions_by_column[name]
        ]
        values = "".join(f", s.{quote(name)}" for name in table_columns)
        numbered_rows = (
            f"SELECT s.{entity}{values}, row_number() OVER (PARTITION BY s.{entity}"
            f" ORDER BY s.{entity}) AS {_ORDINAL}"
            f" FROM {chain_table.relation.relation_to_read.quoted} AS s"
        )
        joins += (
            f" LEFT JOIN ({numbered_rows}) AS p{chain_table.number}"
            f" ON p{chain_table.number}.{entity} = n.person"
            f" AND p{chain_table.number}.{_ORDINAL} = 1"
        )
    values = ""
    for name, expressions in expressions_by_column.items():
        # The further tables have the same value, or no row of the person.
        value = expressions[0] if len(expressions) == 1 else f"coalesce({', '.join(expressions)})"
        values += f", {value} AS {quote(name)}"
    state.stage(
        NEWCOMER_RECORDS,
        f"SELECT row_number() OVER (ORDER BY n.tag) AS {_ORDINAL}, n.person AS {entity}{values}"
        f" FROM {state.newcomers_table} AS n{joins}",
    )
    # The ordinal is the row key.
    locator = Locator(expressions=(f"s.{_ORDINAL}",), types=("bigint",))
    return replace(
        relation, copy=RelationName(None, NEWCOMER_RECORDS), selected_rows=None, locator=locator
    )


def _require_same_type(chain_tables: Sequence[ChainTable], name: str) -> None:
    """Check that the column ``name`` has the same SQL type in these tables."""
    types = {chain_table.relation.attribute(name).sql_type for chain_table in chain_tables}
    if len(types) > 1:
        raise InvalidParameter(
            f'The column "{name}" has different types in the tables of a chain:'
            f" {', '.join(sorted(types))}.",
            hint="Give it the same type in all tables of the chain.",
        )


def _require_single_value(state: ChainState, chain_tables: Sequence[ChainTable], name: str) -> None:
    """Check that no newcomer has two values of the column ``name``; NULL counts as a value.

    Parameters
    ----------
    chain_tables : the tables that have the column.
    """
    session = state.session
    values = " UNION ALL ".join(
        f"SELECT a.person, {comparison_value(session, chain_table.relation.attribute(name), name)}"
        f" AS value FROM {chain_table.relation.relation_to_read.quoted} AS s"
        f" JOIN {state.newcomers_table} AS a ON a.person = s.{quote(state.chain.entity)}"
        for chain_table in chain_tables
    )
    [(n_persons,)] = session.rows(
        f"SELECT count(*) FROM (SELECT v.person FROM ({values}) AS v GROUP BY v.person"
        " HAVING count(DISTINCT v.value) > 1"
        " OR (count(v.value) <> 0 AND count(v.value) <> count(*))) AS differing"
    )
    if n_persons:
        # The exact number of few persons could single them out.
        count_text = str(n_persons) if n_persons >= state.k else f"fewer than {state.k}"
        raise ChainEntityRows(
            f'The column "{name}"'
            f" has more than one value in the rows of {count_text} persons: in a chain each person"
            " has one value of each quasi-identifier.",
            hint="Give each person a single value in the source, or name the column in `keep`,"
            " which releases the value of each row unchanged.",
        )
