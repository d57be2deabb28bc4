"""Options as the command line and SQL write them, in hints and in recommended commands.

Python's spelling is in ``dbanon.errors.base.write_python_option``.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Set
from functools import cache
from typing import Any

from dbanon.data.option import Parameter, all_parameters, parameters
from dbanon.data.words import json_text
from dbanon.job.chain import Chain
from dbanon.job.job import Job
from dbanon.job.private import own_options
from dbanon.job.sets import ColumnSet
from dbanon.measures import Model
from dbanon.sessions.names import RelationName, literal, parse_relation
from dbanon.stores.folders import is_of_files

# Arguments of the SQL functions; other options are keys of ``options``.
SQL_ARGUMENTS = frozenset(
    (
        "output",
        "quasi_identifiers",
        "k",
        "entity",
        "keep",
        "sensitive",
        "hierarchies",
        "max_suppression",
        "nulls",
        "if_exists",
    )
)
# Arguments of dbanon.classes.
_CLASSES_ARGUMENTS = frozenset(("method", "quasi_identifiers", "k"))
# Pseudo-options for actions that hints name: a SQL function, or a command.
_PROBLEMS = "problems()"
# The owner of a table takes over rules that others declared.
_DECLARE_AGAIN = "declare_again()"
# Accepted differences when a release is repeated.
_ACCEPT = "accept"
# Options of the commands refresh, run, evaluate and advise.
_COMMAND_OPTIONS = (
    *(_ACCEPT, "accept_counts", "accept_types", "changed_source", "max_loss", "max_risk"),
    *("max_seconds", "skip_unchanged"),
)


def chain_options() -> Iterable[Parameter]:
    """The options of a job's chain, apart from its name and key."""
    return (option for option in parameters(Chain) if option.name not in ("name", "key"))


@cache
def _options() -> Mapping[str, Parameter]:
    all_options = (*own_options(), *chain_options(), *all_parameters(Job))
    return {option.name: option for option in all_options}


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9} | {
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
}


def bytes_of(text: str) -> int | None:
    """Parse an amount of memory, such as 4GiB, 500MB or 1000000; None if it is invalid."""
    digits = text.rstrip("KMGiIbB ")
    try:
        return int(float(digits) * _UNITS[text[len(digits) :].strip().upper()])
    except (ValueError, KeyError, OverflowError):
        return None


def flag(parameter: Parameter) -> str:
    """Return the name of an option on the command line."""
    return "--" + (parameter.option.flag or parameter.name).replace("_", "-")


def on_command_line(name: str, value: Any) -> str:
    """Render an option for the command line."""
    if name == _PROBLEMS:
        return "dbanon hierarchy check"
    if name == _DECLARE_AGAIN:
        return declare_again_command(value)
    if name in _COMMAND_OPTIONS:
        values = f" {shlex.quote(','.join(map(_field, value)))}" if isinstance(value, list) else ""
        return "--" + name.replace("_", "-") + values
    parameter = _options().get(name)
    if parameter is None:
        return name
    if parameter.kind is bool:
        return (
            flag(parameter) if value is not False else f"--no-{flag(parameter).removeprefix('--')}"
        )
    if parameter.kind is Mapping and isinstance(value, Mapping):
        return " ".join(
            f"{flag(parameter)} {shlex.quote(f'{column}={part}')}" for column, part in value.items()
        )
    if value is None:
        form = parameter.option.form if parameter.option.flag else ""
        return f"{flag(parameter)} {form}".rstrip()
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{flag(parameter)} {text if text == '…' else shlex.quote(text)}"


def declare_again_command(table: str) -> str:
    """Return the commands that save the rules of a table and declare them again."""
    table_option = f"--table {shlex.quote(table)}"
    show = f"dbanon rules URL {table_option} --format json > rules.json"
    return f"{show}; dbanon declare URL rules.json {table_option}"


def in_sql(name: str, value: Any, arguments: Set[str] = SQL_ARGUMENTS) -> str:
    """Render an option for a call of a SQL function with these arguments."""
    if name == _PROBLEMS:
        return "dbanon.check_hierarchy"
    if name == _DECLARE_AGAIN:
        table = _text(parse_relation(value).quoted)
        return (
            f"SELECT dbanon.declare({table}, (SELECT jsonb_object_agg(column_name, rule) FROM"
            f" dbanon.rules({table}) WHERE state = 'not trusted'))"
        )
    if name == _ACCEPT:
        return f"accept => {_literal(value)}"
    parameter = _options().get(name)
    if parameter is not None and name in arguments:
        return name if value is None else f"{name} => {_literal(value)}"
    if name == "method" and value is not None:
        return f"dbanon.{value}"
    if parameter is None or not parameter.option.sql:
        return name
    if value is None:
        return f'"{name}" in options'
    return f"options => {_quote(json_text({name: value}))}"


