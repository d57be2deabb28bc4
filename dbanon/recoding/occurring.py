"""Columns released with values that occur in their class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.scales import Scale
from dbanon.data.schema import Kind
from dbanon.errors import UnsupportedType
from dbanon.recoding.columns import ReleasedColumn


def refuse_wide(microdata: Microdata, recoding: str) -> None:
    """Check that float64 holds all values exactly, for they are released as they are.

    Raises
    ------
    UnsupportedType : an attribute holds values beyond 2**53.
    """
    for name in sorted(microdata.wide):
        raise UnsupportedType(
            f'Column "{name}" holds numbers beyond 2**53: recoding {recoding} cannot take them.',
            hint='Use `recoding="mean"`, or give the column as a smaller type.',
        )


def class_medians(values: NDArray[np.float64], partition: Partition) -> NDArray[np.float64]:
    """The lower median of each class, float64 (n_classes,), of ``values``, float64 (n,)."""
    grouped = values[partition.members]
    ordered = grouped[np.lexsort((grouped, partition.labels[partition.members]))]
    medians: NDArray[np.float64] = ordered[partition.starts + (partition.sizes - 1) // 2]
    return medians


def table_deviation(scale: Scale) -> float:
    """The sample standard deviation of a table's column that varies, in its own unit."""
    return float(np.ldexp(scale.deviation, scale.exponent))


def occurring(
    microdata: Microdata, partition: Partition, position: int, values: NDArray[np.float64]
) -> ReleasedColumn:
    """A column with one of the class's own values for each class.

    Parameters
    ----------
    position : which numeric attribute.
    values : float64 (n_classes,); anything where the class has NULL.
    """
    attribute = microdata.numeric[position]
    valid = microdata.valid_column(attribute.name)
    missing = None
    if valid is not None:
        # A class holds records of one NULL pattern, so its first member speaks for all.
        missing = ~valid[partition.members[partition.starts]]
        values = np.where(missing, 0.0, values)
    if attribute.kind is Kind.FLOAT:
        return ReleasedColumn(attribute, values, missing, values)
    scale = 10.0**attribute.scale if attribute.kind is Kind.DECIMAL else 1.0
    return ReleasedColumn(attribute, np.rint(values * scale).astype(np.int64), missing, values)
