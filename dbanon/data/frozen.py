"""Frozen dataclasses that are cheap to define.

``dataclasses.dataclass`` generates and compiles source code for each method. That takes half a
millisecond per class, in every PostgreSQL connection that runs dbanon inside the server. Modules
that the server loads therefore use this decorator, whose methods are closures over the fields.
Everything else (fields, ``replace``, ``asdict``) is from the standard library, and type checkers
see the standard decorator.

Mappings in results are read-only (``MappingProxyType``). The standard library can neither pickle
nor deep-copy them; once this module is loaded, it can.
"""

from __future__ import annotations

import copyreg
import dataclasses
import reprlib
from collections.abc import Callable
from functools import partial
from inspect import Parameter, Signature, get_annotations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

MethodT = TypeVar("MethodT", bound=Callable[..., object])
Fields = tuple["dataclasses.Field[object]", ...]

# Names of the standard library that mark an annotation as something other than a field.
_NO_FIELDS = ("ClassVar", "InitVar", "KW_ONLY")


def make_read_only(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    """Return a read-only view of a dictionary; pickles name this function."""
    return MappingProxyType(values)


copyreg.pickle(MappingProxyType, lambda mapping: (make_read_only, (dict(mapping),)))

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass

    class DataclassInstance(Protocol):
        """An instance of a dataclass; for type checkers alone."""

        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool,
        eq: bool = True,
        repr: bool = True,  # noqa: A002 (the name in the standard library)
        kw_only: bool = False,
    ) -> type | partial[type]:
        """Decorate a class as ``dataclasses.dataclass(frozen=True)``, with the same options.

        Raises
        ------
        TypeError : ``frozen`` is False, or a field is not a parameter of ``__init__``.
        """
        if cls is None:
            return partial(dataclass, frozen=frozen, eq=eq, repr=repr, kw_only=kw_only)
        has_hash = vars(cls).get("__hash__") is not None
        # The standard library requires that subclasses of frozen classes are frozen.
        has_dataclass_base = any(map(dataclasses.is_dataclass, cls.__mro__[1:]))
        annotations = get_annotations(cls)
        # The standard library matches each annotation that is a text with several patterns, to find
        # these names. That takes a third of its time, so replace texts without them meanwhile.
        cls.__annotations__ = {
            name: object
            if isinstance(annotation, str) and not any(map(annotation.count, _NO_FIELDS))
            else annotation
            for name, annotation in annotations.items()
        }
        decorated = dataclasses.dataclass(
            init=False, repr=False, eq=False, frozen=has_dataclass_base, kw_only=kw_only
        )(cls)
        cls.__annotations__ = annotations
        # The methods below make the class frozen, so declare it so.
        decorated.__dataclass_params__.frozen = True
        fields = dataclasses.fields(decorated)
        for field in fields:
            field.type = annotations.get(field.name, field.type)
        if not frozen or not all(field.init for field in fields):
            raise TypeError("use dataclasses.dataclass: not frozen, or a field is not in __init__")
        methods = {"__init__": _make_init(fields), **_make_refusing_methods(decorated, fields)}
        if repr:
            methods["__repr__"] = _make_repr(fields)
        if eq:
            compared_names = tuple(field.name for field in fields if field.compare)
            methods["__eq__"] = _make_eq(compared_names)
            if not has_hash:
                # If the class body defines __eq__, Python has set __hash__ to None. The loop below
                # skips names that the class has, so set it here.
                decorated.__hash__ = _set_method_names(
                    decorated, "__hash__", _make_hash(compared_names)
                )
        for name, method in methods.items():
            if name not in vars(decorated):
                setattr(decorated, name, _set_method_names(decorated, name, method))
        # A constructor that the class itself defines has its own signature.
        if decorated.__init__ is methods["__init__"]:
            decorated.__signature__ = _Signature(decorated.__init__)
        return decorated


