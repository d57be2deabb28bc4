"""Representatives: every class is released with one value of each attribute, by the kind it is of.

- Numbers: the mean, as ``mean`` has it; of ordinal attributes the median rank, the lower of two.
- Nominal values: the plurality, the value that most of the class have; of several the first in the
  column's order, which is by code point.
- With a hierarchy, numbers too: the medoid, the value of the class with the least sum of distances
  to the others, by the height of common ancestors; of several the first in the tree. A value and
  not a node above it: a node that covers the class is at no distance from anybody, so that the root
  would do, and a column of values keeps its type and can be counted with. Labels are what
  ``generalization`` releases.

Medians, pluralities and medoids are values of some record in a class of k or more, in the column
itself: combinations of them need not occur. Columns of text keep their type; truth values and what
is read by its text alone are released as text.

Source of the kinds: J. Domingo-Ferrer and V. Torra, "Ordinal, continuous and heterogeneous
k-anonymity through microaggregation", Data Mining and Knowledge Discovery 11 (2005), section 3.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata, most_frequent
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.hierarchy.leaves import leaf_codes
from dbanon.hierarchy.tree import Hierarchy
from dbanon.recoding.columns import (
    GENERALIZED,
    ExactTotals,
    Recoding,
    ReleasedColumn,
    Settings,
    occurring,
    refuse_wide,
)
from dbanon.recoding.mean import mean


def representative(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    exact_totals: ExactTotals,
    settings: Settings,
) -> tuple[ReleasedColumn, ...]:
    """The mean, median, plurality or medoid of every class and attribute, in their order.

    Raises
    ------
    HierarchyBroken : a value is no leaf of its hierarchy.
    UnsupportedType : a mean of instants is beyond 64 bits, or an attribute with a hierarchy holds
        numbers that float64 cannot hold exactly.
    """
    trees = settings.hierarchies
    plain = microdata.of_attributes([a.name for a in microdata.numeric if a.name not in trees])
    columns = {
        column.attribute.name: column
        for column in mean(plain, measures, partition, exact_totals, settings)
    }
    for attribute in microdata.attributes:
        if attribute.name in trees:
            found = medoids(microdata, partition, attribute, trees[attribute.name])
            columns[attribute.name] = _values(microdata, partition, attribute, found)
        elif not attribute.kind.is_numeric:
            codes = microdata.codes[:, microdata.categorical.index(attribute)]
            members = partition.members
            found = _first_with(partition, codes, most_frequent(
                codes[members], partition.labels[members]
            ))  # fmt: skip
            columns[attribute.name] = _values(microdata, partition, attribute, found)
    return tuple(columns[attribute.name] for attribute in microdata.attributes)


def medoids(
    microdata: Microdata, partition: Partition, attribute: Attribute, tree: Hierarchy
) -> NDArray[np.int64]:
    """For each class a record with the value of the least sum of distances, int64 (n_classes,).

    Raises
    ------
    HierarchyBroken : a value is no leaf of its hierarchy.
    """
    leaves = leaf_codes(microdata, attribute, tree)
    members = partition.members
    labels, nodes = partition.labels[members].astype(np.int64), tree.leaves[leaves[members]]
    # On the way up from a value each node adds what its parent is higher, for every record of the
    # class that is not below the node: its distance is the height of the common ancestor.
    far = np.zeros(len(members), np.int64)
    for _ in range(tree.height):
        _, at, below = np.unique(
            labels * len(tree.labels) + nodes, return_inverse=True, return_counts=True
        )
        parents = np.maximum(tree.parents[nodes], 0)
        far += (tree.heights[parents] - tree.heights[nodes]) * (
            partition.sizes[labels] - below[at.reshape(-1)]
        )
        nodes = parents
    order = np.lexsort((members, leaves[members], far, labels))
    chosen: NDArray[np.int64] = members[order[partition.starts]].astype(np.int64)
    return chosen


def _first_with(
    partition: Partition, codes: NDArray[np.int32], chosen: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each class its first record with the code chosen for it, int64 (n_classes,)."""
    members = partition.members
    labels = partition.labels[members]
    # Within a class members are in record order, and one of them has the code.
    having = np.flatnonzero(codes[members] == chosen[labels])
    first = np.flatnonzero(np.diff(labels[having], prepend=-1))
    return np.asarray(members[having[first]], np.int64)


def _values(
    microdata: Microdata, partition: Partition, attribute: Attribute, records: NDArray[np.int64]
) -> ReleasedColumn:
    """The column with the values of these records, int64 (n_classes,), one of each class."""
    if attribute.kind.is_numeric:
        refuse_wide(microdata.of_attributes([attribute.name]), "representative")
        position = microdata.numeric.index(attribute)
        return occurring(microdata, partition, position, microdata.numbers[records, position])
    column = microdata.categorical.index(attribute)
    # One more for the code -1 of NULL.
    values = np.array([*microdata.categories[column], ""], object)
    codes = microdata.codes[records, column]
    missing = None if not (codes < 0).any() else codes < 0
    if attribute.kind is not Kind.CATEGORY or attribute.nominal:
        attribute = replace(attribute, kind=Kind.CATEGORY, sql_type=GENERALIZED, nominal=False)
    return ReleasedColumn(attribute, values[codes], missing)


RECODING = Recoding(
    name="representative",
    run=representative,
    summary="Mean, median, plurality or medoid, by the kind of the column: for mixed data",
    measure="gower",
    takes_categories=True,
    standardize="range",
)
