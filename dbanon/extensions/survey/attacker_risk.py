"""Risks by attacker: prosecutor, journalist and marketer.

- A *prosecutor* looks for a person who is known to be in the sample. The right record is one of the
  f records with the person's keys, so the probability of picking it is 1/f.
- A *journalist* looks for any person, and does not know who is in the sample. The record belongs to
  one of the F persons in the population with its keys, so the probability is 1/F.
- A *marketer* links all records, and counts how many links are right. The expected share is the
  mean of 1/f over all records, which is the number of classes divided by the number of records.

The population frequency F is estimated by design weights, or counted in a population table.

Sources: K. El Emam and F. K. Dankar, "Protecting privacy using k-anonymity", JAMIA 15 (2008);
F. K. Dankar and K. El Emam, "A method for evaluating marketer re-identification risk", PAIS 2010.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dbanon.errors import InvalidParameter
from dbanon.extensions.survey.frequencies import Frequencies
from dbanon.measures.agreement import Floats

# One in five: classes of five records.
DEFAULT_THRESHOLD = 0.2


@dataclass(frozen=True)
class AttackerRisk:
    """The risk of all records from an attacker.

    Parameters
    ----------
    highest : the risk of the record that is most at risk, above 0 and up to 1.
    average : the mean risk of all records, above 0 and up to 1.
    share_above : the share of records whose risk is above the threshold, 0 to 1.
    threshold : the threshold, 0 to 1.
    """

    highest: float
    average: float
    share_above: float
    threshold: float


def measure_prosecutor_risk(
    frequencies: Frequencies, *, threshold: float = DEFAULT_THRESHOLD
) -> AttackerRisk:
    """Measure the risk from an attacker who knows that a person is in the sample.

    Parameters
    ----------
    frequencies : sample and population frequencies of each record.
    threshold : the risk above which records are counted, 0 to 1.

    Raises
    ------
    InvalidParameter : the threshold is out of range, or there are no records.
    """
    return _summarize(1 / frequencies.sample, threshold)


def measure_journalist_risk(
    frequencies: Frequencies, *, threshold: float = DEFAULT_THRESHOLD
) -> AttackerRisk:
    """Measure the risk from an attacker who does not know who is in the sample.

    Parameters
    ----------
    frequencies : sample and population frequencies of each record. A population frequency below
        the sample frequency counts as the sample frequency.
    threshold : the risk above which records are counted, 0 to 1.

    Raises
    ------
    InvalidParameter : the threshold is out of range, or there are no records.
    """
    return _summarize(1 / np.maximum(frequencies.population, frequencies.sample), threshold)


def measure_marketer_risk(frequencies: Frequencies) -> float:
    """Measure the expected share of right links if all records are linked, above 0 and up to 1.

    If missing codes are categories, it is the number of classes divided by the number of records.

    Raises
    ------
    InvalidParameter : there are no records.
    """
    return measure_prosecutor_risk(frequencies).average


def _summarize(risks: Floats, threshold: float) -> AttackerRisk:
    """Summarize the risks of all records, float64 (n,)."""
    if not 0 <= threshold <= 1:
        raise InvalidParameter(
            "threshold must be a number from 0 to 1.", hint="Pass `threshold=0.2`."
        )
    if not len(risks):
        raise InvalidParameter(
            "There are no frequencies.", hint="Compute them with count_frequencies."
        )
    return AttackerRisk(
        highest=float(risks.max()),
        average=float(risks.mean()),
        share_above=float((risks > threshold).mean()),
        threshold=float(threshold),
    )
