"""A scikit-learn estimator for pipelines and parameter searches."""

from __future__ import annotations

from dbanon.errors import MissingDependency

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError:
    raise MissingDependency.of_extra("dbanon.sklearn", "scikit-learn", "sklearn") from None

from dbanon.sklearn.microaggregation import EXPECTED_FAILED_CHECKS, Microaggregation

__all__ = ["EXPECTED_FAILED_CHECKS", "Microaggregation"]
