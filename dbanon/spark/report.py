"""The report of a release made on Spark: from what its blocks told and what was counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dbanon.data.counts import Counts
from dbanon.job.verdict import Verdict
from dbanon.measures.information_loss import Loss, loss_of
from dbanon.recoding import find_recoding
from dbanon.recoding.columns import ReleasedColumn
from dbanon.release.recode import ColumnLoss
from dbanon.release.report import Counted, Lost, MadeBy, Report
from dbanon.release.words import now
from dbanon.run.plan import Plan
from dbanon.spark.dataframe import KIND, NAME
from dbanon.spark.pieces import Known
from dbanon.spark.workers import OfBlock
from dbanon.version import version


def lost_of(
    told: Sequence[OfBlock], known: Known, columns: Sequence[ReleasedColumn]
) -> tuple[Lost, dict[str, int]]:
    """What all blocks lose together, added in their order, and what the method counted in them."""
    recoding = find_recoding(str(known.policy.recoding))
    measured = [
        one.source for one in columns if recoding.measure != "iloss" or one.lost is not None
    ]
    before, after = (
        _together([getattr(one, name) for one in told]) for name in ("before", "after")
    )
    losses = {
        name: ColumnLoss(name, float(first), float(last))
        for name, first, last in zip(measured, before.columns, after.columns, strict=True)
    }
    everywhere = [set(one.lost) for one in told]
    completely = tuple(
        a.name for a in known.layout.quasi_identifiers if all(a.name in one for one in everywhere)
    )
    counts: Counter[str] = Counter()
    for one in told:
        counts.update(one.told)
    lost = Lost(after.total, before.total, losses, recoding.measure, None, completely)
    return lost, dict(counts)


def _together(parts: Sequence[tuple[tuple[float, float], ...]]) -> Loss:
    columns = zip(*parts, strict=True)
    return loss_of(
        [(sum(a for a, _ in one), sum(b for _, b in one)) for one in map(tuple, columns)]
    )


def report_of(
    planned: Plan,
    known: Known,
    names: Sequence[str],
    counts: Counts,
    holds: Verdict,
    found: tuple[Lost, dict[str, int]],
    withheld: int,
    seconds: float,
) -> Report:
    """What is said of a release that was counted where it is kept.

    What columns that are released as they are tell is not looked for: the arguments say so.
    """
    lost, told = found
    more: dict[str, Any] = {"telling": None, "engine": "spark"}
    if told:
        more["told"] = told
    return Report(
        planned.request(known.policy, holds, names, (NAME, NAME, KIND), more),
        Counted(counts.rows.rows + withheld, withheld, counts.rows, holds),
        lost,
        MadeBy(
            release_id=planned.release_id,
            created_at=now(),
            dbanon_version=version(),
            relation=NAME,
            seconds={"total": seconds},
        ),
    )
