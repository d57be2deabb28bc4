"""Policies: a guarantee and how to reach it, checked before any data is read.

An option with ``concerns_release`` has no meaning without a release, so functions that only build
classes do not take it. The JSON argument of SQL functions has no key for an option with
``available_in_sql=False``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from dbanon.data.frozen import dataclass
from dbanon.data.groups import Groups
from dbanon.data.option import Option, check_options, document_options, find_parameter, parameters
from dbanon.data.scales import MAHALANOBIS, STANDARDIZATIONS
from dbanon.data.schema import NOMINAL
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.coding import BOTTOM, RECODE, TOP, Coding
from dbanon.job.columns import KINDS, ORDERS
from dbanon.job.guarantee import GUARANTEES, WHOLE_PERSONS, Guarantee
from dbanon.job.guarantee_names import build_guarantee
from dbanon.job.nulls import ERROR, NULL_POLICIES
from dbanon.job.profiles import PROFILE, require_profile_options
from dbanon.job.sets import ColumnSet
from dbanon.job.zip_codes import ZIP_POPULATION
from dbanon.measures import Model
from dbanon.methods import METHODS, find_method
from dbanon.methods.registry import MISSING_OPTION, WILDCARD, Method
from dbanon.recoding import INTERVALS, RECODINGS, Settings, find_recoding
from dbanon.spaces.numeric import check_weights

if TYPE_CHECKING:
    from dbanon.job.guarantee import GuaranteeFields

REFINEMENTS = ("pass", "fast", "thorough")


@document_options
@dataclass(frozen=True)
class Policy:
    """A guarantee and how to reach it.

    Each field is described by its option. ``hierarchies`` has a hierarchy for each quasi-identifier
    that is generalized by one. ``max_suppression`` is 0 by default, which allows no withheld
    record; None sets no limit. Refined classes have k to 2k-1 records, whatever class sizes the
    method builds. A method that groups each attribute separately needs
    ``guarantee="per_attribute"``.

    Raises
    ------
    InvalidParameter, UnknownMethod, UnknownOption : an option is invalid, or two options contradict
        each other.
    """

    k: Annotated[
        int, Option("Smallest class, 2 or more.", minimum=2, hint="Common choices are 3, 5 and 10.")
    ]
    method: Annotated[
        str,
        Option(
            "The method; dbanon methods lists them.",
            form="|".join(METHODS),
            available_in_sql=False,
            docs_page="methods.md",
        ),
    ] = "mdav"
    options: Annotated[
        JsonMapping,
        Option(
            "A parameter of the method.",
            expected="values by name",
            flag="option",
            form="NAME=VALUE",
            available_in_sql=False,
            docs_page="methods.md",
        ),
    ] = field(default_factory=dict)
    standardize: Annotated[
        str | None,
        Option(
            "How columns are scaled to make them comparable. Default: zscore, but range for dcm"
            " and for the recoding representative.",
            choices=STANDARDIZATIONS,
            docs_page="methods.md#distances",
        ),
    ] = None
    weights: Annotated[
        Mapping[str, float],
        Option(
            "Weight of a quasi-identifier in the squared distance; refused with mahalanobis.",
            minimum=0,
            flag="weight",
            form="NAME=NUMBER",
        ),
    ] = field(default_factory=dict)
    nulls: Annotated[
        str,
        Option(
            "suppress: leave out records with a NULL. category: build classes within each pattern"
            " of NULLs. merge: the same, and rare patterns join larger ones.",
            choices=NULL_POLICIES,
            docs_page="guarantees.md",
        ),
    ] = ERROR
    max_suppression: Annotated[
        float | None,
        Option(
            "Largest share of records that may be suppressed, 0 to 1.",
            minimum=0,
            maximum=1,
            expected="a share from 0 to 1",
            docs_page="guarantees.md#withheld-records",
        ),
    ] = 0.0
    recoding: Annotated[
        str | None,
        Option(
            "How a class is turned into released values. Default: the method's own recoding.",
            choices=tuple(RECODINGS),
            docs_page="methods.md#recodings",
        ),
    ] = None
    seed: Annotated[
        int, Option("Random seed: the same seed gives the same classes.", minimum=0)
    ] = 0
    refine: Annotated[
        str | None,
        Option(
            "Search for classes with less loss after the method has run.",
            choices=REFINEMENTS,
            hint="Choose fast (takes moments), thorough (loses less) or pass (a single search).",
            docs_page="methods.md#refinement",
        ),
    ] = None
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    intervals: Annotated[
        str,
        Option(
            "How generalization writes ranges of numbers.",
            choices=INTERVALS,
            concerns_release=True,
            docs_page="generalization.md",
        ),
    ] = "text"
    local_range: Annotated[
        bool,
        Option(
            "Release each class's own range. Its bounds are values of members of the class.",
            concerns_release=True,
        ),
    ] = False
    steps: Annotated[
        Mapping[str, float],
        Option(
            "Width of the grid of ranges; by default several steps, from the column's range.",
            minimum=0,
            excludes_minimum=True,
            flag="step",
            form="NAME=NUMBER",
            concerns_release=True,
        ),
    ] = field(default_factory=dict)
    # A pool is a set of neighboring classes, which the refinement rebuilds together.
    refine_iterations: Annotated[
        int | None,
        Option(
            "Number of rebuilt pools. Default: depends on `refine`.",
            minimum=0,
            docs_page="methods.md#refinement",
        ),
    ] = None
    refine_seconds: Annotated[
        float | None,
        Option(
            "Time limit for each stratum, in seconds. The result then depends on the speed of"
            " the machine.",
            minimum=0,
            excludes_minimum=True,
        ),
    ] = None
    block_size: Annotated[
        int | None,
        Option(
            "Cut more records than this into blocks of about this size, and cluster each"
            " separately: faster, on all cores, with slightly more loss.",
            minimum=4,
            expected="a whole number, 2k or more",
            docs_page="methods.md#blocks",
        ),
    ] = None
    models: Annotated[
        tuple[Model, ...],
        Option(
            "Privacy model that every class must satisfy for a sensitive column.",
            flag="model",
            form="NAME=KIND:LEVEL",
            concerns_release=True,
            docs_page="generalization.md#privacy-models",
        ),
    ] = ()
    also_k: Annotated[
        tuple[ColumnSet, ...],
        Option(
            "Another set of columns: at least K rows (default: k) share each released combination."
            " Copied columns may be in the set.",
            item="sets of columns",
            flag="also_k",
            form="A,B=K",
            concerns_release=True,
            docs_page="guarantees.md#sets-of-columns",
        ),
    ] = ()
    withhold_failing: Annotated[
        bool,
        Option(
            "Withhold a class that fails a model if merging it would lose more. Limited by"
            " `max_suppression`.",
            concerns_release=True,
            docs_page="generalization.md#privacy-models",
        ),
    ] = False
    guarantee: Annotated[
        str,
        Option(
            "per_attribute: allow the release of individual_ranking, whose rows are not"
            " k-anonymous.",
            choices=GUARANTEES,
            concerns_release=True,
            docs_page="guarantees.md#per-attribute",
        ),
    ] = "rows"
    strict: Annotated[
        bool,
        Option(
            "Refuse instead of warning: copied columns that look like identifiers, are nearly"
            " unique or determine a quasi-identifier, too few persons, a missing output schema.",
            concerns_release=True,
            docs_page="guarantees.md#columns-copied-as-they-are",
        ),
    ] = False
    evaluate: Annotated[
        bool,
        Option(
            "Measure the loss and the remaining risk of the release, for the ledger and the"
            " report.",
            concerns_release=True,
            docs_page="evaluation.md#when-a-release-is-made",
        ),
    ] = False
    attacks: Annotated[
        bool,
        Option(
            "Attack a release of half the records.",
            concerns_release=True,
            docs_page="evaluation.md#attacks",
        ),
    ] = False
    certificate: Annotated[
        float | None,
        Option(
            "Seconds to search for the least possible loss. The report shows it next to the loss"
            " of the release.",
            minimum=0,
            excludes_minimum=True,
            concerns_release=True,
            form="SECONDS",
            docs_page="bounds.md#in-the-report",
        ),
    ] = None
    orders: Annotated[Mapping[str, Sequence[str]], ORDERS] = field(default_factory=dict)
    kinds: Annotated[Mapping[str, str], KINDS] = field(default_factory=dict)
    top: Annotated[Mapping[str, float | str], TOP] = field(default_factory=dict)
    bottom: Annotated[Mapping[str, float | str], BOTTOM] = field(default_factory=dict)
    recode: Annotated[Mapping[str, Sequence[float] | Groups], RECODE] = field(default_factory=dict)
    profile: Annotated[str | None, PROFILE] = None
    zip_population: Annotated[str | None, ZIP_POPULATION] = None

    def __post_init__(self) -> None:
        check_options(self)
        self.coding.check()
        require_profile_options(self.profile, int(self.k), str(self.guarantee), self.zip_population)
        if self.method not in METHODS:
            _refuse_synthesis(self.method)
        method = find_method(self.method)
        object.__setattr__(self, "options", MappingProxyType(method.check_options(self.options)))
        object.__setattr__(self, "hierarchies", MappingProxyType(dict(self.hierarchies)))
        object.__setattr__(self, "recoding", self.recoding or method.recoding)
        recoding = find_recoding(str(self.recoding))
        standardize = self.standardize or recoding.standardize or method.standardize
        object.__setattr__(self, "standardize", standardize)
        # ``recoding.method`` is the only method that the recoding can be used with. Most recodings
        # have none.
        if recoding.method is not None and recoding.method != self.method:
            raise InvalidParameter(f"Recoding {recoding.name} belongs to method {recoding.method}.")
        if method.suppresses_cells:
            _check_cell_suppression(self, method)
        check_weights(str(self.standardize), self.weights)
        if self.standardize == MAHALANOBIS and not method.result_type.has_row_classes:
            raise InvalidParameter(
                f"Method {method.name} groups each attribute by itself, without Mahalanobis"
                " distances.",
                hint="Leave out `standardize`.",
            )
        # The option itself only checks a fixed minimum, because it does not know k.
        if self.block_size is not None and self.block_size < 2 * self.k:
            raise find_parameter(Policy, "block_size").refusal_error()
        if self.block_size is not None and not method.result_type.supports_blocks:
            raise InvalidParameter(f"Method {method.name} cannot work in blocks.")
        _check_refinement(self, method)
        # Certificates are lower bounds. dbanon computes them for the SSE of classes of rows only.
        has_bounded_loss = recoding.measure == "sse" and method.result_type.has_row_classes
        if self.certificate is not None and not has_bounded_loss:
            raise InvalidParameter(
                "A certificate bounds the SSE/SST of classes of rows, and this release has no"
                " such classes.",
                hint="Leave out `certificate`, or choose a method and recoding of numbers.",
            )
        if self.also_k and recoding.method is not None and not method.suppresses_cells:
            raise InvalidParameter(
                f"Recoding {recoding.name} makes its own classes, which sets of columns cannot"
                " make coarser.",
                hint='Leave out `also_k`, or choose another method, such as `method="mdav"`.',
            )
        # Strata and entity, which only the job knows, make no difference to this check.
        self.guarantee_for().check_policy(method, recoding)
        if self.withhold_failing and not (self.models and self.max_suppression):
            raise InvalidParameter(
                "withhold_failing needs models, and a max_suppression above 0.",
                hint="Say which share of records may be withheld: `max_suppression`.",
            )

    def guarantee_for(
        self, by: Sequence[str] = (), entity: str | None = None, person_rows: str = WHOLE_PERSONS
    ) -> Guarantee:
        """The guarantee of a release outside chains.

        Parameters
        ----------
        by : the columns of strata.
        entity : the entity column; None to count rows.
        person_rows : one of ``PERSONS_CHOICES``: whether a class holds all rows of its persons.
        """
        return build_guarantee(
            self.guarantee,
            entity,
            person_rows,
            null_agrees=self.null_agrees,
            **self._guarantee_fields(by),
        )

    def chain_guarantee(self, by: Sequence[str], entity: str, chain: str) -> Guarantee:
        """The guarantee of a release in a chain, which also covers histories."""
        from dbanon.job.chain_guarantee import ChainGuarantee

        return ChainGuarantee(entity=entity, chain=chain, **self._guarantee_fields(by))

    def _guarantee_fields(self, by: Sequence[str]) -> GuaranteeFields:
        """The fields that all guarantees have, as keyword arguments."""
        return {
            "k": int(self.k),
            "by": tuple(by),
            "models": self.models,
            "column_sets": tuple(column_set.with_default_k(self.k) for column_set in self.also_k),
            "nulls": self.nulls,
            "suppresses_cells": find_method(self.method).suppresses_cells,
            "withhold_failing": self.withhold_failing,
            "method_sentence": find_method(self.method).sentence,
        }

    @property
    def null_agrees(self) -> bool:
        """True if k counts rows that agree, where NULL agrees with every value."""
        return self.options.get(MISSING_OPTION) == WILDCARD

    @property
    def records_at_once(self) -> int:
        """The approximate number of records that each core processes at once.

        Raises
        ------
        InvalidParameter : the policy has no blocks.
        """
        if self.block_size is None:
            raise InvalidParameter(
                "A table that does not fit into memory must be anonymized in blocks.",
                hint="Say how large they are: `block_size=50000`.",
            )
        return self.block_size

    def arguments(self) -> JsonObject:
        """The policy as plain values, for the ledger.

        Secret options contain values of columns, so the ledger has only their number.
        """
        secret_names = [param.name for param in parameters(type(self)) if param.option.is_secret]
        arguments = {}
        for policy_field in fields(self):
            name = policy_field.name
            arguments[name] = _plain_value(getattr(self, name), is_secret=name in secret_names)
        return arguments

    @property
    def coding(self) -> Coding:
        """How columns are coded before classes are made."""
        return Coding(self.top, self.bottom, self.recode)

    @property
    def kinds_as_read(self) -> dict[str, str]:
        """The kinds of columns as they are read: values that will be grouped are read as texts."""
        return {**self.kinds, **dict.fromkeys(self.coding.groups, NOMINAL)}

    @property
    def settings(self) -> Settings:
        """The settings of the recoding."""
        return Settings(self.hierarchies, self.intervals, self.local_range, self.steps)

    @property
    def label_steps(self) -> Mapping[str, float] | None:
        """The grid widths by column if classes release ranges of a grid as labels, else None."""
        return self.steps if self.recoding == "generalization" and not self.local_range else None


def _check_cell_suppression(policy: Policy, method: Method) -> None:
    """Check the options of a method that releases values or NULL; raises InvalidParameter."""
    if policy.recoding != method.recoding:
        raise InvalidParameter(
            f"Method {method.name} releases common values or NULL, which is recoding"
            f" {method.recoding}, not {policy.recoding}.",
            hint="Leave out `recoding`.",
        )
    if policy.hierarchies and not method.result_type.sees_all_strata:
        raise InvalidParameter(
            f"Method {method.name} releases values or NULL, and no labels of hierarchies.",
            hint="Leave out `hierarchies`, or choose a method that generalizes, such as"
            ' `method="gaa_cp"`.',
        )
    if method.result_type.sees_all_strata:
        for option, is_requested in (("models", policy.models), ("also_k", policy.also_k)):
            if is_requested:
                raise InvalidParameter(
                    f"Method {method.name} chooses levels and cells for k alone, not for {option}.",
                    hint=f'Leave out `{option}`, or choose `method="local_suppression"`.',
                )
    if policy.weights and policy.options.get("importance"):
        raise InvalidParameter(
            "Both weights and importance state the price of a cell.",
            hint="Leave out `weights`.",
        )
    if policy.standardize == MAHALANOBIS:
        raise InvalidParameter(
            f"Method {method.name} compares cells as equal or not, without distances.",
            hint="Leave out `standardize`.",
        )
    if policy.null_agrees:
        _check_wildcards(policy)


def _check_wildcards(policy: Policy) -> None:
    """Check the options of a release where NULL agrees with every value.

    Raises
    ------
    InvalidParameter : an option has no meaning there.
    """
    subject = "Where NULL agrees with every value (missing=wildcard),"
    if policy.models:
        raise InvalidParameter(
            f"{subject} rows that agree form no classes, in which a privacy model could hold.",
            hint="Leave out `models`, or leave out `missing`: NULL is then a value of its own.",
        )
    if policy.block_size is not None:
        raise InvalidParameter(
            f"{subject} rows of all blocks agree with each other.",
            hint="Leave out `block_size`.",
        )
    if policy.refine is not None:
        raise InvalidParameter(
            f"{subject} each row loses as little as it can, so that nothing can be refined.",
            hint="Leave out `refine`.",
        )


def _check_refinement(policy: Policy, method: Method) -> None:
    """Check that the options of refinement are compatible; raises InvalidParameter."""
    limits = (policy.refine_iterations, policy.refine_seconds)
    if policy.refine is None and limits != (None, None):
        raise InvalidParameter(
            "A limit for refinement was given, but no refinement.",
            hint='Choose `refine="fast"`, or leave the limit out.',
        )
    if policy.refine == "pass" and policy.refine_iterations is not None:
        raise InvalidParameter(
            "The refinement pass is one search, which has no number of iterations.",
            hint='Leave out `refine_iterations`, or choose `refine="fast"`.',
        )
    if policy.refine_seconds is not None and policy.block_size is not None:
        raise InvalidParameter(
            "Refinement in blocks runs in parallel, so it cannot have a limit in seconds.",
            hint="Leave out `refine_seconds`, or give `refine_iterations`.",
        )
    if policy.refine is not None and method.refine is None:
        raise InvalidParameter(
            f"Method {method.name} makes no classes of rows that could be refined.",
            hint="Leave out `refine`.",
        )


def _plain_value(value: object, *, is_secret: bool) -> object:
    """Convert an option's value for the ledger, which records only the length of a secret list."""
    if isinstance(value, Hierarchy):
        return {"leaves": value.n_leaves, "height": value.height}
    if isinstance(value, Model):
        return value.describe()
    if isinstance(value, ColumnSet):
        return value.to_plain()
    if isinstance(value, Groups):
        return value.describe()
    if isinstance(value, Mapping):
        return {name: _plain_value(element, is_secret=is_secret) for name, element in value.items()}
    if isinstance(value, tuple):
        if is_secret:
            return {"values": len(value)}
        return [_plain_value(element, is_secret=False) for element in value]
    return value


def _refuse_synthesis(method: str) -> None:
    """Raise InvalidParameter if a method makes synthetic rows."""
    from dbanon.job.synthesis import SYNTHESIS_OPTIONS

    if method in SYNTHESIS_OPTIONS:
        raise InvalidParameter(
            f"Method {method} makes synthetic rows, not classes.",
            hint="dbanon.synthesize and dbanon.anonymize have it: see"
            " docs/differential-privacy.md.",
        )
