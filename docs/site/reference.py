"""Pages of the reference that the catalogues in the code say: commands, SQL, Python, jobs, errors.

They are made anew with each build, and stand in no repository.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import click

import dbanon
from dbanon.doors.cli.main import main
from dbanon.doors.jobfile.models import build_json_schema
from dbanon.doors.plpython_options import describe_option
from dbanon.doors.sql_script import functions_script
from dbanon.errors.explanations import ErrorExplanation, load_explanations
from dbanon.methods import METHODS
from dbanon.methods.registry import Method


def pages() -> dict[str, str]:
    """The text of each page by its path below ``reference/``."""
    return {
        "commands.md": commands(),
        "sql.md": sql(),
        "python.md": python(),
        "job-keys.md": job_keys(),
        "methods.md": methods(),
        **errors(),
    }


def cell(text: object) -> str:
    """A text as a cell of a table of Markdown."""
    return re.sub(r"\s+", " ", str(text)).replace("|", r"\|").replace("<", r"\<").strip()


def prose(text: str) -> str:
    """A text of help as a paragraph of Markdown, with nothing in it read as markup."""
    return re.sub(r"([\\<*_`\[\]|#])", r"\\\1", inspect.cleandoc(text).replace("\b", ""))


def commands() -> str:
    """Every command with its arguments and options, as ``--help`` has them."""
    parts = [
        "# Commands in full",
        "What `dbanon COMMAND --help` prints. [Commands](../docs/cli.md) explains them.",
    ]
    for words, command in _commands(main, ["dbanon"]):
        context = click.Context(command, info_name=" ".join(words))
        usage = " ".join([*words, *command.collect_usage_pieces(context)])
        parts += [f"## `{' '.join(words)}`", prose(command.help or "")]
        if isinstance(command, click.Group):
            continue
        parts.append(f"```text\n{usage}\n```")
        rows = [
            entry.get_help_record(context)
            for entry in command.params
            if isinstance(entry, click.Option) and not entry.hidden
        ]
        if found := [row for row in rows if row]:
            lines = [f"| `{cell(names)}` | {cell(description)} |" for names, description in found]
            parts.append("\n".join(["| option | meaning |", "| --- | --- |", *lines]))
    return "\n\n".join(parts) + "\n"


def _commands(group: click.Group, words: list[str]) -> Iterator[tuple[list[str], click.Command]]:
    for name in sorted(group.commands):
        command = group.commands[name]
        yield [*words, name], command
        if isinstance(command, click.Group):
            yield from _commands(command, [*words, name])


_FUNCTION = re.compile(
    r"^CREATE OR REPLACE (FUNCTION|PROCEDURE) (dbanon\.[a-z]\w*)\((.*?)\)\s*\n(RETURNS [^\n]+)?",
    re.M | re.S,
)
_COMMENT = re.compile(
    r"COMMENT ON (?:FUNCTION|PROCEDURE) (dbanon\.[a-z]\w*)\([^)]*\) IS\s*'((?:[^']|'')*)'", re.S
)


def sql() -> str:
    """Every function and procedure of the schema ``dbanon``, with its manual."""
    script = functions_script([])
    comments = {name: text.replace("''", "'") for name, text in _COMMENT.findall(script)}
    parts = [
        "# SQL functions in full",
        "What `SELECT dbanon.help('name')` says inside the database."
        " [Inside PostgreSQL](../docs/sql.md) explains them.",
    ]
    for kind, name, arguments, returns in _FUNCTION.findall(script):
        listed = ",\n    ".join(part.strip() for part in re.split(r",\s+(?=\w+ \w)", arguments))
        call = f"{kind} {name}(\n    {listed}\n)" if listed.strip() else f"{kind} {name}()"
        parts += [f"## `{name}`", f"```sql\n{call}\n{returns}\n```"]
        first, _, more = comments.get(name, "").partition("\n")
        parts.append(prose(first))
        if more.strip():
            parts.append(f"```text\n{more.strip()}\n```")
    return "\n\n".join(parts) + "\n"


def python() -> str:
    """The public names, with their docstrings."""
    functions, classes = [], []
    for name in dbanon.__all__:
        value = getattr(dbanon, name)
        if inspect.isfunction(value):
            functions.append(name)
        elif inspect.isclass(value):
            classes.append(name)
    parts = [
        "# Python in full",
        "What `help(dbanon.anonymize)` prints. [Python](../docs/python.md) explains it.",
        "## Functions",
        *(f"### `dbanon.{name}`\n\n{_automatic('autofunction', name)}" for name in functions),
        "## Results and values",
        *(f"### `dbanon.{name}`\n\n{_automatic('autoclass', name)}" for name in classes),
    ]
    return "\n\n".join(parts) + "\n"


def _automatic(directive: str, name: str) -> str:
    return f"```{{eval-rst}}\n.. {directive}:: dbanon.{name}\n   :no-index-entry:\n```"


def job_keys() -> str:
    """Every key of a job file, from its JSON Schema."""
    schema = build_json_schema()
    parts = [
        "# Keys of a job file in full",
        "What `dbanon schema` prints, as tables. [Job files](../docs/jobs.md) explains them.",
        "## The file",
        _keys(schema),
    ]
    for name, part in schema["$defs"].items():
        parts += [f"## {_title(name)}", prose(part.get("description", "")), _keys(part)]
    return "\n\n".join(parts) + "\n"


def _title(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name.removesuffix("Spec")).capitalize()


def _keys(schema: Mapping[str, Any]) -> str:
    needed = set(schema.get("required", ()))
    rows = ["| key | value | needed | meaning |", "| --- | --- | --- | --- |"]
    for name, entry in schema.get("properties", {}).items():
        description = entry.get("description", "")
        must = "yes" if name in needed else ""
        rows.append(f"| `{name}` | {_value(entry)} | {must} | {prose(cell(description))} |")
    return "\n".join(rows)


def _value(entry: Mapping[str, Any]) -> str:
    if "$ref" in entry:
        title = _title(str(entry["$ref"]).rpartition("/")[2])
        return f"[{title}](#{title.casefold().replace(' ', '-')})"
    if "enum" in entry:
        return ", ".join(f"`{value}`" for value in entry["enum"] if value is not None)
    if "const" in entry:
        return f"`{entry['const']}`"
    for word in ("anyOf", "oneOf"):
        if word in entry:
            return " or ".join(_value(part) for part in entry[word] if part.get("type") != "null")
    if "items" in entry:
        return f"list of {_value(entry['items'])}"
    inner = entry.get("additionalProperties")
    if isinstance(inner, Mapping) and inner:
        return f"mapping of name to {_value(inner)}"
    kind = entry.get("type", "any")
    kinds = [kind] if isinstance(kind, str) else [part for part in kind if part != "null"]
    return " or ".join(map(str, kinds))


def methods() -> str:
    """The methods, as ``dbanon methods`` lists them, with their options."""
    parts = [
        "# Methods in full",
        "What `dbanon methods` lists. [Methods](../docs/methods.md) and"
        " [generalization](../docs/generalization.md) explain how each works.",
    ]
    for name, method in METHODS.items():
        rows = [
            f"| `{entry.name}` | {prose(cell(describe_option(entry)))} |"
            for entry in method.options
        ]
        parts += [f"## `{name}`", _method(method)]
        if rows:
            parts.append("\n".join(["| option | meaning |", "| --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"


def _method(method: Method) -> str:
    facts = {
        "takes": method.data,
        "class sizes": method.class_sizes,
        "gives": method.sentence,
        "recoding": f"`{method.recoding}`",
        "time": method.cost,
        "published": method.reference,
    }
    rows = [
        f"| {name} | {cell(description)} |" for name, description in facts.items() if description
    ]
    return "\n".join([f"{prose(method.summary)}\n", "| | |", "| --- | --- |", *rows])


def errors() -> dict[str, str]:
    """A page for each code, and the list of them."""
    found = load_explanations()
    rows = [
        f"| [`{code}`]({code}.md) | {entry.exit_code} | {entry.sqlstate} | {cell(entry.summary)} |"
        for code, entry in found.items()
    ]
    index = "\n".join(
        [
            "# Errors, code by code",
            "",
            "Each page is what `dbanon explain CODE` prints."
            " [Errors](../../docs/errors.md) says what all errors have.",
            "",
            "| code | exit | SQLSTATE | meaning |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )
    own = {f"errors/{code}.md": _error(entry) for code, entry in found.items()}
    return {"errors/index.md": index, **own}


def _error(entry: ErrorExplanation) -> str:
    return (
        f"# `{entry.code}`\n\n{entry.summary}\n\n{entry.text}\n\n"
        "| | |\n| --- | --- |\n"
        f"| exit code | {entry.exit_code} |\n| SQLSTATE | `{entry.sqlstate}` |\n"
        f"| in Python | `dbanon.errors.{entry.name}` |\n| on the command line | `dbanon explain"
        f" {entry.code}` |\n"
    )
