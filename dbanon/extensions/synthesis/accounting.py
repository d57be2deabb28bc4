"""Noise scales and prices: pure epsilon with Laplace noise, or rho with Gaussian noise.

Every draw has a price in epsilon or rho, computed by the noise source, and prices add up. Replacing
one row lowers one count by 1 and raises another one by 1. The counts of a table thus move by 2 in
the l1 norm (for Laplace noise) and by sqrt(2) in the l2 norm (for Gaussian noise).

Choosing by the exponential mechanism with scores of sensitivity s costs epsilon = 2 s / scale, and
rho = epsilon^2 / 8.

Source: M. Bun and T. Steinke 2016 and, for choices, M. Cesar and R. Rogers, "Bounding,
concentrating, and truncating", ALT 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.extensions.synthesis.noise import Noise
from dbanon.job.synthesis import CONCENTRATED, PURE

Ints = NDArray[np.int64]

# Keeps the price below the amount despite floating-point rounding.
_SLACK = 1 + 1e-12
# The l2 distance that two counts move if each moves by 1, rounded up.
_L2_SENSITIVITY = math.nextafter(math.sqrt(2), 2)


class Accounting(Protocol):
    """Noise scales for an amount of epsilon or rho, and the price of each draw.

    An amount is the share of epsilon or rho that a step may cost, and a price what it costs.
    """

    def count_scale(self, amount: float) -> float:
        """Scale of the noise on all counts of one table, if they may cost ``amount``."""

    def sum_scale(self, amount: float, sensitivity: int) -> float:
        """Scale of the noise on sums that one row moves by ``sensitivity`` in total."""

    def choice_scale(self, amount: float, sensitivity: int) -> float:
        """Scale of the noise on scores, each of which one row moves by at most ``sensitivity``."""

    def variance(self, scale: float) -> float:
        """Variance of noise of this scale."""

    def mean_magnitude(self, scale: float) -> float:
        """Mean absolute value of noise of this scale."""

    def add_noise(self, noise: Noise, values: Ints, scale: float) -> Ints:
        """Add noise to integers."""

    def choose(self, noise: Noise, scores: Ints, scale: float) -> int:
        """Draw the index of a score; higher scores are likelier."""

    def count_price(self, noise: Noise, scale: float) -> float:
        """Price of adding noise to all counts of one table."""

    def choice_price(self, noise: Noise, scale: float, sensitivity: int) -> float:
        """Price of one choice if one row moves each score by at most ``sensitivity``."""


@dataclass(frozen=True)
class PureAccounting:
    """Prices in epsilon."""

    def count_scale(self, amount: float) -> float:
        """See ``Accounting``."""
        # Two counts move by 1 each.
        return 2 / amount * _SLACK

    def sum_scale(self, amount: float, sensitivity: int) -> float:
        """See ``Accounting``."""
        return sensitivity / amount * _SLACK

    def choice_scale(self, amount: float, sensitivity: int) -> float:
        """See ``Accounting``."""
        return 2 * sensitivity / amount * _SLACK

    def variance(self, scale: float) -> float:
        """See ``Accounting``."""
        return 2 * scale**2

    def mean_magnitude(self, scale: float) -> float:
        """See ``Accounting``."""
        return scale

    def add_noise(self, noise: Noise, values: Ints, scale: float) -> Ints:
        """See ``Accounting``."""
        return noise.laplace(values, scale)

    def choose(self, noise: Noise, scores: Ints, scale: float) -> int:
        """See ``Accounting``."""
        return noise.choose(scores, scale)

    def count_price(self, noise: Noise, scale: float) -> float:
        """See ``Accounting``."""
        # The l1 sensitivity: two counts move by 1 each.
        return noise.laplace_price(scale, 2)

    def choice_price(self, noise: Noise, scale: float, sensitivity: int) -> float:
        """See ``Accounting``."""
        return noise.choice_price(scale, sensitivity)


@dataclass(frozen=True)
class ConcentratedAccounting:
    """Prices in rho, for zero-concentrated differential privacy."""

    def count_scale(self, amount: float) -> float:
        """See ``Accounting``."""
        return _L2_SENSITIVITY / math.sqrt(2 * amount) * _SLACK

    def sum_scale(self, amount: float, sensitivity: int) -> float:
        """See ``Accounting``."""
        return sensitivity / math.sqrt(2 * amount) * _SLACK

    def choice_scale(self, amount: float, sensitivity: int) -> float:
        """See ``Accounting``."""
        # The epsilon of a choice that costs ``amount`` in rho is sqrt(8 rho).
        return 2 * sensitivity / math.sqrt(8 * amount) * _SLACK

    def variance(self, scale: float) -> float:
        """See ``Accounting``."""
        return scale**2

    def mean_magnitude(self, scale: float) -> float:
        """See ``Accounting``."""
        return scale * math.sqrt(2 / math.pi)

    def add_noise(self, noise: Noise, values: Ints, scale: float) -> Ints:
        """See ``Accounting``."""
        return noise.gaussian(values, scale)

    def choose(self, noise: Noise, scores: Ints, scale: float) -> int:
        """See ``Accounting``."""
        return noise.choose_concentrated(scores, scale)

    def count_price(self, noise: Noise, scale: float) -> float:
        """See ``Accounting``."""
        return noise.gaussian_price(scale, _L2_SENSITIVITY)

    def choice_price(self, noise: Noise, scale: float, sensitivity: int) -> float:
        """See ``Accounting``."""
        return noise.concentrated_choice_price(scale, sensitivity)


# By the value of the option ``accounting``.
ACCOUNTINGS: dict[str, Accounting] = {
    PURE: PureAccounting(),
    CONCENTRATED: ConcentratedAccounting(),
}
