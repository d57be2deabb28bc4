"""A chain goes on: who came and who left, the cells that follow, and the rows that they show.

All of it in one transaction on the database that the chain reads; nothing leaves it here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import numpy as np

from dbanon.chain import cell_rows, definition, recount, reference
from dbanon.chain import state as chain_state
from dbanon.chain.cell_rows import keep_out
from dbanon.chain.linkage import ShownColumns
from dbanon.chain.membership import CellState
from dbanon.chain.newcomers import newcomers
from dbanon.chain.persons import stage_newcomers
from dbanon.chain.presence import Presence, require_turnover
from dbanon.chain.presence_arrays import copy_newcomers, match_persons, stage_others
from dbanon.chain.returns import record_absences, whole_cells
from dbanon.chain.rows_shown import RowsShown, ShownSource, rows_shown
from dbanon.chain.several import Part, kept_beside, require_several, staged
from dbanon.chain.state import ChainKept
from dbanon.chain.tables import columns_of, parts_of, planned_of, source_of, told_of
from dbanon.chain.waiting import keep_waiting
from dbanon.data.counts import Histories
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Found, Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter
from dbanon.job.chain import FREEZE, MEASURE
from dbanon.job.job import Job
from dbanon.job.of_chain import ChainGuarantee
from dbanon.recoding import ReleasedColumn
from dbanon.release.attribute_disclosure import PersonSpellings, TellingColumn
from dbanon.release.linkage import LinkingColumn
from dbanon.release.recode import Release
from dbanon.run.disclosure import telling_columns
from dbanon.run.linkage import linking_columns
from dbanon.run.plan import Plan, plan
from dbanon.run.run import Clock, recode_release
from dbanon.sessions.base import Relation
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import SqlSource
from dbanon.stores.sql_target import SqlTarget


@dataclass(frozen=True, eq=False)
class Advanced:
    """A chain whose state has gone on, and what its release is made of.

    Parameters
    ----------
    planned : with the rows of newcomers as what was read, and the hierarchies that they were
        recoded by.
    release : the classes of those who were admitted; its columns are those of all.
    columns : of the release: name, place in the state, and what it stands for.
    parts : the tables that its persons have rows in.
    shown : the rows of each; None where a person has one row.
    more_tells : as ``tells``, of the further tables, by their numbers.
    linking : findings on columns that undo cells, by the numbers of tables.
    spellings : the entity, where spellings of one person count as several.
    """

    state: CellState
    planned: Plan
    guarantee: ChainGuarantee
    microdata: Microdata
    found: Found
    release: Release
    columns: tuple[tuple[str, str, str], ...]
    histories: Histories
    tells: tuple[TellingColumn, ...]
    presence: Presence
    parts: tuple[Part, ...] = ()
    shown: RowsShown | None = None
    more_tells: Mapping[int, tuple[TellingColumn, ...]] = field(default_factory=dict)
    spellings: tuple[PersonSpellings, ...] = ()
    linking: Mapping[int, tuple[LinkingColumn, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Begun:
    """A release of a chain once everybody in the source was tagged, and nothing else was done.

    Parameters
    ----------
    planned : with all rows of the source.
    guarantee : what the release is to hold.
    parts : the tables that its persons have rows in, as they are in ``planned``.
    """

    state: CellState
    source: SqlSource
    planned: Plan
    guarantee: ChainGuarantee
    presence: Presence
    parts: tuple[Part, ...]


def begin(job: Job, session: Session, key: bytes, clock: Clock, looked: Session | None) -> Begun:
    """Lock a chain, refuse what can be refused, and tag everybody in the source.

    Parameters
    ----------
    looked : a session on the database that the release goes to; None where it is this one.
    """
    asked = job.chain
    assert asked is not None
    with clock.phase("read") as tick:
        tick(0.0)
        if session.has_ledger():
            # An earlier version's knows nobody who is out.
            session.ensure_ledger()
        chain = chain_state.opened(session, asked, key)
        source = source_of(session, chain.rules)
        here = None if looked is not None else SqlTarget(session)
        planned = plan(job, source, here, lambda: tick(0.0))
        definition.require_source(chain, job, source, planned.relation)
        if looked is not None:
            planned = _with_target(job, planned, source, SqlTarget(looked), chain)
        measures = chain.rules.mode == MEASURE
        require_several(chain, job)
        parts = [
            replace(
                part, identifiers=source.identifiers(part.relation, [a.name for a in part.kept])
            )
            for part in parts_of(session, job, planned.relation, chain.rules)
        ]
        planned = replace(planned, identifiers=parts[0].identifiers)
        for part in parts[1:] if looked is not None else ():
            assert looked is not None
            _require_place(planned_of(planned, part), part, SqlTarget(looked))
        if chain.definition is not None and not measures:
            told = definition.definition_of(job, planned) | told_of(parts)
            definition.require_same(chain, told)
        state = CellState(session, chain, chain.sequence + 1, int(job.policy.k))
        blocks = chain.blocks(key)
        kept = kept_beside(chain.rules, parts)
        brought = match_persons(state, planned.relation, blocks, kept, job.memory_limit)
        if brought is None:
            presence = staged(state, parts, blocks, rows=True)
        else:
            matched, presence = brought
            state = replace(state, matched=matched)
        if not asked.accept_turnover:
            require_turnover(state, presence, chain_state.absent_before(session, chain))
    guarantee = replace(
        cast(ChainGuarantee, planned.guarantee),
        only_measured=measures,
        max_exposed=asked.max_exposed,
        tables=len(parts),
    )
    return Begun(state, source, planned, guarantee, presence, tuple(parts))


def advance(begun: Begun, clock: Clock) -> Advanced:
    """Take a chain one release further: who came, who left, and the rows that are to be shown.

    Raises
    ------
    TraceTooSmall, RecountFailed : what was written is not as it must be.
    """
    state, planned, source, presence = begun.state, begun.planned, begun.source, begun.presence
    job, session, whole = planned.job, state.session, planned.relation
    planned = replace(planned, relation=_newcomers(source, job, planned, begun))
    came = newcomers(job, planned, source, state, clock)
    microdata, policy = came.microdata, came.policy
    with clock.phase("write") as tick:
        tick(0.0)
        if state.matched is not None and state.sequence == 1:
            stage_others(state, planned.relation, microdata.keys)
        last_cell = state.last_cell
        keep_out(state, planned.relation, came.refused)
        admitted = microdata.n_records > 0
        if admitted:
            release = recode_release(planned, policy, source, microdata, came.found)
        else:
            release = _of_nobody(session, state, came.measures)
        # As many as change how large the state is: planners are told then.
        many = 10 * microdata.n_records >= presence.members
        changed, columns, release = _advanced(
            job, begun.parts, state, planned, whole, microdata, release, many, came.typical
        )
        waiting = presence.newcomers - len(microdata.keys) - len(came.refused)
        changed["longest"] = keep_waiting(state, waiting, last_cell)
        tick(1.0)
    with clock.phase("verify") as tick:
        tick(0.0)
        histories = _histories(state, presence, changed, len(microdata.keys), len(came.refused))
        kept = [attribute for part in begun.parts for attribute in part.kept]
        failing = recount.failing(state, kept, policy.models)
        broken, levels = reference.recounted(state, kept, policy.models, planned.sensitive)
        histories = replace(histories, failing=failing + broken, levels=levels)
        shown = None
        if state.several:
            shown = rows_shown(state)
            histories = _of_several(state, histories, shown, columns)
        begun.guarantee.require_histories(histories)
        tells: dict[int, tuple[TellingColumn, ...]] = {}
        if admitted and state.sequence == 1:
            # Of the few who come later a column tells what it tells of nobody else.
            # Rows of those who wait are in the relation, and not looked at.
            seen = replace(microdata, withheld=presence.newcomers - microdata.n_records)
            for part in begun.parts:
                # What an exchange inside a cell changes is told to nobody, not even by a refusal.
                draft = planned_of(planned, part).draft(seen, release)
                place_of = {name: place for name, place, _ in columns_of(part, columns)}
                of_rows = ShownSource(state, part.number, place_of) if state.several else source
                grouped = partial(of_rows.groups, draft)
                tells[part.number] = telling_columns(
                    draft.job, draft.originals, grouped, {}, only_unique=True
                )
        linking = {}
        for part in begun.parts:
            draft = planned_of(planned, part).draft(microdata, release)
            bounds = begun.guarantee.bounds_rows
            own = ShownColumns(state, draft, columns_of(part, columns), part.number, bounds)
            linking[part.number] = linking_columns(own, tells.get(part.number, ()))
    planned = replace(planned, policy=replace(policy, k=state.k))
    return Advanced(state, planned, begun.guarantee, microdata, came.found, release, columns,
                    histories, tells.pop(0, ()), presence, begun.parts, shown, tells,
                    linking=linking)  # fmt: skip


def _with_target(
    job: Job, planned: Plan, source: SqlSource, to: SqlTarget, chain: ChainKept
) -> Plan:
    """The plan with its place in another database, which refuses while nothing is committed yet."""
    chain_state.require_not_behind(to.session, chain)
    for name in job.named:
        to.require_type(planned.relation.attribute(name))
    if job.policy.intervals == "range":
        raise InvalidParameter(
            "Ranges of a database's own type do not travel to another one.",
            hint='Use `intervals="text"` or `intervals="bounds"`.',
        )
    return replace(planned, output=to.plan(job, planned.release_id)).expected(source, to)


def _require_place(planned: Plan, part: Part, to: SqlTarget) -> None:
    """Check that a further table can be released there, while nothing is committed yet."""
    for attribute in part.kept:
        to.require_type(attribute)
    to.plan(planned.job, planned.release_id)


def _newcomers(source: SqlSource, job: Job, planned: Plan, begun: Begun) -> Relation:
    """The rows of those who are not in the chain yet: others are never clustered again."""
    state = begun.state
    if state.several:
        if state.sequence > 1:
            state.stage_newcomers()
        shared = (*job.quasi_identifiers, *job.by)
        return stage_newcomers(state, planned.relation, begun.parts, shared)
    if state.sequence == 1:
        return planned.relation
    names = [*job.named, state.chain.entity]
    condition = state.stage_newcomers()
    if state.matched is not None:
        return copy_newcomers(state, planned.relation, names)
    return source.with_condition(planned.relation, job, names, condition)


def _of_nobody(session: Session, state: CellState, measures: Measures | None) -> Release:
    """The release of no newcomers, with the columns that the chain has."""
    chain = state.chain
    told = {} if chain.definition is None else chain.definition
    columns: list[ReleasedColumn] = []
    if told:
        types = dict(session.columns_of(chain.table(session, "value")))
        columns = [
            ReleasedColumn(
                Attribute(name, Kind.CATEGORY, sql_type=types[place]),
                np.empty(0, object),
                source_name=of,
            )
            for name, place, of in sorted(told["columns"], key=lambda one: int(one[1][1:]))
            if place.startswith("v") and of not in dict(told["job"]["by"])
        ]
    measure = told.get("loss_measure", "sse")
    nobody = Partition(np.empty(0, np.int32))
    return Release(nobody, tuple(columns), (), 0.0, 0.0, measure, measures)


def _advanced(
    job: Job,
    parts: Sequence[Part],
    state: CellState,
    planned: Plan,
    whole: Relation,
    microdata: Microdata,
    release: Release,
    many: bool,
    typical: float | None,
) -> tuple[dict[str, int], tuple[tuple[str, str, str], ...], Release]:
    """Write the next state; what changed, and the columns of the release."""
    session, chain, relation = state.session, state.chain, planned.relation
    kept = [attribute for part in parts for attribute in part.kept]
    by = [whole.attribute(name) for name in job.by]
    target = SqlTarget(session)
    typed = tuple(target.with_sql_type(column, False) for column in release.columns)
    release = replace(release, columns=typed)
    came, first = None, 0
    if chain.definition is None:
        draft = replace(planned, relation=whole).draft(microdata, release)
        target.columns(draft, typed, False)
        told = definition.made(job, planned, release, told_of(parts), typical)
        columns = told["columns"]
        defined = session.ledger_name("chain_definition")
        row = (chain.chain_id, state.k, definition.as_text(told))
        session.insert_rows(defined, ["chain_id", "k", "definition"], [row])
        cell_rows.make_tables(
            state,
            [*(column.attribute.sql_type for column in typed), *(a.sql_type for a in by)],
            [a.sql_type for a in kept],
        )
    else:
        columns = chain.definition["columns"]
    models = planned.policy.models
    told_by = 1 if state.several else len(kept)
    staged = 0 if chain.rules.changes == FREEZE else told_by
    state.decide(whole_cells(state), batches=not models, kept=staged)
    beside = reference.of_plain(chain.definition, models, planned.sensitive)
    changed = cell_rows.compare(state, kept, models, beside)
    record_absences(state)
    state.apply()
    if microdata.n_records:
        came = relation
        first = state.admit(relation, microdata, release.partition, typed, by, many)
    recount.remember(state, len(kept))
    cell_rows.rewrite(state, parts, came, first, many)
    changed["rewritten"] = recount.rewritten(state, len(kept))
    return changed, tuple((name, place, of) for name, place, of in columns), release


def _histories(
    state: CellState, presence: Presence, changed: dict[str, int], admitted: int, refused: int
) -> Histories:
    """What the new state holds, counted again."""
    told = {**state.counted, "members": presence.members, "joined": admitted, **changed}
    told["refused"] = refused
    recount.stage_histories(state)
    shown, absent = recount.on_display(state)
    told["absent"], told["stale"] = absent, recount.stale(state)
    sizes = recount.sizes(state, staged=True)
    return Histories(
        sequence=state.sequence,
        persons=shown,
        known=sum(size * many for size, many in sizes.items()),
        smallest=min(sizes, default=0),
        exposed=recount.exposed(sizes, state.k),
        waiting=presence.newcomers - admitted - refused,
        returned=presence.returned,
        misplaced=recount.misplaced(state),
        rewritten=changed["rewritten"],
        refused=refused,
        told=told,
    )


def _of_several(
    state: CellState,
    histories: Histories,
    shown: RowsShown,
    columns: Sequence[tuple[str, str, str]],
) -> Histories:
    """What was counted, with the rows of persons who have several."""
    rows = shown.rows.get(0, 0)
    return replace(
        histories,
        rows=rows,
        beyond=shown.beyond.get(0, 0),
        fewest=recount.fewest(state, [place for _, place, _ in columns if place.startswith("v")]),
        told={**histories.told, "rows": rows, "outlying": shown.outlying},
    )
