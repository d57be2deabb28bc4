"""The recount of shifted dates in databases.

Offsets are part of the positions of staged labels (see ``Session.stage_offsets``), so the database
computes the shifted dates, and originals do not leave it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone

import numpy as np

from dbanon.data.date_range import units_per_day
from dbanon.data.microdata import find_records
from dbanon.data.schema import Attribute, Kind
from dbanon.sessions import statements
from dbanon.sessions.session import Session
from dbanon.stores.ports import Source
from dbanon.stores.sql_persons import StagedSqlRelease

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_UNIX_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


def count_wrong_dates(session: Session, staged_release: StagedSqlRelease, source: Source) -> int:
    """Count combinations of written dates that occur more or less often than they should.

    They should occur as often as the combinations of originals plus the offset of their row.
    """
    draft = staged_release.draft
    shift = draft.job.shift_dates
    assert shift is not None
    attributes = [draft.relation.attribute(name) for name in shift.columns]
    if staged_release.is_copied:
        return _count_wrong_copies(session, staged_release, source, attributes)
    dialect = session.dialect
    offset = statements.offset_days(shift.days)
    numbers = [dialect.bounded_number(a, *dialect.date_limits(a)) for a in attributes]
    written = ", ".join(
        f"{number} AS {statements.value_column(i)}" for i, number in enumerate(numbers)
    )
    expected = ", ".join(
        f"{number} + {offset} * {units_per_day(attribute)}"
        for number, attribute in zip(numbers, attributes, strict=True)
    )
    columns = ", ".join(map(statements.value_column, range(len(numbers))))
    released_rows = statements.released_rows(
        draft.relation.from_clause, draft.relation.required_locator.expressions
    )
    [(n_wrong,)] = session.rows(
        f"SELECT count(*) FROM (SELECT {columns} FROM (SELECT {written}, 1 AS balance FROM"
        f" {staged_release.relation.quoted} AS s UNION ALL SELECT {expected}, -1"
        f" FROM {released_rows}) AS u GROUP BY {columns} HAVING sum(balance) <> 0) AS wrong"
    )
    return int(n_wrong)


def _count_wrong_copies(
    session: Session, staged_release: StagedSqlRelease, source: Source, attributes: list[Attribute]
) -> int:
    """Do ``count_wrong_dates`` for rows of another database, which are read once more."""
    draft, dialect = staged_release.draft, session.dialect
    assert draft.date_offsets is not None
    expected = Counter[tuple[float, ...]]()
    names = [attribute.name for attribute in attributes]
    labels = draft.release.partition.labels
    for keys, rows in source.read_retained_rows(draft.relation, names, draft.job.chunk_rows):
        records = find_records(draft.microdata.keys, keys)
        offsets = draft.date_offsets[records].tolist()
        for is_released, offset, row in zip(labels[records] >= 0, offsets, rows, strict=True):
            if is_released:
                expected[
                    tuple(
                        _to_day_or_second(attribute, value, offset)
                        for attribute, value in zip(attributes, row, strict=True)
                    )
                ] += 1
    written_attributes = [replace(a, sql_type=dialect.type_of(a)) for a in attributes]
    numbers = ", ".join(
        dialect.bounded_number(a, *dialect.date_limits(a)) for a in written_attributes
    )
    query = f"SELECT {numbers} FROM {staged_release.relation.quoted} AS s"
    units = np.array([1 if a.kind is Kind.DATE else 1_000_000 for a in attributes])
    written = Counter[tuple[float, ...]]()
    for chunk in session.read_numbers(query, draft.job.chunk_rows):
        # NULL is NaN, which does not equal itself.
        values = np.where(np.isnan(chunk), np.inf, np.floor(chunk / units))
        written.update(map(tuple, values.tolist()))
    return len(expected - written) + len(written - expected)


def _to_day_or_second(attribute: Attribute, value: object, offset: int) -> float:
    """Convert a date to days, and a timestamp to seconds, and add an offset; infinity for NULL."""
    if value is None:
        return float("inf")
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if attribute.kind is Kind.DATE:
        assert isinstance(value, date)
        return float(value.toordinal() - _UNIX_EPOCH_ORDINAL + offset)
    assert isinstance(value, datetime)
    instant = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
    return float((instant - _EPOCH) // timedelta(seconds=1) + offset * 86_400)
