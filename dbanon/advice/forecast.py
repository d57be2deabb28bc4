"""What a chain will look like: followed, class by class, at the rates that its releases had.

Classes are drawn, and each goes its way: persons leave, rows change, and the class is live, held,
withdrawn or gone as the chain's rules say. Figures are shares over many classes, so they tell what
is to be expected, not what will be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.job.chain import FREEZE, HOLD, SHOW, WITHDRAW, Rules

RELEASES = 12
_CLASSES = 4000
# A wider class costs loss; beyond this share of held rows it is worth a thought.
_MUCH_HELD = 0.25
_MANY_WAIT = 0.02


@dataclass(frozen=True)
class Rates:
    """What happens from one release to the next, as shares of the persons who are shown.

    Parameters
    ----------
    leave, join, change : persons who leave the source, come, and have a kept value changed.
    """

    leave: float
    join: float
    change: float

    @classmethod
    def of(cls, releases: Sequence[Mapping[str, Any]]) -> Rates | None:
        """The rates of a chain's releases after the first; None where there are none yet.

        Parameters
        ----------
        releases : what was counted of each.
        """
        leave = join = change = shown = there = 0.0
        for before, now in pairwise(releases):
            shown += now["members"]
            there += max(now["members"] - now["absent"], 1)
            # Who is shown and not there left at some time; who was shown and is not, left, too.
            gone = before["persons"] + now["joined"] - now["persons"]
            leave += max(now["absent"] + gone - before["absent"], 0)
            join += now["joined"]
            change += now.get("changed", 0)
        if not shown:
            return None
        return cls(leave / shown, join / shown, change / there)


@dataclass(frozen=True)
class Forecast:
    """What is to be expected after so many more releases.

    Parameters
    ----------
    held, absent, drifted, missing : shares of the rows that are shown: of held classes, of persons
        who left, of persons whose values are others by now; and of all persons in the source those
        who are not shown.
    advice : what would help, in words.
    """

    releases: int
    rates: Rates
    held: float
    absent: float
    drifted: float
    missing: float
    advice: tuple[str, ...]


def forecast(
    rules: Rules,
    k: int,
    releases: Sequence[Mapping[str, Any]],
    more: int = RELEASES,
    *,
    models: bool = False,
) -> Forecast | None:
    """What is to be expected of a chain; None before its second release.

    Parameters
    ----------
    releases : what was counted of each so far.
    models : whether privacy models are kept, so that nobody leaves a class in a group.
    """
    groups_leave = rules.changes == SHOW and not models
    rates = Rates.of(releases)
    if rates is None or not releases[-1]["persons"]:
        return None
    last = releases[-1]
    size = max(rules.size(k), 2)
    cells = max(last.get("live", 0) + last.get("held", 0), 1)
    size = max(size, round(last["persons"] / cells))
    ages = len(releases) - 1 + more
    held, absent, drifted, missing = _follow(rules, k, size, rates, ages, groups_leave)
    advice = _advice(rules, k, size, rates, held, ages, groups_leave)
    return Forecast(more, rates, held, absent, drifted, missing, advice)


def _follow(
    rules: Rules, k: int, size: int, rates: Rates, ages: int, groups_leave: bool
) -> tuple[float, float, float, float]:
    """Held, absent, drifted and missing, as ``Forecast`` has them, of classes of all ages."""
    rng = np.random.default_rng(1)
    of_class = size + rng.integers(0, max(size // 4, 1), _CLASSES)
    shown = np.arange(int(of_class.max())) < of_class[:, None]
    there, stale, lost = shown.copy(), np.zeros_like(shown), 0.0
    found = [_counted(shown, there, stale, lost)]
    for _ in range(ages):
        there &= rng.random(there.shape) >= rates.leave
        stale |= there & (rng.random(there.shape) < rates.change)
        left, stay = (shown & ~there).sum(axis=1), there.sum(axis=1)
        live, gone = (left == 0) & (stay > 0), stay == 0
        if groups_leave:
            batch = (left >= k) & (stay >= k)
            shown[batch] = there[batch]
            live |= batch
        if rules.departures == WITHDRAW:
            gone |= (left > 0) & ~live
        elif rules.withdraw_above is not None:
            gone |= (left > rules.withdraw_above * (left + stay)) & ~live
        lost += float(there[gone].sum())
        there[gone] = shown[gone] = False
        _renew(rules, k, live & ~gone, stale, there)
        found.append(_counted(shown, there, stale, lost))
    # Those who came later are classes like the first ones, and younger.
    by_age = np.array(found) / float(of_class.sum())
    rows, held, absent, drifted, present, missing = by_age[-1] + rates.join * by_age[:-1].sum(
        axis=0
    )
    return (
        held / max(rows, 1e-9),
        absent / max(rows, 1e-9),
        drifted / max(rows, 1e-9),
        missing / max(present + missing, 1e-9),
    )


def _counted(
    shown: NDArray[np.bool_], there: NDArray[np.bool_], stale: NDArray[np.bool_], lost: float
) -> tuple[float, ...]:
    """Rows shown; of these in held classes, of absent and of drifted persons; there; lost."""
    held = (shown & ~there).any(axis=1)
    return (
        float(shown.sum()),
        float(shown[held].sum()),
        float((shown & ~there).sum()),
        float((shown & there & stale).sum()),
        float(there.sum()),
        lost,
    )


def _renew(
    rules: Rules, k: int, live: NDArray[np.bool_], stale: NDArray[np.bool_],
    there: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Live classes show their values anew, as the rule for changes says."""
    if rules.changes == FREEZE:
        return
    fresh = live.copy()
    if rules.changes == HOLD:
        differing = (stale & there).sum(axis=1)
        fresh &= (differing == 0) | (differing >= k)
    stale[fresh] = False


def _advice(
    rules: Rules, k: int, size: int, rates: Rates, held: float, ages: int, groups_leave: bool
) -> tuple[str, ...]:
    words = []
    if held > _MUCH_HELD and groups_leave and size < 10 * k:
        wide = Rules(**{**rules.to_plain(), "class_size": 10 * k})
        then = _follow(wide, k, 10 * k, rates, ages, groups_leave)[0]
        if then < held - 0.05:
            words.append(
                f"class_size {10 * k} lets leavers go in groups of k: {then:.0%} of rows held then,"
                " at several times the loss; it is chosen when a chain is made"
            )
    if rates.join < _MANY_WAIT and rules.admit_every == 1 and rates.join > 0:
        words.append(
            "newcomers are few, and lose more for it: admit_every 3 brings more of them together"
        )
    return tuple(words)


def describe_forecast(found: Forecast) -> list[tuple[str, str]]:
    """A forecast as pairs of label and text, for people."""
    rates = found.rates
    return [
        ("a release, on average", f"{rates.leave:.1%} leave, {rates.join:.1%} join,"
         f" {rates.change:.1%} change"),
        (f"after {found.releases} more releases, about", f"{found.held:.0%} of rows in held"
         f" classes, {found.absent:.0%} of persons who left, {found.drifted:.0%} with older values;"
         f" {found.missing:.0%} of persons missing"),
        *(("advice", text) for text in found.advice),
    ]  # fmt: skip
