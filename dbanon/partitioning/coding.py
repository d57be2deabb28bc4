"""Code columns: replace each number by its band, or each value by its group, before classes.

Coding comes after the source is read and before anything is measured. All that follows sees text
with an order: methods, recodings, privacy models, losses.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.bands import Bands
from dbanon.data.groups import Groups
from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute
from dbanon.errors import InvalidParameter, TooFewRecords, UnsupportedType, pluralize
from dbanon.job.coding import code_attribute, group_attribute
from dbanon.job.policy import Policy
from dbanon.job.zip_codes import NO_ZIP_AREAS, ZipAreas
from dbanon.partitioning.strata import count_for_k
from dbanon.recoding import GENERALIZED


def code_columns(
    microdata: Microdata, policy: Policy, zip_areas: ZipAreas = NO_ZIP_AREAS
) -> Microdata:
    """Replace the values of the coded columns by their groups, or the ranks of their bands.

    NULL remains NULL.

    Parameters
    ----------
    zip_areas : the columns of ZIP codes, of which three digits remain.

    Raises
    ------
    InvalidParameter, UnsupportedType : the options do not fit the values.
    TooFewRecords : an open band has records, but fewer than k, or fewer than k persons.
    """
    coding = policy.coding
    microdata = _code_zip_codes(microdata, zip_areas)
    # Other coded columns are copied: they are coded when they are written.
    names = [
        attribute.name for attribute in microdata.attributes if attribute.name in coding.columns
    ]
    if not names:
        return microdata
    for name in coding.groups:
        microdata = _group_column(microdata, name, coding.groups[name])
    numbers, attributes = microdata.numbers.copy(), list(microdata.attributes)
    for name in names:
        if name in coding.groups:
            continue
        [attribute] = [attribute for attribute in attributes if attribute.name == name]
        _require_exact_numbers(microdata, name)
        position = microdata.numeric.index(attribute)
        valid = microdata.valid_column(name)
        records = np.arange(microdata.n_records) if valid is None else np.flatnonzero(valid)
        values = numbers[records, position]
        if attribute.has_single_precision:
            # Compare the numbers that their texts show, as for copied columns.
            values = values.astype(np.float32).astype(np.str_).astype(np.float64)
        bands = coding.bands_of(attribute, values)
        ranks = bands.ranks(values)
        _require_k_in_open_bands(microdata, attribute, bands, ranks, records, int(policy.k))
        # The number that stands for NULL is arbitrary.
        numbers[:, position] = 0
        numbers[records, position] = ranks
        attributes[attributes.index(attribute)] = code_attribute(attribute, bands)
    return replace(microdata, attributes=tuple(attributes), numbers=numbers)


def _group_column(microdata: Microdata, name: str, groups: Groups) -> Microdata:
    """Replace the values of a column by the names of their groups; NULL remains NULL.

    Raises
    ------
    InvalidParameter : a value is in no group.
    """
    [attribute] = [attribute for attribute in microdata.attributes if attribute.name == name]
    position = microdata.categorical.index(attribute)
    group_of_code = [
        groups.group_of(value, is_number=attribute.nominal)
        for value in microdata.categories[position]
    ]
    old_codes = microdata.codes[:, position]
    # Only values that occur count: a dictionary may have others, of rows that are withheld.
    is_unknown = np.array([group is None for group in group_of_code], bool)
    unknown_codes = old_codes[(old_codes >= 0) & is_unknown[old_codes]] if len(is_unknown) else []
    if len(unknown_codes):
        raise InvalidParameter(
            f'Column "{name}" has {pluralize(len(np.unique(unknown_codes)), "value")} in'
            f" {pluralize(len(unknown_codes), 'row')} that no group in `recode` lists.",
            hint='List them, or name a group for all other values, as in "Other": "*": `recode`.',
        )
    names_by_code = [str(group_of_code[code]) for code in np.unique(old_codes[old_codes >= 0])]
    names = tuple(sorted(set(names_by_code)))
    # The last entry is for NULL, whose code is -1.
    new_codes = np.full(len(group_of_code) + 1, -1, np.int32)
    for code, group in enumerate(group_of_code):
        new_codes[code] = names.index(str(group)) if group in names else -1
    codes, categories = microdata.codes.copy(), list(microdata.categories)
    codes[:, position], categories[position] = new_codes[old_codes], names
    attributes = [
        group_attribute(other, groups) if other is attribute else other
        for other in microdata.attributes
    ]
    return replace(
        microdata, attributes=tuple(attributes), codes=codes, categories=tuple(categories)
    )


def _code_zip_codes(microdata: Microdata, zip_areas: ZipAreas) -> Microdata:
    """Replace ZIP codes by the three digits of their areas; NULL remains NULL."""
    if not zip_areas.columns:
        return microdata
    codes, categories = microdata.codes.copy(), list(microdata.categories)
    attributes = list(microdata.attributes)
    for name in zip_areas.columns:
        [attribute] = [attribute for attribute in attributes if attribute.name == name]
        position = microdata.categorical.index(attribute)
        areas = [zip_areas.code(text) for text in categories[position]]
        new_categories = sorted(set(areas))
        new_codes = [new_categories.index(area) for area in areas]
        # NULL has the code -1, the last element.
        codes[:, position] = np.array([*new_codes, -1], np.int32)[codes[:, position]]
        categories[position] = tuple(new_categories)
        attributes[attributes.index(attribute)] = replace(attribute, sql_type=GENERALIZED)
    return replace(
        microdata,
        attributes=tuple(attributes),
        codes=codes,
        categories=tuple(categories),
    )


def _require_exact_numbers(microdata: Microdata, name: str) -> None:
    """Check that float64 holds the values of a column exactly.

    Raises
    ------
    UnsupportedType : the column has values beyond 2**53.
    """
    if name in microdata.wide:
        raise UnsupportedType(
            f'Column "{name}" has numbers of more than 15 digits, which cannot be compared exactly'
            " with thresholds.",
            hint="Give the column as a smaller type in a view.",
        )


def _require_k_in_open_bands(
    microdata: Microdata,
    attribute: Attribute,
    bands: Bands,
    ranks: NDArray[np.float64],
    records: NDArray[np.int64],
    k: int,
) -> None:
    """Check that each open band has k records or persons, or none.

    Parameters
    ----------
    ranks : float64 (m,), the rank of each value.
    records : int64 (m,), the records of these values.

    Raises
    ------
    TooFewRecords : an open band has fewer.
    """
    for band in bands.open_bands:
        members = records[ranks == band]
        if len(members) and count_for_k(microdata, members) < k:
            units = "persons" if microdata.entities is not None else "rows"
            raise few_in_tail_error(attribute.name, bands, band, k, units)


def few_in_tail_error(name: str, bands: Bands, band: int, k: int, units: str) -> TooFewRecords:
    """Build the error for a coded tail with fewer than k rows or persons.

    It does not name the threshold, which may have been taken from the data.

    Parameters
    ----------
    band : the rank of the open band.
    units : ``rows`` or ``persons``.
    """
    is_lowest = bands.open_below and band == 0
    tail = "below its lowest threshold" if is_lowest else "at or above its highest threshold"
    return TooFewRecords(
        f'Fewer than {k} {units} of column "{name}" are {tail}.',
        hint="Move its threshold, so that k or more are beyond it, or none.",
    )
