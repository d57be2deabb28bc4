"""What a job writes: the columns of the release, and rows that go to another database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import InvalidParameter
from dbanon.microdata import Microdata, find_records
from dbanon.partitions import Partition
from dbanon.persons import Persons
from dbanon.recoding import ReleasedColumn
from dbanon.schema import Attribute
from dbanon.stores import statements
from dbanon.stores.base import Source, random_order
from dbanon.stores.names import quote
from dbanon.stores.session import Session


def typed(column: ReleasedColumn, session: Session, copied: bool) -> ReleasedColumn:
    """The column with the SQL type it has in the release."""
    attribute = column.attribute
    if column.upper is not None:
        range_type = session.range_type(attribute, (column.values, column.upper))
        attribute = replace(attribute, sql_type=range_type)
    elif copied or not attribute.sql_type:
        attribute = replace(attribute, sql_type=session.type_of(attribute))
    return replace(column, attribute=attribute)


def written_columns(
    session: Session,
    source: Source,
    named: Sequence[str],
    columns: Sequence[ReleasedColumn],
    copied: bool,
) -> list[tuple[str, str, str]]:
    """Name, SQL type and SQL expression of each column, in the order of the source.

    Parameters
    ----------
    named : the columns of the source that a release tells something of, in their order.
    columns : what quasi-identifiers are released as, typed.
    copied : True where rows were loaded from another database.

    Raises
    ------
    InvalidParameter : two columns would have one name.
    """
    written: list[tuple[str, str, str]] = []
    recoded = {column.source for column in columns}
    # Where each column's first part is staged.
    places = [0, *accumulate(len(column.parts) for column in columns)][:-1]
    kept = [name for name in named if name not in recoded]
    for name in named:
        made = [
            (place, column)
            for place, column in zip(places, columns, strict=True)
            if column.source == name
        ]
        for i, released in made:
            attribute = released.attribute
            value = session.released_expression(i, released)
            written.append((attribute.name, attribute.sql_type, value))
        if made:
            continue
        attribute = source.attribute(name)
        if copied:
            column = statements.kept_column(kept.index(name))
            written.append((name, session.type_of(attribute), f"r.{column}"))
        else:
            written.append((name, attribute.sql_type, f"s.{quote(name)}"))
    names = [name for name, _, _ in written]
    for name in names:
        if names.count(name) > 1:
            raise InvalidParameter(
                f'The release would have two columns named "{name}".',
                hint="Bounds of a range are written as NAME_low and NAME_high: use another"
                " form of intervals, or do not copy the column of that name.",
            )
    return written


def copied_rows(
    session: Session,
    source: Source,
    microdata: Microdata,
    partition: Partition,
    kept: Sequence[Attribute],
    class_numbers: NDArray[np.int32],
    persons: Persons,
    chunk_rows: int,
    progress: Callable[[float], None],
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], Sequence[tuple[Any, ...]]]]:
    """Kept values with the class and the random place of their record, in pieces.

    Parameters
    ----------
    session : of the source.
    kept : the columns that are released as they are.
    class_numbers : int32 (n_classes,), the number of each class in staging.
    """
    released = np.flatnonzero(partition.labels >= 0)
    positions = np.full(microdata.n_records, -1, np.int32)
    positions[released] = random_order(len(released))
    classes = class_numbers[partition.labels]
    if not kept:
        rows = persons.add(released, [()] * len(released))
        yield classes[released], positions[released], rows
        return
    names = [attribute.name for attribute in kept]
    done = 0
    for keys, read in session.read_rows(source, names, chunk_rows):
        records = find_records(microdata.keys, keys)
        chosen = np.flatnonzero(partition.labels[records] >= 0)
        records = records[chosen]
        done += len(read)
        progress(min(done / max(microdata.n_records, 1), 1.0))
        rows = persons.add(records, [read[i] for i in chosen])
        yield classes[records], positions[records], rows
