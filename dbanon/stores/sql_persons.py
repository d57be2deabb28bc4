"""A written relation, and the persons in its classes, counted in staging tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dbanon.data.counts import ClassValueCounts, CountRequests, EntityCount
from dbanon.data.frozen import dataclass
from dbanon.sessions import recount_statements, statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session
from dbanon.stores.ports import StagedRelease
from dbanon.stores.sql_counts import cells_of_rows


@dataclass(frozen=True, eq=False)
class StagedSqlRelease(StagedRelease):
    """A release in a hidden table.

    Parameters
    ----------
    columns : the name, SQL type and SQL expression of each column.
    copied : whether retained columns came from another database and were staged row by row.
    salt : the salt of the recorded persons; None if persons are not recorded.
    """

    columns: tuple[tuple[str, str, str], ...]
    copied: bool
    salt: str | None = None

    @property
    def relation(self) -> RelationName:
        """The table."""
        return self.draft.output.staging_name

    @property
    def retained(self) -> list[str]:
        """The retained columns."""
        recoded = {column.attribute.name for column in self.draft.release.columns}
        return [name for name, _, _ in self.columns if name not in recoded]


def persons_of(
    session: Session, written: StagedSqlRelease, questions: CountRequests
) -> EntityCount:
    """Count the persons in each class of a written release, in staging tables."""
    draft = written.draft
    shared = [(kind, value) for n, kind, value in written.columns if n in questions.columns]
    columns = {name: (kind, value) for name, kind, value in written.columns}
    shared_names = [n for n, _, _ in written.columns if n in questions.columns]
    of_sets = {name for columns in questions.also for name in columns}
    others = [n for n in columns if n in of_sets - {*shared_names, *questions.sensitive}]
    staged_names = [*shared_names, *questions.sensitive, *others]
    more = [columns[name] for name in (*questions.sensitive, *others)]
    source: Relation | None = None
    if written.copied:
        person, joins = f"r.{statements.kept_column(len(draft.job.copied_columns))}", ""
        reads = []
    else:
        source = draft.relation
        [column] = draft.roles.persons
        # The position of its dictionary, staged when the column was read.
        index = draft.roles.columns.index(column)
        joins = statements.join_values(index, session.value_of(column))
        person = statements.code_column(index)
        staged_set = {*staged_names}
        reads = [name for name in written.retained if name in staged_set and name != column.name]
        reads.append(column.name)
    staged = {
        name: f"s.{statements.value_column(index)}" for index, name in enumerate(staged_names)
    }
    key_of = dict(zip(staged_names, session.display_keys_of(written.relation, staged), strict=True))
    of_class = [key_of[name] for name in shared_names]
    count = session.recount_entities(shared, source, person, joins, more, reads, keys=of_class)
    also = tuple(
        session.recount_staged_entities([key_of[name] for name in names])
        for names in questions.also
    )
    cells = _cells_of_persons(session, written, questions, of_class)
    return replace(count, cells=cells, also=also)


def stage_release_persons(
    session: Session, written: StagedSqlRelease, questions: CountRequests
) -> None:
    """Stage the persons of each class under salted hashes; ``persons_of`` must have run before."""
    draft = written.draft
    [column] = draft.roles.persons
    names = [name for name, _, _ in written.columns if name in questions.columns]
    staged = {name: f"s.{statements.value_column(index)}" for index, name in enumerate(names)}
    keys = session.display_keys_of(written.relation, staged)
    session.stage_salt(bytes.fromhex(str(written.salt)))
    text = session.text_of(replace(column, name="value"))
    values = statements.values_table(draft.roles.columns.index(column))
    session.stage_release_persons(keys, values, session.salted_hash(text))


def _cells_of_persons(
    session: Session,
    written: StagedSqlRelease,
    questions: CountRequests,
    of_class: Sequence[tuple[str, ...]],
) -> dict[str, ClassValueCounts]:
    """Count the persons with each value in each class, by sensitive column, in staging tables."""
    staging = RelationName(None, statements.ENTITIES)
    cells_by_name = {}
    for position, name in enumerate(questions.sensitive, len(of_class)):
        attribute = written.draft.relation.attribute(name)
        staged = replace(attribute, name=statements.value_column(position))
        text = session.text_of(staged)
        # Compare numbers, not their texts, so that a person counts once for each number.
        same = f"s.{quote(staged.name)}" if attribute.kind.is_numeric else text
        cells = session.rows(recount_statements.persons_with_values(of_class, text, same))
        ranked = None if name in questions.leaves else staged
        cells_by_name[name] = cells_of_rows(session, staging, ranked, cells)
    return cells_by_name
