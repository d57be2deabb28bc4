"""Retained columns that undo classes: other codings of a quasi-identifier, and identifiers of
groups that persons are known to belong to.

*Another coding.* An attacker who knows a person's quasi-identifier also knows such a column, so it
splits classes as the quasi-identifier itself would. A column is another coding if rows that agree
on either column agree on the other far more often than by chance: of n rows, R are in groups that
agree, E would be by chance, and (R - E) / (n - E) is at least a half. The effect on k is then
counted on the written rows: those that share released values and column with fewer than k rows.

*Group numbers.* For a column with many values that few rows share, such as households, the groups
that are unique by the released profiles of their rows are counted.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.release.attribute_disclosure import SHARE, Frequencies, ValueGroups

# Smaller shares are not reported: some rows coincide with any column.
LEAST_WARNED_SHARE = 0.01
# A strict release is refused from this share on: these are no longer rare rows to withhold.
REFUSED = 0.05
# Minimum share of rows in groups that could disagree; below it, chance cannot be excluded.
LEAST_COMPARABLE_SHARE = 0.1
# An excess over chance of fewer standard deviations is ignored.
DEVIATIONS = 4.0
# Group numbers have at least GROUPS values with at most MOST_MEMBERS rows each, as in groups whose
# members know each other. Categories have fewer values and more rows per value.
GROUPS, MOST_MEMBERS = 50, 10


@dataclass(frozen=True)
class LinkingColumn:
    """A retained column that singles out rows that the classes hide.

    Parameters
    ----------
    name : the column.
    codes : the quasi-identifier that it encodes; None if it numbers groups.
    share : for a coding, the share of released rows in combinations of fewer than k rows; for
        groups, the share that are unique by their rows' profiles. In hundredths, rounded down.
    """

    name: str
    codes: str | None
    share: float

    def describe(self, k: int) -> str:
        """The finding in words."""
        share = f"about {self.share:.0%} of the"
        if self.codes is None:
            return (
                f'"{self.name}" groups rows: {share} groups are the only ones with the released'
                " values of their rows, so anyone who knows the members of a group can find them"
            )
        return (
            f'"{self.name}" is another coding of "{self.codes}": together with it fewer than {k}'
            f" rows share the released values, in {share} rows"
        )


def share_in_hundredths(count: int, n: int) -> float:
    """A share in hundredths, rounded down; 0 if ``n`` is 0."""
    return count * 100 // n / 100 if n else 0.0


def dependence(groups: ValueGroups, position: int, frequencies: Frequencies, n_rows: int) -> float:
    """How far a grouping column determines another column: 0 as by chance, 1 always.

    0 if too few rows could disagree.

    Parameters
    ----------
    position : the index of the other column in ``groups``.
    frequencies : of the other column's values in all rows.
    n_rows : the number of released rows.
    """
    expected = variance = 0.0
    for size, count in zip(groups.sizes.tolist(), groups.counts.tolist(), strict=True):
        agreement = frequencies.agreement(size)
        expected += size * count * agreement
        variance += size * size * count * agreement * max(1.0 - agreement, 0.0)
    n, together = groups.n_rows, int(groups.sizes @ groups.identical[:, position])
    excess = together - expected
    if n - expected < LEAST_COMPARABLE_SHARE * n_rows or excess < DEVIATIONS * sqrt(variance):
        return 0.0
    return excess / (n - expected)


def frequencies_of(groups: ValueGroups, n_rows: int) -> Frequencies:
    """The frequencies of a column's values, with NULL as a value."""
    rows = np.append(groups.sizes, n_rows - groups.n_rows)
    return Frequencies(rows, np.append(groups.counts, 1))


def is_coding(strength: float) -> bool:
    """Whether this strength of dependence makes a column another coding."""
    return strength >= SHARE


def may_number_groups(groups: ValueGroups) -> bool:
    """Whether a column has many values that a few rows each share."""
    few = (groups.sizes > 1) & (groups.sizes <= MOST_MEMBERS)
    shared = int(groups.counts[few].sum())
    return shared >= GROUPS and int(groups.sizes[few] @ groups.counts[few]) >= SHARE * groups.n_rows


def unique_profiles(groups: NDArray[np.int64], profiles: NDArray[np.int64]) -> tuple[int, int]:
    """Count the groups of 2 to ``MOST_MEMBERS`` rows, and those that are unique by their profiles.

    Parameters
    ----------
    groups, profiles : int64 (n,), of each row; a group of -1 means none.
    """
    members: dict[int, list[int]] = {}
    for group, profile in zip(groups.tolist(), profiles.tolist(), strict=True):
        if group >= 0:
            members.setdefault(group, []).append(profile)
    several = [
        tuple(sorted(member_profiles))
        for member_profiles in members.values()
        if 1 < len(member_profiles) <= MOST_MEMBERS
    ]
    _, counts = np.unique(
        np.array([hash(member_profiles) for member_profiles in several]), return_counts=True
    )
    return len(several), int((counts == 1).sum())
