"""The releases that a chain's state says, one of each table: written, counted, published."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dbanon.chain import state as chain_state
from dbanon.chain.membership import CellState
from dbanon.chain.outside import releases_outside
from dbanon.chain.recount import ChainTarget
from dbanon.chain.report import told_of_chain
from dbanon.chain.several import Part
from dbanon.chain.step import Advanced
from dbanon.chain.tables import columns_of, planned_of, recount_joined, source_of
from dbanon.data.counts import Counts, Histories, Questions, Recount
from dbanon.errors import SourceChanged
from dbanon.job.verdict import Expected
from dbanon.release.linkage import LinkingColumn
from dbanon.release.report import Counted, Report
from dbanon.run.disclosure import homogeneity_of, kept_identifiers
from dbanon.run.linkage import KeptColumns, StoredCounts, linking_columns
from dbanon.run.run import Clock, ExportFiles, publish
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session
from dbanon.stores.sql_persons import SqlWritten
from dbanon.stores.sql_source import SqlSource
from dbanon.stores.sql_target import SqlTarget


@dataclass(frozen=True)
class FreshTarget(SqlTarget):
    """What one transaction writes of a chain that measures: as of any release.

    Parameters
    ----------
    histories : as they were counted.
    """

    histories: Histories

    def count(
        self, written: SqlWritten, questions: Questions, rows: Recount | None = None
    ) -> Counts:
        """The answers; rows are counted by their combinations alone: there are no cells."""
        return replace(super().count(written, questions, rows), histories=self.histories)


def publish_tables(
    made: Advanced,
    reads: Session,
    writes: Session,
    clock: Clock,
    export: ExportFiles | None = None,
) -> Report:
    """Write the releases of all tables that the state says, count them, and publish them.

    The report of the first, whose chain names the others.

    Parameters
    ----------
    reads : on the chain's database.
    """
    state = replace(made.state, session=reads)
    if reads is not made.state.session and (
        chain_state.find(reads, state.chain.name).sequence != state.sequence
    ):
        raise SourceChanged(
            f"Another release of chain {state.chain.name} was made meanwhile: this one counts as"
            " published, and is not.",
            hint="Run it again.",
        )
    sessions = [reads] if reads is writes else [reads, writes]
    outside: dict[str, str] = {}
    for source in (state.chain.source, *state.chain.rules.tables):
        outside |= releases_outside(sessions, source)
    others, written = [], []
    for part in made.parts[1:]:
        own = _of_table(made, part)

        def of_part(_: RelationName, report: Report, own: Advanced = own) -> Report:
            return told_of_chain(own, outside, report)

        place, report = _publish_one(own, state, writes, clock, of_part, part.number)
        written.append(place)
        others.append({"output": report.output, "rows": report.rows_out})

    def complete(place: RelationName, report: Report) -> Report:
        joined = None
        if others and reads is writes and made.state.session is reads:
            joined = require_joined(made, state, [place, *written])
        return told_of_chain(made, outside, report, others, joined)

    _, report = _publish_one(made, state, writes, clock, complete, 0, export)
    if reads is writes:
        chain_state.confirmed(reads, state.chain, state.sequence)
    return report


def _of_table(made: Advanced, part: Part) -> Advanced:
    """What the release of one of the further tables is made of."""
    shown = made.shown
    assert shown is not None
    rows, beyond = shown.rows.get(part.number, 0), shown.beyond.get(part.number, 0)
    return replace(
        made,
        planned=replace(planned_of(made.planned, part), release_id=str(uuid.uuid4())),
        columns=columns_of(part, made.columns),
        histories=replace(made.histories, rows=rows, beyond=beyond),
        tells=made.more_tells.get(part.number, ()),
    )


def require_joined(made: Advanced, state: CellState, written: Sequence[RelationName]) -> int:
    """Check that nobody can be told apart by a join; the combinations that there are.

    Raises
    ------
    RecountFailed : a combination of one of the tables is shared by fewer than k persons.
    """
    shared = [(name, place) for name, place, _ in made.columns if place.startswith("v")]
    found, apart = recount_joined(state, written, shared)
    made.guarantee.require_histories(replace(made.histories, apart=apart))
    return found


def _publish_one(
    made: Advanced,
    state: CellState,
    writes: Session,
    clock: Clock,
    complete: Callable[[RelationName, Report], Report],
    part: int,
    export: ExportFiles | None = None,
) -> tuple[RelationName, Report]:
    """Write the release of one table, count it and publish it; where it stands, and its report.

    Parameters
    ----------
    complete : given where it was written, what the chain has to say.
    part : the number of the table.
    """
    histories, reads, job = made.histories, state.session, made.planned.job
    counted_here = reads is made.state.session
    target: ChainTarget | FreshTarget = ChainTarget(
        writes, state, made.columns, histories, counted_here, part
    )
    if made.guarantee.only_measured:
        target = FreshTarget(writes, histories)
    with clock.phase("write") as tick:
        tick(0.0)
        planned = replace(made.planned, output=target.plan(job, made.planned.release_id))

    def check(written: SqlWritten, counts: Counts) -> Counted:
        nulls = counts.rows.null_rows if job.policy.nulls == "category" else 0
        expected = Expected(histories.persons, nulls, planned.sensitive)
        rows_in, suppressed = made.presence.rows, max(made.presence.rows - histories.persons, 0)
        if histories.rows is not None:
            # How many rows there are in the source, an exchange may change while somebody is out.
            rows_in, suppressed = histories.rows + histories.beyond, histories.beyond
        return Counted(
            rows_in=rows_in,
            suppressed=suppressed,
            rows=counts.rows,
            verdict=made.guarantee.check(counts, expected),
            telling=made.tells,
            few_persons=made.spellings,
            identifiers=kept_identifiers(made.planned),
            linking=_linking(made, reads, target, written, part),
            homogeneity=homogeneity_of(
                planned, made.release.names, partial(target.homogeneity, written)
            ),
        )

    report = publish(
        planned,
        made.found,
        planned.draft(made.microdata, made.release),
        source_of(reads, state.chain.rules),
        target,
        clock,
        check,
        partial(complete, planned.place.written),
        export,
    )
    return planned.place.relation, report


def _linking(
    made: Advanced, reads: Session, target: SqlTarget, written: SqlWritten, part: int
) -> tuple[LinkingColumn, ...]:
    """The findings on columns that undo classes: the state has counted them, where it has cells."""
    if not made.guarantee.only_measured:
        return made.linking.get(part, ())
    draft = written.draft
    stored = StoredCounts(draft, SqlSource(reads), target, written)
    columns = KeptColumns(made.planned, draft.originals, stored, draft.release.names)
    return linking_columns(columns, made.tells)
