"""Options, described in one place.

An option is a field of a frozen dataclass, annotated with what every interface needs to know::

    seed: Annotated[int, Option("Random seed.", minimum=0)] = 0

From this line come its check, the command line's flag, the key and help text of a call in SQL, the
signature in Python, the row in ``docs/`` and the entry in the ledger. Parameters of a method are
described in the same way, as ``Parameter`` objects.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from numbers import Real
from types import MappingProxyType, NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidParameter, nearest_names

Described = TypeVar("Described")

# The default of an option that must be set.
REQUIRED = MISSING

_SINGULAR = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_PLURAL = {int: "whole numbers", float: "numbers", bool: "truths", str: "texts"}


@dataclass(frozen=True)
class Option:
    """The description of an option, apart from its type and default.

    Parameters
    ----------
    help : what it does, without type and default. Names of other options are in backticks, so that
        each interface can write them in its own form.
    minimum, maximum : limits of a number, or of each number in a list or mapping.
    above : the number must be above the minimum.
    choices : the allowed texts.
    pattern : a regular expression for the full text, or for each text in a list or mapping.
    expected : a description of allowed values, if type and limits do not suffice.
    hint : the hint of the error about a wrong value; empty for the help.
    item : the items of a list or mapping, if their type does not say it.
    flag : its name on the command line if it differs, as for options that are repeated there.
    form : the form of a value there, such as ``NAME=NUMBER``.
    unit : ``bytes`` for amounts of memory.
    release : it concerns released data; calls that only build classes do not have it.
    sql : False if calls in SQL express it in another way.
    secret : it holds values of columns; the ledger records only how many.
    see : the page in ``docs/`` with details.
    """

    help: str
    minimum: float | None = None
    maximum: float | None = None
    above: bool = False
    choices: tuple[str, ...] = ()
    pattern: str = ""
    expected: str = ""
    hint: str = ""
    item: str = ""
    flag: str = ""
    form: str = ""
    unit: str = ""
    release: bool = False
    sql: bool = True
    secret: bool = False
    see: str = ""


@dataclass(frozen=True)
class Parameter:
    """An option with its name, type and default.

    Parameters
    ----------
    type : as annotated: ``int``, ``float``, ``bool``, ``str``, another class, or a tuple or mapping
        of these; may allow None.
    default : ``REQUIRED`` if the option must be set.
    """

    name: str
    type: Any
    default: Any
    option: Option

    @property
    def nullable(self) -> bool:
        """True if None is an allowed value."""
        return NoneType in get_args(self.type)

    @property
    def kind(self) -> Any:
        """The type without None; ``tuple`` for a list, ``Mapping`` for a mapping."""
        return get_origin(self._inner) or self._inner

    @property
    def item(self) -> Any:
        """The type of the items of a list or mapping; None for other types."""
        return _item(self._inner) if self.kind in (tuple, Mapping) else None

    @property
    def help(self) -> str:
        """The help; other options have their names in Python and SQL."""
        return self.help_with(lambda name: name)

    @property
    def expected(self) -> str:
        """A description of the allowed values."""
        return self.option.expected or _words(self._inner, self.option)

    @property
    def by_default(self) -> str:
        """The default as text; empty if there is none, or if it needs no mention."""
        if isinstance(self.default, bool):
            return str(self.default).lower()
        is_worth_showing = isinstance(self.default, (int, float, str)) and self.default != ""
        return str(self.default) if is_worth_showing else ""

    def help_with(self, write_name: Callable[[str], str]) -> str:
        """The help; ``write_name`` writes the name of another option."""
        return re.sub(r"`(\w+)`", lambda match: write_name(match[1]), self.option.help)

    def check(self, value: Any, called: str = "") -> Any:
        """Check and normalize a value: lists to tuples, mappings frozen, numpy scalars to Python.

        For a mapping, None means an empty one.

        Raises
        ------
        InvalidParameter : the value has another type or is out of range. ``called`` is the
            option's name in the message.
        """
        if value is None and self.nullable:
            return None
        try:
            return _normalized(
                self._inner, {} if value is None and self.kind is Mapping else value, self.option
            )
        except _WrongError:
            raise self.refusal(called, value) from None

    def refusal(self, called: str = "", value: Any = None) -> InvalidParameter:
        """Build the error for a wrong value; the message omits the value."""
        hint = self.option.hint or self.option.help
        if self.kind is tuple and isinstance(value, (str, bytes)):
            hint = f'Write `{called or self.name}=["…"]`, also where it is one.'
        return InvalidParameter(f"{called or self.name} must be {self.expected}.", hint=hint)

    @property
    def _inner(self) -> Any:
        parts = [part for part in get_args(self.type) if part is not NoneType]
        return parts[0] if self.nullable and len(parts) == 1 else self.type


def parameters(described: type[Any]) -> tuple[Parameter, ...]:
    """The options of a dataclass in field order; fields without an ``Option`` are left out."""
    key: Any = described
    return _parameters(key)


def all_parameters(described: type[Any]) -> tuple[Parameter, ...]:
    """As ``parameters``, with the options of nested dataclasses in place of their fields."""
    key: Any = described
    return _all_parameters(key)


def in_docstring(options: Iterable[Parameter]) -> str:
    """A paragraph per option, in the form of a docstring's parameters."""
    from textwrap import fill

    paragraphs = []
    for param in options:
        choices = f" One of {', '.join(param.option.choices)}." if param.option.choices else ""
        default = f" Default: {param.by_default}." if param.by_default else ""
        text = f"{param.name} : {param.help}{choices}{default}"
        paragraphs.append(fill(text, 92, subsequent_indent="    ", break_long_words=False))
    return "\n".join(paragraphs)


