"""The interface of methods: how they are called, and what they guarantee.

A space represents the records that a method clusters, and their distances. A kernel is a compiled
method that works in short steps, so that it can report progress and be interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.measures import ColumnStatistics
from dbanon.data.memory import worker_threads
from dbanon.data.microdata import Microdata
from dbanon.data.option import Parameter
from dbanon.data.partition import AttributePartition, MethodResult, Partition, combine_partitions
from dbanon.errors import UnknownOption
from dbanon.hierarchy.tree import Hierarchy
from dbanon.methods.forecast import UNKNOWN, MethodForecast
from dbanon.spaces.numeric import Space, numeric_space

if TYPE_CHECKING:
    from dbanon.spaces.mixed import MixedSpace

# Called with the share of the work that is done, 0 to 1; an exception from it ends the run.
Tick = Callable[[float], None]


def tick_of_part(tick: Tick, share_before: float, share_of_part: float) -> Tick:
    """Return the function that a part of the work calls with the share of the part that is done.

    Parameters
    ----------
    share_before : the share of the whole work that is done before this part.
    share_of_part : the share of the whole work that this part is.
    """

    def tick_in_part(share: float) -> None:
        tick(share_before + share_of_part * share)

    return tick_in_part


ROW_GUARANTEE = "row-wise k-anonymity"
# An option of methods that suppress cells, and its values: what a missing cell agrees with, NULL
# alone or every value.
MISSING_OPTION = "missing"
CATEGORY, WILDCARD = MISSING_RULES = ("category", "wildcard")
# The method that chooses levels, and suppresses cells on them.
GLOBAL_RECODING = "global_recoding"


# The records as a method sees them. Which class it is depends on the method alone: what its
# ``SpaceBuilder`` builds is what its ``run`` takes.
MethodSpace: TypeAlias = Any
# Builds the space of the records with these indices, int64 (m,).
BuildSpace: TypeAlias = Callable[[NDArray[np.int64]], MethodSpace]

# Called as (space, k, *, tick, rng, **options); see ``Method.run``.
RunMethod: TypeAlias = "Callable[..., MethodResult]"


class SpaceBuilder(Protocol):
    """Builds the spaces of a method, given microdata and the statistics of the table's columns.

    It returns a function that takes record indices, int64 (m,), and returns the space of these
    records, which is the first argument of ``RunMethod``.
    """

    def __call__(
        self,
        microdata: Microdata,
        column_statistics: ColumnStatistics,
        *,
        standardize: str,
        weights: Mapping[str, float],
        hierarchies: Mapping[str, Hierarchy],
    ) -> BuildSpace: ...


def below_2k(k: int) -> int:
    """Return the largest class size of a method that splits all classes of 2k or more records."""
    return 2 * k - 1


@dataclass(frozen=True)
class Method:
    """A registered method.

    Parameters
    ----------
    name : its name in calls, commands and SQL.
    run : the function that runs it, ``(space, k, *, tick, rng, **options)``, and returns a
        ``Partition``, ``AttributePartition`` or ``Levels``. A method that returns ``Levels`` gets
        all strata at once, as ``strata``, int64 (n,). The method calls ``tick`` with the share
        done, 0 to 1, at least five times a second; an exception from ``tick`` ends the run. ``rng``
        is the only source of randomness; it is None unless ``random`` is True.
    summary : a one-line description.
    cost : how the time grows with n records.
    reference : the publication that defines the method.
    data : a description of the attributes that the method accepts.
    class_sizes : a description of the sizes that its classes may have.
    max_size : returns the largest possible class size for a k; None if there is no bound.
    sentence : the guarantee of its releases, including any restriction of row-wise k-anonymity.
    recoding : the default recoding of its classes.
    standardize : the default way to make columns comparable: ``zscore``, ``range`` or another value
        of the option ``standardize``.
    max_attributes : the largest number of attributes that it accepts; None if there is no bound.
    takes_categories : True if the method measures distances between the values of attributes that
        are not numeric. Other methods treat such attributes as points, if ``takes_points`` and the
        recoding allow that.
    result_type : the class of its result.
    space : builds the representation of the records that it clusters.
    refine : the local search that may follow: ``points`` (reduces the sum of squares; the bound
        ``max_size`` no longer holds afterwards), ``generalized`` (reduces iloss), or None if there
        is none.
    random : True if the result depends on the seed.
    suppresses_cells : True if the records of a class need not be NULL in the same attributes. What
        they have in common is released, and all other cells as NULL.
    options : the options that only this method has, which ``run`` takes by name.
    forecast : the CPU seconds that it takes, as far as they were measured.
    """

    name: str
    run: RunMethod
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
    suppresses_cells: bool = False
    options: tuple[Parameter, ...] = ()
    forecast: MethodForecast = UNKNOWN

    @property
    def takes_points(self) -> bool:
        """True if the method accepts attributes without a position on a line, such as text."""
        # A method that groups each attribute separately (its result has no row classes), or takes
        # only one, needs one coordinate per attribute.
        return self.takes_categories or (
            self.result_type.has_row_classes and self.max_attributes is None
        )

    def check_options(self, values: Mapping[str, object]) -> dict[str, object]:
        """Check option values, and add the defaults of the other options of the method.

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
            name: self._check_option(option, values[name]) if name in values else option.default
            for name, option in options.items()
        }

    def _check_option(self, option: Parameter, raw_value: object) -> object:
        """Check one value; an integer for an option of type float is converted."""
        value = option.check(raw_value, f'Option "{option.name}" of method {self.name}')
        return float(value) if option.type is float else value


