"""Preview the next release of a chain: arrivals, departures and the states of classes.

Writes only temporary tables. Counts are exact, because the caller can read the source anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from typing import Any

from dbanon.chain import definition
from dbanon.chain import state as chain_state
from dbanon.chain.key import read_key
from dbanon.chain.manage import ChainShown, summarize_chain
from dbanon.chain.membership import CellState
from dbanon.chain.newcomers import is_due
from dbanon.chain.presence import require_turnover
from dbanon.chain.returns import sealed_cells
from dbanon.chain.rows_per_person import Part, refuse_models_with_several_rows, stage_source
from dbanon.chain.staging import stage_job
from dbanon.chain.state import ChainRecord
from dbanon.chain.tables import describe_tables, parts_of, source_of
from dbanon.chain.waiting_newcomers import longest_wait
from dbanon.job.chain import MEASURE
from dbanon.job.job import Job
from dbanon.run.plan import Plan
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import SqlSource


@dataclass(frozen=True)
class NextRelease:
    """Counts for the next release before it is made.

    Parameters
    ----------
    came : persons who are in the source for the first time.
    left : displayed persons who are no longer in the source.
    returned : persons who came back after their departure was published; they stay out.
    waited : releases that the longest-waiting newcomer has waited; 0 if none waits.
    due : whether newcomers can be admitted with this release.
    cells : the number of classes by the state they would have, judged only by who is present;
        changed values may freeze more classes. Empty before the first release and in mode
        ``measure``.
    """

    sequence: int
    came: int
    left: int
    returned: int
    waited: int
    due: bool
    cells: Mapping[str, int] = field(default_factory=dict)

    def pairs(self) -> list[tuple[str, str]]:
        """As pairs of label and text, for people."""
        wait = f"; newcomers wait for up to {self.waited} releases" if self.waited else ""
        wait += "" if self.due else "; newcomers are not due, and wait"
        lines = [
            (
                f"release {self.sequence} would have",
                f"{self.came} persons who came, {self.left} shown who left,"
                f" {self.returned} returned{wait}",
            ),
        ]
        if self.cells:
            states = ", ".join(f"{count} {state}" for state, count in self.cells.items())
            lines.append(("classes would be", states))
        return lines


@dataclass(frozen=True)
class PlannedChain(ChainShown):
    """A chain with a preview of its next release."""

    coming: NextRelease | None = None

    def pairs(self) -> list[tuple[str, str]]:
        """The chain as pairs of label and text, for people."""
        return [*super().pairs(), *(self.coming.pairs() if self.coming is not None else [])]


def chain_source(job: Job, job_source: SqlSource, session: Session) -> SqlSource:
    """The source that the next release of a job's chain reads.

    Parameters
    ----------
    job_source : the source of the job; rows of files are staged in the chain's database.
    session : on the database that the release goes to.

    Raises
    ------
    ChainNotFound : there is none.
    InvalidParameter : the source is a file, and no database keeps its chain.
    """
    assert job.chain is not None
    if not job_source.session.is_persistent:
        stage_job(session, job_source, job, lambda: nullcontext(job_source.session))
    else:
        session = job_source.session
    return source_of(session, chain_state.find(session, job.chain.name).rules)


def plan_next_release(job: Job, planned: Plan, session: Session) -> PlannedChain:
    """Preview the next release of a job's chain, with all checks that need no classes.

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
    secret = read_key(job.chain.key)
    chain = chain_state.find(session, job.chain.name)
    chain_state.require_request(session, chain, job.chain, secret)
    source = source_of(session, chain.rules)
    definition.require_source(chain, job, source, planned.relation)
    refuse_models_with_several_rows(chain, job)
    parts = parts_of(session, job, planned.relation, chain.rules)
    if chain.definition is not None and chain.rules.mode != MEASURE:
        definition.require_same(
            chain, definition.definition_of(job, planned) | describe_tables(parts)
        )
    history = chain_state.history(session, chain)
    summary = summarize_chain(chain, history)
    values: dict[str, Any] = {
        field_shown.name: getattr(summary, field_shown.name) for field_shown in fields(ChainShown)
    }
    return PlannedChain(
        **values, coming=_count_next_release(job, planned, session, chain, secret, parts)
    )


def _count_next_release(
    job: Job,
    planned: Plan,
    session: Session,
    chain: ChainRecord,
    secret: bytes,
    parts: Sequence[Part],
) -> NextRelease:
    assert job.chain is not None
    state = CellState(session, chain, chain.sequence + 1, int(job.policy.k))
    key_blocks = chain.blocks(secret)
    presence = stage_source(state, parts, key_blocks, rows=False)
    if not job.chain.accept_turnover:
        require_turnover(state, presence, chain_state.absent_before(session, chain))
    measures = chain.rules.mode == MEASURE
    return NextRelease(
        state.sequence,
        presence.newcomers,
        presence.absent,
        presence.returned,
        0 if measures else longest_wait(state),
        measures or is_due(state),
        {}
        if measures
        else state.verdicts(sealed_cells(state), batches_may_leave=not planned.policy.models),
    )
