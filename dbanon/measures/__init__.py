"""Measures of information loss and disclosure risk."""

from __future__ import annotations

from dbanon.measures.information_loss import (
    Loss,
    average_class_size,
    centroid_loss,
    column_sums,
    discernibility,
    iloss,
    loss_of,
    released_loss,
    scaled_sums,
)
from dbanon.measures.models import HIERARCHICAL, ORDERS, Model, model_kinds
from dbanon.measures.sensitive import sensitive_counts

__all__ = [
    "HIERARCHICAL",
    "ORDERS",
    "Loss",
    "Model",
    "average_class_size",
    "centroid_loss",
    "column_sums",
    "discernibility",
    "iloss",
    "loss_of",
    "model_kinds",
    "released_loss",
    "scaled_sums",
    "sensitive_counts",
]
