"""Describes feasible levels when no partition satisfies the privacy models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import share_needed
from dbanon.errors import ModelInfeasible
from dbanon.measures import Model


def infeasible_error(
    models: Sequence[Model],
    counts: Mapping[str, NDArray[np.int64]],
    table_shares: Mapping[str, NDArray[np.float64]],
    sizes: NDArray[np.integer],
    persons: NDArray[np.int64] | None,
    n: int,
    n_failing: int,
    remedies: Sequence[str],
) -> ModelInfeasible:
    """Build the error that names feasible levels.

    Parameters
    ----------
    counts : by sensitive attribute, the frequency of each of its s values in each of the m strata,
        int64 (m, s).
    table_shares : by sensitive attribute, the share of each value in the table, float64 (s,).
    sizes : the number of records in each stratum, int64 (m,).
    persons : the number of persons in each stratum, int64 (m,); None if models count records.
    n : the number of records in the table, including withheld ones.
    n_failing : the number of records in the stratum that fails.
    remedies : hints that may help if strata are too small.
    """

    def satisfied(model: Model) -> NDArray[np.bool_]:
        return model.satisfied(counts[model.attribute], table_shares[model.attribute], persons)

    failing = [model for model in models if not satisfied(model).all()]
    hints = [
        _feasible(m, m.worst(counts[m.attribute], table_shares[m.attribute], persons))
        for m in failing
    ]
    if len(next(iter(counts.values()))) > 1:
        withholding = _by_withholding(failing, satisfied, sizes, n)
        return ModelInfeasible(
            f"The {n_failing} records of a stratum or pattern of NULLs, which is anonymized"
            " separately, violate the models.",
            hint=f"{'; '.join(hints)}. Lower the level, {withholding}"
            f"{', '.join(remedies[:-1])}{', ' if remedies[1:] else ''}or {remedies[-1]}.",
        )
    if persons is not None:
        hints.append("persons are counted, each of whom may have several values")
    values = {m.attribute: int((table_shares[m.attribute] > 0).sum()) for m in failing}
    return ModelInfeasible(
        "Even the whole table as one class violates "
        + "; ".join(model.describe() for model in failing)
        + ".",
        hint="; ".join(f'"{name}" has {count} distinct values' for name, count in values.items())
        + "; "
        + "; ".join(hints)
        + ". Lower the level.",
    )


def _by_withholding(
    models: Sequence[Model],
    satisfied: Callable[[Model], NDArray[np.bool_]],
    sizes: NDArray[np.integer],
    n: int,
) -> str:
    """A hint with the budget for withholding the failing strata and keeping the others.

    Empty if models compare classes with the table, which withholding would change.
    """
    if any(model.compares_with_table for model in models):
        return ""
    is_kept = np.logical_and.reduce([satisfied(model) for model in models])
    if not is_kept.any():
        return ""
    withheld = n - int(sizes[is_kept].sum())
    return (
        f"use `withhold_failing=true` with `max_suppression={share_needed(withheld, n)}` or more, "
    )


def _feasible(model: Model, best: float) -> str:
    """The feasible levels of a model, rounded to the safe side."""
    description = f'{model.kind} of "{model.attribute}"'
    if not np.isfinite(best):
        return f"no level of {description} is feasible"
    if model.at_least:
        return f"{description} is feasible up to {np.floor(best * 1e4) / 1e4:g}"
    return f"{description} is feasible from {np.ceil(best * 1e4 + 1) / 1e4:g}"
