"""Read a random sample of a relation, without row keys and temporary tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.chunks import chunk_from_columns, encode_texts, microdata_of_records
from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute, Kind
from dbanon.sessions.base import Relation
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import read_rows

_TIME_UNITS = {Kind.DATE: "D", Kind.TIMESTAMP: "us"}
# The length of a timestamp's text without its time zone.
_TIMESTAMP_LENGTH = len("1970-01-01 00:00:00")


def read_sample(
    session: Session, relation: Relation, attributes: Sequence[Attribute], share: float
) -> Microdata:
    """Read a random sample of the rows that a run would read.

    Timestamps are read in whole seconds, and without their time zones.

    Parameters
    ----------
    share : the probability of each row to be read, 0 to 1.

    Raises
    ------
    DbanonError : the rows cannot be read, or a value does not fit its column.
    ValueError : a date is none that numpy knows.
    """
    rows = read_rows(session, relation, attributes, share)
    columns = np.zeros((len(rows), len(attributes)))
    valid = np.ones(columns.shape, bool)
    categories = []
    for position, attribute in enumerate(attributes):
        values = [row[position] for row in rows]
        valid[:, position] = [value is not None for value in values]
        if attribute.kind.is_coded:
            columns[:, position], dictionary = encode_texts(values)
            categories.append(dictionary)
        elif attribute.kind in _TIME_UNITS:
            columns[:, position] = _times_to_numbers(values, _TIME_UNITS[attribute.kind])
        else:
            columns[:, position] = [0.0 if value is None else value for value in values]
    keys = np.arange(len(rows), dtype=np.int64).reshape(-1, 1)
    chunk = chunk_from_columns(keys, columns, valid, attributes)
    return microdata_of_records(tuple(attributes), chunk, categories)


def _times_to_numbers(values: Sequence[str | None], unit: str) -> NDArray[np.float64]:
    """Convert texts of dates or timestamps to numbers since 1970, float64 (n,); 0 for NULL."""
    texts = ["1970-01-01" if value is None else value[:_TIMESTAMP_LENGTH] for value in values]
    times = np.array(texts, f"datetime64[{unit}]")
    return times.astype(np.int64).astype(np.float64)
