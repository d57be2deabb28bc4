"""Household risk: the probability that at least one member of a household is re-identified.

Whoever recognizes one member knows the other members, so that the risk of the household replaces
the risk of each member:

    1 - product of (1 - r) over its members

Members are taken as independent. Households may extend over several combinations of keys.

Source: M. Templ, A. Kowarik and B. Meindl, "Statistical disclosure control for micro-data using
the R package sdcMicro", JSS 67 (2015), as ``measure_risk`` of sdcMicro (commit 0394d0c5) does.
"""

from __future__ import annotations

import numpy as np

from dbanon.errors import InvalidParameter
from dbanon.extensions.survey.individual_risk import require_risks
from dbanon.measures.agreement import MISSING_CODE, Floats, Ints


def compute_household_risks(risks: Floats, households: Ints) -> Floats:
    """Compute the risk of each record's household, float64 (n,), 0 to 1.

    Parameters
    ----------
    risks : float64 (n,), the individual risk of each record.
    households : int64 (n,) or int32 (n,), the household of each record, from 0. A record without a
        household, -1, keeps its own risk.

    Raises
    ------
    InvalidParameter : an argument has the wrong type, shape or range.
    """
    require_risks(risks)
    is_integer = np.issubdtype(households.dtype, np.signedinteger)
    if not is_integer or households.shape != risks.shape or households.min() < MISSING_CODE:
        raise InvalidParameter(
            "households must be an array of integers with a household per record.",
            hint="Number the households from 0, with -1 for records without a household.",
        )
    _, ids = np.unique(households, return_inverse=True)
    ids = ids.reshape(-1)
    # A risk of 1 has the logarithm -inf, and then the household has the risk 1, too.
    with np.errstate(divide="ignore"):
        logarithms = np.log1p(-risks)
    household_risks = -np.expm1(np.bincount(ids, weights=logarithms))
    return np.where(households == MISSING_CODE, risks, household_risks[ids])
