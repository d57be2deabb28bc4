"""Write, recount and publish the releases of a chain, one for each of its tables."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dbanon.data.counts import ChainCounts, CountRequests, Counts, Recount
from dbanon.errors import SourceChanged
from dbanon.extensions.chains import state as chain_state
from dbanon.extensions.chains.membership import ChainState
from dbanon.extensions.chains.other_publications import find_releases_outside
from dbanon.extensions.chains.recount import ChainTarget
from dbanon.extensions.chains.report import add_chain_summary
from dbanon.extensions.chains.rows_per_person import ChainTable
from dbanon.extensions.chains.step import ChainUpdate
from dbanon.extensions.chains.tables import (
    build_source,
    columns_of_table,
    plan_table,
    recount_across_tables,
)
from dbanon.job.verdict import ExpectedRelease
from dbanon.release.linkage import LinkingColumn
from dbanon.release.report import RecountResult, Report
from dbanon.run.disclosure import find_retained_identifiers, measure_homogeneity
from dbanon.run.linkage import RetainedColumns, WrittenReleaseCounts, find_linking_columns
from dbanon.run.run import Clock, ExportFiles, ReleaseRun
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session
from dbanon.stores.sql_persons import StagedSqlRelease
from dbanon.stores.sql_source import SqlSource
from dbanon.stores.sql_target import SqlTarget


@dataclass(frozen=True)
class MeasuringChainTarget(SqlTarget):
    """The target of a chain that only measures. It writes releases like those outside of chains.

    Parameters
    ----------
    chain_counts : the counts of the chain after this release.
    """

    chain_counts: ChainCounts

    def count(
        self,
        staged_release: StagedSqlRelease,
        requests: CountRequests,
        rows: Recount | None = None,
    ) -> Counts:
        """Recount the release, and add the counts of the chain to the result."""
        return replace(
            super().count(staged_release, requests, rows), chain_counts=self.chain_counts
        )


def publish_tables(
    update: ChainUpdate,
    chain_reader: Session,
    release_writer: Session,
    clock: Clock,
    export: ExportFiles | None = None,
) -> Report:
    """Write, recount and publish the releases of all tables of a chain.

    Returns the report of the first table, which lists the others.

    Parameters
    ----------
    update : the new state of the chain, which the chain's database stores already.
    chain_reader : a session on the chain's database.
    release_writer : a session on the database of the releases; the same session if that is the
        chain's database.

    Raises
    ------
    SourceChanged : the chain has had another release since the update.
    """
    # If another session reads the chain than the one that updated it, the update is committed.
    state = replace(update.state, session=chain_reader)
    if chain_reader is not update.state.session and (
        chain_state.find_chain(chain_reader, state.chain.name).n_releases != state.release_number
    ):
        raise SourceChanged(
            f"Another release of chain {state.chain.name} was made in the meantime. This one counts"
            " as published, although it was not.",
            hint="Release it again.",
        )
    sessions = [chain_reader] if chain_reader is release_writer else [chain_reader, release_writer]
    outside_releases: dict[str, str] = {}
    for source in (state.chain.source, *state.chain.rules.tables):
        outside_releases |= find_releases_outside(sessions, source)
    # The further tables come first, because the report of the first table lists their releases.
    further_releases, written_relations = [], []
    for chain_table in update.chain_tables[1:]:
        table_update = _update_for_table(update, chain_table)

        def add_table_summary(
            _: RelationName, report: Report, table_update: ChainUpdate = table_update
        ) -> Report:
            """Add the chain's summary to the report of a further table."""
            return add_chain_summary(table_update, outside_releases, report)

        relation, report = _publish_table(
            table_update, state, release_writer, clock, add_table_summary, chain_table.number
        )
        written_relations.append(relation)
        further_releases.append({"output": report.output, "rows": report.rows_out})

    def add_summary(relation: RelationName, report: Report) -> Report:
        """Check the tables together, and add the chain's summary to the report of the first one."""
        n_combinations = None
        # The check joins the written tables with the staged histories. So one session must have
        # updated the chain, and must also write the releases.
        if (
            further_releases
            and chain_reader is release_writer
            and update.state.session is chain_reader
        ):
            n_combinations = require_k_across_tables(update, state, [relation, *written_relations])
        return add_chain_summary(update, outside_releases, report, further_releases, n_combinations)

    _, report = _publish_table(
        update, state, release_writer, clock, add_summary, table_number=0, export=export
    )
    if chain_reader is release_writer:
        chain_state.confirm_release(chain_reader, state.chain, state.release_number)
    return report


def _update_for_table(update: ChainUpdate, chain_table: ChainTable) -> ChainUpdate:
    """Adapt an update to the release of one of the further tables."""
    row_counts = update.row_counts
    assert row_counts is not None
    n_rows = row_counts.rows_by_table.get(chain_table.number, 0)
    n_withheld = row_counts.withheld_by_table.get(chain_table.number, 0)
    return replace(
        update,
        planned=replace(plan_table(update.planned, chain_table), release_id=str(uuid.uuid4())),
        columns=columns_of_table(chain_table, update.columns),
        chain_counts=replace(update.chain_counts, rows=n_rows, withheld_rows=n_withheld),
        disclosive_columns=update.further_disclosive_columns.get(chain_table.number, ()),
    )


