"""Write, recount and publish the releases of a chain's state, one for each table."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dbanon.chain import state as chain_state
from dbanon.chain.membership import CellState
from dbanon.chain.other_publications import releases_outside
from dbanon.chain.recount import ChainTarget
from dbanon.chain.report import add_chain_summary
from dbanon.chain.rows_per_person import Part
from dbanon.chain.step import ChainUpdate
from dbanon.chain.tables import columns_of, plan_table, recount_joined, source_of
from dbanon.data.counts import CountRequests, Counts, Histories, Recount
from dbanon.errors import SourceChanged
from dbanon.job.verdict import ExpectedRelease
from dbanon.release.linkage import LinkingColumn
from dbanon.release.report import RecountResult, Report
from dbanon.run.disclosure import find_retained_identifiers, measure_homogeneity
from dbanon.run.linkage import RetainedColumns, WrittenReleaseCounts, find_linking_columns
from dbanon.run.run import Clock, ExportFiles, publish
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session
from dbanon.stores.sql_persons import StagedSqlRelease
from dbanon.stores.sql_source import SqlSource
from dbanon.stores.sql_target import SqlTarget


@dataclass(frozen=True)
class FreshTarget(SqlTarget):
    """The target of a chain that measures, which writes as for any release.

    Parameters
    ----------
    histories : as they were counted.
    """

    histories: Histories

    def count(
        self, written: StagedSqlRelease, questions: CountRequests, rows: Recount | None = None
    ) -> Counts:
        """Recount the release; without cells, rows are counted by their combinations only."""
        return replace(super().count(written, questions, rows), histories=self.histories)


def publish_tables(
    update: ChainUpdate,
    reads: Session,
    writes: Session,
    clock: Clock,
    export: ExportFiles | None = None,
) -> Report:
    """Write, recount and publish the releases of all tables.

    Returns the report of the first table, which lists the others.

    Parameters
    ----------
    reads : a session on the chain's database.
    """
    state = replace(update.state, session=reads)
    if reads is not update.state.session and (
        chain_state.find(reads, state.chain.name).sequence != state.sequence
    ):
        raise SourceChanged(
            f"Another release of chain {state.chain.name} was made meanwhile. This one counts as"
            " published, although it was not.",
            hint="Release it again.",
        )
    sessions = [reads] if reads is writes else [reads, writes]
    outside: dict[str, str] = {}
    for source in (state.chain.source, *state.chain.rules.tables):
        outside |= releases_outside(sessions, source)
    others, written = [], []
    for part in update.parts[1:]:
        table_update = _table_update(update, part)

        def of_part(
            _: RelationName, report: Report, table_update: ChainUpdate = table_update
        ) -> Report:
            return add_chain_summary(table_update, outside, report)

        relation, report = _publish_table(table_update, state, writes, clock, of_part, part.number)
        written.append(relation)
        others.append({"output": report.output, "rows": report.rows_out})

    def complete(relation: RelationName, report: Report) -> Report:
        joined = None
        if others and reads is writes and update.state.session is reads:
            joined = require_joined(update, state, [relation, *written])
        return add_chain_summary(update, outside, report, others, joined)

    _, report = _publish_table(update, state, writes, clock, complete, 0, export)
    if reads is writes:
        chain_state.confirm_release(reads, state.chain, state.sequence)
    return report


def _table_update(update: ChainUpdate, part: Part) -> ChainUpdate:
    """The update for the release of one of the further tables."""
    row_counts = update.row_counts
    assert row_counts is not None
    rows, beyond = row_counts.rows.get(part.number, 0), row_counts.beyond.get(part.number, 0)
    return replace(
        update,
        planned=replace(plan_table(update.planned, part), release_id=str(uuid.uuid4())),
        columns=columns_of(part, update.columns),
        histories=replace(update.histories, rows=rows, beyond=beyond),
        disclosive_columns=update.further_disclosive_columns.get(part.number, ()),
    )


def require_joined(update: ChainUpdate, state: CellState, written: Sequence[RelationName]) -> int:
    """Check that joining the tables singles out no person; return the number of combinations.

    Raises
    ------
    RecountFailed : a combination of one of the tables is shared by fewer than k persons.
    """
    shared = [(name, column) for name, column, _ in update.columns if column.startswith("v")]
    n_combinations, apart = recount_joined(state, written, shared)
    update.guarantee.require_histories(replace(update.histories, apart=apart))
    return n_combinations


def _publish_table(
    update: ChainUpdate,
    state: CellState,
    writes: Session,
    clock: Clock,
    complete: Callable[[RelationName, Report], Report],
    part: int,
    export: ExportFiles | None = None,
) -> tuple[RelationName, Report]:
    """Write, recount and publish the release of one table; return its relation and report.

    Parameters
    ----------
    complete : adds the chain's summary to the report of a written relation.
    part : the number of the table.
    """
    histories, reads, job = update.histories, state.session, update.planned.job
    counted_here = reads is update.state.session
    target: ChainTarget | FreshTarget = ChainTarget(
        writes, state, update.columns, histories, counted_here, part
    )
    if update.guarantee.only_measured:
        target = FreshTarget(writes, histories)
    with clock.phase("write") as tick:
        tick(0.0)
        planned = replace(update.planned, output=target.plan(job, update.planned.release_id))

    def check(written: StagedSqlRelease, counts: Counts) -> RecountResult:
        nulls = counts.rows.null_rows if job.policy.nulls == "category" else 0
        expected = ExpectedRelease(histories.persons, nulls, planned.sensitive)
        rows_in, suppressed = update.presence.rows, max(update.presence.rows - histories.persons, 0)
        if histories.rows is not None:
            # The source's row count could reveal absences, so count displayed and withheld rows.
            rows_in, suppressed = histories.rows + histories.beyond, histories.beyond
        return RecountResult(
            rows_in=rows_in,
            suppressed=suppressed,
            rows=counts.rows,
            verdict=update.guarantee.check(counts, expected),
            disclosive_columns=update.disclosive_columns,
            few_persons=update.spellings,
            identifiers=find_retained_identifiers(update.planned),
            linking=_linking(update, reads, target, written, part),
            homogeneity=measure_homogeneity(
                planned, update.release.names, partial(target.homogeneity, written)
            ),
        )

    report = publish(
        planned,
        update.clustering,
        planned.prepare_release(update.microdata, update.release),
        source_of(reads, state.chain.rules),
        target,
        clock,
        check,
        partial(complete, planned.written_output.written),
        export,
    )
    return planned.written_output.relation, report


def _linking(
    update: ChainUpdate, reads: Session, target: SqlTarget, written: StagedSqlRelease, part: int
) -> tuple[LinkingColumn, ...]:
    """The findings on columns that undo classes; chains with cells have them already."""
    if not update.guarantee.only_measured:
        return update.linking.get(part, ())
    draft = written.draft
    stored = WrittenReleaseCounts(draft, SqlSource(reads), target, written)
    columns = RetainedColumns(update.planned, draft.originals, stored, draft.release.names)
    return find_linking_columns(columns, update.disclosive_columns)
