"""Pairs of two tables whose records correspond, wherever the second comes from.

Other tools keep the order of the records, and so do perturbations such as noise, swapping and
manual recoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.partition import SUPPRESSED, Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.leaves import Hierarchies
from dbanon.hierarchy.tree import flat_hierarchy
from dbanon.measures.agreement import combine_codes
from dbanon.measures.pairs import Pairs
from dbanon.recoding import ReleasedColumn
from dbanon.release.evaluation import ANY, pairs_of


def pairs_of_tables(
    microdata: Microdata,
    released: Mapping[str, NDArray[Any]],
    hierarchies: Hierarchies | None = None,
    classes: Partition | None = None,
) -> Pairs:
    """The originals beside the released values of the same records.

    Parameters
    ----------
    microdata : the originals, n records.
    released : by quasi-identifier the n released values: float64, NaN for NULL, in the unit of
        ``Microdata``; or object, texts and None for NULL: values, intervals as in ``[30, 40)``,
        labels of a hierarchy, ``*`` for any value.
    hierarchies : by column, where labels are of one.
    classes : -1 suppresses a record. Records of one class that are released with different values
        are classes of their own. None: a record is suppressed when each of its values is ``*``.

    Raises
    ------
    InvalidParameter : a column is missing or has another length; a label is of no hierarchy and no
        interval.
    """
    n = microdata.n_records
    names = [attribute.name for attribute in microdata.attributes]
    for name in names:
        if name not in released:
            raise InvalidParameter(f'The release has no column "{name}".')
        if len(released[name]) != n:
            raise InvalidParameter(
                f'Column "{name}" has {len(released[name])} released values, not {n}.',
                hint="Give the released records in the order of the originals.",
            )
    if classes is None:
        suppressed = np.ones(n, bool)
        for name in names:
            suppressed &= released[name] == ANY if released[name].dtype == object else False
        class_labels = np.zeros(n, np.int64)
    elif len(classes.labels) != n:
        raise InvalidParameter(f"The classes are of {len(classes.labels)} records, not {n}.")
    else:
        suppressed, class_labels = classes.labels < 0, classes.labels.astype(np.int64)
    released_rows = np.flatnonzero(~suppressed)
    missing = {name: _missing(released[name]) for name in names}
    together = combine_codes(
        [
            class_labels[released_rows],
            *(
                _codes(released[name][released_rows], missing[name][released_rows])
                for name in names
            ),
        ]
    )
    labels = np.full(n, SUPPRESSED, np.int32)
    labels[released_rows] = together
    firsts = released_rows[np.unique(together, return_index=True)[1]]
    trees = dict(hierarchies or {})
    columns = []
    for attribute in microdata.attributes:
        values, null = released[attribute.name][firsts], missing[attribute.name][firsts]
        if attribute.name not in trees and not attribute.kind.is_numeric:
            # Values may have been swapped in from elsewhere.
            original_values = microdata.categories[microdata.categorical.index(attribute)]
            others = {str(value) for value in values[~null].tolist()} - {*original_values, ANY}
            trees[attribute.name] = flat_hierarchy([*original_values, *sorted(others)])
        columns.append(_column(attribute, values, null))
    return pairs_of(microdata, Partition(labels), columns, trees)


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype == object:
        return np.array([value is None for value in values.tolist()], bool)
    return np.asarray(np.isnan(values))


def _codes(values: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[np.int64]:
    """A number from 1 for each different value, 0 for NULL, int64 (m,)."""
    codes = np.zeros(len(values), np.int64)
    present = values[~missing]
    if values.dtype == object:
        present = present.astype(str)
    codes[~missing] = np.unique(present, return_inverse=True)[1].reshape(-1) + 1
    return codes


def _column(
    attribute: Attribute, values: NDArray[Any], missing: NDArray[np.bool_]
) -> ReleasedColumn:
    nowhere = None if not missing.any() else missing
    if values.dtype != object:
        numbers = np.where(missing, 0.0, values)
        return ReleasedColumn(replace(attribute, kind=Kind.FLOAT), numbers, nowhere)
    return ReleasedColumn(replace(attribute, kind=Kind.CATEGORY), values, nowhere)
