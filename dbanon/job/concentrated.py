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

from dbanon.data.frozen import dataclass
from dbanon.data.option import Option
from dbanon.errors import InvalidParameter

_BISECTION_STEPS = 200
# Budgets count rho in billionths, in whole numbers. So totals, charges and noise agree exactly.
_BILLION = 10**9
# A factor that covers rounding errors, so that no result promises more privacy than it should.
_SAFETY_FACTOR = 1 + 1e-9


def delta_option(help_text: str, *, docs_page: str = "", concerns_release: bool = False) -> Option:
    """Build an option for a delta, which must be above 0 and at most 1e-5."""
    expected = "a number above 0, at most 1e-5"
    return Option(
        help_text,
        minimum=0,
        excludes_minimum=True,
        maximum=1e-5,
        expected=expected,
        docs_page=docs_page,
        concerns_release=concerns_release,
    )


def delta_of(rho: float, epsilon: float) -> float:
    """The delta of rho-zCDP at an epsilon: the minimum over all Rényi orders a > 1.

    The delta at order a is exp((a - 1)(a rho - epsilon)) / (a - 1) (1 - 1 / a)^a. Bisection finds
    the order at which its derivative changes sign.
    """
    # The condition in the loop is the derivative of the logarithm of delta. At the upper end,
    # (2 a - 1) rho > epsilon + 1, so it is positive.
    low, high = 1 + 1e-6, (epsilon + 1) / (2 * rho) + 2
    for _ in range(_BISECTION_STEPS):
        middle = (low + high) / 2
        if (2 * middle - 1) * rho - epsilon + math.log1p(-1 / middle) < 0:
            low = middle
        else:
            high = middle
    log_delta = (
        (high - 1) * (high * rho - epsilon) - math.log(high - 1) + high * math.log1p(-1 / high)
    )
    return math.exp(min(log_delta, 0.0))


def epsilon_of(rho: float, delta: float) -> float:
    """The smallest epsilon of rho-zCDP at this delta, rounded up."""
    if rho <= 0:
        return 0.0
    # The upper end is the looser conversion of Bun and Steinke, proposition 1.3.
    low, high = 0.0, rho + 2 * math.sqrt(rho * math.log(1 / delta))
    for _ in range(_BISECTION_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(rho, middle) <= delta else (middle, high)
    return high * _SAFETY_FACTOR


def rho_of(epsilon: float, delta: float) -> float:
    """The largest rho within this epsilon and delta, rounded down to billionths.

    Raises
    ------
    InvalidParameter : rho is less than a billionth, the smallest amount that can be spent.
    """
    low, high = 0.0, max(epsilon, epsilon**2 / 2)
    # Rho is less than epsilon. If epsilon is a billionth or less, skip the search: rho stays 0.
    for _ in range(_BISECTION_STEPS if epsilon > 1 / _BILLION else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle, epsilon) <= delta else (low, middle)
    billionths = math.floor(low / _SAFETY_FACTOR * _BILLION)
    if not billionths:
        raise InvalidParameter(
            f"The rho of epsilon = {epsilon:g} at delta = {delta:g} must be 1e-9 or more.",
            hint="Give a larger epsilon.",
        )
    return billionths / _BILLION


def rho_of_pure(epsilon: float) -> float:
    """The rho of pure differential privacy, with epsilon and no delta, rounded up."""
    return epsilon**2 / 2 * _SAFETY_FACTOR


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

    def charge(self, budget_delta: float | None) -> float:
        """The amount to charge to a budget: rho if the budget has a delta, else epsilon.

        Raises
        ------
        InvalidParameter : the budget has no delta, but the release has one.
        """
        if budget_delta is not None:
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
