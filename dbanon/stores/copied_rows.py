"""Rows copied from the source into another database: values with the class of their record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import find_records
from dbanon.data.schema import Attribute, Kind
from dbanon.job.pseudonym import pseudonymous
from dbanon.sessions.base import random_order
from dbanon.sessions.session import Session
from dbanon.stores.ports import PreparedRelease, Progress, Source


def copied_columns(draft: PreparedRelease) -> list[Attribute]:
    """The columns to copy, with their staged types, in source order."""
    hidden = draft.job.pseudonyms
    return [
        pseudonymous(a) if a.name in hidden else a
        for a in draft.relation.schema.attributes
        if a.name in draft.job.copied_columns
    ]


def person_column(draft: PreparedRelease) -> list[Attribute]:
    """The staged column of person identifiers; empty if the job has no entity."""
    return [Attribute("person", Kind.INTEGER, bits=32) for _ in draft.roles.persons]


def copied_rows(
    session: Session,
    draft: PreparedRelease,
    source: Source,
    attributes: Sequence[Attribute],
    progress: Progress,
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], Sequence[tuple[Any, ...]]]]:
    """Yield retained values with the class and random position of their record, in batches.

    Person identifiers are never copied: each person gets a random number instead.
    """
    microdata, partition = draft.microdata, draft.release.partition
    released = np.flatnonzero(partition.labels >= 0)
    positions = np.full(microdata.n_records, -1, np.int32)
    positions[released] = random_order(len(released))
    classes = session.class_numbers(partition)[partition.labels]
    numbers = None
    if microdata.entities is not None:
        order = random_order(int(microdata.entities.max(initial=-1)) + 1)
        numbers = order[microdata.entities].astype(np.int32)

    def with_persons(
        records: NDArray[np.int64], rows: Sequence[tuple[Any, ...]]
    ) -> Sequence[tuple[Any, ...]]:
        if numbers is None:
            return rows
        row_numbers = numbers[records].tolist()
        return [(*row, number) for row, number in zip(rows, row_numbers, strict=True)]

    if not attributes:
        rows = with_persons(released, [()] * len(released))
        yield classes[released], positions[released], rows
        return
    names, done = [attribute.name for attribute in attributes], 0
    for keys, read in _rows_with_pseudonyms(draft, source, names):
        records = find_records(microdata.keys, keys)
        chosen = np.flatnonzero(partition.labels[records] >= 0)
        records = records[chosen]
        done += len(read)
        progress(min(done / max(microdata.n_records, 1), 1.0))
        yield (
            classes[records],
            positions[records],
            with_persons(records, [read[i] for i in chosen.tolist()]),
        )


def _rows_with_pseudonyms(
    draft: PreparedRelease, source: Source, names: Sequence[str]
) -> Iterator[tuple[NDArray[np.int64], Sequence[tuple[Any, ...]]]]:
    """Yield keys and values like ``kept_rows``, with pseudonyms in place of their values."""
    rows = source.kept_rows(draft.relation, names, draft.job.chunk_rows)
    key = draft.pseudonym_key
    if key is None:
        yield from rows
        return
    hidden_attributes = [
        draft.relation.attribute(n) if n in draft.job.pseudonyms else None for n in names
    ]
    hidden = [
        None if pseudonym is None else (pseudonym, source.has_padding(pseudonym))
        for pseudonym in hidden_attributes
    ]
    for keys, read in rows:
        yield (
            keys,
            [
                tuple(
                    value if pseudonym is None else key.of(pseudonym[0], value, pseudonym[1])
                    for pseudonym, value in zip(hidden, row, strict=True)
                )
                for row in read
            ],
        )
