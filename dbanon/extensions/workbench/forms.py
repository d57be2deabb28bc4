"""Reads forms: a value is an offered choice, a number within limits, a simple name, or a reason.

The name of a field contains the index of a column, so that no column's name can be mistaken for the
name of a field. A tree is the hierarchy of a column.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl

from dbanon.advice.request import CATEGORY_METHODS, NUMBER_METHODS
from dbanon.advice.roles import IDENTIFIER, QUASI_IDENTIFIER, SENSITIVE
from dbanon.data.schema import Kind
from dbanon.data.weights import WEIGHT_KINDS
from dbanon.doors.jobfile.field_types import is_job_name
from dbanon.doors.jobfile.schedule import schedule_problem
from dbanon.errors import DbanonError, InvalidParameter
from dbanon.extensions.workbench.state import (
    KEEP,
    RISK_COLUMNS,
    ROLES,
    TREE_KINDS,
    JobChoice,
    RiskChoice,
    SweepChoice,
    TreeChoice,
    Workbench,
)
from dbanon.extensions.workbench.tasks import NO_FORM, FormRequest
from dbanon.job.nulls import NULL_POLICIES
from dbanon.job.rules import WEIGHT
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.stores.schemes import is_row_file_url

MAX_FIELDS = 5_000
# Allowed file names: not hidden, without a directory, and without special characters of shells.
_FILE_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,58}", re.ASCII)
# Maximum number of files that the page offers as hierarchies.
_MAX_FILES = 50
# The empty text stands for no export.
EXPORT_FORMATS = ("", "csv", "parquet")
# The fields for numbers about the disclosure risk, as labels and errors name them.
RISK_TEXTS = {
    "sampling_fraction": "sampling fraction",
    "threshold": "threshold",
    "max_individual": "largest risk of a record",
    "max_global": "largest mean risk",
}

Fields = Mapping[str, Sequence[str]]
_Value = TypeVar("_Value")


class FormError(Exception):
    """Raised when a form has invalid values.

    Parameters
    ----------
    errors : from field name to error, in the order of the form; the empty name is for errors that
        concern the whole form.
    """

    def __init__(self, errors: Mapping[str, DbanonError]) -> None:
        super().__init__()
        self.errors = errors


@dataclass
class FieldChecks:
    """Reads the fields of a form, and collects the errors."""

    errors: dict[str, DbanonError] = field(default_factory=dict)

    def read_field(self, name: str, read_value: Callable[[], _Value]) -> _Value | None:
        """Return the value that a function reads; if it fails, record the error and return None."""
        try:
            return read_value()
        except DbanonError as error:
            self.errors.setdefault(name, error)
            return None

    def require_no_errors(self) -> None:
        """Check that no error was recorded; raises FormError."""
        if self.errors:
            raise FormError(self.errors)


@dataclass(frozen=True)
class FormState:
    """The submitted values of a form, which it shows instead of the saved ones.

    Parameters
    ----------
    request : the submitted form; its name is empty if no form was submitted.
    errors : from field name to error.
    is_conflict : whether another page has changed the saved values; the form then shows them next
        to the submitted ones.
    """

    request: FormRequest = NO_FORM
    errors: Mapping[str, DbanonError] = field(default_factory=dict)
    is_conflict: bool = False

    def for_form(self, form: str) -> FormState:
        """Return this state if it belongs to the named form, else an empty one."""
        return self if self.request.name == form else FormState()

    def find_shown_value(self, name: str, saved: str) -> str:
        """Return the value that a field shows: the submitted one, or else the saved one."""
        return get_first_value(self.request.fields, name, saved)

    def is_checked(self, name: str, saved: bool) -> bool:
        """Whether a checkbox is ticked: browsers do not send unticked ones."""
        return name in self.request.fields if self.request.name else saved

    def find_conflicting_values(self, saved: Mapping[str, str]) -> dict[str, str]:
        """Return the saved values that differ from the submitted ones; empty without a conflict.

        Parameters
        ----------
        saved : from field name to the saved value, as the form writes it.
        """
        if not self.is_conflict:
            return {}
        return {
            name: text for name, text in saved.items() if self.find_shown_value(name, text) != text
        }


def parse_fields(body: bytes) -> dict[str, list[str]]:
    """Parse the body of a form: from field name to all values.

    Raises
    ------
    InvalidParameter : it is not a form, or has too many fields.
    """
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError:
        raise InvalidParameter("The form could not be read.") from None
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value.strip())
    return fields


def get_first_value(fields: Fields, name: str, default: str = "") -> str:
    """Return the first value of a field."""
    return next(iter(fields.get(name, ())), default)


def read_roles(bench: Workbench, fields: Fields) -> tuple[dict[str, str], dict[str, str]]:
    """Read the role of each column, and the reasons for columns of role ``keep``.

    Raises
    ------
    FormError : a role is unknown, a reason is missing, or no column is a quasi-identifier.
    """
    roles, reasons = {}, {}
    errors: dict[str, DbanonError] = {}
    for index, name in enumerate(bench.roles):
        role = roles[name] = get_first_value(fields, f"role-{index}")
        if role not in list_allowed_roles(bench, name):
            errors[f"role-{index}"] = InvalidParameter(
                f'Column "{name}" must have one of the listed roles.'
            )
        if role == KEEP:
            # Longer reasons are cut off.
            reasons[name] = get_first_value(fields, f"reason-{index}")[:200]
            if not reasons[name]:
                errors[f"reason-{index}"] = InvalidParameter(
                    f'Column "{name}" is kept unchanged, but has no reason.',
                    hint="Write why it reveals nothing about a person, or give it another role.",
                )
        if role == WEIGHT and list(roles.values()).count(WEIGHT) > 1:
            errors[f"role-{index}"] = InvalidParameter(
                f'Column "{name}" cannot be a second design weight.'
            )
    if QUASI_IDENTIFIER not in roles.values():
        errors[""] = InvalidParameter(
            "No column is a quasi-identifier.",
            hint="Give the role quasi-identifier to columns that others may know about a person.",
        )
    if errors:
        raise FormError(errors)
    return roles, reasons


def list_allowed_roles(bench: Workbench, name: str) -> tuple[str, ...]:
    """List the roles that a column may have."""
    entity = None if bench.role_proposals is None else bench.role_proposals.entity
    # The column that identifies persons can have neither the role ``keep`` nor ``drop``.
    if name == entity:
        return (IDENTIFIER, QUASI_IDENTIFIER, SENSITIVE)
    return ROLES if _has_weights(bench, name) else tuple(role for role in ROLES if role != WEIGHT)


def _has_weights(bench: Workbench, name: str) -> bool:
    """Whether the values of a column may be design weights."""
    profile = None if bench.role_proposals is None else bench.role_proposals.profile
    return profile is not None and profile.column(name).attribute.kind in WEIGHT_KINDS


def list_tree_kinds(bench: Workbench, name: str) -> tuple[str, ...]:
    """List the kinds of tree that a column may have.

    ``suggest`` stands for a tree that is derived from the values of the column and saved as a file,
    ``name`` for a hierarchy stored in the database, and ``file`` for an existing file.
    """
    if bench.role_proposals is None:
        return ()
    kind = bench.role_proposals.profile.column(name).attribute.kind
    if kind is Kind.DATE:
        return tuple(
            tree_kind for tree_kind in TREE_KINDS if tree_kind in ("dates", "name", "file")
        )
    # Numbers have intervals. Timestamps have no hierarchy on this page.
    if not kind.is_coded:
        return () if kind is Kind.TIMESTAMP else ("intervals", "name", "file")
    return ("mask", "suggest", "name", "file")


def list_tree_files(directory: Path) -> list[str]:
    """List the files of a folder that may contain a tree."""
    with os.scandir(directory) as entries:
        names = [
            entry.name
            for entry in entries
            if entry.name.endswith((".csv", ".json"))
            and _FILE_NAME_PATTERN.fullmatch(entry.name)
            and entry.is_file(follow_symlinks=False)
        ]
    return sorted(names)[:_MAX_FILES]


def read_tree_choices(bench: Workbench, fields: Fields) -> dict[str, TreeChoice]:
    """Read the chosen trees, by quasi-identifier.

    A quasi-identifier without a field in the form keeps its tree.

    Raises
    ------
    FormError : a tree was not offered, or widths are not numbers.
    """
    choices = {}
    checks = FieldChecks()
    names = list(bench.roles)
    for name in bench.quasi_identifiers:
        index = names.index(name)
        choice = bench.trees[name].choice if name in bench.trees else None
        if f"tree-{index}" in fields:
            choice = checks.read_field(
                f"tree-{index}", partial(_read_tree_choice, bench, fields, name, index)
            )
        if choice is not None:
            choices[name] = choice
    checks.require_no_errors()
    return choices


def _read_tree_choice(bench: Workbench, fields: Fields, name: str, index: int) -> TreeChoice | None:
    """Read the tree chosen for a column; None if none was chosen."""
    kind = get_first_value(fields, f"tree-{index}")
    if not kind:
        return None
    if kind not in list_tree_kinds(bench, name):
        raise InvalidParameter(f'Column "{name}" cannot have a hierarchy of this kind.')
    existing_names = {
        "name": bench.stored_hierarchies,
        "file": list_tree_files(bench.arguments.directory),
    }
    # The form has a field for the argument of each kind that takes one.
    argument = get_first_value(fields, f"{kind}-{index}")
    choice = TreeChoice(kind, argument if kind in ("intervals", *existing_names) else "")
    if kind in existing_names and choice.argument not in existing_names[kind]:
        raise InvalidParameter(f'Column "{name}": choose one of the existing hierarchies.')
    try:
        # Raises one of these errors if a width is not a number. The result is not used, so a
        # suggested tree needs no file name.
        choice.to_job_file(suggested_file="")
    except (ValueError, OverflowError):
        raise InvalidParameter(
            f'Column "{name}": widths must be numbers, such as 5, 10, 50.'
        ) from None
    return choice


def read_sweep_choice(bench: Workbench, fields: Fields) -> SweepChoice:
    """Read which trial releases to make.

    Raises
    ------
    FormError : a number is malformed or too large.
    """
    checks = FieldChecks()

    def read_number(name: str, minimum: int, maximum: int) -> int:
        # For an invalid number this returns 0, which is never used: ``require_no_errors`` raises.
        return int(
            checks.read_field(name, lambda: _read_number(fields, name, minimum, maximum)) or 0
        )

    smallest_k, largest_k = read_number("from", 2, 10_000), read_number("to", 2, 10_000)
    if smallest_k and largest_k and (smallest_k > largest_k or largest_k - smallest_k > 40):
        checks.errors["to"] = InvalidParameter(
            "The smallest k must not exceed the largest, and at most 41 values of k can be tried."
        )
    sample, limit_seconds = read_number("sample", 100, 10_000_000), read_number("limit", 1, 86_400)
    seed = read_number("seed", 0, 2**31)
    nulls = get_first_value(fields, "nulls", "") or None
    if nulls is not None and nulls not in NULL_POLICIES:
        checks.errors["nulls"] = InvalidParameter(
            f"The treatment of NULLs must be one of {', '.join(NULL_POLICIES)}."
        )
    methods = tuple(dict.fromkeys(fields.get("method", ())))
    if any(name not in (*NUMBER_METHODS, *CATEGORY_METHODS) for name in methods):
        checks.errors["method"] = InvalidParameter("Choose from the listed methods.")
    checks.require_no_errors()
    return SweepChoice(
        k=tuple(range(smallest_k, largest_k + 1)),
        methods=methods,
        sample=sample,
        seed=seed,
        time_limit=float(limit_seconds),
        nulls=nulls,
    )


def _read_number(fields: Fields, name: str, minimum: int, maximum: int) -> int:
    text = get_first_value(fields, name)
    if re.fullmatch(r"[0-9]{1,12}", text, re.ASCII) and minimum <= int(text) <= maximum:
        return int(text)
    label = {"from": "The smallest k", "to": "The largest k", "limit": "The seconds"}.get(
        name, f"The {name}"
    )
    raise InvalidParameter(f"{label} must be a whole number from {minimum:,} to {maximum:,}.")


def read_job_choice(bench: Workbench, fields: Fields) -> JobChoice:
    """Read the values for the job file.

    Raises
    ------
    FormError : a file, job or view cannot have this name.
    """
    kinds, checks = bench.arguments.output_kinds, FieldChecks()
    choice = JobChoice(
        file=get_first_value(fields, "file"),
        name=get_first_value(fields, "name"),
        output=get_first_value(fields, "output"),
        kind=get_first_value(fields, "kind", kinds[0]),
        database_file=get_first_value(fields, "database_file", "released.duckdb"),
        export=get_first_value(fields, "export"),
        report=get_first_value(fields, "report") == "yes",
        schedule=get_first_value(fields, "schedule"),
    )
    for name, check in {
        "file": lambda: _require_file(choice.file, (".yaml", ".yml"), "job file"),
        "name": lambda: _require_name(choice.name),
        "output": lambda: _require_output(choice.output),
        "kind": lambda: _require_condition(
            choice.kind in kinds, f"A release is made as a {' or as a '.join(kinds)}."
        ),
        "database_file": lambda: _require_file(choice.database_file, (".duckdb",), "database file"),
        "export": lambda: _require_condition(
            choice.export in EXPORT_FORMATS,
            "A release is exported as CSV, as Parquet, or not at all.",
        ),
        "schedule": lambda: _require_schedule(choice.schedule),
    }.items():
        checks.read_field(name, check)
    choice = replace(choice, risk=_read_risk_choice(bench, fields, checks))
    checks.require_no_errors()
    return choice


def write_risk_fields(bench: Workbench, choice: RiskChoice) -> dict[str, str]:
    """Write the values of the fields about the disclosure risk, by the name of the field.

    The value of a column is its index among all columns.
    """
    names = list(bench.roles)
    return {
        f"risk-{key}": str(names.index(text)) if key in RISK_COLUMNS and text in names else text
        for key, text in vars(choice).items()
    }


def list_risk_columns(bench: Workbench, key: str) -> list[tuple[str, str]]:
    """List the columns that can be the weight, or the household: pairs of index and name."""
    return [
        (str(index), name)
        for index, (name, role) in enumerate(bench.roles.items())
        # The risk is measured in the quasi-identifiers, and each column is named once.
        if role != QUASI_IDENTIFIER
        and (
            _has_weights(bench, name) and name not in bench.arguments.key
            if key == "weight"
            else role != WEIGHT
        )
    ]


def _read_risk_choice(bench: Workbench, fields: Fields, checks: FieldChecks) -> RiskChoice | None:
    """Read what to measure of the disclosure risk; None if it is not to be measured."""
    texts = {
        option.name: get_first_value(fields, f"risk-{option.name}")
        for option in dataclass_fields(RiskChoice)
    }
    if get_first_value(fields, "risk") != "yes":
        checks.read_field(
            "risk",
            lambda: _require_condition(
                not any(texts.values()),
                "There are values for the disclosure risk, but it would not be measured.",
                hint="Tick the box to measure it, or clear these values.",
            ),
        )
        return None
    for key in RISK_COLUMNS:
        columns = dict(list_risk_columns(bench, key))
        checks.read_field(
            f"risk-{key}",
            partial(
                _require_condition,
                texts[key] in ("", *columns),
                f"The {key} must be one of the listed columns.",
            ),
        )
        texts[key] = columns.get(texts[key], "")
    checks.read_field(
        "risk-household",
        lambda: _require_condition(
            texts["household"] == "" or texts["household"] != texts["weight"],
            "The household and the weight are different columns.",
        ),
    )
    for key in RISK_TEXTS:
        checks.read_field(
            f"risk-{key}",
            partial(
                _require_condition,
                texts[key] == "" or _is_share(texts[key]),
                f"The {RISK_TEXTS[key]} must be a number above 0, at most 1.",
            ),
        )
    has_limit = bool(texts["max_individual"] or texts["max_global"])
    checks.read_field(
        "risk-weight",
        lambda: _require_condition(
            not (has_limit and texts["weight"]) or bench.roles[texts["weight"]] == WEIGHT,
            "A limit of the risk needs the weight in the release.",
            hint="Give the column the role weight on the first page, or write a sampling fraction"
            " in place of the weight.",
        ),
    )
    return RiskChoice(**texts)


def _is_share(text: str) -> bool:
    """Whether a text is a number above 0, at most 1."""
    return (
        re.fullmatch(r"[0-9]{0,9}(\.[0-9]{1,15})?", text, re.ASCII) is not None
        and text != ""
        and 0 < float(text) <= 1
    )


def _require_condition(condition: bool, message: str, hint: str | None = None) -> None:
    if not condition:
        raise InvalidParameter(message, hint=hint)


def _require_schedule(schedule: str) -> None:
    """Check the schedule; unlike in job files, it may be empty."""
    problem = schedule_problem(schedule) if schedule else None
    if problem is not None:
        raise InvalidParameter(f"The schedule is invalid: {problem}.")


def _require_name(name: str) -> None:
    _require_condition(
        is_job_name(name), "The job's name must be letters, digits, _ and -, at most 63 of them."
    )


def _require_output(name: str) -> None:
    if parse_relation(name).schema is not None:
        raise InvalidParameter(
            "The release's name must not have a schema.",
            hint="Leave out the schema: the release is written to the schema named release.",
        )


def _require_file(name: str, suffixes: tuple[str, ...], description: str) -> None:
    if not _FILE_NAME_PATTERN.fullmatch(name) or ".." in name or not name.endswith(suffixes):
        raise InvalidParameter(
            f"The {description}'s name must end in {' or '.join(suffixes)}, and contain only"
            " English letters, digits, _, - and dots, without a directory.",
            hint=f"Write a name such as people{suffixes[0]}. The file goes into the directory"
            " in which the workbench was started.",
        )


def propose_job_choice(bench: Workbench) -> JobChoice:
    """Propose values for the form of the job file."""
    table = parse_relation(bench.arguments.table).name
    base_name = re.sub(r"[^A-Za-z0-9_]+", "-", table).strip("-_")[:40] or "job"
    export = "csv" if is_row_file_url(bench.arguments.url) else ""
    output = str(RelationName(None, bench.free_output_name or table))
    kind = bench.arguments.output_kinds[0]
    return JobChoice(
        file=f"{base_name}.yaml",
        name=base_name,
        output=output,
        kind=kind,
        database_file=f"{base_name}-releases.duckdb",
        export=export,
    )
