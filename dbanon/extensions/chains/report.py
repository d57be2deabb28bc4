"""Add a summary of the chain to the report of a release.

In the counts of a chain, ``rows`` and the other counts of rows are None or 0 if the chain has one
row per person.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.data.types import JsonMapping, JsonObject
from dbanon.errors import pluralize
from dbanon.extensions.chains.other_publications import describe_releases_outside
from dbanon.extensions.chains.step import ChainUpdate
from dbanon.release.report import Report


def add_chain_summary(
    update: ChainUpdate,
    outside_releases: dict[str, str],
    report: Report,
    further_releases: Sequence[JsonMapping] = (),
    n_combinations: int | None = None,
) -> Report:
    """Add the summary of the chain to the report.

    Parameters
    ----------
    outside_releases : by release id, the output names of releases of the same source that belong to
        no chain.
    further_releases : for each further table of the chain, the ``output`` of its release, and the
        number of its ``rows``.
    n_combinations : the number of combinations of values in any of the tables; None if they were
        not counted across tables.
    """
    state, chain_counts = update.state, update.chain_counts
    chain: JsonObject = {
        "name": state.chain.name,
        "chain_id": state.chain.identity,
        "sequence": chain_counts.sequence,
        **{name: getattr(state.chain.rules, name) for name in ("mode", "changes")},
        "waiting": chain_counts.waiting_persons,
        "longest_wait": chain_counts.further_counts.get("longest", 0),
        "returned": chain_counts.returned_persons,
        "refused": chain_counts.refused_persons,
    }
    line = f"chain {state.chain.name}, release {chain_counts.sequence}"
    for entries, text in (
        _describe_histories(update),
        _describe_displayed(update),
        _describe_withheld(update),
    ):
        chain |= entries
        line += text
    if further_releases:
        chain |= {"tables": list(further_releases), "combinations": n_combinations}
        outputs = ", ".join(str(release["output"]) for release in further_releases)
        line += f"; released together with {outputs}"
        if n_combinations is not None:
            line += (
                f"; at least {state.k} persons share each of the {n_combinations} combinations of"
                " values in any of these tables"
            )
    if outside_releases:
        chain["outside"] = len(outside_releases)
        line += f"; {describe_releases_outside(outside_releases, state.chain.source)}"
    report = report.with_request(guarantee=update.guarantee.describe(update.release.names))
    return report.with_arguments(chain=chain).with_provenance(earlier_releases=line)


# A part of the summary: its entries for JSON, and the text to append to the line in the report.
_SummaryPart = tuple[JsonObject, str]


def _describe_histories(update: ChainUpdate) -> _SummaryPart:
    """Describe how many persons share a history in this chain, and in it and its predecessor."""
    chain_counts, k, chain = update.chain_counts, update.state.k, update.state.chain
    releases = "it" if chain_counts.sequence == 1 else f"releases 1 to {chain_counts.sequence}"
    entries: JsonObject = {}
    line = f": every history over {releases} is shared by at least {k} persons"
    if update.guarantee.only_measured:
        entries |= {"exposed": chain_counts.exposed_persons, "known": chain_counts.persons_so_far}
        line = (
            f", measured: of {chain_counts.persons_so_far} persons"
            f" {chain_counts.exposed_persons} have a joint history over {releases} that fewer than"
            f" {k} share, {chain_counts.further_counts['more']} more than before"
        )
    if "pair_known" in chain_counts.further_counts:
        pair = {name: chain_counts.further_counts[name] for name in ("pair_exposed", "pair_known")}
        entries |= {"new_chain_from": chain.rules.new_chain_from, **pair}
        line += (
            f"; with the releases of chain {chain.rules.new_chain_from}, of"
            f" {pair['pair_known']} persons {pair['pair_exposed']} have a joint history that fewer"
            f" than {k} share"
        )
    return entries, line


def _describe_displayed(update: ChainUpdate) -> _SummaryPart:
    """Describe how many persons joined, left or are in frozen classes; empty at a first release."""
    chain_counts = update.chain_counts
    if update.guarantee.only_measured or chain_counts.sequence == 1:
        return {}, ""
    # A displayed person who is absent from the source has left.
    entries = {
        "joined": chain_counts.further_counts["joined"],
        "left": chain_counts.further_counts["absent"],
    }
    subject = (
        "rows are of persons who left" if chain_counts.rows is None else "displayed persons left"
    )
    line = f"; {entries['left']} of {chain_counts.persons} {subject}"
    # With models, readers do not get this number: some of these classes are frozen because of their
    # sensitive values.
    if not update.planned.policy.models:
        entries["stale"] = chain_counts.further_counts["stale"]
        line += f", {entries['stale']} are in classes that are shown unchanged"
    line += f"; the loss is measured on the {entries['joined']} persons who joined, not on all rows"
    return entries, line


def _describe_withheld(update: ChainUpdate) -> _SummaryPart:
    """Describe how many persons wait, have returned or are excluded, and the withheld rows."""
    chain_counts, line = update.chain_counts, ""
    longest = chain_counts.further_counts.get("longest", 0)
    if chain_counts.waiting_persons:
        line += f"; {chain_counts.waiting_persons} waiting"
        line += f", the longest for {pluralize(longest, 'release')}" if longest else ""
    for n_persons, description in (
        (chain_counts.returned_persons, "returned"),
        (chain_counts.refused_persons, "excluded by models"),
    ):
        line += f"; {n_persons} {description}" if n_persons else ""
    if chain_counts.rows is None:
        return {}, line
    entries = {"persons": chain_counts.persons, "outlying": chain_counts.further_counts["outlying"]}
    if entries["outlying"]:
        line += (
            f"; {entries['outlying']} persons have more than"
            f" {update.state.chain.rules.max_rows_per_person} rows, of which"
            f" {chain_counts.withheld_rows} are withheld"
        )
    return entries, line
