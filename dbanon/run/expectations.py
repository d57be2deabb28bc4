"""Compare the counts of a source with those its job expects, before any row is read."""

from __future__ import annotations

import json
from collections.abc import Mapping

from dbanon.data.schema import as_identifier
from dbanon.data.types import JsonObject
from dbanon.errors import InvalidParameter, UnexpectedCounts
from dbanon.job.expectations import EXPECTATIONS, PERSONS, ROWS, SHARE_NULL, Expectations
from dbanon.job.job import Job
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName
from dbanon.stores.ports import Source, SourceCounts, Target, W


def require_expected_counts(
    job: Job,
    expectations: Expectations,
    relation: Relation,
    source: Source,
    target: Target[W],
    output: RelationName,
) -> tuple[dict[str, int], JsonObject]:
    """Check that the source has the counts that its job expects.

    Parameters
    ----------
    expectations : the expectations of the job.
    output : the job's output. Expected changes are relative to the last release that this job made
        from this source.

    Returns
    -------
    First the counts by name, for the ledger. Then, for the report, what they were compared with.

    Raises
    ------
    InvalidParameter : the job expects persons, but the rules of its table have no entity.
    UnexpectedCounts : the counts differ, and this run does not accept that.
    """
    # The entity, whose distinct values are the persons; empty without one.
    person_attributes = []
    if job.entity:
        person_attributes = [as_identifier(relation.attribute(job.entity), job.entity_normalize)]
    if PERSONS in expectations.counts and not person_attributes:
        # A job file that lists its columns was already refused if it expects persons and has no
        # entity. Whether declared rules have an entity is only known here.
        raise InvalidParameter(
            "The job expects a number of persons, but no column identifies persons.",
            hint="Declare that column as the entity (dbanon declare), or leave persons out of"
            " expect.",
        )
    counts = source.count_totals(relation, person_attributes, tuple(expectations.share_null))
    last_release = target.last_counts(job, relation.name, output)
    # Totals are the numbers of rows and persons, by these words.
    last_totals = {} if last_release is None else last_release.counts.totals
    breaches = _find_breaches(expectations, counts, last_totals)
    refused_names = [name for name in breaches if name not in job.accept_counts]
    if refused_names:
        raise UnexpectedCounts(
            f"{relation.name} does not have the counts that the job expects; nothing was"
            " published, and the last release stays.",
            detail="; ".join(text for name in refused_names for text in breaches[name]) + ".",
            hint="Check whether the source is complete. If its counts are as they should be, accept"
            f" them with one run of job {job.name}: `accept_counts={json.dumps(refused_names)}`."
            " Later runs compare with the release that it makes.",
        )
    comparison: JsonObject = {
        "compared_with": None if last_release is None else last_release.release_id
    }
    # The job limits the change of these counts, but there is no earlier count to compare with.
    not_compared = [
        name
        for name, bounds in expectations.counts.items()
        if bounds.change is not None and name not in last_totals
    ]
    if not_compared:
        comparison["not_compared"] = not_compared
    if breaches:
        comparison["accepted"] = list(breaches)
    return dict(counts.totals), comparison


def _find_breaches(
    expectations: Expectations, counts: SourceCounts, last_totals: Mapping[str, int]
) -> dict[str, list[str]]:
    """Describe the expectations that are not met, by their names in ``EXPECTATIONS``."""
    breaches: dict[str, list[str]] = {}
    for name, bounds in expectations.counts.items():
        count = counts.totals[name]
        breach = bounds.describe_violation(count, last_totals.get(name))
        if breach is not None:
            breaches[name] = [f"{name}: {count}; {breach}"]
    rows = counts.totals[ROWS]
    breaches[SHARE_NULL] = [
        f'share_null: "{column}" is NULL in {nulls / rows:.1%} of the rows; at most'
        f" {expectations.share_null[column]:.1%} are expected"
        for column, nulls in counts.nulls.items()
        if nulls > expectations.share_null[column] * rows
    ]
    return {name: breaches[name] for name in EXPECTATIONS if breaches.get(name)}
