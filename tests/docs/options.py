"""Options in ``docs/`` and for type checkers: ``python -m tests.docs.options`` writes them anew."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from dbanon.data.option import Parameter, all_parameters, parameters
from dbanon.doors.cli.options import flag
from dbanon.doors.plpython_options import keys
from dbanon.doors.sql_script import arguments
from dbanon.job.chain import Chain
from dbanon.job.job import Job
from dbanon.job.private import own_options
from tests.docs import option_types

DOCS = Path(__file__).resolve().parents[2] / "docs"
_TABLE = re.compile(r"(<!-- options -->\n).*?(<!-- end of options -->)", re.S)


def command_rows(known: Iterable[Parameter]) -> list[str]:
    """The rows of ``docs/cli.md``."""
    known = tuple(known)
    flags = {one.name: f"`{flag(one)}`" for one in known}
    rows = ["| option | meaning |", "| --- | --- |"]
    for one in known:
        form = one.option.form if "=" in one.option.form or one.option.form == "NAME" else ""
        form = form or ("A,B" if one.kind is tuple else "")
        told = one.help_with(lambda name: flags.get(name, name))
        rows.append(f"| `{f'{flag(one)} {form}'.strip()}` | {told}{_more(one)} |")
    return rows


def key_rows(known: Mapping[str, Parameter]) -> list[str]:
    """The rows of ``docs/sql.md``."""
    rows = ["| key | value | meaning |", "| --- | --- | --- |"]
    for name, one in known.items():
        told = one.help_with(lambda other: f"`{other}`")
        rows.append(f"| `{name}` | {one.expected} | {told}{_more(one, choices=False)} |")
    return rows


def _more(one: Parameter, *, choices: bool = True) -> str:
    more = ""
    if choices and one.option.choices:
        more += " One of " + ", ".join(f"`{choice}`" for choice in one.option.choices) + "."
    if one.by_default and one.kind is not bool:
        more += f" Default: `{one.by_default}`."
    return more + (f" [More]({one.option.see})." if one.option.see else "")


def of_command() -> list[Parameter]:
    """The options of ``anonymize``: those of a chain stand behind its name."""
    found: list[Parameter] = []
    for one in all_parameters(Job):
        found += [one, *parameters(Chain)[1:]] if one.kind is Chain else [one]
    return [*found, *own_options()]


def pages() -> dict[str, list[str]]:
    """The rows by page."""
    return {
        "cli.md": command_rows(of_command()),
        "sql.md": key_rows(keys("mdav", arguments(), writes=True)),
    }


def filled(page: str, rows: list[str]) -> str:
    """A page with these rows."""
    text, tables = _TABLE.subn(
        lambda found: found[1] + "\n".join(rows) + "\n" + found[2],
        (DOCS / page).read_text(encoding="utf-8"),
    )
    assert tables == 1, f"{page} has {tables} tables of options"
    return text


if __name__ == "__main__":
    for page, rows in pages().items():
        (DOCS / page).write_text(filled(page, rows), encoding="utf-8")
    option_types.write()
