"""Retained columns that single out rows or reveal values that a release hides.

Two kinds of rows are counted, among released rows with a value in such a column. A row is *rare* if
fewer than k rows share its value. It is *determined* if all rows with its value have the same
original value of a quasi-identifier, so that this original value follows from the column. Values
that occur once always determine it, so the number of rows expected by chance is subtracted. The
excess is weighted by the share of rows in which the release hides the quasi-identifier.

Findings name columns but contain no values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.pieces import PIECE_RECORDS, read_column
from dbanon.errors import RecountFailed


@dataclass(frozen=True)
class DisclosiveColumn:
    """A retained column that singles out rows or determines a quasi-identifier.

    Parameters
    ----------
    name : the column.
    determines : the quasi-identifier whose original values follow from the column; None if the
        finding is that too few rows share each value of the column.
    share : a lower bound of the share of affected rows, among released rows with a value.
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
    share : the share of classes with fewer than k values of the column, rounded to hundredths; at
        least 0.01.
    """

    name: str
    share: float

    @classmethod
    def from_counts(cls, name: str, n_total: int, n_affected: int) -> Self:
        """Build the finding from the number of all classes or values, and of affected ones."""
        return cls(name, max(round(n_affected / n_total, 2), 0.01))

    def describe(self, k: int) -> str:
        """Describe the finding in a sentence."""
        return (
            f'"{self.name}" looks like a person identifier, and about {self.share:.0%} of the'
            f" classes hold fewer than {k} of its values: k counts rows, so all rows of a class"
            " may belong to one person"
        )


@dataclass(frozen=True)
class PersonSpellings(FewPersons):
    """An entity column with values that differ only in white space or capitals.

    Parameters
    ----------
    name : the column.
    share : the share of values that are only another spelling of another value, rounded to
        hundredths; at least 0.01.
    """

    def describe(self, k: int) -> str:
        """Describe the finding in a sentence."""
        return (
            f'"{self.name}" has spellings that differ only in white space or case, about'
            f" {self.share:.0%} of its values: each counts as a person, so all rows of a class of"
            f" {k} persons may belong to one person"
        )


@dataclass(frozen=True)
class RetainedIdentifier:
    """A retained column that looks like a person identifier.

    Parameters
    ----------
    name : the column.
    reason : why it looks like a person identifier, one of ``advice.roles.REASONS``.
    """

    name: str
    reason: str

    def describe(self, k: int) -> str:
        """Describe the finding in a sentence; ``k`` is not used."""
        reason = _REASON_TEXTS.get(self.reason, self.reason)
        return f'"{self.name}" looks like an identifier, and is released unchanged: {reason}'


# By code of a reason. Codes without a text are displayed as they are.
_REASON_TEXTS = {
    "name": "its name suggests names, addresses or person identifiers",
    "form": "its values look like e-mail addresses, phone numbers or person identifiers",
    "type": "its type is one for identifiers",
}

if TYPE_CHECKING:
    from typing import Self

    from dbanon.recoding import ReleasedColumn

# A finding is reported if it affects at least this share of the rows with a value.
LEAST_REPORTED_SHARE = 0.5

# Tables of up to this many rows are counted completely; larger ones are sampled first.
MAX_FULLY_COUNTED_ROWS = 50_000
# If a sample has no equal values, conclude that at most this share of all rows has a value that
# occurs more than once. The conclusion is wrong with a probability of at most exp(-_LOG_CERTAINTY).
_MAX_REPEATED_SHARE = 0.1
_LOG_CERTAINTY = 20.0


@dataclass(frozen=True, eq=False)
class ValueGroups:
    """Released rows grouped by their value in a column; rows with NULL are left out.

    Parameters
    ----------
    sizes : int64 (g,), distinct group sizes in rows.
    counts : int64 (g,), the number of groups of each size.
    rare : int64 (g,), the number of groups of each size with fewer than k rows or persons.
    identical : int64 (g, d), for each of d quasi-identifiers, the number of groups of each size in
        which all rows have the same original value.
    """

    sizes: NDArray[np.int64]
    counts: NDArray[np.int64]
    rare: NDArray[np.int64]
    identical: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """The number of rows that have a value."""
        return int(self.sizes @ self.counts)


def group_by_value(
    values: NDArray[np.int64],
    quasi_identifiers: Sequence[NDArray[np.int64]],
    k: int,
    persons: NDArray[np.int32] | None = None,
) -> ValueGroups:
    """Group rows by their value in a column.

    Parameters
    ----------
    values : int64 (n,), the column as codes; -1 for NULL.
    quasi_identifiers : d arrays, int64 (n,), the original values as codes, including NULL.
    k : a group of fewer rows, or persons, is rare.
    persons : int32 (n,), the person of each row; None if each row is a person.
    """
    non_null = np.flatnonzero(values >= 0)
    # The records that have a value, ordered by it, so that groups are contiguous.
    order = non_null[np.argsort(values[non_null], kind="stable")]
    _, starts, sizes = np.unique(values[order], return_index=True, return_counts=True)
    n_persons = sizes
    if persons is not None and len(order):
        group_of_row = np.repeat(np.arange(len(sizes)), sizes)
        pairs = np.unique(np.column_stack((group_of_row, persons[order])), axis=0)
        n_persons = np.bincount(pairs[:, 0], minlength=len(sizes))
    # For each quasi-identifier, whether all rows of a group have the same original value.
    is_identical = [
        np.minimum.reduceat(codes[order], starts) == np.maximum.reduceat(codes[order], starts)
        for codes in quasi_identifiers
        if len(order)
    ]
    distinct_sizes, size_indices = np.unique(sizes, return_inverse=True)
    size_indices = size_indices.reshape(-1)

    def count_groups_by_size(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(size_indices, flags, len(distinct_sizes)).astype(np.int64)

    return ValueGroups(
        sizes=distinct_sizes.astype(np.int64),
        counts=np.bincount(size_indices, minlength=len(distinct_sizes)).astype(np.int64),
        rare=count_groups_by_size(n_persons < k),
        identical=np.column_stack([count_groups_by_size(flags) for flags in is_identical])
        if is_identical
        else np.zeros((len(distinct_sizes), len(quasi_identifiers)), np.int64),
    )


def require_all_counted(name: str, n_counted: int, n_released: int) -> None:
    """Check that the groups of a column contain all released rows.

    Raises
    ------
    RecountFailed : the groups contain more or fewer rows.
    """
    if n_counted != n_released:
        raise RecountFailed(
            f'The values of "{name}" that were counted do not cover all released rows;'
            " nothing was published.",
            hint="This is an error in dbanon: please report it.",
        )


@dataclass(frozen=True, eq=False)
class Frequencies:
    """How often the values of a column occur, without the values themselves.

    Parameters
    ----------
    occurrences : int64 (s,), the distinct numbers of rows in which a value occurs.
    n_values : int64 (s,), how many values occur in each of these numbers of rows.
    """

    occurrences: NDArray[np.int64]
    n_values: NDArray[np.int64]

    def probability_of_equality(self, n_rows: int) -> float:
        """Return the probability that ``n_rows`` random rows all have the same value."""
        shares = self.occurrences / max(int(self.occurrences @ self.n_values), 1)
        return float(self.n_values @ shares**n_rows)


class OriginalsOfReleasedRows(Protocol):
    """Access to the original values of the released rows."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the quasi-identifiers."""

    def frequencies(self, name: str) -> Frequencies:
        """Count how often each value of a quasi-identifier, including NULL, occurs."""

    def hidden_share(self, name: str) -> float:
        """Return the share of released rows whose original value the release hides, 0 to 1."""


