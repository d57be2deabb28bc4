"""Frozen dataclasses that cost little to define.

``dataclasses.dataclass`` writes source code for each method of each class and compiles it: half a
millisecond a class, which a backend of PostgreSQL pays again in each connection. So modules that a
backend loads take their decorator from here, where methods are closures over the fields. All else
is the standard library's: fields, ``replace``, ``asdict``. Type checkers see its decorator.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

Fields = tuple["dataclasses.Field[Any]", ...]

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool,
        eq: bool = True,
        repr: bool = True,  # noqa: A002 (as there)
        kw_only: bool = False,
    ) -> Any:
        """Decorate a class as ``dataclasses.dataclass(frozen=True)``, of the same options.

        Raises
        ------
        TypeError : the class is not to be frozen, or a field is not given to its ``__init__``.
        """
        if cls is None:
            return partial(dataclass, frozen=frozen, eq=eq, repr=repr, kw_only=kw_only)
        hashed = vars(cls).get("__hash__") is not None
        # Only frozen ones inherit from frozen ones.
        inherits = any(map(dataclasses.is_dataclass, cls.__mro__[1:]))
        made = dataclasses.dataclass(
            init=False, repr=False, eq=False, frozen=inherits, kw_only=kw_only
        )(cls)
        made.__dataclass_params__.frozen = True
        fields = dataclasses.fields(made)
        if not frozen or not all(field.init for field in fields):
            raise TypeError("only dataclasses.dataclass has what this class needs")
        methods = {"__init__": _init(fields), **_frozen(made, fields)}
        if repr:
            methods["__repr__"] = _repr(fields)
        if eq:
            compared = tuple(field.name for field in fields if field.compare)
            methods["__eq__"] = _eq(compared)
            if not hashed:
                # A class that defines __eq__ has None there.
                made.__hash__ = _named(made, "__hash__", _hash(compared))
        for name, method in methods.items():
            if name not in vars(made):
                setattr(made, name, _named(made, name, method))
        if made.__init__ is methods["__init__"]:
            made.__signature__ = _Signature(made.__init__)
        return made


def _named(cls: type, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method as if it stood in the class."""
    method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
    method.__module__ = cls.__module__
    return method


def _init(fields: Fields) -> Callable[..., None]:
    """The method that sets all fields, in their order, and then asks ``__post_init__``."""
    places = [field.name for field in fields if not field.kw_only]
    missing = dataclasses.MISSING
    order = [(field.name, field.default, field.default_factory) for field in fields]

    def init(self: Any, /, *values: Any, **named: Any) -> None:
        if values:
            if len(values) > len(places):
                raise _wrong(self, f"takes {len(places)} values by place, not {len(values)}")
            for name, value in zip(places, values, strict=False):
                if name in named:
                    raise _wrong(self, f"got two values of {name!r}")
                named[name] = value
        own, taken = self.__dict__, 0
        for name, default, factory in order:
            if name in named:
                own[name] = named[name]
                taken += 1
            elif default is not missing:
                own[name] = default
            elif factory is not missing:
                own[name] = factory()
            else:
                raise _wrong(self, f"needs {name!r}")
        if taken < len(named):
            unknown = next(name for name in named if name not in own)
            raise _wrong(self, f"has no field {unknown!r}")
        post = getattr(self, "__post_init__", None)
        if post is not None:
            post()

    return init


def _wrong(instance: object, what: str) -> TypeError:
    return TypeError(f"{type(instance).__qualname__} {what}")


def _frozen(cls: Any, fields: Fields) -> dict[str, Callable[..., None]]:
    """The methods that refuse to change a field, and anything of an instance of the very class."""
    names = frozenset(field.name for field in fields)

    def set_one(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_one(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": set_one, "__delattr__": delete_one}


def _repr(fields: Fields) -> Callable[[Any], str]:
    names = tuple(field.name for field in fields if field.repr)

    @reprlib.recursive_repr("...")
    def text(self: Any) -> str:
        pairs = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({pairs})"

    return text


def _eq(names: tuple[str, ...]) -> Callable[[Any, object], Any]:
    def same(self: Any, other: object) -> Any:
        if type(other) is not type(self):
            return NotImplemented
        return _values(self, names) == _values(other, names)

    return same


def _hash(names: tuple[str, ...]) -> Callable[[Any], int]:
    def number(self: Any) -> int:
        return hash(_values(self, names))

    return number


def _values(instance: object, names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple([getattr(instance, name) for name in names])


class _Signature:
    """What ``inspect.signature`` says of a class, made when it is asked for."""

    def __init__(self, init: Callable[..., None]) -> None:
        self._init = init

    def __get__(self, instance: object, owner: Any) -> Any:
        from inspect import Parameter, Signature

        if owner.__init__ is not self._init:
            raise AttributeError("a class that inherits has a method of its own")
        found = []
        for field in dataclasses.fields(owner):
            default = field.default
            if default is dataclasses.MISSING:
                default = field.default_factory
            found.append(
                Parameter(
                    field.name,
                    Parameter.KEYWORD_ONLY if field.kw_only else Parameter.POSITIONAL_OR_KEYWORD,
                    default=Parameter.empty if default is dataclasses.MISSING else default,
                    annotation=field.type,
                )
            )
        return Signature(sorted(found, key=lambda one: one.kind))
