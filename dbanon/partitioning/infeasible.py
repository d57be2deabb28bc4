"""Describes feasible levels when no partition satisfies the privacy models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import share_needed
from dbanon.errors import ModelInfeasible
from dbanon.measures import Model


def infeasible(
    models: Sequence[Model],
    counts: Mapping[str, NDArray[np.int64]],
    table_shares: Mapping[str, NDArray[np.float64]],
    sizes: NDArray[np.integer],
    persons: NDArray[np.int64] | None,
    n: int,
    records: int,
    remedies: Sequence[str],
) -> ModelInfeasible:
    """The error that names feasible levels.

    Parameters
    ----------
    counts, table_shares : by sensitive attribute, int64 (m, s), of each of the m strata as one
        class, and float64 (s,), the shares in the table.
    sizes, persons : int64 (m,), of the strata, in records and in persons; None where models count
        records.
    n : records of the table, withheld ones too.
    records : of the stratum that fails.
    remedies : hints that may help if strata are too small.
    """

    def keep(model: Model) -> NDArray[np.bool_]:
        return model.satisfied(counts[model.attribute], table_shares[model.attribute], persons)

    failing = [model for model in models if not keep(model).all()]
    hints = [
        _feasible(m, m.worst(counts[m.attribute], table_shares[m.attribute], persons))
        for m in failing
    ]
    if len(next(iter(counts.values()))) > 1:
        return ModelInfeasible(
            f"The {records} records of a stratum or pattern of NULLs, which is anonymized"
            " separately, violate the models.",
            hint=f"{'; '.join(hints)}. Lower the level, {_by_withholding(failing, keep, sizes, n)}"
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
    keep: Callable[[Model], NDArray[np.bool_]],
    sizes: NDArray[np.integer],
    n: int,
) -> str:
    """A hint with the budget for withholding the failing strata and keeping the others.

    Empty if models compare classes with the table, which withholding would change.
    """
    if any(model.compares_with_table for model in models):
        return ""
    is_kept = np.logical_and.reduce([keep(model) for model in models])
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
