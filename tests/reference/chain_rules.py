"""Building blocks of the plain chain in ``chains``: rows, rules, cells, and clustering.

``without`` disables defences: a test that passes without a defence does not test it.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Person = int
Value = Hashable
# A reader's view of a class: stratum and released values; None where nothing was known.
Combination = tuple[Any, ...]
State = Literal["live", "held", "gone", "withdrawn", "refused"]
ModelKind = Literal[
    "distinct_l",
    "entropy_l",
    "recursive_cl",
    "alpha_k",
    "t_closeness",
    "beta_likeness",
    "delta_disclosure",
]

# Without these, persons could be distinguished: `hold` of cells with departures; the released
# values of the day of admission; keeping out for good whom a model refused, and who left and came
# back; no batches where changes are held, or where a model is kept; the rows shown last where a
# model would be violated by current ones; the last rows shown if a person has returned, and too few
# of those of now stood there before; that no return is forgotten, and that more persons can have
# any row than rows are ruled out for one; the quality of newcomers' classes by quasi-identifiers
# alone; the first release's table as what classes are compared with, at all times. With several
# rows per person: quasi-identifiers from the first table, where all admitted persons have a row; a
# choice of rows that ignores their persons; a fixed number of rows over time; joint treatment of
# tables.
DEFENCES = frozenset(
    {
        "holds",
        "frozen values",
        "refused for good",
        "left for good",
        "no batches under hold",
        "no batches under models",
        "held by models",
        "held after returns",
        "no return forgotten",
        "more free than loose",
        "quality by quasi-identifiers",
        "fixed reference",
        "quasi-identifiers of the first table",
        "limit by rows alone",
        "fixed limit",
        "tables together",
    }
)


@dataclass(frozen=True)
class Row:
    """The source's data about a person at one release.

    Parameters
    ----------
    stratum : the values of the `by` columns.
    qi : the quasi-identifiers, None for NULL.
    kept : the retained columns, such as the diagnosis. If persons have several rows, a sorted tuple
        of rows, each a table index and a value.
    """

    stratum: Value
    qi: tuple[int | None, ...]
    kept: Any


@dataclass(frozen=True)
class Rules:
    """The options of a chain.

    Parameters

    ----------

    k : the smallest cell.

    changes : whether changed kept values are shown, held below k of them, or frozen.

    class_size : the size newcomers are clustered with; None for k.

    admit_every : newcomers are admitted at the first release and every n-th after it.

    max_wait : newcomers wait for a good class, for so many releases at most; 0: none waits.

    min_newcomers : fewer newcomers wait, as long.

    departures : whether a cell that a person left is held or withdrawn.

    withdraw_above : a held cell is withdrawn when more than this share of it has left.

    several : whether a person has several rows.

    max_rows : no more rows of a table and person are shown; None for all.

    models : privacy models, a kind and a level each, that the kept values of a class must keep to.

    without : the defences that are left out.
    """

    k: int
    changes: Literal["show", "hold", "freeze"] = "show"
    class_size: int | None = None
    admit_every: int = 1
    min_newcomers: int = 0
    max_wait: int = 0
    departures: Literal["hold", "withdraw"] = "hold"
    withdraw_above: float | None = None
    several: bool = False
    max_rows: int | None = None
    models: tuple[tuple[ModelKind, float], ...] = ()
    without: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        assert self.without <= DEFENCES

    @property
    def size(self) -> int:
        """How many newcomers make a class."""
        return self.class_size or self.k

    def kept_by(self, values: Sequence[Value], table: Counter[Value]) -> bool:
        """Whether a class with these values keeps to the models, beside those of a table."""
        if not self.models:
            return True
        value_counts = Counter(values)
        counts = sorted(value_counts.values(), reverse=True)
        return all(
            _BESIDE_TABLE[kind](_both_shares(value_counts, table)) <= level + 1e-9
            if kind in _BESIDE_TABLE
            else _MODELS[kind](counts, level)
            for kind, level in self.models
        )


def _entropy(counts: list[int]) -> float:
    shares = [count / sum(counts) for count in counts]
    return math.exp(-sum(share * math.log(share) for share in shares))


# The counts of a class's values, the most frequent first.
_MODELS: dict[str, Callable[[list[int], float], bool]] = {
    "distinct_l": lambda counts, l: len(counts) >= l,  # noqa: E741
    "entropy_l": lambda counts, l: _entropy(counts) > l - 1e-6,  # noqa: E741
    # For l = 2.
    "recursive_cl": lambda counts, c: len(counts) > 1 and counts[0] < c * sum(counts[1:]),
    "alpha_k": lambda counts, alpha: counts[0] < alpha * sum(counts) + 1e-6,
}

# The shares of each value in the class and in the table. A value that the table lacks has infinite
# gain.
Shares = Sequence[tuple[float, float]]


def _both_shares(value_counts: Counter[Value], table: Counter[Value]) -> Shares:
    n, table_size = sum(value_counts.values()), sum(table.values())
    return [(count / n, table[value] / table_size) for value, count in value_counts.items()]


_BESIDE_TABLE: dict[str, Callable[[Shares], float]] = {
    "t_closeness": lambda shares: sum(max(q - p, 0.0) for q, p in shares),
    "beta_likeness": lambda shares: max(q / p - 1 if p else math.inf for q, p in shares),
    "delta_disclosure": lambda shares: max(
        abs(math.log(q / p)) if p else math.inf for q, p in shares
    ),
}


@dataclass
class Cell:
    """Persons who were admitted as one class and have not left.

    Parameters
    ----------
    combination : what they are released with.
    members : who they are; not those who left in a batch.
    cores : the classes as they were before a model had them merged.
    admitted : at which release, from 1 on.
    state : what became of it.
    released_values : the kept values as last released.
    released_persons : the persons they belong to.
    missed : who was out since the cell was last shown as it was.
    loose : by person, how many rows changed at most, at all times at which theirs could not.
    """

    combination: Combination
    members: set[Person]
    cores: list[frozenset[Person]]
    admitted: int
    state: State
    released_values: list[Value]
    released_persons: set[Person]
    missed: set[Person] = field(default_factory=set)
    loose: Counter[Person] = field(default_factory=Counter)


Source = Mapping[Person, Row]
Released: TypeAlias = "Counter[tuple[Combination, Value]]"
# Classes of the persons given, each of at least so many; from quasi-identifiers alone.
Cluster = Callable[[Sequence[tuple[Person, tuple[int | None, ...]]], int], list[list[Person]]]
# The admitted classes, after models have merged some of them.
Merge = Callable[[list[list[Person]]], list[list[Person]]]
# The released values of a class, from the rows of its persons.
Combine = Callable[[Sequence[Row]], Combination]
# When a row's turn is, of many of a person: by the row, and by how often it stood before.
RefinementStep = Callable[[Any, int], Any]


def by_value(row: Any, again: int) -> Any:
    """A turn that looks random: that of the product is a hash under the chain's key."""
    return zlib.crc32(repr((row, again)).encode()), row, again


def by_order(
    records: Sequence[tuple[Person, tuple[int | None, ...]]], size: int
) -> list[list[Person]]:
    """Classes of ``size`` along the order of the quasi-identifiers; the last one takes the rest."""
    values = sorted(
        (tuple(value for value in qi if value is not None), person) for person, qi in records
    )
    order = [person for _, person in values]
    starts = range(0, max(len(order) // size, 1) * size, size)
    return [order[start : start + size if start != starts[-1] else len(order)] for start in starts]


def combination(rows: Sequence[Row]) -> Combination:
    """The released values: the stratum and the mean of each quasi-identifier, in whole numbers."""
    columns = zip(*(row.qi for row in rows), strict=True)
    means = [
        round(sum(values) / len(values))
        if (values := [v for v in column if v is not None])
        else None
        for column in columns
    ]
    return rows[0].stratum, *means
