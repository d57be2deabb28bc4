"""A release of a chain that only measures: found afresh, and everybody's history is refined."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from dbanon.chain import recount, traces
from dbanon.chain.step import Advanced, Begun
from dbanon.data.counts import Counts, Histories, Questions, Recount
from dbanon.errors import ChainChanged
from dbanon.job.chain_guarantee import OfChain
from dbanon.run.run import Clock, read_and_cluster, recoded, tell
from dbanon.stores.ports import Draft
from dbanon.stores.sql_target import SqlTarget, SqlWritten


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


def advance_measured(begun: Begun, clock: Clock) -> Advanced:
    """Find the classes of everybody in the source, and count whose histories few share then.

    Raises
    ------
    ChainChanged : another k than that of the first release.
    ChainExposed : more persons than allowed would be exposed.
    """
    state, planned, source, chain = begun.state, begun.planned, begun.source, begun.state.chain
    session = state.session
    if chain.k is None:
        row = (chain.chain_id, state.k, json.dumps({"job": {}}))
        defined = session.ledger_name("chain_definition")
        session.insert_rows(defined, ["chain_id", "k", "definition"], [row])
    elif chain.k != state.k:
        raise ChainChanged(f"Chain {chain.name} counts by k = {chain.k}.", hint="Begin another.")
    before = recount.exposed(recount.sizes(state), state.k)
    microdata, policy, found = read_and_cluster(planned, source, clock)
    with clock.phase("write"):
        release = recoded(planned, policy, source, microdata, found)
    with clock.phase("verify"):
        traces.refine(state, planned.relation, microdata, release)
        sizes = recount.sizes(state)
        exposed = recount.exposed(sizes, state.k)
        histories = Histories(
            sequence=state.sequence,
            persons=int(release.partition.sizes.sum()),
            known=sum(size * many for size, many in sizes.items()),
            smallest=min(sizes, default=0),
            exposed=exposed,
            told={"exposed": exposed, "more": exposed - before,
                  "alone": sizes.get(1, 0), "members": begun.presence.members,
                  "absent": begun.presence.absent, "joined": begun.presence.newcomers},
        )  # fmt: skip
        guarantee = begun.guarantee
        assert isinstance(guarantee, OfChain)
        guarantee.require_histories(histories)
        draft = Draft(planned.job, planned.place, planned.relation, planned.wanted, microdata,
                      release)  # fmt: skip
        tells = tell(draft, source, {})
    return Advanced(
        state, replace(planned, policy=policy), guarantee, policy, microdata, found, release, (),
        histories, tells, begun.presence,
    )  # fmt: skip
