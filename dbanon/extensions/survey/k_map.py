"""k-map and δ-presence: a sample against a table of the population.

A sample is k-mapped if each of its records matches k or more persons in the population table. A
person's *presence* is the probability that one of the sample's records is that person's, for an
attacker who knows the keys of everyone in the population:

    sum of 1/F over the records of the sample that match the person

where F is the number of persons that match the record. If all codes are present, this is f/F for
the person's class. A sample is (δmin, δmax)-present if all presences are in this range. With
wildcards, records match different sets of persons. Then the sum is the expected number of records
that are linked to the person, which bounds the probability; it is cut at 1.

Sources: L. Sweeney, "Achieving k-anonymity privacy protection using generalization and
suppression", IJUFKS 10 (2002) (k-map); M. E. Nergiz, M. Atzori and C. Clifton, "Hiding
the presence of individuals from shared databases", SIGMOD 2007 (δ-presence).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dbanon.extensions.survey.frequencies import Missing, require_codes, sum_over_matches
from dbanon.measures.agreement import Codes, Floats, Ints


@dataclass(frozen=True, eq=False)
class KMap:
    """How many persons in the population match each record of a sample.

    Parameters
    ----------
    frequencies : int64 (n,), number of matching persons of each record, F.
    """

    frequencies: Ints

    @property
    def k(self) -> int:
        """The number of persons that match the rarest record; 0 if a record has no match."""
        return int(self.frequencies.min())

    @property
    def n_unmatched(self) -> int:
        """Number of records without a match, which are not from this population."""
        return int((self.frequencies == 0).sum())

    def count_below(self, k: int) -> int:
        """Count the records that match fewer than k persons."""
        return int((self.frequencies < k).sum())


@dataclass(frozen=True, eq=False)
class Presence:
    """How probable it is for each person in the population to be in the sample.

    Parameters
    ----------
    probabilities : float64 (N,), the presence of each person, 0 to 1; of each row if rows stand for
        several persons.
    """

    probabilities: Floats

    @property
    def lowest(self) -> float:
        """The lowest presence, δmin: 0 if the keys of a person are not in the sample."""
        return float(self.probabilities.min())

    @property
    def highest(self) -> float:
        """The highest presence, δmax: 1 if a person is known to be in the sample."""
        return float(self.probabilities.max())


def measure_k_map(
    sample: Codes,
    population: Codes,
    counts: Floats | None = None,
    *,
    missing: Missing = "wildcard",
) -> KMap:
    """Count the persons in the population that match each record of a sample.

    Parameters
    ----------
    sample : int32 (n, m), the codes of the sample's keys, from 0; -1 if missing.
    population : int32 (N, m), the same keys of the population, with the same codes.
    counts : float64 (N,), number of persons that each row of the population stands for, above 0;
        None if each row is a person.
    missing : whether a missing code matches every code or only another missing one.

    Raises
    ------
    InvalidParameter : an argument has the wrong type, shape or range.
    TooFewRecords : a table has no rows.
    """
    require_codes(sample, "sample")
    require_codes(population, "population")
    persons = np.ones(len(population)) if counts is None else counts
    sums = sum_over_matches(sample, population, persons[:, None], missing=missing)
    return KMap(np.rint(sums[:, 0]).astype(np.int64))


def measure_presence(
    sample: Codes, population: Codes, k_map: KMap, *, missing: Missing = "wildcard"
) -> Presence:
    """Compute for each person in the population the probability of being in the sample.

    Parameters
    ----------
    sample, population, missing : as in ``measure_k_map``. Records without a match are left out.
    k_map : the numbers of persons that it counted for them.
    """
    frequencies = k_map.frequencies
    shares = np.where(frequencies > 0, 1 / np.maximum(frequencies, 1), 0.0)
    sums = sum_over_matches(population, sample, shares[:, None], missing=missing)
    return Presence(np.minimum(sums[:, 0], 1.0))
