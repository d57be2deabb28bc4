"""Recount released design weights: alike in each class, and with the sum that was computed."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, isclose

import numpy as np

from dbanon.data.types import JsonObject
from dbanon.errors import RecountFailed
from dbanon.job.guarantee import REPORT_IT
from dbanon.job.weight import COPIED, MEAN, ROUNDED, WEIGHT_RECORD
from dbanon.recoding import ReleasedColumn
from dbanon.release.homogeneity import ClassHomogeneity
from dbanon.stores.ports import PreparedRelease, Target, W

# Relative difference of two sums of the same numbers, added up in different orders.
_SUM_TOLERANCE = 1e-9


def build_weight_record(draft: PreparedRelease) -> JsonObject:
    """Return what the ledger records of the design weight; empty for a release without one.

    The sum of the released weights is that which readers can compute.
    """
    if draft.job.design_weight is None:
        return {}
    record: JsonObject = {"column": draft.job.design_weight, "as": COPIED}
    if draft.release.weight is not None:
        form = draft.job.weight_as or MEAN
        record |= {"as": form, "sum": _sum_weights(draft.release.weight, draft)}
    return {WEIGHT_RECORD: record}


def _sum_weights(weight: ReleasedColumn, draft: PreparedRelease) -> float:
    """Add up the weights of all released rows."""
    sizes = draft.release.partition.sizes
    # Products of whole numbers could be too large for int64.
    return fsum(np.multiply(weight.values, sizes, dtype=np.float64).tolist())


def require_class_weights(draft: PreparedRelease, target: Target[W], staged_release: W) -> None:
    """Have the target count the weights of classes, and check that they are as promised.

    All rows that readers cannot tell apart have the same weight, at least k rows share each weight,
    and the weights add up to those of the originals. Rounded weights are whole numbers with the sum
    that was computed.

    Raises
    ------
    RecountFailed : the written weights differ.
    """
    weight = draft.release.weight
    if weight is None:
        return
    name = weight.attribute.name
    rows_by_weight = target.count_values(staged_release, name)
    homogeneity = target.count_homogeneous_classes(staged_release, draft.class_columns, name)
    problem = find_weight_problem(
        rows_by_weight,
        homogeneity,
        k=int(draft.job.policy.k),
        rows=int(draft.release.partition.sizes.sum()),
        expected_sum=_sum_weights(weight, draft),
        are_whole=draft.job.weight_as == ROUNDED,
    )
    if problem is not None:
        raise RecountFailed(
            f'The weights in column "{name}" were not written as computed: {problem}; nothing'
            " was published.",
            hint=REPORT_IT,
        )


def find_weight_problem(
    rows_by_weight: Mapping[str | None, int],
    homogeneity: ClassHomogeneity,
    *,
    k: int,
    rows: int,
    expected_sum: float,
    are_whole: bool = False,
) -> str | None:
    """Describe the first error in the weights of a release; None if there is none.

    Parameters
    ----------
    rows_by_weight : the number of rows by weight, which may be NULL.
    homogeneity : how many classes have a single weight.
    k : the number of rows that must share a weight.
    rows : the number of rows of the release.
    expected_sum : the sum of the weights.
    are_whole : whether they must be whole numbers above 0.
    """
    if None in rows_by_weight or sum(rows_by_weight.values()) != rows:
        return "rows have no weight"
    if homogeneity.classes != homogeneity.of_classes:
        return "rows of one class have different weights"
    if rows_by_weight and min(rows_by_weight.values()) < k:
        return f"fewer than k = {k} rows share a weight"
    try:
        total = fsum(float(str(weight)) * count for weight, count in rows_by_weight.items())
    except (ValueError, OverflowError):
        # Texts, infinity of both signs, or a sum beyond float64.
        return "they cannot be added up"
    if are_whole and any(
        float(str(weight)) < 1 or float(str(weight)) % 1 for weight in rows_by_weight
    ):
        return "not all are whole numbers above 0"
    if not isclose(total, expected_sum, rel_tol=_SUM_TOLERANCE):
        return "their sum is not the one that was computed"
    return None
