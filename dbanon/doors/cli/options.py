"""Click options built from option descriptions, and their values parsed from text.

A ``Parameter`` describes an option: ``kind`` is its Python type, ``item_type`` is the type of the
items of a list or mapping, and ``option`` says how users write it: its flag, its unit and the form
of its value.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_origin

import click

from dbanon.data.memory import half_of_memory
from dbanon.data.option import REQUIRED, Parameter
from dbanon.data.types import KeywordArguments
from dbanon.doors.cli.support import Bytes, Decorator, Names, split_list, split_pair
from dbanon.doors.spelling import flag
from dbanon.errors import InvalidParameter
from dbanon.job.chain import Chain
from dbanon.job.coding import PERCENTILE
from dbanon.job.date_shift import DateShift
from dbanon.job.export import Export
from dbanon.job.sets import ColumnSet
from dbanon.measures import Model
from dbanon.methods import METHODS

# Whole numbers of this many digits are below 2^63.
_MAX_DIGITS = 18
# Additional help on the syntax of values, by the metavar of the option.
_SYNTAX_HELP = {
    "NAME=A,B,C|JSON": 'As in age=18,65 or region={"North": ["N1", "N2"], "Other": "*"}',
    "NAME=A,B,C": "Put a value that contains a comma in double quotes",
    "NAME=LOW:HIGH": "As in age=0:120 or seen=2020-01-01:2020-12-31",
    "NAME=HIERARCHY": "A CSV or JSON file, table:ref.tree, name:STORED, or JSON such as"
    ' {"intervals": [5, 10]}',
    "A,B=K": "As in age,illness=20. Without =K, the k of the release applies",
    "NAME=KIND:LEVEL": "As in illness=distinct_l:3, illness=recursive_cl:3:l=2 or"
    " illness=t_closeness:0.2:distance=ordered",
}


def click_option(
    parameter: Parameter, parameters: Sequence[Parameter], parameter_name: str = ""
) -> Decorator:
    """Build the click option of a parameter.

    Parameters
    ----------
    parameters : all options of the command; the help text may mention them.
    parameter_name : the keyword argument of the command, if it differs from the option's name.
    """
    help_text = parameter.format_help(
        lambda name: next(
            (flag(candidate) for candidate in parameters if candidate.name == name), name
        )
    )
    settings: KeywordArguments = {"help": help_text}
    default = None if parameter.default is REQUIRED else parameter.default
    # Required lists may also come from a short option such as ``-q``, so click cannot require them.
    if parameter.default is REQUIRED and parameter.kind is not tuple:
        settings["required"] = True
    if parameter.option.flag and parameter.kind in (tuple, Mapping):
        # Options with an explicit flag are repeated, once for each value.
        settings |= {"multiple": True, "metavar": parameter.option.form}
        syntax_help = _SYNTAX_HELP.get(parameter.option.form)
        suffix = f" {syntax_help}. Repeatable." if syntax_help else " Repeatable."
        settings["help"] = help_text + suffix
    elif parameter.kind is tuple:
        settings |= {"type": Names(), "default": ()}
    elif parameter.kind is bool:
        settings["is_flag"] = True
        if default is not False and "default" not in settings:
            # If the default is True or None, the option also needs a --no-… form.
            name = flag(parameter)
            switch = f"{name}/--no-{name.removeprefix('--')}"
            return click.option(
                switch, parameter_name or parameter.name, default=default, **settings
            )
    else:
        settings["type"] = _click_type(parameter)
        settings |= {"metavar": parameter.option.form} if parameter.option.form else {}
        settings |= {} if default is None else {"default": default, "show_default": True}
    return click.option(flag(parameter), parameter_name or parameter.name, **settings)


def _click_type(parameter: Parameter) -> object:
    """Return the type with which click reads the option's value."""
    if parameter.option.choices:
        return click.Choice(parameter.option.choices)
    if parameter.kind in (Chain, DateShift):
        # The option takes the chain's name, whose other fields have separate options, or A,B=DAYS.
        return str
    return Bytes() if parameter.option.unit == "bytes" else parameter.kind