def _count_repetitions(values: NDArray[np.float64] | NDArray[np.int32]) -> Counter[int]:
    """Count the distinct values by the number of times that each occurs.

    Parameters
    ----------
    values : (n,), sorted in place.
    """
    values.sort()
    # Work piece by piece to save memory. A piece ends where a value ends.
    n_values, start = Counter[int](), 0
    while start < len(values):
        last_value = values[min(start + PIECE_RECORDS, len(values)) - 1]
        stop = int(np.searchsorted(values, last_value, "right"))
        piece = values[start:stop]
        # The last position of each value.
        ends = np.append(np.flatnonzero(piece[1:] != piece[:-1]), len(piece) - 1)
        histogram = np.bincount(np.diff(ends, prepend=-1))
        occurrences = np.flatnonzero(histogram)
        n_values.update(
            dict(zip(occurrences.tolist(), histogram[occurrences].tolist(), strict=True))
        )
        start = stop
    return n_values


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
        """Encode the values of all records as integers, int64 (n,); NULL has a code, too."""
        microdata = self._microdata
        attribute = microdata.attributes[self.names.index(name)]
        if attribute.kind.is_numeric:
            values = read_column(microdata.numbers, microdata.numeric.index(attribute))
            codes = np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
        else:
            codes = microdata.codes[:, microdata.categorical.index(attribute)].astype(np.int64)
        valid = microdata.valid_column(name)
        return codes if valid is None else np.where(valid, codes, codes.max(initial=0) + 1)

    def frequencies(self, name: str) -> Frequencies:
        """Count how often each value, including NULL, occurs in the released rows."""
        if name not in self._frequencies:
            self._frequencies[name] = self._count_values(name)
        return self._frequencies[name]

    def _count_values(self, name: str) -> Frequencies:
        """Compute what ``frequencies`` returns."""
        microdata, is_released = self._microdata, self._partition.labels >= 0
        attribute = microdata.attributes[self.names.index(name)]
        values: NDArray[np.float64] | NDArray[np.int32]
        if attribute.kind.is_numeric:
            values = read_column(microdata.numbers, microdata.numeric.index(attribute))
        else:
            values = read_column(microdata.codes, microdata.categorical.index(attribute))
        valid = microdata.valid_column(name)
        values = values[is_released if valid is None else is_released & valid]
        n_nulls = int(is_released.sum()) - len(values)
        n_values = _count_repetitions(values) + Counter({n_nulls: 1} if n_nulls else {})
        occurrences = sorted(n_values)
        return Frequencies(
            np.array(occurrences, np.int64), np.array([n_values[n] for n in occurrences], np.int64)
        )

    def hidden_share(self, name: str) -> float:
        """Return the share of released rows whose original value the release hides."""
        return self.hidden_rows(name) / max(int(self._partition.sizes.sum()), 1)

    def hidden_rows(self, name: str) -> int:
        """Count the released rows whose original value the release hides."""
        partition = self._partition
        losses = [
            c.losses for c in self._columns if c.quasi_identifier == name and c.losses is not None
        ]
        if losses:
            # A label without loss is the original value itself.
            is_hidden = np.any([column_losses > 0 for column_losses in losses], axis=0)
        else:
            # Without losses by class, a value is hidden if its class has different originals.
            microdata = self._microdata
            attribute = microdata.attributes[self.names.index(name)]
            values: NDArray[np.float64] | NDArray[np.int64]
            if attribute.kind.is_numeric and microdata.valid_column(name) is None:
                # Numbers can be compared as they are. Encoding them would sort the column.
                values = read_column(microdata.numbers, microdata.numeric.index(attribute))
            else:
                values = self.codes(name)
            # ``members`` are the records ordered by class, and ``starts`` where each class begins.
            values = values[partition.members]
            is_hidden = np.minimum.reduceat(values, partition.starts) != np.maximum.reduceat(
                values, partition.starts
            )
        return int(partition.sizes[is_hidden].sum())


