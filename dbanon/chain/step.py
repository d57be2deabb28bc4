"""Advance a chain by one release: arrivals, departures, new cell states and displayed rows.

Everything happens in one transaction on the chain's database; no data leaves it here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import numpy as np

from dbanon.chain import cell_rows, definition, recount, reference
from dbanon.chain import state as chain_state
from dbanon.chain.cell_rows import exclude_newcomers
from dbanon.chain.linkage import DisplayedColumns
from dbanon.chain.membership import CellState
from dbanon.chain.newcomers import classify_newcomers
from dbanon.chain.persons import stage_newcomers
from dbanon.chain.presence import Presence, require_turnover
from dbanon.chain.presence_arrays import copy_newcomers, match_persons, stage_others
from dbanon.chain.returns import record_absences, sealed_cells
from dbanon.chain.rows_per_person import (
    Part,
    refuse_models_with_several_rows,
    stage_source,
    staged_columns,
)
from dbanon.chain.rows_shown import DisplayedRowCounts, DisplayedSource, count_displayed_rows
from dbanon.chain.state import ChainRecord
from dbanon.chain.tables import columns_of, describe_tables, parts_of, plan_table, source_of
from dbanon.chain.waiting_newcomers import keep_waiting
from dbanon.data.counts import Histories
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import ClusteringResult, Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter
from dbanon.job.chain import FREEZE, MEASURE
from dbanon.job.job import Job
from dbanon.job.of_chain import ChainGuarantee
from dbanon.recoding import ReleasedColumn
from dbanon.release.attribute_disclosure import DisclosiveColumn, PersonSpellings
from dbanon.release.linkage import LinkingColumn
from dbanon.release.recode import Release
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
    """The advanced state of a chain, and the parts of its release.

    Parameters
    ----------
    planned : the plan, whose relation has the rows of newcomers, with their hierarchies.
    release : the classes of admitted newcomers; its columns are those of all persons.
    columns : of the release: name, state column, source column.
    parts : the tables of the chain.
    row_counts : row counts by table; None if each person has one row.
    further_disclosive_columns : like ``disclosive_columns``, for the further tables, by number.
    linking : findings on columns that undo cells, by table number.
    spellings : the entity, if different spellings of one person count as several persons.
    """

    state: CellState
    planned: Plan
    guarantee: ChainGuarantee
    microdata: Microdata
    clustering: ClusteringResult
    release: Release
    columns: tuple[tuple[str, str, str], ...]
    histories: Histories
    disclosive_columns: tuple[DisclosiveColumn, ...]
    presence: Presence
    parts: tuple[Part, ...] = ()
    row_counts: DisplayedRowCounts | None = None
    further_disclosive_columns: Mapping[int, tuple[DisclosiveColumn, ...]] = field(
        default_factory=dict
    )
    spellings: tuple[PersonSpellings, ...] = ()
    linking: Mapping[int, tuple[LinkingColumn, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class PendingRelease:
    """A release of a chain after tagging the persons in the source, before clustering.

    Parameters
    ----------
    planned : the plan, with all rows of the source.
    guarantee : the guarantee that the release must satisfy.
    parts : the tables of the chain, as in ``planned``.
    """

    state: CellState
    source: SqlSource
    planned: Plan
    guarantee: ChainGuarantee
    presence: Presence
    parts: tuple[Part, ...]


def begin(
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
        if session.has_ledger():
            # Migrate ledgers of earlier versions, which do not record absences.
            session.ensure_ledger()
        chain = chain_state.lock_chain(session, request, key)
        source = source_of(session, chain.rules)
        target = None if target_session is not None else SqlTarget(session)
        planned = plan(job, source, target, lambda: tick(0.0))
        definition.require_source(chain, job, source, planned.relation)
        if target_session is not None:
            planned = _with_target(job, planned, source, SqlTarget(target_session), chain)
        measures = chain.rules.mode == MEASURE
        refuse_models_with_several_rows(chain, job)
        parts = [
            replace(
                part, identifiers=source.identifiers(part.relation, [a.name for a in part.retained])
            )
            for part in parts_of(session, job, planned.relation, chain.rules)
        ]
        planned = replace(planned, identifiers=parts[0].identifiers)
        for part in parts[1:] if target_session is not None else ():
            assert target_session is not None
            _require_releasable(plan_table(planned, part), part, SqlTarget(target_session))
        if chain.definition is not None and not measures:
            job_definition = definition.definition_of(job, planned) | describe_tables(parts)
            definition.require_same(chain, job_definition)
        state = CellState(session, chain, chain.sequence + 1, int(job.policy.k))
        blocks = chain.blocks(key)
        retained = staged_columns(chain.rules, parts)
        match = match_persons(state, planned.relation, blocks, retained, job.memory_limit)
        if match is None:
            presence = stage_source(state, parts, blocks, rows=True)
        else:
            matched, presence = match
            state = replace(state, matched=matched)
        if not request.accept_turnover:
            require_turnover(state, presence, chain_state.absent_before(session, chain))
    guarantee = replace(
        cast(ChainGuarantee, planned.guarantee),
        only_measured=measures,
        max_exposed=request.max_exposed,
        tables=len(parts),
    )
    return PendingRelease(state, source, planned, guarantee, presence, tuple(parts))


def advance(pending: PendingRelease, clock: Clock) -> ChainUpdate:
    """Advance a chain by one release: admit newcomers, update cells, and renew displayed rows.

    Raises
    ------
    TraceTooSmall, RecountFailed : the recount of the new state failed.
    """
    state, planned, source, presence = (
        pending.state,
        pending.planned,
        pending.source,
        pending.presence,
    )
    job, session, source_relation = planned.job, state.session, planned.relation
    planned = replace(planned, relation=_read_newcomers(source, job, planned, pending))
    arrivals = classify_newcomers(job, planned, source, state, clock)
    microdata, policy = arrivals.microdata, arrivals.policy
    with clock.phase("write") as tick:
        tick(0.0)
        if state.matched is not None and state.sequence == 1:
            stage_others(state, planned.relation, microdata.keys)
        last_cell = state.last_cell
        exclude_newcomers(state, planned.relation, arrivals.refused)
        admitted = microdata.n_records > 0
        if admitted:
            release = recode_release(planned, policy, source, microdata, arrivals.clustering)
        else:
            release = _empty_release(session, state, arrivals.measures)
        # Large batches change the size of the state, so planner statistics are updated.
        large_batch = 10 * microdata.n_records >= presence.members
        counts, columns, release = _write_state(
            job,
            pending.parts,
            state,
            planned,
            source_relation,
            microdata,
            release,
            large_batch,
            arrivals.typical,
        )
        waiting = presence.newcomers - len(microdata.keys) - len(arrivals.refused)
        counts["longest"] = keep_waiting(state, waiting, last_cell)
        tick(1.0)
    with clock.phase("verify") as tick:
        tick(0.0)
        histories = _histories(state, presence, counts, len(microdata.keys), len(arrivals.refused))
        retained = [attribute for part in pending.parts for attribute in part.retained]
        failing = recount.count_failing(state, retained, policy.models)
        broken, levels = reference.recount_models(state, retained, policy.models, planned.sensitive)
        histories = replace(histories, failing=failing + broken, levels=levels)
        row_counts = None
        if state.several:
            row_counts = count_displayed_rows(state)
            histories = _with_row_counts(state, histories, row_counts, columns)
        pending.guarantee.require_histories(histories)
        tells: dict[int, tuple[DisclosiveColumn, ...]] = {}
        # For small later batches this check would single people out, so skip it.
        if admitted and state.sequence == 1:
            tells = _find_disclosive_columns(pending, planned, microdata, release, columns)
        linking = _find_linking_columns(pending, planned, microdata, release, columns, tells)
    planned = replace(planned, policy=replace(policy, k=state.k))
    return ChainUpdate(
        state,
        planned,
        pending.guarantee,
        microdata,
        arrivals.clustering,
        release,
        columns,
        histories,
        tells.pop(0, ()),
        presence,
        pending.parts,
        row_counts,
        tells,
        linking=linking,
    )


def _find_disclosive_columns(
    pending: PendingRelease,
    planned: Plan,
    microdata: Microdata,
    release: Release,
    columns: tuple[tuple[str, str, str], ...],
) -> dict[int, tuple[DisclosiveColumn, ...]]:
    """The findings on nearly unique columns of a first release, by table number."""
    state, tells = pending.state, {}
    # Rows of waiting newcomers are in the relation, but count as withheld.
    seen = replace(microdata, withheld=pending.presence.newcomers - microdata.n_records)
    for part in pending.parts:
        # No message may depend on who of a cell has which value, so only check uniqueness.
        draft = plan_table(planned, part).prepare_release(seen, release)
        place_of = {name: column for name, column, _ in columns_of(part, columns)}
        of_rows = DisplayedSource(state, part.number, place_of) if state.several else pending.source
        grouped = partial(of_rows.groups, draft)
        tells[part.number] = find_disclosive_columns(
            draft.job, draft.originals, grouped, {}, only_unique=True
        )
    return tells


def _find_linking_columns(
    pending: PendingRelease,
    planned: Plan,
    microdata: Microdata,
    release: Release,
    columns: tuple[tuple[str, str, str], ...],
    tells: Mapping[int, tuple[DisclosiveColumn, ...]],
) -> dict[int, tuple[LinkingColumn, ...]]:
    """The findings on columns that undo cells, by table number."""
    linking, bounds = {}, pending.guarantee.bounds_rows
    for part in pending.parts:
        draft = plan_table(planned, part).prepare_release(microdata, release)
        own_columns = columns_of(part, columns)
        displayed = DisplayedColumns(pending.state, draft, own_columns, part.number, bounds)
        linking[part.number] = find_linking_columns(displayed, tells.get(part.number, ()))
    return linking


def _with_target(
    job: Job, planned: Plan, source: SqlSource, to: SqlTarget, chain: ChainRecord
) -> Plan:
    """Plan the output in another database, so that it is refused before anything is committed."""
    chain_state.require_not_behind(to.session, chain)
    for name in job.named:
        to.require_type(planned.relation.attribute(name))
    if job.policy.intervals == "range":
        raise InvalidParameter(
            "Range types of one database cannot be written to another.",
            hint='Use `intervals="text"`, `intervals="bounds"` or `intervals="midpoint"`.',
        )
    return replace(planned, output=to.plan(job, planned.release_id)).with_source_counts(source, to)


def _require_releasable(planned: Plan, part: Part, to: SqlTarget) -> None:
    """Check that a further table can be released there, before anything is committed."""
    for attribute in part.retained:
        to.require_type(attribute)
    to.plan(planned.job, planned.release_id)


def _read_newcomers(
    source: SqlSource, job: Job, planned: Plan, pending: PendingRelease
) -> Relation:
    """The relation of newcomers' rows; members are never clustered again."""
    state = pending.state
    if state.several:
        if state.sequence > 1:
            state.stage_newcomers()
        shared = (*job.quasi_identifiers, *job.by)
        return stage_newcomers(state, planned.relation, pending.parts, shared)
    if state.sequence == 1:
        return planned.relation
    names = [*job.named, state.chain.entity]
    condition = state.stage_newcomers()
    if state.matched is not None:
        return copy_newcomers(state, planned.relation, names)
    return source.with_condition(planned.relation, job, names, condition)


