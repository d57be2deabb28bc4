"""Preview the next release of a chain: arrivals, departures and the states of classes.

A *cell* is a class of a chain. *Members* are the persons whom an earlier release has admitted to a
cell. *Displayed* persons are those in the last release.

The states of cells are those of ``membership.CELL_STATES``: live, held, gone and withdrawn. A held
cell is *frozen*: it keeps the rows of the last release, whatever changes in the source. A cell is
*sealed* if no group of members may leave it, because a member was absent and has returned.

Only temporary tables are written. Small counts are not hidden, because the caller can read the
source anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields

from dbanon.data.types import KeywordArguments
from dbanon.errors import pluralize
from dbanon.extensions.chains import definition
from dbanon.extensions.chains import state as chain_state
from dbanon.extensions.chains.key import read_key
from dbanon.extensions.chains.manage import ChainShown, summarize_chain
from dbanon.extensions.chains.membership import ChainState
from dbanon.extensions.chains.newcomers import admits_newcomers
from dbanon.extensions.chains.presence import require_no_turnover
from dbanon.extensions.chains.returns import build_sealed_cells_query
from dbanon.extensions.chains.rows_per_person import (
    ChainTable,
    refuse_models_with_several_rows,
    stage_source,
)
from dbanon.extensions.chains.staging import stage_job_rows
from dbanon.extensions.chains.state import ChainRecord
from dbanon.extensions.chains.tables import build_source, describe_tables, find_chain_tables
from dbanon.extensions.chains.waiting_newcomers import find_longest_wait
from dbanon.job.chain import MEASURE
from dbanon.job.job import Job
from dbanon.run.plan import Plan
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import SqlSource


@dataclass(frozen=True)
class NextRelease:
    """Counts of the persons and classes of a chain's next release, before it is made.

    Parameters
    ----------
    sequence : the number of the release.
    came : number of persons in the source who are not members yet.
    left : number of persons in the last release who are no longer in the source.
    returned : number of persons who came back after a release without them; they are not released
        again.
    waited : number of releases for which the longest-waiting newcomer has waited; 0 if none waits.
    due : True if this release may admit newcomers.
    cells : number of classes by their next state. Rows that have changed since the last release are
        not taken into account, although the release may hold further classes because of them. Empty
        before the first release and in mode ``measure``.
    """

    sequence: int
    came: int
    left: int
    returned: int
    waited: int
    due: bool
    cells: Mapping[str, int] = field(default_factory=dict)

    def pairs(self) -> list[tuple[str, str]]:
        """The counts as pairs of label and text, for people."""
        waits = f"; newcomers have waited for up to {self.waited} releases" if self.waited else ""
        waits += "" if self.due else "; it would admit no newcomers"
        lines = [
            (
                f"release {self.sequence} would have",
                f"{pluralize(self.came, 'newcomer')},"
                f" {pluralize(self.left, 'displayed person')} who left,"
                f" {self.returned} returned{waits}",
            ),
        ]
        if self.cells:
            states = ", ".join(f"{count} {state}" for state, count in self.cells.items())
            lines.append(("classes would be", states))
        return lines


@dataclass(frozen=True)
class PlannedChain(ChainShown):
    """A chain with a preview of its next release.

    Parameters
    ----------
    coming : the preview of the next release; None if there is none.
    """

    coming: NextRelease | None = None

    def pairs(self) -> list[tuple[str, str]]:
        """The chain as pairs of label and text, for people."""
        return [*super().pairs(), *(self.coming.pairs() if self.coming is not None else [])]


def open_chain_source(job: Job, job_source: SqlSource, session: Session) -> SqlSource:
    """Return the source that the next release of a job's chain reads.

    Parameters
    ----------
    job_source : the source of the job. If it is files, their rows are staged in ``session``.
    session : a session on the database that the release goes to.

    Raises
    ------
    ChainNotFound : there is no such chain.
    InvalidParameter : the source is a file, and the chain has several tables.
    """
    assert job.chain is not None
    # A session on files is not persistent: it holds copies of their rows for this run only.
    if not job_source.session.is_persistent:
        # The check of the job's option ``where`` needs a session on the file. The session of
        # ``job_source`` is still open, so use it, and leave it open.
        stage_job_rows(session, job_source, job, lambda: nullcontext(job_source.session))
    else:
        session = job_source.session
    return build_source(session, chain_state.find_chain(session, job.chain.name).rules)


def plan_next_release(job: Job, planned: Plan, session: Session) -> PlannedChain:
    """Preview the next release of a job's chain; run all checks that need no clustering.

    Parameters
    ----------
    session : a session that allows temporary tables.

    Raises
    ------
    ChainNotFound, ChainClosed, ChainKeyWrong, ChainBehind, ChainChanged : the chain cannot be
        continued.
    NullInEntity, ChainEntityRows, ChainTurnover : the persons in the source prevent it.
    """
    assert job.chain is not None
    key = read_key(job.chain.key)
    chain = chain_state.find_chain(session, job.chain.name)
    chain_state.require_can_continue(session, chain, job.chain, key)
    source = build_source(session, chain.rules)
    definition.require_source(chain, job, source, planned.relation)
    refuse_models_with_several_rows(chain, job)
    chain_tables = find_chain_tables(session, job, planned.relation, chain.rules)
    if chain.definition is not None and chain.rules.mode != MEASURE:
        definition.require_same(
            chain, definition.describe_job(job, planned) | describe_tables(chain_tables)
        )
    summary = summarize_chain(chain, chain_state.list_releases(session, chain))
    # ``asdict`` would also convert the field ``forecast`` to a dict, because it is a dataclass.
    summary_fields: KeywordArguments = {
        chain_field.name: getattr(summary, chain_field.name) for chain_field in fields(ChainShown)
    }
    return PlannedChain(
        **summary_fields,
        coming=_count_next_release(job, planned, session, chain, key, chain_tables),
    )


def _count_next_release(
    job: Job,
    planned: Plan,
    session: Session,
    chain: ChainRecord,
    key: bytes,
    chain_tables: Sequence[ChainTable],
) -> NextRelease:
    """Tag the persons in the source and count what the next release would change."""
    assert job.chain is not None
    state = ChainState(session, chain, chain.n_releases + 1, int(job.policy.k))
    # Key material: the bytes that the inner and the outer hash of a tag cover before their input.
    hash_prefixes = chain.hash_prefixes(key)
    # Rows are not compared for a preview, so they are not staged.
    presence = stage_source(state, chain_tables, hash_prefixes, with_rows=False)
    if not job.chain.accept_turnover:
        require_no_turnover(
            state, presence, chain_state.count_absent_at_last_release(session, chain)
        )
    # A chain that only measures has no lasting classes, so each release admits everyone.
    only_measures = chain.rules.mode == MEASURE
    # With privacy models, groups of members may not leave a cell in which others stay: the values
    # of those who left are gone from the source, so the models could not be checked.
    groups_may_leave = not planned.policy.models
    return NextRelease(
        sequence=state.release_number,
        came=presence.n_newcomers,
        left=presence.n_absent,
        returned=presence.n_returned,
        waited=0 if only_measures else find_longest_wait(state),
        due=only_measures or admits_newcomers(state),
        cells={}
        if only_measures
        else state.count_decided_states(
            build_sealed_cells_query(state), groups_may_leave=groups_may_leave
        ),
    )
