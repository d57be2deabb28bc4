"""Representatives: every class gets a typical value of each attribute, depending on its kind.

- Numbers: the mean, as in ``release_means``; for ordinal attributes the lower median rank.
- Nominal values: the plurality, which is the most frequent value; of several such values, the first
  by code point.
- Values with a hierarchy, including numbers: the medoid, which is the value with the least sum of
  distances to the others; of several such values, the first in the tree. The distance of two values
  is the height of their lowest common ancestor. The medoid is always a value, never an inner node:
  a node that covers the class has distance 0 from every record, so the root would be optimal, and
  only values keep the type of the column. The recoding ``generalization`` releases inner nodes.

Medians, pluralities and medoids are values of members of the class, but their combinations need not
occur. Text columns keep their type; booleans and types that are read as text become text.

Source of the kinds: J. Domingo-Ferrer and V. Torra, "Ordinal, continuous and heterogeneous
k-anonymity through microaggregation", Data Mining and Knowledge Discovery 11 (2005), section 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata, most_frequent_codes
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.hierarchy.leaves import encode_leaves
from dbanon.hierarchy.tree import Hierarchy
from dbanon.recoding.columns import (
    ExactTotals,
    Recoding,
    ReleasedColumn,
    Settings,
    refuse_inexact_numbers,
    release_record_values,
)
from dbanon.recoding.mean import release_means


def release_representatives(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    partition: Partition,
    exact_totals: ExactTotals,
    settings: Settings,
) -> tuple[ReleasedColumn, ...]:
    """Release the mean, median, plurality or medoid of every class, for each attribute in order.

    Raises
    ------
    HierarchyBroken : a value is not a leaf of its hierarchy.
    UnsupportedType : the mean of timestamps exceeds 64 bits, or an attribute with a hierarchy holds
        numbers that float64 cannot hold exactly.
    """
    trees = settings.hierarchies
    numbers_without_hierarchy = microdata.select_attributes(
        [a.name for a in microdata.numeric if a.name not in trees]
    )
    columns = {
        column.attribute.name: column
        for column in release_means(
            numbers_without_hierarchy, column_statistics, partition, exact_totals, settings
        )
    }
    for attribute in microdata.attributes:
        if attribute.name in trees:
            records = find_medoids(microdata, partition, attribute, trees[attribute.name])
            refuse_inexact_numbers(microdata.select_attributes([attribute.name]), "representative")
            columns[attribute.name] = release_record_values(
                microdata, partition, attribute, records
            )
        elif not attribute.kind.is_numeric:
            codes = microdata.codes[:, microdata.categorical.index(attribute)]
            members = partition.members
            records = _find_first_records(
                partition, codes, most_frequent_codes(codes[members], partition.labels[members])
            )
            columns[attribute.name] = release_record_values(
                microdata, partition, attribute, records
            )
    return tuple(columns[attribute.name] for attribute in microdata.attributes)


def find_medoids(
    microdata: Microdata, partition: Partition, attribute: Attribute, tree: Hierarchy
) -> NDArray[np.int64]:
    """Find a record with the medoid of each class, int64 (n_classes,).

    The medoid is the value with the least sum of distances to the values of the class.

    Raises
    ------
    HierarchyBroken : a value is not a leaf of its hierarchy.
    """
    leaves = encode_leaves(microdata, attribute, tree)
    members = partition.members
    labels, nodes = partition.labels[members].astype(np.int64), tree.leaves[leaves[members]]
    # The distance of two values is the height of their lowest common ancestor. On the way from a
    # value to the root, the edge from a node to its parent adds the difference of their heights for
    # every record of the class that is not below the node.
    distance_sums = np.zeros(len(members), np.int64)
    for _ in range(tree.height):
        _, group_of_member, group_sizes = np.unique(
            labels * len(tree.labels) + nodes, return_inverse=True, return_counts=True
        )
        parents = np.maximum(tree.parents[nodes], 0)
        distance_sums += (tree.heights[parents] - tree.heights[nodes]) * (
            partition.sizes[labels] - group_sizes[group_of_member.reshape(-1)]
        )
        nodes = parents
    order = np.lexsort((members, leaves[members], distance_sums, labels))
    medoid_records: NDArray[np.int64] = members[order[partition.starts]].astype(np.int64)
    return medoid_records


def _find_first_records(
    partition: Partition, codes: NDArray[np.int32], code_of_class: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Find the first record of each class that has a given code, int64 (n_classes,).

    Parameters
    ----------
    codes : int32 (n,), the code of each record.
    code_of_class : int64 (n_classes,), the code to find in each class; a member must have it.
    """
    members = partition.members
    labels = partition.labels[members]
    # The members of a class are in record order, and at least one of them has the code.
    matches = np.flatnonzero(codes[members] == code_of_class[labels])
    first = np.flatnonzero(np.diff(labels[matches], prepend=-1))
    return np.asarray(members[matches[first]], np.int64)


RECODING = Recoding(
    name="representative",
    run=release_representatives,
    summary="Mean, median, plurality or medoid, by the kind of the column: for mixed data",
    measure="gower",
    takes_categories=True,
    standardize="range",
)
