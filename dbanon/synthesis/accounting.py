"""What a share of the budget buys: pure epsilon with Laplace noise, or rho with Gaussian noise.

Each draw has a price, and prices add up, of epsilon as of rho; the price is asked of the source of
the noise. One row that is replaced moves one count down by 1 and one up: all counts of a table by 2
together (for Laplace noise), by the square root of 2 in length (for Gaussian noise). Sums of order
statistics it moves in one direction, by the range together, and so by no more in length.

A choice by the exponential mechanism with scores of sensitivity s is of epsilon = 2 s / scale, and
of rho = epsilon^2 / 8.

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

# So that what is paid stays below the amount in floating-point numbers.
_SLACK = 1 + 1e-12
# Two counts that move by 1, in length, rounded up.
_LENGTH = math.nextafter(math.sqrt(2), 2)


class Accounting(Protocol):
    """Scales of noise for shares of an amount, and what each draw costs of it."""

    def count_scale(self, share: float) -> float:
        """Of noise on all counts of one table together."""

    def sum_scale(self, share: float, reach: int) -> float:
        """Of noise on sums that one row moves by ``reach`` together."""

    def choice_scale(self, share: float, sensitivity: int) -> float:
        """Of noise on scores that one row moves by ``sensitivity`` each."""

    def variance(self, scale: float) -> float:
        """Of noise of this scale."""

    def magnitude(self, scale: float) -> float:
        """How far noise of this scale is from 0 on average."""

    def noisy(self, noise: Noise, values: Ints, scale: float) -> Ints:
        """Whole numbers with noise."""

    def chosen(self, noise: Noise, scores: Ints, scale: float) -> int:
        """The place of one of the highest scores."""

    def count_price(self, noise: Noise, scale: float) -> float:
        """Of all counts of one table."""

    def sum_price(self, noise: Noise, scale: float, reach: int) -> float:
        """Of sums that one row moves by ``reach`` together."""

    def choice_price(self, noise: Noise, scale: float, sensitivity: int) -> float:
        """Of one choice."""


@dataclass(frozen=True)
class Pure:
    """Amounts of epsilon."""

    def count_scale(self, share: float) -> float:
        """As ``Accounting`` says."""
        return 2 / share * _SLACK

    def sum_scale(self, share: float, reach: int) -> float:
        """As ``Accounting`` says."""
        return reach / share * _SLACK

    def choice_scale(self, share: float, sensitivity: int) -> float:
        """As ``Accounting`` says."""
        return 2 * sensitivity / share * _SLACK

    def variance(self, scale: float) -> float:
        """As ``Accounting`` says."""
        return 2 * scale**2

    def magnitude(self, scale: float) -> float:
        """As ``Accounting`` says."""
        return scale

    def noisy(self, noise: Noise, values: Ints, scale: float) -> Ints:
        """As ``Accounting`` says."""
        return noise.laplace(values, scale)

    def chosen(self, noise: Noise, scores: Ints, scale: float) -> int:
        """As ``Accounting`` says."""
        return noise.choose(scores, scale)

    def count_price(self, noise: Noise, scale: float) -> float:
        """As ``Accounting`` says."""
        return noise.laplace_price(scale, 2)

    def sum_price(self, noise: Noise, scale: float, reach: int) -> float:
        """As ``Accounting`` says."""
        return noise.laplace_price(scale, reach)

    def choice_price(self, noise: Noise, scale: float, sensitivity: int) -> float:
        """As ``Accounting`` says."""
        return noise.choice_price(scale, sensitivity)


@dataclass(frozen=True)
class Concentrated:
    """Amounts of rho, of zero-concentrated differential privacy."""

    def count_scale(self, share: float) -> float:
        """As ``Accounting`` says."""
        return _LENGTH / math.sqrt(2 * share) * _SLACK

    def sum_scale(self, share: float, reach: int) -> float:
        """As ``Accounting`` says."""
        return reach / math.sqrt(2 * share) * _SLACK

    def choice_scale(self, share: float, sensitivity: int) -> float:
        """As ``Accounting`` says."""
        return 2 * sensitivity / math.sqrt(8 * share) * _SLACK

    def variance(self, scale: float) -> float:
        """As ``Accounting`` says."""
        return scale**2

    def magnitude(self, scale: float) -> float:
        """As ``Accounting`` says."""
        return scale * math.sqrt(2 / math.pi)

    def noisy(self, noise: Noise, values: Ints, scale: float) -> Ints:
        """As ``Accounting`` says."""
        return noise.gaussian(values, scale)

    def chosen(self, noise: Noise, scores: Ints, scale: float) -> int:
        """As ``Accounting`` says."""
        return noise.choose_concentrated(scores, scale)

    def count_price(self, noise: Noise, scale: float) -> float:
        """As ``Accounting`` says."""
        return noise.gaussian_price(scale, _LENGTH)

    def sum_price(self, noise: Noise, scale: float, reach: int) -> float:
        """As ``Accounting`` says."""
        return noise.gaussian_price(scale, float(reach))

    def choice_price(self, noise: Noise, scale: float, sensitivity: int) -> float:
        """As ``Accounting`` says."""
        return noise.concentrated_choice_price(scale, sensitivity)


ACCOUNTINGS: dict[str, Accounting] = {PURE: Pure(), CONCENTRATED: Concentrated()}
