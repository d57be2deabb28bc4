"""Measures that look at class sizes alone.

Sources: K. LeFevre, D. DeWitt and R. Ramakrishnan, "Mondrian multidimensional k-anonymity", ICDE
2006 (average class size); R. Bayardo and R. Agrawal, "Data privacy through optimal
k-anonymization", ICDE 2005 (discernibility).
"""

from __future__ import annotations

from dbanon.data.partition import Partition


def average_class_size(partition: Partition, k: int) -> float:
    """Released records for each class over k: 1 is the best that k allows; 0 without classes."""
    if not partition.n_classes:
        return 0.0
    return float(partition.sizes.sum() / partition.n_classes / k)


def discernibility(partition: Partition) -> int:
    """The sum over the classes of size squared, and n for each suppressed record."""
    n = len(partition.labels)
    return int((partition.sizes**2).sum()) + n * partition.n_suppressed