class _DocWithOptions:
    """A docstring built on first access, since each server connection loads the class."""

    def __init__(self, doc: str) -> None:
        self._doc = doc

    def __get__(self, instance: object, owner: type[Any]) -> str:
        from inspect import cleandoc

        options = in_docstring(parameters(owner))
        return f"{cleandoc(self._doc)}\n\nOptions\n-------\n{options}"


class _SignatureOfTypes:
    """The signature of a dataclass without the ``Option`` annotations of its fields."""

    def __init__(self, signature: Any) -> None:
        self._signature = signature

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        signature, hints = self._signature.__get__(instance, owner), get_type_hints(owner)
        typed = [
            field.replace(annotation=hints[name]) for name, field in signature.parameters.items()
        ]
        return signature.replace(parameters=typed)


def documents_options(described: type[Described]) -> type[Described]:
    """Append the options of a dataclass to its docstring, for ``help()``."""
    described.__doc__ = _DocWithOptions(described.__doc__ or "")  # type: ignore[assignment]
    signature = vars(described)["__signature__"]
    described.__signature__ = _SignatureOfTypes(signature)  # type: ignore[attr-defined]
    return described


def make(described: type[Described], arguments: Mapping[str, Any]) -> Described:
    """Build the dataclass from options by name, including those of nested dataclasses.

    Raises
    ------
    TypeError : a name is no option, or a required option is missing.
    InvalidParameter : as ``check``.
    """
    key: Any = described
    hints = _hints(key)
    remaining = dict(arguments)
    for field in fields(described):  # type: ignore[arg-type]
        kind = hints[field.name]
        if is_dataclass(kind) and field.name not in remaining:
            nested_names = [param.name for param in all_parameters(kind)]  # type: ignore[arg-type]
            nested_arguments = {
                name: remaining.pop(name) for name in nested_names if name in remaining
            }
            remaining[field.name] = make(kind, nested_arguments)  # type: ignore[arg-type]
    for name in remaining:
        if name not in hints:
            near = nearest_names(name, [param.name for param in all_parameters(described)])
            raise TypeError(f"There is no option {name!r}. {near or ''}".rstrip())
    return described(**remaining)


@cache
def _all_parameters(described: Any) -> tuple[Parameter, ...]:
    hints = _hints(described)
    params: list[Parameter] = []
    for field in fields(described):
        if is_dataclass(hints[field.name]):
            params += all_parameters(hints[field.name])
        else:
            params += [param for param in parameters(described) if param.name == field.name]
    return tuple(params)


@cache
def _hints(described: Any) -> Mapping[str, Any]:
    return {
        name: get_args(hint)[0] if get_origin(hint) is Annotated else hint
        for name, hint in _annotations(described).items()
    }


