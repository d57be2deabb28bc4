"""Pydantic's validation errors as problems with line and path, without any value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from dbanon.doors.jobfile.columns import COLUMN_KINDS, ROLES, ModelSpec
from dbanon.doors.jobfile.document import NO_KEY, Document, describe_path
from dbanon.doors.jobfile.expectations import ExpectSpec
from dbanon.doors.jobfile.field_types import NULLABLE, written_password
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
    find_misfits,
)
from dbanon.errors import nearest_names

_TEXTS = {
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
    "union_tag_not_found": "role is missing: one of " + ", ".join(ROLES),
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
    ("jobs", "*", "export", "*"): ExportSpec,
    ("jobs", "*", "notify", "*"): NoticeSpec,
    ("jobs", "*", "columns", "*", "models", "*"): ModelSpec,
}


def note_refusals(document: Document, error: ValidationError) -> None:
    """Record pydantic's errors, except at paths with an earlier problem."""
    noted_paths = {problem.path for problem in document.problems}
    for refusal in error.errors(include_input=False, include_url=False):
        path = _path(document, refusal["loc"], refusal["type"])
        if describe_path(path) not in noted_paths and not (
            path and str(path[-1]).startswith(NO_KEY)
        ):
            document.refuse(path, _text(document, path, refusal))


def note_nulls(document: Document) -> None:
    """Record keys without a value, except options that accept null."""
    noted_paths = {problem.path for problem in document.problems}
    for path in _nulls(document.value, ()):
        is_option = len(path) in (2, 3) and path[0] in ("defaults", "jobs")
        if describe_path(path) not in noted_paths and not (is_option and path[-1] in NULLABLE):
            document.refuse(path, "has no value")


def note_names(document: Document) -> None:
    """Record duplicate names of jobs."""
    jobs = document.value.get("jobs")
    seen: dict[str, int] = {}
    for index, job in enumerate(jobs if isinstance(jobs, list) else ()):
        name = job.get("name") if isinstance(job, dict) else None
        if not isinstance(name, str):
            continue
        # Job names become file names, and some file systems ignore case.
        first = seen.setdefault(name.casefold(), index)
        if first != index:
            document.refuse(("jobs", index, "name"), f"jobs.{first} already has this name")


def note_passwords(document: Document) -> None:
    """Record URLs with a password in clear text."""
    for part in ("source", "target"):
        content = document.value.get(part)
        url = content.get("url") if isinstance(content, dict) else None
        if isinstance(url, str) and written_password(url):
            document.refuse(
                (part, "url"),
                "holds a password: write ${VAR}, or keep it in ~/.pgpass, a service file or"
                " PGPASSWORD (or allow it: --allow-inline-password)",
            )


def _nulls(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _nulls(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _nulls(part, (*path, index))
    elif value is None and path:
        yield path


def _path(document: Document, loc: Sequence[str | int], kind: str) -> tuple[str | int, ...]:
    """Return the path in the file, without the union tags that pydantic inserts."""
    path: list[str | int] = []
    value = document.value
    for index, part in enumerate(loc):
        if isinstance(value, dict) and part in value:
            value = value[str(part)]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        elif kind != "missing" or index < len(loc) - 1:
            continue
        path.append(part)
    return tuple(path)


def _text(document: Document, path: Sequence[str | int], refusal: Any) -> str:
    kind, context = refusal["type"], refusal.get("ctx", {})
    if kind == "extra_forbidden":
        near = nearest_names(str(path[-1]), _allowed_keys(document, path[:-1]), limit=1)
        return "unknown key" + (f"; {near[0].lower()}{near[1:]}" if near else "")
    if kind == "refused":
        return str(context["text"])
    if kind == "literal_error":
        return f"must be {context['expected']}"
    for limit, word in (("ge", "{:g} or more"), ("gt", "above {:g}"), ("le", "{:g} or less")):
        if limit in context:
            return "must be " + word.format(context[limit])
    return _TEXTS.get(kind, "is not valid")


def _allowed_keys(document: Document, path: Sequence[str | int]) -> list[str]:
    """Return the keys that are allowed at a path."""
    shape = tuple(
        "*" if isinstance(part, int) or (index == 3 and path[2] == "columns") else part
        for index, part in enumerate(path)
    )
    model = _MODELS_BY_PATH.get(shape)
    if shape == ("jobs", "*", "columns", "*"):
        role = document.value["jobs"][path[1]]["columns"][path[3]].get("role")
        model = COLUMN_KINDS[ROLES.index(role)] if role in ROLES else None
    if model is None:
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def note_misfits(document: Document, job: Any, index: int) -> None:
    """Record contradictions in a job that pydantic refused for another reason."""
    columns = job.get("columns") if isinstance(job, dict) else None
    if not isinstance(columns, dict):
        return
    roles = {
        n: str(column.get("role")) for n, column in columns.items() if isinstance(column, dict)
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
    noted_problems = {(problem.path, problem.text) for problem in document.problems}
    for text in find_misfits(roles, entity_columns, key_columns, chained="chain" in job):
        path = ("jobs", index)
        if (describe_path(path), text) not in noted_problems:
            document.refuse(path, text)
