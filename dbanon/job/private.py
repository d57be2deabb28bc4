"""Requests for differentially private releases and privacy budgets, without database access."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import date
from typing import Annotated

from dbanon.data.frozen import dataclass
from dbanon.data.option import (
    REQUIRED,
    Option,
    Parameter,
    all_parameters,
    build_options,
    check_options,
    find_parameter,
    parameters,
)
from dbanon.data.types import JsonObject
from dbanon.errors import InvalidParameter, UnknownOption, nearest_names
from dbanon.job.concentrated import delta_option, rho_of
from dbanon.job.job import DEFAULT_CHUNK_ROWS, Job, check_door
from dbanon.job.requirements import check_entity, check_single_role
from dbanon.job.synthesis import DP_RANKS, PRIVATE_METHODS, PrivateOptions

# The units of protection: the guarantee limits what a release reveals about any one row, or person.
ROW, PERSON = UNITS = ("row", "person")
_BUDGETS_PAGE = "differential-privacy.md#budgets"
_BUDGET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


@dataclass(frozen=True, kw_only=True)
class NewBudget:
    """A privacy budget to create: the total that the releases of a source may spend.

    Each field is described by its option. The field ``raises`` is not about exceptions. It names an
    open budget, which the new one replaces with a larger total.

    Raises
    ------
    InvalidParameter : an option is out of range, or the unit is a person and there is no entity, or
        the reverse.
    """

    name: str
    source: Annotated[
        str, Option("The table that its releases read, as in app.people.", docs_page=_BUDGETS_PAGE)
    ]
    epsilon: Annotated[
        float,
        Option(
            "The total for all releases of the source together.",
            minimum=0,
            excludes_minimum=True,
            maximum=1_000_000,
            expected="a number above 0, at most 1000000",
            docs_page=_BUDGETS_PAGE,
        ),
    ]
    delta: Annotated[
        float | None,
        delta_option(
            "The delta that belongs to epsilon. The budget then counts rho, as releases with"
            " Gaussian noise require.",
            docs_page=_BUDGETS_PAGE,
        ),
    ] = None
    unit: Annotated[
        str,
        Option(
            "The unit of protection: a row or a person.", choices=UNITS, docs_page=_BUDGETS_PAGE
        ),
    ] = ROW
    entity: Annotated[
        str | None,
        Option(
            "With the unit person: the column that identifies persons.",
            form="COLUMN",
            docs_page=_BUDGETS_PAGE,
        ),
    ] = None
    raises: Annotated[
        str | None,
        Option(
            "The open budget that this one replaces with a larger total. The amount spent"
            " carries over.",
            form="NAME",
            docs_page=_BUDGETS_PAGE,
        ),
    ] = None

    def __post_init__(self) -> None:
        check_options(self)
        if not _BUDGET_NAME.fullmatch(str(self.name)):
            raise InvalidParameter(
                "The name of a budget must be 1 to 63 letters, digits, dots, hyphens and"
                " underscores, the first a letter or digit."
            )
        # The ledger counts amounts in billionths. ``rho_of`` itself refuses a smaller rho.
        if self.amount < 1e-9:
            raise InvalidParameter("epsilon must be 1e-9 or more.")
        if (self.unit == PERSON) != bool(self.entity):
            raise InvalidParameter(
                "A budget of persons needs the column that identifies them; other budgets do not"
                " have one.",
                hint="Give the unit person and `entity` together, or leave out both.",
            )

    @property
    def amount(self) -> float:
        """The total in the unit of the budget: rho if it has a delta, else epsilon."""
        return self.epsilon if self.delta is None else rho_of(self.epsilon, self.delta)


# The method that adds noise without any guarantee. It is refused for databases.
_ARRAYS_ONLY_METHOD = "dcmdp"

_BUDGET = Option(
    "The privacy budget of the source. It is charged before any noise is drawn. See dbanon budget.",
    expected="the name of a budget",
    form="NAME",
    concerns_release=True,
    docs_page="differential-privacy.md#budgets",
)

# By option: why the private methods do not have it, although other methods do.
_COPIED_COLUMNS_REASON = "A column that is copied has no noise: name it in `quasi_identifiers`."
_CLASSES_REASON = "It applies to classes, and synthetic rows have no classes."
_REFUSAL_REASONS = {
    "k": "Synthetic rows have no classes, and no row belongs to a person.",
    "sensitive": _COPIED_COLUMNS_REASON,
    "keep": _COPIED_COLUMNS_REASON,
    "by": _COPIED_COLUMNS_REASON,
    "where": "The release would reveal how many rows the filter leaves.",
    "models": _CLASSES_REASON,
    "refine": _CLASSES_REASON,
    "recoding": _CLASSES_REASON,
    "max_suppression": _CLASSES_REASON,
    "nulls": "Say which value replaces NULL: `null_as`.",
    "evaluate": "The measured loss would disclose data, and no budget is spent for it.",
    "seed": "Noise has no seed: anyone who knew the seed could remove the noise.",
    "chain": (
        "Synthetic rows belong to no person who could be followed. Each release spends from the"
        " budget."
    ),
    "key": "Synthetic rows do not belong to rows of the source, so no row is looked up again.",
    "target": "The budget is in the database that is read, and so is the release.",
    "exports": "Copy the release instead. It may be copied unchanged.",
    "expect": "The check would reveal counts of the table, and no budget is spent for it.",
    "risk": "Its figures are about the rows of the table, and no budget is spent for them.",
    "skip_unchanged": "It would reveal whether rows have changed, and no budget is spent for it.",
    "retries": "Each run spends budget again.",
    "engine": (
        "Spark cannot run this method: the source's database draws the noise and keeps the budget."
    ),
    "plan": "A plan would describe the rows, and no budget is spent for it.",
}
# For options that the mapping above does not name. The braces stand for the method's own options.
_DEFAULT_REFUSAL_REASON = "Its options: {}."


@dataclass(frozen=True, kw_only=True)
class PrivateJob:
    """A differentially private release of a table.

    Fields with an option are described by their option.

    Parameters
    ----------
    private_options : the options that only private methods have.
    budget : the name of a budget in the database's ledger.
    method : the method that generates the rows.
    roles : all columns with a role, including columns that are not released; None if columns
        without a role are allowed.
    on_new_column : ``halt`` or ``drop``: how to treat a column that ``roles`` does not name.
    declared : the digest of the table's rules; always None, because these methods use no rules.
    name : the name of the job in its file; None outside a job file.
    accept_types : columns whose type may have changed to another kind since the last release.
    door : ``python``, ``cli``, ``job`` or ``sql``: the interface of the request, for the ledger.
    run_id : a UUID of the run, for the ledger.

    Raises
    ------
    InvalidParameter : an option is out of range, or a column is named twice.
    """

    table: Annotated[str, find_parameter(Job, "table").option]
    output: Annotated[str, find_parameter(Job, "output").option]
    quasi_identifiers: Annotated[tuple[str, ...], find_parameter(Job, "quasi_identifiers").option]
    private_options: PrivateOptions
    budget: Annotated[str, _BUDGET]
    output_kind: Annotated[str, find_parameter(Job, "output_kind").option] = "table"
    if_exists: Annotated[str, find_parameter(Job, "if_exists").option] = "error"
    chunk_rows: Annotated[int, find_parameter(Job, "chunk_rows").option] = DEFAULT_CHUNK_ROWS
    memory_limit: Annotated[int | None, find_parameter(Job, "memory_limit").option] = None
    time_limit: Annotated[float | None, find_parameter(Job, "time_limit").option] = None
    roles: tuple[str, ...] | None = None
    on_new_column: str = "halt"
    declared: str | None = None
    name: str | None = None
    accept_types: tuple[str, ...] = ()
    method: str = DP_RANKS
    door: str = "python"
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()), compare=False)

    def __post_init__(self) -> None:
        check_options(self)
        check_door(self.door)
        self.private_options.check_method(self.method)
        if not self.quasi_identifiers:
            raise InvalidParameter(
                "No quasi-identifier was named.",
                hint="Name the columns to release: `quasi_identifiers`.",
            )
        check_single_role(self.named_columns)
        check_entity(self.private_options.entity, self.named_columns)

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The columns that the release has values of."""
        return self.quasi_identifiers

    @property
    def columns_to_read(self) -> tuple[str, ...]:
        """The columns to read from the source."""
        return (*self.quasi_identifiers, *self.entity_columns)

    def with_evaluation(self) -> PrivateJob:
        """Return the job unchanged: measuring the loss would spend additional privacy budget."""
        return self

    def with_paths(
        self, map_path: Callable[[str], str], map_text: Callable[[str], str]
    ) -> PrivateJob:
        """Return the job unchanged: it names no files."""
        return self

    def require_option_allowed(self, option: str) -> None:
        """Raise InvalidParameter for any option: its result would disclose data without noise."""
        raise build_option_refusal(option, self.method)

    @property
    def entity_columns(self) -> tuple[str, ...]:
        """The entity column; empty if each row is a different person."""
        return tuple(filter(None, (self.private_options.entity,)))

    @property
    def unit(self) -> str:
        """The unit of protection: ``row`` or ``person``."""
        return PERSON if self.entity_columns else ROW

    def arguments(self) -> JsonObject:
        """The options of the method as plain values for the ledger; none of them is secret.

        Leaves out hierarchies, because they may not have been read yet.
        """
        return {
            param.name: _plain_value(getattr(self.private_options, param.name))
            for param in parameters(PrivateOptions)
            if param.name != "hierarchies"
        }


