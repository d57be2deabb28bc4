"""The Python API for equivalence classes of arrays and data frames, without making a release.

It groups records into classes, and measures the information that they lose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.chunks import Chunk, microdata_of_records
from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.option import build_options, find_parameter, parameters
from dbanon.data.partition import SUPPRESSED, AttributePartition, Partition, positions_among
from dbanon.data.pieces import PIECE_RECORDS, on_all_cores, split_records
from dbanon.data.scales import Standardization
from dbanon.data.schema import Attribute, Kind, Role
from dbanon.doors.signature import list_options
from dbanon.errors import InvalidParameter, TooFewRecords, name_missing_extras
from dbanon.hierarchy.spec import HierarchySource, build_all, parse_all
from dbanon.job.policy import Policy
from dbanon.job.requirements import require_row_classes
from dbanon.measures import centroid_loss
from dbanon.partitioning.nulls import merge_nulls
from dbanon.partitioning.partition_for import partition_for
from dbanon.release.recode import class_losses

if TYPE_CHECKING:
    from typing import Unpack

    import pandas as pd

    from dbanon.job.options import AttributeMethod, ClassOptions, RowMethod


# Options of a policy that say how classes are found; its other options concern releases. The one
# named ``options`` holds the parameters of the method.
_CLASS_OPTIONS = tuple(field for field in parameters(Policy) if not field.option.concerns_release)
_POLICY_NAMES = {option.name for option in _CLASS_OPTIONS} - {"options"}


@overload
def partition(
    data: ArrayLike | pd.DataFrame,
    k: int,
    *,
    method: AttributeMethod,
    hierarchies: Mapping[str, HierarchySource] | None = None,
    **options: Unpack[ClassOptions],
) -> AttributePartition: ...


@overload
def partition(
    data: ArrayLike | pd.DataFrame,
    k: int,
    *,
    method: RowMethod = ...,
    hierarchies: Mapping[str, HierarchySource] | None = None,
    **options: Unpack[ClassOptions],
) -> Partition: ...


@list_options(option for option in _CLASS_OPTIONS if option.name != "options")
def partition(
    data: ArrayLike | pd.DataFrame,
    k: int,
    *,
    hierarchies: Mapping[str, HierarchySource] | None = None,
    **options: object,
) -> Partition | AttributePartition:
    """Group records into equivalence classes of at least k records.

    Parameters
    ----------
    data : (n, p) numbers, or a table as ``anonymize_frame`` takes it, whose columns are all
        quasi-identifiers.
    k : smallest number of records in a class.
    hierarchies : by column, a Hierarchy, the path of a file, or a builder such as
        ``{"intervals": [5, 10]}``. A column without a hierarchy is numeric, or a category whose
        values are either equal or different.
    options : the method's parameters, and the options of ``Policy`` that concern classes;
        ``help(dbanon.partition)`` lists them.

    Returns
    -------
    Partition : ``.labels``, the class of each record in the order of ``data``, int32 (n,), -1 where
    suppressed; ``.sizes``, the records per class; ``.n_classes``. A full-domain method also
    returns ``.levels``. A method that groups each attribute separately returns an
    AttributePartition, with the warning ``RowsNotAnonymous``.

    Raises
    ------
    TooFewRecords : fewer than k records.
    NonFiniteValue : NaN or infinity in an array; in a DataFrame NaN is NULL.
    UnsupportedType : a column has a type that the method does not take.
    """
    policy_options = {name: options.pop(name) for name in _POLICY_NAMES & options.keys()}
    policy = build_options(Policy, {"k": k, "options": options, **policy_options})
    require_row_classes(policy)
    candidates, candidate_positions = as_table(data), None
    if is_frame(candidates):
        candidates, candidate_positions = _select_candidates(candidates, policy.nulls)
    microdata = microdata_of(candidates, policy.orders, policy.kinds)
    if candidate_positions is not None:
        # Records with NULLs that are no candidates count as withheld.
        microdata = replace(microdata, n_withheld=len(candidate_positions) - microdata.n_records)
    # Only with ``nulls="merge"``; other policies leave the records as they are.
    microdata = merge_nulls(microdata, policy)
    # ``partition_for`` builds the trees again if it leaves out some of the records.
    trees = partial(build_all, parse_all(hierarchies, files=True))
    policy = replace(policy, hierarchies=trees(microdata))
    result = partition_for(microdata, policy, trees=trees).classes
    # Records that are no candidates have the position -1, and become suppressed.
    return result if candidate_positions is None else result.take(candidate_positions)


def information_loss(
    data: ArrayLike | pd.DataFrame,
    classes: Partition | ArrayLike,
    *,
    orders: Mapping[str, Sequence[str]] | None = None,
) -> float:
    """Compute SSE/SST on z-scores with classes released as centroids, 0 (none) to 1 (all).

    Parameters
    ----------
    data : (n, p) numbers, or a DataFrame of numbers and ordinal columns, as given to
        ``partition``.
    classes : a partition of these n records, or the class label of each, a whole number; -1 for
        suppressed records, which are left out.
    orders : for text columns, by name: their values from the lowest to the highest.

    Raises
    ------
    InvalidParameter : the partition has another number of records, or a label is not a whole number
        of -1 or more.
    """
    microdata = microdata_of(data, orders)
    classes = _partition_of(classes, microdata)
    has_value = microdata.numeric_valid()
    scales = ColumnStatistics.of(microdata).scales
    transform = Standardization.of([scales[a.name] for a in microdata.numeric])
    points = transform.apply(microdata.numbers)
    return centroid_loss(points, classes, has_value).total


def generalization_loss(
    data: ArrayLike | pd.DataFrame,
    classes: Partition | ArrayLike,
    *,
    hierarchies: Mapping[str, HierarchySource] | None = None,
    orders: Mapping[str, Sequence[str]] | None = None,
) -> float:
    """Compute iloss: the loss if classes are released as ranges and common ancestors.

    It is between 0 (nothing is lost) and n * p (everything is lost).

    Parameters
    ----------
    data : (n, p) numbers, or a table, as given to ``partition``.
    classes : a partition of these n records, or the class label of each, a whole number; -1 for
        suppressed records.
    hierarchies, orders : as given to ``partition``.

    Raises
    ------
    InvalidParameter : the partition has another number of records, or a label is not a whole number
        of -1 or more.
    """
    microdata = microdata_of(data, orders)
    classes = _partition_of(classes, microdata)
    trees = build_all(parse_all(hierarchies, files=True), microdata)
    return float(class_losses(microdata, ColumnStatistics.of(microdata), classes, trees).sum())


def _partition_of(partition_or_labels: Partition | ArrayLike, microdata: Microdata) -> Partition:
    """Convert a partition or labels into a partition of the records of ``microdata``."""
    classes = as_partition(getattr(partition_or_labels, "labels", partition_or_labels))
    if len(classes.labels) != microdata.n_records:
        raise InvalidParameter(
            f"The partition has {len(classes.labels)} records, the data {microdata.n_records}."
        )
    return classes


def as_partition(class_labels: object) -> Partition:
    """Convert class labels, (n,) whole numbers or -1 if suppressed, into a partition."""
    try:
        labels = np.asarray(class_labels)
    except ValueError:
        # Rows of different lengths. An array without dimensions is refused below.
        labels = np.array(None)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or labels.min(initial=0) < SUPPRESSED:
        raise InvalidParameter(
            "classes must be a partition, or the label of each record: whole numbers, -1 if"
            " suppressed.",
            hint="Pass the result of dbanon.partition, or its labels.",
        )
    dense_labels = np.full(len(labels), SUPPRESSED, np.int32)
    has_class = labels != SUPPRESSED
    dense_labels[has_class] = np.unique(labels[has_class], return_inverse=True)[1].reshape(-1)
    return Partition(dense_labels)


@name_missing_extras()
def _select_candidates(
    data: pd.DataFrame, nulls: str
) -> tuple[pd.DataFrame, NDArray[np.int64] | None]:
    """Select the candidates, i.e. the records that can get a class.

    Parameters
    ----------
    data : n records.
    nulls : the policy's treatment of NULLs.

    Returns
    -------
    The candidates; and the position of each record among them, int64 (n,), -1 if the record is not
    a candidate. The positions are None if all records are candidates.
    """
    from dbanon.stores.frame.microdata import releasable_rows

    # Only with ``nulls="suppress"`` are records with NULLs left out. If nothing is left out, the
    # result is ``data`` itself.
    complete_records = releasable_rows(data, list(data.columns), nulls)
    if complete_records is data:
        return data, None
    candidate_rows = np.flatnonzero(data.notna().all(axis=1).to_numpy())
    return complete_records, positions_among(candidate_rows, len(data))


def is_frame(data: object) -> TypeGuard[pd.DataFrame]:
    """Return True for a data frame of pandas."""
    return hasattr(data, "columns") and hasattr(data, "iloc")


def as_table(data: Any) -> Any:
    """Convert a table with named columns to a data frame; return arrays unchanged."""
    # Arrow tables, and frames of polars: lazy ones only have the second method.
    has_columns = hasattr(data, "__arrow_c_stream__") or hasattr(data, "collect_schema")
    first_row = data[0] if isinstance(data, (list, tuple)) and data else data
    if is_frame(data) or not (has_columns or isinstance(first_row, Mapping)):
        return data
    # If pandas is missing, the error names the extra that installs it; so below.
    with name_missing_extras():
        from dbanon.stores.frame.conversion import frame_of

        return frame_of(data)[0]


def microdata_of(
    data: object,
    orders: Mapping[str, Sequence[str]] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Microdata:
    """Convert data in any form that ``partition`` takes to microdata.

    Parameters
    ----------
    orders : for columns of a frame, by name: the values from the lowest to the highest.
    kinds : for columns of a frame, by name: ``nominal`` or ``numeric``.
    """
    table = as_table(data)
    if is_frame(table):
        orders = find_parameter(Policy, "orders").check(orders)
        with name_missing_extras():
            from dbanon.stores.frame.microdata import microdata_from_frame

            return microdata_from_frame(table, list(table.columns), orders=orders, kinds=kinds)
    if orders or kinds:
        raise InvalidParameter(
            f"{'Orders' if orders else 'Kinds'} belong to the columns of a data frame. An array"
            " has no named columns."
        )
    return _microdata_from_array(table)


def _microdata_from_array(data: ArrayLike) -> Microdata:
    """Convert (n, p) numbers to microdata, whose attributes are named "column 0" and so on."""
    try:
        array = np.asarray(data)
        if array.dtype.kind == "c":
            raise InvalidParameter(
                "The data must be real numbers, because complex numbers have no order.",
                hint="Pass the real and imaginary parts as separate columns.",
            )
        numbers = _copy_numbers(array)
    except (TypeError, ValueError):
        raise InvalidParameter(
            "The data must be numbers.",
            hint=(
                "Columns that are not numeric need a table with named columns, such as a data"
                " frame."
            ),
        ) from None
    if numbers.ndim != 2 or not numbers.shape[1]:
        raise InvalidParameter(
            "The data must have two dimensions: records and attributes.",
            hint="A single attribute is data.reshape(-1, 1).",
        )
    if not len(numbers):
        raise TooFewRecords("There are no records.")
    n, p = numbers.shape
    attributes = tuple(
        [Attribute(f"column {i}", Kind.FLOAT, Role.QUASI_IDENTIFIER) for i in range(p)]
    )
    row_numbers = np.arange(n, dtype=np.int64).reshape(-1, 1)
    return microdata_of_records(attributes, Chunk(row_numbers, numbers))


def _copy_numbers(array: AnyArray) -> NDArray[np.float64]:
    """Copy numbers to float64 in C order, large arrays on all cores."""
    if array.dtype.kind not in "fiu" or array.ndim != 2 or len(array) <= PIECE_RECORDS:
        # One core is enough. Values other than numbers are converted here, if that is possible.
        return np.array(array, dtype=np.float64, order="C")
    numbers = np.empty(array.shape, np.float64)

    def copy_rows(rows: slice) -> None:
        numbers[rows] = array[rows]

    on_all_cores(copy_rows, split_records(len(array)))
    return numbers
