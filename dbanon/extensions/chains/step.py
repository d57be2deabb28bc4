"""Advance a chain by one release: arrivals, departures, new cell states and displayed rows.

A *cell* is a class of a chain (see ``membership``). *Newcomers* are persons in the source who are
in no cell yet. *Displayed* rows are those of the current release. A *frozen* cell (state ``held``)
keeps its displayed rows. A cell is *sealed* if no group of members may leave it. Everything happens
in one transaction on the chain's database. The release is written later, by ``publish``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import numpy as np

from dbanon.data.counts import ChainCounts
from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.partition import ClusteringResult, Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter
from dbanon.extensions.chains import cell_rows, definition, recount, reference
from dbanon.extensions.chains import state as chain_state
from dbanon.extensions.chains.cell_rows import exclude_newcomers
from dbanon.extensions.chains.displayed_rows import (
    DisplayedRowCounts,
    DisplayedSource,
    count_displayed_rows,
)
from dbanon.extensions.chains.linkage import DisplayedColumns
from dbanon.extensions.chains.membership import ChainState
from dbanon.extensions.chains.newcomers import classify_newcomers
from dbanon.extensions.chains.persons import stage_newcomer_records
from dbanon.extensions.chains.presence import PresenceCounts, require_no_turnover
from dbanon.extensions.chains.presence_arrays import copy_newcomers, match_persons, stage_unadmitted
from dbanon.extensions.chains.returns import build_sealed_cells_query, record_absences
from dbanon.extensions.chains.rows_per_person import (
    ChainTable,
    choose_staged_columns,
    refuse_models_with_several_rows,
    stage_source,
)
from dbanon.extensions.chains.state import ChainColumn, ChainRecord
from dbanon.extensions.chains.tables import (
    build_source,
    columns_of_table,
    describe_tables,
    find_chain_tables,
    plan_table,
)
from dbanon.extensions.chains.waiting_newcomers import record_waiting
from dbanon.job.chain import FREEZE, MEASURE
from dbanon.job.chain_guarantee import ChainGuarantee
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.recoding import ReleasedColumn
from dbanon.release.attribute_disclosure import DisclosiveColumn, PersonSpellings
from dbanon.release.linkage import LinkingColumn
from dbanon.release.recode import Release
from dbanon.run.date_shift import warn_of_unshifted_copies
from dbanon.run.disclosure import find_disclosive_columns
from dbanon.run.linkage import find_linking_columns
from dbanon.run.plan import Plan, plan
from dbanon.run.run import Clock, recode_release
from dbanon.sessions.base import Relation
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import SqlSource
from dbanon.stores.sql_target import SqlTarget


@dataclass(frozen=True, eq=False)
class ChainUpdate:
    """The advanced state of a chain, and everything that is needed to write its release.

    Parameters
    ----------
    state : the state of the chain with this release.
    planned : the plan, with the rows of newcomers as its relation, and their hierarchies.
    guarantee : the guarantee that the release must satisfy.
    microdata, clustering : the admitted newcomers and their classes.
    release : the released classes of the admitted newcomers.
    columns : the columns of the release; empty for a chain that only measures.
    chain_counts : the counts of the chain after this release.
    disclosive_columns : findings on nearly unique columns of the first table.
    presence : counts of the persons in the source.
    chain_tables : the tables of the chain.
    row_counts : row counts by table; None if each person has one row.
    further_disclosive_columns : the same as ``disclosive_columns`` for further tables, by table
        number.
    spellings : a finding on the entity column if different spellings of the same person may count
        as several persons; empty otherwise.
    linking_findings : findings on columns by which readers could tell the members of a cell apart,
        by table number.
    """

    state: ChainState
    planned: Plan
    guarantee: ChainGuarantee
    microdata: Microdata
    clustering: ClusteringResult
    release: Release
    columns: tuple[ChainColumn, ...]
    chain_counts: ChainCounts
    disclosive_columns: tuple[DisclosiveColumn, ...]
    presence: PresenceCounts
    chain_tables: tuple[ChainTable, ...] = ()
    row_counts: DisplayedRowCounts | None = None
    further_disclosive_columns: Mapping[int, tuple[DisclosiveColumn, ...]] = field(
        default_factory=dict
    )
    spellings: tuple[PersonSpellings, ...] = ()
    linking_findings: Mapping[int, tuple[LinkingColumn, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class PendingRelease:
    """A release of a chain whose persons are tagged, but not yet clustered.

    Parameters
    ----------
    state : the state of the chain with this release.
    source : the source of the chain.
    planned : the plan, with all rows of the source as its relation.
    guarantee : the guarantee that the release must satisfy.
    presence : counts of the persons in the source.
    chain_tables : the tables of the chain.
    """

    state: ChainState
    source: SqlSource
    planned: Plan
    guarantee: ChainGuarantee
    presence: PresenceCounts
    chain_tables: tuple[ChainTable, ...]


def begin_release(
    job: Job, session: Session, key: bytes, clock: Clock, target_session: Session | None
) -> PendingRelease:
    """Lock a chain, run all early checks, and tag the persons in the source.

    Parameters
    ----------
    target_session : a session on the database of the release; None if it is the same database.
    """
    request = job.chain
    assert request is not None
    with clock.phase("read") as tick:
        tick(0.0)
        if session.ledger.exists():
            # Migrate ledgers of earlier versions, which do not record absences.
            session.ledger.ensure_current()
        chain = chain_state.lock_chain(session, request, key)
        source = build_source(session, chain.rules)
        # An output in another database is planned below.
        target = None if target_session is not None else SqlTarget(session)
        # ``tick`` is called regularly while hierarchies are read, and may end the run by an error.
        planned = plan(job, source, target, pulse=lambda: tick(0.0))
        definition.require_source(chain, job, source, planned.relation)
        if target_session is not None:
            planned = _plan_other_database(job, planned, source, SqlTarget(target_session), chain)
        warn_of_unshifted_copies(job, planned.history)
        only_measures = chain.rules.mode == MEASURE
        refuse_models_with_several_rows(chain, job)
        chain_tables = [
            replace(
                chain_table,
                identifiers=source.find_direct_identifiers(
                    chain_table.relation, [a.name for a in chain_table.retained]
                ),
            )
            for chain_table in find_chain_tables(session, job, planned.relation, chain.rules)
        ]
        planned = replace(planned, identifiers=chain_tables[0].identifiers)
        for chain_table in chain_tables[1:] if target_session is not None else ():
            assert target_session is not None
            _require_releasable(
                plan_table(planned, chain_table), chain_table, SqlTarget(target_session)
            )
        if chain.definition is not None and not only_measures:
            job_settings = definition.describe_job(job, planned) | describe_tables(chain_tables)
            definition.require_same(chain, job_settings)
        state = ChainState(session, chain, chain.n_releases + 1, int(job.policy.k))
        hash_prefixes = chain.hash_prefixes(key)
        retained = choose_staged_columns(chain.rules, chain_tables)
        match_result = match_persons(
            state, planned.relation, hash_prefixes, retained, job.memory_limit
        )
        if match_result is None:
            # Only the database can match the persons with the members.
            presence = stage_source(state, chain_tables, hash_prefixes, with_rows=True)
        else:
            fetched_persons, presence = match_result
            state = replace(state, fetched_persons=fetched_persons)
        if not request.accept_turnover:
            require_no_turnover(
                state, presence, chain_state.count_absent_at_last_release(session, chain)
            )
    guarantee = replace(
        cast(ChainGuarantee, planned.guarantee),
        only_measured=only_measures,
        max_exposed=request.max_exposed,
        n_tables=len(chain_tables),
    )
    return PendingRelease(state, source, planned, guarantee, presence, tuple(chain_tables))


def advance_chain(pending: PendingRelease, clock: Clock) -> ChainUpdate:
    """Advance a chain by one release: admit newcomers, update cells, and renew displayed rows.

    Raises
    ------
    TraceTooSmall : by the recount, fewer than k persons would share a history.
    RecountFailed : the recount of the new state failed for another reason.
    """
    state, planned, source = pending.state, pending.planned, pending.source
    presence = pending.presence
    job, session, source_relation = planned.job, state.session, planned.relation
    planned = replace(planned, relation=_select_newcomers(source, job, planned, pending))
    newcomers = classify_newcomers(job, planned, source, state, clock)
    microdata, policy = newcomers.microdata, newcomers.policy
    with clock.phase("write") as tick:
        tick(0.0)
        if state.fetched_persons is not None and state.release_number == 1:
            stage_unadmitted(state, planned.relation, microdata.keys)
        last_cell = state.last_cell
        exclude_newcomers(state, planned.relation, newcomers.excluded_keys)
        any_admitted = microdata.n_records > 0
        if any_admitted:
            release = recode_release(planned, policy, source, microdata, newcomers.clustering)
        else:
            release = _release_without_newcomers(session, state, newcomers.column_statistics)
        # A tenth more members changes the state so much that query planners need new statistics.
        is_large_batch = 10 * microdata.n_records >= presence.n_members
        counts, columns, release = _write_state(
            job,
            pending.chain_tables,
            state,
            planned,
            source_relation,
            microdata,
            release,
            is_large_batch=is_large_batch,
            typical_class_loss=newcomers.typical_class_loss,
        )
        n_waiting = presence.n_newcomers - len(microdata.keys) - len(newcomers.excluded_keys)
        # The longest wait of a newcomer, in releases.
        counts["longest"] = record_waiting(state, n_waiting, last_cell)
        tick(1.0)
    with clock.phase("verify") as tick:
        tick(0.0)
        chain_counts = _recount_state(
            state,
            presence,
            counts,
            n_admitted=len(microdata.keys),
            n_refused=len(newcomers.excluded_keys),
        )
        chain_counts = _add_model_counts(chain_counts, pending, policy, planned.sensitive)
        row_counts = None
        if state.has_several_rows_per_person:
            row_counts = count_displayed_rows(state)
            chain_counts = _add_row_counts(state, chain_counts, row_counts, columns)
        pending.guarantee.require_chain_counts(chain_counts)
        disclosive_columns: dict[int, tuple[DisclosiveColumn, ...]] = {}
        # In later releases, the few newcomers could be singled out by this check, so skip it.
        if any_admitted and state.release_number == 1:
            disclosive_columns = _find_disclosive_columns(
                pending, planned, microdata, release, columns
            )
        linking_findings = _find_linking_columns(
            pending, planned, microdata, release, columns, disclosive_columns
        )
    # Newcomers were clustered with the rule ``class_size`` (k or more) as k; report the chain's k.
    planned = replace(planned, policy=replace(policy, k=state.k))
    # The first table has the number 0.
    first_disclosive_columns = disclosive_columns.pop(0, ())
    return ChainUpdate(
        state=state,
        planned=planned,
        guarantee=pending.guarantee,
        microdata=microdata,
        clustering=newcomers.clustering,
        release=release,
        columns=columns,
        chain_counts=chain_counts,
        disclosive_columns=first_disclosive_columns,
        presence=presence,
        chain_tables=pending.chain_tables,
        row_counts=row_counts,
        further_disclosive_columns=disclosive_columns,
        linking_findings=linking_findings,
    )


def _add_model_counts(
    chain_counts: ChainCounts,
    pending: PendingRelease,
    policy: Policy,
    sensitive: Mapping[str, Attribute],
) -> ChainCounts:
    """Add the number of cells that violate a privacy model, and the levels that are reached."""
    retained = [
        attribute for chain_table in pending.chain_tables for attribute in chain_table.retained
    ]
    n_failing = recount.count_failing_cells(pending.state, retained, policy.models)
    n_failing_compared, levels = reference.recount_models(
        pending.state, retained, policy.models, sensitive
    )
    return replace(chain_counts, failing_cells=n_failing + n_failing_compared, levels=levels)


def _find_disclosive_columns(
    pending: PendingRelease,
    planned: Plan,
    microdata: Microdata,
    release: Release,
    columns: tuple[ChainColumn, ...],
) -> dict[int, tuple[DisclosiveColumn, ...]]:
    """Find the nearly unique columns of a first release, by table number."""
    state, disclosive_columns = pending.state, {}
    # The relation has the rows of all newcomers, so those who wait count as withheld.
    counted_microdata = replace(
        microdata, n_withheld=pending.presence.n_newcomers - microdata.n_records
    )
    for chain_table in pending.chain_tables:
        # Check only uniqueness: no message may depend on which person of a cell has which value.
        draft = plan_table(planned, chain_table).prepare_release(counted_microdata, release)
        state_column_of = {
            column.name: column.state_column for column in columns_of_table(chain_table, columns)
        }
        group_source = (
            DisplayedSource(state, chain_table.number, state_column_of)
            if state.has_several_rows_per_person
            else pending.source
        )
        group_values = partial(group_source.group_by_value, draft)
        disclosive_columns[chain_table.number] = find_disclosive_columns(
            draft.job,
            draft.originals,
            group_values,
            # No sample was checked before, so all columns are.
            sample_findings={},
            only_unique=True,
        )
    return disclosive_columns


def _find_linking_columns(
    pending: PendingRelease,
    planned: Plan,
    microdata: Microdata,
    release: Release,
    columns: tuple[ChainColumn, ...],
    disclosive_columns: Mapping[int, tuple[DisclosiveColumn, ...]],
) -> dict[int, tuple[LinkingColumn, ...]]:
    """Find columns by which readers could tell the members of a cell apart, by table number."""
    findings = {}
    for chain_table in pending.chain_tables:
        draft = plan_table(planned, chain_table).prepare_release(microdata, release)
        table_columns = columns_of_table(chain_table, columns)
        displayed_columns = DisplayedColumns(
            pending.state,
            draft,
            table_columns,
            chain_table.number,
            # Not with several tables: a person may have no row in this one.
            cells_have_k_rows=pending.guarantee.has_k_anonymous_rows,
        )
        findings[chain_table.number] = find_linking_columns(
            displayed_columns, disclosive_columns.get(chain_table.number, ())
        )
    return findings


def _plan_other_database(
    job: Job, planned: Plan, source: SqlSource, target: SqlTarget, chain: ChainRecord
) -> Plan:
    """Plan the output in another database, and check that the database can store it."""
    chain_state.require_not_behind(target.session, chain)
    for name in job.named_columns:
        target.require_type(planned.relation.attribute(name))
    if job.policy.intervals == "range":
        raise InvalidParameter(
            "Range types of one database cannot be written to another.",
            hint='Use `intervals="text"`, `intervals="bounds"` or `intervals="midpoint"`.',
        )
    # The job was planned without a target, so its expectations of the source's counts have not been
    # checked yet.
    planned = replace(
        planned,
        output=target.plan(job, planned.release_id),
        history=target.find_earlier_releases(source, planned.relation, planned.source_state),
    )
    return planned.with_source_counts(source, target)


def _require_releasable(planned: Plan, chain_table: ChainTable, target: SqlTarget) -> None:
    """Check that another database can store the release of a further table."""
    for attribute in chain_table.retained:
        target.require_type(attribute)
    # Raises an error if the output cannot be written.
    target.plan(planned.job, planned.release_id)


def _select_newcomers(
    source: SqlSource, job: Job, planned: Plan, pending: PendingRelease
) -> Relation:
    """Stage newcomers, and return the relation of their rows, the only ones to be clustered."""
    state = pending.state
    if state.has_several_rows_per_person:
        if state.release_number > 1:
            state.stage_newcomers()
        class_columns = (*job.quasi_identifiers, *job.by)
        return stage_newcomer_records(state, planned.relation, pending.chain_tables, class_columns)
    if state.release_number == 1:
        return planned.relation
    names = [*job.named_columns, state.chain.entity]
    condition = state.stage_newcomers()
    if state.fetched_persons is not None:
        return copy_newcomers(state, planned.relation, names)
    return source.with_condition(planned.relation, job, names, condition)


def _release_without_newcomers(
    session: Session, state: ChainState, column_statistics: ColumnStatistics | None
) -> Release:
    """Build a release without newcomers, with the columns of the chain.

    Parameters
    ----------
    column_statistics : those of the first release; None at the first release.
    """
    chain = state.chain
    stored_definition = {} if chain.definition is None else chain.definition
    columns: list[ReleasedColumn] = []
    if stored_definition:
        types = dict(session.catalog.list_columns(chain.table_name(session, "value")))
        # The released columns of quasi-identifiers, in the order v0, v1, … of the value table,
        # whose values all rows of a cell share (``is_shared``). This table also has the columns of
        # strata (``by``). Retained columns, k0, k1, …, are left out.
        columns = [
            ReleasedColumn(
                Attribute(column.name, Kind.CATEGORY, sql_type=types[column.state_column]),
                np.empty(0, object),
                renamed_from=column.source,
            )
            for column in sorted(
                (ChainColumn(*entry) for entry in stored_definition["columns"]),
                key=lambda column: int(column.state_column[1:]),
            )
            if column.is_shared and column.source not in dict(stored_definition["job"]["by"])
        ]
    # The measure of squared errors is the default. Without newcomers, the loss is 0 in any measure.
    measure = stored_definition.get("loss_measure", "sse")
    no_classes = Partition(np.empty(0, np.int32))
    return Release(
        partition=no_classes,
        columns=tuple(columns),
        losses=(),
        loss_before_rounding=0.0,
        loss=0.0,
        measure=measure,
        column_statistics=column_statistics,
    )


def _write_state(
    job: Job,
    chain_tables: Sequence[ChainTable],
    state: ChainState,
    planned: Plan,
    source_relation: Relation,
    microdata: Microdata,
    release: Release,
    *,
    is_large_batch: bool,
    typical_class_loss: float | None,
) -> tuple[dict[str, int], tuple[ChainColumn, ...], Release]:
    """Write the next state of the chain into the database.

    Returns three items: counts of changed cells and rows, by name; the columns of the release; and
    the release, with the column types of this database.

    Parameters
    ----------
    source_relation : the relation of all rows of the source.
    microdata, release : the admitted newcomers, and their released classes.
    is_large_batch : True if the state grows so much that planners need new statistics.
    typical_class_loss : at the first release, the loss that later classes are compared with; None
        otherwise.
    """
    session, chain, relation = state.session, state.chain, planned.relation
    retained = [attribute for chain_table in chain_tables for attribute in chain_table.retained]
    by = [source_relation.attribute(name) for name in job.by]
    target = SqlTarget(session)
    typed_columns = tuple(
        target.with_sql_type(column, is_copied=False) for column in release.columns
    )
    release = replace(release, columns=typed_columns)
    newcomer_rows, first_new_cell = None, 0
    if chain.definition is None:
        draft = replace(planned, relation=source_relation).prepare_release(microdata, release)
        # This raises an error if column names would repeat or be too long.
        target.describe_columns(draft, typed_columns, is_copied=False)
        new_definition = definition.build_definition(
            job, planned, release, describe_tables(chain_tables), typical_class_loss
        )
        columns = new_definition["columns"]
        definition_table = session.ledger.table("chain_definition")
        row = (chain.chain_id, state.k, definition.to_json_text(new_definition))
        session.connection.insert_rows(definition_table, ["chain_id", "k", "definition"], [row])
        cell_rows.create_state_tables(
            state,
            [*(column.attribute.sql_type for column in typed_columns), *(a.sql_type for a in by)],
            [a.sql_type for a in retained],
        )
    else:
        columns = chain.definition["columns"]
    models = planned.policy.models
    # With several rows per person, the only compared column is a digest of a person's rows.
    n_compared = 1 if state.has_several_rows_per_person else len(retained)
    # With ``freeze``, displayed rows never change, so no columns were staged to compare rows.
    n_staged_columns = 0 if chain.rules.changes == FREEZE else n_compared
    state.decide_cell_states(
        build_sealed_cells_query(state),
        groups_may_leave=not models,
        n_staged_columns=n_staged_columns,
    )
    # Some models compare classes with the frequencies of values in the first release.
    references = reference.references_from_plain(chain.definition, models, planned.sensitive)
    counts = cell_rows.freeze_changed_cells(state, retained, models, references)
    # Absences are recorded for cells with their states before this release, so before these are
    # overwritten.
    record_absences(state)
    state.write_decided_states()
    if microdata.n_records:
        newcomer_rows = relation
        first_new_cell = state.admit_classes(
            relation, microdata, release.partition, typed_columns, by, is_large_batch
        )
    # Keep the rows that must not change, to check after the update that they have not.
    recount.stage_rows_of_absent(state, len(retained))
    cell_rows.update_displayed_rows(
        state, chain_tables, newcomer_rows, first_new_cell, is_large_batch
    )
    counts["rewritten"] = recount.count_rewritten_rows(state, len(retained))
    return counts, tuple(ChainColumn(*entry) for entry in columns), release


def _recount_state(
    state: ChainState,
    presence: PresenceCounts,
    change_counts: dict[str, int],
    *,
    n_admitted: int,
    n_refused: int,
) -> ChainCounts:
    """Recount the persons, cells and histories of the new state.

    Parameters
    ----------
    change_counts : the counts of changes that ``_write_state`` returned.
    n_admitted : the number of newcomers who were admitted.
    n_refused : the number of newcomers whom privacy models exclude.
    """
    counts = {
        **state.n_cells_by_state,
        "members": presence.n_members,
        "joined": n_admitted,
        **change_counts,
    }
    counts["refused"] = n_refused
    recount.stage_histories(state)
    n_displayed, n_absent = recount.count_displayed_persons(state)
    # Persons in frozen cells count as stale: their rows are not updated from the source.
    counts["absent"], counts["stale"] = n_absent, recount.count_persons_in_frozen_cells(state)
    history_counts = recount.count_histories(state, histories_are_staged=True)
    return ChainCounts(
        sequence=state.release_number,
        persons=n_displayed,
        persons_so_far=recount.count_persons(history_counts),
        rarest_history_persons=min(history_counts, default=0),
        exposed_persons=recount.count_exposed(history_counts, state.k),
        waiting_persons=presence.n_newcomers - n_admitted - n_refused,
        returned_persons=presence.n_returned,
        mismatched_cells=recount.count_mismatched_cells(state),
        rewritten_rows=change_counts["rewritten"],
        refused_persons=n_refused,
        further_counts=counts,
    )


def _add_row_counts(
    state: ChainState,
    chain_counts: ChainCounts,
    row_counts: DisplayedRowCounts,
    columns: Sequence[ChainColumn],
) -> ChainCounts:
    """Add the row counts of a chain with several rows per person to the chain's counts."""
    # The counts of a chain are those of its first table, which has the number 0.
    first_table = 0
    n_rows = row_counts.rows_by_table.get(first_table, 0)
    return replace(
        chain_counts,
        rows=n_rows,
        withheld_rows=row_counts.withheld_by_table.get(first_table, 0),
        rarest_combination_persons=recount.count_sharing_rarest(
            state, [column.state_column for column in columns if column.is_shared]
        ),
        further_counts={
            **chain_counts.further_counts,
            "rows": n_rows,
            "outlying": row_counts.n_persons_over_limit,
        },
    )
