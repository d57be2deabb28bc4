"""Writes options as on the command line and in SQL, for hints and for recommended commands.

Python's spelling is in ``dbanon.errors.base.write_python_option``.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Set
from functools import cache

from dbanon.data.groups import Groups
from dbanon.data.option import Parameter, all_parameters, parameters
from dbanon.data.types import JsonMapping
from dbanon.data.words import json_text
from dbanon.job.chain import Chain
from dbanon.job.date_shift import DateShift
from dbanon.job.job import Job
from dbanon.job.sets import ColumnSet
from dbanon.measures import Model
from dbanon.sessions.names import RelationName, literal, parse_relation

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
# Names in hints that stand for an action rather than an option. Each interface writes them as a
# command or a SQL function: the first lists the problems of a hierarchy; with the second, the owner
# of a table takes over rules that others declared.
_PROBLEMS = "problems()"
_DECLARE_AGAIN = "declare_again()"
# Option of the command refresh: the differences that are accepted when a release is repeated.
_ACCEPT = "accept"
# Options of the commands refresh, run, evaluate, advise and risk.
_COMMAND_OPTIONS = (
    _ACCEPT,
    "accept_counts",
    "accept_types",
    "changed_source",
    "household",
    "log_linear",
    "max_loss",
    "max_risk",
    "max_seconds",
    "population",
    "population_count",
    "records",
    "released",
    "report",
    "skip_unchanged",
    "suda_size",
    "weight",
)


def chain_options() -> Iterable[Parameter]:
    """Return the options of a job's chain, except its name and key."""
    return (option for option in parameters(Chain) if option.name not in ("name", "key"))


@cache
def _options_by_name() -> Mapping[str, Parameter]:
    """Return all options of jobs, by name."""
    from dbanon.job.private import private_method_options

    all_options = (*private_method_options(), *chain_options(), *all_parameters(Job))
    return {option.name: option for option in all_options}


_BYTES_BY_UNIT = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9} | {
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
}


def parse_bytes(text: str) -> int | None:
    """Parse an amount of memory, such as 4GiB, 500MB or 1000000; None if it is invalid."""
    digits = text.rstrip("KMGiIbB ")
    try:
        return int(float(digits) * _BYTES_BY_UNIT[text[len(digits) :].strip().upper()])
    except (ValueError, KeyError, OverflowError):
        return None


def flag(parameter: Parameter) -> str:
    """Return the name of an option on the command line."""
    return "--" + (parameter.option.flag or parameter.name).replace("_", "-")


def _boolean_flag(parameter: Parameter, is_on: bool) -> str:
    """Return the flag that turns an option on, or its ``--no-`` form."""
    return flag(parameter) if is_on else f"--no-{flag(parameter).removeprefix('--')}"


def spell_cli_option(name: str, value: object) -> str:
    """Render an option for the command line, with a placeholder if ``value`` is None."""
    if name == _PROBLEMS:
        return "dbanon hierarchy check"
    if name == _DECLARE_AGAIN:
        # Saves the rules of the table, and declares them again.
        table_option = f"--table {shlex.quote(str(value))}"
        save_command = f"dbanon rules URL {table_option} --format json > rules.json"
        return f"{save_command}; dbanon declare URL rules.json {table_option}"
    if name in _COMMAND_OPTIONS:
        values_text = (
            f" {shlex.quote(','.join(map(_quote_list_item, value)))}"
            if isinstance(value, list)
            else ""
        )
        return "--" + name.replace("_", "-") + values_text
    parameter = _options_by_name().get(name)
    if parameter is None:
        return name
    if parameter.kind is bool:
        return _boolean_flag(parameter, value is not False)
    if parameter.kind is Mapping and isinstance(value, Mapping):
        return " ".join(
            f"{flag(parameter)} {shlex.quote(f'{column}={item}')}" for column, item in value.items()
        )
    if value is None:
        # An option whose flag differs from its name shows the form of its value.
        placeholder = parameter.option.form if parameter.option.flag else ""
        return f"{flag(parameter)} {placeholder}".rstrip()
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{flag(parameter)} {text if text == '…' else shlex.quote(text)}"


