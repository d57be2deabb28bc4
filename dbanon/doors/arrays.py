"""Python's door to arrays and data frames: classes alone, and their losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbanon.data.chunks import Chunk, microdata_from_chunks
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.option import make, parameter, parameters
from dbanon.data.partition import SUPPRESSED, AttributePartition, Partition, places_of
from dbanon.data.pieces import AT_ONCE, on_all_cores, pieces
from dbanon.data.scales import Standardization
from dbanon.data.schema import Attribute, Kind, Role
from dbanon.doors.signature import lists
from dbanon.errors import InvalidParameter, TooFewRecords, extras_told
from dbanon.hierarchy.spec import HierarchySource, build_all, parse_all
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.policy import Policy
from dbanon.measures import centroid_loss
from dbanon.partitioning.nulls import merge_nulls
from dbanon.partitioning.partition_for import partition_for
from dbanon.release.recode import class_losses

if TYPE_CHECKING:
    from typing import Unpack

    import pandas as pd

    from dbanon.job.options import AttributeMethod, ClassOptions, RowMethod


# What a policy says of classes alone; the rest of it is about releases.
_OF_CLASSES = tuple(one for one in parameters(Policy) if not one.option.release)


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


@lists(one for one in _OF_CLASSES if one.name != "options")
def partition(
    data: ArrayLike | pd.DataFrame,
    k: int,
    *,
    hierarchies: Mapping[str, HierarchySource] | None = None,
    **options: Any,
) -> Partition | AttributePartition:
    """Put records into equivalence classes of at least k, in the order they are given.

    Parameters
    ----------
    data : (n, p) numbers, or a table as ``anonymize_frame`` takes it, whose columns are all
        quasi-identifiers.
    k : smallest number of records in a class.
    hierarchies : by column, a Hierarchy, the path of a file, or a builder such as
        ``{"intervals": [5, 10]}``; a column without one is a number, or a category whose values are
        different or not.
    options : the method's own parameters, and the options of ``Policy`` that are about classes, as
        the signature lists them: ``help(dbanon.partition)``.

    Returns
    -------
    Partition : ``.labels`` int32 (n,), -1 where suppressed; ``.sizes``; ``.n_classes``. A method
    that groups each attribute by itself gives an AttributePartition of them, with the warning
    ``RowsNotAnonymous``; one of a full domain gives ``.levels``, too.

    Raises
    ------
    TooFewRecords : fewer than k records.
    NonFiniteValue : NaN or infinity in an array; in a DataFrame NaN is NULL.
    UnsupportedType : a column that the method does not take.
    """
    of_classes = {one.name for one in _OF_CLASSES} - {"options"}
    given = {name: options.pop(name) for name in of_classes & set(options)}
    policy = make(Policy, {"k": k, "options": options, **given})
    data = table_of(data)
    rest, places = _candidates(data, policy.nulls)
    microdata = microdata_of(rest, policy.orders, policy.kinds)
    if places is not None:
        microdata = replace(microdata, withheld=len(places) - microdata.n_records)
    microdata = merge_nulls(microdata, policy)
    given_trees = parse_all(hierarchies, files=True)

    def trees(microdata: Microdata) -> dict[str, Hierarchy]:
        return build_all(given_trees, microdata)

    policy = replace(policy, hierarchies=trees(microdata))
    found = partition_for(microdata, policy, trees=trees).classes
    return found if places is None else found.of(places)


def information_loss(
    data: ArrayLike | pd.DataFrame,
    classes: Partition | ArrayLike,
    *,
    orders: Mapping[str, Sequence[str]] | None = None,
) -> float:
    """SSE/SST on z-scores when every class is released with its centroid, 0 (none) to 1 (all).

    Parameters
    ----------
    data, orders : (n, p) numbers, or a DataFrame of numbers and ordinal columns, as given to
        ``partition``.
    classes : a partition of these n records, or the label of each, a whole number and -1 where it
        is suppressed; suppressed records are left out.

    Raises
    ------
    InvalidParameter : the partition is of another number of records, or labels are no such numbers.
    """
    microdata = microdata_of(data, orders)
    classes = _classes(classes, microdata)
    valid = microdata.numeric_valid()
    scales = Measures.of(microdata).numbers
    transform = Standardization.of([scales[a.name] for a in microdata.numeric])
    points = transform.apply(microdata.numbers)
    return centroid_loss(points, classes, valid).total


def generalization_loss(
    data: ArrayLike | pd.DataFrame,
    classes: Partition | ArrayLike,
    *,
    hierarchies: Mapping[str, HierarchySource] | None = None,
    orders: Mapping[str, Sequence[str]] | None = None,
) -> float:
    """iloss on the classes' own ranges and common ancestors: 0 none, records times columns all.

    Parameters
    ----------
    data, hierarchies, orders : as given to ``partition``.
    classes : as in ``information_loss``.

    Raises
    ------
    InvalidParameter : as in ``information_loss``.
    """
    microdata = microdata_of(data, orders)
    classes = _classes(classes, microdata)
    trees = build_all(parse_all(hierarchies, files=True), microdata)
    return float(class_losses(microdata, Measures.of(microdata), classes, trees).sum())


def _classes(given: Partition | ArrayLike, microdata: Microdata) -> Partition:
    """The classes of these records, given as a partition or as labels of any numbers."""
    classes = classes_of(getattr(given, "labels", given))
    if len(classes.labels) != microdata.n_records:
        raise InvalidParameter(
            f"The partition has {len(classes.labels)} records, the data {microdata.n_records}."
        )
    return classes


def classes_of(given: Any) -> Partition:
    try:
        labels = np.asarray(given)
    except ValueError:
        labels = np.array(None)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or labels.min(initial=0) < SUPPRESSED:
        raise InvalidParameter(
            "classes must be a partition, or the label of each record: whole numbers, -1 where it"
            " is suppressed.",
            hint="Give what dbanon.partition gave, or its labels.",
        )
    found = np.full(len(labels), SUPPRESSED, np.int32)
    held = labels != SUPPRESSED
    found[held] = np.unique(labels[held], return_inverse=True)[1].reshape(-1)
    return Partition(found)


@extras_told()
def _candidates(data: Any, nulls: str) -> tuple[Any, NDArray[np.int64] | None]:
    """The records that may get a class, and where each of all records is among them."""
    if not is_frame(data):
        return data, None
    from dbanon.stores.frame.microdata import candidates

    rest = candidates(data, list(data.columns), nulls)
    if rest is data:
        return data, None
    held = np.flatnonzero(data.notna().all(axis=1).to_numpy())
    return rest, places_of(held, len(data))


def is_frame(data: Any) -> bool:
    return hasattr(data, "columns") and hasattr(data, "iloc")


@extras_told()
def table_of(data: Any) -> Any:
    """What has named columns as a data frame; arrays as they are."""
    named = hasattr(data, "__arrow_c_stream__") or hasattr(data, "collect_schema")
    first = data[0] if isinstance(data, (list, tuple)) and data else data
    if is_frame(data) or not (named or isinstance(first, Mapping)):
        return data
    from dbanon.stores.frame.conversion import frame_of

    return frame_of(data)[0]


@extras_told()
def microdata_of(
    data: Any,
    orders: Mapping[str, Sequence[str]] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Microdata:
    """The records, as ``partition`` takes them."""
    data = table_of(data)
    if is_frame(data):
        from dbanon.stores.frame.microdata import microdata_from_frame

        return microdata_from_frame(
            data,
            list(data.columns),
            orders=parameter(Policy, "orders").check(orders),
            kinds=kinds,
        )
    if orders or kinds:
        raise InvalidParameter(
            f"{'Orders' if orders else 'Kinds'} belong to the columns of a data frame. An array has"
            " none."
        )
    return _microdata_from_array(data)


def _microdata_from_array(data: ArrayLike) -> Microdata:
    try:
        given = np.asarray(data)
        if given.dtype.kind == "c":
            raise InvalidParameter(
                "The data must be numbers, and complex ones have no order.",
                hint="Give real and imaginary parts as columns of their own.",
            )
        numbers = _copied(given)
    except (TypeError, ValueError):
        raise InvalidParameter(
            "The data must be numbers.",
            hint=(
                "Other columns can only be taken from tables with named columns, such as a data"
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
    attributes = [
        Attribute(f"column {i}", Kind.FLOAT, Role.QUASI_IDENTIFIER) for i in range(numbers.shape[1])
    ]
    return microdata_from_chunks(attributes, [Chunk(_row_numbers(len(numbers)), numbers)])


def _copied(given: NDArray[Any]) -> NDArray[np.float64]:
    """The numbers as float64, in C order; many of them on all cores, whose memory is new."""
    if given.dtype.kind not in "fiu" or given.ndim != 2 or len(given) <= AT_ONCE:
        return np.array(given, dtype=np.float64, order="C")
    numbers = np.empty(given.shape, np.float64)

    def copy(piece: slice) -> None:
        numbers[piece] = given[piece]

    on_all_cores(copy, pieces(len(given)))
    return numbers


def _row_numbers(n: int) -> NDArray[np.int64]:
    return np.arange(n, dtype=np.int64).reshape(-1, 1)
