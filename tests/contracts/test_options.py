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
    build_options,
    find_parameter,
    parameters,
)
from dbanon.doors import frame as frames
from dbanon.doors.cli.anonymize import OPTIONS, with_options
from dbanon.doors.cli.main import main
from dbanon.doors.cli.options import parse_option_values
from dbanon.doors.plpython_options import allowed_keys, describe_option, parse_call_options
from dbanon.doors.signature import list_options
from dbanon.doors.spelling import flag
from dbanon.doors.sql_script import method_arguments, method_manual
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
each_option = pytest.mark.parametrize("parameter", OPTIONS, ids=lambda parameter: parameter.name)


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
    assert set(call) == {*method_arguments(), "method"}
    options = {name: value for name, value in more.items() if name not in call}
    return call | {name: more[name] for name in more if name in call} | {"options": options}


def wrong(parameter: Parameter) -> Iterator[Any]:
    """Values that the option must refuse, with one message."""
    low, high = parameter.option.minimum, parameter.option.maximum
    if parameter.kind is tuple:
        yield from ("age", {"age": 1}, 7, [1])
    elif parameter.kind is Mapping:
        yield from (["age"], 7, "age")
        if parameter.item_type is float or parameter.name in ("top", "bottom"):
            yield from ({"age": bad} for bad in ("1", True, None, np.nan))
            yield from ([{"age": low - 1}] if low is not None else [])
        elif parameter.name == "recode":
            yield from ({"age": bad} for bad in ("low", ["1"], [None], [np.inf], 7))
        elif get_origin(parameter.item_type) is Sequence:
            yield from ({"age": bad} for bad in ("low", [1], 7))
    elif parameter.kind in (int, float):
        yield from ("1", True, [1], np.inf, np.nan, 10**400)
        yield from ([1.5] if parameter.kind is int else [])
        yield from ([low - 1] if low is not None else [])
        yield from ([low] if parameter.option.excludes_minimum else [])
        yield from ([high + 0.5] if high is not None else [])
    elif parameter.kind is bool:
        yield from ("true", 1, [])
    else:
        yield from (7, True, ["x"])
        yield from (["no such word"] if parameter.option.choices else [])
    if not parameter.nullable and parameter.kind is not Mapping:
        yield None


@each_option
def test_a_wrong_value_is_refused_in_the_same_words_at_all_doors(parameter: Parameter) -> None:
    message = f"{parameter.name} must be {parameter.expected}."
    tried = 0
    for value in wrong(parameter):
        calls = [
            lambda value=value: build_options(Job, {**JOB, parameter.name: value}),
            lambda value=value: dbanon.anonymize(NOWHERE, **{**JOB, parameter.name: value}),
            lambda value=value: dbanon.plan(NOWHERE, **{**JOB, parameter.name: value}),
        ]
        if parameter.name in inspect.signature(frames.anonymize_frame).parameters:
            calls.append(
                lambda value=value: frames.anonymize_frame(
                    FRAME, **{"quasi_identifiers": ["age"], "k": 3, parameter.name: value}
                )
            )
        if (
            parameter in parameters(Policy)
            and not parameter.option.concerns_release
            and parameter.name != "options"
        ):
            calls.append(
                lambda value=value: dbanon.partition(FRAME, **{"k": 3, parameter.name: value})
            )
        of_rules = value is None and parameter.name == "quasi_identifiers"
        if parameter.option.available_in_sql and parameter.item_type is not Model and not of_rules:
            calls.append(
                lambda value=value: parse_call_options(
                    sql_call(**{parameter.name: value}), writes=True
                )
            )
        if parameter.name == "hierarchies":
            # Their items; only doors that may read files check them.
            calls = calls[1:]
        for call in calls:
            if value is None and parameter.name == "chunk_rows" and call in calls[1:3]:
                continue
            with pytest.raises(InvalidParameter) as refused:
                call()
            if parameter.name in ("quasi_identifiers", "sensitive", "keep", "by") and value == [1]:
                assert "not text" in refused.value.message or refused.value.message == message
            else:
                assert refused.value.message == message, value
            tried += 1
    assert tried >= 6


@each_option
def test_a_wrong_text_on_the_command_line_ends_with_code_2(parameter: Parameter) -> None:
    values_by_name = {
        "table": "people",
        "output": "release.people",
        "quasi_identifiers": "age",
        "k": "3",
    }
    line = [
        part
        for name, text in values_by_name.items()
        if name != parameter.name
        for part in (flag(parameter_of(name)), text)
    ]
    low = parameter.option.minimum
    if parameter.kind in (int, float):
        texts = ["one", *([str(int(low) - 1)] if low is not None else [])]
    elif parameter.option.choices:
        texts = ["no such word"]
    elif parameter.kind is Mapping or parameter.item_type is Model:
        texts = ["age", "=1"]
    else:
        return
    for text in texts:
        done = CliRunner().invoke(main, ["anonymize", NOWHERE, *line, flag(parameter), text])
        assert done.exit_code == 2, done.output
        assert (
            flag(parameter) in done.stderr
            or parameter.name in done.stderr
            or "Write" in done.stderr
        )


