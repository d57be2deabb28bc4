"""Bound: what no release of a table can lose less than. Nothing is written."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from dbanon.bounds.certificate import MOST_PRICED, MOST_RECORDS, Certificate, certificate
from dbanon.bounds.program import has_solver
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.scales import Standardization
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import NullInQuasiIdentifier, TooFewRecords, UnsupportedType
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.requirements import require_kinds
from dbanon.methods.registry import Tick
from dbanon.partitioning.classes import find_classes
from dbanon.run.plan import plan
from dbanon.stores.ports import Source


def bound_table(job: Job, source: Source, seconds: float, tick: Tick) -> Certificate:
    """The certificate of a table; its quasi-identifiers are read, and no more.

    Raises
    ------
    DbanonError : what reading the table raises, and as ``bound``.
    """
    relation = source.describe(job)
    for name in job.quasi_identifiers:
        require_number(relation.attribute(name), job.policy.orders)
    planned = plan(job, source, pulse=lambda: tick(0.0))
    microdata = source.read(planned.relation, planned.roles, job, tick)
    return bound(microdata, int(job.policy.k), seconds, tick)


def require_number(attribute: Attribute, orders: Collection[str] = ()) -> None:
    """Check that a bound can be of an attribute.

    Parameters
    ----------
    orders : names of columns of text whose order is stated.

    Raises
    ------
    UnsupportedType : it is text, or truths, without an order.
    """
    takes = attribute.kind.is_numeric or attribute.kind is Kind.OTHER
    if not takes and attribute.name not in orders:
        raise UnsupportedType(
            f'Column "{attribute.name}" is of type {attribute.sql_type or "text"},'
            " and a bound needs numbers, dates, or ordered text.",
            hint="Leave it out of `quasi_identifiers`, or state its order: `orders`.",
        )


def bound(
    microdata: Microdata,
    k: int,
    seconds: float,
    tick: Tick,
    start: Sequence[Partition] = (),
) -> Certificate:
    """The certificate of records of numbers.

    Parameters
    ----------
    start : partitions of all of them into classes of k or more; where there is none, one is made.
    seconds : of wall time, for all but the bound of nearest neighbours.
    tick : called with a share now and then; what it raises ends it.

    Raises
    ------
    TooFewRecords : fewer than k records.
    NullInQuasiIdentifier : a value is missing, and z-scores of a class are not those of all.
    UnsupportedType : a column is neither of numbers nor of ranks.
    """
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
    scales = Measures.of(microdata).numbers
    transform = Standardization.of([scales[a.name] for a in microdata.numeric])
    points = np.ascontiguousarray(transform.apply(microdata.numbers))
    if not start and has_solver() and n <= MOST_RECORDS and k <= MOST_PRICED:
        start = [find_classes(microdata, policy, tick)]
    return certificate(points, k, start, seconds=seconds, tick=tick)