def find_disclosures(
    name: str, groups: ValueGroups, originals: OriginalsOfReleasedRows, k: int
) -> list[DisclosiveColumn]:
    """Return the findings on a column: whether it is nearly unique, and what it determines."""
    n = groups.n_rows
    if not n:
        return []
    findings = []
    n_rare = int(groups.sizes @ groups.rare)
    if n_rare >= LEAST_REPORTED_SHARE * n:
        findings.append(DisclosiveColumn(name, determines=None, share=floor_share(n_rare, n, k)))
    for index, quasi_identifier in enumerate(originals.names):
        n_determined = int(groups.sizes @ groups.identical[:, index])
        if n_determined < LEAST_REPORTED_SHARE * n:
            continue
        # Rows whose value occurs once are always determined. So the determined rows whose value
        # occurs more than once must reach the share by themselves.
        is_shared = groups.sizes > 1
        if (
            int(groups.sizes[is_shared] @ groups.identical[is_shared, index])
            < LEAST_REPORTED_SHARE * n
        ):
            continue
        excess = n_determined - _expected_rows_by_chance(
            groups, originals.frequencies(quasi_identifier)
        )
        if (
            excess >= LEAST_REPORTED_SHARE * n
            and excess * originals.hidden_share(quasi_identifier) >= LEAST_REPORTED_SHARE * n
        ):
            share = floor_share(n_determined, n, k)
            findings.append(DisclosiveColumn(name, determines=quasi_identifier, share=share))
    return findings


