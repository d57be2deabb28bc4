"""Evaluate a release within the run that makes it.

Only that run can pair each original row with the values released for it. A figure is one measured
value of information loss or of risk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from dbanon.data.extension import load_evaluation
from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.errors import DbanonError, HierarchyBroken, is_out_of_memory
from dbanon.hierarchy.leaves import encode_leaves, take_records
from dbanon.methods.registry import Tick
from dbanon.release.recode import Release
from dbanon.release.report import EvaluationOutcome
from dbanon.run.plan import Plan

T = TypeVar("T")


def evaluate(
    microdata: Microdata, release: Release, tick: Tick
) -> tuple[EvaluationOutcome, JsonMapping | None]:
    """Evaluate a release that is about to be published.

    Returns first the figures for publication, or the reason why there are none, and then the exact
    figures, or None. An error in the evaluation does not fail the run; an error that ``tick``
    raises does.

    Parameters
    ----------
    microdata : all records that were read.
    tick : called with the share of the work that is done, 0 to 1.
    """

    def compute(report_progress: Tick) -> tuple[JsonMapping, JsonMapping]:
        # Import the measures only when needed, so that database backends need less memory.
        from dbanon.measures.catalogue import evaluate as compute_figures
        from dbanon.measures.figure import EvaluationTask, Parameters
        from dbanon.release.evaluation import evaluation_of_figures, pairs_of
        from dbanon.release.figures import publish_figures
        from dbanon.release.publication import compute_published_loss

        records, column_statistics = _restore_suppressed_cells(microdata, release)
        pairs = pairs_of(
            records, release.partition, release.columns, release.hierarchies, column_statistics
        )
        # The default parameters of all measures, such as weights and thresholds.
        parameters = Parameters()
        exact_figures = compute_figures(
            EvaluationTask(pairs, parameters, tick=lambda share: report_progress(share / 2))
        )
        # The loss that the report shows, from sums that readers may see.
        loss = compute_published_loss(release.public_sums, release.measure)
        names = [column.name for column in release.losses]
        # The measure, the loss by column, and the total: the figures that the report has already.
        recorded_losses = (
            release.measure,
            dict(zip(names, loss.columns.tolist(), strict=True)),
            loss.total,
        )
        published = publish_figures(
            pairs,
            exact_figures,
            parameters,
            recorded_losses,
            has_classes_per_column=release.has_classes_per_column,
            tick=lambda share: report_progress(0.5 + share / 2),
        )
        public_evaluation = evaluation_of_figures(pairs, published, parameters)
        exact_evaluation = evaluation_of_figures(pairs, exact_figures, parameters)
        return public_evaluation.to_dict(), exact_evaluation.to_dict()

    public_and_exact, failure = attempt(compute, tick)
    public_figures, exact_figures = (None, None) if public_and_exact is None else public_and_exact
    return EvaluationOutcome(public_figures, failure), exact_figures


def _restore_suppressed_cells(
    microdata: Microdata, release: Release
) -> tuple[Microdata, ColumnStatistics | None]:
    """Return the records with the values of suppressed cells restored, and their column statistics.

    A cell is the value of a record in a column. A suppressed cell is released as NULL, so that its
    record has a more frequent pattern of NULLs.

    The statistics are None if they have to be computed again. A hierarchy that was built from
    released values may lack a suppressed value; then all suppressed cells of that column stay NULL.
    """
    original = microdata.before_suppression
    # None if no cell was suppressed.
    if original is None:
        return microdata, release.column_statistics
    released_records = take_records(original, np.flatnonzero(release.partition.labels >= 0))
    for attribute in original.attributes:
        tree = release.hierarchies.get(attribute.name)
        if tree is None:
            continue
        try:
            # Called for its error: a released record has a value that the tree lacks.
            encode_leaves(released_records, attribute, tree)
        except HierarchyBroken:
            original = _clear_suppressed_cells(original, microdata, attribute)
    return original, None


def _clear_suppressed_cells(
    original: Microdata, suppressed: Microdata, attribute: Attribute
) -> Microdata:
    """Return the original records with one column taken from ``suppressed``.

    In ``suppressed``, the suppressed cells of this column are NULL.
    """
    assert original.valid is not None
    assert suppressed.valid is not None
    valid = original.valid.copy()
    attribute_index = original.attributes.index(attribute)
    valid[:, attribute_index] = suppressed.valid[:, attribute_index]
    # A number is NULL where ``valid`` is False, whatever the array of numbers holds there.
    if attribute.kind.is_numeric:
        return replace(original, valid=valid)
    # Codes and their categories exist for categorical attributes only.
    category_index = original.categorical.index(attribute)
    codes, categories = original.codes.copy(), list(original.categories)
    codes[:, category_index] = suppressed.codes[:, category_index]
    categories[category_index] = suppressed.categories[category_index]
    return replace(original, valid=valid, codes=codes, categories=tuple(categories))


def attack(microdata: Microdata, planned: Plan, release: Release, tick: Tick) -> JsonObject:
    """Attack a release of a random half of the records; the other half is the control group.

    Returns the results, or the reason for a failure under the key ``failed``. An error in the
    attacks does not fail the run; an error that ``tick`` raises does.

    Parameters
    ----------
    microdata : all records that were read.
    planned : the plan, whose policy has the hierarchies of these records.
    tick : called with the share of the work that is done, 0 to 1.
    """
    attacks, failure = _evaluate_by_extension("attacks", microdata, planned, release, tick)
    return {"failed": failure} if attacks is None else attacks


def certify(microdata: Microdata, planned: Plan, release: Release, tick: Tick) -> JsonObject:
    """Compare the loss of the released records with a lower bound.

    Returns the certificate, or the reason for a failure under the key ``failed``. An error in the
    computation does not fail the run; an error that ``tick`` raises does.

    Parameters
    ----------
    microdata : all records that were read.
    tick : called with the share of the work that is done, 0 to 1.
    """
    certificate, failure = _evaluate_by_extension("certificate", microdata, planned, release, tick)
    # The option ``certificate`` is the time limit of the search for a bound.
    limit_seconds = float(planned.policy.certificate or 0.0)
    return {"limit": limit_seconds, **(certificate or {"failed": failure})}


def _evaluate_by_extension(
    option: str, microdata: Microdata, planned: Plan, release: Release, tick: Tick
) -> tuple[JsonObject | None, str | None]:
    """Return the result of an extension's evaluation and None, or None and the reason of failure.

    Parameters
    ----------
    option : the option of ``Policy`` that requests it.
    """

    def compute(report_progress: Tick) -> JsonObject:
        # Import the extension only when needed, to keep database backends small.
        return load_evaluation(option)(microdata, planned, release, report_progress)

    return attempt(compute, tick)


def publish_certificate(exact: JsonMapping) -> JsonObject:
    """Reduce a certificate to what readers may see: by how much the loss exceeds the bound.

    The bound itself would reveal as much about the originals as their exact loss. The simple bound,
    from nearest neighbors alone, is also left out.
    """
    if "failed" in exact:
        return dict(exact)
    # The share by which the loss exceeds the bound, 0.05 for 5 %; None if the bound is 0. Round it
    # up to hundredths. The subtrahend keeps rounding errors from adding a hundredth.
    above = None if exact["above"] is None else math.ceil(100 * exact["above"] - 1e-9) / 100
    return {**exact, "above": above, "lower_bound": None, "simple_bound": None}


def attempt(compute: Callable[[Tick], T], tick: Tick) -> tuple[T | None, str | None]:
    """Return the result of ``compute`` and None, or None and the reason why it failed.

    Errors that ``tick`` raises propagate, because they end the run, as at its time limit.
    """
    tick_errors: list[BaseException] = []

    def report_progress(share: float) -> None:
        try:
            tick(share)
        except BaseException as error:
            tick_errors.append(error)
            raise

    try:
        report_progress(0.0)
        result = compute(report_progress)
        report_progress(1.0)
    except Exception as error:
        if tick_errors:
            raise tick_errors.pop() from None
        return None, _describe_failure(error)
    finally:
        # Break the reference cycle between this frame and the error's traceback.
        tick_errors.clear()
    return result, None


def _describe_failure(error: Exception) -> str:
    """Describe why an evaluation failed.

    For errors of other packages, name only the class, because their messages may quote values.
    """
    if is_out_of_memory(error):
        return "there was too little memory for it"
    if isinstance(error, DbanonError):
        return error.message
    return f"it failed unexpectedly ({type(error).__name__}); please report this"
