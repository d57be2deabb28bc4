"""Types of options, for editors and type checkers: those of the fields, written by a generator."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import dbanon
from dbanon.data.option import parameters
from dbanon.doors.cli.anonymize import OPTIONS
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
    """What mypy checks, and what is checked when it runs."""
    job, policy = get_type_hints(JobOptions), get_type_hints(PolicyOptions)
    assert set(policy) == {one.name for one in parameters(Policy)} - {"k"}
    named = {
        name
        for name, one in inspect.signature(dbanon.anonymize).parameters.items()
        if isinstance(one.annotation, str)
    }
    assert set(job) == {one.name for one in OPTIONS} - named
    for one in OPTIONS:
        if one.name not in job:
            continue
        wanted = one.type
        if one.item is Model:
            wanted = Sequence[Model | Mapping[str, Any]]
        elif one.item is ColumnSet:
            wanted = Sequence[ColumnSet | Mapping[str, Any] | Sequence[str]]
        elif one.item is Export:
            wanted = Sequence[Export | str | Mapping[str, Any]]
        elif one.kind is tuple:
            wanted = Sequence[one.item]  # type: ignore[name-defined]
        elif one.kind is Mapping or one.name == "chunk_rows":
            wanted = wanted | None
        words = METHODS if one.name == "method" else one.option.choices
        if words and one.kind is str:
            assert words_of(job[one.name]) == {*words}, one.name
            assert (NoneType in get_args(job[one.name])) == one.nullable, one.name
        else:
            assert job[one.name] == wanted, one.name


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
    own = {one.name for method in METHODS.values() for one in method.options}
    named = {"data", "k", "hierarchies", "method", "options"}
    assert set(get_type_hints(ClassOptions)) == {*listed} - named | own
    by_rows = {name for name, method in METHODS.items() if method.gives.of_rows}
    assert words_of(RowMethod) == by_rows
    assert words_of(AttributeMethod) == {*METHODS} - by_rows