def _expected_rows_by_chance(groups: ValueGroups, frequencies: Frequencies) -> float:
    """Return the number of rows that an unrelated column with these groups would determine.

    The probability that m random rows have the same value of a quasi-identifier is the sum, over
    its values, of their shares to the power of m.
    """
    expected = 0.0
    for size, count in zip(groups.sizes.tolist(), groups.counts.tolist(), strict=True):
        expected += size * count * frequencies.probability_of_equality(size)
    return expected


def floor_share(count: int, n: int, k: int) -> float:
    """Return the share of ``count`` among n rows, rounded down to hundredths.

    It is at least ``LEAST_REPORTED_SHARE``. If 1 to k - 1 rows are not counted, k are assumed, so
    that the share does not single them out.
    """
    if 0 < n - count < k:
        count = n - k
    return max(count * 100 // n / 100, LEAST_REPORTED_SHARE)


def proof_sample_size(n_rows: int) -> int:
    """Return how many rows to sample to prove a column nearly unique; 0 means all rows."""
    if n_rows <= MAX_FULLY_COUNTED_ROWS:
        return 0
    # Add a tenth, because the sizes of random samples vary.
    return round(1.1 * sqrt(2 * n_rows * _LOG_CERTAINTY / _MAX_REPEATED_SHARE))


def prove_nearly_unique(
    name: str, n_rows: int, n_sampled: int, n_values: int, n_distinct: int
) -> DisclosiveColumn | None:
    """Return the finding that a column is nearly unique; None if a random sample does not prove it.

    If a share u of n rows has values that occur more than once, a sample of s rows is expected to
    contain at least s*s*u/(2n) pairs of rows with equal values. So if the sample contains no such
    pair, u is very likely small.

    Parameters
    ----------
    n_rows, n_sampled : number of all rows, and of rows in the sample.
    n_values, n_distinct : number of sampled rows with a value, and of distinct values among them.
    """
    # Proven only if every sampled row has a value that no other sampled row has.
    if not n_sampled or not n_sampled == n_values == n_distinct:
        return None
    # The sample may be smaller than ``proof_sample_size`` requested.
    if 2 * n_rows * _LOG_CERTAINTY / n_sampled**2 > _MAX_REPEATED_SHARE:
        return None
    return DisclosiveColumn(name, determines=None, share=1 - _MAX_REPEATED_SHARE)
