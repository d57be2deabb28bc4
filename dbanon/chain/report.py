"""The chain's part in the report of a release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dbanon.chain.other_publications import describe_releases_outside
from dbanon.chain.step import ChainUpdate
from dbanon.errors import pluralize
from dbanon.release.report import Report


def add_chain_summary(
    update: ChainUpdate,
    outside: dict[str, str],
    report: Report,
    others: Sequence[Mapping[str, Any]] = (),
    joined: int | None = None,
) -> Report:
    """Add the summary of the chain to the report.

    Parameters
    ----------
    outside : the releases of the same source outside of any chain.
    others, joined : the releases of further tables, and the number of combinations if the tables
        were checked by a join.
    """
    state, histories = update.state, update.histories
    chain: dict[str, Any] = {
        "name": state.chain.name,
        "chain_id": state.chain.identity,
        "sequence": histories.sequence,
        **{name: getattr(state.chain.rules, name) for name in ("mode", "changes")},
        "waiting": histories.waiting,
        "longest_wait": histories.further_counts.get("longest", 0),
        "returned": histories.returned,
        "refused": histories.refused,
    }
    line = f"chain {state.chain.name}, release {histories.sequence}"
    for more, words in (
        _describe_histories(update),
        _describe_displayed(update),
        _describe_withheld(update),
    ):
        chain |= more
        line += words
    if others:
        chain |= {"tables": list(others), "combinations": joined}
        line += f"; released with it: {', '.join(str(table['output']) for table in others)}"
        if joined is not None:
            line += f"; each of {joined} combinations in any of them is at least {state.k} persons'"
    if outside:
        chain["outside"] = len(outside)
        line += f"; {describe_releases_outside(outside, state.chain.source)}"
    report = report.with_request(guarantee=update.guarantee.sentence(update.release.names))
    return report.with_arguments(chain=chain).with_provenance(earlier_releases=line)


_Summary = tuple[dict[str, Any], str]


def _describe_histories(update: ChainUpdate) -> _Summary:
    """Describe how many persons share a history, over this chain and its predecessor."""
    histories, k, chain = update.histories, update.state.k, update.state.chain
    over = "it" if histories.sequence == 1 else f"releases 1 to {histories.sequence}"
    entries: dict[str, Any] = {}
    line = f": every history over {over} is shared by at least {k} persons"
    if update.guarantee.only_measured:
        entries |= {"exposed": histories.exposed, "known": histories.known}
        line = (
            f", measured: of {histories.known} persons {histories.exposed} have a joint history"
            f" over {over} that fewer than {k} share,"
            f" {histories.further_counts['more']} more than before"
        )
    if "pair_known" in histories.further_counts:
        pair = {name: histories.further_counts[name] for name in ("pair_exposed", "pair_known")}
        entries |= {"new_chain_from": chain.rules.new_chain_from, **pair}
        line += (
            f"; with the releases of chain {chain.rules.new_chain_from}, of"
            f" {pair['pair_known']} persons {pair['pair_exposed']} have a joint history that fewer"
            f" than {k} share"
        )
    return entries, line


def _describe_displayed(update: ChainUpdate) -> _Summary:
    """Describe who joined a later release, and the displayed persons who left or are frozen."""
    histories = update.histories
    if update.guarantee.only_measured or histories.sequence == 1:
        return {}, ""
    entries = {
        "joined": histories.further_counts["joined"],
        "left": histories.further_counts["absent"],
    }
    subject = "rows are of persons who left" if histories.rows is None else "persons shown left"
    line = f"; {entries['left']} of {histories.persons} {subject}"
    # Only the owner of the ledger may see what models withhold.
    if not update.planned.policy.models:
        entries["stale"] = histories.further_counts["stale"]
        line += f", {entries['stale']} are of classes that are shown as they were"
    line += (
        f"; the loss is that of the {entries['joined']} persons who joined, as they were then,"
        " not of all rows"
    )
    return entries, line


def _describe_withheld(update: ChainUpdate) -> _Summary:
    """Describe who waits, returned or is excluded, and rows beyond the limit per person."""
    histories, line = update.histories, ""
    longest = histories.further_counts.get("longest", 0)
    if histories.waiting:
        line += f"; {histories.waiting} wait"
        line += f", one for {pluralize(longest, 'release')}" if longest else ""
    for many, words in (
        (histories.returned, "returned"),
        (histories.refused, "excluded by models"),
    ):
        line += f"; {many} {words}" if many else ""
    if histories.rows is None:
        return {}, line
    entries = {"persons": histories.persons, "outlying": histories.further_counts["outlying"]}
    if entries["outlying"]:
        line += (
            f"; {entries['outlying']} persons have more than"
            f" {update.state.chain.rules.max_rows_per_person} rows, of which {histories.beyond} are"
            " withheld"
        )
    return entries, line
