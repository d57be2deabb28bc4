"""Recount coded columns: the written values are labels of their bands, and nothing else."""

from __future__ import annotations

from dbanon.data.bands import Bands
from dbanon.errors import RecountFailed
from dbanon.job.guarantee import REPORT_IT
from dbanon.job.zip_codes import ZipAreas
from dbanon.stores.ports import PreparedRelease, Target, W


def require_band_labels(draft: PreparedRelease, target: Target[W], staged_release: W) -> None:
    """Have the target count the values of coded columns, and check that all are labels or NULL.

    So no number beyond a threshold, and no border that is not public, can be read from them.

    Raises
    ------
    RecountFailed : a written value is no label of the column's bands, or rows are missing.
    """
    bands_by_column = {a.name: a.bands for a in draft.microdata.attributes if a.bands is not None}
    for column in draft.release.columns:
        bands = bands_by_column.get(column.quasi_identifier)
        if bands is None:
            continue
        name = column.attribute.name
        counts = target.count_values(staged_release, name)
        n_rows = int(draft.release.partition.sizes.sum())
        n_other = count_other_rows(counts, bands)
        if n_other or sum(counts.values()) != n_rows:
            raise RecountFailed(
                f'Column "{name}" was coded, and {n_other} of {n_rows} written rows do not have the'
                " label of a band; nothing was published.",
                hint=REPORT_IT,
            )


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


def count_other_rows(counts: dict[str | None, int], bands: Bands) -> int:
    """Count the rows whose value is neither NULL nor a label of bands.

    Parameters
    ----------
    counts : the number of rows by value.
    """
    return sum(
        count
        for value, count in counts.items()
        if value is not None and not bands.is_label(str(value))
    )
