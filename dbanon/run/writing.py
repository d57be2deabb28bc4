"""What a job writes: columns of the release, rows that go to another database, and their counts."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata, find_records
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.errors import InvalidParameter, RecountFailed, SourceChanged
from dbanon.job.policy import Policy
from dbanon.recoding import RANGE, ReleasedColumn, find_recoding
from dbanon.release.counts import Recount
from dbanon.run.persons import Persons
from dbanon.stores import statements
from dbanon.stores.base import Source, random_order
from dbanon.stores.names import check_length
from dbanon.stores.sql import Session


def typed(column: ReleasedColumn, session: Session, copied: bool) -> ReleasedColumn:
    """The column with the SQL type it has in the release."""
    attribute = column.attribute
    if column.upper is not None:
        range_type = session.range_type(attribute, (column.values, column.upper))
        attribute = replace(attribute, sql_type=range_type)
    elif copied or not attribute.sql_type:
        attribute = replace(attribute, sql_type=session.type_of(attribute))
    return replace(column, attribute=attribute)


def require_ranges(
    session: Session,
    policy: Policy,
    attributes: Sequence[Attribute],
    hierarchies: Container[str],
) -> None:
    """Check that the target has the range types that are wanted.

    Parameters
    ----------
    hierarchies : attributes that have one beside those of the policy.

    Raises
    ------
    UnsupportedType : it has none.
    """
    if policy.intervals != RANGE or not find_recoding(str(policy.recoding)).takes_categories:
        return
    for attribute in attributes:
        with_tree = attribute.name in policy.hierarchies or attribute.name in hierarchies
        if not attribute.kind.is_coded and not with_tree:
            session.range_type(attribute)


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
    NameTooLong : the target has no room for the name of a column, such as that of a bound.
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
            written.append((name, attribute.sql_type, session.kept_value(attribute)))
    names = [name for name, _, _ in written]
    for name in names:
        check_length(name, session.name_limit, f'column "{name}" of the release')
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


def require_counts(recount: Recount, rows: int, k: int, null_rows: int | None) -> None:
    """Check what was counted on the written relation.

    Parameters
    ----------
    rows : how many there must be.
    null_rows : how many must have a NULL in a quasi-identifier; None where strata keep theirs.

    Raises
    ------
    SourceChanged : there are more or fewer rows than records.
    RecountFailed : a class is too small, or NULLs are where none may be.
    """
    if recount.rows != rows:
        raise SourceChanged(
            f"{rows} records were read, but {recount.rows} rows were written.",
            hint="The source gives other rows each time it is read: anonymize a table, or name"
            " a key that tells every row from every other.",
        )
    if recount.smallest < k:
        raise RecountFailed(
            f"The smallest class counted in the database holds {recount.smallest} rows, fewer"
            f" than k = {k}; nothing was published.",
            hint="This is an error in dbanon: please report it.",
        )
    if null_rows is not None and recount.null_rows != null_rows:
        raise RecountFailed(
            f"{recount.null_rows} rows with a NULL were written, {null_rows} were expected;"
            " nothing was published.",
            hint="This is an error in dbanon: please report it.",
        )
