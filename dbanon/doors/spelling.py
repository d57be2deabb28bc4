"""How the command line and SQL write an option that a hint names, from the table of options.

Python's way is that of the errors themselves: ``dbanon.errors.base.in_python``.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Set
from functools import cache
from typing import Any

from dbanon.data.option import Parameter, all_parameters
from dbanon.job.job import Job
from dbanon.job.private import own_options

# What a call in SQL has as arguments of the function; all else is a key of ``options``.
SQL_ARGUMENTS = frozenset(
    ("output", "quasi_identifiers", "k", "entity", "keep", "sensitive", "hierarchies",
     "max_suppression", "nulls", "if_exists")
)  # fmt: skip
# Those of dbanon.classes, which takes all else in options.
_CLASSES_ARGUMENTS = frozenset(("method", "quasi_identifiers", "k"))
# What a function in SQL says by its name, and the command line by its own words.
_PROBLEMS = "problems()"
# Of dbanon evaluate.
_CHANGED_SOURCE = "changed_source"


@cache
def _options() -> Mapping[str, Parameter]:
    return {one.name: one for one in (*own_options(), *all_parameters(Job))}


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9} | {
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30,
}  # fmt: skip


def bytes_of(text: str) -> int | None:
    """An amount of memory, such as 4GiB, 500MB or 1000000; None where it is none."""
    digits = text.rstrip("KMGiIbB ")
    try:
        return int(float(digits) * _UNITS[text[len(digits) :].strip().upper()])
    except (ValueError, KeyError, OverflowError):
        return None


def flag(one: Parameter) -> str:
    """The name of an option on the command line."""
    return "--" + (one.option.flag or one.name).replace("_", "-")


def on_command_line(name: str, value: Any) -> str:
    """An option as the command line has it."""
    if name == _PROBLEMS:
        return "dbanon hierarchy check"
    if name == _CHANGED_SOURCE:
        return "--changed-source"
    one = _options().get(name)
    if one is None:
        return name
    if one.kind is bool:
        return flag(one)
    if value is None:
        more = one.option.form if one.option.flag else ""
        return f"{flag(one)} {more}".rstrip()
    told = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{flag(one)} {told if told == '…' else shlex.quote(told)}"


def in_sql(name: str, value: Any, arguments: Set[str] = SQL_ARGUMENTS) -> str:
    """An option as a call in SQL has it, of a function that has these arguments."""
    if name == _PROBLEMS:
        return "dbanon.check_hierarchy"
    one = _options().get(name)
    if one is not None and name in arguments:
        return name if value is None else f"{name} => {_literal(value)}"
    if name == "method" and value is not None:
        return f"dbanon.{value}"
    if one is None or not one.option.sql:
        return name
    if value is None:
        return f'"{name}" in options'
    return f"options => {_quoted(json.dumps({name: value}, ensure_ascii=False))}"


def in_sql_classes(name: str, value: Any) -> str:
    """An option as a call of ``dbanon.classes`` has it."""
    return in_sql(name, value, _CLASSES_ARGUMENTS)


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(_literal, value))}]"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
