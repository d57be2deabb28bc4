"""Generates the options in ``docs/`` and for type checkers: ``python -m tests.docs.options``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from dbanon.data.option import Parameter, all_parameters, parameters
from dbanon.doors.plpython_options import allowed_keys
from dbanon.doors.spelling import flag
from dbanon.doors.sql_script import method_arguments
from dbanon.job.chain import Chain
from dbanon.job.job import Job
from dbanon.job.private import private_method_options
from tests.docs import option_types

DOCS = Path(__file__).resolve().parents[2] / "docs"
_TABLE = re.compile(r"(<!-- options -->\n).*?(<!-- end of options -->)", re.S)


def command_rows(shown_parameters: Iterable[Parameter]) -> list[str]:
    """The rows of ``docs/cli.md``."""
    shown_parameters = tuple(shown_parameters)
    flags = {parameter.name: f"`{flag(parameter)}`" for parameter in shown_parameters}
    rows = ["| option | meaning |", "| --- | --- |"]
    for parameter in shown_parameters:
        form = (
            parameter.option.form
            if "=" in parameter.option.form or parameter.option.form == "NAME"
            else ""
        )
        # In a table, a bar would begin the next cell.
        form = (form or ("A,B" if parameter.kind is tuple else "")).replace("|", r"\|")
        help_text = parameter.format_help(lambda name: flags.get(name, name))
        rows.append(f"| `{f'{flag(parameter)} {form}'.strip()}` | {help_text}{_more(parameter)} |")
    return rows


def key_rows(keys: Mapping[str, Parameter]) -> list[str]:
    """The rows of ``docs/sql.md``."""
    rows = ["| key | value | meaning |", "| --- | --- | --- |"]
    for name, parameter in keys.items():
        help_text = parameter.format_help(lambda other: f"`{other}`")
        rows.append(
            f"| `{name}` | {parameter.expected} | {help_text}{_more(parameter, choices=False)} |"
        )
    return rows


def _more(parameter: Parameter, *, choices: bool = True) -> str:
    more = ""
    if choices and parameter.option.choices:
        more += " One of " + ", ".join(f"`{choice}`" for choice in parameter.option.choices) + "."
    if parameter.default_text and parameter.kind is not bool:
        more += f" Default: `{parameter.default_text}`."
    return more + (f" [More]({parameter.option.docs_page})." if parameter.option.docs_page else "")


def of_command() -> list[Parameter]:
    """The options of ``anonymize``; those of a chain follow its name."""
    options: list[Parameter] = []
    for parameter in all_parameters(Job):
        options += [parameter, *parameters(Chain)[1:]] if parameter.kind is Chain else [parameter]
    return [*options, *private_method_options()]


def pages() -> dict[str, list[str]]:
    """The rows by page."""
    return {
        "cli.md": command_rows(of_command()),
        "sql.md": key_rows(allowed_keys("mdav", method_arguments(), writes=True)),
    }


def fill_page(page: str, rows: list[str]) -> str:
    """The page with these rows."""
    text, tables = _TABLE.subn(
        lambda match: match[1] + "\n".join(rows) + "\n" + match[2],
        (DOCS / page).read_text(encoding="utf-8"),
    )
    assert tables == 1, f"{page} has {tables} tables of options"
    return text


if __name__ == "__main__":
    for page, rows in pages().items():
        (DOCS / page).write_text(fill_page(page, rows), encoding="utf-8")
    option_types.write()
