"""Python's door to databases and arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbanon.errors import InvalidParameter, TooFewRecords
from dbanon.hierarchy import Hierarchy
from dbanon.hierarchy_spec import Given, built, parse_all
from dbanon.measures import Model, centroid_loss
from dbanon.methods import find_method
from dbanon.microdata import Chunk, Microdata, microdata_from_chunks
from dbanon.partitions import AttributePartition, Partition, places_of
from dbanon.pipeline import find_attribute_classes, find_classes
from dbanon.policy import Policy, checked_orders
from dbanon.recode import class_losses
from dbanon.schema import Attribute, Kind, Role, require_lists
from dbanon.space import standardization

if TYPE_CHECKING:
    import pandas as pd

    from dbanon.jobs import PhaseProgress
    from dbanon.release import Report
    from dbanon.stores.base import OnSql


def anonymize(
    database: Any,
    *,
    table: str,
    quasi_identifiers: Sequence[str],
    k: int,
    output: str,
    method: str = "mdav",
    options: Mapping[str, Any] | None = None,
    sensitive: Sequence[str] = (),
    keep: Sequence[str] = (),
    by: Sequence[str] = (),
    entity: str | None = None,
    key: Sequence[str] = (),
    standardize: str = "zscore",
    weights: Mapping[str, float] | None = None,
    nulls: str = "error",
    max_suppression: float | None = 0.0,
    recoding: str | None = None,
    seed: int = 0,
    refine: str | None = None,
    hierarchies: Mapping[str, Given] | None = None,
    intervals: str = "text",
    local_range: bool = False,
    steps: Mapping[str, float] | None = None,
    refine_iterations: int | None = None,
    refine_seconds: float | None = None,
    block_size: int | None = None,
    models: Sequence[Model] = (),
    withhold_failing: bool = False,
    orders: Mapping[str, Sequence[str]] | None = None,
    guarantee: str = "rows",
    strict: bool = False,
    output_kind: str = "table",
    if_exists: str = "error",
    target: Any = None,
    chunk_rows: int | None = None,
    memory_limit: int | None = None,
    progress: PhaseProgress | None = None,
    on_sql: OnSql | None = None,
    door: str = "python",
) -> Report:
    """Anonymize a table of a database into a table or view that was recounted before it is visible.

    Parameters
    ----------
    database : a URL, a SQLAlchemy engine or a DuckDB connection.
    table, output : names as in ``app.people`` or ``'"App"."Peo ple"'``; letters keep their case.
    quasi_identifiers : columns that together could re-identify a person.
    k : the smallest number of rows that may share them, 2 or more.
    sensitive, keep : columns that are copied as they are. A column named nowhere is not copied.
    by : columns whose values make strata: released as they are, no class crosses them, and k counts
        them as quasi-identifiers.
    entity : the column that says whose a row is: k counts its distinct values, and all rows of one
        (in a stratum) share a class. It is not released. None: every row is a person of its own.
    key : columns that tell every row from every other; needed for views and foreign tables.
    hierarchies : by column, for methods of generalization: a Hierarchy, the path of a file, or what
        ``hierarchy_spec`` takes, such as ``{"table": "ref.tree"}``, ``{"name": "education"}`` or
        ``{"intervals": [5, 10]}``.
    models : privacy models of sensitive columns; classes are merged until each keeps to all.
    orders : the values of text columns from the lowest to the highest; an enum has its own order.
    target : another database to write to, as ``database``; the same one when None.
    chunk_rows : rows read at a time; never changes the result.
    memory_limit : bytes that reading and clustering may use; None for no limit.
    progress : called with a phase (``read``, ``cluster``, ``write``, ``verify``) and a share.
    on_sql : called with the text of each SQL statement before it runs.
    door : what the ledger says of where the run was asked for: ``python``, ``cli`` or ``job``.

    The other parameters are those of ``Policy`` and ``Job``. With ``guarantee="per_attribute"``
    rows are not k-anonymous, which the warning ``RowsNotAnonymous`` says. Of columns copied as they
    are that tell too much ``KeptColumnTells`` warns; ``strict`` refuses them.

    Raises
    ------
    DbanonError : of the class that says what went wrong; nothing was published then.
    """
    from dbanon.jobs import Job
    from dbanon.runs import run_noted
    from dbanon.stores import open_store
    from dbanon.stores.base import DEFAULT_CHUNK_ROWS
    from dbanon.stores.names import parse_relation

    require_lists(
        quasi_identifiers=quasi_identifiers,
        sensitive=sensitive,
        keep=keep,
        by=by,
        key=key,
        models=models,
    )
    policy = Policy(
        k=k,
        method=method,
        options=options or {},
        standardize=standardize,
        weights=weights or {},
        nulls=nulls,
        max_suppression=max_suppression,
        recoding=recoding,
        seed=seed,
        refine=refine,
        intervals=intervals,
        local_range=local_range,
        steps=steps or {},
        refine_iterations=refine_iterations,
        refine_seconds=refine_seconds,
        block_size=block_size,
        models=tuple(models),
        withhold_failing=withhold_failing,
        orders=orders or {},
        guarantee=guarantee,
        strict=strict,
    )
    job = Job(
        source=open_store(database, on_sql),
        table=parse_relation(table),
        output=parse_relation(output),
        quasi_identifiers=tuple(quasi_identifiers),
        policy=policy,
        hierarchies=parse_all(hierarchies, files=True),
        sensitive=tuple(sensitive),
        keep=tuple(keep),
        by=tuple(by),
        entity=entity,
        key=tuple(key),
        output_kind=output_kind,
        if_exists=if_exists,
        target=None if target is None else open_store(target, on_sql),
        chunk_rows=DEFAULT_CHUNK_ROWS if chunk_rows is None else chunk_rows,
        memory_limit=memory_limit,
        door=door,
    )
    return run_noted(job, progress)


def partition(
    data: ArrayLike | pd.DataFrame,
    k: int,
    *,
    method: str = "mdav",
    standardize: str = "zscore",
    weights: Mapping[str, float] | None = None,
    nulls: str = "error",
    max_suppression: float | None = 0.0,
    seed: int = 0,
    refine: str | None = None,
    hierarchies: Mapping[str, Given] | None = None,
    orders: Mapping[str, Sequence[str]] | None = None,
    refine_iterations: int | None = None,
    refine_seconds: float | None = None,
    block_size: int | None = None,
    **options: Any,
) -> Partition | AttributePartition:
    """Put records into equivalence classes of at least k, in the order they are given.

    Parameters
    ----------
    data : (n, p) numbers, or a DataFrame whose columns are all quasi-identifiers.
    k : smallest number of records in a class.
    hierarchies : by column, a Hierarchy, the path of a file, or a builder such as
        ``{"intervals": [5, 10]}``; a column without one is a number, or a category whose values are
        different or not.
    orders : the values of text columns from the lowest to the highest; ordered categoricals have
        that of their categories.
    refine : ``fast`` or ``thorough`` search for classes of less loss after the method.
    options : the method's own parameters.

    The other parameters are those of ``Policy``.

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
    policy = Policy(
        k=k,
        method=method,
        options=options,
        standardize=standardize,
        weights=weights or {},
        nulls=nulls,
        max_suppression=max_suppression,
        seed=seed,
        refine=refine,
        orders=orders or {},
        refine_iterations=refine_iterations,
        refine_seconds=refine_seconds,
        block_size=block_size,
    )
    rest, places = _candidates(data, policy.nulls)
    microdata = _microdata(rest, policy.orders)
    if places is not None:
        microdata = replace(microdata, withheld=len(places) - microdata.n_records)
    given = parse_all(hierarchies, files=True)

    def trees(microdata: Microdata) -> dict[str, Hierarchy]:
        return built(given, microdata)

    policy = replace(policy, hierarchies=trees(microdata))
    found: Partition | AttributePartition
    if find_method(method).gives is AttributePartition:
        found = find_attribute_classes(microdata, policy)
    else:
        found = find_classes(microdata, policy, None, trees)
    return found if places is None else found.of(places)


