"""How the command line and SQL write an option that a hint names, from the table of options.

Python's way is that of the errors themselves: ``dbanon.errors.base.in_python``.
The command or the statement to start with is in the words of each, too.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Set
from functools import cache
from typing import Any

from dbanon.data.option import Parameter, all_parameters, parameters
from dbanon.data.words import json_text
from dbanon.job.job import Job
from dbanon.job.private import own_options
from dbanon.job.sets import ColumnSet
from dbanon.measures import Model
from dbanon.sessions.names import RelationName, literal, parse_relation
from dbanon.stores.folders import is_of_files

# What a call in SQL has as arguments of the function; all else is a key of ``options``.
SQL_ARGUMENTS = frozenset(
    ("output", "quasi_identifiers", "k", "entity", "keep", "sensitive", "hierarchies",
     "max_suppression", "nulls", "if_exists")
)  # fmt: skip
# Those of dbanon.classes, which takes all else in options.
_CLASSES_ARGUMENTS = frozenset(("method", "quasi_identifiers", "k"))
# What a function in SQL says by its name, and the command line by its own words.
_PROBLEMS = "problems()"
# How the owner of a table takes over rules that others declared.
_DECLARE_AGAIN = "declare_again()"
# What may differ in a release that is made again.
_ACCEPT = "accept"
# Of dbanon refresh, run, evaluate, and advise.
_OF_COMMANDS = (_ACCEPT, "accept_counts", "accept_types", "changed_source", "max_seconds")


@cache
def _options() -> Mapping[str, Parameter]:
    return {one.name: one for one in (*own_options(), *all_parameters(Job))}


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9} | {
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30,
}  # fmt: skip


def bytes_of(text: str) -> int | None:
    """An amount of memory, such as 4GiB, 500MB or 1000000; None where it is none."""
    digits = text.rstrip("KMGiIbB ")
    try:
        return int(float(digits) * _UNITS[text[len(digits) :].strip().upper()])
    except (ValueError, KeyError, OverflowError):
        return None


def flag(one: Parameter) -> str:
    """The name of an option on the command line."""
    return "--" + (one.option.flag or one.name).replace("_", "-")


def on_command_line(name: str, value: Any) -> str:
    """An option as the command line has it."""
    if name == _PROBLEMS:
        return "dbanon hierarchy check"
    if name == _DECLARE_AGAIN:
        return declare_again_command(value)
    if name in _OF_COMMANDS:
        values = f" {shlex.quote(','.join(map(_field, value)))}" if isinstance(value, list) else ""
        return "--" + name.replace("_", "-") + values
    one = _options().get(name)
    if one is None:
        return name
    if one.kind is bool:
        return flag(one) if value is not False else f"--no-{flag(one).removeprefix('--')}"
    if one.kind is Mapping and isinstance(value, Mapping):
        return " ".join(
            f"{flag(one)} {shlex.quote(f'{column}={part}')}" for column, part in value.items()
        )
    if value is None:
        more = one.option.form if one.option.flag else ""
        return f"{flag(one)} {more}".rstrip()
    told = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{flag(one)} {told if told == '…' else shlex.quote(told)}"


def declare_again_command(table: str) -> str:
    """The commands that show the rules of a table and declare them again."""
    named = f"--table {shlex.quote(table)}"
    show = f"dbanon rules URL {named} --format json > rules.json"
    return f"{show}; dbanon declare URL rules.json {named}"


def in_sql(name: str, value: Any, arguments: Set[str] = SQL_ARGUMENTS) -> str:
    """An option as a call in SQL has it, of a function that has these arguments."""
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
    one = _options().get(name)
    if one is not None and name in arguments:
        return name if value is None else f"{name} => {_literal(value)}"
    if name == "method" and value is not None:
        return f"dbanon.{value}"
    if one is None or not one.option.sql:
        return name
    if value is None:
        return f'"{name}" in options'
    return f"options => {_quoted(json_text({name: value}))}"


def in_sql_classes(name: str, value: Any) -> str:
    """An option as a call of ``dbanon.classes`` has it."""
    return in_sql(name, value, _CLASSES_ARGUMENTS)


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(_literal, value))}]"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# Where releases of a file go in what is proposed: a database that the first one makes.
PLACE = "duckdb:///released.duckdb"


def command(
    url: str,
    options: Mapping[str, Any],
    hierarchies: Iterable[str] = (),
    target: str | None = None,
) -> str:
    """The command that makes a release.

    Parameters
    ----------
    url : without secrets.
    options : by name, as Python takes them.
    hierarchies : as they were given, NAME=HIERARCHY.
    target : URL of the database for the release; for a file, a proposed one when None.
    """
    words = ["dbanon", "anonymize", url]
    for name, value in options.items():
        words += _words(name, value)
    for given in hierarchies:
        words += ["--hierarchy", given]
    if target is not None or is_of_files(url):
        # A file is not written into.
        words += ["--target", target or PLACE]
    return shlex.join(words)


def job_command(
    url: str, job: Job, hierarchies: Mapping[str, str], target: str | None = None
) -> str:
    """The command that runs a job: each option that is not its default.

    Parameters
    ----------
    url : without secrets.
    job : one that is in no chain and exports nothing.
    hierarchies : those of the job as the command line has them, by column: the job itself has
        them read.
    target : as for ``command``.
    """
    parts = (job, job.reading, job.pseudonymized, job.policy)
    options = {
        one.name: value
        for part in parts
        for one in parameters(type(part))
        if (value := getattr(part, one.name)) != one.default
        and one.name not in ("chain", "exports", "hierarchies")
    }
    texts = [f"{column}={text}" for column, text in hierarchies.items()]
    return command(url, options, texts, target)


# What the command line has in short, each value by itself.
_SHORT = {"quasi_identifiers": "-q", "sensitive": "-s"}


def _words(name: str, value: Any) -> list[str]:
    """An option with its value, as words of the command line."""
    if name in _SHORT:
        # A single name stands as it is, blanks too.
        return [
            word
            for column in value
            for word in (_SHORT[name], _field(column) if set(column) & {",", '"'} else column)
        ]
    one = _options()[name]
    if isinstance(value, Mapping):
        return [
            word
            for column, part in value.items()
            for word in (flag(one), f"{column}={_part(part)}")
        ]
    if isinstance(value, (tuple, list)):
        if one.option.flag:
            return [word for part in value for word in (flag(one), _part(part))]
        return [flag(one), ",".join(map(_field, value))]
    if isinstance(value, bool):
        return [flag(one) if value else f"--no-{flag(one).removeprefix('--')}"]
    return [flag(one), str(value)]


def _part(value: Any) -> str:
    """A value of a column, or one of several, as the command line has it."""
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
    """The call in SQL, inside PostgreSQL."""
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
    for name, given in (("hierarchies", hierarchies), ("options", options)):
        if given:
            words.append(f"{name} => {_text(json_text(given))}")
    return f"SELECT * FROM dbanon.{start['method']}({', '.join(words)})"


def _plain(value: Any) -> str:
    return _text(value) if isinstance(value, str) else str(value)


def _text(value: str) -> str:
    """A literal for people: in the escape form only where that makes a difference."""
    found = literal(value)
    return found if "\\" in found else found.removeprefix("E")


def _array(names: Iterable[str]) -> str:
    return f"ARRAY[{', '.join(map(_text, names))}]"


def _field(name: str) -> str:
    """A name as a list on the command line holds it."""
    return '"' + name.replace('"', '""') + '"' if set(name) & {",", '"', " "} else name
