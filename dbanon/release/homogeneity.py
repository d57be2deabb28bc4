"""Classes in which every row has the same value of a sensitive column: the homogeneity attack.

An attacker who finds a person's class learns the value, whatever k is. A class consists of the rows
of a stratum that share all released values. NULL counts as a value, as in privacy models. All
counts follow from the released rows, so they tell readers nothing that they could not count
themselves.

Source: A. Machanavajjhala, D. Kifer, J. Gehrke and M. Venkitasubramaniam, "l-diversity", ACM TKDD
1 (2007), section 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonMapping
from dbanon.errors import pluralize


@dataclass(frozen=True)
class ClassHomogeneity:
    """The number of homogeneous classes: all their rows have the same value of a sensitive column.

    Parameters
    ----------
    name : the column.
    classes, rows : number of homogeneous classes, and of their rows.
    of_classes, of_rows : number of all classes and of all rows of the release.
    """

    name: str
    classes: int
    rows: int
    of_classes: int
    of_rows: int

    @classmethod
    def of_groups(
        cls, name: str, classes: NDArray[np.int64], values: NDArray[np.int64]
    ) -> ClassHomogeneity:
        """Count homogeneous classes, from each row's class and value as codes, int64 (n,)."""
        # A class is homogeneous if only one distinct pair of class and value begins with it.
        sizes = np.bincount(classes)
        pairs = np.unique(np.column_stack((classes, values)), axis=0)
        is_homogeneous = np.bincount(pairs[:, 0], minlength=len(sizes)) == 1
        return cls(
            name,
            classes=int(is_homogeneous.sum()),
            rows=int(sizes[is_homogeneous].sum()),
            of_classes=len(sizes),
            of_rows=len(classes),
        )

    def describe_counts(self) -> str:
        """Describe the counts, such as ``1 of 20 classes, 5 of 100 rows``."""
        return (
            f"{self.classes:,} of {self.of_classes:,} classes,"
            f" {self.rows:,} of {row_count_text(self.of_rows)}"
        )

    def describe(self, *, null_agrees: bool = False) -> str:
        """Describe the finding in a sentence.

        Parameters
        ----------
        null_agrees : True if NULL agrees with every value, so that models have no meaning.
        """
        change = "take NULL as a value (missing=category) and " if null_agrees else ""
        return (
            f'"{self.name}" has one value in all rows of a class, in {self.describe_counts()}:'
            f" anyone who finds a person's class learns the value. To prevent this, {change}set a"
            " privacy model, such as distinct_l = 2"
        )


def row_count_text(n_rows: int) -> str:
    """Write a number of rows, such as ``1,200 rows``."""
    # ``pluralize`` writes numbers without commas, so take only its noun.
    return f"{n_rows:,} {pluralize(n_rows, 'row').partition(' ')[2]}"


def find_unprotected_columns(
    counts: Iterable[ClassHomogeneity], models: Sequence[JsonMapping]
) -> tuple[ClassHomogeneity, ...]:
    """Select the columns that have homogeneous classes and no privacy model.

    Parameters
    ----------
    counts : one for each sensitive column.
    models : the privacy models in a report's arguments, as JSON values.
    """
    protected = {model["attribute"] for model in models}
    return tuple(count for count in counts if count.classes and count.name not in protected)


def describe_homogeneity(
    counts: Sequence[ClassHomogeneity],
    models: Sequence[JsonMapping],
    *,
    null_agrees: bool = False,
) -> list[tuple[str, str]]:
    """Return a label and a text per sensitive column; a label in capitals is a warning.

    Parameters
    ----------
    null_agrees : as for ``ClassHomogeneity.describe``.
    """
    unprotected = find_unprotected_columns(counts, models)
    return [
        ("HOMOGENEOUS CLASSES", count.describe(null_agrees=null_agrees))
        if count in unprotected
        else ("homogeneous classes", f'"{count.name}": {count.describe_counts()}')
        for count in counts
    ]
