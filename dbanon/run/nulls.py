"""Choose how to treat NULLs in quasi-identifiers: by default with the least information loss.

A *pattern* of NULLs is the set of quasi-identifiers that are NULL in a record. ``Microdata.valid``
marks the cells with a value, and is None if no cell is NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.nulls import NullChoice
from dbanon.data.microdata import Microdata
from dbanon.errors import TooFewRecords, pluralize
from dbanon.hierarchy.leaves import take_records
from dbanon.job.nulls import CATEGORY, ERROR, MERGE, SUPPRESS
from dbanon.job.policy import Policy
from dbanon.partitioning.nulls import merge_nulls
from dbanon.partitioning.strata import count_for_k, group_positions, pattern_codes, rare_records
from dbanon.release.recode import Release

# In order of preference if losses are equal: the treatment that changes least comes first.
CHOICES = (CATEGORY, MERGE, SUPPRESS)


def records_to_release(microdata: Microdata, nulls: str, k: int) -> Microdata:
    """Return the records that are released with a treatment of NULLs, such as ``suppress``.

    The other records count as withheld.

    Raises
    ------
    TooFewRecords : fewer than k records or persons are left.
    """
    remaining_records = microdata
    if microdata.valid is not None:
        # Only ``k`` and ``nulls`` matter here. With ``max_suppression=None``, any number of records
        # may be withheld.
        policy = Policy(k=k, method="gaa_cp", nulls=nulls, max_suppression=None)
        remaining_records = merge_nulls(microdata, policy)
        if nulls == SUPPRESS:
            released_indices = np.flatnonzero(microdata.valid.all(axis=1))
        else:
            # The records whose pattern fewer than k records, or persons, share; None without such
            # records, or if no pattern has k.
            rare_indices = rare_records(remaining_records, policy)
            released_indices = np.arange(remaining_records.n_records)
            if rare_indices is not None:
                released_indices = np.setdiff1d(released_indices, rare_indices, assume_unique=True)
        remaining_records = replace(
            take_records(remaining_records, released_indices),
            # ``n_read`` also counts records that were withheld before.
            n_withheld=microdata.n_read - len(released_indices),
        )
    smallest_pattern = _count_smallest_pattern(remaining_records)
    if smallest_pattern >= k:
        return remaining_records
    unit = "row" if microdata.entities is None else "person"
    raise TooFewRecords(
        f"The table has {pluralize(microdata.n_read, 'row')}, and no more than"
        f' {pluralize(smallest_pattern, unit)} that could be released with `nulls="{nulls}"`, fewer'
        f" than k = {k}."
        if microdata.valid is not None
        else f"The table has {pluralize(smallest_pattern, unit)}, fewer than k = {k}.",
        hint="Choose a smaller `k`"
        + (", another value of `nulls`" if microdata.valid is not None else "")
        + ", or a larger table.",
    )


def _count_smallest_pattern(microdata: Microdata) -> int:
    """Return the number of records, or of persons, that share the rarest pattern of NULLs."""
    if not microdata.n_records:
        return 0
    if microdata.valid is None:
        return count_for_k(microdata, np.arange(microdata.n_records))
    # ``count_for_k`` counts what k counts: persons, or records if each is a person.
    return min(
        count_for_k(microdata, pattern)
        for pattern in group_positions(pattern_codes(microdata.valid))
    )


def share_withheld(microdata: Microdata) -> float:
    """Return the share of withheld records, rounded up to hundredths to hide their exact number."""
    return math.ceil(100 * microdata.n_withheld / max(microdata.n_read, 1)) / 100


def choose_nulls(
    microdata: Microdata,
    k: int,
    requested_nulls: str | None,
    try_release: Callable[[Microdata, str], Release],
    *,
    can_merge: bool = True,
) -> NullChoice:
    """Choose the requested treatment of NULLs, or else the one with the least information loss.

    Cells of withheld records and suppressed cells count as lost completely; other cells count with
    the loss of the release. If losses are equal, the first of ``CHOICES`` wins.

    Parameters
    ----------
    microdata : all records, including those with a NULL.
    requested_nulls : the value of ``nulls`` that the user asked for; None to choose one.
    try_release : makes a trial release of records with a value of ``nulls``.
    can_merge : False if the release cannot merge patterns of NULLs, as in a chain.

    Raises
    ------
    TooFewRecords : no value of ``nulls`` leaves k records.
    """
    if microdata.valid is None:
        # Raises TooFewRecords if there are too few. Nothing is withheld, and no treatment is tried.
        records_to_release(microdata, ERROR, k)
        return NullChoice(ERROR, 0.0, {})
    if requested_nulls is not None:
        return NullChoice(
            requested_nulls, share_withheld(records_to_release(microdata, requested_nulls, k)), {}
        )
    cells_with_value = int(microdata.valid.sum())
    losses: dict[str, float] = {}
    withheld_shares: dict[str, float] = {}
    for nulls in CHOICES:
        if nulls == MERGE and not can_merge:
            continue
        try:
            released_records = records_to_release(microdata, nulls, k)
        except TooFewRecords:
            continue
        # Skip a treatment that gives the same release as another: CATEGORY, if all records with a
        # NULL are withheld as rare, and MERGE, if it has set no cell to NULL.
        equals_suppress = nulls == CATEGORY and released_records.valid is None
        equals_category = nulls == MERGE and released_records.suppressed is None
        if equals_suppress or equals_category:
            continue
        informative_cells = _count_informative_cells(
            released_records, try_release(released_records, nulls)
        )
        losses[nulls] = 1.0 - informative_cells / max(cells_with_value, 1)
        withheld_shares[nulls] = share_withheld(released_records)
    if not losses:
        # Every treatment was refused: raise that error again.
        records_to_release(microdata, MERGE if can_merge else SUPPRESS, k)
    best = min(losses, key=lambda nulls: round(losses[nulls], 9))
    return NullChoice(best, withheld_shares[best], losses)


def _count_informative_cells(microdata: Microdata, release: Release) -> float:
    """Count the cells with a value, minus the share that the release loses of them.

    Parameters
    ----------
    microdata : all records of the release.
    release : the release of these records or of a sample of them.
    """
    all_cells = microdata.n_records * len(microdata.attributes)
    present_cells = all_cells
    if microdata.valid is not None:
        present_cells = int(microdata.valid.sum())
    # A suppressed cell had a value and is now NULL: it is present, and lost completely.
    if microdata.suppressed is not None:
        present_cells += int(microdata.suppressed.sum())
    # The measure iloss is an average over all cells, in which NULLs lose nothing. Other measures
    # average over the cells with a value.
    return present_cells - release.loss * (
        all_cells if release.measure == "iloss" else present_cells
    )


def sample_records(microdata: Microdata, sample_size: int, seed: int, k: int) -> Microdata:
    """Draw a sample for trial releases, with k or more records of each pattern of NULLs.

    Parameters
    ----------
    sample_size : the number of records to draw, apart from those that a pattern needs for its k.
    """
    total = microdata.n_records
    if total <= sample_size:
        return microdata
    sample = take_records(microdata, _draw_records(microdata, sample_size, seed, k))
    # Scale the withheld records to the sample.
    return replace(sample, n_withheld=microdata.n_withheld * sample.n_records // total)


def _draw_records(microdata: Microdata, sample_size: int, seed: int, k: int) -> NDArray[np.int64]:
    """Draw the records of a sample, int64 (s,), ascending, with all rows of each sampled person.

    At least k records or persons are drawn from each pattern of NULLs.
    """
    rng = np.random.default_rng(seed)
    persons = microdata.entities
    if persons is None:
        drawn_records = rng.choice(microdata.n_records, sample_size, replace=False)
        sampled_records = np.sort(drawn_records).astype(np.int64)
    else:
        rows_per_person = np.bincount(persons)
        person_order = rng.permutation(np.flatnonzero(rows_per_person))
        # Draw whole persons, until the next one would exceed the size of the sample.
        chosen_persons = person_order[np.cumsum(rows_per_person[person_order]) <= sample_size]
        sampled_records = np.flatnonzero(np.isin(persons, chosen_persons)).astype(np.int64)
    if microdata.valid is None:
        return sampled_records
    samples = [sampled_records]
    is_sampled = np.zeros(microdata.n_records, np.bool_)
    is_sampled[sampled_records] = True
    for records in group_positions(pattern_codes(microdata.valid)):
        samples.append(_draw_further_records(microdata, records, is_sampled[records], k, rng))
    return np.sort(np.concatenate(samples))


def _draw_further_records(
    microdata: Microdata,
    records: NDArray[np.int64],
    is_sampled: NDArray[np.bool_],
    k: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw further records of a pattern of NULLs, so that k records or persons are sampled.

    Parameters
    ----------
    records : int64 (r,), all records of the pattern.
    is_sampled : bool (r,), whether each is in the sample already.
    """
    persons = records if microdata.entities is None else microdata.entities[records]
    sampled_persons = np.unique(persons[is_sampled])
    unsampled_persons = np.setdiff1d(persons, sampled_persons)
    drawn_persons = rng.permutation(unsampled_persons)[: max(k - len(sampled_persons), 0)]
    return records[np.isin(persons, drawn_persons) & ~is_sampled]
