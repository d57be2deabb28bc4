"""Policy: the wanted guarantee and how to reach it, checked before anything is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from dbanon.data.partition import AttributePartition, Partition
from dbanon.data.scales import MAHALANOBIS, STANDARDIZATIONS
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, UnsupportedType
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures import Model
from dbanon.methods import METHODS, find_method
from dbanon.methods.registry import Method
from dbanon.recoding import INTERVALS, Settings, find_recoding
from dbanon.spaces.numeric import check_weights, weight_vector

NULL_POLICIES = ("error", "suppress", "category")
PER_ATTRIBUTE = "per_attribute"
GUARANTEES = ("rows", PER_ATTRIBUTE)
REFINEMENTS = ("fast", "thorough")


@dataclass(frozen=True)
class Policy:
    """The wanted guarantee and how to reach it.

    Parameters
    ----------
    k : the smallest number of records that may share all quasi-identifiers, 2 or more.
    method : a name in the registry of methods.
    options : the method's own parameters.
    standardize : ``zscore``, ``range``, ``none`` or ``mahalanobis``.
    weights : weight per quasi-identifier in the squared distance; 1 where not named. Refused with
        ``mahalanobis``, where they could change nothing.
    nulls : ``error``; ``suppress`` withholds records with a NULL; ``category`` makes each pattern
        of NULLs a stratum of its own, within which k holds.
    max_suppression : largest share of records that may be withheld, 0 to 1: none unless asked for.
        None for no limit.
    recoding : a name in the registry of recodings; None for the method's own.
    hierarchies : by quasi-identifier, for methods of generalization.
    orders : by quasi-identifier that is text, its values from the lowest to the highest: they are
        then taken as ranks. Before the order of an enum; an empty one takes that away.
    intervals, local_range, steps : how ranges of numbers are released, as in ``recoding.Settings``.
    seed : for what draws; the same seed gives the same classes.
    refine : ``fast`` or ``thorough`` search for classes of less loss after the method. Classes of
        centroids then hold k to 2k-1 records, whatever the method's own sizes are.
    refine_iterations : pools to build anew; None for as many as the budget of ``refine`` allows.
    refine_seconds : limit for each stratum; the result then depends on the machine's speed.
    guarantee : ``rows``; or ``per_attribute`` for a method that groups each attribute by itself:
        the word without which such a release, whose rows are not k-anonymous, is refused.
    strict : refuse a release with a column that tells too much, which is warned of otherwise.
    models : privacy models of sensitive attributes, reached by ``protection.protect``.
    withhold_failing : classes that do not keep to a model may be withheld, within
        ``max_suppression``, where merging them would lose more than all that their records say.
    block_size : cut strata of more records into blocks that no class crosses, on all cores: faster,
        and a little more loss; a refinement then works across their borders. None does not cut.
    """

    k: int
    method: str = "mdav"
    options: Mapping[str, Any] = field(default_factory=dict)
    standardize: str = "zscore"
    weights: Mapping[str, float] = field(default_factory=dict)
    nulls: str = "error"
    max_suppression: float | None = 0.0
    recoding: str | None = None
    seed: int = 0
    refine: str | None = None
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    intervals: str = "text"
    local_range: bool = False
    steps: Mapping[str, float] = field(default_factory=dict)
    refine_iterations: int | None = None
    refine_seconds: float | None = None
    block_size: int | None = None
    models: tuple[Model, ...] = ()
    withhold_failing: bool = False
    orders: Mapping[str, Sequence[str]] = field(default_factory=dict)
    guarantee: str = "rows"
    strict: bool = False

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
        check_weights(self.standardize, self.weights)
        if self.standardize == MAHALANOBIS and method.gives is AttributePartition:
            raise InvalidParameter(
                f"Method {method.name} groups each attribute by itself, without Mahalanobis"
                " distances.",
                hint="Leave standardize out.",
            )
        _one_of("intervals", self.intervals, INTERVALS)
        object.__setattr__(self, "hierarchies", freeze(dict(self.hierarchies)))
        object.__setattr__(self, "steps", freeze(dict(self.steps)))
        object.__setattr__(self, "orders", freeze(checked_orders(self.orders)))
        size = self.block_size
        if size is not None and (isinstance(size, bool) or int(size) != size or size < 2 * self.k):
            raise InvalidParameter("block_size must be a whole number, 2k or more.")
        if size is not None and method.gives is not Partition:
            raise InvalidParameter(f"Method {method.name} cannot work in blocks.")
        _check_refinement(self.refine, self.refine_iterations, self.refine_seconds)
        if self.refine is not None and method.refine is None:
            raise InvalidParameter(
                f"Method {method.name} gives no classes of rows that could be refined.",
                hint="Leave refine out.",
            )
        _one_of("guarantee", self.guarantee, GUARANTEES)
        if self.per_attribute:
            _check_per_attribute(self, method)
        budget = self.max_suppression
        if budget is not None and not 0 <= budget <= 1:
            raise InvalidParameter("max_suppression must be a share from 0 to 1.")
        if self.withhold_failing and not (self.models and budget):
            raise InvalidParameter(
                "withhold_failing needs models, and a max_suppression above 0.",
                hint="Say which share of records may be withheld.",
            )
        seed: object = self.seed
        if not isinstance(seed, (int, np.integer)) or seed < 0:
            raise InvalidParameter("The seed must be a whole number, 0 or more.")

    @property
    def per_attribute(self) -> bool:
        """True when attributes are grouped by themselves, and rows are not k-anonymous."""
        return self.guarantee == PER_ATTRIBUTE

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
            "block_size": self.block_size,
            "models": [model.describe() for model in self.models],
            "withhold_failing": self.withhold_failing,
            "guarantee": self.guarantee,
            "strict": self.strict,
            "orders": {name: {"values": len(order)} for name, order in self.orders.items()},
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
        if attribute.kind is Kind.ORDINAL and not recoding.takes_ranks:
            raise UnsupportedType(
                f'Column "{attribute.name}" has an order but no numbers, which recoding'
                f" {recoding.name} needs.",
                hint="Use another recoding, or leave the column out of the quasi-identifiers.",
            )
        if not attribute.kind.is_numeric and not method.takes_categories:
            taking = [name for name, other in METHODS.items() if other.takes_categories]
            raise UnsupportedType(
                f'Column "{attribute.name}" is of type {attribute.sql_type or "text"}, and method'
                f" {policy.method} takes numbers, dates and timestamps only.",
                hint=(
                    "Methods that take it: " + ", ".join(taking) + ". Text that has an order can be"
                    " taken as ranks: state orders."
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
    if method.gives is AttributePartition:
        raise InvalidParameter(
            f"Method {method.name} gives {method.guarantee}: a release of it would fail the"
            " recount of its rows.",
            hint="Choose a method that groups rows. A release whose rows are not k-anonymous needs"
            " guarantee=per_attribute.",
        )


def require_guarantee(policy: Policy, entity: str | None = None) -> None:
    """Check that the policy's method gives what a release guarantees, before anything is read.

    Raises
    ------
    InvalidParameter : rows would not be k-anonymous, and the policy does not say so; or persons
        shall be counted, who are no persons of one attribute.
    """
    if not policy.per_attribute:
        require_rows(policy)
    elif entity is not None:
        raise InvalidParameter(
            "With guarantee=per_attribute rows are counted, not persons.", hint="Leave entity out."
        )


def _check_per_attribute(policy: Policy, method: Method) -> None:
    if method.gives is not AttributePartition:
        raise InvalidParameter(
            f"Method {method.name} groups rows, so that they are k-anonymous.",
            hint="Leave guarantee out.",
        )
    if policy.models:
        raise InvalidParameter(
            "Privacy models are of classes of rows, which guarantee=per_attribute has not.",
            hint="Leave the models out, or choose a method that groups rows.",
        )
    recoding = find_recoding(str(policy.recoding))
    if recoding.takes_categories:
        raise InvalidParameter(
            f"Recoding {recoding.name} releases classes of rows, which guarantee=per_attribute"
            " has not.",
            hint="Use recoding mean, median or medoid.",
        )


def guarantee(
    policy: Policy, names: list[str], by: Sequence[str] = (), entity: str | None = None
) -> str:
    """What a verified release guarantees, in words; ``entity`` is the column that k counts."""
    if policy.per_attribute:
        within = f" with equal ({', '.join(by)})" if by else ""
        text = (
            f"{find_method(policy.method).guarantee}: every released value of each of"
            f" ({', '.join(names)}) by itself is shared by at least {policy.k} rows of the release"
            f"{within}; ROWS ARE NOT k-ANONYMOUS: a combination of values may be one row's alone"
        )
        return text + _about_nulls(policy)
    names = [*names, *by]
    counted = "rows" if entity is None else f'persons (distinct values of "{entity}")'
    text = (
        f"{find_method(policy.method).guarantee}: every combination of released values of"
        f" ({', '.join(names)}) is shared by at least {policy.k} {counted} of the release"
    )
    return (
        text
        + _about_nulls(policy)
        + "".join(f"; {model.describe()} in each class" for model in policy.models)
        + ("; classes that failed may have been withheld" if policy.withhold_failing else "")
    )


def _about_nulls(policy: Policy) -> str:
    return {
        "category": ", NULL counted as a value",
        "suppress": "; records with a NULL were withheld",
    }.get(policy.nulls, "")


def _check_refinement(how: str | None, iterations: int | None, seconds: float | None) -> None:
    """Check what a caller wants.

    Raises
    ------
    InvalidParameter : no such refinement, or a budget that is none.
    """
    if how is not None and how not in REFINEMENTS:
        raise InvalidParameter(
            f"refine must be one of {', '.join(REFINEMENTS)}, or not given.",
            hint="fast takes moments, thorough loses less.",
        )
    if how is None and (iterations is not None or seconds is not None):
        raise InvalidParameter("A budget for refinement was given, but no refinement.")
    if iterations is not None and (
        isinstance(iterations, bool) or int(iterations) != iterations or iterations < 0
    ):
        raise InvalidParameter("refine_iterations must be a whole number, 0 or more.")
    if seconds is not None and not 0 < seconds < float("inf"):
        raise InvalidParameter("refine_seconds must be more than 0 and finite.")


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidParameter(f"{name} must be one of {', '.join(known)}.")


def checked_orders(orders: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The orders by column, as tuples.

    Raises
    ------
    InvalidParameter : an order is no list of texts.
    """
    for name, order in orders.items():
        if isinstance(order, str) or not all(isinstance(value, str) for value in order):
            raise InvalidParameter(
                f'The order of "{name}" must be a list of texts, from the lowest to the highest.'
            )
    return {name: tuple(order) for name, order in orders.items()}
