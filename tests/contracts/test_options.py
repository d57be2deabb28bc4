"""One table of options, and every door takes from it: type, default, refusal, words."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, get_args, get_origin

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.data.option import (
    REQUIRED,
    Option,
    Parameter,
    all_parameters,
    make,
    parameter,
    parameters,
)
from dbanon.doors import frame as frames
from dbanon.doors.cli.anonymize import OPTIONS, with_options
from dbanon.doors.cli.main import main
from dbanon.doors.cli.options import flag, values
from dbanon.doors.plpython_options import describe_option, keys, parse
from dbanon.doors.signature import list_options
from dbanon.doors.sql_script import arguments, manual
from dbanon.errors import InvalidParameter, UnknownOption
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.measures import Model
from dbanon.methods import METHODS
from tests.docs import options as pages

JOB: dict[str, Any] = {
    "table": "people",
    "output": "release.people",
    "quasi_identifiers": ["age"],
    "k": 3,
}
FRAME = pd.DataFrame({"age": range(12)})
NOWHERE = "duckdb:////nowhere/at/all.duckdb"
each_option = pytest.mark.parametrize("one", OPTIONS, ids=lambda one: one.name)


def sql_call(**more: Any) -> dict[str, Any]:
    """A call of a method's function, as the function hands it on."""
    signature = {
        "entity": None,
        "keep": [],
        "sensitive": [],
        "hierarchies": {},
        "max_suppression": 0,
        "nulls": "error",
        "if_exists": "error",
        "options": {},
    }
    call = {"method": "mdav", "source": 1, **JOB, **signature}
    del call["table"]
    assert set(call) == {*arguments(), "method"}
    options = {name: value for name, value in more.items() if name not in call}
    return call | {name: more[name] for name in more if name in call} | {"options": options}


def wrong(one: Parameter) -> Iterator[Any]:
    """Values that the option must refuse, with one message."""
    low, high = one.option.minimum, one.option.maximum
    if one.kind is tuple:
        yield from ("age", {"age": 1}, 7, [1])
    elif one.kind is Mapping:
        yield from (["age"], 7, "age")
        if one.item is float:
            yield from ({"age": bad} for bad in ("1", True, None, np.nan, -1.0))
        elif get_origin(one.item) is Sequence:
            yield from ({"age": bad} for bad in ("low", [1], 7))
    elif one.kind in (int, float):
        yield from ("1", True, [1], np.inf, np.nan, 10**400)
        yield from ([1.5] if one.kind is int else [])
        yield from ([low - 1] if low is not None else [])
        yield from ([low] if one.option.above else [])
        yield from ([high + 0.5] if high is not None else [])
    elif one.kind is bool:
        yield from ("true", 1, [])
    else:
        yield from (7, True, ["x"])
        yield from (["no such word"] if one.option.choices else [])
    if not one.nullable and one.kind is not Mapping:
        yield None


@each_option
def test_a_wrong_value_is_refused_in_the_same_words_at_all_doors(one: Parameter) -> None:
    said = f"{one.name} must be {one.expected}."
    tried = 0
    for value in wrong(one):
        calls = [
            lambda value=value: make(Job, {**JOB, one.name: value}),
            lambda value=value: dbanon.anonymize(NOWHERE, **{**JOB, one.name: value}),
            lambda value=value: dbanon.plan(NOWHERE, **{**JOB, one.name: value}),
        ]
        if one.name in inspect.signature(frames.anonymize_frame).parameters:
            calls.append(
                lambda value=value: frames.anonymize_frame(
                    FRAME, **{"quasi_identifiers": ["age"], "k": 3, one.name: value}
                )
            )
        if one in parameters(Policy) and not one.option.release and one.name != "options":
            calls.append(lambda value=value: dbanon.partition(FRAME, **{"k": 3, one.name: value}))
        of_rules = value is None and one.name == "quasi_identifiers"
        if one.option.sql and one.item is not Model and not of_rules:
            calls.append(lambda value=value: parse(sql_call(**{one.name: value}), writes=True))
        if one.name == "hierarchies":
            # What is in them, the door looks at that may read files, or may not.
            calls = calls[1:]
        for call in calls:
            if value is None and one.name == "chunk_rows" and call in calls[1:3]:
                continue
            with pytest.raises(InvalidParameter) as refused:
                call()
            if one.name in ("quasi_identifiers", "sensitive", "keep", "by") and value == [1]:
                assert "no text" in refused.value.message or refused.value.message == said
            else:
                assert refused.value.message == said, value
            tried += 1
    assert tried >= 6


