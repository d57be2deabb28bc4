"""From microdata to a release: null handling, strata, method, recoding, loss."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import (
    InvalidParameter,
    NullInQuasiIdentifier,
    RowsNotAnonymous,
    SuppressionOverBudget,
    TooFewRecords,
    UnsupportedType,
)
from dbanon.measures import Loss, released_loss
from dbanon.methods import METHODS, find_method
from dbanon.methods.refine import check_refinement, max_refined_size, refine
from dbanon.methods.registry import Method, Tick
from dbanon.microdata import Microdata
from dbanon.partitions import AttributePartition, MethodResult, Partition, combine
from dbanon.recoding import ExactMeans, find_recoding
from dbanon.release import ColumnLoss, Release
from dbanon.schema import Attribute
from dbanon.space import STANDARDIZATIONS, Space, Standardization, standardization, weight_vector

NULL_POLICIES = ("error", "suppress", "category")

# Of the progress told, when a refinement follows the method.
_METHOD_SHARE = 0.5


@dataclass(frozen=True)
class Policy:
    """The wanted guarantee and how to reach it.

    Parameters
    ----------
    k : the smallest number of records that may share all quasi-identifiers, 2 or more.
    method : a name in the registry of methods.
    options : the method's own parameters.
    standardize : ``zscore``, ``range`` or ``none``.
    weights : weight per quasi-identifier in the squared distance; 1 where not named.
    nulls : ``error``; ``suppress`` withholds records with a NULL; ``category`` makes each pattern
        of NULLs a stratum of its own, within which k holds.
    max_suppression : largest share of records that may be withheld, 0 to 1; None for no limit.
    recoding : a name in the registry of recodings; None for the method's own.
    seed : for what draws; the same seed gives the same classes.
    refine : ``fast`` or ``thorough`` search for classes of less loss after the method; they then
        hold k to 2k-1 records, whatever the method's own sizes are.
    refine_iterations : None for as many as ``refine`` says.
    refine_seconds : limit for each stratum; the result then depends on the machine's speed.
    """

    k: int
    method: str = "mdav"
    options: Mapping[str, Any] = field(default_factory=dict)
    standardize: str = "zscore"
    weights: Mapping[str, float] = field(default_factory=dict)
    nulls: str = "error"
    max_suppression: float | None = None
    recoding: str | None = None
    seed: int = 0
    refine: str | None = None
    refine_iterations: int | None = None
    refine_seconds: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, (int, np.integer)) or self.k < 2:
            raise InvalidParameter(
                "k must be a whole number, 2 or more.",
                hint="Common choices are 3, 5 and 10.",
            )
        method = find_method(self.method)
        freeze = MappingProxyType
        object.__setattr__(self, "options", freeze(method.checked_options(self.options)))
        object.__setattr__(self, "weights", freeze(dict(self.weights)))
        object.__setattr__(self, "recoding", self.recoding or method.recoding)
        recoding = find_recoding(str(self.recoding))
        if recoding.method is not None and recoding.method != self.method:
            raise InvalidParameter(
                f"Recoding {recoding.name} belongs to method {recoding.method}."
            )
        _one_of("nulls", self.nulls, NULL_POLICIES)
        _one_of("standardize", self.standardize, STANDARDIZATIONS)
        check_refinement(self.refine, self.refine_iterations, self.refine_seconds)
        if self.refine is not None and method.gives is not Partition:
            raise InvalidParameter(
                f"Method {method.name} gives no classes of rows that could be refined."
            )
        budget = self.max_suppression
        if budget is not None and not 0 <= budget <= 1:
            raise InvalidParameter("max_suppression must be a share from 0 to 1.")

    def arguments(self) -> dict[str, Any]:
        """The policy as plain values, for the ledger."""
        return {
            "k": int(self.k),
            "method": self.method,
            "options": dict(self.options),
            "standardize": self.standardize,
            "weights": dict(self.weights),
            "nulls": self.nulls,
            "max_suppression": self.max_suppression,
            "recoding": self.recoding,
            "seed": self.seed,
            "refine": self.refine,
            "refine_iterations": self.refine_iterations,
            "refine_seconds": self.refine_seconds,
        }


def require_kinds(policy: Policy, attributes: tuple[Attribute, ...]) -> None:
    """Check that the method takes these attributes, before anything is read.

    Raises
    ------
    UnsupportedType : an attribute's type is not one the method takes.
    InvalidParameter : no attribute, or an attribute twice.
    """
    if not attributes:
        raise InvalidParameter(
            "No quasi-identifier was named.", hint="Name at least one column to anonymize."
        )
    names = [attribute.name for attribute in attributes]
    for name in names:
        if names.count(name) > 1:
            raise InvalidParameter(f'Column "{name}" is named twice as a quasi-identifier.')
    method = find_method(policy.method)
    for attribute in attributes:
        if not attribute.kind.is_numeric and not method.takes_categories:
            taking = [name for name, other in METHODS.items() if other.takes_categories]
            raise UnsupportedType(
                f'Column "{attribute.name}" is of type {attribute.sql_type or "text"}, and method'
                f" {policy.method} takes numbers, dates and timestamps only.",
                hint=(
                    "Methods that take it: " + ", ".join(taking) + "."
                    if taking
                    else "No method of this version takes it: leave the column out of the"
                    " quasi-identifiers and do not copy it, or give it as a number."
                ),
            )
    if method.max_attributes is not None and len(attributes) > method.max_attributes:
        raise InvalidParameter(
            f"Method {method.name} takes {method.max_attributes} quasi-identifier,"
            f" not {len(attributes)}.",
            hint="Name fewer quasi-identifiers, or choose another method.",
        )
    weight_vector(tuple(names), policy.weights)


def require_rows(policy: Policy) -> None:
    """Check that the policy's method gives classes of rows, before anything is read.

    Raises
    ------
    InvalidParameter : it groups attributes by themselves, and rows would not be k-anonymous.
    """
    method = find_method(policy.method)
    if method.gives is not Partition:
        raise InvalidParameter(
            f"Method {method.name} gives {method.guarantee}: a release of it would fail the"
            " recount of its rows.",
            hint="Choose a method that groups rows; dbanon.partition() gives the classes of each"
            " attribute for study.",
        )


def find_classes(microdata: Microdata, policy: Policy, tick: Tick | None = None) -> Partition:
    """Put the records into equivalence classes as the policy says.

    Raises
    ------
    TooFewRecords : fewer than k records, in all or in a stratum.
    NullInQuasiIdentifier : NULLs, and the policy does not say what to do with them.
    SuppressionOverBudget : more records would be withheld than allowed.
    """
    require_rows(policy)
    found = _found(microdata, policy, tick)
    return combine(
        [(records, result) for records, result in found if isinstance(result, Partition)],
        microdata.n_records,
    )


def find_attribute_classes(
    microdata: Microdata, policy: Policy, tick: Tick | None = None
) -> AttributePartition:
    """Put the values of each attribute into classes of their own, which rows do not share.

    Warns with ``RowsNotAnonymous``; raises as ``find_classes``.
    """
    warnings.warn(RowsNotAnonymous(RowsNotAnonymous.__doc__), stacklevel=3)
    found = _found(microdata, policy, tick)
    by_attribute = zip(
        *(result.partitions for _, result in found if isinstance(result, AttributePartition)),
        strict=True,
    )
    records = [records for records, _ in found]
    n = microdata.n_records
    return AttributePartition(
        tuple(combine(list(zip(records, parts, strict=True)), n) for parts in by_attribute)
    )


def _found(
    microdata: Microdata, policy: Policy, tick: Tick | None
) -> list[tuple[NDArray[np.int64], MethodResult]]:
    """What the method gives for each stratum, with the records of it."""
    require_kinds(policy, microdata.attributes)
    n = microdata.n_records
    strata = _strata(microdata, policy)
    withheld = n - sum(len(records) for records in strata)
    _check_budget(policy, withheld, n)
    for records in strata:
        if len(records) < policy.k:
            raise _too_few(microdata, policy, records, withheld, len(strata))

    method = find_method(policy.method)
    transform = space_transform(microdata, policy)
    weights = weight_vector(tuple(a.name for a in microdata.numeric), policy.weights)
    rng = np.random.Generator(np.random.PCG64(policy.seed))
    tick = tick or _silent
    parts: list[tuple[NDArray[np.int64], MethodResult]] = []
    done = 0
    for records in strata:
        points = transform.apply(microdata.numbers[records])
        points *= weights
        if microdata.valid is not None:
            points[~_numeric_valid(microdata)[records]] = 0.0
        space = Space(np.ascontiguousarray(points), tuple(a.name for a in microdata.numeric))
        share, before = len(records) / n, done / n

        def advance(fraction: float, share: float = share, before: float = before) -> None:
            tick(before + share * fraction)

        parts.append((records, _run(method, space, policy, advance, rng)))
        done += len(records)
    return parts


def recode(
    microdata: Microdata, partition: Partition, policy: Policy, exact_means: ExactMeans
) -> Release:
    """Give every class its released values, and measure what they lose."""
    recoding = find_recoding(str(policy.recoding))
    parameters = {name: policy.options[name] for name in recoding.parameters}
    columns = recoding.run(microdata, partition, exact_means, **parameters)
    transform = standardization(microdata.numbers, "zscore", _numeric_valid(microdata))
    points = transform.apply(microdata.numbers)
    valid = None if microdata.valid is None else _numeric_valid(microdata)

    def loss(released: list[NDArray[np.float64]]) -> Loss:
        return released_loss(
            points, partition, transform.apply(np.column_stack(released)), valid
        )

    before = loss([_filled(column.unrounded) for column in columns])
    after = loss([column.as_float() for column in columns])
    return Release(
        partition=partition,
        columns=columns,
        losses=tuple(
            ColumnLoss(column.attribute.name, float(before.columns[i]), float(after.columns[i]))
            for i, column in enumerate(columns)
        ),
        loss_before_rounding=before.total,
        loss=after.total,
        guarantee=guarantee(policy, [column.attribute.name for column in columns]),
    )


def guarantee(policy: Policy, names: list[str]) -> str:
    """What a verified release guarantees, in words."""
    text = (
        f"{find_method(policy.method).guarantee}: every combination of released values of"
        f" ({', '.join(names)}) is shared by at least {policy.k} rows of the release"
    )
    if policy.nulls == "category":
        text += ", NULL counted as a value"
    if policy.nulls == "suppress":
        text += "; records with a NULL were withheld"
    return text


def space_transform(microdata: Microdata, policy: Policy) -> Standardization:
    """The map from the table's values to points; the same for all strata."""
    return standardization(microdata.numbers, policy.standardize, _numeric_valid(microdata))


