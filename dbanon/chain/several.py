"""Several rows a person, in one table or in several: what they are to a chain.

A chain follows persons. All that it keeps of one is a multiset of rows; whatever is decided of a
cell is decided by such multisets, one a person, as it is by rows where each person has one. So
rows are staged beside persons here, and a digest of each person's rows stands in for a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dbanon.chain.presence import (
    Presence,
    null_in_entity,
    presence,
    stage_persons,
    stage_tagged,
)
from dbanon.data.schema import Attribute
from dbanon.errors import ChainModel
from dbanon.job.chain import FREEZE, MEASURE, Rules
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
    from dbanon.chain.state import ChainKept
    from dbanon.job.job import Job

# What a row of a cell has before its kept columns: a number that tells the persons of the cell
# apart, the table that the row is of, and how many rows more of the table were withheld of her.
WHOSE, PART, BEYOND = "whose", "part", "beyond"
OF_ROWS = (WHOSE, PART, BEYOND)
_ORDINAL = "dbanon_ordinal"


@dataclass(frozen=True)
class Part:
    """One of the tables that a chain's persons have rows in.

    Parameters
    ----------
    number : its place among them, from 0.
    relation : what is read of it.
    kept : the columns that its rows are released with as they are.
    first : the place of the first of these among those of all tables.
    output : where it is released to; empty of the first, which goes where the job says.
    identifiers : those of ``kept`` that look like identifiers, with the reason.
    """

    number: int
    relation: Relation
    kept: tuple[Attribute, ...]
    first: int = 0
    output: str = ""
    identifiers: Mapping[str, str] = field(default_factory=dict)

    @property
    def places(self) -> list[str]:
        """The columns of a row of the state that are this table's."""
        return [statements.kept_column(self.first + i) for i in range(len(self.kept))]


def require_several(chain: ChainKept, job: Job) -> None:
    """Check that a job asks for nothing that persons with several rows cannot have.

    Raises
    ------
    ChainModel : it has a privacy model.
    """
    if chain.rules.max_rows_per_person is not None and job.policy.models:
        raise ChainModel(
            f"Chain {chain.name} takes several rows a person, and keeps no privacy model then: one"
            " counts the values of a class, one a person.",
            hint="Bring the rows of each person into one in a view, or leave out the model.",
        )


def staged(
    state: CellState, parts: Sequence[Part], blocks: tuple[bytes, bytes], *, rows: bool
) -> Presence:
    """Tag everybody in the source, and find their cells.

    Parameters
    ----------
    rows : whether their rows are staged, too, as far as the chain asks for them.

    Raises
    ------
    NullInEntity, ChainEntityRows : a row is nobody's, or one of several of a person.
    """
    relation = parts[0].relation
    if state.several:
        _stage_several(state, parts, blocks, rows)
        return presence(state, relation)
    kept = kept_beside(state.chain.rules, parts) if rows else ()
    return stage_persons(state, relation, blocks, kept)


def kept_beside(rules: Rules, parts: Sequence[Part]) -> tuple[Attribute, ...]:
    """The kept columns that are staged beside persons who have one row."""
    # Where none is ever shown anew, or rows are written as of any release, none is.
    still = rules.mode == MEASURE or rules.changes == FREEZE
    return () if still else parts[0].kept


def _stage_several(
    state: CellState, parts: Sequence[Part], blocks: tuple[bytes, bytes], rows: bool
) -> None:
    """Stage everybody in the source, one row a person, with their cells.

    Parameters
    ----------
    rows : whether their rows are staged beside them, no more of each than the rules say.

    Raises
    ------
    NullInEntity : a row is nobody's.
    """
    session, entity = state.session, quote(state.chain.entity)
    session.stage_key(*blocks)
    if rows:
        _stage_entries(state, parts)
        whose = f"SELECT e.person FROM {quote(ENTRIES)} AS e"
    else:
        whose = " UNION ALL ".join(
            f"SELECT s.{entity} AS person FROM {part.relation.relation.quoted} AS s"
            for part in parts
        )
    [(count, known)] = session.rows(f"SELECT count(*), count(p.person) FROM ({whose}) AS p")
    if count != known:
        raise null_in_entity(state.chain.entity, int(count) - int(known), int(count))
    digest, names = "", []
    if rows:
        _limit(state, parts)
        # A sum over the rows of a person: as a multiset, they have no order.
        names = [statements.kept_column(0)]
        first = state.chain.definition is None
        digest = f", {'0' if first else f'sum({_digest(state, parts)})'} AS {names[0]}"
    own = "".join(f", s.{name}" for name in names)
    attribute = parts[0].relation.attribute(state.chain.entity)
    source = f"{quote(ENTRIES)} AS s" if rows else f"({whose}) AS s"
    persons = (
        f"SELECT s.{entity} AS person, {session.keyed_tag(session.text_of(attribute))} AS tag{own}"
        f" FROM (SELECT s.person AS {entity}{digest} FROM {source} GROUP BY s.person) AS s"
    )
    stage_tagged(state, persons, names)
    _leave_out_newcomers(state, parts)
    _stage_displayed(state, digest)


