"""Information loss: the share of the original variation that a release loses.

The loss is SSE/SST on z-scores. For class means it ranges from 0 (nothing lost) to 1 (only the
overall mean is left); for rounded means, medians and medoids it can exceed 1. A column's loss is
its SSE/SST; the total is the quotient of the sums over columns. SST = 0 gives 0. Suppressed records
and NULLs are left out of the sums; reports state how many there are.

Source: J. Domingo-Ferrer and J. M. Mateo-Sanz, "Practical data-oriented microaggregation for
statistical disclosure control", IEEE TKDE 14 (2002), section 2.

``iloss`` is the loss of generalization to class ranges and common ancestors. In a numeric attribute
a class C of table T loses |C| (max_C - min_C) / (max_T - min_T). In a categorical attribute it
loses the sum of h(leaf to common ancestor) / h(leaf to root) over the records of C, where h counts
edges. NULLs and suppressed records add no loss.

Source: Jiang, Zeng and Ma, Journal of Software 28 (2017), section 2.2.

Measures of class sizes: K. LeFevre, D. DeWitt and R. Ramakrishnan, "Mondrian multidimensional
k-anonymity", ICDE 2006 (average class size); R. Bayardo and R. Agrawal, "Data privacy through
optimal k-anonymization", ICDE 2005 (discernibility).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon import kernels
from dbanon.data.frozen import dataclass
from dbanon.data.partition import Partition
from dbanon.data.scales import Scale, Standardization
from dbanon.hierarchy.tree import Hierarchy


@dataclass(frozen=True)
class Loss:
    """Losses per column and in total: 0 to 1 if class means are released, otherwise possibly more.

    Parameters
    ----------
    columns : float64 (p,), the SSE/SST of each column.
    total : the SSE of all columns divided by the SST of all columns.
    sums : the SSE and the SST of each column, which can be added up over parts of a table.
    """

    columns: NDArray[np.float64]
    total: float
    sums: tuple[tuple[float, float], ...] = ()


def centroid_loss(
    points: NDArray[np.float64],
    partition: Partition,
    valid: NDArray[np.bool_] | None = None,
) -> Loss:
    """Return the loss if every class is released as its centroid, apart from rounding errors.

    Parameters
    ----------
    points : float64 (n, p), standardized.
    valid : bool (n, p), False for NULL; None if there are no NULLs.
    """
    if valid is not None:
        return released_loss(points, partition, _centroids(points, partition, valid), valid)
    centroids = np.empty((partition.n_classes, points.shape[1]))
    if partition.n_classes:
        grouped = points[partition.members]
        np.divide(
            np.add.reduceat(grouped, partition.starts, axis=0),
            partition.sizes[:, None],
            out=centroids,
        )
        low = np.minimum.reduceat(grouped, partition.starts, axis=0)
        high = np.maximum.reduceat(grouped, partition.starts, axis=0)
        np.clip(centroids, low, high, out=centroids)
    return released_loss(points, partition, centroids)


def _centroids(
    points: NDArray[np.float64], partition: Partition, valid: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the mean of each class's valid values, float64 (n_classes, p); 0 without any."""
    members, starts = partition.members, partition.starts
    sums = np.add.reduceat(np.where(valid, points, 0.0)[members], starts, axis=0)
    counts = np.add.reduceat(valid[members].astype(np.int64), starts, axis=0)
    return np.asarray(sums / np.maximum(counts, 1))


def released_loss(
    points: NDArray[np.float64],
    partition: Partition,
    released: NDArray[np.float64],
    valid: NDArray[np.bool_] | None = None,
    *,
    is_part_of_table: bool = False,
) -> Loss:
    """Return the loss if every class is released as its row of ``released``.

    Parameters
    ----------
    points : float64 (n, p), standardized originals.
    released : float64 (n_classes, p), released values, standardized in the same way.
    valid : bool (n, p), False for NULL; None if there are no NULLs.
    is_part_of_table : True if the points are only some of a table's z-scores. SST then uses
        deviations from 0, the mean of the whole table, instead of from the mean of the points.
    """
    sums = [
        column_sums(
            points[:, column],
            partition,
            released[:, column],
            None if valid is None else valid[:, column],
            is_part_of_table=is_part_of_table,
        )
        for column in range(points.shape[1])
    ]
    return loss_from_sums(sums)


