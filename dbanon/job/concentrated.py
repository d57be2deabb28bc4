"""Zero-concentrated differential privacy: conversions between rho, epsilon and delta.

Two releases with rho_1 and rho_2 compose to rho_1 + rho_2. A release with epsilon and no delta
costs at most epsilon^2 / 2. A rho-zCDP release is (epsilon, delta)-differentially private for every
epsilon, with the delta that ``delta_of`` computes.

Source: M. Bun and T. Steinke, "Concentrated differential privacy", TCC 2016; C. L. Canonne,
G. Kamath and T. Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020,
proposition 12 and corollary 13.
"""

from __future__ import annotations

import math
from typing import Any

from dbanon.data.frozen import dataclass
from dbanon.data.option import Option
from dbanon.errors import InvalidParameter

_HALVINGS = 200
# Rho is counted in these parts, so that totals, charges and noise agree exactly.
_PARTS = 10**9
# Keeps rounded figures on the safe side.
_SLACK = 1 + 1e-9


def delta_option(help_text: str, **settings: Any) -> Option:
    """The option of a delta, with the bounds that every delta has."""
    expected = "a number above 0, at most 1e-5"
    return Option(help_text, minimum=0, above=True, maximum=1e-5, expected=expected, **settings)


def delta_of(rho: float, epsilon: float) -> float:
    """The delta of rho-zCDP at an epsilon: the minimum over orders, where the slope changes sign.

    For order a > 1 it is exp((a - 1)(a rho - epsilon)) / (a - 1) (1 - 1 / a)^a.
    """
    low, high = 1 + 1e-6, (epsilon + 1) / (2 * rho) + 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if (2 * middle - 1) * rho - epsilon + math.log1p(-1 / middle) < 0:
            low = middle
        else:
            high = middle
    log = (high - 1) * (high * rho - epsilon) - math.log(high - 1) + high * math.log1p(-1 / high)
    return math.exp(min(log, 0.0))


def epsilon_of(rho: float, delta: float) -> float:
    """The smallest epsilon of rho-zCDP at this delta, rounded up."""
    if rho <= 0:
        return 0.0
    low, high = 0.0, rho + 2 * math.sqrt(rho * math.log(1 / delta))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(rho, middle) <= delta else (middle, high)
    return high * _SLACK


def rho_of(epsilon: float, delta: float) -> float:
    """The largest rho within this epsilon and delta, rounded down to billionths.

    Raises
    ------
    InvalidParameter : it is less than a billionth, the smallest amount that can be spent.
    """
    low, high = 0.0, max(epsilon, epsilon**2 / 2)
    # Rho is less than epsilon, so an epsilon of a billionth or less leaves no rho.
    for _ in range(_HALVINGS if epsilon > 1 / _PARTS else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle, epsilon) <= delta else (low, middle)
    parts = math.floor(low / _SLACK * _PARTS)
    if not parts:
        raise InvalidParameter(
            f"The rho of epsilon = {epsilon:g} at delta = {delta:g} must be 1e-9 or more.",
            hint="Give a larger epsilon.",
        )
    return parts / _PARTS


def rho_of_pure(epsilon: float) -> float:
    """The rho of a release with epsilon and no delta, rounded up."""
    return epsilon**2 / 2 * _SLACK


@dataclass(frozen=True)
class Cost:
    """The privacy budget that a release spends.

    Parameters
    ----------
    epsilon : the epsilon of its guarantee.
    delta : the delta of its guarantee; None for pure differential privacy.
    """

    epsilon: float
    delta: float | None = None

    @property
    def rho(self) -> float:
        """The cost as rho."""
        if self.delta is None:
            return rho_of_pure(self.epsilon)
        return rho_of(self.epsilon, self.delta)

    def charge(self, delta: float | None) -> float:
        """The charge to a budget with this delta: rho, or epsilon if it is None.

        Raises
        ------
        InvalidParameter : the budget has no delta, and the release has one.
        """
        if delta is not None:
            return self.rho
        if self.delta is not None:
            raise InvalidParameter(
                "The budget has an epsilon but no delta, so it cannot cover a release with"
                " Gaussian noise.",
                hint="Create a budget with a delta, or leave out delta and accounting.",
            )
        return self.epsilon


def describe_rho(rho: float, delta: float) -> str:
    """Describe an amount of rho with the epsilon that it corresponds to."""
    return f"rho = {rho:.6g}, which is epsilon = {epsilon_of(rho, delta):.4g} at delta = {delta:g}"