def _run(
    method: Method, space: Space, policy: Policy, tick: Tick, rng: np.random.Generator
) -> MethodResult:
    share = 1.0 if policy.refine is None else _METHOD_SHARE
    result = method.run(
        space,
        int(policy.k),
        tick=lambda done: tick(share * done),
        rng=rng,
        **policy.options,
    )
    max_size = method.max_size(policy.k) if method.max_size else None
    if isinstance(result, AttributePartition):
        for partition in result.partitions:
            partition.require(policy.k, max_size)
        return result
    assert isinstance(result, Partition)
    result.require(policy.k, max_size)
    if policy.refine is None:
        return result
    refined = refine(
        space,
        result,
        int(policy.k),
        policy.refine,
        tick=lambda share: tick(_METHOD_SHARE + (1 - _METHOD_SHARE) * share),
        seed=policy.seed,
        iterations=policy.refine_iterations,
        seconds=policy.refine_seconds,
    )
    return refined.require(policy.k, max_refined_size(policy.k))


def _strata(microdata: Microdata, policy: Policy) -> list[NDArray[np.int64]]:
    """Sets of records that classes must not cross; records in none are withheld."""
    everyone = np.arange(microdata.n_records)
    if microdata.valid is None:
        return [everyone]
    complete = microdata.valid.all(axis=1)
    if policy.nulls == "suppress":
        return [everyone[complete]]
    if policy.nulls == "category":
        _, pattern = np.unique(microdata.valid, axis=0, return_inverse=True)
        pattern = pattern.reshape(-1)
        return [everyone[pattern == value] for value in range(int(pattern.max()) + 1)]
    holding = [
        f'"{attribute.name}" in {count} rows'
        for attribute, count in zip(
            microdata.attributes, (~microdata.valid).sum(axis=0), strict=True
        )
        if count
    ]
    raise NullInQuasiIdentifier(
        f"Quasi-identifiers hold NULL: {', '.join(holding)}.",
        hint="Choose nulls=suppress (withhold these records) or nulls=category (classes within"
        " each pattern of NULLs).",
    )


