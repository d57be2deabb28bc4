"""Options of the methods that make synthetic rows, checked before any data is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any

from dbanon.data.frozen import dataclass
from dbanon.data.option import (
    REQUIRED,
    Option,
    build_options,
    check_options,
    find_parameter,
    parameters,
)
from dbanon.data.types import JsonMapping
from dbanon.errors import InvalidParameter, UnknownMethod, UnknownOption, nearest_names
from dbanon.hierarchy.spec import HierarchySpec
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.concentrated import Cost, delta_option

# The value of ``guarantee`` by which users accept that dcmdp guarantees nothing.
AS_PUBLISHED = "as_published"
# Values of the options ``reading`` (how to read the paper on dcmdp), ``margins``, ``scale`` and
# ``accounting``; the options of the classes below explain them.
ALGORITHM, SECTION_4 = READINGS = ("algorithm", "section_4")
RANKS, QUANTILES = MARGINS = ("ranks", "quantiles")
LOG = "log"
PURE, CONCENTRATED = ACCOUNTINGS = ("pure", "zcdp")
DP_RANKS, DP_MARGINALS = PRIVATE_METHODS = ("dp_ranks", "dp_marginals")
# By private method: its description in lists of methods.
PRIVATE_SUMMARIES = {
    DP_RANKS: "Synthetic rows with differential privacy",
    DP_MARGINALS: "Synthetic rows with differential privacy, by a model of two-way counts",
}
_DOCS_PAGE = "differential-privacy.md"


@dataclass(frozen=True)
class DcmdpOptions:
    """Options of dcmdp, which adds noise as published by Liu and Li, and guarantees nothing.

    Raises
    ------
    InvalidParameter : an option is out of range, or ``guarantee`` is not ``as_published``.
    """

    k: Annotated[int, Option("DBSCAN's smallest neighborhood.", minimum=2, docs_page=_DOCS_PAGE)]
    epsilon: Annotated[
        float,
        Option(
            "The epsilon of the published method, which guarantees no privacy.",
            minimum=0,
            excludes_minimum=True,
            docs_page=_DOCS_PAGE,
        ),
    ]
    guarantee: Annotated[
        str | None,
        Option(
            "as_published: noise that guarantees nothing.",
            choices=(AS_PUBLISHED,),
            docs_page=_DOCS_PAGE,
        ),
    ] = None
    radius: Annotated[
        float,
        Option(
            "Largest distance between neighbors, in columns scaled to 0 to 1.",
            minimum=0,
            excludes_minimum=True,
        ),
    ] = 0.2
    reading: Annotated[
        str,
        Option(
            "Scale of the noise. algorithm: as in the paper's algorithm, range / (k epsilon)."
            " section_4: as in its section 4, n range / (k^2 epsilon).",
            choices=READINGS,
            docs_page=_DOCS_PAGE,
        ),
    ] = ALGORITHM
    seed: Annotated[
        int, Option("Seed of the noise: the same seed gives the same rows.", minimum=0)
    ] = 0

    def __post_init__(self) -> None:
        check_options(self)
        if self.guarantee != AS_PUBLISHED:
            raise InvalidParameter(
                "Method dcmdp adds noise as published: it is not differentially private, and its"
                " rows are not k-anonymous.",
                hint='Use method dp_ranks, or `guarantee="as_published"` to use dcmdp anyway.',
            )


@dataclass(frozen=True)
class PrivateOptions:
    """Options of dp_ranks and dp_marginals: synthetic rows with differential privacy.

    Raises
    ------
    InvalidParameter : an option is out of range, or a delta is set without ``zcdp`` or vice versa.
    """

    epsilon: Annotated[
        float,
        Option(
            "The privacy loss of one row or person. Above 10 the guarantee is weak.",
            minimum=0,
            excludes_minimum=True,
            maximum=100,
            expected="a number above 0, at most 100",
            docs_page=_DOCS_PAGE,
        ),
    ]
    bounds: Annotated[
        Mapping[str, Sequence[Any]],
        Option(
            "Lowest and highest value of each column of numbers, dates or timestamps. Take"
            " them from public knowledge, never from the data.",
            item="a low and a high",
            flag="bounds",
            form="NAME=LOW:HIGH",
            concerns_release=True,
            docs_page=_DOCS_PAGE,
        ),
    ] = field(default_factory=dict)
    orders: Annotated[
        Mapping[str, Sequence[str]],
        Option(
            "The values that a text column may have, similar ones next to each other. Take them"
            " from public knowledge, never from the data.",
            flag="order",
            form="NAME=A,B,C",
            docs_page=_DOCS_PAGE,
        ),
    ] = field(default_factory=dict)
    hierarchies: Annotated[
        Mapping[str, Hierarchy | HierarchySpec],
        Option(
            "The values that a text column may have, as the leaves of a generalization tree.",
            item="a hierarchy",
            flag="hierarchy",
            form="NAME=HIERARCHY",
            docs_page=_DOCS_PAGE,
        ),
    ] = field(default_factory=dict)
    scale: Annotated[
        Mapping[str, str],
        Option(
            "log: for columns of numbers with a few large values. Noise is then proportional"
            " to the value.",
            item="log",
            flag="scale",
            form="NAME=log",
            concerns_release=True,
            docs_page=_DOCS_PAGE,
        ),
    ] = field(default_factory=dict)
    margins: Annotated[
        str,
        Option(
            "For dp_ranks: release a column of numbers by sums of its ranks, or by counts between"
            " its quantiles, which answers ranges better and large values worse.",
            choices=MARGINS,
            concerns_release=True,
            docs_page=_DOCS_PAGE,
        ),
    ] = RANKS
    accounting: Annotated[
        str,
        Option(
            "For dp_marginals: account for epsilon, or for the rho of zero-concentrated privacy,"
            " with Gaussian noise and a delta.",
            choices=ACCOUNTINGS,
            concerns_release=True,
            docs_page=_DOCS_PAGE,
        ),
    ] = PURE
    delta: Annotated[
        float | None,
        delta_option(
            "For zcdp: the delta of (epsilon, delta)-differential privacy. Choose it far"
            " below 1 divided by the number of rows.",
            concerns_release=True,
            docs_page=_DOCS_PAGE,
        ),
    ] = None
    null_as: Annotated[
        JsonMapping,
        Option(
            "The value that replaces NULL in a column whose type allows NULL.",
            item="values",
            flag="null-as",
            form="NAME=VALUE",
            concerns_release=True,
            docs_page=_DOCS_PAGE,
        ),
    ] = field(default_factory=dict)
    entity: Annotated[
        str | None,
        Option(
            "Column of whole numbers that identifies persons. The guarantee then protects each"
            " person, not only each row.",
            docs_page=_DOCS_PAGE,
        ),
    ] = None

    def __post_init__(self) -> None:
        check_options(self)
        # The check above only requires text. This is the option's own error, with what it expects.
        if set(self.scale.values()) - {LOG}:
            raise find_parameter(PrivateOptions, "scale").refusal_error()
        if (self.accounting == CONCENTRATED) != (self.delta is not None):
            raise InvalidParameter(
                "Gaussian noise needs an epsilon and a delta; other noise has no delta.",
                hint='Leave both out, or use method dp_marginals with `accounting="zcdp"` and'
                " `delta`.",
            )

    @property
    def cost(self) -> Cost:
        """The privacy budget that a release spends."""
        return Cost(self.epsilon, self.delta)

    def check_method(self, method: str) -> None:
        """Check that no option of the other private method is set; raises InvalidParameter.

        Only dp_ranks has ``margins``, and only dp_marginals has ``accounting``.
        """
        other_method, other_option = (
            (DP_MARGINALS, "accounting") if method == DP_RANKS else (DP_RANKS, "margins")
        )
        if getattr(self, other_option) != find_parameter(PrivateOptions, other_option).default:
            raise InvalidParameter(
                f"{other_option} is an option of method {other_method}.",
                hint=f"Leave out `{other_option}`.",
            )


# By method that makes synthetic rows: the class of its options.
SYNTHESIS_OPTIONS: dict[str, type[PrivateOptions | DcmdpOptions]] = {
    DP_RANKS: PrivateOptions,
    DP_MARGINALS: PrivateOptions,
    "dcmdp": DcmdpOptions,
}


def parse_synthesis_options(
    method: str, options: Mapping[str, object]
) -> PrivateOptions | DcmdpOptions:
    """Build the options object of a method.

    Parameters
    ----------
    options : option values by name.

    Raises
    ------
    UnknownMethod : no method of this name makes synthetic rows.
    UnknownOption : the method has no option of this name.
    InvalidParameter : an option is missing or out of range, or two contradict each other.
    """
    if method not in SYNTHESIS_OPTIONS:
        raise UnknownMethod(
            f'No method "{method}" makes synthetic rows.',
            hint=f"Known: {', '.join(SYNTHESIS_OPTIONS)}.",
        )
    option_by_name = {param.name: param for param in parameters(SYNTHESIS_OPTIONS[method])}
    for name in options:
        if name not in option_by_name:
            suggestion = nearest_names(name, option_by_name)
            raise UnknownOption(
                f'Method {method} has no option "{name}".',
                hint=(f"{suggestion} " if suggestion else "")
                + f"Its options: {', '.join(option_by_name)}.",
            )
    for param in option_by_name.values():
        if param.default is REQUIRED and param.name not in options:
            raise InvalidParameter(f"Method {method} needs {param.name}.", hint=param.help)
    parsed_options = build_options(SYNTHESIS_OPTIONS[method], options)
    if isinstance(parsed_options, PrivateOptions):
        parsed_options.check_method(method)
    return parsed_options
