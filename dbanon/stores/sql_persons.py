"""Persons in the classes of a relation that was written, counted in staging beside their rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dbanon.data.counts import Cells, EntityCount, Questions
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session
from dbanon.stores.sql_counts import cells_of_rows

if TYPE_CHECKING:
    from dbanon.stores.sql_target import SqlWritten


def persons_of(session: Session, written: SqlWritten, questions: Questions) -> EntityCount:
    """The persons in each class of what was written, counted in staging."""
    draft = written.draft
    shared = [(kind, value) for n, kind, value in written.columns if n in questions.columns]
    columns = {name: (kind, value) for name, kind, value in written.columns}
    shared_names = [n for n, _, _ in written.columns if n in questions.columns]
    of_sets = {name for columns in questions.also for name in columns}
    others = [n for n in columns if n in of_sets - {*shared_names, *questions.sensitive}]
    places = [*shared_names, *questions.sensitive, *others]
    more = [columns[name] for name in (*questions.sensitive, *others)]
    source: Relation | None = None
    if written.copied:
        person, joins = f"r.{statements.kept_column(len(draft.job.copied))}", ""
        reads = []
    else:
        source = draft.relation
        [column] = draft.wanted.persons
        # Where its dictionary was staged, when it was read.
        place = draft.wanted.columns.index(column)
        joins = statements.join_values(place, session.value_of(column))
        person = statements.code_column(place)
        asked = {*places}
        reads = [name for name in written.kept if name in asked and name != column.name]
        reads.append(column.name)
    found = session.recount_entities(shared, source, person, joins, more, reads)
    also = tuple(
        session.recount_staged_entities([places.index(name) for name in own])
        for own in questions.also
    )
    cells = _cells_of_persons(session, written, questions, len(shared))
    return replace(found, cells=cells, also=also)


def _cells_of_persons(
    session: Session, written: SqlWritten, questions: Questions, n_shared: int
) -> dict[str, Cells]:
    """Classes and values with their persons, of each sensitive column, counted in staging."""
    staging = RelationName(None, statements.ENTITIES)
    found = {}
    for position, name in enumerate(questions.sensitive, n_shared):
        attribute = written.draft.relation.attribute(name)
        staged = replace(attribute, name=statements.value_column(position))
        text = session.text_of(staged)
        # A number is one value however it is written, so that nobody counts for it twice.
        same = f"s.{quote(staged.name)}" if attribute.kind.is_numeric else text
        cells = session.rows(statements.persons_with_values(n_shared, text, same))
        ranked = None if name in questions.leaves else staged
        found[name] = cells_of_rows(session, staging, ranked, cells)
    return found
