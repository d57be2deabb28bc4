"""What becomes of NULLs in quasi-identifiers where nobody says: what loses least, measured."""

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
from dbanon.partitioning.strata import count_of, groups, pattern_codes, rare_records
from dbanon.release.recode import Release

# In the order in which equal losses are preferred: what changes least comes first.
CHOICES = (CATEGORY, MERGE, SUPPRESS)


def release_of(microdata: Microdata, nulls: str, k: int) -> Microdata:
    """The records that a release is made of; what it withholds for NULLs is in ``withheld``.

    Raises
    ------
    TooFewRecords : fewer than k records or persons are left.
    """
    found = microdata
    if microdata.valid is not None:
        policy = Policy(k=k, method="gaa_cp", nulls=nulls, max_suppression=None)
        found = merge_nulls(microdata, policy)
        if nulls == SUPPRESS:
            records = np.flatnonzero(microdata.valid.all(axis=1))
        else:
            rare = rare_records(found, policy)
            every = np.arange(found.n_records)
            records = every if rare is None else np.setdiff1d(every, rare, assume_unique=True)
        found = replace(take_records(found, records), withheld=microdata.n_read - len(records))
    smallest = _smallest(found)
    if smallest >= k:
        return found
    what = "row" if microdata.entities is None else "person"
    raise TooFewRecords(
        f"The table has {counted(microdata.n_read, 'row')}, and no more than"
        f' {counted(smallest, what)} that could be released with `nulls="{nulls}"`, fewer than'
        f" k = {k}."
        if microdata.valid is not None
        else f"The table has {counted(smallest, what)}, fewer than k = {k}.",
        hint="Choose a smaller k"
        + (", another value of `nulls`" if microdata.valid is not None else "")
        + ", or a larger table.",
    )


def _smallest(microdata: Microdata) -> int:
    """The records or persons of the smallest pattern of NULLs."""
    if not microdata.n_records:
        return 0
    if microdata.valid is None:
        return count_of(microdata, np.arange(microdata.n_records))
    return min(count_of(microdata, one) for one in groups(pattern_codes(microdata.valid)))


def share_withheld(microdata: Microdata) -> float:
    """The share of records that are withheld, in hundredths, rounded up: no more of how many."""
    return math.ceil(100 * microdata.withheld / max(microdata.n_read, 1)) / 100


def choose_nulls(
    microdata: Microdata,
    k: int,
    requested: str | None,
    release: Callable[[Microdata, str], Release],
    *,
    merges: bool = True,
) -> NullChoice:
    """What is asked for, or else what loses least.

    Cells of withheld records and suppressed cells count as lost, those of others as the release
    loses them. Of equal losses the first of ``CHOICES`` is taken.

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
    lost: dict[str, float] = {}
    shares: dict[str, float] = {}
    for nulls in CHOICES:
        if nulls == MERGE and not merges:
            continue
        try:
            released = release_of(microdata, nulls, k)
        except TooFewRecords:
            continue
        # Another value releases the same.
        is_suppress = nulls == CATEGORY and released.valid is None
        is_category = nulls == MERGE and released.suppressed is None
        if is_suppress or is_category:
            continue
        lost[nulls] = 1.0 - _cells_left(released, release(released, nulls)) / max(cells, 1)
        shares[nulls] = share_withheld(released)
    if not lost:
        # As it was refused for each of them.
        release_of(microdata, MERGE if merges else SUPPRESS, k)
    best = min(lost, key=lambda nulls: round(lost[nulls], 9))
    return NullChoice(best, shares[best], lost)


def _cells_left(microdata: Microdata, release: Release) -> float:
    """What is left of the cells with a value, in cells, when some of the records tell the loss."""
    every = microdata.n_records * len(microdata.attributes)
    present = every
    if microdata.valid is not None:
        present = int(microdata.valid.sum())
    if microdata.suppressed is not None:
        present += int(microdata.suppressed.sum())
    # NULLs count in iloss as cells that lose nothing.
    return present - release.loss * (every if release.measure == "iloss" else present)


def sampled(microdata: Microdata, size: int, seed: int, k: int) -> Microdata:
    """The records that releases are tried on, k or more of each pattern of NULLs."""
    total = microdata.n_records
    if total <= size:
        return microdata
    sample = take_records(microdata, _drawn(microdata, size, seed, k))
    # As many withheld beside these as beside all.
    return replace(sample, withheld=microdata.withheld * sample.n_records // total)


def _drawn(microdata: Microdata, size: int, seed: int, k: int) -> NDArray[np.int64]:
    """The records of a sample, int64 in their order; where persons have several, whole persons."""
    rng = np.random.default_rng(seed)
    persons = microdata.entities
    if persons is None:
        drawn = rng.choice(microdata.n_records, size, replace=False)
        chosen = np.sort(drawn).astype(np.int64)
    else:
        each = np.bincount(persons)
        order = rng.permutation(np.flatnonzero(each))
        whole = order[np.cumsum(each[order]) <= size]
        chosen = np.flatnonzero(np.isin(persons, whole)).astype(np.int64)
    if microdata.valid is None:
        return chosen
    found = [chosen]
    drawn_already = np.zeros(microdata.n_records, np.bool_)
    drawn_already[chosen] = True
    for records in groups(pattern_codes(microdata.valid)):
        found.append(_more_of(microdata, records, drawn_already[records], k, rng))
    return np.sort(np.concatenate(found))


def _more_of(
    microdata: Microdata,
    records: NDArray[np.int64],
    drawn: NDArray[np.bool_],
    k: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Records of a pattern of NULLs, so that with those drawn k records or persons have it."""
    persons = records if microdata.entities is None else microdata.entities[records]
    there = np.unique(persons[drawn])
    others = np.setdiff1d(persons, there)
    more = rng.permutation(others)[: max(k - len(there), 0)]
    return records[np.isin(persons, more) & ~drawn]
