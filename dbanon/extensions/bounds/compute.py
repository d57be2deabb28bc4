"""Compute lower bounds on the information loss of any release of a table. Writes nothing."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.scales import Standardization
from dbanon.data.schema import Attribute, Kind
from dbanon.data.types import JsonObject
from dbanon.errors import NullInQuasiIdentifier, TooFewRecords, UnsupportedType
from dbanon.extensions.bounds.certificate import (
    MAX_K_FOR_CLASSES,
    MAX_RECORDS,
    Certificate,
    compute_certificate,
)
from dbanon.extensions.bounds.program import has_solver
from dbanon.hierarchy.leaves import take_records
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.requirements import require_kinds
from dbanon.methods.registry import Tick
from dbanon.partitioning.classes import find_classes
from dbanon.release.recode import Release
from dbanon.run.plan import Plan, plan
from dbanon.stores.ports import Source


def compute_table_bound(job: Job, source: Source, seconds: float, tick: Tick) -> Certificate:
    """Read the quasi-identifiers of a table, and compute its certificate.

    Parameters
    ----------
    seconds : limit of wall time, see ``compute_bound``.
    tick : called with the share of the work that is done, 0 to 1.

    Raises
    ------
    DbanonError : the table cannot be read, or its records have no bound, see ``compute_bound``.
    """
    relation = source.describe(job)
    for name in job.quasi_identifiers:
        require_number(relation.attribute(name), job.policy.orders)
    # The plan calls ``pulse`` regularly, so that an exception from ``tick`` can end it, too.
    planned = plan(job, source, pulse=lambda: tick(0.0))
    # The plan has completed the types of the columns.
    microdata = source.read(planned.relation, planned.roles, job, tick)
    return compute_bound(microdata, int(job.policy.k), seconds, tick)


def evaluate_bound(microdata: Microdata, planned: Plan, release: Release, tick: Tick) -> JsonObject:
    """Compute the certificate of a release for the report.

    The key ``above`` holds the share by which the release's loss exceeds the bound.
    """
    labels = release.partition.labels
    records = np.flatnonzero(labels >= 0)
    certificate = compute_bound(
        take_records(microdata, records),
        int(planned.policy.k),
        float(planned.policy.certificate or 0.0),  # This option is the time limit in seconds.
        tick,
        start_partitions=[Partition(labels[records])],
    )
    gap = certificate.gap(release.loss)
    return {**certificate.to_dict(), "above": gap if math.isfinite(gap) else None}


def require_number(attribute: Attribute, orders: Collection[str] = ()) -> None:
    """Check that bounds support the type of an attribute.

    Parameters
    ----------
    orders : names of the columns for which the job states an order of values.

    Raises
    ------
    UnsupportedType : the attribute is text or Boolean, and not in ``orders``.
    """
    # ``require_kinds`` refuses ``OTHER`` later: some types are known only once values are read.
    is_supported = attribute.kind.is_numeric or attribute.kind is Kind.OTHER
    if not is_supported and attribute.name not in orders:
        raise UnsupportedType(
            f'Column "{attribute.name}" is of type {attribute.sql_type or "text"},'
            " and a bound needs numbers, dates, or ordered text.",
            hint="Leave it out of `quasi_identifiers`, or state its order: `orders`.",
        )


def compute_bound(
    microdata: Microdata,
    k: int,
    seconds: float,
    tick: Tick,
    start_partitions: Sequence[Partition] = (),
) -> Certificate:
    """Compute the certificate of numeric records: a lower bound of the loss of any release.

    Parameters
    ----------
    start_partitions : partitions of all records into classes of k or more, to start the search
        from; if empty, one is computed.
    seconds : limit of wall time; the bound by nearest neighbours is computed in addition.
    tick : called regularly with the share done, 0 to 1; an exception ends the computation.

    Raises
    ------
    TooFewRecords : fewer than k records.
    NullInQuasiIdentifier : a value is missing; the bound supports complete records only.
    UnsupportedType : a column is text without an order, or Boolean.
    """
    # Used for the start partition, and to check the attributes; nothing is released by it.
    policy = Policy(k=k, refine="fast")
    for attribute in microdata.attributes:
        require_number(attribute)
    require_kinds(policy, microdata.attributes)
    n = microdata.n_records
    if n < k:
        raise TooFewRecords(f"There are {n} records, fewer than k = {k}.")
    if microdata.valid is not None:
        raise NullInQuasiIdentifier(
            "Quasi-identifiers hold NULL, and a bound needs records with all values.",
            hint="Leave out the rows with NULL in a view.",
        )
    scales = ColumnStatistics.of(microdata).scales
    transform = Standardization.of([scales[a.name] for a in microdata.numeric])
    points = np.ascontiguousarray(transform.apply(microdata.numbers))
    # Only the method ``classes`` of certificates starts from partitions, under these conditions.
    if not start_partitions and has_solver() and n <= MAX_RECORDS and k <= MAX_K_FOR_CLASSES:
        start_partitions = [find_classes(microdata, policy, tick)]
    return compute_certificate(points, k, start_partitions, seconds=seconds, tick=tick)
