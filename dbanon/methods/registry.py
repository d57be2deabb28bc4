"""The interface of a method: how it is called, and what it guarantees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.option import Parameter
from dbanon.data.partition import AttributePartition, MethodResult, Partition, combine
from dbanon.errors import UnknownOption
from dbanon.hierarchy.tree import Hierarchy
from dbanon.methods.forecast import UNKNOWN, MethodForecast
from dbanon.spaces.mixed import MixedSpace, mixed_space
from dbanon.spaces.numeric import Space, numeric_space

Tick = Callable[[float], None]

ROW_GUARANTEE = "row-wise k-anonymity"


# (space, k, *, tick, rng, **options): see Method.run.
Run: TypeAlias = "Callable[..., MethodResult]"


class SpaceBuilder(Protocol):
    """How a method sees records: from microdata and its table's measures, a function from sets of
    records to the space that ``Run`` takes."""

    def __call__(
        self,
        microdata: Microdata,
        measures: Measures,
        *,
        standardize: str,
        weights: Mapping[str, float],
        hierarchies: Mapping[str, Hierarchy],
    ) -> Callable[[NDArray[np.int64]], Any]: ...


def below_2k(k: int) -> int:
    """The largest class of a method that would make two classes of 2k records."""
    return 2 * k - 1


@dataclass(frozen=True)
class Method:
    """A registered method.

    Parameters
    ----------
    name : as in calls, commands and SQL.
    run : ``(space, k, *, tick, rng, **options) -> Partition | AttributePartition | Levels``.
        A method that gives Levels sees all strata at once: it also takes ``strata``, int64 (n,).
        ``tick`` takes the share done (0 to 1) and is called at least five times a second; what it
        raises ends the run. ``rng`` is the only source of chance, None where it is not ``random``.
    summary : one line for people.
    cost : how time grows with n records.
    reference : where it was published.
    data : the attributes it takes, in words.
    class_sizes : the sizes its classes may have, in words.
    max_size : the largest class it may give for a k, or None when there is no such bound.
    sentence : what a release with it is; less than row-wise k-anonymity is said here.
    recoding : the recoding its classes are released with, unless the caller names another.
    standardize : how its columns are made comparable, unless the caller names another way.
    max_attributes : how many attributes it takes, or None when there is no such bound.
    takes_categories : True when it measures attributes that are not numeric by what they are. Other
        methods see them as points, where ``takes_points`` and the recoding takes them.
    result_type : the kind of result.
    space : what it sees of the records.
    refine : the local search that may follow it: ``points`` (on the sum of squares, after which
        ``max_size`` does not hold), ``generalized`` (on iloss), or None where none can.
    random : True when the result depends on the seed.
    options : its own parameters.
    forecast : the CPU seconds that it takes, as far as they were measured.
    """

    name: str
    run: Run
    summary: str
    cost: str
    reference: str
    data: str = "numeric, ordinal"
    class_sizes: str = "k to 2k-1"
    max_size: Callable[[int], int] | None = below_2k
    sentence: str = ROW_GUARANTEE
    recoding: str = "mean"
    standardize: str = "zscore"
    max_attributes: int | None = None
    takes_categories: bool = False
    result_type: type[Partition] | type[AttributePartition] = Partition
    space: SpaceBuilder = numeric_space
    refine: str | None = "points"
    random: bool = False
    options: tuple[Parameter, ...] = ()
    forecast: MethodForecast = UNKNOWN

    @property
    def takes_points(self) -> bool:
        """True when an attribute may be several coordinates, as text is."""
        return self.takes_categories or (
            self.result_type.has_row_classes and self.max_attributes is None
        )

    def checked_options(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """All options of the method: checked values, or defaults for the others.

        Raises
        ------
        UnknownOption : the method has no option of this name.
        InvalidParameter : a value has another type or is out of range.
        """
        options = {option.name: option for option in self.options}
        for name in values:
            if name not in options:
                raise UnknownOption(
                    f'Method {self.name} has no option "{name}".',
                    hint=f"Its options: {', '.join(options)}."
                    if options
                    else "Leave it out: the method has no options.",
                )
        return {
            name: self._checked(option, values[name]) if name in values else option.default
            for name, option in options.items()
        }

    def _checked(self, option: Parameter, raw_value: Any) -> Any:
        value = option.check(raw_value, f'Option "{option.name}" of method {self.name}')
        return float(value) if option.type is float else value


@dataclass(frozen=True)
class MixedMethod(Method):
    """A method on numbers and categories; its classes are released as what they have in common."""

    data: str = "numeric, ordinal, categorical"
    recoding: str = "generalization"
    takes_categories: bool = True
    space: SpaceBuilder = mixed_space
    refine: str | None = "generalized"


class Kernel(Protocol):
    """A compiled method that works in slices."""

    @property
    def progress(self) -> float: ...

    def step(self, budget: int = ...) -> bool: ...

    def labels(self) -> Any: ...


def drive(kernel: Kernel, tick: Tick) -> Partition:
    """Run a kernel to its end in slices, so that what ``tick`` raises ends it within 0.2 s."""
    while not kernel.step():
        tick(kernel.progress)
    tick(1.0)
    return Partition(kernel.labels())


def on_points(
    kernel: Callable[..., Kernel], *settings: Any, places: Callable[..., Kernel] | None = None
) -> Callable[..., Partition]:
    """A function that runs a compiled method with these settings on the points of a space.

    places : the method's kernel for records that need no coordinates, where there is one.
    """

    def run(space: Space, k: int, *, tick: Tick, rng: np.random.Generator) -> Partition:
        return drive(space.kernel(kernel, places)(k, *settings), tick)

    return run


def on_table(kernel: Callable[..., Kernel], *settings: Any) -> Callable[..., Partition]:
    """A function that runs a compiled method with these settings on a mixed space."""

    def run(space: MixedSpace, k: int, *, tick: Tick, rng: np.random.Generator) -> Partition:
        return drive(kernel(space.table(), k, *settings), tick)

    return run


def on_parts(
    space: Space,
    parts: Sequence[NDArray[np.int64]],
    run: Callable[[Space, Tick], Partition],
    tick: Tick,
) -> Partition:
    """Each part of the records, int64 (m,), partitioned by itself; ``tick`` takes their share."""
    n = space.n_records
    partitions: list[tuple[NDArray[np.int64], Partition]] = []
    done = 0
    for records in parts:
        share, before = len(records) / n, done / n

        def advance(fraction: float, share: float = share, before: float = before) -> None:
            tick(before + share * fraction)

        inside = Space(np.ascontiguousarray(space.points[records]), space.names)
        partitions.append((records, run(inside, advance)))
        done += len(records)
    return combine(partitions, n)