def parse_option_values(
    parameters: Iterable[Parameter], arguments: KeywordArguments
) -> KeywordArguments:
    """Convert the arguments of a command into option values by name.

    Raises
    ------
    InvalidParameter : a text does not have the form that the option requires. The message quotes
        no value of a column.
    """
    options = {
        parameter.name: _parse_value(parameter, arguments[parameter.name])
        for parameter in parameters
    }
    if "options" in options:
        options["options"] = convert_method_options(options["method"], options["options"])
    return options


def parse_table_options(
    parameters: Iterable[Parameter], arguments: KeywordArguments
) -> KeywordArguments:
    """Convert the arguments of a command that reads a table into option values by name.

    Adds the values of the short options ``-q`` and ``-s`` and of ``--order-file``, if the command
    has them. Unless the user sets a memory limit, it is half of the available memory.

    Raises
    ------
    InvalidParameter : as ``parse_option_values`` and ``merge_orders``.
    """
    options = parse_option_values(parameters, arguments)
    for name, short_name in (("quasi_identifiers", "single_q"), ("sensitive", "single_s")):
        if short_name in arguments:
            options[name] += arguments[short_name]
    if "order_files" in arguments:
        options["orders"] = merge_orders(options["orders"], arguments["order_files"])
    if options["memory_limit"] is None:
        options["memory_limit"] = half_of_memory()
    return options


def _parse_value(parameter: Parameter, raw_value: Any) -> Any:
    """Convert the texts of a repeatable option. Click has already converted other values."""
    if parameter.kind is DateShift:
        return None if raw_value is None else parse_date_shift(raw_value)
    # A list or mapping is repeatable if it has an explicit flag.
    if not parameter.option.flag or parameter.kind not in (tuple, Mapping):
        return raw_value
    if parameter.item_type is Model:
        return tuple(parse_model(text) for text in raw_value)
    if parameter.item_type is str and parameter.kind is tuple:
        return tuple(raw_value)
    if parameter.item_type is ColumnSet:
        return tuple(map(parse_column_set, raw_value))
    if parameter.item_type is Export:
        return tuple(map(Export, raw_value))
    pairs = dict(map(split_pair, raw_value))
    if parameter.option.form == "NAME=LOW:HIGH":
        return {name: parse_bounds(text) for name, text in pairs.items()}
    if parameter.name in ("top", "bottom"):
        form = f"a number or a percentile, as in {flag(parameter)} age=2 or age=p99.5"
        return {
            name: text if re.fullmatch(PERCENTILE, text) else _parse_number(text, form)
            for name, text in pairs.items()
        }
    if parameter.item_type is float:
        form = f"a number, as in {flag(parameter)} age=2"
        return {name: _parse_number(text, form) for name, text in pairs.items()}
    if parameter.name == "recode":
        form = f"numbers, as in {flag(parameter)} age=18,65"
        return {
            name: parse_groups(text)
            if text.startswith("{")
            else [_parse_number(number, form) for number in split_list(text)]
            for name, text in pairs.items()
        }
    # Orders map a column to the sequence of its values, lowest first.
    if get_origin(parameter.item_type) is Sequence:
        return {name: split_list(text) for name, text in pairs.items()}
    return pairs


