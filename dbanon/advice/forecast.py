"""Forecasts for chains (series of releases of the same persons).

Classes are simulated at the rates of past releases: persons leave, and values change, at random. A
class is live while all of its persons are present. Once some have left, it is held (still released,
with its old values) or withdrawn (no longer released), depending on the rules of the chain. It is
dropped once all have left. Results are averages over many classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dbanon.data.types import JsonMapping
from dbanon.job.chain import FREEZE, HOLD, SHOW, WITHDRAW, ChainRules

# Number of future releases to forecast.
_DEFAULT_HORIZON = 12
# Number of classes to simulate.
_N_CLASSES = 4000
# Larger classes lose more information: suggest them only if the share of held rows is above this.
_MIN_HELD_SHARE = 0.25
# Suggest larger classes only if they lower the share of held rows by more than this.
_MIN_HELD_SHARE_DROP = 0.05
# If a release has a smaller share of new persons than this, suggest admitting them less often.
_MIN_JOIN_RATE = 0.02


@dataclass(frozen=True)
class Rates:
    """Changes from one release to the next, relative to the number of released persons.

    Parameters
    ----------
    leave : the share of persons who leave the source.
    join : the number of persons who join it, divided by that of the released persons.
    change : of the persons who stay, the share of those whose values in released columns change.
    """

    leave: float
    join: float
    change: float

    @classmethod
    def of(cls, releases: Sequence[JsonMapping]) -> Rates | None:
        """The average rates of a chain after its first release; None before the second.

        Parameters
        ----------
        releases : the counts of persons in each release. ``persons`` are in the release itself. Of
            these, ``absent`` are no longer in the source, ``joined`` are released for the first
            time, and ``changed`` have other values than before. ``members`` are those in the
            release before it, without persons who were removed from the chain in between.
        """
        n_leaving = n_joined = n_changed = n_released = n_present = 0.0
        for previous, current in pairwise(releases):
            n_released += current["members"]
            n_present += max(current["members"] - current["absent"], 1)
            # Leavers are released persons who are absent now and were not before, and persons who
            # are no longer released.
            n_no_longer_released = previous["persons"] + current["joined"] - current["persons"]
            n_leaving += max(current["absent"] + n_no_longer_released - previous["absent"], 0)
            n_joined += current["joined"]
            n_changed += current.get("changed", 0)
        if not n_released:
            return None
        return cls(n_leaving / n_released, n_joined / n_released, n_changed / n_present)


@dataclass(frozen=True)
class ChainForecast:
    """The expected state of a chain after some future releases.

    Parameters
    ----------
    releases : number of future releases.
    rates : the rates of past releases, which the forecast assumes.
    held : share of released rows that are in held classes.
    absent : share of released rows that belong to persons who have left.
    drifted : share of released rows whose values in the source have changed since they were taken.
    missing : share of the persons in the source who are not released.
    advice : suggestions for other rules, as texts.
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
    releases: Sequence[JsonMapping],
    horizon: int = _DEFAULT_HORIZON,
    *,
    has_models: bool = False,
) -> ChainForecast | None:
    """Forecast the state of a chain; None before its second release.

    Parameters
    ----------
    k : the k of the chain.
    releases : the counts of each release so far, with the keys that ``Rates.of`` describes.
    horizon : number of future releases.
    has_models : True if the chain has privacy models. If so, persons who left cannot be removed
        from a class, not even in groups of k.
    """
    # Only with ``SHOW`` do rows of persons who left disappear from a class that others are still
    # in. Models could not be checked, because the values of those who left are gone.
    can_remove_groups = rules.changes == SHOW and not has_models
    rates = Rates.of(releases)
    if rates is None or not releases[-1]["persons"]:
        return None
    last_release = releases[-1]
    # ``live`` and ``held`` count classes, unlike the other keys.
    n_classes = max(last_release.get("live", 0) + last_release.get("held", 0), 1)
    # The size that new classes should have, or the mean size so far if that is larger.
    class_size = max(rules.target_class_size(k), 2, round(last_release["persons"] / n_classes))
    # Simulate the past releases, too: the present state of the classes follows from them.
    n_releases = len(releases) - 1 + horizon
    held_share, absent_share, stale_share, missing_share = _simulate(
        rules, k, class_size, rates, n_releases, can_remove_groups
    )
    return ChainForecast(
        releases=horizon,
        rates=rates,
        held=held_share,
        absent=absent_share,
        drifted=stale_share,
        missing=missing_share,
        advice=_suggest_rules(
            rules, k, class_size, rates, held_share, n_releases, can_remove_groups
        ),
    )