def _empty_release(session: Session, state: CellState, measures: Measures | None) -> Release:
    """A release without newcomers, with the chain's columns."""
    chain = state.chain
    stored_definition = {} if chain.definition is None else chain.definition
    columns: list[ReleasedColumn] = []
    if stored_definition:
        types = dict(session.columns_of(chain.table(session, "value")))
        columns = [
            ReleasedColumn(
                Attribute(name, Kind.CATEGORY, sql_type=types[column]),
                np.empty(0, object),
                source_name=of,
            )
            for name, column, of in sorted(
                stored_definition["columns"], key=lambda entry: int(entry[1][1:])
            )
            if column.startswith("v") and of not in dict(stored_definition["job"]["by"])
        ]
    measure = stored_definition.get("loss_measure", "sse")
    no_classes = Partition(np.empty(0, np.int32))
    return Release(no_classes, tuple(columns), (), 0.0, 0.0, measure, measures)


def _write_state(
    job: Job,
    parts: Sequence[Part],
    state: CellState,
    planned: Plan,
    source_relation: Relation,
    microdata: Microdata,
    release: Release,
    large_batch: bool,
    typical: float | None,
) -> tuple[dict[str, int], tuple[tuple[str, str, str], ...], Release]:
    """Write the next state; return counts of changes, the columns and the release."""
    session, chain, relation = state.session, state.chain, planned.relation
    retained = [attribute for part in parts for attribute in part.retained]
    by = [source_relation.attribute(name) for name in job.by]
    target = SqlTarget(session)
    typed = tuple(target.with_sql_type(column, False) for column in release.columns)
    release = replace(release, columns=typed)
    came, first = None, 0
    if chain.definition is None:
        draft = replace(planned, relation=source_relation).prepare_release(microdata, release)
        target.columns(draft, typed, False)
        new_definition = definition.build_definition(
            job, planned, release, describe_tables(parts), typical
        )
        columns = new_definition["columns"]
        defined = session.ledger_name("chain_definition")
        row = (chain.chain_id, state.k, definition.as_text(new_definition))
        session.insert_rows(defined, ["chain_id", "k", "definition"], [row])
        cell_rows.make_tables(
            state,
            [*(column.attribute.sql_type for column in typed), *(a.sql_type for a in by)],
            [a.sql_type for a in retained],
        )
    else:
        columns = chain.definition["columns"]
    models = planned.policy.models
    n_compared = 1 if state.several else len(retained)
    staged = 0 if chain.rules.changes == FREEZE else n_compared
    state.decide(sealed_cells(state), batches_may_leave=not models, n_staged=staged)
    references = reference.of_plain(chain.definition, models, planned.sensitive)
    counts = cell_rows.compare(state, retained, models, references)
    record_absences(state)
    state.apply()
    if microdata.n_records:
        came = relation
        first = state.admit(relation, microdata, release.partition, typed, by, large_batch)
    recount.stage_displayed_rows(state, len(retained))
    cell_rows.rewrite(state, parts, came, first, large_batch)
    counts["rewritten"] = recount.count_rewritten(state, len(retained))
    return counts, tuple((name, column, of) for name, column, of in columns), release