def parameter_of(name: str) -> Parameter:
    [matching] = [parameter for parameter in OPTIONS if parameter.name == name]
    return matching


@pytest.mark.parametrize("door", ["anonymize", "plan"])
@each_option
def test_the_default_is_the_same_at_all_doors(parameter: Parameter, door: str) -> None:
    listed = inspect.signature(getattr(dbanon, door)).parameters[parameter.name]
    [option] = [
        click_option
        for click_option in main.commands[door].params
        if click_option.name == parameter.name
    ]
    if (parameter.name, door) == ("k", "anonymize"):
        # Asked for once the method is known: dp_ranks has none.
        assert listed.default is None
        assert not option.required
        return
    if parameter.name == "quasi_identifiers":
        # Rules of the table may say them; a call that has neither is refused.
        assert listed.default == ()
        return
    if parameter.default is REQUIRED:
        assert listed.default is inspect.Parameter.empty
        assert option.required or parameter.kind is tuple
        return
    empty = parameter.default in ((), {})
    assert listed.default == (None if parameter.default == {} else parameter.default)
    default = option.to_info_dict()["default"]
    assert (
        not default if empty or parameter.default in (None, False) else default == parameter.default
    )
    job = build_options(Job, JOB)
    at_rest = next(
        getattr(part, parameter.name)
        for part in (job.policy, job.reading, job.pseudonym_options, job)
        if parameter.name in {field.name for field in fields(part)}
    )
    # The method says what its own recoding is, and how its columns are made comparable.
    assert at_rest == parameter.default or parameter.name in ("recoding", "standardize")


@pytest.mark.parametrize("door", ["anonymize", "plan"])
@each_option
def test_the_type_is_the_same_at_all_doors(parameter: Parameter, door: str) -> None:
    [option] = [
        click_option
        for click_option in main.commands[door].params
        if click_option.name == parameter.name
    ]
    assert isinstance(option, click.Option)
    assert option.opts == [flag(parameter)]
    assert option.is_flag == (parameter.kind is bool)
    assert option.multiple == (bool(parameter.option.flag) and parameter.kind in (tuple, Mapping))
    if parameter.option.choices and parameter.kind is not Mapping:
        assert isinstance(option.type, click.Choice)
        assert tuple(option.type.choices) == parameter.option.choices
    elif parameter.kind in (int, float) and not parameter.option.unit:
        assert option.type is {int: click.INT, float: click.FLOAT}[parameter.kind]
    assert parameter.option.help.endswith(".")
    assert "`" not in (option.help or "")


def test_fields_without_a_description_are_no_options() -> None:
    described = {parameter.name for parameter in OPTIONS}
    assert {field.name for field in fields(Policy)} - described == set()
    assert {field.name for field in fields(Job)} - described == {
        "policy",
        "reading",
        "pseudonym_options",
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
        "risk",
    }
    assert "hierarchies" not in {parameter.name for parameter in parameters(Policy)}


def test_every_key_of_a_call_is_an_argument_or_a_key() -> None:
    sql_names = {parameter.name for parameter in OPTIONS if parameter.option.available_in_sql}
    assert sql_names <= set(method_arguments()) | set(
        allowed_keys("mdav", method_arguments(), writes=True)
    )
    reading = allowed_keys(
        "mdav", ["source", "method", "quasi_identifiers", "k", "options"], writes=False
    )
    assert {
        parameter.name
        for parameter in OPTIONS
        if parameter.option.available_in_sql and not parameter.option.concerns_release
    } == {
        *(set(reading) - {"progress"}),
        *("quasi_identifiers", "k"),
    }
    with pytest.raises(UnknownOption):
        parse_call_options(sql_call(sede=1), writes=True)


@pytest.mark.parametrize("name", ["max_suppression", "nulls", "k", "seed", "weights"])
def test_null_in_sql_is_a_wish_only_where_it_is_the_default(name: str) -> None:
    with pytest.raises(InvalidParameter, match=f"{name} must be "):
        parse_call_options(sql_call(**{name: None}), writes=True)
    assert parse_call_options(sql_call(entity=None, refine=None), writes=True)["refine"] is None