def _simulate(
    rules: ChainRules,
    k: int,
    class_size: int,
    rates: Rates,
    n_releases: int,
    can_remove_groups: bool,
) -> tuple[float, float, float, float]:
    """Simulate classes over some releases.

    Returns the shares ``held``, ``absent``, ``drifted`` and ``missing`` of ``ChainForecast``.
    Drifted values are called stale here.

    Parameters
    ----------
    class_size : the number of persons in a new class.
    n_releases : the number of releases to simulate.
    can_remove_groups : True if k or more persons who have left may be removed from a class.
    """
    rng = np.random.default_rng(1)  # A fixed seed: equal chains get equal forecasts.
    # Classes are up to a quarter larger than the target.
    class_sizes = class_size + rng.integers(0, max(class_size // 4, 1), _N_CLASSES)
    # Flags of persons, bool (n_classes, largest class size).
    is_released = np.arange(int(class_sizes.max())) < class_sizes[:, None]
    is_present, is_stale, n_withdrawn = is_released.copy(), np.zeros_like(is_released), 0.0
    counts = [_count_rows(is_released, is_present, is_stale, n_withdrawn)]
    for _ in range(n_releases):
        is_present &= rng.random(is_present.shape) >= rates.leave
        is_stale |= is_present & (rng.random(is_present.shape) < rates.change)
        n_absent, n_staying = (is_released & ~is_present).sum(axis=1), is_present.sum(axis=1)
        is_live, is_dropped = (n_absent == 0) & (n_staying > 0), n_staying == 0
        if can_remove_groups:
            # Persons who left are removed if they, and those who stay, are at least k each.
            loses_group = (n_absent >= k) & (n_staying >= k)
            is_released[loses_group] = is_present[loses_group]
            is_live |= loses_group
        # With ``WITHDRAW``, a class is withdrawn as soon as someone has left; otherwise, once more
        # than the share ``withdraw_above`` of its persons have left.
        if rules.departures == WITHDRAW:
            is_dropped |= (n_absent > 0) & ~is_live
        elif rules.withdraw_above is not None:
            is_dropped |= (n_absent > rules.withdraw_above * (n_absent + n_staying)) & ~is_live
        n_withdrawn += float(is_present[is_dropped].sum())
        is_present[is_dropped] = is_released[is_dropped] = False
        _update_stale_values(rules, k, is_live & ~is_dropped, is_stale, is_present)
        counts.append(_count_rows(is_released, is_present, is_stale, n_withdrawn))
    # Persons who join later form classes that develop like the first ones, but start later. So the
    # counts of the first classes after j releases, per person, hold for all classes of age j.
    counts_by_age = np.array(counts) / float(class_sizes.sum())
    totals = counts_by_age[-1] + rates.join * counts_by_age[:-1].sum(axis=0)
    rows, held_rows, absent_rows, stale_rows, present_rows, missing_rows = totals
    return (
        held_rows / max(rows, 1e-9),
        absent_rows / max(rows, 1e-9),
        stale_rows / max(rows, 1e-9),
        missing_rows / max(present_rows + missing_rows, 1e-9),
    )


def _count_rows(
    is_released: NDArray[np.bool_],
    is_present: NDArray[np.bool_],
    is_stale: NDArray[np.bool_],
    n_withdrawn: float,
) -> tuple[float, ...]:
    """Count rows of six kinds.

    They are released rows, rows in held classes, rows of absent persons, stale rows, rows of
    present persons, and withdrawn rows.

    Parameters
    ----------
    is_released, is_present, is_stale : bool (n_classes, largest class size), flags of persons.
    n_withdrawn : number of rows of present persons whose class was withdrawn.
    """
    is_held = (is_released & ~is_present).any(axis=1)
    return (
        float(is_released.sum()),
        float(is_released[is_held].sum()),
        float((is_released & ~is_present).sum()),
        float((is_released & is_present & is_stale).sum()),
        float(is_present.sum()),
        n_withdrawn,
    )


def _update_stale_values(
    rules: ChainRules,
    k: int,
    is_live: NDArray[np.bool_],
    is_stale: NDArray[np.bool_],
    is_present: NDArray[np.bool_],
) -> None:
    """Clear ``is_stale`` in live classes whose current values the rule for changes releases.

    ``FREEZE`` never releases changed values, ``HOLD`` releases those of k or more persons of a
    class together, and ``SHOW`` releases all.

    Parameters
    ----------
    is_live : bool (n_classes,), True for classes whose persons are all present.
    is_stale, is_present : bool (n_classes, largest class size), flags of persons.
    """
    if rules.changes == FREEZE:
        return
    is_updated = is_live.copy()
    if rules.changes == HOLD:
        n_stale = (is_stale & is_present).sum(axis=1)
        is_updated &= (n_stale == 0) | (n_stale >= k)
    is_stale[is_updated] = False


def _suggest_rules(
    rules: ChainRules,
    k: int,
    class_size: int,
    rates: Rates,
    held_share: float,
    n_releases: int,
    can_remove_groups: bool,
) -> tuple[str, ...]:
    """Suggest other rules for a chain that would improve its forecast, as texts.

    Parameters
    ----------
    held_share : the forecast share of rows in held classes.
    """
    texts = []
    large_size = 10 * k
    if held_share > _MIN_HELD_SHARE and can_remove_groups and class_size < large_size:
        large_rules = ChainRules(**{**rules.to_plain(), "class_size": large_size})
        large_held_share, *_ = _simulate(
            large_rules, k, large_size, rates, n_releases, can_remove_groups
        )
        if large_held_share < held_share - _MIN_HELD_SHARE_DROP:
            texts.append(
                f"with class_size {large_size}, leavers can be removed in groups of k: about"
                f" {large_held_share:.0%} of rows would be held, but the loss is several times"
                " larger. class_size is fixed when a chain is created"
            )
    # ``admit_every`` is the number of releases from one admission of new persons to the next.
    if rates.join < _MIN_JOIN_RATE and rules.admit_every == 1 and rates.join > 0:
        texts.append(
            "few persons join, so their classes lose more information: admit_every 3 would admit"
            " more of them at once"
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
            f" classes, {result.absent:.0%} of rows of persons who left, {result.drifted:.0%} of"
            f" rows with older values; {result.missing:.0%} of persons missing",
        ),
        *(("advice", text) for text in result.advice),
    ]
