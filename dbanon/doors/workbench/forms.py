"""Forms as decisions: a choice among offers, a number within limits, or a plain name.

Fields name columns by their index, so that no column name can be the name of a field.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl

from dbanon.advice.request import OF_CATEGORIES, OF_NUMBERS
from dbanon.advice.roles import IDENTIFIER, QUASI_IDENTIFIER, SENSITIVE
from dbanon.data.schema import Kind
from dbanon.doors.jobfile.field_types import is_job_name
from dbanon.doors.jobfile.schedule import schedule_problem
from dbanon.doors.workbench.state import (
    KEEP,
    ROLES,
    TREES,
    JobChoice,
    SweepChoice,
    TreeChoice,
    Workbench,
)
from dbanon.doors.workbench.tasks import NO_FORM, FormRequest
from dbanon.errors import DbanonError, InvalidParameter
from dbanon.job.nulls import NULL_POLICIES
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.stores.folders import is_of_files

MOST_FIELDS = 5_000
# Names of files: none that is hidden, leads elsewhere, or means something to a shell.
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,58}", re.ASCII)
_MOST_FILES = 50
EXPORTS = ("", "csv", "parquet")

Fields = Mapping[str, Sequence[str]]
Value = TypeVar("Value")


class FormError(Exception):
    """Values of a form are wrong.

    Parameters
    ----------
    errors : by field, in the order of the form; an empty name stands for the whole form.
    """

    def __init__(self, errors: Mapping[str, DbanonError]) -> None:
        super().__init__()
        self.errors = errors


@dataclass
class FieldChecks:
    """Reads the fields of a form one by one, and collects the errors of each."""

    errors: dict[str, DbanonError] = field(default_factory=dict)

    def read(self, name: str, read: Callable[[], Value]) -> Value | None:
        """The value that a function makes of a field; None if it is wrong."""
        try:
            return read()
        except DbanonError as error:
            self.errors.setdefault(name, error)
            return None

    def require(self) -> None:
        """Check that nothing is wrong; raises FormError."""
        if self.errors:
            raise FormError(self.errors)


@dataclass(frozen=True)
class FormState:
    """The values that a form shows in place of the saved ones: those that were sent.

    Parameters
    ----------
    request : the form as it was sent; its name is empty if none was.
    errors : by field.
    is_conflict : whether the saved values are shown beside those that were sent.
    """

    request: FormRequest = NO_FORM
    errors: Mapping[str, DbanonError] = field(default_factory=dict)
    is_conflict: bool = False

    def of(self, form: str) -> FormState:
        """This state if it belongs to this form, else an empty one."""
        return self if self.request.name == form else FormState()

    def value(self, name: str, saved: str) -> str:
        """The value that a field shows."""
        return first_value(self.request.fields, name, saved)

    def is_checked(self, name: str, saved: bool) -> bool:
        """Whether a box is ticked: browsers do not send unticked boxes."""
        return name in self.request.fields if self.request.name else saved

    def conflicting_values(self, saved: Mapping[str, str]) -> dict[str, str]:
        """The saved values, as the form has them, that differ from those sent in a conflict."""
        if not self.is_conflict:
            return {}
        return {name: text for name, text in saved.items() if self.value(name, text) != text}


def fields_of(body: bytes) -> dict[str, list[str]]:
    """The fields of a form, all values of each.

    Raises
    ------
    InvalidParameter : it is no form, or has too many fields.
    """
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:
        raise InvalidParameter("The form could not be read.") from None
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value.strip())
    return fields


def first_value(fields: Fields, name: str, default: str = "") -> str:
    """The first value of a field."""
    return next(iter(fields.get(name, ())), default)


def roles_of(bench: Workbench, fields: Fields) -> tuple[dict[str, str], dict[str, str]]:
    """The role of each column, and the reasons for columns of role ``keep``.

    Raises
    ------
    FormError : a role is unknown, a reason is missing, or no column is a quasi-identifier.
    """
    roles, reasons = {}, {}
    errors: dict[str, DbanonError] = {}
    for index, name in enumerate(bench.roles):
        role = roles[name] = first_value(fields, f"role-{index}")
        if role not in roles_for(bench, name):
            errors[f"role-{index}"] = InvalidParameter(
                f'Column "{name}" must have one of the listed roles.'
            )
        if role == KEEP:
            reasons[name] = first_value(fields, f"reason-{index}")[:200]
            if not reasons[name]:
                errors[f"reason-{index}"] = InvalidParameter(
                    f'Column "{name}" is kept as it is, but has no reason.',
                    hint="Write why it reveals nothing about a person, or give it another role.",
                )
    if QUASI_IDENTIFIER not in roles.values():
        errors[""] = InvalidParameter(
            "No column is a quasi-identifier.",
            hint="Give the role quasi-identifier to columns that others may know about a person.",
        )
    if errors:
        raise FormError(errors)
    return roles, reasons


def roles_for(bench: Workbench, name: str) -> tuple[str, ...]:
    """The roles that a column may have."""
    entity = None if bench.proposed is None else bench.proposed.entity
    # The entity column is counted, or it is a column like others.
    return (IDENTIFIER, QUASI_IDENTIFIER, SENSITIVE) if name == entity else ROLES


def trees_for(bench: Workbench, name: str) -> tuple[str, ...]:
    """The kinds of tree that a column may have."""
    if bench.proposed is None:
        return ()
    kind = bench.proposed.profile.column(name).attribute.kind
    if kind is Kind.DATE:
        return tuple(kind for kind in TREES if kind in ("dates", "name", "file"))
    if not kind.is_coded:
        return () if kind is Kind.TIMESTAMP else ("intervals", "name", "file")
    return ("mask", "suggest", "name", "file")


def files_for(directory: Path) -> list[str]:
    """The files of a folder that may contain a tree."""
    with os.scandir(directory) as entries:
        names = [
            entry.name
            for entry in entries
            if entry.name.endswith((".csv", ".json"))
            and _FILE.fullmatch(entry.name)
            and entry.is_file(follow_symlinks=False)
        ]
    return sorted(names)[:_MOST_FILES]


def trees_of(bench: Workbench, fields: Fields) -> dict[str, TreeChoice]:
    """The trees that were chosen, by quasi-identifier.

    A quasi-identifier that the form does not have keeps its tree.

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
            choice = checks.read(f"tree-{index}", partial(_tree_of, bench, fields, name, index))
        if choice is not None:
            choices[name] = choice
    checks.require()
    return choices