@cache
def _annotations(described: Any) -> Mapping[str, Any]:
    return get_type_hints(described, include_extras=True)


@cache
def _parameters(described: Any) -> tuple[Parameter, ...]:
    hints = _annotations(described)
    params = []
    for field in fields(described):
        annotated = hints[field.name]
        for option in get_args(annotated)[1:] if get_origin(annotated) is Annotated else ():
            if isinstance(option, Option):
                default = field.default
                if field.default_factory is not MISSING:
                    default = field.default_factory()
                params.append(Parameter(field.name, get_args(annotated)[0], default, option))
    return tuple(params)


def parameter(described: type[Any], name: str) -> Parameter:
    """The option of this name."""
    [match] = [param for param in parameters(described) if param.name == name]
    return match


def check(instance: Any) -> None:
    """Check all options of a new frozen dataclass, and store their normalized values.

    Raises
    ------
    InvalidParameter : a value has another type or is out of range.
    """
    for param in parameters(type(instance)):
        object.__setattr__(instance, param.name, param.check(getattr(instance, param.name)))


class _WrongError(Exception):
    """A value is not allowed."""


def _normalized(kind: Any, value: Any, option: Option) -> Any:
    """The value in plain types; raises _WrongError."""
    if isinstance(value, np.generic):
        value = value.item()
    origin = get_origin(kind)
    if origin in (tuple, Sequence):
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise _WrongError
        return tuple(_normalized(_item(kind), part, option) for part in value)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise _WrongError
        item = _item(kind)
        return MappingProxyType(
            {name: _normalized(item, part, option) for name, part in value.items()}
        )
    if kind in (int, float):
        return _number(kind, value, option)
    plain = getattr(kind, "plain_types", Mapping)
    if hasattr(kind, "from_plain") and isinstance(value, plain):
        return kind.from_plain(value)
    if kind is not Any and isinstance(kind, type) and not isinstance(value, kind):
        raise _WrongError
    if kind is str and not (is_text(value) and _is_allowed(value, option)):
        raise _WrongError
    return value


def _is_allowed(value: str, option: Option) -> bool:
    if option.choices and value not in option.choices:
        return False
    return not option.pattern or bool(re.fullmatch(option.pattern, value))


def is_text(value: str) -> bool:
    """False for text with unpaired surrogates, which no database, file or terminal accepts."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(kind: type, value: Any, option: Option) -> Any:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _WrongError
    try:
        number = float(value)
    except OverflowError:
        raise _WrongError from None
    if not math.isfinite(number):
        raise _WrongError
    if kind is int and not isinstance(value, int):
        if not number.is_integer():
            raise _WrongError
        value = int(number)
    low, high = option.minimum, option.maximum
    if low is not None and (value < low or (option.above and value == low)):
        raise _WrongError
    if high is not None and value > high:
        raise _WrongError
    return value


def _item(kind: Any) -> Any:
    """The type of the items of a list or mapping."""
    type_arguments = get_args(kind)
    return type_arguments[1] if get_origin(kind) is Mapping else type_arguments[0]


def _words(kind: Any, option: Option) -> str:
    origin = get_origin(kind)
    if origin is tuple:
        names = "names" if _item(kind) is str else _plural(_item(kind))
        return f"a list of {option.item or names}"
    if origin is Mapping:
        return f"{option.item or _plural(_item(kind))} by column{_limits(option, ', each ')}"
    if option.choices:
        return "one of " + ", ".join(option.choices)
    return _SINGULAR.get(kind, "a value") + _limits(option)


def _plural(kind: Any) -> str:
    if get_origin(kind) is not None:
        return f"lists of {_plural(_item(kind))}"
    if kind in _PLURAL:
        return _PLURAL[kind]
    return f"{kind.__name__.lower()}s" if kind is not Any and isinstance(kind, type) else "values"


def _limits(option: Option, before: str = " ") -> str:
    low, high = option.minimum, option.maximum
    if low is not None and high is not None:
        return f"{before}from {low:g} to {high:g}"
    if low is not None and option.above:
        return f"{before}above {low:g}"
    if low is not None:
        return f"{before if before.strip() else ', '}{low:g} or more"
    return ""