def test_the_parameters_of_methods_are_documented_in_the_same_way() -> None:
    method_options = [
        (method, method_option) for method in METHODS.values() for method_option in method.options
    ]
    assert len(method_options) > 10
    policy_names = {parameter.name for parameter in OPTIONS}
    for method, method_option in method_options:
        # dbanon.partition takes both by name.
        assert method_option.name not in policy_names
        assert method_option.check(method_option.default) == method_option.default
        assert f"  {method_option.name}: {describe_option(method_option)}" in method_manual(method)
        for value in wrong(method_option):
            with pytest.raises(InvalidParameter) as refused:
                Policy(k=3, method=method.name, options={method_option.name: value})
            assert method_option.expected in refused.value.message
            assert refused.value.hint == method_option.help


def test_values_are_kept_in_plain_types() -> None:
    options = {
        "k": np.int64(3),
        "seed": 4.0,
        "weights": {"age": np.float64(2)},
        "by": ["sex"],
        "orders": {"age": ["a", "b"]},
        "max_suppression": None,
        "steps": None,
    }
    job = build_options(Job, {**JOB, **options})
    assert (job.policy.k, job.policy.seed, job.by) == (3, 4, ("sex",))
    assert [type(job.policy.k), type(job.policy.seed)] == [int, int]
    assert job.policy.orders == {"age": ("a", "b")}
    assert job.policy.max_suppression is None
    json.dumps(job.policy.arguments())
    with pytest.raises(TypeError):
        job.policy.weights["age"] = 3.0  # type: ignore[index]


def test_an_unknown_name_is_an_error_of_the_call() -> None:
    with pytest.raises(TypeError, match="recoding"):
        dbanon.anonymize(NOWHERE, **JOB, recodign="mean")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        frames.anonymize_frame(FRAME, quasi_identifiers=["age"], k=3, chunk_rows=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("page", ["cli.md", "sql.md"])
def test_the_rows_in_docs_are_those_of_the_fields(page: str) -> None:
    """``python -m tests.docs.options`` writes them."""
    rows = pages.pages()[page]
    assert pages.fill_page(page, rows) == (pages.DOCS / page).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "parameter",
    [parameter for parameter in OPTIONS if parameter.option.docs_page],
    ids=lambda parameter: parameter.name,
)
def test_the_page_named_by_an_option_exists(parameter: Parameter) -> None:
    page, _, anchor = parameter.option.docs_page.partition("#")
    text = (pages.DOCS / page).read_text(encoding="utf-8")
    headings = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]
    assert not anchor or anchor in [heading.lower().replace(" ", "-") for heading in headings]


# A single line defines an option. Nothing below mentions it otherwise.
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
    def command(**options: Any) -> None:
        read.append(parse_option_values(_FUZZY, options))

    line = ["--table", "people", "--output", "o.people", "--k", "3", "--fuzz", "5"]
    done = CliRunner().invoke(command, line)
    assert done.exit_code == 0, done.output
    job = build_options(_FuzzyJob, read[0] | {"quasi_identifiers": ["age"]})
    assert job.policy.fuzz == 5
    assert "Much fuzz, drawn by --seed." in CliRunner().invoke(command, ["--help"]).output
    assert CliRunner().invoke(command, [*line[:-1], "much"]).exit_code == 2


def test_a_new_field_is_a_key_in_sql() -> None:
    assert "fuzz" in allowed_keys("mdav", method_arguments(), writes=True, job=_FuzzyJob)
    assert "  fuzz: a whole number, 3 or more. Much fuzz, drawn by seed." in method_manual(
        METHODS["mdav"], _FuzzyJob
    )
    assert parse_call_options(sql_call(fuzz=5), writes=True, job=_FuzzyJob)["fuzz"] == 5
    with pytest.raises(InvalidParameter, match="fuzz must be a whole number, 3 or more"):
        parse_call_options(sql_call(fuzz=2), writes=True, job=_FuzzyJob)
    with pytest.raises(UnknownOption):
        parse_call_options(sql_call(fuzz=5), writes=True)


def test_a_new_field_is_listed_checked_and_recorded() -> None:
    @list_options(_FUZZY)
    def call(**options: Any) -> None: ...

    listed = inspect.signature(call).parameters["fuzz"]
    assert (listed.default, get_args(listed.annotation)) == (None, (int, type(None)))
    policy = _FuzzyPolicy(k=3, fuzz=5)
    assert policy.arguments() == Policy(k=3).arguments() | {"fuzz": 5}
    with pytest.raises(InvalidParameter, match="fuzz must be a whole number, 3 or more"):
        _FuzzyPolicy(k=3, fuzz=2)
    assert find_parameter(_FuzzyPolicy, "fuzz").help == "Much fuzz, drawn by seed."


def test_a_new_field_is_a_row_in_docs() -> None:
    assert "| `--fuzz` | Much fuzz, drawn by `--seed`. |" in pages.command_rows(_FUZZY)
    rows = pages.key_rows(allowed_keys("mdav", method_arguments(), writes=True, job=_FuzzyJob))
    assert "| `fuzz` | a whole number, 3 or more | Much fuzz, drawn by `seed`. |" in rows