def _leave_out_newcomers(state: CellState, parts: Sequence[Part]) -> None:
    """Leave out newcomers without a row in the first table, which has all quasi-identifiers.

    Which further tables a person has rows in is a kept value, and may decide nothing about classes.
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
    kept = [(part, attribute) for part in parts for attribute in part.kept]
    for part in parts:
        values = []
        for place, (of, attribute) in enumerate(kept):
            value = session.kept_value(attribute)
            if of.number != part.number:
                value = f"CAST(NULL AS {session.declared(attribute.sql_type)})"
            values.append(f"{value} AS {statements.kept_column(place)}")
        given = [f"s.{quote(state.chain.entity)} AS person", f"{part.number} AS {PART}"]
        given += [f"0 AS {BEYOND}", *values]
        selects.append(f"SELECT {', '.join(given)} FROM {part.relation.relation.quoted} AS s")
    state.make(ENTRIES, " UNION ALL ".join(selects))


def columns_of(parts: Sequence[Part]) -> list[str]:
    """The columns of a row of the state that are kept ones."""
    return [place for part in parts for place in part.places]


def _digest(state: CellState, parts: Sequence[Part]) -> str:
    relation = state.chain.table(state.session, "row")
    return state.session.row_digest(relation, [PART, *columns_of(parts)])


def _limit(state: CellState, parts: Sequence[Part]) -> None:
    """Leave so many rows of each person and table staged as the rules say; which, a hash decides.

    It is of what a row says and of how often it was said before, under the key, and not of whose
    it is: with whole histories exchanged, the same rows are left.
    """
    session, most = state.session, int(state.chain.rules.max_rows_per_person or 0)
    entries = quote(ENTRIES)
    many = (
        f"SELECT e.person, e.{PART}, count(*) AS n FROM {entries} AS e"
        f" GROUP BY e.person, e.{PART} HAVING count(*) > {most}"
    )
    [(persons,)] = session.rows(f"SELECT count(*) FROM ({many}) AS m")
    if not persons:
        return
    columns, said = columns_of(parts), [f"CAST(s.{PART} AS VARCHAR)"]
    for part in parts:
        for attribute, place in zip(part.kept, part.places, strict=True):
            text = session.text_of(replace(attribute, name=place))
            # With its length before it, so that no two rows have one text.
            told = f"CAST(length({text}) AS VARCHAR) || ':' || {text}"
            said.append(f"coalesce({told}, '-')")
    of = f"s.person, s.{PART}"
    told_rows = (
        f"SELECT s.*, m.n, {' || '.join(said)} AS told FROM {entries} AS s"
        f" JOIN ({many}) AS m ON m.person = s.person AND m.{PART} = s.{PART}"
    )
    again = (
        f"SELECT s.*, row_number() OVER (PARTITION BY {of}, s.told ORDER BY s.told) AS again"
        f" FROM ({told_rows}) AS s"
    )
    turn = session.keyed_tag("s.told || '#' || CAST(s.again AS VARCHAR)")
    tagged = f"SELECT s.*, {turn} AS turn FROM ({again}) AS s"
    in_turn = (
        f"SELECT s.*, row_number() OVER (PARTITION BY {of} ORDER BY s.turn) AS place"
        f" FROM ({tagged}) AS s"
    )
    listed = ", ".join(["person", PART, BEYOND, *columns])
    chosen = ", ".join(["c.person", f"c.{PART}", f"c.n - {most} AS {BEYOND}",
                        *(f"c.{name}" for name in columns)])  # fmt: skip
    state.make(CHOSEN, f"SELECT {chosen} FROM ({in_turn}) AS c WHERE c.place <= {most}")
    session.run(
        f"DELETE FROM {entries} WHERE EXISTS (SELECT 1 FROM {quote(CHOSEN)} AS c"
        f" WHERE c.person = {entries}.person AND c.{PART} = {entries}.{PART})"
    )
    session.run(f"INSERT INTO {entries} ({listed}) SELECT {listed} FROM {quote(CHOSEN)}")


def _stage_displayed(state: CellState, digest: str) -> None:
    """Stage who is on display, one row a person, with the digest of the rows that are shown."""
    if state.chain.definition is None:
        state.make(DISPLAYED, f"SELECT 0 AS cell, 0 AS {WHOSE}{digest} WHERE 1 = 0")
        return
    state.make(
        DISPLAYED,
        f"SELECT s.cell, s.{WHOSE}{digest} FROM {state.rows} AS s GROUP BY s.cell, s.{WHOSE}",
    )