def _mixed_space(*data: Any, **options: Any) -> BuildSpace:
    """``spaces.mixed.mixed_space``, which methods for numbers alone do not import."""
    from dbanon.spaces.mixed import mixed_space

    return mixed_space(*data, **options)


@dataclass(frozen=True)
class MixedMethod(Method):
    """A method for numbers and categories; by default, its classes are released generalized."""

    data: str = "numeric, ordinal, categorical"
    recoding: str = "generalization"
    takes_categories: bool = True
    space: SpaceBuilder = _mixed_space
    refine: str | None = "generalized"


class Kernel(Protocol):
    """A compiled method that works in short steps."""

    @property
    def progress(self) -> float:
        """The share done, 0 to 1."""

    def step(self, budget: int = ..., threads: int = ...) -> bool:
        """Work for a short time, about ``budget`` elementary steps; return True when done."""

    def labels(self) -> NDArray[np.int32]:
        """The class of each record, int32 (n,)."""


def drive(kernel: Kernel, tick: Tick) -> Partition:
    """Run a kernel to its end in short steps; an exception from ``tick`` ends it within 0.2 s."""
    while not kernel.step(threads=worker_threads()):
        tick(kernel.progress)
    tick(1.0)
    return Partition(kernel.labels())


def on_points(
    kernel: Callable[..., Kernel],
    *settings: object,
    mixed_kernel: Callable[..., Kernel] | None = None,
) -> Callable[..., Partition]:
    """Return a function that runs a kernel on the points of a space.

    Parameters
    ----------
    kernel : the method's kernel for points.
    settings : further arguments of the kernel.
    mixed_kernel : the method's kernel for mixed data, which needs no coordinates; None if it has
        none.
    """

    def run(space: Space, k: int, *, tick: Tick, rng: np.random.Generator) -> Partition:
        # ``space.kernel`` chooses the kernel for the space's data, and binds the records as its
        # first argument.
        return drive(space.kernel(kernel, mixed_kernel)(k, *settings), tick)

    return run


def on_table(kernel: Callable[..., Kernel], *settings: object) -> Callable[..., Partition]:
    """Return a function that runs a kernel on a mixed space.

    Parameters
    ----------
    kernel : the method's kernel for tables of mixed data.
    settings : further arguments of the kernel.
    """

    def run(space: MixedSpace, k: int, *, tick: Tick, rng: np.random.Generator) -> Partition:
        return drive(kernel(space.table(), k, *settings), tick)

    return run


def run_on_parts(
    space: Space,
    parts: Sequence[NDArray[np.int64]],
    run: Callable[[Space, Tick], Partition],
    tick: Tick,
) -> Partition:
    """Partition each part of the records separately, and combine the partitions.

    Parameters
    ----------
    parts : the record indices of each part, int64 (m,); every record is in exactly one part.
    run : partitions the space of a part, and reports its progress.
    """
    n = space.n_records
    partitions: list[tuple[NDArray[np.int64], Partition]] = []
    n_done = 0
    for records in parts:
        part_share, share_before = len(records) / n, n_done / n

        def part_tick(
            share: float, part_share: float = part_share, share_before: float = share_before
        ) -> None:
            tick(share_before + part_share * share)

        part_space = Space(np.ascontiguousarray(space.points[records]), space.names)
        partitions.append((records, run(part_space, part_tick)))
        n_done += len(records)
    return combine_partitions(partitions, n)