def column_sums(
    points: NDArray[np.float64],
    partition: Partition,
    released: NDArray[np.float64],
    valid: NDArray[np.bool_] | None = None,
    *,
    is_part_of_table: bool = False,
) -> tuple[float, float]:
    """Return the SSE and the SST of a single column.

    Parameters
    ----------
    points : float64 (n,), standardized originals.
    released : float64 (n_classes,), released values, standardized in the same way.
    valid : bool (n,), False for NULL; None if there are no NULLs.
    is_part_of_table : True if the points are only some of a table's, as in ``released_loss``.
    """
    # The second result is the SSE of rounded values, which are not given here.
    sse, _, sst = kernels.column_squares(
        points,
        partition.labels,
        np.ascontiguousarray(released),
        None,  # no rounded values
        valid,
        # The points are standardized already.
        0,  # exponent
        0.0,  # shift
        1.0,  # scale
        is_part_of_table,
    )
    return sse, sst


def exact_and_rounded_sums(
    values: NDArray[np.float64],
    partition: Partition,
    released: tuple[NDArray[np.float64], NDArray[np.float64]],
    transform: Standardization,
    valid: NDArray[np.bool_] | None = None,
    *,
    is_part_of_table: bool = False,
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return SSE and SST of a column, for exact and for rounded released values.

    Parameters
    ----------
    values : float64 (n,), originals, not standardized.
    released : two arrays of released values, float64 (n_classes,): exact and rounded ones.
    transform : the standardization of the column.
    valid : bool (n,), False for NULL; None if there are no NULLs.
    is_part_of_table : True if the values are a part of a table, as in ``released_loss``.

    Returns
    -------
    Pairs of SSE and SST: for exact values, and for rounded ones.
    """
    # The kernel maps a value x to (x * 2**-exponent - shift) / scale; the power of two prevents
    # overflow.
    exponent, shift, scale = transform.exponent[0], transform.shift[0], transform.scale[0]
    exact, rounded = released
    sse, rounded_sse, sst = kernels.column_squares(
        values,
        partition.labels,
        exact,
        # Without rounding, compute the sum once.
        None if np.array_equal(exact, rounded) else rounded,
        valid,
        int(exponent),
        shift,
        scale,
        is_part_of_table,
    )
    return (sse, sst), (rounded_sse, sst)


def loss_from_sums(sums: Sequence[tuple[float, float]]) -> Loss:
    """Return the loss of columns, given pairs of SSE and SST, one per column."""
    sse, sst = np.array(sums, np.float64).reshape(-1, 2).T
    column_losses = np.divide(sse, sst, out=np.zeros(len(sums)), where=sst > 0)
    total_sst = float(sst.sum())
    return Loss(
        columns=column_losses,
        total=float(sse[sst > 0].sum() / total_sst) if total_sst else 0.0,
        sums=tuple((float(column_sse), float(column_sst)) for column_sse, column_sst in sums),
    )


def average_class_size(partition: Partition, k: int) -> float:
    """Return the mean number of released records per class, divided by k; 0 without classes.

    The optimum is 1.
    """
    if not partition.n_classes:
        return 0.0
    return float(partition.sizes.sum() / partition.n_classes / k)


def discernibility(partition: Partition) -> int:
    """Return the sum of squared class sizes, plus the number of records for each suppressed one."""
    n = len(partition.labels)
    return int((partition.sizes**2).sum()) + n * partition.n_suppressed


def iloss(
    values: NDArray[np.float64] | NDArray[np.int32],
    domain: Hierarchy | Scale,
    partition: Partition,
    valid: NDArray[np.bool_] | None = None,
) -> float:
    """Return the generalization loss of one attribute, summed over the records: 0 to n.

    Parameters
    ----------
    values : (n,), numbers, or leaf positions in a hierarchy.
    domain : the hierarchy, or the scale of the table's numbers.
    valid : bool (n,), False for NULL, equal for all records of a class; None if there are no NULLs.
    """
    if not partition.n_classes:
        return 0.0
    members, starts = partition.members, partition.starts
    grouped = values[members]
    low, high = np.minimum.reduceat(grouped, starts), np.maximum.reduceat(grouped, starts)
    is_valid_class = np.ones(len(starts), bool) if valid is None else valid[members[starts]]
    if isinstance(domain, Scale):
        if not domain.spread:
            return 0.0
        return float((partition.sizes * (high - low) / domain.spread)[is_valid_class].sum())
    nodes = np.repeat(domain.common_nodes(low, high), partition.sizes)
    losses = domain.loss(grouped, nodes)
    if valid is not None:
        losses = losses[np.repeat(is_valid_class, partition.sizes)]
    return float(losses.sum())
