"""Frozen dataclasses behave like the standard library's, except for the cost of defining one."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import pytest

from dbanon.data import frozen

Decorator = Callable[..., Any]
DECORATORS = (frozen.dataclass, dataclasses.dataclass)


def classes(dataclass: Decorator) -> dict[str, Any]:
    """The same classes by one decorator or the other."""

    @dataclass(frozen=True)
    class Point:
        """Two numbers."""

        x: int
        y: int = 2
        others: list[int] = field(default_factory=list, compare=False)
        secret: str = field(default="s", repr=False, kw_only=True)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("x")

    @dataclass(frozen=True)
    class Tall(Point):
        """One more, and a field that is there already."""

        n_made: ClassVar[int] = 0
        y: int = 3
        z: int | None = 4

    @dataclass(frozen=True, eq=False, repr=False, kw_only=True)
    class Plain:
        """Excludes fields that are neither compared nor shown."""

        _: dataclasses.KW_ONLY
        a: int
        b: int = 1

    @dataclass(frozen=True)
    class WithMethods:
        """Defines its own methods."""

        a: int
        b: int = 1

        def __init__(self, a: int) -> None:
            object.__setattr__(self, "a", 2 * a)
            object.__setattr__(self, "b", 0)

        def __repr__(self) -> str:
            return "own"

        def __hash__(self) -> int:
            return 7

    @dataclass(frozen=True)
    class Compared:
        """Has a custom comparison, but still hashes by its fields."""

        a: int

        def __eq__(self, other: object) -> bool:
            return True

    class Loose(Point):
        """No dataclass, which may have more."""

    class CustomInit(Point):
        """No dataclass, which is made in another way."""

        def __init__(self, only: int) -> None:
            super().__init__(only, 5)

    return {c.__name__: c for c in (Point, Tall, Plain, WithMethods, Compared, Loose, CustomInit)}


OURS, THEIRS = map(classes, DECORATORS)


def both(call: Callable[[dict[str, Any]], Any]) -> Any:
    """The common result of both implementations, or the error."""
    outcomes = []
    for classes_of_kind in (OURS, THEIRS):
        try:
            outcomes.append(call(classes_of_kind))
        except Exception as error:
            outcomes.append(type(error))
    assert outcomes[0] == outcomes[1]
    return outcomes[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda c: vars(c["Point"](1)),
        lambda c: list(vars(c["Point"](1, secret="t", y=3))),
        lambda c: vars(c["Tall"](1, 5, [6], 7)),
        lambda c: repr(c["Point"](1)),
        lambda c: repr(c["Tall"](1)),
        lambda c: repr(c["WithMethods"](1)),
        lambda c: vars(c["WithMethods"](1)),
        lambda c: hash(c["WithMethods"](1)),
        lambda c: hash(c["Point"](1)) == hash((1, 2, "s")),
        lambda c: hash(c["Compared"](1)) == hash((1,)),
        lambda c: c["Compared"](1) == 5,
        lambda c: c["Point"](1) == c["Point"](1, others=[3]),
        lambda c: c["Point"](1) == c["Point"](1, 3),
        lambda c: c["Point"](1) == c["Tall"](1, 2),
        lambda c: c["Point"](1) == c["Loose"](1),
        lambda c: c["Plain"](a=1) == c["Plain"](a=1),
        lambda c: c["Plain"].__repr__ is object.__repr__,
        lambda c: vars(dataclasses.replace(c["Tall"](1), z=9)),
        lambda c: dataclasses.asdict(c["Tall"](1)),
        lambda c: c["Point"].__match_args__,
        lambda c: c["Tall"].__match_args__,
        lambda c: str(inspect.signature(c["Plain"])).removesuffix(" -> None"),
        lambda c: list(inspect.signature(c["Tall"]).parameters),
        lambda c: [(field.name, field.type) for field in dataclasses.fields(c["Tall"])],
        lambda c: [(field.name, field.type) for field in dataclasses.fields(c["Plain"])],
        lambda c: c["Tall"].__annotations__,
        lambda c: c["Loose"].__annotations__,
        lambda c: c["Point"].__init__.__qualname__,
        lambda c: vars(c["Loose"](1, 2)),
        lambda c: vars(c["CustomInit"](1)),
        lambda c: list(inspect.signature(c["CustomInit"]).parameters),
        lambda c: list(inspect.signature(c["WithMethods"]).parameters),
        lambda c: list(inspect.signature(c["Loose"]).parameters),
        lambda c: setattr(c["Loose"](1), "more", 1),
    ],
)
def test_the_same(call: Callable[[dict[str, Any]], Any]) -> None:
    assert not isinstance(both(call), type)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c["Point"](),
        lambda c: c["Point"](1, 2, [], "s"),
        lambda c: c["Point"](1, x=1),
        lambda c: c["Point"](1, nothing=1),
        lambda c: c["Plain"](1),
        lambda c: c["Point"](-1),
        lambda c: setattr(c["Point"](1), "x", 2),
        lambda c: setattr(c["Point"](1), "more", 2),
        lambda c: setattr(c["Tall"](1), "x", 2),
        lambda c: setattr(c["Tall"](1), "more", 2),
        lambda c: setattr(c["Loose"](1), "x", 2),
        lambda c: delattr(c["Point"](1), "x"),
        lambda c: delattr(c["Tall"](1), "x"),
        lambda c: delattr(c["Loose"](1), "x"),
    ],
)
def test_the_same_error(call: Callable[[dict[str, Any]], Any]) -> None:
    assert issubclass(both(call), Exception)


@pytest.mark.parametrize("base", DECORATORS)
@pytest.mark.parametrize("derived", DECORATORS)
def test_one_inherits_from_the_other(base: Decorator, derived: Decorator) -> None:
    @base(frozen=True)
    class Base:
        """One field."""

        a: int

    @derived(frozen=True)
    class Derived(Base):
        """One more."""

        b: int = 2

    instance = Derived(1)
    assert (instance.a, instance.b) == (1, 2)
    assert instance == Derived(1, 2) != Base(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        instance.a = 3  # type: ignore[misc]


@frozen.dataclass(frozen=True)
class Travels:
    """One that processes send to one another."""

    a: int
    b: tuple[int, ...] = ()


def test_it_travels() -> None:
    assert pickle.loads(pickle.dumps(Travels(1, (2,)))) == Travels(1, (2,))


def test_what_it_does_not_have() -> None:
    with pytest.raises(TypeError, match=r"dataclasses\.dataclass"):

        @frozen.dataclass(frozen=True)
        class RecountResult:
            """A field without an argument."""

            a: int = field(init=False, default=1)

    with pytest.raises(TypeError, match=r"dataclasses\.dataclass"):

        @frozen.dataclass(frozen=False)
        class Open:
            """One that changes."""

            a: int = 1


def test_a_backend_defines_all_by_it() -> None:
    code = (
        "import sys, dbanon.doors.plpython\n"
        "from dbanon.data.frozen import dataclass\n"
        "for name, module in list(sys.modules.items()):\n"
        "    if name.startswith('dbanon.') and vars(module).get('dataclass', dataclass) is not"
        " dataclass:\n"
        "        print(name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == ""
