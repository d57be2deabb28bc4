"""Add a summary of the chain to the report of a release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dbanon.chain.other_publications import describe_releases_outside
from dbanon.chain.step import ChainUpdate
from dbanon.errors import pluralize
from dbanon.release.report import Report


def add_chain_summary(
    update: ChainUpdate,
    outside_releases: dict[str, str],
    report: Report,
    other_releases: Sequence[Mapping[str, Any]] = (),
    n_combinations: int | None = None,
) -> Report:
    """Add the summary of the chain to the report.

    Parameters
    ----------
    outside_releases : releases of the same source outside of any chain: output names by release id.
    other_releases : for each further table of the chain, the output of its release, and its number
        of rows.
    n_combinations : the number of combinations of values in any of the tables; None if they were
        not counted across tables.
    """
    state, histories = update.state, update.histories
    chain: dict[str, Any] = {
        "name": state.chain.name,
        "chain_id": state.chain.identity,
        "sequence": histories.sequence,
        **{name: getattr(state.chain.rules, name) for name in ("mode", "changes")},
        "waiting": histories.waiting_persons,
        "longest_wait": histories.further_counts.get("longest", 0),
        "returned": histories.returned_persons,
        "refused": histories.refused_persons,
    }
    line = f"chain {state.chain.name}, release {histories.sequence}"
    for entries, text in (
        _describe_histories(update),
        _describe_displayed(update),
        _describe_withheld(update),
    ):
        chain |= entries
        line += text
    if other_releases:
        chain |= {"tables": list(other_releases), "combinations": n_combinations}
        line += f"; released with it: {', '.join(str(table['output']) for table in other_releases)}"
        if n_combinations is not None:
            line += (
                f"; each of {n_combinations} combinations in any of them is at least {state.k}"
                " persons'"
            )
    if outside_releases:
        chain["outside"] = len(outside_releases)
        line += f"; {describe_releases_outside(outside_releases, state.chain.source)}"
    report = report.with_request(guarantee=update.guarantee.describe(update.release.names))
    return report.with_arguments(chain=chain).with_provenance(earlier_releases=line)


# Entries of the summary for JSON, and the text to append to its line in the report.
_Summary = tuple[dict[str, Any], str]


def _describe_histories(update: ChainUpdate) -> _Summary:
    """Describe how many persons share a history in this chain, and jointly in its predecessor."""
    histories, k, chain = update.histories, update.state.k, update.state.chain
    releases = "it" if histories.sequence == 1 else f"releases 1 to {histories.sequence}"
    entries: dict[str, Any] = {}
    line = f": every history over {releases} is shared by at least {k} persons"
    if update.guarantee.only_measured:
        entries |= {"exposed": histories.exposed_persons, "known": histories.persons_so_far}
        line = (
            f", measured: of {histories.persons_so_far} persons {histories.exposed_persons} have a"
            f" joint history over {releases} that fewer than {k} share,"
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
    """Describe, for later releases, how many persons joined, left or are in frozen classes."""
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
    """Describe how many persons wait, have returned or are excluded, and the withheld rows."""
    histories, line = update.histories, ""
    longest = histories.further_counts.get("longest", 0)
    if histories.waiting_persons:
        line += f"; {histories.waiting_persons} wait"
        line += f", one for {pluralize(longest, 'release')}" if longest else ""
    for n_persons, description in (
        (histories.returned_persons, "returned"),
        (histories.refused_persons, "excluded by models"),
    ):
        line += f"; {n_persons} {description}" if n_persons else ""
    if histories.rows is None:
        return {}, line
    entries = {"persons": histories.persons, "outlying": histories.further_counts["outlying"]}
    if entries["outlying"]:
        line += (
            f"; {entries['outlying']} persons have more than"
            f" {update.state.chain.rules.max_rows_per_person} rows, of which"
            f" {histories.withheld_rows} are withheld"
        )
    return entries, line