def private_method_options() -> tuple[Parameter, ...]:
    """The options that only private methods have.

    Required options get the default None here, because functions that serve all methods have these
    options as well.
    """
    job_names = {param.name for param in all_parameters(Job)}
    return tuple(
        Parameter(param.name, param.type, None, param.option)
        if param.default is REQUIRED
        else param
        for param in all_parameters(PrivateJob)
        if param.name not in job_names
    )


def build_job(arguments: Mapping[str, object]) -> Job:
    """Build a job of a method that makes classes from ``arguments``, option values by name.

    Options of private methods may only have their default values, and are left out.

    Raises
    ------
    InvalidParameter : an option is out of range, or belongs to private methods.
    TypeError : there is no such option.
    """
    _refuse_private_options(arguments.get("method"), arguments)
    private_names = {param.name for param in private_method_options()}
    return build_options(
        Job, {name: value for name, value in arguments.items() if name not in private_names}
    )


def build_private_job(arguments: Mapping[str, object]) -> PrivateJob:
    """Build the job from ``arguments``, which are option values by name.

    ``method`` may be among them. Options of other methods are ignored if they have their default
    values.

    Raises
    ------
    InvalidParameter : an option is missing, out of range, or belongs to other methods.
    UnknownOption : there is no such option.
    """
    options = {param.name: param for param in all_parameters(PrivateJob)}
    job_options = {param.name: param for param in all_parameters(Job)}
    # Fields such as ``roles`` and ``door``, which the interfaces set.
    fields_without_option = {
        name for name in PrivateJob.__dataclass_fields__ if name not in options
    }
    method = str(arguments.get("method") or DP_RANKS)
    accepted_options: dict[str, object] = {"method": method}
    for name, value in arguments.items():
        if name == "method":
            continue
        if name in options or name in fields_without_option:
            accepted_options[name] = value
        elif name in job_options and _is_default(job_options[name], value):
            continue
        elif name in job_options or name in _REFUSAL_REASONS:
            if value is not None:
                raise build_option_refusal(name, method)
        else:
            raise UnknownOption(
                f'Method {method} has no option "{name}".', hint=nearest_names(name, options)
            )
    for param in options.values():
        if param.default is REQUIRED and accepted_options.get(param.name) is None:
            raise InvalidParameter(f"Method {method} needs {param.name}.", hint=param.help)
        # An option that is None although it must have a value gets its default. The ellipsis stands
        # for an option that was not passed.
        if (
            param.default is not REQUIRED
            and accepted_options.get(param.name, ...) is None
            and not param.nullable
        ):
            del accepted_options[param.name]
    return build_options(PrivateJob, accepted_options)


