"""Replace cells by NULL whose values the records of a class do not share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.partition import MethodResult
from dbanon.hierarchy.leaves import suppress_values


def suppress_differing_cells(
    microdata: Microdata, classes: MethodResult, *, keep_originals: bool = False
) -> Microdata:
    """Replace a column of a class by NULL where its records differ, or one of them has no value.

    So is what the method released as NULL (``Partition.null_columns``). Afterwards, the records of
    a class are equal in all attributes, and NULL in the same ones. So calling it again changes
    nothing. Withheld records keep their values.

    Parameters
    ----------
    classes : the classes of rows, or of each attribute separately.
    keep_originals : True to keep the values in ``Microdata.before_suppression``, for an evaluation.
    """
    names = [attribute.name for attribute in microdata.attributes]
    suppressed = np.zeros((microdata.n_records, len(names)), np.bool_)
    for column_names, partition in classes.classes_by_columns(names):
        members, labels = partition.members, partition.labels[partition.members]
        first_records = members[partition.starts]
        for name in column_names:
            values, valid = _values_of(microdata, name), microdata.valid_column(name)
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


def _values_of(microdata: Microdata, name: str) -> NDArray[np.float64] | NDArray[np.int32]:
    """Return the numbers or codes of an attribute, (n,)."""
    [attribute] = [a for a in microdata.attributes if a.name == name]
    if attribute.kind.is_numeric:
        return microdata.numbers[:, microdata.numeric.index(attribute)]
    return microdata.codes[:, microdata.categorical.index(attribute)]
