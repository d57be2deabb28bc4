"""Retained values to copy from the source into another database, with the class of each row.

A ``draft`` is a ``PreparedRelease``: a release that is computed but not written yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta, timezone

import numpy as np
from numpy.typing import NDArray

from dbanon.data.bands import CopyCoding
from dbanon.data.microdata import find_records
from dbanon.data.schema import Attribute, Kind
from dbanon.data.types import SqlRow
from dbanon.job.coding import coded_copy_attribute
from dbanon.job.pseudonym import pseudonym_attribute
from dbanon.sessions.base import ReleasedBatch, random_order
from dbanon.sessions.session import Session
from dbanon.stores.ports import PreparedRelease, Progress, Source


def find_copied_columns(draft: PreparedRelease) -> list[Attribute]:
    """Return the columns to copy, in source order, with the types of their staging columns."""
    pseudonyms = draft.job.pseudonyms
    return [
        pseudonym_attribute(a)
        if a.name in pseudonyms
        else coded_copy_attribute(a)
        if a.name in draft.copy_codings
        else a
        for a in draft.relation.schema.attributes
        if a.name in draft.job.copied_columns
    ]


def list_person_staging_columns(draft: PreparedRelease) -> list[Attribute]:
    """List the one staging column of person numbers; empty if the job has no entity."""
    # ``entity_columns`` has the entity column, or is empty.
    return [Attribute("person", Kind.INTEGER, bits=32) for _ in draft.roles.entity_columns]


def read_copied_rows(
    session: Session,
    draft: PreparedRelease,
    source: Source,
    attributes: Sequence[Attribute],
    progress: Progress,
) -> Iterator[ReleasedBatch]:
    """Yield batches of released rows: their classes, random positions, and retained values.

    Classes and positions are int32 (n_rows,). Person identifiers are never copied: if the job has
    an entity, each row ends with a random number that stands for its person.

    Parameters
    ----------
    session : the session on the target, which assigns random numbers to the classes.
    source : where the retained values are read.
    attributes : the columns to read, from ``find_copied_columns``.
    progress : called with the share of rows that have been read.
    """
    microdata, partition = draft.microdata, draft.release.partition
    released_records = np.flatnonzero(partition.labels >= 0)
    # The position of each record in the release. It is random, so that the order of the rows does
    # not reveal their order in the source. Withheld records keep the position -1, which is
    # never read.
    positions = np.full(microdata.n_records, -1, np.int32)
    positions[released_records] = random_order(len(released_records))
    # Withheld records have the label -1. They get a wrong class here, and are left out below.
    classes = session.class_numbers(partition)[partition.labels]
    # The random number of each record's person; None if the job has no entity.
    person_numbers = None
    if microdata.entities is not None:
        # ``entities`` has the number of each record's person, counted from 0.
        person_order = random_order(int(microdata.entities.max(initial=-1)) + 1)
        person_numbers = person_order[microdata.entities].astype(np.int32)

    def append_person_numbers(
        records: NDArray[np.int64], rows: Sequence[SqlRow]
    ) -> Sequence[SqlRow]:
        if person_numbers is None:
            return rows
        row_numbers = person_numbers[records].tolist()
        return [(*row, number) for row, number in zip(rows, row_numbers, strict=True)]

    if not attributes:
        empty_rows = [()] * len(released_records)
        yield (
            classes[released_records],
            positions[released_records],
            append_person_numbers(released_records, empty_rows),
        )
        return
    names = [attribute.name for attribute in attributes]
    n_read = 0
    for keys, rows in _rows_with_pseudonyms(draft, source, names):
        # The indexes of the rows' records in the microdata, found by row key.
        records = find_records(microdata.keys, keys)
        released_indexes = np.flatnonzero(partition.labels[records] >= 0)
        records = records[released_indexes]
        released = [rows[i] for i in released_indexes.tolist()]
        n_read += len(rows)
        progress(min(n_read / max(microdata.n_records, 1), 1.0))
        yield (
            classes[records],
            positions[records],
            append_person_numbers(records, _mask_values(draft, attributes, records, released)),
        )


def _mask_values(
    draft: PreparedRelease,
    attributes: Sequence[Attribute],
    records: NDArray[np.int64],
    rows: list[SqlRow],
) -> list[SqlRow]:
    """Return rows with shifted dates and coded numbers.

    Parameters
    ----------
    attributes : the columns of the rows.
    records : int64 (m,), the records of the rows.
    """
    if draft.copy_codings:
        # The attributes of coded columns are those of their labels.
        originals = [draft.relation.attribute(attribute.name) for attribute in attributes]
        codings = [draft.copy_codings.get(attribute.name) for attribute in attributes]
        rows = [
            tuple(
                value if coding is None else code_value(value, original, coding)
                for value, original, coding in zip(row, originals, codings, strict=True)
            )
            for row in rows
        ]
    shift, offsets = draft.job.shift_dates, draft.date_offsets
    if shift is None or offsets is None:
        return rows
    is_shifted = [attribute.name in shift.columns for attribute in attributes]
    return [
        tuple(
            shift_value(value, offset) if shifts else value
            for value, shifts in zip(row, is_shifted, strict=True)
        )
        for row, offset in zip(rows, offsets[records].tolist(), strict=True)
    ]


def _rows_with_pseudonyms(
    draft: PreparedRelease, source: Source, names: Sequence[str]
) -> Iterator[tuple[NDArray[np.int64], Sequence[SqlRow]]]:
    """Yield the batches of ``Source.read_retained_rows``, with pseudonyms for identifiers."""
    batches = source.read_retained_rows(draft.relation, names, draft.job.chunk_rows)
    pseudonym_key = draft.pseudonym_key
    if pseudonym_key is None:
        yield from batches
        return
    pseudonym_attributes = [
        draft.relation.attribute(name) if name in draft.job.pseudonyms else None for name in names
    ]
    # Pseudonyms are computed without the spaces with which a source pads values.
    padding_flags = [a is not None and source.has_padding(a) for a in pseudonym_attributes]
    for row_keys, batch in batches:
        yield (
            row_keys,
            [
                tuple(
                    value
                    if attribute is None
                    else pseudonym_key.pseudonym(attribute, value, is_padded)
                    for attribute, value, is_padded in zip(
                        pseudonym_attributes, row, padding_flags, strict=True
                    )
                )
                for row in batch
            ],
        )


def shift_value(value: object, offset: int) -> object:
    """Shift a date or timestamp by days of 24 hours; NULL remains NULL.

    Parameters
    ----------
    value : a date, or its text as SQLite stores it.
    """
    if value is None:
        return None
    if isinstance(value, str):
        # The time of day follows the ten characters of the date.
        day = date.fromisoformat(value[:10]) + timedelta(days=offset)
        return f"{day.isoformat()}{value[10:]}"
    # Other values were refused when their range was measured.
    assert isinstance(value, date)
    if isinstance(value, datetime) and value.tzinfo is not None:
        # Python adds days by the clocks of the zone, where some days have 23 or 25 hours.
        instant = value.astimezone(timezone.utc) + timedelta(days=offset)
        return instant.astimezone(value.tzinfo)
    return value + timedelta(days=offset)


def code_value(value: object, attribute: Attribute, coding: CopyCoding) -> str | None:
    """Code a number: the label of its band, or its text; NULL remains NULL.

    Parameters
    ----------
    attribute : the column of the number. The text of one of single precision is the shortest, as in
        databases: 1.3, and not 1.2999999523162842.
    """
    if value is None:
        return None
    text = str(np.float32(str(value)) if attribute.has_single_precision else value)
    label = coding.label_of(float(text))
    return text if label is None else label