def in_sql_classes(name: str, value: Any) -> str:
    """Render an option for a call of ``dbanon.classes``."""
    return in_sql(name, value, _CLASSES_ARGUMENTS)


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(_literal, value))}]"
    return _quote(value) if isinstance(value, str) else json.dumps(value)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# Proposed database for the releases of a file; the first release creates it.
PROPOSED_TARGET = "duckdb:///released.duckdb"


def command(
    url: str,
    options: Mapping[str, Any],
    hierarchies: Iterable[str] = (),
    target: str | None = None,
) -> str:
    """Build the command that makes a release.

    Parameters
    ----------
    url : without secrets.
    options : by name, in Python's form.
    hierarchies : as texts NAME=HIERARCHY.
    target : URL of the database for the release; if None, a proposed one for a file.
    """
    words = ["dbanon", "anonymize", url]
    for name, value in options.items():
        words += _words(name, value)
    for hierarchy in hierarchies:
        words += ["--hierarchy", hierarchy]
    if target is not None or is_of_files(url):
        # Releases cannot be written into a file of rows.
        words += ["--target", target or PROPOSED_TARGET]
    return shlex.join(words)


def job_command(
    url: str, job: Job, hierarchies: Mapping[str, str], target: str | None = None
) -> str:
    """Build the command that runs a job, with every option that is not the default.

    Parameters
    ----------
    url : without secrets.
    job : without a chain and exports.
    hierarchies : by column, as command-line texts; the job only has parsed hierarchies.
    target : as for ``command``.
    """
    parts = (job, job.reading, job.pseudonymized, job.policy)
    options = {
        parameter.name: value
        for part in parts
        for parameter in parameters(type(part))
        if (value := getattr(part, parameter.name)) != parameter.default
        and parameter.name not in ("chain", "exports", "hierarchies")
    }
    texts = [f"{column}={text}" for column, text in hierarchies.items()]
    return command(url, options, texts, target)


# Short options of the command line, with one value each.
_SHORT = {"quasi_identifiers": "-q", "sensitive": "-s"}


def _words(name: str, value: Any) -> list[str]:
    """Render an option with its value as words of the command line."""
    if name in _SHORT:
        # A short option takes a single name verbatim, including blanks.
        return [
            word
            for column in value
            for word in (_SHORT[name], _field(column) if set(column) & {",", '"'} else column)
        ]
    parameter = _options()[name]
    if isinstance(value, Mapping):
        return [
            word
            for column, part in value.items()
            for word in (flag(parameter), f"{column}={_part(part)}")
        ]
    if isinstance(value, (tuple, list)):
        if parameter.option.flag:
            return [word for part in value for word in (flag(parameter), _part(part))]
        return [flag(parameter), ",".join(map(_field, value))]
    if isinstance(value, bool):
        return [flag(parameter) if value else f"--no-{flag(parameter).removeprefix('--')}"]
    return [flag(parameter), str(value)]


def _part(value: Any) -> str:
    """Render one value of a repeatable option for the command line."""
    if isinstance(value, Model):
        detail = {"recursive_cl": f":l={value.l}", "t_closeness": f":distance={value.distance}"}
        return f"{value.attribute}={value.kind}:{value.level:g}{detail.get(value.kind, '')}"
    if isinstance(value, ColumnSet):
        return ",".join(map(_field, value.columns)) + (f"={value.k}" if value.k else "")
    if isinstance(value, (tuple, list)):
        return ",".join(map(_field, map(str, value)))
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def statement(start: Mapping[str, Any], hierarchies: Mapping[str, Any] | None = None) -> str:
    """Build the SQL call that makes a recommended release inside PostgreSQL."""
    source = parse_relation(start["table"])
    options = {
        name: start[name] for name in ("refine", "recoding", "kinds", "key") if name in start
    }
    words = [
        _text(source.quoted),
        _text(str(RelationName("release", source.name))),
        _array(start["quasi_identifiers"]),
        f"k => {start['k']}",
    ]
    if start["sensitive"]:
        words.append(f"sensitive => {_array(start['sensitive'])}")
    for name in ("entity", "nulls", "max_suppression"):
        if name in start:
            words.append(f"{name} => {_plain(start[name])}")
    for name, argument in (("hierarchies", hierarchies), ("options", options)):
        if argument:
            words.append(f"{name} => {_text(json_text(argument))}")
    return f"SELECT * FROM dbanon.{start['method']}({', '.join(words)})"


def _plain(value: Any) -> str:
    return _text(value) if isinstance(value, str) else str(value)


def _text(value: str) -> str:
    """Render a SQL literal, in escape form only if it has backslashes."""
    escaped = literal(value)
    return escaped if "\\" in escaped else escaped.removeprefix("E")


def _array(names: Iterable[str]) -> str:
    return f"ARRAY[{', '.join(map(_text, names))}]"


def _field(name: str) -> str:
    """Quote a name for a comma-separated list on the command line."""
    return '"' + name.replace('"', '""') + '"' if set(name) & {",", '"', " "} else name