def _set_method_names(cls: type, name: str, method: MethodT) -> MethodT:
    """Set ``__name__``, ``__qualname__`` and ``__module__`` as if the class defined the method."""
    method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
    method.__module__ = cls.__module__
    return method


def _make_init(fields: Fields) -> Callable[..., None]:
    """Build the method that sets all fields in order, and then calls ``__post_init__``."""
    positional = [field.name for field in fields if not field.kw_only]
    missing = dataclasses.MISSING
    defaults = [(field.name, field.default, field.default_factory) for field in fields]

    def init(self: object, /, *values: object, **keyword_values: object) -> None:
        if values:
            if len(values) > len(positional):
                raise _argument_error(
                    self, f"takes {len(positional)} positional arguments, not {len(values)}"
                )
            for name, value in zip(positional, values, strict=False):
                if name in keyword_values:
                    raise _argument_error(self, f"got two values for {name!r}")
                keyword_values[name] = value
        attributes, n_used = self.__dict__, 0
        for name, default, factory in defaults:
            if name in keyword_values:
                attributes[name] = keyword_values[name]
                n_used += 1
            elif default is not missing:
                attributes[name] = default
            elif factory is not missing:
                attributes[name] = factory()
            else:
                raise _argument_error(self, f"needs {name!r}")
        if n_used < len(keyword_values):
            unknown = next(name for name in keyword_values if name not in attributes)
            raise _argument_error(self, f"has no field {unknown!r}")
        post_init = getattr(self, "__post_init__", None)
        if post_init is not None:
            post_init()

    return init


def _argument_error(instance: object, problem: str) -> TypeError:
    """The error for wrong arguments of a constructor."""
    return TypeError(f"{type(instance).__qualname__} {problem}")


def _make_refusing_methods(cls: Any, fields: Fields) -> dict[str, Callable[..., None]]:
    """Build ``__setattr__`` and ``__delattr__``, which raise FrozenInstanceError.

    In instances of ``cls`` itself, they protect every attribute. In instances of a subclass, they
    protect only the fields of ``cls``.
    """
    names = frozenset(field.name for field in fields)

    def refuse_setting(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def refuse_deleting(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": refuse_setting, "__delattr__": refuse_deleting}


def _make_repr(fields: Fields) -> Callable[[object], str]:
    names = tuple(field.name for field in fields if field.repr)

    @reprlib.recursive_repr("...")
    def describe(self: object) -> str:
        pairs = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({pairs})"

    return describe


def _make_eq(names: tuple[str, ...]) -> Callable[[object, object], object]:
    def equals(self: object, other: object) -> object:
        if type(other) is not type(self):
            return NotImplemented
        return _values(self, names) == _values(other, names)

    return equals


def _make_hash(names: tuple[str, ...]) -> Callable[[object], int]:
    def compute_hash(self: object) -> int:
        return hash(_values(self, names))

    return compute_hash


def _values(instance: object, names: tuple[str, ...]) -> tuple[object, ...]:
    """The values of an instance's fields with these names, to compare or hash."""
    return tuple([getattr(instance, name) for name in names])


class _Signature:
    """A descriptor for the signature of a class, which ``inspect.signature`` reads.

    It builds the signature on access, because few programs read it.
    """

    def __init__(self, init: Callable[..., None]) -> None:
        self._init = init

    def __get__(self, instance: object, owner: type[DataclassInstance]) -> Signature:
        if owner.__init__ is not self._init:
            raise AttributeError("the subclass defines its own constructor")
        params = []
        for field in dataclasses.fields(owner):
            default = field.default
            if default is dataclasses.MISSING:
                default = field.default_factory
            params.append(
                Parameter(
                    field.name,
                    Parameter.KEYWORD_ONLY if field.kw_only else Parameter.POSITIONAL_OR_KEYWORD,
                    default=Parameter.empty if default is dataclasses.MISSING else default,
                    annotation=field.type,
                )
            )
        return Signature(sorted(params, key=lambda param: param.kind))