def spell_sql_option(name: str, value: object, arguments: Set[str] = SQL_ARGUMENTS) -> str:
    """Render an option for a call of the SQL function that has these arguments."""
    if name == _PROBLEMS:
        return "dbanon.check_hierarchy"
    if name == _DECLARE_AGAIN:
        # A rule is "not trusted" if the role that declared it could not declare it now.
        table = _text_literal(parse_relation(str(value)).quoted)
        return (
            f"SELECT dbanon.declare({table}, (SELECT jsonb_object_agg(column_name, rule) FROM"
            f" dbanon.rules({table}) WHERE state = 'not trusted'))"
        )
    if name == _ACCEPT:
        return f"accept => {_hint_literal(value)}"
    parameter = _options_by_name().get(name)
    if parameter is not None and name in arguments:
        return name if value is None else f"{name} => {_hint_literal(value)}"
    # In SQL each method is a function.
    if name == "method" and value is not None:
        return f"dbanon.{value}"
    if parameter is None or not parameter.option.available_in_sql:
        return name
    if value is None:
        return f'"{name}" in options'
    return f"options => {_hint_text_literal(json_text({name: value}))}"


def spell_classes_option(name: str, value: object) -> str:
    """Render an option for a call of ``dbanon.classes``."""
    return spell_sql_option(name, value, _CLASSES_ARGUMENTS)


def _hint_literal(value: object) -> str:
    """Render a value of a hint as a SQL literal."""
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(_hint_literal, value))}]"
    return _hint_text_literal(value) if isinstance(value, str) else json.dumps(value)


def _hint_text_literal(text: str) -> str:
    """Render a text of a hint as a SQL literal.

    Backslashes stay as they are, since hints are read by people. Statements that are run as they
    stand need ``_text_literal``.
    """
    return "'" + text.replace("'", "''") + "'"


# Proposed database for the releases of a file; the first release creates it.
PROPOSED_TARGET = "duckdb:///released.duckdb"


def build_command(
    url: str,
    options: Mapping[str, object],
    hierarchies: Iterable[str] = (),
    target: str | None = None,
) -> str:
    """Build the command that makes a release.

    Parameters
    ----------
    url : URL of the source, without secrets.
    options : values by name, as in Python.
    hierarchies : texts in the form NAME=HIERARCHY.
    target : URL of the database for the release; if None, a proposed one for a file.
    """
    from dbanon.stores.schemes import is_row_file_url

    words = ["dbanon", "anonymize", url]
    for name, value in options.items():
        words += _option_words(name, value)
    for hierarchy in hierarchies:
        words += ["--hierarchy", hierarchy]
    if target is not None or is_row_file_url(url):
        # Releases cannot be written into a file of rows.
        words += ["--target", target or PROPOSED_TARGET]
    return shlex.join(words)


def build_job_command(
    url: str, job: Job, hierarchies: Mapping[str, str], target: str | None = None
) -> str:
    """Build the command that runs a job, with every option that is not the default.

    Parameters
    ----------
    url : URL of the source, without secrets.
    job : a job without a chain and exports.
    hierarchies : by column, as command-line texts; the job only has parsed hierarchies.
    target : URL of the database for the release; if None, a proposed one for a file.
    """
    option_holders = (job, job.reading, job.pseudonym_options, job.policy)
    options = {
        parameter.name: value
        for holder in option_holders
        for parameter in parameters(type(holder))
        if (value := getattr(holder, parameter.name)) != parameter.default
        and parameter.name not in ("chain", "exports", "hierarchies")
    }
    hierarchy_texts = [f"{column}={text}" for column, text in hierarchies.items()]
    return build_command(url, options, hierarchy_texts, target)


# Short options of the command line, with one value each.
_SHORT_FLAGS = {"quasi_identifiers": "-q", "sensitive": "-s"}


