"""Default treatment of NULLs in quasi-identifiers: the one with the least measured loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.nulls import NullChoice
from dbanon.data.microdata import Microdata
from dbanon.errors import TooFewRecords, counted
from dbanon.hierarchy.leaves import take_records
from dbanon.job.nulls import CATEGORY, ERROR, MERGE, SUPPRESS
from dbanon.job.policy import Policy
from dbanon.partitioning.nulls import merge_nulls
from dbanon.partitioning.strata import count_for_k, group_positions, pattern_codes, rare_records
from dbanon.release.recode import Release

# In order of preference among equal losses: the smallest change comes first.
CHOICES = (CATEGORY, MERGE, SUPPRESS)


def release_of(microdata: Microdata, nulls: str, k: int) -> Microdata:
    """The records that a release uses; ``withheld`` counts those it withholds for NULLs.

    Raises
    ------
    TooFewRecords : fewer than k records or persons are left.
    """
    remaining = microdata
    if microdata.valid is not None:
        policy = Policy(k=k, method="gaa_cp", nulls=nulls, max_suppression=None)
        remaining = merge_nulls(microdata, policy)
        if nulls == SUPPRESS:
            records = np.flatnonzero(microdata.valid.all(axis=1))
        else:
            rare = rare_records(remaining, policy)
            every = np.arange(remaining.n_records)
            records = every if rare is None else np.setdiff1d(every, rare, assume_unique=True)
        remaining = replace(
            take_records(remaining, records), withheld=microdata.n_read - len(records)
        )
    smallest = _smallest(remaining)
    if smallest >= k:
        return remaining
    unit = "row" if microdata.entities is None else "person"
    raise TooFewRecords(
        f"The table has {counted(microdata.n_read, 'row')}, and no more than"
        f' {counted(smallest, unit)} that could be released with `nulls="{nulls}"`, fewer than'
        f" k = {k}."
        if microdata.valid is not None
        else f"The table has {counted(smallest, unit)}, fewer than k = {k}.",
        hint="Choose a smaller `k`"
        + (", another value of `nulls`" if microdata.valid is not None else "")
        + ", or a larger table.",
    )


def _smallest(microdata: Microdata) -> int:
    """The records or persons of the smallest pattern of NULLs."""
    if not microdata.n_records:
        return 0
    if microdata.valid is None:
        return count_for_k(microdata, np.arange(microdata.n_records))
    return min(
        count_for_k(microdata, pattern)
        for pattern in group_positions(pattern_codes(microdata.valid))
    )


def share_withheld(microdata: Microdata) -> float:
    """The share of withheld records, rounded up to hundredths to hide their exact number."""
    return math.ceil(100 * microdata.withheld / max(microdata.n_read, 1)) / 100


def choose_nulls(
    microdata: Microdata,
    k: int,
    requested: str | None,
    release: Callable[[Microdata, str], Release],
    *,
    merges: bool = True,
) -> NullChoice:
    """The requested treatment of NULLs, or else the one with the least loss.

    Cells of withheld records and suppressed cells count as lost; other cells count with the loss
    of the release. Among equal losses the first of ``CHOICES`` wins.

    Parameters
    ----------
    microdata : all records, those with a NULL too.
    release : makes the release of these records with that value of ``nulls``.
    merges : False where a release cannot merge patterns, as in a chain.

    Raises
    ------
    TooFewRecords : no value of ``nulls`` leaves k records; that of the last one.
    """
    if microdata.valid is None:
        release_of(microdata, ERROR, k)
        return NullChoice(ERROR, 0.0, {})
    if requested is not None:
        return NullChoice(requested, share_withheld(release_of(microdata, requested, k)), {})
    cells = int(microdata.valid.sum())
    losses: dict[str, float] = {}
    shares: dict[str, float] = {}
    for nulls in CHOICES:
        if nulls == MERGE and not merges:
            continue
        try:
            released = release_of(microdata, nulls, k)
        except TooFewRecords:
            continue
        # Another treatment gives the same release.
        is_suppress = nulls == CATEGORY and released.valid is None
        is_category = nulls == MERGE and released.suppressed is None
        if is_suppress or is_category:
            continue
        losses[nulls] = 1.0 - _cells_left(released, release(released, nulls)) / max(cells, 1)
        shares[nulls] = share_withheld(released)
    if not losses:
        # Raises again the refusal that each treatment met.
        release_of(microdata, MERGE if merges else SUPPRESS, k)
    best = min(losses, key=lambda nulls: round(losses[nulls], 9))
    return NullChoice(best, shares[best], losses)


def _cells_left(microdata: Microdata, release: Release) -> float:
    """The information left in cells with a value, in cells, extrapolated from a sample."""
    every = microdata.n_records * len(microdata.attributes)
    present = every
    if microdata.valid is not None:
        present = int(microdata.valid.sum())
    if microdata.suppressed is not None:
        present += int(microdata.suppressed.sum())
    # NULLs count in iloss as cells that lose nothing.
    return present - release.loss * (every if release.measure == "iloss" else present)


def sample_records(microdata: Microdata, size: int, seed: int, k: int) -> Microdata:
    """A sample for trial releases, with k or more records of each pattern of NULLs."""
    total = microdata.n_records
    if total <= size:
        return microdata
    sample = take_records(microdata, _draw_records(microdata, size, seed, k))
    # Scale the withheld records to the sample.
    return replace(sample, withheld=microdata.withheld * sample.n_records // total)


def _draw_records(microdata: Microdata, size: int, seed: int, k: int) -> NDArray[np.int64]:
    """The records of a sample, int64 in their order; where persons have several, whole persons."""
    rng = np.random.default_rng(seed)
    persons = microdata.entities
    if persons is None:
        sampled_records = rng.choice(microdata.n_records, size, replace=False)
        chosen = np.sort(sampled_records).astype(np.int64)
    else:
        each = np.bincount(persons)
        order = rng.permutation(np.flatnonzero(each))
        chosen_persons = order[np.cumsum(each[order]) <= size]
        chosen = np.flatnonzero(np.isin(persons, chosen_persons)).astype(np.int64)
    if microdata.valid is None:
        return chosen
    samples = [chosen]
    is_sampled = np.zeros(microdata.n_records, np.bool_)
    is_sampled[chosen] = True
    for records in group_positions(pattern_codes(microdata.valid)):
        samples.append(_more_of(microdata, records, is_sampled[records], k, rng))
    return np.sort(np.concatenate(samples))


def _more_of(
    microdata: Microdata,
    records: NDArray[np.int64],
    is_sampled: NDArray[np.bool_],
    k: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Records that raise the sample of a pattern of NULLs to k records or persons."""
    persons = records if microdata.entities is None else microdata.entities[records]
    sampled_persons = np.unique(persons[is_sampled])
    others = np.setdiff1d(persons, sampled_persons)
    more = rng.permutation(others)[: max(k - len(sampled_persons), 0)]
    return records[np.isin(persons, more) & ~is_sampled]
