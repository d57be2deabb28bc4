"""Columns released as they are that undo classes: other codings of a quasi-identifier, and numbers
of groups that persons are known to belong to.

*Another coding.* Whoever knows a quasi-identifier of a person knows such a column, too, so that it
splits classes as the quasi-identifier itself would. It is one where rows with one value of either
have one value of the other, far more often than an independent column would: of n rows R are in
groups that agree, E would be by chance, and (R - E) / (n - E) is half or more. What it does to k is
then counted on what was written: the rows that share released values and column with fewer than k.

*Group numbers.* Of a column with many values that a few rows each share, such as households, it is
counted how many of its groups are the only ones with the released profiles of their rows.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.release.attribute_disclosure import SHARE, Frequencies, ValueGroups

# Of fewer rows, or groups, nothing is said: some coincide with every column.
WARNED = 0.01
# From here on a strict release is refused: these are no longer rare rows that could be withheld.
REFUSED = 0.05
# Rows, of all, that are in groups that can disagree: of fewer nobody can tell a coding from chance.
COMPARABLE = 0.1
# An excess over chance of fewer standard deviations is none.
DEVIATIONS = 4.0
# Numbers of groups have so many values, of which each is shared by so many rows at most: those of
# whom one person knows. Categories have fewer values, and more rows of each.
GROUPS, MEMBERS = 50, 10


@dataclass(frozen=True)
class LinkingColumn:
    """A column that is released as it is, and singles out rows that the classes hide.

    Parameters
    ----------
    name : the column.
    codes : the quasi-identifier of which it is another coding; None where it numbers groups.
    share : with a coding, the share of released rows that fewer than k share; of groups, the share
        of them that are alone with the profiles of their rows. In hundredths, rounded down.
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
                " values of their rows, so whoever knows the members of a group finds them"
            )
        return (
            f'"{self.name}" is another coding of "{self.codes}": together with it fewer than {k}'
            f" rows share the released values, in {share} rows"
        )


def share_in_hundredths(count: int, n: int) -> float:
    """A share in hundredths, rounded down; 0 of nothing."""
    return count * 100 // n / 100 if n else 0.0


def dependence(groups: ValueGroups, position: int, frequencies: Frequencies, n_rows: int) -> float:
    """How far a column follows from what the groups are of: 0 as by chance, 1 always.

    0 where too few rows could disagree to say so.

    Parameters
    ----------
    position : of the column among those that ``groups`` compare.
    frequencies : how many of all rows have each value of the column.
    n_rows : all released rows.
    """
    expected = variance = 0.0
    for size, count in zip(groups.sizes.tolist(), groups.counts.tolist(), strict=True):
        agreement = frequencies.agreement(size)
        expected += size * count * agreement
        variance += size * size * count * agreement * max(1.0 - agreement, 0.0)
    n, together = groups.n_rows, int(groups.sizes @ groups.alike[:, position])
    excess = together - expected
    if n - expected < COMPARABLE * n_rows or excess < DEVIATIONS * sqrt(variance):
        return 0.0
    return excess / (n - expected)


def frequencies_of(groups: ValueGroups, n_rows: int) -> Frequencies:
    """How many rows have each value of a column; NULL is one."""
    rows = np.append(groups.sizes, n_rows - groups.n_rows)
    return Frequencies(rows, np.append(groups.counts, 1))


def is_coding(strength: float) -> bool:
    """Whether a column that follows so far is another coding."""
    return strength >= SHARE


def may_number_groups(groups: ValueGroups) -> bool:
    """Whether a column has many values that a few rows each share."""
    few = (groups.sizes > 1) & (groups.sizes <= MEMBERS)
    shared = int(groups.counts[few].sum())
    return shared >= GROUPS and int(groups.sizes[few] @ groups.counts[few]) >= SHARE * groups.n_rows


def unique_profiles(groups: NDArray[np.int64], profiles: NDArray[np.int64]) -> tuple[int, int]:
    """The groups of 2 to ``MEMBERS`` rows, and how many of them no other has the profiles of.

    Parameters
    ----------
    groups, profiles : int64 (n,), of each row; a group of -1 is none.
    """
    members: dict[int, list[int]] = {}
    for group, profile in zip(groups.tolist(), profiles.tolist(), strict=True):
        if group >= 0:
            members.setdefault(group, []).append(profile)
    several = [tuple(sorted(held)) for held in members.values() if 1 < len(held) <= MEMBERS]
    _, counts = np.unique(np.array([hash(held) for held in several]), return_counts=True)
    return len(several), int((counts == 1).sum())
