"""Who is in the source of a chain: everybody is tagged, and found among its members or not."""

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

# More members than this share leave in one run, and half as many come: ids are written otherwise.
_TURNOVER = 0.2


@dataclass(frozen=True)
class Presence:
    """Who is in the source, by count.

    Parameters
    ----------
    rows : all persons, one row each.
    newcomers : those without a tag in the chain.
    returned : those whose leaving was published, and who are back.
    members : those on display before this release.
    absent : of these, those who are not in the source.
    """

    rows: int
    newcomers: int
    returned: int
    members: int
    absent: int


def stage_persons(
    state: CellState, relation: Relation, blocks: tuple[bytes, bytes], kept: Sequence[Attribute]
) -> Presence:
    """Tag everybody in the source, and find their cells.

    Parameters
    ----------
    kept : columns that rows are released with as they are, staged beside the persons.

    Raises
    ------
    NullInEntity, ChainEntityRows : a row is nobody's, or one of several of a person.
    """
    session, entity = state.session, relation.attribute(state.chain.entity)
    session.stage_key(*blocks)
    column = f"s.{quote(entity.name)}"
    tag = session.keyed_tag(session.text_of(entity))
    names = [statements.kept_column(i) for i in range(len(kept))]
    given = [f"{column} AS person", f"{tag} AS tag"]
    given += [f"{session.kept_value(a)} AS {name}" for a, name in zip(kept, names, strict=True)]
    stage_tagged(state, f"SELECT {', '.join(given)} FROM {relation.relation.quoted} AS s", names)
    return presence(state, relation)


def stage_tagged(state: CellState, persons: str, names: Sequence[str]) -> None:
    """Stage persons with their cells, and the members who are not among them.

    Parameters
    ----------
    persons : SQL of them, once a key is staged: ``person``, ``tag`` and columns of these names.
    """
    session = state.session
    members = (
        "SELECT tag, cell, left_at_release AS left_at"
        f" FROM {state.name('chain_member')} WHERE {state.of_chain}"
    )
    with session.tagging():
        for kind, name, query in session.tagged(persons + session.computed_once, names, members):
            state.make(name, query, kind)


def presence(state: CellState, relation: Relation) -> Presence:
    """Who is in the source, once they are staged.

    Raises
    ------
    NullInEntity : a row is nobody's.
    ChainEntityRows : a row is one of several of a person, or two persons have one text.
    """
    session, present = state.session, quote(PRESENT)
    # Members have one tag each: who of them is not missing is there, and is not told apart again.
    [(members,)] = session.rows(
        f"SELECT count(*) FROM {state.name('chain_member')}"
        f" WHERE {state.of_chain} AND left_at_release IS NULL"
    )
    [(missing,)] = session.rows(f"SELECT count(*) FROM {quote(MISSING)}")
    others = "CASE WHEN cell IS NULL OR left_at IS NOT NULL THEN tag END"
    rows, whose, tags, newcomers, left = session.rows(
        f"SELECT count(*), count(person), count(DISTINCT {others}), count(*) - count(cell),"
        f" count(left_at) FROM {present}"
    )[0]
    tags += members - missing
    require_one_row(state, relation, rows, rows - whose, tags, lambda: _rows_a_person(state))
    back = returned(state) if left else 0
    there = int(rows) - int(newcomers) - int(left)
    return Presence(int(rows), int(newcomers), back, int(members), int(members) - there)


def returned(state: CellState) -> int:
    """How many of those who are staged are back after their leaving was published."""
    [(found,)] = state.session.rows(
        f"SELECT count(*) FROM {quote(PRESENT)} AS p JOIN {state.name('chain_cell')} AS c"
        f" ON c.{state.of_chain} AND c.cell = p.cell"
        " WHERE p.left_at IS NOT NULL AND c.state NOT IN ('withdrawn', 'refused')"
    )
    return int(found)


def require_one_row(
    state: CellState,
    relation: Relation,
    rows: int,
    nobodys: int,
    tags: int,
    rows_a_person: Callable[[], Sequence[tuple[int, int]]],
) -> None:
    """Check that each row is of another person.

    Parameters
    ----------
    nobodys, tags : of the rows those of nobody, and how many persons they are of.
    rows_a_person : gives how many rows persons have, from the fewest, and how many have as many.

    Raises
    ------
    NullInEntity : a row is nobody's.
    ChainEntityRows : a row is one of several of a person, or two persons have one text.
    """
    entity = state.chain.entity
    if nobodys:
        raise null_in_entity(entity, nobodys, rows)
    if tags != rows:
        raise ChainEntityRows(
            f'The {rows} rows of {relation.name} are of {tags} values of "{entity}": in this chain'
            " every person has one row.",
            detail=_most_rows(rows_a_person()),
            hint="Make a chain of several rows a person (max_rows_per_person), or bring the rows of"
            " each person into one in a view.",
        )


def null_in_entity(entity: str, missing: int, rows: int) -> NullInEntity:
    """The error of rows of a chain of which nobody knows whose they are."""
    return NullInEntity(
        f'The entity column "{entity}" holds NULL in {missing} of {rows} rows.',
        hint="A chain has to know whose each row is: leave these rows out in a view.",
    )


def _rows_a_person(state: CellState) -> Sequence[tuple[int, int]]:
    return state.session.rows(
        f"SELECT p.n, count(*) FROM (SELECT count(*) AS n FROM {quote(PRESENT)} GROUP BY tag) AS p"
        " GROUP BY p.n ORDER BY p.n"
    )


def _most_rows(found: Sequence[tuple[int, int]]) -> str:
    """How many rows nearly all persons have, in words."""
    persons, known, most = sum(int(many) for _, many in found), 0, 0
    for n, many in found:
        known, most = known + int(many), int(n)
        if 100 * known >= 99 * persons:
            break
    return f"99 of 100 persons have at most {most}."


def require_turnover(state: CellState, found: Presence, absent_before: int) -> None:
    """Check that not many left and as many came, as when ids are written in another form.

    Raises
    ------
    ChainTurnover : so it was.
    """
    left = max(found.absent - absent_before, 0)
    if left > _TURNOVER * found.members and 2 * found.newcomers >= left:
        raise ChainTurnover(
            f"{left} of {found.members} members of chain {state.chain.name} left since the last"
            f" release, and {found.newcomers} newcomers came: their ids may be written in"
            " another form.",
            hint="If they really are other people, accept the turnover for this release.",
        )