@each_option
def test_a_wrong_text_on_the_command_line_ends_with_code_2(one: Parameter) -> None:
    given = {"table": "people", "output": "release.people", "quasi_identifiers": "age", "k": "3"}
    line = [
        part
        for name, text in given.items()
        if name != one.name
        for part in (flag(parameter_of(name)), text)
    ]
    low = one.option.minimum
    if one.kind in (int, float):
        texts = ["one", *([str(int(low) - 1)] if low is not None else [])]
    elif one.option.choices:
        texts = ["no such word"]
    elif one.kind is Mapping or one.item is Model:
        texts = ["age", "=1"]
    else:
        return
    for text in texts:
        done = CliRunner().invoke(main, ["anonymize", NOWHERE, *line, flag(one), text])
        assert done.exit_code == 2, done.output
        assert flag(one) in done.stderr or one.name in done.stderr or "Write" in done.stderr


def parameter_of(name: str) -> Parameter:
    [found] = [one for one in OPTIONS if one.name == name]
    return found


@pytest.mark.parametrize("door", ["anonymize", "plan"])
@each_option
def test_the_default_is_the_same_at_all_doors(one: Parameter, door: str) -> None:
    listed = inspect.signature(getattr(dbanon, door)).parameters[one.name]
    [option] = [found for found in main.commands[door].params if found.name == one.name]
    if (one.name, door) == ("k", "anonymize"):
        # Asked for once the method is known: dp_ranks has none.
        assert listed.default is None
        assert not option.required
        return
    if one.name == "quasi_identifiers":
        # Rules of the table may say them; a call that has neither is refused.
        assert listed.default == ()
        return
    if one.default is REQUIRED:
        assert listed.default is inspect.Parameter.empty
        assert option.required or one.kind is tuple
        return
    empty = one.default in ((), {})
    assert listed.default == (None if one.default == {} else one.default)
    default = option.to_info_dict()["default"]
    assert not default if empty or one.default in (None, False) else default == one.default
    made = make(Job, JOB)
    at_rest = next(
        getattr(part, one.name)
        for part in (made.policy, made.reading, made.pseudonymized, made)
        if one.name in {field.name for field in fields(part)}
    )
    # The method says what its own recoding is, and how its columns are made comparable.
    assert at_rest == one.default or one.name in ("recoding", "standardize")


@pytest.mark.parametrize("door", ["anonymize", "plan"])
@each_option
def test_the_type_is_the_same_at_all_doors(one: Parameter, door: str) -> None:
    [option] = [found for found in main.commands[door].params if found.name == one.name]
    assert isinstance(option, click.Option)
    assert option.opts == [flag(one)]
    assert option.is_flag == (one.kind is bool)
    assert option.multiple == (bool(one.option.flag) and one.kind in (tuple, Mapping))
    if one.option.choices and one.kind is not Mapping:
        assert isinstance(option.type, click.Choice)
        assert tuple(option.type.choices) == one.option.choices
    elif one.kind in (int, float) and not one.option.unit:
        assert option.type is {int: click.INT, float: click.FLOAT}[one.kind]
    assert one.option.help.endswith(".")
    assert "`" not in (option.help or "")


def test_fields_without_a_description_are_no_options() -> None:
    described = {one.name for one in OPTIONS}
    assert {field.name for field in fields(Policy)} - described == set()
    assert {field.name for field in fields(Job)} - described == {
        "policy",
        "reading",
        "pseudonymized",
        "door",
        "run_id",
        "roles",
        "on_new_column",
        "name",
        "accept_counts",
        "accept_types",
        "expect",
        "fingerprint_key",
        "declared",
    }
    assert "hierarchies" not in {one.name for one in parameters(Policy)}


def test_every_key_of_a_call_is_an_argument_or_a_key() -> None:
    known = {one.name for one in OPTIONS if one.option.sql}
    assert known <= set(arguments()) | set(keys("mdav", arguments(), writes=True))
    reading = keys("mdav", ["source", "method", "quasi_identifiers", "k", "options"], writes=False)
    assert {one.name for one in OPTIONS if one.option.sql and not one.option.release} == {
        *(set(reading) - {"progress"}),
        *("quasi_identifiers", "k"),
    }
    with pytest.raises(UnknownOption):
        parse(sql_call(sede=1), writes=True)


@pytest.mark.parametrize("name", ["max_suppression", "nulls", "k", "seed", "weights"])
def test_null_in_sql_is_a_wish_only_where_it_is_the_default(name: str) -> None:
    with pytest.raises(InvalidParameter, match=f"{name} must be "):
        parse(sql_call(**{name: None}), writes=True)
    assert parse(sql_call(entity=None, refine=None), writes=True)["refine"] is None


def test_the_own_parameters_of_methods_are_told_alike() -> None:
    own = [(method, one) for method in METHODS.values() for one in method.options]
    assert len(own) > 10
    policy_names = {one.name for one in OPTIONS}
    for method, one in own:
        # dbanon.partition takes both by name.
        assert one.name not in policy_names
        assert one.check(one.default) == one.default
        assert f"  {one.name}: {describe_option(one)}" in manual(method)
        for value in wrong(one):
            with pytest.raises(InvalidParameter) as refused:
                Policy(k=3, method=method.name, options={one.name: value})
            assert one.expected in refused.value.message
            assert refused.value.hint == one.help


