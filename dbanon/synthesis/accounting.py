"""Noise scales and prices: pure epsilon with Laplace noise, or rho with Gaussian noise.

Every draw has a price in epsilon or rho, computed by the noise source, and prices add up. Replacing
one row lowers one count by 1 and raises another one by 1. The counts of a table thus move by 2 in
the l1 norm (for Laplace noise) and by sqrt(2) in the l2 norm (for Gaussian noise). Sums of order
statistics all move in one direction, by at most the range in both norms.

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

from dbanon.job.synthesis import CONCENTRATED, PURE
from dbanon.synthesis.noise import Noise

Ints = NDArray[np.int64]

# Keeps the price below the amount despite floating-point rounding.
_SLACK = 1 + 1e-12
# The l2 distance when two counts move by 1 each, rounded up.
_LENGTH = math.nextafter(math.sqrt(2), 2)


class Accounting(Protocol):
    """Noise scales for shares of an amount, and the price of each draw."""

    def count_scale(self, share: float) -> float:
        """Scale of the noise on all counts of one table."""

    def sum_scale(self, share: float, reach: int) -> float:
        """Scale of the noise on sums that one row moves by ``reach`` in total."""

    def choice_scale(self, share: float, sensitivity: int) -> float:
        """Scale of the noise on scores that one row moves by ``sensitivity`` each."""

    def variance(self, scale: float) -> float:
        """Variance of noise of this scale."""

    def magnitude(self, scale: float) -> float:
        """Mean absolute value of noise of this scale."""

    def noisy(self, noise: Noise, values: Ints, scale: float) -> Ints:
        """Add noise to integers."""

    def chosen(self, noise: Noise, scores: Ints, scale: float) -> int:
        """Return the index of one of the highest scores."""

    def count_price(self, noise: Noise, scale: float) -> float:
        """Price of all counts of one table."""

    def sum_price(self, noise: Noise, scale: float, reach: int) -> float:
        """Price of sums that one row moves by ``reach`` in total."""

    def choice_price(self, noise: Noise, scale: float, sensitivity: int) -> float:
        """Price of one choice."""


@dataclass(frozen=True)
class PurePrices:
    """Prices in epsilon."""

    def count_scale(self, share: float) -> float:
        """See ``Accounting``."""
        return 2 / share * _SLACK

    def sum_scale(self, share: float, reach: int) -> float:
        """See ``Accounting``."""
        return reach / share * _SLACK

    def choice_scale(self, share: float, sensitivity: int) -> float:
        """See ``Accounting``."""
        return 2 * sensitivity / share * _SLACK

    def variance(self, scale: float) -> float:
        """See ``Accounting``."""
        return 2 * scale**2

    def magnitude(self, scale: float) -> float:
        """See ``Accounting``."""
        return scale

    def noisy(self, noise: Noise, values: Ints, scale: float) -> Ints:
        """See ``Accounting``."""
        return noise.laplace(values, scale)

    def chosen(self, noise: Noise, scores: Ints, scale: float) -> int:
        """See ``Accounting``."""
        return noise.choose(scores, scale)

    def count_price(self, noise: Noise, scale: float) -> float:
        """See ``Accounting``."""
        return noise.laplace_price(scale, 2)

    def sum_price(self, noise: Noise, scale: float, reach: int) -> float:
        """See ``Accounting``."""
        return noise.laplace_price(scale, reach)

    def choice_price(self, noise: Noise, scale: float, sensitivity: int) -> float:
        """See ``Accounting``."""
        return noise.choice_price(scale, sensitivity)


@dataclass(frozen=True)
class ConcentratedPrices:
    """Prices in rho, for zero-concentrated differential privacy."""

    def count_scale(self, share: float) -> float:
        """See ``Accounting``."""
        return _LENGTH / math.sqrt(2 * share) * _SLACK

    def sum_scale(self, share: float, reach: int) -> float:
        """See ``Accounting``."""
        return reach / math.sqrt(2 * share) * _SLACK

    def choice_scale(self, share: float, sensitivity: int) -> float:
        """See ``Accounting``."""
        return 2 * sensitivity / math.sqrt(8 * share) * _SLACK

    def variance(self, scale: float) -> float:
        """See ``Accounting``."""
        return scale**2

    def magnitude(self, scale: float) -> float:
        """See ``Accounting``."""
        return scale * math.sqrt(2 / math.pi)

    def noisy(self, noise: Noise, values: Ints, scale: float) -> Ints:
        """See ``Accounting``."""
        return noise.gaussian(values, scale)

    def chosen(self, noise: Noise, scores: Ints, scale: float) -> int:
        """See ``Accounting``."""
        return noise.choose_concentrated(scores, scale)

    def count_price(self, noise: Noise, scale: float) -> float:
        """See ``Accounting``."""
        return noise.gaussian_price(scale, _LENGTH)

    def sum_price(self, noise: Noise, scale: float, reach: int) -> float:
        """See ``Accounting``."""
        return noise.gaussian_price(scale, float(reach))

    def choice_price(self, noise: Noise, scale: float, sensitivity: int) -> float:
        """See ``Accounting``."""
        return noise.concentrated_choice_price(scale, sensitivity)


ACCOUNTINGS: dict[str, Accounting] = {PURE: PurePrices(), CONCENTRATED: ConcentratedPrices()}
