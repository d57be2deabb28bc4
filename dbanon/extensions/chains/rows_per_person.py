"""Chains with several rows per person, in one table or several.

Other chains compare a person's only row between releases; such a chain compares a digest of all of
the person's rows.

The *row table* of a chain stores the rows of its last release (the *displayed* rows). Its *value
table* stores the released values that the rows of a cell (a class of the chain) share. *Retained
columns* are released unchanged; the row table stores them. A *tag* is the keyed hash of a person's
identifier (see ``key``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dbanon.data.schema import Attribute
from dbanon.errors import ChainModel
from dbanon.extensions.chains.presence import (
    PresenceCounts,
    count_presence,
    null_in_entity_error,
    stage_persons,
    stage_tagged_persons,
)
from dbanon.job.chain import FREEZE, MEASURE, ChainRules
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.chain_staging import (
    DISPLAYED_PERSONS,
    LIMITED_ROWS,
    PRESENT_PERSONS,
    SOURCE_ROWS,
)
from dbanon.sessions.names import quote

if TYPE_CHECKING:
    from dbanon.extensions.chains.membership import ChainState
    from dbanon.extensions.chains.state import ChainRecord
    from dbanon.job.job import Job

# Column of the row table: a random number that identifies the person within the cell.
PERSON_NUMBER = "whose"
# Column of the row table: the number of the source table among those of the chain.
TABLE_NUMBER = "part"
# Column of the row table: how many further rows of the person from that source table are withheld.
N_WITHHELD = "beyond"
PERSON_COLUMNS = (PERSON_NUMBER, TABLE_NUMBER, N_WITHHELD)


@dataclass(frozen=True)
class ChainTable:
    """One of the tables of a chain.

    Parameters
    ----------
    number : the index of the table, from 0.
    relation : the relation to read.
    retained : the columns that are released unchanged.
    first_retained : the index of the first of these columns among the retained columns of all
        tables, which share the columns k0, k1, … of the row table.
    output : the name of its release; empty for the first table, which has the job's output.
    identifiers : for each retained column that looks like an identifier, the reason.
    """

    number: int
    relation: Relation
    retained: tuple[Attribute, ...]
    first_retained: int = 0
    output: str = ""
    identifiers: Mapping[str, str] = field(default_factory=dict)

    @property
    def state_columns(self) -> list[str]:
        """The columns of the row table that store the table's retained columns."""
        return [
            statements.retained_column_name(self.first_retained + i)
            for i in range(len(self.retained))
        ]


def refuse_models_with_several_rows(chain: ChainRecord, job: Job) -> None:
    """Check that a job of a chain with several rows per person has no privacy models.

    Raises
    ------
    ChainModel : it has a privacy model.
    """
    if chain.rules.max_rows_per_person is not None and job.policy.models:
        raise ChainModel(
            f"Chain {chain.name} has several rows per person, so it cannot use privacy models,"
            " which count one value per person.",
            hint="Leave out `models`. Or create another chain, of a view with one row per person"
            " and without max_rows_per_person.",
        )


def stage_source(
    state: ChainState,
    chain_tables: Sequence[ChainTable],
    hash_prefixes: tuple[bytes, bytes],
    *,
    with_rows: bool,
) -> PresenceCounts:
    """Tag all persons in the source, and look up their cells.

    Parameters
    ----------
    hash_prefixes : key material: the bytes before the identifier in the inner hash of a tag, and
        the bytes before the inner hash in the outer one; empty without an outer hash. They are
        from ``key.hash_prefixes``.
    with_rows : True to stage the persons' rows, too, if the chain needs them.

    Raises
    ------
    NullInEntity, ChainEntityRows : a row has no person, or a person has several rows.
    """
    relation = chain_tables[0].relation
    if state.has_several_rows_per_person:
        _stage_persons_with_rows(state, chain_tables, hash_prefixes, with_rows=with_rows)
        return count_presence(state, relation)
    retained = choose_staged_columns(state.chain.rules, chain_tables) if with_rows else ()
    return stage_persons(state, relation, hash_prefixes, retained)


def choose_staged_columns(
    rules: ChainRules, chain_tables: Sequence[ChainTable]
) -> tuple[Attribute, ...]:
    """Return the retained columns to stage with persons, if each person has one row."""
    # These columns are needed only to update displayed rows. A chain that only measures stores no
    # rows, and a chain with ``changes=freeze`` never updates them.
    are_needed = rules.mode != MEASURE and rules.changes != FREEZE
    return chain_tables[0].retained if are_needed else ()


