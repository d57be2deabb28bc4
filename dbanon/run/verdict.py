"""From a plan to questions, and from what was counted to a verdict.

Everything that a guarantee asks of a written release, and all that it refuses, is here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dbanon.data.counts import Counts, Questions, Recount
from dbanon.data.microdata import Microdata
from dbanon.errors import RecountFailed, SourceChanged
from dbanon.measures.models import CountedModel
from dbanon.partitioning.sensitive import levels_reached
from dbanon.release.recode import Release
from dbanon.run.plan import Plan

_REPORT_IT = "This is an error in dbanon: please report it."


@dataclass(frozen=True)
class Verdict:
    """What holds of a release, counted where it was written.

    Parameters
    ----------
    k : what k counts, in the class of fewest: rows, or persons.
    persons : in all; None where rows were counted.
    models : the levels that all classes keep to.
    """

    k: int
    persons: int | None
    models: tuple[CountedModel, ...]

    def arguments(self, plan: Plan) -> dict[str, Any]:
        """What the ledger notes of it."""
        found: dict[str, Any] = {
            "models": [
                {"model": level.model, "counted": level.achieved} | model.plain()
                for level, model in zip(self.models, plan.policy.models, strict=True)
            ]
        }
        if self.persons is not None:
            found |= {"entity": plan.job.entity, "persons": self.persons}
        return found


def questions(plan: Plan, release: Release) -> Questions:
    """What has to be counted on what was written."""
    by = plan.job.by
    names = [column.attribute.name for column in release.columns]
    return Questions(
        columns=(*names, *by),
        each=tuple((name, *by) for name in names) if plan.policy.per_attribute else (),
        persons=plan.job.entity,
        sensitive=tuple(attribute.name for attribute in plan.wanted.sensitive),
        leaves=plan.wanted.leaves,
    )


def verdict(plan: Plan, microdata: Microdata, release: Release, counts: Counts) -> Verdict:
    """Check what was counted, before anyone can see what was written.

    Raises
    ------
    SourceChanged : there are more or fewer rows than records.
    RecountFailed : a class is too small, holds too few persons or breaks a model, or NULLs are
        where none may be.
    """
    k = int(plan.policy.k)
    _require_rows(plan, microdata, release, counts.rows)
    levels = levels_reached(plan.policy.models, plan.sensitive, counts)
    if counts.persons is None:
        return Verdict(counts.rows.smallest, None, levels)
    if counts.persons.histogram != counts.rows.histogram:
        raise RecountFailed(
            "The class sizes of the written relation are not those of the rows whose persons"
            " were counted; nothing was published.",
            hint=_REPORT_IT,
        )
    if counts.persons.smallest < k:
        raise RecountFailed(
            f"The class of fewest persons holds {counts.persons.smallest} distinct values of"
            f' "{plan.job.entity}", fewer than k = {k}; nothing was published.',
            hint=_REPORT_IT,
        )
    return Verdict(counts.persons.smallest, counts.persons.persons, levels)


def _require_rows(plan: Plan, microdata: Microdata, release: Release, recount: Recount) -> None:
    k, rows = int(plan.policy.k), microdata.n_records - release.partition.n_suppressed
    if recount.rows != rows:
        raise SourceChanged(
            f"{rows} records were read, but {recount.rows} rows were written.",
            hint="The source gives other rows each time it is read: anonymize a table, or name"
            " a key that tells every row from every other.",
        )
    if recount.smallest < k:
        raise RecountFailed(
            f"The smallest class counted in the database holds {recount.smallest} rows, fewer"
            f" than k = {k}; nothing was published.",
            hint=_REPORT_IT,
        )
    null_rows = 0
    if microdata.valid is not None and plan.policy.nulls == "category":
        # Records may be withheld for other reasons, those with a NULL among them.
        holes = ~microdata.valid.all(axis=1)
        null_rows = int((holes & (release.partition.labels >= 0)).sum())
    # Strata keep their NULLs.
    if not plan.job.by and recount.null_rows != null_rows:
        raise RecountFailed(
            f"{recount.null_rows} rows with a NULL were written, {null_rows} were expected;"
            " nothing was published.",
            hint=_REPORT_IT,
        )
