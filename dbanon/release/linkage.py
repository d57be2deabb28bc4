"""Retained columns that single out rows within classes.

There are two kinds: other codings of a quasi-identifier, and identifiers of groups, such as
households, whose members know each other.

*Another coding.* An attacker who knows a person's quasi-identifier also knows such a column, so it
splits classes as the quasi-identifier itself would. A column is another coding if rows that share a
value of one of the two also share the value of the other far more often than by chance. In numbers:
of n rows that are grouped by one column, R are in groups with a single value of the other column,
and E of them would be by chance; then (R - E) / (n - E) is at least a half. For such a column,
count the written rows whose combination of released values and this column is shared by fewer than
k rows.

*Group identifiers.* If a column has many values, each shared by a few rows, such as a household
number, its values identify groups. Count the groups that no other group resembles: those whose rows
have, as a whole, released values that no other group has.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.release.attribute_disclosure import LEAST_REPORTED_SHARE, Frequencies, ValueGroups

# Smaller shares are not reported, since every column singles out some rows.
MIN_SHARE_TO_WARN = 0.01
# With at least this share, a strict run refuses the release instead of only warning.
MIN_SHARE_TO_REFUSE = 0.05
# Minimum share of rows in groups that could have several values; with fewer, chance may explain it.
MIN_COMPARABLE_SHARE = 0.1
# An excess over chance is ignored if it is less than this many standard deviations.
MIN_DEVIATIONS = 4.0
# A column of group identifiers has at least MIN_GROUPS values with at most MAX_GROUP_SIZE rows
# each, as in groups whose members know each other. Categories have fewer values, and more rows per
# value.
MIN_GROUPS = 50
MAX_GROUP_SIZE = 10


@dataclass(frozen=True)
class LinkingColumn:
    """A retained column that singles out rows that the classes hide.

    Parameters
    ----------
    name : the column.
    codes : the quasi-identifier that the column encodes in another way; None if it identifies
        groups.
    share : for a coding, the share of released rows in combinations of fewer than k rows; for
        group identifiers, the share of groups whose released values no other group has. Rounded
        down to hundredths.
    """

    name: str
    codes: str | None
    share: float

    def describe(self, k: int) -> str:
        """Describe the finding in a sentence; ``k`` is the requested k."""
        share = f"about {self.share:.0%} of the"
        if self.codes is None:
            return (
                f'"{self.name}" groups rows, and {share} groups can be recognized: the rows of no'
                " other group have the same released values, so anyone who knows the members of a"
                " group can find them"
            )
        return (
            f'"{self.name}" is another coding of "{self.codes}": for {share} rows, fewer than {k}'
            f' rows have the same released values and the same "{self.name}"'
        )


def share_in_hundredths(count: int, n: int) -> float:
    """Return a share, rounded down to hundredths; 0 if ``n`` is 0."""
    return count * 100 // n / 100 if n else 0.0


def measure_dependence(
    groups: ValueGroups, column_index: int, frequencies: Frequencies, n_rows: int
) -> float:
    """Measure how far a column determines another one: 0 if only by chance, 1 if always.

    The result is also 0 if too few rows are in groups that could have several values.

    Parameters
    ----------
    groups : the rows grouped by the column that may determine the other one.
    column_index : the index of the other column in ``groups.identical``.
    frequencies : the frequencies of the other column's values in all rows.
    n_rows : the number of released rows.
    """
    expected = variance = 0.0
    for size, count in zip(groups.sizes.tolist(), groups.counts.tolist(), strict=True):
        probability = frequencies.probability_of_equality(size)
        expected += size * count * probability
        variance += size * size * count * probability * max(1.0 - probability, 0.0)
    n, n_identical = groups.n_rows, int(groups.sizes @ groups.identical[:, column_index])
    excess = n_identical - expected
    if n - expected < MIN_COMPARABLE_SHARE * n_rows or excess < MIN_DEVIATIONS * sqrt(variance):
        return 0.0
    return excess / (n - expected)


def frequencies_of(groups: ValueGroups, n_rows: int) -> Frequencies:
    """Return the frequencies of the values of the column that rows are grouped by.

    NULL counts as a value. ``n_rows`` is the number of all released rows.
    """
    # Rows with NULL are in no group: add them as one more value.
    occurrences = np.append(groups.sizes, n_rows - groups.n_rows)
    return Frequencies(occurrences, np.append(groups.counts, 1))


def is_coding(dependence: float) -> bool:
    """Return True if a dependence (see ``measure_dependence``) makes a column another coding."""
    # At least a half, as for other findings on columns.
    return dependence >= LEAST_REPORTED_SHARE


def may_identify_groups(groups: ValueGroups) -> bool:
    """Return True if a column has many values, each shared by a few rows."""
    is_small = (groups.sizes > 1) & (groups.sizes <= MAX_GROUP_SIZE)
    n_small = int(groups.counts[is_small].sum())
    small_rows = int(groups.sizes[is_small] @ groups.counts[is_small])
    # At least half of the rows are in small groups.
    return n_small >= MIN_GROUPS and small_rows >= LEAST_REPORTED_SHARE * groups.n_rows


def count_unique_profiles(
    groups: NDArray[np.int64], profiles: NDArray[np.int64]
) -> tuple[int, int]:
    """Count the groups of 2 to ``MAX_GROUP_SIZE`` rows, and those whose rows' profiles are unique.

    Parameters
    ----------
    groups : int64 (n,), the code of each row's group; -1 if it is in none.
    profiles : int64 (n,), the code of each row's profile, its combination of released values.
    """
    profiles_of_group: dict[int, list[int]] = {}
    for group, profile in zip(groups.tolist(), profiles.tolist(), strict=True):
        if group >= 0:
            profiles_of_group.setdefault(group, []).append(profile)
    group_profiles = [
        tuple(sorted(member_profiles))
        for member_profiles in profiles_of_group.values()
        if 1 < len(member_profiles) <= MAX_GROUP_SIZE
    ]
    _, counts = np.unique(
        np.array([hash(member_profiles) for member_profiles in group_profiles]), return_counts=True
    )
    return len(group_profiles), int((counts == 1).sum())
