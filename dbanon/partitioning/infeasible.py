"""Build the error for privacy models that no partition satisfies, with their feasible levels.

The level of a model is its parameter, such as the l of l-diversity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import required_share_text
from dbanon.errors import ModelInfeasible
from dbanon.measures import Model


def infeasible_error(
    models: Sequence[Model],
    counts: Mapping[str, NDArray[np.int64]],
    table_shares: Mapping[str, NDArray[np.float64]],
    sizes: NDArray[np.integer],
    persons: NDArray[np.int64] | None,
    n_table: int,
    n_failing: int,
    remedies: Sequence[str],
) -> ModelInfeasible:
    """Build the error for privacy models that no partition satisfies, with their feasible levels.

    Parameters
    ----------
    models : all models of the policy.
    counts : by sensitive attribute, the frequency of each of its s values in each of the m strata,
        int64 (m, s).
    table_shares : by sensitive attribute, the share of each value in the table, float64 (s,).
    sizes : int64 (m,), the number of records in each stratum.
    persons : int64 (m,), the number of persons in each stratum; None if models count records.
    n_table : the number of records in the table, including withheld ones.
    n_failing : the number of records in the failing stratum.
    remedies : what else may help if there are several strata, as phrases for the hint, such as
        "leave out `by`"; at least one.
    """

    def satisfied_strata(model: Model) -> NDArray[np.bool_]:
        """Return True for each stratum that satisfies the model as one class."""
        return model.is_satisfied(counts[model.attribute], table_shares[model.attribute], persons)

    violated = [model for model in models if not satisfied_strata(model).all()]
    hints = [
        _feasible_levels(
            m, m.reached_level(counts[m.attribute], table_shares[m.attribute], persons)
        )
        for m in violated
    ]
    if len(next(iter(counts.values()))) > 1:
        withholding = _withholding_hint(violated, satisfied_strata, sizes, n_table)
        return ModelInfeasible(
            f"The {n_failing} records of a stratum or pattern of NULLs, which is anonymized"
            " separately, violate the models.",
            hint=f"{'; '.join(hints)}. Lower the level, {withholding}"
            f"{', '.join(remedies[:-1])}{', ' if remedies[1:] else ''}or {remedies[-1]}.",
        )
    if persons is not None:
        hints.append("persons are counted, each of whom may have several values")
    n_values = {m.attribute: int((table_shares[m.attribute] > 0).sum()) for m in violated}
    return ModelInfeasible(
        "Even the whole table as one class violates "
        + "; ".join(model.describe() for model in violated)
        + ".",
        hint="; ".join(f'"{name}" has {count} distinct values' for name, count in n_values.items())
        + "; "
        + "; ".join(hints)
        + ". Lower the level.",
    )


def _withholding_hint(
    models: Sequence[Model],
    satisfied_strata: Callable[[Model], NDArray[np.bool_]],
    sizes: NDArray[np.integer],
    n_table: int,
) -> str:
    """Return a hint with the ``max_suppression`` that allows withholding the failing strata.

    The hint is empty if models compare classes with the table: withholding would change the table.

    Parameters
    ----------
    models : the violated models.
    satisfied_strata : returns, for a model, bool (m,): True for each stratum that satisfies it.
    sizes : int64 (m,), the number of records in each stratum.
    n_table : the number of records in the table, including withheld ones.
    """
    if any(model.compares_with_table for model in models):
        return ""
    satisfies_all = np.logical_and.reduce([satisfied_strata(model) for model in models])
    if not satisfies_all.any():
        return ""
    n_withheld = n_table - int(sizes[satisfies_all].sum())
    needed = required_share_text(n_withheld, n_table)
    return f"use `withhold_failing=true` with `max_suppression={needed}` or more, "


def _feasible_levels(model: Model, best_level: float) -> str:
    """Describe the feasible levels of a model.

    The limit is rounded to four decimals, in the direction of levels that are surely feasible.

    Parameters
    ----------
    best_level : the best level that all strata reach, each as one class.
    """
    description = f'{model.kind} of "{model.attribute}"'
    if not np.isfinite(best_level):
        return f"no level of {description} is feasible"
    if model.is_higher_stricter:
        return f"{description} is feasible up to {np.floor(best_level * 1e4) / 1e4:g}"
    # Rounded up, and one unit of the last digit more, as a margin.
    return f"{description} is feasible from {np.ceil(best_level * 1e4 + 1) / 1e4:g}"