def _stage_persons_with_rows(
    state: ChainState,
    chain_tables: Sequence[ChainTable],
    hash_prefixes: tuple[bytes, bytes],
    *,
    with_rows: bool,
) -> None:
    """Stage all persons in the source with their cells, one row per person.

    Parameters
    ----------
    with_rows : True to stage the persons' rows, too, up to the limit per person.

    Raises
    ------
    NullInEntity : a row has no person.
    """
    session, entity = state.session, quote(state.chain.entity)
    session.tags.stage_key(*hash_prefixes)
    if with_rows:
        _stage_source_rows(state, chain_tables)
        persons_query = f"SELECT e.person FROM {quote(SOURCE_ROWS)} AS e"
    else:
        persons_query = " UNION ALL ".join(
            f"SELECT s.{entity} AS person FROM {chain_table.relation.relation_to_read.quoted} AS s"
            for chain_table in chain_tables
        )
    [(n_rows, n_with_person)] = session.rows(
        f"SELECT count(*), count(p.person) FROM ({persons_query}) AS p"
    )
    if n_rows != n_with_person:
        raise null_in_entity_error(
            state.chain.entity, int(n_rows) - int(n_with_person), int(n_rows)
        )
    digest_column, names = "", []
    if with_rows:
        _limit_rows(state, chain_tables)
        # Add up the digests of a person's rows, because rows have no order.
        names = [statements.retained_column_name(0)]
        # At the first release there are no displayed rows to compare with, so 0 stands for the sum.
        is_first = state.chain.definition is None
        digest_column = (
            f", {'0' if is_first else f'sum({_row_digest(state, chain_tables)})'} AS {names[0]}"
        )
    columns = "".join(f", s.{name}" for name in names)
    attribute = chain_tables[0].relation.attribute(state.chain.entity)
    source = f"{quote(SOURCE_ROWS)} AS s" if with_rows else f"({persons_query}) AS s"
    tag = session.tags.of_text(session.dialect.text_of(attribute))
    persons = (
        f"SELECT s.{entity} AS person, {tag} AS tag"
        f"{columns} FROM (SELECT s.person AS {entity}{digest_column} FROM {source}"
        " GROUP BY s.person) AS s"
    )
    stage_tagged_persons(state, persons, names)
    _drop_newcomers_without_quasi_identifiers(state, chain_tables)
    _stage_displayed(state, digest_column)


def _drop_newcomers_without_quasi_identifiers(
    state: ChainState, chain_tables: Sequence[ChainTable]
) -> None:
    """Delete newcomers without a row in the first table from the staged persons.

    Only the first table has all quasi-identifiers, and classes must not depend on whether a person
    has rows in further tables.
    """
    if len(chain_tables) == 1:
        return
    first_table = chain_tables[0].relation.relation_to_read.quoted
    persons_in_first = f"SELECT s.{quote(state.chain.entity)} FROM {first_table} AS s"
    state.session.run(
        f"DELETE FROM {quote(PRESENT_PERSONS)} WHERE person IN (SELECT p.person"
        f" FROM {quote(PRESENT_PERSONS)} AS p"
        f" WHERE p.cell IS NULL EXCEPT {persons_in_first})"
    )


def _stage_source_rows(state: ChainState, chain_tables: Sequence[ChainTable]) -> None:
    """Stage the rows of all tables: person, table number and the retained columns of all tables."""
    session, selects = state.session, []
    retained = [
        (chain_table, attribute)
        for chain_table in chain_tables
        for attribute in chain_table.retained
    ]
    for chain_table in chain_tables:
        values = []
        for index, (table, attribute) in enumerate(retained):
            value = session.dialect.retained_value(attribute)
            if table.number != chain_table.number:
                value = f"CAST(NULL AS {session.dialect.declared_type(attribute.sql_type)})"
            values.append(f"{value} AS {statements.retained_column_name(index)}")
        select_list = [
            f"s.{quote(state.chain.entity)} AS person",
            f"{chain_table.number} AS {TABLE_NUMBER}",
        ]
        select_list += [f"0 AS {N_WITHHELD}", *values]
        selects.append(
            f"SELECT {', '.join(select_list)}"
            f" FROM {chain_table.relation.relation_to_read.quoted} AS s"
        )
    state.stage(SOURCE_ROWS, " UNION ALL ".join(selects))


def list_state_columns(chain_tables: Sequence[ChainTable]) -> list[str]:
    """List the columns of the row table that store the retained columns of all tables."""
    return [column for chain_table in chain_tables for column in chain_table.state_columns]


