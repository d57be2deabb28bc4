"""Match the persons in the source of a chain with its members, by their tags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbanon.data.schema import Attribute
from dbanon.errors import ChainEntityRows, ChainTurnover, NullInEntity
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import quote
from dbanon.sessions.pseudonym_session import MISSING, PRESENT

if TYPE_CHECKING:
    from dbanon.chain.membership import CellState

# If more than this share of members leave, and at least half as many newcomers arrive, identifiers
# may have changed form.
_MOST_LEAVING = 0.2


@dataclass(frozen=True)
class Presence:
    """Counts of the persons in the source.

    Parameters
    ----------
    rows : all persons, one row each.
    newcomers : persons without a tag in the chain.
    returned : persons who came back after their departure was published.
    members : persons displayed before this release.
    absent : members who are not in the source.
    """

    rows: int
    newcomers: int
    returned: int
    members: int
    absent: int


def stage_persons(
    state: CellState,
    relation: Relation,
    key_blocks: tuple[bytes, bytes],
    retained: Sequence[Attribute],
) -> Presence:
    """Tag all persons in the source, and look up their cells.

    Parameters
    ----------
    key_blocks : the key as ``ChainRecord.blocks`` gives it.
    retained : retained columns to stage with the persons.

    Raises
    ------
    NullInEntity, ChainEntityRows : a row has no person, or a person has several rows.
    """
    session, entity = state.session, relation.attribute(state.chain.entity)
    session.stage_key(*key_blocks)
    column = f"s.{quote(entity.name)}"
    tag = session.keyed_tag(session.text_of(entity))
    names = [statements.kept_column(i) for i in range(len(retained))]
    columns = [f"{column} AS person", f"{tag} AS tag"]
    columns += [
        f"{session.kept_value(a)} AS {name}" for a, name in zip(retained, names, strict=True)
    ]
    stage_tagged(state, f"SELECT {', '.join(columns)} FROM {relation.relation.quoted} AS s", names)
    return count_presence(state, relation)


def stage_tagged(state: CellState, persons: str, names: Sequence[str]) -> None:
    """Stage persons with their cells, and the members who are missing.

    Parameters
    ----------
    persons : SELECT of ``person``, ``tag`` and the columns ``names``, valid once a key is staged.
    """
    session = state.session
    members = (
        "SELECT tag, cell, left_at_release AS left_at"
        f" FROM {state.name('chain_member')} WHERE {state.of_chain}"
    )
    with session.prepare_tagging():
        for kind_of_table, name, query in session.person_staging_queries(
            persons + session.compute_once_clause, names, members
        ):
            state.make(name, query, kind_of_table)


def count_presence(state: CellState, relation: Relation) -> Presence:
    """Count the staged persons.

    Raises
    ------
    NullInEntity : a row has no person.
    ChainEntityRows : a person has several rows, or two persons have the same text.
    """
    session, present = state.session, quote(PRESENT)
    # Members have distinct tags, so count DISTINCT only over the other persons.
    [(members,)] = session.rows(
        f"SELECT count(*) FROM {state.name('chain_member')}"
        f" WHERE {state.of_chain} AND left_at_release IS NULL"
    )
    [(missing,)] = session.rows(f"SELECT count(*) FROM {quote(MISSING)}")
    other_tags = "CASE WHEN cell IS NULL OR left_at IS NOT NULL THEN tag END"
    rows, n_identified, tags, newcomers, left = session.rows(
        f"SELECT count(*), count(person), count(DISTINCT {other_tags}), count(*) - count(cell),"
        f" count(left_at) FROM {present}"
    )[0]
    tags += members - missing
    require_one_row(
        state, relation, rows, rows - n_identified, tags, lambda: _rows_per_person(state)
    )
    n_returned = count_returned(state) if left else 0
    n_displayed = int(rows) - int(newcomers) - int(left)
    return Presence(int(rows), int(newcomers), n_returned, int(members), int(members) - n_displayed)


def count_returned(state: CellState) -> int:
    """Count the staged persons who are back after their departure was published."""
    [(count,)] = state.session.rows(
        f"SELECT count(*) FROM {quote(PRESENT)} AS p JOIN {state.name('chain_cell')} AS c"
        f" ON c.{state.of_chain} AND c.cell = p.cell"
        " WHERE p.left_at IS NOT NULL AND c.state NOT IN ('withdrawn', 'refused')"
    )
    return int(count)


def require_one_row(
    state: CellState,
    relation: Relation,
    rows: int,
    n_unidentified: int,
    tags: int,
    count_rows_per_person: Callable[[], Sequence[tuple[int, int]]],
) -> None:
    """Check that each row belongs to a different person.

    Parameters
    ----------
    n_unidentified, tags : the number of rows without a person, and of distinct persons.
    count_rows_per_person : returns, in ascending order, numbers of rows, each with the number of
        persons who have that many.

    Raises
    ------
    NullInEntity : a row has no person.
    ChainEntityRows : a person has several rows, or two persons have the same text.
    """
    entity = state.chain.entity
    if n_unidentified:
        raise null_in_entity(entity, n_unidentified, rows)
    if tags != rows:
        raise ChainEntityRows(
            f'The {rows} rows of {relation.name} are of {tags} values of "{entity}": in this chain'
            " every person has one row.",
            detail=_describe_row_counts(count_rows_per_person()),
            hint="Merge the rows of each person in the source. Or close the chain, and create"
            " another one with max_rows_per_person.",
        )


def null_in_entity(entity: str, missing: int, rows: int) -> NullInEntity:
    """The error for rows of a chain without a person identifier."""
    return NullInEntity(
        f'The entity column "{entity}" holds NULL in {missing} of {rows} rows.',
        hint="Delete these rows or name their persons in the source, or leave them out with"
        " `where`.",
    )


def _rows_per_person(state: CellState) -> Sequence[tuple[int, int]]:
    return state.session.rows(
        f"SELECT p.n, count(*) FROM (SELECT count(*) AS n FROM {quote(PRESENT)} GROUP BY tag) AS p"
        " GROUP BY p.n ORDER BY p.n"
    )


def _describe_row_counts(row_counts: Sequence[tuple[int, int]]) -> str:
    """State the number of rows that 99 % of persons do not exceed."""
    persons, cumulative, most = sum(int(n_persons) for _, n_persons in row_counts), 0, 0
    for n, n_persons in row_counts:
        cumulative, most = cumulative + int(n_persons), int(n)
        if 100 * cumulative >= 99 * persons:
            break
    return f"99 of 100 persons have at most {most}."


def require_turnover(state: CellState, presence: Presence, absent_before: int) -> None:
    """Check that departures and arrivals do not suggest that ids have changed form.

    Raises
    ------
    ChainTurnover : many members left, and at least half as many newcomers came.
    """
    left = max(presence.absent - absent_before, 0)
    if left > _MOST_LEAVING * presence.members and 2 * presence.newcomers >= left:
        raise ChainTurnover(
            f"{left} of {presence.members} members of chain {state.chain.name} have left since the"
            f" last release, and {presence.newcomers} newcomers have joined: their identifiers may"
            " be written in another form.",
            hint="If they really are other people, accept it for this release:"
            " `accept_turnover=true`.",
        )
