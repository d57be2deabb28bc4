"""Everything that the golden test imports from dbanon: public names, and the command."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import click
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli import main as command_line

METHODS = tuple(dbanon.METHODS)
COMMAND = command_line.main

Answer = dict[str, Any]


RECODINGS = next(
    tuple(parameter.type.choices)
    for parameter in COMMAND.commands["anonymize"].params
    if parameter.name == "recoding" and isinstance(parameter.type, click.Choice)
)


def command(*arguments: str) -> Answer:
    """The result of the command: exit code and output."""
    done = CliRunner().invoke(COMMAND, list(arguments), env={"COLUMNS": "200"})
    return {"exit": done.exit_code, "stdout": done.stdout, "stderr": done.stderr}


def answer_of(work: Callable[[], Answer]) -> Answer:
    """The result, or the refusal as plain values, with the warnings."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            answer = work()
        except dbanon.DbanonError as error:
            answer = {f"refused.{name}": value for name, value in error.to_dict().items()}
            answer["refused.class"] = type(error).__name__
            answer["refused.exit"] = error.exit_code
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            answer = {"failed": f"{type(error).__name__}: {error}"}
    messages = sorted(
        f"{warning.category.__name__}: {warning.message}"
        for warning in heard
        # Resource and deprecation warnings come from other packages, at any time.
        if not issubclass(warning.category, (ResourceWarning, DeprecationWarning))
    )
    return answer | ({"warnings": messages} if messages else {})


def with_models(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with models as Python objects."""
    converted = dict(arguments)
    if "models" in converted:
        converted["models"] = [dbanon.Model(**model) for model in converted["models"]]
    return converted