def information_loss(
    data: ArrayLike | pd.DataFrame,
    classes: Partition,
    *,
    orders: Mapping[str, Sequence[str]] | None = None,
) -> float:
    """SSE/SST on z-scores when every class is released with its centroid: 0 none, 1 all.

    Parameters
    ----------
    data, orders : (n, p) numbers, or a DataFrame of numbers and ordinal columns, as given to
        ``partition``.
    classes : a partition of these n records; suppressed records are left out.

    Raises
    ------
    InvalidParameter : the partition is of another number of records.
    """
    microdata = _microdata(data, orders)
    _require_same(classes, microdata)
    valid = microdata.numeric_valid()
    points = standardization(microdata.numbers, valid=valid).apply(microdata.numbers)
    return centroid_loss(points, classes, valid).total


def generalization_loss(
    data: ArrayLike | pd.DataFrame,
    classes: Partition,
    *,
    hierarchies: Mapping[str, Given] | None = None,
    orders: Mapping[str, Sequence[str]] | None = None,
) -> float:
    """iloss on the classes' own ranges and common ancestors: 0 none, records times columns all.

    Parameters
    ----------
    data, hierarchies, orders : as given to ``partition``.
    classes : a partition of these n records; suppressed records are left out.

    Raises
    ------
    InvalidParameter : the partition is of another number of records.
    """
    microdata = _microdata(data, orders)
    _require_same(classes, microdata)
    trees = built(parse_all(hierarchies, files=True), microdata)
    return float(class_losses(microdata, classes, trees).sum())


def _require_same(classes: Partition, microdata: Microdata) -> None:
    if len(classes.labels) != microdata.n_records:
        raise InvalidParameter(
            f"The partition has {len(classes.labels)} records, the data {microdata.n_records}."
        )


def _candidates(data: Any, nulls: str) -> tuple[Any, NDArray[np.int64] | None]:
    """The records that may get a class, and where each of all records is among them."""
    if not _is_frame(data):
        return data, None
    from dbanon.frame_microdata import candidates

    rest = candidates(data, list(data.columns), nulls)
    if rest is data:
        return data, None
    held = np.flatnonzero(data.notna().all(axis=1).to_numpy())
    return rest, places_of(held, len(data))


def _is_frame(data: Any) -> bool:
    return hasattr(data, "columns") and hasattr(data, "iloc")


def _microdata(data: Any, orders: Mapping[str, Sequence[str]] | None) -> Microdata:
    if _is_frame(data):
        from dbanon.frame_microdata import microdata_from_frame

        return microdata_from_frame(data, list(data.columns), orders=checked_orders(orders or {}))
    if orders:
        raise InvalidParameter("Orders are of the columns of a data frame, not of an array.")
    return _microdata_from_array(data)


def _microdata_from_array(data: ArrayLike) -> Microdata:
    try:
        numbers = np.array(data, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InvalidParameter("The data must be numbers.") from None
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


def _row_numbers(n: int) -> NDArray[np.int64]:
    return np.arange(n, dtype=np.int64).reshape(-1, 1)
