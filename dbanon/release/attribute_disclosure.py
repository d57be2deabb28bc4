"""Retained columns that single out rows or reveal values that a release hides.

Two counts are made of the released rows with a value in such a column. *Rare*: fewer than k rows
share the value. *Determined*: all rows with the value had the same original value of a
quasi-identifier, so one follows from the other. Unique values always determine everything, so the
number of rows expected by chance is subtracted, and the excess counts only to the extent that the
release hides the quasi-identifier.

Findings name columns and contain no values.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.errors import RecountFailed


@dataclass(frozen=True)
class DisclosiveColumn:
    """A retained column that singles out rows or determines a quasi-identifier.

    Parameters
    ----------
    name : the column.
    determines : the quasi-identifier whose original values follow from it; None if too few rows
        share each of its values.
    share : the minimum share of affected rows, among released rows with a value.
    """

    name: str
    determines: str | None
    share: float

    def describe(self, k: int) -> str:
        """Describe the finding in a sentence."""
        share = "all" if self.share == 1 else f"at least {self.share:.0%} of the"
        rows = f"{share} released rows that have a value"
        if self.determines is None:
            return f'"{self.name}" is nearly unique: fewer than {k} share it, in {rows}'
        return f'"{self.name}" determines what "{self.determines}" was, in {rows}'


@dataclass(frozen=True)
class FewPersons:
    """A source column that looks like a person identifier, with few values in some classes.

    Parameters
    ----------
    name : the column.
    share : the approximate share of classes with fewer than k of its values, in hundredths, at
        least 0.01.
    """

    name: str
    share: float

    @classmethod
    def of(cls, name: str, classes: int, below: int) -> Self:
        """Make the finding from the number of classes, and of those below k."""
        return cls(name, max(round(below / classes, 2), 0.01))

    def describe(self, k: int) -> str:
        """Describe the finding in a sentence."""
        return (
            f'"{self.name}" looks like a person identifier, and about {self.share:.0%} of the'
            f" classes hold fewer than {k} of its values: k counts rows, and a class may be one"
            " person's"
        )


@dataclass(frozen=True)
class PersonSpellings(FewPersons):
    """An entity column with values that differ only in white space or capitals.

    Parameters
    ----------
    name : the column.
    share : the share of values that are another spelling, in hundredths, at least 0.01.
    """

    def describe(self, k: int) -> str:
        """Describe the finding in a sentence."""
        return (
            f'"{self.name}" has spellings that differ only in white space or case, about'
            f" {self.share:.0%} of its values: each counts as a person, and a class of {k} persons"
            " may be one person's"
        )


@dataclass(frozen=True)
class RetainedIdentifier:
    """A retained column that looks like a person identifier.

    Parameters
    ----------
    name : the column.
    reason : why, a code of ``advice.roles.REASONS``.
    """

    name: str
    reason: str

    def describe(self, k: int) -> str:
        """Describe the finding; ``k`` is not used."""
        why = _WHY.get(self.reason, self.reason)
        return f'"{self.name}" looks like an identifier, and is released as it is: {why}'


_WHY = {
    "name": "its name suggests names, addresses or person identifiers",
    "form": "its values look like e-mail addresses, phone numbers or person identifiers",
    "type": "its type is one for identifiers",
}

if TYPE_CHECKING:
    from typing import Self

    from dbanon.recoding import ReleasedColumn

# Findings are reported from this share of the rows with a value.
SHARE = 0.5

# Up to this many rows all are counted; larger tables are sampled first.
ALL_ROWS = 50_000
# A sample without equal values leaves open that this share of rows has shared values, with an error
# probability of exp(-_CERTAIN).
_OPEN = 0.1
_CERTAIN = 20.0


@dataclass(frozen=True, eq=False)
class ValueGroups:
    """The released rows with a value in a column, grouped by that value.

    Parameters
    ----------
    sizes : int64 (g,), distinct group sizes in rows.
    counts : int64 (g,), the number of groups of each size.
    rare : int64 (g,), the number of these with fewer than k rows or persons.
    identical : int64 (g, d), the number of these in which all rows had the same original value of
        each quasi-identifier.
    """

    sizes: NDArray[np.int64]
    counts: NDArray[np.int64]
    rare: NDArray[np.int64]
    identical: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """The number of rows that have a value."""
        return int(self.sizes @ self.counts)


def groups_of(
    values: NDArray[np.int64],
    quasi_identifiers: Sequence[NDArray[np.int64]],
    k: int,
    persons: NDArray[np.int32] | None = None,
) -> ValueGroups:
    """Group rows by the value of a column.

    Parameters
    ----------
    values : int64 (n,), the column as codes; -1 for NULL.
    quasi_identifiers : d arrays, int64 (n,), the original values as codes, including NULL.
    persons : int32 (n,), the person of each row; None if each row is a person.
    """
    non_null = np.flatnonzero(values >= 0)
    order = non_null[np.argsort(values[non_null], kind="stable")]
    _, starts, sizes = np.unique(values[order], return_index=True, return_counts=True)
    n_persons = sizes
    if persons is not None and len(order):
        group = np.repeat(np.arange(len(sizes)), sizes)
        pairs = np.unique(np.column_stack((group, persons[order])), axis=0)
        n_persons = np.bincount(pairs[:, 0], minlength=len(sizes))
    agrees = [
        np.minimum.reduceat(codes[order], starts) == np.maximum.reduceat(codes[order], starts)
        for codes in quasi_identifiers
        if len(order)
    ]
    distinct_sizes, inverse = np.unique(sizes, return_inverse=True)
    inverse = inverse.reshape(-1)

    def by_size(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(inverse, flags, len(distinct_sizes)).astype(np.int64)

    return ValueGroups(
        distinct_sizes.astype(np.int64),
        np.bincount(inverse, minlength=len(distinct_sizes)).astype(np.int64),
        by_size(n_persons < k),
        np.column_stack([by_size(flags) for flags in agrees])
        if agrees
        else np.zeros((len(distinct_sizes), len(quasi_identifiers)), np.int64),
    )


def require_all_counted(name: str, counted: int, released: int) -> None:
    """Check that the groups of a column contain all released rows.

    Raises
    ------
    RecountFailed : they contain more or fewer rows.
    """
    if counted != released:
        raise RecountFailed(
            f'The values of "{name}" that were counted do not cover all released rows;'
            " nothing was published.",
            hint="This is an error in dbanon: please report it.",
        )


@dataclass(frozen=True, eq=False)
class Frequencies:
    """How often the values of a column occur, without the values.

    Parameters
    ----------
    rows : int64 (s,), the numbers of rows that a value has.
    values : int64 (s,), how many values so many rows have.
    """

    rows: NDArray[np.int64]
    values: NDArray[np.int64]

    def agreement(self, size: int) -> float:
        """The chance that so many rows, drawn at random, all have one value."""
        shares = self.rows / max(int(self.rows @ self.values), 1)
        return float(self.values @ shares**size)


class ReleasedOriginals(Protocol):
    """Access to the original values of the released rows."""

    @property
    def names(self) -> Sequence[str]:
        """The quasi-identifiers."""

    def frequencies(self, name: str) -> Frequencies:
        """How many released rows had each value of a quasi-identifier; NULL is one."""

    def hidden(self, name: str) -> float:
        """The share of released rows whose own value the release does not show."""


class Originals:
    """The originals of the released rows, and the extent to which a release hides them.

    Parameters
    ----------
    microdata : all records.
    partition : the classes that are released.
    columns : the released quasi-identifiers.
    """

    def __init__(
        self, microdata: Microdata, partition: Partition, columns: Sequence[ReleasedColumn]
    ) -> None:
        self._microdata, self._partition, self._columns = microdata, partition, columns
        self.names = [attribute.name for attribute in microdata.attributes]
        self._frequencies: dict[str, Frequencies] = {}

    def codes(self, name: str) -> NDArray[np.int64]:
        """The values as codes, int64 (n,); NULL has one of its own."""
        microdata = self._microdata
        attribute = microdata.attributes[self.names.index(name)]
        if attribute.kind.is_numeric:
            values = microdata.numbers[:, microdata.numeric.index(attribute)]
            codes = np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
        else:
            codes = microdata.codes[:, microdata.categorical.index(attribute)].astype(np.int64)
        valid = microdata.valid_column(name)
        return codes if valid is None else np.where(valid, codes, codes.max(initial=0) + 1)

    def frequencies(self, name: str) -> Frequencies:
        """How many released rows had each value; NULL is one."""
        if name not in self._frequencies:
            codes = self.codes(name)[self._partition.members]
            counts = np.unique(codes, return_counts=True)[1].astype(np.int64)
            self._frequencies[name] = Frequencies(*np.unique(counts, return_counts=True))
        return self._frequencies[name]

    def hidden(self, name: str) -> float:
        """The share of released rows whose own value the release does not show."""
        return self.hidden_rows(name) / max(int(self._partition.sizes.sum()), 1)

    def hidden_rows(self, name: str) -> int:
        """The number of released rows whose own value the release does not show."""
        partition = self._partition
        losses = [c.losses for c in self._columns if c.source == name and c.losses is not None]
        if losses:
            hides = np.any([part > 0 for part in losses], axis=0)
        else:
            codes = self.codes(name)[partition.members]
            hides = np.minimum.reduceat(codes, partition.starts) != np.maximum.reduceat(
                codes, partition.starts
            )
        return int(partition.sizes[hides].sum())


def disclosures_of_column(
    name: str, groups: ValueGroups, originals: ReleasedOriginals, k: int
) -> list[DisclosiveColumn]:
    """The findings on a column, if any."""
    n = groups.n_rows
    if not n:
        return []
    findings = []
    rare = int(groups.sizes @ groups.rare)
    if rare >= SHARE * n:
        findings.append(DisclosiveColumn(name, None, floor_share(rare, n, k)))
    for position, quasi_identifier in enumerate(originals.names):
        determined = int(groups.sizes @ groups.identical[:, position])
        if determined < SHARE * n:
            continue
        # Unique rows are always determined, so shared values must reach the share by themselves.
        shared = groups.sizes > 1
        if int(groups.sizes[shared] @ groups.identical[shared, position]) < SHARE * n:
            continue
        excess = determined - _expected_by_chance(groups, originals.frequencies(quasi_identifier))
        if excess >= SHARE * n and excess * originals.hidden(quasi_identifier) >= SHARE * n:
            share = floor_share(determined, n, k)
            findings.append(DisclosiveColumn(name, quasi_identifier, share))
    return findings


def _expected_by_chance(groups: ValueGroups, frequencies: Frequencies) -> float:
    """Rows expected to be determined by a column of such groups that tells nothing.

    All m rows of a value have the same one of a quasi-identifier by chance with the sum of the m-th
    powers of its values' shares.
    """
    expected = 0.0
    for size, count in zip(groups.sizes.tolist(), groups.counts.tolist(), strict=True):
        expected += size * count * frequencies.agreement(size)
    return expected


def floor_share(count: int, n: int, k: int) -> float:
    """Round down a share of n rows to hundredths, to at least ``SHARE``.

    If fewer than k rows are outside of it, k rows are assumed.
    """
    if 0 < n - count < k:
        count = n - k
    return max(count * 100 // n / 100, SHARE)


def sample_size(rows: int) -> int:
    """The sample size that can prove a column nearly unique; 0 to count all rows."""
    if rows <= ALL_ROWS:
        return 0
    # Add a tenth, because the sizes of random samples vary.
    return round(1.1 * sqrt(2 * rows * _CERTAIN / _OPEN))


def all_different(
    name: str, rows: int, sampled: int, values: int, different: int
) -> DisclosiveColumn | None:
    """The finding, proved by a random sample, that a column is nearly unique; None if unproved.

    If a share u of n rows has shared values, a sample of s rows has at least s*s*u/(2n) pairs with
    equal values.

    Parameters
    ----------
    rows : in all.
    sampled : rows in the sample.
    values, different : rows of the sample that have a value, and how many values they have.
    """
    if not sampled or not sampled == values == different:
        return None
    if 2 * rows * _CERTAIN / sampled**2 > _OPEN:
        return None
    return DisclosiveColumn(name, None, 1 - _OPEN)
