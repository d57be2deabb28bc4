"""SUDA: records that few keys suffice to single out, with scores.

A minimal sample unique (MSU) of a record is a set of keys on which the record differs from all
others, while it does so on no smaller part of the set. The fewer keys an MSU has, and the more MSUs
a record has, the likelier it is that the record is unique in the population, too.

Sources: Elliot, Manning & Ford 2002 (MSUs and scores); Manning, Haglin & Keane 2008 (SUDA2);
Skinner & Elliot 2002, section 3 (DIS). DIS-SUDA scores are those of sdcMicro 5.8.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import InvalidParameter
from dbanon.kernels import Suda
from dbanon.measures.agreement import MISSING_CODE, Codes, Floats
from dbanon.measures.figure import Tick, ignore_progress

# Beyond, the exponent of DIS-SUDA scores is not positive: risk would fall with the score.
MAX_KEYS = 27


@dataclass(frozen=True, eq=False)
class SudaRisk:
    """The MSUs of a sample, and the risk of its n records.

    Parameters
    ----------
    n_keys : number of keys, m.
    max_size : the requested number of keys of the largest MSUs.
    searched_size : all MSUs of up to this number of keys are listed, and no others. It is below
        ``max_size`` if the search ran out of time.
    n_unexplained : number of records that differ from all others on all keys, but have no listed
        MSU. Here a missing value equals a missing value.
    msu_records : int32 (u,), the record of each MSU, ascending.
    msu_keys : uint32 (u,), the keys of each MSU: bit j is set for key j. The MSUs of a record are
        sorted by size, then by number.
    scores : float64 (n,), SUDA scores; 0 without an MSU.
    dis_scores : float64 (n,), DIS-SUDA scores: estimated probabilities that a match with the record
        is correct, 0 to 1; 0 without an MSU.
    """

    n_keys: int
    max_size: int
    searched_size: int
    n_unexplained: int
    msu_records: NDArray[np.int32]
    msu_keys: NDArray[np.uint32]
    scores: Floats
    dis_scores: Floats

    @property
    def is_complete(self) -> bool:
        """Whether all MSUs are listed, of any size."""
        return self.searched_size == self.n_keys

    @property
    def msu_sizes(self) -> NDArray[np.intp]:
        """The number of keys of each MSU, intp (u,)."""
        return _msu_sizes(self.msu_keys, self.n_keys)

    def record_contributions(self) -> Floats:
        """Return the share of each record's score from MSUs with a key, float64 (n, m).

        Shares are from 0 to 1; those of a record add up to the mean size of its MSUs, weighted by
        their scores. They are 0 without an MSU.
        """
        # Scores of 0 have totals of 0; others are at least 1.
        divisors = np.maximum(self.scores, 1)
        return np.asarray(self._score_by_key() / divisors[:, None], np.float64)

    def key_contributions(self) -> Floats:
        """Return the share of the sum of all scores from MSUs with a key, float64 (m,).

        Shares are from 0 to 1; they are 0 if no record has an MSU.
        """
        total = max(float(self.scores.sum()), 1.0)
        return np.asarray(self._score_by_key().sum(axis=0) / total, np.float64)

    def describe_limit(self) -> str | None:
        """Return what the search left out and what that means; None if it is complete."""
        if self.is_complete:
            return None
        reason = (
            "The search ran out of time"
            if self.searched_size < self.max_size
            else "The search was limited in size"
        )
        return (
            f"{reason}: only sets of up to {self.searched_size} of {self.n_keys} columns were"
            f" searched. Scores are lower bounds, and DIS-SUDA scores ignore larger sets."
            f" Unique records without a set of these sizes: {self.n_unexplained}."
        )

    def _score_by_key(self) -> Floats:
        """Return the sum of the scores of a record's MSUs with a key, float64 (n, m)."""
        weights = _msu_scores(self.msu_keys, self.n_keys, self.max_size)
        n = len(self.scores)
        totals = np.empty((n, self.n_keys))
        for key in range(self.n_keys):
            has_key = (self.msu_keys >> np.uint32(key) & np.uint32(1)).astype(np.bool_)
            totals[:, key] = np.bincount(self.msu_records[has_key], weights[has_key], n)
        return totals


