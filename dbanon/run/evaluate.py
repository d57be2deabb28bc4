"""Evaluation inside the run that makes a release: only that run has pairs of records."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.errors import DbanonError, HierarchyBroken, is_out_of_memory
from dbanon.hierarchy.leaves import leaf_codes, take_records
from dbanon.job.policy import Policy
from dbanon.methods.registry import Tick
from dbanon.release.recode import Release
from dbanon.release.report import EvaluationOutcome
from dbanon.run.plan import Plan

T = TypeVar("T")


def evaluate(
    microdata: Microdata, release: Release, tick: Tick
) -> tuple[EvaluationOutcome, Mapping[str, Any] | None]:
    """The figures of a release as it is written, or why there are none; and the exact ones.

    A failure of it fails nothing else; what ``tick`` raises does: a cancel, a time limit.

    Parameters
    ----------
    microdata : all records that were read.
    """

    def work(report_progress: Tick) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        # A backend imports the measures only where they are asked for.
        from dbanon.measures.catalogue import evaluate as figures_of
        from dbanon.measures.figure import EvaluationTask, Parameters
        from dbanon.release.evaluation import evaluation_of_figures, pairs_of
        from dbanon.release.figures import publish_figures
        from dbanon.release.publication import compute_published_loss

        records, measures = _records_with_suppressed(microdata, release)
        pairs = pairs_of(records, release.partition, release.columns, release.hierarchies, measures)
        chosen = Parameters()
        exact = figures_of(
            EvaluationTask(pairs, chosen, tick=lambda share: report_progress(share / 2))
        )
        loss = compute_published_loss(release.public, release.measure)
        names = [column.name for column in release.losses]
        losses = release.measure, dict(zip(names, loss.columns.tolist(), strict=True)), loss.total
        public = publish_figures(
            pairs,
            exact,
            chosen,
            losses,
            separate_classes=release.separate_classes,
            tick=lambda share: report_progress(0.5 + share / 2),
        )
        first, last = (evaluation_of_figures(pairs, figures, chosen) for figures in (public, exact))
        return first.to_dict(), last.to_dict()

    public_and_exact, failed = attempt(work, tick)
    public_figures, exact = (None, None) if public_and_exact is None else public_and_exact
    return EvaluationOutcome(public_figures, failed), exact


def _records_with_suppressed(
    microdata: Microdata, release: Release
) -> tuple[Microdata, Measures | None]:
    """The records with the values of suppressed cells, and their measures; None to find them.

    A hierarchy that was built of the released values may lack a suppressed one. The suppressed
    cells of such a column stay NULL.
    """
    full = microdata.unmerged
    if full is None:
        return microdata, release.measures
    released = take_records(full, np.flatnonzero(release.partition.labels >= 0))
    for attribute in full.attributes:
        tree = release.hierarchies.get(attribute.name)
        if tree is None:
            continue
        try:
            leaf_codes(released, attribute, tree)
        except HierarchyBroken:
            full = _without_suppressed(full, microdata, attribute)
    return full, None


def _without_suppressed(full: Microdata, merged: Microdata, attribute: Attribute) -> Microdata:
    """The records with a column of those whose suppressed cells are NULL."""
    assert full.valid is not None
    assert merged.valid is not None
    valid = full.valid.copy()
    column = full.attributes.index(attribute)
    valid[:, column] = merged.valid[:, column]
    if attribute.kind.is_numeric:
        return replace(full, valid=valid)
    position = full.categorical.index(attribute)
    codes, categories = full.codes.copy(), list(full.categories)
    codes[:, position] = merged.codes[:, position]
    categories[position] = merged.categories[position]
    return replace(full, valid=valid, codes=codes, categories=tuple(categories))


def attack(microdata: Microdata, planned: Plan, tick: Tick) -> dict[str, Any]:
    """What attacks reach on a release of a random half of the records, or why that is not known.

    The other half is the control group. A failure of it fails nothing else; what ``tick`` raises
    does.

    Parameters
    ----------
    microdata : all records that were read.
    planned : its policy has the hierarchies of these records.
    """

    def work(report_progress: Tick) -> dict[str, Any]:
        # A backend imports attacks only where they are asked for.
        from dbanon.run.attacks import attacks_on_half

        return attacks_on_half(microdata, planned, report_progress).to_dict()

    attacks, failed = attempt(work, tick)
    return {"failed": failed} if attacks is None else attacks


def certify(microdata: Microdata, release: Release, policy: Policy, tick: Tick) -> dict[str, Any]:
    """The lower bound of the released records beside what they lost, or why there is none.

    A failure of it fails nothing else; what ``tick`` raises does: a cancel, a time limit.

    Parameters
    ----------
    microdata : all records that were read.
    """
    seconds = float(policy.certificate or 0.0)

    def work(report_progress: Tick) -> dict[str, Any]:
        # A backend imports what bounds need only where they are asked for.
        from dbanon.run.bound import bound

        labels = release.partition.labels
        records = np.flatnonzero(labels >= 0)
        classes = Partition(labels[records])
        lower_bound = bound(
            take_records(microdata, records), int(policy.k), seconds, report_progress, [classes]
        )
        above = lower_bound.gap(release.loss)
        return {**lower_bound.to_dict(), "above": above if math.isfinite(above) else None}

    certificate, failed = attempt(work, tick)
    return {"limit": seconds, **(certificate or {"failed": failed})}


def published_certificate(exact: Mapping[str, Any]) -> dict[str, Any]:
    """What readers may see of a certificate: how near the loss is to the least possible one.

    The bound itself would tell as much of the originals as their exact loss does.
    """
    if "failed" in exact:
        return dict(exact)
    # Upwards, in hundredths.
    above = None if exact["above"] is None else math.ceil(100 * exact["above"] - 1e-9) / 100
    return {**exact, "above": above, "lower_bound": None, "simple_bound": None}


def attempt(work: Callable[[Tick], T], tick: Tick) -> tuple[T | None, str | None]:
    """What ``work`` gives, or why there is nothing; what ``tick`` raises is raised."""
    ended: list[BaseException] = []

    def report_progress(share: float) -> None:
        try:
            tick(share)
        except BaseException as error:
            ended.append(error)
            raise

    try:
        report_progress(0.0)
        result = work(report_progress)
        report_progress(1.0)
    except Exception as error:
        if ended:
            raise ended.pop() from None
        return None, _why(error)
    finally:
        # The error's traceback holds this frame.
        ended.clear()
    return result, None


def _why(error: Exception) -> str:
    """Of an error of ours its words; the text of another may quote a value."""
    if is_out_of_memory(error):
        return "there was too little memory for it"
    if isinstance(error, DbanonError):
        return error.message
    return f"it failed unexpectedly ({type(error).__name__}); please report this"
