"""Types of options, for editors and type checkers: those of the fields, written by a generator."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import dbanon
from dbanon.data.option import parameters
from dbanon.doors.cli.anonymize import OPTIONS
from dbanon.job.date_shift import DateShift
from dbanon.job.export import Export
from dbanon.job.options import (
    AttributeMethod,
    ClassOptions,
    JobOptions,
    PolicyOptions,
    RowMethod,
)
from dbanon.job.policy import Policy
from dbanon.job.sets import ColumnSet
from dbanon.measures import Model
from dbanon.methods import METHODS
from tests.docs import option_types


def test_the_typed_options_are_the_fields() -> None:
    """The types that mypy checks, and those checked at run time."""
    job, policy = get_type_hints(JobOptions), get_type_hints(PolicyOptions)
    assert set(policy) == {option.name for option in parameters(Policy)} - {"k"}
    named = {
        name
        for name, parameter in inspect.signature(dbanon.anonymize).parameters.items()
        if isinstance(parameter.annotation, str)
    }
    assert set(job) == {option.name for option in OPTIONS} - named
    for option in OPTIONS:
        if option.name not in job:
            continue
        expected = option.type
        if option.item_type is Model:
            expected = Sequence[Model | Mapping[str, Any]]
        elif option.item_type is ColumnSet:
            expected = Sequence[ColumnSet | Mapping[str, Any] | Sequence[str]]
        elif option.item_type is Export:
            expected = Sequence[Export | str | Mapping[str, Any]]
        elif option.name == "shift_dates":
            expected = DateShift | Mapping[str, Any] | None
        elif option.name == "recode":
            expected = (
                Mapping[str, Sequence[float] | Mapping[str, Sequence[str | int] | str]] | None
            )
        elif option.kind is tuple:
            expected = Sequence[option.item_type]  # type: ignore[name-defined]
        elif option.kind is Mapping or option.name == "chunk_rows":
            expected = expected | None
        words = METHODS if option.name == "method" else option.option.choices
        if words and option.kind is str:
            assert words_of(job[option.name]) == {*words}, option.name
            assert (NoneType in get_args(job[option.name])) == option.nullable, option.name
        else:
            assert job[option.name] == expected, option.name


def words_of(kind: Any) -> set[str]:
    """The texts of a type of literals, or of several."""
    if get_origin(kind) is Literal:
        return set(get_args(kind))
    return set().union(*(words_of(part) for part in get_args(kind)))


def test_the_types_are_written_anew_where_options_change() -> None:
    """``python -m tests.docs.options`` writes the file."""
    assert option_types.FILE.read_text(encoding="utf-8") == option_types.format_code(
        option_types.text()
    )


def test_the_types_of_classes_are_the_options_of_partition() -> None:
    listed = inspect.signature(dbanon.partition).parameters
    option_names = {
        method_option.name for method in METHODS.values() for method_option in method.options
    }
    named = {"data", "k", "hierarchies", "method", "options"}
    assert set(get_type_hints(ClassOptions)) == {*listed} - named | option_names
    by_rows = {name for name, method in METHODS.items() if method.result_type.has_row_classes}
    assert words_of(RowMethod) == by_rows
    assert words_of(AttributeMethod) == {*METHODS} - by_rows
