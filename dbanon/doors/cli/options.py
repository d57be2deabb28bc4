"""The command line's form of options: flags from their descriptions, and values from texts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_origin

import click

from dbanon.data.option import REQUIRED, Parameter
from dbanon.doors.cli.support import Bytes, Names, pair, split_list
from dbanon.doors.spelling import flag as flag
from dbanon.errors import InvalidParameter
from dbanon.job.chain import Chain
from dbanon.job.export import Export
from dbanon.job.sets import ColumnSet
from dbanon.measures import Model
from dbanon.methods import METHODS

Decorator = Callable[[Any], Any]

# What more there is to know of how a value is written.
_WRITTEN = {
    "NAME=A,B,C": "Put a value that contains a comma in double quotes",
    "NAME=LOW:HIGH": "As in age=0:120 or seen=2020-01-01:2020-12-31",
    "NAME=HIERARCHY": "A CSV or JSON file, table:ref.tree, name:STORED, or JSON such as"
    ' {"intervals": [5, 10]}',
    "A,B=K": "As in age,illness=20. Without =K, the k of the release applies",
    "NAME=KIND:LEVEL": "As in illness=distinct_l:3, illness=recursive_cl:3:l=2 or"
    " illness=t_closeness:0.2:distance=ordered",
}


def click_option(one: Parameter, known: Sequence[Parameter], named: str = "") -> Decorator:
    """An option as click has it; ``known`` are those that its help may name.

    Parameters
    ----------
    named : the name that the command takes it by, where that is not the option's own.
    """
    told = one.help_with(
        lambda name: next((flag(other) for other in known if other.name == name), name)
    )
    given: dict[str, Any] = {"help": told}
    default = None if one.default is REQUIRED else one.default
    if one.default is REQUIRED and one.kind is not tuple:
        given["required"] = True
    if one.option.flag and one.kind in (tuple, Mapping):
        given |= {"multiple": True, "metavar": one.option.form}
        written = _WRITTEN.get(one.option.form)
        more = f" {written}. Repeatable." if written else " Repeatable."
        given["help"] = told + more
    elif one.kind is tuple:
        given |= {"type": Names(), "default": ()}
    elif one.kind is bool:
        given["is_flag"] = True
        if default is not False and "default" not in given:
            # What is on, or open, can be turned off.
            name = flag(one)
            switch = f"{name}/--no-{name.removeprefix('--')}"
            return click.option(switch, named or one.name, default=default, **given)
    else:
        given["type"] = _type(one)
        given |= {"metavar": one.option.form} if one.option.form else {}
        given |= {} if default is None else {"default": default, "show_default": True}
    return click.option(flag(one), named or one.name, **given)


def _type(one: Parameter) -> Any:
    if one.option.choices:
        return click.Choice(one.option.choices)
    if one.kind is Chain:
        # Its name; the rest has options of its own.
        return str
    return Bytes() if one.option.unit == "bytes" else one.kind


def values(known: Iterable[Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of options by name, of what click read.

    Raises
    ------
    InvalidParameter : a text is not of the option's form. Of values of columns none is told.
    """
    found = {one.name: _value(one, given[one.name]) for one in known}
    if "options" in found:
        found["options"] = method_options(found["method"], found["options"])
    return found


def _value(one: Parameter, given: Any) -> Any:
    if not one.option.flag or one.kind not in (tuple, Mapping):
        return given
    if one.item is Model:
        return tuple(model(text) for text in given)
    if one.item is str and one.kind is tuple:
        return tuple(given)
    if one.item is ColumnSet:
        return tuple(map(column_set, given))
    if one.item is Export:
        return tuple(map(Export, given))
    pairs = dict(map(pair, given))
    if one.option.form == "NAME=LOW:HIGH":
        return {name: ends(text) for name, text in pairs.items()}
    if one.item is float:
        return {name: _number(flag(one), text) for name, text in pairs.items()}
    if get_origin(one.item) is Sequence:
        return {name: order(text) for name, text in pairs.items()}
    return pairs


def order(text: str) -> tuple[str, ...]:
    """The values that A,B,C states, from the lowest to the highest."""
    return split_list(text)


def ends(text: str) -> tuple[Any, Any]:
    """The two sides of LOW:HIGH; a time of day has colons of its own.

    Raises
    ------
    InvalidParameter : there are no two.
    """
    parts = text.split(":")
    low, high = (":".join(half) for half in (parts[: len(parts) // 2], parts[len(parts) // 2 :]))
    if len(parts) % 2 or not low or not high:
        raise InvalidParameter("Write NAME=LOW:HIGH, as in age=0:120.")
    return _value_of(low), _value_of(high)


def _value_of(text: str) -> Any:
    """A number where it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidParameter(f"Write a number, as in {option} age=2.") from None


def column_set(given: str) -> ColumnSet:
    """The set of columns that A,B or A,B=K says."""
    names, equals, k = given.rpartition("=")
    if not equals:
        names, k = given, ""
    if equals and not k.isdecimal():
        raise InvalidParameter("Write A,B or A,B=K, as in --also-k age,illness=20.")
    return ColumnSet(order(names), int(k) if equals else None)


def model(given: str) -> Model:
    """The privacy model that NAME=KIND:LEVEL says, with l=NUMBER or distance=… after it."""
    name, wish = pair(given)
    kind, _, rest = wish.partition(":")
    level, _, detail = rest.partition(":")
    more: dict[str, Any] = {}
    if detail:
        option, value = pair(detail)
        if option == "l" and kind == "recursive_cl" and value.isdecimal():
            more["l"] = int(value)
        elif option == "distance" and kind == "t_closeness":
            more["distance"] = value
        else:
            raise InvalidParameter(
                "This privacy model does not have this option.",
                hint="recursive_cl takes l=NUMBER, t_closeness takes distance=equal, ordered or"
                " a hierarchy.",
            )
    try:
        return Model(kind, name, float(level), **more)
    except ValueError:
        raise InvalidParameter("Write NAME=KIND:LEVEL, as in illness=distinct_l:3.") from None


def with_files(
    stated: Mapping[str, tuple[str, ...]], files: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The orders that were stated and those of NAME=FILE; of the values none is told in an error.

    Raises
    ------
    InvalidParameter : a file cannot be read, an order is stated twice or holds an empty value.
    """
    found = dict(stated)
    for name, path in map(pair, files):
        if name in found:
            raise InvalidParameter(f'The order of "{name}" is stated twice.')
        try:
            found[name] = tuple(
                Path(os.path.expanduser(path)).read_text(encoding="utf-8-sig").splitlines()
            )
        except (OSError, ValueError):
            raise InvalidParameter(
                "An order cannot be read.", hint="Name a file that exists, in UTF-8."
            ) from None
    for name, order in found.items():
        if "" in order:
            raise InvalidParameter(
                f'The order of "{name}" holds an empty value.',
                hint="Write values as a,b,c, or one in each line of a file.",
            )
    return found


def method_options(method: str, given: Mapping[str, str]) -> dict[str, Any]:
    """Options in the types that the method declares; a text that is of no such type stays one."""
    known = {one.name: one for one in METHODS[method].options} if method in METHODS else {}
    return {
        name: _typed(known[name].kind, text) if name in known else text
        for name, text in given.items()
    }


def _typed(kind: Any, text: str) -> Any:
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return kind(text)
    except ValueError:
        return text