def _tree_of(bench: Workbench, fields: Fields, name: str, index: int) -> TreeChoice | None:
    """The tree of a column; None for none."""
    kind = first_value(fields, f"tree-{index}")
    if not kind:
        return None
    if kind not in trees_for(bench, name):
        raise InvalidParameter(f'Column "{name}" cannot have a hierarchy of this kind.')
    offered = {"name": bench.stored, "file": files_for(bench.start.directory)}
    more = first_value(fields, f"{kind}-{index}")
    choice = TreeChoice(kind, more if kind in ("intervals", *offered) else "")
    if kind in offered and choice.more not in offered[kind]:
        raise InvalidParameter(f'Column "{name}": choose one of the existing hierarchies.')
    try:
        choice.plain("")
    except (ValueError, OverflowError):
        raise InvalidParameter(
            f'Column "{name}": widths must be numbers, such as 5, 10, 50.'
        ) from None
    return choice


def sweep_of(bench: Workbench, fields: Fields) -> SweepChoice:
    """The releases that are to be tried.

    Raises
    ------
    FormError : a number is malformed or too large.
    """
    checks = FieldChecks()

    def number(name: str, least: int, most: int) -> int:
        # A wrong number is never used: the checks below raise.
        return int(checks.read(name, lambda: _number(fields, name, least, most)) or 0)

    low, high = number("from", 2, 10_000), number("to", 2, 10_000)
    if low and high and (low > high or high - low > 40):
        checks.errors["to"] = InvalidParameter(
            "The smallest k must not exceed the largest, and at most 41 values of k can be tried."
        )
    sample, limit = number("sample", 100, 10_000_000), number("limit", 1, 86_400)
    seed = number("seed", 0, 2**31)
    nulls = first_value(fields, "nulls", "") or None
    if nulls is not None and nulls not in NULL_POLICIES:
        checks.errors["nulls"] = InvalidParameter(
            f"NULLs may become one of {', '.join(NULL_POLICIES)}."
        )
    methods = tuple(dict.fromkeys(fields.get("method", ())))
    if any(name not in (*OF_NUMBERS, *OF_CATEGORIES) for name in methods):
        checks.errors["method"] = InvalidParameter("Choose from the listed methods.")
    checks.require()
    return SweepChoice(
        k=tuple(range(low, high + 1)),
        methods=methods,
        sample=sample,
        seed=seed,
        time_limit=float(limit),
        nulls=nulls,
    )