def _option_words(name: str, value: object) -> list[str]:
    """Render an option with its value as words of the command line."""
    if name in _SHORT_FLAGS and isinstance(value, (tuple, list)):
        # A short option takes one name. Blanks in it need no quotes, but commas and quotes do.
        return [
            word
            for column in value
            for word in (
                _SHORT_FLAGS[name],
                _quote_list_item(column) if set(column) & {",", '"'} else column,
            )
        ]
    parameter = _options_by_name()[name]
    if isinstance(value, Mapping):
        return [
            word
            for column, item in value.items()
            for word in (flag(parameter), f"{column}={_format_item(item)}")
        ]
    if isinstance(value, (tuple, list)):
        # Only options with their own flag, a singular, are repeated; others take a list.
        if parameter.option.flag:
            return [word for item in value for word in (flag(parameter), _format_item(item))]
        return [flag(parameter), ",".join(map(_quote_list_item, value))]
    if isinstance(value, bool):
        return [_boolean_flag(parameter, value)]
    if isinstance(value, DateShift):
        columns = ",".join(map(_quote_list_item, value.columns))
        return [flag(parameter), f"{columns}={value.days}"]
    return [flag(parameter), str(value)]


def _format_item(value: object) -> str:
    """Render one value of a repeatable option for the command line."""
    if isinstance(value, Model):
        # COLUMN=KIND:LEVEL, and for two kinds a further parameter.
        suffixes = {"recursive_cl": f":l={value.l}", "t_closeness": f":distance={value.distance}"}
        return f"{value.attribute}={value.kind}:{value.level:g}{suffixes.get(value.kind, '')}"
    if isinstance(value, ColumnSet):
        # A set of columns that is to be k-anonymous by itself, with its own k if it has one.
        return ",".join(map(_quote_list_item, value.columns)) + (f"={value.k}" if value.k else "")
    if isinstance(value, Groups | Mapping):
        return json_text(value.to_plain() if isinstance(value, Groups) else value)
    if isinstance(value, (tuple, list)):
        return ",".join(map(_quote_list_item, map(str, value)))
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def build_statement(release_options: JsonMapping, hierarchies: JsonMapping | None = None) -> str:
    """Build the SQL call that makes a recommended release inside PostgreSQL.

    Parameters
    ----------
    release_options : options of the release by name, as in ``Advice.start``.
    hierarchies : by column, as JSON values.
    """
    source = parse_relation(release_options["table"])
    options = {
        name: release_options[name]
        for name in ("design_weight", "refine", "recoding", "kinds", "key")
        if name in release_options
    }
    call_arguments = [
        _text_literal(source.quoted),
        # Propose the name of the source in the schema for releases.
        _text_literal(str(RelationName("release", source.name))),
        _array_literal(release_options["quasi_identifiers"]),
        f"k => {release_options['k']}",
    ]
    if release_options["sensitive"]:
        call_arguments.append(f"sensitive => {_array_literal(release_options['sensitive'])}")
    for name in ("entity", "nulls", "max_suppression"):
        if name in release_options:
            call_arguments.append(f"{name} => {_scalar_literal(release_options[name])}")
    for name, argument in (("hierarchies", hierarchies), ("options", options)):
        if argument:
            call_arguments.append(f"{name} => {_text_literal(json_text(argument))}")
    return f"SELECT * FROM dbanon.{release_options['method']}({', '.join(call_arguments)})"


def _scalar_literal(value: object) -> str:
    """Render a text or number as a SQL literal."""
    return _text_literal(value) if isinstance(value, str) else str(value)


def _text_literal(value: str) -> str:
    """Render a text as a SQL literal; as an escape string (E'…') only if it has backslashes."""
    escaped_literal = literal(value)
    return escaped_literal if "\\" in escaped_literal else escaped_literal.removeprefix("E")


def _array_literal(names: Iterable[str]) -> str:
    """Render names as a SQL array."""
    return f"ARRAY[{', '.join(map(_text_literal, names))}]"


def _quote_list_item(name: str) -> str:
    """Quote an item of a comma-separated list on the command line, if it needs quotes."""
    return '"' + name.replace('"', '""') + '"' if set(name) & {",", '"', " "} else name