def measure_suda(
    codes: Codes,
    *,
    max_size: int | None = None,
    seconds: float | None = None,
    dis_fraction: float = 0.01,
    tick: Tick = ignore_progress,
) -> SudaRisk:
    """Find the minimal sample uniques of a sample, and score its records.

    An MSU of s keys adds (m - s) (m - s - 1) … (m - M + 1) to the score of its record, 1 if s = M,
    where M is ``max_size``. A missing value equals no other value and is in no MSU, as in sdcMicro:
    records that become unique only by missing values have no risk here.

    DIS estimates the probability that a match with a unique record is correct from the P records
    that equal exactly one other: with U unique records and the sampling fraction f of the
    experiment, f U / (f U + (1 - f) P). DIS-SUDA distributes the odds of this estimate over the
    records by their scores: 1 / (1 + P (1 - f) / (f s^q Σ s^-q)) for a score s, where
    q = 1 + (8 - m) / 20. Without any pair, it is 1 for each record with an MSU.

    Parameters
    ----------
    codes : int32 (n, m), codes of the keys, 0 or more, or -1 where a value is missing.
    max_size : number of keys of the largest MSUs, 1 to m; all sizes by default.
    seconds : stop the search after about this time. MSUs of the sizes that were searched to the end
        are kept, and ``describe_limit`` says which; no limit by default.
    dis_fraction : sampling fraction of the DIS experiment, above 0 and at most 1.
    tick : called with the share of the work that is done, 0 to 1.

    Raises
    ------
    InvalidParameter : a parameter or the shape of ``codes`` is not valid.
    """
    n_keys = _count_keys(codes)
    largest = n_keys if max_size is None else max_size
    if not 1 <= largest <= n_keys:
        raise InvalidParameter(
            f"max_size must be from 1 to the number of keys, {n_keys}.", hint="`max_size=None`"
        )
    # The negations also refuse NaN.
    if seconds is not None and not seconds > 0:
        raise InvalidParameter("seconds must be above 0.", hint="`seconds=None` sets no limit.")
    if not 0 < dis_fraction <= 1:
        raise InvalidParameter(
            "dis_fraction must be above 0 and at most 1.", hint="`dis_fraction=0.01`"
        )
    kernel = Suda(_compact_codes(codes), largest, seconds or 0.0)
    while not kernel.step():
        tick(kernel.progress)
    tick(1.0)
    msu_records, msu_keys = kernel.msu_records(), kernel.msu_keys()
    weights = _msu_scores(msu_keys, n_keys, largest)
    scores = np.asarray(np.bincount(msu_records, weights, len(codes)), np.float64)
    return SudaRisk(
        n_keys=n_keys,
        max_size=largest,
        searched_size=kernel.searched_size,
        n_unexplained=kernel.n_unique - int(np.count_nonzero(scores)),
        msu_records=msu_records,
        msu_keys=msu_keys,
        scores=scores,
        dis_scores=_dis_scores(scores, kernel.n_paired, dis_fraction, n_keys),
    )


def _count_keys(codes: Codes) -> int:
    """Return the number of keys; refuse codes of another shape or kind."""
    if codes.ndim != 2 or codes.dtype != np.int32:
        raise InvalidParameter("The codes of the keys must be an int32 array of shape (n, m).")
    n_keys = int(codes.shape[1])
    if not 1 <= n_keys <= MAX_KEYS:
        raise InvalidParameter(
            f"SUDA takes 1 to {MAX_KEYS} keys, not {n_keys}.",
            hint="Choose the keys that others are most likely to know.",
        )
    if codes.size and codes.min() < MISSING_CODE:
        raise InvalidParameter("Codes must be 0 or more, or -1 where a value is missing.")
    return n_keys


def _compact_codes(codes: Codes) -> Codes:
    """Return C-contiguous codes below n, as the kernel needs them; missing values stay -1."""
    n = len(codes)
    if not n or codes.max() < n:
        return np.ascontiguousarray(codes)
    compact = np.empty(codes.shape, np.int32)
    for key in range(codes.shape[1]):
        values, ranks = np.unique(codes[:, key], return_inverse=True)
        compact[:, key] = ranks.reshape(n) - int(values[0] == MISSING_CODE)
    return compact


def _msu_scores(msu_keys: NDArray[np.uint32], n_keys: int, max_size: int) -> Floats:
    """Return the score of each MSU, float64 (u,), by its number of keys."""
    score_of_size = [0.0] + [
        float(prod(n_keys - i for i in range(size, max_size))) for size in range(1, max_size + 1)
    ]
    return np.array(score_of_size)[_msu_sizes(msu_keys, n_keys)]


def _msu_sizes(msu_keys: NDArray[np.uint32], n_keys: int) -> NDArray[np.intp]:
    """Return the number of keys of each MSU, intp (u,)."""
    sizes = np.zeros(len(msu_keys), np.intp)
    for key in range(n_keys):
        sizes += (msu_keys >> np.uint32(key) & np.uint32(1)).astype(np.intp)
    return sizes


def _dis_scores(scores: Floats, n_paired: int, dis_fraction: float, n_keys: int) -> Floats:
    """Return the DIS-SUDA scores, float64 (n,); see ``measure_suda``."""
    dis_scores = np.zeros(len(scores))
    has_msu = scores > 0
    powers = scores[has_msu] ** (1 + (8 - n_keys) / 20)
    odds_against = n_paired * (1 - dis_fraction) / dis_fraction
    dis_scores[has_msu] = 1 / (1 + odds_against / (powers * (1 / powers).sum()))
    return dis_scores