def _row_digest(state: ChainState, chain_tables: Sequence[ChainTable]) -> str:
    """Build the SQL of the digest of a row, over its table number and its retained columns."""
    relation = state.chain.table_name(state.session, "row")
    return state.session.chain_dialect.row_digest(
        relation, [TABLE_NUMBER, *list_state_columns(chain_tables)]
    )


def _limit_rows(state: ChainState, chain_tables: Sequence[ChainTable]) -> None:
    """Limit the staged rows per person and table; a keyed hash decides which rows remain.

    The hash covers the contents of a row, and its number among equal rows of the person. It does
    not cover the person's identifier: which rows remain must not depend on who the person is.
    """
    session, limit = state.session, int(state.chain.rules.max_rows_per_person or 0)
    source_rows = quote(SOURCE_ROWS)
    over_limit = (
        f"SELECT e.person, e.{TABLE_NUMBER}, count(*) AS n FROM {source_rows} AS e"
        f" GROUP BY e.person, e.{TABLE_NUMBER} HAVING count(*) > {limit}"
    )
    [(n_over_limit,)] = session.rows(f"SELECT count(*) FROM ({over_limit}) AS m")
    if not n_over_limit:
        return
    columns, texts = list_state_columns(chain_tables), [f"CAST(s.{TABLE_NUMBER} AS VARCHAR)"]
    for chain_table in chain_tables:
        for attribute, column in zip(chain_table.retained, chain_table.state_columns, strict=True):
            text = session.dialect.text_of(replace(attribute, name=column))
            # Prefix each text with its length, so that different rows have different texts; NULL
            # is a dash.
            prefixed_text = f"CAST(length({text}) AS VARCHAR) || ':' || {text}"
            texts.append(f"coalesce({prefixed_text}, '-')")
    partition_by = f"s.person, s.{TABLE_NUMBER}"
    text_rows = (
        f"SELECT s.*, m.n, {' || '.join(texts)} AS row_text FROM {source_rows} AS s"
        f" JOIN ({over_limit}) AS m ON m.person = s.person AND m.{TABLE_NUMBER} = s.{TABLE_NUMBER}"
    )
    numbered_rows = (
        f"SELECT s.*, row_number() OVER (PARTITION BY {partition_by}, s.row_text"
        f" ORDER BY s.row_text) AS repetition FROM ({text_rows}) AS s"
    )
    # Hash the text of a row with the key of the persons' tags, which readers do not know.
    row_hash = session.tags.of_text("s.row_text || '#' || CAST(s.repetition AS VARCHAR)")
    hashed_rows = f"SELECT s.*, {row_hash} AS row_hash FROM ({numbered_rows}) AS s"
    ranked_rows = (
        f"SELECT s.*, row_number() OVER (PARTITION BY {partition_by} ORDER BY s.row_hash)"
        f" AS row_rank FROM ({hashed_rows}) AS s"
    )
    column_list = ", ".join(["person", TABLE_NUMBER, N_WITHHELD, *columns])
    select_list = ", ".join(
        [
            "c.person",
            f"c.{TABLE_NUMBER}",
            f"c.n - {limit} AS {N_WITHHELD}",
            *(f"c.{name}" for name in columns),
        ]
    )
    state.stage(
        LIMITED_ROWS, f"SELECT {select_list} FROM ({ranked_rows}) AS c WHERE c.row_rank <= {limit}"
    )
    session.run(
        f"DELETE FROM {source_rows} WHERE EXISTS (SELECT 1 FROM {quote(LIMITED_ROWS)} AS c"
        f" WHERE c.person = {source_rows}.person"
        f" AND c.{TABLE_NUMBER} = {source_rows}.{TABLE_NUMBER})"
    )
    session.run(
        f"INSERT INTO {source_rows} ({column_list}) SELECT {column_list} FROM {quote(LIMITED_ROWS)}"
    )


def _stage_displayed(state: ChainState, digest_column: str) -> None:
    """Stage the displayed persons, one row each, with the digest of their displayed rows.

    Parameters
    ----------
    digest_column : the SQL of the digest as a further column, with a leading comma; empty for no
        digest.
    """
    if state.chain.definition is None:
        state.stage(
            DISPLAYED_PERSONS, f"SELECT 0 AS cell, 0 AS {PERSON_NUMBER}{digest_column} WHERE 1 = 0"
        )
        return
    state.stage(
        DISPLAYED_PERSONS,
        f"SELECT s.cell, s.{PERSON_NUMBER}{digest_column} FROM {state.row_table} AS s"
        f" GROUP BY s.cell, s.{PERSON_NUMBER}",
    )