def _number(fields: Fields, name: str, least: int, most: int) -> int:
    text = first_value(fields, name)
    if re.fullmatch(r"[0-9]{1,12}", text, re.ASCII) and least <= int(text) <= most:
        return int(text)
    label = {"from": "The smallest k", "to": "The largest k", "limit": "The seconds"}.get(
        name, f"The {name}"
    )
    raise InvalidParameter(f"{label} must be a whole number from {least:,} to {most:,}.")


def job_of(bench: Workbench, fields: Fields) -> JobChoice:
    """The choices for the job file.

    Raises
    ------
    FormError : a file, job or view cannot have this name.
    """
    kinds = bench.start.kinds
    choice = JobChoice(
        file=first_value(fields, "file"),
        name=first_value(fields, "name"),
        output=first_value(fields, "output"),
        kind=first_value(fields, "kind", kinds[0]),
        place=first_value(fields, "place", "released.duckdb"),
        export=first_value(fields, "export"),
        report=first_value(fields, "report") == "yes",
        schedule=first_value(fields, "schedule"),
    )
    checks = FieldChecks()
    for name, check in {
        "file": lambda: _require_file(choice.file, (".yaml", ".yml"), "job file"),
        "name": lambda: _require_name(choice.name),
        "output": lambda: _require_output(choice.output),
        "kind": lambda: _require(
            choice.kind in kinds, f"A release is made as a {' or as a '.join(kinds)}."
        ),
        "place": lambda: _require_file(choice.place, (".duckdb",), "database file"),
        "export": lambda: _require(
            choice.export in EXPORTS,
            "A release is exported as CSV, as Parquet, or not at all.",
        ),
        "schedule": lambda: _require_schedule(choice.schedule),
    }.items():
        checks.read(name, check)
    checks.require()
    return choice


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise InvalidParameter(otherwise)


def _require_schedule(schedule: str) -> None:
    """Check a schedule as job files have it, which may be empty here."""
    problem = schedule_problem(schedule) if schedule else None
    if problem is not None:
        raise InvalidParameter(f"The schedule is wrong: {problem}.")


def _require_name(name: str) -> None:
    _require(
        is_job_name(name), "The job's name must be letters, digits, _ and -, at most 63 of them."
    )


def _require_output(name: str) -> None:
    if parse_relation(name).schema is not None:
        raise InvalidParameter(
            "The release's name must not have a schema.",
            hint="Leave out the schema: the release goes into the schema release.",
        )


def _require_file(name: str, endings: tuple[str, ...], kind: str) -> None:
    if not _FILE.fullmatch(name) or ".." in name or not name.endswith(endings):
        raise InvalidParameter(
            f"The {kind}'s name must end in {' or '.join(endings)}, and be letters of English,"
            " digits, _, - and dots, without a directory.",
            hint=f"Write a name such as people{endings[0]}. The file goes into the directory"
            " in which the workbench was started.",
        )


def job_first(bench: Workbench) -> JobChoice:
    """The initial values of the form of the job file."""
    table = parse_relation(bench.start.table).name
    stem = re.sub(r"[^A-Za-z0-9_]+", "-", table).strip("-_")[:40] or "job"
    export = "csv" if is_of_files(bench.start.url) else ""
    output = str(RelationName(None, bench.free_output_name or table))
    database = f"{stem}-releases.duckdb"
    kind = bench.start.kinds[0]
    return JobChoice(f"{stem}.yaml", stem, output, kind, place=database, export=export)