def test_values_are_kept_in_plain_types() -> None:
    given = {
        "k": np.int64(3),
        "seed": 4.0,
        "weights": {"age": np.float64(2)},
        "by": ["sex"],
        "orders": {"age": ["a", "b"]},
        "max_suppression": None,
        "steps": None,
    }
    made = make(Job, {**JOB, **given})
    assert (made.policy.k, made.policy.seed, made.by) == (3, 4, ("sex",))
    assert [type(made.policy.k), type(made.policy.seed)] == [int, int]
    assert made.policy.orders == {"age": ("a", "b")}
    assert made.policy.max_suppression is None
    json.dumps(made.policy.arguments())
    with pytest.raises(TypeError):
        made.policy.weights["age"] = 3.0  # type: ignore[index]


def test_an_unknown_name_is_an_error_of_the_call() -> None:
    with pytest.raises(TypeError, match="recoding"):
        dbanon.anonymize(NOWHERE, **JOB, recodign="mean")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        frames.anonymize_frame(FRAME, quasi_identifiers=["age"], k=3, chunk_rows=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("page", ["cli.md", "sql.md"])
def test_the_rows_in_docs_are_those_of_the_fields(page: str) -> None:
    """``python -m tests.docs.options`` writes them."""
    rows = pages.pages()[page]
    assert pages.filled(page, rows) == (pages.DOCS / page).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "one", [one for one in OPTIONS if one.option.see], ids=lambda one: one.name
)
def test_more_is_told_where_an_option_says_so(one: Parameter) -> None:
    page, _, anchor = one.option.see.partition("#")
    text = (pages.DOCS / page).read_text(encoding="utf-8")
    headings = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]
    assert not anchor or anchor in [heading.lower().replace(" ", "-") for heading in headings]


# One line makes an option. What follows has no other word of it.
@dataclass(frozen=True)
class _FuzzyPolicy(Policy):
    fuzz: Annotated[int | None, Option("Much fuzz, drawn by `seed`.", minimum=3)] = None


@dataclass(frozen=True, kw_only=True)
class _FuzzyJob(Job):
    policy: _FuzzyPolicy


_FUZZY = all_parameters(_FuzzyJob)


def test_a_new_field_is_a_flag() -> None:
    read: list[dict[str, Any]] = []

    @click.command()
    @with_options(_FUZZY)
    def command(**given: Any) -> None:
        read.append(values(_FUZZY, given))

    line = ["--table", "people", "--output", "o.people", "--k", "3", "--fuzz", "5"]
    done = CliRunner().invoke(command, line)
    assert done.exit_code == 0, done.output
    job = make(_FuzzyJob, read[0] | {"quasi_identifiers": ["age"]})
    assert job.policy.fuzz == 5
    assert "Much fuzz, drawn by --seed." in CliRunner().invoke(command, ["--help"]).output
    assert CliRunner().invoke(command, [*line[:-1], "much"]).exit_code == 2


def test_a_new_field_is_a_key_in_sql() -> None:
    assert "fuzz" in keys("mdav", arguments(), writes=True, job=_FuzzyJob)
    assert "  fuzz: a whole number, 3 or more. Much fuzz, drawn by seed." in manual(
        METHODS["mdav"], _FuzzyJob
    )
    assert parse(sql_call(fuzz=5), writes=True, job=_FuzzyJob)["fuzz"] == 5
    with pytest.raises(InvalidParameter, match="fuzz must be a whole number, 3 or more"):
        parse(sql_call(fuzz=2), writes=True, job=_FuzzyJob)
    with pytest.raises(UnknownOption):
        parse(sql_call(fuzz=5), writes=True)


def test_a_new_field_is_listed_checked_and_recorded() -> None:
    @list_options(_FUZZY)
    def call(**options: Any) -> None: ...

    listed = inspect.signature(call).parameters["fuzz"]
    assert (listed.default, get_args(listed.annotation)) == (None, (int, type(None)))
    policy = _FuzzyPolicy(k=3, fuzz=5)
    assert policy.arguments() == Policy(k=3).arguments() | {"fuzz": 5}
    with pytest.raises(InvalidParameter, match="fuzz must be a whole number, 3 or more"):
        _FuzzyPolicy(k=3, fuzz=2)
    assert parameter(_FuzzyPolicy, "fuzz").help == "Much fuzz, drawn by seed."


def test_a_new_field_is_a_row_in_docs() -> None:
    assert "| `--fuzz` | Much fuzz, drawn by `--seed`. |" in pages.command_rows(_FUZZY)
    rows = pages.key_rows(keys("mdav", arguments(), writes=True, job=_FuzzyJob))
    assert "| `fuzz` | a whole number, 3 or more | Much fuzz, drawn by `seed`. |" in rows
