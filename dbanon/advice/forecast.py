"""Forecasts for chains, simulated class by class at the rates of past releases.

The simulation draws classes at random: persons leave, rows change, and each class is live, held,
withdrawn or dropped by the rules of the chain. Results are averages over many classes, so they are
expectations, not predictions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.job.chain import FREEZE, HOLD, SHOW, WITHDRAW, ChainRules

# Number of further releases to forecast, and of classes to simulate.
_DEFAULT_HORIZON = 12
_CLASSES = 4000
# Larger classes lose more information, so suggest them only above this share of held rows.
_MUCH_HELD = 0.25
# Below this share of new persons per release, suggest to admit them less often.
_FEW_JOIN = 0.02


@dataclass(frozen=True)
class Rates:
    """Changes from one release to the next, as shares of the released persons.

    Parameters
    ----------
    leave, join, change : persons who leave the source, who join it, and whose kept values change.
    """

    leave: float
    join: float
    change: float

    @classmethod
    def of(cls, releases: Sequence[Mapping[str, Any]]) -> Rates | None:
        """The average rates of a chain after its first release; None before the second.

        Parameters
        ----------
        releases : the counts of each release.
        """
        n_leaving = n_joined = n_changed = n_released = n_present = 0.0
        for before, now in pairwise(releases):
            n_released += now["members"]
            n_present += max(now["members"] - now["absent"], 1)
            # Leavers are released persons who are absent, and persons who are no longer released.
            n_left = before["persons"] + now["joined"] - now["persons"]
            n_leaving += max(now["absent"] + n_left - before["absent"], 0)
            n_joined += now["joined"]
            n_changed += now.get("changed", 0)
        if not n_released:
            return None
        return cls(n_leaving / n_released, n_joined / n_released, n_changed / n_present)


@dataclass(frozen=True)
class ChainForecast:
    """The expected state of a chain after further releases.

    Parameters
    ----------
    held, absent, drifted : shares of released rows: in held classes, of persons who left, of
        persons whose values have changed.
    missing : share of persons in the source who are not released.
    advice : suggestions, as texts.
    """

    releases: int
    rates: Rates
    held: float
    absent: float
    drifted: float
    missing: float
    advice: tuple[str, ...]


def forecast(
    rules: ChainRules,
    k: int,
    releases: Sequence[Mapping[str, Any]],
    horizon: int = _DEFAULT_HORIZON,
    *,
    models: bool = False,
) -> ChainForecast | None:
    """Forecast the state of a chain; None before its second release.

    Parameters
    ----------
    releases : the counts of each release so far.
    models : True if the chain has privacy models, which prevents groups from leaving a class.
    """
    groups_leave = rules.changes == SHOW and not models
    rates = Rates.of(releases)
    if rates is None or not releases[-1]["persons"]:
        return None
    last = releases[-1]
    size = max(rules.target_class_size(k), 2)
    n_classes = max(last.get("live", 0) + last.get("held", 0), 1)
    size = max(size, round(last["persons"] / n_classes))
    n_releases = len(releases) - 1 + horizon
    held_share, absent_share, stale_share, missing_share = _simulate(
        rules, k, size, rates, n_releases, groups_leave
    )
    advice = _advice(rules, k, size, rates, held_share, n_releases, groups_leave)
    return ChainForecast(
        horizon, rates, held_share, absent_share, stale_share, missing_share, advice
    )


def _simulate(
    rules: ChainRules, k: int, size: int, rates: Rates, n_releases: int, groups_leave: bool
) -> tuple[float, float, float, float]:
    """Simulate classes over some releases; returns the shares held, absent, stale and missing."""
    rng = np.random.default_rng(1)
    class_sizes = size + rng.integers(0, max(size // 4, 1), _CLASSES)
    is_released = np.arange(int(class_sizes.max())) < class_sizes[:, None]
    is_present, is_stale, n_withdrawn = is_released.copy(), np.zeros_like(is_released), 0.0
    counts = [_counted(is_released, is_present, is_stale, n_withdrawn)]
    for _ in range(n_releases):
        is_present &= rng.random(is_present.shape) >= rates.leave
        is_stale |= is_present & (rng.random(is_present.shape) < rates.change)
        n_absent, n_staying = (is_released & ~is_present).sum(axis=1), is_present.sum(axis=1)
        is_live, is_dropped = (n_absent == 0) & (n_staying > 0), n_staying == 0
        if groups_leave:
            leaves_as_group = (n_absent >= k) & (n_staying >= k)
            is_released[leaves_as_group] = is_present[leaves_as_group]
            is_live |= leaves_as_group
        if rules.departures == WITHDRAW:
            is_dropped |= (n_absent > 0) & ~is_live
        elif rules.withdraw_above is not None:
            is_dropped |= (n_absent > rules.withdraw_above * (n_absent + n_staying)) & ~is_live
        n_withdrawn += float(is_present[is_dropped].sum())
        is_present[is_dropped] = is_released[is_dropped] = False
        _renew(rules, k, is_live & ~is_dropped, is_stale, is_present)
        counts.append(_counted(is_released, is_present, is_stale, n_withdrawn))
    # Persons who joined later form classes like the first ones, only younger.
    counts_by_age = np.array(counts) / float(class_sizes.sum())
    totals = counts_by_age[-1] + rates.join * counts_by_age[:-1].sum(axis=0)
    rows, held_rows, absent_rows, stale_rows, present_rows, missing_rows = totals
    return (
        held_rows / max(rows, 1e-9),
        absent_rows / max(rows, 1e-9),
        stale_rows / max(rows, 1e-9),
        missing_rows / max(present_rows + missing_rows, 1e-9),
    )


def _counted(
    is_released: NDArray[np.bool_],
    is_present: NDArray[np.bool_],
    is_stale: NDArray[np.bool_],
    n_withdrawn: float,
) -> tuple[float, ...]:
    """Rows: released, in held classes, of absent persons, stale, present, and withdrawn."""
    is_held = (is_released & ~is_present).any(axis=1)
    return (
        float(is_released.sum()),
        float(is_released[is_held].sum()),
        float((is_released & ~is_present).sum()),
        float((is_released & is_present & is_stale).sum()),
        float(is_present.sum()),
        n_withdrawn,
    )


def _renew(
    rules: ChainRules,
    k: int,
    is_live: NDArray[np.bool_],
    is_stale: NDArray[np.bool_],
    is_present: NDArray[np.bool_],
) -> None:
    """Update the values of live classes, as the rule for changes allows."""
    if rules.changes == FREEZE:
        return
    is_updated = is_live.copy()
    if rules.changes == HOLD:
        n_stale = (is_stale & is_present).sum(axis=1)
        is_updated &= (n_stale == 0) | (n_stale >= k)
    is_stale[is_updated] = False


def _advice(
    rules: ChainRules,
    k: int,
    size: int,
    rates: Rates,
    held_share: float,
    n_releases: int,
    groups_leave: bool,
) -> tuple[str, ...]:
    texts = []
    if held_share > _MUCH_HELD and groups_leave and size < 10 * k:
        wider_rules = ChainRules(**{**rules.to_plain(), "class_size": 10 * k})
        forecast_share = _simulate(wider_rules, k, 10 * k, rates, n_releases, groups_leave)[0]
        if forecast_share < held_share - 0.05:
            texts.append(
                f"class_size {10 * k} lets leavers go in groups of k: {forecast_share:.0%} of rows"
                " held then, at several times the loss; it is chosen when a chain is made"
            )
    if rates.join < _FEW_JOIN and rules.admit_every == 1 and rates.join > 0:
        texts.append(
            "few persons join, so their classes lose more: admit_every 3 admits more at a time"
        )
    return tuple(texts)


def describe_forecast(result: ChainForecast) -> list[tuple[str, str]]:
    """Describe a forecast as pairs of label and text."""
    rates = result.rates
    return [
        (
            "a release, on average",
            f"{rates.leave:.1%} leave, {rates.join:.1%} join, {rates.change:.1%} change",
        ),
        (
            f"after {result.releases} more releases, about",
            f"{result.held:.0%} of rows in held"
            f" classes, {result.absent:.0%} of persons who left, {result.drifted:.0%} with older"
            f" values; {result.missing:.0%} of persons missing",
        ),
        *(("advice", text) for text in result.advice),
    ]
