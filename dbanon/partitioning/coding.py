"""Code columns of numbers: replace each number by its band, before classes are made.

Coding comes after the source is read and before anything is measured. All that follows sees text
with an order: methods, recodings, privacy models, losses.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.bands import Bands
from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute
from dbanon.errors import TooFewRecords, UnsupportedType
from dbanon.job.coding import code_attribute
from dbanon.job.policy import Policy
from dbanon.job.zip_codes import NO_ZIP_AREAS, ZipAreas
from dbanon.partitioning.strata import count_for_k
from dbanon.recoding import GENERALIZED


def code_columns(
    microdata: Microdata, policy: Policy, zip_areas: ZipAreas = NO_ZIP_AREAS
) -> Microdata:
    """Replace the values of the coded columns by the ranks of their bands; NULL remains NULL.

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
    if not coding.columns:
        return microdata
    numbers, attributes = microdata.numbers.copy(), list(microdata.attributes)
    for name in coding.columns:
        [attribute] = [attribute for attribute in attributes if attribute.name == name]
        _require_exact_numbers(microdata, name)
        position = microdata.numeric.index(attribute)
        valid = microdata.valid_column(name)
        records = np.arange(microdata.n_records) if valid is None else np.flatnonzero(valid)
        values = numbers[records, position]
        bands = coding.bands_of(attribute, values)
        ranks = bands.ranks(values)
        _require_k_in_open_bands(microdata, attribute, bands, ranks, records, int(policy.k))
        # The number that stands for NULL is arbitrary.
        numbers[:, position] = 0
        numbers[records, position] = ranks
        attributes[attributes.index(attribute)] = code_attribute(attribute, bands)
    return replace(microdata, attributes=tuple(attributes), numbers=numbers)


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
            raise TooFewRecords(
                f'Fewer than {k} {units} of column "{attribute.name}" are in the coded band'
                f" {bands.label(band, band)}.",
                hint="Move its threshold, so that k or more are beyond it, or none.",
            )
