"""What an option is, told once.

An option is a field of a frozen dataclass, annotated with what every door needs to know of it::

    seed: Annotated[int, Option("Random seed.", minimum=0)] = 0

From this line come its check, the command line's flag, the key and the help of a call in SQL, the
signature in Python, the row in ``docs/`` and the entry in the ledger. A method's own parameters
are told with the same words, as ``Parameter``s.
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

Made = TypeVar("Made")

# The default of an option that has none.
REQUIRED = MISSING

_ONE = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_MANY = {int: "whole numbers", float: "numbers", bool: "truths", str: "texts"}


@dataclass(frozen=True)
class Option:
    """What a field says of its option, beside type and default.

    Parameters
    ----------
    help : what it does, without its type and default. Names of other options stand in backticks,
        which each door writes in its own way.
    minimum, maximum : of a number, or of each number in it.
    above : the number must be above the minimum.
    choices : the texts that are allowed.
    pattern : what all of a text must match; of a list or mapping, each text in it.
    expected : what a value must be, in words, where type and limits do not say it.
    hint : of a refusal; the help where there is none.
    item : what a list or mapping holds, where its type does not say it.
    flag : its name on the command line, where that is another: one of what is repeated there.
    form : how a value is written there, such as ``NAME=NUMBER``.
    unit : ``bytes`` for amounts of memory.
    release : it is about what is released; calls that give classes alone do not take it.
    sql : False for what calls in SQL say in another way.
    secret : it holds values of columns, of which the ledger gets no more than their number.
    see : where ``docs/`` say more.
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
    """An option with its name, type and default: a field as it was described.

    Parameters
    ----------
    type : as annotated: ``int``, ``float``, ``bool``, ``str``, another class, a tuple or a mapping
        of these; or None is allowed, too.
    default : ``REQUIRED`` where there is none.
    """

    name: str
    type: Any
    default: Any
    option: Option

    @property
    def nullable(self) -> bool:
        """True when None is a value."""
        return NoneType in get_args(self.type)

    @property
    def kind(self) -> Any:
        """The type, without None; of a list or mapping ``tuple`` or ``Mapping``."""
        return get_origin(self._inner) or self._inner

    @property
    def item(self) -> Any:
        """The type of what a list or mapping holds; None for others."""
        return _item(self._inner) if self.kind in (tuple, Mapping) else None

    @property
    def help(self) -> str:
        """The help, with other options by their names in Python and SQL."""
        return self.help_with(lambda name: name)

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        return self.option.expected or _words(self._inner, self.option)

    @property
    def by_default(self) -> str:
        """The default in words; empty where there is none, or none that says more."""
        if isinstance(self.default, bool):
            return str(self.default).lower()
        told = isinstance(self.default, (int, float, str)) and self.default != ""
        return str(self.default) if told else ""

    def help_with(self, named: Callable[[str], str]) -> str:
        """The help; ``named`` writes the name of another option."""
        return re.sub(r"`(\w+)`", lambda found: named(found[1]), self.option.help)

    def check(self, value: Any, called: str = "") -> Any:
        """The value as it is kept: lists as tuples, mappings frozen, numpy's numbers as Python's.

        None is an empty mapping, too.

        Raises
        ------
        InvalidParameter : the value has another type or is out of range. ``called`` is the
            option's name in the message.
        """
        if value is None and self.nullable:
            return None
        try:
            return _kept(self._inner, {} if value is None and self.kind is Mapping else value,
                         self.option)  # fmt: skip
        except _WrongError:
            raise self.refusal(called, value) from None

    def refusal(self, called: str = "", value: Any = None) -> InvalidParameter:
        """The error of a value that is wrong; the value is not told."""
        hint = self.option.hint or self.option.help
        if self.kind is tuple and isinstance(value, (str, bytes)):
            hint = f'Write `{called or self.name}=["…"]`, also where it is one.'
        return InvalidParameter(f"{called or self.name} must be {self.expected}.", hint=hint)

    @property
    def _inner(self) -> Any:
        parts = [part for part in get_args(self.type) if part is not NoneType]
        return parts[0] if self.nullable and len(parts) == 1 else self.type


def parameters(described: type[Any]) -> tuple[Parameter, ...]:
    """The options of a dataclass, in the order of its fields; other fields are no options."""
    key: Any = described
    return _parameters(key)


def all_parameters(described: type[Any]) -> tuple[Parameter, ...]:
    """The same, and in their places those of fields that are dataclasses with options."""
    key: Any = described
    return _all_parameters(key)


def in_docstring(options: Iterable[Parameter]) -> str:
    """A paragraph of each option, as docstrings have parameters."""
    from textwrap import fill

    paragraphs = []
    for one in options:
        choices = f" One of {', '.join(one.option.choices)}." if one.option.choices else ""
        default = f" Default: {one.by_default}." if one.by_default else ""
        text = f"{one.name} : {one.help}{choices}{default}"
        paragraphs.append(fill(text, 92, subsequent_indent="    ", break_long_words=False))
    return "\n".join(paragraphs)


