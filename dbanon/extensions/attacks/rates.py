"""Rates of right guesses, and the resulting risk, with confidence intervals.

Attacks guess about originals and about a control group that is not part of the release. The risk is
the excess for originals over the rate in the population:

    (attack - reference) / (1 - reference)

where the reference is the rate of the control group, or of random guesses if there is none. Each
rate has a 97.5 % Wilson interval. Both intervals together then hold with a probability of about
95 % or more, even if the rates are dependent, unless there are few guesses. The interval of the
risk combines the least favourable ends of both intervals. Several guesses about one record are
dependent, so intervals use the effective sample size.

Sources: M. Giomi, F. Boenisch, C. Wehmeyer and B. Tasnádi, "A unified framework for quantifying
privacy risk in synthetic data", PoPETs 2023; E. Wilson, "Probable inference, the law of succession,
and statistical inference", JASA 22 (1927); L. Kish, "Survey Sampling", 1965, section 5.4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dbanon.data.types import JsonObject

# Quantiles of the normal distribution for two-sided intervals: 97.5 % for each of two rates, and
# 95 % for a single rate.
_Z_EACH_OF_TWO, _Z_SINGLE = 2.241402727604947, 1.959963984540054


@dataclass(frozen=True)
class Rate:
    """The rate of right guesses.

    Parameters
    ----------
    right : number of right guesses.
    guesses : number of guesses.
    n_effective : effective sample size; None if all guesses are independent.
    """

    right: int
    guesses: int
    n_effective: float | None = field(default=None, compare=False)

    @classmethod
    def of_records(cls, records: NDArray[np.int64], is_right: NDArray[np.bool_]) -> Rate:
        """Build the rate of guesses, several of which may be about the same record.

        Guesses about the same record are correlated. The effective sample size (Kish) is the number
        of independent guesses whose rate would have the same variance. If all guesses are right, or
        all are wrong, it is the number of records.

        Parameters
        ----------
        records : int64 (g,), the record of each guess.
        is_right : bool (g,), True for right guesses.
        """
        n_guesses, n_right = len(is_right), int(is_right.sum())
        _, record_index = np.unique(records, return_inverse=True)
        share = n_right / max(n_guesses, 1)
        # The sum of deviations from the mean, by record.
        deviations = np.bincount(record_index.reshape(-1), is_right - share)
        n_records = len(deviations)
        sum_of_squares = float((deviations**2).sum())
        if sum_of_squares == 0 or n_records < 2:
            return cls(n_right, n_guesses, float(n_records))
        n_effective = share * (1 - share) * n_guesses**2 / sum_of_squares * (1 - 1 / n_records)
        return cls(n_right, n_guesses, min(n_effective, float(n_guesses)))

    @property
    def value(self) -> float | None:
        """The share of right guesses; None without guesses."""
        return self.right / self.guesses if self.guesses else None

    def interval(self, z: float = _Z_SINGLE) -> tuple[float, float]:
        """Return the Wilson interval of the share of right guesses; 0 to 1 without guesses.

        Parameters
        ----------
        z : the normal quantile of the interval's confidence.
        """
        if not self.guesses:
            return 0.0, 1.0
        n, share = self.n_effective or self.guesses, self.right / self.guesses
        middle = (share + z * z / (2 * n)) / (1 + z * z / n)
        half_width = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        low = 0.0 if self.right == 0 else max(middle - half_width, 0.0)
        return low, 1.0 if self.right == self.guesses else min(middle + half_width, 1.0)


NO_GUESSES = Rate(right=0, guesses=0)


def _excess_rate(attack: float, reference: float) -> float:
    """Return the excess of an attack's rate over the reference rate; 0 if the reference is 1."""
    return 0.0 if reference >= 1 else (attack - reference) / (1 - reference)


@dataclass(frozen=True)
class AttackResult:
    """The result of an attack.

    Parameters
    ----------
    attack : the rate of guesses about originals.
    random : the rate of guesses that ignore how values are combined in released rows.
    control : the rate of guesses about records that are not in the release; None without a control
        group.
    columns : results by guessed column, if the attack guesses several columns.
    chance : the exact rate of random guesses; None if unknown.
    note : why there is no figure, or a caveat.
    """

    attack: Rate
    random: Rate
    control: Rate | None = None
    columns: Mapping[str, AttackResult] = field(default_factory=dict)
    chance: float | None = None
    note: str = ""

    @property
    def reference(self) -> Rate:
        """The rate without the release: that of the control group, or of random guesses."""
        return self.random if self.control is None else self.control

    @property
    def risk(self) -> float | None:
        """The excess over the reference, at most 1; 0 or less is no risk. None without guesses."""
        attack = self.attack.value
        reference = self.reference.value if self.chance is None else self.chance
        return None if attack is None or reference is None else _excess_rate(attack, reference)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of the risk's confidence interval of about 95 % or more; may be below 0."""
        if self.risk is None:
            return None
        if self.chance is not None:
            low, high = self.attack.interval()
            return _excess_rate(low, self.chance), _excess_rate(high, self.chance)
        (attack_low, attack_high), (reference_low, reference_high) = (
            rate.interval(_Z_EACH_OF_TWO) for rate in (self.attack, self.reference)
        )
        # If the reference may be 1, the excess has no lower bound.
        low = (
            _excess_rate(attack_low, reference_high) if reference_high < 1 else min(0.0, self.risk)
        )
        return low, _excess_rate(attack_high, reference_low)

    def to_dict(self) -> JsonObject:
        """Return the result as plain values, for JSON."""
        interval = self.interval
        values: JsonObject = {
            "risk": self.risk,
            "interval": None if interval is None else list(interval),
            "guesses": self.attack.guesses,
            "attack": self.attack.value,
            "random": self.random.value if self.chance is None else self.chance,
            "control": None if self.control is None else self.control.value,
            "note": self.note,
        }
        if self.columns:
            values["columns"] = {name: result.to_dict() for name, result in self.columns.items()}
        return values
