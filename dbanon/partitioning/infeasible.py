"""What would be feasible, where no partition keeps to the privacy models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import ModelInfeasible
from dbanon.measures import Model


def infeasible(
    models: Sequence[Model],
    counts: Mapping[str, NDArray[np.int64]],
    wholes: Mapping[str, NDArray[np.float64]],
    records: int,
    n: int,
) -> ModelInfeasible:
    """The error that says what is feasible.

    Parameters
    ----------
    counts, wholes : by sensitive attribute, int64 (m, s), of each of the m strata as one class, and
        float64 (s,), the shares in the table.
    records : of the stratum that fails.
    n : of the table, withheld ones too.
    """

    def fails(model: Model, counts: NDArray[np.int64]) -> bool:
        return not model.satisfied(counts, wholes[model.attribute]).all()

    failing = [model for model in models if fails(model, counts[model.attribute])]
    hints = [_feasible(m, m.worst(counts[m.attribute], wholes[m.attribute])) for m in failing]
    if len(next(iter(counts.values()))) > 1:
        return ModelInfeasible(
            f"The {records} records of a stratum or pattern of NULLs, which classes do not cross,"
            " do not keep to the models.",
            hint="; ".join(hints)
            + f". Ask for less, {_by_withholding(failing, counts, wholes, n)}use"
            ' `nulls="suppress"`, or leave out strata: `by`.',
        )
    values = {m.attribute: int((wholes[m.attribute] > 0).sum()) for m in failing}
    return ModelInfeasible(
        "Even the whole table as one class does not keep to "
        + "; ".join(model.describe() for model in failing)
        + ".",
        hint="; ".join(f'"{name}" has {count} distinct values' for name, count in values.items())
        + "; "
        + "; ".join(hints)
        + ". Ask for less.",
    )


def _by_withholding(
    models: Sequence[Model],
    counts: Mapping[str, NDArray[np.int64]],
    wholes: Mapping[str, NDArray[np.float64]],
    n: int,
) -> str:
    """The budget with which withholding whole strata is enough, where the others stay as they are.

    Not where models compare classes with the table, which is another one then.
    """
    if any(model.compares_with_table for model in models):
        return ""
    kept = np.logical_and.reduce(
        [model.satisfied(counts[model.attribute], wholes[model.attribute]) for model in models]
    )
    if not kept.any():
        return ""
    sizes = counts[models[0].attribute].sum(axis=1)
    withheld = n - sizes[kept].sum()
    share = np.ceil(withheld / n * 1e6) / 1e6
    return f"use `withhold_failing=true` with `max_suppression={share:.6f}` or more, "


def _feasible(model: Model, best: float) -> str:
    """The levels of a model that are in reach, rounded to the safe side."""
    what = f'{model.kind} of "{model.attribute}"'
    if not np.isfinite(best):
        return f"no level of {what} is feasible"
    if model.at_least:
        return f"{what} is feasible up to {np.floor(best * 1e4) / 1e4:g}"
    return f"{what} is feasible from {np.ceil(best * 1e4 + 1) / 1e4:g}"
