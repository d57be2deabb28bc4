"""What the report of a release says of its chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dbanon.chain.outside import told_outside
from dbanon.chain.step import Advanced
from dbanon.errors import counted
from dbanon.release.report import Report


def told_of_chain(
    made: Advanced,
    outside: dict[str, str],
    report: Report,
    others: Sequence[Mapping[str, Any]] = (),
    joined: int | None = None,
) -> Report:
    """The report with what the chain has to say, and the rows of all its persons.

    Parameters
    ----------
    outside : the releases of the same source that are of no chain.
    others, joined : the releases of further tables, and the combinations that the tables were
        joined by, where they were.
    """
    state, histories = made.state, made.histories
    chain: dict[str, Any] = {
        "name": state.chain.name,
        "chain_id": state.chain.identity,
        "sequence": histories.sequence,
        **{name: getattr(state.chain.rules, name) for name in ("mode", "changes")},
        "waiting": histories.waiting,
        "longest_wait": histories.told.get("longest", 0),
        "returned": histories.returned,
        "refused": histories.refused,
    }
    line = f"chain {state.chain.name}, release {histories.sequence}"
    for more, words in (_of_histories(made), _on_display(made), _kept_back(made)):
        chain |= more
        line += words
    if others:
        chain |= {"tables": list(others), "combinations": joined}
        line += f"; released with it: {', '.join(str(one['output']) for one in others)}"
        if joined is not None:
            line += f"; each of {joined} combinations in any of them is at least {state.k} persons'"
    if outside:
        chain["outside"] = len(outside)
        line += f"; {told_outside(outside, state.chain.source)}"
    report = report.requested(guarantee=made.guarantee.sentence(made.release.names))
    return report.found(chain=chain).made(earlier_releases=line)


Told = tuple[dict[str, Any], str]


def _of_histories(made: Advanced) -> Told:
    """How many share a history, over the chain and over the one that it follows."""
    histories, k, chain = made.histories, made.state.k, made.state.chain
    over = "it" if histories.sequence == 1 else f"releases 1 to {histories.sequence}"
    told: dict[str, Any] = {}
    line = f": every history over {over} is shared by at least {k} persons"
    if made.guarantee.only_measured:
        told |= {"exposed": histories.exposed, "known": histories.known}
        line = (
            f", measured: of {histories.known} persons {histories.exposed} have a joint history"
            f" over {over} that fewer than {k} share, {histories.told['more']} more than before"
        )
    if "pair_known" in histories.told:
        pair = {name: histories.told[name] for name in ("pair_exposed", "pair_known")}
        told |= {"new_chain_from": chain.rules.new_chain_from, **pair}
        line += (
            f"; with the releases of chain {chain.rules.new_chain_from}, of"
            f" {pair['pair_known']} persons {pair['pair_exposed']} have a joint history that fewer"
            f" than {k} share"
        )
    return told, line


def _on_display(made: Advanced) -> Told:
    """Of a later release: who joined, and what is shown of those who left or were held."""
    histories = made.histories
    if made.guarantee.only_measured or histories.sequence == 1:
        return {}, ""
    told = {"joined": histories.told["joined"], "left": histories.told["absent"]}
    whose = "rows are of persons who left" if histories.rows is None else "persons shown left"
    line = f"; {told['left']} of {histories.persons} {whose}"
    # What models hold back is told to nobody but the owner of the ledger.
    if not made.planned.policy.models:
        told["stale"] = histories.told["stale"]
        line += f", {told['stale']} are of classes that are shown as they were"
    line += (
        f"; the loss is that of the {told['joined']} persons who joined, as they were then,"
        " not of all rows"
    )
    return told, line


def _kept_back(made: Advanced) -> Told:
    """Who waits, returned or is kept out, and rows beyond the limit of a person."""
    histories, line = made.histories, ""
    longest = histories.told.get("longest", 0)
    if histories.waiting:
        line += f"; {histories.waiting} wait"
        line += f", one for {counted(longest, 'release')}" if longest else ""
    for many, words in (
        (histories.returned, "returned"),
        (histories.refused, "kept out by models"),
    ):
        line += f"; {many} {words}" if many else ""
    if histories.rows is None:
        return {}, line
    told = {"persons": histories.persons, "outlying": histories.told["outlying"]}
    if told["outlying"]:
        line += (
            f"; {told['outlying']} persons have more than"
            f" {made.state.chain.rules.max_rows_per_person} rows, of which {histories.beyond} are"
            " withheld"
        )
    return told, line
