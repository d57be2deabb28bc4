"""Measures of information loss and disclosure risk."""

from __future__ import annotations

from dbanon.measures.information_loss import (
    Loss,
    average_class_size,
    centroid_loss,
    column_sums,
    discernibility,
    exact_and_rounded_sums,
    iloss,
    loss_from_sums,
    released_loss,
)
from dbanon.measures.models import HIERARCHICAL, SIMPLE_DISTANCES, Model, model_kinds
from dbanon.measures.sensitive import sensitive_counts

__all__ = [
    "HIERARCHICAL",
    "SIMPLE_DISTANCES",
    "Loss",
    "Model",
    "average_class_size",
    "centroid_loss",
    "column_sums",
    "discernibility",
    "exact_and_rounded_sums",
    "iloss",
    "loss_from_sums",
    "model_kinds",
    "released_loss",
    "sensitive_counts",
]
