"""Figures and counterexamples of seed 001, and the literature's private microaggregation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.synthesis.dcmdp import centroids, dense, noise_factor

# A class of eight that splits when .66 becomes 0 (k = 3, r = .34).
EIGHT = np.array([[0.0], [0.0], [0.0], [0.33], [0.66], [1.0], [1.0], [1.0]])
# Nine sites of ten records between two dense ones (k = 30, r = .1).
CHAIN = np.repeat(np.arange(11) / 10.0, [100, *[10] * 9, 100]).reshape(-1, 1)

EPSILONS = (0.01, 0.1, 1.0, 10.0)
# SCORE by k, at each epsilon, of readings ``algorithm`` and ``section_4``.
FIGURE_1 = {
    8: ((1.57e-2, 250), (1.60e-4, 2.51), (2.74e-6, 2.53e-2), (1.19e-6, 2.48e-4)),
    16: ((3.90e-3, 15.5), (4.00e-5, 0.159), (1.74e-6, 1.58e-3), (1.35e-6, 1.71e-5)),
    32: ((9.74e-4, 0.994), (1.10e-5, 9.79e-3), (1.44e-6, 9.92e-5), (1.34e-6, 2.33e-6)),
    64: ((2.47e-4, 6.1e-2), (3.82e-6, 6.0e-4), (1.40e-6, 7.6e-6), (1.37e-6, 1.44e-6)),
    # Section_4 at .1 by arithmetic: (n / k^2)^2 / 100, and the loss of clustering.
    100: ((1.03e-4, 1.0e-2), (2.38e-6, 1.04e-4), (1.38e-6, 2.4e-6), (1.37e-6, 1.37e-6)),
}


def score(
    values: NDArray[np.float64],
    k: int,
    epsilon: float,
    reading: str,
    draws: int,
    radius: float = 0.2,
) -> float:
    """SSE over the expected SSE of Laplace noise at epsilon = .01, columns from 0 to 1."""
    spread = values.max(axis=0) - values.min(axis=0)
    lost = (centroids(values, dense(values, k, radius)) - values) / spread
    scale = noise_factor(len(values), k, reading) / epsilon
    rng = np.random.default_rng(0)
    found = [np.square(lost + rng.laplace(0, scale, values.shape)).sum() for _ in range(draws)]
    return float(np.mean(found) / (values.size * 2 / 0.01**2))