class _DocWithOptions:
    """A docstring that is made when somebody reads it: each connection of a server loads it."""

    def __init__(self, doc: str) -> None:
        self._doc = doc

    def __get__(self, instance: object, owner: type[Any]) -> str:
        from inspect import cleandoc

        options = in_docstring(parameters(owner))
        return f"{cleandoc(self._doc)}\n\nOptions\n-------\n{options}"


class _SignatureOfTypes:
    """A dataclass's signature without what its fields say of their options."""

    def __init__(self, signature: Any) -> None:
        self._signature = signature

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        signature, hints = self._signature.__get__(instance, owner), get_type_hints(owner)
        named = [one.replace(annotation=hints[name]) for name, one in signature.parameters.items()]
        return signature.replace(parameters=named)


def documents_options(described: type[Made]) -> type[Made]:
    """Let the docstring of a dataclass end with its options, for ``help()``."""
    described.__doc__ = _DocWithOptions(described.__doc__ or "")  # type: ignore[assignment]
    own = vars(described)["__signature__"]
    described.__signature__ = _SignatureOfTypes(own)  # type: ignore[attr-defined]
    return described


def make(described: type[Made], given: Mapping[str, Any]) -> Made:
    """The dataclass, made of options by name, also of those of fields that are dataclasses.

    Raises
    ------
    TypeError : a name is no option, or one is missing, as of a function that is called.
    InvalidParameter : as ``check``.
    """
    key: Any = described
    hints = _hints(key)
    left = dict(given)
    for field in fields(described):  # type: ignore[arg-type]
        kind = hints[field.name]
        if is_dataclass(kind) and field.name not in left:
            known = [one.name for one in all_parameters(kind)]  # type: ignore[arg-type]
            own = {name: left.pop(name) for name in known if name in left}
            left[field.name] = make(kind, own)  # type: ignore[arg-type]
    for name in left:
        if name not in hints:
            near = nearest_names(name, [one.name for one in all_parameters(described)])
            raise TypeError(f"There is no option {name!r}. {near or ''}".rstrip())
    return described(**left)


@cache
def _all_parameters(described: Any) -> tuple[Parameter, ...]:
    hints = _hints(described)
    found: list[Parameter] = []
    for field in fields(described):
        if is_dataclass(hints[field.name]):
            found += all_parameters(hints[field.name])
        else:
            found += [one for one in parameters(described) if one.name == field.name]
    return tuple(found)


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
    found = []
    for field in fields(described):
        annotated = hints[field.name]
        for option in get_args(annotated)[1:] if get_origin(annotated) is Annotated else ():
            if isinstance(option, Option):
                default = field.default
                if field.default_factory is not MISSING:
                    default = field.default_factory()
                found.append(Parameter(field.name, get_args(annotated)[0], default, option))
    return tuple(found)


def parameter(described: type[Any], name: str) -> Parameter:
    """The option of this name."""
    [found] = [one for one in parameters(described) if one.name == name]
    return found


def check(made: Any) -> None:
    """Check all options of a frozen dataclass that is being made, and keep them in their types.

    Raises
    ------
    InvalidParameter : a value has another type or is out of range.
    """
    for one in parameters(type(made)):
        object.__setattr__(made, one.name, one.check(getattr(made, one.name)))


class _WrongError(Exception):
    """A value is not what it must be."""


def _kept(kind: Any, value: Any, option: Option) -> Any:
    """The value in plain types."""
    if isinstance(value, np.generic):
        value = value.item()
    origin = get_origin(kind)
    if origin in (tuple, Sequence):
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise _WrongError
        return tuple(_kept(_item(kind), part, option) for part in value)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise _WrongError
        item = _item(kind)
        return MappingProxyType({name: _kept(item, part, option) for name, part in value.items()})
    if kind in (int, float):
        return _number(kind, value, option)
    plain = getattr(kind, "plain_types", Mapping)
    if hasattr(kind, "of_plain") and isinstance(value, plain):
        return kind.of_plain(value)
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
    """False where no database, file or terminal takes it: halves of characters, as of bytes."""
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
    """What a list or mapping holds."""
    held = get_args(kind)
    return held[1] if get_origin(kind) is Mapping else held[0]


def _words(kind: Any, option: Option) -> str:
    origin = get_origin(kind)
    if origin is tuple:
        names = "names" if _item(kind) is str else _many(_item(kind))
        return f"a list of {option.item or names}"
    if origin is Mapping:
        return f"{option.item or _many(_item(kind))} by column{_limits(option, ', each ')}"
    if option.choices:
        return "one of " + ", ".join(option.choices)
    return _ONE.get(kind, "a value") + _limits(option)


def _many(kind: Any) -> str:
    if get_origin(kind) is not None:
        return f"lists of {_many(_item(kind))}"
    if kind in _MANY:
        return _MANY[kind]
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