def parse_groups(text: str) -> object:
    """Parse the JSON of groups of values; raises InvalidParameter if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidParameter(
            "The groups of --recode are not JSON.",
            hint="""Write --recode 'region={"North": ["N1", "N2"], "Other": "*"}'.""",
        ) from None


def parse_bounds(text: str) -> tuple[object, object]:
    """Parse LOW:HIGH into its two bounds.

    Times of day contain colons, so split at the middle one.

    Raises
    ------
    InvalidParameter : the text does not have two bounds.
    """
    pieces = text.split(":")
    low, high = (
        ":".join(bound_pieces)
        for bound_pieces in (pieces[: len(pieces) // 2], pieces[len(pieces) // 2 :])
    )
    if len(pieces) % 2 or not low or not high:
        raise InvalidParameter("Write NAME=LOW:HIGH, as in age=0:120.")
    return _parse_number_or_text(low), _parse_number_or_text(high)


def _parse_number_or_text(text: str) -> object:
    """Convert a text to a number if possible."""
    for number_type in (int, float):
        try:
            return number_type(text)
        except ValueError:
            continue
    return text


def _parse_number(text: str, form: str) -> float:
    """Convert a text to a number; ``form`` says what to write in the error message."""
    try:
        return float(text)
    except ValueError:
        raise InvalidParameter(f"Write {form}.") from None


def parse_column_set(text: str) -> ColumnSet:
    """Parse A,B or A,B=K into a set of columns."""
    names, equals, k = text.rpartition("=")
    if not equals:
        names, k = text, ""
    if equals and not _is_whole_number(k):
        raise InvalidParameter("Write A,B or A,B=K, as in --also-k age,illness=20.")
    return ColumnSet(split_list(names), int(k) if equals else None)


def parse_date_shift(text: str) -> DateShift:
    """Parse A,B=DAYS into a shift of dates."""
    names, _, days = text.rpartition("=")
    if not names or not _is_whole_number(days):
        raise InvalidParameter("Write A,B=DAYS, as in --shift-dates admitted,discharged=365.")
    return DateShift(int(days), split_list(names))


def _is_whole_number(text: str) -> bool:
    """Return whether a text is digits that ``int`` converts, which refuses thousands of them."""
    return text.isdecimal() and len(text) <= _MAX_DIGITS


def parse_model(text: str) -> Model:
    """Parse NAME=KIND:LEVEL, optionally followed by l=NUMBER or distance=…, into a model."""
    name, requirement = split_pair(text)
    kind, _, level_text = requirement.partition(":")
    level, _, setting = level_text.partition(":")
    settings: KeywordArguments = {}
    if setting:
        option, value = split_pair(setting)
        if option == "l" and kind == "recursive_cl" and value.isdecimal():
            settings["l"] = int(value)
        elif option == "distance" and kind == "t_closeness":
            settings["distance"] = value
        else:
            raise InvalidParameter(
                "This privacy model does not have this option.",
                hint="recursive_cl takes l=NUMBER, t_closeness takes distance=equal, ordered or"
                " a hierarchy.",
            )
    try:
        return Model(kind, name, float(level), **settings)
    except ValueError:
        raise InvalidParameter("Write NAME=KIND:LEVEL, as in illness=distinct_l:3.") from None


def merge_orders(
    inline_orders: Mapping[str, tuple[str, ...]], files: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Merge orders from the command line with orders from files. Errors quote no value.

    Parameters
    ----------
    inline_orders : maps a column to its values, lowest first.
    files : texts in the form NAME=FILE.

    Raises
    ------
    InvalidParameter : a file cannot be read, or an order is stated twice or has an empty value.
    """
    orders = dict(inline_orders)
    for name, path in map(split_pair, files):
        if name in orders:
            raise InvalidParameter(f'The order of "{name}" is stated twice.')
        try:
            orders[name] = tuple(
                Path(os.path.expanduser(path)).read_text(encoding="utf-8-sig").splitlines()
            )
        except (OSError, ValueError):
            raise InvalidParameter(
                "An order cannot be read.", hint="Name a file that exists, in UTF-8."
            ) from None
    for name, order in orders.items():
        if "" in order:
            raise InvalidParameter(
                f'The order of "{name}" contains an empty value.',
                hint="Write values as a,b,c, or one in each line of a file.",
            )
    return orders


def convert_method_options(method: str, texts: Mapping[str, str]) -> dict[str, object]:
    """Convert option texts to the types that the method declares; leave other texts unchanged."""
    options_by_name = (
        {option.name: option for option in METHODS[method].options} if method in METHODS else {}
    )
    return {
        name: _convert_text(options_by_name[name].kind, text) if name in options_by_name else text
        for name, text in texts.items()
    }


def _convert_text(kind: object, text: str) -> object:
    """Convert a text to a type; return it unchanged if that fails."""
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return kind(text) if callable(kind) else text
    except ValueError:
        return text