def _check_budget(policy: Policy, withheld: int, n: int) -> None:
    if policy.max_suppression is not None and withheld > policy.max_suppression * n:
        raise SuppressionOverBudget(
            f"{withheld} of {n} records would be withheld, more than the allowed share"
            f" {policy.max_suppression:g}.",
            hint=f"It would be feasible with max_suppression = {withheld / n:.6f} or more.",
        )


def _too_few(
    microdata: Microdata,
    policy: Policy,
    records: NDArray[np.int64],
    withheld: int,
    n_strata: int,
) -> TooFewRecords:
    count = len(records)
    if n_strata == 1:
        text = f"There are {count} records, fewer than k = {policy.k}"
        text += f" ({withheld} more have a NULL and are withheld)." if withheld else "."
        hint = f"k can be {count} at most here." if count >= 2 else "Anonymize a larger table."
        return TooFewRecords(text, hint=hint)
    assert microdata.valid is not None
    absent = [
        f'"{attribute.name}"'
        for attribute, present in zip(
            microdata.attributes, microdata.valid[records[0]], strict=True
        )
        if not present
    ]
    where = "NULL in " + ", ".join(absent) if absent else "no NULL"
    return TooFewRecords(
        f"Only {count} records have {where}, fewer than k = {policy.k}.",
        hint="With nulls=category each pattern of NULLs needs k records; nulls=suppress withholds"
        " records with a NULL instead.",
    )


def _numeric_valid(microdata: Microdata) -> NDArray[np.bool_]:
    """bool (n, p), which numeric values are not NULL."""
    if microdata.valid is None:
        return np.ones(microdata.numbers.shape, bool)
    numeric = [attribute.kind.is_numeric for attribute in microdata.attributes]
    return microdata.valid[:, numeric]


def _filled(values: NDArray[np.float64] | None) -> NDArray[np.float64]:
    assert values is not None
    return values


def _silent(fraction: float) -> None:
    """A tick for callers who watch nothing."""


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidParameter(f"{name} must be one of {', '.join(known)}.")
