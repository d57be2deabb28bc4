"""A hint speaks the language of the door it appears at, from the one table of options."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import dbanon
from dbanon.data.option import Parameter
from dbanon.doors.cli.anonymize import OPTIONS
from dbanon.doors.cli.main import main
from dbanon.doors.jobfile.columns import (
    ROLES,
    QuasiIdentifierColumn,
    SensitiveColumn,
    WeightColumn,
)
from dbanon.doors.jobfile.field_types import spell_in_job_file
from dbanon.doors.jobfile.models import JobSpec
from dbanon.doors.plpython_options import allowed_keys
from dbanon.doors.spelling import (
    SQL_ARGUMENTS,
    spell_classes_option,
    spell_cli_option,
    spell_sql_option,
)
from dbanon.doors.sql_script import functions_script, method_arguments
from dbanon.errors import InvalidParameter, UsageError
from dbanon.methods import METHODS

BY_NAME = {one.name: one for one in OPTIONS}
# What evaluations and advice alone take has one name at each door, without a value.
# What is no option, and each door says in its own way.
OF_EACH_DOOR = ("problems()", "declare_again()", "source", "ledger")
# Of one run of a job, on the command line and in Python.
OF_RUNS = ("accept", "accept_counts", "accept_types", "skip_unchanged")
# A key of job files alone.
OF_JOB_FILES = ("risk",)
# Of the chain of a job.
OF_CHAINS = ("accept_turnover", "kept", "max_exposed", "outputs")
OF_EVALUATIONS = {
    *inspect.signature(dbanon.advise).parameters,
    *inspect.signature(dbanon.disclosure_risk).parameters,
    *inspect.signature(dbanon.evaluate).parameters,
    *inspect.signature(dbanon.evaluate_release).parameters,
}
MARKED = re.compile(r"`([a-z_]+(?:\(\))?)(?:=([^`]+))?`")
# Rooms whose hints appear at one door alone.
OF_ONE_DOOR = (
    "doors/backend_limit.py",
    "doors/cli/",
    "doors/extension.py",
    "doors/install.py",
    "doors/plpython",
    "doors/python_path.py",
    "extensions/chains/commands.py",
    # The figures themselves, whose functions only Python has.
    "extensions/survey/attacker_risk.py",
    "extensions/survey/frequencies.py",
    "extensions/survey/individual_risk.py",
    "extensions/survey/local_suppression.py",
    "extensions/survey/suda.py",
    "extensions/synthesis/",
    "extensions/workbench/program.py",
    "job/synthesis.py",
    "stores/frame/microdata.py",
)


@cache
def hints() -> tuple[tuple[str, str], ...]:
    """Every text of the sources that becomes a hint, and where it stands."""
    return tuple(_read_hints())


def _read_hints() -> Iterator[tuple[str, str]]:
    package = Path(dbanon.__file__).parent
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "hint" in source else ():
            if isinstance(node, ast.keyword) and node.arg == "hint":
                told: ast.AST = node.value
            elif isinstance(node, (ast.Assign, ast.AugAssign)) and "hint" in ast.unparse(
                node.targets[0] if isinstance(node, ast.Assign) else node.target
            ):
                told = node.value
            else:
                continue
            for text in _texts(told):
                yield f"{name}:{node.value.lineno}", text


def _texts(told: ast.AST) -> list[str]:
    """The texts that an expression can be, with {} for values."""
    if isinstance(told, ast.JoinedStr):
        parts = [str(p.value) if isinstance(p, ast.Constant) else "{}" for p in told.values]
        return ["".join(parts)]
    if isinstance(told, ast.BinOp):
        return [left + right for left in _texts(told.left) for right in _texts(told.right)]
    if isinstance(told, ast.IfExp):
        return _texts(told.body) + _texts(told.orelse)
    if isinstance(told, ast.BoolOp):
        return [text for value in told.values for text in _texts(value)]
    if isinstance(told, ast.Constant):
        return [told.value] if isinstance(told.value, str) else []
    return ["{}"]


@pytest.fixture(scope="module")
def of_all_doors() -> list[tuple[str, str]]:
    return [(place, text) for place, text in hints() if text and not place.startswith(OF_ONE_DOOR)]


def test_there_are_hints(of_all_doors: list[tuple[str, str]]) -> None:
    assert len(of_all_doors) > 100
    assert sum("`" in text for _, text in of_all_doors) > 30


def test_a_hint_names_options_for_all_doors(of_all_doors: list[tuple[str, str]]) -> None:
    for place, text in of_all_doors:
        _names_options_for_all_doors(place, text)


def _names_options_for_all_doors(place: str, text: str) -> None:
    for name, value in MARKED.findall(text):
        if name in (*OF_RUNS, *OF_CHAINS, *OF_JOB_FILES):
            continue
        known = name in BY_NAME or name in OF_EACH_DOOR or (name in OF_EVALUATIONS and not value)
        assert known, (place, name)
        if value and "{}" not in value:
            BY_NAME[name].check(json.loads(value))
    plain = MARKED.sub("", text)
    # What dbanon's own administration is told by, all doors take to a shell.
    plain = re.sub(r"dbanon (install|upgrade)( --[a-z-]+)?", "", plain)
    assert not re.search(r"--[a-z]|=>|\w=[\w\[\"']", plain), (place, plain)
    names = r"\b(" + "|".join(name for name in BY_NAME if "_" in name) + r")\b"
    assert not re.search(names, plain), plain


def examples(parameter: Parameter) -> list[Any]:
    if parameter.option.choices:
        return [None, parameter.option.choices[0]]
    values: dict[Any, Any] = {bool: True, tuple: ["…"], int: 7, float: 0.5}
    return [None, values.get(parameter.kind)]


@pytest.mark.parametrize("parameter", OPTIONS, ids=lambda parameter: parameter.name)
def test_every_option_is_written_as_each_door_takes_it(parameter: Parameter) -> None:
    flags = {flag for param in main.commands["anonymize"].params for flag in param.opts}
    allowed_names = set(allowed_keys("mdav", method_arguments(), writes=True))
    for value in examples(parameter):
        error = InvalidParameter(
            hint=f"Use `{parameter.name}{'' if value is None else '=' + json.dumps(value)}`."
        )
        python, line, sql = (
            str(told).removeprefix("Use ").removesuffix(".")
            for told in (
                error.hint,
                error.format_hint(spell_cli_option),
                error.format_hint(spell_sql_option),
            )
        )
        assert python.partition("=")[0] == parameter.name
        assert value is None or eval(python.partition("=")[2]) == value
        assert shlex.split(line)[0] in flags
        if parameter.name in method_arguments():
            assert sql == parameter.name or sql.startswith(f"{parameter.name} => ")
        elif parameter.option.available_in_sql:
            assert parameter.name in allowed_names
            told = re.fullmatch(r"options => '(.*)'", sql)
            assert (
                sql == f'"{parameter.name}" in options'
                if told is None
                else (json.loads(told[1]) == {parameter.name: value})
            )
        else:
            assert "--" not in sql
            assert "=>" not in sql or parameter.name == "method"


def test_the_arguments_of_sql_are_those_of_its_functions() -> None:
    assert {*SQL_ARGUMENTS, "source", "options"} == set(method_arguments())


def test_the_arguments_of_classes_are_those_of_its_function() -> None:
    told = re.findall(
        r"CREATE OR REPLACE FUNCTION dbanon\.classes\((.*?)\)\s+RETURNS", functions_script([]), re.S
    )
    named = {part.split()[0] for part in told[0].split(",")} - {"source", "options"}
    for parameter in OPTIONS:
        as_argument = spell_classes_option(parameter.name, 7 if parameter.name == "k" else "x")
        assert as_argument.startswith(f"{parameter.name} => ") == (parameter.name in named), (
            as_argument
        )
    assert spell_classes_option("nulls", "suppress") == """options => '{"nulls": "suppress"}'"""


@pytest.mark.parametrize(
    ("hint", "python", "line", "sql"),
    [
        ('`key=["…"]`', 'key=["…"]', "--key …", """options => '{"key": ["…"]}'"""),
        ('`nulls="suppress"`', 'nulls="suppress"', "--nulls suppress", "nulls => 'suppress'"),
        ("`orders`", "orders", "--order NAME=A,B,C", '"orders" in options'),
        (
            "`problems()`",
            "the error's problems",
            "dbanon hierarchy check",
            "dbanon.check_hierarchy",
        ),
        ("`k=x`", "`k=x`", "`k=x`", "`k=x`"),
    ],
)
def test_the_ways_of_the_doors(hint: str, python: str, line: str, sql: str) -> None:
    error = UsageError(hint=hint)
    assert (
        error.hint,
        error.format_hint(spell_cli_option),
        error.format_hint(spell_sql_option),
    ) == (
        python,
        line,
        sql,
    )
    assert error.to_dict(spell_sql_option)["hint"] == sql


def test_a_name_that_looks_like_an_option_harms_nothing() -> None:
    error = UsageError(hint="Did you mean `k=[` or `nobody`?")
    assert error.format_hint(spell_cli_option) == "Did you mean `k=[` or nobody?"


def test_methods_are_functions_in_sql() -> None:
    assert spell_sql_option("method", "mdav") == "dbanon.mdav"
    assert "mdav" in METHODS


@pytest.mark.parametrize("parameter", OPTIONS, ids=lambda parameter: parameter.name)
def test_of_a_job_file_a_hint_names_its_keys(parameter: Parameter) -> None:
    allowed_names = {
        *JobSpec.model_fields,
        *QuasiIdentifierColumn.model_fields,
        *SensitiveColumn.model_fields,
        *WeightColumn.model_fields,
        "table",
    }
    for value in examples(parameter):
        error = InvalidParameter(
            hint=f"Use `{parameter.name}{'' if value is None else '=' + json.dumps(value)}`."
        )
        error.fixed_notation = spell_in_job_file
        # Whoever prints it: a job's options have one name each.
        told = {
            str(error.hint),
            str(error.format_hint(spell_cli_option)),
            str(error.to_dict()["hint"]),
        }
        [text] = told
        said = text.removeprefix("Use ").removesuffix(".")
        assert "--" not in said
        assert "=" not in said
        key = re.match(r"[a-z_]+", said)
        assert key is not None
        if key[0] == "role":
            assert said.removeprefix("role: ") in ROLES
        else:
            assert key[0] in allowed_names, said


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        ('`nulls="suppress"`', "nulls: suppress"),
        ('`key=["…"]`', 'key: ["…"]'),
        ('`if_exists="replace"`', "output: {if_exists: replace}"),
        ("`quasi_identifiers`", "role: quasi_identifier"),
        ("`orders`", "order"),
        ("`exports`", "export"),
        ("`withhold_failing=true`", "withhold_failing: true"),
        ("`problems()`", "dbanon hierarchy check"),
    ],
)
def test_the_words_of_a_job_file(hint: str, told: str) -> None:
    assert UsageError(hint=hint).format_hint(spell_in_job_file) == told
