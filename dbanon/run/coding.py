"""Recount coded columns: the written values are labels of bands or groups, and nothing else."""

from __future__ import annotations

from dbanon.data.bands import Bands
from dbanon.data.groups import Groups
from dbanon.errors import RecountFailed
from dbanon.job.guarantee import REPORT_IT
from dbanon.job.zip_codes import ZipAreas
from dbanon.partitioning.coding import few_in_tail_error
from dbanon.stores.ports import PreparedRelease, Target, W


def require_coded_labels(draft: PreparedRelease, target: Target[W], staged_release: W) -> None:
    """Have the target count the values of coded columns, and check that all are labels or NULL.

    So no number beyond a threshold, no border that is not public, and no value of a group can be
    read from them.

    Raises
    ------
    RecountFailed : a written value is no label of the column's coding, or rows are missing.
    """
    coding_by_column = {a.name: a.bands or a.groups for a in draft.microdata.attributes}
    for column in draft.release.columns:
        coding = coding_by_column[column.quasi_identifier]
        if coding is None:
            continue
        name = column.attribute.name
        counts = target.count_values(staged_release, name)
        n_rows = int(draft.release.partition.sizes.sum())
        n_other = count_other_rows(counts, coding)
        if n_other or sum(counts.values()) != n_rows:
            raise RecountFailed(
                f'Column "{name}" was coded, and {n_other} of {n_rows} written rows do not have the'
                f" label of a {'band' if isinstance(coding, Bands) else 'group'}; nothing was"
                " published.",
                hint=REPORT_IT,
            )


def require_coded_copies(draft: PreparedRelease, target: Target[W], staged_release: W) -> None:
    """Have the target count coded copies: no number beyond a threshold, and k in each tail.

    Raises
    ------
    RecountFailed : a written value is neither a label nor a number that is kept.
    TooFewRecords : a tail has rows or persons, but fewer than k.
    """
    k = int(draft.job.policy.k)
    for name, coding in draft.copy_codings.items():
        counts = target.count_coded(staged_release, name, coding)
        if counts.n_wrong:
            raise RecountFailed(
                f'Column "{name}" was coded, and {counts.n_wrong} written rows do not have a value'
                " that the coding allows; nothing was published.",
                hint=REPORT_IT,
            )
        for band, label in zip(coding.bands.open_bands, coding.tail_labels, strict=True):
            if 0 < counts.tails[label] < k:
                units = "persons" if draft.microdata.entities is not None else "rows"
                raise few_in_tail_error(name, coding.bands, band, k, units)


def require_zip_labels(
    zip_areas: ZipAreas, draft: PreparedRelease, target: Target[W], staged_release: W
) -> None:
    """Have the target count the values of ZIP codes, and check that none shows a small area.

    Raises
    ------
    RecountFailed : a written value has digits of an area with 20,000 people or fewer, or more than
        three digits.
    """
    for column in draft.release.columns:
        if column.quasi_identifier not in zip_areas.columns:
            continue
        name = column.attribute.name
        counts = target.count_values(staged_release, name)
        n_other = sum(
            count
            for value, count in counts.items()
            if value is not None and not zip_areas.is_label(str(value))
        )
        if n_other:
            raise RecountFailed(
                f'Column "{name}" holds ZIP codes, and {n_other} written rows show an area that'
                " must be 000; nothing was published.",
                hint=REPORT_IT,
            )


def count_other_rows(counts: dict[str | None, int], coding: Bands | Groups) -> int:
    """Count the rows whose value is neither NULL nor a label of bands or groups.

    Parameters
    ----------
    counts : the number of rows by value.
    """
    return sum(
        count
        for value, count in counts.items()
        if value is not None and not coding.is_label(str(value))
    )
