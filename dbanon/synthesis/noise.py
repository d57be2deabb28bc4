"""Noise: what adds it, what it costs, and OpenDP, the one source of it that is used.

Everything is whole numbers: what gets noise, the sensitivity, and the noise itself, so that no
rounding of floating-point numbers tells what was there before. There is no seed.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import MissingDependency
from dbanon.errors.extras import quoted_requirements


class Noise(Protocol):
    """Four mechanisms, each with what it costs at a sensitivity: two epsilon, and two rho."""

    def laplace(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """The values, int64 (m,), each with discrete Laplace noise of this scale."""

    def laplace_price(self, scale: float, sensitivity: int) -> float:
        """What that costs where one row moves all values together by no more than this."""

    def choose(self, scores: NDArray[np.int64], scale: float) -> int:
        """The place of one of the highest scores, int64 (m,), more often of higher ones."""

    def choice_price(self, scale: float, sensitivity: int) -> float:
        """What that costs where one row moves no score by more than this."""

    def gaussian(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """The values, int64 (m,), each with discrete Gaussian noise of this scale."""

    def gaussian_price(self, scale: float, length: float) -> float:
        """The rho of that where one row moves the values by no more than this, as a vector."""

    def choose_concentrated(self, scores: NDArray[np.int64], scale: float) -> int:
        """As ``choose``, with the odds of the exponential mechanism, whose rho is known."""

    def concentrated_choice_price(self, scale: float, sensitivity: int) -> float:
        """The rho of that where one row moves no score by more than this."""


class OpenDpNoise:
    """OpenDP's mechanisms; it tells the price of each itself.

    Raises
    ------
    MissingDependency : OpenDP is not installed.
    """

    def __init__(self) -> None:
        try:
            # Not opendp.prelude, which loads scikit-learn where there is one.
            from opendp import domains, measurements, measures, metrics, mod
        # A copy without its description, or without its library, is none.
        except (ImportError, OSError) as error:
            raise MissingDependency(
                "Differential privacy takes its noise from OpenDP, which is not installed.",
                hint=f"Install it with: pip install {quoted_requirements('dp')}",
            ) from error
        mod.enable_features("contrib")
        whole = domains.vector_domain(domains.atom_domain(T="i64"))

        @cache
        def laplace(scale: float) -> Any:
            return measurements.make_laplace(whole, metrics.l1_distance(T="i64"), scale)

        @cache
        def choice(scale: float) -> Any:
            return measurements.make_noisy_max(
                whole, metrics.linf_distance(T="i64"), measures.max_divergence(), scale
            )

        @cache
        def gaussian(scale: float) -> Any:
            return measurements.make_gaussian(whole, metrics.l2_distance(T="f64"), scale)

        @cache
        def concentrated(scale: float) -> Any:
            of_rho = measures.zero_concentrated_divergence()
            return measurements.make_noisy_max(whole, metrics.linf_distance(T="i64"), of_rho, scale)

        self._gaussian = gaussian
        self._concentrated = concentrated
        self._laplace = laplace
        self._choice = choice

    def laplace(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """As ``Noise`` says."""
        return np.array(self._laplace(scale)(values.tolist()), np.int64)

    def laplace_price(self, scale: float, sensitivity: int) -> float:
        """As ``Noise`` says."""
        return float(self._laplace(scale).map(sensitivity))

    def choose(self, scores: NDArray[np.int64], scale: float) -> int:
        """As ``Noise`` says."""
        return int(self._choice(scale)(scores.tolist()))

    def choice_price(self, scale: float, sensitivity: int) -> float:
        """As ``Noise`` says."""
        return float(self._choice(scale).map(sensitivity))

    def gaussian(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """As ``Noise`` says."""
        return np.array(self._gaussian(scale)(values.tolist()), np.int64)

    def gaussian_price(self, scale: float, length: float) -> float:
        """As ``Noise`` says."""
        return float(self._gaussian(scale).map(length))

    def choose_concentrated(self, scores: NDArray[np.int64], scale: float) -> int:
        """As ``Noise`` says."""
        return int(self._concentrated(scale)(scores.tolist()))

    def concentrated_choice_price(self, scale: float, sensitivity: int) -> float:
        """As ``Noise`` says."""
        return float(self._concentrated(scale).map(sensitivity))
