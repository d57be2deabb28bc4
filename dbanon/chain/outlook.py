"""What the next release of a chain would come to: who came and left, and what becomes of classes.

Nothing is written that lasts. Persons are counted exactly, as rows are: who is in the
source is taken as known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from typing import Any

from dbanon.chain import definition
from dbanon.chain import state as chain_state
from dbanon.chain.key import read_key
from dbanon.chain.manage import ChainShown, shown_of
from dbanon.chain.membership import CellState
from dbanon.chain.newcomers import is_due
from dbanon.chain.presence import require_turnover
from dbanon.chain.returns import whole_cells
from dbanon.chain.several import Part, require_several, staged
from dbanon.chain.staging import stage_job
from dbanon.chain.state import ChainKept
from dbanon.chain.tables import parts_of, source_of, told_of
from dbanon.chain.waiting import longest_wait
from dbanon.job.chain import MEASURE
from dbanon.job.job import Job
from dbanon.run.plan import Plan
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import SqlSource


@dataclass(frozen=True)
class Coming:
    """What is known of the next release before it is made.

    Parameters
    ----------
    came : persons who are in the source for the first time.
    left : persons on display who are not in the source.
    returned : persons whose leaving was published, and who are back: they stay out.
    waited : for how many releases the one who waits longest has waited; 0 where nobody has.
    due : whether newcomers can be admitted with this release.
    cells : classes by what would become of them, by who is there. Values may hold more of them
        back. Empty before the first release, and where the chain measures.
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
        found = [
            (f"release {self.sequence} would have",
             f"{self.came} persons who came, {self.left} shown who left,"
             f" {self.returned} returned{wait}"),
        ]  # fmt: skip
        if self.cells:
            told = ", ".join(f"{count} {state}" for state, count in self.cells.items())
            found.append(("classes would be", told))
        return found


@dataclass(frozen=True)
class PlannedChain(ChainShown):
    """A chain, and what its next release would come to."""

    coming: Coming | None = None

    def pairs(self) -> list[tuple[str, str]]:
        """The chain as pairs of label and text, for people."""
        return [*super().pairs(), *(self.coming.pairs() if self.coming is not None else [])]


def chain_source(job: Job, reads: SqlSource, session: Session) -> SqlSource:
    """What the next release of the chain that a job names reads.

    Parameters
    ----------
    reads : the source of the job; the rows of a file are staged in the database of its chain.
    session : on the database that the release goes to.

    Raises
    ------
    ChainNotFound : there is none.
    InvalidParameter : the source is a file, and no database keeps its chain.
    """
    assert job.chain is not None
    if not reads.session.is_lasting:
        stage_job(session, reads, job, lambda: nullcontext(reads.session))
    else:
        session = reads.session
    return source_of(session, chain_state.find(session, job.chain.name).rules)


def planned_chain(job: Job, planned: Plan, session: Session) -> PlannedChain:
    """The chain that a job names, after the refusals of its next release that need no classes.

    Parameters
    ----------
    session : one that takes temporary tables.

    Raises
    ------
    ChainNotFound, ChainClosed, ChainKeyWrong, ChainBehind, ChainChanged : it would be refused.
    NullInEntity, ChainEntityRows, ChainTurnover : so it would, for who is in the source.
    """
    assert job.chain is not None
    secret = read_key(job.chain.key)
    chain = chain_state.find(session, job.chain.name)
    chain_state.require_asked(session, chain, job.chain, secret)
    source = source_of(session, chain.rules)
    definition.require_source(chain, job, source, planned.relation)
    require_several(chain, job)
    parts = parts_of(session, job, planned.relation, chain.rules)
    if chain.definition is not None and chain.rules.mode != MEASURE:
        definition.require_same(chain, definition.definition_of(job, planned) | told_of(parts))
    history = chain_state.history(session, chain)
    shown = shown_of(chain, history)
    told: dict[str, Any] = {one.name: getattr(shown, one.name) for one in fields(ChainShown)}
    return PlannedChain(**told, coming=_coming(job, planned, session, chain, secret, parts))


def _coming(
    job: Job,
    planned: Plan,
    session: Session,
    chain: ChainKept,
    secret: bytes,
    parts: Sequence[Part],
) -> Coming:
    assert job.chain is not None
    state = CellState(session, chain, chain.sequence + 1, int(job.policy.k))
    blocks = chain.blocks(secret)
    presence = staged(state, parts, blocks, rows=False)
    if not job.chain.accept_turnover:
        require_turnover(state, presence, chain_state.absent_before(session, chain))
    measures = chain.rules.mode == MEASURE
    return Coming(
        state.sequence,
        presence.newcomers,
        presence.absent,
        presence.returned,
        0 if measures else longest_wait(state),
        measures or is_due(state),
        {} if measures else state.verdicts(whole_cells(state), batches=not planned.policy.models),
    )