def require_k_across_tables(
    update: ChainUpdate, state: ChainState, released_tables: Sequence[RelationName]
) -> int:
    """Check that joining the tables singles out no person; return the number of combinations.

    Parameters
    ----------
    released_tables : the written relations of all tables of the chain.

    Raises
    ------
    RecountFailed : a combination of values in one of the tables is shared by fewer than k persons.
    """
    shared = [(column.name, column.state_column) for column in update.columns if column.is_shared]
    n_combinations, n_below_k = recount_across_tables(state, released_tables, shared)
    update.guarantee.require_chain_counts(
        replace(update.chain_counts, joined_combinations_below_k=n_below_k)
    )
    return n_combinations


@dataclass(frozen=True, eq=False)
class ChainTableRun(ReleaseRun[StagedSqlRelease]):
    """The release of one table of a chain.

    Parameters
    ----------
    update : the new state of the chain, as it concerns this table.
    chain_reader : a session on the chain's database.
    table_number : the index of the table among those of the chain.
    add_summary : a function that takes the written table, under its name before publishing, and
        its report; it returns the report with the chain's summary.
    """

    update: ChainUpdate
    chain_reader: Session
    table_number: int
    add_summary: Callable[[RelationName, Report], Report]

    def check(self, staged_release: StagedSqlRelease, counts: Counts) -> RecountResult:
        """Check the counts of the written release; raises the errors of the chain's guarantee."""
        update, chain_counts = self.update, self.update.chain_counts
        # ``counts.rows`` is the recount of classes by their number of rows. With
        # `nulls="category"`, NULL is a value like others, so rows with NULL are expected.
        n_null_rows = counts.rows.null_rows if self.planned.job.policy.nulls == "category" else 0
        expected = ExpectedRelease(
            n_rows=chain_counts.persons, null_rows=n_null_rows, sensitive=self.planned.sensitive
        )
        # ``rows`` is None if each person has one row, so that rows are persons.
        if chain_counts.rows is None:
            rows_in = update.presence.n_persons
            n_suppressed = max(update.presence.n_persons - chain_counts.persons, 0)
        else:
            # The source's row count could reveal absences, so count displayed and withheld rows.
            rows_in = chain_counts.rows + chain_counts.withheld_rows
            n_suppressed = chain_counts.withheld_rows
        return RecountResult(
            rows_in=rows_in,
            suppressed=n_suppressed,
            rows=counts.rows,
            verdict=update.guarantee.check(counts, expected),
            disclosive_columns=update.disclosive_columns,
            # In a chain k counts persons, so only different spellings of a person can be found.
            few_persons=update.spellings,
            identifiers=find_retained_identifiers(update.planned),
            linking=self._find_linking_columns(staged_release),
            homogeneity=measure_homogeneity(
                self.planned,
                update.release.names,
                partial(self.target.count_homogeneous_classes, staged_release),
            ),
        )

    def complete(self, report: Report) -> Report:
        """Add the chain's summary."""
        return self.add_summary(self.planned.written_output.staging_name, report)

    def _find_linking_columns(self, staged_release: StagedSqlRelease) -> tuple[LinkingColumn, ...]:
        """Return findings on columns by which readers could tell the members of a class apart.

        They are computed here only for chains that only measure. For other chains,
        ``advance_chain`` has computed them from the displayed rows.
        """
        update, draft = self.update, staged_release.draft
        if not update.guarantee.only_measured:
            return update.linking_findings.get(self.table_number, ())
        written_counts = WrittenReleaseCounts(
            draft, SqlSource(self.chain_reader), self.target, staged_release
        )
        retained_columns = RetainedColumns(
            update.planned, draft.originals, written_counts, draft.release.names
        )
        return find_linking_columns(retained_columns, update.disclosive_columns)


def _publish_table(
    update: ChainUpdate,
    state: ChainState,
    release_writer: Session,
    clock: Clock,
    add_summary: Callable[[RelationName, Report], Report],
    table_number: int,
    export: ExportFiles | None = None,
) -> tuple[RelationName, Report]:
    """Write, recount and publish the release of one table; return its relation and report.

    ``ChainTableRun`` and ``ReleaseRun`` document the other parameters.

    Parameters
    ----------
    state : the new state of the chain, on a session that reads the chain's database.
    release_writer : a session on the database of the releases.
    """
    chain_reader = state.session
    target: ChainTarget | MeasuringChainTarget
    if update.guarantee.only_measured:
        target = MeasuringChainTarget(release_writer, update.chain_counts)
    else:
        target = ChainTarget(
            session=release_writer,
            state=state,
            released_columns=update.columns,
            chain_counts=update.chain_counts,
            # Staging tables last as long as the session that made the update; another session may
            # read the chain if the update was committed before.
            histories_are_staged=chain_reader is update.state.session,
            table_number=table_number,
        )
    with clock.phase("write") as tick:
        tick(0.0)
        output = target.plan(update.planned.job, update.planned.release_id)
        planned = replace(update.planned, output=output)
    release_run = ChainTableRun(
        planned,
        update.clustering,
        planned.prepare_release(update.microdata, update.release),
        build_source(chain_reader, state.chain.rules),
        target,
        clock,
        export,
        update=update,
        chain_reader=chain_reader,
        table_number=table_number,
        add_summary=add_summary,
    )
    report = release_run.publish()
    return planned.written_output.relation, report
