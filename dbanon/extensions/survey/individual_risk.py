"""Individual risk: the expected probability that a record is linked to its person, E(1/F | f).

An attacker knows the keys of a person in the sample, and picks one of the F persons in the
population who share them. F is unknown. Given the sample frequency f, the model takes F as negative
binomial with f successes of probability p = f / F̂, where F̂ estimates F by design weights. With
q = 1 - p,

    E(1/F | f) = p^f / f 2F1(f, f; f + 1; q) = p / f 2F1(1, 1; f + 1; q)

The second form has positive terms, k! f! / (f + k)! q^k, so that adding them up is accurate. They
decrease fast for large f or small q. Otherwise use the recursion over f from log(1/p) p / q:

    r(1) = log(1/p) p / q,    r(f + 1) = (1/f - r(f)) p / q

Each of its steps multiplies errors by p / q, so it is stable for p up to 1/2. sdcMicro, like
μ-Argus, uses the recursion for f up to 2 and p / (f - q) above; that method is named
``approximate``.

Sources: R. Benedetti and L. Franconi, "Statistical and technological solutions for controlled data
dissemination", NTTS 1998; L. Franconi and S. Polettini, "Individual risk estimation in μ-Argus: a
review", PSD 2004; ``indivRisk`` of sdcMicro (commit 0394d0c5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import InvalidParameter
from dbanon.extensions.survey.frequencies import Frequencies
from dbanon.measures.agreement import Floats, Ints

RiskMethod = Literal["exact", "approximate"]

# The largest frequency whose risk is exact in both methods.
_MAX_CLOSED_FORM = 2
# Frequencies from which about 80 terms of the series suffice for all p.
_MIN_SERIES_FREQUENCY = 20
# Terms below this do not change a sum that is 1 or more.
_NEGLIGIBLE = 2.0**-60


@dataclass(frozen=True)
class GlobalRisk:
    """The risk of a file.

    Parameters
    ----------
    expected_reidentifications : the sum of all individual risks, in records.
    rate : that sum divided by the number of records, 0 to 1.
    """

    expected_reidentifications: float
    rate: float


def compute_individual_risks(frequencies: Frequencies, *, method: RiskMethod = "exact") -> Floats:
    """Compute the individual risk of each record, float64 (n,), above 0 and up to 1.

    A record whose estimated population frequency is not above its sample frequency has the risk
    1 / f, because all persons with its keys are in the sample.

    Parameters
    ----------
    frequencies : sample and population frequencies of each record.
    method : ``exact``, or ``approximate`` for the figures of sdcMicro, which differ for f above 2.

    Raises
    ------
    InvalidParameter : the method is unknown, or a frequency is out of range.
    """
    if method not in get_args(RiskMethod):
        raise InvalidParameter(
            "method must be exact or approximate.", hint='Pass `method="exact"`.'
        )
    f, population = frequencies.sample, frequencies.population
    if f.shape != population.shape or not ((f >= 1) & (population > 0)).all():
        raise InvalidParameter(
            "Frequencies must be 1 or more in the sample, and above 0 in the population.",
            hint="Compute them with count_frequencies.",
        )
    p = np.minimum(f / population, 1.0)
    # More accurate than 1 - p.
    q = np.maximum((population - f) / population, 0.0)
    if method == "approximate":
        is_approximate = f > _MAX_CLOSED_FORM
        risks = np.where(is_approximate, p / (f - q), 0.0)
        return _fill(risks, ~is_approximate, f, p, q)
    return _fill(np.zeros(len(f)), np.ones(len(f), np.bool_), f, p, q)


def compute_global_risk(risks: Floats) -> GlobalRisk:
    """Add up the risks of all records.

    Parameters
    ----------
    risks : float64 (n,), the individual or household risk of each record.

    Raises
    ------
    InvalidParameter : there are no risks, or a risk is not in the range from 0 to 1.
    """
    require_risks(risks)
    total = float(risks.sum())
    return GlobalRisk(total, total / len(risks))


def require_risks(risks: object) -> None:
    """Check that an array has risks from 0 to 1.

    Raises
    ------
    InvalidParameter : there are no risks, or one is not in the range from 0 to 1.
    """
    if (
        not isinstance(risks, np.ndarray)
        or risks.dtype != np.float64
        or risks.ndim != 1
        or not len(risks)
        or not ((risks >= 0) & (risks <= 1)).all()
    ):
        raise InvalidParameter(
            "risks must be a float64 array with a risk from 0 to 1 per record.",
            hint="Compute them with compute_individual_risks.",
        )


def _fill(risks: Floats, is_exact: NDArray[np.bool_], f: Ints, p: Floats, q: Floats) -> Floats:
    """Set the exact risk of some records, and return all risks.

    Parameters
    ----------
    risks : float64 (n,), changed in place.
    is_exact : bool (n,), True for the records to set.
    f, p, q : int64 (n,), float64 (n,) and float64 (n,), see the module's docstring.
    """
    is_recursive = (f < _MIN_SERIES_FREQUENCY) & (p <= q)
    for is_selected, compute in (
        (is_exact & is_recursive, _compute_by_recursion),
        (is_exact & ~is_recursive, _compute_by_series),
    ):
        if is_selected.any():
            risks[is_selected] = compute(f[is_selected], p[is_selected], q[is_selected])
    return risks


def _compute_by_recursion(f: Ints, p: Floats, q: Floats) -> Floats:
    """Compute E(1/F | f) by the recursion over f, for p of at most 1/2."""
    odds = p / q
    risks = -np.log(p) * odds
    for step in range(1, int(f.max())):
        risks = np.where(f > step, (1 / step - risks) * odds, risks)
    return risks


def _compute_by_series(f: Ints, p: Floats, q: Floats) -> Floats:
    """Compute E(1/F | f) by adding up the terms of the hypergeometric function."""
    totals, terms = np.ones(len(f)), np.ones(len(f))
    k = 0
    while terms.max() > _NEGLIGIBLE:
        k += 1
        terms = terms * q * k / (f + k)
        totals += terms
    return p / f * totals
