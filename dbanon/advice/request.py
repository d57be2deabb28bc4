"""Requests for advice about a table, without database access."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from dbanon.data.option import Option, check_options
from dbanon.data.schema import Attribute
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.spec import HierarchySpec
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.columns import KINDS
from dbanon.job.job import HIERARCHIES, KEY, MEMORY_LIMIT
from dbanon.job.nulls import NULL_POLICIES
from dbanon.job.policy import REFINEMENTS
from dbanon.job.profiles import PROPOSED_PROFILE
from dbanon.methods import find_method

# Class sizes and methods that are tried by default. A name such as ``mdav+fast`` is a method with a
# refinement.
DEFAULT_KS = (*range(3, 11), 15, 20)
NUMBER_METHODS = ("mdav", "mdav+fast", "cbfs_mhm+fast")
CATEGORY_METHODS = ("gaa_cp", "gaa_cp+fast")
# CPU seconds; see the option ``max_seconds``.
DEFAULT_MAX_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True)
class AdviceRequest:
    """The options of a request for advice.

    Raises
    ------
    InvalidParameter, UnknownMethod : an option has a value that is not allowed.
    """

    table: Annotated[
        str, Option("The table or view to read, as in app.people.", available_in_sql=False)
    ]
    quasi_identifiers: Annotated[
        tuple[str, ...],
        Option(
            "Columns that together could re-identify a person. If you name none, dbanon proposes"
            " some.",
        ),
    ] = ()
    sensitive: Annotated[
        tuple[str, ...], Option("Columns that are sensitive and not quasi-identifiers.")
    ] = ()
    k: Annotated[
        tuple[int, ...],
        Option("Class sizes to try.", minimum=2, expected="whole numbers, 2 or more"),
    ] = DEFAULT_KS
    methods: Annotated[
        tuple[str, ...],
        Option(
            "Methods to try, each as method or method+refinement, such as mdav+fast. Default:"
            f" {', '.join(NUMBER_METHODS)} if all columns are numbers, otherwise"
            f" {', '.join(CATEGORY_METHODS)}."
        ),
    ] = ()
    max_risk: Annotated[
        float | None,
        Option(
            "Highest linkage risk to allow. The release with the least loss within this limit is"
            " recommended.",
            minimum=0,
            maximum=1,
        ),
    ] = None
    max_loss: Annotated[
        float | None,
        Option(
            "Highest loss to allow. The release with the least risk within this limit is"
            " recommended.",
            minimum=0,
        ),
    ] = None
    max_seconds: Annotated[
        float,
        Option(
            "Skip methods that are forecast to need more CPU seconds than this to find the classes"
            " of all rows.",
            minimum=0,
            excludes_minimum=True,
        ),
    ] = DEFAULT_MAX_SECONDS
    sample: Annotated[
        int,
        Option(
            "If the table has more rows than this, try releases on a random sample of this size"
            " (see `seed`).",
            minimum=100,
        ),
    ] = 2_000
    seed: Annotated[int, Option("Random seed.", minimum=0)] = 0
    time_limit: Annotated[
        float,
        Option(
            "Seconds after which no further release is tried.", minimum=0, excludes_minimum=True
        ),
    ] = 20.0
    nulls: Annotated[
        str | None,
        Option(
            "What becomes of NULLs in quasi-identifiers, as in anonymize. Default: category, merge"
            " or suppress, whichever loses least.",
            choices=NULL_POLICIES,
        ),
    ] = None
    profile: Annotated[str | None, PROPOSED_PROFILE] = None
    # The options below are the same as those of an anonymization.
    kinds: Annotated[Mapping[str, str], KINDS] = field(default_factory=dict)
    key: Annotated[
        tuple[str, ...],
        KEY,
    ] = ()
    hierarchies: Annotated[
        Mapping[str, Hierarchy | HierarchySpec],
        HIERARCHIES,
    ] = field(default_factory=dict)
    memory_limit: Annotated[
        int | None,
        MEMORY_LIMIT,
    ] = None

    def __post_init__(self) -> None:
        check_options(self)
        if not self.k:
            raise InvalidParameter("k must have at least one class size.")
        object.__setattr__(self, "k", tuple(sorted(set(self.k))))
        for name in self.methods:
            parse_method_and_refinement(name)
        if in_both := set(self.quasi_identifiers) & set(self.sensitive):
            raise InvalidParameter(
                f'Column "{min(in_both)}" is named both as a quasi-identifier and as sensitive.',
                hint="If others may know it about a person, name it only as a quasi-identifier.",
            )


def parse_method_and_refinement(name: str) -> tuple[str, str | None]:
    """Split ``method`` or ``method+refinement`` into both parts; the refinement may be None.

    Raises
    ------
    UnknownMethod, InvalidParameter : there is no such method or refinement.
    """
    method, separator, refine = name.partition("+")
    find_method(method)
    if separator and refine not in REFINEMENTS:
        raise InvalidParameter(
            "There is no such refinement.",
            hint=f"Write {', '.join(f'{method}+{name}' for name in REFINEMENTS)}, or {method}.",
        )
    return method, refine if separator else None


def are_numbers(attributes: Iterable[Attribute], hierarchies: Container[str] = ()) -> bool:
    """True if all columns are numbers and none of them has a hierarchy.

    Parameters
    ----------
    hierarchies : names of the columns that have a hierarchy.
    """
    # Only categories are stored as codes.
    return all(
        not attribute.kind.is_coded and attribute.name not in hierarchies
        for attribute in attributes
    )


def default_methods(all_numbers: bool) -> tuple[str, ...]:
    """Return the methods to try by default.

    Without limits of loss or risk, the first one is recommended unless another is better.

    Parameters
    ----------
    all_numbers : True if all quasi-identifiers are numbers without a hierarchy.
    """
    return NUMBER_METHODS if all_numbers else CATEGORY_METHODS