def _histories(
    state: CellState, presence: Presence, changed: dict[str, int], admitted: int, refused: int
) -> Histories:
    """Recount the histories of the new state."""
    counts = {**state.cell_counts, "members": presence.members, "joined": admitted, **changed}
    counts["refused"] = refused
    recount.stage_histories(state)
    displayed, absent = recount.count_displayed(state)
    counts["absent"], counts["stale"] = absent, recount.count_stale(state)
    sizes = recount.count_histories(state, staged=True)
    return Histories(
        sequence=state.sequence,
        persons=displayed,
        known=sum(size * many for size, many in sizes.items()),
        smallest=min(sizes, default=0),
        exposed=recount.count_exposed(sizes, state.k),
        waiting=presence.newcomers - admitted - refused,
        returned=presence.returned,
        misplaced=recount.count_misplaced(state),
        rewritten=changed["rewritten"],
        refused=refused,
        further_counts=counts,
    )


def _with_row_counts(
    state: CellState,
    histories: Histories,
    row_counts: DisplayedRowCounts,
    columns: Sequence[tuple[str, str, str]],
) -> Histories:
    """Add the row counts of a chain with several rows per person."""
    rows = row_counts.rows.get(0, 0)
    return replace(
        histories,
        rows=rows,
        beyond=row_counts.beyond.get(0, 0),
        fewest=recount.count_rarest(
            state, [column for _, column, _ in columns if column.startswith("v")]
        ),
        further_counts={**histories.further_counts, "rows": rows, "outlying": row_counts.outlying},
    )
