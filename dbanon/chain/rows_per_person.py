"""Chains with several rows per person, in one table or several.

A chain follows persons. It stores a multiset of rows for each person, and compares these multisets
where other chains compare the one row of each person. So rows are staged with their persons here,
and a digest of all rows of a person takes the place of a single row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dbanon.chain.presence import (
    Presence,
    count_presence,
    null_in_entity,
    stage_persons,
    stage_tagged,
)
from dbanon.data.schema import Attribute
from dbanon.errors import ChainModel
from dbanon.job.chain import FREEZE, MEASURE, ChainRules
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import quote
from dbanon.sessions.pseudonym_session import (
    CHOSEN,
    DISPLAYED,
    ENTRIES,
    PRESENT,
)

if TYPE_CHECKING:
    from dbanon.chain.membership import CellState
    from dbanon.chain.state import ChainRecord
    from dbanon.job.job import Job

# Leading columns of a cell's row: a number for the person within the cell, the number of the table,
# and how many further rows of the person were withheld from that table.
PERSON, PART, BEYOND = "whose", "part", "beyond"
LEADING_COLUMNS = (PERSON, PART, BEYOND)


@dataclass(frozen=True)
class Part:
    """One of the tables of a chain.

    Parameters
    ----------
    number : its index among them, from 0.
    relation : the relation to read.
    retained : the columns that are released unchanged.
    first : the index of the first of these among the retained columns of all tables.
    output : the name of its release; empty for the first table, which has the job's output.
    identifiers : those of ``retained`` that look like identifiers, with the reason.
    """

    number: int
    relation: Relation
    retained: tuple[Attribute, ...]
    first: int = 0
    output: str = ""
    identifiers: Mapping[str, str] = field(default_factory=dict)

    @property
    def state_columns(self) -> list[str]:
        """The state columns of this table."""
        return [statements.kept_column(self.first + i) for i in range(len(self.retained))]


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
    state: CellState, parts: Sequence[Part], key_blocks: tuple[bytes, bytes], *, rows: bool
) -> Presence:
    """Tag all persons in the source, and look up their cells.

    Parameters
    ----------
    rows : whether to stage their rows, too, if the chain needs them.

    Raises
    ------
    NullInEntity, ChainEntityRows : a row has no person, or a person has several rows.
    """
    relation = parts[0].relation
    if state.several:
        _stage_several(state, parts, key_blocks, rows)
        return count_presence(state, relation)
    retained = staged_columns(state.chain.rules, parts) if rows else ()
    return stage_persons(state, relation, key_blocks, retained)


def staged_columns(rules: ChainRules, parts: Sequence[Part]) -> tuple[Attribute, ...]:
    """The retained columns to stage with persons who have one row."""
    # None are needed if rows never change, or are written without the state.
    are_unneeded = rules.mode == MEASURE or rules.changes == FREEZE
    return () if are_unneeded else parts[0].retained


def _stage_several(
    state: CellState, parts: Sequence[Part], key_blocks: tuple[bytes, bytes], rows: bool
) -> None:
    """Stage all persons in the source with their cells, one row per person.

    Parameters
    ----------
    rows : whether to stage their rows, too, up to the limit per person.

    Raises
    ------
    NullInEntity : a row has no person.
    """
    session, entity = state.session, quote(state.chain.entity)
    session.stage_key(*key_blocks)
    if rows:
        _stage_entries(state, parts)
        persons_query = f"SELECT e.person FROM {quote(ENTRIES)} AS e"
    else:
        persons_query = " UNION ALL ".join(
            f"SELECT s.{entity} AS person FROM {part.relation.relation.quoted} AS s"
            for part in parts
        )
    [(count, n_identified)] = session.rows(
        f"SELECT count(*), count(p.person) FROM ({persons_query}) AS p"
    )
    if count != n_identified:
        raise null_in_entity(state.chain.entity, int(count) - int(n_identified), int(count))
    digest, names = "", []
    if rows:
        _limit(state, parts)
        # Sum over the rows of a person, because a multiset has no order.
        names = [statements.kept_column(0)]
        first = state.chain.definition is None
        digest = f", {'0' if first else f'sum({_digest(state, parts)})'} AS {names[0]}"
    columns = "".join(f", s.{name}" for name in names)
    attribute = parts[0].relation.attribute(state.chain.entity)
    source = f"{quote(ENTRIES)} AS s" if rows else f"({persons_query}) AS s"
    persons = (
        f"SELECT s.{entity} AS person, {session.keyed_tag(session.text_of(attribute))} AS tag"
        f"{columns} FROM (SELECT s.person AS {entity}{digest} FROM {source} GROUP BY s.person) AS s"
    )
    stage_tagged(state, persons, names)
    _leave_out_newcomers(state, parts)
    _stage_displayed(state, digest)


def _leave_out_newcomers(state: CellState, parts: Sequence[Part]) -> None:
    """Leave out newcomers without a row in the first table, which has all quasi-identifiers.

    Rows in further tables are retained values, which may not influence classes.
    """
    if len(parts) == 1:
        return
    entity, first = quote(state.chain.entity), parts[0].relation.relation.quoted
    in_first = f"SELECT s.{entity} FROM {first} AS s"
    state.session.run(
        f"DELETE FROM {quote(PRESENT)} WHERE person IN (SELECT p.person FROM {quote(PRESENT)} AS p"
        f" WHERE p.cell IS NULL EXCEPT {in_first})"
    )


def _stage_entries(state: CellState, parts: Sequence[Part]) -> None:
    session, selects = state.session, []
    retained = [(part, attribute) for part in parts for attribute in part.retained]
    for part in parts:
        values = []
        for index, (owner, attribute) in enumerate(retained):
            value = session.kept_value(attribute)
            if owner.number != part.number:
                value = f"CAST(NULL AS {session.declared_type(attribute.sql_type)})"
            values.append(f"{value} AS {statements.kept_column(index)}")
        select_list = [f"s.{quote(state.chain.entity)} AS person", f"{part.number} AS {PART}"]
        select_list += [f"0 AS {BEYOND}", *values]
        selects.append(f"SELECT {', '.join(select_list)} FROM {part.relation.relation.quoted} AS s")
    state.make(ENTRIES, " UNION ALL ".join(selects))


def columns_of(parts: Sequence[Part]) -> list[str]:
    """The retained state columns of all tables."""
    return [column for part in parts for column in part.state_columns]


def _digest(state: CellState, parts: Sequence[Part]) -> str:
    relation = state.chain.table(state.session, "row")
    return state.session.row_digest(relation, [PART, *columns_of(parts)])


def _limit(state: CellState, parts: Sequence[Part]) -> None:
    """Limit the staged rows per person and table; a keyed hash decides which rows remain.

    The hash covers the row's contents and its repetition number but not the person, so exchanging
    the histories of two persons leaves the same rows.
    """
    session, limit = state.session, int(state.chain.rules.max_rows_per_person or 0)
    entries = quote(ENTRIES)
    over_limit = (
        f"SELECT e.person, e.{PART}, count(*) AS n FROM {entries} AS e"
        f" GROUP BY e.person, e.{PART} HAVING count(*) > {limit}"
    )
    [(persons,)] = session.rows(f"SELECT count(*) FROM ({over_limit}) AS m")
    if not persons:
        return
    columns, texts = columns_of(parts), [f"CAST(s.{PART} AS VARCHAR)"]
    for part in parts:
        for attribute, column in zip(part.retained, part.state_columns, strict=True):
            text = session.text_of(replace(attribute, name=column))
            # Prefix each text with its length, so that different rows have different texts.
            prefixed = f"CAST(length({text}) AS VARCHAR) || ':' || {text}"
            texts.append(f"coalesce({prefixed}, '-')")
    of = f"s.person, s.{PART}"
    text_rows = (
        f"SELECT s.*, m.n, {' || '.join(texts)} AS row_text FROM {entries} AS s"
        f" JOIN ({over_limit}) AS m ON m.person = s.person AND m.{PART} = s.{PART}"
    )
    repeated = (
        f"SELECT s.*, row_number() OVER (PARTITION BY {of}, s.row_text ORDER BY s.row_text)"
        f" AS repetition FROM ({text_rows}) AS s"
    )
    hashed = session.keyed_tag("s.row_text || '#' || CAST(s.repetition AS VARCHAR)")
    tagged = f"SELECT s.*, {hashed} AS row_hash FROM ({repeated}) AS s"
    ordered = (
        f"SELECT s.*, row_number() OVER (PARTITION BY {of} ORDER BY s.row_hash) AS place"
        f" FROM ({tagged}) AS s"
    )
    listed = ", ".join(["person", PART, BEYOND, *columns])
    chosen = ", ".join(
        ["c.person", f"c.{PART}", f"c.n - {limit} AS {BEYOND}", *(f"c.{name}" for name in columns)]
    )
    state.make(CHOSEN, f"SELECT {chosen} FROM ({ordered}) AS c WHERE c.place <= {limit}")
    session.run(
        f"DELETE FROM {entries} WHERE EXISTS (SELECT 1 FROM {quote(CHOSEN)} AS c"
        f" WHERE c.person = {entries}.person AND c.{PART} = {entries}.{PART})"
    )
    session.run(f"INSERT INTO {entries} ({listed}) SELECT {listed} FROM {quote(CHOSEN)}")


def _stage_displayed(state: CellState, digest: str) -> None:
    """Stage the displayed persons, one row each, with the digest of their displayed rows."""
    if state.chain.definition is None:
        state.make(DISPLAYED, f"SELECT 0 AS cell, 0 AS {PERSON}{digest} WHERE 1 = 0")
        return
    state.make(
        DISPLAYED,
        f"SELECT s.cell, s.{PERSON}{digest} FROM {state.rows} AS s GROUP BY s.cell, s.{PERSON}",
    )
