"""Frequencies of key combinations in a sample, and their estimates for the population.

Two records match if their codes are equal in every key. A missing code can be treated in two ways:

- ``wildcard``: it equals every code, so a record may match records that do not match each other.
  This is the definition of sdcMicro's ``freqCalc`` (``alpha = 1``). There is one difference: a
  record without any code matches all records here. sdcMicro counts all records for it, too, but
  does not count it for complete records.
- ``category``: it is a code of its own, so that matching records form equivalence classes.

Sources: L. Franconi and S. Polettini, "Individual risk estimation in μ-Argus: a review", PSD 2004;
M. Templ, A. Kowarik and B. Meindl, "Statistical disclosure control for micro-data using the R
package sdcMicro", JSS 67 (2015); ``freqCalc`` of sdcMicro
(commit 0394d0c5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from dbanon.errors import InvalidParameter, TooFewRecords
from dbanon.measures.agreement import (
    MISSING_CODE,
    Codes,
    Floats,
    Ints,
    add_up_matches,
    number_distinct_rows,
)

# How missing codes are compared, see the module's docstring.
Missing = Literal["wildcard", "category"]


@dataclass(frozen=True, eq=False)
class Frequencies:
    """How many records share the keys of each record, in the sample and in the population.

    Parameters
    ----------
    sample : int64 (n,), number of matching records in the sample, f; the record itself counts.
    population : float64 (n,), estimated number of matching persons in the population, F̂: the sum
        of the design weights of the matching records. It is less than f if weights are below 1.
    """

    sample: Ints
    population: Floats


def count_frequencies(
    codes: Codes, weights: Floats | None = None, *, missing: Missing = "wildcard"
) -> Frequencies:
    """Count the records that match each record, and add up their design weights.

    Parameters
    ----------
    codes : int32 (n, m), the codes of the m keys, from 0; -1 if missing.
    weights : float64 (n,), the number of persons that each record represents, above 0; None if the
        records are the entire population.
    missing : whether a missing code matches every code or only another missing one.

    Raises
    ------
    InvalidParameter : an argument has the wrong type, shape or range.
    TooFewRecords : there are no records.
    """
    require_codes(codes)
    values = np.ones((len(codes), 1 if weights is None else 2))
    if weights is not None:
        require_weights(weights, len(codes))
        values[:, 1] = weights
    sums = sum_over_matches(codes, codes, values, missing=missing)
    # Sums of ones are exact.
    return Frequencies(sums[:, 0].astype(np.int64), np.ascontiguousarray(sums[:, -1]))


def count_class_sizes(codes: Codes) -> Ints:
    """Count the records in each equivalence class, int64 (c,), in no particular order.

    A missing code is a code of its own, because classes do not overlap.

    Parameters
    ----------
    codes : int32 (n, m), the codes of the m keys, from 0; -1 if missing.

    Raises
    ------
    InvalidParameter : ``codes`` has the wrong type, shape or range.
    TooFewRecords : there are no records.
    """
    require_codes(codes)
    return np.bincount(number_distinct_rows(codes)[1]).astype(np.int64)


def sum_over_matches(
    queries: Codes, table: Codes, values: Floats, *, missing: Missing = "wildcard"
) -> Floats:
    """Add up values of the rows in a table that match each query, float64 (q, v).

    Parameters
    ----------
    queries : int32 (q, m), the codes to look up; -1 if missing.
    table : int32 (t, m), the codes of the table's rows, comparable with those of the queries.
    values : float64 (t, v), the values to add up.
    missing : whether a missing code matches every code or only another missing one.

    Raises
    ------
    InvalidParameter : the tables differ in their number of keys, or ``missing`` is unknown.
    """
    if missing not in get_args(Missing):
        raise InvalidParameter(
            "missing must be wildcard or category.", hint='Pass `missing="wildcard"`.'
        )
    if queries.shape[1] != table.shape[1]:
        raise InvalidParameter(
            "The two tables have different numbers of keys.",
            hint="Pass both tables with the same keys, in the same order.",
        )
    return add_up_matches(queries, table, values, missing_agrees=missing == "wildcard")


def require_codes(codes: object, name: str = "codes") -> None:
    """Check that an array has valid codes of keys.

    Raises
    ------
    InvalidParameter : the array is not int32 (n, m) with m of 1 or more, or has codes below -1.
    TooFewRecords : the array has no rows.
    """
    if (
        not isinstance(codes, np.ndarray)
        or codes.dtype != np.int32
        or codes.ndim != 2
        or not codes.shape[1]
    ):
        raise InvalidParameter(
            f"{name} must be an int32 array with a row per record and a column per key.",
            hint="Number the values of each key from 0, with -1 for missing values.",
        )
    if not len(codes):
        raise TooFewRecords(f"{name} has no rows.")
    if codes.min() < MISSING_CODE:
        raise InvalidParameter(
            f"{name} has a code below -1.",
            hint="Number the values of each key from 0, with -1 for missing values.",
        )


def require_weights(weights: object, n: int) -> None:
    """Check that an array has a valid design weight for each of n records.

    Raises
    ------
    InvalidParameter : the array is not float64 (n,), or has weights that are not finite or not
        above 0.
    """
    if not isinstance(weights, np.ndarray) or weights.dtype != np.float64 or weights.shape != (n,):
        raise InvalidParameter(
            "weights must be a float64 array with a weight per record.",
            hint="Pass the number of persons that each record represents, or None without weights.",
        )
    # Comparisons with NaN are False.
    if not ((weights > 0) & (weights < math.inf)).all():
        raise InvalidParameter(
            "Weights must be finite and above 0.",
            hint="Leave out records without a weight, because they represent nobody.",
        )
