"""Options, each described in one place for all interfaces.

An option is a field of a frozen dataclass; its annotation describes it for all interfaces::

    seed: Annotated[int, Option("Random seed.", minimum=0)] = 0

From this line follow the check of values, the command line flag, the key and help text in SQL, the
signature in Python, the row in ``docs/`` and the entry in the ledger. The parameters of a method
are ``Parameter`` objects, which also have an ``Option``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, cached_property
from numbers import Real
from types import MappingProxyType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidParameter, nearest_names

if TYPE_CHECKING:
    from inspect import Signature

    from dbanon.data.frozen import DataclassInstance

OptionsT = TypeVar("OptionsT", bound="DataclassInstance")

# The default of an option that must be set.
REQUIRED = MISSING

_SINGULAR_NAMES: dict[object, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
}
_PLURAL_NAMES: dict[object, str] = {
    int: "whole numbers",
    float: "numbers",
    bool: "true or false values",
    str: "texts",
}


@dataclass(frozen=True)
class Option:
    """The description of an option, apart from its type and default.

    Parameters
    ----------
    help : what the option does, without type and default. Names of other options are in backticks,
        so that each interface can write them in its own form.
    minimum, maximum : limits of a number, or of each number in a list or mapping.
    excludes_minimum : True if the number must be above the minimum.
    choices : the allowed texts.
    pattern : a regular expression for the full text, or for each text in a list or mapping.
    expected : a description of allowed values, if type and limits do not suffice.
    hint : the hint of the error about a wrong value; empty to use the help.
    item : the plural name of the items of a list or mapping, for messages; empty to use the name of
        their type.
    flag : the option's name on the command line, if it differs from the name in Python, such as the
        singular for a list whose items are given by repeating the option; empty if it is the same.
    form : the format of a value on the command line, such as ``NAME=NUMBER``.
    unit : ``bytes`` for amounts of memory; empty otherwise.
    concerns_release : True if the option concerns released data, so that functions that only build
        classes do not have it.
    available_in_sql : True if the JSON argument of SQL functions may have the option as a key.
    is_secret : True if the option contains values of columns. The ledger then records only how many
        there are.
    docs_page : the page in ``docs/`` with details.
    """

    help: str
    minimum: float | None = None
    maximum: float | None = None
    excludes_minimum: bool = False
    choices: tuple[str, ...] = ()
    pattern: str = ""
    expected: str = ""
    hint: str = ""
    item: str = ""
    flag: str = ""
    form: str = ""
    unit: str = ""
    concerns_release: bool = False
    available_in_sql: bool = True
    is_secret: bool = False
    docs_page: str = ""


@dataclass(frozen=True)
class Parameter:
    """An option with its name, type and default.

    Parameters
    ----------
    name : the option's name in Python.
    type : the annotated type: ``int``, ``float``, ``bool``, ``str``, another class, or a tuple or
        mapping of these; it may allow None.
    default : the default value; ``REQUIRED`` if the option must be set.
    option : the description.
    """

    name: str
    type: object
    default: object
    option: Option

    @cached_property
    def nullable(self) -> bool:
        """True if None is an allowed value."""
        return NoneType in get_args(self.type)

    @property
    def kind(self) -> object:
        """The type without None; ``tuple`` for a list, ``Mapping`` for a mapping."""
        return get_origin(self._type_without_none) or self._type_without_none

    @property
    def item_type(self) -> object:
        """The type of the items of a list or mapping; None for other types."""
        return _item_type(self._type_without_none) if self.kind in (tuple, Mapping) else None

    @property
    def help(self) -> str:
        """The help for Python and SQL, where names of other options are written as they are."""
        return self.format_help(lambda name: name)

    @property
    def expected(self) -> str:
        """A description of the allowed values."""
        return self.option.expected or _describe_type(self._type_without_none, self.option)

    @property
    def default_text(self) -> str:
        """The default as text; empty if it is not a number or a text, or if there is none."""
        if isinstance(self.default, bool):
            return str(self.default).lower()
        has_plain_default = isinstance(self.default, (int, float, str)) and self.default != ""
        return str(self.default) if has_plain_default else ""

    def format_help(self, write_name: Callable[[str], str]) -> str:
        """Format the help.

        Parameters
        ----------
        write_name : a function that formats the name of another option that the help mentions.
        """
        return re.sub(r"`(\w+)`", lambda match: write_name(match[1]), self.option.help)

    def check(self, value: object, display_name: str = "") -> Any:
        """Check and normalize a value.

        Lists become tuples, mappings become read-only, and numpy scalars become Python numbers. If
        the type is a mapping, None means an empty one.

        Parameters
        ----------
        display_name : the option's name in messages; empty to use ``name``.

        Raises
        ------
        InvalidParameter : the value has another type or is out of range.
        """
        if value is None and self.nullable:
            return None
        try:
            return _normalize(
                self._type_without_none,
                {} if value is None and self.kind is Mapping else value,
                self.option,
            )
        except _NotAllowedError:
            raise self.refusal_error(display_name, value) from None

    def refusal_error(self, display_name: str = "", value: object = None) -> InvalidParameter:
        """Build the error for a wrong value, without quoting the value."""
        hint = self.option.hint or self.option.help
        if self.kind is tuple and isinstance(value, (str, bytes)):
            hint = f'Write `{display_name or self.name}=["…"]`, even for a single value.'
        return InvalidParameter(f"{display_name or self.name} must be {self.expected}.", hint=hint)

    @cached_property
    def _type_without_none(self) -> object:
        """The type, without None if it allows None."""
        types = [member for member in get_args(self.type) if member is not NoneType]
        return types[0] if self.nullable and len(types) == 1 else self.type


def parameters(options_class: type[DataclassInstance]) -> tuple[Parameter, ...]:
    """Return the options of a dataclass in the order of its fields, without its other fields."""
    return _parameters(options_class)


def all_parameters(options_class: type[DataclassInstance]) -> tuple[Parameter, ...]:
    """Return the options of a dataclass, including those of fields that are dataclasses themselves.

    The options of a nested dataclass are listed in place of its field.
    """
    return _all_parameters(options_class)


def docstring_paragraphs(options: Iterable[Parameter]) -> str:
    """Format a paragraph for each option, as in the section on parameters of a docstring."""
    from textwrap import fill

    paragraphs = []
    for param in options:
        choices = f" One of {', '.join(param.option.choices)}." if param.option.choices else ""
        default = f" Default: {param.default_text}." if param.default_text else ""
        text = f"{param.name} : {param.help}{choices}{default}"
        paragraphs.append(fill(text, 92, subsequent_indent="    ", break_long_words=False))
    return "\n".join(paragraphs)


class _DocWithOptions:
    """A docstring with options.

    It is built on access, because each connection to a PostgreSQL server imports the module anew.
    """

    def __init__(self, doc: str) -> None:
        self._doc = doc

    def __get__(self, instance: object, owner: type[DataclassInstance]) -> str:
        from inspect import cleandoc

        options = docstring_paragraphs(parameters(owner))
        return f"{cleandoc(self._doc)}\n\nOptions\n-------\n{options}"


class _SignatureOfTypes:
    """The signature of a dataclass, whose annotations are the types without their ``Option``."""

    def __init__(self, signature: Any) -> None:
        self._signature = signature

    def __get__(self, instance: object, owner: type[object]) -> Signature:
        signature: Signature = self._signature.__get__(instance, owner)
        hints = get_type_hints(owner)
        typed_parameters = [
            parameter.replace(annotation=hints[name])
            for name, parameter in signature.parameters.items()
        ]
        return signature.replace(parameters=typed_parameters)


def document_options(options_class: type[OptionsT]) -> type[OptionsT]:
    """Append the options of a dataclass to its docstring, for ``help()``."""
    options_class.__doc__ = _DocWithOptions(options_class.__doc__ or "")  # type: ignore[assignment]
    # The descriptor of ``data.frozen``, which builds the signature when it is read.
    signature = vars(options_class)["__signature__"]
    options_class.__signature__ = _SignatureOfTypes(signature)  # type: ignore[attr-defined]
    return options_class


def build_options(options_class: type[OptionsT], arguments: Mapping[str, object]) -> OptionsT:
    """Build a dataclass from options by name, including the options of nested dataclasses.

    Raises
    ------
    TypeError : a name is not that of an option, or a required option is missing.
    InvalidParameter : a value has another type or is out of range.
    """
    field_types = _field_types(options_class)
    remaining = dict(arguments)
    for field in fields(options_class):
        field_type = field_types[field.name]
        if (
            is_dataclass(field_type)
            and isinstance(field_type, type)
            and field.name not in remaining
        ):
            nested_names = [param.name for param in all_parameters(field_type)]
            nested_arguments = {
                name: remaining.pop(name) for name in nested_names if name in remaining
            }
            remaining[field.name] = build_options(field_type, nested_arguments)
    for name in remaining:
        if name not in field_types:
            suggestion = nearest_names(
                name, [param.name for param in all_parameters(options_class)]
            )
            raise TypeError(f"There is no option {name!r}. {suggestion or ''}".rstrip())
    return options_class(**remaining)


@cache
def _all_parameters(options_class: type[DataclassInstance]) -> tuple[Parameter, ...]:
    """``all_parameters``, cached."""
    field_types = _field_types(options_class)
    params: list[Parameter] = []
    for field in fields(options_class):
        field_type = field_types[field.name]
        if is_dataclass(field_type) and isinstance(field_type, type):
            params += all_parameters(field_type)
        else:
            params += [param for param in parameters(options_class) if param.name == field.name]
    return tuple(params)


@cache
def _field_types(options_class: type[DataclassInstance]) -> Mapping[str, object]:
    """The types of all fields by name, without ``Annotated``."""
    return {
        name: get_args(hint)[0] if get_origin(hint) is Annotated else hint
        for name, hint in _annotated_types(options_class).items()
    }


@cache
def _annotated_types(options_class: type[DataclassInstance]) -> Mapping[str, object]:
    """The types of all fields by name, with ``Annotated``."""
    return get_type_hints(options_class, include_extras=True)


@cache
def _parameters(options_class: type[DataclassInstance]) -> tuple[Parameter, ...]:
    """``parameters``, cached."""
    annotated_types = _annotated_types(options_class)
    params = []
    for field in fields(options_class):
        annotated = annotated_types[field.name]
        for option in get_args(annotated)[1:] if get_origin(annotated) is Annotated else ():
            if isinstance(option, Option):
                default = field.default
                if field.default_factory is not MISSING:
                    default = field.default_factory()
                params.append(Parameter(field.name, get_args(annotated)[0], default, option))
    return tuple(params)


def find_parameter(options_class: type[DataclassInstance], name: str) -> Parameter:
    """Return the option with this name, which must exist."""
    [match] = [param for param in parameters(options_class) if param.name == name]
    return match


def check_options(instance: DataclassInstance) -> None:
    """Check all options of a new frozen dataclass, and store their normalized values.

    Raises
    ------
    InvalidParameter : a value has another type or is out of range.
    """
    for param in parameters(type(instance)):
        object.__setattr__(instance, param.name, param.check(getattr(instance, param.name)))


class _NotAllowedError(Exception):
    """A value is not allowed."""


def _normalize(kind: object, value: object, option: Option) -> object:
    """Check a value of a type ``kind``, and normalize it as ``Parameter.check`` describes.

    Raises ``_NotAllowedError``.
    """
    if isinstance(value, np.generic):
        value = value.item()
    origin = get_origin(kind)
    # Callers convert values of other alternatives, such as hierarchies, themselves.
    if origin in (Union, UnionType) and any(
        hasattr(a, "plain_types") or (a is str and option.pattern) for a in get_args(kind)
    ):
        return _normalize_alternatives(kind, value, option)
    if origin in (tuple, Sequence):
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise _NotAllowedError
        item_type = get_args(kind)[0]
        return tuple([_normalize(item_type, item, option) for item in value])
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise _NotAllowedError
        item_type = get_args(kind)[1]
        return MappingProxyType(
            {name: _normalize(item_type, item, option) for name, item in value.items()}
        )
    if kind in (int, float):
        return _normalize_number(kind, value, option)
    # Classes such as ``Model`` (privacy models) build themselves from plain values, as in JSON;
    # ``plain_types`` are the types of these values, if not only mappings.
    plain_types = getattr(kind, "plain_types", Mapping)
    if hasattr(kind, "from_plain") and isinstance(value, plain_types):
        return kind.from_plain(value)
    if kind is not Any and isinstance(kind, type) and not isinstance(value, kind):
        raise _NotAllowedError
    if kind is str and (
        not isinstance(value, str)
        or not is_text(value)
        or (option.choices and value not in option.choices)
        or (option.pattern and not re.fullmatch(option.pattern, value))
    ):
        raise _NotAllowedError
    return value


def _normalize_alternatives(kind: object, value: object, option: Option) -> object:
    """Normalize a value of one of several types; raises ``_NotAllowedError``."""
    for alternative in get_args(kind):
        try:
            return _normalize(alternative, value, option)
        except _NotAllowedError:
            continue
    raise _NotAllowedError


def is_text(value: str) -> bool:
    """False for text with unpaired surrogates, which no database, file or terminal accepts."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _normalize_number(kind: type, value: Any, option: Option) -> Any:
    """Convert a number to this type and check its limits; raises ``_NotAllowedError``."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _NotAllowedError
    try:
        number = float(value)
    except OverflowError:
        raise _NotAllowedError from None
    if not math.isfinite(number):
        raise _NotAllowedError
    if kind is int and not isinstance(value, int):
        if not number.is_integer():
            raise _NotAllowedError
        value = int(number)
    low, high = option.minimum, option.maximum
    if low is not None and (value < low or (option.excludes_minimum and value == low)):
        raise _NotAllowedError
    if high is not None and value > high:
        raise _NotAllowedError
    return value


def _item_type(kind: object) -> object:
    """The type of the items of a list or mapping."""
    type_arguments = get_args(kind)
    return type_arguments[1] if get_origin(kind) is Mapping else type_arguments[0]


def _describe_type(kind: object, option: Option) -> str:
    """Describe the allowed values in words, such as ``a number above 0``."""
    origin = get_origin(kind)
    if origin is tuple:
        item_names = "names" if _item_type(kind) is str else _pluralize(_item_type(kind))
        return f"a list of {option.item or item_names}"
    if origin is Mapping:
        return (
            f"{option.item or _pluralize(_item_type(kind))} by"
            f" column{_describe_limits(option, ', each ')}"
        )
    if option.choices:
        return "one of " + ", ".join(option.choices)
    return _SINGULAR_NAMES.get(kind, "a value") + _describe_limits(option)


def _pluralize(kind: object) -> str:
    """The plural name of a type, such as ``whole numbers``."""
    if get_origin(kind) is not None:
        return f"lists of {_pluralize(_item_type(kind))}"
    if kind in _PLURAL_NAMES:
        return _PLURAL_NAMES[kind]
    return f"{kind.__name__.lower()}s" if kind is not Any and isinstance(kind, type) else "values"


def _describe_limits(option: Option, separator: str = " ") -> str:
    """Describe the limits of a number, prefixed with a separator; empty if there are none."""
    low, high = option.minimum, option.maximum
    if low is not None and high is not None:
        return f"{separator}from {low:g} to {high:g}"
    if low is not None and option.excludes_minimum:
        return f"{separator}above {low:g}"
    if low is not None:
        # A space does not suffice before a number: "a number, 1 or more".
        return f"{separator if separator.strip() else ', '}{low:g} or more"
    return ""
