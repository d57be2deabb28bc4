"""Read a random sample of a relation, without row keys and temporary tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbanon.data.chunks import chunk_from_columns, encode_texts, microdata_of_records
from dbanon.data.conversion import TIME_UNITS, texts_to_numbers
from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute
from dbanon.sessions.base import Relation
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import read_rows

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
    ValueError, OverflowError : a date is none that numpy knows.
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
        elif attribute.kind in TIME_UNITS:
            texts = [value and value[:_TIMESTAMP_LENGTH] for value in values]
            columns[:, position] = texts_to_numbers(texts, TIME_UNITS[attribute.kind])
        else:
            columns[:, position] = [0.0 if value is None else value for value in values]
    keys = np.arange(len(rows), dtype=np.int64).reshape(-1, 1)
    chunk = chunk_from_columns(keys, columns, valid, attributes)
    return microdata_of_records(tuple(attributes), chunk, categories)
