"""Match the persons in the source of a chain with the members of its cells, by tag.

A person's *tag* is the pseudonym under which the chain stores the person (see ``key``). A *cell* is
a class of the chain, and its *members* are the persons who were admitted to it (see
``membership``). In staging tables, ``left_at`` is the number of the release at which a member left
the cell; NULL for members who have not left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbanon.data.schema import Attribute
from dbanon.errors import ChainEntityRows, ChainTurnover, NullInEntity
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.chain_staging import ABSENT_MEMBERS, PRESENT_PERSONS
from dbanon.sessions.names import quote

if TYPE_CHECKING:
    from dbanon.extensions.chains.membership import ChainState

# If more than this share of the members have left, and at least half as many newcomers have
# arrived, the identifiers may be written in a different form than before.
_MAX_LEAVING_SHARE = 0.2


@dataclass(frozen=True)
class PresenceCounts:
    """Counts of the persons in the source and of the members of the chain.

    Parameters
    ----------
    n_persons : number of persons in the source.
    n_newcomers : number of persons in the source who have never been members.
    n_returned : number of persons in the source who came back after a release without them.
    n_members : number of persons whose rows the last release contains.
    n_absent : of these ``n_members`` persons, the number who are not in the source.
    """

    n_persons: int
    n_newcomers: int
    n_returned: int
    n_members: int
    n_absent: int


def stage_persons(
    state: ChainState,
    relation: Relation,
    hash_prefixes: tuple[bytes, bytes],
    retained: Sequence[Attribute],
) -> PresenceCounts:
    """Tag all persons in the source, and look up their cells.

    Parameters
    ----------
    hash_prefixes : key material: the bytes before the identifier in the inner hash of a tag, and
        the bytes before the inner hash in the outer one; empty without an outer hash. They are
        from ``key.hash_prefixes``.
    retained : the columns released unchanged, which are staged with the persons.

    Raises
    ------
    NullInEntity, ChainEntityRows : a row has no person, or a person has several rows.
    """
    session, entity = state.session, relation.attribute(state.chain.entity)
    session.tags.stage_key(*hash_prefixes)
    column = f"s.{quote(entity.name)}"
    tag = session.tags.of_text(session.dialect.text_of(entity))
    names = [statements.retained_column_name(i) for i in range(len(retained))]
    columns = [f"{column} AS person", f"{tag} AS tag"]
    columns += [
        f"{session.dialect.retained_value(a)} AS {name}"
        for a, name in zip(retained, names, strict=True)
    ]
    stage_tagged_persons(
        state, f"SELECT {', '.join(columns)} FROM {relation.relation_to_read.quoted} AS s", names
    )
    return count_presence(state, relation)


def stage_tagged_persons(state: ChainState, persons: str, names: Sequence[str]) -> None:
    """Stage the persons in the source with their cells, and the members who are absent.

    The key for tags must be staged already.

    Parameters
    ----------
    persons : SQL of a SELECT of the persons in the source, with the columns ``person`` (the
        identifier), ``tag`` and all of ``names``.
    names : the names of the further columns to stage.
    """
    session = state.session
    members = (
        "SELECT tag, cell, left_at_release AS left_at"
        f" FROM {state.ledger_table('chain_member')} WHERE {state.chain_condition}"
    )
    with session.chain_dialect.tune_for_tagging():
        for table_kind, name, query in session.chain_dialect.build_person_queries(
            persons + session.chain_dialect.compute_once_clause, names, members
        ):
            state.stage(name, query, table_kind)


def count_presence(state: ChainState, relation: Relation) -> PresenceCounts:
    """Count the staged persons, and check that each has one row.

    Raises
    ------
    NullInEntity : a row has no person.
    ChainEntityRows : a person has several rows, or the identifiers of two persons have the same
        text.
    """
    session, present = state.session, quote(PRESENT_PERSONS)
    # A member's tag is in the source once unless the person has several rows. So count DISTINCT,
    # which is slow, only over the other persons, and add the number of members in the source.
    [(n_members,)] = session.rows(
        f"SELECT count(*) FROM {state.ledger_table('chain_member')}"
        f" WHERE {state.chain_condition} AND left_at_release IS NULL"
    )
    [(n_absent,)] = session.rows(f"SELECT count(*) FROM {quote(ABSENT_MEMBERS)}")
    other_tags = "CASE WHEN cell IS NULL OR left_at IS NOT NULL THEN tag END"
    n_rows, n_with_person, n_tags, n_newcomers, n_former_members = session.rows(
        f"SELECT count(*), count(person), count(DISTINCT {other_tags}), count(*) - count(cell),"
        f" count(left_at) FROM {present}"
    )[0]
    n_tags += n_members - n_absent
    require_one_row_per_person(
        state,
        relation,
        n_rows,
        n_rows - n_with_person,
        n_tags,
        lambda: _count_rows_per_person(state),
    )
    n_returned = count_returned(state) if n_former_members else 0
    n_present_members = int(n_rows) - int(n_newcomers) - int(n_former_members)
    return PresenceCounts(
        n_persons=int(n_rows),
        n_newcomers=int(n_newcomers),
        n_returned=n_returned,
        n_members=int(n_members),
        n_absent=int(n_members) - n_present_members,
    )


def count_returned(state: ChainState) -> int:
    """Count the staged persons who came back after a release without them."""
    # Members of withdrawn cells, and persons excluded by models (in refused cells), never return:
    # their cells have ended, whether or not they are in the source.
    [(n_returned,)] = state.session.rows(
        f"SELECT count(*) FROM {quote(PRESENT_PERSONS)} AS p"
        f" JOIN {state.ledger_table('chain_cell')} AS c"
        f" ON c.{state.chain_condition} AND c.cell = p.cell"
        " WHERE p.left_at IS NOT NULL AND c.state NOT IN ('withdrawn', 'refused')"
    )
    return int(n_returned)


def require_one_row_per_person(
    state: ChainState,
    relation: Relation,
    n_rows: int,
    n_without_person: int,
    n_persons: int,
    count_rows_per_person: Callable[[], Sequence[tuple[int, int]]],
) -> None:
    """Check that each row belongs to a different person.

    Parameters
    ----------
    n_rows : the number of all rows.
    n_without_person : the number of rows without a person.
    n_persons : the number of distinct persons.
    count_rows_per_person : a function that returns pairs: a number of rows, and how many persons
        have that many; in ascending order of rows.

    Raises
    ------
    NullInEntity : a row has no person.
    ChainEntityRows : a person has several rows, or the identifiers of two persons have the same
        text.
    """
    entity = state.chain.entity
    if n_without_person:
        raise null_in_entity_error(entity, n_without_person, n_rows)
    if n_persons != n_rows:
        raise ChainEntityRows(
            f'The {n_rows} rows of {relation.name} have {n_persons} values of "{entity}": in this'
            " chain every person has one row.",
            detail=_describe_row_counts(count_rows_per_person()),
            hint="Merge the rows of each person in the source. Or close the chain, and create"
            " another one with max_rows_per_person.",
        )


def null_in_entity_error(entity: str, n_without_person: int, n_rows: int) -> NullInEntity:
    """The error for rows of a chain without a person identifier."""
    return NullInEntity(
        f'The entity column "{entity}" holds NULL in {n_without_person} of {n_rows} rows.',
        hint="Delete these rows or name their persons in the source, or leave them out with"
        " `where`.",
    )


def _count_rows_per_person(state: ChainState) -> Sequence[tuple[int, int]]:
    """Return pairs, ascending: a number of rows, and how many persons have that many."""
    return state.session.rows(
        f"SELECT p.n, count(*) FROM (SELECT count(*) AS n FROM {quote(PRESENT_PERSONS)}"
        " GROUP BY tag) AS p GROUP BY p.n ORDER BY p.n"
    )


def _describe_row_counts(row_counts: Sequence[tuple[int, int]]) -> str:
    """Describe, in a sentence, the number of rows that 99 % of persons do not exceed.

    The sentence follows a message about rows per person, so it omits the word "rows".

    Parameters
    ----------
    row_counts : pairs from ``_count_rows_per_person``: a number of rows, and how many persons have
        that many.
    """
    total, cumulative, max_rows = sum(int(n_persons) for _, n_persons in row_counts), 0, 0
    for n_rows, n_persons in row_counts:
        cumulative, max_rows = cumulative + int(n_persons), int(n_rows)
        if 100 * cumulative >= 99 * total:
            break
    return f"99 of 100 persons have at most {max_rows}."


def require_no_turnover(state: ChainState, presence: PresenceCounts, n_absent_before: int) -> None:
    """Check that identifiers do not seem to be written in another form than at earlier releases.

    In another form, everyone would look like a newcomer.

    Parameters
    ----------
    n_absent_before : number of members who were already absent at the last release.

    Raises
    ------
    ChainTurnover : many members left, and at least half as many newcomers came.
    """
    n_left = max(presence.n_absent - n_absent_before, 0)
    if n_left > _MAX_LEAVING_SHARE * presence.n_members and 2 * presence.n_newcomers >= n_left:
        raise ChainTurnover(
            f"{n_left} of {presence.n_members} members of chain {state.chain.name} have left since"
            f" the last release, and {presence.n_newcomers} newcomers have joined: their"
            " identifiers may be written in another form.",
            hint="If they really are other people, accept it for this release:"
            " `accept_turnover=true`.",
        )
