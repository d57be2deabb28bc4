"""Noise mechanisms and their prices, implemented by OpenDP, the only noise source.

The input, the sensitivity and the noise are integers, so that no floating-point rounding reveals
the original values. There is no seed.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import MissingDependency
from dbanon.errors.extras import quote_requirements


class Noise(Protocol):
    """Four mechanisms with prices by sensitivity: two in epsilon, and two in rho."""

    def laplace(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Add discrete Laplace noise of this scale to the values, int64 (m,)."""

    def laplace_price(self, scale: float, sensitivity: int) -> float:
        """Price of Laplace noise if one row moves the values by at most this in the l1 norm."""

    def choose(self, scores: NDArray[np.int64], scale: float) -> int:
        """Draw the index of a score; the higher the score, the likelier. Scores: int64 (m,)."""

    def choice_price(self, scale: float, sensitivity: int) -> float:
        """Price of a choice if one row moves no score by more than this."""

    def gaussian(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Add discrete Gaussian noise of this scale to the values, int64 (m,)."""

    def gaussian_price(self, scale: float, sensitivity: float) -> float:
        """Rho of Gaussian noise if one row moves the values by at most this in the l2 norm."""

    def choose_concentrated(self, scores: NDArray[np.int64], scale: float) -> int:
        """Choose like ``choose``, at a price in rho."""

    def concentrated_choice_price(self, scale: float, sensitivity: int) -> float:
        """Rho of ``choose_concentrated`` if one row moves no score by more than this."""


class OpenDpNoise:
    """OpenDP's mechanisms, with the prices that OpenDP computes.

    Raises
    ------
    MissingDependency : OpenDP is not installed.
    """

    def __init__(self) -> None:
        try:
            # opendp.prelude would load scikit-learn if it is installed.
            from opendp import domains, measurements, measures, metrics, mod
        # Incomplete installations fail with other import or OS errors.
        except (ImportError, OSError) as error:
            raise MissingDependency(
                "Differential privacy needs OpenDP for its noise, which is not installed.",
                hint=f"Install it with: pip install {quote_requirements('dp')}",
            ) from error
        # OpenDP requires this consent for mechanisms whose proofs are not yet reviewed.
        mod.enable_features("contrib")
        integer_vectors = domains.vector_domain(domains.atom_domain(T="i64"))

        @cache
        def make_laplace(scale: float) -> Any:
            return measurements.make_laplace(integer_vectors, metrics.l1_distance(T="i64"), scale)

        @cache
        def make_choice(scale: float) -> Any:
            return measurements.make_noisy_max(
                integer_vectors, metrics.linf_distance(T="i64"), measures.max_divergence(), scale
            )

        @cache
        def make_gaussian(scale: float) -> Any:
            return measurements.make_gaussian(integer_vectors, metrics.l2_distance(T="f64"), scale)

        @cache
        def make_concentrated_choice(scale: float) -> Any:
            zcdp = measures.zero_concentrated_divergence()
            return measurements.make_noisy_max(
                integer_vectors, metrics.linf_distance(T="i64"), zcdp, scale
            )

        self._make_laplace = make_laplace
        self._make_choice = make_choice
        self._make_gaussian = make_gaussian
        self._make_concentrated_choice = make_concentrated_choice

    def laplace(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """See ``Noise``."""
        return np.array(self._make_laplace(scale)(values.tolist()), np.int64)

    def laplace_price(self, scale: float, sensitivity: int) -> float:
        """See ``Noise``."""
        return float(self._make_laplace(scale).map(sensitivity))

    def choose(self, scores: NDArray[np.int64], scale: float) -> int:
        """See ``Noise``."""
        return int(self._make_choice(scale)(scores.tolist()))

    def choice_price(self, scale: float, sensitivity: int) -> float:
        """See ``Noise``."""
        return float(self._make_choice(scale).map(sensitivity))

    def gaussian(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """See ``Noise``."""
        return np.array(self._make_gaussian(scale)(values.tolist()), np.int64)

    def gaussian_price(self, scale: float, sensitivity: float) -> float:
        """See ``Noise``."""
        return float(self._make_gaussian(scale).map(sensitivity))

    def choose_concentrated(self, scores: NDArray[np.int64], scale: float) -> int:
        """See ``Noise``."""
        return int(self._make_concentrated_choice(scale)(scores.tolist()))

    def concentrated_choice_price(self, scale: float, sensitivity: int) -> float:
        """See ``Noise``."""
        return float(self._make_concentrated_choice(scale).map(sensitivity))
