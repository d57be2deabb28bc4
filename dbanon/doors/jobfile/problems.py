"""Finds problems of a job file, and converts pydantic's errors to problems with line and path.

Problems quote no value of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dbanon.doors.jobfile.columns import COLUMN_MODELS, ROLES, ModelSpec
from dbanon.doors.jobfile.document import INVALID_KEY_PREFIX, Document, describe_path
from dbanon.doors.jobfile.expectations import ExpectSpec
from dbanon.doors.jobfile.field_types import NULLABLE, has_written_password
from dbanon.doors.jobfile.models import (
    ChainSpec,
    Defaults,
    ExportSpec,
    JobFileSpec,
    JobSpec,
    NoticeSpec,
    Output,
    Source,
    Target,
    find_contradictions,
)
from dbanon.doors.jobfile.risk import RiskSpec
from dbanon.errors import nearest_names

# A function that returns the keys that are allowed at a path of a document.
FindAllowedKeys = Callable[[Document, Sequence[str | int]], list[str]]
# From pydantic's type of an error to the text of the problem.
_ERROR_TEXTS = {
    "missing": "is missing",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list: lines that begin with -",
    "dict_type": "must be keys with values",
    "model_type": "must be keys with values",
    "model_attributes_type": "must be keys with values",
    "too_short": "must not be empty",
    "union_tag_not_found": "role is missing: write one of " + ", ".join(ROLES),
    "union_tag_invalid": "role must be one of " + ", ".join(ROLES),
}
# The model of each path; * matches any key or index.
_MODELS_BY_PATH: dict[tuple[str, ...], type[BaseModel]] = {
    (): JobFileSpec,
    ("source",): Source,
    ("target",): Target,
    ("defaults",): Defaults,
    ("jobs", "*"): JobSpec,
    ("jobs", "*", "output"): Output,
    ("jobs", "*", "chain"): ChainSpec,
    ("jobs", "*", "expect"): ExpectSpec,
    ("jobs", "*", "risk"): RiskSpec,
    ("jobs", "*", "export", "*"): ExportSpec,
    ("jobs", "*", "notify", "*"): NoticeSpec,
    ("jobs", "*", "columns", "*", "models", "*"): ModelSpec,
}


def record_validation_errors(
    document: Document,
    error: ValidationError,
    find_allowed_keys: FindAllowedKeys | None = None,
) -> None:
    """Record pydantic's errors, except at paths with an earlier problem.

    Parameters
    ----------
    find_allowed_keys : returns the keys that are allowed at a path, of which a similar one is
        suggested for an unknown key; None for those of job files.
    """
    find_allowed_keys = find_allowed_keys or _allowed_keys
    problem_paths = {problem.path for problem in document.problems}
    for pydantic_error in error.errors(include_input=False, include_url=False):
        path = _locate(document, pydantic_error["loc"], pydantic_error["type"])
        # An invalid key was replaced when the file was read, and its problem was recorded then.
        if describe_path(path) not in problem_paths and not (
            path and str(path[-1]).startswith(INVALID_KEY_PREFIX)
        ):
            allowed_keys: list[str] = []
            if pydantic_error["type"] == "extra_forbidden":
                allowed_keys = find_allowed_keys(document, path[:-1])
            document.add_problem(path, _describe(path, pydantic_error, allowed_keys))


def record_missing_values(document: Document) -> None:
    """Record keys without a value, except options that accept null."""
    problem_paths = {problem.path for problem in document.problems}
    for path in _find_nulls(document.content, ()):
        # Options are at defaults.NAME and jobs.INDEX.NAME.
        is_option = len(path) in (2, 3) and path[0] in ("defaults", "jobs")
        if describe_path(path) not in problem_paths and not (is_option and path[-1] in NULLABLE):
            document.add_problem(path, "has no value")


def record_duplicate_names(document: Document) -> None:
    """Record duplicate names of jobs."""
    jobs = document.content.get("jobs")
    first_indexes: dict[str, int] = {}
    for index, job in enumerate(jobs if isinstance(jobs, list) else ()):
        name = job.get("name") if isinstance(job, dict) else None
        if not isinstance(name, str):
            continue
        # Job names become file names, and some file systems ignore case.
        first_index = first_indexes.setdefault(name.casefold(), index)
        if first_index != index:
            document.add_problem(
                ("jobs", index, "name"), f"jobs.{first_index} already has this name"
            )


def record_passwords(document: Document) -> None:
    """Record URLs with a password in clear text."""
    for section in ("source", "target"):
        content = document.content.get(section)
        url = content.get("url") if isinstance(content, dict) else None
        if isinstance(url, str) and has_written_password(url):
            document.add_problem(
                (section, "url"),
                "contains a password: write ${VAR}, or keep it in ~/.pgpass, a service file or"
                " PGPASSWORD (or allow it: --allow-inline-password)",
            )


def _find_nulls(value: object, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of nulls in a value, which is at ``path``."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _find_nulls(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _find_nulls(child, (*path, index))
    elif value is None and path:
        yield path


def _locate(
    document: Document, location: Sequence[str | int], error_type: str
) -> tuple[str | int, ...]:
    """Convert pydantic's location to a path in the file, without keys that the file lacks.

    Pydantic adds such keys, for example to name the alternatives of a union. If the error is that a
    key is missing, this key is the last one, and stays.
    """
    path: list[str | int] = []
    value = document.content
    for index, key in enumerate(location):
        if isinstance(value, dict) and key in value:
            value = value[str(key)]
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        elif error_type != "missing" or index < len(location) - 1:
            continue
        path.append(key)
    return tuple(path)


def _describe(
    path: Sequence[str | int], pydantic_error: ErrorDetails, allowed_keys: Sequence[str]
) -> str:
    """Describe a validation error without quoting a value."""
    error_type, context = pydantic_error["type"], pydantic_error.get("ctx", {})
    if error_type == "extra_forbidden":
        # A sentence that suggests a key; empty if none is similar.
        suggestion = nearest_names(str(path[-1]), allowed_keys, limit=1)
        return "unknown key" + (f"; {suggestion[0].lower()}{suggestion[1:]}" if suggestion else "")
    if error_type == "refused":
        # dbanon's own checks raise a ``field_types.validation_error``, which has this type.
        return str(context["text"])
    if error_type == "literal_error":
        return f"must be {context['expected']}"
    for limit, template in (("ge", "{:g} or more"), ("gt", "above {:g}"), ("le", "{:g} or less")):
        if limit in context:
            return "must be " + template.format(context[limit])
    return _ERROR_TEXTS.get(error_type, "is not valid")


def _allowed_keys(document: Document, path: Sequence[str | int]) -> list[str]:
    """Return the keys that are allowed at a path."""
    # In the path of a column (jobs, index, columns, name), the fourth key is any column's name.
    path_pattern = tuple(
        "*" if isinstance(key, int) or (index == 3 and path[2] == "columns") else key
        for index, key in enumerate(path)
    )
    model = _MODELS_BY_PATH.get(path_pattern)
    if path_pattern == ("jobs", "*", "columns", "*"):
        role = document.content["jobs"][path[1]]["columns"][path[3]].get("role")
        model = COLUMN_MODELS[ROLES.index(role)] if role in ROLES else None
    if model is None:
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def record_contradictions(document: Document, job: Any, index: int) -> None:
    """Record contradictions in a job that pydantic refused for another reason.

    Parameters
    ----------
    job : the unchecked content of the job.
    index : the job's position in the file, from 0.
    """
    columns = job.get("columns") if isinstance(job, dict) else None
    if not isinstance(columns, dict):
        return
    roles = {
        name: str(column.get("role"))
        for name, column in columns.items()
        if isinstance(column, dict)
    }
    if len(roles) < len(columns) or not set(roles.values()) <= set(ROLES):
        return
    key = job.get("key", [])
    key_columns = (
        [name for name in key if isinstance(name, str) and name] if isinstance(key, list) else []
    )
    entity = job.get("entity")
    entity = entity.get("column") if isinstance(entity, dict) else entity
    entity_columns = [entity] if isinstance(entity, str) else []
    recorded_problems = {(problem.path, problem.text) for problem in document.problems}
    for text in find_contradictions(roles, entity_columns, key_columns, has_chain="chain" in job):
        path = ("jobs", index)
        if (describe_path(path), text) not in recorded_problems:
            document.add_problem(path, text)
