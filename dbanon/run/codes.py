"""Detect averaged codes: numbers released in a column of codes that no source row contains."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dbanon.advice.names import MAX_CODES, name_suggests_codes
from dbanon.data.microdata import Microdata
from dbanon.data.schema import NUMERIC, Kind
from dbanon.release.recode import Release

# Kinds whose numbers may be codes. Data frames hold integers with missing values as floats.
_CODE_KINDS = (Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL)


def count_averaged_codes(
    microdata: Microdata, release: Release, requested_kinds: Mapping[str, str]
) -> dict[str, int]:
    """Count released rows whose code does not occur in the source, by quasi-identifier.

    A column of codes holds few distinct whole numbers and has a name that suggests codes. Columns
    released as labels or ranges are skipped, because these cover the values of their class.

    Parameters
    ----------
    requested_kinds : ``NOMINAL`` or ``NUMERIC``, by quasi-identifier, as the job's option ``kinds``
        states them. A column that is stated to be numeric holds no codes.
    """
    rows_by_column: dict[str, int] = {}
    numeric_names = [attribute.name for attribute in microdata.numeric]
    # Each released column has one value per class.
    sizes = release.partition.sizes
    for column in release.columns:
        attribute = column.attribute
        # Skip ranges. If they are released as two columns, one for each bound, the columns have
        # other names than the quasi-identifier. A column of a range type has upper bounds.
        if (
            attribute.kind not in _CODE_KINDS
            or column.renamed_from is not None
            or column.upper is not None
        ):
            continue
        name = attribute.name
        # Columns with interval ranges are released as labels of intervals.
        if (
            requested_kinds.get(name) == NUMERIC
            or name not in numeric_names
            or column.interval_ranges is not None
            or not name_suggests_codes(name)
        ):
            continue
        valid = microdata.valid_column(name)
        values = microdata.numbers[:, numeric_names.index(name)]
        source_codes = np.unique(values if valid is None else values[valid])
        if len(source_codes) > MAX_CODES or (source_codes % 1).any():
            continue
        is_unknown = ~np.isin(column.as_float(), source_codes)
        if column.missing is not None:
            is_unknown &= ~column.missing
        if rows := int(sizes[is_unknown].sum()):
            rows_by_column[name] = rows
    return rows_by_column