def build_option_refusal(option: str, method: str = DP_RANKS) -> InvalidParameter:
    """Build the error for an option that this method does not have but others do."""
    names = ", ".join(param.name for param in all_parameters(PrivateJob))
    reason = _REFUSAL_REASONS.get(option, _DEFAULT_REFUSAL_REASON.format(names))
    return InvalidParameter(
        f"Method {method} takes no {option}.", hint=f"{reason} Leave out `{option}`."
    )


def _refuse_private_options(method: object, arguments: Mapping[str, object]) -> None:
    """Check that no option of the private methods is set, for a method that builds classes.

    Raises
    ------
    InvalidParameter : one is set, or the method works on arrays and data frames only.
    """
    if method == _ARRAYS_ONLY_METHOD:
        raise InvalidParameter(
            f"Method {_ARRAYS_ONLY_METHOD} guarantees nothing, and cannot release from a database.",
            hint="Call dbanon.synthesize with an array or a data frame.",
        )
    for param in private_method_options():
        if not _is_default(param, arguments.get(param.name)):
            methods = " and ".join(PRIVATE_METHODS)
            raise InvalidParameter(
                f"{param.name} is an option of {methods}.", hint=f"Leave out `{param.name}`."
            )


def _is_default(param: Parameter, value: object) -> bool:
    """True if a value is None, the default or, if the default is empty, an empty container."""
    if value is None or value == param.default:
        return True
    return isinstance(value, (tuple, list, Mapping)) and not value and not param.default


def _plain_value(value: object) -> object:
    """Convert an option's value to JSON types."""
    if isinstance(value, Mapping):
        return {name: _plain_value(element) for name, element in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain_value(element) for element in value]
    return value.isoformat() if isinstance(value, date) else value
