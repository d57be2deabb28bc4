"""Shift dates by secret offsets: draw the offsets, and recount the dates that were written.

All rows of a person have one offset; without an entity, each row has its own. Offsets are uniform
in -days, …, days. They are kept in memory and in the run's temporary tables, and never written to a
release, a ledger, a report or a log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.schema import Kind, as_identifier
from dbanon.data.types import JsonObject
from dbanon.errors import (
    InvalidParameter,
    RecountFailed,
    ShiftedDatesTell,
    TellingColumnRefused,
    UnsupportedType,
    warn_caller,
)
from dbanon.job.date_shift import DateShift
from dbanon.job.guarantee import REPORT_IT
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.pseudonym import PseudonymKey
from dbanon.ledger.source_history import SourceHistory
from dbanon.run.history import describe_outputs
from dbanon.run.plan import Plan
from dbanon.stores.ports import PreparedRelease, Source, Target, W

# A column follows from a date if it has one value per date, for dates that several rows share.
# These shares of rows and of dates leave room for errors in the data.
_LEAST_SHARED_ROWS, _LEAST_SHARE = 0.5, 0.99


def draw_offsets(planned: Plan, source: Source, microdata: Microdata) -> NDArray[np.int32] | None:
    """Draw the offset of each record in days, int32 (n,); None if no dates are shifted.

    With a key, the offset follows from the person's identifier, and is the same in each release
    with this key. Otherwise it is random.

    Warns with ``ShiftedDatesTell`` of earlier releases with other offsets.

    Raises
    ------
    TellingColumnRefused : there is something to warn of, and the policy is strict.
    UnsupportedType : a date is so early or late that it cannot be shifted.
    InvalidParameter : identifiers that count as one person have different texts.
    """
    shift = planned.job.shift_dates
    if shift is None:
        return None
    _require_room(planned, source, shift)
    _warn_or_refuse([*_describe_earlier_offsets(planned, shift)], planned.policy)
    if planned.pseudonym_key is not None and microdata.entities is not None:
        return _offsets_of_persons(planned, source, microdata, planned.pseudonym_key, shift)
    units = np.arange(microdata.n_records) if microdata.entities is None else microdata.entities
    random_bytes = os.urandom(8 * (int(units.max(initial=-1)) + 1))
    draws = np.frombuffer(random_bytes, np.uint64) % np.uint64(shift.n_offsets)
    offsets = draws.astype(np.int32) - np.int32(shift.days)
    return np.asarray(offsets[units], np.int32)


def warn_of_unshifted_copies(job: Job, history: SourceHistory) -> None:
    """Warn of dates that are copied as they are, and were shifted in earlier releases.

    Warns with ``ShiftedDatesTell``.

    Raises
    ------
    TellingColumnRefused : there is something to warn of, and the policy is strict.
    """
    shifted_columns = () if job.shift_dates is None else job.shift_dates.columns
    texts = []
    for name in job.retained_columns:
        shifting_releases = [each for each in history.releases if name in each.shifted_columns]
        if shifting_releases and name not in shifted_columns:
            texts.append(
                f'Column "{name}" is released with its own dates, which were shifted before: the'
                f" ledger has {describe_outputs(shifting_releases)}. Readers who find a person in"
                " both releases learn the offset. Shift it, too, or leave it out."
            )
    _warn_or_refuse(texts, job.policy)


def _describe_earlier_offsets(planned: Plan, shift: DateShift) -> Iterator[str]:
    """Yield a text for each way in which dates of earlier releases tell offsets."""
    job, earlier_releases = planned.job, planned.history.releases_with_classes()
    if not earlier_releases:
        return
    if planned.pseudonym_key is None or not job.guarantee.entity_columns:
        yield (
            "The source was released before: readers who find a row in both releases compare its"
            " dates, which have other offsets now. The more releases, the less is hidden."
        )
        return
    offset_rules = {**describe_shift(job, planned.pseudonym_key), "columns": []}
    other_releases = [
        each
        for each in earlier_releases
        if each.date_shift
        and (
            {**each.date_shift, "columns": []} != offset_rules
            or (each.entity, each.normalize) != (job.entity, job.entity_normalize)
        )
    ]
    if other_releases:
        yield (
            f"Dates had other offsets before: the ledger has {describe_outputs(other_releases)}."
            " Readers who find a person in both releases compare the dates. The more offsets, the"
            " less is hidden. With the same key, entity and days, offsets are the same."
        )


def _offsets_of_persons(
    planned: Plan,
    source: Source,
    microdata: Microdata,
    key: PseudonymKey,
    shift: DateShift,
) -> NDArray[np.int32]:
    """Compute the offset of each record's person from the person's identifier and the key.

    Raises
    ------
    InvalidParameter : identifiers that count as one person have different texts.
    """
    entity = str(planned.job.entity)
    person = as_identifier(planned.relation.attribute(entity), planned.job.entity_normalize)
    assert microdata.entities is not None
    offsets = np.full(int(microdata.entities.max(initial=-1)) + 1, shift.days + 1, np.int32)
    for code, tag in source.read_person_tags(planned.relation, planned.roles, person, key):
        # The first 64 bits of the hash. As there are few offsets, all are practically equally
        # likely.
        offset = int.from_bytes(tag[:8], "big") % shift.n_offsets - shift.days
        if not 0 <= code < len(offsets):
            continue
        if offsets[code] not in (shift.days + 1, offset):
            raise InvalidParameter(
                f'Values of "{entity}" that the database considers equal have different texts, so'
                " one person would have several offsets.",
                hint="Spell them alike in a view, or leave out `pseudonym_key`.",
            )
        offsets[code] = offset
    return np.asarray(offsets[microdata.entities], np.int32)


def _require_room(planned: Plan, source: Source, shift: DateShift) -> None:
    """Check that all dates can be shifted, and warn of a short period.

    Warns with ``ShiftedDatesTell``.

    Raises
    ------
    UnsupportedType : a date is so early or late that it cannot be shifted, or is no date.
    TellingColumnRefused : there is something to warn of, and the policy is strict.
    """
    texts = []
    for name in shift.columns:
        attribute = planned.relation.attribute(name)
        dates = source.measure_dates(planned.relation, attribute)
        if not dates.has_room(shift.days):
            raise UnsupportedType(
                f'Column "{name}" has values that cannot be shifted by {shift.days} days: they are'
                " no dates, are infinite, or lie at the ends of the calendar.",
                hint="Correct these values in a view, or leave the column out of `shift_dates`.",
            )
        if dates.n_values and dates.last_day - dates.first_day < 2 * shift.days:
            texts.append(
                f'The dates in "{name}" lie closer together than their offsets. Readers who know'
                " the period learn more about a date the farther it was moved out of it."
            )
    _warn_or_refuse(texts, planned.policy)


def require_shifted_dates(
    draft: PreparedRelease, source: Source, target: Target[W], staged_release: W
) -> None:
    """Have the written dates counted: each is its original plus the offset of its row or person.

    Warns with ``ShiftedDatesTell`` of columns that tell offsets.

    Raises
    ------
    RecountFailed : a written date is another one, or an offset is not as it should be.
    """
    shift = draft.job.shift_dates
    if shift is None:
        return
    n_wrong = target.count_wrong_dates(staged_release, source)
    if n_wrong or not are_valid_offsets(draft, shift):
        columns = ", ".join(f'"{name}"' for name in shift.columns)
        raise RecountFailed(
            f"The written dates of {columns} are not their originals with one offset for each"
            f" {'person' if draft.microdata.entities is not None else 'row'};"
            " nothing was published.",
            hint=REPORT_IT,
        )
    _warn_or_refuse([*_describe_telling_columns(draft, source, shift)], draft.job.policy)


def _warn_or_refuse(texts: Sequence[str], policy: Policy) -> None:
    """Warn of what tells offsets; raises TellingColumnRefused if the policy is strict."""
    if policy.strict and texts:
        raise TellingColumnRefused(
            "Something would tell readers by how many days dates are shifted. Nothing was"
            " published.",
            detail=" ".join(texts),
            hint="Leave out what tells it, or leave out `strict`.",
        )
    for text in texts:
        warn_caller(ShiftedDatesTell(text))


def describe_shift(job: Job, key: PseudonymKey | None = None) -> JsonObject:
    """Describe the shift of dates, for the report, the plan and the ledger.

    Parameters
    ----------
    key : the key that offsets follow from, if the job has an entity; None for random offsets.
    """
    shift, has_persons = job.shift_dates, bool(job.guarantee.entity_columns)
    assert shift is not None
    key = key if has_persons else None
    return {
        **shift.to_plain(),
        "offset_per": "person" if has_persons else "row",
        **({} if key is None else {"key": key.fingerprint}),
    }


def are_valid_offsets(draft: PreparedRelease, shift: DateShift) -> bool:
    """Whether the offsets are within the bound, and each person has one."""
    offsets, persons = draft.date_offsets, draft.microdata.entities
    assert offsets is not None
    if len(offsets) != draft.microdata.n_records or np.abs(offsets).max(initial=0) > shift.days:
        return False
    if persons is None:
        return True
    _, first_rows, indices = np.unique(persons, return_index=True, return_inverse=True)
    return bool((offsets[first_rows][indices.reshape(-1)] == offsets).all())


def _describe_telling_columns(
    draft: PreparedRelease, source: Source, shift: DateShift
) -> Iterable[str]:
    """Yield a text for each copied column that tells something of the offsets."""
    other_names = [name for name in draft.job.retained_columns if name not in shift.columns]
    for name in other_names:
        if draft.relation.attribute(name).kind in (Kind.DATE, Kind.TIMESTAMP):
            yield (
                f'Column "{name}" is released with its own dates. Where they are near those of'
                f" {_list_names(shift.columns)}, they tell the offsets. Shift it, too, or leave it"
                " out."
            )
    varying_names = [
        name
        for name in other_names
        if draft.relation.attribute(name).kind not in (Kind.DATE, Kind.TIMESTAMP)
        and source.count_distinct(draft, name)[1] > 1
    ]
    for date_name in shift.columns if varying_names else ():
        for name in _find_followers(draft, source, date_name, varying_names):
            yield (
                f'Column "{name}" follows from the date in "{date_name}", as its weekday or month'
                " would. It tells which offsets are possible. Leave it out."
            )


def _find_followers(
    draft: PreparedRelease, source: Source, date_name: str, names: Sequence[str]
) -> list[str]:
    """Return the columns that have one value for each date that several rows share."""
    groups = source.group_by_day(draft, date_name, names)
    is_shared = groups.sizes > 1
    n_shared_rows = int(groups.sizes[is_shared] @ groups.counts[is_shared])
    n_shared = int(groups.counts[is_shared].sum())
    if n_shared_rows < _LEAST_SHARED_ROWS * groups.n_rows or not n_shared:
        return []
    n_identical = groups.identical[is_shared].sum(axis=0)
    return [
        name
        for name, count in zip(names, n_identical.tolist(), strict=True)
        if count >= _LEAST_SHARE * n_shared
    ]


def _list_names(names: Sequence[str]) -> str:
    return " and ".join(f'"{name}"' for name in names)
