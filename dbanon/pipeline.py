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
from dbanon.hierarchy import Hierarchy
from dbanon.leaves import leaf_codes, trees_of
from dbanon.measures import Loss, iloss, released_loss
from dbanon.methods import METHODS, find_method
from dbanon.methods import refine as centroid
from dbanon.methods.refine import check_refinement
from dbanon.methods.registry import Method, Refine, Tick
from dbanon.microdata import Microdata
from dbanon.partitions import AttributePartition, MethodResult, Partition, combine
from dbanon.recoding import INTERVALS, ExactMeans, ReleasedColumn, Settings, find_recoding
from dbanon.release import ColumnLoss, Release
from dbanon.schema import Attribute
from dbanon.space import STANDARDIZATIONS, standardization, weight_vector

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
    hierarchies : by quasi-identifier, for methods of generalization.
    intervals, local_range, steps : how ranges of numbers are released, as in ``recoding.Settings``.
    seed : for what draws; the same seed gives the same classes.
    refine : ``fast`` or ``thorough`` search for classes of less loss after the method. Classes of
        centroids then hold k to 2k-1 records, whatever the method's own sizes are.
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
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    intervals: str = "text"
    local_range: bool = False
    steps: Mapping[str, float] = field(default_factory=dict)
    refine_iterations: int | None = None
    refine_seconds: float | None = None

    def __post_init__(self) -> None:
        whole: object = self.k
        if isinstance(whole, bool) or not isinstance(whole, (int, np.integer)) or whole < 2:
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
            raise InvalidParameter(f"Recoding {recoding.name} belongs to method {recoding.method}.")
        _one_of("nulls", self.nulls, NULL_POLICIES)
        _one_of("standardize", self.standardize, STANDARDIZATIONS)
        _one_of("intervals", self.intervals, INTERVALS)
        object.__setattr__(self, "hierarchies", freeze(dict(self.hierarchies)))
        object.__setattr__(self, "steps", freeze(dict(self.steps)))
        check_refinement(self.refine, self.refine_iterations, self.refine_seconds)
        if self.refine is not None and _refinement(method) is None:
            raise InvalidParameter(
                f"Method {method.name} gives no classes of rows that could be refined.",
                hint="Leave refine out.",
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
            "hierarchies": {
                name: {"leaves": tree.n_leaves, "height": tree.height}
                for name, tree in self.hierarchies.items()
            },
            "intervals": self.intervals,
            "local_range": self.local_range,
            "steps": dict(self.steps),
            "refine_iterations": self.refine_iterations,
            "refine_seconds": self.refine_seconds,
        }

    @property
    def settings(self) -> Settings:
        """What the recoding needs to know."""
        return Settings(self.hierarchies, self.intervals, self.local_range, self.steps)


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
    recoding = find_recoding(str(policy.recoding))
    for attribute in attributes:
        if (
            not attribute.kind.is_numeric
            and not recoding.takes_categories
            and method.takes_categories
        ):
            raise UnsupportedType(
                f'Column "{attribute.name}" is no number, and recoding {recoding.name} takes'
                " numbers only.",
                hint="Use the recoding generalization.",
            )
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
    partition = combine(
        [(records, result) for records, result in found if isinstance(result, Partition)],
        microdata.n_records,
    )
    _check_budget(policy, partition.n_suppressed, microdata.n_records)
    return partition


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
    space = method.space(
        microdata,
        standardize=policy.standardize,
        weights=policy.weights,
        hierarchies=policy.hierarchies,
    )
    rng = np.random.Generator(np.random.PCG64(policy.seed))
    tick = tick or _silent
    parts: list[tuple[NDArray[np.int64], MethodResult]] = []
    done = 0
    for records in strata:
        share, before = len(records) / n, done / n

        def advance(fraction: float, share: float = share, before: float = before) -> None:
            tick(before + share * fraction)

        parts.append((records, _run(method, space(records), policy, advance, rng)))
        done += len(records)
    return parts


def recode(
    microdata: Microdata, partition: Partition, policy: Policy, exact_means: ExactMeans
) -> Release:
    """Give every class its released values, and measure what they lose."""
    recoding = find_recoding(str(policy.recoding))
    parameters = {name: policy.options[name] for name in recoding.parameters}
    columns = recoding.run(microdata, partition, exact_means, policy.settings, **parameters)
    before, after = _MEASURES[recoding.measure](microdata, partition, policy, columns)
    measured = [
        column for column in columns if recoding.measure == "sse" or column.lost is not None
    ]
    return Release(
        partition=partition,
        columns=columns,
        losses=tuple(
            ColumnLoss(column.source, float(before.columns[i]), float(after.columns[i]))
            for i, column in enumerate(measured)
        ),
        loss_before_rounding=before.total,
        loss=after.total,
        guarantee=guarantee(policy, [column.attribute.name for column in columns]),
        measure=recoding.measure,
    )


def _sse(
    microdata: Microdata,
    partition: Partition,
    policy: Policy,
    columns: tuple[ReleasedColumn, ...],
) -> tuple[Loss, Loss]:
    """SSE/SST on z-scores before and after rounding."""
    del policy
    valid = microdata.numeric_valid()
    transform = standardization(microdata.numbers, "zscore", valid)
    points = transform.apply(microdata.numbers)

    def loss(released: list[NDArray[np.float64]]) -> Loss:
        standardized = transform.apply(np.column_stack(released))
        return released_loss(
            points, partition, standardized, None if microdata.valid is None else valid
        )

    before = loss([_filled(column.unrounded) for column in columns])
    return before, loss([column.as_float() for column in columns])


def _iloss(
    microdata: Microdata,
    partition: Partition,
    policy: Policy,
    columns: tuple[ReleasedColumn, ...],
) -> tuple[Loss, Loss]:
    """iloss per cell on the classes' own ranges, and as released."""
    records = max(int(partition.sizes.sum()), 1)
    own = class_losses(microdata, partition, policy.hierarchies) / records
    released = np.array([column.lost.sum() for column in columns if column.lost is not None])
    released /= records
    return Loss(own, float(own.mean())), Loss(released, float(released.mean()))


_MEASURES = {"sse": _sse, "iloss": _iloss}


def class_losses(
    microdata: Microdata, partition: Partition, hierarchies: Mapping[str, Hierarchy]
) -> NDArray[np.float64]:
    """iloss of each attribute on the classes' own ranges, float64 (d,), summed over records."""
    losses = []
    trees = trees_of(microdata, hierarchies)
    for attribute, tree in zip(microdata.attributes, trees, strict=True):
        values = (
            microdata.numbers[:, microdata.numeric.index(attribute)]
            if tree is None
            else leaf_codes(microdata, attribute, tree)
        )
        losses.append(iloss(values, tree, partition, microdata.valid_column(attribute.name)))
    return np.array(losses)


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


def _run(
    method: Method, space: Any, policy: Policy, tick: Tick, rng: np.random.Generator
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
    refine = _refinement(method)
    if policy.refine is None or refine is None:
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
    by_centroid = refine is centroid.refine
    return refined.require(policy.k, centroid.max_refined_size(policy.k) if by_centroid else None)


def _refinement(method: Method) -> Refine | None:
    """The method's own local search, or that on sums of squares where points were clustered."""
    if method.refine is not None:
        return method.refine
    return centroid.refine if method.gives is Partition and not method.takes_categories else None


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


def _filled(values: NDArray[np.float64] | None) -> NDArray[np.float64]:
    assert values is not None
    return values


def _silent(fraction: float) -> None:
    """A tick for callers who watch nothing."""


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidParameter(f"{name} must be one of {', '.join(known)}.")
