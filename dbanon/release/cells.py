"""Replace cells by NULL whose values the records of a class do not share."""

from __future__ import annotations

import numpy as np

from dbanon.data.array_types import AnyArray
from dbanon.data.microdata import Microdata
from dbanon.data.partition import ClusteringResult, Levels
from dbanon.data.schema import Attribute
from dbanon.hierarchy.leaves import Hierarchies, encode_leaves, suppress_values


def suppress_differing_cells(
    microdata: Microdata,
    clustering: ClusteringResult,
    hierarchies: Hierarchies,
    *,
    keep_originals: bool = False,
) -> Microdata:
    """Replace a column of a class by NULL where its records differ, or one of them has no value.

    If the method chose levels, records differ if their labels on these levels do. What the method
    released as NULL (``Partition.null_columns``) is replaced, too. Afterwards, the records of a
    class are equal in all attributes, and NULL in the same ones. So calling it again changes
    nothing. Withheld records keep their values.

    Parameters
    ----------
    clustering : the classes of rows, or of each attribute separately, and the levels.
    hierarchies : those of the policy, by column.
    keep_originals : True to keep the values in ``Microdata.before_suppression``, for an evaluation.
    """
    attributes = {attribute.name: attribute for attribute in microdata.attributes}
    names = list(attributes)
    suppressed = np.zeros((microdata.n_records, len(names)), np.bool_)
    for column_names, partition in clustering.classes.classes_by_columns(names):
        members, labels = partition.members, partition.labels[partition.members]
        first_records = members[partition.starts]
        for name in column_names:
            values = _values_of(microdata, attributes[name])
            if clustering.levels is not None:
                values = _labels_of(microdata, attributes[name], clustering.levels, hierarchies)
            valid = microdata.valid_column(name)
            differs = values[members] != values[first_records][labels]
            if valid is not None:
                differs |= ~valid[members]
            is_blank = np.zeros(partition.n_classes, np.bool_)
            is_blank[labels[differs]] = True
            if partition.null_columns is not None:
                is_blank |= partition.null_columns[:, names.index(name)]
            is_suppressed = np.zeros(microdata.n_records, np.bool_)
            is_suppressed[members] = is_blank[labels]
            if valid is not None:
                is_suppressed &= valid
            suppressed[:, names.index(name)] = is_suppressed
    return suppress_values(microdata, suppressed, keep_originals=keep_originals)


def _values_of(microdata: Microdata, attribute: Attribute) -> AnyArray:
    """Return the numbers or codes of an attribute, (n,)."""
    if attribute.kind.is_numeric:
        return microdata.numbers[:, microdata.numeric.index(attribute)]
    return microdata.codes[:, microdata.categorical.index(attribute)]


def _labels_of(
    microdata: Microdata, attribute: Attribute, levels: Levels, hierarchies: Hierarchies
) -> AnyArray:
    """Return numbers that are equal where the labels on the attribute's level are, (n,)."""
    name = attribute.name
    level, values = levels.levels[name], _values_of(microdata, attribute)
    if name in hierarchies:
        tree = hierarchies[name]
        return tree.nodes_at_level(level)[encode_leaves(microdata, attribute, tree)]
    if name in levels.number_levels:
        return levels.number_levels[name].cells_of(values, level)
    # Text without a hierarchy has two levels: its values, and one label for all of them.
    return values if level == 0 else np.zeros_like(values)
